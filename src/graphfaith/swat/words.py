"""Tags and alarms in plain words, for who runs the plant."""

from __future__ import annotations

from typing import Final

from .tags import STAGES, stage

_KINDS: Final = {
    "DPIT": ("pressure difference", "kPa"),
    "AIT": ("analyser", ""),
    "FIT": ("flow", "m³/h"),
    "LIT": ("level", "mm"),
    "PIT": ("pressure", "kPa"),
    "MV": ("valve", ""),
    "UV": ("lamp", ""),
    "P": ("pump", ""),
}
_STATES: Final = {
    "MV": {0: "moving", 1: "closed", 2: "open"},
    "UV": {1: "off", 2: "on"},
    "P": {1: "off", 2: "on"},
}


def kind(tag: str) -> str:
    """The letters of a tag.

    >>> kind("DPIT301")
    'DPIT'
    """
    return tag.rstrip("0123456789")


def described(tag: str) -> str:
    """A tag with what it is.

    >>> described("FIT401")
    'FIT401 (flow, dechlorination)'
    """
    return f"{tag} ({_KINDS[kind(tag)][0]}, {STAGES[stage(tag) - 1]})"


def reading(tag: str, value: float) -> str:
    """A reading with its unit, or the state of an actuator.

    >>> reading("FIT401", 1.7134), reading("P102", 2.0), reading("P101", 1.4)
    ('1.71 m³/h', 'on', '1.40 (between off and on)')
    """
    letters = kind(tag)
    states = _STATES.get(letters)
    if states is None:
        unit = _KINDS[letters][1]
        return f"{value:.3g}" + (f" {unit}" if unit else "")
    near = round(value)
    if abs(value - near) < 0.15 and near in states:
        return states[near]
    return f"{value:.2f} (between {states[1]} and {states[2]})"


def listed(names: list[str]) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"
