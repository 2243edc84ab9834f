"""A picture of the growth curves with logarithmic axes: time and memory of one node, and of all nodes together."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from graphfaith._base.files import write_file

from .curve import Curve


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Draw the curves into a file, in the format given by the suffix of its name."""
    groups = [
        (title, group)
        for title, group in (
            ("One node after the other", [curve for curve in curves if not curve.together]),
            ("All nodes together", [curve for curve in curves if curve.together]),
        )
        if group
    ]
    width = max(len(group) for _, group in groups)
    figure = Figure(figsize=(3.2 * width, 5.6 * len(groups)), layout="constrained")
    FigureCanvasAgg(figure)
    for part, (title, group) in zip(figure.subfigures(len(groups), 1, squeeze=False)[:, 0], groups, strict=True):
        part.suptitle(title)
        # All panels of a row share a scale, so that a curve that hardly grows looks flat.
        panels = part.subplots(2, width, squeeze=False, sharey="row")
        for place, curve in enumerate(group):
            _draw_curve(panels[:, place], curve, labelled=place == 0)
        for panel in panels[:, len(group) :].flat:
            panel.set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower(), dpi=150)
    write_file(path, buffer.getvalue())


def _draw_curve(panels: Any, curve: Curve, *, labelled: bool) -> None:
    """Draw the time of a curve into the first panel, and its memory into the second."""
    points = curve.as_json()
    kinds = (("ms a node", points["ms"], "time_exponent"), ("peak MB", points["mb"], "memory_exponent"))
    for panel, (label, values, key) in zip(panels, kinds, strict=True):
        shown = [(size, value) for size, value in zip(curve.sizes, values, strict=True) if value]
        panel.set(xscale="log", yscale="log", xlabel=curve.against)
        panel.minorticks_off()
        panel.set_xticks(curve.sizes, [f"{size:,}" for size in curve.sizes], rotation=30, fontsize=8)
        if shown:
            panel.plot(*zip(*shown, strict=True), marker="o", color="tab:blue")
        if labelled:
            panel.set_ylabel(label)
        if points[key] is not None:
            panel.set_title(f"exponent {points[key]:.2f}", fontsize=10)
        panel.grid(visible=True, which="major", alpha=0.3)
