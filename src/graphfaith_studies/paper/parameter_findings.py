"""The paper's three findings about checkpoints of a training, tested on the rows, in tables and in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .experiment import Row
from .markdown import format_number, format_table, format_with_error
from .published import DATASET_NAMES, NAMES

FOLLOWS = 0.71  # the rank correlation that seven random numbers exceed in one of twenty cases
HIGH = 0.8  # an AUC of at least this value is called high
SIGNED = ("saliency", "ig-zero", "ig-random", "linear", "kec")  # the paper's methods with signed scores
LEARNT = ("gnnexplainer-soft", "pgexplainer")
# The key of a quantity in a row, the key of its error, and its description.
QUANTITIES = (
    ("unfaithfulness", "stderr", "Δ(p) on samples that were not fitted on"),
    ("relative", None, "Δ(p) / Δ(0), of the means over nodes"),
    ("auc", "auc_stderr", "ROC-AUC by rank of the score's size, for the edges of the node's own house"),
    ("auc_paper", "auc_paper_stderr", "ROC-AUC the paper's way, for the same edges"),
    ("sparsity", "sparsity_stderr", "Area of the sparsity curve (less is sparser)"),
)


def rank_correlation(rows: Sequence[Row], key: str) -> float | None:
    """Return Spearman's rank correlation of a quantity with the test accuracy over the checkpoints of one method.

    It is None if either of them is constant.

    >>> rows = [{"test_accuracy": 0.2, "auc": 0.5}, {"test_accuracy": 0.8, "auc": 0.6}]
    >>> rank_correlation(rows, "auc"), rank_correlation(rows[:1], "auc")
    (1.0, None)
    """
    from scipy.stats import spearmanr  # Imported here because it takes half a second.

    pairs = [(row["test_accuracy"], row[key]) for row in rows if row.get(key) is not None]
    if len(pairs) < 2:
        return None
    accuracy, values = np.array(pairs).T
    if np.ptp(accuracy) == 0 or np.ptp(values) == 0:
        return None
    return round(float(spearmanr(accuracy, values).statistic), 6)


def format_quantities(rows: Sequence[Row]) -> str:
    """Return a table for each data set and quantity, with methods as rows and checkpoints as columns."""
    parts = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        of_dataset = [row for row in rows if row["dataset"] == dataset]
        first = of_dataset[0]
        accuracies = {row["epoch"]: row["test_accuracy"] for row in of_dataset}
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
            for method, of_method in _group_by_method(of_dataset).items():
                cells = [format_with_error(row[key], None if error is None else row[error]) for row in of_method]
                lines.append([NAMES[method], *cells, _format_signed(rank_correlation(of_method, key))])
            parts.append(f"{meaning}:")
            parts.append(format_table(["method", *head, "ρ"], lines))
    return "\n\n".join(parts)


def format_findings(rows: Sequence[Row]) -> str:
    """Describe which of the paper's findings hold for the rows."""
    motifs = _group_by_method([row for row in rows if row["dataset"] == "ba-shapes"])
    citations = _group_by_method([row for row in rows if row["dataset"] == "cora"])
    sentences = []
    if motifs:
        sentences.append(_describe_trend(motifs, "auc", "AUC by rank", more=True))
        sentences.append(_describe_trend(motifs, "auc_paper", "AUC the paper's way", more=True))
    if citations:
        sentences.append(_describe_trend(citations, "sparsity", "sparsity (a smaller area)", more=False))
        sentences.append(_describe_sensitivity(citations))
    first = "1. *AUC and sparsity of SM, IG, Linear and KEC get better with accuracy.* " + " ".join(sentences)
    second = "2. *All methods become less faithful as accuracy grows.* " + " ".join(
        _describe_unfaithfulness(by_method, DATASET_NAMES[dataset])
        for dataset, by_method in (("ba-shapes", motifs), ("cora", citations))
        if by_method
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
        lines.append(_describe_early_auc(motifs))
    return "\n\n".join(lines)


def _describe_trend(by_method: dict[str, list[Row]], key: str, what: str, *, more: bool) -> str:
    """Describe for which methods a quantity gets better with accuracy; ``more`` says whether larger is better."""
    sign = 1 if more else -1
    rhos = {method: rank_correlation(by_method[method], key) for method in SIGNED if method in by_method}
    yes = [method for method, rho in rhos.items() if rho is not None and sign * rho >= FOLLOWS]
    dataset = DATASET_NAMES[next(iter(by_method.values()))[0]["dataset"]]
    each = ", ".join(f"{NAMES[method]} {_format_signed(rho)}" for method, rho in rhos.items())
    return f"{dataset}, {what}: {_format_count(len(yes), len(rhos))} (ρ: {each})."


def _describe_sensitivity(by_method: dict[str, list[Row]]) -> str:
    """Describe whether PGExplainer's sparsity changes the most over the checkpoints, as the paper says."""
    change = {method: float(np.ptp([row["sparsity"] for row in rows])) for method, rows in by_method.items()}
    learnt = change.pop("pgexplainer")
    rival = max(change, key=lambda method: change[method])
    holds = "holds" if learnt > change[rival] else "does not hold"
    return (
        f"That the sparsity of PGExpl is the most sensitive {holds}: its area changes by {format_number(learnt)} over "
        f"the checkpoints, and of the others that of {NAMES[rival]} the most, by {format_number(change[rival])}."
    )


def _describe_unfaithfulness(by_method: dict[str, list[Row]], dataset: str) -> str:
    """Describe for which of the paper's methods Delta(p) and relative Delta grow with the test accuracy."""
    papers = {method: rows for method, rows in by_method.items() if method in (*SIGNED, *LEARNT)}
    counts = {}
    for key in ("unfaithfulness", "relative"):
        rhos = [rank_correlation(rows, key) for rows in papers.values()]
        counts[key] = sum(rho is not None and rho >= FOLLOWS for rho in rhos)
    # The values at the least and the most accurate checkpoint say more than a rank correlation.
    change = []
    for method, rows in papers.items():
        ordered = sorted(rows, key=_accuracy_of)
        first, last = (format_number(row["relative"], 2) for row in (ordered[0], ordered[-1]))
        change.append(f"{NAMES[method]} {first} → {last}")
    return (
        f"{dataset}, Δ: {_format_count(counts['unfaithfulness'], len(papers))}. {dataset}, Δ as a share of Δ(0): "
        f"{_format_count(counts['relative'], len(papers))} (from the least to the most accurate checkpoint: "
        f"{', '.join(change)})."
    )


def _describe_early_auc(by_method: dict[str, list[Row]]) -> str:
    """Describe the AUC of all methods early in training, at the two least accurate checkpoints."""
    early = {
        method: float(np.mean([row["auc"] for row in sorted(rows, key=_accuracy_of)[:2]]))
        for method, rows in by_method.items()
    }
    learnt = [method for method in LEARNT if method in early]
    rest = [method for method in early if method in SIGNED]
    high = [method for method in learnt if early[method] >= HIGH]
    high_rest = [method for method in rest if early[method] >= HIGH]
    epochs = sorted({row["epoch"] for rows in by_method.values() for row in sorted(rows, key=_accuracy_of)[:2]})
    closeness = next(iter(by_method.values()))[0]["auc_by_distance"]
    each = ", ".join(f"{NAMES[method]} {format_number(early[method])}" for method in (*learnt, *rest))
    rhos = " and ".join(
        f"{_format_signed(rank_correlation(by_method[method], 'auc'))} for {NAMES[method]}" for method in learnt
    )
    gap = max(abs(row["auc"] - row["auc_any_house"]) for rows in by_method.values() for row in rows)
    text = (
        "3. *AUC of GNNExpl (soft) and PGExpl are high even early in training.* Mean AUC by rank at the two least "
        f"accurate checkpoints (epochs {epochs[0]} and {epochs[-1]}): {each}. With {HIGH:g} for high, it "
        f"{_format_count(len(high), len(learnt))}; so it does for {len(high_rest)} of the {len(rest)} methods with "
        f"signed scores. Over all checkpoints ρ is {rhos}. Edges ranked by nothing but their closeness to the node "
        f"have an AUC of {format_number(closeness)}"
    )
    if closeness >= HIGH:
        text += ": the house is where the node is, and this AUC says little of the model's parameters"
    return (
        f"{text}. With the edges of any house for the right ones no AUC differs by more than {format_number(gap, 2)}."
    )


def _format_count(yes: int, among: int) -> str:
    if yes == among:
        return f"holds for all {among} methods"
    return f"holds for {yes} of {among} methods" if yes else f"holds for none of {among} methods"


def _group_by_method(rows: Sequence[Row]) -> dict[str, list[Row]]:
    by_method: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: int(row["epoch"])):
        by_method.setdefault(row["method"], []).append(row)
    return by_method


def _accuracy_of(row: Row) -> tuple[float, int]:
    """Return a sort key by accuracy; the epoch breaks ties."""
    return row["test_accuracy"], row["epoch"]


def _format_signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"
