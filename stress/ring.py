"""A ring of nodes with messages in one direction, and its model, which kills whoever runs it on one of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.nn import GCN

import graphfaith as gf

NODES, FEATURES = 700, 6
KILLER, VALUE = 333, 9.0


class Ring(torch.nn.Module):
    """A model that ends its process, without an exception, where the first feature has one value."""

    def __init__(self, *, deadly: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.deadly, self.gcn = deadly, GCN(FEATURES, 8, 2, out_channels=3).double()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the output, if the killer is not among the nodes."""
        # Both models look at the values, or F would be evaluated in another way by one of them.
        if bool((x[:, 0] == VALUE).any()) and self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        out: Tensor = self.gcn(x, edge_index, edge_weight=edge_weight)
        return out


def load() -> Ring:
    """Return the model without its fault."""
    return Ring(deadly=False)


def load_deadly() -> Ring:
    """Return the model that kills."""
    return Ring(deadly=True)


def pack(folder: Path) -> None:
    """Write the graph, in which nothing comes from the killer: only its own explanation kills."""
    x = torch.rand(NODES, FEATURES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x[KILLER, 0] = VALUE
    ring = torch.arange(NODES)
    edges = torch.stack([ring, ring.roll(-1)])[:, ring != KILLER]
    gf.pack_graph({"x": x, "edge_index": edges}, folder)
