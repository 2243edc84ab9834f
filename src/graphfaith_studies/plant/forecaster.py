"""Forecasters: graph neural networks on the plant's graph that say what every tag should read now.

A tag's own last reading is the best forecast of the next, and so a forecaster that may use it hides behind it: when a
sensor is held, the forecast is held as well. The `Nowcaster` sees no reading of a tag's own from the newer half of the
window, but sees its neighbours up to now. The `Forecaster` is that of the paper: the last five readings of every tag.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphConv

from .plant import Plant

HIDDEN: Final = 32
LAST: Final = 5  # readings before the one that is forecast


class TagLinear(nn.Module):
    """A linear layer y_i = W_i x_i + b_i with a separate matrix for each of the n tags.

    The last two dimensions of x are tags and channels. If x holds the tags of several plants one after the other, all
    plants use the same n matrices.
    """

    def __init__(self, num_tags: int, channels: int, out_channels: int) -> None:
        super().__init__()
        bound = channels**-0.5
        self.weight = nn.Parameter(torch.empty(num_tags, channels, out_channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(num_tags, out_channels))

    def forward(self, x: Tensor) -> Tensor:
        """Return y [..., n k, out_channels] for x [..., n k, channels], where k is the number of plants."""
        num_tags, channels, out_channels = self.weight.shape
        # With tags first, there is one product for each tag and not one for each window of it.
        by_tag = x.reshape(-1, num_tags, channels).transpose(0, 1)
        out = torch.baddbmm(self.bias.unsqueeze(1), by_tag, self.weight).transpose(0, 1)
        return out.reshape(*x.shape[:-1], out_channels)


def cut_last(x: Tensor) -> Tensor:
    """Return the last readings of a window before the one that is forecast: at most five of them."""
    return x[..., -1 - min(LAST, x.size(-1) - 1) : -1]


class Forecaster(nn.Module):
    """A network that forecasts the reading of each tag i from the five readings X_i before it, the last one x_i.

    It computes h0_i = relu(T_i X_i), hk_i = relu(W1 h(k-1)_i + W2 sum_j A_ij h(k-1)_j) for k = 1, 2, and the forecast
    x_i + R_i [h0_i, h2_i]. Windows of S steps on the same graph may be given at once, as [S, n, window].

    >>> plant = Plant.named("swat")
    >>> Forecaster(plant)(torch.ones(51, 12), plant.arrows).shape
    torch.Size([51, 1])
    """

    def __init__(self, plant: Plant, hidden_channels: int = HIDDEN) -> None:
        super().__init__()
        self.plant = plant
        self.tags = TagLinear(len(plant), min(LAST, plant.window - 1), hidden_channels)
        self.conv1 = GraphConv(hidden_channels, hidden_channels, aggr="add")
        self.conv2 = GraphConv(hidden_channels, hidden_channels, aggr="add")
        self.readout = TagLinear(len(plant), 2 * hidden_channels, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the expected readings [n, 1] at the end of the windows ``x`` [n, window]."""
        last = cut_last(x)
        h0 = self.tags(last).relu()
        h1 = self.conv1(h0, edge_index, edge_weight).relu()
        h2 = self.conv2(h1, edge_index, edge_weight).relu()
        change: Tensor = self.readout(torch.cat([h0, h2], dim=-1))
        return last[..., -1:] + change

    def forecast(self, x: Tensor) -> Tensor:
        """Return the forecasts [S, n] for windows [S, n, window] on the plant's graph.

        The result is that of :meth:`forward` on the plant's arrows. Products with a dense matrix make this method ten
        times as fast for many windows.
        """
        last = cut_last(x)
        h0 = self.tags(last).relu()
        h = h0
        for conv in (self.conv1, self.conv2):
            h = _convolve(conv, self.plant, h, h)
        change: Tensor = self.readout(torch.cat([h0, h], dim=-1))
        return (last[..., -1:] + change).squeeze(-1)


class Nowcaster(nn.Module):
    """A network that says what tag i should read, from its own older readings O_i and its neighbours' up to now, X_j.

    With o_i the last of O_i, the older half of the window, it computes h_i = relu(T_i O_i), u_i = relu(V_i X_i),
    g_i = relu(W1 h_i + W2 sum_j A_ij h_j), z_i = relu(W3 h_i + W4 sum_j A_ij [u_j, g_j]), and the expected reading
    o_i + R_i [h_i, z_i]. No path leads from the newer half of X_i to it.

    >>> plant = Plant.named("swat")
    >>> Nowcaster(plant)(torch.ones(51, 12), plant.arrows).shape
    torch.Size([51, 1])
    """

    def __init__(self, plant: Plant, hidden_channels: int = HIDDEN) -> None:
        super().__init__()
        self.plant = plant
        self.older = plant.window // 2
        self.own = TagLinear(len(plant), self.older, hidden_channels)
        self.whole = TagLinear(len(plant), plant.window, hidden_channels)
        self.conv1 = GraphConv(hidden_channels, hidden_channels, aggr="add")
        self.conv2 = GraphConv((2 * hidden_channels, hidden_channels), hidden_channels, aggr="add")
        self.readout = TagLinear(len(plant), 2 * hidden_channels, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the expected readings [n, 1] at the end of the windows ``x`` [n, window]."""
        old = x[..., : self.older]
        h, u = self.own(old).relu(), self.whole(x).relu()
        g = self.conv1(h, edge_index, edge_weight).relu()
        z = self.conv2((torch.cat([u, g], dim=-1), h), edge_index, edge_weight).relu()
        change: Tensor = self.readout(torch.cat([h, z], dim=-1))
        return old[..., -1:] + change

    def forecast(self, x: Tensor) -> Tensor:
        """Return the expected readings [S, n] for windows [S, n, window], with dense products as in `Forecaster`."""
        old = x[..., : self.older]
        h, u = self.own(old).relu(), self.whole(x).relu()
        g = _convolve(self.conv1, self.plant, h, h)
        z = _convolve(self.conv2, self.plant, torch.cat([u, g], dim=-1), h)
        change: Tensor = self.readout(torch.cat([h, z], dim=-1))
        return (old[..., -1:] + change).squeeze(-1)


def _convolve(conv: GraphConv, plant: Plant, source: Tensor, root: Tensor) -> Tensor:
    """Return relu of GraphConv's result on the plant's graph: W2 sum_j A_ij source_j + W1 root_i."""
    out: Tensor = conv.lin_rel(plant.adjacency.to(source.dtype) @ source) + conv.lin_root(root)
    return out.relu()
