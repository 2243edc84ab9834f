"""One layout for every output: which nodes and edges of a graph to show, where to place them, and each panel's scores.

Figure, page and notebook draw the same `Layout`, so that a node stands in the same place in every panel and in every
medium. To choose what is shown takes a few tensor operations on the whole graph; Python objects are made only for the
chosen nodes and edges.

Two opposite edges: in a graph where every shown edge has its opposite (an undirected graph, as PyG stores it) the two
are *merged* into one undirected link. Its score is the sum of both, the derivative with respect to the weight of the
undirected edge, because that is how a reader understands one line. Otherwise the graph is directed, every edge keeps
its own score and direction, and outputs must draw opposite edges so that both are seen (the figure bows them apart).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.explain import Explanation

from .._base.errors import InputError
from ..explanation.agreement import agreement_of
from ..explanation.faithfulness import NOT_MEASURED, Faithfulness, known_faithfulness
from ..explanation.scores import Scores, edge_index_of, kinds_of, orders_of, read_scores, task_level
from ..explanation.trust import Trust, make_trust
from ..explanation.words import Headline, headline_of
from ..surrogate.estimate import Kind
from .arrangement import arrange, make_folds
from .folds import MOST_MARKS, Fold
from .labels import describe_route
from .positions import Array, Index

MOST_NODES = 2000  # The memory to place nodes grows with the square of their number, and nobody can read more.


@dataclass(frozen=True)
class Panel:
    """One explanation's scores on the shared layout, scaled to [-1, 1] by the panel's own largest score.

    Nodes have one scale, edges and self-loops (both are weights in A) another. A scale of 0 says that there is no
    score of that kind, or that all are zero. A scaled score times the scale is the score.
    """

    title: str
    explained: tuple[int, ...]  # places in Layout.nodes
    nodes: Array  # [n]
    node_scale: float
    edges: Array  # [m]
    loops: Array  # [n]
    edge_scale: float
    features: tuple[tuple[str, float], ...]  # strongest first, scaled
    feature_columns: tuple[int, ...]  # their columns, since two features may have the same name
    feature_scores: Array | None  # [d] of all features, not scaled; None if no feature is scored
    feature_scale: float
    neighborhood: str  # of the fit, or else of the measurement
    faithfulness: Faithfulness | None  # None if nothing is known of the scores that are shown
    by_kind: dict[Kind, Faithfulness | None]  # the number about each kind of scores that the explanation has
    headline: Headline
    trust: Trust | None  # None if nothing was measured
    carried: float | None  # the share of the scores' weight that the edges drawn at first sight have
    route: str = ""  # what A is, in words; "" if it is not known

    @property
    def share(self) -> str:
        """What is known of the faithfulness, in words that stand beside :attr:`neighborhood`."""
        if self.faithfulness is None:
            return ""
        # A method may be fitted in one neighbourhood and measured in another: then the text names the latter.
        measured_here = self.faithfulness.neighborhood == self.neighborhood
        return self.faithfulness.short if measured_here else str(self.faithfulness)

    def note(self, kind: Kind) -> str:
        """What is to be said beside the scores of a kind; '' where :attr:`faithfulness` is the number about them."""
        known = self.by_kind.get(kind)
        if known is None:
            return NOT_MEASURED
        return "" if known == self.faithfulness else str(known)

    def is_drawn(self, kind: Kind) -> bool:
        """Whether a figure draws the scores of a kind: those that were measured, or all if none was."""
        return self.by_kind.get(kind) is not None or not any(self.by_kind.values())

    @property
    def subtitle(self) -> str:
        """The neighbourhood and the faithfulness, as one line under the title."""
        return " · ".join(part for part in (self.neighborhood, self.share) if part)


@dataclass(frozen=True)
class Layout:
    """What is shown, and where; `edges` and `Panel.explained` hold places in `nodes`, not ids of the whole graph."""

    nodes: Index  # [n] ids in the whole graph, ascending
    names: tuple[str, ...]
    positions: Array  # [n, 2] in [-1, 1], the explained node at the origin; only members of folds may be farther out
    relevance: Array  # [n] largest scaled |score| over panels, of the node or of an edge at it
    edges: Index  # [m, 2]; if not directed, each pair once with the smaller place first
    directed: bool
    num_scored: int  # nodes that would be shown if there were room for all
    panels: tuple[Panel, ...]
    fixed: bool  # whether the positions were given by the caller
    stars: tuple[int, ...]  # places of nodes with a star
    level: str  # "node", "edge" or "graph": what is explained
    hops: Index  # [n] from the explained nodes; -1 for what cannot be reached
    rings: tuple[float, ...]  # radii of the hops; empty if the layout is one of the whole graph
    folds: tuple[Fold, ...]  # what is not drawn at first sight
    agreement: list[list[float | None]]  # of the panels, see `agreement_of`
    kinds: tuple[str | None, ...] | None = None  # [n] elements of atoms, if given
    orders: tuple[float | None, ...] | None = None  # [m] orders of bonds, if given

    @property
    def visible(self) -> NDArray[np.bool_]:
        """Which nodes are drawn at first sight, [n]: those in no fold."""
        shown = np.ones(len(self.nodes), dtype=bool)
        for fold in self.folds:
            shown[list(fold.members)] = False
        return shown

    @property
    def visible_edges(self) -> NDArray[np.bool_]:
        """Which edges are drawn at first sight, [m]."""
        ends = self.visible[self.edges]
        return np.logical_and(ends[:, 0], ends[:, 1])

    @property
    def cut(self) -> str:
        """A note for the reader where not everything is shown, for example '300 of 512 shown'; '' otherwise."""
        shown = len(self.nodes) + sum(fold.count for fold in self.folds if not fold.members)
        return f"{shown} of {self.num_scored} shown" if shown < self.num_scored else ""


def lay_out(
    explanations: Any,
    *,
    titles: Sequence[str] | None = None,
    max_nodes: int = 300,
    max_features: int | None = None,
    directed: bool | None = None,
    positions: Any = None,
    stars: Sequence[int] = (),
    fold: bool = True,
) -> Layout:
    """Choose and place what to show of one explanation or several of the same graph.

    The layout shows the explained nodes and, of the nodes with a score of their own or on an edge in any panel, the
    `max_nodes` with the largest scores; and every edge between two shown nodes. `max_features` features are listed in
    each panel: by default five if the explanation names its features or scores nothing else, otherwise none.

    With `positions` [N, 2], x to the right and y up, nodes stand there, and nodes without a score are shown too. Nodes
    in `stars` get a star. Unless `fold` is false, what says little of a large graph is folded away (:class:`Fold`).

    >>> from torch_geometric.explain import Explanation
    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> layout = lay_out(Explanation(edge_index=path, edge_mask=torch.tensor([0.5, 0.5, -2.0, 0.0]), index=1))
    >>> layout.edges.tolist(), layout.panels[0].edges.tolist(), layout.panels[0].edge_scale
    ([[0, 1], [1, 2]], [0.5, -1.0], 2.0)
    """
    shown = _as_list(explanations)
    if titles is not None and len(titles) != len(shown):
        raise InputError(f"{len(titles)} titles for {len(shown)} explanations")
    if not 1 <= max_nodes <= MOST_NODES:
        raise InputError(f"max_nodes must be between 1 and {MOST_NODES} (got {max_nodes})")
    scores = [_read(explanation) for explanation in shown]
    num_nodes = _common_num_nodes(scores)
    relevance = _relevance(scores, num_nodes)
    explained = sorted({node for panel_scores in scores for node in panel_scores.explained})
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
        _panel(
            explanation,
            panel_scores,
            *known_faithfulness(explanation),
            nodes,
            place_of,
            weight,
            title=_title(panel_scores, titles, i, len(shown)),
            max_features=max_features,
        )
        for i, (explanation, panel_scores, weight) in enumerate(zip(shown, scores, weights, strict=True))
    )
    roots = list(dict.fromkeys(place for panel in panels for place in panel.explained))
    level = task_level(shown[0])
    starred = tuple(int(place_of[node]) for node in stars if place_of[node] >= 0)
    strength = np.abs(np.stack([panel.edges for panel in panels])).mean(0)
    arranged = arrange(
        edges,
        strength,
        np.stack([_weigh_nodes(panel) for panel in panels]).mean(0),
        roots=roots,
        centre=roots[0] if roots else _first_max(relevance[nodes]),
        wanted=starred,
        about=level != "graph",
        small=num_nodes <= MOST_MARKS,
        fold=fold,
        given=None if given_places is None else given_places[nodes.numpy()],
    )
    names = _node_names(scores, nodes.tolist())
    edge_scores = [panel.edges * panel.edge_scale if panel.edge_scale else None for panel in panels]
    folds = make_folds(arranged, edges, edge_scores, names)
    kinds, orders = _read_kinds(shown[0], nodes, edges, place_of)
    layout = Layout(
        nodes=nodes.numpy(),
        names=names,
        positions=arranged.positions,
        relevance=relevance[nodes].numpy(),
        edges=edges,
        directed=is_directed,
        num_scored=num_scored,
        panels=panels,
        fixed=given_places is not None,
        stars=starred,
        level=level,
        hops=arranged.tree.hops,
        rings=arranged.rings,
        folds=folds,
        agreement=agreement_of(scores, directed=is_directed),
        kinds=kinds,
        orders=orders,
    )
    seen = layout.visible_edges
    carried = [_measure_carried(one, panel, seen, is_directed) for one, panel in zip(scores, panels, strict=True)]
    return replace(
        layout, panels=tuple(replace(panel, carried=share) for panel, share in zip(panels, carried, strict=True))
    )


def _weigh_nodes(panel: Panel) -> Array:
    """Return what nodes add by themselves, [n]: their self-loops, and their features if these were measured."""
    weight: Array = np.abs(panel.loops)
    if panel.by_kind.get("features") is not None or not panel.edge_scale:
        weight = weight + np.abs(panel.nodes)
    return weight


def _measure_carried(scores: Scores, panel: Panel, seen: NDArray[np.bool_], directed: bool) -> float | None:
    """Return which share of the sum of |score| over all edges of the explanation the seen edges have."""
    if scores.edge is None or not bool(scores.edge.any()):
        return None
    scored = scores.edge != 0
    ends, values = scores.edge_index[:, scored], scores.edge[scored]
    if not directed:
        ends = ends.sort(dim=0).values
    keys, group = torch.unique(ends[0] * scores.num_nodes + ends[1], return_inverse=True)
    total = float(torch.zeros(len(keys), dtype=torch.float64).index_add_(0, group, values).abs().sum())
    carried = float(np.abs(panel.edges[seen]).sum() * panel.edge_scale)
    return min(carried / total, 1.0) if total else None


def _read_kinds(
    explanation: Any, nodes: Tensor, edges: Index, place_of: Tensor
) -> tuple[tuple[str | None, ...] | None, tuple[float | None, ...] | None]:
    """Return the elements of the shown atoms and the orders of the shown bonds, if they were given."""
    kinds, orders = kinds_of(explanation), orders_of(explanation)
    chosen = None if kinds is None else tuple(None if kinds[i] is None else str(kinds[i]) for i in nodes.tolist())
    if orders is None:
        return chosen, None
    ends = place_of[edge_index_of(explanation)].T.tolist()
    known = {(min(ends_of), max(ends_of)): float(order) for ends_of, order in zip(ends, orders, strict=True)}
    return chosen, tuple(known.get((min(pair), max(pair))) for pair in edges.tolist())


def compute_priority(layout: Layout) -> Array:
    """Return the priorities [n] of the labels: the largest |score| at each node, averaged over the panels.

    The average prevents that one method with high scores everywhere determines the labels alone.
    """
    total = np.zeros(len(layout.nodes))
    for panel in layout.panels:
        strength = np.maximum(np.abs(panel.nodes), np.abs(panel.loops))
        for end in layout.edges.T:
            np.maximum.at(strength, end, np.abs(panel.edges))
        total += strength
    return total / len(layout.panels)


def order_labels(layout: Layout) -> list[int]:
    """Return the nodes in the order in which labels are tried: explained ones, drawn ones by weight, then others."""
    explained = {place for panel in layout.panels for place in panel.explained}
    priority, visible = compute_priority(layout), layout.visible
    nodes = range(len(layout.nodes))
    return sorted(nodes, key=lambda i: (i not in explained, not visible[i], -priority[i], i))


def name_nodes(layout: Layout) -> list[str]:
    """Return the texts at the nodes: names, or elements of atoms without names of their own."""
    if layout.kinds is None:
        return list(layout.names)
    reasons = [reason for panel in layout.panels for reason in (*panel.headline.pros, *panel.headline.cons)]
    said = {node for reason in reasons if reason.kind in ("link", "loop", "node", "own") for node in reason.at}
    named = zip(layout.names, layout.nodes.tolist(), layout.kinds, strict=True)
    # An atom of which something is said has its number, so that it can be found.
    return [name if kind is None or name != f"{kind}{node}" or node in said else kind for name, node, kind in named]


def describe_carried(panel: Panel, layout: Layout, drawn: Index) -> str:
    """Return what the drawn edges carry, as 'these 12 links carry 91 % of the scores' weight'.

    `drawn` are places of edges. :attr:`Panel.carried` is about all edges that are in no fold; of these, the drawn ones
    have the share sum_drawn |score| / sum_visible |score|.
    """
    strength = np.abs(panel.edges)
    visible, seen = float(strength[layout.visible_edges].sum()), float(strength[drawn].sum())
    if panel.carried is None:
        return ""
    share = min(panel.carried * seen / visible, 1.0) if visible else 0.0
    count = int((strength[drawn] != 0).sum())
    named = f"these {count} links carry" if count != 1 else "this link carries"
    return f"{named} {say_percent(share)} % of the scores' weight"


def say_percent(share: float) -> str:
    """Return a share in per cent, never rounded up to 100.

    >>> say_percent(0.9126), say_percent(0.9996), say_percent(1.0)
    ('91', '99.9', '100')
    """
    percent = 100 * share
    if percent > 100 - 1e-9:
        return "100"
    return f"{percent:.0f}" if percent < 99 else f"{int(percent * 10) / 10:.1f}"


def _read(explanation: Any) -> Scores:
    """Read one explanation; one without a graph cannot be drawn."""
    if isinstance(explanation, Explanation) and explanation.get("edge_index") is None:
        raise InputError("an explanation with edge_index is needed: without edges there is no graph to draw")
    return read_scores(explanation)


def _check_positions(positions: Any, num_nodes: int) -> Array:
    """Return the positions, moved and scaled so that they lie between -1 and 1 around the middle."""
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
    shown = list(explanations) if isinstance(explanations, list | tuple) else [explanations]
    if not shown:
        raise InputError("there is no explanation to show: the list is empty")
    return shown


def _common_num_nodes(scores: Sequence[Scores]) -> int:
    known = {panel.num_nodes for panel in scores if panel.num_nodes_known}
    largest = max(panel.num_nodes for panel in scores)
    if largest == 0:
        raise InputError("the graph has no nodes")
    if len(known) > 1 or (known and max(known) < largest):
        sizes = ", ".join(str(panel.num_nodes) for panel in scores)
        raise InputError(f"panels must explain the same graph, but their graphs have {sizes} nodes")
    return largest


def _scale(values: Tensor) -> Tensor:
    largest = values.max() if values.numel() else values.new_zeros(())
    return values / largest if float(largest) > 0 else values


def _relevance(scores: Sequence[Scores], num_nodes: int) -> Tensor:
    """Return how relevant each node is, [N]: the largest |score| of the node, its self-loop or an edge at it.

    Each is taken as a share of the panel's largest, and the mean over panels is taken, because a method that rates
    everything high would otherwise decide alone what is shown.
    """
    relevance = torch.zeros(num_nodes, dtype=torch.float64)
    for panel in scores:
        largest = torch.zeros_like(relevance)
        for values in (panel.node, panel.loop):
            if values is not None:
                part = largest[: len(values)]
                torch.maximum(part, _scale(values.abs()), out=part)
        if panel.edge is not None:
            strength = _scale(panel.edge.abs())
            for end in panel.edge_index:
                largest.scatter_reduce_(0, end, strength, "amax")
        relevance += largest / len(scores)
    return relevance


def _choose(relevance: Tensor, explained: Sequence[int], wanted: Sequence[int], max_nodes: int) -> tuple[Tensor, int]:
    """Return the ids to show, ascending, and how many there would be without a limit. Ties go to the smaller id."""
    rank, is_candidate = relevance.clone(), relevance != 0
    rank[list(explained)] = torch.inf
    is_candidate[list(wanted)] = True
    is_candidate[list(explained)] = True
    candidates = is_candidate.nonzero().reshape(-1)
    best = candidates[rank[candidates].sort(descending=True, stable=True).indices[:max_nodes]]
    return best.sort().values, len(candidates)


def _shared_edges(
    scores: Sequence[Scores], place_of: Tensor, count: int, directed: bool | None
) -> tuple[Index, list[Tensor], bool]:
    """Return all panels' edges between shown nodes [m, 2], each panel's scores of them [m], and whether directed."""
    inner = []
    for panel in scores:
        ends = place_of[panel.edge_index]
        inside = (ends >= 0).all(0)
        values = torch.zeros(panel.edge_index.size(1), dtype=torch.float64) if panel.edge is None else panel.edge
        inner.append((ends[:, inside], values[inside]))
    keys = [ends[0] * count + ends[1] for ends, _ in inner]
    if directed is None:
        forward = torch.unique(torch.cat(keys))
        directed = not torch.equal(forward, ((forward % count) * count + forward // count).sort().values)
    if not directed:
        keys = [ends.min(0).values * count + ends.max(0).values for ends, _ in inner]
    union = torch.unique(torch.cat(keys))
    weights = []
    for key, (_, values) in zip(keys, inner, strict=True):
        weight = torch.zeros(len(union), dtype=torch.float64)
        weights.append(weight.index_add_(0, torch.searchsorted(union, key), values))
    return torch.stack([union // count, union % count], dim=1).numpy(), weights, directed


def _panel(
    explanation: Any,
    scores: Scores,
    faithfulness: Faithfulness | None,
    by_kind: dict[Kind, Faithfulness | None],
    nodes: Tensor,
    place_of: Tensor,
    edges: Tensor,
    *,
    title: str,
    max_features: int | None,
) -> Panel:
    node, node_scale = _to_unit(_at(scores.node, nodes))
    both, edge_scale = _to_unit(torch.cat([edges, _at(scores.loop, nodes)]))
    features, columns, feature_scale = _features(scores, max_features)
    places = (int(place_of[i]) for i in scores.explained)
    return Panel(
        title=title,
        explained=tuple(i for i in places if i >= 0),
        nodes=node,
        node_scale=node_scale,
        edges=both[: len(edges)],
        loops=both[len(edges) :],
        edge_scale=edge_scale,
        features=features,
        feature_columns=columns,
        feature_scores=None if scores.feature is None else scores.feature.numpy(),
        feature_scale=feature_scale,
        headline=headline_of(explanation, by_kind),
        trust=None if faithfulness is None else make_trust(faithfulness),
        carried=None,
        neighborhood=scores.neighborhood or (faithfulness.neighborhood if faithfulness else ""),
        faithfulness=faithfulness,
        by_kind=by_kind,
        route=describe_route(scores.route),
    )


def _at(values: Tensor | None, nodes: Tensor) -> Tensor:
    if values is None:
        return torch.zeros(len(nodes), dtype=torch.float64)
    # Nodes that were only counted from the ids that occur may be fewer than in the other panels.
    result = torch.zeros(len(nodes), dtype=torch.float64)
    inside = nodes < len(values)
    result[inside] = values[nodes[inside]]
    return result


def _to_unit(values: Tensor) -> tuple[NDArray[np.float64], float]:
    """Return the values divided by the largest |value|, and that one; it is 0 if there is no other value than 0."""
    scale = float(values.abs().max()) if values.numel() else 0.0
    return (values / scale if scale > 0 else values).numpy(), scale


def _features(scores: Scores, max_features: int | None) -> tuple[tuple[tuple[str, float], ...], tuple[int, ...], float]:
    """Return the names and scaled scores of the strongest features, their columns, and the scale."""
    if scores.feature is None:
        return (), (), 0.0
    names = scores.feature_names
    if max_features is None:
        max_features = 5 if names is not None or (scores.node is None and scores.edge is None) else 0
    order = scores.feature.abs().sort(descending=True, stable=True).indices[: max(max_features, 0)]
    order = order[scores.feature[order] != 0]
    values, scale = _to_unit(scores.feature[order])
    columns = tuple(order.tolist())
    labels = [str(names[i]) if names is not None else f"feature {i}" for i in columns]
    return tuple(zip(labels, values.tolist(), strict=True)), columns, scale


def _title(scores: Scores, titles: Sequence[str] | None, position: int, count: int) -> str:
    if titles is not None:
        return str(titles[position])
    return scores.method or (f"Explanation {position + 1}" if count > 1 else "")


def _node_names(scores: Sequence[Scores], ids: Sequence[int]) -> tuple[str, ...]:
    names = next((panel.node_names for panel in scores if panel.node_names is not None), None)
    return tuple(str(i) if names is None else str(names[i]) for i in ids)
