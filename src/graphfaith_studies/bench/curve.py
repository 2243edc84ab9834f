"""Time and memory against one size, and the exponent of their growth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Curve:
    """The median seconds per node and the peak megabytes at each size; None where memory could not be measured."""

    against: str
    sizes: list[int]
    seconds: list[float]
    megabytes: list[float | None]
    together: bool = False  # whether all nodes of the graph were explained, and not one after the other

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Curve:
        """Return the curve of which :meth:`as_json` has written the points."""
        seconds = [value / 1e3 for value in values["ms"]]
        return cls(values["against"], list(values["sizes"]), seconds, list(values["mb"]), bool(values["together"]))

    def as_json(self) -> dict[str, Any]:
        """Return the points and the exponents."""
        return {
            "against": self.against,
            "together": self.together,
            "sizes": self.sizes,
            "ms": [1e3 * value for value in self.seconds],
            "mb": self.megabytes,
            "time_exponent": fit_exponent(self.sizes, self.seconds),
            "time_exponent_upper_half": fit_exponent(self.sizes, self.seconds, upper_half=True),
            "memory_exponent": fit_exponent(self.sizes, self.megabytes),
            "memory_exponent_upper_half": fit_exponent(self.sizes, self.megabytes, upper_half=True),
        }


def fit_exponent(sizes: Sequence[float], values: Sequence[float | None], *, upper_half: bool = False) -> float | None:
    """Return b of ``values ~ a sizes^b``: the slope of a least-squares line through the logarithms.

    ``upper_half`` uses only the points in the upper half of the range of log(size), where constant costs weigh less.
    Points without a positive value are ignored. The result is None if fewer than two different sizes remain.

    >>> fit_exponent([1, 10, 100], [5.0, 50.0, 500.0])
    1.0
    """
    points = [(math.log(size), value) for size, value in zip(sizes, values, strict=True)]
    if upper_half and points:
        middle = (points[0][0] + points[-1][0]) / 2
        points = [point for point in points if point[0] >= middle - 1e-9]
    logarithms = np.array([(size, math.log(value)) for size, value in points if value is not None and value > 0])
    if len(logarithms) < 2 or np.ptp(logarithms[:, 0]) == 0:
        return None
    x, y = logarithms.T
    x = x - x.mean()
    return round(float(x @ y / (x @ x)), 6)
