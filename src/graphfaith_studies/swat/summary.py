"""Several studies as one result: means over seeds with their spread, and means over all alarms with their error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .agreement import mean, pooled
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


def summary(studies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What results.json holds: the numbers as means over seeds, ``spread`` their standard deviation, and the rest."""
    found: dict[str, Any] = {name: _mean([study.get(name) for study in studies]) for name in _NUMBERS}
    found["spread"] = {name: _spread([study.get(name) for study in studies]) for name in _NUMBERS}
    without = f"without_attack_{LONG}"
    found[without] = _points([study[without] for study in studies])
    by_method = {
        method: pooled(
            [
                {**alarm["found"][method], "seed": study["marks"]["seed"], "attack": alarm["event"]["attack"]}
                for study in studies
                for alarm in study["alarms"]
            ]
        )
        for method in METHODS
    }
    found["unfaithfulness"] = {
        method: {name: by_method[method]["relative"][name] for name in NEIGHBORHOODS} for method in METHODS
    }
    found["causes"] = by_method
    found["flow_attacks"] = _flow_attacks(studies)
    found["story"] = [
        {"seed": study["marks"]["seed"], **study["story"]} for study in studies if study["story"] is not None
    ]
    compared = [study["deviation_network"] for study in studies if "deviation_network" in study]
    if compared:
        found["deviation_network"] = {name: _mean([row.get(name) for row in compared]) for name in _NUMBERS}
        found["deviation_network"][without] = _points([row[without] for row in compared])
        found["deviation_network"]["spread"] = {name: _spread([row.get(name) for row in compared]) for name in _NUMBERS}
    found["seeds"] = [
        {name: study.get(name) for name in (*_NUMBERS, without, "epochs", "attacks", "flow_attacks", "story")}
        | {"seed": study["marks"]["seed"]}
        for study in studies
    ]
    return found


def _points(rows: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    told = [row for row in rows if row is not None]
    if not told:
        return None
    names = ("precision", "recall", "f1")
    means = {name: _mean([row[name] for row in told]) for name in names}
    return {**means, "spread": {name: _spread([row[name] for row in told]) for name in names}}


def _flow_attacks(studies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    told = [study["flow_attacks"]["correlation"] for study in studies if study["flow_attacks"] is not None]
    return {
        method: {
            kind: mean([row[method][kind] for row in told if row[method][kind] is not None])
            for kind in ("tags", "edges")
        }
        for method in METHODS
    }


def _mean(values: Sequence[float | None]) -> float | None:
    kept = [value for value in values if value is not None]
    return float(np.mean(kept)) if kept else None


def _spread(values: Sequence[float | None]) -> float | None:
    kept = [value for value in values if value is not None]
    return float(np.std(kept, ddof=1)) if len(kept) > 1 else None
