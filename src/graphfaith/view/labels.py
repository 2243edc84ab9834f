"""Which nodes get their name written, and where: inside the disc if it fits, else beside it where nothing is hidden."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from numpy.typing import NDArray

from .positions import Array

_LONGEST = 18
# Right, left, above, below, then the diagonals: the order in which a reader finds a label.
_DIRECTIONS = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8)])


@dataclass(frozen=True)
class Label:
    """A name, centred at (x, y) in points; `inside` its disc or beside it."""

    node: int
    text: str
    x: float
    y: float
    inside: bool
    bold: bool


def shorten(name: str, longest: int = _LONGEST) -> str:
    """One printable line, cut with an ellipsis.

    >>> shorten("a very long name indeed\\n", 12)
    'a very long…'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def text_size(text: str, size: float, *, bold: bool = False) -> tuple[float, float]:
    """Width and height of a text in points, as it will be drawn."""
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")  # a box is drawn for it, and measured here
        width, height, _ = text_to_path.get_text_width_height_descent(text or " ", font, False)
    return float(width), float(height)


@dataclass(frozen=True)
class Scene:
    """What labels must not hide, in points: discs, lines from end to end, and the edge of the panel."""

    points: Array  # [n, 2]
    radius: Array  # [n]
    priority: Array  # [n] in [0, 1], who is named first
    lines: Array  # [m, 2, 2]
    strength: Array  # [m] in [0, 1]
    loops: Array  # [k, 3] centre and radius of self-loops
    box: tuple[float, float]


def place_labels(
    names: Sequence[str], scene: Scene, explained: Sequence[int], size: float, most: int = 30
) -> list[Label]:
    """Labels for the explained nodes always, then for the `most` important others, where they fit."""
    first = set(explained)
    order = sorted(range(len(names)), key=lambda i: (i not in first, -scene.priority[i], i))
    taken = np.zeros((0, 4))  # centre and half size of the labels beside discs
    labels = []
    for rank, node in enumerate(order[: most + len(first)]):
        must = node in first
        if not must and scene.priority[node] < 0.02:
            break
        text = shorten(names[node])
        half = np.array(text_size(text, size, bold=must)) / 2
        if np.hypot(*half) <= scene.radius[node] - 0.5:
            labels.append(_label(node, text, scene.points[node], inside=True, bold=must))
            continue
        # The strongest are worth hiding something weak for; nothing is worth hiding another label (3).
        limit = np.inf if must else 2.5 if rank < len(first) + 8 else 1.0
        spot = _spot_beside(node, half, scene, taken, limit)
        if spot is not None:
            labels.append(_label(node, text, spot, inside=False, bold=must))
            taken = np.vstack([taken, np.concatenate([spot, half + 1])])
    return labels


def _label(node: int, text: str, spot: Array, *, inside: bool, bold: bool) -> Label:
    return Label(node, text, float(spot[0]), float(spot[1]), inside, bold)


def _spot_beside(node: int, half: Array, scene: Scene, taken: Array, limit: float) -> Array | None:
    """The centre of the emptiest place around the node; None if it would hide more than the limit."""
    must = limit == np.inf
    space = 4.0 if must else 1.5  # an explained node has a ring
    spots: Array = scene.points[node] + _DIRECTIONS * (half + scene.radius[node] + space)
    if must:
        spots = np.clip(spots, half, np.maximum(np.array(scene.box) - half, half))
    cost = [_hidden(spot, half, node, scene, taken) for spot in spots]
    best = int(np.argmin(cost))
    return spots[best] if cost[best] < limit else None


def _hidden(spot: Array, half: Array, node: int, scene: Scene, taken: Array) -> float:
    """What a label here would hide: 1 or more for what must stay visible, little for a weak edge."""
    outside = float((spot - half < 0).any() or (spot + half > np.array(scene.box)).any())
    discs = _touching(spot, half, scene.points, scene.radius)
    loops = _touching(spot, half, scene.loops[:, :2], scene.loops[:, 2])
    discs[node] = False
    clashes = (np.abs(taken[:, :2] - spot) < taken[:, 2:] + half).all(1)
    crossed = scene.strength[_crossing(spot, half, scene.lines)]
    lost = float((0.4 + scene.priority[discs]).sum()) + 2.0 * float(crossed.max(initial=0.0)) + 0.01 * len(crossed)
    lost += 0.6 * float(loops.sum())
    # A label about as near to another disc as to its own could be read as that one's name.
    border = np.linalg.norm(scene.points - spot, axis=1) - scene.radius
    nearest = float(np.delete(border, node).min(initial=np.inf))
    lost += 0.5 * float(np.clip((border[node] + 4.0 - nearest) / 4.0, 0.0, 1.0))
    return 10 * outside + 3 * float(clashes.sum()) + lost


def _touching(spot: Array, half: Array, centres: Array, radius: Array) -> NDArray[np.bool_]:
    gap = np.maximum(np.abs(centres - spot) - half, 0)
    result: NDArray[np.bool_] = np.linalg.norm(gap, axis=1) < radius
    return result


def _crossing(spot: Array, half: Array, lines: Array) -> NDArray[np.bool_]:
    """Which lines run through the box: the stretches inside its columns and inside its rows overlap."""
    start, along = lines[:, 0], lines[:, 1] - lines[:, 0]
    along = np.where(np.abs(along) < 1e-9, 1e-9, along)
    one, two = (spot - half - start) / along, (spot + half - start) / along
    enter, leave = np.minimum(one, two).max(1), np.maximum(one, two).min(1)
    result: NDArray[np.bool_] = (enter <= leave) & (leave >= 0) & (enter <= 1)
    return result
