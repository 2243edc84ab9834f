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
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.explain import Explanation

from .._base.errors import InputError
from ..explanation.agreement import agreement_of
from ..explanation.scores import Scores, edge_index_of, kinds_of, orders_of, read_scores, task_level, types_of
from ..explanation.trust import Trust, make_trust
from ..explanation.typed import as_shown
from .arrangement import arrange, make_folds
from .folds import MOST_MARKS, Fold
from .panel import Panel, make_panel, weigh_nodes
from .positions import Array, Index
from .selection import check_positions, choose_nodes, common_num_nodes, find_rest, measure_relevance, share_edges
from .types import NodeType, styles_of

_ROUNDING = 1e-9  # of sums of scores

MOST_NODES = 2000  # The memory to place nodes grows with the square of their number, and nobody can read more.


@dataclass(frozen=True)
class Layout:
    """What is shown, and where; `edges` and `Panel.explained` hold places in `nodes`, not ids of the whole graph."""

    nodes: Index  # [n] ids in the whole graph, ascending
    names: tuple[str, ...]
    positions: Array  # [n, 2] in [-1, 1], the explained node at the origin; only members of folds may be farther out
    relevance: Array  # [n] largest scaled |score| that is drawn at the node, its self-loop or an edge; mean of panels
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
    types: tuple[NodeType, ...] = ()  # of a heterogeneous graph
    type_of: tuple[int, ...] = ()  # [n] the place of each node's type among these
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
        """A note for the reader where there was no room for everything, as '300 of 512 shown'; '' otherwise."""
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
    if not isinstance(fold, bool):
        raise InputError(f"fold must be True or False, not {fold!r}")
    if not 1 <= max_nodes <= MOST_NODES:
        raise InputError(f"max_nodes must be between 1 and {MOST_NODES} (got {max_nodes})")
    scores = [_read(explanation) for explanation in shown]
    num_nodes = common_num_nodes(scores)
    relevance = measure_relevance(scores, num_nodes)
    explained = sorted({node for panel_scores in scores for node in panel_scores.explained})
    given_places = None if positions is None else check_positions(positions, num_nodes)
    for node in stars:
        if not 0 <= node < num_nodes:
            raise InputError(f"there is no node {node} to put a star on: the graph has {num_nodes}")
    wanted = [*explained, *stars] if given_places is None else range(num_nodes)
    nodes, num_scored = choose_nodes(relevance, explained, wanted, max_nodes)
    place_of = torch.full((num_nodes,), -1, dtype=torch.long)
    place_of[nodes] = torch.arange(len(nodes))
    rest = find_rest(scores, relevance, nodes, place_of, wanted, int(place_of[explained[0]]) if explained else 0)

    edges, weights, is_directed = share_edges(scores, place_of, len(nodes), directed)
    panels = tuple(
        make_panel(
            explanation,
            panel_scores,
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
    # What nobody has tried is not drawn, and so it neither chooses nor places what is.
    strength = np.abs(np.stack([panel.drawn.edges for panel in panels])).mean(0)
    arranged = arrange(
        edges,
        strength,
        np.stack([_weigh_own(panel.drawn) for panel in panels]).mean(0),
        roots=roots,
        centre=roots[0] if roots else _first_max(relevance[nodes]),
        wanted=starred,
        spoken=_place_spoken(panels, place_of),
        rest=rest,
        about=level != "graph",
        small=num_nodes <= MOST_MARKS,
        fold=fold,
        given=None if given_places is None else given_places[nodes.numpy()],
    )
    names = _node_names(scores, nodes.tolist())
    folds = make_folds(arranged, nodes.numpy(), edges, scores, rest, names)
    kinds, orders = _read_kinds(shown[0], nodes, edges, place_of)
    types, type_of = _read_types(shown[0], nodes)
    layout = Layout(
        nodes=nodes.numpy(),
        names=names,
        positions=arranged.positions,
        relevance=weigh_nodes(panels, edges),
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
        types=types,
        type_of=type_of,
    )
    seen = layout.visible_edges
    carried = [_measure_carried(one, panel, seen, is_directed) for one, panel in zip(scores, panels, strict=True)]
    told = (
        replace(panel, carried=share, trust=tell_trust(panel, layout, share))
        for panel, share in zip(panels, carried, strict=True)
    )
    return replace(layout, panels=tuple(told))


def tell_trust(panel: Panel, layout: Layout, carried: float | None) -> Trust | None:
    """Return the numbers of a panel; if more scores were measured than are drawn at first sight, they say so.

    `carried` is the share of the scores' weight that the drawn edges have.
    """
    hides_edges = panel.is_drawn("edges") and carried is not None and carried < 1 - _ROUNDING
    hides_nodes = panel.is_drawn("features") and (bool(layout.cut) or bool(panel.nodes[~layout.visible].any()))
    if panel.faithfulness is None or not (hides_edges or hides_nodes):
        return panel.trust
    return make_trust(panel.faithfulness, all_drawn=False)


def _place_spoken(panels: Sequence[Panel], place_of: Tensor) -> list[tuple[int, ...]]:
    """Return the places of the nodes that the headlines name, the first reason of every panel before any second."""
    ranks = zip_longest(*(panel.spoken for panel in panels), fillvalue=())
    named = [tuple(place_of[list(ids)].tolist()) for rank in ranks for ids in rank if ids]
    return [places for places in named if min(places) >= 0]


def _weigh_own(panel: Panel) -> Array:
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


def _read_types(explanation: Any, nodes: Tensor) -> tuple[tuple[NodeType, ...], tuple[int, ...]]:
    """Return the types of a heterogeneous graph, and which of them each shown node has."""
    of_node = types_of(explanation)
    if of_node is None:
        return (), ()
    names = tuple(dict.fromkeys(map(str, of_node)))
    return styles_of(names), tuple(names.index(str(of_node[i])) for i in nodes.tolist())


def share_of_drawn(panel: Panel, layout: Layout, drawn: Index) -> float | None:
    """Return the share of the scores' weight that the edges at these places have; None if no edge has a score.

    :attr:`Panel.carried` is about all edges that are in no fold; of these, the drawn ones have the share
    sum_drawn |score| / sum_visible |score|.
    """
    strength = np.abs(panel.edges)
    visible, seen = float(strength[layout.visible_edges].sum()), float(strength[drawn].sum())
    if panel.carried is None:
        return None
    return min(panel.carried * seen / visible, 1.0) if visible else 0.0


def describe_carried(panel: Panel, share: float | None, drawn: Index) -> str:
    """Return what the drawn edges carry, as 'these 12 links carry 91 % of the scores' weight'; '' if it is unknown."""
    if share is None or not panel.is_drawn("edges"):
        return ""
    count = int((panel.edges[drawn] != 0).sum())
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


def _first_max(values: Tensor) -> int:
    return int(values.argmax()) if values.numel() else 0


def _as_list(explanations: Any) -> list[Any]:
    shown = [*map(as_shown, explanations)] if isinstance(explanations, list | tuple) else [as_shown(explanations)]
    if not shown:
        raise InputError("there is no explanation to show: the list is empty")
    return shown


def _title(scores: Scores, titles: Sequence[str] | None, position: int, count: int) -> str:
    if titles is not None:
        return str(titles[position])
    return scores.method or (f"Explanation {position + 1}" if count > 1 else "")


def _node_names(scores: Sequence[Scores], ids: Sequence[int]) -> tuple[str, ...]:
    names = next((panel.node_names for panel in scores if panel.node_names is not None), None)
    return tuple(str(i) if names is None else str(names[i]) for i in ids)
