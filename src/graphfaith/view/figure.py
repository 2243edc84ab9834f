"""The static figure: explanations side by side on one layout, for a paper, a README or a notebook.

Figures are built on `matplotlib.figure.Figure` itself, so making or saving one touches neither the user's backend nor
pyplot's list of open figures. The same explanations give the same bytes.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .._base.errors import InputError
from .._base.files import check_output, write_file
from .frame import draw_legend, draw_titles, frame_for
from .layout import Layout, lay_out
from .panel import draw_features, draw_panel, fit

# Without a date, the same picture is the same file.
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}
# Settings of the user that would make names into formulas or two runs differ; fonts stay the user's.
_RC: Any = {
    "text.usetex": False,
    "svg.hashsalt": "graphfaith",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "savefig.bbox": None,
    "savefig.transparent": False,
    "lines.scale_dashes": True,
    "path.sketch": None,
    "path.effects": [],
}
_NO_WINDOWS = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}


def figure(
    explanations: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    titles: Sequence[str] | None = None,
    max_nodes: int = 300,
    max_features: int | None = None,
    directed: bool | None = None,
    columns: int | None = None,
    panel_width: float | None = None,
    dpi: float = 200,
    positions: Any = None,
    stars: Sequence[int] = (),
    star_means: str = "marked",
) -> Figure:
    """Draw one explanation, or several of the same graph side by side, and save the picture if `path` is given.

    The explained node is grey. Blue and solid is a positive influence, red and dashed a negative one; opacity of a
    node and width of an edge are its score as a share of the panel's largest, which is printed under the panel.

    Args:
        explanations: a PyG `Explanation` or a list of them; each becomes a panel, all with the same layout.
        path: where to save, as .png, .pdf or .svg. An existing file is replaced only by a complete new one.
        titles: one a panel; by default the name of the method.
        max_nodes: at most so many nodes are shown, those with the largest |score| in any panel.
        max_features: features to list a panel; by default 5 if they have names or nothing else is scored, else none.
        directed: draw arrows; by default only if some edge has no opposite. Without arrows an edge and its opposite
            are one line with the sum of their scores.
        columns: panels abreast; by default at most four.
        panel_width: of one panel, in inches; by default 2.8 for a few nodes to 4.3 for 300.
        dpi: resolution of a .png.
        positions: x and y of every node, [N, 2], if they are not to be found; then all nodes are shown.
        stars: nodes that get a star, whose meaning the legend gives as ``star_means``.

    >>> import torch
    >>> from torch_geometric.explain import Explanation
    >>> path_graph = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> explanation = Explanation(edge_index=path_graph, edge_mask=torch.tensor([0.5, 0.5, -2.0, 0.0]), index=1)
    >>> len(figure(explanation).axes)  # the panel and the legend
    2
    """
    target = None if path is None else check_output(path, tuple(_METADATA))
    layout = lay_out(
        explanations,
        titles=titles,
        max_nodes=max_nodes,
        max_features=max_features,
        directed=directed,
        positions=positions,
        stars=stars,
    )
    return _draw(_plain_figure, layout, target, columns, panel_width, dpi, star_means)


def show(
    explanations: Any,
    *,
    titles: Sequence[str] | None = None,
    max_nodes: int = 300,
    max_features: int | None = None,
    directed: bool | None = None,
    columns: int | None = None,
    panel_width: float | None = None,
) -> Figure:
    """Show the figure where the user is, and return it; the arguments are those of `figure`.

    In a notebook it appears below the cell; at a terminal with a screen, in a window; on a machine without a screen
    nothing happens but the return.
    """
    layout = lay_out(explanations, titles=titles, max_nodes=max_nodes, max_features=max_features, directed=directed)
    if _notebook() is not None:
        drawn = _draw(_NotebookFigure, layout, None, columns, panel_width)
        sys.modules["IPython"].display.display(drawn)
        return drawn
    if not _has_windows():
        return _draw(_plain_figure, layout, None, columns, panel_width)
    import matplotlib.pyplot as plt

    try:
        drawn = _draw(plt.figure, layout, None, columns, panel_width)
    except Exception:  # a toolkit that finds no screen says so in a type of its own (TclError, ImportError, ...)
        return _draw(_plain_figure, layout, None, columns, panel_width)
    plt.show()
    return drawn


def _plain_figure() -> Figure:
    drawn = Figure()
    FigureCanvasAgg(drawn)
    return drawn


def _draw(
    make: Callable[[], Figure],
    layout: Layout,
    target: Path | None,
    columns: int | None,
    panel_width: float | None,
    dpi: float = 200,
    star_means: str = "",
) -> Figure:
    _check_sizes(columns, panel_width, dpi)
    with mpl.rc_context(_RC):
        drawn = make()
        _compose(drawn, layout, columns, panel_width, star_means)
        if target is not None:
            write_file(target, render(drawn, target.suffix.lower(), dpi))
    return drawn


def _check_sizes(columns: int | None, panel_width: float | None, dpi: float) -> None:
    if columns is not None and columns < 1:
        raise InputError(f"columns must be at least 1, not {columns}")
    if panel_width is not None and not 1 <= panel_width <= 30:
        raise InputError(f"panel_width must be between 1 and 30 inches, not {panel_width}")
    if not 20 <= dpi <= 2400:
        raise InputError(f"dpi must be between 20 and 2400, not {dpi}")


def _compose(drawn: Figure, layout: Layout, columns: int | None, panel_width: float | None, star_means: str) -> None:
    frame = frame_for(layout, panel_width, columns, star_means)
    drawn.set_size_inches(frame.size[0] / 72, frame.size[1] / 72)
    drawn.set_facecolor("white")
    geometry = fit(layout, frame.box)
    for i, panel in enumerate(layout.panels):
        axes = frame.add_panel(drawn, i)
        draw_panel(axes, layout, panel, geometry, f"panel{i}")
        draw_titles(axes, panel, frame)
        if panel.features:
            draw_features(frame.add_features(drawn, i), panel.features, frame.feature_rows, f"panel{i}")
    draw_legend(drawn, frame)


def render(drawn: Figure, suffix: str, dpi: float = 200) -> bytes:
    """The figure as a file with that suffix would hold it; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), mpl.rc_context(_RC):
        # A name with a letter that the font lacks shows a box; that is no reason to have no figure.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        drawn.savefig(buffer, format=suffix[1:], dpi=dpi, metadata=_METADATA[suffix], facecolor="white")
    return buffer.getvalue()


class _NotebookFigure(Figure):
    """A figure that shows itself in a notebook, once a cell: `show(...)` on a cell's last line would show it twice."""

    _shown_in: int | None = None

    def __init__(self) -> None:
        super().__init__()
        FigureCanvasAgg(self)

    def _ipython_display_(self) -> None:
        cell = getattr(_notebook(), "execution_count", None)
        if cell is None or cell != self._shown_in:
            self._shown_in = cell
            with mpl.rc_context(_RC):
                picture = render(self, ".png", 110)
            display = sys.modules["IPython"].display
            display.display(display.Image(data=picture))


def _notebook() -> Any:
    """IPython's shell if it belongs to a notebook. A notebook has imported IPython itself, so nobody else need."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell if hasattr(shell, "kernel") else None


def _has_windows() -> bool:
    backend = str(mpl.get_backend()).lower()
    return backend not in _NO_WINDOWS and "inline" not in backend
