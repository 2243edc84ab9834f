"""Counter-based random numbers: each number depends only on (seed, stream, row, column).

With a stateful generator, the number of an edge would change with the chunk size, the subgraph or the order of the
nodes. Here the number of edge 17 in sample 3 is computed from 17 and 3. So a node gets the same perturbations if it is
explained alone, in a run over the whole graph, or in any worker process.

Keys are computed by the 64-bit finaliser of SplitMix64. A row key and a column key are then mixed to 32 bits by three
multiply-xorshift rounds (:mod:`graphfaith._base.core`), which is fast enough for hundreds of millions of features.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .._base import core
from .._base.checks import check_seed

UInt64 = npt.NDArray[np.uint64]
UInt32 = npt.NDArray[np.uint32]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

_MIX = tuple((np.uint64(s), np.uint64(f)) for s, f in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)))
_LAST = np.uint64(31)


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
    if len(counters) == 1 and counters[0].ndim == 1 and counters[0].dtype == np.int64:
        joined = np.empty(len(counters[0]), dtype=np.uint64)
        core.draw_keys(state[0], counters[0], joined)
        return joined
    for counter in counters:
        state = _finalise((state + _GOLDEN) ^ _words(counter))
    return state if counters else state.copy()


def joined_keys(seed: int, **counters: npt.NDArray[np.integer]) -> UInt64:
    """Return the concatenated keys of several streams, each with its own counters.

    >>> some = joined_keys(0, edge=np.arange(3), loop=np.arange(2))
    >>> bool((some == np.concatenate([keys(0, "edge", np.arange(3)), keys(0, "loop", np.arange(2))])).all())
    True
    """
    seed, first = check_seed(seed), 0
    joined = np.empty(sum(map(len, counters.values())), dtype=np.uint64)
    for stream, counter in counters.items():
        core.draw_keys(_stream(seed, stream)[0], counter, joined[first : first + len(counter)])
        first += len(counter)
    return joined


def bits(rows: UInt64, columns: UInt64) -> UInt32:
    """Return 32 random bits for each pair of a row key and a column key, ``[len(rows), len(columns)]``."""
    out = np.empty((len(rows), len(columns)), dtype=np.uint32)
    core.draw_bits(*map(np.ascontiguousarray, (rows, columns)), out)
    return out


def uniform(rows: UInt64, columns: UInt64) -> npt.NDArray[np.float64]:
    """Return uniform numbers in (0, 1) that are symmetric about 1/2: ``(bits + 1/2) / 2^32``."""
    out: npt.NDArray[np.float64] = bits(rows, columns).astype(np.float64)
    out += 0.5
    out *= 2.0**-32
    return out


def moves(
    seed: int,
    samples: npt.NDArray[np.int64],
    edges: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int64],
    scale: float,
    weight: npt.NDArray[np.float64],
    felt: npt.NDArray[np.bool_],
    *,
    with_values: bool = True,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return eps = min(``scale * (2 * uniform - 1)``, A) for every entry of A and sample, [e, S], and A and A - eps.

    The entries of A, ``weight``, are ``edges`` and then the self-loops of ``nodes``; where they are not ``felt``, eps
    is 0. The second array, [e, 1 + S], has A first; without ``with_values`` it is empty.
    """
    seed = check_seed(seed)
    states = np.concatenate([_stream(seed, name) for name in ("sample", "edge", "loop")])
    eps, values = np.empty((len(weight), len(samples))), np.empty((len(weight), (1 + len(samples)) * with_values))
    given = samples, edges, nodes, *_units(scale), weight, felt
    core.draw_moves(states, *given, eps, values)
    return eps, values


def _units(scale: float) -> tuple[float, float]:
    """Return two factors with which (bits - 2^31 + 1/2) is exactly ``scale * (2 * uniform - 1)``."""
    unit = scale * 2.0**-31
    # If ``unit`` is exact, only one product is rounded, as in the formula above. It is not if the scale is so small
    # that ``unit`` is subnormal and was rounded.
    return (unit, 1.0) if unit * 2.0**31 == scale else (2.0**-31, float(scale))


def below(rows: UInt64, columns: UInt64, share: float) -> npt.NDArray[np.bool_]:
    """Return ``uniform < share`` without computing the uniform numbers; the result is stored column by column."""
    out = np.empty((len(columns), len(rows)), dtype=np.bool_)
    # The condition (bits + 1/2) / 2^32 < share is solved for ``bits``, which is an integer. The product and the
    # difference are exact for every share.
    core.draw_below(*map(np.ascontiguousarray, (rows, columns)), math.ceil(share * 2.0**32 - 0.5), out)
    return out.T


def below_at(
    rows: UInt64, columns: UInt64, row: npt.NDArray[np.int64], column: npt.NDArray[np.int64], share: float
) -> npt.NDArray[np.bool_]:
    """Return ``uniform < share``, as :func:`below`, for some pairs of row keys, [S, n], and column keys alone.

    >>> rows, columns = keys(0, "row", np.arange(6)).reshape(2, 3), keys(0, "column", np.arange(4))
    >>> some = below_at(rows, columns, np.array([2, 0]), np.array([1, 3]), 0.5)
    >>> bool((some == below(rows.reshape(-1), columns, 0.5).reshape(2, 3, 4)[:, [2, 0], [1, 3]]).all())
    True
    """
    out = np.empty((len(rows), len(row)), dtype=np.bool_)
    core.draw_below_at(*map(np.ascontiguousarray, (rows, columns, row, column)), math.ceil(share * 2.0**32 - 0.5), out)
    return out


def symmetric32(rows: UInt64, columns: UInt64, scale: float) -> npt.NDArray[np.float32]:
    """Return ``scale * (2 u - 1)`` in single precision, with u from the upper 23 bits.

    This faster function is used for features, which are many.
    """
    out = np.empty((len(rows), len(columns)), dtype=np.float32)
    core.draw_features(*map(np.ascontiguousarray, (rows, columns)), np.float32(scale * 2.0**-22), out)
    return out
