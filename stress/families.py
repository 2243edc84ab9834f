"""The models that are explained: stacks of most layers of PyG, for nodes, edges and graphs, and some that misbehave."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

Layer = Callable[[int, int], nn.Module]


def _gin(inside: int, outside: int) -> nn.Module:
    return pyg.GINConv(nn.Sequential(nn.Linear(inside, outside), nn.ReLU(), nn.Linear(outside, outside)))


def _edge_layer(inside: int, outside: int) -> nn.Module:
    return pyg.EdgeConv(nn.Sequential(nn.Linear(2 * inside, outside), nn.ReLU()))


def _pna(inside: int, outside: int) -> nn.Module:
    return pyg.PNAConv(inside, outside, ["mean", "max", "std"], ["identity", "amplification"], torch.ones(8).long())


class _Propagation(nn.Module):
    """A linear layer and two steps of APPNP."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.linear, self.propagate = nn.Linear(inside, outside), pyg.APPNP(2, 0.1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.propagate(self.linear(x), edge_index, edge_weight)


# Layers whose forward takes edge weights, and layers whose messages can only be masked.
WEIGHTED: dict[str, Layer] = {
    "GCN": pyg.GCNConv,
    "Cheb": lambda a, b: pyg.ChebConv(a, b, K=2),
    "TAG": lambda a, b: pyg.TAGConv(a, b, K=2),
    "SG": lambda a, b: pyg.SGConv(a, b, K=2),
    "ARMA": pyg.ARMAConv,
    "Graph": pyg.GraphConv,
    "Graph mean": lambda a, b: pyg.GraphConv(a, b, aggr="mean"),
    "LE": pyg.LEConv,
    "SSG": lambda a, b: pyg.SSGConv(a, b, alpha=0.1, K=2),
    "APPNP": _Propagation,
}
PLAIN: dict[str, Layer] = {
    "GAT": lambda a, b: pyg.GATConv(a, b, heads=2, concat=False),
    "GATv2": pyg.GATv2Conv,
    "SAGE": pyg.SAGEConv,
    "SAGE max": lambda a, b: pyg.SAGEConv(a, b, aggr="max"),
    "GIN": _gin,
    "Transformer": pyg.TransformerConv,
    "ResGated": pyg.ResGatedGraphConv,
    "Edge": _edge_layer,
    "PNA": _pna,
    "Cluster": pyg.ClusterGCNConv,
}
FAMILIES = (*WEIGHTED, *PLAIN)

# What a model does to its output: nothing, or something that may be infinite, not a number, constant or an exception.
ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda out: out,
    "log": torch.log,
    "exp": lambda out: torch.exp(1e3 * out),
    "nan": lambda out: torch.where(out > 0, out, torch.nan),
    "root": lambda out: (out - out.detach()).abs().sqrt() + out,
    "constant": torch.zeros_like,
    "integer": lambda out: (10 * out).long(),
    "raise": lambda out: out if float(out.detach().sum()) < 0.5 else _refuse(),
}


def _refuse() -> Tensor:
    raise ArithmeticError("this model raises\nan error of two lines")


class Model(nn.Module):
    """A stack of layers, with what makes it odd; the subclasses have the signatures that the levels need."""

    def __init__(
        self, family: str, inside: int, outside: int, layers: int, *, dropout: float = 0.0, norm: bool = False
    ) -> None:
        super().__init__()
        make, hidden = (WEIGHTED | PLAIN)[family], 6
        widths = [inside, *[hidden] * (layers - 1), outside]
        self.layers = nn.ModuleList(make(a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(b) if norm else nn.Identity() for b in widths[1:-1])
        self.drop, self.family, self.end, self.returns = nn.Dropout(dropout), family, "", "raw"

    def encode(self, x: Tensor, edge_index: Tensor, *weights: Tensor | None) -> Tensor:
        """Return a row for each node."""
        for layer, norm in zip(self.layers, self.norms, strict=False):
            x = self.drop(norm(layer(x, edge_index, *weights)).relu())
        return self.layers[-1](x, edge_index, *weights)

    def finish(self, out: Tensor) -> Tensor:
        """Return the output in the form that the model promises, after its odd end."""
        out = ENDS[self.end](out)
        if self.returns == "probs":
            return out.softmax(-1) if out.size(-1) > 1 else out.sigmoid()
        return out.log_softmax(-1) if self.returns == "log_probs" else out


class NodeModel(Model):
    """One row a node, without edge weights."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.finish(self.encode(x, edge_index))


class WeightedNodeModel(Model):
    """One row a node, with edge weights."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.finish(self.encode(x, edge_index, edge_weight))


class GraphModel(Model):
    """One row a graph, without edge weights."""

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        return self.finish(pyg.global_mean_pool(self.encode(x, edge_index), batch))


class WeightedGraphModel(Model):
    """One row a graph, with edge weights."""

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, batch: Tensor | None = None
    ) -> Tensor:
        return self.finish(pyg.global_add_pool(self.encode(x, edge_index, edge_weight), batch))


class EdgeModel(Model):
    """One row a pair of nodes, without edge weights."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
        h = self.encode(x, edge_index)
        return self.finish(h[edge_label_index[0]] * h[edge_label_index[1]])


class WeightedEdgeModel(Model):
    """One row a pair of nodes, with edge weights."""

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        h = self.encode(x, edge_index, edge_weight)
        return self.finish(h[edge_label_index[0]] * h[edge_label_index[1]])


MODELS: dict[tuple[str, bool], type[Model]] = {
    ("node", False): NodeModel,
    ("node", True): WeightedNodeModel,
    ("graph", False): GraphModel,
    ("graph", True): WeightedGraphModel,
    ("edge", False): EdgeModel,
    ("edge", True): WeightedEdgeModel,
}


def make_model(family: str, level: str, inside: int, outside: int, layers: int, seed: int, **odd: float) -> Model:
    """Return a model with random weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = MODELS[level, family in WEIGHTED](family, inside, outside, layers, **odd)
        with torch.no_grad():  # Biases of 0 would hide that features do not matter.
            for name, values in model.named_parameters():
                if name.endswith("bias"):
                    values.uniform_(-0.5, 0.5)
    return model.eval()
