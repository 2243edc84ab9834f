"""A picture of the growth curves: time above, memory below, with logarithmic axes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from graphfaith._base.files import write_file

from .curve import Curve


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Draw the curves into a file, in the format given by the suffix of its name."""
    figure = Figure(figsize=(3.2 * len(curves), 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    # All panels of a row share a scale, so that a curve that hardly grows looks flat.
    panels = figure.subplots(2, len(curves), squeeze=False, sharey="row")
    for place, curve in enumerate(curves):
        points = curve.as_json()
        kinds = (("ms a node", points["ms"], "time_exponent"), ("peak MB", points["mb"], "memory_exponent"))
        for panel, (label, values, key) in zip(panels[:, place], kinds, strict=True):
            shown = [(size, value) for size, value in zip(curve.sizes, values, strict=True) if value]
            panel.set(xscale="log", yscale="log", xlabel=curve.against)
            panel.minorticks_off()
            panel.set_xticks(curve.sizes, [f"{size:,}" for size in curve.sizes], rotation=30, fontsize=8)
            if shown:
                panel.plot(*zip(*shown, strict=True), marker="o", color="tab:blue")
            if place == 0:
                panel.set_ylabel(label)
            if points[key] is not None:
                panel.set_title(f"exponent {points[key]:.2f}", fontsize=10)
            panel.grid(visible=True, which="major", alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower(), dpi=150)
    write_file(path, buffer.getvalue())
