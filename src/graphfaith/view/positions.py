"""Positions of the nodes of a small graph in the picture, such that distances follow distances in the graph.

The layout is Kamada and Kawai's, computed by networkx. It minimises sum_ij d_ij^-2 (|p_i - p_j| - d_ij)^2, where d is
a shortest-path distance that gives room to hubs and to strong edges. The start is not random, so the same graph always
gets the same picture. Afterwards nodes that would touch are pushed apart, and nodes are pushed away from strong edges
of other nodes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial.distance import pdist, squareform

from .._base.threads import one_thread

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_FEW = 60  # graphs with more nodes than this count as crowded
# Nodes are pushed away from edges that are stronger than _STRONG, but from at most _CLEAR_EDGES of them.
_STRONG, _CLEAR_EDGES = 0.2, 100


def place(num_nodes: int, edges: Index, strength: Array, centre: int) -> Array:
    """Return positions [n, 2] in [-1, 1] with node `centre` at the origin and the longer side horizontal.

    `edges` is [m, 2] without self-loops, and `strength` [m] in [0, 1] is the importance of each edge. Strong edges are
    drawn longer, so that the important part of the graph gets more room.

    >>> np.abs(place(2, np.array([[0, 1]]), np.array([1.0]), centre=0)).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    if num_nodes < 2:
        return np.zeros((num_nodes, 2))
    with one_thread():
        distance = _compute_distances(num_nodes, edges, strength, centre)
        results = [_run_kamada_kawai(_scale_classically(distance), distance)]
        if num_nodes <= _FEW:
            # In a small graph every crossing is visible, and a second run is cheap. The one with less stress is taken.
            results.append(_run_kamada_kawai(None, distance))
        best = min(results, key=lambda result: round(result[1], 6))[0]
        return _normalise(_spread(_turn_across(best), edges, strength, centre), centre)


def _compute_distances(num_nodes: int, edges: Index, strength: Array, centre: int) -> Array:
    """Return shortest-path lengths [n, n].

    The length of edge ij is (1 + 0.15 (sqrt(degree_i) + sqrt(degree_j))) (0.75 + 0.25 sqrt(strength_ij)). Edges at a
    hub are longer because its many neighbours need a longer circumference.
    """
    degree = np.bincount(edges.ravel(), minlength=num_nodes).astype(np.float64)
    crowd = np.sqrt(degree)[edges].sum(1) if len(edges) else np.zeros(0)
    length = (1.0 + 0.15 * crowd) * (0.75 + 0.25 * np.sqrt(strength))
    # Earlier versions of scipy walk over graphs of 32-bit numbers alone.
    ends = edges.T.astype(np.int32) if len(edges) else np.zeros((2, 0), dtype=np.int32)
    graph = coo_array((length, (ends[0], ends[1])), shape=(num_nodes, num_nodes)).tocsr()
    distance = dijkstra(graph, directed=False)
    # Components without the centre are put at the rim of the component that contains it.
    pieces, piece = connected_components(graph, directed=False)
    if pieces > 1:
        home = distance[centre][piece == piece[centre]]
        rim = max(float(np.quantile(home, 0.9)), 1.0) + 0.5
        inside = np.where(np.isfinite(distance), distance, 0.0).max(axis=1)
        reach = np.where(piece == piece[centre], distance[centre], rim + 0.5 * inside)
        apart = np.sqrt(reach[:, None] ** 2 + reach[None, :] ** 2)
        distance = np.where(np.isfinite(distance), distance, np.maximum(apart, 1.0))
    result: Array = distance
    return result


def _scale_classically(distance: Array) -> Array:
    """Return start positions by classical scaling: the two directions along which the distances vary most."""
    squared = distance**2
    centred = squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean()
    values, vectors = np.linalg.eigh(-0.5 * centred)
    top = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 1e-12))
    # The sign of an eigenvector is arbitrary. It is fixed here, so that the picture is never mirrored in another run.
    largest = top[np.abs(top).argmax(0), np.arange(2)]
    # Symmetric leaves have the same position here. A spiral much smaller than an edge separates them.
    result: Array = top * np.where(largest < 0, -1.0, 1.0) + 0.05 * _make_spiral(len(distance))
    return result


def _make_spiral(num_nodes: int) -> Array:
    """Return distinct points on a spiral; the angle between consecutive points is the golden angle."""
    step = np.arange(num_nodes)
    radius, angle = np.sqrt((step + 0.5) / num_nodes), step * np.pi * (3 - np.sqrt(5))
    result: Array = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return result


def _run_kamada_kawai(start: Array | None, distance: Array) -> tuple[Array, float]:
    """Return the layout that networkx computes from a start (a circle if None), and its stress.

    The layout is scaled to fit the distances. The stress is sum_ij d_ij^-2 (|p_i - p_j| - d_ij)^2.
    """
    # networkx is imported here because `import graphfaith` should not load it.
    import networkx as nx

    graph = nx.empty_graph(len(distance))
    table = {node: dict(enumerate(row)) for node, row in enumerate(distance)}
    positions = nx.kamada_kawai_layout(graph, dist=table, pos=None if start is None else dict(enumerate(start)))
    points = np.array([positions[node] for node in range(len(distance))])
    wanted, actual = squareform(distance, checks=False), pdist(points)
    weight = wanted**-2
    scale = float((weight * wanted * actual).sum() / max(float((weight * actual**2).sum()), 1e-12))
    return scale * points, float((weight * (scale * actual - wanted) ** 2).sum())


def _turn_across(points: Array) -> Array:
    """Turn the longest direction to the horizontal, because panels are wider than they are high."""
    centred = points - points.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes * np.where(axes[np.arange(2), np.abs(axes).argmax(1)] < 0, -1.0, 1.0)[:, None]
    result: Array = centred @ axes.T
    return result


def _spread(points: Array, edges: Index, strength: Array, centre: int, steps: int = 60) -> Array:
    """Push nodes apart that are closer than in an even filling of the picture, and away from strong edges.

    A disc on an edge of other nodes would look like an end of that edge, and a solid line that it interrupts would
    look dashed.
    """
    side = np.maximum(np.ptp(points, axis=0), 1e-9)
    crowded = len(points) > _FEW
    room = (0.55 if crowded else 0.42) * float(np.sqrt(max(side[0] * side[1], 0.1 * side.max() ** 2) / len(points)))
    share = np.ones(len(points))
    share[centre] = 2.0 if crowded else 1.2  # The explained node is drawn larger than the others.
    wanted = room * (share[:, None] + share[None, :]) / 2
    strong = edges[np.argsort(-strength, kind="stable")[:_CLEAR_EDGES]]
    strong = strong[np.sort(-strength, kind="stable")[:_CLEAR_EDGES] < -_STRONG]
    for _ in range(steps):
        gap = points[:, None] - points[None]
        length = np.linalg.norm(gap, axis=-1)
        np.fill_diagonal(length, np.inf)
        push = np.maximum(wanted - length, 0.0) / 2 / np.maximum(length, 1e-9)
        move = 0.5 * (push[:, :, None] * gap).sum(1) + 0.5 * _push_off_edges(points, strong, 0.55 * room)
        points = points + move
        if np.abs(move).max() < 0.01 * room:
            break
    return points


def _push_off_edges(points: Array, edges: Index, room: float) -> Array:
    """Return the movements [n, 2] of nodes away from edges that are nearer than `room` and do not end at the node."""
    start, along = points[edges[:, 0]], points[edges[:, 1]] - points[edges[:, 0]]
    offset = points[:, None] - start[None]  # [n, k, 2]
    share = (offset * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-12)
    away = offset - np.clip(share, 0, 1)[:, :, None] * along
    length = np.linalg.norm(away, axis=-1)
    nodes = np.arange(len(points))[:, None]
    foreign = (nodes != edges[:, 0]) & (nodes != edges[:, 1]) & (share > 0) & (share < 1)
    push = np.where(foreign, np.maximum(room - length, 0.0), 0.0) / np.maximum(length, 1e-9)
    move = (push[:, :, None] * away).sum(1)
    # The pushes of many edges add up, so the total is limited to `room`.
    size = np.linalg.norm(move, axis=1, keepdims=True)
    result: Array = move * np.minimum(1.0, room / np.maximum(size, 1e-12))
    return result


def _normalise(points: Array, centre: int) -> Array:
    """Move the centre to the origin and scale the largest coordinate to 1; round, to remove noise in the last bits."""
    moved = points - points[centre]
    result: Array = np.round(moved / max(float(np.abs(moved).max()), 1e-12), 6) + 0.0
    return result
