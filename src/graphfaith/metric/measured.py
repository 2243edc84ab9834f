"""One figure of merit with its error bar, and the direction in which it is better."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Measured:
    """A figure of merit of one explanation, estimated from ``num_samples`` samples of a law.

    ``stderr`` is its standard error over samples (over rows of the output, if nothing is drawn and there are several),
    widened for skewed and few numbers (:func:`widening`), so that two errors cover the true value in 95 of 100 cases.
    It is 0 where nothing is drawn, and NaN where it is not known. ``neighborhood`` is the law in words: which
    neighbourhood, and which side of the explanation.

    >>> from graphfaith.metric import Measured
    >>> Measured("sparsity", 0.4).better
    'higher'
    """

    measure: str
    value: float
    stderr: float = 0.0
    better: Better = "higher"
    num_samples: int = 0
    neighborhood: str = ""
    seed: int | None = None

    def __str__(self) -> str:
        """Return one line to print.

        >>> print(Measured("fidelity+", 0.25, 0.0, "higher", 0, "B(A,1) inside the top 0.2"))
        fidelity+ = 0.25 in B(A,1) inside the top 0.2 (higher is better)
        """
        error = f" ± {self.stderr:.1g}" if self.stderr else ""
        where = f" in {self.neighborhood}" if self.neighborhood else ""
        samples = f", {self.num_samples} samples" if self.num_samples else ""
        return f"{self.measure} = {self.value:.4g}{error}{where} ({self.better} is better{samples})"


def widening(values: Tensor | np.ndarray) -> float:
    r"""Return by which factor two standard errors of the mean of n numbers are too few, to second order.

    The mean divided by its standard error is not normal if the numbers are few or skewed: a sample without any of the
    rare large numbers has both a mean and an error that are too small. Edgeworth's expansion of the coverage (P. Hall,
    The Bootstrap and Edgeworth Expansion, section 2.6), solved for the half-width, gives

    .. math:: 1 + \frac1n \Big( \frac{z^2 + 1}{4} + \gamma^2 \frac{z^4 + 2 z^2 - 3}{18}
              - \kappa \frac{z^2 - 3}{12} \Big), \qquad z = 2,

    with the skewness :math:`\gamma` and the excess kurtosis :math:`\kappa` of the numbers. It is 1 for many numbers,
    1.25 for five normal ones and at most about 2, for one number that is far away from all others.

    >>> round(widening(np.array([-1.0, 1.0] * 50)), 3)
    1.014
    >>> round(widening(np.array([0.0] * 49 + [1.0])), 2)
    2.05
    """
    numbers = np.asarray(values, dtype=np.float64).ravel()
    deviations = numbers - numbers.mean() if len(numbers) else numbers
    largest = float(np.abs(deviations).max(initial=0.0))
    if not largest > 0:  # There is nothing to widen; NaN stays NaN.
        return 1.0
    deviations /= largest  # so that no power of them overflows
    square = float((deviations**2).mean())
    skewness = float((deviations**3).mean()) / math.sqrt(square) ** 3
    kurtosis = float((deviations**4).mean()) / square**2 - 3
    z = 2.0
    more = (z**2 + 1) / 4 + skewness**2 * (z**4 + 2 * z**2 - 3) / 18 - kurtosis * (z**2 - 3) / 12
    return float(1 + more / len(numbers))


def effective_count(values: Tensor | np.ndarray) -> float:
    r"""Return of how many numbers a spread is made: :math:`(\sum_i |d_i|)^2 / \sum_i d_i^2`, d from the mean.

    It is their count if all are equally far from the mean, two thirds of it for normal numbers, and about 4 if one of
    them is far away from all others: then nobody knows how many more of its kind there are.

    >>> effective_count(np.array([-1.0, 1.0, 1.0, -1.0])), round(effective_count(np.array([0.0] * 99 + [1.0])), 1)
    (4.0, 4.0)
    """
    numbers = np.asarray(values, dtype=np.float64).ravel()
    deviations = np.abs(numbers - numbers.mean()) if len(numbers) else numbers
    largest = float(deviations.max(initial=0.0))
    if not largest > 0:
        return float(len(numbers))
    deviations /= largest
    return float(deviations.sum()) ** 2 / float((deviations**2).sum())


def mean_and_error(values: Tensor | np.ndarray) -> tuple[float, float]:
    """Return the mean of numbers and its error: the standard error, widened for skewed and few numbers.

    The error of a single number is NaN.

    >>> mean_and_error(np.array([1.0, 3.0] * 50))
    (2.0, 0.1019...)
    """
    numbers = np.asarray(values, dtype=np.float64).ravel()
    if not len(numbers):
        return math.nan, math.nan
    mean = float(numbers.mean())
    if len(numbers) == 1:
        return mean, math.nan
    return mean, float(numbers.std(ddof=1)) / math.sqrt(len(numbers)) * widening(numbers)
