"""A ring of nodes and models of it, by the names that a job has them by: one cannot be run at some nodes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch_geometric.nn import GCN

NODES, FEATURES = 40, 6


class Fragile(GCN):
    """A model that cannot be run where a feature is too large."""

    def forward(self, x, edge_index, edge_weight=None):
        out = super().forward(x, edge_index, edge_weight=edge_weight)
        return torch.where(x[:, :1] > 5, torch.nan, out)


class Deadly(GCN):
    """A model that ends its process where a feature has one value, as a fault in compiled code would."""

    def forward(self, x, edge_index, edge_weight=None):
        if bool((x[:, 0] == 9).any()):
            os._exit(9)
        return super().forward(x, edge_index, edge_weight=edge_weight)


class Forking(GCN):
    """A model that starts a process, which lives on and holds what this one has open, and then ends its own."""

    def forward(self, x, edge_index, edge_weight=None):
        if os.fork() == 0:
            time.sleep(30)
            Path(os.environ["OUTLIVED"]).touch()
            os._exit(0)
        os._exit(9)


def make_model(kind=GCN, classes=3):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(FEATURES, 8, 2, out_channels=classes).double().eval()


def load():
    return make_model()


def load_fragile():
    return make_model(Fragile)


def load_deadly():
    return make_model(Deadly)


def load_forking():
    return make_model(Forking)


def load_regression():
    return make_model(classes=1)


def make_graph(bad=()):
    generator = torch.Generator().manual_seed(1)
    ring = torch.arange(NODES)
    edges = torch.stack([torch.cat([ring, (ring + 1) % NODES]), torch.cat([(ring + 1) % NODES, ring])])
    x = torch.rand(NODES, FEATURES, generator=generator, dtype=torch.float64)
    x[torch.rand(NODES, FEATURES, generator=generator) < 0.5] = 0
    x[list(bad), 0] = 9.0
    return {"x": x, "edge_index": edges, "y": torch.arange(NODES) % 3}
