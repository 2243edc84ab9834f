"""Scores of the alarms: points, events, delays, and whether the accused tag was an attacked one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import precision_recall_fscore_support

from .attacks import LONG
from .detector import Alarm, Array, Detector
from .series import STEP, Series
from .simulation import DAY
from .tags import TAGS, column

Steps = NDArray[np.int64]
AFTER = 60  # steps, which are ten minutes; the plant needs them to recover from an attack


@dataclass(frozen=True)
class Event:
    """An attack from step ``start`` to step ``stop``, and the first alarm during the attack.

    ``attacked`` holds the attacked tags; it is empty if the recording does not contain them. The alarm was raised at
    ``step``, ``delay`` seconds after the start, and accused the tag ``accused``, which had the deviation
    ``deviation``. ``step``, ``accused`` and ``delay`` are None if there was no alarm.
    """

    number: int
    start: int
    stop: int
    attacked: tuple[int, ...]
    step: int | None
    accused: int | None
    deviation: float
    delay: int | None

    @property
    def detected(self) -> bool:
        """Whether there was an alarm during the attack."""
        return self.step is not None

    @property
    def accused_is_attacked(self) -> bool | None:
        """Whether the accused tag was attacked; None without an alarm, or if the attacked tags are unknown."""
        return None if self.accused is None or not self.attacked else self.accused in self.attacked

    def as_json(self) -> dict[str, Any]:
        """Return the event as plain values for JSON."""
        return {
            "attack": self.number,
            "start": self.start,
            "stop": self.stop,
            "step": self.step,
            "deviation": self.deviation,
            "attacked": [TAGS[tag] for tag in self.attacked],
            "detected": self.detected,
            "delay_seconds": self.delay,
            "accused": None if self.accused is None else TAGS[self.accused],
            "accused_attacked": self.accused_is_attacked,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Event:
        """Return the event that :meth:`as_json` converted to ``row``."""
        tags = tuple(column(tag) for tag in row["attacked"])
        accused = None if row["accused"] is None else column(row["accused"])
        step, delay = row["step"], row["delay_seconds"]
        return cls(row["attack"], row["start"], row["stop"], tags, step, accused, row["deviation"], delay)


def events_of(series: Series, steps: Steps, errors: Array, detector: Detector) -> list[Event]:
    """Return all attacks in the forecast steps of a series, each with its first alarm."""
    deviations = detector.deviations_of(errors)
    size = np.abs(deviations)
    exceeding = size.max(1) > detector.threshold
    number = series.attack_id[steps]
    events = []
    for attack in dict.fromkeys(number[number > 0].tolist()):
        rows = np.flatnonzero(number == attack)
        tags = tuple(np.flatnonzero(series.attacked[steps[rows]].any(0)).tolist())
        alarmed = rows[exceeding[rows]]
        start, stop = int(steps[rows[0]]), int(steps[rows[-1]])
        if not len(alarmed):
            events.append(Event(attack, start, stop, tags, None, None, 0.0, None))
            continue
        row = int(alarmed[0])
        accused, step = int(size[row].argmax()), int(steps[row])
        delay = (step - start + 1) * STEP  # The median of a step is known at the end of its ten seconds.
        events.append(Event(attack, start, stop, tags, step, accused, float(deviations[row, accused]), delay))
    return events


def score_points(series: Series, steps: Steps, alarms: Sequence[Alarm], without: int | None = None) -> dict[str, float]:
    """Return precision, recall and F1 over the steps, without the steps of the attack ``without``."""
    raised = np.zeros(len(series), dtype=bool)
    for alarm in alarms:
        raised[alarm.first : alarm.last + 1] = True
    judged = steps if without is None else steps[series.attack_id[steps] != without]
    precision, recall, f1, _ = precision_recall_fscore_support(
        series.labels[judged], raised[judged], average="binary", zero_division=0.0
    )
    return {"precision": float(precision), "recall": float(recall), "f1": float(f1)}


def find_best_f1(series: Series, steps: Steps, errors: Array, detector: Detector, candidates: int = 200) -> float:
    """Return the highest F1 over all thresholds.

    Other studies report this number, but nobody can reach it in practice, because the labels determine the threshold.
    """
    size = np.abs(detector.deviations_of(errors)).max(1)
    thresholds = np.unique([*np.quantile(size, np.linspace(0.0, 1.0, candidates)), detector.threshold])
    return max(score_points(series, steps, detector.find_alarms(steps, errors, float(t)))["f1"] for t in thresholds)


def count_false_alarms_per_day(series: Series, steps: Steps, alarms: Sequence[Alarm]) -> float:
    """Return the number of alarms that overlap no attack, per day of normal operation."""
    false = sum(not _overlaps(series, alarm) for alarm in alarms)
    return false / max(int((~series.labels[steps]).sum()) * STEP / DAY, 1e-9)


def _overlaps(series: Series, alarm: Alarm) -> bool:
    return bool(series.labels[alarm.first : alarm.last + 1].any())


def _is_after(series: Series, alarm: Alarm) -> bool:
    """Return whether an alarm is outside of all attacks, but within the recovery time after one."""
    return not _overlaps(series, alarm) and bool(series.labels[max(alarm.first - AFTER, 0) : alarm.first].any())


def _is_elsewhere(series: Series, alarm: Alarm) -> bool:
    return not _overlaps(series, alarm) and not _is_after(series, alarm)


def list_other_alarms(series: Series, alarms: Sequence[Alarm]) -> list[dict[str, Any]]:
    """Return the alarms outside of all attacks as plain values for JSON."""
    return [
        {**asdict(alarm), "accused": TAGS[alarm.accused], "after_an_attack": _is_after(series, alarm)}
        for alarm in alarms
        if not _overlaps(series, alarm)
    ]


def score_detection(series: Series, steps: Steps, errors: Array, detector: Detector) -> dict[str, Any]:
    """Return all scores for a series with attacks as plain values for JSON."""
    alarms, events = detector.find_alarms(steps, errors), events_of(series, steps, errors, detector)
    detected = [event for event in events if event.detected]
    known = [event.accused_is_attacked for event in detected if event.accused_is_attacked is not None]
    return {
        **score_points(series, steps, alarms),
        "f1_oracle": find_best_f1(series, steps, errors, detector),
        # Without the attacked tags, the events are numbered stretches, and it is unknown which one is attack 28.
        f"without_attack_{LONG}": score_points(series, steps, alarms, LONG) if series.attacked.any() else None,
        "alarms_raised": len(alarms),
        "alarms_after": sum(_is_after(series, alarm) for alarm in alarms),
        "alarms_elsewhere": sum(_is_elsewhere(series, alarm) for alarm in alarms),
        "events": len(events),
        "events_detected": len(detected),
        "accused_attacked": float(np.mean(known)) if known else None,
        "delay_seconds_median": float(np.median([event.delay for event in detected])) if detected else None,
    }
