"""When the attacks happen: a plan of rests and attacks, and what is left of it once the plant has had its say."""

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

REST: Final = (540, 1300)  # seconds between two attacks; a tenth of what the one before took comes on top
PATIENCE: Final = 3600  # seconds that an attack waits for the state it begins in; then it begins in any state


@dataclass(frozen=True, slots=True)
class Planned:
    """An attack that begins ``rest`` seconds after the one before has ended, or as soon after that as it can."""

    attack: Attack
    rest: int

    def __post_init__(self) -> None:
        check_count(self.rest, f"the rest before attack {self.attack.number}")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Attacks one after the other.

    >>> plan = Schedule.of(ATTACKS[:2], seed=1)
    >>> [entry.attack.number for entry in plan.entries]
    [1, 2]
    """

    entries: tuple[Planned, ...]
    patience: int = PATIENCE

    def __post_init__(self) -> None:
        if not self.entries:
            raise InputError("a schedule needs at least one attack; for none, simulate with attacks=None")
        check_count(self.patience, "patience")

    @classmethod
    def of(cls, attacks: Sequence[Attack] = ATTACKS, *, seed: int = 0) -> Schedule:
        """All ``attacks`` in their order, with normal stretches of random length before each.

        The default takes 26 to 28.5 hours with what the attacks wait; attack 28 is 63 % of all attacked seconds, as in
        the documents.
        """
        rng = np.random.default_rng(np.random.SeedSequence(check_seed(seed), spawn_key=(1000,)))
        entries = []
        before = 6000
        for attack in attacks:
            entries.append(Planned(attack, int(rng.integers(*REST)) + before // 10))
            before = attack.seconds
        return cls(tuple(entries))


@dataclass(frozen=True, slots=True)
class Span:
    """An attack that happened, from row ``start`` to before row ``stop``, and what it made each sensor read.

    ``shown`` holds (column, value at the start, change a second).
    """

    attack: Attack
    start: int
    stop: int
    shown: tuple[tuple[int, float, float], ...]

    def write(self, readings: NDArray[np.float64]) -> None:
        """Put what the attacked sensors showed into ``readings`` [T, 51]."""
        seconds = np.arange(self.stop - self.start)
        for tag, value, rate in self.shown:
            readings[self.start : self.stop, tag] = np.clip(value + rate * seconds, *_range(rate))


class Attacker:
    """Carries out a schedule, a second at a time: changes what is seen, and says what is forced."""

    def __init__(self, schedule: Schedule) -> None:
        self.spans: list[Span] = []
        self.forces: list[tuple[int, float]] = []
        self._shown: list[tuple[int, float, float]] = []
        self._patience = schedule.patience
        self._coming = list(reversed(schedule.entries))
        self._start = 0
        self._wake = self._coming[-1].rest
        self._now: Attack | None = None

    def look(self, second: int, row: list[float]) -> None:
        """Begin or end an attack if it is time to, and change what the PLCs will see in ``row``."""
        if second >= self._wake:
            self._turn(second, row)
        if self._shown:
            gone = second - self._start
            for tag, value, rate in self._shown:
                low, high = _range(rate)
                row[tag] = min(high, max(low, value + rate * gone))

    def end(self, second: int) -> None:
        """The run is over: an attack that is not is cut there."""
        if self._now is not None:
            self.spans.append(Span(self._now, self._start, second, tuple(self._shown)))

    def _turn(self, second: int, row: list[float]) -> None:
        if self._now is not None:
            self.end(second)
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
            place = column(action.tag)
            if isinstance(action, Force):
                self.forces.append((place, float(action.state)))
            elif isinstance(action, Hold):
                self._shown.append((place, action.value, 0.0))
            else:
                self._shown.append((place, row[place], action.rate))


def _range(rate: float) -> tuple[float, float]:
    """A ramp ends at the bottom and the top of the tank; what is held is shown as it is."""
    return (0.0, HEIGHT) if rate else (-np.inf, np.inf)


def truth(spans: Sequence[Span], steps: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which tags were attacked when, [T, 51], and the number of the attack, [T] with 0 for none."""
    attacked = np.zeros((steps, NUM_TAGS), dtype=np.bool_)
    numbers = np.zeros(steps, dtype=np.int64)
    for span in spans:
        attacked[span.start : span.stop, [column(tag) for tag in span.attack.targets]] = True
        numbers[span.start : span.stop] = span.attack.number
    return attacked, numbers
