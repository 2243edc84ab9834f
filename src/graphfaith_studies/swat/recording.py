"""Recordings of the simulated plant, with what only a simulation knows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..plant.recording import KnownRecording
from .schedule import Span


@dataclass(frozen=True, slots=True)
class Run(KnownRecording):
    """A recording of the simulated plant, with quantities that only a simulation knows.

    ``levels`` [T, 3] in mm and ``inflows`` and ``outflows`` [T, 3] in m3/h are the true values of tanks 1, 3 and 4.
    """

    seed: int = 0
    spans: tuple[Span, ...] = ()
    levels: NDArray[np.float64] = field(kw_only=True)
    inflows: NDArray[np.float64] = field(kw_only=True)
    outflows: NDArray[np.float64] = field(kw_only=True)
