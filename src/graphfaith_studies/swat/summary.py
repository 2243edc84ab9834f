"""The summary of several studies: means over seeds with their spread, and means over all alarms with their errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .agreement import mean, pool
from .attacks import LONG
from .causes import METHODS, NEIGHBORHOODS

_NUMBERS: Final = (
    "forecast_gain",
    "precision",
    "recall",
    "f1",
    "f1_oracle",
    "events",
    "events_detected",
    "accused_attacked",
    "delay_seconds_median",
    "false_alarms_per_day",
    "alarms_raised",
    "alarms_after",
    "alarms_elsewhere",
)


def summarise(studies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the content of results.json: means over seeds, standard deviations in ``spread``, and all details."""
    results: dict[str, Any] = {name: _mean([study.get(name) for study in studies]) for name in _NUMBERS}
    results["spread"] = {name: _spread([study.get(name) for study in studies]) for name in _NUMBERS}
    without = f"without_attack_{LONG}"
    results[without] = _summarise_points([study[without] for study in studies])
    by_method = {
        method: pool(
            [
                {**alarm["found"][method], "seed": study["marks"]["seed"], "attack": alarm["event"]["attack"]}
                for study in studies
                for alarm in study["alarms"]
            ]
        )
        for method in METHODS
    }
    results["unfaithfulness"] = {
        method: {name: by_method[method]["relative"][name] for name in NEIGHBORHOODS} for method in METHODS
    }
    results["causes"] = by_method
    results["flow_attacks"] = _summarise_flow_attacks(studies)
    results["story"] = [
        {"seed": study["marks"]["seed"], **study["story"]} for study in studies if study["story"] is not None
    ]
    compared = [study["deviation_network"] for study in studies if "deviation_network" in study]
    if compared:
        results["deviation_network"] = {name: _mean([row.get(name) for row in compared]) for name in _NUMBERS}
        results["deviation_network"][without] = _summarise_points([row[without] for row in compared])
        results["deviation_network"]["spread"] = {
            name: _spread([row.get(name) for row in compared]) for name in _NUMBERS
        }
    results["seeds"] = [
        {name: study.get(name) for name in (*_NUMBERS, without, "epochs", "attacks", "flow_attacks", "story")}
        | {"seed": study["marks"]["seed"]}
        for study in studies
    ]
    return results


def _summarise_points(rows: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    known = [row for row in rows if row is not None]
    if not known:
        return None
    names = ("precision", "recall", "f1")
    means = {name: _mean([row[name] for row in known]) for name in names}
    return {**means, "spread": {name: _spread([row[name] for row in known]) for name in names}}


def _summarise_flow_attacks(studies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    correlations = [study["flow_attacks"]["correlation"] for study in studies if study["flow_attacks"] is not None]
    return {
        method: {
            kind: mean([row[method][kind] for row in correlations if row[method][kind] is not None])
            for kind in ("tags", "edges")
        }
        for method in METHODS
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _spread(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.std(known, ddof=1)) if len(known) > 1 else None
