"""Means over nodes and trainings of a model, with a standard error that accounts for both.

Nodes of one training share its weights, and a node that is explained in several trainings shares its surroundings, so
that the numbers of a table are not independent: to divide their spread by the root of their count makes an error bar
that is too small. Every table of this project is pooled here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .measured import widening

Table = Sequence[Sequence[float]] | NDArray[np.float64]


def pool(values: Table) -> tuple[float, float | None]:
    r"""Return the mean of values [trainings][nodes] and its standard error.

    Both nodes and trainings are random samples. The variance of the mean, clustered by both, is

    .. math:: V = V_\mathrm{nodes} + V_\mathrm{trainings} - V_\mathrm{both},

    where :math:`V_\mathrm{nodes}` is the variance of the mean of the nodes' means, :math:`V_\mathrm{trainings}` that of
    the mean of the trainings' means, and :math:`V_\mathrm{both}` that of the remainders, which the other two both
    contain. The result is at least the larger of the first two. With one training it is :math:`V_\mathrm{nodes}`, and
    says nothing of other trainings. The error of a single number is None. Numbers that are NaN are missing: then the
    variance is that of :func:`pool_clustered`.

    >>> pool([[1.0, 3.0]])
    (2.0, 1.0)
    >>> pool([[1.0, 1.0], [3.0, 3.0]])  # two trainings that differ, not four numbers
    (2.0, 1.0)
    """
    table = np.asarray(values, dtype=np.float64)
    if np.isnan(table).any():
        return pool_clustered(table.ravel(), np.indices(table.shape).reshape(2, -1).T)
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


def pool_widened(values: Table) -> tuple[float, float | None]:
    """Return the mean and error of :func:`pool`, the error widened for few or skewed means of nodes.

    Nothing widens it for few trainings: from three of them an error is itself known to about half of its size.

    >>> pool_widened([[0.0, 2.0] * 50])
    (1.0, 0.1019...)
    """
    table = np.asarray(values, dtype=np.float64)
    mean, error = pool(table)
    means = means_over_trainings(table)
    return mean, None if error is None else error * widening(means[~np.isnan(means)])


def means_over_trainings(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means over trainings, [nodes], of a table [trainings, nodes]; NaN where there is no number.

    >>> means_over_trainings(np.array([[1.0, np.nan], [3.0, np.nan]]))
    array([ 2., nan])
    """
    known = ~np.isnan(table)
    counts, sums = known.sum(axis=0), np.where(known, table, 0.0).sum(axis=0)
    means: NDArray[np.float64] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return means


def pool_ratio(values: Table, scales: Table) -> tuple[float, float | None]:
    r"""Return the ratio of the means of two tables [trainings][nodes], and its standard error.

    The error is that of the linearised ratio, :math:`\bar v / \bar s \approx r + \overline{(v - r s)} / \bar s`, whose
    mean is pooled as in :func:`pool`.

    >>> pool_ratio([[1.0, 3.0]], [[2.0, 2.0]])
    (1.0, 0.5)
    """
    above, below = np.asarray(values, dtype=np.float64), np.asarray(scales, dtype=np.float64)
    scale = float(below.mean())
    ratio = float(above.mean()) / scale
    _, error = pool(above - ratio * below)
    return ratio, None if error is None else error / scale


def pool_clustered(
    values: Sequence[float] | NDArray[np.float64], clusters: Sequence[tuple[int, int]] | NDArray[np.int64]
) -> tuple[float, float | None]:
    r"""Return the mean of single values and its standard error, when each belongs to a cluster of each of two kinds.

    It is for tables that are not complete. The variance is again :math:`V = V_1 + V_2 - V_{12}`, but at least the
    largest of the three. Each term is :math:`\frac{G}{G - 1} \sum_g (\sum_{i \in g} r_i)^2 / n^2` over the G clusters
    g of one kind, with the residuals :math:`r_i` of the n values; in :math:`V_{12}` every value is a cluster. Values
    that are NaN are left out. Without any value the mean is NaN.

    >>> pool_clustered([1.0, 1.0, 3.0, 3.0], [(0, 0), (0, 1), (1, 0), (1, 1)])
    (2.0, 1.0)
    """
    numbers, labels = np.asarray(values, dtype=np.float64), np.asarray(clusters).reshape(-1, 2)
    known = ~np.isnan(numbers)
    numbers, labels = numbers[known], labels[known]
    count = len(numbers)
    mean = float(numbers.mean()) if count else math.nan
    if count < 2:
        return mean, None
    residuals = numbers - mean
    single = _clustered_variance(residuals, np.arange(count))
    first, second = (_clustered_variance(residuals, np.unique(kind, return_inverse=True)[1]) for kind in labels.T)
    return mean, math.sqrt(max(single, first, second, first + second - single))


def _variance_of_mean(values: NDArray[np.float64]) -> float:
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0


def _clustered_variance(residuals: NDArray[np.float64], cluster: NDArray[np.int64]) -> float:
    """Return the variance of the mean if only the clusters are independent; it is 0 if there is only one."""
    sums = np.bincount(cluster, weights=residuals)
    count = len(sums)
    return float((sums**2).sum()) / len(residuals) ** 2 * count / (count - 1) if count > 1 else 0.0
