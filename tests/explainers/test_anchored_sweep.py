"""AnchoredKEC explains many nodes together as it explains each of them alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.explain import Explainer
from torch_geometric.utils import to_undirected

import graphfaith as gf
from conftest import needs_data
from graphfaith.data.models import load_trained
from graphfaith.explainers import many, sweep
from graphfaith.model import target
from reference import TwoLayerGCN, cases

CLASSIFIER = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
NODES, FEATURES = 24, 12
NEIGHBORHOODS = ("U(A,0.5)", "B(A,0.5)", "B(A,0.3)", "B(A,0.5,paired)")


def explainer_of(model, near="U(A,0.5)", masks=("attributes", "object"), **options):
    algorithm = gf.AnchoredKEC(near, **{"num_samples": 60, **options})
    return Explainer(model, algorithm, "model", CLASSIFIER, *masks)


def graph(seed=0, nodes=NODES, edges=70, features=FEATURES, dtype=torch.float64):
    """A random undirected graph with a few loops, and two nodes that have no edge at all."""
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, nodes - 2, (2, edges), generator=generator)
    edge_index = to_undirected(torch.unique(edge_index[:, edge_index[0] != edge_index[1]], dim=1))
    edge_index = torch.cat([edge_index, torch.tensor([[1, 4, 7], [1, 4, 7]])], dim=1)
    return torch.randn(nodes, features, generator=generator, dtype=dtype), edge_index


def seeded(make, seed=0, dtype=torch.float64):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().to(dtype).eval()


def gcn(features=FEATURES, dtype=torch.float64):
    return seeded(lambda: TwoLayerGCN(features), dtype=dtype)


@pytest.fixture(autouse=True)
def no_warning(recwarn):
    """Fits on few samples warn, which is not what is tested here."""


class Count:
    """How many nodes are explained alone although they are to be explained together."""

    def __init__(self, monkeypatch):
        self.rows, usual = [], many._Asked.record

        def record(asked, row, *rest):
            if many.AT_LEAST < 10**9:
                self.rows.append(row)
            return usual(asked, row, *rest)

        monkeypatch.setattr(many._Asked, "record", record)


@pytest.fixture
def alone(monkeypatch):
    return Count(monkeypatch)


def records_of(explainer, x, edges, nodes=None, **options):
    """The records of nodes that are explained together, and of nodes that are explained one by one."""
    found = gf.explain_all(explainer, x, edges, nodes, progress=False, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "AT_LEAST", 10**9)
        return found, gf.explain_all(explainer, x, edges, nodes, progress=False, **options)


def assert_same_records(found, right, tolerance=1e-9):
    for name in ("index", "edge_start", "source", "sink", "edge_id", "node_start", "node"):
        assert np.array_equal(getattr(found, name), getattr(right, name)), name
    for name in ("score", "node_score"):
        mine, other = getattr(found, name), getattr(right, name)
        assert np.abs(mine - other).max() <= tolerance * np.abs(other).max(), name
    assert set(found.numbers) == set(right.numbers)
    for name, other in right.numbers.items():
        assert np.array_equal(np.isnan(found.numbers[name]), np.isnan(other)), name
        known = ~np.isnan(other)
        np.testing.assert_allclose(found.numbers[name][known], other[known], rtol=1e4 * tolerance, atol=1e-18)


def assert_same_explanations(found, right, tolerance=1e-9):
    assert sorted(found.keys()) == sorted(right.keys())
    for name in right.keys():  # noqa: SIM118  # it is no dictionary
        mine, other = found[name], right[name]
        if name in ("difference_model", "scores_digest"):
            continue
        if isinstance(other, torch.Tensor):
            assert (mine.shape, mine.dtype) == (other.shape, other.dtype), name
            # Errors of scores may be far smaller than the scores.
            scale = float(other.abs().max()) if other.numel() else 0.0
            assert not other.numel() or float((mine - other).abs().max()) <= tolerance * scale + 1e-13, name
        elif name == "estimate":
            for one, two in ((mine, other), (mine.scores, other.scores), (mine.pairs, other.pairs)):
                assert (one is None) == (two is None)
                if two is not None:
                    assert one.relative == pytest.approx(two.relative, rel=1e-5, abs=1e-9)
                    assert one.stderr == pytest.approx(two.stderr, rel=1e-5, abs=1e-12)
            assert mine.num_pairs == other.num_pairs
            assert (mine.floor is None) == (other.floor is None)
            assert mine.floor is None or mine.floor == pytest.approx(other.floor, rel=1e-5, abs=1e-9)
        elif isinstance(other, float):
            assert mine == pytest.approx(other, rel=1e-5, abs=1e-12), name
        else:
            assert mine == other, name


@pytest.mark.parametrize("reading", ["share", "slope"])
@pytest.mark.parametrize("near", NEIGHBORHOODS)
def test_together_is_as_alone(near, reading, alone):
    x, edges = graph()
    found, right = records_of(explainer_of(gcn(), near, reading=reading), x, edges)
    assert_same_records(found, right)
    # Two nodes have no edge. F hardly changes there, so that no p is better than another.
    assert len(set(alone.rows)) <= 5


@pytest.mark.filterwarnings("ignore::graphfaith._base.errors.ReachWarning")
@settings(max_examples=20)
@given(case=cases, near=st.sampled_from(NEIGHBORHOODS), seed=st.integers(0, 3))
def test_together_is_as_alone_on_any_graph(case, near, seed):
    explainer = explainer_of(case.model, near, num_samples=50, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "AT_LEAST", 1)
        found = gf.explain_all(explainer, case.x, case.edge_index, progress=False, **case.kwargs)
        patch.setattr(many, "AT_LEAST", 10**9)
        right = gf.explain_all(explainer, case.x, case.edge_index, progress=False, **case.kwargs)
    assert np.array_equal(found.edge_id, right.edge_id)
    scale = np.abs(right.score).max(initial=1e-9)
    assert np.abs(found.score - right.score).max(initial=0.0) <= 1e-6 * scale


class Weighted(nn.Module):
    """Two layers that take edge weights and add no self-loops, or are no graph convolutions."""

    def __init__(self, kind):
        super().__init__()
        self.first, self.second = kind(FEATURES, 8), kind(8, 3)

    def forward(self, x, edge_index, edge_weight=None):
        return self.second(self.first(x, edge_index, edge_weight).tanh(), edge_index, edge_weight)


@pytest.mark.parametrize("kind", [pyg.GraphConv, pyg.TAGConv, pyg.LEConv, pyg.SGConv])
def test_other_layers_with_weights(kind, alone):
    x, edges = graph(3)
    model = seeded(lambda: Weighted(kind))
    # The six hops of TAGConv make 64 unknowns, of which there must not be more than samples.
    found, right = records_of(explainer_of(model, num_samples=100), x, edges)
    assert_same_records(found, right)
    # A layer need not add self-loops. At a few nodes the gradient alone is the better p.
    assert len(set(alone.rows)) < NODES / 2


def test_a_table_that_would_be_huge_is_made_for_fewer_nodes(monkeypatch, alone):
    x, edges = graph(14)
    right = gf.explain_all(explainer_of(gcn()), x, edges, progress=False)
    monkeypatch.setattr(sweep, "_HUGE", 1000)
    found = gf.explain_all(explainer_of(gcn()), x, edges, progress=False)
    assert np.abs(found.score - right.score).max() <= 1e-9 * np.abs(right.score).max()
    assert len(alone.rows) > NODES // 2  # even one node was too many


def test_noise_of_a_large_graph_is_that_of_each_part(monkeypatch, alone):
    """On a graph on which the model is not run as a whole, rounding is known of each part only."""
    monkeypatch.setattr(target, "LARGE", 1)
    x, edges = graph(15, nodes=60, edges=70, dtype=torch.float32)
    x[3] *= 1e6
    model = seeded(lambda: pyg.GCN(FEATURES, 8, 2, out_channels=3, act=None), dtype=torch.float32)  # It follows X.
    found, right = records_of(explainer_of(model), x, edges)
    assert found.edge_id.tolist() == right.edge_id.tolist()
    # With the rounding of the largest output of all, F would seem to stand still at every node that does not see it.
    assert len(set(alone.rows)) < 30


@pytest.mark.parametrize("masks", [("attributes", "object"), ("object", "object"), (None, "object")])
def test_explanations_have_the_same_readings_pairs_and_estimates(masks):
    x, edges = graph(5)
    explainer = explainer_of(gcn(), "B(A,0.5)", masks)
    together = list(gf.explain_nodes(explainer, x, edges, progress=False, together=True))
    one_by_one = list(gf.explain_nodes(explainer, x, edges, progress=False, together=False))
    for mine, other in zip(together, one_by_one, strict=True):
        assert_same_explanations(mine, other)
        for reading in ("slope", "effect"):
            assert_same_explanations(mine.reading(reading), other.reading(reading), 1e-8)
    pairs = [[(one.first, one.second) for one in found.interactions(3)] for found in (together[0], one_by_one[0])]
    assert pairs[0] == pairs[1]


def test_weights_below_sigma_make_a_neighbourhood_that_is_not_symmetric():
    x, edges = graph(7)
    weight = torch.rand(edges.size(1), generator=torch.Generator().manual_seed(1)).double() + 0.1
    assert_same_records(*records_of(explainer_of(gcn()), x, edges, edge_weight=weight))
    # Here some computation graphs are symmetric, and others are not.
    weight = torch.where((edges == 3).any(dim=0), 0.2, 1.0).double()
    assert_same_records(*records_of(explainer_of(gcn()), x, edges, edge_weight=weight))


def test_single_precision_agrees_as_far_as_it_goes():
    x, edges = graph(8, dtype=torch.float32)
    found, right = records_of(explainer_of(gcn(dtype=torch.float32)), x, edges)
    scale = np.abs(right.score).max()
    assert np.median(np.abs(found.score - right.score)) <= 1e-5 * scale


def test_few_features_are_all_columns():
    x, edges = graph(9, features=3)
    assert_same_records(*records_of(explainer_of(gcn(3)), x, edges))


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_blocks_and_batches_do_not_change_records(monkeypatch, threads):
    x, edges = graph(10)
    explainer = explainer_of(gcn())
    right = gf.explain_all(explainer, x, edges, progress=False)
    usual = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found = gf.explain_all(explainer, x, edges, progress=False)
        assert np.array_equal(found.score, right.score)
    finally:
        torch.set_num_threads(usual)
    monkeypatch.setattr(sweep, "CHUNK_BYTES", 8 * 1200 * 20)
    found = gf.explain_all(explainer, x, edges, progress=False)
    assert np.abs(found.score - right.score).max() <= 1e-9 * np.abs(right.score).max()


def test_a_node_may_be_named_twice(alone):
    x, edges = graph(11)
    nodes = [3, 5, 3, *range(6, 20)]
    assert_same_records(*records_of(explainer_of(gcn()), x, edges, nodes))


class Sharp(TwoLayerGCN):
    """A model whose gradient is not finite at one node."""

    def forward(self, x, edge_index, edge_weight=None):
        out = super().forward(x, edge_index, edge_weight)
        return out + 1e-3 * (out - out.detach()).abs().sqrt()


def test_gradients_that_are_not_finite_leave_the_node_to_be_explained_alone(alone):
    x, edges = graph(12)
    model = seeded(lambda: Sharp(FEATURES))
    assert_same_records(*records_of(explainer_of(model), x, edges, range(18)))
    assert len(set(alone.rows)) == 18


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"num_samples": "auto"}, "auto"),
        ({"reading": "effect"}, "one entry of A at a time"),
        ({"blocks": ("khop", "saliency")}, "whole p"),
        ({"near": "R(A,3)"}, "depends on the edges in reach"),
    ],
)
def test_what_cannot_be_explained_together_says_why(options, reason):
    x, edges = graph()
    explainer = explainer_of(gcn(), **options)
    with pytest.raises(gf.UnsupportedError, match=reason):
        gf.explain_nodes(explainer, x, edges, progress=False, together=True)


@pytest.mark.parametrize("kind", [pyg.GAT, pyg.GraphSAGE, pyg.GIN])
@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)"])
def test_models_without_weights_stand_side_by_side(kind, near, alone):
    """Entries of A multiply the messages of the model, or are removed from each of the graphs."""
    x, edges = graph(3)
    model = seeded(lambda: kind(FEATURES, 4, 2, out_channels=3))
    assert_same_records(*records_of(explainer_of(model, near), x, edges))
    assert len(set(alone.rows)) <= 8  # At a few nodes F hardly changes, or the gradient alone is the better p.


class Scaled(TwoLayerGCN):
    """A model that is given a number for each node beside X and A."""

    def forward(self, x, edge_index, edge_weight=None, scale=None):
        return super().forward(x * scale.unsqueeze(1), edge_index, edge_weight)


def test_a_model_with_other_tensors_is_explained_one_by_one():
    x, edges = graph()
    explainer, scale = explainer_of(seeded(lambda: Scaled(FEATURES))), torch.linspace(1, 2, NODES).double()
    with pytest.raises(gf.UnsupportedError, match="other tensors beside X and A"):
        list(gf.explain_nodes(explainer, x, edges, [1, 2], progress=False, together=True, scale=scale))
    assert len(gf.explain_all(explainer, x, edges, range(17), progress=False, scale=scale)) == 17


def test_a_subclass_is_fitted_to_one_node_at_a_time():
    class Own(gf.AnchoredKEC):
        def kinds_for(self, target):
            return ("row",)

    x, edges = graph()
    explainer = Explainer(gcn(), Own("U(A,0.5)", num_samples=60), "model", CLASSIFIER, "attributes", "object")
    with pytest.raises(gf.UnsupportedError, match="Own is fitted to one node at a time"):
        gf.explain_nodes(explainer, x, edges, progress=False, together=True)


def test_little_memory_explains_the_same(alone):
    x, edges = graph(13)
    right = gf.explain_all(explainer_of(gcn()), x, edges, progress=False)
    found = gf.explain_all(explainer_of(gcn(), max_memory="24 MB"), x, edges, progress=False)
    assert np.abs(found.score - right.score).max() <= 1e-9 * np.abs(right.score).max()


@needs_data
@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)"])
def test_nodes_of_cora_together_and_alone(near, alone):
    trained = load_trained("cora", seed=0)
    model, x = trained.model.double(), trained.data.x.double()
    explainer = Explainer(model, gf.AnchoredKEC(near), "model", CLASSIFIER, "attributes", "object")
    found, right = records_of(explainer, x, trained.data.edge_index, range(3, 2708, 150))
    assert_same_records(found, right)
    assert alone.rows == []
