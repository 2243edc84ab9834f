"""What the checkpoints of a training say of the paper's three findings, in tables and in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .experiment import Row
from .markdown import number, table, with_error
from .published import DATASET_NAMES, NAMES

FOLLOWS = 0.71  # a rank correlation that seven numbers have by chance in one case of twenty
HIGH = 0.8  # an AUC that is called high
SIGNED = ("saliency", "ig-zero", "ig-random", "linear", "kec")  # the paper's methods whose scores have signs
LEARNT = ("gnnexplainer-soft", "pgexplainer")
# Key, its error, and what it is.
QUANTITIES = (
    ("unfaithfulness", "stderr", "Δ(p) on samples that were not fitted on"),
    ("relative", None, "Δ(p) / Δ(0), of the means over nodes"),
    ("auc", "auc_stderr", "ROC-AUC by rank of the score's size, for the edges of the node's own house"),
    ("auc_paper", "auc_paper_stderr", "ROC-AUC the paper's way, for the same edges"),
    ("sparsity", "sparsity_stderr", "Area of the sparsity curve (less is sparser)"),
)


def rank_correlation(rows: Sequence[Row], key: str) -> float | None:
    """Spearman's, of a quantity with the test accuracy, over the checkpoints of one method; None if either is constant.

    >>> rows = [{"test_accuracy": 0.2, "auc": 0.5}, {"test_accuracy": 0.8, "auc": 0.6}]
    >>> rank_correlation(rows, "auc"), rank_correlation(rows[:1], "auc")
    (1.0, None)
    """
    from scipy.stats import spearmanr  # here, because every command would wait half a second for it

    pairs = [(row["test_accuracy"], row[key]) for row in rows if row.get(key) is not None]
    if len(pairs) < 2:
        return None
    accuracy, values = np.array(pairs).T
    if np.ptp(accuracy) == 0 or np.ptp(values) == 0:
        return None
    return round(float(spearmanr(accuracy, values).statistic), 6)


def quantity_tables(rows: Sequence[Row]) -> str:
    """For each data set and quantity: a line a method, a column a checkpoint, and the rank correlation."""
    parts = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == dataset]
        first = own[0]
        accuracies = {row["epoch"]: row["test_accuracy"] for row in own}
        parts.append(
            f"**{DATASET_NAMES[dataset]}**, {len(first['nodes'])} nodes, {first['neighborhood']}, "
            f"{first['fit_samples']} samples to fit and {first['num_samples']} others to score. Columns are "
            "checkpoints with their test accuracy; ρ is Spearman's rank correlation with it over the checkpoints."
        )
        head = [f"epoch {epoch} ({accuracy:.2f})" for epoch, accuracy in sorted(accuracies.items())]
        for key, error, meaning in QUANTITIES:
            if key not in first:
                continue
            lines = []
            for method, at in _by_method(own).items():
                cells = [with_error(row[key], None if error is None else row[error]) for row in at]
                lines.append([NAMES[method], *cells, _signed(rank_correlation(at, key))])
            parts.append(f"{meaning}:")
            parts.append(table(["method", *head, "ρ"], lines))
    return "\n\n".join(parts)


def findings(rows: Sequence[Row]) -> str:
    """Which of the paper's findings hold, by the rows."""
    motifs = _by_method([row for row in rows if row["dataset"] == "ba-shapes"])
    citations = _by_method([row for row in rows if row["dataset"] == "cora"])
    said = []
    if motifs:
        said.append(_better(motifs, "auc", "AUC by rank", more=True))
        said.append(_better(motifs, "auc_paper", "AUC the paper's way", more=True))
    if citations:
        said.append(_better(citations, "sparsity", "sparsity (a smaller area)", more=False))
        said.append(_most_sensitive(citations))
    first = "1. *AUC and sparsity of SM, IG, Linear and KEC get better with accuracy.* " + " ".join(said)
    second = "2. *All methods become less faithful as accuracy grows.* " + " ".join(
        _less_faithful(found, DATASET_NAMES[dataset])
        for dataset, found in (("ba-shapes", motifs), ("cora", citations))
        if found
    )
    lines = [
        "The paper has a picture without numbers, and three findings. Something is said to grow with the accuracy here "
        f"if ρ ≥ {FOLLOWS:g}, and to fall if ρ ≤ -{FOLLOWS:g}, which seven checkpoints of one training show by chance "
        "in one case of twenty each. Edges are those with both ends in the k-hop "
        "neighbourhood, as in the paper; the right ones are the house of the node, as GNNExplainer's authors have it. "
        "The AUC and the sparsity of PGExpl are those of its learnt scores, its Δ that of the subgraph of the best.",
        first,
        second + " Δ goes with the square of the logits; a share of Δ(0) does not.",
    ]
    if motifs:
        lines.append(_early(motifs))
    return "\n\n".join(lines)


def _better(found: dict[str, list[Row]], key: str, what: str, *, more: bool) -> str:
    sign = 1 if more else -1
    known = {method: rank_correlation(found[method], key) for method in SIGNED if method in found}
    yes = [method for method, rho in known.items() if rho is not None and sign * rho >= FOLLOWS]
    dataset = DATASET_NAMES[next(iter(found.values()))[0]["dataset"]]
    each = ", ".join(f"{NAMES[method]} {_signed(rho)}" for method, rho in known.items())
    return f"{dataset}, {what}: {_verdict(len(yes), len(known))} (ρ: {each})."


def _most_sensitive(found: dict[str, list[Row]]) -> str:
    """The paper says that it is PGExplainer."""
    change = {method: float(np.ptp([row["sparsity"] for row in rows])) for method, rows in found.items()}
    own, others = change.pop("pgexplainer"), max(change, key=lambda method: change[method])
    holds = "holds" if own > change[others] else "does not hold"
    return (
        f"That the sparsity of PGExpl is the most sensitive {holds}: its area changes by {number(own)} over the "
        f"checkpoints, and of the others that of {NAMES[others]} the most, by {number(change[others])}."
    )


def _less_faithful(all_methods: dict[str, list[Row]], dataset: str) -> str:
    found = {method: rows for method, rows in all_methods.items() if method in (*SIGNED, *LEARNT)}  # the paper's
    counts = {}
    for key in ("unfaithfulness", "relative"):
        rhos = [rank_correlation(rows, key) for rows in found.values()]
        counts[key] = sum(rho is not None and rho >= FOLLOWS for rho in rhos)
    # The share at the least and the most accurate checkpoint says more than an order.
    change = []
    for method, rows in found.items():
        ordered = sorted(rows, key=lambda row: (row["test_accuracy"], row["epoch"]))
        change.append(f"{NAMES[method]} {number(ordered[0]['relative'], 2)} → {number(ordered[-1]['relative'], 2)}")
    return (
        f"{dataset}, Δ: {_verdict(counts['unfaithfulness'], len(found))}. {dataset}, Δ as a share of Δ(0): "
        f"{_verdict(counts['relative'], len(found))} (from the least to the most accurate checkpoint: "
        f"{', '.join(change)})."
    )


def _early(found: dict[str, list[Row]]) -> str:
    """The two least accurate checkpoints are the early ones."""
    early = {
        method: float(np.mean([row["auc"] for row in sorted(rows, key=_accuracy)[:2]]))
        for method, rows in found.items()
    }
    learnt = [method for method in LEARNT if method in early]
    rest = [method for method in early if method in SIGNED]
    high = [method for method in learnt if early[method] >= HIGH]
    high_rest = [method for method in rest if early[method] >= HIGH]
    epochs = sorted({row["epoch"] for rows in found.values() for row in sorted(rows, key=_accuracy)[:2]})
    closeness = next(iter(found.values()))[0]["auc_by_distance"]
    each = ", ".join(f"{NAMES[method]} {number(early[method])}" for method in (*learnt, *rest))
    rhos = " and ".join(f"{_signed(rank_correlation(found[method], 'auc'))} for {NAMES[method]}" for method in learnt)
    gap = max(abs(row["auc"] - row["auc_any_house"]) for rows in found.values() for row in rows)
    text = (
        "3. *AUC of GNNExpl (soft) and PGExpl are high even early in training.* Mean AUC by rank at the two least "
        f"accurate checkpoints (epochs {epochs[0]} and {epochs[-1]}): {each}. With {HIGH:g} for high, it "
        f"{_verdict(len(high), len(learnt))}; so it does for {len(high_rest)} of the {len(rest)} methods with signed "
        f"scores. Over all checkpoints ρ is {rhos}. Edges ranked by nothing but their closeness to the node have an "
        f"AUC of {number(closeness)}"
    )
    if closeness >= HIGH:
        text += ": the house is where the node is, and this AUC says little of the model's parameters"
    return f"{text}. With the edges of any house for the right ones no AUC differs by more than {number(gap, 2)}."


def _verdict(yes: int, among: int) -> str:
    if yes == among:
        return f"holds for all {among} methods"
    return f"holds for {yes} of {among} methods" if yes else f"holds for none of {among} methods"


def _by_method(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: int(row["epoch"])):
        found.setdefault(row["method"], []).append(row)
    return found


def _accuracy(row: Row) -> tuple[float, int]:
    return row["test_accuracy"], row["epoch"]


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"
