"""The 14 attacks: which tags were attacked, and what the readings say about it.

The list is recalled from the competition's paper. Attacks are numbered in the order of their labels, 1 to 7 in
``dataset04.csv`` and 8 to 14 in ``test_dataset.csv``. Several were hidden: what the files show is what the attacker let
the operators see. So each entry is compared with the readings, by two rules that need no model: readings outside of the
range of the year without attacks, and pumps that do not follow their controls.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..plant.plant import Plant
from ..plant.series import Series
from .network import Control

_T7, _T1, _PU7 = ("L_T7", "PU10", "PU11"), ("L_T1", "PU1", "PU2"), ("PU7", "L_T4")
_T2, _PU3 = ("L_T2", "V2"), ("PU3",)
ATTACKED: Final = {
    **{1: _T7, 2: _T7, 3: _T1, 4: _T1, 5: _PU7, 6: _PU7, 7: _PU7},
    **{8: ("L_T3", "PU4", "PU5"), 9: _T2, 10: _PU3, 11: _PU3, 12: _T2, 13: _T7, 14: ("L_T4", "PU6", "PU7")},
}
_SLACK: Final = 0.05  # metres of level; a control acts between two hourly readings
_HALF_DIGIT: Final = 0.006  # readings have two digits
Array = NDArray[np.float64]


def attacked_tags(number: int) -> tuple[str, ...]:
    """Return the attacked tags of an attack; a pump or valve has two, its flow and its state.

    >>> attacked_tags(9)
    ('L_T2', 'F_V2', 'S_V2')
    """
    tags: list[str] = []
    for name in ATTACKED[number]:
        tags += [name] if name.startswith("L_") else [f"F_{name}", f"S_{name}"]
    return tuple(tags)


def count_outside(series: Series, normal: Series) -> Array:
    """Return how often each tag [n] is outside of its range in normal operation."""
    low, high = normal.values.min(0) - _HALF_DIGIT, normal.values.max(0) + _HALF_DIGIT
    return np.asarray(((series.values < low) | (series.values > high)).sum(0))


def count_broken(series: Series, controls: tuple[Control, ...]) -> dict[str, int]:
    """Return how many hours each pump or valve does not do what its control says, for two readings of the level."""
    plant, found = series.plant, {}
    for rule in controls:
        state, level = (series.values[:, plant.column(name)] for name in (f"S_{rule.device}", f"L_{rule.tank}"))
        low, high = level < rule.low - _SLACK, level > rule.high + _SLACK
        idle = low[:-1] & low[1:] & (state[1:] == 0)
        busy = high[:-1] & high[1:] & (state[1:] == 1)
        found[rule.device] = int((idle | busy).sum())
    return {device: hours for device, hours in found.items() if hours}


def compare_with_readings(
    plant: Plant, series: Series, normal: Series, controls: tuple[Control, ...]
) -> list[dict[str, Any]]:
    """Return for each attack what was attacked, the tags that leave their range, and the controls that are broken."""
    rows = []
    for number in dict.fromkeys(series.attack_id[series.attack_id > 0].tolist()):
        steps = np.flatnonzero(series.attack_id == number)
        part = series[int(steps[0]) : int(steps[-1]) + 1]
        outside = count_outside(part, normal)
        order = [tag for tag in np.argsort(-outside, kind="stable") if outside[tag]]
        rows.append(
            {
                "attack": number,
                "start": str(part.times[0]),
                "hours": len(part),
                "attacked": attacked_tags(number),
                "outside": {plant.names[tag]: int(outside[tag]) for tag in order},
                "broken": count_broken(part, controls),
            }
        )
    return rows
