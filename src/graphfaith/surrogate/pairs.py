"""Pairs of units whose effect together is not the sum of their effects apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..sampling.perturbations import Perturbations
from .additive import Additive, Draws
from .moves import Moves

_LEADING = 32  # pairs are looked for among this many units of the largest effects
_LONG = 3  # and this many times as many pairs as asked for are compared with each other
_RIDGE = 1e-9  # of the products' spread, because two products may be the same


@dataclass(frozen=True)
class Paired:
    r"""Scores and pairs: :math:`\sum_u \phi_u\, \epsilon_u + \sum_{u, w} \psi_{uw}\, \epsilon_u \epsilon_w`.

    ``alone`` has the phi, which are not the scores of the additive function by itself: a pair takes a part of these.
    """

    moves: Moves
    alone: Tensor  # [u] phi
    first: Tensor  # [k] the first unit of each pair
    second: Tensor  # [k] the second one
    together: Tensor  # [k] psi

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.first)

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return the value of the function for each sample, [S]."""
        return self.of(self.moves.of(perturbations))

    def of(self, moves: Tensor) -> Tensor:
        """Return the value of the function for the moves of the units, [S, u]."""
        return moves @ self.alone + (moves[:, self.first] * moves[:, self.second]) @ self.together


def find_pairs(additive: Additive, draws: Draws, k: int) -> list[Paired]:
    r"""Return the functions with 0, 1, ... up to ``k`` pairs which, beside the scores, explain most of p's change.

    ``draws`` has samples of the units' moves and the changes of p there. The product of two centred moves is
    uncorrelated with every single move, so that the best weight of a pair is nearly
    :math:`E\,[\tilde\epsilon_u \tilde\epsilon_w\, r] / (v_u v_w)`, where r is what the additive function leaves. Among
    the units of the largest effects, pairs are taken greedily: each time the one that explains most of what is left.
    """
    moves, deviation = additive.moves, additive.moves.spread.sqrt()
    none = torch.zeros(0, dtype=torch.int64)
    functions = [Paired(moves, additive.scores, none, none, deviation[:0])]
    if not k:
        return functions
    matrix, (_, rest) = draws.matrix, draws.left_by(additive.scores, moves.mean)
    leading = torch.argsort(-(additive.scores.abs() * deviation), stable=True)[:_LEADING]
    # By rows, because rows are gathered several times faster than columns.
    white = ((matrix.T[leading] - moves.mean[leading, None]) / deviation[leading, None]).contiguous()  # [leading, S]
    size = torch.triu((white * rest) @ white.T, diagonal=1).abs_().flatten()
    best = torch.argsort(size, descending=True, stable=True)[: _LONG * k]
    best = best[size[best] > 0]
    rows, columns = best // len(leading), best % len(leading)
    products = white[rows] * white[columns]  # [c, S]
    means, mean = products.mean(dim=1), float(rest.mean())
    first, second = leading[rows], leading[columns]
    scale = 1 / (deviation[first] * deviation[second])
    constant = moves.mean[first] * moves.mean[second]
    # A pair also takes part in the change of the mean, which the single units make up for along one direction.
    makeup = moves.solve(moves.mean)
    lift = float((matrix @ makeup).mean())
    for chosen, weights in _select(products, rest, k):
        one, other, psi = first[chosen], second[chosen], weights * scale[chosen]
        # (eps_u - m_u)(eps_w - m_w) - m_u m_w is 0 where nothing moves, and has a part that belongs to single units.
        alone = additive.scores.clone()
        alone.index_add_(0, one, -psi * moves.mean[other])
        alone.index_add_(0, other, -psi * moves.mean[one])
        missing = mean - float(means[chosen] @ weights) + float(psi @ constant[chosen])
        functions.append(Paired(moves, alone + (missing / lift if lift else 0.0) * makeup, one, other, psi))
    return functions


def _select(products: Tensor, rest: Tensor, k: int) -> list[tuple[list[int], Tensor]]:
    """Return the best 1, 2, ... ``k`` rows of ``products``, [c, S], one added at a time, with their weights."""
    gram, right = (products @ products.T).numpy(), (products @ rest).numpy()
    spread = gram.diagonal().copy()
    chosen: list[int] = []
    left, found = right.copy(), []
    for _ in range(min(k, len(right))):
        gain = left * left / spread
        gain[chosen] = 0
        best = int(gain.argmax())
        if not gain[best] > 0:
            break
        chosen.append(best)
        inner = gram[np.ix_(chosen, chosen)] + np.diag(_RIDGE * spread[chosen])
        weights = np.linalg.solve(inner, right[chosen])
        left = right - gram[:, chosen] @ weights
        found.append((list(chosen), torch.from_numpy(weights)))
    return found
