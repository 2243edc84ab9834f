"""Detectors: how far each tag is beyond its own threshold at each step, and the alarms that follow from it.

The *excess* e [T, n] of a detector is signed: positive if a reading is too high, negative if it is too low. There is an
alarm while |e_i| > 1 for some tag i, and it accuses the tag with the largest |e_i| in its first step. Every threshold
comes from normal operation, and each tag has its own: a single one for all tags would be set by the tag that is hardest
to forecast, and waste all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from graphfaith._base.errors import InputError

from .measures import Flags
from .series import Scale, Series

RESOLUTION: Final = 2e-3  # share of a tag's span; without it, the threshold of a constant tag could be zero
MARGIN: Final = 1.5  # thresholds over the largest error of held-out data, because another day may have a larger one
OUTSIDE: Final = 0.2  # share of a tag's span that it may leave its range, because plants wear and instruments drift
SMOOTHED: Final = 4  # steps, for the published graph deviation network
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Alarm:
    """An alarm from step ``first`` to step ``last`` of a series, and the accused tag with its first excess.

    ``reason`` is "forecast" if the reading was far from its forecast, "range" if it was far outside of its range.
    """

    first: int
    last: int
    accused: int
    deviation: float  # positive if the reading was too high, negative if it was too low
    reason: str = "forecast"


@dataclass(frozen=True)
class Thresholds:
    """A threshold [n] for the error of each tag: ``MARGIN`` times its largest one in held-out normal operation.

    >>> held_out = np.array([[0.1, -0.2], [0.05, 0.1]])
    >>> Thresholds.of(held_out).excess_of(np.array([[0.3, -0.15]])).round(2).tolist()
    [[2.0, -0.5]]
    """

    values: Array

    @classmethod
    def of(cls, errors: Array, margin: float = MARGIN) -> Thresholds:
        """Return the thresholds for errors [T, n] in held-out normal operation."""
        if len(errors) < 2 or not np.isfinite(errors).all():
            raise InputError("thresholds need finite errors at two or more steps of normal data")
        return cls(margin * np.maximum(np.abs(errors).max(0), RESOLUTION))

    def excess_of(self, errors: Array) -> Array:
        """Return errors / thresholds."""
        return errors / self.values


@dataclass(frozen=True)
class Range:
    """The range of each tag in training, and the share of its span by which it may be left: nothing else is known."""

    low: Array
    high: Array
    span: Array
    outside: float

    @classmethod
    def of(cls, scale: Scale, outside: float = OUTSIDE) -> Range:
        """Return the ranges in the data that a scale was made of."""
        return cls(scale.low.numpy(), scale.high.numpy(), scale.span.numpy(), outside)

    def excess_of(self, readings: Array) -> Array:
        """Return the signed distance from the range over what is allowed; 0 inside of the range."""
        beyond = np.maximum(readings - self.high, 0.0) - np.maximum(self.low - readings, 0.0)
        return np.asarray(beyond / (self.outside * self.span))


def differences_of(series: Series, scale: Scale) -> Array:
    """Return the scaled change [T, n] since the last step, 0 where that is missing: a detector that knows no model."""
    change = np.diff(series.values, axis=0, prepend=series.values[:1]) / scale.span.numpy()
    change[~series.follows] = 0.0
    return np.asarray(change)


def published_excess(errors: Array, held_out: Array) -> Array:
    """Return the excess by the rule of Deng and Hooi (2021), with statistics of held-out normal operation.

    a_i(t) = (|error_i(t)| - median_i) / (interquartile range_i + 0.01), averaged over the last four steps; there is one
    threshold for all tags, the largest average of the held-out data. (Public code takes the statistics from the data
    that are judged.)
    """
    middle = np.median(np.abs(held_out), axis=0)
    low, high = np.quantile(np.abs(held_out), (0.25, 0.75), axis=0)

    def smooth(part: Array) -> Array:
        scores = (np.abs(part) - middle) / (high - low + 1e-2)
        padded = np.vstack([np.repeat(scores[:1], SMOOTHED - 1, axis=0), scores])
        return np.asarray(np.mean([padded[i : i + len(scores)] for i in range(SMOOTHED)], axis=0))

    threshold = max(float(smooth(held_out).max()), 1e-9)
    return np.asarray(np.sign(errors) * np.maximum(smooth(errors), 0.0) / threshold)


def join(first: Array, second: Array) -> Array:
    """Return at each step and tag whichever excess is larger in size."""
    return np.where(np.abs(second) > np.abs(first), second, first)


def find_alarms(excess: Array, quiet: int) -> list[Alarm]:
    """Return the alarms for an excess [T, n].

    An alarm stays up while no tag has been back for more than ``quiet`` steps.

    >>> [alarm.first for alarm in find_alarms(np.array([[0.0], [1.5], [0.2], [-2.0], [0.0], [0.0], [0.0], [3.0]]), 2)]
    [1, 7]
    """
    size = np.abs(excess)
    beyond = np.flatnonzero(size.max(1) > 1.0)
    if not len(beyond):
        return []
    alarms = []
    for part in np.split(beyond, np.flatnonzero(np.diff(beyond) > quiet) + 1):
        accused = int(size[part[0]].argmax())
        alarms.append(Alarm(int(part[0]), int(part[-1]), accused, float(excess[part[0], accused])))
    return alarms


def name_reasons(alarms: list[Alarm], of_range: Array) -> list[Alarm]:
    """Return the alarms with the reason "range" where the range alone has the same excess."""
    return [
        replace(alarm, reason="range") if of_range[alarm.first, alarm.accused] == alarm.deviation else alarm
        for alarm in alarms
    ]


def mark_raised(alarms: list[Alarm], steps: int) -> Flags:
    """Return whether an alarm is up at each step [T]."""
    raised = np.zeros(steps, dtype=np.bool_)
    for alarm in alarms:
        raised[alarm.first : alarm.last + 1] = True
    return raised
