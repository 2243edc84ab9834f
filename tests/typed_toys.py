"""A small heterogeneous graph, and models of several kinds on it."""

from __future__ import annotations

import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GraphConv,
    HANConv,
    HeteroConv,
    HGTConv,
    SAGEConv,
    to_hetero,
)

import graphfaith as gf

SIZES = {"paper": (14, 4), "word": (9, 3), "author": (6, 2)}
TYPES = (
    ("paper", "cites", "paper"),
    ("word", "in", "paper"),
    ("paper", "has", "word"),
    ("author", "wrote", "paper"),
    ("paper", "by", "author"),
)
CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


def graph(dtype=torch.float32, edges=22):
    generator = torch.Generator().manual_seed(3)
    x = {name: torch.randn(size, generator=generator, dtype=dtype) for name, size in SIZES.items()}
    found = {}
    for kind in TYPES:
        counts = SIZES[kind[0]][0], SIZES[kind[2]][0]
        ends = torch.stack([torch.randint(0, count, (edges,), generator=generator) for count in counts])
        ends = ends[:, ends[0] != ends[1]] if kind[0] == kind[2] else ends
        found[kind] = torch.unique(ends, dim=1)
    return x, found


def as_data(x, edges):
    data = HeteroData()
    for name, rows in x.items():
        data[name].x = rows
    for kind, ends in edges.items():
        data[kind].edge_index = ends
    return data


class Layered(torch.nn.Module):
    """Two layers, each with a convolution of every edge type, and a linear layer for papers."""

    def __init__(self, make):
        super().__init__()
        widths = {name: width for name, (_, width) in SIZES.items()}
        layers = []
        for _ in range(2):
            layers.append(HeteroConv({kind: make(kind, (widths[kind[0]], widths[kind[2]])) for kind in TYPES}))
            widths = dict.fromkeys(widths, 5)
        self.convs, self.readout = torch.nn.ModuleList(layers), torch.nn.Linear(5, 3)

    def forward(self, x_dict, edge_index_dict):
        for conv in self.convs:
            x_dict = {name: rows.tanh() for name, rows in conv(x_dict, edge_index_dict).items()}
        return self.readout(x_dict["paper"])


class Weighted(torch.nn.Module):
    """Two layers that take the weights of all edge types, or of those that ``reads`` names."""

    def __init__(self, reads=TYPES):
        super().__init__()
        widths = {name: width for name, (_, width) in SIZES.items()}
        self.first = HeteroConv({kind: GraphConv((widths[kind[0]], widths[kind[2]]), 5) for kind in TYPES})
        self.second, self.reads = HeteroConv({kind: GraphConv((5, 5), 3) for kind in TYPES}), reads

    def forward(self, x_dict, edge_index_dict, edge_weight_dict=None):
        given = {}
        if edge_weight_dict is not None:
            given["edge_weight_dict"] = {kind: edge_weight_dict[kind] for kind in self.reads}
        hidden = {name: rows.tanh() for name, rows in self.first(x_dict, edge_index_dict, **given).items()}
        return self.second(hidden, edge_index_dict, **given)["paper"]


class Attentive(torch.nn.Module):
    """Two layers of HGT or HAN."""

    def __init__(self, conv):
        super().__init__()
        meta = list(SIZES), list(TYPES)
        self.first = conv({name: width for name, (_, width) in SIZES.items()}, 4, meta, heads=2)
        self.second, self.readout = conv(4, 4, meta, heads=2), torch.nn.Linear(4, 3)

    def forward(self, x_dict, edge_index_dict):
        hidden = {name: rows.tanh() for name, rows in self.first(x_dict, edge_index_dict).items()}
        return self.readout(self.second(hidden, edge_index_dict)["paper"])


class Plain(torch.nn.Module):
    """A homogeneous network for to_hetero, whose output is a dictionary."""

    def __init__(self):
        super().__init__()
        self.first, self.second = SAGEConv((-1, -1), 5), SAGEConv((-1, -1), 3)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).tanh(), edge_index)


def _mixed(kind, widths):
    return GCNConv(widths[0], 5) if kind[0] == kind[2] else SAGEConv(widths, 5)


MAKERS = {
    "sage": lambda: Layered(lambda _, widths: SAGEConv(widths, 5)),
    "gat": lambda: Layered(lambda _, widths: GATConv(widths, 5, add_self_loops=False)),
    "gcn and sage": lambda: Layered(_mixed),
    "weighted": Weighted,
    "hgt": lambda: Attentive(HGTConv),
    "han": lambda: Attentive(HANConv),
    "to_hetero": lambda: gf.OfType(to_hetero(Plain(), (list(SIZES), list(TYPES))), "paper"),
}


def make(name, dtype=torch.float32):
    torch.manual_seed(1)
    model, (x, edges) = MAKERS[name](), graph()
    with torch.no_grad():
        model(x, edges)  # layers that find their widths out
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model.eval().to(dtype)
