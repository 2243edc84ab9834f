"""How much masks keep, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median

from ..paper.experiment import Row
from ..paper.markdown import format_number, format_table, format_with_error

ANCHORED, RANDOM, SPAN = "anchored-kec", "random", "18 gradients"
SCEPTICS = ("everything", "a half of each", "a drawn half", "no feature")
SHOWN = 0.1  # the size that columns are compared at
SIZES = (SHOWN, 0.5)  # shares of the features, and of the edges, that an explanation may move

Column = Mapping[str, Row]  # by method


def format_kept(rows: Sequence[Row]) -> str:
    """Return all tables of what masks keep, for the rows that are there."""
    columns: dict[str, dict[str, Row]] = {}
    for row in rows:
        columns.setdefault(f"{row['dataset']} {row['model']} in {row['neighborhood']}", {})[row["method"]] = row
    methods = list(dict.fromkeys(row["method"] for row in rows))
    masks = [
        name for name in methods if name not in SCEPTICS and any("read" in c.get(name, {}) for c in columns.values())
    ]
    lower = {name: (column, best) for name, column in columns.items() if (best := _lower(column, masks)) is not None}
    parts = [_explain(rows, len(columns), masks), _by_method(columns, methods), _conclude(lower, columns, masks)]
    if lower:
        parts.append(_by_column(lower))
    return "\n\n".join([*parts, _introduce_sizes(columns, masks), _by_size(columns, methods)])


def _lower(column: Column, masks: Sequence[str]) -> Row | None:
    """Return the mask with the lowest Delta, if that is below AnchoredKEC's."""
    known = [column[name] for name in masks if name in column]
    best = min(known, key=lambda row: float(row["delta"]), default=None)
    return best if best is not None and best["delta"] < column[ANCHORED]["delta"] else None


def _top(row: Row, size: float) -> float:
    return float(row[f"top {size:g}"][0])


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def _explain(rows: Sequence[Row], count: int, masks: Sequence[str]) -> str:
    quick = " (a quick run: one prediction of one training)" if rows[0]["size"] == "quick" else ""
    return (
        f"The {count} columns of heterophilous graphs where features move, on the predictions and samples of the "
        f"arena{quick}. The p of a mask is F(X_s - eps_X, A_s - eps_A), as in the paper's Proposition 2: the mask "
        "says where p starts from, and all perturbations of whatever still reaches the prediction go through the "
        "model. **Read** is the share of the features that move which p reads in this way. **Mask** is the mean of "
        "the mask, and **nine tenths** the share of its entries that have nine tenths of its sum. **Left** is "
        "relative Delta, in the median over columns; **masked too** is the same where the mask multiplies "
        "perturbations as well, so that p reads what the mask keeps and no more: the paper's words for p, a layer "
        f"below F that ablates features and edges, can be read so. {', '.join(masks)} are the masks that are first or "
        f"second somewhere. Four masks look at nothing: {SCEPTICS[0]} is kept, {SCEPTICS[1]} edge and feature, "
        f"{SCEPTICS[2]} of both, {SCEPTICS[3]} at all. **{SPAN}** is a p that runs the model too, but sees only how "
        "far X moves along the gradients that AnchoredKEC asks for: 18 numbers of all features. Nothing of it is "
        "fitted, and AnchoredKEC does not have it."
    )


def _by_method(columns: Mapping[str, Column], methods: Sequence[str]) -> str:
    lines = []
    for method in methods:
        found = [column[method] for column in columns.values() if method in column]
        means = [
            _percent(fmean(float(row[key]) for row in found)) if all(key in row for row in found) else "–"
            for key in ("read", "features", "most features", "edges", "most edges")
        ]
        left = [float(row["share"][0]) for row in found]
        masked = [float(row["masked"][0]) for row in found if "masked" in row]
        of_left = [format_number(median(left)), f"{format_number(min(left), 2)} to {format_number(max(left), 2)}"]
        lines.append([method, str(len(found)), *means, *of_left, format_number(median(masked)) if masked else "–"])
    header = ["p", "columns", "features read", "mask, features", "nine tenths", "mask, edges", "nine tenths"]
    return format_table([*header, "left", "in columns", "masked too"], lines)


def _conclude(lower: Mapping[str, tuple[Column, Row]], columns: Mapping[str, Column], masks: Sequence[str]) -> str:
    few, all_of = len(lower), len(columns)
    spans = {
        place
        for place, column in columns.items()
        if float(column[SPAN]["delta"])
        < min(float(column[name]["delta"]) for name in (*masks, ANCHORED) if name in column)
    }
    last = (
        f"The p along {SPAN}, which is no mask, has the lowest Delta of all these in {len(spans)} of {all_of} columns"
    )
    last += f", and in {len(spans & set(lower))} of those {few}" if lower else ""
    last += ": there to run the model is enough, whatever a mask says." if 2 * len(spans & set(lower)) > few else "."
    if not lower:
        return f"No mask is below AnchoredKEC in any of {all_of} columns. {last}"
    read = [float(best["read"]) for _, best in lower.values()]
    dull = sum(
        min(float(column[name]["delta"]) for name in SCEPTICS[1:]) < float(column[ANCHORED]["delta"])
        for column, _ in lower.values()
    )
    masked = sum(
        min(float(column[name]["masked"][0]) for name in masks if name in column) < float(column[ANCHORED]["share"][0])
        for column in columns.values()
    )
    entries = sum(_top(column[ANCHORED], SHOWN) < _top(best, SHOWN) for column, best in lower.values())
    own = f"p at {SHOWN:g}"
    models = sum(column[ANCHORED][own][0] < best[own][0] for column, best in lower.values())
    return (
        f"**In the {few} of {all_of} columns where a mask is below AnchoredKEC, its p reads {_percent(min(read))} to "
        f"{_percent(max(read))} of the features that move** ({_percent(median(read))} in the median). If masks held "
        f"for perturbations too, so that p does not see what the mask leaves out, one would still be below "
        f"AnchoredKEC in {masked} of {all_of}, because some keep nearly all. A mask that looks at "
        f"nothing, other than the one that keeps all, is below AnchoredKEC in {dull} of them. At an equal size, "
        f"{_percent(SHOWN)} of the features and of the edges, the entries of AnchoredKEC's largest scores leave less "
        f"of F's change than the winner's in {entries} of {few}, and its p on its entries less than the winner's p on "
        f"its own in {models} of {few}. {last}"
    )


def _by_column(lower: Mapping[str, tuple[Column, Row]]) -> str:
    lines, top, own = [], f"top {SHOWN:g}", f"p at {SHOWN:g}"
    for name, (column, best) in lower.items():
        ours = column[ANCHORED]
        left = [best["share"], best["masked"], ours["share"], column[SCEPTICS[1]]["share"], column[SPAN]["share"]]
        sized = [best[top], ours[top], column[RANDOM][top], best[own], ours[own]]
        cells = [format_number(one[0]) for one in left] + [format_with_error(*one) for one in sized]
        lines.append([name, best["method"], _percent(best["read"]), *cells])
    size = _percent(SHOWN)
    header = ["column", "lowest mask", "features read", "left by it", "masked too", f"by {ANCHORED}"]
    header += [f"by {SCEPTICS[1]}", f"by {SPAN}", f"{size}: its entries", f"{ANCHORED}'s", f"{RANDOM}'s"]
    return format_table([*header, f"{size}: its p", f"{ANCHORED}'s p"], lines)


def _introduce_sizes(columns: Mapping[str, Column], masks: Sequence[str]) -> str:
    wins = []
    for size in SIZES:
        won = sum(
            _top(column[ANCHORED], size) <= min(_top(column[name], size) for name in masks if name in column)
            for column in columns.values()
        )
        wins.append(f"{won} of {len(columns)} at {_percent(size)}")
    return (
        "**At an equal size** the entries of the largest scores move, and all others stay. What F itself leaves then "
        "is what nobody can know from these entries alone: it says how well they were chosen. A method that scores "
        "edges alone has the features of the explained node first, and then those of the nodes at its edges; equal "
        "scores are in a drawn order. AnchoredKEC's entries leave no more than those of any mask in "
        f"{', '.join(wins)}. Median over columns of what is left by F, and in brackets by the method's own p on its "
        "entries; and in how many columns the entries are the best of all:"
    )


def _by_size(columns: Mapping[str, Column], methods: Sequence[str]) -> str:
    sized = [name for name in methods if name not in (*SCEPTICS, SPAN)]
    lines = []
    for method in sized:
        found, cells = [column for column in columns.values() if method in column], []
        for size in SIZES:
            left, own = (median(float(c[method][f"{what} {size:g}"][0]) for c in found) for what in ("top", "p at"))
            best = sum(_top(c[method], size) == min(_top(c[m], size) for m in sized if m in c) for c in found)
            cells += [f"{format_number(left)} ({format_number(own)})", f"{best} of {len(found)}"]
        lines.append([method, *cells])
    header = [word for size in SIZES for word in (f"left at {_percent(size)}", "best")]
    return format_table(["entries of", *header], lines)
