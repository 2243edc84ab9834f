"""Counter-based random numbers: a draw is a function of (seed, stream, row, column) and of nothing else.

A generator with a state would give an edge another number when the chunk size, the subgraph or the order of
nodes changes. Here the number of edge 17 in sample 3 is computed from 17 and 3, so one node explained alone, the
same node in a run over the whole graph, and any worker see the same perturbations.

Keys are made by the 64-bit finaliser of SplitMix64; a row key and a column key are then mixed to 32 bits by three
multiply-xorshift rounds, cheap enough for tens of millions of features.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .checks import check_seed

UInt64 = npt.NDArray[np.uint64]
UInt32 = npt.NDArray[np.uint32]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 1 << 16  # elements mixed at a time: small enough for the cache


def _finalise(z: UInt64) -> UInt64:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def keys(seed: int, stream: str, *counters: npt.NDArray[np.integer]) -> UInt64:
    """64-bit keys of (seed, stream, counters), the counters broadcast against each other.

    >>> keys(0, "edge", np.arange(3)).dtype
    dtype('uint64')
    >>> bool(keys(0, "edge", np.array([5]))[0] == keys(0, "edge", np.arange(9))[5])
    True
    """
    state = np.asarray([int.from_bytes(stream.encode()[:8].ljust(8, b"\0"), "little")], dtype=np.uint64)
    for word in (np.asarray([check_seed(seed)], dtype=np.uint64), *counters):
        state = _finalise((state + _GOLDEN) ^ _finalise(word.astype(np.uint64) + _GOLDEN))
    return state


def bits(rows: UInt64, columns: UInt64) -> UInt32:
    """32 random bits for each pair of a row key and a column key: ``[len(rows), len(columns)]``."""
    out = np.empty((len(rows), len(columns)), dtype=np.uint32)
    row_low, row_high = rows.astype(np.uint32), (rows >> np.uint64(32)).astype(np.uint32)
    column_low, column_high = columns.astype(np.uint32), (columns >> np.uint64(32)).astype(np.uint32)
    step = max(1, _BLOCK // max(1, len(columns)))
    spare = np.empty((step, len(columns)), dtype=np.uint32)
    for start in range(0, len(rows), step):
        block = out[start : start + step]
        shifted = spare[: len(block)]
        np.bitwise_xor(row_low[start : start + step, None], column_low, out=block)
        for factor, shift, key in (
            (np.uint32(0xCC9E2D51), np.uint32(15), row_high[start : start + step, None]),
            (np.uint32(0x85EBCA6B), np.uint32(13), column_high),
            (np.uint32(0xC2B2AE35), np.uint32(16), None),
        ):
            np.multiply(block, factor, out=block)
            np.right_shift(block, shift, out=shifted)
            np.bitwise_xor(block, shifted, out=block)
            if key is not None:
                np.add(block, key, out=block)
    return out


def uniform(rows: UInt64, columns: UInt64) -> npt.NDArray[np.float64]:
    """Uniform numbers in (0, 1), symmetric about 1/2: ``(bits + 1/2) / 2^32``."""
    out: npt.NDArray[np.float64] = bits(rows, columns).astype(np.float64)
    out += 0.5
    out *= 2.0**-32
    return out


def uniform32(rows: UInt64, columns: UInt64) -> npt.NDArray[np.float32]:
    """The same in single precision, from the upper 23 bits; for features, of which there are many."""
    drawn = bits(rows, columns)
    np.right_shift(drawn, np.uint32(9), out=drawn)
    out = drawn.astype(np.float32)
    out += np.float32(0.5)
    out *= np.float32(2.0**-23)
    return out
