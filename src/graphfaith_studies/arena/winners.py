"""What winners of the arena take, and who is first by other measures than Delta, and how sure that is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ..paper.experiment import Row
from ..paper.markdown import format_number, format_table, format_with_error
from .reading import ANCHORED, KEC, RANDOM, cell_of, error_in, name_of, ranks_in, value_in, won_rows

CLEAR = 2.0  # errors by which a difference is called clear
_APART = ("delta", "relative-delta", "seconds")  # They have tables of their own.
_OF_TRAININGS = "stability-training"
_MOST = 3  # methods that are named as most often first


def format_seconds(rows: Sequence[Row]) -> str:
    """Return what the winners of columns that AnchoredKEC does not win take, beside AnchoredKEC; empty without any."""
    seconds = {name_of(row): row for row in rows if row["measure"] == "seconds"}
    lost = Counter((name_of(row), row["winner"]) for row in won_rows(rows) if row["winner"] != ANCHORED)
    found = []
    for (contest, winner), count in lost.items():
        row = seconds.get(contest)
        if row is not None and value_in(row, ANCHORED) > 0 and not math.isnan(value_in(row, winner)):
            found.append((contest, winner, count, value_in(row, winner), value_in(row, ANCHORED)))
    if not found:
        return ""
    total = sum(count for _, _, count, _, _ in found)
    sooner = sum(count for _, _, count, theirs, ours in found if theirs < ours)
    ratios: dict[str, list[float]] = {}
    for _, winner, _, theirs, ours in found:
        ratios.setdefault(winner, []).append(theirs / ours)
    said = "; ".join(f"{winner} {_span(one)}" for winner, one in sorted(ratios.items(), key=lambda item: min(item[1])))
    slowest = max(seconds.values(), key=lambda row: value_in(row, ANCHORED) if ANCHORED in row["values"] else 0.0)
    lines = [
        [contest, winner, str(count), format_number(theirs), format_number(ours), format_number(theirs / ours, 2)]
        for contest, winner, count, theirs, ours in found
    ]
    header = ["contest", "winner", "columns", "its seconds", f"{ANCHORED}'s seconds", "times as long"]
    return (
        f"Methods have their default options, and not an equal time. In {sooner} of the {total} columns that "
        f"AnchoredKEC does not win, the winner takes less time than it does, and more in {total - sooner}: {said} "
        "as long. What a slower one would reach in AnchoredKEC's time was not measured, nor what AnchoredKEC would "
        "with as many samples as fit into theirs. Seconds are those of one explanation in the contest's first "
        "neighbourhood: means over predictions and trainings with first calls, in which code is compiled. On "
        f"{name_of(slowest)} AnchoredKEC has {format_number(value_in(slowest, ANCHORED))} for that reason.\n\n"
    ) + format_table(header, lines)


def _span(ratios: Sequence[float]) -> str:
    least, most = format_number(min(ratios), 2), format_number(max(ratios), 2)
    return f"{least} times" if least == most else f"{least} to {most} times"


def format_by_measure(rows: Sequence[Row]) -> str:
    """Return who is first by each other measure: how often, and, folded, in each column and how sure."""
    others = [row for row in rows if row["measure"] not in _APART and len(ranks_in(row)) > 1]
    paired = sorted({row["measure"] for row in others if "margin" in row})
    parts = [
        "Means over predictions and trainings, ± their errors, of methods that have all predictions; the zero "
        "explanation and the random one are among them. **How sure** a first place is: the difference of the first and "
        "the second, in errors. Differences on the same predictions were kept for "
        f"{', '.join(['delta', *paired])} alone, and are marked as paired (own- is agreement with what the model "
        "itself loses). For all others it is the difference of two means in errors of both, the root of the sum of "
        "their squares, which does not know that the predictions are the same ones. Where several have the best mean, "
        f"each is first, and none is sure. The errors of `{_OF_TRAININGS}` are left out: they are of trainings that "
        "stay the same, and another training would differ by more." + _describe_missing(others),
        _summarise(others),
    ]
    contests: dict[str, list[Row]] = {}
    for row in others:
        contests.setdefault(name_of(row), []).append(row)
    for contest, found in contests.items():
        parts.append(f"<details markdown>\n<summary>{contest}, by every other measure</summary>\n\n{_list(found)}")
        parts.append("</details>")
    return "\n\n".join(parts)


def _describe_missing(rows: Sequence[Row]) -> str:
    """Return in how many contests necessity of features was kept and that of edges was not."""
    parts: dict[str, set[bool]] = {}
    for row in rows:
        if row["measure"] == "necessity":
            parts.setdefault(name_of(row), set()).add(" of all features " in row["neighborhood"])
    alone = sum(found == {True} for found in parts.values())
    return f" Necessity of edges was not kept in {alone} contests, only that of features." if alone else ""


def _summarise(rows: Sequence[Row]) -> str:
    lines = []
    for measure in dict.fromkeys(row["measure"] for row in rows):
        found = [row for row in rows if row["measure"] == measure]
        first = Counter(name for row in found for name in _first(row))
        sure = [_sure(row) for row in found]
        named = ", ".join(f"{name} {count}" for name, count in first.most_common(_MOST))
        clear = sum(value >= CLEAR for value in sure)
        ours = [value for row, value in zip(found, sure, strict=True) if ANCHORED in _first(row)]
        unknown = all(math.isnan(value) for value in sure) and measure == _OF_TRAININGS
        lines.append(
            [
                measure,
                str(len(found)),
                named,
                "–" if unknown else str(clear),
                str(len(ours)),
                "–" if unknown else str(sum(value >= CLEAR for value in ours)),
            ]
        )
    header = ["measure", "columns", "first, and in how many", f"by {CLEAR:g} errors", f"{ANCHORED} first"]
    return format_table([*header, f"by {CLEAR:g} errors"], lines)


def _list(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        order = sorted(ranks_in(row).items(), key=lambda item: item[1])
        (best, _), (second, _) = order[:2]
        tied = len(_first(row)) - 1
        sure = format_number(_sure(row), 2) + (" (paired)" if "margin" in row and not math.isnan(_sure(row)) else "")
        cells = [f"{best} {_cell(row, best)}" + (f" (and {tied} more)" if tied else "")]
        cells += [f"{second} {_cell(row, second)}", sure, *(_cell(row, name) for name in (ANCHORED, KEC, RANDOM))]
        lines.append([row["measure"], row["neighborhood"] or "–", *cells])
    header = ["measure", "law", "first", "second", "how sure", ANCHORED, KEC, RANDOM]
    return format_table(header, lines)


def _first(row: Row) -> list[str]:
    """Return the methods with the best mean."""
    ranks = ranks_in(row)
    least = min(ranks.values())
    return [name for name, rank in ranks.items() if rank == least]


def _sure(row: Row) -> float:
    """Return how many errors the first is before the second; NaN if several are first, or no error is known."""
    first = _first(row)
    if len(first) > 1 or row["measure"] == _OF_TRAININGS:
        return math.nan
    if row.get("winner") == first[0] and row.get("margin"):
        difference, error = row["margin"][:2]
        return abs(difference) / error if difference is not None and error else math.nan
    second = sorted(ranks_in(row).items(), key=lambda item: item[1])[1][0]
    error = float(np.hypot(error_in(row, first[0]), error_in(row, second)))
    return abs(value_in(row, first[0]) - value_in(row, second)) / error if error > 0 else math.nan


def _cell(row: Row, method: str) -> str:
    return format_with_error(value_in(row, method), None) if row["measure"] == _OF_TRAININGS else cell_of(row, method)
