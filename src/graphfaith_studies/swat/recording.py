"""Recordings of a plant: a row of 51 readings per second, with its time stamp and whether it was under attack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .schedule import Span

Times = NDArray[np.datetime64]


class Gap(NamedTuple):
    """A gap in a recording: ``missing`` seconds are absent before row ``row``, where rows are counted from 0."""

    row: int
    missing: int


@dataclass(frozen=True, slots=True)
class Recording:
    """Readings [T, 51] in the order of `TAGS`, with their increasing ``times`` [T] in seconds and ``labels`` [T].

    A label is true under attack. At ``gaps`` two rows are more than a second apart. Use ``times`` or ``seconds``, and
    not the row number, to measure time.
    """

    times: Times
    readings: NDArray[np.float64]
    labels: NDArray[np.bool_]
    gaps: tuple[Gap, ...] = ()

    def __len__(self) -> int:
        return len(self.times)

    @property
    def seconds(self) -> NDArray[np.int64]:
        """The seconds [T] since the first row: 0, 1, 2 and so on, without the missing seconds."""
        return np.asarray((self.times - self.times[0]).astype(np.int64))


@dataclass(frozen=True, slots=True)
class Run(Recording):
    """A recording of the simulated plant, with quantities that only a simulation knows.

    ``attacked`` [T, 51] is true where a tag was attacked, and ``attack_id`` [T] is the number of the attack, or 0.
    ``levels`` [T, 3] in mm and ``inflows`` and ``outflows`` [T, 3] in m3/h are the true values of tanks 1, 3 and 4.
    """

    seed: int = 0
    attacked: NDArray[np.bool_] = field(kw_only=True)
    attack_id: NDArray[np.int64] = field(kw_only=True)
    spans: tuple[Span, ...] = ()
    levels: NDArray[np.float64] = field(kw_only=True)
    inflows: NDArray[np.float64] = field(kw_only=True)
    outflows: NDArray[np.float64] = field(kw_only=True)
