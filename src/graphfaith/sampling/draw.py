"""Counter-based random numbers: a draw is a function of (seed, stream, row, column) and of nothing else.

A generator with a state would give an edge another number when the chunk size, the subgraph or the order of
nodes changes. Here the number of edge 17 in sample 3 is computed from 17 and 3, so one node explained alone, the
same node in a run over the whole graph, and any worker see the same perturbations.

Keys are made by the 64-bit finaliser of SplitMix64; a row key and a column key are then mixed to 32 bits by three
multiply-xorshift rounds, cheap enough for tens of millions of features.
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
_BLOCK = 1 << 16  # elements mixed at a time: small enough for the cache


_MIX = tuple((np.uint64(s), np.uint64(f)) for s, f in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)))
_LAST = np.uint64(31)
_HALF = np.uint64(32)
# The three rounds of ``bits``: a factor and a shift.
_ROUNDS = tuple((np.uint32(f), np.uint32(s)) for f, s in ((0xCC9E2D51, 15), (0x85EBCA6B, 13), (0xC2B2AE35, 16)))
_CACHED = 1 << 14  # counters at most whose keys are remembered: 128 kB of them, and as much of keys


def _finalise(z: UInt64) -> UInt64:
    """Mix ``z`` in place, and return it."""
    for shift, factor in _MIX:
        z ^= z >> shift
        z *= factor
    z ^= z >> _LAST
    return z


def _words(counters: npt.NDArray[np.integer]) -> UInt64:
    """Counters, mixed: what a state is combined with."""
    words = counters.astype(np.uint64)
    words += _GOLDEN
    return _finalise(words)


@lru_cache(maxsize=256)
def _stream(seed: int, stream: str) -> UInt64:
    """The state that all keys of a seed and a stream begin with, as an array of one that cannot be written to."""
    state = np.asarray([int.from_bytes(stream.encode()[:8].ljust(8, b"\0"), "little")], dtype=np.uint64)
    state = _finalise((state + _GOLDEN) ^ _words(np.asarray([seed], dtype=np.uint64)))
    state.flags.writeable = False
    return state


def keys(seed: int, stream: str, *counters: npt.NDArray[np.integer]) -> UInt64:
    """64-bit keys of (seed, stream, counters), the counters broadcast against each other.

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
    """Keys of several streams, each with a list of counters, one after the other; in one go, as lists may be short.

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


def remembered_keys(seed: int, stream: str, counters: npt.NDArray[np.integer]) -> UInt64:
    """The same as :func:`keys`, for counters that come again and again: samples and columns. It may be read-only."""
    if counters.size > _CACHED:
        return keys(seed, stream, counters)
    return _remembered(check_seed(seed), stream, counters.astype(np.int64, copy=False).tobytes())


@lru_cache(maxsize=16)
def _remembered(seed: int, stream: str, counters: bytes) -> UInt64:
    found = keys(seed, stream, np.frombuffer(counters, dtype=np.int64))
    found.flags.writeable = False  # it is handed out again
    return found


def bits(rows: UInt64, columns: UInt64, *, by_column: bool = False) -> UInt32:
    """32 random bits for each pair of a row key and a column key: ``[len(rows), len(columns)]``.

    They are laid out in memory row after row, or column after column if ``by_column``.
    """
    out = np.empty((len(columns), len(rows)) if by_column else (len(rows), len(columns)), dtype=np.uint32)
    for start, block in _blocks(out):
        _mix(block, rows, columns, start, by_column)
    return out.T if by_column else out


def _blocks(out: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Parts of the rows of ``out`` that are small enough for the cache, and where each begins."""
    step = max(1, _BLOCK // max(1, out.shape[1]))
    for start in range(0, len(out), step):
        yield start, out[start : start + step]


def _mix(block: UInt32, rows: UInt64, columns: UInt64, start: int, by_column: bool = False) -> None:
    """Write the bits of a block of rows, or of columns, into it."""
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
    """Uniform numbers in (0, 1), symmetric about 1/2: ``(bits + 1/2) / 2^32``."""
    out: npt.NDArray[np.float64] = bits(rows, columns).astype(np.float64)
    out += 0.5
    out *= 2.0**-32
    return out


def symmetric(rows: UInt64, columns: UInt64, scale: float) -> npt.NDArray[np.float64]:
    """``scale * (2 * uniform - 1)``, to the last digit, in fewer steps, and laid out column after column."""
    out: npt.NDArray[np.float64] = bits(rows, columns, by_column=True).astype(np.float64)
    out -= 2.0**31 - 0.5  # exact: 33 bits
    unit = scale * 2.0**-31
    if unit * 2.0**31 == scale:  # so that one product is rounded, as in the formula
        out *= unit
    else:  # the scale is next to the smallest number there is
        out *= 2.0**-31
        out *= scale
    return out


def below(rows: UInt64, columns: UInt64, share: float) -> npt.NDArray[np.bool_]:
    """``uniform < share``, without making the uniform numbers, and laid out column after column."""
    # (bits + 1/2) / 2^32 < share, for whole bits. Both steps to the bound are exact, whatever the share.
    bound = math.ceil(share * 2.0**32 - 0.5)
    drawn = bits(rows, columns, by_column=True)
    return drawn < np.uint32(bound) if bound < 1 << 32 else np.ones_like(drawn, dtype=bool)


def symmetric32(
    rows: UInt64, columns: UInt64, scale: float, out: npt.NDArray[np.float32] | None = None
) -> npt.NDArray[np.float32]:
    """``scale * (2 u - 1)`` in single precision, u from the upper 23 bits; for features, of which there are many.

    They are written to ``out``, if given.
    """
    if out is None:
        out = np.empty((len(rows), len(columns)), dtype=np.float32)
    unit, shift = np.float32(scale * 2.0**-22), np.float32(2.0**22 - 0.5)
    (first, second), column = _halves(rows), _halves(columns)
    first = first | np.uint32(1)  # so that a row takes every value as columns go by
    factor = column[1] | np.uint32(1)
    held: tuple[UInt32, UInt32] | None = None
    for start, block in _blocks(out):  # all steps while a block is in the cache
        these = slice(start, start + len(block))
        if held is None:
            held = np.empty(block.shape, dtype=np.uint32), np.empty(block.shape, dtype=np.uint32)
        drawn, spare = (part[: len(block)] for part in held)
        np.multiply(first[these, None], column[0], out=drawn)
        np.add(drawn, second[these, None], out=drawn)
        np.right_shift(drawn, np.uint32(16), out=spare)
        np.bitwise_xor(drawn, spare, out=drawn)
        np.multiply(drawn, factor, out=drawn)
        np.right_shift(drawn, np.uint32(9), out=drawn)
        block[...] = drawn.view(np.int32)  # a processor turns signed numbers to floating ones sooner
        block -= shift  # exact: 24 bits
        block *= unit
    return out


def _halves(keys: UInt64) -> tuple[UInt32, UInt32]:
    return keys.astype(np.uint32), (keys >> _HALF).astype(np.uint32)
