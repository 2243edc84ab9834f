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
_ANALYSERS: Final = {
    "AIT201": "µS/cm",
    "AIT202": "pH",
    "AIT203": "mV",
    "AIT402": "mV",
    "AIT503": "µS/cm",
    "AIT504": "µS/cm",
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

    >>> reading("FIT401", 1.7134), reading("LIT301", 1210.4), reading("P102", 2.0), reading("P101", 1.4)
    ('1.71 m³/h', '1210 mm', 'on', '1.40')
    """
    states = _STATES.get(kind(tag))
    if states is not None:
        near = round(value)
        return states[near] if abs(value - near) < 0.15 and near in states else f"{value:.2f}"
    unit = _ANALYSERS.get(tag, _KINDS[kind(tag)][1])
    return fixed(value) + (f" {unit}" if unit else "")


def fixed(value: float) -> str:
    """A number of three figures or more, without an exponent.

    >>> fixed(0.0123), fixed(8.414), fixed(1210.4), fixed(-25.0)
    ('0.0123', '8.41', '1210', '-25.0')
    """
    size = abs(value)
    if size and size < 0.1:
        return f"{value:.3g}" if size >= 1e-4 else f"{value:.6f}"
    return f"{value:.{2 if size < 10 else 1 if size < 100 else 0}f}"


def told(tag: str, actual: float, expected: float) -> tuple[str, str]:
    """A reading and what was expected; as numbers, if in words they are the same.

    >>> told("P102", 2.0, 1.02), told("P401", 1.0, 1.08)
    (('on', 'off'), ('1.00', '1.08'))
    """
    words = reading(tag, actual), reading(tag, expected)
    return words if words[0] != words[1] else (f"{actual:.2f}", f"{expected:.2f}")


def mismatch(tag: str, actual: float, expected: float) -> str:
    """What is wrong with a tag, as a heading.

    >>> mismatch("FIT401", 0.0, 1.7), mismatch("P102", 2.0, 1.0), mismatch("P401", 1.0, 1.08)
    ('FIT401 too low', 'P102 on, off expected', 'P401 not as expected')
    """
    if kind(tag) not in _STATES:
        return f"{tag} too {'high' if actual > expected else 'low'}"
    words = reading(tag, actual), reading(tag, expected)
    same = words[0] == words[1] or not words[1].isalpha()
    return f"{tag} not as expected" if same else f"{tag} {words[0]}, {words[1]} expected"


def listed(names: list[str]) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"
