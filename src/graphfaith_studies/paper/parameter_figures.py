"""Figures of how explanations change while a model is trained."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .experiment import Row
from .published import NAMES

# The colours can be distinguished by people with colour blindness (Okabe and Ito), the marks also in black and white.
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


def draw_ba_shapes(rows: Sequence[Row]) -> Figure:
    """Draw unfaithfulness above, absolute and relative, and ROC-AUC below, by rank and the paper's."""
    figure = Figure(figsize=(9.2, 6.4), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True)
    _draw_unfaithfulness(panels[0, 0], panels[0, 1], rows)
    kinds = (("auc", "ROC-AUC of the house, by rank"), ("auc_paper", "ROC-AUC of the house, the paper's"))
    for panel, (key, label) in zip(panels[1], kinds, strict=True):
        _draw_lines(panel, rows, key, f"{key}_stderr")
        panel.axhline(
            rows[0]["auc_by_distance"], color="0.4", linestyle="--", linewidth=1.0, label="closeness (no model)"
        )
        panel.set_ylabel(label)
        panel.set_xlabel("test accuracy")
    low = min(panel.get_ylim()[0] for panel in panels[1])
    for panel in panels[1]:
        panel.set_ylim(low, 1.02)
    return _add_legend(figure, panels[1, 0])


def draw_cora(rows: Sequence[Row]) -> Figure:
    """Draw unfaithfulness, absolute and relative, and the area of the sparsity curve."""
    figure = Figure(figsize=(11.0, 3.5), layout="constrained")
    panels = figure.subplots(1, 3)
    _draw_unfaithfulness(panels[0], panels[1], rows)
    _draw_lines(panels[2], rows, "sparsity", "sparsity_stderr")
    panels[2].set_ylabel("area of the sparsity curve")
    for panel in panels:
        panel.set_xlabel("test accuracy")
    return _add_legend(figure, panels[2])


def _draw_unfaithfulness(absolute: Axes, share: Axes, rows: Sequence[Row]) -> None:
    _draw_lines(absolute, rows, "unfaithfulness", "stderr")
    _draw_lines(share, rows, "relative", None)
    near = rows[0]["neighborhood"]
    absolute.set(yscale="log", ylabel=f"Δ(p) in {near}")
    share.set(yscale="log", ylabel="Δ(p) / Δ(0)")
    share.axhline(1.0, color="0.6", linestyle=":", linewidth=1.0)


def _draw_lines(panel: Axes, rows: Sequence[Row], key: str, error: str | None) -> None:
    for method, (colour, mark) in STYLES.items():
        points = sorted(
            (row for row in rows if row["method"] == method and row[key] is not None),
            key=lambda row: (row["test_accuracy"], row["epoch"]),
        )
        panel.errorbar(
            [row["test_accuracy"] for row in points],
            [row[key] for row in points],
            yerr=None if error is None else [row[error] for row in points],
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


def _add_legend(figure: Figure, panel: Axes) -> Figure:
    handles, labels = panel.get_legend_handles_labels()
    handle_of = dict(zip(labels, handles, strict=True))
    order = sorted(labels, key=lambda label: label not in NAMES.values())  # Methods come first.
    figure.legend([handle_of[label] for label in order], order, loc="outside right center", frameon=False, fontsize=9)
    return figure
