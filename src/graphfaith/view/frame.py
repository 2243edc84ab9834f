"""Everything around the panels: the sizes of the parts of a figure, titles, captions, and a legend with the scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from .drawing import FAINT_INK, INK, LOOP_FROM, MARGIN, find_bounds, scatter_nodes, style_lines, style_node
from .labels import measure_text, shorten
from .layout import Layout, say_percent
from .panel import Panel
from .trust_bar import BAR, describe_trust, draw_trust, wrap, write_trust_line

_SIDE, _GAP = 10.0, 14.0
_TITLE, _CAPTION, _FEATURE_ROW = 15.0, 17.0, 9.5
_ANSWER, _ANSWER_SIZE, _LINE, _TEXT_SIZE = 14.0, 10.0, 9.5, 7.6  # the answer above all panels, and lines of text
_TRUST_LINE = 8.6
_CAPTION_LINE, _CAPTION_SIZE, _LONGEST_CAPTION = 7.5, 6.2, 90  # a longer one is wrapped
_SCALE = (-1.0, -0.5, 0.0, 0.5, 1.0)
_SCALE_TEXT = ("−1", "−½", "0", "½", "1")
# Sizes of the legend in points: the width of a step of the scale, of the words beside it and of the explained node, the
# heights of the two rows, and the width of the narrowest figure with room for the scale.
_STEP, _WORD, _EXPLAINED, _STRIP, _ROW, _NARROWEST = 26.0, 50.0, 84.0, 36.0, 19.0, 240.0
COLUMN = 3.4  # inches: one of two columns of a paper
_NOTE, _NOTE_SIZE = 9.0, 6.8


@dataclass(frozen=True)
class Frame:
    """The sizes of a figure in points. A cell has title, panel, caption and feature bars from top to bottom."""

    columns: int
    rows: int
    box: tuple[float, float]
    title: float
    feature_rows: int
    notes: tuple[str, ...]
    explained: bool
    answer: tuple[str, ...]  # lines above all panels
    reasons: tuple[tuple[str, ...], ...]  # of each panel, lines above its picture
    trust: tuple[tuple[str, ...], ...]  # of each panel, lines under the bar below its picture
    captions: tuple[tuple[str, ...], ...]  # of each panel, lines with its scale, below those
    explained_means: str = "explained node"
    signs: tuple[str, str] = ("speaks against", "speaks for it")

    @property
    def features(self) -> float:
        """The height of the feature bars; 0 if there are none."""
        return self.feature_rows * _FEATURE_ROW + 6.0 if self.feature_rows else 0.0

    @property
    def stacked(self) -> bool:
        """Whether the legend is too wide for one row, so that the explained node needs a separate row."""
        needed = _EXPLAINED + 2 * _WORD + _STEP * len(_SCALE) + 2 * _SIDE
        return self.explained and figure_width(self.columns, self.box[0]) < needed

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the whole figure."""
        width = figure_width(self.columns, self.box[0])
        cells = self.rows * (self._cell + _GAP) - (0.0 if self.feature_rows else _GAP / 2)
        cells += self.head
        return width, cells + _STRIP + _ROW * self.stacked + _NOTE * len(self.notes) + 7.0

    @property
    def _cell(self) -> float:
        return self.above + self.box[1] + self.below + self.features

    @property
    def head(self) -> float:
        """The height of the answer above all panels."""
        return _ANSWER * len(self.answer) + (2.0 if self.answer else 0.0)

    @property
    def above(self) -> float:
        """The height of what is above a panel's picture: the title and the reasons."""
        lines = max(len(lines) for lines in self.reasons)
        return self.title + _LINE * lines + (3.0 if lines else 0.0)

    @property
    def below(self) -> float:
        """The height of what is below a panel's picture: the bar of trust, its numbers, and the scale."""
        further = max(len(lines) for lines in self.captions) - 1
        return BAR + 5.0 + _TRUST_LINE * max(len(lines) for lines in self.trust) + _CAPTION + _CAPTION_LINE * further

    def add_panel(self, figure: Figure, position: int) -> Axes:
        """Add the axes of a panel's picture."""
        return self.add(figure, *self._corner(position), *self.box)

    def add_features(self, figure: Figure, position: int) -> Axes:
        """Add the axes of a panel's feature bars."""
        left, bottom = self._corner(position)
        return self.add(figure, left, bottom - self.below - self.features, self.box[0], self.features)

    def add(self, figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
        """Add axes at this place, given in points."""
        across, up = self.size
        return figure.add_axes((left / across, bottom / up, width / across, height / up))

    def _corner(self, position: int) -> tuple[float, float]:
        """Return the lower left corner of a panel's box."""
        row, column = divmod(position, self.columns)
        width, height = self.size
        used = self.columns * self.box[0] + (self.columns - 1) * _GAP
        left = (width - used) / 2 + column * (self.box[0] + _GAP)
        return left, height - _GAP / 2 - self.head - row * (self._cell + _GAP) - self.above - self.box[1]


def figure_width(columns: int, panel: float) -> float:
    """Return the width of a figure in points, which is at least the width that the legend needs."""
    return max(columns * panel + (columns - 1) * _GAP + 2 * _SIDE, _NARROWEST)


def make_frame(
    layout: Layout,
    panel_width: float | None,
    columns: int | None,
    star_means: str = "",
    total_width: float | None = None,
) -> Frame:
    """Choose the sizes: the width of a panel by the number of nodes, its height by the layout, at most four a row.

    With a `total_width` of the figure in inches, panels share it, one in a row unless `columns` says otherwise.
    """
    panels, shown = layout.panels, len(layout.nodes)
    width = 72 * (panel_width or max(2.8, 2.2 + 0.12 * math.sqrt(min(shown, 400))))
    if total_width is None:
        columns = min(columns or math.ceil(len(panels) / math.ceil(len(panels) / 4)), len(panels))
    else:
        columns = min(columns or max(1, int(total_width / COLUMN)), len(panels))
        width = (72 * total_width - 2 * _SIDE - (columns - 1) * _GAP) / columns
    ratio = 0.0
    if shown > 1:
        spots = np.array([fold.position for fold in layout.folds]).reshape(-1, 2)
        low, high = find_bounds(np.concatenate([layout.positions, spots]), layout.rings)
        across, up = (high - low).tolist()
        # Positions of the user may be as flat as they are. A computed layout gets a panel of usual proportions.
        ratio = float(np.clip(up / max(across, 1e-9), 0.25 if layout.fixed else 0.55, 1.0))
    title = _TITLE * any(panel.title for panel in panels)
    answer, reasons = _say_why(panels)
    whole = figure_width(columns, width) - 2 * _SIDE
    named = "" if layout.level == "graph" else "explained node" if layout.level == "node" else "explained link"
    return Frame(
        columns=columns,
        rows=math.ceil(len(panels) / columns),
        box=(width, (width - 2 * MARGIN) * ratio + 2 * MARGIN),
        title=title,
        feature_rows=max(len(panel.features) for panel in panels),
        notes=_wrap(_collect_notes(layout, star_means), figure_width(columns, width) - 2 * _SIDE),
        explained=any(panel.explained for panel in panels),
        answer=tuple(wrap(_name_explained(layout) + answer, whole, _ANSWER_SIZE * 1.12, most=2)) if answer else (),
        reasons=tuple(tuple(wrap(text, width, _TEXT_SIZE)) for text in reasons),
        trust=tuple(tuple(describe_trust(panel.trust, width)) for panel in panels),
        captions=tuple(tuple(_wrap_caption(format_caption(panel), width)) for panel in panels),
        explained_means=named or "explained node",
        signs=_name_signs(panels),
    )


def _name_signs(panels: Sequence[Panel]) -> tuple[str, str]:
    """Return what red and blue mean: for a class or against it, or raising or lowering an output."""
    answers = [panel.headline.answer for panel in panels]
    is_number = all(answer is not None and answer.label is None for answer in answers)
    return ("lowers it", "raises it") if is_number else ("speaks against", "speaks for it")


def _say_why(panels: Sequence[Panel]) -> tuple[str, list[str]]:
    """Return the answer if all panels explain the same one, and what is said above each panel."""
    answers = {str(panel.headline.answer or "") for panel in panels}
    if len(answers) == 1:
        return answers.pop(), [panel.headline.reasons for panel in panels]
    return "", [panel.headline.text for panel in panels]


def _name_explained(layout: Layout) -> str:
    """Return what is explained, as it stands before the answer: 'Node 1195: ', 'Link 12–40: ', or ''."""
    places = list(dict.fromkeys(place for panel in layout.panels for place in panel.explained))
    names = [shorten(layout.names[place], 40) for place in places]
    if layout.level == "edge" and len(names) == 2:
        return f"Link {'–'.join(names)}: "
    if layout.level != "node" or len(names) != 1:
        return ""
    return f"Node {names[0]}: " if names[0] == str(layout.nodes[places[0]]) else f"{names[0]}: "


def _collect_notes(layout: Layout, star_means: str) -> list[str]:
    notes = [f"{layout.cut}, strongest first"] if layout.cut and not layout.folds else []
    if layout.folds:
        shown = len(layout.nodes) + sum(fold.count for fold in layout.folds)
        notes.append(f"{len(layout.nodes)} of {shown} nodes drawn, dotted circles stand for the others")
    carried = [panel.carried for panel in layout.panels if panel.carried is not None]
    if carried and say_percent(min(carried)) != "100":
        least = "at least " if max(carried) > min(carried) else ""
        notes.append(f"the links drawn carry {least}{say_percent(min(carried))} % of the scores' weight")
    if layout.rings:
        notes.append("a ring a hop")
    notes.append("width of a link, strength of a colour: share of the largest score")
    if any(panel.nodes[list(panel.explained)].any() for panel in layout.panels):
        notes.append("ring: own score of the explained node")
    if layout.stars:
        notes.append(f"star: {star_means}")
    if any((np.abs(panel.loops) >= LOOP_FROM).any() for panel in layout.panels):
        notes.append("small circle: self-loop")
    return notes


def _wrap(notes: list[str], width: float) -> tuple[str, ...]:
    lines = [notes[0]]
    for note in notes[1:]:
        longer = f"{lines[-1]} · {note}"
        if measure_text(longer, _NOTE_SIZE)[0] <= width:
            lines[-1] = longer
        else:
            lines.append(note)
    return tuple(lines)


def draw_titles(axes: Axes, panel: Panel, frame: Frame, position: int) -> None:
    """Write method, number and reasons above the picture, and the scale and the bar of trust under it."""
    width, height = frame.box
    lines = frame.above - frame.title
    lower = lines
    for i, line in enumerate(frame.reasons[position]):
        axes.text(
            0, height + lines - 1.0 - _LINE * i, line, fontsize=_TEXT_SIZE, color=INK, va="top",
            parse_math=False, clip_on=False,
        )  # fmt: skip
    draw_trust(axes, panel.trust, 0.0, -BAR, width, f"panel{position}")
    at = -BAR - 3.0
    for line in frame.trust[position]:
        write_trust_line(axes, line, at, panel.trust)
        at -= _TRUST_LINE
    below = [one for one in (panel.subtitle, *frame.captions[position]) if one]
    for text, y, size, weight, ink in (
        (panel.title, height + lower + 3, 10.0, "bold", INK),
        *((one, at - 8.0 - _CAPTION_LINE * i, _CAPTION_SIZE, "normal", FAINT_INK) for i, one in enumerate(below)),
    ):
        line = shorten(text, _LONGEST_CAPTION)
        size = min(size, size * (width + _GAP / 2) / max(measure_text(line, size, bold=weight == "bold")[0], 1.0))
        axes.text(
            width / 2, y, line, fontsize=size, fontweight=weight, color=ink, ha="center", va="bottom",
            parse_math=False, clip_on=False,
        )  # fmt: skip


def _wrap_caption(text: str, width: float) -> list[str]:
    """Return a caption as lines; one that is a little too wide stays one line, which is written smaller."""
    return [text] if len(text) <= _LONGEST_CAPTION else wrap(text, width, _CAPTION_SIZE, most=3)


def draw_answer(figure: Figure, frame: Frame) -> None:
    """Write what the model answered above all panels."""
    if not frame.answer:
        return
    width, height = frame.size
    axes = frame.add(figure, 0, height - _GAP / 2 - frame.head, width, frame.head)
    axes.set_xlim(0, width)
    axes.set_ylim(0, frame.head)
    axes.set_axis_off()
    for i, line in enumerate(frame.answer):
        axes.text(
            _SIDE, frame.head - _ANSWER * i, line, fontsize=_ANSWER_SIZE, fontweight="bold", color=INK, va="top",
            parse_math=False,
        )  # fmt: skip


def format_caption(panel: Panel) -> str:
    """Return a text with the scores that are drawn at full strength in this panel, and what is known of each kind."""
    shown = (
        ("edges", panel.edge_scale, panel.note("edges")),
        ("nodes", panel.node_scale, panel.note("features")),
        ("features", panel.feature_scale if panel.features else 0.0, panel.note("features")),
    )
    drawn = {"edges": panel.is_drawn("edges"), "nodes": panel.is_drawn("features"), "features": True}
    parts = [
        f"±{scale:.3g} {kind}{f' ({note})' if note else ''}{'' if drawn[kind] else ', not drawn'}"
        for kind, scale, note in shown
        if scale > 0
    ]
    return "scale " + " · ".join(parts) if parts else "every score is zero"


def draw_legend(figure: Figure, frame: Frame) -> None:
    """Draw the explained node, a scale of nodes and edges from -1 to 1, and the notes."""
    width = frame.size[0]
    notes = _NOTE * len(frame.notes) + 6.0
    height = notes + _STRIP + _ROW * frame.stacked
    axes = frame.add(figure, 0, 0, width, height)
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_axis_off()
    beside = _EXPLAINED if frame.explained and not frame.stacked else 0.0
    left = (width - (beside + 2 * _WORD + _STEP * len(_SCALE))) / 2
    y = notes + 26.0
    if frame.explained:
        start = (width - _EXPLAINED) / 2 if frame.stacked else left
        _draw_explained(axes, start + 8, y + 19 if frame.stacked else y, frame.explained_means)
    _draw_scale(axes, left + beside + _WORD, y, frame.signs)
    for i, note in enumerate(frame.notes):
        _write(axes, width / 2, notes - 6.0 - i * _NOTE, note, "center")


def _draw_explained(axes: Axes, x: float, y: float, means: str) -> None:
    scatter_nodes(axes, np.array([[x, y]]), np.array([6.0]), [style_node(0.0, True)], 0.9, "legend-explained")
    _write(axes, x + 10, y, means, "left")


def _draw_scale(axes: Axes, left: float, y: float, signs: tuple[str, str]) -> None:
    """Draw a disc above an edge for each step of the scale, in the style of the panels."""
    x = left + _STEP * (np.arange(len(_SCALE)) + 0.5)
    styles = [style_node(score, False) for score in _SCALE]
    scatter_nodes(axes, np.stack([x, np.full(len(x), y)], 1), np.full(len(x), 5.5), styles, 0.9, "legend")
    lines = [np.array([[a - 9.5, y - 11], [a + 9.5, y - 11]]) for a in x]
    widths, colours, dashes = style_lines(np.array(_SCALE), 4.0)
    samples = LineCollection(lines, colors=colours, linewidths=widths.tolist(), linestyles=dashes)
    samples.set_gid("legend-edges")
    axes.add_collection(samples, autolim=False)
    for a, text in zip(x.tolist(), _SCALE_TEXT, strict=True):
        _write(axes, a, y - 19, text, "center")
    _write(axes, left - 2, y - 5, signs[0], "right")
    _write(axes, left + _STEP * len(_SCALE) + 2, y - 5, signs[1], "left")


def _write(axes: Axes, x: float, y: float, text: str, align: Literal["left", "center", "right"]) -> None:
    axes.text(x, y, text, fontsize=_NOTE_SIZE, color=FAINT_INK, ha=align, va="center_baseline", parse_math=False)
