"""Tables with the numbers of the case study, for the report and for Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from .attacks import LONG
from .causes import METHODS, NAMES, NEIGHBORHOODS

Table = tuple[list[str], list[list[str]]]


def format_percent(value: float | None, error: float | None = None) -> str:
    """Return a share in per cent, with as many digits as its error allows.

    >>> format_percent(0.0512), format_percent(0.996), format_percent(0.5, 1e-9)
    ('5.1 %', '100 %', '50 %')
    >>> format_percent(0.0512, 0.0078), format_percent(2.8193, 1.1764)
    ('5.1 % ± 0.8 %', '282 % ± 118 %')
    """
    if value is None:
        return "–"
    if not error or error < 1e-6:
        size = abs(100 * value)
        return f"{100 * value:.{0 if size >= 10 or size == 0 else 1 if size >= 1 else 2 if size >= 0.1 else 4}f} %"
    digits = min(max(-math.floor(math.log10(100 * error)), 0), 4)
    return f"{100 * value:.{digits}f} % ± {100 * error:.{digits}f} %"


def number_format(digits: int) -> Callable[[float | None, float | None], str]:
    """Return a function that formats numbers with so many digits after the point."""

    def format_number(value: float | None, error: float | None = None) -> str:
        if value is None:
            return "–"
        return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")

    return format_number


def _format_remaining(gain: float | None, spread: float | None = None) -> str:
    return format_percent(None if gain is None else 1.0 - gain, spread)


_ROWS: Final = {
    "forecast_gain": ("error of the forecast, as a share of persistence's", _format_remaining),
    "precision": ("precision of points", number_format(2)),
    "recall": ("recall of points", number_format(2)),
    "f1": ("F1 of points, threshold from normal data", number_format(2)),
    "f1_oracle": ("F1 of points, best threshold on the labels", number_format(2)),
    "events": ("attacks", number_format(0)),
    "events_detected": ("attacks with an alarm", number_format(1)),
    "accused_attacked": ("of these, first accused tag was attacked", format_percent),
    "delay_seconds_median": ("median delay in seconds", number_format(0)),
    "false_alarms_per_day": ("false alarms a normal day", number_format(1)),
    "alarms_raised": ("alarms in all, in the recording with attacks", number_format(1)),
    "alarms_after": ("of these, in the ten minutes after an attack", number_format(1)),
    "alarms_elsewhere": ("of these, without any attack near", number_format(1)),
}


def detection_table(results: dict[str, Any]) -> Table:
    """Return the table of the scores of the alarms; ± is the standard deviation over seeds."""
    models = [results] + ([results["deviation_network"]] if "deviation_network" in results else [])
    heads = ["", "forecaster on the plant's graph", "graph deviation network"][: 1 + len(models)]
    rows = [
        [words, *(form(model[name], model.get("spread", {}).get(name)) for model in models)]
        for name, (words, form) in _ROWS.items()
    ]
    without = f"without_attack_{LONG}"
    for name in ("precision", "recall", "f1") if results[without] is not None else ():
        words = f"{_ROWS[name][0].split(',')[0]}, without attack {LONG}"
        rows.append(
            [words, *(number_format(2)(model[without][name], model[without]["spread"][name]) for model in models)]
        )
    return heads, rows


def causes_table(results: dict[str, Any]) -> Table:
    """Return the table of unexplained shares and of negative scores; ± is the standard error over seeds and attacks."""
    heads = ["method", *(f"unexplained: {name}" for name in NEIGHBORHOODS), "negative: tags", "negative: edges"]
    rows = []
    for method in METHODS:
        scores = results["causes"][method]
        shares = [_format_cell(scores["relative"][name], format_percent) for name in NEIGHBORHOODS]
        negative = [format_percent(scores[f"negative_{kind}"]["mean"]) for kind in ("tags", "edges")]
        rows.append([NAMES[method], *shares, *negative])
    return heads, rows


def found_table(results: dict[str, Any]) -> Table:
    """Return the table of the ranks of the attacked tag and of the path from it, compared with a random order."""
    first = results["causes"][METHODS[0]]
    apart = first["apart"]["top"]["count"]
    heads = ["method", "attacked tag in the first five", f"the same, in the {apart} alarms that accuse another tag",
             "place of the attacked tag", "the same, in those", "place of the way to it, in those"]  # fmt: skip
    cells = {
        NAMES[method]: (results["causes"][method], ("top", "attacked_rank", "path_rank")) for method in METHODS
    } | {"a random order within reach": (first, ("top_random", "attacked_rank_random", "path_rank_random"))}
    rows = []
    for name, (scores, (top, rank, path)) in cells.items():
        rows.append(
            [
                name,
                _format_cell(scores[top], format_percent),
                _format_cell(scores["apart"][top], format_percent),
                _format_cell(scores[rank], number_format(1)),
                _format_cell(scores["apart"][rank], number_format(1)),
                _format_cell(scores[path], number_format(1)),
            ]
        )
    rows.append(["the accused tag alone", _format_cell(first["accused"], format_percent), "0 %", "", "", ""])
    return heads, rows


def agreement_table(results: dict[str, Any]) -> Table:
    """Return the table of rank correlations between the explanations of two attacks on the same flow meter.

    ± is the standard error over seeds.
    """
    rows = [
        [
            NAMES[method],
            *(_format_cell(results["flow_attacks"][method][kind], number_format(2)) for kind in ("tags", "edges")),
        ]
        for method in METHODS
    ]
    count = results["flow_attacks"][METHODS[0]]["edges"]["count"]
    return ["method", f"tags ({count} seeds)", "edges"], rows


def story_table(results: dict[str, Any]) -> Table:
    """Return the table of attack 8, seed by seed: the accused tag, and the rank of P601 by its deviation."""
    heads = ["seed", "accused", "place of P601", "its deviation, of the threshold"]
    rows = [
        [str(row["seed"]), row["accused"] or "nobody", str(row["P601_place"]), format_percent(row["P601_deviation"])]
        for row in results["story"]
    ]
    return heads, rows


def markdown(results: dict[str, Any]) -> str:
    """Return all tables as Markdown."""
    parts = [
        ("Detection", detection_table(results)),
        ("How far explanations of alarms can be believed", causes_table(results)),
        ("Whether they find the attacked tag", found_table(results)),
        ("Agreement on the two attacks on FIT401", agreement_table(results)),
        ("The paper's story of attack 8", story_table(results)),
    ]
    if not results["truth"]:
        parts = parts[:2]
    return "\n".join(f"### {title}\n\n{_format_markdown(*table)}" for title, table in parts)


def _format_markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _format_cell(summary: dict[str, Any], form: Callable[[float | None, float | None], str]) -> str:
    return form(summary["mean"], summary["stderr"])
