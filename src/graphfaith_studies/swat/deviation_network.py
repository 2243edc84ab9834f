"""The graph deviation network of Deng and Hooi (2021), for comparison: it learns who a tag's neighbours are.

Every tag has an embedding v_i. Its neighbours N(i) are the k tags whose embeddings are most alike (cosine), and the
forecast is R(v_i o z_i), z_i = relu(sum_j a_ij W x_j) over j in N(i) and i itself, with attention
a_ij = softmax_j(leaky_relu(a . [g_i, g_j])), g_i = [v_i, W x_i]. Unlike the forecaster on the plant's own graph it
forecasts the reading itself, not the change.
"""

from __future__ import annotations

from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .series import WINDOW
from .tags import NUM_TAGS

EMBEDDING: Final = 64
NEIGHBOURS: Final = 15


class DeviationNetwork(nn.Module):
    """From windows [S, 51, 5] to the next readings [S, 51].

    >>> DeviationNetwork().forecast(torch.ones(2, 51, 5)).shape
    torch.Size([2, 51])
    """

    def __init__(self, channels: int = EMBEDDING, neighbours: int = NEIGHBOURS) -> None:
        super().__init__()
        self.neighbours = neighbours
        self.embedding = nn.Parameter(torch.empty(NUM_TAGS, channels).uniform_(-(channels**-0.5), channels**-0.5))
        self.lift = nn.Linear(WINDOW, channels, bias=False)
        self.own = nn.Linear(2 * channels, 1, bias=False)
        self.other = nn.Linear(2 * channels, 1, bias=False)
        self.readout = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, 1))

    def graph(self) -> Tensor:
        """[51, 51] whether tag j, by column, is a neighbour of tag i, or i itself. It has no gradient, as in theirs."""
        with torch.no_grad():
            unit = F.normalize(self.embedding, dim=1)
            alike = (unit @ unit.T).fill_diagonal_(-torch.inf)
            near = torch.zeros(NUM_TAGS, NUM_TAGS, dtype=torch.bool)
            near.scatter_(1, alike.topk(self.neighbours, dim=1).indices, True)
            return near.fill_diagonal_(True)

    def forecast(self, x: Tensor) -> Tensor:
        """The next readings."""
        lifted = self.lift(x)
        g = torch.cat([self.embedding.expand_as(lifted), lifted], dim=-1)
        score = F.leaky_relu(self.own(g) + self.other(g).transpose(-2, -1), 0.2)
        share = score.masked_fill(~self.graph(), -torch.inf).softmax(dim=-1)
        z = (share @ lifted).relu()
        out: Tensor = self.readout(self.embedding * z)
        return out.squeeze(-1)
