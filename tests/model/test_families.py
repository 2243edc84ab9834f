"""Every family of models: F on the computation graph is F on the whole graph, however A is perturbed."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.explain import Explainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

import graphfaith as gf
from graphfaith.model.target import Target

FEATURES, CLASSES, NODES = 4, 3, 14


class Stack(nn.Module):
    """Layers one after another; ``weighted`` ones take edge_weight, ``attributed`` ones edge_attr."""

    def __init__(self, *layers, weighted=False, attributed=False, between=None):
        super().__init__()
        self.layers, self.between = nn.ModuleList(layers), between or nn.Tanh()
        self.weighted, self.attributed = weighted, attributed
        self.supports_edge_weight = weighted

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        given = {"edge_weight": edge_weight} if self.weighted else {}
        if self.attributed:
            given["edge_attr"] = edge_attr
        for i, layer in enumerate(self.layers):
            x = layer(self.between(x) if i else x, edge_index, **given)
        return x


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.first, self.second = nn.Linear(FEATURES, 6), pyg.GCNConv(6, 6), pyg.GCNConv(6, 6)
        self.norm, self.out = nn.BatchNorm1d(6), nn.Linear(6, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        x = self.into(x)
        x = x + self.norm(self.first(x, edge_index, edge_weight)).relu()
        x = x + nn.functional.dropout(self.second(x, edge_index, edge_weight), 0.5, self.training)
        return self.out(x)


class Custom(pyg.MessagePassing):
    """A layer of one's own: messages divided by the out-degree of the sender, so that degrees are not PyG's."""

    def __init__(self, fan_in, fan_out):
        super().__init__(aggr="add")
        self.lin = nn.Linear(2 * fan_in, fan_out)

    def forward(self, x, edge_index):
        degree = torch.zeros(len(x), dtype=x.dtype).index_add(
            0, edge_index[0], torch.ones_like(edge_index[0], dtype=x.dtype)
        )
        return self.lin(torch.cat([x, self.propagate(edge_index, x=x, degree=degree.view(-1, 1))], dim=1))

    def message(self, x_j, degree_j):
        return x_j / degree_j


class Propagated(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.prop = nn.Linear(FEATURES, CLASSES), pyg.APPNP(3, 0.2)

    def forward(self, x, edge_index, edge_weight=None):
        return self.prop(self.lin(x), edge_index, edge_weight)


def two(layer, width=1, **options):
    def make(**weighing):
        return Stack(layer(FEATURES, 5), layer(5 * width, CLASSES), **options, **weighing)

    return make


def mlp(a, b):
    return nn.Sequential(nn.Linear(a, 6), nn.Tanh(), nn.Linear(6, b))


def pna(a, b):
    return pyg.PNAConv(
        a, b, ["mean", "max", "std"], ["identity", "amplification"], torch.tensor([1, 3, 5, 3, 1]), edge_dim=2
    )


PLAIN = {
    "GCN": two(pyg.GCNConv, weighted=True),
    "GCN-improved": two(lambda a, b: pyg.GCNConv(a, b, improved=True), weighted=True),
    "GCN-without-loops": two(lambda a, b: pyg.GCNConv(a, b, add_self_loops=False), weighted=True),
    "GAT": two(pyg.GATConv),
    "GAT-heads": lambda: Stack(pyg.GATConv(FEATURES, 3, heads=2), pyg.GATConv(6, CLASSES, heads=2, concat=False)),
    "GATv2": two(pyg.GATv2Conv),
    "SAGE": two(pyg.SAGEConv),
    "SAGE-max": two(lambda a, b: pyg.SAGEConv(a, b, aggr="max")),
    "GIN": two(lambda a, b: pyg.GINConv(mlp(a, b))),
    "GraphConv": two(pyg.GraphConv, weighted=True),
    "APPNP": Propagated,
    "SGConv": lambda: Stack(pyg.SGConv(FEATURES, CLASSES, K=2), weighted=True),
    "TAGConv": lambda: Stack(pyg.TAGConv(FEATURES, CLASSES, K=2), weighted=True),
    "ChebConv": lambda: Stack(pyg.ChebConv(FEATURES, CLASSES, K=3), weighted=True),
    "TransformerConv": two(pyg.TransformerConv),
    "JK-cat": lambda: pyg.GCN(FEATURES, 5, 2, CLASSES, jk="cat"),
    "JK-lstm": lambda: pyg.GCN(FEATURES, 6, 2, CLASSES, jk="lstm"),
    "BatchNorm": lambda: pyg.GraphSAGE(FEATURES, 5, 2, CLASSES, norm="batch", dropout=0.5),
    "residual": Residual,
    "custom": two(Custom),
    "mixed": lambda: Stack(pyg.GATConv(FEATURES, 5), pyg.SAGEConv(5, CLASSES)),
}
ATTRIBUTED = {
    "PNA": two(pna, attributed=True),
    "GINE": two(lambda a, b: pyg.GINEConv(mlp(a, b), edge_dim=2), attributed=True),
    "GAT-edge": two(lambda a, b: pyg.GATConv(a, b, edge_dim=2), attributed=True),
    "GATv2-edge": two(lambda a, b: pyg.GATv2Conv(a, b, edge_dim=2), attributed=True),
    "TransformerConv-edge": two(lambda a, b: pyg.TransformerConv(a, b, edge_dim=2), attributed=True),
    "NNConv": two(lambda a, b: pyg.NNConv(a, b, mlp(2, a * b)), attributed=True),
}
FAMILIES = {**PLAIN, **ATTRIBUTED}
BY_WEIGHT = (
    *("GCN", "GCN-improved", "GCN-without-loops", "GraphConv", "APPNP", "SGConv", "TAGConv", "ChebConv"),
    *("JK-cat", "JK-lstm", "residual"),
)


def make(name):
    torch.manual_seed(0)
    model = FAMILIES[name]().double().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    return model


def some_graph(directed, loops=False):
    generator = torch.Generator().manual_seed(3)
    edges = torch.randint(0, NODES, (2, 22), generator=generator)
    edges = edges[:, edges[0] != edges[1]].unique(dim=1)
    if not directed:
        edges = torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)
    if loops:
        edges = torch.cat([torch.tensor([[2, 5], [2, 5]]), edges], dim=1)
    x = torch.randn(NODES, FEATURES, generator=generator, dtype=torch.float64)
    return x, edges, torch.randn(edges.size(1), 2, generator=generator, dtype=torch.float64)


def inputs_of(name, attributes):
    return {"edge_attr": attributes} if name in ATTRIBUTED else {}


def on_the_whole_graph(target, model, x, edges, attributes, weight, name, moved_x):
    """F with the entries of A that a sample has, by the model on all nodes and edges."""
    part, nodes = target.computation_graph, torch.arange(NODES)
    plain = edges[0] != edges[1]
    given = torch.zeros(NODES, dtype=torch.bool)
    given[edges[0][~plain]] = True
    looped = nodes if target.adds_loops else nodes[given]
    whole = torch.cat([edges[:, plain], looped.expand(2, -1)], dim=1)
    entries = torch.ones(whole.size(1), dtype=torch.float64)
    fill = target.call.loop_weight or 1.0
    entries[int(plain.sum()) :] = torch.where(given[looped], 1.0, fill)
    place = torch.full((edges.size(1),), -1)
    place[plain] = torch.arange(int(plain.sum()))
    for i in range(part.num_edges):
        if not part.felt[i]:
            continue
        if i < part.num_plain:
            entries[place[part.edge_id[i]]] = weight[i]
        else:
            entries[int(plain.sum()) + (looped == part.nodes[i - part.num_plain]).nonzero().item()] = weight[i]
    full_x = x.clone()
    full_x[part.nodes[: part.num_visible]] = moved_x[: part.num_visible]
    kwargs = {}
    if name in ATTRIBUTED:
        loop_values = torch.zeros(len(looped), 2, dtype=torch.float64)
        for row, node in enumerate(looped.tolist()):
            if given[node]:
                loop_values[row] = attributes[((edges[0] == node) & ~plain).nonzero().item()]
        kwargs["edge_attr"] = torch.cat([attributes[plain], loop_values])
    with torch.no_grad():
        if target.route == "weight":
            return model(full_x, whole, edge_weight=entries, **kwargs)[target.readout.rows, target.label].sum()
        set_masks(model, entries, whole, apply_sigmoid=False)
        out = model(full_x, whole, **kwargs)[target.readout.rows, target.label].sum()
        clear_masks(model)
        return out


@pytest.mark.parametrize(
    ("directed", "loops"),
    [
        pytest.param(False, False, id="undirected-no-loops"),
        pytest.param(True, True, id="directed-loops"),
        pytest.param(True, False, id="directed-no-loops", marks=pytest.mark.nightly),
        pytest.param(False, True, id="undirected-loops", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("name", FAMILIES)
def test_subgraph_and_batch_are_the_whole_graph(name, directed, loops):
    model, (x, edges, attributes) = make(name), some_graph(directed, loops)
    expected = model(x, edges, **inputs_of(name, attributes)).detach()
    for node in (0, 5, 9):
        target = Target(model, x, edges, node, label=1, **inputs_of(name, attributes))
        assert target.value == pytest.approx(float(expected[node, 1]), abs=1e-10)
        assert target.route == ("weight" if name in BY_WEIGHT else "removal")
        sample = gf.parse_neighborhood("U(X,0.3r)xU(A,0.5)").sample(target.computation_graph, 4, seed=node)
        found = target.evaluate(sample.x, sample.weight)
        one_by_one = [float(target.evaluate(a, b)) for a, b in zip(sample.x, sample.weight, strict=True)]
        whole = [
            float(on_the_whole_graph(target, model, x, edges, attributes, b, name, a))
            for a, b in zip(sample.x, sample.weight, strict=True)
        ]
        torch.testing.assert_close(found, torch.tensor(one_by_one, dtype=torch.float64), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(found, torch.tensor(whole, dtype=torch.float64), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_reach_is_what_is_counted(name):
    """Nothing outside the computation graph matters, and something in its last hop does (or a warning would come)."""
    model, (x, edges, attributes) = make(name), some_graph(directed=True)
    for node in range(NODES):
        Target(model, x, edges, node, **inputs_of(name, attributes))


@pytest.mark.parametrize("name", ["KEC", "Linear", "Saliency", "IG", "GNNExplainer", "PGExplainer"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_method_explains_every_family(family, name):
    methods = {
        "KEC": gf.KEC("U(A,0.5)", num_samples=20, normalization="auto"),
        "Linear": gf.Linear("U(A,0.5)", num_samples=20),
        "Saliency": gf.Saliency(),
        "IG": gf.IntegratedGradients(steps=5),
        "GNNExplainer": gf.GNNExplainer(epochs=2),
        "PGExplainer": gf.PGExplainer(epochs=1),
    }
    model, (x, edges, attributes) = make(family), some_graph(directed=False)
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = Explainer(model, methods[name], "model", config, "attributes", "object")
    explanation = explainer(x, edges, index=5, **inputs_of(family, attributes))
    assert torch.isfinite(explanation.node_mask).all()
    assert explanation.edge_mask.abs().max() > 0
    score = gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", num_samples=20)
    assert 0 <= score.value < float("inf")


@pytest.mark.parametrize("name", ["GCN", "GraphConv", "APPNP", "TAGConv"])
def test_the_route_can_be_forced(name):
    model, (x, edges, _) = make(name), some_graph(directed=False)
    given = torch.linspace(0.5, 1.5, edges.size(1)).double()
    by_weight = Target(model, x, edges, 5, label=0, edge_weight=given, edges="weight")
    by_mask = Target(model, x, edges, 5, label=0, edge_weight=given, edges="mask")
    assert (by_weight.route, by_mask.route) == ("weight", "mask")
    assert by_mask.value == pytest.approx(by_weight.value, abs=1e-12)
    # A mask stands beside the weights, which stay: entries of A are 1 there, and the given weights here.
    assert set(by_mask.computation_graph.weight.tolist()) == {1.0}
    places = by_weight.computation_graph.edge_id[: by_weight.computation_graph.num_plain]
    assert torch.equal(by_weight.computation_graph.weight[: len(places)], given[places])
    halves = by_mask.computation_graph.weight.clone()
    halves[0] = 0.5
    with torch.no_grad():
        mask = torch.ones(edges.size(1)).double()
        mask[by_mask.computation_graph.edge_id[0]] = 0.5
        set_masks(model, mask, edges, apply_sigmoid=False)
        expected = model(x, edges, edge_weight=given)[5, 0]
        clear_masks(model)
    assert float(by_mask.evaluate(weight=halves)) == pytest.approx(float(expected), abs=1e-12)


def test_a_route_that_is_not_there():
    model, (x, edges, _) = make("GAT"), some_graph(directed=False)
    with pytest.raises(gf.ModelError, match='edges="auto"'):
        Target(model, x, edges, 5, edges="weight")
    with pytest.raises(gf.InputError, match="auto, weight, removal, mask"):
        Target(model, x, edges, 5, edges="both")
    with pytest.raises(gf.InputError, match="auto, weight, removal, mask"):
        gf.Saliency(edges="both")


class Parallel(nn.Module):
    """Two layers side by side: counted twice, but a reach of one hop."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, CLASSES), pyg.GCNConv(FEATURES, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        return self.first(x, edge_index, edge_weight) + self.second(x, edge_index, edge_weight)


class Again(nn.Module):
    """One layer used three times: counted once, but a reach of three hops."""

    def __init__(self):
        super().__init__()
        self.layer = pyg.GCNConv(FEATURES, FEATURES)

    def forward(self, x, edge_index, edge_weight=None):
        for _ in range(3):
            x = self.layer(x, edge_index, edge_weight).tanh()
        return x


def test_a_reach_that_is_too_long_is_said_once():
    torch.manual_seed(0)
    model, (x, edges, _) = Parallel().double(), some_graph(directed=False)
    with pytest.warns(gf.ReachWarning, match="go 1 hops, not 2: pass num_hops=1"):
        Target(model, x, edges, 5)
    Target(model, x, edges, 5)
    Target(model, x, edges, 5, num_hops=1)


def test_a_reach_that_is_too_short_is_said():
    torch.manual_seed(0)
    edges = torch.stack([torch.arange(1, NODES), torch.arange(NODES - 1)])
    model, (x, _, _) = Again().double(), some_graph(directed=False)
    for features in (x, torch.ones_like(x), torch.zeros_like(x)):  # where all are the same, F alone shows nothing
        model = Again().double()
        with pytest.raises(gf.ModelError, match=r"further than 1 hops.*Pass num_hops=3$"):
            Target(model, features, edges, 5)
        assert Target(model, features, edges, 5, num_hops=3).computation_graph.num_visible == 4


def test_heterogeneous_models_want_dictionaries(caplog):
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    metadata = (["a"], [("a", "to", "a")])
    x, edges = {"a": torch.rand(3, 2)}, {("a", "to", "a"): torch.tensor([[0, 1], [1, 2]])}

    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = pyg.SAGEConv((-1, -1), 3)

        def forward(self, x, edge_index):
            return self.layer(x, edge_index)

    models = {
        "HeteroConv": pyg.HeteroConv({("a", "to", "a"): pyg.SAGEConv((-1, -1), 3)}),
        "HGTConv": pyg.HGTConv(2, 4, metadata),
        "to_hetero": pyg.to_hetero(Plain(), metadata),
    }
    plain, ends = x["a"], edges["a", "to", "a"]
    for part, model in models.items():
        explainer = Explainer(model, gf.KEC("U(A,0.5)"), "phenomenon", config, "attributes", "object")
        assert explainer.algorithm.supports(model)
        assert explainer.algorithm.supports(model, x, edges)
        caplog.clear()
        assert not explainer.algorithm.supports(model, plain, ends)
        assert part in caplog.text
        assert "several node or edge types" in caplog.text
        assert not explainer.algorithm.supports(x=x, edge_index=ends)
        with pytest.raises(gf.UnsupportedError, match="several node or edge types"):
            explainer(plain, ends, target=torch.zeros(3, dtype=torch.long), index=0)
