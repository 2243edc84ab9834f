"""How good the alarms are: points, events, delays, and whether the accused tag was the attacked one."""

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
AFTER = 60  # steps: ten minutes, in which the plant recovers from an attack


@dataclass(frozen=True)
class Event:
    """An attack, and the first alarm in it: at ``step``, accusing ``accused``, after ``delay`` seconds; None if missed.

    ``attacked`` are its tags; empty where the recording does not say. ``deviation`` is that of the accused tag.
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
        """Whether an alarm was raised while it lasted."""
        return self.step is not None

    @property
    def accused_is_attacked(self) -> bool | None:
        """Whether the first tag accused was attacked; None if nobody was accused, or nobody knows."""
        return None if self.accused is None or not self.attacked else self.accused in self.attacked

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
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
        """See :meth:`as_json`."""
        tags = tuple(column(tag) for tag in row["attacked"])
        accused = None if row["accused"] is None else column(row["accused"])
        step, delay = row["step"], row["delay_seconds"]
        return cls(row["attack"], row["start"], row["stop"], tags, step, accused, row["deviation"], delay)


def events_of(series: Series, steps: Steps, errors: Array, detector: Detector) -> list[Event]:
    """Every attack of a series that could be judged, and what was said in it."""
    deviations = detector.deviations(errors)
    size = np.abs(deviations)
    hot = size.max(1) > detector.threshold
    number = series.attack_id[steps]
    found = []
    for attack in dict.fromkeys(number[number > 0].tolist()):
        rows = np.flatnonzero(number == attack)
        tags = tuple(np.flatnonzero(series.attacked[steps[rows]].any(0)).tolist())
        alarmed = rows[hot[rows]]
        start, stop = int(steps[rows[0]]), int(steps[rows[-1]])
        if not len(alarmed):
            found.append(Event(attack, start, stop, tags, None, None, 0.0, None))
            continue
        row = int(alarmed[0])
        accused, step = int(size[row].argmax()), int(steps[row])
        delay = (step - start + 1) * STEP  # a median is known when its ten seconds are over
        found.append(Event(attack, start, stop, tags, step, accused, float(deviations[row, accused]), delay))
    return found


def points(series: Series, steps: Steps, alarms: Sequence[Alarm], without: int | None = None) -> dict[str, float]:
    """Precision, recall and F1 of steps; those of the attack ``without`` are left out."""
    raised = np.zeros(len(series), dtype=bool)
    for alarm in alarms:
        raised[alarm.first : alarm.last + 1] = True
    kept = steps if without is None else steps[series.attack_id[steps] != without]
    precision, recall, f1, _ = precision_recall_fscore_support(
        series.labels[kept], raised[kept], average="binary", zero_division=0.0
    )
    return {"precision": float(precision), "recall": float(recall), "f1": float(f1)}


def oracle(series: Series, steps: Steps, errors: Array, detector: Detector, candidates: int = 200) -> float:
    """The F1 of the threshold that is best on the labels themselves: what others report, and nobody can have."""
    size = np.abs(detector.deviations(errors)).max(1)
    thresholds = np.unique([*np.quantile(size, np.linspace(0.0, 1.0, candidates)), detector.threshold])
    return max(points(series, steps, detector.alarms(steps, errors, float(t)))["f1"] for t in thresholds)


def false_alarms_per_day(series: Series, steps: Steps, alarms: Sequence[Alarm]) -> float:
    """Alarms that overlap no attack, a day of normal operation."""
    false = sum(not _overlaps(series, alarm) for alarm in alarms)
    return false / max(int((~series.labels[steps]).sum()) * STEP / DAY, 1e-9)


def _overlaps(series: Series, alarm: Alarm) -> bool:
    return bool(series.labels[alarm.first : alarm.last + 1].any())


def _is_after(series: Series, alarm: Alarm) -> bool:
    """Whether an alarm outside of every attack comes while the plant recovers from one."""
    return not _overlaps(series, alarm) and bool(series.labels[max(alarm.first - AFTER, 0) : alarm.first].any())


def _is_elsewhere(series: Series, alarm: Alarm) -> bool:
    return not _overlaps(series, alarm) and not _is_after(series, alarm)


def other_alarms(series: Series, alarms: Sequence[Alarm]) -> list[dict[str, Any]]:
    """Alarms outside of every attack, as plain values."""
    return [
        {**asdict(alarm), "accused": TAGS[alarm.accused], "after_an_attack": _is_after(series, alarm)}
        for alarm in alarms
        if not _overlaps(series, alarm)
    ]


def detection(series: Series, steps: Steps, errors: Array, detector: Detector) -> dict[str, Any]:
    """All of it, of a series with attacks, as plain values."""
    alarms, events = detector.alarms(steps, errors), events_of(series, steps, errors, detector)
    found = [event for event in events if event.detected]
    known = [event.accused_is_attacked for event in found if event.accused_is_attacked is not None]
    return {
        **points(series, steps, alarms),
        "f1_oracle": oracle(series, steps, errors, detector),
        # Stretches of a file that does not say which attacks they were have numbers of their own.
        f"without_attack_{LONG}": points(series, steps, alarms, LONG) if series.attacked.any() else None,
        "alarms_raised": len(alarms),
        "alarms_after": sum(_is_after(series, alarm) for alarm in alarms),
        "alarms_elsewhere": sum(_is_elsewhere(series, alarm) for alarm in alarms),
        "events": len(events),
        "events_detected": len(found),
        "accused_attacked": float(np.mean(known)) if known else None,
        "delay_seconds_median": float(np.median([event.delay for event in found])) if found else None,
    }
