"""The summary of several studies: means over seeds with their spread, and means over all alarms with their errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from .causes import METHODS
from .localisation import Cluster, mean_of, pool_faithfulness, pool_rankings

DETECTORS: Final = {
    "monitor": "the monitor: nowcaster and wide range",
    "nowcaster": "nowcaster alone",
    "forecaster": "forecaster of one step, a threshold for each tag",
    "tuned network": "graph deviation network, tuned",
    "published network": "graph deviation network, as published",
    "difference": "difference to the last reading",
    "difference and range": "difference to the last reading and wide range",
    "wide range": "range in training with a margin",
    "range": "range in training",
    "always": "always",
}
# The numbers of a detector, each with the way to it in the row of a study.
NUMBERS: Final[dict[str, tuple[str, ...]]] = {
    **{name: (name,) for name in ("forecast_gain", "precision", "recall", "f1", "f1_oracle", "vus_pr", "coverage")},
    **{f"{name}_without_long": ("without_long", name) for name in ("precision", "recall", "f1")},
    **{f"etapr_{name}": ("etapr", name) for name in ("precision", "recall", "f1")},
    "pa_k": ("pa_k", "mean"),
    **{
        name: (name,)
        for name in ("events", "events_detected", "events_at_one", "accused_attacked", "delay_seconds_median")
    },
    **{name: (name,) for name in ("false_alarms_per_day", "quiet_in_alarm", "elsewhere_per_day")},
    **{name: (name,) for name in ("alarms_raised", "alarms_after")},
    "attacked_share": ("attacked_share",),
    "epochs": ("epochs",),
}


def summarise(studies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the content of results.json.

    ``detectors`` has means over seeds and their standard deviations. ``causes`` has means over alarms, with standard
    errors that are clustered by seed and by attack: over all alarms that come from attacks, and over those that accuse
    a tag that was not attacked. It is None if nothing is known of attacks.
    """
    detectors = {
        name: _summarise_detector([study["detectors"][name] for study in studies])
        for name in DETECTORS
        if all(name in study["detectors"] for study in studies)
    }
    alarms = [(study["marks"]["seed"], alarm) for study in studies for alarm in study["alarms"]]
    drawn = {study["marks"]["seed"]: study["drawn_above"] for study in studies}
    labelled = all(study["attacks"] is not None for study in studies)
    results: dict[str, Any] = {"detectors": detectors, "alarms": _count_alarms(alarms, labelled)}
    results["labelled"], results["causes"] = labelled, None
    if labelled:
        results["causes"] = pool_causes(alarms, drawn)
    clusters = [_cluster_of(seed, alarm, drawn[seed]) for seed, alarm in alarms]
    results["faithfulness"] = {
        method: pool_faithfulness([alarm["faithfulness"][method] for _, alarm in alarms], clusters)
        | {"scores": mean_of([_share_of_scores(alarm, method) for _, alarm in alarms], clusters)}
        for method in METHODS
    }
    results["seeds"] = [
        {"seed": study["marks"]["seed"], "attacks": study["attacks"], "detectors": study["detectors"]}
        for study in studies
    ]
    return results


def pool_causes(alarms: Sequence[tuple[int, dict[str, Any]]], drawn: dict[int, int | None]) -> dict[str, Any]:
    """Return the scores of rankings over all alarms that come from attacks, and where another tag is accused.

    Each alarm comes with its seed; ``drawn`` has the number of each seed above which attacks were drawn for it.
    """
    return {
        "all": _pool(alarms, drawn, lambda _: True),
        "another": _pool(alarms, drawn, lambda alarm: alarm["alarm"]["accused"] not in alarm["event"]["attacked"]),
    }


def _share_of_scores(alarm: dict[str, Any], method: str) -> float | None:
    """Return what the scores of a method miss of the model's reaction, which are all that pictures and pages show."""
    shown = next(cause["shown"] for cause in alarm["causes"] if cause["method"] == method)
    return None if shown is None else shown[0]


def _cluster_of(seed: int, alarm: dict[str, Any], drawn_above: int | None) -> Cluster:
    """Return the seed and the attack of an alarm; an attack is the same one in all seeds, unless it was drawn for one.

    Attacks with a number above ``drawn_above`` were drawn. In a file none was: there all trainings see the same
    attacks, and to count each of them once a training would make errors too small. An alarm without an attack is an
    attack of its own.
    """
    numbers = alarm["event"] and alarm["event"]["attacks"]
    if not numbers:
        return seed, -(seed * 1_000_000 + int(alarm["alarm"]["first"])) - 1
    first = int(numbers[0])
    return seed, (seed + 1) * 1_000_000_000 + first if drawn_above is not None and first > drawn_above else first


def _pool(
    alarms: Sequence[tuple[int, dict[str, Any]]],
    drawn: dict[int, int | None],
    chosen: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Return the scores of rankings over the chosen alarms that come from known attacks.

    An alarm that is still there when the plant runs again without the attacks does not come from them.
    """
    known = [
        (seed, alarm)
        for seed, alarm in alarms
        if alarm["event"]["attacked"] and alarm["event"]["caused"] is not False and chosen(alarm)
    ]
    clusters = [_cluster_of(seed, alarm, drawn[seed]) for seed, alarm in known]
    return pool_rankings([alarm["found"] for _, alarm in known], clusters)


def _count_alarms(alarms: Sequence[tuple[int, dict[str, Any]]], labelled: bool) -> dict[str, int]:
    """Return how many alarms there are, of which kind; when they were is only known of ``labelled`` recordings."""
    rows = [alarm for _, alarm in alarms]
    counts = {"all": len(rows)}
    counts["range"] = sum(row["alarm"]["reason"] == "range" for row in rows)
    counts["developed"] = sum(row["at"] > row["alarm"]["first"] for row in rows)
    if labelled:
        for when in ("during", "after", "elsewhere"):
            counts[when] = sum(row["event"]["when"] == when for row in rows)
        counts["not caused"] = sum(row["event"]["caused"] is False for row in rows)
    return counts


def _summarise_detector(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    values = {name: [_look_up(row, path) for row in rows] for name, path in NUMBERS.items()}
    curves = [row["pa_k"] for row in rows if "pa_k" in row]
    mean = np.mean([curve["f1"] for curve in curves], axis=0) if curves else None
    return {
        **{name: _mean(numbers) for name, numbers in values.items()},
        "spread": {name: _spread(numbers) for name, numbers in values.items()},
        "pa_k_curve": None if mean is None else {"k": curves[0]["k"], "f1": mean.tolist()},
        "missed": [row["missed"] for row in rows] if curves else None,
        # How many seeds find none there, because at any factor their false alarms are more than that.
        "none_at_one": sum(row["events_at_one"] == 0 for row in rows) if curves else None,
    }


def _look_up(row: dict[str, Any], path: Sequence[str]) -> float | None:
    value: Any = row
    for name in path:
        value = None if value is None else value.get(name)
    return None if value is None else float(value)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _spread(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.std(known, ddof=1)) if len(known) > 1 else None
