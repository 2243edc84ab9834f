"""Tables with the numbers of the case study, for the report and for Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from .causes import METHODS, NAMES, NEIGHBORHOODS
from .localisation import CLEARING, RANKINGS, TRUTHS
from .summary import DETECTORS

Table = tuple[list[str], list[list[str]]]


def format_percent(value: float | None, error: float | None = None) -> str:
    """Return a share in per cent, with as many digits as its error allows.

    >>> format_percent(0.0512), format_percent(0.996), format_percent(0.5, 1e-9)
    ('5.1 %', '100 %', '50 %')
    >>> format_percent(0.0512, 0.0078), format_percent(2.8193, 1.1764)
    ('5.1 % ± 0.8 %', '282 % ± 118 %')
    >>> format_percent(-0.002, 0.02)  # Python's z leaves out the sign of what is rounded to zero.
    '0 % ± 2 %'
    """
    if value is None:
        return "–"
    if not error or error < 1e-6:
        size = abs(100 * value)
        return f"{100 * value:z.{0 if size >= 10 or size == 0 else 1 if size >= 1 else 2 if size >= 0.1 else 4}f} %"
    digits = min(max(-math.floor(math.log10(100 * error)), 0), 4)
    return f"{100 * value:z.{digits}f} % ± {100 * error:.{digits}f} %"


def number_format(digits: int) -> Callable[[float | None, float | None], str]:
    """Return a function that formats numbers with so many digits after the point."""

    def format_number(value: float | None, error: float | None = None) -> str:
        if value is None:
            return "–"
        return f"{value:z.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")

    return format_number


def _format_remaining(gain: float | None, spread: float | None = None) -> str:
    return format_percent(None if gain is None else 1.0 - gain, spread)


_COLUMNS: Final = {
    "events_detected": ("attacks found", number_format(1)),
    "false_alarms_per_day": ("false alarms a quiet day", number_format(2)),
    "quiet_in_alarm": ("quiet time in alarm", format_percent),
    "elsewhere_per_day": ("alarms far from attacks, a day", number_format(2)),
    "events_at_one": ("attacks found at one false alarm a day", number_format(1)),
    "delay_seconds_median": ("delay, s", number_format(0)),
    "coverage": ("attack covered", format_percent),
    "accused_attacked": ("accuses an attacked tag", format_percent),
    "forecast_gain": ("forecast's error, of persistence's", _format_remaining),
    "epochs": ("epochs", number_format(0)),
}
_UNJUDGED: Final = {
    "alarms_raised": ("alarms", number_format(1)),
    **{name: _COLUMNS[name] for name in ("false_alarms_per_day", "quiet_in_alarm", "forecast_gain", "epochs")},
}
_POINTS: Final = {
    "f1": ("F1 of points", number_format(2)),
    "f1_without_long": ("F1 without the longest attack", number_format(2)),
    "f1_oracle": ("F1, best threshold on labels", number_format(2)),
    "etapr_precision": ("eTaP", number_format(2)),
    "etapr_recall": ("eTaR", number_format(2)),
    "etapr_f1": ("eTaPR F1", number_format(2)),
    "pa_k": ("PA%K, mean over K", number_format(2)),
    "vus_pr": ("VUS-PR", number_format(2)),
}


def detection_table(results: dict[str, Any]) -> Table:
    """Return the table of events and alarms, a row for each detector; ± is the standard deviation over seeds."""
    return _detector_table(results, _COLUMNS)


def alarms_table(results: dict[str, Any]) -> Table:
    """Return the table of what is known of each detector without labels; quiet time is normal operation held back."""
    return _detector_table(results, _UNJUDGED)


def points_table(results: dict[str, Any]) -> Table:
    """Return the table of the measures over points and ranges, a row for each detector."""
    return _detector_table(results, _POINTS)


def _detector_table(results: dict[str, Any], columns: dict[str, tuple[str, Callable[..., str]]]) -> Table:
    detectors = results["detectors"]
    used = {
        name: column
        for name, column in columns.items()
        if any(detectors[detector].get(name) is not None for detector in detectors)
    }
    events = detectors["monitor"]["events"]
    heads = ["detector", *(words for words, _ in used.values())]
    heads = [f"{head}, of {events:.0f}" if head == "attacks found" else head for head in heads]
    rows = [
        [DETECTORS[detector], *(_format_number(scores, name, form) for name, (_, form) in used.items())]
        for detector, scores in detectors.items()
    ]
    return heads, rows


def _format_number(scores: dict[str, Any], name: str, form: Callable[..., str]) -> str:
    """Return a mean with its spread; where zeros stand for seeds in which no factor was enough, say how many."""
    cell = form(scores[name], scores["spread"][name])
    zeros = scores["none_at_one"]
    return f"{cell} (zero in {zeros})" if name == "events_at_one" and zeros else cell


def curve_table(results: dict[str, Any]) -> Table:
    """Return the PA%K curves, a row for each detector: F1 if an event counts as a whole when more than K % of it do."""
    detectors = results["detectors"]
    rows = [
        [DETECTORS[name], *(f"{value:.2f}" for value in scores["pa_k_curve"]["f1"])]
        for name, scores in detectors.items()
    ]
    return ["K in %", *map(str, detectors["monitor"]["pa_k_curve"]["k"])], rows


def causes_table(results: dict[str, Any]) -> Table:
    """Return the table of unexplained shares and of negative scores; ± is the standard error over seeds and attacks."""
    heads = ["method", *(f"unexplained: {name}" for name in NEIGHBORHOODS)]
    heads += ["both, by the scores alone", "negative: tags", "negative: edges"]
    rows = []
    for method in METHODS:
        scores = results["faithfulness"][method]
        shares = [format_cell(scores["relative"][name], format_percent) for name in NEIGHBORHOODS]
        shares.append(format_cell(scores["scores"], format_percent))
        negative = [format_percent(scores[f"negative_{kind}"]["mean"]) for kind in ("tags", "edges")]
        rows.append([NAMES[method], *shares, *negative])
    return heads, rows


_HITS: Final = {
    "hit1": ("hit at 1", format_percent),
    "hit3": ("at 3", format_percent),
    "hit5": ("at 5", format_percent),
    "reciprocal": ("reciprocal rank", number_format(2)),
    "other_hit1": ("among other tags: hit at 1", format_percent),
    "other_hit3": ("others: at 3", format_percent),
    "other_hit5": ("others: at 5", format_percent),
}
_CLEARS: Final = {
    "clears_model": ("first cause clears: model", format_percent),
    "clears_plant": ("plant", format_percent),
    "other_model": ("first other tag clears: model", format_percent),
    "other_plant": ("plant, too", format_percent),
}


def hits_table(results: dict[str, Any], group: str, truth: str) -> Table:
    """Return the table of hits and ranks of a group of alarms, "all" or "another"; ± is clustered by seed and attack.

    ``truth`` is one of `TRUTHS`: the tags that clear an alarm in the plant, or the attacked ones.
    """
    heads, rows = _rankings_table(results, group, {f"{truth}_{name}": column for name, column in _HITS.items()})
    counted = results["causes"][group]["rankings"][METHODS[0]][f"{truth}_other_hit1"]["count"]
    return [f"{head} ({counted} alarms)" if head.startswith("among") else head for head in heads], rows


def clears_table(results: dict[str, Any], group: str) -> Table:
    """Return the table of how often the first cause of a ranking clears an alarm; ± is clustered by seed and attack."""
    return _rankings_table(results, group, _CLEARS)


def _rankings_table(results: dict[str, Any], group: str, columns: dict[str, tuple[str, Callable[..., str]]]) -> Table:
    rankings = results["causes"][group]["rankings"]
    used = {
        name: column
        for name, column in columns.items()
        if any(rankings[ranking][name]["mean"] is not None for ranking in rankings)
    }
    rows = [
        [RANKINGS[ranking], *(format_cell(scores[name], form) for name, (_, form) in used.items())]
        for ranking, scores in rankings.items()
    ]
    return ["ranking", *(words for words, _ in used.values())], rows


def versus_table(results: dict[str, Any], group: str, truth: str) -> Table:
    """Return the table of hits at 3 less those of hops and of the deviation rank, alarm by alarm.

    Where the accused tag is not the cause, a ranking that begins with it has two places left, and another has three.
    So hits at 3 among the other tags are compared as well.
    """
    versus = results["causes"][group]["versus"]
    pairs = [(name, other) for name in ("hit3", "other_hit3") for other in ("hops", "deviation")]
    rows = [
        [
            RANKINGS[method],
            *(format_cell(versus[f"{truth}_{name}"][method][other], format_percent) for name, other in pairs),
        ]
        for method in (*METHODS, "model")
    ]
    among = {"hit3": "", "other_hit3": "among other tags, "}
    return ["hits at 3", *(f"{among[name]}less {RANKINGS[other]}" for name, other in pairs)], rows


def clearing_table(results: dict[str, Any], group: str) -> Table:
    """Return the table of how much more often the first cause of the first method clears an alarm, alarm by alarm."""
    clearing = results["causes"][group]["clearing"]
    used = [name for name in CLEARING if any(row[name]["mean"] is not None for row in clearing.values())]
    rows = [
        [RANKINGS[other], *(format_cell(row[name], format_percent) for name in used)] for other, row in clearing.items()
    ]
    return [f"{NAMES[METHODS[0]]} less", *(_CLEARS[name][0] for name in used)], rows


def list_tables(results: dict[str, Any]) -> list[tuple[str, Table]]:
    """Return all tables with their titles; without labels, those that need no truth."""
    believed = ("How far explanations of alarms can be believed", causes_table(results))
    if not results.get("labelled", True):
        parts = [("Alarms", alarms_table(results))]
        return [*parts, believed] if results["alarms"]["all"] else parts
    parts = [
        ("Events and alarms", detection_table(results)),
        ("Points and ranges", points_table(results)),
        ("PA%K", curve_table(results)),
        believed,
    ]
    if results["truth"]:
        for truth in TRUTHS:
            parts += _list_hits(results, truth)
        parts.append(("Whose first cause clears the alarm: all alarms", clears_table(results, "all")))
        parts.append(("Whose first cause clears the alarm: another tag is accused", clears_table(results, "another")))
        parts.append(("Whose first cause clears more: all alarms", clearing_table(results, "all")))
        parts.append(("Whose first cause clears more: another tag is accused", clearing_table(results, "another")))
    return parts


_FIND: Final = {
    "causal": "Whether they find a tag that clears the alarm in the plant",
    "attacked": "Whether they find an attacked tag",
}


def _list_hits(results: dict[str, Any], truth: str) -> list[tuple[str, Table]]:
    """Return the three tables of hits, with their titles; none if no plant could be asked about causes."""
    causes, words = results["causes"], {}
    for group, rows in causes.items():
        counted = rows["rankings"][METHODS[0]][f"{truth}_reciprocal"]["count"]
        words[group] = count_alarms(rows)
        if truth == "causal":
            missing = rows["alarms"] - counted
            words[group] += f"; no tag clears {missing}, which are left out" if missing else "; some tag clears each"
            if group == "all" and not counted:
                return []
    title = _FIND[truth]
    return [
        (f"{title}: {words['all']}", hits_table(results, "all", truth)),
        (f"{title}, where another tag is accused: {words['another']}", hits_table(results, "another", truth)),
        (
            f"{title}: compared with hops and deviation, where another tag is accused",
            versus_table(results, "another", truth),
        ),
    ]


def count_alarms(group: dict[str, Any]) -> str:
    """Say how many alarms a group has, and of how many attacks, which several seeds may share.

    >>> count_alarms({"alarms": 9, "attacks": 4, "seed_attacks": 8})
    '9 alarms of 4 attacks (8, if each seed counts anew)'
    """
    alarms, attacks, each = group["alarms"], group["attacks"], group["seed_attacks"]
    return f"{alarms} alarms of {attacks} attacks" + (f" ({each}, if each seed counts anew)" if each > attacks else "")


def markdown(results: dict[str, Any]) -> str:
    """Return all tables of a run as Markdown."""
    return format_tables(list_tables(results))


def format_tables(tables: Sequence[tuple[str, Table]], remarks: Sequence[str] = ()) -> str:
    """Return remarks, and tables with their titles, as Markdown."""
    parts = [f"{remark}\n" for remark in remarks]
    return "\n".join([*parts, *(f"### {title}\n\n{_format_markdown(*table)}" for title, table in tables)])


def _format_markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def format_cell(summary: dict[str, Any], form: Callable[[float | None, float | None], str]) -> str:
    """Return a mean with its standard error, as `mean_of` returns them, in this format."""
    return form(summary["mean"], summary["stderr"])
