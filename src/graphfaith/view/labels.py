"""Labels of nodes: which nodes get one, and where. A label is inside the disc if it fits, or in free space nearby."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .positions import Array

_LONGEST = 18
# The directions from a node to its label in order of preference: right, left, above, below, then the diagonals.
_DIRECTIONS = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8)])
# The corners of a frame are where these would put a label, so that there it is beside the frame, higher or lower.
_BESIDE = np.where(np.abs(_DIRECTIONS) == 0.8, np.sign(_DIRECTIONS) * (1.0, 0.7), _DIRECTIONS)
_FRAMED = 2.5  # what it costs to cover the frame of another node's type, which only an explained node's label may


@dataclass(frozen=True)
class Label:
    """The name of a node, centred at (x, y) in points, `inside` the disc of the node or beside it."""

    node: int
    text: str
    x: float
    y: float
    inside: bool
    bold: bool


def shorten(name: str, longest: int = _LONGEST) -> str:
    """Return a name as one printable line of at most `longest` characters, ending in an ellipsis if it was cut.

    >>> shorten("a very long name indeed\\n", 12)
    'a very long…'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def measure_text(text: str, size: float, *, bold: bool = False) -> tuple[float, float]:
    """Return width and height in points that a text will have when it is drawn."""
    # matplotlib is imported here because `import graphfaith` should not load it.
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight="bold" if bold else "normal")
    with warnings.catch_warnings():
        # For a character that the font lacks, matplotlib warns and uses a box, whose size is correct here.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        width, height, _ = text_to_path.get_text_width_height_descent(text or " ", font, False)
    return float(width), float(height)


@dataclass(frozen=True)
class Scene:
    """The things that labels must not cover, in points: discs, lines, self-loops, and the border of the panel."""

    points: Array  # [n, 2] the centres of the discs
    radius: Array  # [n] the radii of the discs
    priority: Array  # [n] in [0, 1]; nodes of high priority get their labels first
    lines: Array  # [m, 2, 2] the ends of the edges
    strength: Array  # [m] in [0, 1], of the edges
    loops: Array  # [k, 3] centre and radius of self-loops
    stars: Array  # [k, 3] centre and radius of stars
    box: tuple[float, float]  # width and height of the panel
    frames: Array  # [n] half of a side of the frame that shows a node's type; 0 if there is none

    @property
    def reach(self) -> Array:
        """How far a node reaches to each side: its disc, or the frame around it, [n]."""
        return np.maximum(self.radius, self.frames)


def place_labels(
    names: Sequence[str], scene: Scene, explained: Sequence[int], size: float, most: int = 30
) -> list[Label]:
    """Return labels for all explained nodes, and for those of the `most` strongest other nodes that have free space."""
    first = set(explained)
    order = sorted(range(len(names)), key=lambda i: (i not in first, -scene.priority[i], i))
    # Centre and half size of the labels beside discs, and of the stars, which labels cover as little as each other.
    taken = scene.stars[:, [0, 1, 2, 2]]
    labels = []
    for rank, node in enumerate(order[: most + len(first)]):
        must = node in first
        if not must and scene.priority[node] < 0.02:
            break
        text = shorten(names[node])
        half = np.array(measure_text(text, size, bold=must)) / 2
        if np.hypot(*half) <= scene.radius[node] - 0.5:
            labels.append(_make_label(node, text, scene.points[node], inside=True, bold=must))
            continue
        # The labels of the eight strongest nodes may cover something weak. No label may cover another label, which
        # costs 3, except for the labels of explained nodes.
        limit = np.inf if must else 2.5 if rank < len(first) + 8 else 1.0
        spot = _find_spot_beside(node, half, scene, taken, limit)
        if spot is not None:
            labels.append(_make_label(node, text, spot, inside=False, bold=must))
            taken = np.vstack([taken, np.concatenate([spot, half + 1])])
    return labels


def _make_label(node: int, text: str, spot: Array, *, inside: bool, bold: bool) -> Label:
    return Label(node, text, float(spot[0]), float(spot[1]), inside, bold)


def _find_spot_beside(node: int, half: Array, scene: Scene, taken: Array, limit: float) -> Array | None:
    """Return the place around the node with the lowest cost, or None if that cost is not below the limit."""
    must = limit == np.inf
    space = 4.0 if must else 1.5  # An explained node has a ring, which needs more space.
    directions = _BESIDE if scene.frames[node] else _DIRECTIONS
    spots: Array = scene.points[node] + directions * (half + scene.reach[node] + space)
    if must:
        spots = np.clip(spots, half, np.maximum(np.array(scene.box) - half, half))
    cost = [_compute_cost(spot, half, node, scene, taken) for spot in spots]
    best = int(np.argmin(cost))
    return spots[best] if cost[best] < limit else None


def _compute_cost(spot: Array, half: Array, node: int, scene: Scene, taken: Array) -> float:
    """Return how bad it is to put the label here: 1 or more if it covers something important, little for a weak edge.

    The cost is 10 outside the panel, 3 for each label or star that is covered, 2.5 for each frame of a type, 0.4 +
    priority for each disc, 0.6 for each self-loop, twice the strength of the strongest edge, 0.01 for each edge, and up
    to 0.5 if another disc is near.
    """
    outside = float((spot - half < 0).any() or (spot + half > np.array(scene.box)).any())
    discs = _find_touching(spot, half, scene.points, scene.radius)
    loops = _find_touching(spot, half, scene.loops[:, :2], scene.loops[:, 2])
    discs[node] = False
    framed = (np.abs(scene.points - spot) < half + scene.frames[:, None]).all(1) & (scene.frames > 0)
    framed[node] = False
    clashes = (np.abs(taken[:, :2] - spot) < taken[:, 2:] + half).all(1)
    crossed = scene.strength[_find_crossing(spot, half, scene.lines)]
    cost = float((0.4 + scene.priority[discs]).sum()) + 2.0 * float(crossed.max(initial=0.0)) + 0.01 * len(crossed)
    cost += 0.6 * float(loops.sum()) + _FRAMED * float(framed.sum())
    # If another disc is about as near as the node's disc, a reader could take the label for the name of that node.
    border = np.linalg.norm(scene.points - spot, axis=1) - scene.reach
    nearest = float(np.delete(border, node).min(initial=np.inf))
    cost += 0.5 * float(np.clip((border[node] + 4.0 - nearest) / 4.0, 0.0, 1.0))
    return 10 * outside + 3 * float(clashes.sum()) + cost


def _find_touching(spot: Array, half: Array, centres: Array, radius: Array) -> NDArray[np.bool_]:
    gap = np.maximum(np.abs(centres - spot) - half, 0)
    result: NDArray[np.bool_] = np.linalg.norm(gap, axis=1) < radius
    return result


def _find_crossing(spot: Array, half: Array, lines: Array) -> NDArray[np.bool_]:
    """Return which lines run through the box around `spot`.

    A line does if its part between the left and right sides and its part between the lower and upper sides overlap.
    """
    start, along = lines[:, 0], lines[:, 1] - lines[:, 0]
    along = np.where(np.abs(along) < 1e-9, 1e-9, along)
    low, high = (spot - half - start) / along, (spot + half - start) / along
    enter, leave = np.minimum(low, high).max(1), np.maximum(low, high).min(1)
    result: NDArray[np.bool_] = (enter <= leave) & (leave >= 0) & (enter <= 1)
    return result


def describe_route(route: str | None) -> str:
    """Return in words what a perturbed entry of A does to the model on a route; "" if it is not known.

    >>> describe_route("weight")
    'an edge is changed by its weight'
    """
    routes = {
        "weight": "an edge is changed by its weight",
        "removal": "an edge is changed by its messages, and removed if these become 0",
        "mask": "an edge is changed by its messages, and still counted if these become 0",
    }
    return routes.get(route or "", "")
