"""Pictures of what becomes of explanations while a model is trained."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .experiment import Row
from .published import NAMES

# Colours that people with colour blindness can tell apart (Okabe and Ito), and a mark for print without colours.
STYLES = {
    "gnnexplainer-soft": ("#E69F00", "s"),
    "pgexplainer": ("#D55E00", "D"),
    "saliency": ("#009E73", "^"),
    "ig-zero": ("#56B4E9", "v"),
    "ig-random": ("#999999", "<"),
    "linear": ("#CC79A7", "P"),
    "kec": ("#0072B2", "o"),
    "anchored-kec": ("#000000", "X"),
}


def ba_shapes_figure(rows: Sequence[Row]) -> Figure:
    """Unfaithfulness above, absolute and as a share; ROC-AUC below, by rank and the paper's."""
    drawn = Figure(figsize=(9.2, 6.4), layout="constrained")
    panels = drawn.subplots(2, 2, sharex=True)
    _unfaithfulness(panels[0, 0], panels[0, 1], rows)
    kinds = (("auc", "ROC-AUC of the house, by rank"), ("auc_paper", "ROC-AUC of the house, the paper's"))
    for panel, (key, label) in zip(panels[1], kinds, strict=True):
        _lines(panel, rows, key, f"{key}_stderr")
        panel.axhline(
            rows[0]["auc_by_distance"], color="0.4", linestyle="--", linewidth=1.0, label="closeness (no model)"
        )
        panel.set_ylabel(label)
        panel.set_xlabel("test accuracy")
    low = min(panel.get_ylim()[0] for panel in panels[1])
    for panel in panels[1]:
        panel.set_ylim(low, 1.02)
    return _with_legend(drawn, panels[1, 0])


def cora_figure(rows: Sequence[Row]) -> Figure:
    """Unfaithfulness, absolute and as a share, and the area of the sparsity curve."""
    drawn = Figure(figsize=(11.0, 3.5), layout="constrained")
    panels = drawn.subplots(1, 3)
    _unfaithfulness(panels[0], panels[1], rows)
    _lines(panels[2], rows, "sparsity", "sparsity_stderr")
    panels[2].set_ylabel("area of the sparsity curve")
    for panel in panels:
        panel.set_xlabel("test accuracy")
    return _with_legend(drawn, panels[2])


def _unfaithfulness(absolute: Axes, share: Axes, rows: Sequence[Row]) -> None:
    _lines(absolute, rows, "unfaithfulness", "stderr")
    _lines(share, rows, "relative", None)
    near = rows[0]["neighborhood"]
    absolute.set(yscale="log", ylabel=f"Δ(p) in {near}")
    share.set(yscale="log", ylabel="Δ(p) / Δ(0)")
    share.axhline(1.0, color="0.6", linestyle=":", linewidth=1.0)


def _lines(panel: Axes, rows: Sequence[Row], key: str, error: str | None) -> None:
    for method, (colour, mark) in STYLES.items():
        own = sorted(
            (row for row in rows if row["method"] == method and row[key] is not None),
            key=lambda row: (row["test_accuracy"], row["epoch"]),
        )
        panel.errorbar(
            [row["test_accuracy"] for row in own],
            [row[key] for row in own],
            yerr=None if error is None else [row[error] for row in own],
            color=colour,
            marker=mark,
            markersize=5,
            linewidth=1.3,
            elinewidth=0.9,
            capsize=2,
            label=NAMES[method],
        )
    panel.grid(visible=True, which="major", alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)


def _with_legend(drawn: Figure, panel: Axes) -> Figure:
    handles, labels = panel.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    order = sorted(labels, key=lambda label: label not in NAMES.values())  # methods first
    drawn.legend([named[label] for label in order], order, loc="outside right center", frameon=False, fontsize=9)
    return drawn
