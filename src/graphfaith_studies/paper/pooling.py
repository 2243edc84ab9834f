"""Means over nodes and trainings, with an error bar that knows of both."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def pooled(values: Sequence[Sequence[float]] | np.ndarray) -> tuple[float, float | None]:
    r"""The mean over trainings and nodes, [s][n], and its standard error.

    Nodes and trainings are both a sample of what might have been. The variance of the mean, clustered by both, is

    .. math:: V = V_\mathrm{nodes} + V_\mathrm{trainings} - V_\mathrm{both},

    where the first is that of the mean over nodes (of means over trainings), the second that of the mean over
    trainings (of means over nodes), and the third, which is in either of them, that of the remainders. With one
    training it is the first alone; one number has no error (None).

    >>> mean, error = pooled([[1.0, 3.0]])
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
    free = max(1, (trainings - 1) * (nodes - 1))
    both = float((rest**2).sum()) / free / table.size
    first, second = _of_mean(by_node), _of_mean(by_training)
    return mean, math.sqrt(max(first, second, first + second - both))


def _of_mean(values: np.ndarray) -> float:
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0
