"""Tags and readings in plain words, for the operators of the plant."""

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


def kind_of(tag: str) -> str:
    """Return the letters of a tag, which name its kind.

    >>> kind_of("DPIT301")
    'DPIT'
    """
    return tag.rstrip("0123456789")


def describe(tag: str) -> str:
    """Return a tag with its kind and its stage.

    >>> describe("FIT401")
    'FIT401 (flow, dechlorination)'
    """
    return f"{tag} ({_KINDS[kind_of(tag)][0]}, {STAGES[stage(tag) - 1]})"


def format_reading(tag: str, value: float) -> str:
    """Return a reading with its unit, or the state of an actuator.

    >>> format_reading("FIT401", 1.7134), format_reading("LIT301", 1210.4)
    ('1.71 m³/h', '1210 mm')
    >>> format_reading("P102", 2.0), format_reading("P101", 1.4)
    ('on', '1.40')
    """
    states = _STATES.get(kind_of(tag))
    if states is not None:
        state = round(value)
        return states[state] if abs(value - state) < 0.15 and state in states else f"{value:.2f}"
    unit = _ANALYSERS.get(tag, _KINDS[kind_of(tag)][1])
    return format_number(value) + (f" {unit}" if unit else "")


def format_number(value: float) -> str:
    """Return a number with three or more figures and without an exponent.

    >>> format_number(0.0123), format_number(8.414), format_number(1210.4), format_number(-25.0)
    ('0.0123', '8.41', '1210', '-25.0')
    """
    size = abs(value)
    if size and size < 0.1:
        return f"{value:.3g}" if size >= 1e-4 else f"{value:.6f}"
    return f"{value:.{2 if size < 10 else 1 if size < 100 else 0}f}"


def format_pair(tag: str, actual: float, expected: float) -> tuple[str, str]:
    """Return a reading and its forecast as text; as numbers if they would be equal in words.

    >>> format_pair("P102", 2.0, 1.02), format_pair("P401", 1.0, 1.08)
    (('on', 'off'), ('1.00', '1.08'))
    """
    words = format_reading(tag, actual), format_reading(tag, expected)
    return words if words[0] != words[1] else (f"{actual:.2f}", f"{expected:.2f}")


def describe_mismatch(tag: str, actual: float, expected: float) -> str:
    """Return a heading that says how the reading of a tag differs from its forecast.

    >>> describe_mismatch("FIT401", 0.0, 1.7), describe_mismatch("P102", 2.0, 1.0), describe_mismatch("P401", 1.0, 1.08)
    ('FIT401 too low', 'P102 on, off expected', 'P401 not as expected')
    """
    if kind_of(tag) not in _STATES:
        return f"{tag} too {'high' if actual > expected else 'low'}"
    words = format_reading(tag, actual), format_reading(tag, expected)
    same = words[0] == words[1] or not words[1].isalpha()
    return f"{tag} not as expected" if same else f"{tag} {words[0]}, {words[1]} expected"


def join_names(names: list[str]) -> str:
    """Join names for use in a sentence.

    >>> join_names(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"
