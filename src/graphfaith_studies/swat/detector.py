"""The detector: how far each tag is from what was forecast, when that is an alarm, and which tag is accused.

The deviation of tag i at step t is d_i(t) = (x_i(t) - forecast_i(t)) / s_i, where s_i is the root mean square of the
same difference on held-out *normal* data, or the resolution where that is finer. The alarm is raised by the largest
|d_i| when it passes the threshold: a quarter more than the largest of the held-out data, for every other day has its
own largest. Its tag is accused. Nothing is taken from the data that is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from graphfaith._base.errors import InputError

RESOLUTION: Final = 1e-3  # of a tag's span: a tag that never moved has no error to compare with
MARGIN: Final = 1.25
QUIET: Final = 12  # steps without a deviation after which the next one is another alarm
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Alarm:
    """Steps ``first`` to ``last`` of a series, the tag that is accused, and its deviation at the first."""

    first: int
    last: int
    accused: int
    deviation: float  # signed: the reading was too high (+) or too low (-)


@dataclass(frozen=True)
class Detector:
    """The scale s [51] of errors and the ``threshold`` that |d| has to pass."""

    scale: Array
    threshold: float

    @classmethod
    def of(cls, errors: Array) -> Detector:
        """From errors [n, 51] on held-out normal data."""
        if len(errors) < 2 or not np.isfinite(errors).all():
            raise InputError("a detector needs finite errors at two steps of normal data at least")
        scale = np.maximum(np.sqrt(np.square(errors).mean(0)), RESOLUTION)
        return cls(scale, MARGIN * float(np.abs(errors / scale).max()))

    def deviations(self, errors: Array) -> Array:
        """d [n, 51]."""
        return errors / self.scale

    def alarms(self, steps: NDArray[np.int64], errors: Array, threshold: float | None = None) -> list[Alarm]:
        """Alarms, of deviations at these steps of a series; those at most ``QUIET`` steps apart are one."""
        deviations = self.deviations(errors)
        size = np.abs(deviations)
        hot = np.flatnonzero(size.max(1) > (self.threshold if threshold is None else threshold))
        if not len(hot):
            return []
        parts = np.split(hot, np.flatnonzero(np.diff(steps[hot]) > QUIET) + 1)
        found = []
        for part in parts:
            accused = int(size[part[0]].argmax())
            found.append(Alarm(int(steps[part[0]]), int(steps[part[-1]]), accused, float(deviations[part[0], accused])))
        return found
