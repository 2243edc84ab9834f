"""The graph deviation network of Deng and Hooi (2021), for comparison: as published, and tuned to this task.

Every tag i has an embedding v_i. Its neighbours N(i) are the k tags with the most similar embeddings (cosine
similarity). With the five readings x_j before the one that is forecast, z_i = sum_j a_ij W x_j + b over j in N(i) and
i itself, where a_ij = softmax_j(leaky_relu(a . [g_i, g_j])) and g_i = [W x_i, v_i].

*As published*, the forecast is L dropout(relu(BN(v_i o relu(BN(z_i))))): the reading itself, by one linear layer, with
two batch norms. *Tuned*, it is x_i + R(v_i o relu(z_i)): the change of the last reading, by two layers, without batch
norms, because those make a forecast depend on what else is in the batch and blur readings that hardly vary.
"""

from __future__ import annotations

from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .forecaster import LAST, cut_last
from .plant import Plant

EMBEDDING: Final = 64
NEIGHBOURS: Final = 15
DROPOUT: Final = 0.2


class DeviationNetwork(nn.Module):
    """A network that forecasts the readings [S, n] at the end of windows [S, n, window].

    >>> DeviationNetwork(Plant.named("swat")).eval().forecast(torch.ones(2, 51, 12)).shape
    torch.Size([2, 51])
    """

    def __init__(
        self, plant: Plant, tuned: bool = False, channels: int = EMBEDDING, neighbours: int = NEIGHBOURS
    ) -> None:
        super().__init__()
        self.num_tags, self.tuned = len(plant), tuned
        self.neighbours = min(neighbours, len(plant) - 1)
        self.embedding = nn.Parameter(torch.empty(len(plant), channels).uniform_(-(channels**-0.5), channels**-0.5))
        self.lift = nn.Linear(min(LAST, plant.window - 1), channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(channels))
        self.own = nn.Linear(2 * channels, 1, bias=False)
        self.other = nn.Linear(2 * channels, 1, bias=False)
        if tuned:
            self.readout = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, 1))
        else:
            self.norm_in, self.norm_out = nn.BatchNorm1d(channels), nn.BatchNorm1d(channels)
            self.readout = nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(channels, 1))

    def find_neighbours(self) -> Tensor:
        """Return a matrix [n, n] that is true where tag j (column) is a neighbour of tag i (row), or j = i.

        It has no gradient, as in the original network.
        """
        with torch.no_grad():
            unit = F.normalize(self.embedding, dim=1)
            similarity = (unit @ unit.T).fill_diagonal_(-torch.inf)
            mask = torch.zeros(self.num_tags, self.num_tags, dtype=torch.bool)
            mask.scatter_(1, similarity.topk(self.neighbours, dim=1).indices, True)
            return mask.fill_diagonal_(True)

    def forecast(self, x: Tensor) -> Tensor:
        """Return the readings [S, n] that are expected at the end of the windows ``x`` [S, n, window]."""
        last = cut_last(x)
        lifted = self.lift(last)
        g = torch.cat([lifted, self.embedding.expand_as(lifted)], dim=-1)
        score = F.leaky_relu(self.own(g) + self.other(g).transpose(-2, -1), 0.2)
        share = score.masked_fill(~self.find_neighbours(), -torch.inf).softmax(dim=-1)
        z = share @ lifted + self.bias
        if self.tuned:
            change: Tensor = self.readout(self.embedding * z.relu())
            return last[..., -1] + change.squeeze(-1)
        h = _normalise(self.norm_in, z).relu() * self.embedding
        out: Tensor = self.readout(_normalise(self.norm_out, h).relu())
        return out.squeeze(-1)


def _normalise(norm: nn.BatchNorm1d, h: Tensor) -> Tensor:
    """Return the batch norm of channels over all windows and tags."""
    out: Tensor = norm(h.flatten(0, 1)).view_as(h)
    return out
