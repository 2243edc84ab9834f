"""The curves of growth as a picture: time above, memory below, both axes logarithmic."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from graphfaith._base.files import write_file

from .curve import Curve


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Write the picture; the format follows the name."""
    drawn = Figure(figsize=(3.2 * len(curves), 5.6), layout="constrained")
    FigureCanvasAgg(drawn)
    # One scale a row: what hardly grows looks flat.
    panels = drawn.subplots(2, len(curves), squeeze=False, sharey="row")
    for place, curve in enumerate(curves):
        found = curve.as_json()
        kinds = (("ms a node", found["ms"], "time_exponent"), ("peak MB", found["mb"], "memory_exponent"))
        for panel, (label, values, key) in zip(panels[:, place], kinds, strict=True):
            shown = [(size, value) for size, value in zip(curve.sizes, values, strict=True) if value]
            panel.set(xscale="log", yscale="log", xlabel=curve.against)
            panel.minorticks_off()
            panel.set_xticks(curve.sizes, [f"{size:,}" for size in curve.sizes], rotation=30, fontsize=8)
            if shown:
                panel.plot(*zip(*shown, strict=True), marker="o", color="tab:blue")
            if place == 0:
                panel.set_ylabel(label)
            if found[key] is not None:
                panel.set_title(f"exponent {found[key]:.2f}", fontsize=10)
            panel.grid(visible=True, which="major", alpha=0.3)
    buffer = io.BytesIO()
    drawn.savefig(buffer, format=path.suffix[1:].lower(), dpi=150)
    write_file(path, buffer.getvalue())
