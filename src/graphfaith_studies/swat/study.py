"""The data of a study of the simulated plant: days in service to learn from, and later days with attacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..plant import study
from ..plant.detectors import Array
from ..plant.scoring import Event
from ..plant.series import series_of
from ..plant.study import Case
from .attacks import ATTACKS, LONG, Attack
from .drawn import FIRST, draw_attacks
from .recording import Run
from .replay import find_affected, replay
from .schedule import Schedule, Span
from .simulation import DAY, History, Service, record, simulate
from .tags import SWAT, column

SHARE: Final = 0.12  # of the points are attacked, about as in the genuine recordings
_OVERLAPPING: Final = 0.15  # share of the drawn attacks that begin during another
# Days of service at which the recordings begin; learning takes the days before them.
_FURTHER_DAY, _QUIET_DAY, _ATTACK_DAY = 4.0, 5.0, 6.0
_ALIGNED: Final = 10  # rows of a step


@dataclass(frozen=True, kw_only=True)
class Size(study.Size):
    """The size of a study of the simulated plant: days of normal operation and attacks, beside epochs and samples."""

    normal_days: float = 3.0
    held_out_days: float = 1.0
    further_days: float = 3.0  # on which the thresholds are made for one alarm a day
    quiet_days: float = 3.0
    attacks: tuple[int, ...] = ()  # the numbers of the documented attacks; empty means all
    drawn: int = 36  # attacks that are drawn at random
    network_epochs: int = 45
    network_patience: int = 45  # All are trained: batch norm lets the error rise for epochs, and it falls again.


FULL: Final = Size()
QUICK: Final = Size(
    normal_days=0.8,
    held_out_days=0.3,
    further_days=0.3,
    quiet_days=0.3,
    attacks=(8, 10, 20, 37, 40),
    drawn=3,
    epochs=8,
    compared_epochs=2,
    network_epochs=2,
    samples=100,
    test_samples=100,
    thorough=2,
)


def simulate_case(seed: int, size: Size) -> Case:
    """Simulate the data of a study; every seed has its own plant, its own drawn attacks and its own schedule."""
    days = size.normal_days + size.held_out_days
    normal = series_of(simulate_normal(days, seed))
    history = simulate_attacks(seed, size)
    quiet = series_of(simulate(size.quiet_days, seed=4 * seed + 2, service=Service(_QUIET_DAY)))
    further = series_of(simulate(size.further_days, seed=4 * seed + 3, service=Service(_FURTHER_DAY)))
    cut = round(len(normal) * size.normal_days / days)
    events = tuple(event_of(span) for span in history.run.spans)
    replays = PlantReplays(history)
    return Case(
        normal[:cut],
        normal[cut:],
        series_of(history.run),
        quiet,
        LONG,
        events,
        replays,
        further=further,
        drawn_above=FIRST - 1,
    )


def simulate_normal(days: float, seed: int) -> Run:
    """Simulate the normal operation that a study learns from."""
    return simulate(days, seed=4 * seed, service=Service(0.0))


def simulate_attacks(seed: int, size: Size, days: float | None = None) -> History:
    """Simulate the attacked days of a study, or their first ``days``."""
    plan, every = schedule_attacks(seed, size)
    return record(every if days is None else days, seed=4 * seed + 1, attacks=plan, service=Service(_ATTACK_DAY))


def schedule_attacks(seed: int, size: Size) -> tuple[Schedule, float]:
    """Return a schedule of documented and drawn attacks, and the days of which they make up `SHARE`."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1002,)))
    chosen: list[Attack] = [attack for attack in ATTACKS if not size.attacks or attack.number in size.attacks]
    overlapping = []
    for attack in draw_attacks(size.drawn, seed=seed) if size.drawn else ():
        chosen.insert(int(rng.integers(len(chosen) + 1)), attack)
        if rng.random() < _OVERLAPPING:
            overlapping.append(attack.number)
    seconds = sum(attack.seconds for attack in chosen)
    mean = seconds / len(chosen) * (1.0 / SHARE - 1.0)
    # Attacks wait for their states, and the last hours are quiet, so that the mean of the rests is a little smaller.
    rest = (int(0.3 * mean), int(1.5 * mean))
    return Schedule.of(chosen, seed=seed, rest=rest, overlapping=overlapping), seconds / SHARE / DAY


def event_of(span: Span) -> Event:
    """Return an attack in steps; a step is attacked if half of it or more is."""
    start, stop = math.ceil(span.start / SWAT.step - 0.5), math.floor(span.stop / SWAT.step + 0.5)
    return Event(span.attack.number, start, max(stop, start + 1), tuple(column(tag) for tag in span.attack.targets))


@dataclass(frozen=True)
class PlantReplays:
    """The simulated plant, which can run again without attacks, or with a tag as it is then."""

    history: History

    def run_again(self, events: Sequence[Event], stop: int) -> tuple[int, dict[int | None, Array]]:
        """Return the first step of these attacks, and the medians of each course up to step ``stop``."""
        numbers = {event.number for event in events}
        spans = [span for span in self.history.run.spans if span.attack.number in numbers]
        first = min(span.start for span in spans)
        last = stop * _ALIGNED
        twin = replay(self.history, first, last, without=spans)
        courses: dict[int | None, Array] = {None: self._medians(first, twin.readings)}
        for tag in find_affected(twin, self.history.run.readings[first:last]):
            restored = replay(self.history, first, last, restored=tag, twin=twin)
            courses[tag] = self._medians(first, restored.readings)
        return first // _ALIGNED, courses

    def _medians(self, first: int, readings: Array) -> Array:
        """Return the medians of steps of which the first one may have begun before the replay."""
        begin = first - first % _ALIGNED
        rows = np.vstack([self.history.run.readings[begin:first], readings])
        whole = len(rows) // _ALIGNED * _ALIGNED
        return np.asarray(np.median(rows[:whole].reshape(-1, _ALIGNED, rows.shape[1]), axis=1))
