"""Test that the showcase models compute their equations, learn their tasks, and depend on their seed alone."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Batch, Data

from graphfaith._base.errors import InputError
from graphfaith.data.advection import NOISE, OWN, UPWIND, advection, expected
from graphfaith.data.ba_2motifs import ba_2motifs
from graphfaith_studies.showcase import (
    Forecaster,
    LinkPredictor,
    MotifClassifier,
    split_links,
    train_forecaster,
    train_link_predictor,
    train_motif_classifier,
)
from graphfaith_studies.showcase.links import _draw_unlinked_pairs
from graphfaith_studies.showcase.motifs import POOLINGS
from graphfaith_studies.showcase.training import descend, seeded

needs_data = pytest.mark.skipif(
    not os.environ.get("GRAPHFAITH_DATA"), reason="needs the Cora and CiteSeer files; set GRAPHFAITH_DATA"
)


def random_state():
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002


def weights_of(model) -> torch.Tensor:
    return torch.cat([value.view(-1) for value in model.state_dict().values()])


def dense(edge_index, edge_weight, num_nodes) -> torch.Tensor:
    """Return A as a dense matrix; row i holds the weights of the messages to node i."""
    adjacency = torch.zeros(num_nodes, num_nodes)
    adjacency[edge_index[1], edge_index[0]] = edge_weight
    return adjacency


def dense_conv(conv, adjacency, x):
    return conv.lin_rel(adjacency @ x) + conv.lin_root(x)


@pytest.fixture(scope="module")
def communities() -> Data:
    """Return nine groups of 10 nodes with many edges inside, few edges between, and features that show the group."""
    generator = torch.Generator().manual_seed(0)
    group = torch.arange(90) // 10
    chance = torch.where(group[:, None] == group, 0.7, 0.005)
    upper = (torch.rand(90, 90, generator=generator) < chance).triu(1)
    x = F.one_hot(group).float() + 0.5 * torch.rand(90, 9, generator=generator)
    return Data(x=x, edge_index=(upper | upper.t()).nonzero().t().contiguous())


@pytest.fixture(scope="module")
def classifier():
    return train_motif_classifier(ba_2motifs(400), epochs=50)


@pytest.fixture(scope="module")
def forecaster():
    return train_forecaster(advection(num_steps=500), epochs=30)


@pytest.fixture(scope="module")
def predictor(communities):
    return train_link_predictor(communities, epochs=40)


class TestMotifClassifier:
    @pytest.mark.parametrize("pooling", POOLINGS)
    def test_forward_is_convolutions_then_pooling(self, pooling):
        with seeded(0):
            model, graph = MotifClassifier(pooling=pooling), ba_2motifs(1)[0]
            weight = torch.rand(graph.num_edges)
        h, adjacency = graph.x, dense(graph.edge_index, weight, 25)
        for conv in (model.conv1, model.conv2, model.conv3):
            h = F.leaky_relu(dense_conv(conv, adjacency, h))
        if pooling == "attention":
            pooled = (h * torch.softmax(model.gate(h), dim=0)).sum(dim=0)
        else:
            pooled = h.mean(dim=0) if pooling == "mean" else h.max(dim=0).values
        torch.testing.assert_close(model(graph.x, graph.edge_index, weight), model.readout(pooled)[None])

    @pytest.mark.parametrize("pooling", POOLINGS)
    def test_a_batch_gives_the_same_logits_as_single_graphs(self, pooling):
        with seeded(0):
            model = MotifClassifier(pooling=pooling)
        graphs = ba_2motifs(6)
        batch = Batch.from_data_list(graphs)
        together = model(batch.x, batch.edge_index, torch.ones(batch.num_edges), batch.batch)
        assert together.shape == (6, 2)
        torch.testing.assert_close(together, torch.cat([model(graph.x, graph.edge_index) for graph in graphs]))

    def test_unknown_pooling_is_refused(self):
        with pytest.raises(InputError, match=r"'sum'.*mean, max, attention"):
            MotifClassifier(pooling="sum")

    def test_learns(self, classifier):
        assert classifier.test_accuracy > 0.95
        test = classifier.graphs.test
        with torch.no_grad():
            right = [int(classifier.model(g.x, g.edge_index).argmax()) == int(g.y) for g in test]
        assert classifier.test_accuracy == pytest.approx(sum(right) / len(test))

    @pytest.mark.parametrize("pooling", ["mean", "max"])
    def test_other_poolings_learn(self, pooling):
        assert train_motif_classifier(ba_2motifs(400), pooling=pooling, epochs=50).test_accuracy > 0.95

    def test_looks_at_the_motif(self, classifier):
        ranks = []
        for graph in classifier.graphs.test:
            weight = torch.ones(graph.num_edges, requires_grad=True)
            logits = classifier.model(graph.x, graph.edge_index, weight)[0]
            (slope,) = torch.autograd.grad(logits[1] - logits[0], weight)
            ranks.append(roc_auc_score(graph.motif_edge, slope.abs()))
        assert sum(ranks) / len(ranks) > 0.85

    def test_too_few_graphs_are_refused(self):
        with pytest.raises(InputError, match="4 graphs"):
            train_motif_classifier(ba_2motifs(4))


class TestAdvection:
    def test_graph_points_downwind_to_near_nodes(self):
        process = advection(num_steps=1)
        source, sink = process.pos[process.edge_index]
        assert bool((source[:, 0] < sink[:, 0]).all())
        assert bool(((source - sink).norm(dim=1) < 0.2).all())
        near = (torch.cdist(process.pos, process.pos) < 0.2).sum() - 60
        assert 2 * process.edge_index.size(1) == near > 200

    def test_the_rest_is_white_noise(self):
        process = advection(num_steps=1000)
        x, y = process.windows(range(process.num_steps))
        assert x.dtype == y.dtype == torch.float
        mean = torch.stack([expected(window, process.edge_index) for window in x]).squeeze(-1)
        rest = y.squeeze(-1) - mean
        assert rest.std().item() == pytest.approx(NOISE, rel=0.02)
        assert abs(rest.mean().item()) < 0.002
        assert abs((rest[1:] * rest[:-1]).mean().item()) < 0.02 * NOISE**2
        # The rest does not depend on the expected value: the slope is 0, with a standard error below 0.001.
        assert abs((rest * mean).sum() / mean.square().sum()) < 0.005
        # The signal is clearly larger than the noise.
        assert process.values.std() > 3 * NOISE

    def test_step_is_the_row_after_its_window(self):
        process = advection(num_nodes=7, num_steps=12)
        assert process.values.shape == (17, 7)
        data = process.step(4)
        assert torch.equal(data.x, process.values[4:9].t())
        assert torch.equal(data.y, process.values[9][:, None])
        x, y = process.windows(range(3, 6))
        assert torch.equal(x[1], data.x)
        assert torch.equal(y[1], data.y)
        assert x.shape == (3, 7, 5)
        for step in (-1, 12):
            with pytest.raises(InputError, match=f"step is {step}"):
                process.step(step)

    def test_splits_are_in_order_and_apart(self):
        train, val, test = advection(num_steps=100).splits()
        assert [*train, *val, *test] == list(range(100))
        assert [len(train), len(val), len(test)] == [70, 15, 15]

    def test_causes_are_the_edges_and_signs_of_the_law(self):
        process = advection(num_steps=1)
        data = process.step(0)
        x, weight = data.x.requires_grad_(), torch.ones(process.edge_index.size(1), requires_grad=True)
        node = int(process.edge_index[1].mode().values)
        dx, da = torch.autograd.grad(expected(x, process.edge_index, weight)[node, 0], (x, weight))
        causes = process.causes(node)
        assert torch.equal(da != 0, causes)
        source = process.edge_index[0]
        assert torch.equal(da[causes] > 0, (x[source] @ torch.tensor(UPWIND))[causes] > 0)
        torch.testing.assert_close(dx[node], torch.tensor(OWN))
        upwind = dx[source[causes]]
        assert bool((upwind.sign() == torch.tensor(UPWIND).sign()).all())
        others = torch.ones(60, dtype=torch.bool)
        others[source[causes]] = others[node] = False
        assert bool((dx[others] == 0).all())

    def test_seed_determines_the_result_and_global_state_is_unchanged(self):
        torch.manual_seed(0)
        before = random_state()
        first = advection(num_steps=20, seed=3)
        assert random_state() == before
        torch.manual_seed(1)
        again, other = advection(num_steps=20, seed=3), advection(num_steps=20, seed=4)
        assert torch.equal(first.values, again.values)
        assert torch.equal(first.edge_index, again.edge_index)
        assert not torch.equal(first.pos, other.pos)

    @pytest.mark.parametrize("wrong", [{"num_nodes": 0}, {"num_steps": 0}, {"seed": -1}])
    def test_wrong_arguments_are_refused(self, wrong):
        with pytest.raises(InputError, match=next(iter(wrong))):
            advection(**wrong)


class TestForecaster:
    def test_forward_is_two_convolutions_beside_the_window(self):
        data = advection(num_steps=1).step(0)
        with seeded(0):
            model, weight = Forecaster(), torch.rand(data.num_edges)
        adjacency = dense(data.edge_index, weight, 60)
        h1 = dense_conv(model.conv1, adjacency, data.x).tanh()
        h2 = dense_conv(model.conv2, adjacency, h1).tanh()
        forecast = model(data.x, data.edge_index, weight)
        assert forecast.shape == (60, 1)
        torch.testing.assert_close(forecast, model.readout(torch.cat([data.x, h1, h2], dim=1)))

    def test_many_steps_at_once_are_the_steps_one_by_one(self, forecaster):
        process = forecaster.process
        x, _ = process.windows(range(3))
        with torch.no_grad():
            together = forecaster.model(x, process.edge_index)
            alone = [forecaster.model(process.step(s).x, process.edge_index) for s in range(3)]
        torch.testing.assert_close(together, torch.stack(alone))

    def test_beats_persistence_and_nears_the_noise(self, forecaster):
        assert forecaster.test_error < forecaster.persistence_error / 5
        assert forecaster.test_error < 1.2 * NOISE**2
        process = forecaster.process
        steps = [process.step(step) for step in process.splits()[2]]
        with torch.no_grad():
            errors = [F.mse_loss(forecaster.model(step.x, step.edge_index), step.y).item() for step in steps]
        assert forecaster.test_error == pytest.approx(np.mean(errors), rel=1e-4)
        still = [F.mse_loss(step.x[:, -1:], step.y).item() for step in steps]
        assert forecaster.persistence_error == pytest.approx(np.mean(still), rel=1e-4)

    def test_uses_the_neighbours(self, forecaster):
        process = forecaster.process
        x, y = process.windows(process.splits()[2])
        with torch.no_grad():
            alone = F.mse_loss(forecaster.model(x, process.edge_index[:, :0]), y)
        assert alone > 1.5 * forecaster.test_error

    def test_has_learnt_the_true_causes(self, forecaster):
        process, true, off, beyond = forecaster.process, 0.0, 0.0, 0.0
        for step in process.splits()[2][::10]:
            data = process.step(step)
            for node in range(0, 60, 7):
                weight = torch.ones(data.num_edges, requires_grad=True)
                forecast = forecaster.model(data.x, data.edge_index, weight)[node, 0]
                law = expected(data.x, data.edge_index, weight)[node, 0]
                learnt, right = (torch.autograd.grad(value, weight)[0] for value in (forecast, law))
                causes = process.causes(node)
                true += right.square().sum().item()
                off += (learnt - right)[causes].square().sum().item()
                beyond += learnt[~causes].square().sum().item()
        assert off < 0.1 * true
        assert beyond < 0.03 * true

    def test_too_few_steps_are_refused(self):
        with pytest.raises(InputError, match="2 steps"):
            train_forecaster(advection(num_steps=2))


class TestLinkPredictor:
    def test_forward_is_the_dot_product_of_codes(self, communities):
        with seeded(0):
            model, weight = LinkPredictor(9).eval(), torch.rand(communities.num_edges)
        pairs = torch.tensor([[0, 5, 80], [1, 50, 3]])
        code = model.encoder(communities.x, communities.edge_index, weight)
        logits = model(communities.x, communities.edge_index, weight, pairs)
        torch.testing.assert_close(logits, torch.stack([code[i] @ code[j] for i, j in pairs.t()]))
        every = model(communities.x, communities.edge_index)
        named = model(communities.x, communities.edge_index, edge_label_index=communities.edge_index)
        assert torch.equal(every, named)
        assert every.shape == (communities.num_edges,)

    def test_splits_hide_the_links_to_predict(self, communities):
        def links(pairs):
            return {(min(pair), max(pair)) for pair in pairs.t().tolist()}

        parts = split_links(communities)
        everything = links(communities.edge_index)
        asked = [links(part.edge_label_index[:, part.edge_label == 1]) for part in parts]
        assert [len(part) for part in asked[1:]] == [int(0.05 * len(everything)), int(0.1 * len(everything))]
        assert set.union(*asked) == everything
        assert sum(map(len, asked)) == len(everything)
        assert links(parts.train.edge_index) == links(parts.val.edge_index) == asked[0]
        assert links(parts.test.edge_index) == asked[0] | asked[1]
        for part in parts[1:]:
            assert part.edge_label.mean() == 0.5
            assert not links(part.edge_label_index[:, part.edge_label == 0]) & everything
        assert bool((parts.train.edge_label == 1).all())

    def test_learns(self, predictor):
        assert predictor.test_auc > 0.9
        test = predictor.links.test
        with torch.no_grad():
            logits = predictor.model(test.x, test.edge_index, edge_label_index=test.edge_label_index)
        linked, unlinked = logits[test.edge_label == 1], logits[test.edge_label == 0]
        assert predictor.test_auc == pytest.approx((linked[:, None] > unlinked).double().mean().item(), abs=1e-6)
        # An untrained model also ranks the pairs well, because linked nodes have similar features. But it classifies
        # nearly all pairs as linked.
        assert ((logits > 0) == test.edge_label.bool()).double().mean() > 0.7

    def test_seed_determines_the_splits(self, communities):
        splits = []
        for global_seed, seed in ((0, 3), (1, 3), (1, 4)):
            random.seed(global_seed)
            torch.manual_seed(global_seed)
            before = random_state()
            splits.append(split_links(communities, seed))
            assert random_state() == before
        for part, same, different in zip(*splits, strict=True):
            assert torch.equal(part.edge_label_index, same.edge_label_index)
            assert not torch.equal(part.edge_label_index, different.edge_label_index)

    def test_training_pairs_are_unlinked_and_new_each_time(self, communities):
        train = split_links(communities).train
        with seeded(0):
            first, second = _draw_unlinked_pairs(train), _draw_unlinked_pairs(train)
        linked = set(map(tuple, train.edge_index.t().tolist()))
        for pairs in (first, second):
            assert not linked & set(map(tuple, pairs.t().tolist()))
            assert bool((pairs[0] != pairs[1]).all())
            assert 0.8 * train.edge_label_index.size(1) < pairs.size(1) <= train.edge_label_index.size(1)
        assert not torch.equal(first, second)

    @needs_data
    @pytest.mark.parametrize(("epochs", "auc"), [(60, 0.85), pytest.param(150, 0.9, marks=pytest.mark.nightly)])
    def test_learns_cora(self, epochs, auc):
        trained = train_link_predictor(epochs=epochs)
        assert trained.test_auc > auc
        assert trained.links.train.edge_index.size(1) == pytest.approx(0.85 * 10556, abs=4)

    def test_directed_and_small_graphs_are_refused(self, communities):
        with pytest.raises(InputError, match="directed"):
            split_links(Data(x=communities.x, edge_index=torch.tensor([[0], [1]])))
        with pytest.raises(InputError, match="1 links"):
            train_link_predictor(Data(x=communities.x, edge_index=torch.tensor([[0, 1], [1, 0]])))


class TestTraining:
    @pytest.mark.parametrize("task", ["classifier", "forecaster", "predictor"])
    def test_models_end_in_evaluation_mode_in_single_precision(self, task, request):
        model = request.getfixturevalue(task).model
        assert not any(module.training for module in model.modules())
        assert {value.dtype for value in model.parameters()} == {torch.float32}

    @pytest.mark.parametrize(
        "run",
        [
            lambda _, seed: train_motif_classifier(ba_2motifs(40), epochs=2, seed=seed),
            lambda _, seed: train_forecaster(advection(num_steps=60), epochs=2, seed=seed),
            lambda graph, seed: train_link_predictor(graph, epochs=2, seed=seed),
        ],
        ids=["motifs", "forecast", "links"],
    )
    def test_seed_determines_the_result_and_global_state_is_unchanged(self, run, communities):
        trained = []
        for global_seed in (0, 1):
            random.seed(global_seed)
            np.random.seed(global_seed)  # noqa: NPY002
            torch.manual_seed(global_seed)
            before = random_state()
            trained.append(run(communities, 5))
            assert random_state() == before
        other = run(communities, 6)
        assert torch.equal(weights_of(trained[0].model), weights_of(trained[1].model))
        assert not torch.equal(weights_of(trained[0].model), weights_of(other.model))
        assert (trained[0].seed, other.seed) == (5, 6)

    def test_global_state_is_unchanged_when_training_fails(self, communities):
        before = random_state()
        with pytest.raises(InputError, match="epochs is 0"):
            train_link_predictor(communities, epochs=0)
        assert random_state() == before
        with pytest.raises(InputError, match="seed is -1"):
            train_forecaster(advection(num_steps=60), seed=-1)

    def test_the_model_gets_the_best_weights_and_not_the_last(self):
        model = torch.nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            model.weight.fill_(0.0)
        seen = []

        def validate():
            assert not model.training
            assert not torch.is_grad_enabled()
            seen.append(model.weight.item())
            return (model.weight - 0.035).abs().sum()

        # The loss has no minimum, so that the descent passes the best value and continues.
        descend(model, lambda: [-model.weight.sum()], validate, epochs=10, lr=0.01)
        assert len(seen) == 10
        assert seen[-1] > 0.09
        assert model.weight.item() == min(seen, key=lambda weight: abs(weight - 0.035))
        assert not model.training
