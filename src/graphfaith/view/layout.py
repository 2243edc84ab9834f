"""One layout for every output: which nodes and edges of a graph to show, where they go, and each panel's scores.

Figure, page and notebook draw the same `Layout`, so that a node stands in the same place in every panel and in every
medium. Choosing is a few tensor operations on the whole graph; Python objects are made only for what is shown.

Two opposite edges. In a graph where every shown edge has its opposite (an undirected graph, as PyG stores it) the two
are *merged* into one undirected link whose score is the sum of both: the derivative with respect to the weight of the
undirected edge, which is what a reader takes one line to mean. Otherwise the graph is directed, every edge keeps its
own score and direction, and outputs must draw opposite edges so that both are seen (the figure bows them apart).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base.errors import InputError
from .positions import Array, Index, place
from .scores import Scores, read

MOST_NODES = 2000  # placing takes memory in the square of it, and nobody can read more


@dataclass(frozen=True)
class Panel:
    """One explanation's scores on the shared layout, scaled to [-1, 1] by the panel's own largest.

    Nodes have one scale, edges and self-loops (both are weights in A) another. A scale of 0 says that there is no
    score of that kind, or that all are zero. Multiply by the scale to get the score back.
    """

    title: str
    subtitle: str
    explained: tuple[int, ...]  # places in Layout.nodes
    nodes: Array  # [n]
    node_scale: float
    edges: Array  # [m]
    loops: Array  # [n]
    edge_scale: float
    features: tuple[tuple[str, float], ...]  # strongest first, scaled
    feature_columns: tuple[int, ...]  # which they are: two may have one name
    feature_scores: Array | None  # [d] of all features, not scaled; None if it scores none
    feature_scale: float
    neighborhood: str
    faithfulness: str
    relative: float | None  # Delta(p) / Delta(0), and its standard error
    relative_stderr: float | None


@dataclass(frozen=True)
class Layout:
    """What is shown, and where; `edges` [m, 2] and `Panel.explained` count in `nodes`, not in the whole graph."""

    nodes: Index  # [n] ids in the whole graph, ascending
    names: tuple[str, ...]
    positions: Array  # [n, 2] in [-1, 1], the explained node at the origin
    relevance: Array  # [n] largest scaled |score| over panels, of the node or of an edge at it
    edges: Index  # [m, 2]; if not directed, each pair once with the smaller place first
    directed: bool
    num_scored: int  # nodes that would be shown if there were room
    panels: tuple[Panel, ...]
    fixed: bool  # whether the positions were given, and not found
    stars: tuple[int, ...]  # places of nodes with a star

    @property
    def cut(self) -> str:
        """What to tell the reader when not everything is shown, for example '300 of 512 shown'."""
        return f"{len(self.nodes)} of {self.num_scored} shown" if len(self.nodes) < self.num_scored else ""


def lay_out(
    explanations: Any,
    *,
    titles: Sequence[str] | None = None,
    max_nodes: int = 300,
    max_features: int | None = None,
    directed: bool | None = None,
    positions: Any = None,
    stars: Sequence[int] = (),
) -> Layout:
    """Choose and place what to show of one explanation or several of the same graph.

    Shown are the explained nodes and, of the nodes that have a non-zero score themselves or on an edge in any panel,
    the `max_nodes` with the largest; and every edge between two nodes shown. `max_features` features are listed a
    panel: by default five when the explanation names its features or scores nothing else, otherwise none.

    With `positions` [N, 2], x to the right and y up, nodes stand there, and those without a score are shown too.
    Nodes in `stars` get a star.

    >>> from torch_geometric.explain import Explanation
    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> layout = lay_out(Explanation(edge_index=path, edge_mask=torch.tensor([0.5, 0.5, -2.0, 0.0]), index=1))
    >>> layout.edges.tolist(), layout.panels[0].edges.tolist(), layout.panels[0].edge_scale
    ([[0, 1], [1, 2]], [0.5, -1.0], 2.0)
    """
    given = _as_list(explanations)
    if titles is not None and len(titles) != len(given):
        raise InputError(f"{len(titles)} titles for {len(given)} explanations")
    if not 1 <= max_nodes <= MOST_NODES:
        raise InputError(f"max_nodes must be between 1 and {MOST_NODES}, not {max_nodes}")
    scores = [read(explanation) for explanation in given]
    num_nodes = _common_num_nodes(scores)
    relevance = _relevance(scores, num_nodes)
    explained = sorted({node for one in scores for node in one.explained})
    given_places = None if positions is None else _check_positions(positions, num_nodes)
    for node in stars:
        if not 0 <= node < num_nodes:
            raise InputError(f"there is no node {node} to put a star on: the graph has {num_nodes}")
    wanted = [*explained, *stars] if given_places is None else range(num_nodes)
    nodes, num_scored = _choose(relevance, explained, wanted, max_nodes)
    place_of = torch.full((num_nodes,), -1, dtype=torch.long)
    place_of[nodes] = torch.arange(len(nodes))

    edges, weights, is_directed = _shared_edges(scores, place_of, len(nodes), directed)
    panels = tuple(
        _panel(one, nodes, place_of, weight, _title(one, titles, i, len(given)), max_features)
        for i, (one, weight) in enumerate(zip(scores, weights, strict=True))
    )
    explained_places = [place for panel in panels for place in panel.explained]
    centre = explained_places[0] if explained_places else _first_max(relevance[nodes])
    strength = np.abs(np.stack([panel.edges for panel in panels])).mean(0)
    return Layout(
        nodes=nodes.numpy(),
        names=_node_names(scores, nodes.tolist()),
        positions=place(len(nodes), edges, strength, centre) if given_places is None else given_places[nodes.numpy()],
        relevance=relevance[nodes].numpy(),
        edges=edges,
        directed=is_directed,
        num_scored=num_scored,
        panels=panels,
        fixed=given_places is not None,
        stars=tuple(int(place_of[node]) for node in stars if place_of[node] >= 0),
    )


def _check_positions(positions: Any, num_nodes: int) -> Array:
    """The positions, within -1 and 1 around the middle."""
    try:
        points = np.array(positions, dtype=np.float64)
    except (TypeError, ValueError):
        points = np.empty(0)
    if points.shape != (num_nodes, 2) or not np.isfinite(points).all():
        raise InputError(f"positions must be finite numbers [{num_nodes}, 2], x and y of every node")
    points = points - (points.min(0) + points.max(0)) / 2
    result: Array = points / max(float(np.abs(points).max()), 1e-12)
    return result


def _first_max(values: Tensor) -> int:
    return int(values.argmax()) if values.numel() else 0


def _as_list(explanations: Any) -> list[Any]:
    given = list(explanations) if isinstance(explanations, list | tuple) else [explanations]
    if not given:
        raise InputError("there is no explanation to show: the list is empty")
    return given


def _common_num_nodes(scores: Sequence[Scores]) -> int:
    known = {one.num_nodes for one in scores if one.num_nodes_known}
    largest = max(one.num_nodes for one in scores)
    if largest == 0:
        raise InputError("the graph has no nodes")
    if len(known) > 1 or (known and max(known) < largest):
        sizes = ", ".join(str(one.num_nodes) for one in scores)
        raise InputError(f"panels must explain the same graph, but their graphs have {sizes} nodes")
    return largest


def _scaled(values: Tensor) -> Tensor:
    largest = values.max() if values.numel() else values.new_zeros(())
    return values / largest if float(largest) > 0 else values


def _relevance(scores: Sequence[Scores], num_nodes: int) -> Tensor:
    """[N] the largest |score| of a node, its self-loop or an edge at it, as a share of its panel's; mean over panels.

    The mean, because a method that rates everything high would otherwise decide alone what is shown.
    """
    relevance = torch.zeros(num_nodes, dtype=torch.float64)
    for one in scores:
        largest = torch.zeros_like(relevance)
        for values in (one.node, one.loop):
            if values is not None:
                part = largest[: len(values)]
                torch.maximum(part, _scaled(values.abs()), out=part)
        if one.edge is not None:
            strength = _scaled(one.edge.abs())
            for end in one.edge_index:
                largest.scatter_reduce_(0, end, strength, "amax")
        relevance += largest / len(scores)
    return relevance


def _choose(relevance: Tensor, explained: Sequence[int], wanted: Sequence[int], max_nodes: int) -> tuple[Tensor, int]:
    """Ids to show, ascending, and how many nodes asked to be shown. Ties go to the smaller id."""
    rank, asks = relevance.clone(), relevance != 0
    rank[list(explained)] = torch.inf
    asks[list(wanted)] = True
    asks[list(explained)] = True
    asked = asks.nonzero().reshape(-1)
    best = asked[rank[asked].sort(descending=True, stable=True).indices[:max_nodes]]
    return best.sort().values, len(asked)


def _shared_edges(
    scores: Sequence[Scores], place_of: Tensor, count: int, directed: bool | None
) -> tuple[Index, list[Tensor], bool]:
    """The union of the panels' edges between shown nodes [m, 2], each panel's score on them [m], and directedness."""
    kept = []
    for one in scores:
        ends = place_of[one.edge_index]
        inside = (ends >= 0).all(0)
        values = torch.zeros(one.edge_index.size(1), dtype=torch.float64) if one.edge is None else one.edge
        kept.append((ends[:, inside], values[inside]))
    keys = [ends[0] * count + ends[1] for ends, _ in kept]
    if directed is None:
        forward = torch.unique(torch.cat(keys))
        directed = not torch.equal(forward, ((forward % count) * count + forward // count).sort().values)
    if not directed:
        keys = [ends.min(0).values * count + ends.max(0).values for ends, _ in kept]
    union = torch.unique(torch.cat(keys))
    weights = []
    for key, (_, values) in zip(keys, kept, strict=True):
        weight = torch.zeros(len(union), dtype=torch.float64)
        weights.append(weight.index_add_(0, torch.searchsorted(union, key), values))
    return torch.stack([union // count, union % count], dim=1).numpy(), weights, directed


def _panel(one: Scores, nodes: Tensor, place_of: Tensor, edges: Tensor, title: str, max_features: int | None) -> Panel:
    node, node_scale = _unit(_at(one.node, nodes))
    both, edge_scale = _unit(torch.cat([edges, _at(one.loop, nodes)]))
    features, columns, feature_scale = _features(one, max_features)
    places = (int(place_of[i]) for i in one.explained)
    return Panel(
        title=title,
        subtitle=" · ".join(part for part in (one.neighborhood, one.faithfulness) if part),
        explained=tuple(i for i in places if i >= 0),
        nodes=node,
        node_scale=node_scale,
        edges=both[: len(edges)],
        loops=both[len(edges) :],
        edge_scale=edge_scale,
        features=features,
        feature_columns=columns,
        feature_scores=None if one.feature is None else one.feature.numpy(),
        feature_scale=feature_scale,
        neighborhood=one.neighborhood,
        faithfulness=one.faithfulness,
        relative=one.relative,
        relative_stderr=one.relative_stderr,
    )


def _at(values: Tensor | None, nodes: Tensor) -> Tensor:
    if values is None:
        return torch.zeros(len(nodes), dtype=torch.float64)
    # A panel whose graph was only counted from its ids may know fewer nodes than its neighbours do.
    result = torch.zeros(len(nodes), dtype=torch.float64)
    inside = nodes < len(values)
    result[inside] = values[nodes[inside]]
    return result


def _unit(values: Tensor) -> tuple[NDArray[np.float64], float]:
    scale = float(values.abs().max()) if values.numel() else 0.0
    return (values / scale if scale > 0 else values).numpy(), scale


def _features(one: Scores, max_features: int | None) -> tuple[tuple[tuple[str, float], ...], tuple[int, ...], float]:
    if one.feature is None:
        return (), (), 0.0
    if max_features is None:
        max_features = 5 if one.feature_names is not None or (one.node is None and one.edge is None) else 0
    order = one.feature.abs().sort(descending=True, stable=True).indices[: max(max_features, 0)]
    order = order[one.feature[order] != 0]
    values, scale = _unit(one.feature[order])
    names, columns = one.feature_names, tuple(order.tolist())
    named = [str(names[i]) if names is not None else f"feature {i}" for i in columns]
    return tuple(zip(named, values.tolist(), strict=True)), columns, scale


def _title(one: Scores, titles: Sequence[str] | None, position: int, count: int) -> str:
    if titles is not None:
        return str(titles[position])
    return one.method or (f"Explanation {position + 1}" if count > 1 else "")


def _node_names(scores: Sequence[Scores], ids: Sequence[int]) -> tuple[str, ...]:
    names = next((one.node_names for one in scores if one.node_names is not None), None)
    return tuple(str(i) if names is None else str(names[i]) for i in ids)
