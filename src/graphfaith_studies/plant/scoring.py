"""Scores of a detector on a series with attacks: points, events, false alarms, delays, and whom it accuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .detectors import Alarm, Array, find_alarms, mark_raised
from .measures import (
    curve_pa_k,
    measure_vus_pr,
    score_competition,
    score_etapr,
    score_events,
    score_points,
    stretches_of,
)
from .plant import Plant
from .series import Series

Steps = NDArray[np.int64]
DAY: Final = 86_400
_FACTORS: Final = tuple(float(factor) for factor in np.geomspace(100.0, 0.1, 151))
_CANDIDATES: Final = 200  # thresholds that are tried for the best F1 on the labels


@dataclass(frozen=True)
class Event:
    """An attack from step ``start`` up to, but not including, step ``stop``, and the attacked tags.

    ``attacked`` is empty if the recording does not say which tags were attacked.
    """

    number: int
    start: int
    stop: int
    attacked: tuple[int, ...]

    def as_json(self, plant: Plant) -> dict[str, Any]:
        """Return the event as plain values for JSON."""
        names = [plant.names[tag] for tag in self.attacked]
        return {"attack": self.number, "start": self.start, "stop": self.stop, "attacked": names}


def events_of(series: Series) -> tuple[Event, ...]:
    """Return the attacks of a series, in the order of their beginnings."""
    events = []
    for number in dict.fromkeys(series.attack_id[series.attack_id > 0].tolist()):
        rows = np.flatnonzero(series.attack_id == number)
        tags = tuple(np.flatnonzero(series.attacked[rows].any(0)).tolist())
        events.append(Event(number, int(rows[0]), int(rows[-1]) + 1, tags))
    return tuple(events)


def find_events(alarm: Alarm, events: Sequence[Event], recovery: int) -> tuple[str, tuple[Event, ...]]:
    """Return when an alarm was raised, and the attacks it may come from.

    It is "during" attacks that it overlaps, else "after" those that ended at most ``recovery`` steps before it began,
    or "elsewhere", without any attack.
    """
    during = tuple(event for event in events if event.start <= alarm.last and alarm.first < event.stop)
    if during:
        begun = tuple(event for event in during if event.start <= alarm.first)
        return "during", begun or during[:1]
    after = tuple(event for event in events if event.stop <= alarm.first <= event.stop + recovery)
    return ("after", after) if after else ("elsewhere", ())


def score_detector(
    excess: Array,
    quiet_excess: Array,
    series: Series,
    quiet: Series,
    events: Sequence[Event] | None,
    long: int | None,
    parts: Sequence[tuple[str, int, int]] = (),
) -> dict[str, Any]:
    """Return all scores of a detector as plain values for JSON.

    ``excess`` [T, n] is that of the ``series`` with attacks, ``quiet_excess`` that of normal operation that was not
    used before. ``long`` is the number of an attack that is left out in ``without_long``, or None. ``parts`` of
    the series, each a name, its first step and its end, are scored as the BATADAL competition does. If ``events`` is
    None, nothing is known of attacks, and only those scores are returned that need none.
    """
    plant = series.plant
    gap, recovery = plant.quiet // plant.step, plant.recovery // plant.step
    alarms, quiet_alarms = find_alarms(excess, gap), find_alarms(quiet_excess, gap)
    scores: dict[str, Any] = {
        "false_alarms_per_day": len(quiet_alarms) / (len(quiet) * plant.step / DAY),
        "quiet_in_alarm": float(mark_raised(quiet_alarms, len(quiet)).mean()),
        "alarms_raised": len(alarms),
    }
    if events is None:
        return scores
    raised, size = mark_raised(alarms, len(series)), np.abs(excess).max(1)
    stretches = [(event.start, event.stop) for event in events]
    found = score_events(stretches, raised)
    near = [find_events(alarm, events, recovery) for alarm in alarms]
    known = [
        any(alarm.accused in event.attacked for event in others)
        for alarm, (when, others) in zip(alarms, near, strict=True)
        if when == "during" and all(event.attacked for event in others)
    ]
    delays = [row.delay for row in found if row.delay is not None]
    elsewhere = sum(when == "elsewhere" for when, _ in near)
    far_days = max(float((~_mark_near(events, len(series), recovery)).sum()) * plant.step / DAY, 1e-9)
    others = series.attack_id != long
    return {
        **scores,
        **score_points(series.labels, raised),
        "without_long": None if long is None else score_points(series.labels[others], raised[others]),
        "f1_oracle": _find_best_f1(series, size, gap),
        "etapr": score_etapr(stretches_of(series.labels), [(alarm.first, alarm.last + 1) for alarm in alarms]),
        "pa_k": curve_pa_k(stretches, series.labels, raised),
        "vus_pr": measure_vus_pr(series.labels, size, recovery),
        "attacked_share": float(series.labels.mean()),
        "events": len(events),
        "events_detected": sum(row.found for row in found),
        "missed": [event.number for event, row in zip(events, found, strict=True) if not row.found],
        "coverage": float(np.mean([row.coverage for row in found])) if found else None,
        "delay_seconds_median": float(np.median(delays) + 1) * plant.step if delays else None,
        "accused_attacked": float(np.mean(known)) if known else None,
        "parts": {
            name: score_competition(
                [(event.start - low, event.stop - low) for event in events if low <= event.start < high],
                series.labels[low:high],
                raised[low:high],
            )
            for name, low, high in parts
        },
        "events_at_one": count_events_at(1.0, size, np.abs(quiet_excess).max(1, initial=0.0), series, quiet, events),
        "alarms_after": sum(when == "after" for when, _ in near),
        "alarms_elsewhere": elsewhere,
        "elsewhere_per_day": elsewhere / far_days,
    }


def count_events_at(
    rate: float, size: Array, quiet_size: Array, series: Series, quiet: Series, events: Sequence[Event]
) -> int:
    """Return the events found if all thresholds are multiplied by the least factor with ``rate`` false alarms a day.

    ``size`` [T] and ``quiet_size`` are the largest excesses of any tag. Detectors with different margins can be
    compared by this number. A false alarm is one in the ``quiet`` series, or far from attacks in the other. Factors are
    tried from a hundred downwards, and the first with too many false alarms ends it: an alarm that never ends would
    count as one.
    """
    plant = series.plant
    gap, recovery = plant.quiet // plant.step, plant.recovery // plant.step
    near = _mark_near(events, len(series), recovery)
    days = (len(quiet) + int((~near).sum())) * plant.step / DAY
    far = np.where(near, 0.0, size)
    found = 0
    for factor in _FACTORS:
        if (_count_groups(far > factor, gap) + _count_groups(quiet_size > factor, gap)) / days > rate:
            break
        found = sum(bool((size[event.start : event.stop] > factor).any()) for event in events)
    return found


def find_factor(size: Array, gap: int, alarms: float) -> float:
    """Return the least factor of all thresholds with at most ``alarms`` alarms in normal operation; 100 if none has.

    ``size`` [T] is the largest excess of any tag. As in `count_events_at`, factors are tried downwards, and the first
    with too many alarms ends it. If that is the first one, a hundred, it stays: a tag that hardly moved before, and has
    a tiny threshold, may move on every later day.

    >>> find_factor(np.array([0.5, 3.0, 0.2, 2.0, 0.1]), 0, 1.0) < find_factor(np.array([3.0, 0.2, 2.0]), 0, 0.0)
    True
    """
    best = _FACTORS[0]
    for factor in _FACTORS:
        if _count_groups(size > factor, gap) > alarms:
            break
        best = factor
    return best


def _mark_near(events: Sequence[Event], steps: int, recovery: int) -> NDArray[np.bool_]:
    """Return whether there is an attack at each step [T], or one has ended at most ``recovery`` steps before."""
    near = np.zeros(steps, dtype=np.bool_)
    for event in events:
        near[event.start : event.stop + recovery + 1] = True
    return near


def hold(beyond: NDArray[np.bool_], gap: int) -> NDArray[np.bool_]:
    """Return whether an alarm is up at each step [T], if pauses of at most ``gap`` steps do not end it.

    >>> hold(np.array([True, False, True, False, False, True]), 2).tolist()
    [True, True, True, False, False, True]
    """
    steps = np.flatnonzero(beyond)
    edges = np.zeros(len(beyond) + 1, dtype=np.int64)
    apart = np.diff(steps) > gap
    if len(steps):
        edges[steps[np.append(True, apart)]] += 1
        edges[steps[np.append(apart, True)] + 1] -= 1
    return np.asarray(edges.cumsum()[:-1] > 0)


def _count_groups(beyond: NDArray[np.bool_], gap: int) -> int:
    steps = np.flatnonzero(beyond)
    return int((np.diff(steps) > gap).sum()) + 1 if len(steps) else 0


def _find_best_f1(series: Series, size: Array, gap: int) -> float:
    """Return the highest F1 of points over all factors of the thresholds, 1 among them, with alarms that stay up.

    Other studies report this number, but nobody can reach it in practice, because the labels determine the threshold.
    """
    factors = np.unique(np.append(np.quantile(size, np.linspace(0.0, 1.0, _CANDIDATES)), 1.0))
    return max(score_points(series.labels, hold(size > factor, gap))["f1"] for factor in factors)
