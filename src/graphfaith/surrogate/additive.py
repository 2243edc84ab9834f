"""The additive function that is closest to F's change in a neighbourhood, found from p alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._base import core
from ..sampling.perturbations import Perturbations
from .moves import Moves

# How often what is left is projected again, because entries that are removed together are not quite independent; units
# for each sample, at which samples say nothing of single units; the number of units in the first block, and by how much
# the next one is larger.
CONSTANTS = 3, 4, (4, 1.6)


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

    def left_to_pairs(self, scores: Tensor, mean: Tensor) -> Tensor:
        """Return what scores leave, [S], as far as pairs of moves may explain it.

        ``mean`` has the mean moves of the units. The change at a sample and that at its mirror image together know
        nothing of single moves but their mean, because the product of two moves is the same in both, and single moves
        are opposite. Without mirror images it is all that is left.
        """
        if self.mirrored is None:
            return self.change - self.matrix @ scores
        return (self.change + self.mirrored) / 2 - mean @ scores


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
    nothing, matrix, first = np.zeros(0), np.ascontiguousarray(draws.matrix.T.numpy()), guess.double().contiguous()
    scores, stderr, excess = core.project_shares(
        matrix,
        np.ascontiguousarray(draws.change.numpy()),
        nothing if draws.mirrored is None else np.ascontiguousarray(draws.mirrored.numpy()),
        tuple(moment.numpy() for moment in (moves.mean, moves.spread, moves.common)),
        first.numpy(),
        core.multiply_rows(first.numpy(), matrix),
        moves.alike(guess).numpy(),
        np.zeros((len(moves), 0)) if seen is None else np.ascontiguousarray(seen.T.numpy()),
        nothing if seen is None or left is None else left.contiguous().numpy(),
        *CONSTANTS,
        float(wary),
    )
    return Additive(moves, torch.from_numpy(scores), torch.from_numpy(stderr), float(excess))
