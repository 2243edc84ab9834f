"""Kinds of models as people write them, each with what has to come out: the right numbers, or a refusal and its reason.

Models of this list are small and untrained. What differs is what a computation on a part of the graph, or on many
perturbed graphs at once, can get wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.utils import degree

NODES, FEATURES, HIDDEN, CLASSES = 160, 6, 8, 3
SWITCH = SimpleNamespace(reads=True)  # a flag outside of any model
READS = True


@dataclass(frozen=True)
class Kind:
    """A kind of model: how it is made, which graph it is for, and the reason of a refusal that is right.

    ``graph`` is "plain", "weighted", "loops" (some nodes have one), "duplicates", "directed", "sorted" (by receivers)
    or "alone" (a node without neighbours is explained before the other). ``options`` are those of a target, and
    ``toggle`` is what the user does to the model after a first explanation.
    """

    name: str
    make: Callable[[], nn.Module]
    graph: str = "plain"
    refused: str | None = None  # a regular expression; None if it must not be refused
    options: dict[str, Any] = field(default_factory=dict)
    toggle: Callable[[nn.Module], None] | None = None


class Two(nn.Module):
    """Two layers, and whatever is between them."""

    def __init__(self, layer=pyg.GCNConv, between=None, width=FEATURES, **options):
        super().__init__()
        self.first, self.second = layer(width, HIDDEN, **options), layer(HIDDEN, CLASSES, **options)
        self.inner = between or nn.ReLU()

    def between(self, h):
        return self.inner(h)

    def weights(self, edge_weight, *_):
        return edge_weight

    def forward(self, x, edge_index, edge_weight=None):
        w = self.weights(edge_weight, edge_index, x)
        return self.second(self.between(self.first(x, edge_index, w)), edge_index, w)


class Masked(nn.Module):
    """Two layers that take no weights, so that A multiplies their messages."""

    def __init__(self, layer, **options):
        super().__init__()
        self.first, self.second = layer(FEATURES, HIDDEN, **options), layer(HIDDEN, CLASSES, **options)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def perceptrons(width, out):
    """A layer of GIN."""
    return pyg.GINConv(nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, out)))


def principal(width, out):
    """A layer of PNA, for nodes of up to seven neighbours."""
    return pyg.PNAConv(width, out, ["mean", "max", "std"], ["identity", "amplification"], torch.arange(8))


def edges_of(width, out):
    """A layer that reads differences of neighbours."""
    return pyg.EdgeConv(nn.Sequential(nn.Linear(2 * width, out), nn.Tanh()), aggr="add")


# Weights of all edges ------------------------------------------------------------------------------------------------


class AllWeights(Two):
    """Weights that depend on those of all edges."""

    def __init__(self, how, layer=pyg.GraphConv, **options):
        super().__init__(layer, **options)
        self.how = how

    def weights(self, edge_weight, edge_index, x):
        w = x.new_ones(edge_index.size(1)) if edge_weight is None else edge_weight
        return {
            "mean": lambda: w / w.mean().clamp(min=1e-6),
            "largest": lambda: w / w.max().clamp(min=1e-6),
            "softmax": lambda: torch.softmax(w, 0) * len(w),
            "minus mean": lambda: w - w.mean(),
            "above mean": lambda: w * (w >= w.mean()),
            "ranks": lambda: w.argsort().argsort().to(w.dtype) / len(w) * w,
            "norm": lambda: w / w.norm().clamp(min=1e-6) * 10,
            "branch": lambda: w if w.mean() > 0.9 else w.square(),
            "branch at 0": lambda: w / 2 if bool((w == 0).any()) else w,
            "branch on features": lambda: w / 2 if bool((x < -5).any()) else w,
        }[self.how]()


# Features of all nodes -----------------------------------------------------------------------------------------------


class Between(Two):
    """Something between the layers that is no module."""

    def __init__(self, how, **options):
        super().__init__(**options)
        self.how = how

    def between(self, h):
        return self.how(h.relu())


def clip_norm(most):
    """Activations of at most this norm, all together."""
    return lambda h: h * (most / h.norm().clamp(min=most))


class NormOfTheBatch(Two):
    """The batch norm of a model that forgot about eval mode."""

    def between(self, h):
        return nn.functional.batch_norm(h, None, None, training=True).relu()


class Table(Two):
    """Features that belong to nodes, whole or by their places."""

    def __init__(self, by_place):
        super().__init__(width=FEATURES + 2)
        self.table, self.by_place = nn.Embedding(NODES, 2), by_place

    def forward(self, x, edge_index, edge_weight=None):
        rows = self.table(torch.arange(x.size(-2))) if self.by_place else self.table.weight
        return super().forward(torch.cat([x, rows], dim=-1), edge_index, edge_weight)


class VirtualNode(Two):
    """A node that hears all others and is heard by all."""

    def between(self, h):
        return (h + h.mean(dim=-2, keepdim=True)).relu()


# Branches ------------------------------------------------------------------------------------------------------------


class Branch(Two):
    """What is done with activations depends on their sum."""

    def between(self, h):
        return torch.relu(h) if h.sum() > 0 else torch.tanh(h)


class BranchOfANode(Two):
    """The first node decides."""

    def forward(self, x, edge_index, edge_weight=None):
        out = super().forward(x, edge_index, edge_weight)
        return out if x[0, 0] > 0 else -out


class BranchBySize(Two):
    """A small graph is computed otherwise."""

    def between(self, h):
        return h.relu() if h.size(-2) > 100 else h.tanh()


class BranchOfEach(Two):
    """Every number has its own branch."""

    def between(self, h):
        return torch.where(h > 0.1, h, 0.2 * h.sin())


class ByEdges(Two):
    """A factor that counts the edges of the graph."""

    def forward(self, x, edge_index, edge_weight=None):
        return super().forward(x, edge_index, edge_weight) * edge_index.size(1) / 500


class LargestDegree(Masked):
    """Activations are multiplied by the largest number of neighbours that any node has."""

    def forward(self, x, edge_index):
        largest = torch.bincount(edge_index[1], minlength=len(x)).max()
        return self.second(self.first(x, edge_index).relu() * largest / 5, edge_index)


# Reach ---------------------------------------------------------------------------------------------------------------


class Again(nn.Module):
    """One layer, used three times."""

    def __init__(self):
        super().__init__()
        self.first, self.layer = nn.Linear(FEATURES, HIDDEN), pyg.GCNConv(HIDDEN, HIDDEN)
        self.last = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        h = self.first(x)
        for _ in range(3):
            h = self.layer(h, edge_index, edge_weight).tanh()
        return self.last(h)


class SideBySide(Two):
    """Two layers that both read the features."""

    def __init__(self):
        super().__init__()
        self.second = pyg.GCNConv(FEATURES, HIDDEN)
        self.last = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        return self.last((self.first(x, edge_index, edge_weight) + self.second(x, edge_index, edge_weight)).relu())


class Jumping(nn.Module):
    """All layers are read, not the last one alone."""

    def __init__(self):
        super().__init__()
        self.layers = pyg.GCN(FEATURES, HIDDEN, 2, CLASSES, jk="cat")

    def forward(self, x, edge_index, edge_weight=None):
        return self.layers(x, edge_index, edge_weight).log_softmax(dim=-1)


class Rounds(nn.Module):
    """A perceptron, and what K rounds of propagation make of it."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.layer = nn.Linear(FEATURES, CLASSES), layer

    def forward(self, x, edge_index, edge_weight=None):
        return self.layer(self.first(x), edge_index, edge_weight)


# Weights that are not what they seem ---------------------------------------------------------------------------------


class FirstLayerOnly(Two):
    """The second layer is not given the weights."""

    def forward(self, x, edge_index, edge_weight=None):
        return self.second(self.first(x, edge_index, edge_weight).relu(), edge_index)


class Backwards(Two):
    """The second layer sends messages the other way."""

    def forward(self, x, edge_index, edge_weight=None):
        return self.second(self.first(x, edge_index, edge_weight).relu(), edge_index.flip(0), edge_weight)


class OwnWeights(Two):
    """Weights from features, if none are given or always."""

    def __init__(self, always):
        super().__init__()
        self.always = always

    def weights(self, edge_weight, edge_index, x):
        if edge_weight is not None and not self.always:
            return edge_weight
        return torch.sigmoid((x[edge_index[0]] * x[edge_index[1]]).sum(dim=-1))


class NoneIsNotOne(Two):
    """Weights of 1 are not the same to it as none."""

    def forward(self, x, edge_index, edge_weight=None):
        out = super().forward(x, edge_index, edge_weight)
        return out if edge_weight is None else 2 * out


class RootWeights(Two):
    """Weights whose roots are taken."""

    def weights(self, edge_weight, *_):
        return None if edge_weight is None else edge_weight.sqrt()


class Degrees(Two):
    """Features times the number of edges that leave a node."""

    def forward(self, x, edge_index, edge_weight=None):
        leaving = degree(edge_index[0], x.size(-2), dtype=x.dtype).unsqueeze(-1)
        return super().forward(x * leaving, edge_index, edge_weight)


# Models that are no functions ----------------------------------------------------------------------------------------


class Dropped(Two):
    """A dropout that is never switched off."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def between(self, h):
        return nn.functional.dropout(h.relu(), self.share)


class Noise(Two):
    """Noise that is drawn always and added in training."""

    def between(self, h):
        noise = torch.randn_like(h)
        return (h + noise).relu() if self.training else h.relu()


class SomeEdges(Two):
    """Nine edges of ten, others in each call."""

    def forward(self, x, edge_index, edge_weight=None):
        kept = torch.randperm(edge_index.size(1))[: edge_index.size(1) * 9 // 10]
        w = None if edge_weight is None else edge_weight[kept]
        return super().forward(x, edge_index[:, kept], w)


class Average(Two):
    """A running mean that goes on in eval mode."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(HIDDEN))

    def between(self, h):
        self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(dim=0)
        return (h - self.mean).relu()


class KeptDegrees(Two):
    """In-degrees of the first graph it saw, for all that follow."""

    def __init__(self):
        super().__init__(pyg.GraphConv)
        self.degrees = None

    def forward(self, x, edge_index, edge_weight=None):
        w = x.new_ones(edge_index.size(1)) if edge_weight is None else edge_weight
        if self.degrees is None:
            self.degrees = x.new_zeros(x.size(0)).index_add(0, edge_index[1], w.detach()).clamp(min=1)
        h = self.first(x, edge_index, w) / self.degrees.unsqueeze(-1)
        return self.second(h.relu(), edge_index, w)


class Remembering(Two):
    """Keeps what it computed for people to look at, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.hidden, self.calls = None, 0

    def between(self, h):
        self.hidden, self.calls = h, self.calls + 1
        return h.relu()


class Counted(Two):
    """Computes something else from its fourth call on."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, edge_index, edge_weight=None):
        self.calls += 1
        return super().forward(x, edge_index, edge_weight) * (1.1 if self.calls > 3 else 1.0)


# Flags ---------------------------------------------------------------------------------------------------------------


class Flagged(Two):
    """Reads weights as long as a flag says so; there is one in every place where a flag can be."""

    in_class = True

    def __init__(self, where):
        super().__init__()
        self.where, self.own = where, True
        self.options, self.config = {"reads": True}, SimpleNamespace(reads=True)
        reads = True

        def ask():
            return reads

        def forget():
            nonlocal reads
            reads = False

        self.ask, self.forget = ask, forget

    def weights(self, edge_weight, *_):
        reads = {
            "attribute": self.own,
            "dictionary": self.options["reads"],
            "object": self.config.reads,
            "class": self.in_class,
            "global": READS,
            "outer object": SWITCH.reads,
            "closure": self.ask(),
        }[self.where]
        return edge_weight if reads else None


def _toggle(model):
    """Switch off the flag that the model reads."""
    global READS
    if model.where == "attribute":
        model.own = False
    elif model.where == "dictionary":
        model.options["reads"] = False
    elif model.where == "object":
        model.config.reads = False
    elif model.where == "class":
        type(model).in_class = False
    elif model.where == "global":
        READS = False
    elif model.where == "outer object":
        SWITCH.reads = False
    else:
        model.forget()


def restore_flags():
    """Switch on the flags that models share."""
    global READS
    READS = SWITCH.reads = Flagged.in_class = True


# The list ------------------------------------------------------------------------------------------------------------


class ReadsData(Two):
    """A forward that takes one object."""

    def forward(self, data):
        return super().forward(data.x, data.edge_index)


class DropsEdges(Masked):
    """A layer that is not given every edge."""

    def forward(self, x, edge_index):
        kept = edge_index[:, edge_index[0] != 2]
        return self.second(self.first(x, kept).relu(), kept)


RANDOM = r"draws random numbers in eval mode"
EARLIER = r"keeps {} from one call to the next .*depends on earlier calls"
FURTHER = r"messages of {} go further than {} hops.* Pass num_hops=3$"
NOT_SORTED = r"cannot be run on this graph: .*'index' tensor is not sorted"

NORMS = {
    "GraphNorm": lambda: pyg.GraphNorm(HIDDEN),
    "PairNorm": pyg.PairNorm,
    "LayerNorm over the graph": lambda: pyg.LayerNorm(HIDDEN),
    "LayerNorm of nodes": lambda: pyg.LayerNorm(HIDDEN, mode="node"),
    "torch's LayerNorm": lambda: nn.LayerNorm(HIDDEN),
    "InstanceNorm": lambda: pyg.InstanceNorm(HIDDEN),
    "DiffGroupNorm": lambda: pyg.DiffGroupNorm(HIDDEN, 4),
    "MeanSubtractionNorm": pyg.MeanSubtractionNorm,
    "BatchNorm": lambda: pyg.BatchNorm(HIDDEN),
    "GroupNorm": lambda: nn.GroupNorm(2, HIDDEN),
    "PReLU": lambda: nn.PReLU(HIDDEN),
    "Softmax without a dimension": nn.Softmax,
}


def _list_kinds():
    yield Kind("GCN", Two)
    yield Kind("GCN, improved", lambda: Two(improved=True))
    yield Kind("GCN, improved, weighted", lambda: Two(improved=True), graph="weighted")
    yield Kind("GCN without loops", lambda: Two(add_self_loops=False))
    yield Kind("GCN without a norm", lambda: Two(normalize=False))
    yield Kind("GCN, single precision", lambda: Two().float())
    yield Kind("GCN, cached", lambda: Two(cached=True), refused=r"made with cached=True")
    for graph in ("weighted", "loops", "duplicates", "directed", "alone"):
        yield Kind(f"GCN, graph: {graph}", Two, graph=graph)
        refused = r"takes no edge_weight, but one was given" if graph == "weighted" else None
        yield Kind(f"GAT, graph: {graph}", lambda: Masked(pyg.GATConv), graph=graph, refused=refused)
    yield Kind("GraphConv", lambda: Two(pyg.GraphConv))
    yield Kind("GraphConv, mean", lambda: Two(pyg.GraphConv, aggr="mean"))
    yield Kind("GraphConv, max", lambda: Two(pyg.GraphConv, aggr="max"))
    yield Kind("ChebConv, K=3", lambda: Two(pyg.ChebConv, K=3))
    yield Kind("TAGConv", lambda: Two(pyg.TAGConv, K=2))
    yield Kind("SGConv", lambda: Two(pyg.SGConv, K=2))
    yield Kind("ARMAConv", lambda: Two(pyg.ARMAConv))
    yield Kind("LEConv", lambda: Two(pyg.LEConv))
    yield Kind("SSGConv", lambda: Two(pyg.SSGConv, alpha=0.3, K=2))
    yield Kind("APPNP", lambda: Rounds(pyg.APPNP(3, 0.2)))
    yield Kind("LGConv", lambda: Rounds(pyg.LGConv()))
    yield Kind("GatedGraphConv", lambda: Rounds(pyg.GatedGraphConv(CLASSES, 2)))
    yield Kind("GAT", lambda: Masked(pyg.GATConv))
    yield Kind("GATv2", lambda: Masked(pyg.GATv2Conv))
    yield Kind("TransformerConv", lambda: Masked(pyg.TransformerConv))
    yield Kind("GIN", lambda: Masked(perceptrons))
    yield Kind("PNA", lambda: Masked(principal))
    yield Kind("EdgeConv", lambda: Masked(edges_of))
    yield Kind("ResGatedGraphConv", lambda: Masked(pyg.ResGatedGraphConv))
    yield Kind("ClusterGCN", lambda: Masked(pyg.ClusterGCNConv))
    yield Kind("GENConv", lambda: Masked(pyg.GENConv))
    yield Kind("GCN without weights", lambda: Masked(pyg.GCNConv))
    for aggregation in ("mean", "max", "median", "std", "lstm"):
        refused = NOT_SORTED if aggregation == "lstm" else None
        yield Kind(f"SAGE, {aggregation}", lambda a=aggregation: Masked(pyg.SAGEConv, aggr=a), refused=refused)
    yield Kind("SAGE, lstm, edges sorted", lambda: Masked(pyg.SAGEConv, aggr="lstm"), graph="sorted")
    for name, make in NORMS.items():
        yield Kind(name, lambda make=make: Two(between=make()))
    yield Kind("batch norm of the batch", NormOfTheBatch)
    for how in ("mean", "largest", "softmax", "minus mean", "above mean", "ranks", "norm", "branch"):
        yield Kind(f"weights: {how}", lambda how=how: AllWeights(how))
    for how in ("branch at 0", "branch on features"):
        yield Kind(f"weights: {how}, in a GCN", lambda how=how: AllWeights(how, pyg.GCNConv))
    for how in ("mean", "softmax"):
        yield Kind(f"weights: {how}, weighted", lambda how=how: AllWeights(how), graph="weighted")
        yield Kind(f"weights: {how}, in a GCN", lambda how=how: AllWeights(how, pyg.GCNConv))
        yield Kind(f"weights: {how}, after an isolated node", lambda how=how: AllWeights(how), graph="alone")
    yield Kind("virtual node", VirtualNode)
    yield Kind("clip by norm, unreached", lambda: Between(clip_norm(200.0)))
    yield Kind("clip by norm, reached at times", lambda: Between(clip_norm(12.0)))
    yield Kind("clip by norm, reached always", lambda: Between(clip_norm(3.0)))
    yield Kind("largest activation", lambda: Between(lambda h: h / h.max().clamp(min=2.0)))
    yield Kind("a row for every node", lambda: Table(by_place=False))
    yield Kind("a row for every place", lambda: Table(by_place=True))
    yield Kind("branch on a sum", Branch)
    yield Kind("branch on a sum, 3 hops", Branch, options={"num_hops": 3})
    yield Kind("branch on the first node", BranchOfANode)
    yield Kind("branch on the size", BranchBySize)
    yield Kind("branch of each number", BranchOfEach)
    yield Kind("number of edges", ByEdges)
    yield Kind("largest degree, GAT", lambda: LargestDegree(pyg.GATConv))
    yield Kind("largest degree, SAGE", lambda: LargestDegree(pyg.SAGEConv))
    yield Kind("one layer thrice", Again, refused=FURTHER.format("Again", 1))
    yield Kind("one layer thrice, 3 hops", Again, options={"num_hops": 3})
    yield Kind("layers side by side", SideBySide)
    yield Kind("jumping knowledge", Jumping)
    yield Kind("weights for one layer", FirstLayerOnly)
    yield Kind("second layer backwards", Backwards)
    yield Kind("weights of its own", lambda: OwnWeights(True), refused=FURTHER.format("OwnWeights", 2))
    yield Kind("weights of its own, 3 hops", lambda: OwnWeights(True), options={"num_hops": 3})
    yield Kind("weights of its own for none", lambda: OwnWeights(False), options={"num_hops": 3})
    yield Kind("none is not one", NoneIsNotOne)
    yield Kind("roots of weights", RootWeights)
    yield Kind("out-degrees as features", Degrees)
    yield Kind("dropout, .5", lambda: Dropped(0.5), refused=RANDOM)
    yield Kind("dropout, .0005", lambda: Dropped(0.0005), refused=RANDOM)
    yield Kind("noise without effect", Noise)
    yield Kind("some of the edges", SomeEdges, refused=RANDOM)
    yield Kind("running mean", Average, refused=EARLIER.format("mean"))
    yield Kind("degrees it keeps", KeptDegrees, refused=EARLIER.format("degrees"))
    yield Kind("activations it keeps", Remembering)
    yield Kind("counted calls", Counted)
    yield Kind("edges it drops", lambda: DropsEdges(pyg.SAGEConv), refused=r"one message for each edge")
    yield Kind("forward(data)", ReadsData, refused=r"cannot be run on this graph: TypeError")
    for where in ("attribute", "dictionary", "object", "class", "global", "outer object", "closure"):
        yield Kind(f"flag: {where}", lambda where=where: Flagged(where), toggle=_toggle)


KINDS = tuple(_list_kinds())
