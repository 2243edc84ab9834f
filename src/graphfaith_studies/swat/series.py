"""The input of a forecaster: medians of ten seconds of a recording, scaled, in windows of five steps.

The preprocessing follows Deng and Hooi (2021). The median of ten seconds removes single wrong readings. The scaling
x -> (x - low) / (high - low), with the minimum and maximum of the training data, makes the tags comparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphfaith._base.errors import InputError

from .recording import Recording, Run
from .tags import NUM_TAGS, TAGS

STEP: Final = 10  # seconds
WINDOW: Final = 5  # steps before a forecast that the forecaster sees


@dataclass(frozen=True)
class Series:
    """Medians ``values`` [T, 51] of ``STEP`` seconds; ``times`` [T] holds the first second of each step.

    ``labels`` [T] is true where more than half of the seconds were under attack. ``attacked`` [T, 51] is true where the
    tag was attacked; it is all false if the recording does not contain this information. ``attack_id`` [T] is the
    number of the attack, or 0. ``follows`` [T] is true where the previous step is not missing.
    """

    times: NDArray[np.datetime64]
    values: NDArray[np.float64]
    labels: NDArray[np.bool_]
    attacked: NDArray[np.bool_]
    attack_id: NDArray[np.int64]
    follows: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, part: slice) -> Series:
        follows = self.follows[part].copy()
        follows[:1] = False
        return Series(
            self.times[part],
            self.values[part],
            self.labels[part],
            self.attacked[part],
            self.attack_id[part],
            follows,
        )

    @property
    def targets(self) -> NDArray[np.int64]:
        """The steps [n] that can be forecast: ``WINDOW`` steps precede each of them without a gap."""
        unbroken = np.convolve(self.follows, np.ones(WINDOW, dtype=np.int64))[: len(self)] == WINDOW
        return np.flatnonzero(unbroken)


def series_of(recording: Recording) -> Series:
    """Return the medians of every ten seconds of a recording.

    The median ignores missing seconds. A step without any second is missing in the series.
    """
    if len(recording) < STEP * (WINDOW + 1):
        raise InputError(
            f"a recording of {len(recording)} s is too short; a forecast needs at least {STEP * (WINDOW + 1)} s"
        )
    steps, first = np.unique(recording.seconds // STEP, return_index=True)
    ends = np.append(first[1:], len(recording))
    full = ends - first == STEP
    values = np.empty((len(steps), NUM_TAGS))
    whole = (
        np.concatenate([np.arange(a, b) for a, b in _merge_full_steps(first, ends, full)])
        if full.any()
        else np.empty(0, int)
    )
    values[full] = np.median(recording.readings[whole].reshape(-1, STEP, NUM_TAGS), axis=1)
    for i in np.flatnonzero(~full):
        values[i] = np.median(recording.readings[first[i] : ends[i]], axis=0)
    counts = ends - first
    labels = np.add.reduceat(recording.labels.astype(np.int64), first) * 2 > counts
    if isinstance(recording, Run):
        attacked = np.add.reduceat(recording.attacked.astype(np.int64), first, axis=0) * 2 > counts[:, None]
        number = np.maximum.reduceat(recording.attack_id, first) * labels
    else:
        attacked, number = np.zeros((len(steps), NUM_TAGS), dtype=bool), _number_stretches(labels)
    follows = np.append(False, np.diff(steps) == 1)
    return Series(recording.times[first], values, labels, attacked, number, follows)


def _merge_full_steps(
    first: NDArray[np.int64], ends: NDArray[np.int64], full: NDArray[np.bool_]
) -> list[tuple[int, int]]:
    """Return the rows of the steps without missing seconds, as ranges that are as long as possible."""
    steps = np.flatnonzero(full)
    breaks = np.flatnonzero(first[steps][1:] != ends[steps][:-1])
    starts, stops = np.append(0, breaks + 1), np.append(breaks, len(steps) - 1)
    return [(int(first[steps[a]]), int(ends[steps[b]])) for a, b in zip(starts, stops, strict=True)]


def _number_stretches(labels: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number the stretches under attack from 1, because a file does not contain the numbers of the attacks."""
    begins = labels & ~np.append(False, labels[:-1])
    return np.where(labels, np.cumsum(begins), 0)


@dataclass(frozen=True)
class Scale:
    """The scaling x -> (x - low) / span, with one ``low`` and one ``span`` per tag.

    A tag that is constant in the training data has the span 1, so that it keeps its own unit.
    """

    low: Tensor  # [51] float64
    span: Tensor
    middle: Tensor  # the scaled median, which is taken as the usual reading

    @classmethod
    def of(cls, series: Series) -> Scale:
        """Return the scale with the minimum and maximum of each tag in a series."""
        low, high = series.values.min(0), series.values.max(0)
        if not np.isfinite(series.values).all():
            bad = TAGS[int(np.flatnonzero(~np.isfinite(series.values).all(0))[0])]
            raise InputError(f"{bad} has NaN or infinite readings and cannot be scaled")
        span = np.where(high > low, high - low, 1.0)
        middle = (np.median(series.values, axis=0) - low) / span
        return cls(torch.from_numpy(low), torch.from_numpy(span), torch.from_numpy(middle))

    def windows_of(self, series: Series) -> Windows:
        """Return the scaled windows of a series and the readings that follow each of them."""
        scaled = ((torch.from_numpy(series.values) - self.low) / self.span).float()
        steps = torch.from_numpy(series.targets)
        before = steps[:, None] + torch.arange(-WINDOW, 0)
        return Windows(steps, scaled[before].transpose(1, 2).contiguous(), scaled[steps])


@dataclass(frozen=True)
class Windows:
    """Steps [n] of a series, the readings ``x`` [n, 51, 5] before each step, oldest first, and ``y`` [n, 51] at it."""

    steps: Tensor
    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.steps)

    def persistence_error(self) -> float:
        """Return the mean square error of the forecast that nothing changes."""
        return float((self.y - self.x[..., -1]).double().square().mean())
