"""The arena in words and tables: who wins where, what the random explainer wins, and which measures agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from graphfaith.judging import MEASURES

from ..paper.experiment import Row
from ..paper.markdown import format_number, format_table, format_with_error
from .reading import ANCHORED, KEC, RANDOM, ZERO, bold, cell_of, name_of, partial_in, ranks_in, value_in, won_rows
from .winners import CLEAR, format_by_measure, format_seconds

# Explainers whose p is F on a masked graph, or on a subgraph.
MASKS = (
    *("gnnexplainer", "gnnexplainer-soft", "subgraphx"),
    *("pyg-gnnexplainer", "pyg-pgexplainer", "pyg-graphmask", "pyg-attention"),
)
GENERATED = ("tree-cycles", "tree-grid", "ba-2motifs")  # by this library; all other data are of others
COLUMNS, SLOWER = 0.95, 1.6  # what was asked for: the share of columns won, and how many times KEC's time
_FEWEST = 5  # methods with a number that a rank correlation needs


def format_rows(rows: Sequence[Row], contests: Sequence[str]) -> str:
    """Return all tables of the arena, for the rows that are there."""
    done = list(dict.fromkeys(name_of(row) for row in rows))
    missing = [name for name in contests if name not in done]
    parts = [_describe(rows, missing)]
    parts += ["## Delta: who wins where", _summary(rows), _table_of_delta(rows)]
    seconds = format_seconds(rows)
    if seconds:
        parts += ["## Equal time", seconds]
    parts += ["## What must hold", _requirements(rows)]
    crippen = [row for row in rows if row["dataset"] == "crippen"]
    if crippen:
        parts += ["## Crippen: what the model did not learn, and what the explainer did not see", _atoms(crippen)]
    motifs = [row for row in rows if row["measure"] == "roc-auc"]
    if motifs:
        parts += ["## Motifs: ROC-AUC of the edges that are known to matter", _motifs(motifs)]
    parts += ["## Other measures: who is first, and how sure", format_by_measure(rows)]
    parts += ["## Every measure: mean rank of each method", _ranks(rows)]
    parts += ["## Which measures the random explainer wins", format_random(rows)]
    parts += ["## Which measures agree", format_agreement(rows)]
    failed = _failures(rows)
    if failed:
        parts += ["## Who has no number, and why", failed]
    return "\n\n".join(parts)


def has_learnt(row: Row) -> bool:
    """Return whether the models of a contest are better than the largest class, by more than an error of that."""
    share, error = row["baseline"]
    return bool(fmean(row["quality"]) > share + error)


def _describe(rows: Sequence[Row], missing: Sequence[str]) -> str:
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(name_of(row), row)
    lines = [
        [
            name,
            ", ".join(f"{value:.2f}" for value in row["quality"]),
            f"{row['baseline'][0]:.2f}",
            "yes" if has_learnt(row) else "**no**",
            str(row["trainings"]),
            str(row["nodes"]),
        ]
        for name, row in first.items()
    ]
    header = ["contest", "test accuracy (R² for Crippen)", "largest class", "learnt", "trainings", "predictions"]
    text = format_table(header, lines)
    idle = [name for name, row in first.items() if not has_learnt(row)]
    if idle:
        text += (
            f"\n\n**Models that have learnt nothing that shows** ({', '.join(idle)}): their mean accuracy is no more "
            "than one error above the share of the largest class. Some answer the same everywhere and hardly change at "
            "all, so that to be right about them is no merit. They were trained by the recipe of "
            "all others; wins are counted with and without them."
        )
    if missing:
        text += f"\n\nNot measured yet: {', '.join(missing)}."
    return text


def _lower(row: Row) -> dict[str, tuple[float, float | None, int]]:
    """Return the methods below AnchoredKEC among those that lack predictions, on the predictions that both have.

    They are no winners of a column, but it is not AnchoredKEC's either.
    """
    pairs = row.get("less_anchored", {})
    found = {name: pairs[name] for name in partial_in(row) if name in pairs and pairs[name][0] is not None}
    return {name: (pair[0], pair[1], pair[2]) for name, pair in found.items() if pair[0] < 0}


def is_won(row: Row) -> bool:
    """Return whether AnchoredKEC has the lowest mean Delta, and nobody a lower one on fewer predictions."""
    return row["winner"] == ANCHORED and not _lower(row)


def _wins_by_what_moves(found: Sequence[Row]) -> dict[str, str]:
    """Return in how many columns AnchoredKEC has the lowest mean Delta, where only edges and where features move."""
    wins = {}
    for moves, words in ((False, "only edges move"), (True, "features move")):
        kind = [row for row in found if ("X" in row["neighborhood"]) == moves]
        wins[words] = f"{sum(map(is_won, kind))} of {len(kind)}"
    return wins


def format_message(rows: Sequence[Row]) -> str:
    """Return what the page is about, in a sentence: in how many columns AnchoredKEC is the lowest."""
    found = won_rows(rows)
    edges, features = _wins_by_what_moves(found).values()
    contests = {name_of(row): row["dataset"] for row in found}
    others = sum(dataset not in GENERATED for dataset in contests.values())
    return (
        f"**With {len(contests)} models, {others} of them on data of others, AnchoredKEC has the lowest mean Delta in "
        f"{edges} columns where only edges move, and in {features} where features move.**"
    )


def _summary(rows: Sequence[Row]) -> str:
    found = won_rows(rows)
    won = [row for row in found if is_won(row)]
    clear = [row for row in won if row["margin"][1] and row["margin"][0] > CLEAR * row["margin"][1]]
    ratios = [value_in(row, row["second"]) / value_in(row, ANCHORED) for row in won if value_in(row, ANCHORED) > 0]
    text = (
        f"AnchoredKEC has the lowest mean Delta of all methods in {len(won)} of {len(found)} columns "
        f"({100 * len(won) / max(1, len(found)):.0f} %); in {len(clear)} of these it is at least {CLEAR:g} "
        "errors of the paired difference away from the next best"
    )
    text += f", and the next best is {np.median(ratios):.3g} times higher in the median." if ratios else "."
    fair = [row for row in found if has_learnt(row)]
    held = sum(map(is_won, fair))
    text += f" Of models that have learnt something alone, it is so in {held} of {len(fair)} columns"
    text += f" ({100 * held / len(fair):.0f} %)." if fair else "."
    for words, wins in _wins_by_what_moves(found).items():
        text += f" Where {words}, it wins {wins}."
    text += _describe_lower(found)
    lost = [row for row in found if row["winner"] != ANCHORED and ANCHORED in row["values"]]
    if not lost:
        return text
    masks = sum(row["winner"] in MASKS for row in lost)
    text += "\n\nIt does not win\n\n" + "\n".join(map(_describe_loss, lost))
    return text + (
        f"\n\n{masks} of these {len(lost)} winners are masks or subgraphs. Their p is the model itself on the masked "
        "graph, activations and all, so that it is close to F where they keep most of what the prediction reads: one "
        "that keeps all of it has p = F and Delta = 0, and explains nothing. The p "
        "of AnchoredKEC has no activations: given A it is a polynomial of degree two in X, with attention for a GAT "
        "(its hinges, which follow activations without reading them, are in [anchored.md](anchored.md#hinges))."
    )


def _describe_lower(found: Sequence[Row]) -> str:
    """Return in which columns a method that lacks predictions is below AnchoredKEC on those that both have."""
    lines = [
        f"- {name_of(row)} in {row['neighborhood']}: {name} is {format_with_error(-value, error)} lower "
        f"({count} shared)."
        for row in found
        for name, (value, error, count) in _lower(row).items()
    ]
    if not lines:
        return ""
    return (
        "\n\nA method that lacks predictions of others wins no column, but a column in which it is lower than "
        "AnchoredKEC on the predictions that both have is not counted as AnchoredKEC's. These are\n\n"
    ) + "\n".join(lines)


def _describe_loss(row: Row) -> str:
    winner = row["winner"]
    difference, error, _ = row.get("less_anchored", {}).get(winner, [None, None, 0])
    behind = format_with_error(None if difference is None else -difference, error)
    values = f"{format_number(value_in(row, ANCHORED))} against {format_number(value_in(row, winner))}"
    return (
        f"- {name_of(row)} in {row['neighborhood']}: {winner} wins, {values}; paired, AnchoredKEC is {behind} higher."
    )


def _table_of_delta(rows: Sequence[Row]) -> str:
    relative = {(name_of(row), row["neighborhood"]): row for row in rows if row["measure"] == "relative-delta"}
    lines = []
    for row in won_rows(rows):
        share = relative[name_of(row), row["neighborhood"]]
        margin = row.get("margin") or [None, None]
        sure = margin[0] / margin[1] if margin[0] is not None and margin[1] else math.nan
        rival = row["second"] if row["winner"] == ANCHORED else row["winner"]
        lines.append(
            [
                name_of(row),
                row["neighborhood"],
                bold(cell_of(share, ANCHORED), is_won(row)),
                cell_of(share, KEC),
                "–" if rival is None else f"{rival} {bold(cell_of(share, rival), row['winner'] == rival)}",
                format_number(sure, 2),
                cell_of(share, RANDOM),
            ]
        )
    header = ["contest", "neighbourhood", ANCHORED, KEC, "best other", "first less second, in errors", RANDOM]
    return (
        "Relative Delta: the share of F's change that p leaves, ± its error over predictions and trainings. Winners "
        "are by Delta itself, in which predictions with large changes weigh more.\n\n" + format_table(header, lines)
    )


def _requirements(rows: Sequence[Row]) -> str:
    found, above = won_rows(rows), []
    for row in found:
        pairs = {ANCHORED: row.get("less_anchored", {}).get(RANDOM), KEC: row.get("random_less_kec")}
        for name, pair in pairs.items():
            if pair is not None and pair[0] is not None and pair[0] < 0:
                values = f"{format_number(value_in(row, RANDOM))} against {format_number(value_in(row, name))}"
                where = f"{name_of(row)} in {row['neighborhood']}"
                above.append(f"{where} (above {name}: {values}; paired {format_with_error(*pair[:2])})")
    lines = [
        "- The random explainer is ranked above KEC or AnchoredKEC by Delta "
        + ("nowhere." if not above else "here: " + "; ".join(above) + "."),
        _columns_won(found),
    ]
    seconds = [row for row in rows if row["measure"] == "seconds"]
    ratios = [value_in(row, ANCHORED) / value_in(row, KEC) for row in seconds if value_in(row, KEC) > 0]
    if ratios:
        within, median = sum(ratio <= SLOWER for ratio in ratios), float(np.median(ratios))
        missed = "" if median <= SLOWER else ", and **the bar is missed**"
        lines.append(
            f"- AnchoredKEC takes {median:.2g} times KEC's time in the median over contests "
            f"({min(ratios):.2g} to {max(ratios):.2g}). At most {SLOWER:g} times was asked for: {within} of "
            f"{len(ratios)} contests have it{missed}. This is in the first neighbourhood, scores included, with first "
            "calls and on a machine that others use; [speed.md](speed.md) has figures of a quiet one."
        )
    return "\n".join(lines)


def _columns_won(found: Sequence[Row]) -> str:
    """Return in how many columns AnchoredKEC has the lowest mean Delta, beside what was asked for."""
    won, learnt = sum(map(is_won, found)), [row for row in found if has_learnt(row)]
    text = (
        f"- AnchoredKEC has the lowest mean Delta in {won} of {len(found)} columns, and in "
        f"{sum(map(is_won, learnt))} of {len(learnt)} whose models have learnt something. "
        f"{100 * COLUMNS:g} % were asked for: "
    )
    if won >= COLUMNS * len(found):
        return text + "the bar is reached."
    lost = [row for row in found if not is_won(row)]
    moving = sum("X" in row["neighborhood"] for row in lost)
    return text + (
        f"**the bar is missed**. Of the {len(lost)} others, features move in {moving}. Tried for these: hinges "
        "([what they gain, and in how much time](anchored.md#hinges)), and a term that runs F along the gradients "
        "([why it is left out](anchored-details.md#what-was-tried-and-left-out)); a second anchor was not tried."
    )


def _atoms(rows: Sequence[Row]) -> str:
    by = {row["measure"]: row for row in rows}
    names = ("rank-agreement", "sign-agreement", "own-rank-agreement", "own-sign-agreement")
    if any(name not in by for name in names) or "learnt" not in by[names[0]]:
        return "Not measured yet."
    first = by[names[0]]
    methods = sorted(first["values"], key=lambda method: -_sortable(value_in(first, method)))
    lines = [[method, *(cell_of(by[name], method) for name in names)] for method in [*methods, *first["absent"]]]
    learnt = by[names[0]]["learnt"]
    said = [format_with_error(*learnt[name]) for name in names[:2]]
    header = ["method", "ranks, truth", "signs, truth", "ranks, the model's own", "signs, the model's own"]
    return (
        f"{by[names[0]]['nodes']} molecules of the test set, {by[names[0]]['trainings']} training(s). "
        "Agreement of the atoms' scores with their true contributions to logP, and with what the model's own "
        "prediction loses without each atom (its features 0, its bonds gone): Spearman's rank correlation, and the "
        "share of right signs. Scores that are never negative, such as masks, have no sign that could be right (–); "
        "most atoms contribute with a plus, so that they would seem to agree. captum-shapley and shapley score bonds "
        "alone, and an atom has the sum of its bonds. "
        f"The model's own effects agree with the truth to {said[0]} in ranks and {said[1]} in signs: an explainer that "
        "sees the model exactly is there. What is missing from 1 in the first columns, but not in the last, the model "
        "did not learn; what is missing in the last, the explainer did not see.\n\n" + format_table(header, lines)
    )


def _sortable(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _motifs(rows: Sequence[Row]) -> str:
    methods = list(dict.fromkeys(method for row in rows for method in row["values"]))
    header = ["method", *(name_of(row) for row in rows)]
    return (
        "Scores count with their sign: an edge that speaks against the class is ranked last, not first.\n\n"
        + format_table(header, [[method, *(cell_of(row, method) for row in rows)] for method in methods])
    )


def _ranks(rows: Sequence[Row]) -> str:
    measures = [name for name in MEASURES if any(row["measure"] == name for row in rows)]
    methods = list(dict.fromkeys(method for row in rows for method in row["values"]))
    shares: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        ranks = ranks_in(row)
        for method, rank in ranks.items():
            if len(ranks) > 1:
                shares.setdefault((method, row["measure"]), []).append((rank - 1) / (len(ranks) - 1))
    lines = [
        [method, *(f"{fmean(shares[method, m]):.2f}" if (method, m) in shares else "–" for m in measures)]
        for method in methods
    ]
    return (
        "0 is first and 1 is last in a column, on average over contests and neighbourhoods. A method that lacks "
        "predictions which others of the column have has no rank there.\n\n"
        + format_table(["method", *measures], lines)
    )


def format_random(rows: Sequence[Row]) -> str:
    """Return a table of how often the random explainer is ranked before KEC, AnchoredKEC and everybody."""
    lines = []
    for measure in MEASURES:
        found = [row for row in rows if row["measure"] == measure and not math.isnan(value_in(row, RANDOM))]
        if not found or measure == "seconds":
            continue
        better = [ranks_in(row, [RANDOM, KEC, ANCHORED]) for row in found]
        first = [ranks_in(row).get(RANDOM) == 1 for row in found]
        beats = [
            [ranks[RANDOM] < ranks[name] for ranks in better if name in ranks and RANDOM in ranks]
            for name in (KEC, ANCHORED)
        ]
        lines.append(
            [
                measure,
                str(len(found)),
                *(f"{100 * fmean(one):.0f} %" if one else "–" for one in beats),
                f"{100 * fmean(first):.0f} %",
            ]
        )
    header = ["measure", "columns", f"random before {KEC}", f"random before {ANCHORED}", "random first of all"]
    return format_table(header, lines)


def agreement_of(rows: Sequence[Row]) -> dict[tuple[str, str], tuple[float, int]]:
    """Return the mean rank correlation of methods between each two measures, over contests, and how many there were.

    A measure with several neighbourhoods has the mean of its ranks over them.
    """
    from scipy.stats import spearmanr

    contests: dict[str, dict[str, dict[str, list[float]]]] = {}
    for row in rows:
        measure = row["measure"]
        if measure in MEASURES and measure not in ("seconds", "relative-delta"):
            for method, rank in ranks_in(row).items():
                contests.setdefault(name_of(row), {}).setdefault(measure, {}).setdefault(method, []).append(rank)
    found: dict[tuple[str, str], list[float]] = {}
    for by_measure in contests.values():
        means = {
            measure: {method: fmean(ranks) for method, ranks in by_method.items() if method != ZERO}
            for measure, by_method in by_measure.items()
        }
        for a in means:
            for b in means:
                shared = sorted(set(means[a]) & set(means[b]))
                first, second = ([means[name][method] for method in shared] for name in (a, b))
                if len(shared) >= _FEWEST and len(set(first)) > 1 and len(set(second)) > 1:
                    found.setdefault((a, b), []).append(float(spearmanr(first, second).statistic))
    return {pair: (fmean(values), len(values)) for pair, values in found.items()}


def format_agreement(rows: Sequence[Row]) -> str:
    """Return a table of rank correlations between measures."""
    found = agreement_of(rows)
    names = [name for name in MEASURES if (name, name) in found]
    lines = [[a, *(f"{found[a, b][0]:.2f}" if (a, b) in found else "–" for b in names)] for a in names]
    count = max((many for _, many in found.values()), default=0)
    return (
        "Spearman's rank correlation of the methods' ranks by two measures, each contest by itself, then the mean over "
        f"up to {count} contests; 1 is the same order, 0 none, -1 the opposite one. The zero explanation is left "
        "out.\n\n" + format_table(["", *names], lines)
    )


def _failures(rows: Sequence[Row]) -> str:
    said: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for method, reason in (row["failed"] | row["absent"]).items():
            names = said.setdefault((method, reason), [])
            if name_of(row) not in names:
                names.append(name_of(row))
    return "\n".join(f"- {method} on {', '.join(names)}: {reason}" for (method, reason), names in said.items())
