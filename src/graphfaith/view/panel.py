"""A panel: one explanation's scores on the layout that all panels share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..explanation.answer import cut_name
from ..explanation.faithfulness import NOT_MEASURED, Faithfulness, known_faithfulness
from ..explanation.scores import Scores, node_names_of
from ..explanation.signed import top_attributes
from ..explanation.trust import Trust, make_trust
from ..explanation.words import Headline, headline_of
from ..surrogate.estimate import Kind
from .labels import describe_route
from .positions import Array, Index

_MOST_ATTRIBUTES = 3


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
    attributes: str = ""  # the strongest scores of edge attributes in words; "" if there are none

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
        """Whether pictures draw the scores of a kind: those that were measured, or all if none was."""
        return self.by_kind.get(kind) is not None or not any(self.by_kind.values())

    @property
    def drawn(self) -> Panel:
        """The panel without scores that nobody has tried: beside measured ones they would look as good."""
        panel = self
        if not panel.is_drawn("features"):
            panel = replace(panel, nodes=np.zeros_like(panel.nodes))
        if not panel.is_drawn("edges"):
            edges, loops = np.zeros_like(panel.edges), np.zeros_like(panel.loops)
            panel = replace(panel, edges=edges, loops=loops, carried=None)
        return panel

    @property
    def spoken(self) -> list[tuple[int, ...]]:
        """The nodes that each reason of the headline names, by their ids in the whole graph."""
        reasons = (*self.headline.pros, *self.headline.cons)
        return [reason.at for reason in reasons if reason.kind in ("link", "loop", "node", "own")]

    @property
    def subtitle(self) -> str:
        """The neighbourhood and the faithfulness, as one line under the title."""
        return " · ".join(part for part in (self.neighborhood, self.share) if part)


def weigh_nodes(panels: Sequence[Panel], edges: Index) -> Array:
    """Return the weights [n] of nodes: the largest |score| that is drawn at each, averaged over the panels.

    The average prevents that one method with high scores everywhere decides alone what is large and labelled.
    """
    total = np.zeros(len(panels[0].nodes))
    for panel in panels:
        drawn = panel.drawn
        strength = np.maximum(np.abs(drawn.nodes), np.abs(drawn.loops))
        for end in edges.T:
            np.maximum.at(strength, end, np.abs(drawn.edges))
        total += strength
    return total / len(panels)


def make_panel(
    explanation: Any,
    scores: Scores,
    nodes: Tensor,
    place_of: Tensor,
    edges: Tensor,
    *,
    title: str,
    max_features: int | None,
) -> Panel:
    """Return the scores of an explanation at the shown nodes and, as they were merged, of the shown ``edges``."""
    faithfulness, by_kind = known_faithfulness(explanation)
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
        attributes=_say_attributes(explanation),
    )


def _say_attributes(explanation: Any) -> str:
    """Return the strongest scores of edge attributes in words, which no line of the picture can show."""
    if explanation.get("edge_attr_score") is None:
        return ""
    names = node_names_of(explanation)
    said = []
    for one in top_attributes(explanation, _MOST_ATTRIBUTES):
        ends = (str(node if names is None else cut_name(str(names[node]))) for node in (one.source, one.sink))
        said.append(f"{'→'.join(ends)} column {one.column} {one.score:+.3g}")
    return f"strongest scores of edge attributes: {', '.join(said)}" if said else ""


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
