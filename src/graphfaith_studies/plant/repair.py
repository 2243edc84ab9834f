"""Repair of the readings of a file: impossible readings become missing, and short gaps are bridged.

A missing reading of a sensor lies on the straight line between its neighbours in time; an actuator keeps its last
state. Rows in which a longer gap remains are left out, so that nothing is forecast across it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .plant import Plant, Tag

# Historians write such numbers for a reading that they do not have.
SENTINELS: Final = (-999.0, -9999.0, -99999.0, -32768.0)
_BLOCK: Final = 1 << 16  # rows that are moved at a time
Readings = NDArray[np.float32]
Rows = NDArray[np.int32]  # a file has fewer than two billion rows; half of the memory of the usual whole numbers


@dataclass(frozen=True)
class Grid:
    """Rows of a file and the missing rows between them that can be bridged.

    ``slots`` [T] are their places in time, in rows since the first. ``source`` [T] is the row of the file that each
    was, or the row before it if it was missing; ``place`` has the places of the rows of the file.
    """

    slots: Rows
    source: Rows
    place: Rows

    @classmethod
    def of(cls, slots: Rows, longest: int) -> Grid:
        """Return the grid for increasing ``slots`` of a file; gaps of at most ``longest`` rows are filled.

        >>> Grid.of(np.array([0, 1, 4, 9], dtype=np.int32), 2).slots.tolist()
        [0, 1, 2, 3, 4, 9]
        """
        apart = np.diff(slots, prepend=slots[:1] - 1) - 1
        added = np.where(apart <= longest, apart, 0)
        place = np.arange(len(slots), dtype=np.int32)
        place += np.add.accumulate(added, dtype=np.int32)
        source = np.repeat(np.arange(len(slots), dtype=np.int32), np.append(added[1:], 0) + 1)
        filled = np.arange(len(source), dtype=np.int32)
        filled -= place[source]
        filled += slots[source]
        return cls(filled, source, place)


@dataclass(frozen=True)
class Repaired:
    """The rows that are usable, as places [T] in a grid, with their readings, and what was bridged.

    ``bridged`` counts readings, ``dropped`` rows, and ``incomplete`` [n] readings of each tag that are missing and
    could not be bridged.
    """

    rows: Rows
    readings: Readings
    bridged: int
    dropped: int
    incomplete: NDArray[np.int64]


def keep_rows(readings: Readings, rows: Rows) -> Readings:
    """Return these increasing rows of ``readings``, moved to its beginning: a long file is never copied as a whole."""
    if len(rows) < len(readings):
        for low in range(0, len(rows), _BLOCK):
            part = rows[low : low + _BLOCK]
            readings[low : low + len(part)] = readings[part]
    return readings[: len(rows)]


def spread_rows(readings: Readings, place: Rows) -> None:
    """Move the first rows of ``readings`` to their places in it, from the last one back, and put NaN between them."""
    if len(place) == len(readings):
        return
    for low in reversed(range(0, len(place), _BLOCK)):
        part = place[low : low + _BLOCK]
        readings[part] = readings[low : low + len(part)].copy()
    between = np.ones(len(readings), dtype=bool)
    between[place] = False
    readings[between] = np.nan


def find_impossible(tag: Tag, readings: Readings) -> NDArray[np.bool_]:
    """Return where a tag's readings [T] are finite numbers that it cannot have."""
    if tag.is_actuator:
        return np.isfinite(readings) & ~np.isin(readings, list(tag.kind.states))
    low, high = tag.kind.possible
    impossible = np.isfinite(readings) & ((readings < low) | (readings > high))
    return impossible | np.isin(readings, SENTINELS) if np.isneginf(low) else impossible


def repair(plant: Plant, slots: Rows, readings: Readings, longest: int) -> Repaired:
    """Bridge missing readings (NaN) for at most ``longest`` rows, in place, and leave out rows in which some remain.

    ``slots`` [T] increase; where they do so by more than 1, nothing is bridged.
    """
    bridged = 0
    complete = np.ones(len(slots), dtype=bool)
    incomplete = np.zeros(len(plant), dtype=np.int64)
    for column, tag in enumerate(plant.tags):
        values = np.ascontiguousarray(readings[:, column])
        missing = np.isnan(values)
        if not missing.any():
            continue
        short = _find_short_gaps(missing, slots, longest)
        known = np.flatnonzero(~missing)
        if len(known):
            before = known[np.maximum(np.searchsorted(known, np.flatnonzero(short)) - 1, 0)]
            line = np.interp(np.flatnonzero(short), known, values[known])
            readings[short, column] = values[before] if tag.is_actuator else line
        bridged += int(short.sum())
        left = missing & ~short
        incomplete[column] = left.sum()
        complete &= ~left
    rows = np.flatnonzero(complete).astype(np.int32)
    return Repaired(rows, keep_rows(readings, rows), bridged, len(slots) - len(rows), incomplete)


def _find_short_gaps(missing: NDArray[np.bool_], slots: Rows, longest: int) -> NDArray[np.bool_]:
    """Return where readings are missing for at most ``longest`` rows, with readings right before and after."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], missing, [False])).astype(np.int8)))
    first, stop = edges[::2], edges[1::2]
    inside = (first > 0) & (stop < len(missing)) & (stop - first <= longest)
    first, stop = first[inside], stop[inside]
    unbroken = slots[stop] - slots[first - 1] == stop - first + 1
    short = np.zeros(len(missing), dtype=bool)
    for low, high in zip(first[unbroken], stop[unbroken], strict=True):
        short[low:high] = True
    return short
