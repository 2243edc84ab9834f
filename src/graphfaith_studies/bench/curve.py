"""Time and memory against one size, and the power that they grow with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Curve:
    """Seconds a node (median) and megabytes at the peak, for each size; None where memory could not be measured."""

    against: str
    sizes: list[int]
    seconds: list[float]
    megabytes: list[float | None]

    def as_json(self) -> dict[str, Any]:
        """The points and the exponents."""
        return {
            "against": self.against,
            "sizes": self.sizes,
            "ms": [1e3 * value for value in self.seconds],
            "mb": self.megabytes,
            "time_exponent": exponent(self.sizes, self.seconds),
            "time_exponent_upper_half": exponent(self.sizes, self.seconds, upper_half=True),
            "memory_exponent": exponent(self.sizes, self.megabytes),
            "memory_exponent_upper_half": exponent(self.sizes, self.megabytes, upper_half=True),
        }


def exponent(sizes: Sequence[float], values: Sequence[float | None], *, upper_half: bool = False) -> float | None:
    """The slope of a least-squares line through the logarithms: b in ``values ~ a sizes^b``.

    ``upper_half`` takes the points in the upper half of the range (of its logarithm), where what is constant weighs
    less. Points without a positive value are left out; with fewer than two, or one size, there is no slope.

    >>> exponent([1, 10, 100], [5.0, 50.0, 500.0])
    1.0
    """
    points = [(math.log(size), value) for size, value in zip(sizes, values, strict=True)]
    if upper_half and points:
        middle = (points[0][0] + points[-1][0]) / 2
        points = [point for point in points if point[0] >= middle - 1e-9]
    found = np.array([(size, math.log(value)) for size, value in points if value is not None and value > 0])
    if len(found) < 2 or np.ptp(found[:, 0]) == 0:
        return None
    x, y = found.T
    x = x - x.mean()
    return round(float(x @ y / (x @ x)), 6)
