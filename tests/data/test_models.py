"""The models compute what their papers state, training is seeded and ignores test nodes, cached weights are checked."""

from __future__ import annotations

import logging
import os
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

import graphfaith.data.models
from graphfaith._base.errors import InputError
from graphfaith.data import MOTIF_DATASETS, ba_shapes
from graphfaith.data.models import BAShapesGCN, CitationGCN, load_trained, train

needs_data = pytest.mark.skipif(
    not os.environ.get("GRAPHFAITH_DATA"), reason="needs the Cora and CiteSeer files; set GRAPHFAITH_DATA"
)


@pytest.fixture
def graph():
    """Return a directed graph of 12 nodes, 40 weighted edges and 10 features, half of them zero."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.tensor([(i, j) for i in range(12) for j in range(12) if i != j])
    chosen = torch.randperm(len(pairs), generator=generator)[:40]
    x = torch.rand(12, 10, generator=generator)
    return Data(x=x * (x > 0.5), edge_index=pairs[chosen].t(), edge_weight=torch.rand(40, generator=generator) + 0.1)


def dense_propagation(data: Data) -> torch.Tensor:
    """Return D^-1/2 (A + I) D^-1/2 with messages from source to target."""
    adjacency = torch.eye(data.num_nodes)
    adjacency[data.edge_index[1], data.edge_index[0]] += data.edge_weight
    root = adjacency.sum(dim=1).rsqrt()
    return root[:, None] * adjacency * root


def dense_conv(conv, propagation, x):
    return propagation @ x @ conv.lin.weight.t() + conv.bias


class TestForward:
    def test_ba_shapes_gcn(self, graph):
        model, propagation = BAShapesGCN(), dense_propagation(graph)
        h, outputs = graph.x, []
        for conv, last in ((model.conv1, False), (model.conv2, False), (model.conv3, True)):
            h = dense_conv(conv, propagation, h)
            h = h / h.norm(dim=1, keepdim=True)
            h = h if last else h.clamp(min=0)
            outputs.append(h)
        expected = torch.cat(outputs, dim=1) @ model.readout.weight.t() + model.readout.bias
        torch.testing.assert_close(model(graph.x, graph.edge_index, graph.edge_weight), expected)
        assert [tuple(conv.lin.weight.shape) for conv in (model.conv1, model.conv2, model.conv3)] == [
            (20, 10),
            (20, 20),
            (20, 20),
        ]

    def test_citation_gcn(self, graph):
        model, propagation = CitationGCN(10, 3).eval(), dense_propagation(graph)
        hidden = dense_conv(model.conv1, propagation, graph.x).clamp(min=0)
        assert hidden.shape == (12, 16)
        expected = dense_conv(model.conv2, propagation, hidden)
        torch.testing.assert_close(model(graph.x, graph.edge_index, edge_weight=graph.edge_weight), expected)

    @pytest.mark.parametrize("model", [BAShapesGCN(), CitationGCN(10, 3).eval()])
    def test_no_weights_means_ones(self, graph, model):
        ones = torch.ones(graph.num_edges)
        expected = model(graph.x, graph.edge_index, ones)
        torch.testing.assert_close(model(graph.x, graph.edge_index), expected)
        assert not torch.allclose(model(graph.x, graph.edge_index, 0.5 * ones), expected)

    def test_ba_shapes_gcn_tells_nodes_apart_before_training(self):
        # With zero biases the normalised first layer would map constant features to the same vector at all nodes.
        data = ba_shapes()
        torch.manual_seed(0)
        logits = BAShapesGCN()(data.x, data.edge_index)
        assert logits.std(dim=0).min() > 1e-3

    @pytest.mark.parametrize("dropout", [0.0, 1.0])
    def test_sparse_features_are_the_same_features(self, graph, dropout):
        model = CitationGCN(10, 3, dropout=dropout).train()
        dense, sparse = (model(x, graph.edge_index) for x in (graph.x, graph.x.to_sparse()))
        torch.testing.assert_close(sparse, dense)
        if dropout == 1.0:
            torch.testing.assert_close(dense, dense_conv(model.conv2, torch.eye(12), torch.zeros(12, 16)))
        model.eval()
        torch.testing.assert_close(model(graph.x.to_sparse(), graph.edge_index), model(graph.x, graph.edge_index))

    def test_dropout_of_sparse_features_is_half_and_scaled(self):
        # For a node with only its self-loop, one convolution is the sum of its features.
        model = CitationGCN(10_000, 1, hidden_channels=1).train()
        seen = []
        model.conv1.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
        model(torch.ones(1, 10_000).to_sparse(), torch.empty(2, 0, dtype=torch.long))
        values = seen[0].to_dense()
        assert values.unique().tolist() == [0, 2]
        assert 4800 < (values == 2).sum() < 5200


def small_training(**options):
    """Train a model with dropout for a few epochs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = CitationGCN(10, 4)
    data = options.pop("data", None) or ba_shapes()
    accuracy = train(model, data, **{"epochs": 5, "lr": 0.1, "weight_decay": 0.0, "seed": 0} | options)
    return model, data, accuracy


def same_weights(first, second) -> bool:
    return all(torch.equal(value, second.state_dict()[name]) for name, value in first.state_dict().items())


class TestTrain:
    def test_seed_decides_every_bit(self):
        first, again, other = (small_training(seed=seed)[0] for seed in (0, 0, 1))
        assert same_weights(first, again)
        assert not same_weights(first, other)

    def test_the_number_of_threads_decides_nothing(self):
        """Two threads round otherwise than one, so one trains; afterwards there are as many as before."""
        seen, before = [], torch.get_num_threads()
        try:
            torch.set_num_threads(2)
            small_training(each=lambda epoch, model: seen.append(torch.get_num_threads()))
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(before)
        assert set(seen) == {1}

    def test_global_random_state_is_neither_read_nor_changed(self):
        torch.manual_seed(1)
        before = torch.get_rng_state()
        first = small_training()[0]
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(2)
        assert same_weights(first, small_training()[0])

    def test_keeps_the_epoch_with_the_lowest_validation_loss(self):
        # With such a large step the loss goes up and down, so the last epoch is often not the best one.
        losses = []
        for epochs in range(1, 16):
            model, data, accuracy = small_training(epochs=epochs, lr=0.5)
            with torch.no_grad():
                logits = model(data.x, data.edge_index)[data.val_mask]
            losses.append(F.cross_entropy(logits, data.y[data.val_mask]).item())
            assert accuracy == (logits.argmax(dim=1) == data.y[data.val_mask]).double().mean()
        assert losses == sorted(losses, reverse=True)
        assert 2 < len(set(losses)) < len(losses)

    def test_test_nodes_have_no_part_in_it(self):
        data = ba_shapes()
        data.y[data.test_mask] = 3 - data.y[data.test_mask]
        assert same_weights(small_training()[0], small_training(data=data)[0])

    def test_ends_in_evaluation_mode(self):
        assert not small_training()[0].training

    def test_progress_goes_to_stderr_and_only_if_asked(self, capsys, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich then treats stderr as a terminal.
        small_training(progress=False)
        assert capsys.readouterr() == ("", "")
        small_training(progress=True)
        assert capsys.readouterr() == ("", "")  # It takes less than a second.
        monkeypatch.setattr("graphfaith._base.progress.SOON", 0.0)
        monkeypatch.setattr("graphfaith._base.progress.is_watched", lambda: True)
        small_training(progress=True)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "training" in captured.err
        assert "epochs" in captured.err
        assert "gone" in captured.err

    @pytest.mark.parametrize(("option", "value"), [("epochs", 0), ("seed", -1), ("seed", 2**63)])
    def test_bad_options_are_named(self, option, value):
        with pytest.raises(InputError, match=f"{option} is {value}"):
            small_training(**{option: value})

    def test_missing_masks_are_named(self):
        data = ba_shapes()
        del data.val_mask
        with pytest.raises(InputError, match="no val_mask"):
            small_training(data=data)


class TestAccuracy:
    """The accuracy is at least the one that the paper reports, for the data sets where it reports one.

    The cache is that of this run of the tests, so that the models are trained by the code that is tested.
    """

    def test_ba_shapes(self):
        assert load_trained("ba-shapes").test_accuracy >= 0.94

    # The paper reports no accuracy for these. Seeds 0 to 2 reach 0.88 to 0.90, and 0.88 to 0.93.
    @pytest.mark.parametrize("name", ["tree-cycles", pytest.param("tree-grid", marks=pytest.mark.nightly)])
    def test_trees(self, name):
        result = load_trained(name)
        assert result.test_accuracy >= 0.85
        # About 60 % of the nodes are in motifs, so this accuracy needs both classes to be recognised.
        logits = result.model(result.data.x, result.data.edge_index)
        right = logits.argmax(dim=1) == result.data.y
        assert logits.shape == (result.data.num_nodes, 2)
        assert all(right[result.data.test_mask & (result.data.y == label)].double().mean() > 0.8 for label in (0, 1))

    @needs_data
    @pytest.mark.parametrize(("name", "paper"), [("cora", 0.804), ("citeseer", 0.641)])
    def test_citations(self, name, paper):
        result = load_trained(name)
        assert result.test_accuracy >= paper
        # Training uses sparse features, but the returned features must be dense.
        assert not result.data.x.is_sparse
        assert not result.model.training
        logits = result.model(result.data.x, result.data.edge_index)[result.data.test_mask]
        right = logits.argmax(dim=1) == result.data.y[result.data.test_mask]
        assert result.test_accuracy == right.double().mean()


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Set up an empty cache and a training of two epochs; return the list of the seeds it is called with."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seeds: list[int] = []

    def short(model, data, **options):
        seeds.append(options["seed"])
        return train(model, data, **options | {"epochs": 2})

    monkeypatch.setattr(graphfaith.data.models, "train", short)
    return seeds


def cached_files(tmp_path):
    return sorted(path for path in tmp_path.rglob("*") if path.is_file())


class TestCache:
    def test_round_trip(self, runs, tmp_path):
        first, second = load_trained("ba-shapes", seed=4), load_trained("ba-shapes", seed=4)
        assert runs == [4]
        assert same_weights(first.model, second.model)
        assert first.test_accuracy == second.test_accuracy
        assert (second.name, second.seed, second.model.training) == ("ba-shapes", 4, False)
        (path,) = cached_files(tmp_path)
        assert path.parent == tmp_path / "graphfaith" / "models"
        assert path.name.startswith("ba-shapes-seed4-")
        assert path.suffix == ".safetensors"

    @pytest.mark.parametrize("other", [{"seed": 3}, {"data_seed": 3}])
    def test_other_seeds_are_other_files(self, runs, tmp_path, other):
        load_trained("ba-shapes")
        load_trained("ba-shapes", **other)
        assert len(runs) == 2
        assert len(cached_files(tmp_path)) == 2

    def test_other_hyper_parameters_are_other_files(self, runs, tmp_path, monkeypatch):
        load_trained("ba-shapes")
        monkeypatch.setattr(graphfaith.data.models, "CACHE_FORMAT", -1)
        load_trained("ba-shapes")
        assert len(cached_files(tmp_path)) == 2

    @pytest.mark.parametrize(("name", "make"), MOTIF_DATASETS.items())
    def test_data_seed_is_the_graph(self, runs, name, make):
        result = load_trained(name, seed=1, data_seed=2)
        assert torch.equal(result.data.edge_index, make(2).edge_index)
        assert torch.equal(load_trained(name, seed=1).data.edge_index, make(0).edge_index)

    def test_data_sets_do_not_share_a_file(self, runs, tmp_path):
        # Their models have the same shapes, so loading the wrong file would raise no error.
        cycles, grid = load_trained("tree-cycles"), load_trained("tree-grid")
        assert not same_weights(cycles.model, grid.model)
        assert [path.name.split("-seed0-")[0] for path in cached_files(tmp_path)] == ["tree-cycles", "tree-grid"]

    @needs_data
    def test_normalize_is_passed_on(self, runs, tmp_path):
        assert load_trained("cora").data.x.sum(dim=1).max() < 1.001
        assert load_trained("cora", normalize=False).data.x.sum(dim=1).max() > 2
        assert len(cached_files(tmp_path)) == 2

    @needs_data
    def test_sparse_training_is_deterministic(self, runs):
        first, again = (load_trained("cora", cache=False) for _ in range(2))
        assert same_weights(first.model, again.model)

    def test_off_neither_reads_nor_writes(self, runs, tmp_path):
        load_trained("ba-shapes", cache=False)
        assert cached_files(tmp_path) == []
        load_trained("ba-shapes")
        load_trained("ba-shapes", cache=False)
        assert len(runs) == 3

    @pytest.mark.parametrize(
        "damage",
        [
            lambda content: b"",
            lambda content: b"not safetensors" * 100,
            lambda content: content[: len(content) // 2],
            lambda content: content[:-1],
            lambda content: content[:-1] + bytes([content[-1] ^ 64]),
            lambda content: content.replace(b'"test_accuracy":"0', b'"test_accuracy":"9'),
            lambda content: content.replace(b"readout.bias", b"readout.abcd"),
            lambda content: pickle.dumps({"conv1.bias": torch.zeros(20)}),
        ],
        ids=["empty", "garbage", "half", "short", "bit", "accuracy", "name", "pickle"],
    )
    def test_damaged_file_is_made_again(self, runs, tmp_path, caplog, damage):
        first = load_trained("ba-shapes")
        (path,) = cached_files(tmp_path)
        good = path.read_bytes()
        assert damage(good) != good
        path.write_bytes(damage(good))
        with caplog.at_level(logging.WARNING):
            second = load_trained("ba-shapes")
        assert len(runs) == 2
        assert "training again" in caplog.text
        assert same_weights(first.model, second.model)
        assert cached_files(tmp_path) == [path]
        assert same_weights(first.model, load_trained("ba-shapes").model)
        assert len(runs) == 2, "the weights were not stored after the second training"

    def test_unwritable_cache_does_not_stop_the_work(self, runs, tmp_path, monkeypatch, caplog):
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with caplog.at_level(logging.WARNING):
            result = load_trained("ba-shapes")
        assert 0 <= result.test_accuracy <= 1
        assert "the next run will train the model again" in caplog.text

    def test_global_random_state_is_neither_read_nor_changed(self, runs):
        torch.manual_seed(1)
        before = torch.get_rng_state()
        first = load_trained("ba-shapes", cache=False)
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(2)
        assert same_weights(first.model, load_trained("ba-shapes", cache=False).model)

    def test_bad_names_and_seeds_are_refused_before_any_work(self, runs):
        with pytest.raises(InputError, match="'ba_shapes'"):
            load_trained("ba_shapes")
        with pytest.raises(InputError, match="seed is -1"):
            load_trained("ba-shapes", seed=-1)
        assert runs == []
