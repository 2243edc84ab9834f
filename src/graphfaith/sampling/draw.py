"""Counter-based random numbers: each number depends only on (seed, stream, row, column).

With a stateful generator, the number of an edge would change with the chunk size, the subgraph or the order of the
nodes. Here the number of edge 17 in sample 3 is computed from 17 and 3. So a node gets the same perturbations if it is
explained alone, in a run over the whole graph, or in any worker process.

Keys are computed by the 64-bit finaliser of SplitMix64. A row key and a column key are then mixed to 32 bits by three
multiply-xorshift rounds, which is fast enough for tens of millions of features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .._base.checks import check_seed

UInt64 = npt.NDArray[np.uint64]
UInt32 = npt.NDArray[np.uint32]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 1 << 16  # number of elements that are mixed at a time, small enough for the cache of the processor


_MIX = tuple((np.uint64(s), np.uint64(f)) for s, f in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)))
_LAST = np.uint64(31)
_HALF = np.uint64(32)
# The factors and shifts of the three rounds of ``bits``.
_ROUNDS = tuple((np.uint32(f), np.uint32(s)) for f, s in ((0xCC9E2D51, 15), (0x85EBCA6B, 13), (0xC2B2AE35, 16)))


def _finalise(z: UInt64) -> UInt64:
    """Mix the bits of ``z`` in place by the finaliser of SplitMix64, and return it."""
    for shift, factor in _MIX:
        z ^= z >> shift
        z *= factor
    z ^= z >> _LAST
    return z


def _words(counters: npt.NDArray[np.integer]) -> UInt64:
    """Return the mixed counters, which are then combined with a state."""
    words = counters.astype(np.uint64)
    words += _GOLDEN
    return _finalise(words)


@lru_cache(maxsize=256)
def _stream(seed: int, stream: str) -> UInt64:
    """Return the initial state of all keys of a seed and a stream, as a read-only array of length 1."""
    state = np.asarray([int.from_bytes(stream.encode()[:8].ljust(8, b"\0"), "little")], dtype=np.uint64)
    state = _finalise((state + _GOLDEN) ^ _words(np.asarray([seed], dtype=np.uint64)))
    state.flags.writeable = False
    return state


def keys(seed: int, stream: str, *counters: npt.NDArray[np.integer]) -> UInt64:
    """Return 64-bit keys of (seed, stream, counters); the counters are broadcast against each other.

    >>> keys(0, "edge", np.arange(3)).dtype
    dtype('uint64')
    >>> bool(keys(0, "edge", np.array([5]))[0] == keys(0, "edge", np.arange(9))[5])
    True
    """
    state = _stream(check_seed(seed), stream)
    for counter in counters:
        state = _finalise((state + _GOLDEN) ^ _words(counter))
    return state if counters else state.copy()


def joined_keys(seed: int, **counters: npt.NDArray[np.integer]) -> UInt64:
    """Return the concatenated keys of several streams, each with its own counters.

    All keys are computed together, because the arrays of counters may be short and separate calls would be slow.

    >>> some = joined_keys(0, edge=np.arange(3), loop=np.arange(2))
    >>> bool((some == np.concatenate([keys(0, "edge", np.arange(3)), keys(0, "loop", np.arange(2))])).all())
    True
    """
    seed = check_seed(seed)
    words, first = _words(np.concatenate(list(counters.values()))), 0
    for stream, counter in counters.items():
        words[first : first + len(counter)] ^= _stream(seed, stream) + _GOLDEN
        first += len(counter)
    return _finalise(words)


def bits(rows: UInt64, columns: UInt64, *, by_column: bool = False) -> UInt32:
    """Return 32 random bits for each pair of a row key and a column key, ``[len(rows), len(columns)]``.

    The result is stored row by row, or column by column if ``by_column`` is True.
    """
    out = np.empty((len(columns), len(rows)) if by_column else (len(rows), len(columns)), dtype=np.uint32)
    for start, block in _blocks(out):
        _mix(block, rows, columns, start, by_column)
    return out.T if by_column else out


def _blocks(out: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yield blocks of rows of ``out`` that are small enough for the processor's cache, each with its first row."""
    step = max(1, _BLOCK // max(1, out.shape[1]))
    for start in range(0, len(out), step):
        yield start, out[start : start + step]


def _mix(block: UInt32, rows: UInt64, columns: UInt64, start: int, by_column: bool = False) -> None:
    """Write the random bits of a block of rows, or of columns, into ``block``."""
    if by_column:
        columns = columns[start : start + len(block), None]
    else:
        rows = rows[start : start + len(block), None]
    (row_low, row_high), (column_low, column_high) = (
        (key.astype(np.uint32), (key >> _HALF).astype(np.uint32)) for key in (rows, columns)
    )
    shifted = np.empty_like(block)
    np.bitwise_xor(row_low, column_low, out=block)
    for (factor, shift), key in zip(_ROUNDS, (row_high, column_high, None), strict=True):
        np.multiply(block, factor, out=block)
        np.right_shift(block, shift, out=shifted)
        np.bitwise_xor(block, shifted, out=block)
        if key is not None:
            np.add(block, key, out=block)


def uniform(rows: UInt64, columns: UInt64) -> npt.NDArray[np.float64]:
    """Return uniform numbers in (0, 1) that are symmetric about 1/2: ``(bits + 1/2) / 2^32``."""
    out: npt.NDArray[np.float64] = bits(rows, columns).astype(np.float64)
    out += 0.5
    out *= 2.0**-32
    return out


def symmetric(rows: UInt64, columns: UInt64, scale: float) -> npt.NDArray[np.float64]:
    """Return exactly ``scale * (2 * uniform - 1)``, computed in fewer steps and stored column by column."""
    out: npt.NDArray[np.float64] = bits(rows, columns, by_column=True).astype(np.float64)
    out -= 2.0**31 - 0.5  # This is exact, because the result needs 33 bits.
    unit = scale * 2.0**-31
    # If ``unit`` is exact, only one product is rounded, as in the formula above.
    if unit * 2.0**31 == scale:
        out *= unit
    else:  # The scale is so small that ``unit`` is subnormal and was rounded.
        out *= 2.0**-31
        out *= scale
    return out


def below(rows: UInt64, columns: UInt64, share: float) -> npt.NDArray[np.bool_]:
    """Return ``uniform < share`` without computing the uniform numbers; the result is stored column by column."""
    # The condition (bits + 1/2) / 2^32 < share is solved for ``bits``, which is an integer. The product and the
    # difference are exact for every share.
    bound = math.ceil(share * 2.0**32 - 0.5)
    drawn = bits(rows, columns, by_column=True)
    return drawn < np.uint32(bound) if bound < 1 << 32 else np.ones_like(drawn, dtype=bool)


def symmetric32(rows: UInt64, columns: UInt64, scale: float) -> npt.NDArray[np.float32]:
    """Return ``scale * (2 u - 1)`` in single precision, with u from the upper 23 bits.

    This faster function is used for features, which are many.
    """
    out = np.empty((len(rows), len(columns)), dtype=np.float32)
    unit, shift = np.float32(scale * 2.0**-22), np.float32(2.0**22 - 0.5)
    (first, second), column = _halves(rows), _halves(columns)
    first = first | np.uint32(1)  # The product with an odd number takes every value as the column key varies.
    factor = column[1] | np.uint32(1)
    buffers: tuple[UInt32, UInt32] | None = None
    for start, block in _blocks(out):  # All steps are done on one block while it is in the processor's cache.
        part = slice(start, start + len(block))
        if buffers is None:
            buffers = np.empty(block.shape, dtype=np.uint32), np.empty(block.shape, dtype=np.uint32)
        drawn, spare = (buffer[: len(block)] for buffer in buffers)
        np.multiply(first[part, None], column[0], out=drawn)
        np.add(drawn, second[part, None], out=drawn)
        np.right_shift(drawn, np.uint32(16), out=spare)
        np.bitwise_xor(drawn, spare, out=drawn)
        np.multiply(drawn, factor, out=drawn)
        np.right_shift(drawn, np.uint32(9), out=drawn)
        block[...] = drawn.view(np.int32)  # Processors convert signed integers to floating point faster.
        block -= shift  # This is exact, because the result needs 24 bits.
        block *= unit
    return out


def _halves(keys: UInt64) -> tuple[UInt32, UInt32]:
    """Return the lower and the upper 32 bits of keys."""
    return keys.astype(np.uint32), (keys >> _HALF).astype(np.uint32)
