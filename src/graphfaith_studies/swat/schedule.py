"""Schedules of attacks, and the object that carries out a schedule during a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphfaith._base.checks import check_count, check_seed
from graphfaith._base.errors import InputError

from .attacks import ATTACKS, Action, Attack, Force, Hold, Ramp
from .instruments import FLOWS, NO_FLOW, OTHERS
from .plant import CONTROLLED, HEIGHT
from .tags import LIT101, LIT301, LIT401, NUM_TAGS, column

REST: Final = (540, 1300)  # seconds between two attacks, plus a tenth of the duration of the previous attack
PATIENCE: Final = 3600  # seconds that an attack waits for its state; afterwards it begins in any state
_TANKS: Final = frozenset((LIT101, LIT301, LIT401))


@dataclass(frozen=True, slots=True)
class Planned:
    """An attack that begins ``rest`` seconds after the end of the previous one, or later if it waits for its state.

    If it ``overlaps``, the seconds count from the beginning of the previous attack.
    """

    attack: Attack
    rest: int
    overlaps: bool = False

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
        if self.entries[0].overlaps:
            raise InputError("the first attack of a schedule has no previous one to overlap")

    @classmethod
    def of(
        cls,
        attacks: Sequence[Attack] = ATTACKS,
        *,
        seed: int = 0,
        rest: tuple[int, int] = REST,
        overlapping: Sequence[int] = (),
    ) -> Schedule:
        """Return a schedule of ``attacks`` in their order, with a random time of normal operation before each.

        ``rest`` is the least and the most of these seconds; a tenth of the previous attack's duration is added.
        ``overlapping`` has the numbers of the attacks that begin while the one before them goes on. The default
        schedule takes 26 to 28.5 hours, including the time in which attacks wait for their state. Attack 28 makes up
        63 % of all attacked seconds, as in the documents.
        """
        rng = np.random.default_rng(np.random.SeedSequence(check_seed(seed), spawn_key=(1000,)))
        entries: list[Planned] = []
        previous_seconds = 6000
        for attack in attacks:
            if attack.number in overlapping and entries:
                entries.append(Planned(attack, int(rng.integers(60, max(previous_seconds, 121) - 60)), overlaps=True))
            else:
                entries.append(Planned(attack, int(rng.integers(*rest)) + previous_seconds // 10))
            previous_seconds = attack.seconds
        return cls(tuple(entries))


class Falsified(NamedTuple):
    """A falsified sensor: its column, and the reading ``value`` + ``rate`` t, or ``value`` more than the true one."""

    tag: int
    value: float
    rate: float = 0.0
    adds: bool = False

    def show(self, true: float, elapsed: int, noise: float) -> float:
        """Return the falsified reading after ``elapsed`` seconds of the attack."""
        if self.adds:
            shown = true + self.value
        else:
            shown = self.value + self.rate * elapsed
            shown += noise if self.tag not in FLOWS or shown > NO_FLOW else 0.0
        return min(max(shown, 0.0), HEIGHT) if self.tag in _TANKS else max(shown, 0.0)


@dataclass(frozen=True, slots=True)
class Span:
    """An attack that happened, from row ``start`` up to, but not including, row ``stop``.

    ``shown`` describes the sensors that it falsified, and ``forced`` (column, state) the actuators that it forced.
    """

    attack: Attack
    start: int
    stop: int
    shown: tuple[Falsified, ...]
    forced: tuple[tuple[int, float], ...] = ()

    def write(self, readings: NDArray[np.float64], noise: NDArray[np.float64], first: int = 0) -> Span:
        """Write the falsified readings of the sensors that no PLC reads, and return the span with their first values.

        ``readings`` [n, 51] and ``noise`` (of `instruments.OTHERS`) begin at second ``first`` of the run. The sensors
        that a PLC reads were falsified while the plant ran.
        """
        shown = []
        for given in self.shown:
            if given.tag in CONTROLLED:
                shown.append(given)
                continue
            start, stop = max(self.start - first, 0), min(self.stop - first, len(readings))
            if given.rate and np.isnan(given.value):  # Only now the reading at its beginning is known.
                given = given._replace(value=float(readings[start, given.tag]))
            shown.append(given)
            if start >= stop:
                continue
            column_of = readings[start:stop, given.tag]
            noises = noise[start:stop, OTHERS.index(given.tag)]
            elapsed = range(first + start - self.start, first + stop - self.start)
            column_of[:] = [given.show(*now) for now in zip(column_of.tolist(), elapsed, noises.tolist(), strict=True)]
        return Span(self.attack, self.start, self.stop, tuple(shown), self.forced)


class Attacker:
    """An object that carries out a schedule: it falsifies readings, and ``forces`` holds the forced actuators.

    ``began`` is true in the second in which an attack begins.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.spans: list[Span] = []
        self.forces: list[tuple[int, float]] = []
        self.began = False
        self._patience = schedule.patience
        self._coming = list(reversed(schedule.entries))
        self._active: list[Span] = []  # their stop is the second at which they will end
        self._wake = self._coming[-1].rest

    def falsify(self, second: int, row: list[float], noise: Sequence[float]) -> None:
        """Begin or end an attack if its time has come, and change the readings of the attacked sensors in ``row``.

        ``noise`` is the noise of the sensors that a PLC reads, in the order of `plant.CONTROLLED`.
        """
        self.began = False
        if self._active or second >= self._wake:
            self._end(second)
            if second >= self._wake:
                self._begin(second, row)
            for span in self._active:
                falsify(span, second, row, noise)

    def finish(self, second: int) -> None:
        """Record the current attacks as ended at ``second``, and put all of them in the order of their beginnings."""
        for span in self._active:
            self.spans.append(Span(span.attack, span.start, second, span.shown, span.forced))
        self._active = []
        self.spans.sort(key=lambda span: span.start)

    def _end(self, second: int) -> None:
        ended = [span for span in self._active if span.stop <= second]
        if not ended:
            return
        self.spans += ended
        self._active = [span for span in self._active if span.stop > second]
        self._find_forces()

    def _begin(self, second: int, row: list[float]) -> None:
        attack = self._coming[-1].attack
        ready = all(row[column(tag)] == state for tag, state in attack.when.items())
        free = not any(set(attack.targets) & set(span.attack.targets) for span in self._active)
        if not free or (not ready and second < self._wake + self._patience):
            return
        self._coming.pop()
        self.began = True
        shown = tuple(_falsify(action, row) for action in attack.actions if not isinstance(action, Force))
        forced = tuple((column(act.tag), float(act.state)) for act in attack.actions if isinstance(act, Force))
        self._active.append(Span(attack, second, second + attack.seconds, shown, forced))
        self._find_forces()
        if not self._coming:
            self._wake = 1 << 62
        elif self._coming[-1].overlaps:
            self._wake = second + self._coming[-1].rest
        else:
            self._wake = max(span.stop for span in self._active) + self._coming[-1].rest

    def _find_forces(self) -> None:
        self.forces = [force for span in self._active for force in span.forced]


def falsify(span: Span, second: int, row: list[float], noise: Sequence[float]) -> None:
    """Change the readings of those sensors in ``row`` that the attack falsifies and that a PLC reads."""
    for given in span.shown:
        if given.tag in _PLACES:
            row[given.tag] = given.show(row[given.tag], second - span.start, noise[_PLACES[given.tag]])


_PLACES: Final = {tag: place for place, tag in enumerate(CONTROLLED)}


def _falsify(action: Action, row: list[float]) -> Falsified:
    tag = column(action.tag)
    if isinstance(action, Hold):
        return Falsified(tag, action.value)
    if isinstance(action, Ramp):  # A reading that no PLC needs is not computed yet.
        return Falsified(tag, row[tag] if tag in _PLACES else float("nan"), action.rate)
    assert not isinstance(action, Force)
    return Falsified(tag, action.by, adds=True)


def mark_attacked(spans: Sequence[Span], steps: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return whether each tag was attacked at each step, [T, 51], and the number of the latest attack or 0, [T]."""
    attacked = np.zeros((steps, NUM_TAGS), dtype=np.bool_)
    numbers = np.zeros(steps, dtype=np.int64)
    for span in spans:
        attacked[span.start : span.stop, [column(tag) for tag in span.attack.targets]] = True
        numbers[span.start : span.stop] = span.attack.number
    return attacked, numbers
