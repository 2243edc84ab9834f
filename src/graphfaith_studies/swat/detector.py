"""The detector, which raises an alarm when a reading is far from its forecast, and accuses the tag of that reading.

The deviation of tag i at step t is d_i(t) = (x_i(t) - forecast_i(t)) / s_i. The scale s_i is the root mean square of
x_i - forecast_i on held-out *normal* data, but at least the resolution. There is an alarm when the largest |d_i|
exceeds the threshold, and the tag i is accused. The threshold is 1.25 times the largest |d_i| of the held-out data,
because another normal day may have a larger maximum. The data in which alarms are raised determine neither the scale
nor the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from graphfaith._base.errors import InputError

RESOLUTION: Final = 1e-3  # share of a tag's span; without it, the scale of a constant tag could be zero
MARGIN: Final = 1.25
QUIET: Final = 12  # two deviations that are more than this many steps apart are two alarms
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Alarm:
    """An alarm from step ``first`` to step ``last`` of a series, and the accused tag with its first deviation."""

    first: int
    last: int
    accused: int
    deviation: float  # positive if the reading was too high, negative if it was too low


@dataclass(frozen=True)
class Detector:
    """The scale s [51] of the errors, and the ``threshold`` of |d| for an alarm."""

    scale: Array
    threshold: float

    @classmethod
    def of(cls, errors: Array) -> Detector:
        """Return the detector for the errors [n, 51] on held-out normal data."""
        if len(errors) < 2 or not np.isfinite(errors).all():
            raise InputError("a detector needs finite errors at two or more steps of normal data")
        scale = np.maximum(np.sqrt(np.square(errors).mean(0)), RESOLUTION)
        return cls(scale, MARGIN * float(np.abs(errors / scale).max()))

    def deviations_of(self, errors: Array) -> Array:
        """Return the deviations d = errors / s [n, 51]."""
        return errors / self.scale

    def find_alarms(self, steps: NDArray[np.int64], errors: Array, threshold: float | None = None) -> list[Alarm]:
        """Return the alarms for the errors [n, 51] at these steps [n] of a series.

        Deviations that are at most ``QUIET`` steps apart belong to the same alarm.
        """
        deviations = self.deviations_of(errors)
        size = np.abs(deviations)
        exceeding = np.flatnonzero(size.max(1) > (self.threshold if threshold is None else threshold))
        if not len(exceeding):
            return []
        parts = np.split(exceeding, np.flatnonzero(np.diff(steps[exceeding]) > QUIET) + 1)
        alarms = []
        for part in parts:
            accused = int(size[part[0]].argmax())
            deviation = float(deviations[part[0], accused])
            alarms.append(Alarm(int(steps[part[0]]), int(steps[part[-1]]), accused, deviation))
        return alarms
