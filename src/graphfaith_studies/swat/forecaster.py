"""The forecaster: a graph neural network on the plant's graph that predicts every tag from its last five readings.

The first layer has separate weights for each tag, because a level behaves differently from a valve. Two layers of
messages between physical neighbours follow. The output is the change from the last reading.
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
    """Return the 79 edges of the plant in both directions, [2, 158]."""
    ends = torch.tensor([[column(first), column(second)] for first, second in EDGES]).T
    return torch.cat([ends, ends.flip(0)], dim=1)


class TagLinear(nn.Module):
    """A linear layer y_i = W_i x_i + b_i with a separate matrix for each of the 51 tags.

    The last two dimensions of x are tags and channels. If x holds the tags of several plants one after the other, all
    plants use the same 51 matrices.
    """

    def __init__(self, channels: int, out_channels: int) -> None:
        super().__init__()
        bound = channels**-0.5
        self.weight = nn.Parameter(torch.empty(NUM_TAGS, channels, out_channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(NUM_TAGS, out_channels))

    def forward(self, x: Tensor) -> Tensor:
        """Return y [..., 51 k, out_channels] for x [..., 51 k, channels], where k is the number of plants."""
        plants = x.reshape(*x.shape[:-2], -1, NUM_TAGS, 1, x.size(-1))
        out: Tensor = (plants @ self.weight).squeeze(-2) + self.bias
        return out.flatten(-3, -2)


class Forecaster(nn.Module):
    """A network that forecasts the next reading of each tag i from its window X_i, whose last reading is x_i.

    It computes h0_i = relu(T_i X_i), hk_i = relu(W1 h(k-1)_i + W2 sum_j A_ij h(k-1)_j) for k = 1, 2, and the forecast
    x_i + R_i [h0_i, h2_i]. Windows of S steps on the same graph may be given at once, as [S, 51, 5].

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
        """Return the next readings [51, 1] after the windows ``x`` [51, 5]."""
        h0 = self.tags(x).relu()
        h1 = self.conv1(h0, edge_index, edge_weight).relu()
        h2 = self.conv2(h1, edge_index, edge_weight).relu()
        change: Tensor = self.readout(torch.cat([h0, h2], dim=-1))
        return x[..., -1:] + change

    def forecast(self, x: Tensor) -> Tensor:
        """Return the forecasts [S, 51] for windows [S, 51, 5] on the plant's graph.

        The result is that of :meth:`forward` on ``plant_edges()``. Products with a dense matrix make this method ten
        times as fast for many windows.
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
