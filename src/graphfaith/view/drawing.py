"""The content of one panel: nodes, edges, self-loops, labels and feature bars, drawn with matplotlib in points.

The style is that of the paper: the explained node is grey, a positive influence is blue and a negative one is red. The
opacity of a node and the width of an edge show its strength. The sign is also shown by the line style of edges and of
the outlines of nodes: solid is positive and dashed is negative. So it can be read in grey print and by colour-blind
readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from .elements import element_colour
from .folds import Fold
from .labels import Label, Scene, place_labels, shorten
from .layout import Layout
from .naming import name_nodes
from .panel import Panel, weigh_nodes
from .positions import Array

POSITIVE, NEGATIVE = "#2166ac", "#b2182b"
EXPLAINED, CONTEXT, INK, FAINT_INK = "#707070", "#d4d4d4", "#1a1a1a", "#5f5f5f"
STAR = "#f5c518"
RING_INK, FOLD_INK = "#ececec", "#8a8a8a"
LABEL_SIZE = 6.5
MARGIN = 21.0  # points around the layout in its box, as room for discs, self-loops and labels
LOOP_FROM = 0.03  # weaker self-loops are not drawn, because they would be too small to read
_FRAME_LINE = 1.4  # width of the line of the shape that shows a node's type
_OVER = 4.0  # points by which the ring of a hop may leave its panel without being cut
_OFF = 0.57  # the most of a panel that one side of what is explained gets; it stays within a tenth of the middle
RING = 2.5  # points between the explained node and the ring that shows its own score
HOLLOW = 0.72  # radius of the disc of a negative node, as a share of the dashed ring around it
MOST_LINES = 4  # of a bond; more of them cannot be told apart, and an order may be any number
Colour = tuple[float, float, float, float]
Dash = Literal["solid"] | tuple[float, Sequence[float]]
SOLID: Dash = "solid"


@dataclass(frozen=True)
class Geometry:
    """The layout in points inside the box of a panel; all panels share it."""

    box: tuple[float, float]
    points: Array  # [n, 2]
    radius: Array  # [n]
    loops: Array  # [n, 3] centre and radius of the circle that represents a self-loop
    widest: float  # line width of an edge with score 1
    outline: float  # line width around a node
    labels: list[Label]
    marks: Array  # [f, 2] of folds
    mark_radius: float
    middle: Array  # the origin of the layout
    rings: tuple[float, ...]  # radii of the hops


def fit(layout: Layout, box: tuple[float, float]) -> Geometry:
    """Scale the layout to the box, and make the nodes as large as the distances between them allow."""
    if not len(layout.nodes):
        none = np.zeros((0, 2))
        return Geometry(box, none, np.zeros(0), np.zeros((0, 3)), 1.0, 1.0, [], none, 1.0, np.array(box) / 2, ())
    spots = np.array([fold.position for fold in layout.folds]).reshape(-1, 2)
    everything = np.concatenate([layout.positions, spots])
    low, high = find_bounds(everything, layout.rings)
    room = np.array(box) - 2 * MARGIN
    scale = float((room / np.maximum(high - low, 1e-9)).min()) if len(everything) > 1 else 1.0
    middle = np.array(box) / 2 - (low + high) / 2 * scale
    everything = everything * scale + middle
    points, marks = everything[: len(layout.positions)], everything[len(layout.positions) :]
    share = 0.26 if layout.directed else 0.34  # Smaller discs leave room for the head of an arrow.
    base = float(np.clip(share * _measure_gap(everything), 2.0, 9.5))
    radius = base * (0.45 + 0.55 * np.sqrt(np.clip(layout.relevance, 0, 1)))
    explained = sorted({i for panel in layout.panels for i in panel.explained})
    radius[explained] = max(1.1 * base, 6.5)
    strength = np.abs(np.stack([panel.edges for panel in layout.panels])).mean(0)
    loops = _place_loops(layout, points, radius)
    mark_radius = max(0.5 * base, 2.6)
    # Marks have labels too, first where the weight is.
    priority = np.append(weigh_nodes(layout.panels, layout.edges), [_weigh_fold(fold, layout) for fold in layout.folds])
    sizes = np.append(radius, np.full(len(marks), mark_radius))
    # The dotted lines of folds are lines as well, which labels do not cross if there is another place.
    stalks = [(points[fold.parent], mark) for fold, mark in zip(layout.folds, marks, strict=True)]
    lines = np.concatenate([points[layout.edges], np.array(stalks).reshape(-1, 2, 2)])
    weights = np.append(strength, np.full(len(stalks), 0.3))
    reach = [layout.types[kind].reach for kind in layout.type_of] if layout.types else np.zeros(len(radius))
    frames = np.append((_frame_sizes(radius) + _FRAME_LINE) * reach, np.zeros(len(marks)))
    stars = _place_stars(layout, points, radius)
    scene = Scene(everything, sizes, priority, lines, weights, loops[loops[:, 2] > 0], stars, box, frames)
    texts = [*name_nodes(layout), *(_name_fold(fold) for fold in layout.folds)]
    labels = place_labels(texts, scene, explained, LABEL_SIZE, most=len(texts) if layout.folds else 30)
    widest, outline = float(np.clip(0.55 * base, 1.8, 4.5)), float(np.clip(0.14 * base, 0.45, 0.9))
    rings = tuple(radius * scale for radius in layout.rings)
    return Geometry(box, points, radius, loops, widest, outline, labels, marks, mark_radius, middle, rings)


def find_bounds(points: Array, rings: tuple[float, ...]) -> tuple[Array, Array]:
    """Return the lower left and upper right corner of what is drawn; with rings, the origin is near their middle.

    All rings are whole: a reader of a picture cannot move it, and half a ring at its edge looks like a mistake. What
    stands beyond the last ring gets a little more of the panel on its side, so that less of it is empty.
    """
    low, high = points.min(0), points.max(0)
    if rings:
        low, high = np.minimum(low, -max(rings)), np.maximum(high, max(rings))
        share = np.clip(high / np.maximum(high - low, 1e-9), 1 - _OFF, _OFF)
        span = np.maximum(high / share, -low / (1 - share))
        return -(1 - share) * span, share * span
    return low, high


def _weigh_fold(fold: Fold, layout: Layout) -> float:
    """Return the priority of the label of a mark: |sum of its scores| as a share of the largest one, or a little."""
    pairs = zip(fold.sums, layout.panels, strict=True)
    shares = [
        abs(total) / panel.edge_scale if total is not None and panel.edge_scale else 0.0 for total, panel in pairs
    ]
    return float(np.clip(np.mean(shares), 0.05, 1.0))


def _name_fold(fold: Fold) -> str:
    """Return what is written at a mark; of a single panel, with the sum of the scores."""
    total = fold.sums[0] if len(fold.sums) == 1 else None
    return f"{fold.count} more" if total is None else f"{fold.count} more, {total:+.2g}".replace("-", "−")


def _measure_gap(points: Array) -> float:
    """Return the distance to the nearest node, as its 20 % quantile over all nodes."""
    if len(points) < 2:
        return np.inf
    gap = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.fill_diagonal(gap, np.inf)
    return float(np.quantile(gap.min(1), 0.2))


def draw_panel(axes: Axes, layout: Layout, panel: Panel, geometry: Geometry, name: str) -> None:
    """Draw one panel.

    The gids of its artists are `name` followed by '-edges', '-arrows', '-loops', '-discs', '-nodes', '-outlines',
    '-rings' and '-stars'.
    """
    axes.set_xlim(0, geometry.box[0])
    axes.set_ylim(0, geometry.box[1])
    axes.set_axis_off()
    _draw_rings(axes, geometry, name)
    _draw_folds(axes, layout, geometry, name)
    _draw_edges(axes, layout, panel, geometry, name)
    _draw_loops(axes, panel, geometry, name)
    _draw_types(axes, layout, geometry, name)
    _draw_nodes(axes, panel, geometry, name)
    _draw_stars(axes, layout, geometry, name)
    _draw_labels(axes, layout, panel, geometry)


def _draw_rings(axes: Axes, geometry: Geometry, name: str) -> None:
    """Draw a faint circle for each hop from what is explained."""
    for i, radius in enumerate(geometry.rings):
        # One that leaves the panel by a little would look broken; one that leaves it by more would cross texts.
        over = radius - float(np.minimum(geometry.middle, np.array(geometry.box) - geometry.middle).min())
        ring = Circle(
            tuple(geometry.middle),
            radius,
            fill=False,
            edgecolor=RING_INK,
            linewidth=0.6,
            zorder=0,
            clip_on=over > _OVER,
        )
        ring.set_gid(f"{name}-hop{i + 1}")
        axes.add_patch(ring)


def _draw_folds(axes: Axes, layout: Layout, geometry: Geometry, name: str) -> None:
    """Draw the marks of folds: a few small dots on a dotted line from the node that they belong to."""
    if not layout.folds:
        return
    parents = geometry.points[[fold.parent for fold in layout.folds]]
    stalks = LineCollection(
        list(np.stack([parents, geometry.marks], axis=1)), colors=FOLD_INK, linewidths=0.7, linestyles=":", zorder=1
    )
    stalks.set_gid(f"{name}-stalks")
    axes.add_collection(stalks, autolim=False)
    x, y = geometry.marks.T
    marks = axes.scatter(x, y, s=(2 * geometry.mark_radius) ** 2, zorder=3, clip_on=False)
    marks.set_facecolor("white")
    marks.set_edgecolor(FOLD_INK)
    marks.set_linestyle(":")
    marks.set_linewidth(1.0)
    marks.set_gid(f"{name}-folds")


def colour(score: float, alpha: float) -> Colour:
    """Return blue for a positive score, red for a negative one and grey for zero, with this opacity."""
    return (*to_rgb(POSITIVE if score > 0 else NEGATIVE if score < 0 else CONTEXT), alpha)


def style_lines(scores: Array, widest: float) -> tuple[Array, list[Colour], list[Dash]]:
    """Return width, colour and dash of edges with these scores."""
    width = np.where(scores == 0, 0.35, 0.4 + (widest - 0.4) * np.abs(scores))
    colours = [colour(s, 0.2 + 0.8 * abs(s) if s else 1.0) for s in scores.tolist()]
    dashes = [_choose_dash(s, w) for s, w in zip(scores.tolist(), width.tolist(), strict=True)]
    return width, list(colours), dashes


def _choose_dash(score: float, width: float) -> Dash:
    """Return the dash of a line in units of its width; thin lines have relatively longer dashes, which stay visible."""
    return (0.0, (max(2.2, 2.6 / width), max(1.1, 1.8 / width))) if score < 0 else SOLID


def _draw_edges(axes: Axes, layout: Layout, panel: Panel, geometry: Geometry, name: str) -> None:
    order = np.argsort(np.abs(panel.edges), kind="stable")  # Strong edges are drawn last, on top of weak ones.
    scores, ends = panel.edges[order], layout.edges[order]
    width, colours, dashes = style_lines(scores, geometry.widest)
    lines = geometry.points[ends]
    if layout.orders is not None:
        _draw_bonds(axes, lines, [layout.orders[i] or 1.0 for i in order.tolist()], width, name)
    if layout.directed and len(ends):
        head = 2.6 + 1.6 * width
        lines, tips = _make_arrows(lines, geometry.radius[ends[:, 1]], head, _has_opposite(ends))
        arrows = PolyCollection(list(tips), facecolors=colours, edgecolors="none", zorder=2)
        arrows.set_gid(f"{name}-arrows")
        axes.add_collection(arrows, autolim=False)
    collection = LineCollection(
        list(lines), colors=colours, linewidths=width.tolist(), linestyles=dashes, capstyle="butt", zorder=1
    )
    collection.set_gid(f"{name}-edges")
    axes.add_collection(collection, autolim=False)


def _draw_bonds(axes: Axes, lines: Array, orders: Sequence[float], width: Array, name: str) -> None:
    """Draw the bonds of a molecule beside the scores: one line more for each order above 1, dashed for one half."""
    drawn, styles = [], list[Dash]()
    for line, order, wide in zip(lines, orders, width.tolist(), strict=True):
        along = line[1] - line[0]
        across = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-9)
        inner = np.stack([line[0] + 0.22 * along, line[1] - 0.22 * along])
        drawn.append(line)
        styles.append(SOLID)
        for i in range(1, math.ceil(min(order, MOST_LINES))):
            side = 1.0 if i % 2 else -1.0
            drawn.append(inner + side * (wide / 2 + 2.4) * across)
            styles.append((0.0, (2.0, 1.5)) if order < i + 1 else SOLID)
    bonds = LineCollection(drawn, colors=FAINT_INK, linewidths=0.8, linestyles=styles, zorder=0.9)
    bonds.set_gid(f"{name}-bonds")
    axes.add_collection(bonds, autolim=False)


def _has_opposite(ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each edge whether the edge in the opposite direction exists."""
    count = int(ends.max()) + 1
    result: NDArray[np.bool_] = np.isin(ends[:, 1] * count + ends[:, 0], ends[:, 0] * count + ends[:, 1])
    return result


def _make_arrows(lines: Array, gap: Array, head: Array, bowed: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the curves [m, 13, 2] of arrows and their heads [m, 3, 2].

    An arrow ends at the disc of its target. The `bowed` ones are curved, so that an edge and its opposite are separate
    lines.
    """
    start, end = lines[:, 0], lines[:, 1]
    along = end - start
    length = np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    left = np.stack([-along[:, 1], along[:, 0]], axis=1) / length
    bow = np.where(bowed, 0.16, 0.0)[:, None] * np.minimum(length, 60.0)
    control = (start + end) / 2 + left * bow
    arrival = (end - control) / np.maximum(np.linalg.norm(end - control, axis=1, keepdims=True), 1e-9)
    tip = end - arrival * gap[:, None]
    back = tip - arrival * head[:, None]
    t = np.linspace(0, 1, 13)[None, :, None]
    curve = (1 - t) ** 2 * start[:, None] + 2 * t * (1 - t) * control[:, None] + t**2 * back[:, None]
    side = np.stack([-arrival[:, 1], arrival[:, 0]], axis=1) * head[:, None] * 0.42
    return curve, np.stack([tip, back + side, back - side], axis=1)


def _place_loops(layout: Layout, points: Array, radius: Array) -> Array:
    """Return centre and radius of the self-loop of each node, [n, 3]; the radius is 0 if no self-loop is drawn.

    A self-loop is placed in the widest angle between the edges of its node.
    """
    circles = np.zeros((len(points), 3))
    strength = np.abs(np.stack([panel.loops for panel in layout.panels])).max(0)
    explained = {i for panel in layout.panels for i in panel.explained}
    for node in np.flatnonzero(strength >= LOOP_FROM).tolist():
        size = 0.62 * radius[node] + 1.6
        reach = radius[node] + (RING if node in explained else 0.0) + 0.55 * size
        circles[node] = *(points[node] + reach * _find_free_direction(node, layout, points)), size
    return circles


def _draw_loops(axes: Axes, panel: Panel, geometry: Geometry, name: str) -> None:
    nodes = np.flatnonzero(np.abs(panel.loops) >= LOOP_FROM)
    nodes = nodes[np.argsort(np.abs(panel.loops[nodes]), kind="stable")]
    angle = np.linspace(0, 2 * np.pi, 25)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lines = [geometry.loops[node, :2] + geometry.loops[node, 2] * circle for node in nodes]
    width, colours, dashes = style_lines(panel.loops[nodes], geometry.widest * 0.8)
    loops = LineCollection(lines, colors=colours, linewidths=width.tolist(), linestyles=dashes, zorder=2, clip_on=False)
    loops.set_gid(f"{name}-loops")
    axes.add_collection(loops, autolim=False)


def _find_free_direction(node: int, layout: Layout, points: Array) -> Array:
    incident = layout.edges[(layout.edges == node).any(1)]
    others = incident[incident != node]
    if not len(others):
        return np.array([0.0, 1.0])
    towards = points[others] - points[node]
    angle = np.sort(np.arctan2(towards[:, 1], towards[:, 0]))
    gap = np.diff(np.append(angle, angle[0] + 2 * np.pi))
    widest = int(gap.argmax())
    middle = angle[widest] + gap[widest] / 2
    return np.array([np.cos(middle), np.sin(middle)])


@dataclass(frozen=True)
class NodeStyle:
    """The style of a node: a disc and a line around it."""

    face: Colour
    disc: float  # radius of the disc as a share of the node's radius
    line: Colour
    line_width: float  # in units of the panel's outline width
    dash: Dash


def style_node(score: float, explained: bool) -> NodeStyle:
    """Return the style of a node with this score.

    A positive node is a full disc with a solid outline, a negative node is a smaller disc in a dashed ring, and the
    explained node is a grey disc with a black outline.
    """
    if explained:
        return NodeStyle((*to_rgb(EXPLAINED), 1.0), 1.0, (0.0, 0.0, 0.0, 1.0), 1.6, SOLID)
    if score == 0:
        return NodeStyle((1.0, 1.0, 1.0, 1.0), 1.0, (*to_rgb("#a8a8a8"), 1.0), 0.7, SOLID)
    face, line = colour(score, abs(score)), colour(score, 0.35 + 0.65 * abs(score))
    if score > 0:
        return NodeStyle(face, 1.0, line, 1.0, SOLID)
    return NodeStyle(face, HOLLOW, line, 1.2, (0.0, (2.0, 1.3)))


def scatter_nodes(
    axes: Axes, points: Array, radius: Array, styles: Sequence[NodeStyle], outline: float, name: str
) -> None:
    """Draw nodes as white discs, coloured discs on them, and outlines."""
    x, y = points.T
    # The white discs hide the ends of edges, which would otherwise shine through a disc of low opacity.
    discs = axes.scatter(x, y, s=(2 * radius) ** 2, c="white", linewidths=0, zorder=3, clip_on=False)
    discs.set_gid(f"{name}-discs")
    inner = radius * np.array([style.disc for style in styles])
    nodes = axes.scatter(x, y, s=(2 * inner) ** 2, linewidths=0, zorder=4, clip_on=False)
    nodes.set_facecolor([style.face for style in styles])
    nodes.set_gid(f"{name}-nodes")
    lines = axes.scatter(x, y, s=(2 * radius) ** 2, zorder=5, clip_on=False)
    lines.set_facecolor("none")
    lines.set_edgecolor([style.line for style in styles])
    lines.set_linewidth([outline * style.line_width for style in styles])
    lines.set_linestyle([style.dash for style in styles])
    lines.set_gid(f"{name}-outlines")


def _draw_nodes(axes: Axes, panel: Panel, geometry: Geometry, name: str) -> None:
    styles = [style_node(score, i in panel.explained) for i, score in enumerate(panel.nodes.tolist())]
    scatter_nodes(axes, geometry.points, geometry.radius, styles, geometry.outline, name)
    # The explained node is always grey, so a ring around it shows its own score.
    explained = [i for i in panel.explained if panel.nodes[i] != 0]
    ring_styles = [style_node(score, False) for score in panel.nodes[explained].tolist()]
    x, y = geometry.points[explained].T
    rings = axes.scatter(x, y, s=(2 * (geometry.radius[explained] + RING)) ** 2, zorder=5, clip_on=False)
    rings.set_facecolor("none")
    rings.set_edgecolor([style.face for style in ring_styles])
    rings.set_linewidth(1.8)
    rings.set_linestyle([style.dash for style in ring_styles])
    rings.set_gid(f"{name}-rings")


def _frame_sizes(radius: Array) -> Array:
    """Return half of a side of the shapes that show the types of nodes, around discs of this radius."""
    return 1.25 * radius + 2.0


def _draw_types(axes: Axes, layout: Layout, geometry: Geometry, name: str) -> None:
    """Draw the shape of each node's type around its disc, in the colour of the type, and a legend of them."""
    of_node = np.array(layout.type_of, dtype=np.int64)
    for place, kind in enumerate(layout.types):
        nodes = np.flatnonzero(of_node == place)
        x, y = geometry.points[nodes].T
        drawn = axes.scatter(
            x,
            y,
            s=(2 * _frame_sizes(geometry.radius[nodes])) ** 2,
            marker=kind.marker,
            facecolors="white",
            edgecolors=kind.colour,
            linewidths=_FRAME_LINE,
            zorder=2.5,
        )
        drawn.set_gid(f"{name}-type{place}")
    if layout.types:
        handles = [
            axes.scatter(
                [], [], s=36, marker=one.marker, facecolors="white", edgecolors=one.colour, linewidths=_FRAME_LINE
            )
            for one in layout.types
        ]
        texts = [shorten(kind.name, 24) for kind in layout.types]
        legend = axes.legend(handles, texts, loc="lower left", fontsize=LABEL_SIZE, frameon=False, borderpad=0)
        for text in legend.get_texts():
            text.set_parse_math(False)


def _place_stars(layout: Layout, points: Array, radius: Array) -> Array:
    """Return the centre and the radius [k, 3] of the stars, which are at the upper left of the discs.

    There they do not cover the colour of the node.
    """
    nodes = list(layout.stars)
    centres = points[nodes] + (radius[nodes, None] + RING + 2.0) * np.array([-0.8, 0.8])
    return np.column_stack([centres, 1.2 * np.maximum(radius[nodes], 5.0)])


def _draw_stars(axes: Axes, layout: Layout, geometry: Geometry, name: str) -> None:
    x, y, half = _place_stars(layout, geometry.points, geometry.radius).T
    stars = axes.scatter(
        x, y, s=(2 * half) ** 2, c=STAR, marker="*", edgecolors=INK, linewidths=0.5, zorder=7, clip_on=False
    )
    stars.set_gid(f"{name}-stars")


def _draw_labels(axes: Axes, layout: Layout, panel: Panel, geometry: Geometry) -> None:
    for label in geometry.labels:
        is_mark = label.node >= len(layout.nodes)
        dark = not is_mark and (label.node in panel.explained or abs(panel.nodes[label.node]) > 0.6)
        kind = None if is_mark or layout.kinds is None else layout.kinds[label.node]
        ink = FAINT_INK if is_mark else element_colour(kind) or INK
        text = axes.text(
            label.x,
            label.y,
            label.text,
            fontsize=LABEL_SIZE,
            fontweight="bold" if label.bold or kind is not None else "normal",
            color="white" if label.inside and dark else ink,
            ha="center",
            va="center_baseline",
            parse_math=False,
            zorder=6,
        )
        if not label.inside:
            text.set_path_effects([withStroke(linewidth=1.6, foreground="white")])
        elif dark and label.node not in panel.explained and panel.nodes[label.node] < 0:
            # The disc of a negative score is smaller than its ring, and a long name would be white on white.
            text.set_path_effects([withStroke(linewidth=1.6, foreground=NEGATIVE)])


def draw_features(axes: Axes, features: Sequence[tuple[str, float]], rows: int, name: str) -> None:
    """Draw bars of features, to the right for positive and to the left for negative scores, with names opposite."""
    axes.set_xlim(-1.05, 1.05)
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_axis_off()
    axes.axvline(0, color=FAINT_INK, linewidth=0.6)
    for row, (feature, score) in enumerate(features):
        bars = axes.barh(row, score, height=0.62, color=colour(score, 1.0)[:3])
        bars[0].set_gid(f"{name}-feature-{row}")
        axes.text(
            -0.04 if score > 0 else 0.04,
            row,
            shorten(feature, 24),
            ha="right" if score > 0 else "left",
            va="center_baseline",
            fontsize=LABEL_SIZE,
            color=INK,
            parse_math=False,
        )
