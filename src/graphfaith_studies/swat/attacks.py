"""The attacks of the plant's documents as a table: which tags each attack holds, ramps, shifts or forces, and when.

An attack changes the readings that a PLC receives or the state of an actuator, and the simulated plant reacts to it.
The numbers are those of the documents, which count to 41 and describe 36 attacks. This table has 33 of them. Attack 4
opens a valve that has no tag. Attacks 14 and 29 had no effect: there was nothing to open, and a mechanical interlock
kept the pumps off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from graphfaith._base.checks import check_count, check_real
from graphfaith._base.errors import InputError

from .tags import ACTUATORS, SENSORS, column


@dataclass(frozen=True, slots=True)
class Hold:
    """An action that makes the PLC read ``value``, with the sensor's usual noise, whatever the plant does."""

    tag: str
    value: float

    def __post_init__(self) -> None:
        _check_sensor(self.tag, "held")
        check_real(self.value, f"the value that {self.tag} is held at", least=0.0)


@dataclass(frozen=True, slots=True)
class Ramp:
    """An action that makes the PLC read r + ``rate`` t, with noise, where r is the first reading and t seconds."""

    tag: str
    rate: float

    def __post_init__(self) -> None:
        _check_sensor(self.tag, "ramped")
        check_real(abs(self.rate), f"the size of the rate of {self.tag}", above=0.0)


@dataclass(frozen=True, slots=True)
class Shift:
    """An action that makes the PLC read the true value plus ``by``."""

    tag: str
    by: float

    def __post_init__(self) -> None:
        _check_sensor(self.tag, "shifted")
        check_real(abs(self.by), f"the size of the shift of {self.tag}", above=0.0)


@dataclass(frozen=True, slots=True)
class Force:
    """An action that keeps the actuator in ``state`` (1 off or closed, 2 on or open), whatever the PLC commands."""

    tag: str
    state: int

    def __post_init__(self) -> None:
        column(self.tag)
        if self.tag not in ACTUATORS:
            raise InputError(f"{self.tag} is a sensor: it can be held, ramped or shifted, not forced")
        if self.state not in (1, 2):
            raise InputError(f"{self.tag} can be forced to 1 (off, closed) or 2 (on, open), not to {self.state!r}")


Action = Hold | Ramp | Shift | Force


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack: its number, its actions, its duration in seconds, and the actuator states in which it begins.

    >>> Attack(8, (Hold("DPIT301", 45.0),), 600).targets
    ('DPIT301',)
    """

    number: int
    actions: tuple[Action, ...]
    seconds: int
    when: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_count(self.number, "the number of an attack")
        check_count(self.seconds, f"the seconds of attack {self.number}")
        if not self.actions:
            raise InputError(f"attack {self.number} does nothing; give it a Hold, a Ramp, a Shift or a Force")
        if len(set(self.targets)) < len(self.targets):
            raise InputError(f"attack {self.number} has two actions for the same tag: {', '.join(self.targets)}")
        for tag in self.when:
            column(tag)
            if tag not in ACTUATORS:  # The noise of a sensor would make the start of the attack random.
                raise InputError(f"attack {self.number} waits for the sensor {tag}; it can only wait for an actuator")

    @property
    def targets(self) -> tuple[str, ...]:
        """The tags that the attack changes."""
        return tuple(action.tag for action in self.actions)


def _check_sensor(tag: str, action: str) -> None:
    column(tag)
    if tag not in SENSORS:
        raise InputError(f"{tag} is an actuator: it can be forced, not {action}")


# The states of the plant in which the attacks begin.
_FILLING1, _FULL1 = {"MV101": 2}, {"MV101": 1}
_TRANSFER, _NO_TRANSFER = {"P101": 2}, {"P101": 1, "MV201": 1}
_FILTERING, _HOLDING = {"P302": 2, "MV302": 2}, {"P302": 1, "MV302": 2}
_BACKWASH_BEGINS = {"MV301": 0, "MV304": 1}
_PRESSING = {"P501": 2, "UV401": 2}

ATTACKS: Final = (
    Attack(1, (Force("MV101", 2),), 600, _FULL1),
    Attack(2, (Force("P102", 2),), 420, _TRANSFER),
    Attack(3, (Ramp("LIT101", 1.0),), 480, _FILLING1),
    Attack(6, (Hold("AIT202", 6.0),), 600, {"P203": 2}),
    Attack(7, (Hold("LIT301", 1210.0),), 420, _TRANSFER),
    Attack(8, (Hold("DPIT301", 45.0),), 720, _FILTERING),
    Attack(10, (Hold("FIT401", 0.0),), 300, _PRESSING),
    Attack(11, (Hold("FIT401", 0.0),), 300, _PRESSING),
    Attack(13, (Force("MV304", 1),), 420, _BACKWASH_BEGINS),
    Attack(16, (Ramp("LIT301", -1.0),), 540, _NO_TRANSFER),
    Attack(17, (Force("MV303", 1),), 420, _BACKWASH_BEGINS),
    Attack(19, (Hold("AIT504", 16.0),), 480, _PRESSING),
    Attack(20, (Hold("AIT504", 255.0),), 480, _PRESSING),
    Attack(21, (Force("MV101", 2), Hold("LIT101", 700.0)), 720, _FULL1),
    Attack(22, (Force("UV401", 1), Hold("AIT502", 150.0), Force("P501", 2)), 480, _PRESSING),
    Attack(23, (Force("P602", 1), Hold("DPIT301", 0.4), Force("MV302", 2)), 600, _BACKWASH_BEGINS),
    Attack(24, (Force("P203", 1), Force("P205", 1)), 480, {"P203": 2, "P205": 2}),
    Attack(25, (Hold("LIT401", 1000.0), Force("P402", 2)), 720, _FILTERING),
    Attack(26, (Force("P101", 2), Hold("LIT301", 801.0)), 900, _NO_TRANSFER),
    Attack(27, (Force("P302", 2), Hold("LIT401", 600.0)), 600, _HOLDING),
    Attack(28, (Force("P302", 1),), 28_700, _FILTERING),
    Attack(30, (Hold("LIT101", 700.0), Force("P101", 2), Force("MV201", 2)), 720, _NO_TRANSFER),
    Attack(31, (Hold("LIT401", 700.0),), 600, _HOLDING),
    Attack(32, (Hold("LIT301", 1250.0),), 420, _TRANSFER),
    Attack(33, (Hold("LIT101", 850.0),), 540, _FILLING1),
    Attack(34, (Force("P101", 1),), 420, _TRANSFER),
    Attack(35, (Force("P101", 1), Force("P102", 1)), 420, _TRANSFER),
    Attack(36, (Hold("LIT101", 240.0),), 480, _TRANSFER),
    Attack(37, (Force("P501", 1), Hold("FIT502", 1.29)), 480, _PRESSING),
    Attack(38, (Hold("AIT402", 260.0), Hold("AIT502", 260.0)), 480, {"P403": 1, "P501": 2}),
    Attack(39, (Hold("FIT401", 0.49), Hold("AIT502", 140.0)), 360, _PRESSING),
    Attack(40, (Hold("FIT401", 0.0),), 360, _PRESSING),
    Attack(41, (Ramp("LIT301", -0.5),), 900, _NO_TRANSFER),
)
LONG: Final = 28  # has most of the attacked seconds, so that results are reported with and without it
