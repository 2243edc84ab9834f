"""The numbers of the case study as tables, for the report and for Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from .attacks import LONG
from .causes import METHODS, NAMES, NEIGHBORHOODS

Table = tuple[list[str], list[list[str]]]


def percent(value: float | None, error: float | None = None) -> str:
    """A share, with as many digits as its error allows.

    >>> percent(0.0512), percent(0.0512, 0.0078), percent(2.8193, 1.1764), percent(0.874, 0.0296)
    ('5.1 %', '5.1 % ± 0.8 %', '282 % ± 118 %', '87 % ± 3 %')
    """
    if value is None:
        return "–"
    if not error:
        return f"{100 * value:.0f} %" if abs(value) >= 1 else f"{100 * value:.2g} %"
    digits = min(max(-math.floor(math.log10(100 * error)), 0), 4)
    return f"{100 * value:.{digits}f} % ± {100 * error:.{digits}f} %"


def number(digits: int) -> Callable[[float | None, float | None], str]:
    """A form for numbers with so many digits after the point."""

    def form(value: float | None, error: float | None = None) -> str:
        if value is None:
            return "–"
        return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")

    return form


def _remaining(gain: float | None, spread: float | None = None) -> str:
    return percent(None if gain is None else 1.0 - gain, spread)


_ROWS: Final = {
    "forecast_gain": ("error of the forecast, as a share of persistence's", _remaining),
    "precision": ("precision of points", number(2)),
    "recall": ("recall of points", number(2)),
    "f1": ("F1 of points, threshold from normal data", number(2)),
    "f1_oracle": ("F1 of points, best threshold on the labels", number(2)),
    "events": ("attacks", number(0)),
    "events_detected": ("attacks with an alarm", number(1)),
    "accused_attacked": ("of these, first accused tag was attacked", percent),
    "delay_seconds_median": ("median delay in seconds", number(0)),
    "false_alarms_per_day": ("false alarms a normal day", number(1)),
}


def detection_table(results: dict[str, Any]) -> Table:
    """How good the alarms are; ± is the standard deviation over seeds."""
    models = [results] + ([results["deviation_network"]] if "deviation_network" in results else [])
    heads = ["", "forecaster on the plant's graph", "graph deviation network"][: 1 + len(models)]
    rows = [
        [words, *(form(one[name], one.get("spread", {}).get(name)) for one in models)]
        for name, (words, form) in _ROWS.items()
    ]
    without = f"without_attack_{LONG}"
    for name in ("precision", "recall", "f1"):
        words = f"{_ROWS[name][0].split(',')[0]}, without attack {LONG}"
        rows.append([words, *(number(2)(one[without][name], None) for one in models)])
    return heads, rows


def causes_table(results: dict[str, Any]) -> Table:
    """How far explanations can be believed, and what they find; ± is the standard error over seeds and attacks."""
    heads = ["method", *(f"unexplained: {name}" for name in NEIGHBORHOODS), "attacked tag in the first five",
             "place of the attacked tag", "place of the way to it", "negative: tags", "negative: edges"]  # fmt: skip
    rows = []
    for method in METHODS:
        one = results["causes"][method]
        shares = [_cell(one["relative"][name], percent) for name in NEIGHBORHOODS]
        found = [_cell(one["top"], percent), _cell(one["attacked_rank"], number(1)), _cell(one["path_rank"], number(1))]
        signs = [percent(one[f"negative_{kind}"]["mean"]) for kind in ("tags", "edges")]
        rows.append([NAMES[method], *shares, *found, *signs])
    first = results["causes"][METHODS[0]]
    chance = [percent(first["top_random"]["mean"]), number(1)(first["attacked_rank_random"]["mean"], None)]
    blank = [""] * len(NEIGHBORHOODS)
    rows.append(["a random order", *blank, *chance, number(1)(first["path_rank_random"], None), "", ""])
    return heads, rows


def agreement_table(results: dict[str, Any]) -> Table:
    """How alike two attacks on one flow meter are explained: rank correlations; ± over seeds."""
    rows = [
        [NAMES[method], *(_cell(results["flow_attacks"][method][kind], number(2)) for kind in ("tags", "edges"))]
        for method in METHODS
    ]
    return ["method", "tags", "edges"], rows


def markdown(results: dict[str, Any]) -> str:
    """All tables."""
    parts = [
        ("Detection", detection_table(results)),
        ("Explanations of alarms", causes_table(results)),
        ("Agreement on the two attacks on FIT401", agreement_table(results)),
    ]
    return "\n".join(f"### {title}\n\n{_markdown(*table)}" for title, table in parts)


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(found: dict[str, Any], form: Callable[[float | None, float | None], str]) -> str:
    return form(found["mean"], found["stderr"])
