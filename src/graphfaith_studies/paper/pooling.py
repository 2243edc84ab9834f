"""Means over nodes and trainings, with a standard error that accounts for both."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def pool(values: Sequence[Sequence[float]] | np.ndarray) -> tuple[float, float | None]:
    r"""Return the mean of values [trainings][nodes] and its standard error.

    Both nodes and trainings are random samples. The variance of the mean, clustered by both, is

    .. math:: V = V_\mathrm{nodes} + V_\mathrm{trainings} - V_\mathrm{both},

    where :math:`V_\mathrm{nodes}` is the variance of the mean of the nodes' means, :math:`V_\mathrm{trainings}` that of
    the mean of the trainings' means, and :math:`V_\mathrm{both}` that of the remainders, which the other two both
    contain. The result is at least the larger of the first two. With one training it is :math:`V_\mathrm{nodes}`. The
    error of a single number is None.

    >>> mean, error = pool([[1.0, 3.0]])
    >>> mean, error
    (2.0, 1.0)
    """
    table = np.asarray(values, dtype=np.float64)
    trainings, nodes = table.shape
    mean = float(table.mean())
    if table.size == 1:
        return mean, None
    by_node, by_training = table.mean(axis=0), table.mean(axis=1)
    rest = table - by_node[None, :] - by_training[:, None] + mean
    degrees_of_freedom = max(1, (trainings - 1) * (nodes - 1))
    both = float((rest**2).sum()) / degrees_of_freedom / table.size
    first, second = _variance_of_mean(by_node), _variance_of_mean(by_training)
    return mean, math.sqrt(max(first, second, first + second - both))


def _variance_of_mean(values: np.ndarray) -> float:
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0
