"""Attacks drawn at random beside the documented ones: any tag, any size, at any time, sudden or slow.

Their numbers begin with 101. A sensor is held, shifted or ramped by a share of its usual span; ramps are slow, and may
take a quarter of an hour to leave the usual range. An actuator is forced out of the state that it is in.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphfaith._base.checks import check_count, check_seed

from .attacks import Action, Attack, Force, Hold, Ramp, Shift
from .tags import CONSTANT, TAGS

FIRST: Final = 101  # the number of the first drawn attack
_SECONDS: Final = (180, 900)
_SLOW_SECONDS: Final = (600, 1200)
_ALWAYS_ON: Final = frozenset(("P402", "P501", "UV401"))
_TWO_TAGS: Final = 0.15  # share of attacks on two tags at once

# The usual least and largest reading of each sensor while the plant runs.
USUAL: Final = {
    **{"FIT101": (0.0, 2.6), "LIT101": (500.0, 810.0), "AIT201": (252.0, 259.0), "AIT202": (8.32, 8.6)},
    **{"AIT203": (345.0, 440.0), "FIT201": (0.0, 2.5), "DPIT301": (2.0, 24.0), "FIT301": (0.0, 2.25)},
    **{"LIT301": (800.0, 1010.0), "AIT401": (148.0, 149.6), "AIT402": (235.0, 252.0), "FIT401": (0.9, 1.73)},
    **{"LIT401": (800.0, 1010.0), "AIT501": (7.75, 7.9), "AIT502": (142.0, 150.0), "AIT503": (252.0, 257.0)},
    **{"AIT504": (7.2, 12.0), "FIT501": (0.9, 1.73), "FIT502": (0.0, 1.3), "FIT503": (0.4, 0.75)},
    **{"FIT504": (0.0, 0.31), "PIT501": (10.0, 256.0), "PIT502": (0.3, 1.25), "PIT503": (8.0, 192.0)},
    **{"FIT601": (0.0, 1.7)},
}


def draw_attacks(count: int, *, seed: int = 0) -> tuple[Attack, ...]:
    """Draw attacks; the same seed gives the same ones, and more of them begin with fewer.

    >>> [attack.number for attack in draw_attacks(3, seed=1)]
    [101, 102, 103]
    """
    check_count(count, "count")
    rng = np.random.default_rng(np.random.SeedSequence(check_seed(seed), spawn_key=(1001,)))
    return tuple(_draw_attack(rng, FIRST + index) for index in range(count))


def _draw_attack(rng: np.random.Generator, number: int) -> Attack:
    tags = [TAGS[i] for i in rng.permutation(len(TAGS))[: 1 + int(rng.random() < _TWO_TAGS)]]
    actions = tuple(_draw_action(rng, tag) for tag in tags)
    slow = any(isinstance(action, Ramp) for action in actions)
    when = {action.tag: 3 - action.state for action in actions if isinstance(action, Force)}
    return Attack(number, actions, int(rng.integers(*(_SLOW_SECONDS if slow else _SECONDS))), when)


def _draw_action(rng: np.random.Generator, tag: str) -> Action:
    """Draw an action; sizes are between a fifth and one and a half times the sensor's usual span."""
    size, kind = float(rng.uniform(0.2, 1.5)), int(rng.integers(3))
    sign = 1.0 if rng.random() < 0.5 else -1.0
    if tag not in USUAL:
        state = 1 + int(rng.integers(2))
        return Force(tag, (1 if tag in _ALWAYS_ON else 2) if tag in CONSTANT else state)
    low, high = USUAL[tag]
    if kind == 0:
        return Hold(tag, round(max(low + float(rng.uniform(-0.5, 1.5)) * (high - low), 0.0), 4))
    if kind == 1:
        return Shift(tag, round(sign * size * (high - low), 4))
    return Ramp(tag, round(sign * size * (high - low) / 1200, 7))
