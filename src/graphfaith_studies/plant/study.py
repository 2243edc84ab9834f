"""The study of one seed: its data, a trained forecaster, the alarms and their causes, stored in a folder as JSON.

A finished study is read from its file. A study that was stopped resumes after the last epoch of its training, or after
the last alarm that it explained.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from graphfaith import __version__
from graphfaith._base.checksum import checksum_of
from graphfaith._base.errors import DataError, InputError
from graphfaith._base.expansion import JSON_GROWTH
from graphfaith._base.files import make_folder, read_file, write_file
from graphfaith._base.threads import one_thread

from ..showcase.training import seeded
from .alarms import Replays, examine_alarm
from .causes import METHODS, NEIGHBORHOODS, SHOWN, What
from .detectors import RESOLUTION, Array, Range, Thresholds, differences_of, join, published_excess
from .deviation_network import DeviationNetwork
from .forecaster import Forecaster, Nowcaster
from .monitor import Monitor, Watched, judge
from .plant import Plant
from .recording import Recording
from .scoring import DAY, Event, events_of, find_factor, score_detector
from .series import Scale, Series, series_of
from .training import Plan, error_of, train
from .truth import KnownAttack, add_truth

_FORMAT: Final = 7
_RATE: Final = 1.0  # alarms a day of normal operation that thresholds are made for


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of a study: epochs and numbers of samples."""

    epochs: int = 10
    compared_epochs: int = 10  # epochs of the forecaster, which is only compared
    network_epochs: int = 30  # epochs of the two graph deviation networks, which learn more slowly
    network_patience: int = 4  # epochs without a lower error on held-out data after which these end sooner
    samples: int = 200
    test_samples: int = 300
    thorough: int = 8  # explanations that are measured in all neighbourhoods; all others in that of figures


FULL: Final = Size()
QUICK: Final = Size(epochs=5, compared_epochs=2, network_epochs=2, samples=100, test_samples=100, thorough=2)


@dataclass(frozen=True)
class Case:
    """The data of a study: a series for training, a held-out one, one with attacks, and a quiet one.

    Only ``attacked`` contains attacks. ``held_out`` determines the best epoch and the thresholds. ``further`` is normal
    operation from later days: on it the thresholds of every detector are raised or lowered to one alarm a day; if it is
    None, they stay. ``quiet`` is used for nothing but the test of the forecasts and the count of false alarms. Attacks
    with a number above ``drawn_above`` are drawn anew for each seed; None if all seeds have the same. ``long`` is the
    number of an attack that makes up most of the attacked time, or None; points are also scored without it. ``known``
    are the attacks, if they are known better than from the series, in which one hides another. ``replays`` lets the
    plant run again, if it can. ``notices`` say what was mended in the files. ``parts`` are names, first steps and ends
    of parts of ``attacked`` that are also scored alone. If it is not ``labelled``, nothing is known of attacks:
    ``attacked`` is watched and its alarms are explained, but nothing is judged.
    """

    normal: Series
    held_out: Series
    attacked: Series
    quiet: Series
    long: int | None = None
    known: tuple[Event, ...] | None = None
    replays: Replays | None = None
    notices: tuple[str, ...] = ()
    parts: tuple[tuple[str, int, int], ...] = ()
    labelled: bool = True
    further: Series | None = None
    drawn_above: int | None = None

    @property
    def events(self) -> tuple[Event, ...] | None:
        """The attacks, or None if nothing is known of them."""
        if not self.labelled:
            return None
        return events_of(self.attacked) if self.known is None else self.known

    @property
    def plant(self) -> Plant:
        """The plant that all series are of."""
        return self.normal.plant


def case_of(recordings: Iterable[Recording], truth: Sequence[KnownAttack] | None = None) -> Case:
    """Return the case for two recordings; normal operation is split into 70 % training, 15 % held out and 15 % test.

    Of each recording only the medians are kept. So if they are read one after the other (an iterator), a long one
    is not in memory while the next one is read.
    """
    series, attacks, labelled = [], [], True
    for recording in recordings:
        series.append(series_of(recording))
        attacks.append(bool(recording.labels.any()))
        labelled = recording.labelled  # that of the second counts, because it is the one that is judged
        del recording
    (normal, attacked), (wrong, right) = series, attacks
    if labelled and not right:
        raise InputError(
            "no row of the second recording is labelled as an attack: are the two files swapped? If nothing is known "
            "of attacks, leave out the column of labels"
        )
    if wrong:
        raise InputError("rows of the first recording are labelled as attacks; it must contain normal operation only")
    if normal.plant.period != attacked.plant.period:
        raise InputError(
            f"rows of the first recording are {normal.plant.period} s apart and those of the second "
            f"{attacked.plant.period} s; export both at the same interval"
        )
    if truth is not None and not labelled:
        raise InputError("a truth file needs labels: the second recording has none; add them, or remove the truth file")
    case = split_series(normal, attacked if truth is None else add_truth(attacked, truth))
    return replace(case, labelled=labelled)


def split_series(normal: Series, attacked: Series) -> Case:
    """Return the case for two series; normal operation is split into 70 % training, 15 % held out and 15 % test."""
    first, second = round(0.7 * len(normal)), round(0.85 * len(normal))
    return Case(normal[:first], normal[first:second], attacked, normal[second:])


def train_monitor(
    case: Case, seed: int, size: Size, folder: Path | None, say: Callable[[str], None]
) -> tuple[Monitor, dict[str, Any]]:
    """Return the monitor, trained or read from its checkpoint, and the quality of its forecasts on the quiet series.

    ``forecast_gain`` is 1 - (mean square error / mean square error of persistence), which may use the last reading.
    """
    scale = Scale.of(case.normal)
    with seeded(seed):
        model = Nowcaster(case.plant)
    plan = Plan(epochs=size.epochs, seed=seed)
    quality = _train(model, "nowcaster", scale, case, plan, folder, say)
    monitor = Monitor.of(model, scale, case.held_out)
    if case.further is None:
        return monitor, quality
    return monitor.scaled(_find_factor(case, monitor.watch(case.further).excess)), quality


def _find_factor(case: Case, excess: Array) -> float:
    """Return the factor of all thresholds that `find_factor` finds for an excess on the further normal days."""
    assert case.further is not None
    plant = case.plant
    return find_factor(np.abs(excess).max(1), plant.quiet // plant.step, _RATE * len(case.further) * plant.step / DAY)


def _train(
    model: Nowcaster | Forecaster | DeviationNetwork,
    name: str,
    scale: Scale,
    case: Case,
    plan: Plan,
    folder: Path | None,
    say: Callable[[str], None],
) -> dict[str, Any]:
    errors = train(
        model,
        scale.windows_of(case.normal),
        scale.windows_of(case.held_out),
        plan,
        None if folder is None else folder / f"{name}.safetensors",
        each=lambda epoch, share: say(f"{name}: epoch {epoch}, error {100 * share:.0f} % of that of persistence"),
    )
    windows = scale.windows_of(case.quiet)
    gain = 1.0 - error_of(model, windows) / windows.persistence_error()
    return {"forecast_gain": gain, "epochs": len(errors)}


@dataclass(frozen=True)
class Judged:
    """A case as its monitor judges it."""

    case: Case
    monitor: Monitor
    watched: Watched
    seed: int


Examine = Callable[[Judged, list[dict[str, Any]]], dict[str, Any]]  # from the rows of the alarms to further results


def run_study(
    case: Case,
    seed: int,
    size: Size,
    folder: Path,
    *,
    what: What = "deviation",
    compare: bool = True,
    examine: Examine | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Return the results for one seed as plain values for JSON, and store them in ``folder``/result.json.

    If that file exists, the results are read from it. ``examine`` adds what is of interest in one plant only.
    """
    marks = {
        "format": _FORMAT,
        "seed": seed,
        "size": json.loads(json.dumps(asdict(size))),
        "what": what,
        "plant": case.plant.name,
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
        row = _compute_result(case, seed, size, folder, what, compare, examine, marks, say)
    return _write_result(path, row, marks)


def _write_result(path: Path, row: dict[str, Any], marks: dict[str, Any]) -> dict[str, Any]:
    row["marks"] = marks
    row["checksum"] = checksum_of(json.dumps(row))
    write_file(path, (json.dumps(row, allow_nan=False) + "\n").encode())
    return row


def _compute_result(
    case: Case,
    seed: int,
    size: Size,
    folder: Path,
    what: What,
    compare: bool,
    examine: Examine | None,
    marks: dict[str, Any],
    say: Callable[[str], None],
) -> dict[str, Any]:
    monitor, quality = train_monitor(case, seed, size, folder, say)
    watched, quiet = monitor.watch(case.attacked), monitor.watch(case.quiet)
    detectors = {"monitor": quality | _score(case, watched.excess, quiet.excess)}
    alone = [watched.of_forecast, quiet.of_forecast]
    if case.further is not None:
        alone.append(monitor.watch(case.further).of_forecast)
    detectors["nowcaster"] = quality | _score_scaled(case, alone)
    detectors["monitor"]["factor"] = monitor.factor
    detectors |= _judge_trivial_detectors(case, monitor.scale)
    if compare:
        detectors |= _judge_other_models(case, monitor.scale, seed, size, folder, say)
    make_folder(folder / "alarms")
    alarms = []
    for number, alarm in enumerate(watched.alarms, 1):
        path = folder / "alarms" / f"alarm-{number:04d}.json"
        row = _read_result(path, marks)
        if row is None:
            say(f"explaining alarm {number}, at {case.plant.names[alarm.accused]}")
            row = examine_alarm(
                alarm,
                watched,
                monitor,
                case.events,
                case.replays,
                what=what,
                methods=METHODS,
                neighborhoods=NEIGHBORHOODS if number <= size.thorough else (SHOWN,),
                samples=size.samples,
                test_samples=size.test_samples,
                seed=seed,
            )
            row = _write_result(path, row, marks)
        alarms.append({key: value for key, value in row.items() if key not in ("marks", "checksum")})
    result: dict[str, Any] = {"detectors": detectors, "alarms": alarms, "drawn_above": case.drawn_above}
    events = case.events
    result["attacks"] = None if events is None else [event.as_json(case.plant) for event in events]
    if examine is not None and case.labelled:
        result["examined"] = examine(Judged(case, monitor, watched, seed), alarms)
    return result


def _score(case: Case, excess: Array, quiet_excess: Array) -> dict[str, Any]:
    return score_detector(excess, quiet_excess, case.attacked, case.quiet, case.events, case.long, case.parts)


def _score_scaled(case: Case, excesses: Sequence[Array]) -> dict[str, Any]:
    """Score a detector by its excesses with attacks, in the quiet series, and perhaps on the further normal days.

    With the last ones all its thresholds are raised or lowered first, by a ``factor`` on those of these excesses.
    """
    attacked, quiet, *further = excesses
    factor = _find_factor(case, further[0]) if further else 1.0
    return {**_score(case, attacked / factor, quiet / factor), "factor": factor}


def _judge_trivial_detectors(case: Case, scale: Scale) -> dict[str, Any]:
    """Score detectors that know no model: always, the range in training, the change of a reading, and both.

    The thresholds of all of them are made for one alarm a day as those of the monitor are. Two are left as they are:
    "always" has no threshold, and the range in training with another threshold would be another range.
    """
    both = case.attacked, case.quiet
    every = both if case.further is None else (*both, case.further)
    rows = {"always": _score(case, *(np.full(series.values.shape, 2.0) for series in both))}
    # It accuses nobody, and has no threshold that could be moved.
    rows["always"] |= dict.fromkeys(("accused_attacked", "events_at_one", "f1_oracle", "vus_pr"))
    tight, wide = Range.of(scale, RESOLUTION), Range.of(scale)
    rows["range"] = _score(case, *(tight.excess_of(series.values) for series in both))
    outside = [wide.excess_of(series.values) for series in every]
    thresholds = Thresholds.of(differences_of(case.held_out, scale))
    changes = [thresholds.excess_of(differences_of(series, scale)) for series in every]
    # The monitor has the same range check beside its forecasts: what do those add to it?
    joined = [join(change, beyond) for change, beyond in zip(changes, outside, strict=True)]
    for name, excesses in (("wide range", outside), ("difference", changes), ("difference and range", joined)):
        rows[name] = _score_scaled(case, excesses)
    return rows


def _judge_other_models(
    case: Case, scale: Scale, seed: int, size: Size, folder: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """Train other models on the same data, and score them by the same rules."""
    slow = Plan(size.network_epochs, size.network_patience, batch_size=128, learning_rate=1e-3, seed=seed)
    with seeded(seed):
        models: dict[str, tuple[Forecaster | DeviationNetwork, Plan]] = {
            "forecaster": (Forecaster(case.plant), Plan(size.compared_epochs, seed=seed)),
            "published network": (DeviationNetwork(case.plant), slow),
            "tuned network": (DeviationNetwork(case.plant, tuned=True), slow),
        }
    rows = {}
    for name, (model, plan) in models.items():
        quality = _train(model, name.replace(" ", "-"), scale, case, plan, folder, say)
        steps, held_out = judge(model, scale, case.held_out)
        every = (case.attacked, case.quiet, *([] if case.further is None else [case.further]))
        errors = [judge(model, scale, series)[1] for series in every]
        if name == "published network":
            excesses = [published_excess(part, held_out[steps]) for part in errors]
        else:
            thresholds = Thresholds.of(held_out[steps])
            excesses = [thresholds.excess_of(part) for part in errors]
        rows[name] = quality | _score_scaled(case, excesses)
    return rows


def _digest(case: Case) -> str:
    """Return a hash of all data that the result depends on: readings, labels and gaps."""
    digest = hashlib.sha256()
    parts = [case.normal, case.held_out, case.attacked, case.quiet, *([] if case.further is None else [case.further])]
    for part in parts:
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
