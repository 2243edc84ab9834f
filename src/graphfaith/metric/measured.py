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

    ``stderr`` is its standard error over samples (over rows of the output, if nothing is drawn and there are several).
    It is 0 where nothing is drawn, and NaN where it is not known. ``neighborhood`` is the law in words: which
    neighbourhood, and which side of the explanation.
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


def mean_and_error(values: Tensor | np.ndarray) -> tuple[float, float]:
    """Return the mean of numbers and its standard error; the error of a single number is NaN.

    >>> mean_and_error(np.array([1.0, 3.0]))
    (2.0, 1.0)
    """
    numbers = np.asarray(values, dtype=np.float64).ravel()
    if not len(numbers):
        return math.nan, math.nan
    mean = float(numbers.mean())
    return mean, float(numbers.std(ddof=1)) / math.sqrt(len(numbers)) if len(numbers) > 1 else math.nan
