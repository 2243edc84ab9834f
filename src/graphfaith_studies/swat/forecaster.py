"""The forecaster: a graph neural network on the plant's own neighbours, from five readings of every tag to the next.

A tag's readings go through a layer of its own, for a level behaves unlike a valve; two rounds of messages between
physical neighbours follow; and what comes out is the change from the last reading.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphConv

from .series import WINDOW
from .tags import EDGES, NUM_TAGS, column

HIDDEN: Final = 32


def plant_edges() -> Tensor:
    """[2, 158] the 79 neighbours of the plant, both ways."""
    ends = torch.tensor([[column(one), column(other)] for one, other in EDGES]).T
    return torch.cat([ends, ends.flip(0)], dim=1)


class TagLinear(nn.Module):
    """y_i = W_i x_i + b_i with a matrix for each of the 51 tags.

    The last dimensions of x are tags and channels; where the first of them counts several plants, one after the other,
    each has the same 51 matrices.
    """

    def __init__(self, channels: int, out_channels: int) -> None:
        super().__init__()
        bound = channels**-0.5
        self.weight = nn.Parameter(torch.empty(NUM_TAGS, channels, out_channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(NUM_TAGS, out_channels))

    def forward(self, x: Tensor) -> Tensor:
        """[..., 51 k, channels] to [..., 51 k, out_channels]."""
        plants = x.reshape(*x.shape[:-2], -1, NUM_TAGS, 1, x.size(-1))
        out: Tensor = (plants @ self.weight).squeeze(-2) + self.bias
        return out.flatten(-3, -2)


class Forecaster(nn.Module):
    """x_t+1 = x_t + R h2, h_k = relu(W1 h_k-1 + W2 sum_j A_ij h_k-1,j), h0 = relu(T_i x_i).

    Windows of many steps on the one graph may be given at once, as [S, 51, 5].

    >>> Forecaster()(torch.ones(51, 5), plant_edges()).shape
    torch.Size([51, 1])
    """

    def __init__(self, hidden_channels: int = HIDDEN) -> None:
        super().__init__()
        self.tags = TagLinear(WINDOW, hidden_channels)
        self.conv1 = GraphConv(hidden_channels, hidden_channels, aggr="add")
        self.conv2 = GraphConv(hidden_channels, hidden_channels, aggr="add")
        self.readout = TagLinear(2 * hidden_channels, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """The next readings [51, 1] after windows ``x`` [51, 5]."""
        h0 = self.tags(x).relu()
        h1 = self.conv1(h0, edge_index, edge_weight).relu()
        h2 = self.conv2(h1, edge_index, edge_weight).relu()
        change: Tensor = self.readout(torch.cat([h0, h2], dim=-1))
        return x[..., -1:] + change

    def forecast(self, x: Tensor) -> Tensor:
        """[S, 51] the forecasts of windows [S, 51, 5] on the plant's own graph, by products with a dense matrix.

        It is :meth:`forward` on ``plant_edges()``, ten times as fast for many windows.
        """
        adjacency = torch.zeros(NUM_TAGS, NUM_TAGS, dtype=x.dtype)
        source, sink = plant_edges()
        adjacency[sink, source] = 1.0
        h0 = self.tags(x).relu()
        h = h0
        for conv in (self.conv1, self.conv2):
            h = (conv.lin_rel(adjacency @ h) + conv.lin_root(h)).relu()
        change: Tensor = self.readout(torch.cat([h0, h], dim=-1))
        return (x[..., -1:] + change).squeeze(-1)
