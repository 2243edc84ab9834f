"""What a forecaster sees of a recording: medians of ten seconds, scaled, and the windows of five that end before each.

After Deng and Hooi (2021): the median of ten seconds takes away single wrong readings, and x -> (x - low) / (high -
low) with the extremes of the training data makes tags comparable.
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
WINDOW: Final = 5  # steps that a forecast is made from


@dataclass(frozen=True)
class Series:
    """Medians ``values`` [T, 51] of ``STEP`` seconds, their ``times`` (of the first second), and what is known.

    ``labels`` [T] is true where most of the seconds were under attack, and ``attacked`` [T, 51] which tags were (all
    False in a recording that does not say). ``follows`` [T] is true where the step before is there too.
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
        """[n] the steps that can be forecast: those with ``WINDOW`` steps before them and no gap between."""
        unbroken = np.convolve(self.follows, np.ones(WINDOW, dtype=np.int64))[: len(self)] == WINDOW
        return np.flatnonzero(unbroken)


def series_of(recording: Recording) -> Series:
    """Medians of every ten seconds; seconds that are missing are left out, and steps without any are missing too."""
    if len(recording) < STEP * (WINDOW + 1):
        raise InputError(f"a recording of {len(recording)} s is too short: a forecast needs {STEP * (WINDOW + 1)} s")
    steps, first = np.unique(recording.seconds // STEP, return_index=True)
    ends = np.append(first[1:], len(recording))
    full = ends - first == STEP
    values = np.empty((len(steps), NUM_TAGS))
    whole = np.concatenate([np.arange(a, b) for a, b in _runs(first, ends, full)]) if full.any() else np.empty(0, int)
    values[full] = np.median(recording.readings[whole].reshape(-1, STEP, NUM_TAGS), axis=1)
    for i in np.flatnonzero(~full):
        values[i] = np.median(recording.readings[first[i] : ends[i]], axis=0)
    counts = ends - first
    labels = np.add.reduceat(recording.labels.astype(np.int64), first) * 2 > counts
    if isinstance(recording, Run):
        attacked = np.add.reduceat(recording.attacked.astype(np.int64), first, axis=0) * 2 > counts[:, None]
        number = np.maximum.reduceat(recording.attack_id, first) * labels
    else:
        attacked, number = np.zeros((len(steps), NUM_TAGS), dtype=bool), _numbered(labels)
    follows = np.append(False, np.diff(steps) == 1)
    return Series(recording.times[first], values, labels, attacked, number, follows)


def _runs(first: NDArray[np.int64], ends: NDArray[np.int64], full: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The rows of full steps, as few pieces as there are."""
    keep = np.flatnonzero(full)
    breaks = np.flatnonzero(first[keep][1:] != ends[keep][:-1])
    starts, stops = np.append(0, breaks + 1), np.append(breaks, len(keep) - 1)
    return [(int(first[keep[a]]), int(ends[keep[b]])) for a, b in zip(starts, stops, strict=True)]


def _numbered(labels: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Stretches under attack, counted from 1: a file says when there was an attack, and not which."""
    begins = labels & ~np.append(False, labels[:-1])
    return np.where(labels, np.cumsum(begins), 0)


@dataclass(frozen=True)
class Scale:
    """x -> (x - low) / span, a number a tag.

    A tag that is constant in the training data has a span of 1: its own unit is all there is to go by.
    """

    low: Tensor  # [51] float64
    span: Tensor
    middle: Tensor  # the median, scaled: what is usual

    @classmethod
    def of(cls, series: Series) -> Scale:
        """The extremes of a series."""
        low, high = series.values.min(0), series.values.max(0)
        if not np.isfinite(series.values).all():
            bad = TAGS[int(np.flatnonzero(~np.isfinite(series.values).all(0))[0])]
            raise InputError(f"{bad} holds NaN or Inf: it cannot be scaled")
        span = np.where(high > low, high - low, 1.0)
        middle = (np.median(series.values, axis=0) - low) / span
        return cls(torch.from_numpy(low), torch.from_numpy(span), torch.from_numpy(middle))

    def windows(self, series: Series) -> Windows:
        """Scaled windows and what followed them."""
        scaled = ((torch.from_numpy(series.values) - self.low) / self.span).float()
        steps = torch.from_numpy(series.targets)
        before = steps[:, None] + torch.arange(-WINDOW, 0)
        return Windows(steps, scaled[before].transpose(1, 2).contiguous(), scaled[steps])


@dataclass(frozen=True)
class Windows:
    """Steps [n] of a series, the readings [n, 51, 5] before each, oldest first, and those [n, 51] at it."""

    steps: Tensor
    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.steps)

    def persistence_error(self) -> float:
        """The mean square error of the forecast that nothing changes."""
        return float((self.y - self.x[..., -1]).double().square().mean())
