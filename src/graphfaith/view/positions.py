"""Where the nodes of a small graph go on the page, so that distance on paper follows distance in the graph.

Kamada and Kawai's layout, by networkx: it makes sum_ij d_ij^-2 (|p_i - p_j| - d_ij)^2 small, with d a shortest-path
distance that gives room to hubs and to strong edges. The start is not random, so the same graph looks the same. Nodes
are then pushed apart where they would touch, and off strong edges that are not theirs.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial.distance import pdist, squareform

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_FEW = 60
_STRONG, _CLEAR_EDGES = 0.2, 100  # nodes are moved off edges at least so strong, and off at most so many


def place(num_nodes: int, edges: Index, strength: Array, centre: int) -> Array:
    """Positions [n, 2] with node `centre` at the origin, the longer side across, and every coordinate in [-1, 1].

    `edges` is [m, 2] without self-loops; `strength` [m] in [0, 1] says how much an edge matters: strong edges are
    drawn longer, so that what the reader came for gets the room.

    >>> np.abs(place(2, np.array([[0, 1]]), np.array([1.0]), centre=0)).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    if num_nodes < 2:
        return np.zeros((num_nodes, 2))
    distance = _distances(num_nodes, edges, strength, centre)
    results = [_kamada_kawai(_spectral_start(distance), distance)]
    if num_nodes <= _FEW:
        # Cheap here, and a small graph shows every fold; the lowest stress wins.
        results.append(_kamada_kawai(None, distance))
    best = min(results, key=lambda result: round(result[1], 6))[0]
    return _normalise(_spread(_across(best), edges, strength, centre), centre)


def _distances(num_nodes: int, edges: Index, strength: Array, centre: int) -> Array:
    """Shortest paths [n, n], where an edge at a hub is longer (its many leaves need the circumference)."""
    degree = np.bincount(edges.ravel(), minlength=num_nodes).astype(np.float64)
    crowd = np.sqrt(degree)[edges].sum(1) if len(edges) else np.zeros(0)
    length = (1.0 + 0.15 * crowd) * (0.75 + 0.25 * np.sqrt(strength))
    ends = edges.T if len(edges) else np.zeros((2, 0), dtype=np.int64)
    graph = coo_array((length, (ends[0], ends[1])), shape=(num_nodes, num_nodes)).tocsr()
    distance = dijkstra(graph, directed=False)
    # Pieces that hang on nothing shown go to the rim of the piece that holds the centre.
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


def _spectral_start(distance: Array) -> Array:
    """Classical scaling: the two directions along which the distances vary most."""
    squared = distance**2
    centred = squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean()
    values, vectors = np.linalg.eigh(-0.5 * centred)
    top = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 1e-12))
    # An eigenvector's sign is arbitrary; fix it so that the picture is not a mirror image next time.
    largest = top[np.abs(top).argmax(0), np.arange(2)]
    # Symmetric leaves coincide here; a spiral far below one edge length lets them part.
    result: Array = top * np.where(largest < 0, -1.0, 1.0) + 0.05 * _spiral(len(distance))
    return result


def _spiral(num_nodes: int) -> Array:
    """Points that never coincide, spread by the golden angle."""
    step = np.arange(num_nodes)
    radius, angle = np.sqrt((step + 0.5) / num_nodes), step * np.pi * (3 - np.sqrt(5))
    result: Array = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return result


def _kamada_kawai(start: Array | None, distance: Array) -> tuple[Array, float]:
    """Networkx's layout from a start (a circle if None), at the scale of the distances, and the stress it reached."""
    pieces = nx.empty_graph(len(distance))
    table = {node: dict(enumerate(row)) for node, row in enumerate(distance)}
    found = nx.kamada_kawai_layout(pieces, dist=table, pos=None if start is None else dict(enumerate(start)))
    points = np.array([found[node] for node in range(len(distance))])
    wanted, actual = squareform(distance, checks=False), pdist(points)
    weight = wanted**-2
    scale = float((weight * wanted * actual).sum() / max(float((weight * actual**2).sum()), 1e-12))
    return scale * points, float((weight * (scale * actual - wanted) ** 2).sum())


def _across(points: Array) -> Array:
    """Turn the longest direction across: panels stand side by side, so height is dear."""
    centred = points - points.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes * np.where(axes[np.arange(2), np.abs(axes).argmax(1)] < 0, -1.0, 1.0)[:, None]
    result: Array = centred @ axes.T
    return result


def _spread(points: Array, edges: Index, strength: Array, centre: int, steps: int = 60) -> Array:
    """Push apart nodes that lie closer than an even filling of the picture would put them, and off strong edges.

    A disc on somebody else's edge would seem to be its end, and its white would make a solid line look dashed.
    """
    side = np.maximum(np.ptp(points, axis=0), 1e-9)
    crowded = len(points) > _FEW
    room = (0.55 if crowded else 0.42) * float(np.sqrt(max(side[0] * side[1], 0.1 * side.max() ** 2) / len(points)))
    share = np.ones(len(points))
    share[centre] = 2.0 if crowded else 1.2  # the explained node is drawn larger
    wanted = room * (share[:, None] + share[None, :]) / 2
    strong = edges[np.argsort(-strength, kind="stable")[:_CLEAR_EDGES]]
    strong = strong[np.sort(-strength, kind="stable")[:_CLEAR_EDGES] < -_STRONG]
    for _ in range(steps):
        gap = points[:, None] - points[None]
        length = np.linalg.norm(gap, axis=-1)
        np.fill_diagonal(length, np.inf)
        push = np.maximum(wanted - length, 0.0) / 2 / np.maximum(length, 1e-9)
        move = 0.5 * (push[:, :, None] * gap).sum(1) + 0.5 * _off_edges(points, strong, 0.55 * room)
        points = points + move
        if np.abs(move).max() < 0.01 * room:
            break
    return points


def _off_edges(points: Array, edges: Index, room: float) -> Array:
    """[n, 2] the way off the edges that a node lies on without being an end of."""
    start, along = points[edges[:, 0]], points[edges[:, 1]] - points[edges[:, 0]]
    offset = points[:, None] - start[None]  # [n, k, 2]
    share = (offset * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-12)
    away = offset - np.clip(share, 0, 1)[:, :, None] * along
    length = np.linalg.norm(away, axis=-1)
    nodes = np.arange(len(points))[:, None]
    foreign = (nodes != edges[:, 0]) & (nodes != edges[:, 1]) & (share > 0) & (share < 1)
    push = np.where(foreign, np.maximum(room - length, 0.0), 0.0) / np.maximum(length, 1e-9)
    move = (push[:, :, None] * away).sum(1)
    # Between many edges the pushes add up; none should throw a node across the picture.
    size = np.linalg.norm(move, axis=1, keepdims=True)
    result: Array = move * np.minimum(1.0, room / np.maximum(size, 1e-12))
    return result


def _normalise(points: Array, centre: int) -> Array:
    """The centre at the origin and the farthest coordinate at 1; rounded, so that noise in the last bit is gone."""
    moved = points - points[centre]
    result: Array = np.round(moved / max(float(np.abs(moved).max()), 1e-12), 6) + 0.0
    return result
