"""What a plant recorded: a row of 51 readings a second, with its time stamp and whether it was under attack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .schedule import Span

Times = NDArray[np.datetime64]


class Gap(NamedTuple):
    """Seconds that a file leaves out: ``missing`` of them before row ``row`` of the recording, counted from 0."""

    row: int
    missing: int


@dataclass(frozen=True, slots=True)
class Recording:
    """Readings [T, 51] in the order of `TAGS`, their ``times`` [T] to the second, rising, and ``labels`` [T].

    A label is true under attack. Where ``gaps`` are, rows are more than a second apart: go by ``times``, or by
    ``seconds``, and not by the number of the row.
    """

    times: Times
    readings: NDArray[np.float64]
    labels: NDArray[np.bool_]
    gaps: tuple[Gap, ...] = ()

    def __len__(self) -> int:
        return len(self.times)

    @property
    def seconds(self) -> NDArray[np.int64]:
        """Seconds since the first row, [T]: 0, 1, 2 and so on, without those that are missing."""
        return np.asarray((self.times - self.times[0]).astype(np.int64))


@dataclass(frozen=True, slots=True)
class Run(Recording):
    """A recording of the simulated plant, with what only a simulation knows.

    ``attacked`` [T, 51] says which tags were attacked when, and ``attack_id`` [T] by which attack (0 none). ``levels``
    [T, 3] in mm and ``inflows`` and ``outflows`` [T, 3] in m3/h are the true ones of tanks 1, 3 and 4.
    """

    seed: int = 0
    attacked: NDArray[np.bool_] = field(kw_only=True)
    attack_id: NDArray[np.int64] = field(kw_only=True)
    spans: tuple[Span, ...] = ()
    levels: NDArray[np.float64] = field(kw_only=True)
    inflows: NDArray[np.float64] = field(kw_only=True)
    outflows: NDArray[np.float64] = field(kw_only=True)
