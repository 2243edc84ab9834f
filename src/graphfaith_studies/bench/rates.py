"""How fast this machine moves bytes and computes: the rates from which the limits of the figures follow."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from graphfaith._base.core import compiled
from graphfaith._base.threads import one_thread

_COPIED = 2**26  # bytes, more than the caches hold
_SIDE = 384  # rows and columns of the matrices that are multiplied
_LENGTH = 256  # numbers in the vectors of the loop, which stay in the nearest cache
_TIMES = 20_000  # passes over them
_TRIALS = 7  # the fastest one counts: the limit must not be too high because the machine was busy


@dataclass(frozen=True)
class Rates:
    """What one thread does in a second."""

    moved: float  # bytes read and written by a copy of a large array
    looped: float  # double-precision operations of a compiled loop, into += term * factor
    product: float  # double-precision operations of a matrix product
    product_single: float  # the same in single precision

    def as_json(self) -> dict[str, float]:
        """Return the rates in 10^9 a second."""
        return {
            "copy_gb_s": self.moved / 1e9,
            "loop_gflop_s": self.looped / 1e9,
            "product_gflop_s": self.product / 1e9,
            "product_single_gflop_s": self.product_single / 1e9,
        }


def measure_rates(trials: int = _TRIALS) -> Rates:
    """Measure the rates with one thread, each as the best of some trials."""
    old, new = np.ones(_COPIED // 8), np.zeros(_COPIED // 8)
    vectors = np.zeros(_LENGTH), np.ones(_LENGTH), np.ones(_LENGTH)
    with one_thread():
        double, single = (
            _shortest(partial(torch.mm, *matrices), trials)
            for matrices in ((torch.ones(_SIDE, _SIDE, dtype=kind),) * 2 for kind in (torch.float64, torch.float32))
        )
        return Rates(
            2 * _COPIED / _shortest(partial(np.copyto, new, old), trials),
            2 * _LENGTH * _TIMES / _shortest(partial(_accumulate, *vectors, _TIMES), trials),
            2 * _SIDE**3 / double,
            2 * _SIDE**3 / single,
        )


@compiled
def _accumulate(into, term, factor, times):  # type: ignore[no-untyped-def]  # numba finds the types
    """Add the products of two vectors to a third one many times, which is what walks do with the samples."""
    for _ in range(times):
        for s in range(len(into)):
            into[s] += term[s] * factor[s]


def _shortest(work: Callable[[], object], trials: int) -> float:
    """Return the seconds of the fastest of some trials, after one that is not counted."""
    work()
    taken = []
    for _ in range(trials):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)
