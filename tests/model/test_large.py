"""A graph too large to run the model on is looked at in parts, and explained alike."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.explain import Explainer
from torch_geometric.utils import to_undirected

import graphfaith as gf
from graphfaith.explainers import sweep
from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.graph.graph import Graph
from graphfaith.model import placement
from graphfaith.model import target as target_module
from graphfaith.model.target import Target
from reference import TwoLayerGCN

NODES, FEATURES, CLASSES = 60, 4, 3
CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
LABELS = torch.arange(NODES) % CLASSES


def ring(nodes=NODES):
    at = torch.arange(nodes)
    edges = torch.cat([torch.stack([at, (at + 1) % nodes]), torch.stack([(at + 1) % nodes, at])], dim=1)
    return torch.randn(nodes, FEATURES, generator=torch.Generator().manual_seed(0)).double(), edges


def tangle(seed=1, undirected=False):
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, NODES - 2, (2, 70), generator=generator)
    edges = torch.unique(edges[:, edges[0] != edges[1]], dim=1)
    edges = to_undirected(edges) if undirected else edges
    return torch.randn(NODES, FEATURES, generator=generator).double(), edges


class Chebyshev(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.ChebConv(FEATURES, 5, 2), pyg.ChebConv(5, CLASSES, 2)

    def forward(self, x, edge_index, edge_weight=None):
        return self.second(self.first(x, edge_index, edge_weight).tanh(), edge_index, edge_weight)


class Propagated(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.prop = nn.Linear(FEATURES, CLASSES), pyg.APPNP(3, 0.1)

    def forward(self, x, edge_index, edge_weight=None):
        return self.prop(self.lin(x), edge_index, edge_weight)


MODELS = {
    "GCN": lambda: TwoLayerGCN(FEATURES),
    "GAT": lambda: pyg.GAT(FEATURES, 5, 2, CLASSES),
    "GIN": lambda: pyg.GIN(FEATURES, 5, 2, CLASSES, norm=None, act="tanh"),
    "Cheb": Chebyshev,
    "APPNP": Propagated,
}


def seeded(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().double().eval()


def explain(make, x, edges, nodes, algorithm):
    """Explanations by a model, and in a graph, that nothing is known of yet."""
    explainer = Explainer(seeded(make), algorithm, "phenomenon", CONFIG, "attributes", "object")
    own = x.clone()
    return [explainer(own, edges, target=LABELS[: len(x)], index=node) for node in nodes]


def both(monkeypatch, *given):
    """The same with the model run on the whole graph, and with parts alone; an error is an answer, too."""
    found = []
    for large in (1 << 40, 1):
        monkeypatch.setattr(target_module, "LARGE", large)
        try:
            found.append(explain(*given))
        except gf.ModelError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", ["ring", "directed", "undirected"])
@pytest.mark.parametrize(
    "algorithm", [gf.KEC("U(A,0.5)", num_samples=30), gf.Saliency(), gf.Linear("B(A,0.5)", num_samples=30)]
)
@pytest.mark.filterwarnings("ignore::graphfaith._base.errors.ReachWarning")
def test_large_graphs_are_explained_as_small_ones(monkeypatch, model, kind, algorithm):
    x, edges = ring() if kind == "ring" else tangle(undirected=kind == "undirected")
    small, large = both(monkeypatch, MODELS[model], x, edges, [3, 20, 41, NODES - 1], algorithm)
    for mine, right in zip(large, small, strict=True):
        for name in ("node_mask", "edge_mask", "self_loop_score"):
            assert torch.equal(mine[name], right[name]), name
        assert mine.edge_route == right.edge_route
        assert mine.get("in_sample_error") == right.get("in_sample_error")
        assert torch.equal(mine.difference_model.graph.nodes, right.difference_model.graph.nodes)
    assert any(float(one.edge_mask.abs().max()) > 1e-3 for one in large)


class Counted(TwoLayerGCN):
    def __init__(self, *given):
        super().__init__(*given)
        self.most = 0

    def forward(self, x, edge_index, edge_weight=None):
        self.most = max(self.most, x.size(-2))
        return super().forward(x, edge_index, edge_weight)


@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize(
    "algorithm", [gf.KEC("U(A,0.5)", num_samples=20), gf.Saliency(), gf.Linear("U(A,0.5)", num_samples=20)]
)
def test_the_model_is_not_run_on_a_large_graph(monkeypatch, algorithm, large):
    monkeypatch.setattr(target_module, "LARGE", 1 if large else 1 << 40)
    (x, edges), model = ring(), seeded(lambda: Counted(FEATURES))
    explainer = Explainer(model, algorithm, "phenomenon", CONFIG, "attributes", "object")
    for node in (3, 30, 59):
        explanation = explainer(x, edges, target=LABELS, index=node)
        gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", num_samples=10)
    assert (model.most < NODES // 2) == large
    assert (model.most == NODES) == (not large)


class Again(nn.Module):
    """Its reach is two hops by its layers, and in truth three."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, FEATURES), pyg.GCNConv(FEATURES, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        for _ in range(2):
            x = self.first(x, edge_index, edge_weight).tanh()
        return self.second(x, edge_index, edge_weight)


@pytest.mark.parametrize("algorithm", [gf.KEC("U(A,0.5)", num_samples=20), gf.Saliency()])
def test_a_reach_that_is_too_short_is_found_in_a_large_graph(monkeypatch, algorithm):
    x, edges = ring()
    small, large = both(monkeypatch, Again, x, edges, [7], algorithm)
    assert small == large
    assert large.startswith("messages of Again go further than 2 hops: its output at node 7")
    assert large.endswith("Pass num_hops=3")


@pytest.mark.parametrize("hops", [1, 2])
def test_num_hops_that_are_too_few_are_found_in_a_large_graph(monkeypatch, hops):
    x, edges = ring()
    deep = lambda: TwoLayerGCN(FEATURES, layers=3)  # noqa: E731
    small, large = both(monkeypatch, deep, x, edges, [7], gf.KEC("U(A,0.5)", num_samples=20, num_hops=hops))
    assert small == large
    assert large.endswith("Pass num_hops=3")
    small, large = both(monkeypatch, deep, x, edges, [7], gf.KEC("U(A,0.5)", num_samples=20, num_hops=3))
    assert torch.equal(small[0].edge_mask, large[0].edge_mask)


def test_constant_features_do_not_hide_a_reach_that_is_too_short(monkeypatch):
    _, edges = ring()
    small, large = both(monkeypatch, Again, torch.ones(NODES, FEATURES).double(), edges, [7], gf.Saliency())
    assert small == large
    assert large.endswith("Pass num_hops=3")


class LooksAtAll(nn.Module):
    def __init__(self, norm=None):
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, 6), pyg.GCNConv(6, CLASSES)
        self.norm = norm

    def forward(self, x, edge_index, edge_weight=None):
        x = self.first(x, edge_index, edge_weight)
        x = x + x.mean(dim=0) if self.norm is None else self.norm(x)
        return self.second(x.tanh(), edge_index, edge_weight)


class RowForEveryNode(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Parameter(torch.randn(NODES, FEATURES)), pyg.GCNConv(FEATURES, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        return self.layer(x * self.table, edge_index, edge_weight)


@pytest.mark.parametrize(
    "make",
    [
        LooksAtAll,
        lambda: LooksAtAll(pyg.GraphNorm(6)),
        lambda: LooksAtAll(pyg.PairNorm()),
        RowForEveryNode,
    ],
    ids=["mean", "GraphNorm", "PairNorm", "table"],
)
@pytest.mark.parametrize("algorithm", [gf.KEC("U(A,0.5)", num_samples=20), gf.Saliency()])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("nodes", [[7], [7, 40]], ids=["first", "second"])
def test_a_model_that_looks_at_a_large_graph_as_a_whole(monkeypatch, make, algorithm, constant, nodes):
    x, edges = ring()
    x = torch.ones_like(x) if constant else x
    small, large = both(monkeypatch, make, x, edges, nodes, algorithm)
    for mine, right in zip(large, small, strict=True):
        assert right.difference_model.graph.num_nodes == NODES
        for name in ("node_mask", "edge_mask", "self_loop_score"):
            assert torch.equal(mine[name], right[name])


def test_links_and_all_nodes_are_looked_at_on_the_whole_graph(monkeypatch):
    monkeypatch.setattr(target_module, "LARGE", 1)
    (x, edges), model = ring(), seeded(lambda: Counted(FEATURES))
    Target(model, x, edges, None, LABELS)
    assert model.most == NODES


def test_nodes_of_a_large_graph_together(monkeypatch):
    monkeypatch.setattr(sweep, "_FIRST", 1)  # nodes are proven side by side: here one by one, to count them
    monkeypatch.setattr(sweep, "_ENTRIES", 1)
    x, edges = ring()
    found = []
    for large in (1 << 40, 1):
        monkeypatch.setattr(target_module, "LARGE", large)
        model = seeded(lambda: Counted(FEATURES))
        explainer = Explainer(model, gf.KEC("U(A,0.5)", num_samples=20), "phenomenon", CONFIG, "attributes", "object")
        nodes = range(5, 25)
        found.append(list(gf.explain_nodes(explainer, x.clone(), edges, nodes, target=LABELS, progress=False)))
        assert (model.most < NODES) == (large == 1)
    for mine, right in zip(*reversed(found), strict=True):
        assert torch.equal(mine.edge_mask, right.edge_mask)
        assert torch.equal(mine.node_mask, right.node_mask)


# Memory -----------------------------------------------------------------------------------------------------------


def test_a_limit_below_a_run_on_the_whole_graph_is_no_hindrance():
    (x, edges), model = ring(5000), seeded(lambda: Counted(FEATURES))
    whole = Target(model, x, edges, 7, 0)._bytes_on(5000, edges.size(1))
    assert model.most == 5000
    right = Target(model, x, edges, 8, 0).value
    model, x = seeded(lambda: Counted(FEATURES)), x.clone()
    limit = whole // 3
    assert Target(model, x, edges, 8, 0, max_memory=limit).value == right
    assert model.most < 50
    labels = torch.zeros(5000, dtype=torch.long)
    explainer = Explainer(
        model, gf.KEC("U(A,0.5)", num_samples=20, max_memory=limit), "phenomenon", CONFIG, None, "object"
    )
    assert explainer(x, edges, target=labels, index=9).edge_mask.count_nonzero() > 3
    assert model.most < 50


def test_a_part_that_is_too_large_is_refused():
    (x, edges), model = ring(5000), seeded(lambda: Counted(FEATURES))
    index = 8 * (8 * edges.size(1) + 4 * 5000)
    with pytest.raises(gf.MemoryLimitError, match=r"running the model once at node 7 .* more than 2 nodes and edges"):
        Target(model, x, edges, 7, 0, max_memory=index + 1000)
    assert model.most == 0


def test_a_model_that_has_to_be_run_on_the_whole_graph_is_refused_if_that_is_too_large():
    (x, edges), model, sizes = ring(5000), seeded(LooksAtAll), []
    model.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    with pytest.raises(gf.MemoryLimitError, match="running the model once on 5000 nodes needs about"):
        Target(model, x, edges, 7, 0, max_memory="2 MB")
    assert 0 < max(sizes) < 5000
    with pytest.raises(gf.MemoryLimitError, match="running the model once on 5000 nodes needs about"):
        Target(seeded(lambda: TwoLayerGCN(FEATURES)), x, edges, None, 0, max_memory="2 MB")


class Odd(nn.Module):
    """Two layers, and something that a part of the graph shows only if it is called as the whole graph is."""

    def __init__(self, how):
        super().__init__()
        self.first, self.second, self.how = pyg.GCNConv(FEATURES, 5), pyg.GCNConv(5, CLASSES), how

    def forward(self, x, edge_index, edge_weight=None):
        leaving = torch.bincount(edge_index[0], minlength=len(x)).to(x.dtype)
        if self.how == "edges that leave":
            x = x * leaving.unsqueeze(-1)
        if self.how == "own weights":
            edge_weight = torch.sigmoid((x[edge_index[0]] * x[edge_index[1]]).sum(dim=-1))
        out = self.second(self.first(x, edge_index, edge_weight).tanh(), edge_index, edge_weight)
        return out * x[0].sum() if self.how == "first node" else out


@pytest.mark.parametrize("how", ["edges that leave", "own weights", "first node"])
def test_a_part_is_called_as_the_whole_graph_is(monkeypatch, how):
    """Loops that are given with the edges, and a node that comes first in every part, are not there for the user."""
    monkeypatch.setattr(target_module, "LARGE", 1)
    (x, edges), model = ring(), seeded(lambda: Odd(how))
    edges = torch.cat([edges, torch.tensor([[31, 29, 33], [9, 50, 12]])], dim=1)
    target = Target(model, x, edges, 30, num_hops=3 if how == "own weights" else None)
    expected = model(x, edges)[30, target.label].item()
    assert target.value == pytest.approx(expected, rel=1e-9)


# Hubs -------------------------------------------------------------------------------------------------------------


def hubs(nodes=400):
    """A graph in which everything is two hops from a few hubs, and four hops from anything are most of the graph."""
    generator = torch.Generator().manual_seed(0)
    share = (torch.arange(nodes) + 2.0) ** -0.9
    edges = torch.multinomial(share, 4 * nodes, True, generator=generator).view(2, -1)
    edges = to_undirected(torch.cat([edges[:, edges[0] != edges[1]], ring(nodes)[1]], dim=1))
    return torch.randn(nodes, FEATURES, generator=generator).double(), edges


def bounded(monkeypatch, most=1000):
    """The sizes of what is cut out of a large graph, where a proof may take ``most`` nodes and edges."""
    sizes, cut = [], ComputationGraph.around.__func__

    def around(cls, *given, **options):
        part = cut(cls, *given, **options)
        sizes.append((part.num_hops, part.num_nodes, part.num_nodes + part.num_plain))
        return part

    monkeypatch.setattr(ComputationGraph, "around", classmethod(around))
    monkeypatch.setattr(placement, "_MOST", most)
    monkeypatch.setattr(target_module, "LARGE", 1)
    return sizes


@pytest.mark.parametrize("model", MODELS)
def test_a_proof_on_a_graph_with_hubs_is_bounded(monkeypatch, model):
    (x, edges), make = hubs(), MODELS[model]
    hops = 3 if model == "APPNP" else 2
    wide = ComputationGraph.around(Graph.of(x, edges), 390, hops + 2)
    assert wide.num_nodes > 350
    sizes = bounded(monkeypatch)
    made = seeded(make)
    for node in (390, 17):
        target = Target(made, x, edges, node, 0)
        assert target.is_large
        assert target.computation_graph.num_hops == hops
        assert target.value == pytest.approx(made(x, edges)[node, 0].item(), rel=1e-9)
    wider = [size for size in sizes if size[0] == hops + 2]
    assert 1 <= len(wider) <= 2  # once for both nodes; and once more as the model is called without loops
    assert max(entries for *_, entries in wider) <= 1000 + 1  # and a node that stands for those further away
    assert max(nodes for _, nodes, _ in wider) < 350


def test_what_a_part_lacks_is_found_on_a_graph_with_hubs(monkeypatch):
    x, edges = hubs()
    bounded(monkeypatch)
    for make, says in ((Again, "Pass num_hops=3"), (LooksAtAll, None), (lambda: Odd("edges that leave"), None)):
        made = seeded(make)
        if says:
            with pytest.raises(gf.ModelError, match=says):
                Target(made, x, edges, 390, 0)
        else:
            target = Target(made, x, edges, 390, 0)
            assert target.value == pytest.approx(made(x, edges)[390, 0].item(), rel=1e-9)
            assert target.is_large == (make is not LooksAtAll)


def test_without_a_proof_the_model_is_run_on_the_whole_graph(monkeypatch, tmp_path):
    x, edges = hubs()
    packed = gf.pack_graph({"x": x, "edge_index": edges}, tmp_path / "graph")
    bounded(monkeypatch, most=3)
    target = Target(seeded(lambda: TwoLayerGCN(FEATURES)), x, edges, 390, 0)
    assert not target.is_large
    with pytest.raises(gf.UnsupportedError, match=r"no part of at most 3 nodes and edges shows whether .* load it"):
        Target(seeded(lambda: TwoLayerGCN(FEATURES)), packed, None, 390, 0)
