"""Schedules of attacks, and the object that carries out a schedule during a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from graphfaith._base.checks import check_count, check_seed
from graphfaith._base.errors import InputError

from .attacks import ATTACKS, Attack, Force, Hold
from .plant import HEIGHT
from .tags import NUM_TAGS, column

REST: Final = (540, 1300)  # seconds between two attacks, plus a tenth of the duration of the previous attack
PATIENCE: Final = 3600  # seconds that an attack waits for its state; afterwards it begins in any state


@dataclass(frozen=True, slots=True)
class Planned:
    """An attack that begins ``rest`` seconds after the end of the previous one, or later if it waits for its state."""

    attack: Attack
    rest: int

    def __post_init__(self) -> None:
        check_count(self.rest, f"the rest before attack {self.attack.number}")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A sequence of attacks.

    >>> plan = Schedule.of(ATTACKS[:2], seed=1)
    >>> [entry.attack.number for entry in plan.entries]
    [1, 2]
    """

    entries: tuple[Planned, ...]
    patience: int = PATIENCE

    def __post_init__(self) -> None:
        if not self.entries:
            raise InputError("a schedule needs at least one attack; to simulate without attacks, use attacks=None")
        check_count(self.patience, "patience")

    @classmethod
    def of(cls, attacks: Sequence[Attack] = ATTACKS, *, seed: int = 0) -> Schedule:
        """Return a schedule of ``attacks`` in their order, with a random time of normal operation before each.

        The default schedule takes 26 to 28.5 hours, including the time in which attacks wait for their state. Attack
        28 makes up 63 % of all attacked seconds, as in the documents.
        """
        rng = np.random.default_rng(np.random.SeedSequence(check_seed(seed), spawn_key=(1000,)))
        entries = []
        previous_seconds = 6000
        for attack in attacks:
            entries.append(Planned(attack, int(rng.integers(*REST)) + previous_seconds // 10))
            previous_seconds = attack.seconds
        return cls(tuple(entries))


@dataclass(frozen=True, slots=True)
class Span:
    """An attack that happened, from row ``start`` up to, but not including, row ``stop``.

    ``shown`` describes the falsified readings: (column, value at the start, change per second) for each sensor.
    """

    attack: Attack
    start: int
    stop: int
    shown: tuple[tuple[int, float, float], ...]

    def write(self, readings: NDArray[np.float64]) -> None:
        """Write the falsified readings of the attacked sensors into ``readings`` [T, 51]."""
        seconds = np.arange(self.stop - self.start)
        for tag, value, rate in self.shown:
            readings[self.start : self.stop, tag] = np.clip(value + rate * seconds, *_limits_of(rate))


class Attacker:
    """An object that carries out a schedule: it falsifies readings, and ``forces`` holds the forced actuators."""

    def __init__(self, schedule: Schedule) -> None:
        self.spans: list[Span] = []
        self.forces: list[tuple[int, float]] = []
        self._shown: list[tuple[int, float, float]] = []
        self._patience = schedule.patience
        self._coming = list(reversed(schedule.entries))
        self._start = 0
        self._wake = self._coming[-1].rest
        self._now: Attack | None = None

    def falsify(self, second: int, row: list[float]) -> None:
        """Begin or end an attack if its time has come, and change the readings of the attacked sensors in ``row``."""
        if second >= self._wake:
            self._begin_or_end(second, row)
        if self._shown:
            elapsed = second - self._start
            for tag, value, rate in self._shown:
                low, high = _limits_of(rate)
                row[tag] = min(high, max(low, value + rate * elapsed))

    def finish(self, second: int) -> None:
        """Record the current attack, if there is one, as ended at ``second``."""
        if self._now is not None:
            self.spans.append(Span(self._now, self._start, second, tuple(self._shown)))

    def _begin_or_end(self, second: int, row: list[float]) -> None:
        if self._now is not None:
            self.finish(second)
            self._now = None
            self._shown, self.forces = [], []
            self._wake = second + self._coming[-1].rest if self._coming else 1 << 62
            return
        attack = self._coming[-1].attack
        ready = all(row[column(tag)] == state for tag, state in attack.when.items())
        if not ready and second < self._wake + self._patience:
            return
        self._coming.pop()
        self._now, self._start, self._wake = attack, second, second + attack.seconds
        for action in attack.actions:
            tag = column(action.tag)
            if isinstance(action, Force):
                self.forces.append((tag, float(action.state)))
            elif isinstance(action, Hold):
                self._shown.append((tag, action.value, 0.0))
            else:
                self._shown.append((tag, row[tag], action.rate))


def _limits_of(rate: float) -> tuple[float, float]:
    """Return the limits of a falsified reading: the height of the tank for a ramp, and none for a held value."""
    return (0.0, HEIGHT) if rate else (-np.inf, np.inf)


def mark_attacked(spans: Sequence[Span], steps: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return whether each tag was attacked at each step, [T, 51], and the number of the attack or 0, [T]."""
    attacked = np.zeros((steps, NUM_TAGS), dtype=np.bool_)
    numbers = np.zeros(steps, dtype=np.int64)
    for span in spans:
        attacked[span.start : span.stop, [column(tag) for tag in span.attack.targets]] = True
        numbers[span.start : span.stop] = span.attack.number
    return attacked, numbers
