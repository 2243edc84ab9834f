"""Stability: whether the same scores come out of a noisy input, of another seed, and of a model trained again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base.checks import check_count
from .._base.errors import InputError
from ..sampling.draw import keys, symmetric32
from .attribution import Attribution
from .measured import Measured, mean_and_error

Scores = Attribution | Tensor


def stability(scores: Scores, again: Sequence[Scores], *, measure: str = "stability", law: str = "") -> Measured:
    r"""Return the mean rank correlation of scores with those of other runs, and its standard error over the runs.

    .. math:: \frac1K \sum_k \rho(\phi, \phi_k), \quad \rho \text{ Spearman's}

    It is NaN if the scores are all equal. ``again`` are the scores of the same method for an input with noise, for
    another seed, or for another training of the model.

    >>> print(stability(torch.tensor([1.0, 2.0, 3.0]), [torch.tensor([1.0, 3.0, 2.0])]).value)
    0.5
    """
    own = _flat(scores)
    found = [rank_correlation(own, _flat(other)) for other in again]
    value, error = mean_and_error(np.array(found))
    return Measured(measure, value, error, "higher", len(found), law)


def sensitivity_max(scores: Scores, again: Sequence[Scores], *, groups: int = 1, law: str = "") -> Measured:
    r"""Return how far scores move at most, over the perturbed inputs that ``again`` belongs to (Captum's).

    .. math:: \max_k \frac{\lVert \phi_k - \phi \rVert_2}{\lVert \phi \rVert_2}

    A maximum grows with the number of draws, so that it is a number about as many of them. With ``groups`` the draws
    are split into so many groups of equal size; the value is the mean of the groups' maxima, with its standard error.
    Scores that are all 0 are divided by 1, as Captum does.

    >>> sensitivity_max(torch.tensor([3.0, 4.0]), [torch.tensor([3.0, 4.5]), torch.tensor([3.0, 4.0])]).value
    0.1
    """
    own, count = _flat(scores), len(again)
    if not again or count % check_count(groups, "groups"):
        raise InputError(f"{count} runs cannot be split into {groups} equal groups")
    scale = float(own.norm()) or 1.0
    moved = torch.tensor([float((_flat(other) - own).norm()) / scale for other in again], dtype=torch.float64)
    value, error = mean_and_error(moved.view(groups, -1).max(dim=1).values)
    return Measured("sensitivity-max", value, error, "lower", count, law)


def spread_over_pairs(means: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return numbers with the mean of ``means``, [K, ...], whose spread is that of a mean over pairs of K runs.

    ``means`` has, for each run, the mean :math:`a_t` over its pairs with the others. A pair belongs to two runs, so
    that the :math:`a_t` are closer together than K independent numbers with such a mean are: an error from them is half
    of what it is over runs that are drawn, and a quarter with three. The pseudo-values of the jackknife,

    .. math:: \bar a + \frac{2 (K - 1)}{K - 2} (a_t - \bar a),

    have the right one. Two runs are one pair, and nothing is known of its spread.

    >>> spread_over_pairs(np.array([0.5, 0.75, 1.0])).tolist()
    [-0.25, 0.75, 1.75]
    """
    count = len(means)
    if count < 3:
        return means
    mean = means.mean(axis=0)
    found: NDArray[np.float64] = mean + 2 * (count - 1) / (count - 2) * (means - mean)
    return found


def rank_correlation(first: Tensor, second: Tensor) -> float:
    """Return Spearman's rank correlation, with equal numbers at their mean rank; NaN if either has all numbers equal.

    >>> rank_correlation(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([10.0, 11.0, 300.0]))
    1.0
    """
    if first.shape != second.shape:
        raise InputError(f"scores of {len(first)} and of {len(second)} entries cannot be compared")
    a, b = (rank(one) for one in (first, second))
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b)) if len(a) else 0.0
    return min(1.0, max(-1.0, float(a @ b) / scale)) if scale > 0 else math.nan


def rank(numbers: Tensor) -> NDArray[np.float64]:
    """Return the ranks of numbers, from 1; equal ones have their mean rank."""
    from scipy.stats import rankdata  # not at the top: it takes longer to import than the rest of the library

    ranks: NDArray[np.float64] = rankdata(numbers.double().numpy())
    return ranks


def add_noise(x: Tensor, size: float, number: int, seed: int) -> Tensor:
    """Return features with noise: each moves by U[-s, s], s = ``size`` times max(X) - min(X).

    Where all features are equal, s is ``size`` times the largest one, or ``size`` itself if that is 0. The noise of a
    feature depends on (seed, number, node, column) alone.

    >>> x = torch.tensor([[0.0, 1.0]])
    >>> bool((add_noise(x, 0.1, 0, 0) - x).abs().max() <= 0.1)
    True
    """
    spread = float(x.max() - x.min()) or float(x.abs().max()) or 1.0
    rows = keys(seed, "noise", np.full(1, number), np.arange(len(x)))
    drawn = torch.from_numpy(symmetric32(rows.reshape(-1), keys(seed, "column", np.arange(x.size(1))), 1.0))
    return x + (drawn * (size * spread)).to(x.dtype).to(x.device)


def _flat(scores: Scores) -> Tensor:
    return scores.flat if isinstance(scores, Attribution) else scores.detach().double().flatten()
