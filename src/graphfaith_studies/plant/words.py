"""Tags and readings in plain words, for the operators of the plant."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final

from .plant import Plant

_DIGITS: Final = 6  # Readings are in single precision, which has no more.


def describe(plant: Plant, name: str) -> str:
    """Return a tag with its kind and its part of the plant.

    >>> describe(Plant.named("swat"), "FIT401")
    'FIT401 (flow, dechlorination)'
    """
    tag = plant[name]
    return f"{name} ({tag.kind.name}, {tag.part})"


def format_reading(plant: Plant, name: str, value: float) -> str:
    """Return a reading with its unit, or the state of an actuator.

    >>> swat = Plant.named("swat")
    >>> format_reading(swat, "FIT401", 1.7134), format_reading(swat, "LIT301", 1210.4)
    ('1.71 m³/h', '1210 mm')
    >>> format_reading(swat, "P102", 2.0), format_reading(swat, "P101", 1.4)
    ('on', 'between off and on')
    """
    kind = plant[name].kind
    if kind.states:
        state = round(value)
        if abs(value - state) < 0.15 and state in kind.states:
            return kind.states[state]
        below, above = math.floor(value), math.ceil(value)
        if below in kind.states and above in kind.states:
            return f"between {kind.states[below]} and {kind.states[above]}"
        return f"{value:.2f}"
    return format_number(value) + (f" {kind.unit}" if kind.unit else "")


def say_range(plant: Plant, name: str, low: float, high: float) -> str:
    """Return two readings, with their unit once.

    >>> swat = Plant.named("swat")
    >>> say_range(swat, "LIT301", 796.1, 1002.6), say_range(swat, "P101", 1.0, 2.0), say_range(swat, "P202", 1.0, 1.0)
    ('796 to 1003 mm', 'off to on', 'off')
    """
    first, second = (format_reading(plant, name, value) for value in (low, high))
    if first == second:
        return first
    return f"{first.removesuffix(plant[name].kind.unit).strip()} to {second}"


def format_number(value: float) -> str:
    """Return a number with three or more figures and without an exponent.

    >>> format_number(0.0123), format_number(8.414), format_number(1210.4), format_number(-25.0), format_number(1e-55)
    ('0.0123', '8.41', '1210', '-25.0', '0.00')
    """
    size = abs(value)
    if size < 5e-7:  # A simulated flow that dies away is never quite 0.
        return "0.00"
    if size and size < 0.1:
        return f"{value:.3g}" if size >= 1e-4 else f"{value:.6f}"
    return f"{value:.{2 if size < 10 else 1 if size < 100 else 0}f}"


def format_pair(plant: Plant, name: str, actual: float, expected: float) -> tuple[str, str]:
    """Return a reading and its forecast as text; as numbers if they would be equal in words, with digits that differ.

    >>> swat = Plant.named("swat")
    >>> format_pair(swat, "P102", 2.0, 1.02), format_pair(swat, "P401", 1.0, 1.08), format_pair(swat, "P401", 1, 1.003)
    (('on', 'off'), ('1.00', '1.08'), ('1.000', '1.003'))
    """
    words = format_reading(plant, name, actual), format_reading(plant, name, expected)
    digits = 2
    while words[0] == words[1] and digits <= _DIGITS:
        words = f"{actual:.{digits}f}", f"{expected:.{digits}f}"
        digits += 1
    return words


def describe_mismatch(plant: Plant, name: str, actual: float, expected: float) -> str:
    """Return a heading that says how the reading of a tag differs from its forecast.

    >>> swat = Plant.named("swat")
    >>> describe_mismatch(swat, "FIT401", 0.0, 1.7), describe_mismatch(swat, "P102", 2.0, 1.0)
    ('FIT401 too low', 'P102 on, off expected')
    >>> describe_mismatch(swat, "P401", 1.0, 1.08)
    'P401 not as expected'
    """
    if not plant[name].is_actuator:
        return f"{name} too {'high' if actual > expected else 'low'}"
    words = format_reading(plant, name, actual), format_reading(plant, name, expected)
    same = words[0] == words[1] or not words[1].isalpha()
    return f"{name} not as expected" if same else f"{name} {words[0]}, {words[1]} expected"


def join_names(names: list[str]) -> str:
    """Join names for use in a sentence.

    >>> join_names(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"


def say_duration(seconds: int) -> str:
    """Return a duration in one or two units.

    >>> say_duration(50), say_duration(600), say_duration(5400), say_duration(200_000)
    ('50 s', '10 min', '1 h 30 min', '2 days 8 h')
    """
    for size, unit, lower, lower_unit in ((86_400, "days", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = round(seconds % size / lower)
            name = "day" if unit == "days" and seconds < 2 * size else unit
            return f"{seconds // size} {name}" + (f" {rest} {lower_unit}" if rest else "")
    return f"{seconds} s"


def say_time(moment: datetime) -> str:
    """Return a day and a time, without the seconds if there are none.

    >>> say_time(datetime(2015, 12, 28, 10, 12, 20)), say_time(datetime(2016, 9, 13, 23))
    ('28 December 10:12:20', '13 September 23:00')
    """
    clock = f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
    return f"{moment.day} {moment:%B} {clock}"
