"""The static figure: explanations side by side with the same layout, for a paper, a README or a notebook.

Figures are made directly with `matplotlib.figure.Figure`, so drawing or saving one changes neither the user's backend
nor the open figures of pyplot. The same explanations give the same file, byte for byte.

matplotlib, and the modules that need it, are imported inside the functions, because `import graphfaith` should not load
it.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .._base.errors import InputError
from .._base.files import check_output, write_file
from .first_sight import at_first_sight
from .layout import Layout, lay_out

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The date is left out, so that the same picture gives the same file.
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}
# These settings replace those of the user, because otherwise names could become formulas, or two runs could differ. The
# fonts of the user are not replaced.
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
    width: float | Literal["column"] | None = None,
    fold: bool = True,
) -> Figure:
    """Draw one explanation, or several of the same graph side by side, and save the picture if `path` is given.

    The explained node is grey. A positive influence is blue and solid, a negative one is red and dashed. The opacity of
    a node and the width of an edge show its score as a share of the largest score, which is printed under the panel.
    Above stands what the model answered and why, and below how much of the model's reaction the scores explain. Scores
    of a kind that nothing was measured of are drawn only if nothing was measured at all.

    Args:
        explanations: a PyG `Explanation` or a list of them; each becomes a panel, all with the same layout.
        path: the file to save, as .png, .pdf or .svg. An existing file is replaced only by a complete new one.
        titles: one title for each panel; by default the name of the method.
        max_nodes: the largest number of nodes to show. The nodes with the largest |score| in any panel are taken.
        max_features: the number of features to list in each panel; by default 5 if the features have names or nothing
            else has scores, otherwise none.
        directed: whether to draw arrows; by default only if some edge has no opposite. Without arrows an edge and its
            opposite are one line with the sum of their scores.
        columns: the number of panels in a row; by default at most four.
        panel_width: the width of one panel in inches; by default from 2.8 for a few nodes to 4.3 for 300.
        dpi: the resolution of a .png.
        positions: x and y of every node, [N, 2], to use instead of a computed layout; all nodes are then shown.
        stars: the nodes to mark with a star.
        star_means: the meaning of a star, for the legend.
        width: of the whole figure, in inches, or "column" for one of two columns of a paper (3.4 inches). Panels are
            then below one another if there is no room for two, and `panel_width` is not used.
        fold: fold away what says little of a large graph, into one mark for each node that it is around.

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
        fold=fold,
    )
    return _draw(_make_figure, layout, target, columns, panel_width, dpi, star_means, width)


def show(
    explanations: Any,
    *,
    titles: Sequence[str] | None = None,
    max_nodes: int = 300,
    max_features: int | None = None,
    directed: bool | None = None,
    columns: int | None = None,
    panel_width: float | None = None,
    dpi: float = 110,
    positions: Any = None,
    stars: Sequence[int] = (),
    star_means: str = "marked",
    width: float | Literal["column"] | None = None,
    fold: bool = True,
) -> Figure:
    """Show the figure and return it; the arguments are those of `figure`.

    A notebook shows a picture of `dpi` pixels an inch, and a window chooses its own.

    In a notebook the figure appears below the cell, and in a Python shell with a screen it appears in a window. On a
    machine without a screen it is only returned.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> gf.show(gf.explain(model, ring, 1, method="saliency")).axes[0].get_title() is not None
    True
    """
    layout = lay_out(
        explanations,
        titles=titles,
        max_nodes=max_nodes,
        max_features=max_features,
        directed=directed,
        positions=positions,
        stars=stars,
        fold=fold,
    )

    def draw(make: Callable[[], Figure]) -> Figure:
        return _draw(make, layout, None, columns, panel_width, dpi, star_means, width)

    if _find_notebook() is not None:
        drawn = draw(lambda: _make_notebook_figure(dpi))
        sys.modules["IPython"].display.display(drawn)
        return drawn
    if not _has_windows():
        return draw(_make_figure)
    import matplotlib.pyplot as plt

    try:
        drawn = draw(plt.figure)
    except (
        Exception
    ):  # Without a screen, each toolkit raises an exception of its own type (TclError, ImportError, ...).
        return draw(_make_figure)
    plt.show()
    return drawn


def _make_figure() -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure()
    FigureCanvasAgg(drawn)
    return drawn


def _make_notebook_figure(dpi: float) -> Figure:
    """Return a figure that shows itself in a notebook, but only once in each cell.

    Otherwise `show(...)` on the last line of a cell would show the figure twice.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        shown_in: int | None = None

        def _ipython_display_(self) -> None:
            cell = getattr(_find_notebook(), "execution_count", None)
            if cell is None or cell != self.shown_in:
                self.shown_in = cell
                with mpl.rc_context(_RC):
                    picture = render(self, ".png", dpi)
                display = sys.modules["IPython"].display
                display.display(display.Image(data=picture))

    drawn = NotebookFigure()
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
    width: float | Literal["column"] | None = None,
) -> Figure:
    import matplotlib as mpl

    _check_sizes(columns, panel_width, dpi, width)
    with mpl.rc_context(_RC):
        drawn = make()
        _compose(drawn, at_first_sight(layout), columns, panel_width, star_means, width)
        if target is not None:
            write_file(target, render(drawn, target.suffix.lower(), dpi))
    return drawn


def _check_sizes(columns: int | None, panel_width: float | None, dpi: float, width: Any = None) -> None:
    if width is not None and width != "column" and not (isinstance(width, int | float) and 2.5 <= width <= 60):
        raise InputError(f'width must be "column" or between 2.5 and 60 inches, not {width!r}')
    if columns is not None and columns < 1:
        raise InputError(f"columns must be at least 1, not {columns}")
    if panel_width is not None and not 1 <= panel_width <= 30:
        raise InputError(f"panel_width must be between 1 and 30 inches, not {panel_width}")
    if not 20 <= dpi <= 2400:
        raise InputError(f"dpi must be between 20 and 2400, not {dpi}")


def _compose(
    drawn: Figure,
    layout: Layout,
    columns: int | None,
    panel_width: float | None,
    star_means: str,
    width: float | Literal["column"] | None,
) -> None:
    from .drawing import draw_features, draw_panel, fit
    from .frame import COLUMN, draw_answer, draw_legend, draw_titles, make_frame

    total = COLUMN if width == "column" else width
    frame = make_frame(layout, panel_width, columns, star_means, total)
    drawn.set_size_inches(frame.size[0] / 72, frame.size[1] / 72)
    drawn.set_facecolor("white")
    geometry = fit(layout, frame.box)
    for i, panel in enumerate(layout.panels):
        axes = frame.add_panel(drawn, i)
        draw_panel(axes, layout, panel, geometry, f"panel{i}")
        draw_titles(axes, panel, frame, i)
        if panel.features:
            draw_features(frame.add_features(drawn, i), panel.features, frame.feature_rows, f"panel{i}")
    draw_answer(drawn, frame)
    draw_legend(drawn, frame)


def render(drawn: Figure, suffix: str, dpi: float = 200) -> bytes:
    """Return the content of a file of the figure with this suffix; the same figure gives the same bytes."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with warnings.catch_warnings(), mpl.rc_context(_RC):
        # If the font lacks a character of a name, matplotlib warns and draws a box, which is good enough.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        drawn.savefig(buffer, format=suffix[1:], dpi=dpi, metadata=_METADATA[suffix], facecolor="white")
    return buffer.getvalue()


def _find_notebook() -> Any:
    """Return IPython's shell if it runs in a notebook, else None.

    IPython is not imported here: in a notebook it is already in `sys.modules`.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell if hasattr(shell, "kernel") else None


def _has_windows() -> bool:
    import matplotlib as mpl

    backend = str(mpl.get_backend()).lower()
    return backend not in _NO_WINDOWS and "inline" not in backend
