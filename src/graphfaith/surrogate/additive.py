"""The additive function that is closest to F's change in a neighbourhood, found from p alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..sampling.perturbations import Perturbations
from .moves import Moves

_STEPS = 3  # how often what is left is projected again; entries that are removed together are not quite independent
_MANY = 4  # units for each sample, at which samples say nothing of single units
_FIRST, _GROWTH = 4, 1.6  # the number of units in the first block, and by how much the next one is larger


@dataclass(frozen=True)
class Additive:
    r"""The additive function :math:`\sum_u \phi_u\, \epsilon_u` closest to F's change, with an error bar on each score.

    ``excess`` is the expected mean square by which it is further from F than the closest one there is. If it is only a
    guess, its errors are not known: ``stderr`` is then None, and ``excess`` infinite.
    """

    moves: Moves
    scores: Tensor  # [u] phi
    stderr: Tensor | None = None  # [u]
    excess: float = math.inf

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return sum_u phi_u eps_u for each sample, [S]."""
        return self.moves.of(perturbations) @ self.scores


class Draws(NamedTuple):
    """Changes in samples of a neighbourhood and, if it is symmetric, in their mirror images 2 E eps - eps."""

    matrix: Tensor  # [S, u] the moves of the units
    change: Tensor  # [S]
    mirrored: Tensor | None = None  # [S] the changes at the mirror images

    def left_by(self, scores: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
        """Return what scores leave, [S]: the part that single moves can explain, and the part that they cannot.

        ``mean`` has the mean moves of the units. The change at a sample less that at its mirror image knows nothing of
        pairs of moves, whose product is the same in both, and their sum knows nothing of single moves. Without mirror
        images all that is left is in both parts, but for its mean.
        """
        foreseen = self.matrix @ scores
        rest = self.change - foreseen
        if self.mirrored is None:
            return rest - rest.mean(), rest
        other = self.mirrored - (2 * (mean @ scores) - foreseen)
        return (rest - other) / 2, (rest + other) / 2


def project(
    moves: Moves,
    draws: Draws,
    guess: Tensor,
    seen: Tensor | None = None,
    left: Tensor | None = None,
    *,
    wary: bool = False,
) -> Additive:
    r"""Return the additive function closest to F's change in a neighbourhood.

    .. math:: \phi = \arg\min E\,[\phi \cdot \epsilon - (F(X, A) - F(X - \epsilon_X, A - \epsilon_A))]^2

    p stands for F, because it may be asked thousands of times: ``draws`` has the moves of the units in samples and the
    changes of p there. The slope of p on average is the first ``guess``, [u]. What it leaves is
    projected onto each unit, :math:`E\,\epsilon_u r / v_u`, and shrunk to 0 where samples say too little: units are
    sorted by the size of the guess, and in each block the factor is that of James and Stein,
    :math:`1 - \sum \sigma_u^2 / \sum \delta_u^2`, or 0. Then the same is done with what p leaves of F at the samples of
    the fit, whose moves are ``seen``, [S', u], and where the change of F less that of p is ``left``, [S'], each of them
    left out of the fit, so that a bad p cannot hurt.

    ``wary`` is for a p that interpolates between its samples. Without a sample it knows less there than the p that is
    read, so that what is left looks larger than it is: the factor is then
    :math:`1 - (1 + s) \sum \sigma_u^2 / \sum \delta_u^2`, with s the standard error of the ratio if there is only
    noise, and the mean of what is left is shrunk in the same way.
    """
    foreseen = draws.matrix @ guess
    square = float(foreseen @ foreseen)
    scores = guess * (float(foreseen @ draws.change) / square if square > 0 else 0.0)
    order = torch.argsort(-(guess.abs() * moves.spread.sqrt()), stable=True)
    alike = moves.alike(guess)
    whitened, count = _Whitened(moves, draws.matrix, alike), len(draws.change)
    noise, doubt, of_mean = torch.zeros_like(scores), torch.zeros_like(scores), 0.0
    for _ in range(_STEPS if len(moves) <= count else 1):
        odd, even = draws.left_by(scores, moves.mean)
        step, noise, found = whitened.project(odd, float(even.mean()), order)
        of_mean = float(even.var()) / count
        # A later step sees what an earlier one left of these samples, and that is less than what it left of others.
        doubt = torch.maximum(doubt, found)
        # A few samples of very many units say nothing of single ones: the guess is then the better one.
        if len(moves) <= _MANY * count:
            scores = scores + step
    variance = doubt * noise
    if seen is not None and left is not None and len(left) > 1:
        mean, of_left = float(left.mean()), float(left.var()) / len(left)
        trusted = _trust_mean(mean, of_left) if wary else 1.0
        step, more, found = _Whitened(moves, seen, alike).project(left - mean, trusted * mean, order, wary=wary)
        variance, of_mean = variance + found * more, of_mean + of_left
        if len(moves) <= _MANY * len(left):
            scores = scores + step
    # The mean of what is left has an error too, which all scores have a part in, along one direction.
    along = moves.solve(moves.mean)
    excess = float(moves.spread @ variance) + of_mean * float(moves.mean @ along)
    return Additive(moves, scores, (variance + of_mean * along.square()).sqrt(), excess)


class _Whitened:
    """Samples of moves, centred and scaled to a spread of 1, with their squares."""

    def __init__(self, moves: Moves, matrix: Tensor, alike: Tensor) -> None:
        self.moves, self.alike, self.deviation = moves, alike, moves.spread.sqrt()
        self._white = (matrix - moves.mean) / self.deviation  # [S, u]
        self._squares = self._white.square()

    def project(
        self, centred: Tensor, mean: float, order: Tensor, *, wary: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the shrunk projection of what is left on the units, and the variance of each score.

        What is left is given less its mean, [S], and the mean. The variance is given as that of a score that is not
        shrunk, and as the share of it that remains.
        """
        moves, count = self.moves, len(centred)
        along = centred @ self._white / count
        noise = (centred.square() @ self._squares / count - along.square()).clamp_(min=0) / max(count - 1, 1)
        along, noise = _average_alike(self.alike, along, noise)
        factor, doubt = _shrink(along.numpy(), noise.numpy(), order.numpy(), wary=wary)
        # These are the normal equations (diag(v) + m m^T) step = E[eps rest].
        step = moves.solve(self.deviation * torch.from_numpy(factor) * along + moves.mean * mean)
        return step, noise / moves.spread, torch.from_numpy(doubt)


def _average_alike(group: Tensor, along: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means over units that cannot be told apart, and their noise."""
    count = torch.bincount(group, minlength=len(group)).double().clamp_(min=1)
    mean = torch.zeros_like(along).index_add_(0, group, along) / count
    less = torch.zeros_like(noise).index_add_(0, group, noise) / count.square()
    return mean[group], less[group]


def _trust_mean(mean: float, noise: float) -> float:
    """Return by how much a mean is shrunk that was measured with this noise, as a block of one."""
    factor, _ = _shrink(np.array([mean]), np.array([noise]), np.zeros(1, dtype=np.int64), wary=True)
    return float(factor[0])


def _shrink(
    along: np.ndarray, noise: np.ndarray, order: np.ndarray, *, wary: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return by how much each coordinate is shrunk, and the share of its noise that remains in the error.

    The error of a coordinate that was measured with noise n, and is t^2 large, is n t^2 / (n + t^2) if it is shrunk by
    t^2 / (n + t^2), and t^2 if it is left at 0. How large t is in a block is itself uncertain; the error is that of a
    t^2 which is larger by one standard error. If ``wary``, the factor is that of a t^2 which is smaller by one.
    """
    factor, doubt = np.zeros_like(along), np.zeros_like(along)
    start, size = 0, float(_FIRST)
    while start < len(order):
        block = order[start : start + int(size)]
        signal, total = float(along[block] @ along[block]), float(noise[block].sum())
        ratio = signal / total if total > 0 else np.inf if signal > 0 else 0.0
        chance = np.sqrt(2 / len(block))  # the standard error of the ratio, if there is nothing but noise
        excess = max(0.0, ratio - 1) + chance
        if ratio > 1 + chance:
            factor[block] = 1 - (1 + chance if wary else 1) / ratio
            doubt[block] = 1.0 if np.isinf(excess) else excess / (1 + excess)
        else:
            doubt[block] = excess
        start, size = start + int(size), size * _GROWTH
    return factor, doubt
