"""What a tag did just before an alarm, in words: since when it reads so, when it did so last, and who was switched.

Only the readings are used, so that it can be said of any plant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .series import Series
from .words import format_reading, join_names, say_duration

_SWITCHED: Final = 3  # actuators that are named


def tell_history(series: Series, name: str, at: int, expected: float) -> str:
    """Say since when a tag reads as it does at step ``at``, when it did so last before that, and for how long.

    Of an actuator this is its state. Of a sensor it is to be on the same side as now of the middle between its reading
    and what was ``expected``. A reading that is as expected has no side, and nothing is said of it.
    """
    plant, column = series.plant, series.plant.column(name)
    values = series.values[: at + 1, column]
    if plant[name].is_actuator:
        so = np.round(values) == np.round(values[-1])
        does = format_reading(plant, name, values[-1])
        words = f"It has been {does} for", f"it was last {does}"
    elif float(values[-1]) == expected:
        return ""
    else:
        middle = (float(values[-1]) + expected) / 2.0
        high = bool(values[-1] >= middle)
        so = values >= middle if high else values <= middle
        side = "above" if high else "below"
        words = f"It has read {side} {format_reading(plant, name, middle)} for", "it last did so"
    present, before = _stretches(so)
    lasted = say_duration(_seconds(series, present[0], at) + plant.step)
    if present[0] == 0:
        return f"{words[0]} {lasted}, since the recording began."
    if before is None:
        return f"{words[0]} {lasted}, for the first time in this recording."
    ago, length = _seconds(series, before[1], present[0]), _seconds(series, *before) + plant.step
    return f"{words[0]} {lasted}; before that {words[1]} {say_duration(ago)} earlier, for {say_duration(length)}."


def tell_switches(series: Series, names: Sequence[str], at: int) -> str:
    """Say which of these actuators went to another state within the time that the plant needs to recover.

    The latest comes first. The result is empty if there was none.
    """
    plant = series.plant
    found = []
    for name in names:
        if not plant[name].is_actuator:
            continue
        states = np.round(series.values[: at + 1, plant.column(name)])
        changed = np.flatnonzero(states[1:] != states[:-1]) + 1
        if not len(changed):
            continue
        ago = _seconds(series, int(changed[-1]), at)
        if ago <= plant.recovery:
            found.append((ago, f"{name} went {format_reading(plant, name, states[-1])} {_say_ago(ago)}"))
    if not found:
        return ""
    return f"Beside it {join_names([words for _, words in sorted(found)[:_SWITCHED]])}."


def _say_ago(seconds: int) -> str:
    return f"{say_duration(seconds)} before" if seconds else "in this moment"


def _stretches(so: NDArray[np.bool_]) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """Return the first and the last step of the last stretch, which ends the array, and of the one before it.

    >>> _stretches(np.array([False, True, True, False, True]))
    ((4, 4), (1, 2))
    >>> _stretches(np.array([False, True]))
    ((1, 1), None)
    """
    others = np.flatnonzero(~so)
    first = int(others[-1]) + 1 if len(others) else 0
    earlier = np.flatnonzero(so[:first])
    if not len(earlier):
        return (first, len(so) - 1), None
    end = int(earlier[-1])
    gaps = np.flatnonzero(~so[:end])
    return (first, len(so) - 1), (int(gaps[-1]) + 1 if len(gaps) else 0, end)


def _seconds(series: Series, first: int, last: int) -> int:
    return int((series.times[last] - series.times[first]).astype("timedelta64[s]").astype(np.int64))
