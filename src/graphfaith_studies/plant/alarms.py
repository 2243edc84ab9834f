"""One alarm from its step to its cause: what is asked of the model, its explanations, and verdicts on each tag.

A verdict on a tag is the answer to one question: would the alarm be, had this tag behaved as expected? The model
answers for every plant. The plant itself answers where it can run again, which only a simulated one can: there a tag is
as it would have been without the attack (`Replays`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .causes import (
    METHODS,
    Cause,
    Fewest,
    Question,
    Restored,
    What,
    effects_of,
    explain_alarm,
    find_fewest,
    find_strongest_path,
    restore_each,
)
from .detectors import Alarm, Array
from .localisation import RANKINGS, rank_without_explaining, score_faithfulness, score_ranking
from .monitor import Monitor, Watched
from .scoring import Event, find_events
from .series import Scale

# Steps after the first one at which an alarm is looked at once more: 30 to 60 s in a plant with steps of ten seconds,
# three to six hours in one with steps of an hour. What develops an alarm are the steps that its forecasts see.
DEVELOPED: Final = (3, 6)
_LISTED: Final = 5  # tags of each ranking that get a verdict
Flags = NDArray[np.bool_]


class Replays(Protocol):
    """A plant that can run again."""

    def run_again(self, events: Sequence[Event], stop: int) -> tuple[int, dict[int | None, Array]]:
        """Return the first step of these attacks, and the readings from there up to ``stop`` in other courses.

        The course None is without the attacks, and that of a tag is with the tag as it is then, for every tag that the
        attacks have changed.
        """


@dataclass(frozen=True)
class Truth:
    """What the plant says of an alarm: whether it comes from the attacks, and which tags [n] clear it."""

    caused: bool
    clears: Flags


def choose_step(alarm: Alarm, watched: Watched) -> int:
    """Return the step to explain: the first one of the alarm, or one of `DEVELOPED` if its excess is larger."""
    first, last = alarm.first + DEVELOPED[0], min(alarm.first + DEVELOPED[1], len(watched.series) - 1)
    excess = np.sign(alarm.deviation) * watched.excess[:, alarm.accused]
    later = range(first, last + 1)
    best = max(later, key=lambda step: excess[step], default=alarm.first)
    unbroken = bool(watched.series.follows[alarm.first + 1 : best + 1].all())
    return best if unbroken and excess[best] > excess[alarm.first] else alarm.first


def expect_each(at: int, watched: Watched, monitor: Monitor) -> Tensor:
    """Return what was expected of each tag [n, window] up to step ``at``, had the tag behaved as expected until then.

    e_i(t) = f_i(X(t) with e_i in the place of the tag's own readings of this window before t), within the range of
    training. The forecast of the readings as they were would be wrong here: an alarm is mostly explained some steps
    after it began, and by then a forecast has seen the first of the tag's unusual readings. Where no forecast is
    possible, because steps are missing, the reading itself is expected.
    """
    scale, series = monitor.scale, watched.series
    window, n = scale.plant.window, len(scale.plant)
    first, each = at - window + 1, torch.arange(n)
    readings = scale.scale(series.values[max(first - window + 1, 0) : at + 1])
    readings = torch.cat([readings[:1].expand(2 * window - 1 - len(readings), n), readings]).T
    top = _find_top(scale)
    least = torch.zeros_like(top)
    expected = readings[:, window - 1 :].clamp(least, top)
    judged = np.isin(np.arange(first, at + 1), series.targets)
    for slot in np.flatnonzero(judged).tolist():
        copies = readings[:, slot : slot + window].repeat(n, 1, 1)
        copies[each, each, window - 1 - slot : window - 1] = expected[:, :slot]
        with torch.no_grad():
            forecast = monitor.forecaster.forecast(copies)[each, each]
        expected[:, slot] = forecast.clamp(least[:, 0], top[:, 0])
    return expected.contiguous()


def _find_top(scale: Scale) -> Tensor:
    """Return the largest scaled reading [n, 1] of each tag in training: 1, or 0 if the tag was constant."""
    return ((scale.high - scale.low) / scale.span).float().unsqueeze(-1)


def ask(alarm: Alarm, at: int, watched: Watched, monitor: Monitor, what: What = "deviation") -> Question:
    """Return the question for the step ``at`` of an alarm.

    The forecast is explained in the place of the gap if the reading is out of its range, but not far from its forecast.
    """
    scale, tag = monitor.scale, alarm.accused
    x = scale.scale(watched.series.values[at - scale.plant.window + 1 : at + 1]).T
    expected, top = expect_each(at, watched, monitor), _find_top(scale)
    error = float(watched.errors[at, tag])
    if what == "deviation" and (alarm.reason == "forecast" or abs(watched.of_forecast[at, tag]) >= 1.0):
        return Question(x, expected, tag, 1.0 if error >= 0 else -1.0, abs(error))
    sign = 1.0 if alarm.deviation >= 0 else -1.0
    beyond = float(x[tag, -1] - x[tag, -1].clamp(0.0, float(top[tag])))
    return Question(x, expected, tag, sign, abs(beyond), "forecast")


def clear_in_model(question: Question, restored: Restored, at: int, watched: Watched, monitor: Monitor) -> Flags:
    """Return for each tag [n] whether the alarm clears in the model if the tag had behaved as expected.

    It clears if every check that it failed is passed. For the range check, the reading is taken to follow its forecast:
    it changes as the forecast does.
    """
    tag, scale = question.accused, monitor.scale
    cleared = np.ones(len(scale.plant), dtype=np.bool_)
    if abs(watched.of_forecast[at, tag]) >= 1.0:
        cleared &= np.abs(restored.gaps[:-1] / monitor.thresholds.values[tag]) < 1.0
    if abs(watched.of_range[at, tag]) >= 1.0:
        readings = restored.readings[:-1] + restored.forecasts[:-1] - restored.forecasts[-1]
        readings[tag] = restored.readings[tag]
        values = np.repeat(watched.series.values[at][None], len(readings), axis=0)
        values[:, tag] = readings * float(scale.span[tag]) + float(scale.low[tag])
        cleared &= np.abs(monitor.range.excess_of(values)[:, tag]) < 1.0
    return cleared


def clear_by_fewest(
    question: Question, restored: Restored, at: int, watched: Watched, monitor: Monitor
) -> Fewest | None:
    """Return the fewest readings of other tags that clear the alarm in the model; None if that cannot be asked.

    The gap has to fall below the threshold. For the range check alone the forecast has to fall by what the reading is
    too far outside, because the reading is taken to follow it. If both checks failed, no single value has to be passed.
    """
    tag = question.accused
    too_far = abs(watched.of_forecast[at, tag]) >= 1.0
    outside = abs(watched.of_range[at, tag]) >= 1.0
    if question.what == "deviation" and too_far and not outside:
        past = float(monitor.thresholds.values[tag])
    elif question.what == "forecast" and outside and not too_far:
        past = question.sign * float(restored.forecasts[-1]) - (question.gap - monitor.range.outside)
    else:
        return None
    return find_fewest(monitor.forecaster, question, past)


def ask_plant(alarm: Alarm, events: Sequence[Event], watched: Watched, monitor: Monitor, replays: Replays) -> Truth:
    """Let the plant run again without the attacks, and with each tag as it is then.

    The alarm clears if its accused tag passes all checks from the first step of the alarm to its end, or up to the last
    step of `DEVELOPED`.
    """
    tag, window = alarm.accused, monitor.scale.plant.window
    stop = min(alarm.last, alarm.first + DEVELOPED[1]) + 1
    start, courses = replays.run_again(events, stop)
    first = max(alarm.first - window + 1, 0)
    steps = np.arange(alarm.first, stop)
    values = []
    for readings in courses.values():
        part = watched.series.values[first:stop].copy()
        part[max(start - first, 0) :] = readings[max(first - start, 0) :]
        values.append(part)
    height = stop - first
    rows = (np.arange(len(values))[:, None] * height + (steps - first)[None, :]).ravel()
    of_forecast, of_range = monitor.excess_at(np.concatenate(values), rows)
    size = np.maximum(np.abs(of_forecast[:, tag]), np.abs(of_range[:, tag])).reshape(len(values), -1)
    clear = dict(zip(courses, (size.max(1) <= 1.0).tolist(), strict=True))
    clears = np.zeros(len(monitor.scale.plant), dtype=np.bool_)
    for course, cleared in clear.items():
        if course is not None:
            clears[course] = cleared
    return Truth(clear[None], clears)


def examine_alarm(
    alarm: Alarm,
    watched: Watched,
    monitor: Monitor,
    events: Sequence[Event] | None,
    replays: Replays | None,
    *,
    what: What = "deviation",
    **options: Any,
) -> dict[str, Any]:
    """Explain an alarm, ask the model and the plant about its causes, and return all of it as plain values for JSON.

    ``options`` are those of `explain_alarm`. Under ``event`` is what an operator cannot know; it is None if nobody
    knows it, which is what ``events`` None means.
    """
    plant = monitor.scale.plant
    when, near = find_events(alarm, events or (), plant.recovery // plant.step)
    at = choose_step(alarm, watched)
    question = ask(alarm, at, watched, monitor, what)
    causes = explain_alarm(monitor.forecaster, question, **options)
    restored = restore_each(monitor.forecaster, question)
    in_model = clear_in_model(question, restored, at, watched, monitor)
    effects = effects_of(restored, question)
    fewest = clear_by_fewest(question, restored, at, watched, monitor)
    rankings = {cause.method: cause.tags for cause in causes}
    rankings |= rank_without_explaining(plant, alarm.accused, watched.excess[at], effects)
    truth = ask_plant(alarm, near, watched, monitor, replays) if replays is not None and near else None
    in_plant = None if truth is None else truth.clears
    attacked = sorted({tag for event in near for tag in event.attacked})
    scores = {
        name: score_ranking(rankings[name], alarm.accused, attacked, in_model, in_plant)
        for name in RANKINGS
        if name in rankings
    }
    listed = {alarm.accused, *attacked}
    for name in (*METHODS, "model", "deviation"):
        if name in rankings:
            listed |= set(np.argsort(-rankings[name], kind="stable")[:_LISTED].tolist())
    if truth is not None:
        listed |= set(np.flatnonzero(truth.clears).tolist())
    span = float(monitor.scale.span[alarm.accused])
    return {
        "alarm": {**asdict(alarm), "accused": plant.names[alarm.accused]},
        "at": at,
        "what": question.what,
        "span": span,
        "fewest": None if fewest is None else fewest.as_json(plant),
        "causes": [cause.as_json() for cause in causes],
        "paths": {cause.method: _find_paths(cause, sorted(listed)) for cause in causes},
        "verdicts": {
            plant.names[tag]: _judge_tag(tag, question, in_model, truth, watched, monitor, at) for tag in sorted(listed)
        },
        "event": None
        if events is None
        else {
            "when": when,
            "attacks": [event.number for event in near],
            "attacked": [plant.names[tag] for tag in attacked],
            "caused": None if truth is None else truth.caused,
        },
        "found": scores,
        "faithfulness": {cause.method: score_faithfulness(cause) for cause in causes},
    }


def _judge_tag(
    tag: int,
    question: Question,
    in_model: Flags,
    truth: Truth | None,
    watched: Watched,
    monitor: Monitor,
    at: int,
) -> dict[str, Any]:
    """Return the verdict on one tag, with its reading, what was expected, and its usual readings, in their units."""
    scale = monitor.scale
    expected = float(question.expected[tag, -1]) * float(scale.span[tag]) + float(scale.low[tag])
    return {
        "model": bool(in_model[tag]),
        "plant": None if truth is None else bool(truth.clears[tag]),
        "reading": float(watched.series.values[at, tag]),
        "expected": expected,
        "usual": scale.usual[:, tag].tolist(),
    }


def _find_paths(cause: Cause, tags: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Return the strongest path from each of these tags to the accused one, where messages reach that far."""
    names, paths = cause.plant.names, {}
    for tag in tags:
        path = find_strongest_path(cause, tag)
        if path is not None:
            paths[names[tag]] = {"tags": [names[number] for number in path.tags], "score": path.score}
    return paths
