"""CSV files of recordings in the layout of the genuine files, with their peculiarities, so that one loader reads both.

A banner row with the stages precedes the header. Some names begin with a space. Times are written as day/month/year on
a twelve-hour clock and begin with a space. The label ``Attack`` is sometimes spelt ``A ttack``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from graphfaith._base.errors import InputError
from graphfaith._base.files import check_output, write_parts

from ..plant.recording import Recording
from .tags import ACTUATORS, NUM_TAGS, SWAT, TAGS, stage

TIME_COLUMN: Final = SWAT.layout.time
LABEL_COLUMN: Final = SWAT.layout.label
NORMAL, ATTACK, MISSPELT = SWAT.layout.normal[0], SWAT.layout.attack[0], "A ttack"

_SPACED: Final = frozenset(f"{TIME_COLUMN} MV101 AIT201 MV201 P201 P202 P204 MV303".split())
_MISSPELT_EVERY: Final = 50  # one in this many attack labels is misspelt
_BLOCK: Final = 3600  # rows that are formatted at a time
_ROW: Final = ",".join("%d" if tag in ACTUATORS else "%.7g" for tag in TAGS)


def write_csv(recording: Recording, path: str | os.PathLike[str]) -> Path:
    """Write a recording to a ``.csv`` file, with seven significant digits per reading, and return its path."""
    steps = len(recording)
    if not steps or recording.readings.shape != (steps, NUM_TAGS) or recording.labels.shape != (steps,):
        raise InputError(
            f"a recording needs T > 0 times, readings [T, {NUM_TAGS}] and labels [T] "
            f"(got {steps}, {list(recording.readings.shape)} and {list(recording.labels.shape)})"
        )
    if not np.isfinite(recording.readings).all():
        raise InputError("the readings of a recording must be finite (got NaN or an infinite number)")
    target = check_output(path, (".csv",))
    write_parts(target, (part.encode("ascii") for part in _format_parts(recording)))
    return target


def _format_parts(recording: Recording) -> Iterator[str]:
    names = (TIME_COLUMN, *TAGS, LABEL_COLUMN)
    seen: set[int] = set()
    banner = [""]
    for tag in TAGS:
        banner.append("" if stage(tag) in seen else f"P{stage(tag)}")
        seen.add(stage(tag))
    yield ",".join([*banner, ""]) + "\n"
    yield ",".join(f" {name}" if name in _SPACED else name for name in names) + "\n"
    attacked = 0
    for low in range(0, len(recording), _BLOCK):
        part = slice(low, low + _BLOCK)
        lines = []
        columns = (recording.times[part].tolist(), recording.readings[part].tolist(), recording.labels[part].tolist())
        for time, row, under_attack in zip(*columns, strict=True):
            attacked += under_attack
            label = NORMAL if not under_attack else ATTACK if attacked % _MISSPELT_EVERY else MISSPELT
            # The result of %p in strftime depends on the user's language.
            clock = f"{time.hour % 12 or 12:02}:{time:%M:%S} {'PM' if time.hour >= 12 else 'AM'}"
            lines.append(f" {time:%d/%m/%Y} {clock},{_ROW % tuple(row)},{label}\n")
        yield "".join(lines)
