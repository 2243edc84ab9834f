"""Pairs of units whose effect together is not the sum of their effects apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..graph.graph import Int64
from ..sampling.perturbations import Perturbations
from .additive import Additive, Draws
from .moves import Moves
from .walks import Float64

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


class Nested(NamedTuple):
    """The functions with 0, 1, 2, ... pairs, each of which has the pairs of those before it, but other weights."""

    moves: Moves
    alone: Float64  # [k + 1, u]
    first: Int64  # [k]
    second: Int64  # [k]
    together: Float64  # [k + 1, k], 0 for the pairs that a function does not have

    def of(self, moves: Tensor) -> Tensor:
        """Return the values of all functions for the moves of the units, [S, u]: [k + 1, S]."""
        rows: Float64 = moves.T.numpy()  # Rows are gathered several times faster than columns.
        return torch.from_numpy(self.alone @ rows + self.together @ (rows[self.first] * rows[self.second]))

    def with_pairs(self, count: int) -> Paired:
        """Return the function with so many pairs."""
        of_pairs = (self.first[:count], self.second[:count], self.together[count, :count].copy())
        return Paired(self.moves, torch.from_numpy(self.alone[count].copy()), *map(torch.from_numpy, of_pairs))


def find_pairs(additive: Additive, draws: Draws, k: int) -> Nested:
    r"""Return the functions with 0, 1, ... up to ``k`` pairs which, beside the scores, explain most of p's change.

    ``draws`` has samples of the units' moves and the changes of p there. The product of two centred moves is
    uncorrelated with every single move, so that the best weight of a pair is nearly
    :math:`E\,[\tilde\epsilon_u \tilde\epsilon_w\, r] / (v_u v_w)`, where r is what the additive function leaves. Among
    the units of the largest effects, pairs are taken greedily: each time the one that explains most of what is left.
    """
    moves, scores = additive.moves, additive.scores.numpy()
    if not k:
        none = np.zeros(0, np.int64)
        return Nested(moves, scores[None].copy(), none, none, np.zeros((1, 0)))
    # numpy, because its calls are shorter than those of torch, and these arrays are small.
    middle, deviation = moves.mean.numpy(), np.sqrt(moves.spread.numpy())
    matrix, rest = draws.matrix.T.numpy(), draws.left_to_pairs(additive.scores, moves.mean).numpy()  # [u, S], [S]
    leading = np.argsort(-(np.abs(scores) * deviation), kind="stable")[:_LEADING]
    white = (matrix[leading] - middle[leading, None]) / deviation[leading, None]  # [leading, S]
    size = np.abs(np.triu((white * rest) @ white.T, 1)).ravel()
    best = np.argsort(-size, kind="stable")[: _LONG * k]
    best = best[size[best] > 0]
    rows, columns = best // len(leading), best % len(leading)
    products = white[rows] * white[columns]  # [c, S]
    chosen, weights = _select(products, rest, k)
    first, second = leading[rows[chosen]], leading[columns[chosen]]
    psi = weights / (deviation[first] * deviation[second])
    # (eps_u - m_u)(eps_w - m_w) - m_u m_w is 0 where nothing moves, and has a part that belongs to single units.
    single = np.zeros((len(chosen), len(scores)))
    pairs = np.arange(len(chosen))
    single[pairs, first], single[pairs, second] = middle[second], middle[first]
    alone = scores - psi @ single
    # A pair also takes part in the change of the mean, which the single units make up for along one direction.
    makeup = moves.solve(moves.mean).numpy() if middle.any() else middle
    lift = float((makeup @ matrix).mean()) if middle.any() else 0.0
    if lift:
        missing = rest.mean() - weights @ products[chosen].mean(axis=1) + psi @ (middle[first] * middle[second])
        missing[0] = 0.0  # Without pairs the scores are those of the additive function.
        alone += (missing / lift)[:, None] * makeup
    return Nested(moves, alone, first, second, psi)


def _select(products: Float64, rest: Float64, k: int) -> tuple[Int64, Float64]:
    """Return at most ``k`` rows of ``products``, [c, S], chosen one after the other, and their weights, [k + 1, k].

    Row i of the weights has those of the first i rows together.
    """
    gram, right = products @ products.T, products @ rest
    spread, most = gram.diagonal().copy(), min(k, len(right))
    chosen, weights = np.zeros(most, np.int64), np.zeros((most + 1, most))
    inner, left = np.zeros((most, most)), right
    for i in range(most):
        gain = left * left / spread
        gain[chosen[:i]] = 0
        best = int(gain.argmax())
        if not gain[best] > 0:
            return chosen[:i], weights[: i + 1, :i]
        chosen[i] = best
        inner[i, : i + 1] = inner[: i + 1, i] = gram[best, chosen[: i + 1]]
        inner[i, i] += _RIDGE * spread[best]
        weights[i + 1, : i + 1] = np.linalg.solve(inner[: i + 1, : i + 1], right[chosen[: i + 1]])
        left = right - weights[i + 1, : i + 1] @ gram[chosen[: i + 1]]
    return chosen, weights
