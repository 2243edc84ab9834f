"""The input of a forecaster: medians of the steps of a recording, scaled, in windows of a few steps.

The preprocessing follows Deng and Hooi (2021). The median of a step removes single wrong readings. The scaling
x -> (x - low) / (high - low), with the minimum and maximum of the training data, makes the tags comparable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphfaith._base.errors import InputError

from .plant import Plant
from .recording import KnownRecording, Recording

_BLOCK: Final = 1024  # steps whose medians are taken at a time; the rows of a long recording are not copied at once


@dataclass(frozen=True)
class Series:
    """Medians ``values`` [T, n] of the steps of a ``plant``; ``times`` [T] holds the first second of each step.

    ``labels`` [T] is true where half of the rows or more were under attack, as then the median moves. ``attacked``
    [T, n] is true where the tag was attacked; it is all false if the recording does not contain this information.
    ``attack_id`` [T] is the number of the attack, or 0. ``follows`` [T] is true where the previous step is not missing.
    """

    plant: Plant
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
            self.plant,
            self.times[part],
            self.values[part],
            self.labels[part],
            self.attacked[part],
            self.attack_id[part],
            follows,
        )

    @property
    def targets(self) -> NDArray[np.int64]:
        """The steps [n] that end a window: ``plant.window`` steps up to this one, without a gap."""
        before = self.plant.window - 1
        unbroken = np.convolve(self.follows, np.ones(before, dtype=np.int64))[: len(self)] == before
        return np.flatnonzero(unbroken)


def series_of(recording: Recording) -> Series:
    """Return the medians of every step of a recording.

    The median ignores missing rows. A step without any row is missing in the series. A recording that knows more than
    its labels (``attacked`` and ``attack_id``) gives it to the series.
    """
    plant = recording.plant
    rows = plant.step // plant.period
    if len(recording) < rows * plant.window:
        raise InputError(
            f"a recording of {len(recording)} rows is too short; a forecast needs at least {rows * plant.window}"
        )
    step_of = recording.seconds // plant.step
    first = np.flatnonzero(np.diff(step_of, prepend=-1))
    steps = step_of[first]
    del step_of  # as long as the recording
    ends = np.append(first[1:], len(recording))
    full = ends - first == rows
    values = np.empty((len(steps), len(plant)))
    for low, high in _merge_full_steps(full):
        values[low:high] = np.median(
            recording.readings[first[low] : ends[high - 1]].reshape(-1, rows, len(plant)), axis=1
        )
    for i in np.flatnonzero(~full):
        values[i] = np.median(recording.readings[first[i] : ends[i]], axis=0)
    counts = ends - first
    labels = np.add.reduceat(recording.labels, first, dtype=np.int64) * 2 >= counts
    if isinstance(recording, KnownRecording):
        attacked = np.add.reduceat(recording.attacked.astype(np.int64), first, axis=0) * 2 >= counts[:, None]
        number = np.maximum.reduceat(recording.attack_id, first) * labels
    else:
        attacked, number = np.zeros((len(steps), len(plant)), dtype=bool), _number_stretches(labels)
    follows = np.append(False, np.diff(steps) == 1)
    return Series(plant, recording.times[first], values, labels, attacked, number, follows)


def join_series(first: Series, second: Series) -> Series:
    """Return two series of the same plant one after the other; nothing is forecast across the gap between them."""
    if not np.array_equal(first.plant.names, second.plant.names) or first.plant.step != second.plant.step:
        raise InputError("only series of the same plant, with the same step, can be joined")
    if len(first) and len(second) and not first.times[-1] < second.times[0]:
        raise InputError(f"the second series begins at {second.times[0]}, before the first one ends")
    arrays = {
        name: np.concatenate([getattr(first, name), getattr(second[:], name)])
        for name in ("times", "values", "labels", "attacked", "attack_id", "follows")
    }
    return Series(first.plant, **arrays)


def _merge_full_steps(full: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield the steps without missing rows as ranges of at most `_BLOCK` steps, whose rows follow each other."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], full, [False])).astype(np.int8)))
    for low, high in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        for start in range(low, high, _BLOCK):
            yield start, min(start + _BLOCK, high)


def _number_stretches(labels: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number the stretches under attack from 1, because a file does not contain the numbers of the attacks."""
    begins = labels & ~np.append(False, labels[:-1])
    return np.where(labels, np.cumsum(begins), 0)


@dataclass(frozen=True)
class Scale:
    """The scaling x -> (x - low) / span, with one ``low`` and one ``span`` per tag.

    A tag that is constant in the training data has the span 1, so that it keeps its own unit.
    """

    plant: Plant
    low: Tensor  # [n] float64
    high: Tensor
    span: Tensor
    usual: Tensor  # [2, n], the readings between which a tag is 98 % of the time, in its own unit

    @classmethod
    def of(cls, series: Series) -> Scale:
        """Return the scale with the minimum and maximum of each tag in a series."""
        low, high = series.values.min(0), series.values.max(0)
        if not np.isfinite(series.values).all():
            bad = series.plant.names[int(np.flatnonzero(~np.isfinite(series.values).all(0))[0])]
            raise InputError(f"{bad} has NaN or infinite readings and cannot be scaled")
        span = np.where(high > low, high - low, 1.0)
        usual = np.quantile(series.values, (0.01, 0.99), axis=0)
        return cls(series.plant, *(torch.from_numpy(numbers) for numbers in (low, high, span, usual)))

    def scale(self, values: NDArray[np.float64]) -> Tensor:
        """Return readings [..., n] scaled, in single precision."""
        return ((torch.from_numpy(values) - self.low) / self.span).float()

    def windows_of(self, series: Series) -> Windows:
        """Return the scaled windows of a series."""
        steps = series.targets
        return Windows(torch.from_numpy(steps), self.cut_windows(series.values, steps))

    def cut_windows(self, values: NDArray[np.float64], steps: NDArray[np.int64]) -> Tensor:
        """Return the scaled windows [S, n, window] that end at these steps of readings [T, n]."""
        rows = torch.from_numpy(steps)[:, None] + torch.arange(1 - self.plant.window, 1)
        return self.scale(values)[rows].transpose(1, 2).contiguous()


@dataclass(frozen=True)
class Windows:
    """Steps [S] of a series and the windows ``x`` [S, n, window] that end at each of them, oldest reading first.

    What is forecast is the last reading of each tag, ``y`` [S, n]. A model says by itself which other readings it uses.
    """

    steps: Tensor
    x: Tensor

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def y(self) -> Tensor:
        """The readings [S, n] at the steps."""
        return self.x[..., -1]

    def persistence_error(self) -> float:
        """Return the mean square error of the forecast that nothing changes."""
        return float((self.y - self.x[..., -2]).double().square().mean())
