"""One study: data of one seed, a forecaster trained on it, its alarms, and their causes; kept in a folder as JSON.

A study that was finished is read again, and one that was stopped goes on from the last epoch of its training.
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
from graphfaith._base.errors import DataError, InputError
from graphfaith._base.files import read_file, write_file
from graphfaith._base.threads import one_thread

from ..showcase.training import seeded
from .agreement import correlation, found
from .attacks import ATTACKS
from .causes import METHODS, Cause, What, causes, strongest_path, unusual
from .detector import Array, Detector
from .deviation_network import DeviationNetwork
from .forecaster import Forecaster
from .recording import Recording
from .schedule import Schedule
from .scoring import Event, Steps, detection, events_of, false_alarms_per_day, other_alarms
from .series import Scale, Series, Windows, series_of
from .simulation import simulate
from .tags import P601, TAGS, column
from .training import Plan, error_of, forecasts, train
from .truth import KnownAttack, add_truth

# The paper's figure: repeated backwashes, and the same flow meter twice.
BACKWASH, FLOW, FLOW_AGAIN = 8, 10, 40
_FORMAT: Final = 1


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    normal_days: float = 3.0
    held_out_days: float = 1.0
    quiet_days: float = 1.0
    attack_days: float = 1.2
    attacks: tuple[int, ...] = ()  # all of them, if none is named
    epochs: int = 12
    compared_epochs: int = 8  # of the graph deviation network
    samples: int = 200
    test_samples: int = 500


FULL: Final = Size()
QUICK: Final = Size(0.5, 0.2, 0.2, 0.35, (2, 6, 8, 10, 20, 33, 37, 40), 5, 2, 60, 100)


@dataclass(frozen=True)
class Case:
    """Normal operation to train on and to hold out, a stretch with attacks, and a quiet one that is only judged."""

    normal: Series
    held_out: Series
    attacked: Series
    quiet: Series


def simulated(seed: int, size: Size) -> Case:
    """A plant of its own for every seed."""
    days = size.normal_days + size.held_out_days
    normal = series_of(simulate(days, seed=4 * seed))
    chosen = [attack for attack in ATTACKS if not size.attacks or attack.number in size.attacks]
    attacked = simulate(size.attack_days, seed=4 * seed + 1, attacks=Schedule.of(chosen, seed=seed))
    quiet = series_of(simulate(size.quiet_days, seed=4 * seed + 2))
    cut = round(len(normal) * size.normal_days / days)
    return Case(normal[:cut], normal[cut:], series_of(attacked), quiet)


def recorded(normal: Recording, attacked: Recording, truth: Sequence[KnownAttack] | None = None) -> Case:
    """Of files: of normal operation 70 % to train on, 15 % held out, and 15 % that nothing is chosen by."""
    if not attacked.labels.any():
        raise InputError("no row of the second recording is labelled as an attack: are the two files swapped?")
    if normal.labels.any():
        raise InputError("rows of the first recording are labelled as attacks: it should be normal operation")
    whole = series_of(normal)
    first, second = round(0.7 * len(whole)), round(0.85 * len(whole))
    watched = series_of(attacked)
    if truth is not None:
        watched = add_truth(watched, truth)
    return Case(whole[:first], whole[first:second], watched, whole[second:])


@dataclass(frozen=True)
class Monitor:
    """A trained forecaster with its scale and its detector."""

    forecaster: Forecaster
    scale: Scale
    detector: Detector

    def judge(self, series: Series) -> tuple[Windows, Steps, Array]:
        """Windows of a series, the steps that were forecast, and the errors [n, 51]."""
        return errors_of(self.forecaster, self.scale, series)


def errors_of(model: torch.nn.Module, scale: Scale, series: Series) -> tuple[Windows, Steps, Array]:
    """Reading less forecast, scaled."""
    windows = scale.windows(series)
    errors = (windows.y - forecasts(model, windows)).double().numpy()
    return windows, windows.steps.numpy(), errors


def monitor_of(
    case: Case, seed: int, size: Size, folder: Path | None, say: Callable[[str], None]
) -> tuple[Monitor, dict[str, Any]]:
    """Train, or read what was trained; and how good the forecast is on data held out from all of it."""
    model, scale, errors = _trained(Forecaster, case, seed, size.epochs, folder, say)
    assert isinstance(model, Forecaster)
    _, _, held_out = errors_of(model, scale, case.held_out)
    monitor = Monitor(model, scale, Detector.of(held_out))
    windows = scale.windows(case.quiet)
    gain = 1.0 - error_of(model, windows) / windows.persistence_error()
    return monitor, {"forecast_gain": gain, "epochs": len(errors)}


def _trained(
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
        scale.windows(case.normal),
        scale.windows(case.held_out),
        Plan(epochs=epochs, seed=seed),
        checkpoint,
        each=lambda epoch, share: say(f"{name}: epoch {epoch}, {100 * share:.0f} % of persistence's error"),
    )
    return model, scale, errors


def study(
    case: Case,
    seed: int,
    size: Size,
    folder: Path,
    *,
    what: What = "deviation",
    compare: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """All of it for one seed, as plain values, in one thread; kept in ``folder``/result.json, read if it is there."""
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
    known = _kept(path, marks)
    if known is not None:
        return known
    with one_thread(True):  # a sum by several threads has another last digit
        row = _done(case, seed, size, folder, what, compare, say)
    row["marks"] = marks
    write_file(path, (json.dumps(row, allow_nan=False) + "\n").encode())
    return row


def _done(
    case: Case, seed: int, size: Size, folder: Path, what: What, compare: bool, say: Callable[[str], None]
) -> dict[str, Any]:
    monitor, row = monitor_of(case, seed, size, folder, say)
    windows, steps, errors = monitor.judge(case.attacked)
    row |= detection(case.attacked, steps, errors, monitor.detector)
    row["false_alarms_per_day"] = _false_alarms(monitor, case)
    events = events_of(case.attacked, steps, errors, monitor.detector)
    alarms = []
    for event in events:
        if event.step is not None and event.accused is not None:
            say(f"alarm at {TAGS[event.accused]}, attack {event.number}: explained")
            found_causes = _explained(monitor, windows, steps, event, event.accused, size, what, seed)
            alarms.append(_alarm(event, found_causes) | _what_was_unusual(monitor, windows, steps, event))
    row |= {"attacks": [event.as_json() for event in events], "alarms": alarms}
    row["other_alarms"] = other_alarms(case.attacked, monitor.detector.alarms(steps, errors))
    row["flow_attacks"] = _flow_attacks(alarms) if case.attacked.attacked.any() else None
    row["story"] = _story(monitor, windows, steps, errors, events, size, what, seed)
    if compare:
        row["deviation_network"] = _compared(case, seed, size, folder, say)
    return row


def _digest(case: Case) -> str:
    """Of everything that the result depends on: readings, labels and gaps."""
    found = hashlib.sha256()
    for part in (case.normal, case.held_out, case.attacked, case.quiet):
        for array in (part.values, part.labels, part.attacked, part.attack_id, part.follows):
            found.update(repr(array.shape).encode())
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _kept(path: Path, marks: dict[str, Any]) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        row: dict[str, Any] = json.loads(read_file(path, "cannot read"))
        same = row["marks"] == marks
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"'{path}' is no result of a study: remove it, or use another folder") from error
    if not same:
        raise DataError(f"'{path}' is of another study: remove it, or use another folder")
    return row


def _false_alarms(monitor: Monitor, case: Case) -> float:
    _, steps, errors = monitor.judge(case.quiet)
    return false_alarms_per_day(case.quiet, steps, monitor.detector.alarms(steps, errors))


def _explained(
    monitor: Monitor, windows: Windows, steps: Steps, event: Event, tag: int, size: Size, what: What, seed: int
) -> list[Cause]:
    row = int(np.searchsorted(steps, event.start if event.step is None else event.step))
    y, x = windows.y[row], windows.x[row]
    sign = float(torch.sign(y[tag] - monitor.forecaster.forecast(x.unsqueeze(0))[0, tag].detach())) or 1.0
    options: dict[str, Any] = {"samples": size.samples, "test_samples": size.test_samples, "seed": seed}
    return causes(monitor.forecaster, x, y, monitor.scale.middle, tag, sign, what=what, methods=METHODS, **options)


def _what_was_unusual(monitor: Monitor, windows: Windows, steps: Steps, event: Event) -> dict[str, Any]:
    """The gap, and what the unusual readings of each tag did to it, in the accused tag's own unit; by the model."""
    assert event.accused is not None
    row = int(np.searchsorted(steps, event.step or event.start))
    x, y = windows.x[row], windows.y[row]
    with torch.no_grad():
        gap = float(y[event.accused] - monitor.forecaster.forecast(x.unsqueeze(0))[0, event.accused])
    sign, span = (1.0 if gap >= 0 else -1.0), float(monitor.scale.span[event.accused])
    did = unusual(monitor.forecaster, x, monitor.scale.middle, event.accused, sign) * span
    return {"gap": abs(gap) * span, "unusual": dict(zip(TAGS, did.tolist(), strict=True))}


def _alarm(event: Event, found_causes: list[Cause]) -> dict[str, Any]:
    paths = {cause.method: [_path(cause, tag) for tag in event.attacked] for cause in found_causes}
    return {
        "event": event.as_json(),
        "causes": [cause.as_json() for cause in found_causes],
        "found": {cause.method: found(event, cause) for cause in found_causes},
        "paths": paths,
    }


def _path(cause: Cause, tag: int) -> dict[str, Any] | None:
    path = strongest_path(cause, tag)
    if path is None:
        return None
    return {"tags": [TAGS[one] for one in path.tags], "score": path.score}


def _flow_attacks(alarms: list[dict[str, Any]]) -> dict[str, Any] | None:
    """How alike the explanations of the two attacks on the flow meter are, by method."""
    chosen = [alarm for number in (FLOW, FLOW_AGAIN) for alarm in alarms if alarm["event"]["attack"] == number]
    if len(chosen) < 2:
        return None
    pairs = zip(chosen[0]["causes"], chosen[1]["causes"], strict=True)
    alike = {one["method"]: correlation(Cause.from_json(one), Cause.from_json(other)) for one, other in pairs}
    return {"accused": [alarm["event"]["accused"] for alarm in chosen], "correlation": alike}


def _story(
    monitor: Monitor,
    windows: Windows,
    steps: Steps,
    errors: Array,
    events: list[Event],
    size: Size,
    what: What,
    seed: int,
) -> dict[str, Any] | None:
    """The paper's story of attack 8: is P601 accused, and does its explanation lead over P602 to DPIT301?"""
    event = next((event for event in events if event.number == BACKWASH and event.attacked), None)
    if event is None:
        return None
    rows = np.flatnonzero((steps >= event.start) & (steps <= event.stop))
    size_of = np.abs(monitor.detector.deviations(errors[rows]))
    place = int((size_of.max(0) > size_of.max(0)[P601]).sum()) + 1
    told: dict[str, Any] = {
        "accused": None if event.accused is None else TAGS[event.accused],
        "P601_place": place,
        "P601_deviation": float(size_of.max(0)[P601] / monitor.detector.threshold),
    }
    if event.step is not None:
        explained = _explained(monitor, windows, steps, event, P601, size, what, seed)
        told["path_from_DPIT301"] = {one.method: _path(one, column("DPIT301")) for one in explained}
        told["place_of_DPIT301"] = {one.method: one.rank([column("DPIT301")]) for one in explained}
    return told


def _compared(case: Case, seed: int, size: Size, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The graph deviation network on the same data, judged alike."""
    model, scale, trained_errors = _trained(DeviationNetwork, case, seed, size.compared_epochs, folder, say)
    _, _, held_out = errors_of(model, scale, case.held_out)
    detector = Detector.of(held_out)
    _, steps, errors = errors_of(model, scale, case.attacked)
    windows, quiet_steps, quiet_errors = errors_of(model, scale, case.quiet)
    return {
        "forecast_gain": 1.0 - error_of(model, windows) / windows.persistence_error(),
        "epochs": len(trained_errors),
        **detection(case.attacked, steps, errors, detector),
        "false_alarms_per_day": false_alarms_per_day(
            case.quiet, quiet_steps, detector.alarms(quiet_steps, quiet_errors)
        ),
    }
