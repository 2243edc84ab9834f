"""The graph deviation network of Deng and Hooi (2021), for comparison; it learns the neighbours of each tag.

Every tag i has an embedding v_i. Its neighbours N(i) are the k tags with the most similar embeddings (cosine
similarity). The forecast is R(v_i o z_i) with z_i = relu(sum_j a_ij W x_j), where j runs over N(i) and i itself. The
attention is a_ij = softmax_j(leaky_relu(a . [g_i, g_j])) with g_i = [v_i, W x_i]. Unlike the forecaster on the plant's
graph, this network forecasts the reading itself and not its change.
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
    """A network that forecasts the next readings [S, 51] from windows [S, 51, 5].

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

    def find_neighbours(self) -> Tensor:
        """Return a matrix [51, 51] that is true where tag j (column) is a neighbour of tag i (row), or j = i.

        It has no gradient, as in the original network.
        """
        with torch.no_grad():
            unit = F.normalize(self.embedding, dim=1)
            similarity = (unit @ unit.T).fill_diagonal_(-torch.inf)
            mask = torch.zeros(NUM_TAGS, NUM_TAGS, dtype=torch.bool)
            mask.scatter_(1, similarity.topk(self.neighbours, dim=1).indices, True)
            return mask.fill_diagonal_(True)

    def forecast(self, x: Tensor) -> Tensor:
        """Return the next readings [S, 51] after the windows ``x`` [S, 51, 5]."""
        lifted = self.lift(x)
        g = torch.cat([self.embedding.expand_as(lifted), lifted], dim=-1)
        score = F.leaky_relu(self.own(g) + self.other(g).transpose(-2, -1), 0.2)
        share = score.masked_fill(~self.find_neighbours(), -torch.inf).softmax(dim=-1)
        z = (share @ lifted).relu()
        out: Tensor = self.readout(self.embedding * z)
        return out.squeeze(-1)
