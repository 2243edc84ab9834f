"""F on graphs that lack edges is what the model gives on a graph from which they were deleted."""

import io

import pytest
import torch
import torch_geometric.nn as pyg
from rich.console import Console
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

import graphfaith as gf
from graphfaith.sampling.perturbations import Perturbations
from graphfaith.surrogate.difference import SubgraphModel
from graphfaith.view.report import print_explanation

NODE = 3


def graph(n=30, d=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    linked = torch.rand(n, n, generator=generator) < 0.12
    linked = (linked | linked.T).fill_diagonal_(False)
    return torch.randn(n, d, generator=generator, dtype=torch.float64), linked.nonzero().T.contiguous()


X, EDGES = graph()


class Net(nn.Module):
    def __init__(self, make, between=None):
        super().__init__()
        self.a, self.b, self.between = make(5, 8), make(8, 3), between

    def forward(self, x, edge_index, edge_attr=None):
        more = {} if edge_attr is None else {"edge_attr": edge_attr}
        h = self.a(x, edge_index, **more)
        h = h if self.between is None else self.between(h)
        return self.b(h.relu(), edge_index, **more)


class Gated(pyg.MessagePassing):
    def __init__(self, fan_in, fan_out):
        super().__init__(aggr="mean")
        self.own, self.gate = nn.Linear(fan_in, fan_out), nn.Linear(fan_in, 1)

    def forward(self, x, edge_index):
        return self.own(x) + self.propagate(edge_index, x=self.own(x), gate=self.gate(x))

    def message(self, x_j, gate_i, gate_j):
        return x_j * (gate_i + gate_j).sigmoid()


class Positions(nn.Module):
    """Adds what a table has for a node's place; the table is longer than the graph, so that copies fit in it too."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4000, 8)

    def forward(self, h):
        return h + self.table(torch.arange(len(h)))


KINDS = {
    "GAT": lambda: Net(pyg.GATConv),
    "GAT without loops": lambda: Net(lambda a, b: pyg.GATConv(a, b, add_self_loops=False)),
    "GATv2": lambda: Net(pyg.GATv2Conv),
    "SAGE mean": lambda: Net(pyg.SAGEConv),
    "SAGE max": lambda: Net(lambda a, b: pyg.SAGEConv(a, b, aggr="max")),
    "GIN": lambda: Net(lambda a, b: pyg.GINConv(nn.Linear(a, b))),
    "Transformer": lambda: Net(pyg.TransformerConv),
    "GCN without weights": lambda: Net(pyg.GCNConv),
    "layer of one's own": lambda: Net(Gated),
    "virtual node first": lambda: Net(pyg.SAGEConv, lambda h: h + h[:1]),
    "virtual node last": lambda: Net(pyg.SAGEConv, lambda h: h + h[-1:]),
    "maximum over all nodes": lambda: Net(lambda a, b: pyg.SAGEConv(a, b, aggr="sum"), lambda h: h + h.amax(dim=0)),
    "norm over all nodes": lambda: Net(pyg.SAGEConv, pyg.PairNorm()),
    "table of places": lambda: Net(pyg.SAGEConv, Positions()),
}
MIXES = (
    "virtual node first",
    "virtual node last",
    "maximum over all nodes",
    "norm over all nodes",
    "table of places",
)


def model_of(name):
    torch.manual_seed(1)
    return KINDS[name]().double().eval()


def delete(target, gone, **kwargs):
    """The explained value after the edges with a True in ``gone`` [e] were deleted from the whole graph."""
    part = target.computation_graph
    keep = torch.ones(EDGES.size(1), dtype=torch.bool)
    keep[part.edge_id[gone & (part.edge_id >= 0)]] = False
    more = {name: value[keep] for name, value in kwargs.items()}
    with torch.no_grad():
        return target.model(X, EDGES[:, keep], **more)[NODE, target.label]


def drops(target, count=12, seed=0):
    """Samples in which plain edges are dropped and all self-loops stay."""
    part = target.computation_graph
    edges = gf.BernoulliEdges(0.4).sample(part, count, seed).edges
    return edges * ~part.is_loop


@pytest.mark.parametrize("name", KINDS)
def test_a_dropped_edge_is_a_deleted_edge(name):
    target = gf.Target(model_of(name), X, EDGES, NODE)
    part = target.computation_graph
    assert target.route == "removal"
    eps = drops(target)
    expected = torch.stack([delete(target, sample > 0) for sample in eps])
    weight = part.weight - eps
    torch.testing.assert_close(target.evaluate(None, weight), expected)
    torch.testing.assert_close(torch.stack([target.evaluate(None, one) for one in weight]), expected)
    change = target.changes(Perturbations(part, None, eps))
    torch.testing.assert_close(change, target.value - expected)
    assert change.abs().max() > 1e-3
    assert list(target.record.copies.values()) == [name not in MIXES]


def test_features_move_on_the_graphs_that_lack_edges():
    target = gf.Target(model_of("GAT"), X, EDGES, NODE)
    part, eps = target.computation_graph, drops(target)
    moved = torch.randn(len(eps), *part.x.shape, generator=torch.Generator().manual_seed(2), dtype=part.x.dtype)
    together = target.evaluate(part.x - moved, part.weight - eps)
    for sample in range(len(eps)):
        alone = target.evaluate(part.x - moved[sample], part.weight - eps[sample])
        torch.testing.assert_close(together[sample], alone)
        keep = ~((eps[sample] > 0) | part.is_loop)
        out = target.model(part.x - moved[sample], part.edge_index[:, keep])
        torch.testing.assert_close(alone, out[target.call.rows[0], target.label].detach())


def test_attributes_stay_with_their_edges():
    torch.manual_seed(1)
    model = Net(lambda a, b: pyg.GATConv(a, b, edge_dim=2)).double().eval()
    attributes = torch.rand(EDGES.size(1), 2, dtype=torch.float64)
    target = gf.Target(model, X, EDGES, NODE, edge_attr=attributes)
    eps = drops(target)
    expected = torch.stack([delete(target, sample > 0, edge_attr=attributes) for sample in eps])
    torch.testing.assert_close(target.evaluate(None, target.computation_graph.weight - eps), expected)


def test_masks_are_read_as_messages_if_asked_for():
    model = model_of("GAT")
    target = gf.Target(model, X, EDGES, NODE, edges="mask")
    removed = gf.Target(model, X, EDGES, NODE)
    part, eps = target.computation_graph, drops(target)
    loops = torch.arange(len(X)).repeat(2, 1)
    for sample in eps[:3]:
        mask = torch.ones(EDGES.size(1) + len(X), dtype=torch.float64)
        mask[part.edge_id[(sample > 0) & (part.edge_id >= 0)]] = 0
        every = torch.cat([EDGES, loops], dim=1)
        set_masks(model, mask, every, apply_sigmoid=False)
        expected = model(X, every)[NODE, target.label].detach()
        clear_masks(model)
        torch.testing.assert_close(target.evaluate(None, part.weight - sample), expected)
        assert abs(float(removed.evaluate(None, part.weight - sample) - expected)) > 1e-4


def test_a_loop_that_a_layer_adds_is_silenced():
    model = model_of("GAT")
    by_mask, target = gf.Target(model, X, EDGES, NODE, edges="mask"), gf.Target(model, X, EDGES, NODE)
    part = target.computation_graph
    weight = torch.where(part.is_loop, 0.0, part.weight)
    torch.testing.assert_close(target.evaluate(None, weight), by_mask.evaluate(None, weight))
    # Edges are removed beside it, in one copy, and the loop of another copy stays.
    eps = drops(target, 2)
    both = torch.stack([weight - eps[0].clamp(max=1) * ~part.is_loop, part.weight - eps[1]])
    alone = torch.stack([target.evaluate(None, one) for one in both])
    torch.testing.assert_close(target.evaluate(None, both), alone)


def test_derivatives_are_those_of_the_mask_on_the_graph_whose_edges_are_gone():
    target = gf.Target(model_of("GAT"), X, EDGES, NODE)
    part, eps = target.computation_graph, drops(target, 3)
    values, dx, da = target.gradients(None, part.weight - eps)
    for sample in range(3):
        gone = eps[sample] > 0
        keep = (~gone & ~part.is_loop).nonzero().view(-1)
        smaller = gf.Target(
            target.model, part.x, part.edge_index[:, keep], int(target.call.rows[0]), label=target.label
        )
        inside = smaller.computation_graph
        slope = smaller.gradient()[1]
        torch.testing.assert_close(values[sample], torch.tensor(smaller.value, dtype=torch.float64))
        expected = torch.zeros(part.num_edges, dtype=torch.float64)
        plain = inside.edge_id >= 0
        expected[keep[inside.edge_id[plain]]] = slope[plain]
        expected[part.num_plain + inside.nodes] = slope[inside.is_loop]
        torch.testing.assert_close(da[sample], expected)
        assert not bool(da[sample][gone].any())
    assert dx.shape == part.x.shape


def test_a_mask_of_zeros_and_ones_is_the_subgraph():
    target = gf.Target(model_of("SAGE mean"), X, EDGES, NODE)
    part = target.computation_graph
    kept = torch.rand(part.num_edges, generator=torch.Generator().manual_seed(3)) < 0.6
    p = SubgraphModel(target, None, kept.double())
    assert p.value == pytest.approx(float(delete(target, ~kept)))
    eps = drops(target)
    expected = torch.stack([delete(target, (sample > 0) | ~kept) for sample in eps])
    torch.testing.assert_close(p.outputs(Perturbations(part, None, eps)), expected)
    # Masked features, which all copies share, are no reason to run the copies one by one.
    SubgraphModel(target, torch.full((1, 1), 0.5), kept.double()).outputs(Perturbations(part, None, eps))
    assert list(target.record.copies.values()) == [True]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.end = pyg.SAGEConv(5, 8), pyg.SAGEConv(8, 8), nn.Linear(8, 3)

    def forward(self, x, edge_index, batch=None):
        h = self.b(self.a(x, edge_index).relu(), edge_index).relu()
        return self.end(pyg.global_mean_pool(h, batch))


class WithoutBatch(Classifier):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index)


@pytest.mark.parametrize("kind", [Classifier, WithoutBatch, "batch"])
def test_graphs_that_lack_edges(kind):
    torch.manual_seed(1)
    model = (Classifier if kind == "batch" else kind)().double().eval()
    batch = {"batch": (torch.arange(len(X)) >= 12).long()} if kind == "batch" else {}
    row = 1 if kind == "batch" else 0
    edges = EDGES[:, batch["batch"][EDGES[0]] == batch["batch"][EDGES[1]]] if batch else EDGES
    target = gf.Target(model, X, edges, row, level="graph", **batch)
    part = target.computation_graph
    assert target.route == "removal"
    eps = gf.BernoulliEdges(0.5).sample(part, 8).edges
    values = target.evaluate(None, part.weight - eps)
    for sample in range(8):
        keep = torch.ones(edges.size(1), dtype=torch.bool)
        keep[part.edge_id[(eps[sample] > 0) & (part.edge_id >= 0)]] = False
        out = model(X, edges[:, keep], **batch)[row, target.label]
        torch.testing.assert_close(values[sample], out.detach())
    assert list(target.record.copies.values()) == [kind is not WithoutBatch]


class Links(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = pyg.GATConv(5, 8), pyg.GATConv(8, 4)

    def forward(self, x, edge_index, edge_label_index):
        h = self.b(self.a(x, edge_index).relu(), edge_index)
        return (h[edge_label_index[0]] * h[edge_label_index[1]]).sum(-1)


def test_links_on_graphs_that_lack_edges():
    torch.manual_seed(1)
    model, pairs = Links().double().eval(), torch.tensor([[0, 3, 7], [4, 9, 11]])
    target = gf.Target(model, X, EDGES, torch.tensor([1, 2]), level="edge", mode="regression", edge_label_index=pairs)
    part = target.computation_graph
    eps = drops(target, 8)
    values = target.evaluate(None, part.weight - eps)
    for sample in range(8):
        keep = torch.ones(EDGES.size(1), dtype=torch.bool)
        keep[part.edge_id[(eps[sample] > 0) & (part.edge_id >= 0)]] = False
        out = model(X, EDGES[:, keep], pairs)[1:].sum()
        torch.testing.assert_close(values[sample], out.detach())
    assert list(target.record.copies.values()) == [True]


class OfTheGraph(Classifier):
    """Reads an attribute of the whole graph, a row of ``u`` for each graph of the batch."""

    def forward(self, x, edge_index, batch, u):
        return super().forward(x + u[batch], edge_index, batch)


def test_attributes_of_graphs_stay_with_their_graphs():
    torch.manual_seed(1)
    model, count = OfTheGraph().double().eval(), 6
    batch = torch.arange(len(X)) % count
    edges = EDGES[:, batch[EDGES[0]] == batch[EDGES[1]]]
    edges = torch.cat([edges, torch.stack([torch.arange(len(X)), torch.arange(count, len(X) + count) % len(X)])], dim=1)
    u = torch.tensor([[0.0], [1.0], [0.0], [1.0], [0.0], [1.0]]).double()
    for row in range(count):
        target = gf.Target(model, X, edges, row, level="graph", batch=batch, u=u)
        part = target.computation_graph
        sample = gf.BernoulliEdges(0.5).sample(part, 5)
        for value, eps in zip(target.evaluate(weight=sample.weight), sample.edges, strict=True):
            keep = torch.ones(edges.size(1), dtype=torch.bool)
            keep[part.edge_id[(eps > 0) & (part.edge_id >= 0)]] = False
            out = model(X, edges[:, keep], batch, u)[row, target.label]
            torch.testing.assert_close(value, out.detach())


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = pyg.SAGEConv(5, 8), pyg.GraphNorm(8), pyg.SAGEConv(8, 3)

    def forward(self, x, edge_index, batch):
        return self.b(self.norm(self.a(x, edge_index), batch).relu(), edge_index)


def test_nodes_of_a_batch_are_copied_with_their_graphs():
    torch.manual_seed(1)
    model, batch = Normed().double().eval(), (torch.arange(len(X)) >= 12).long()
    edges = EDGES[:, batch[EDGES[0]] == batch[EDGES[1]]]
    target = gf.Target(model, X, edges, NODE, batch=batch)
    part = target.computation_graph
    eps = drops(target)
    for value, sample in zip(target.evaluate(weight=part.weight - eps), eps, strict=True):
        keep = torch.ones(edges.size(1), dtype=torch.bool)
        keep[part.edge_id[(sample > 0) & (part.edge_id >= 0)]] = False
        torch.testing.assert_close(value, model(X, edges[:, keep], batch)[NODE, target.label].detach())
    assert list(target.record.copies.values()) == [True]


class Seven(nn.Module):
    """Seven numbers of the whole graph, which belong to no node, pair or graph."""

    def __init__(self):
        super().__init__()
        self.a = pyg.SAGEConv(5, 7)

    def forward(self, x, edge_index):
        return self.a(x, edge_index).tanh().mean(dim=0).unsqueeze(1)


def test_rows_that_belong_to_nothing_are_run_one_by_one():
    torch.manual_seed(1)
    target = gf.Target(Seven().double().eval(), X, EDGES, None, mode="regression")
    assert target.route == "removal"
    eps = drops(target, 4)
    for value, sample in zip(target.evaluate(weight=target.computation_graph.weight - eps), eps, strict=True):
        keep = torch.ones(EDGES.size(1), dtype=torch.bool)
        keep[target.computation_graph.edge_id[(sample > 0) & (target.computation_graph.edge_id >= 0)]] = False
        torch.testing.assert_close(value, target.model(X, EDGES[:, keep]).sum().detach())


class NeedsEdges(Net):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index) * (edge_index.max() >= 0)


def test_a_model_that_needs_edges_says_so():
    torch.manual_seed(1)
    target = gf.Target(NeedsEdges(pyg.SAGEConv).double().eval(), X, EDGES, NODE)
    with pytest.raises(gf.ModelError, match=r'without some of its edges: .*edges="mask"'):
        target.evaluate(weight=torch.zeros(2, target.computation_graph.num_edges))


def test_a_clipped_entry_of_a_soft_mask_is_silent_and_not_gone():
    model = model_of("SAGE mean")
    target, by_mask = gf.Target(model, X, EDGES, NODE), gf.Target(model, X, EDGES, NODE, edges="mask")
    part = target.computation_graph
    mask = torch.rand(part.num_edges, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    sample = gf.UniformEdges(0.5).sample(part, 20)
    torch.testing.assert_close(
        SubgraphModel(target, None, mask).outputs(sample), SubgraphModel(by_mask, None, mask).outputs(sample)
    )


@pytest.mark.parametrize("name", ["GAT", "SAGE mean"])
def test_many_nodes_together_see_the_same_graphs(name):
    explainer = gf.explainer_for(model_of(name), Data(x=X, edge_index=EDGES), method="kec", neighborhood="B(A,0.4)")
    together = list(gf.explain_nodes(explainer, X, EDGES, progress=False, together=True))
    for node in (0, 3, 11):
        alone = explainer(X, EDGES, index=node)
        torch.testing.assert_close(together[node].edge_mask, alone.edge_mask, rtol=1e-6, atol=1e-8)


class Ends(nn.Module):
    """A row for each edge of the graph."""

    def __init__(self):
        super().__init__()
        self.a = pyg.SAGEConv(5, 4)

    def forward(self, x, edge_index):
        h = self.a(x, edge_index)
        return (h[edge_index[0]] * h[edge_index[1]]).sum(-1)


def test_a_row_that_belongs_to_an_edge_needs_the_edge():
    torch.manual_seed(1)
    model = Ends().double().eval()
    assert gf.Target(model, X, EDGES, 5, level="edge", mode="regression").route == "mask"
    with pytest.raises(gf.ModelError, match='edges="mask"'):
        gf.Target(model, X, EDGES, 5, level="edge", mode="regression", edges="removal")


def test_chunks_and_single_samples_agree():
    target = gf.Target(model_of("GAT"), X, EDGES, NODE)
    near = gf.BernoulliEdges(0.2)
    part = target.computation_graph
    whole = target.changes(near.sample(part, 30, 4))
    chunks = torch.cat([target.changes(chunk) for chunk in near.chunks(part, 30, 4, size=1)])
    torch.testing.assert_close(whole, chunks)


@pytest.mark.parametrize(("edges", "words"), [("auto", "and removed if"), ("mask", "and still counted if")])
def test_explanations_say_how_edges_were_read(edges, words):
    data = Data(x=X, edge_index=EDGES)
    explanation = gf.explain(model_of("SAGE mean"), data, NODE, neighborhood="B(A,0.5)", samples=60, edges=edges)
    assert explanation.edge_route == ("removal" if edges == "auto" else "mask")
    console = Console(record=True, width=120, file=io.StringIO())
    print_explanation(console, explanation, "toy", 3)
    assert words in console.export_text()
