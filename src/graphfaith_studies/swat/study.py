"""The study of one seed: its data, a trained forecaster, the alarms and their causes, stored in a folder as JSON.

A finished study is read from its file. A study that was stopped resumes after the last epoch of its training.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from graphfaith import __version__
from graphfaith._base.checksum import checksum_of
from graphfaith._base.errors import DataError, InputError
from graphfaith._base.expansion import JSON_GROWTH
from graphfaith._base.files import read_file, write_file
from graphfaith._base.threads import one_thread

from ..showcase.training import seeded
from .agreement import correlate, score_cause
from .attacks import ATTACKS
from .causes import METHODS, Cause, What, explain_alarm, find_strongest_path, measure_unusual
from .detector import Array, Detector
from .deviation_network import DeviationNetwork
from .forecaster import Forecaster
from .recording import Recording
from .schedule import Schedule
from .scoring import Event, Steps, count_false_alarms_per_day, events_of, list_other_alarms, score_detection
from .series import Scale, Series, Windows, series_of
from .simulation import simulate
from .tags import P601, TAGS, column
from .training import Plan, error_of, forecast_all, train
from .truth import KnownAttack, add_truth

# The attacks in the paper's figure: repeated backwashes, and two attacks on the same flow meter.
BACKWASH, FLOW, FLOW_AGAIN = 8, 10, 40
_FORMAT: Final = 2


@dataclass(frozen=True)
class Size:
    """The size of a study: durations in days, attacks, epochs and numbers of samples."""

    normal_days: float = 3.0
    held_out_days: float = 1.0
    quiet_days: float = 1.0
    attack_days: float = 1.2
    attacks: tuple[int, ...] = ()  # the numbers of the attacks; empty means all
    epochs: int = 12
    compared_epochs: int = 8  # epochs of the graph deviation network
    samples: int = 200
    test_samples: int = 500


FULL: Final = Size()
QUICK: Final = Size(0.5, 0.2, 0.2, 0.35, (2, 6, 8, 10, 20, 33, 37, 40), 5, 2, 60, 100)


@dataclass(frozen=True)
class Case:
    """The data of a study: a series for training, a held-out one, one with attacks, and a quiet one.

    Only ``attacked`` contains attacks. ``held_out`` determines the best epoch and the detector. ``quiet`` is used for
    nothing but the test of the forecasts and the count of false alarms.
    """

    normal: Series
    held_out: Series
    attacked: Series
    quiet: Series


def simulate_case(seed: int, size: Size) -> Case:
    """Simulate the data of a study; every seed has its own plant."""
    days = size.normal_days + size.held_out_days
    normal = series_of(simulate(days, seed=4 * seed))
    chosen = [attack for attack in ATTACKS if not size.attacks or attack.number in size.attacks]
    attacked = simulate(size.attack_days, seed=4 * seed + 1, attacks=Schedule.of(chosen, seed=seed))
    quiet = series_of(simulate(size.quiet_days, seed=4 * seed + 2))
    cut = round(len(normal) * size.normal_days / days)
    return Case(normal[:cut], normal[cut:], series_of(attacked), quiet)


def split_recordings(normal: Recording, attacked: Recording, truth: Sequence[KnownAttack] | None = None) -> Case:
    """Return the case for two recordings; normal operation is split into 70 % training, 15 % held out and 15 % test."""
    if not attacked.labels.any():
        raise InputError("no row of the second recording is labelled as an attack: are the two files swapped?")
    if normal.labels.any():
        raise InputError("rows of the first recording are labelled as attacks; it must contain normal operation only")
    whole = series_of(normal)
    first, second = round(0.7 * len(whole)), round(0.85 * len(whole))
    watched = series_of(attacked)
    if truth is not None:
        watched = add_truth(watched, truth)
    return Case(whole[:first], whole[first:second], watched, whole[second:])


@dataclass(frozen=True)
class Monitor:
    """A trained forecaster, with the scale of its input and the detector for its errors."""

    forecaster: Forecaster
    scale: Scale
    detector: Detector

    def judge(self, series: Series) -> tuple[Windows, Steps, Array]:
        """Return the windows of a series, the forecast steps [n], and the errors [n, 51]."""
        return errors_of(self.forecaster, self.scale, series)


def errors_of(model: torch.nn.Module, scale: Scale, series: Series) -> tuple[Windows, Steps, Array]:
    """Return the windows of a series, the forecast steps [n], and the errors y - forecast [n, 51], all scaled."""
    windows = scale.windows_of(series)
    errors = (windows.y - forecast_all(model, windows)).double().numpy()
    return windows, windows.steps.numpy(), errors


def train_monitor(
    case: Case, seed: int, size: Size, folder: Path | None, say: Callable[[str], None]
) -> tuple[Monitor, dict[str, Any]]:
    """Return the monitor, trained or read from its checkpoint, and the quality of its forecasts on the quiet series.

    ``forecast_gain`` is 1 - (mean square error / mean square error of persistence).
    """
    model, scale, errors = _train_model(Forecaster, case, seed, size.epochs, folder, say)
    assert isinstance(model, Forecaster)
    _, _, held_out = errors_of(model, scale, case.held_out)
    monitor = Monitor(model, scale, Detector.of(held_out))
    windows = scale.windows_of(case.quiet)
    gain = 1.0 - error_of(model, windows) / windows.persistence_error()
    return monitor, {"forecast_gain": gain, "epochs": len(errors)}


def _train_model(
    kind: type[Forecaster] | type[DeviationNetwork],
    case: Case,
    seed: int,
    epochs: int,
    folder: Path | None,
    say: Callable[[str], None],
) -> tuple[Forecaster | DeviationNetwork, Scale, list[float]]:
    scale = Scale.of(case.normal)
    with seeded(seed):
        model = kind()
    name = kind.__name__
    checkpoint = None if folder is None else folder / f"{name.lower()}.safetensors"
    errors = train(
        model,
        scale.windows_of(case.normal),
        scale.windows_of(case.held_out),
        Plan(epochs=epochs, seed=seed),
        checkpoint,
        each=lambda epoch, share: say(f"{name}: epoch {epoch}, error {100 * share:.0f} % of that of persistence"),
    )
    return model, scale, errors


def run_study(
    case: Case,
    seed: int,
    size: Size,
    folder: Path,
    *,
    what: What = "deviation",
    compare: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Return the results for one seed as plain values for JSON, and store them in ``folder``/result.json.

    If that file exists, the results are read from it.
    """
    marks = {
        "format": _FORMAT,
        "seed": seed,
        "size": json.loads(json.dumps(asdict(size))),
        "what": what,
        "compare": compare,
        "version": __version__,
        "truth": bool(case.attacked.attacked.any()),
        "data": _digest(case),
    }
    path = folder / "result.json"
    stored = _read_result(path, marks)
    if stored is not None:
        return stored
    with one_thread(True):  # Several threads add numbers in another order, which changes the last digits.
        row = _compute_result(case, seed, size, folder, what, compare, say)
    row["marks"] = marks
    row["checksum"] = checksum_of(json.dumps(row))
    write_file(path, (json.dumps(row, allow_nan=False) + "\n").encode())
    return row


def _compute_result(
    case: Case, seed: int, size: Size, folder: Path, what: What, compare: bool, say: Callable[[str], None]
) -> dict[str, Any]:
    monitor, row = train_monitor(case, seed, size, folder, say)
    windows, steps, errors = monitor.judge(case.attacked)
    row |= score_detection(case.attacked, steps, errors, monitor.detector)
    row["false_alarms_per_day"] = _count_false_alarms(monitor, case)
    events = events_of(case.attacked, steps, errors, monitor.detector)
    alarms = []
    for event in events:
        if event.step is not None and event.accused is not None:
            say(f"explaining the alarm at {TAGS[event.accused]} during attack {event.number}")
            causes = _explain(monitor, windows, steps, event, event.accused, size, what, seed)
            alarms.append(_alarm_to_json(event, causes) | _unusual_to_json(monitor, windows, steps, event))
    row |= {"attacks": [event.as_json() for event in events], "alarms": alarms}
    row["other_alarms"] = list_other_alarms(case.attacked, monitor.detector.find_alarms(steps, errors))
    row["flow_attacks"] = _compare_flow_attacks(alarms) if case.attacked.attacked.any() else None
    row["story"] = _examine_story(monitor, windows, steps, errors, events, size, what, seed)
    if compare:
        row["deviation_network"] = _judge_deviation_network(case, seed, size, folder, say)
    return row


def _digest(case: Case) -> str:
    """Return a hash of all data that the result depends on: readings, labels and gaps."""
    digest = hashlib.sha256()
    for part in (case.normal, case.held_out, case.attacked, case.quiet):
        for array in (part.values, part.labels, part.attacked, part.attack_id, part.follows):
            digest.update(repr(array.shape).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _read_result(path: Path, marks: dict[str, Any]) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        row: dict[str, Any] = json.loads(read_file(path, "cannot read", JSON_GROWTH))
        same = row["marks"] == marks
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"'{path}' is not the result of a study; remove it, or use another folder") from error
    if not same:
        raise DataError(f"'{path}' is the result of another study; remove it, or use another folder")
    measured = {key: value for key, value in row.items() if key != "checksum"}
    if row.get("checksum") != checksum_of(json.dumps(measured)):
        raise DataError(f"'{path}' is damaged, its checksum is wrong; remove it, or use another folder")
    return row


def _count_false_alarms(monitor: Monitor, case: Case) -> float:
    _, steps, errors = monitor.judge(case.quiet)
    return count_false_alarms_per_day(case.quiet, steps, monitor.detector.find_alarms(steps, errors))


def _explain(
    monitor: Monitor, windows: Windows, steps: Steps, event: Event, tag: int, size: Size, what: What, seed: int
) -> list[Cause]:
    row = int(np.searchsorted(steps, event.start if event.step is None else event.step))
    y, x = windows.y[row], windows.x[row]
    sign = float(torch.sign(y[tag] - monitor.forecaster.forecast(x.unsqueeze(0))[0, tag].detach())) or 1.0
    options: dict[str, Any] = {"samples": size.samples, "test_samples": size.test_samples, "seed": seed}
    usual = monitor.scale.middle
    return explain_alarm(monitor.forecaster, x, y, usual, tag, sign, what=what, methods=METHODS, **options)


def _unusual_to_json(monitor: Monitor, windows: Windows, steps: Steps, event: Event) -> dict[str, Any]:
    """Return the gap and the effects of each tag's unusual readings on it, in the unit of the accused tag."""
    assert event.accused is not None
    row = int(np.searchsorted(steps, event.step or event.start))
    x, y = windows.x[row], windows.y[row]
    with torch.no_grad():
        gap = float(y[event.accused] - monitor.forecaster.forecast(x.unsqueeze(0))[0, event.accused])
    sign, span = (1.0 if gap >= 0 else -1.0), float(monitor.scale.span[event.accused])
    effects = measure_unusual(monitor.forecaster, x, monitor.scale.middle, event.accused, sign) * span
    return {"gap": abs(gap) * span, "unusual": dict(zip(TAGS, effects.tolist(), strict=True))}


def _alarm_to_json(event: Event, causes: list[Cause]) -> dict[str, Any]:
    paths = {cause.method: [_path_to_json(cause, tag) for tag in event.attacked] for cause in causes}
    return {
        "event": event.as_json(),
        "causes": [cause.as_json() for cause in causes],
        "found": {cause.method: score_cause(event, cause) for cause in causes},
        "paths": paths,
    }


def _path_to_json(cause: Cause, tag: int) -> dict[str, Any] | None:
    path = find_strongest_path(cause, tag)
    if path is None:
        return None
    return {"tags": [TAGS[number] for number in path.tags], "score": path.score}


def _compare_flow_attacks(alarms: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the correlations between the explanations of the two attacks on the flow meter, by method."""
    chosen = [alarm for number in (FLOW, FLOW_AGAIN) for alarm in alarms if alarm["event"]["attack"] == number]
    if len(chosen) < 2:
        return None
    pairs = zip(chosen[0]["causes"], chosen[1]["causes"], strict=True)
    correlations = {
        first["method"]: correlate(Cause.from_json(first), Cause.from_json(second)) for first, second in pairs
    }
    return {"accused": [alarm["event"]["accused"] for alarm in chosen], "correlation": correlations}


def _examine_story(
    monitor: Monitor,
    windows: Windows,
    steps: Steps,
    errors: Array,
    events: list[Event],
    size: Size,
    what: What,
    seed: int,
) -> dict[str, Any] | None:
    """Compare attack 8 with the paper, where P601 is accused and its explanation leads over P602 to DPIT301.

    The result is None if there is no attack 8.
    """
    event = next((event for event in events if event.number == BACKWASH and event.attacked), None)
    if event is None:
        return None
    rows = np.flatnonzero((steps >= event.start) & (steps <= event.stop))
    largest = np.abs(monitor.detector.deviations_of(errors[rows])).max(0)
    rank = int((largest > largest[P601]).sum()) + 1
    story: dict[str, Any] = {
        "accused": None if event.accused is None else TAGS[event.accused],
        "P601_place": rank,
        "P601_deviation": float(largest[P601] / monitor.detector.threshold),
    }
    if event.step is not None:
        causes = _explain(monitor, windows, steps, event, P601, size, what, seed)
        story["path_from_DPIT301"] = {cause.method: _path_to_json(cause, column("DPIT301")) for cause in causes}
        story["place_of_DPIT301"] = {cause.method: cause.rank([column("DPIT301")]) for cause in causes}
    return story


def _judge_deviation_network(
    case: Case, seed: int, size: Size, folder: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """Train the graph deviation network on the same data, and return the same scores."""
    model, scale, trained_errors = _train_model(DeviationNetwork, case, seed, size.compared_epochs, folder, say)
    _, _, held_out = errors_of(model, scale, case.held_out)
    detector = Detector.of(held_out)
    _, steps, errors = errors_of(model, scale, case.attacked)
    windows, quiet_steps, quiet_errors = errors_of(model, scale, case.quiet)
    return {
        "forecast_gain": 1.0 - error_of(model, windows) / windows.persistence_error(),
        "epochs": len(trained_errors),
        **score_detection(case.attacked, steps, errors, detector),
        "false_alarms_per_day": count_false_alarms_per_day(
            case.quiet, quiet_steps, detector.find_alarms(quiet_steps, quiet_errors)
        ),
    }
