"""Tasks beyond one node: several nodes, links, graphs; classification and regression; one explanation a node."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch_geometric.explain import Explainer
from torch_geometric.nn import (
    AttentionalAggregation,
    GATConv,
    GCNConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)

import graphfaith as gf
from graphfaith.model.target import Target

FEATURES, CLASSES, NODES = 4, 3, 12
BATCH = torch.tensor([0] * 5 + [1] * 4 + [2] * 3)


def the_graphs(seed=0):
    """Three graphs in one batch, some edges directed, features in double precision."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, NODES, (2, 60), generator=generator)
    edges = edges[:, (BATCH[edges[0]] == BATCH[edges[1]]) & (edges[0] != edges[1])].unique(dim=1)
    return torch.randn(NODES, FEATURES, generator=generator, dtype=torch.float64), edges


class GraphModel(nn.Module):
    def __init__(self, pooling="mean", layer=GCNConv, out=CLASSES):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.out = layer(FEATURES, 6), layer(6, 6), nn.Linear(6, out)
        self.attention = AttentionalAggregation(nn.Linear(6, 1))
        self.pooling = pooling
        self.double().eval()

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        given = {"edge_weight": edge_weight} if isinstance(self.first, GCNConv) else {}
        x = self.second(self.first(x, edge_index, **given).tanh(), edge_index, **given)
        if self.pooling == "attention":
            return self.out(self.attention(x, batch if batch is not None else torch.zeros(len(x), dtype=torch.long)))
        pool = {"mean": global_mean_pool, "max": global_max_pool, "add": global_add_pool}[self.pooling]
        return self.out(pool(x, batch))


class LinkModel(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = GCNConv(FEATURES, 6), GCNConv(6, 5)
        self.double().eval()

    def forward(self, x, edge_index, edge_weight=None, edge_label_index=None):
        x = self.second(self.first(x, edge_index, edge_weight).tanh(), edge_index, edge_weight)
        pairs = edge_index if edge_label_index is None else edge_label_index
        return (x[pairs[0]] * x[pairs[1]]).sum(dim=1)


def config(level, mode="multiclass_classification", return_type="raw"):
    return {"mode": mode, "task_level": level, "return_type": return_type}


# Graphs


@pytest.mark.parametrize("layer", [GCNConv, GATConv])
@pytest.mark.parametrize("pooling", ["mean", "max", "add", "attention"])
def test_a_graph_of_a_batch_is_the_graph_alone(pooling, layer):
    model, (x, edges) = GraphModel(pooling, layer), the_graphs()
    own = BATCH == 1
    inside = own[edges[0]]
    alone = Target(model, x[own], edges[:, inside] - 5, None, 2, level="graph")
    among = Target(model, x, edges, 1, 2, level="graph", batch=BATCH)
    assert among.value == pytest.approx(model(x, edges, batch=BATCH)[1, 2].item(), abs=1e-12)
    assert among.value == pytest.approx(alone.value, abs=1e-12)
    part = among.computation_graph
    assert part.nodes.tolist() == [5, 6, 7, 8]
    assert part.e.tolist() == [1.0] * 4
    near = gf.parse_neighborhood("U(X,0.2r)xU(A,0.5)")
    sample = near.sample(part, 5)
    torch.testing.assert_close(among.evaluate(sample.x, sample.weight), alone.evaluate(sample.x, sample.weight))
    for found, expected in zip(among.gradient(), alone.gradient(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_graphs_together_are_the_sum():
    model, (x, edges) = GraphModel(), the_graphs()
    out = model(x, edges, batch=BATCH).detach()
    several = Target(model, x, edges, [2, 0], 1, level="graph", batch=BATCH)
    assert several.value == pytest.approx((out[2, 1] + out[0, 1]).item(), abs=1e-12)
    assert several.computation_graph.nodes.tolist() == [0, 1, 2, 3, 4, 9, 10, 11]
    everyone = Target(model, x, edges, None, level="graph", batch=BATCH)
    assert everyone.value == pytest.approx(out.max(dim=1).values.sum().item(), abs=1e-12)


@pytest.mark.parametrize("shape", ["row", "vector", "scalar"])
def test_a_graph_without_batch(shape):
    class Reshaped(GraphModel):
        def forward(self, x, edge_index, edge_weight=None):
            out = super().forward(x, edge_index, edge_weight)
            return out if shape == "row" else out[0] if shape == "vector" else out[0, 0]

    model, (x, edges) = Reshaped(), the_graphs()
    mode = "regression" if shape == "scalar" else "multiclass_classification"
    for index in (None, 0):
        target = Target(model, x, edges, index, level="graph", mode=mode)
        expected = model(x, edges).detach()
        assert target.value == pytest.approx((expected if shape == "scalar" else expected.max()).item(), abs=1e-12)
        assert target.computation_graph.num_nodes == NODES


def test_batches_that_are_none():
    model, (x, edges) = GraphModel(), the_graphs()
    with pytest.raises(gf.InputError, match="graph 3 is out of range: the model's output has graphs 0 to 2"):
        Target(model, x, edges, 3, level="graph", batch=BATCH)
    gap = torch.where(BATCH == 1, 2, BATCH)
    with pytest.raises(gf.InputError, match="graph 1 of the batch has no nodes"):
        Target(model, x, edges, 1, level="graph", batch=gap)
    with pytest.raises(gf.ModelError, match="cannot be run"):
        Target(model, x, edges, 1, level="graph", batch=BATCH[:-1])


@pytest.mark.parametrize(
    "method",
    [
        gf.KEC("B(A,0.3)", num_samples=60, normalization="auto"),
        gf.Linear("B(A,0.3)", num_samples=60),
        gf.Saliency(),
        gf.IntegratedGradients(steps=10),
        gf.GNNExplainer(epochs=3),
        gf.GNNExplainer(hard=True, epochs=3),
        gf.PGExplainer(epochs=2),
    ],
    ids=lambda method: method.method,
)
def test_every_method_explains_a_graph(method):
    model, (x, edges) = GraphModel(), the_graphs()
    explainer = Explainer(model, method, "model", config("graph"), "attributes", "object")
    explanation = explainer(x, edges, index=1, batch=BATCH)
    outside = BATCH != 1
    assert not explanation.node_mask[outside].any() or method.learns_mask
    assert not explanation.edge_mask[outside[edges[0]]].any()
    assert explanation.edge_mask.abs().max() > 0
    score = gf.general_unfaithfulness(explainer, explanation, "B(A,0.3)", num_samples=50)
    assert 0 <= score.relative < float("inf")


def test_pgexplainer_learns_from_several_graphs():
    model, (x, edges) = GraphModel(), the_graphs()
    algorithm = gf.PGExplainer(epochs=2)
    explainer = Explainer(model, algorithm, "model", config("graph"), None, "object")
    labels = model(x, edges, batch=BATCH).argmax(dim=1)
    algorithm.train_on(model, x, edges, [0, 1, 2], target=labels, batch=BATCH)
    assert explainer(x, edges, index=2, batch=BATCH).edge_mask.any()


# Links


@pytest.mark.parametrize("named", [True, False], ids=["pairs", "edges"])
def test_a_link_is_read_from_both_ends(named):
    model, (x, edges) = LinkModel(), the_graphs()
    pairs = torch.tensor([[0, 5, 9, 6], [3, 6, 10, 6]]) if named else edges
    kwargs = {"edge_label_index": pairs} if named else {}
    expected = model(x, edges, **kwargs).detach()
    for row in range(pairs.size(1)):
        target = Target(model, x, edges, row, 1, level="edge", mode="binary_classification", **kwargs)
        assert target.value == pytest.approx(expected[row].item(), abs=1e-12)
        part = target.computation_graph
        ends = pairs[:, row].tolist()
        assert sorted(part.nodes[part.seeds].tolist()) == sorted(set(ends))
        assert part.e.tolist() == ([2.0] if ends[0] == ends[1] else [1.0, 1.0])
        sample = gf.parse_neighborhood("U(A,0.5)").sample(part, 3)
        one_by_one = torch.stack([target.evaluate(None, weight) for weight in sample.weight])
        torch.testing.assert_close(target.evaluate(None, sample.weight), one_by_one)
    both = Target(model, x, edges, [2, 1], 1, level="edge", mode="binary_classification", **kwargs)
    assert both.value == pytest.approx((expected[2] + expected[1]).item(), abs=1e-12)


def test_scores_of_a_link_are_its_gradient():
    model, (x, edges) = LinkModel(), the_graphs()
    pairs = torch.tensor([[0, 5], [3, 6]])
    explainer = Explainer(
        model, gf.Saliency(), "model", config("edge", "binary_classification"), "attributes", "object"
    )
    found = explainer(x, edges, index=1, edge_label_index=pairs)
    tracked, weight = x.clone().requires_grad_(), torch.ones(edges.size(1)).double().requires_grad_()
    out = model(tracked, edges, weight, pairs)[1]
    dx, da = torch.autograd.grad(out if out > 0 else -out, (tracked, weight))
    torch.testing.assert_close(found.node_mask, dx)
    torch.testing.assert_close(found.edge_mask, da)


def test_pairs_that_are_none():
    model, (x, edges) = LinkModel(), the_graphs()
    settings = {"level": "edge", "mode": "binary_classification"}
    with pytest.raises(gf.ModelError, match="cannot be run"):
        Target(model, x, edges, 0, edge_label_index=torch.tensor([[0], [99]]), **settings)
    with pytest.raises(gf.InputError, match="edge 7 is out of range"):
        Target(model, x, edges, 7, edge_label_index=torch.tensor([[0], [1]]), **settings)
    with pytest.raises(gf.UnsupportedError, match="PGExplainer explains nodes and graphs"):
        Explainer(model, gf.PGExplainer(), "model", config("edge", "binary_classification"), None, "object")


# Nodes


@given(rows=st.lists(st.integers(0, NODES - 1), min_size=1, max_size=5))
def test_several_nodes_are_the_sum_of_one_each(rows):
    model, (x, edges) = LinkModel(), the_graphs()

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, edge_index, edge_weight=None):
            x = self.model.first(x, edge_index, edge_weight).tanh()
            return self.model.second(x, edge_index, edge_weight)

    explainer = Explainer(Encoder(), gf.Saliency(), "model", config("node"), "attributes", "object")
    joint = explainer(x, edges, index=torch.tensor(rows))
    single = list(gf.explain_nodes(explainer, x, edges, rows, progress=False))
    assert len(single) == len(rows)
    torch.testing.assert_close(joint.node_mask, sum(one.node_mask for one in single))
    torch.testing.assert_close(joint.edge_mask, sum(one.edge_mask for one in single))
    torch.testing.assert_close(joint.self_loop_score, sum(one.self_loop_score for one in single))
    for row, one in zip(rows, single, strict=True):
        again = explainer(x, edges, index=row)
        assert torch.equal(one.node_mask, again.node_mask)
        assert torch.equal(one.prediction, again.prediction)
        assert one.index.tolist() == [row]


def test_pgexplainer_wants_one_node():
    class Encoder(GraphModel):
        def forward(self, x, edge_index, edge_weight=None):
            return self.out(self.first(x, edge_index, edge_weight))

    (x, edges), model = the_graphs(), Encoder()
    explainer = Explainer(model, gf.PGExplainer(epochs=1), "model", config("node"), None, "object")
    with pytest.raises(gf.UnsupportedError, match="one node at a time"):
        explainer(x, edges, index=torch.tensor([0, 1]))


class Counting(GraphModel):
    calls = 0

    def forward(self, x, edge_index, edge_weight=None):
        self.calls += len(x) == NODES
        return self.out(self.second(self.first(x, edge_index, edge_weight).tanh(), edge_index, edge_weight))


def test_explain_nodes_is_lazy_and_checks_first():
    (x, edges), model = the_graphs(), Counting()
    explainer = Explainer(model, gf.Saliency(), "model", config("node"), "attributes", "object")
    for wrong in ([0, NODES], [-1], [0.5], []):
        with pytest.raises(gf.InputError):
            gf.explain_nodes(explainer, x, edges, wrong)
    assert model.calls == 0
    found = gf.explain_nodes(explainer, x, edges)
    next(found), next(found)  # the first has no neighbours, so that it says nothing of others
    once = model.calls
    assert [int(one.index) for one in found] == list(range(2, NODES))
    assert model.calls == once  # what was found out for the second node serves them all
    with pytest.raises(gf.InputError, match="target is for"):
        gf.explain_nodes(explainer, x, edges, [0], target=torch.zeros(NODES))
    explainer = Explainer(model, gf.Saliency(), "phenomenon", config("node"), "attributes", "object")
    with pytest.raises(gf.InputError, match="needs target="):
        gf.explain_nodes(explainer, x, edges, [0])
    (one,) = gf.explain_nodes(explainer, x, edges, [3], target=torch.full((NODES,), 2))
    assert one.difference_model.graph.nodes[0] == 3


def test_explain_nodes_for_graphs(capsys):
    model, (x, edges) = GraphModel(), the_graphs()
    explainer = Explainer(model, gf.Saliency(), "model", config("graph"), "attributes", "object")
    found = list(gf.explain_nodes(explainer, x, edges, batch=BATCH, progress=True))
    assert [int(one.index) for one in found] == [0, 1, 2]
    assert all((one.node_mask.abs().sum(dim=1) > 0).equal(i == BATCH) for i, one in enumerate(found))
    assert "3/3" in capsys.readouterr().err


# Regression of several numbers


def test_regression_of_several_numbers_is_their_sum():
    (x, edges), model = the_graphs(), Counting()
    target = Target(model, x, edges, 4, mode="regression")
    assert target.value == pytest.approx(model(x, edges)[4].sum().item(), abs=1e-12)
    assert target.label is None
