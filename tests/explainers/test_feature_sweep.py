"""Nodes are explained together as each is alone where features move."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith.explainers import feature_sweep, many, sweep
from graphfaith.model import record
from graphfaith.model import target as target_module
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import as_neighborhood
from reference import TwoLayerGCN

CLASSIFIER = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
NODES, FEATURES = 20, 6
NEIGHBORHOODS = ("U(X,0.2r)", "B(X,0.5)", "U(X,0.5r)xU(A,0.5)", "B(X,0.3)xB(A,0.5)")


def graph(seed=0, dtype=torch.float64):
    """A random graph with a loop and a node without edges, half of whose features are 0."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.unique(torch.randint(0, NODES - 1, (2, 45), generator=generator), dim=1)
    x = torch.randn(NODES, FEATURES, generator=generator, dtype=dtype)
    return x * (torch.rand(x.shape, generator=generator) < 0.5), edges


def seeded(make, dtype=torch.float64):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().to(dtype).eval()


def gcn(dtype=torch.float64):
    return seeded(lambda: TwoLayerGCN(FEATURES), dtype)


def explainer_of(model, near="U(X,0.2r)", **options):
    return Explainer(model, gf.KEC(near, num_samples=30, **options), "model", CLASSIFIER, "attributes", "object")


@pytest.fixture(autouse=True)
def _few_nodes_are_enough(monkeypatch):
    monkeypatch.setattr(many, "WITH_FEATURES", 1)


class Spy:
    """The nodes that are explained alone although they are to be explained together, and the batches of the others."""

    def __init__(self, monkeypatch):
        self.alone, self.batches = [], []
        record, fit = many._Asked.record, feature_sweep.FeatureBlock.fit

        def spied(asked, row, *rest):
            if many.AT_LEAST < 10**9:
                self.alone.append(row)
            return record(asked, row, *rest)

        def batch(own, parts, *rest):
            self.batches.append(len(parts))
            return fit(own, parts, *rest)

        monkeypatch.setattr(many._Asked, "record", spied)
        monkeypatch.setattr(feature_sweep.FeatureBlock, "fit", batch)


@pytest.fixture
def spy(monkeypatch):
    return Spy(monkeypatch)


def records_of(explainer, x, edges, nodes=None):
    """The records of nodes that are explained together, and of nodes that are explained one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "AT_LEAST", 1)
        found = gf.explain_all(explainer, x, edges, nodes, progress=False)
        patch.setattr(many, "AT_LEAST", 10**9)
        return found, gf.explain_all(explainer, x, edges, nodes, progress=False)


def assert_same(found, right, tolerance=1e-9):
    for name in ("index", "edge_start", "edge_id", "node_start", "node"):
        assert np.array_equal(getattr(found, name), getattr(right, name)), name
    for name in ("score", "node_score"):
        mine, other = getattr(found, name), getattr(right, name)
        assert np.abs(mine - other).max() <= tolerance * np.abs(other).max(), name
    np.testing.assert_allclose(found.numbers["in_sample_error"], right.numbers["in_sample_error"], 1e-6, 1e-15)


@pytest.mark.parametrize("near", NEIGHBORHOODS)
def test_together_is_as_alone(near, spy):
    found, right = records_of(explainer_of(gcn(), near), *graph())
    assert_same(found, right)
    assert spy.alone == []
    assert sum(spy.batches) == NODES


@pytest.mark.parametrize("near", ["U(X,0.5r)xU(A,0.5)", "U(X,0.2r)"])
@pytest.mark.parametrize("options", [{"normalization": "auto"}, {"solver": "ridge"}, {"relative": True}])
def test_options_of_the_fit(options, near, spy):
    """Where only features move, several N may fit equally well, and the first of them is taken either way."""
    x, edges = graph(1)
    assert_same(*records_of(explainer_of(gcn(), near, **options), x, edges))
    assert spy.alone == []


@pytest.mark.parametrize("kind", [pyg.GAT, pyg.GraphSAGE, pyg.GIN])
@pytest.mark.parametrize("near", ["U(X,0.2r)", "B(X,0.3)xB(A,0.5)"])
def test_models_without_edge_weights(kind, near, spy):
    model = seeded(lambda: kind(FEATURES, 4, 2, out_channels=3))
    assert_same(*records_of(explainer_of(model, near), *graph(2), range(0, NODES, 3)))
    assert spy.alone == []


def test_explanations_have_all_fields():
    x, edges = graph(3)
    explainer = explainer_of(gcn())
    together, alone = (
        list(gf.explain_nodes(explainer, x, edges, progress=False, together=way)) for way in (True, False)
    )
    for mine, other in zip(together, alone, strict=True):
        assert sorted(mine.keys()) == sorted(other.keys())
        for name in ("node_mask", "edge_mask", "node_score", "edge_score"):
            if name in other:
                assert float((mine[name] - other[name]).abs().max()) <= 1e-9 * float(other[name].abs().max()) + 1e-13
        assert torch.equal(mine.difference_model.graph.nodes, other.difference_model.graph.nodes)


@pytest.mark.parametrize("near", ["U(X,0.2r)", "U(X,0.5r)xU(A,0.5)"])
def test_blocks_batches_chunks_and_threads_change_nothing(near, monkeypatch, spy):
    x, edges = graph(4)
    explainer = explainer_of(gcn(), near)
    right = gf.explain_all(explainer, x, edges, progress=False)
    assert spy.batches == [NODES]
    usual = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert np.array_equal(gf.explain_all(explainer, x, edges, progress=False).score, right.score)
    finally:
        torch.set_num_threads(usual)
    monkeypatch.setattr(feature_sweep, "_DRAWN", 1)  # a sample at a time
    assert np.array_equal(gf.explain_all(explainer, x, edges, progress=False).score, right.score)
    monkeypatch.setattr(feature_sweep, "CHUNK_BYTES", 16 * 30 * 2 * FEATURES)
    monkeypatch.setattr(sweep, "CHUNK_BYTES", 8 * 31 * 40)
    spy.batches.clear()
    assert_same(gf.explain_all(explainer, x, edges, progress=False), right)
    assert len(spy.batches) > 5


def test_little_memory_explains_the_same(spy):
    x, edges = graph(5)
    found, right = records_of(explainer_of(gcn(), max_memory="600 KB"), x, edges)
    assert_same(found, right)
    assert len(spy.batches) > 1


def anchored(model, near, **options):
    algorithm = gf.AnchoredKEC(near, **{"num_samples": 60, **options})
    return Explainer(model, algorithm, "model", CLASSIFIER, "attributes", "object")


@pytest.mark.filterwarnings("ignore::graphfaith._base.errors.FewSamplesWarning")
@pytest.mark.parametrize("reading", ["share", "slope"])
@pytest.mark.parametrize("near", ["U(X,0.2r)", "B(X,0.5)", "U(X,0.5r)xU(A,0.5)"])
def test_anchored_together_is_as_alone(near, reading, spy):
    found, right = records_of(anchored(gcn(), near, reading=reading), *graph(10))
    assert_same(found, right)
    for name in ("relative", "relative_stderr", "p_relative"):
        np.testing.assert_allclose(found.numbers[name], right.numbers[name], 1e-5, 1e-12)
    assert spy.alone == []


@pytest.mark.filterwarnings("ignore::graphfaith._base.errors.FewSamplesWarning")
def test_anchored_without_edge_weights_on_several_threads(spy):
    model = seeded(lambda: pyg.GAT(FEATURES, 4, 2, out_channels=3))
    usual = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert_same(*records_of(anchored(model, "U(X,0.2r)xB(A,0.5)"), *graph(11), range(9)))
    finally:
        torch.set_num_threads(usual)
    assert spy.alone == []


@pytest.mark.filterwarnings("ignore::graphfaith._base.errors.FewSamplesWarning")
def test_anchored_noise_of_a_large_graph_is_that_of_each_part(monkeypatch, spy):
    monkeypatch.setattr(target_module, "LARGE", 1)
    assert_same(*records_of(anchored(gcn(), "U(X,0.2r)"), *graph(12)))
    assert spy.alone == []


def test_single_precision_agrees_as_far_as_it_goes():
    x, edges = graph(6, torch.float32)
    found, right = records_of(explainer_of(gcn(torch.float32)), x, edges)
    assert np.median(np.abs(found.score - right.score)) <= 1e-4 * np.abs(right.score).max()


class Counting(nn.Module):
    """A model whose output depends on how many nodes there are."""

    def __init__(self):
        super().__init__()
        self.conv = pyg.GCNConv(FEATURES, 3)

    def forward(self, x, edge_index, edge_weight=None):
        return self.conv(x, edge_index, edge_weight) * len(x)


def test_a_model_that_sees_the_whole_graph_says_why():
    x, edges = graph(7)
    model = seeded(Counting)
    with pytest.raises(gf.UnsupportedError, match="looks at the whole graph"):
        list(gf.explain_nodes(explainer_of(model), x, edges, [1, 2], progress=False, together=True))


@pytest.mark.parametrize("near", ["U(X,0.2r)", "U(X,0.2r)xU(A,0.5)"])
@pytest.mark.parametrize("make", [gcn, lambda: seeded(lambda: pyg.GAT(FEATURES, 4, 2, out_channels=3))])
def test_one_sample_at_a_time_changes_as_all_at_once(near, make):
    x, edges = graph(8)
    target = Target(make(), x, edges, [1, 2, 5], label=0)
    near = as_neighborhood(near)
    samples = near.sample(target.computation_graph, 4, 0)
    alone = torch.cat([target.changes_by_row(samples[slice(i, i + 1)]) for i in range(4)])
    right = target.changes_by_row(samples)
    assert float((alone - right).abs().max()) <= 1e-12 * float(right.abs().max())


def test_own_rows_follow_a_model_that_changes():
    x, edges = graph(9)
    model = gcn()
    target = Target(model, x, edges, 1, label=0)
    sample = as_neighborhood("U(X,0.2r)").sample(target.computation_graph, 1, 0)
    before = target.changes(sample)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    again = Target(model, x, edges, 1, label=0).changes(sample)
    assert torch.equal(target.changes(sample), again)
    assert not torch.equal(before, again)


@pytest.mark.filterwarnings("ignore::graphfaith._base.errors.FewSamplesWarning")
def test_a_node_that_reaches_too_much_is_passed_on_with_the_model_free(monkeypatch):
    """Threads that finish the batch before need the model; if the sweep held it, both would wait for ever."""
    hub = torch.tensor([[*range(39), *range(1, 40)], [*range(1, 40), *[0] * 39]])
    x, nodes = (
        torch.rand(40, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
        [20, 30, 0, 25],
    )
    model = gcn()
    explainer = anchored(model, "U(X,0.2r)xU(A,0.5)")
    asked = many._Asked.of(explainer, x, hub, nodes, None, {})
    monkeypatch.setattr(sweep, "_HUGE", 8 * 61 * 70)
    found = many._sweep(asked)
    free = []
    for batch in found.batches(nodes, ahead=True):
        free.append(record._ENTRIES[model].runner is None)
        assert len(batch) > 0
    assert len(free) > 1
    assert all(free)


def test_a_node_with_several_classes_has_none_in_a_table(tmp_path):
    """A model whose output has a row of classes for each of several times explains one of each."""

    class Times(TwoLayerGCN):
        def forward(self, x, edge_index, edge_weight=None):
            out = super().forward(x, edge_index, edge_weight)
            return torch.stack((out, -out), dim=1)

    x, edges = graph(13)
    found, right = records_of(explainer_of(seeded(lambda: Times(FEATURES)), "U(A,0.5)"), x, edges, range(8))
    assert found.label.tolist() == right.label.tolist()
    found.save(tmp_path / "records.safetensors")
    assert gf.Records.load(tmp_path / "records.safetensors").label.tolist() == right.label.tolist()
