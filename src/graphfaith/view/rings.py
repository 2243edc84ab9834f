"""Positions about the explained thing: it is in the middle, hops are rings, and each branch has a sector.

A branch is wide if it has many leaves. Branches follow one another clockwise from the top, the strongest first. Several
explained nodes, as the two ends of a link, stand close together in the middle, and each has a sector for its branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._base.threads import one_thread
from .folds import Tree
from .positions import Array, Index

_WIDEST = 0.61 * np.pi  # half of the angle that the children of one node may take, so that no edge crosses the middle
_SPACE = 0.62  # wanted between the centres of two marks on a ring, where the first ring is 1 from the middle
_NARROWING = 0.85  # of the steps from ring to ring, so that what is near the middle has the most room
_MIDDLE = 0.42  # radius of the circle of several explained nodes
_ALIKE = 4.0  # pull of what both ends of a link are joined with to the line between them
_PUSH = 1.0  # of two marks on each other, beside the pull of an edge
_FEW, _STARTS = 14, 6  # With so few marks, the angles are looked for from so many starts.
_PETAL = 0.055  # distance between members of an open fold, in the units of the picture


@dataclass(frozen=True)
class Rings:
    """Positions of nodes and of the marks of folds, in [-1, 1], and the radii of the rings."""

    nodes: Array  # [n, 2]
    folds: Array  # [f, 2]
    radii: tuple[float, ...]


def place_in_rings(
    tree: Tree,
    edges: Index,
    strength: Array,
    visible: Sequence[int],
    folds: dict[int, list[int]],
    weight: Array,
    roots: Sequence[int],
) -> Rings:
    """Return where the `visible` nodes, the marks of folds and, if a fold is opened, its members are drawn.

    `folds` are the members by the node that the mark belongs to, and `weight` [n] says how strong a node and its edges
    are. Where edges join branches, nodes move along their rings towards what they are joined with.
    """
    marks = {at: len(tree.hops) + i for i, at in enumerate(folds)}  # A mark is one more leaf of its node.
    depth = {node: max(int(tree.hops[node]), 0) for node in visible}
    children: dict[int, list[int]] = {node: [] for node in visible}
    for node in visible:
        if tree.parent[node] >= 0:
            children[int(tree.parent[node])].append(node)
    loose = [node for node in visible if tree.parent[node] < 0 and node not in set(roots)]
    for at, mark in marks.items():
        depth[mark] = depth[at] + 1
    branch = _sum_branches(children, weight, [*roots, *loose])
    for node, below in children.items():
        below.sort(key=lambda child: (-branch[child], child))
        if node in marks:
            below.append(marks[node])
    for node in loose:  # What no path leads to stands on the first ring, after everything else.
        children[roots[0]].append(node)
        depth[node] = 1
    radii = _choose_radii(children, depth, roots)
    width = _measure_sectors(children, depth, radii, roots)
    angle, point = dict[int, float](), dict[int, tuple[float, float]]()
    needed = [max(width[root], 1e-3) for root in roots]
    start = np.pi / 2 if len(roots) == 1 else np.pi  # Of two ends the first is on the left.
    turn = start + (np.pi * needed[0] / sum(needed) if len(roots) > 1 else 0.0)
    for root, share in zip(roots, needed, strict=True):
        span = 2 * np.pi * share / sum(needed)
        angle[root] = turn - span / 2
        middle = _MIDDLE if len(roots) > 1 else 0.0
        point[root] = (middle * np.cos(angle[root]), middle * np.sin(angle[root]))
        _spread(root, turn, span, children, width, angle, alone=len(roots) == 1)
        turn -= span
    for node, direction in angle.items():
        if node not in point:
            radius = radii[depth[node] - 1]
            point[node] = (radius * np.cos(direction), radius * np.sin(direction))
    point = _relax(point, angle, edges, strength, marks, tree, radii, depth, roots)
    largest = max([float(np.hypot(*spot)) for spot in point.values()], default=1.0) or 1.0
    nodes = np.zeros((len(tree.hops), 2))
    for node in visible:
        nodes[node] = np.array(point[node]) / largest
    at_marks = np.array([point[mark] for mark in marks.values()]).reshape(-1, 2) / largest
    for mark, members in zip(at_marks, folds.values(), strict=True):
        nodes[members] = open_flower(mark, len(members))
    return Rings(_round(nodes), _round(at_marks), tuple(round(radius / largest, 6) for radius in radii))


def _sum_branches(children: dict[int, list[int]], weight: Array, tops: Sequence[int]) -> dict[int, float]:
    """Return the weight of each node and of all that is behind it, for all nodes behind `tops`."""
    total: dict[int, float] = {}
    for node in reversed(_walk(children, tops)):  # Children come before their parents.
        total[node] = float(weight[node]) + sum(total[child] for child in children[node])
    return total


def _choose_radii(children: dict[int, list[int]], depth: dict[int, int], roots: Sequence[int]) -> list[float]:
    """Return radii such that the marks of each ring have room on it, one after the other."""
    counts = np.bincount([depth[node] for node in _walk(children, roots)])
    radii: list[float] = []
    for count in counts[1:].tolist():
        step = max(_NARROWING ** len(radii), _SPACE)
        radii.append(max((radii[-1] if radii else 0.0) + step, count * _SPACE / (2 * np.pi)))
    return radii


def _walk(children: dict[int, list[int]], roots: Sequence[int]) -> list[int]:
    found = list(roots)
    for node in found:
        found.extend(children.get(node, ()))
    return found


def _measure_sectors(
    children: dict[int, list[int]], depth: dict[int, int], radii: list[float], roots: Sequence[int]
) -> dict[int, float]:
    """Return the angle that each node needs for itself and for what is behind it."""
    width: dict[int, float] = {}
    for node in reversed(_walk(children, roots)):
        own = _SPACE / radii[depth[node] - 1] if depth[node] else 0.0
        width[node] = max(own, sum(width[child] for child in children.get(node, ())))
    return width


def _spread(
    root: int,
    turn: float,
    span: float,
    children: dict[int, list[int]],
    width: dict[int, float],
    angle: dict[int, float],
    *,
    alone: bool,
) -> None:
    """Give all that is behind a root its sectors, clockwise from the angle `turn` and within `span`."""
    waiting = [(root, turn, span, alone)]  # A chain may be longer than Python's stack is deep.
    while waiting:
        node, turn, span, is_whole = waiting.pop()
        if node != root:
            angle[node] = turn - span / 2
        below = children.get(node, [])
        if not below:
            continue
        if not is_whole and span > 2 * _WIDEST:
            turn, span = turn - (span - 2 * _WIDEST) / 2, 2 * _WIDEST
        needed = sum(width[child] for child in below)
        if is_whole:
            turn += np.pi * width[below[0]] / needed  # The strongest branch is at the top, and not beside it.
        sectors = []
        for child in below:
            share = span * width[child] / needed
            sectors.append((child, turn, share, False))
            turn -= share
        waiting.extend(reversed(sectors))  # So that the strongest branch is walked first.


def _relax(
    point: dict[int, tuple[float, float]],
    angle: dict[int, float],
    edges: Index,
    strength: Array,
    marks: dict[int, int],
    tree: Tree,
    radii: list[float],
    depth: dict[int, int],
    roots: Sequence[int],
) -> dict[int, tuple[float, float]]:
    """Turn nodes on their rings, so that those that edges join come closer, and all others keep apart.

    It minimises sum_edges w_e |p_i - p_j|^2 + sum_ij c / |p_i - p_j| over the angles, from the sectors as a start, with
    w = 1 for an edge of the tree and from 0.1 to 1 by its strength for any other. Then the strongest branch is turned
    to the top again. A tree stays as it is.
    """
    from scipy.optimize import minimize

    order = list(point)
    number = {node: i for i, node in enumerate(order)}
    pairs = [(number[a], number[b]) for a, b in edges.tolist() if a in number and b in number]
    between = [(a, b) for a, b in pairs if tree.parent[order[a]] != order[b] and tree.parent[order[b]] != order[a]]
    if not between or len(order) < 4:
        return point
    joined = [
        (number[a], number[b], w)
        for (a, b), w in zip(edges.tolist(), strength.tolist(), strict=True)
        if a in number and b in number
    ]
    across_branches = set(between)
    rows = [(a, b, 1.0 if (a, b) not in across_branches else 0.1 + 0.9 * w) for a, b, w in joined]
    rows += [(number[at], number[mark], 1.0) for at, mark in marks.items()]
    source, sink, pull = (np.array(column) for column in zip(*rows, strict=True))
    first, second = np.triu_indices(len(order), 1)
    moved = np.array([i for i, node in enumerate(order) if node not in set(roots)])
    fixed = np.array([point[node] for node in order])
    radius = np.array([radii[depth[order[i]] - 1] for i in moved.tolist()])

    def place_at(angles: Array) -> Array:
        spots = fixed.copy()
        spots[moved] = radius[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return spots

    def measure(angles: Array) -> tuple[float, Array]:
        spots = place_at(angles)
        force = np.zeros_like(spots)
        along = spots[source] - spots[sink]
        energy = float((pull * (along**2).sum(1)).sum())
        np.add.at(force, source, 2 * pull[:, None] * along)
        np.add.at(force, sink, -2 * pull[:, None] * along)
        gap = spots[first] - spots[second]
        length = np.maximum(np.hypot(gap[:, 0], gap[:, 1]), 0.05)
        energy += _PUSH * float((1 / length).sum())
        apart = (_PUSH / length**3)[:, None] * gap
        np.add.at(force, first, -apart)
        np.add.at(force, second, apart)
        energy += float((_ALIKE * spots[common, 0] ** 2).sum())
        force[common, 0] += 2 * _ALIKE * spots[common, 0]
        across = np.stack([-spots[moved, 1], spots[moved, 0]], axis=1)
        return energy, (force[moved] * across).sum(1)

    # The sum of the squares of the distances to both ends of a link is the same all around: so what is joined with both
    # ends is drawn to the line between them, where it does not hide behind one of them.
    ends = [{b if a == number[root] else a for a, b in pairs if number[root] in (a, b)} for root in roots]
    common = sorted(ends[0] & ends[1] - {number[root] for root in roots}) if len(roots) == 2 else []
    # Nodes in one line would stay in it, because nothing pushes them to either side.
    start = np.array([angle[order[i]] for i in moved.tolist()]) + 0.02 * np.sin(1.0 + 2.4 * np.arange(len(moved)))
    # Few nodes may stand in the way of one another on a ring, so they are tried from other sides as well.
    step = np.arange(len(moved))
    turns = [np.pi * np.sin(k * (1.0 + step)) for k in range(1, _STARTS)] if len(order) <= _FEW else []
    with one_thread():
        found = [
            minimize(measure, start + turn, jac=True, method="L-BFGS-B", options={"maxiter": 200})
            for turn in (0.0, *turns)
        ]
    angles = np.round(min(found, key=lambda one: round(float(one.fun), 6)).x, 4)
    if len(roots) == 1:
        strongest = next((i for i, node in enumerate(moved.tolist()) if depth[order[node]] == 1), None)
        angles += 0.0 if strongest is None else np.pi / 2 - angles[strongest]
    spots = place_at(angles)
    return {node: (float(spots[i, 0]), float(spots[i, 1])) for i, node in enumerate(order)}


def open_flower(mark: Array, count: int) -> Array:
    """Return places for the members of a fold, around a point outwards of its mark, at equal distances."""
    step = np.arange(count)
    radius, angle = _PETAL * np.sqrt(step + 0.5), step * np.pi * (3 - np.sqrt(5))
    outwards = mark / max(float(np.hypot(*mark)), 1e-9)
    middle = mark + outwards * _PETAL * np.sqrt(count)
    result: Array = middle + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return result


def _round(points: Array) -> Array:
    result: Array = np.round(points, 6) + 0.0
    return result
