"""A part of the graph is enough, or it is not: shown at random features and weights, inside of it and outside."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith.model import placement
from graphfaith.model import target as target_module
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import as_neighborhood

NODES, FEATURES, CLASSES = 40, 4, 3
NEAR = ("U(A,0.5)", "B(A,0.5)", "U(X,0.5r)xU(A,0.5)")


def ring():
    at = torch.arange(NODES)
    edges = torch.cat([torch.stack([at, (at + 1) % NODES]), torch.stack([(at + 1) % NODES, at])], dim=1)
    return torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(0)).double(), edges


def seeded(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().double().eval()


class Weighing(nn.Module):
    """Two layers with weights that are a function of the weights of all edges."""

    def __init__(self, how, layer=pyg.GraphConv):
        super().__init__()
        self.first, self.second, self.how = layer(FEATURES, 6), layer(6, CLASSES), how

    def forward(self, x, edge_index, edge_weight=None):
        w = self.how(x.new_ones(edge_index.size(1)) if edge_weight is None else edge_weight)
        return self.second(self.first(x, edge_index, w).tanh(), edge_index, w)


GLOBAL = {
    "mean": lambda w: w / w.mean(),
    "softmax": lambda w: w.softmax(dim=0) * len(w),
    "minus mean": lambda w: w - w.mean(),
    "limit": lambda w: w * (50.0 / w.sum()).clamp(max=1.0),
    "branch": lambda w: w if w.sum() > 60 else w.square(),
}


def assert_right(target, model, x, edges, near, given=None):
    """F's changes are those of one run of the model on the whole graph for each sample."""
    part = target.computation_graph
    drawn = as_neighborhood(near).sample(part, 6)
    read = (part.edge_id >= 0) & part.felt
    (node,) = target.readout.rows.tolist()
    expected = []
    for sample in range(len(drawn)):
        weight = torch.ones(edges.size(1)).double() if given is None else given.clone()
        weight[part.edge_id[read]] -= drawn.edges[sample][read]
        moved = x.clone()
        if drawn.features is not None:
            moved[part.nodes[: part.num_visible]] -= drawn.features[sample, : part.num_visible]
        out = model(moved, edges, edge_weight=weight)
        expected.append(target.value - out[node, target.label].detach())
    expected = torch.stack(expected)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(target.changes(drawn), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("how", GLOBAL)
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_a_model_that_reads_the_weights_of_all_edges_is_computed_on_the_whole_graph(monkeypatch, how, large):
    monkeypatch.setattr(target_module, "LARGE", 1 if large else 1 << 40)
    (x, edges), model = ring(), seeded(lambda: Weighing(GLOBAL[how]))
    target = Target(model, x, edges, 5)
    part = target.computation_graph
    assert part.num_nodes == NODES
    # Every edge has an effect, so that every edge is an entry of A.
    assert sorted(part.edge_id[part.felt].tolist()) == list(range(edges.size(1)))
    for near in NEAR:
        assert_right(target, model, x, edges, near)


@pytest.mark.parametrize("how", ["mean", "softmax", "minus mean"])
def test_weights_of_all_edges_are_not_taken_for_a_longer_reach(how):
    (x, edges), model = ring(), seeded(lambda: Weighing(GLOBAL[how]))
    weight = torch.linspace(0.5, 1.5, edges.size(1)).double()
    target = Target(model, x, edges, 5, edge_weight=weight)
    assert target.computation_graph.num_nodes == NODES
    assert_right(target, model, x, edges, "B(A,0.5)", weight)


def test_a_mean_over_weights_does_not_count_loops_that_layers_add():
    (x, edges), model = ring(), seeded(lambda: Weighing(GLOBAL["mean"], pyg.GCNConv))
    target = Target(model, x, edges, 5)
    assert not target.adds_loops
    assert_right(target, model, x, edges, "B(A,0.5)")
    plain = Target(seeded(lambda: Weighing(lambda w: w, pyg.GCNConv)), x, edges, 5)
    assert plain.adds_loops


@pytest.mark.parametrize("branch", [lambda w: (w == 0).any(), lambda w: w.max() > 50], ids=["at 0", "of large ones"])
def test_a_branch_that_does_not_reach_loops_that_layers_add_is_found(branch):
    (x, edges), model = ring(), seeded(lambda: Weighing(lambda w: w / 2 if branch(w) else w, pyg.GCNConv))
    target = Target(model, x, edges, 5)
    assert not target.adds_loops


class LargestDegree(nn.Module):
    """What a layer gives is multiplied by the largest number of neighbours."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.second = layer(FEATURES, 6), layer(6, CLASSES)

    def forward(self, x, edge_index):
        largest = torch.bincount(edge_index[1], minlength=len(x)).max()
        return self.second(self.first(x, edge_index).tanh() * largest, edge_index)


@pytest.mark.parametrize("layer", [pyg.GATConv, pyg.SAGEConv], ids=["GAT", "SAGE"])
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_a_part_is_proven_without_some_edges_where_edges_are_removed(monkeypatch, layer, large):
    """The node with most neighbours is in the part, so that only the loss of an edge shows that others count, too."""
    monkeypatch.setattr(target_module, "LARGE", 1 if large else 1 << 40)
    x, edges = ring()
    model = seeded(lambda: LargestDegree(layer))
    edges = torch.cat([edges, torch.tensor([[3, 7, 8], [5, 5, 5]])], dim=1)
    target = Target(model, x, edges, 5)
    part = target.computation_graph
    assert target.route == "removal"
    assert part.num_nodes == NODES
    kept = ~torch.isin(torch.arange(edges.size(1)), (edges[1] == 5).nonzero().view(-1)[:4])
    weight = torch.where(part.edge_id < 0, 1.0, kept[part.edge_id].double())
    expected = model(x, edges[:, kept])[5, target.label]
    torch.testing.assert_close(target.evaluate(weight=weight.unsqueeze(0))[0], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("how", ["mean", "softmax", "limit"])
@pytest.mark.parametrize("layer", [pyg.GraphConv, pyg.GCNConv], ids=["GraphConv", "GCNConv"])
def test_a_node_that_shows_nothing_does_not_speak_for_others(how, layer):
    (x, edges), model = ring(), seeded(lambda: Weighing(GLOBAL[how], layer))
    edges = edges[:, (edges != 0).all(dim=0)]
    Target(model, x, edges, 0)  # a node without neighbours, whose output depends on no edge
    target = Target(model, x, edges, 5)
    assert target.computation_graph.num_nodes == NODES
    assert not target.adds_loops
    assert_right(target, model, x, edges, "B(A,0.5)")


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_a_model_is_proven_once(monkeypatch, large):
    monkeypatch.setattr(target_module, "LARGE", 1 if large else 1 << 40)
    proofs = []
    usual = placement.Probe
    monkeypatch.setattr(placement, "Probe", lambda *given: proofs.append(1) or usual(*given))
    (x, edges), model = ring(), seeded(lambda: Weighing(lambda w: w, pyg.GCNConv))
    for node in (5, 6, 20, 39):
        assert Target(model, x, edges, node).computation_graph.num_nodes < NODES
    assert len(proofs) == 1


class Certain(nn.Module):
    """Probabilities that are 0 or 1 unless features are as small as those of the graph."""

    def __init__(self):
        super().__init__()
        self.inner = Weighing(lambda w: w, pyg.GCNConv)

    def forward(self, x, edge_index, edge_weight=None):
        return (self.inner.second(self.inner.first(1e4 * x, edge_index, edge_weight), edge_index, edge_weight)).softmax(
            1
        )


def test_a_model_that_is_certain_at_larger_features_is_proven_once(monkeypatch):
    proofs, usual = [], placement.Probe
    monkeypatch.setattr(placement, "Probe", lambda *given: proofs.append(1) or usual(*given))
    (x, edges), model = ring(), seeded(Certain)
    for node in (5, 6, 20, 39):
        assert Target(model, 1e-4 * x, edges, node, return_type="probs").computation_graph.num_nodes < NODES
    assert len(proofs) == 1


class Between(nn.Module):
    def __init__(self, between):
        super().__init__()
        self.first, self.second, self.between = pyg.GCNConv(FEATURES, 6), pyg.GCNConv(6, CLASSES), between

    def forward(self, x, edge_index, edge_weight=None):
        return self.second(self.between(self.first(x, edge_index, edge_weight)), edge_index, edge_weight)


UNSEEN = {  # on the graph as it is, a part gives the same
    "a limit of the norm": lambda h: h * (300.0 / h.norm()).clamp(max=1.0),
    "a limit of the largest": lambda h: h / h.max().clamp(min=50.0),
    "a branch on a sum": lambda h: h.relu() if h.sum() > -50 else h.tanh(),
}


@pytest.mark.parametrize("between", UNSEEN)
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_what_acts_on_large_numbers_only_is_found(monkeypatch, between, large):
    monkeypatch.setattr(target_module, "LARGE", 1 if large else 1 << 40)
    (x, edges), model = ring(), seeded(lambda: Between(UNSEEN[between]))
    target = Target(model, x, edges, 5)
    assert target.computation_graph.num_nodes == NODES
    drawn = as_neighborhood("U(X,9r)").sample(target.computation_graph, 8)
    out = torch.stack([model(x - eps, edges)[5, target.label].detach() for eps in drawn.features])
    torch.testing.assert_close(target.changes(drawn), target.value - out, rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore::graphfaith._base.errors.ReachWarning")
@pytest.mark.parametrize("num_hops", [None, 3])
def test_a_branch_on_all_nodes_is_no_matter_of_hops(num_hops):
    (x, edges), model = ring(), seeded(lambda: Between(lambda h: h.relu() if h.sum() > 0 else h.tanh()))
    target = Target(model, x, edges, 5, num_hops=num_hops)
    assert target.computation_graph.num_nodes == NODES
    drawn = as_neighborhood("U(X,2r)").sample(target.computation_graph, 40)
    out = torch.stack([model(x - eps, edges)[5, target.label].detach() for eps in drawn.features])
    torch.testing.assert_close(target.changes(drawn), target.value - out, rtol=1e-8, atol=1e-10)


def test_a_branch_on_the_size_is_no_matter_of_hops():
    (x, edges), model = ring(), seeded(lambda: Between(lambda h: h.relu() if h.size(-2) > 10 else h.tanh()))
    target = Target(model, x, edges, 5)
    assert target.computation_graph.num_nodes == NODES
    assert target.value == pytest.approx(float(model(x, edges)[5, target.label].detach()), abs=1e-12)


class NoneIsNotOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, 6), pyg.GCNConv(6, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        out = self.second(self.first(x, edge_index, edge_weight).relu(), edge_index, edge_weight)
        return out if edge_weight is None else out.exp()


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_none_is_not_one_on_a_large_graph_either(monkeypatch, large):
    monkeypatch.setattr(target_module, "LARGE", 1 if large else 1 << 40)
    (x, edges), model = ring(), seeded(NoneIsNotOne)
    target = Target(model, x, edges, 5, label=1)
    assert target.route == "removal"
    assert target.value == pytest.approx(float(model(x, edges)[5, 1].detach()), abs=1e-12)


def test_nodes_together_by_a_model_that_reads_all_weights():
    (x, edges), model = ring(), seeded(lambda: Weighing(GLOBAL["mean"]))
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = Explainer(model, gf.KEC("U(A,0.5)", num_samples=10), "model", config, "attributes", "object")
    found = list(gf.explain_nodes(explainer, x, edges, range(20), progress=False))
    assert all(one.difference_model.graph.num_nodes == NODES for one in found)


class LateBranch(nn.Module):
    """What is done with activations depends on their sum, unless the graph is small."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, 6), pyg.GCNConv(6, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        h = self.first(x, edge_index, edge_weight)
        h = h.tanh() if h.size(-2) < 30 or h.sum() > self.first(x, edge_index).sum() else h.sin()
        return self.second(h, edge_index, edge_weight)


def test_a_branch_that_small_graphs_do_not_have_is_taken_for_each_sample():
    (x, edges), model = ring(), seeded(LateBranch)
    target = Target(model, x, edges, 5)
    assert target.batching == "vmap"
    drawn = as_neighborhood("U(A,0.5)").sample(target.computation_graph, 12)
    alone = torch.cat([target.changes(drawn[i : i + 1]) for i in range(12)])
    torch.testing.assert_close(target.changes(drawn), alone, rtol=1e-8, atol=1e-10)
