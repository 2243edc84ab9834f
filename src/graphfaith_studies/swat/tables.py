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

    >>> percent(0.0512), percent(0.996), percent(0.0512, 0.0078), percent(2.8193, 1.1764), percent(0.5, 1e-9)
    ('5.1 %', '100 %', '5.1 % ± 0.8 %', '282 % ± 118 %', '50 %')
    """
    if value is None:
        return "–"
    if not error or error < 1e-6:
        size = abs(100 * value)
        return f"{100 * value:.{0 if size >= 10 or size == 0 else 1 if size >= 1 else 2 if size >= 0.1 else 4}f} %"
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
    "alarms_raised": ("alarms in all, in the recording with attacks", number(1)),
    "alarms_after": ("of these, in the ten minutes after an attack", number(1)),
    "alarms_elsewhere": ("of these, without any attack near", number(1)),
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
    for name in ("precision", "recall", "f1") if results[without] is not None else ():
        words = f"{_ROWS[name][0].split(',')[0]}, without attack {LONG}"
        rows.append([words, *(number(2)(one[without][name], one[without]["spread"][name]) for one in models)])
    return heads, rows


def causes_table(results: dict[str, Any]) -> Table:
    """How far explanations can be believed, and how often it is negative; ± over seeds and attacks."""
    heads = ["method", *(f"unexplained: {name}" for name in NEIGHBORHOODS), "negative: tags", "negative: edges"]
    rows = []
    for method in METHODS:
        one = results["causes"][method]
        shares = [_cell(one["relative"][name], percent) for name in NEIGHBORHOODS]
        rows.append([NAMES[method], *shares, *(percent(one[f"negative_{kind}"]["mean"]) for kind in ("tags", "edges"))])
    return heads, rows


def found_table(results: dict[str, Any]) -> Table:
    """Whether explanations find the attacked tag, and the way from it; those beside chance within the model's reach."""
    first = results["causes"][METHODS[0]]
    apart = first["apart"]["top"]["count"]
    heads = ["method", "attacked tag in the first five", f"the same, in the {apart} alarms that accuse another tag",
             "place of the attacked tag", "the same, in those", "place of the way to it, in those"]  # fmt: skip
    cells = {
        NAMES[method]: (results["causes"][method], ("top", "attacked_rank", "path_rank")) for method in METHODS
    } | {"a random order within reach": (first, ("top_random", "attacked_rank_random", "path_rank_random"))}
    rows = []
    for name, (one, (top, rank, path)) in cells.items():
        rows.append(
            [
                name,
                _cell(one[top], percent),
                _cell(one["apart"][top], percent),
                _cell(one[rank], number(1)),
                _cell(one["apart"][rank], number(1)),
                _cell(one[path], number(1)),
            ]
        )
    rows.append(["the accused tag alone", _cell(first["accused"], percent), "0 %", "", "", ""])
    return heads, rows


def agreement_table(results: dict[str, Any]) -> Table:
    """How alike two attacks on one flow meter are explained: rank correlations; ± over seeds."""
    rows = [
        [NAMES[method], *(_cell(results["flow_attacks"][method][kind], number(2)) for kind in ("tags", "edges"))]
        for method in METHODS
    ]
    count = results["flow_attacks"][METHODS[0]]["edges"]["count"]
    return ["method", f"tags ({count} seeds)", "edges"], rows


def story_table(results: dict[str, Any]) -> Table:
    """Attack 8, seed by seed: who was accused, and where P601 stood."""
    heads = ["seed", "accused", "place of P601", "its deviation, of the threshold"]
    rows = [
        [str(one["seed"]), one["accused"] or "nobody", str(one["P601_place"]), percent(one["P601_deviation"])]
        for one in results["story"]
    ]
    return heads, rows


def markdown(results: dict[str, Any]) -> str:
    """All tables."""
    parts = [
        ("Detection", detection_table(results)),
        ("How far explanations of alarms can be believed", causes_table(results)),
        ("Whether they find the attacked tag", found_table(results)),
        ("Agreement on the two attacks on FIT401", agreement_table(results)),
        ("The paper's story of attack 8", story_table(results)),
    ]
    if not results["truth"]:
        parts = parts[:2]
    return "\n".join(f"### {title}\n\n{_markdown(*table)}" for title, table in parts)


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(found: dict[str, Any], form: Callable[[float | None, float | None], str]) -> str:
    return form(found["mean"], found["stderr"])
