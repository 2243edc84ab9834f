"""Recordings of a plant: rows of readings, with their time stamps and whether they were under attack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .plant import Plant

Times = NDArray[np.datetime64]


class Gap(NamedTuple):
    """A gap in a recording: ``missing`` rows are absent before row ``row``, where rows are counted from 0."""

    row: int
    missing: int


@dataclass(frozen=True, slots=True)
class Recording:
    """Readings [T, n] of the n tags of ``plant``, with their increasing ``times`` [T] in seconds and ``labels`` [T].

    A label is true under attack; if nothing is known of attacks, the recording is not ``labelled``, and all are false.
    At ``gaps`` rows are missing. ``notices`` say what was wrong in the file and how it was mended. ``day_first`` is the
    order of its dates, or None if the days of the file did not tell. Use ``times`` or
    ``seconds``, and not the row number, to measure time.
    """

    plant: Plant
    times: Times
    readings: NDArray[Any]  # double precision if simulated, single if read from a file
    labels: NDArray[np.bool_]
    gaps: tuple[Gap, ...] = ()
    notices: tuple[str, ...] = ()
    labelled: bool = True
    day_first: bool | None = None

    def __len__(self) -> int:
        return len(self.times)

    @property
    def seconds(self) -> NDArray[np.int64]:
        """The seconds [T] since the first row."""
        return np.asarray((self.times - self.times[0]).astype(np.int64))


@dataclass(frozen=True, slots=True)
class KnownRecording(Recording):
    """A recording that also says what was attacked.

    ``attacked`` [T, n] is true where a tag was attacked, and ``attack_id`` [T] is the number of the attack, or 0.
    """

    attacked: NDArray[np.bool_] = field(kw_only=True)
    attack_id: NDArray[np.int64] = field(kw_only=True)
