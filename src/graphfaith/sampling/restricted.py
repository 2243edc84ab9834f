"""Neighbourhoods that move only what is inside an explanation, or only what is outside of it.

Most figures of merit ask one question: how does F change when one of the two is perturbed by some law. The law is any
neighbourhood; the entries that may not move are set back to 0 after the draw, so that the draws are those of the whole
neighbourhood.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from .._base.checks import check_count, is_whole
from .._base.errors import InputError, show
from ..graph.computation_graph import ComputationGraph
from ..graph.form import flatten_features
from .draw import UInt64, keys
from .neighborhood import Moments, Neighborhood, edge_keys

By = Literal["score", "magnitude"]
Top = int | float | None
Side = Literal["inside", "outside"]

_TIES = 0  # the seed of the order among equal scores


def check_by(by: str) -> By:
    """Return ``by`` if it names an order of scores."""
    if by not in get_args(By):
        raise InputError(f"by must be one of {', '.join(get_args(By))} (got {by!r})")
    return by  # type: ignore[return-value]


def check_top(top: Top) -> Top:
    """Return ``top`` if it is None, a number of entries, or a share of them above 0 and at most 1.0."""
    if top is None or (is_whole(top) and not isinstance(top, float)):
        return None if top is None else check_count(top, "top", least=0)
    if not isinstance(top, float | np.floating) or not 0 < top <= 1:
        raise InputError(f"top must be a number of entries, or a share such as 0.2 (got {show(top)})")
    return float(top)


def count_top(scores: Tensor, top: Top, by: By) -> int:
    """Return how many of the scores, [m], are inside: ``top`` of them, or a share, rounded, but at least one.

    With None it is the scores above 0, or, by magnitude, the scores that are not 0: those of a subgraph.

    >>> scores = torch.tensor([0.0, -3.0, 1.0, 2.0])
    >>> count_top(scores, 0.5, "score"), count_top(scores, None, "score"), count_top(scores, None, "magnitude")
    (2, 2, 3)
    """
    if top is None:
        return int((scores > 0).sum() if by == "score" else (scores != 0).sum())
    if isinstance(top, float):
        return min(len(scores), max(1, round(top * len(scores))))
    return min(top, len(scores))


def order_scores(scores: Tensor, by: By, ties: UInt64) -> Tensor:
    """Return the places of the scores, [m], the largest score or \\|score\\| first.

    Equal scores are in the order of ``ties``, one key for each: in that of the entries, the first nodes of a graph
    would win, and in many data sets these are not like the others.

    >>> order_scores(torch.tensor([1.0, -3.0, 2.0]), "score", np.arange(3, dtype=np.uint64)).tolist()
    [2, 0, 1]
    """
    strength = scores.double().abs() if by == "magnitude" else scores.double()
    return torch.from_numpy(np.lexsort((ties, -strength.numpy())))


def ties_of_edges(graph: ComputationGraph) -> UInt64:
    """Return a key for each entry of A, [e], by which equal scores are ordered."""
    return edge_keys(graph, _TIES)


def ties_of_features(graph: ComputationGraph) -> UInt64:
    """Return a key for each feature, [n d], by which equal scores are ordered."""
    return keys(_TIES, "tie", graph.nodes.numpy()[:, None], np.arange(graph.x.size(1))[None, :]).reshape(-1)


@dataclass(frozen=True, eq=False)
class Selection:
    """What is inside: the entries of A, and the features, with the largest scores, by their places in the whole graph.

    A kind of scores that is None has no entry inside, and none outside: an entry without a score is on neither side.
    """

    edges: Tensor | None  # [E]
    loops: Tensor | None  # [N]; self-loops that are among the edges have the score that they have there
    features: Tensor | None  # [N, d], [N, 1] or [1, d]
    top: Top = None
    by: By = "score"

    def __post_init__(self) -> None:
        """Check how much is inside."""
        check_by(self.by)
        object.__setattr__(self, "top", check_top(self.top))

    @classmethod
    def of(cls, explanation: Any, top: Top = None, by: By = "score") -> Selection:
        """Return the selection of anything that has PyG's masks, ``edge_mask`` or ``node_mask``, as an attribute."""
        edges, nodes, loops = (_numbers(explanation, name) for name in ("edge_mask", "node_mask", "self_loop_score"))
        if nodes is not None and getattr(explanation, "features_scored", None) is False:
            nodes = None  # A method that scores edges alone fills the mask with ones.
        if edges is None and nodes is None:
            raise InputError("there is neither an edge_mask nor a node_mask, so that nothing is inside or outside")
        return cls(edges, loops, None if nodes is None else flatten_features(nodes), top, by)

    def edge_sides(self, graph: ComputationGraph) -> tuple[Tensor, Tensor]:
        """Return which entries of A are inside and which are outside, [e] each."""
        self._check(self.edges, (graph.size[1],), "edge_mask")
        self._check(self.loops, (graph.size[0],), "self_loop_score")
        scores, scored = torch.zeros(graph.num_edges, dtype=torch.float64), torch.zeros(graph.num_edges).bool()
        if self.loops is not None:
            scores[graph.is_loop], scored[graph.is_loop] = self.loops[graph.nodes], True
        if self.edges is not None:
            given = graph.edge_id >= 0
            scores[given], scored[given] = self.edges[graph.edge_id[given]], True
        return self._split(scores, scored & graph.felt, ties_of_edges(graph))

    def feature_sides(self, graph: ComputationGraph) -> tuple[Tensor, Tensor]:
        """Return which features are inside and which are outside, [n, d] each; F sees no others."""
        (num_nodes, _), (n, d) = graph.size, graph.x.shape
        scored = torch.zeros(n, d, dtype=torch.bool)
        if self.features is None:
            return scored, scored.clone()
        if self.features.shape not in ((num_nodes, d), (num_nodes, 1), (1, d)):
            known = f"[{num_nodes}, {d}], [{num_nodes}, 1] or [1, {d}]"
            raise InputError(f"node_mask must be {known} for this graph (got {list(self.features.shape)})")
        rows = self.features if self.features.size(0) == 1 else self.features[graph.nodes]
        scored[: graph.num_visible] = True
        inside, outside = self._split(rows.expand(n, d).flatten(), scored.flatten(), ties_of_features(graph))
        return inside.view(n, d), outside.view(n, d)

    def _split(self, scores: Tensor, scored: Tensor, ties: UInt64) -> tuple[Tensor, Tensor]:
        inside, places = torch.zeros_like(scored), scored.nonzero().view(-1)
        order = order_scores(scores[places], self.by, ties[places.numpy()])
        inside[places[order[: count_top(scores[places], self.top, self.by)]]] = True
        return inside, scored & ~inside

    @staticmethod
    def _check(scores: Tensor | None, shape: tuple[int, ...], name: str) -> None:
        if scores is not None and scores.shape != shape:
            raise InputError(f"{name} must be {list(shape)} for this graph (got {list(scores.shape)})")

    @cached_property
    def digest(self) -> str:
        """Eight characters that tell one selection from another."""
        found = hashlib.sha256(f"{self.top!r} {self.by}".encode())
        for scores in (self.edges, self.loops, self.features):
            found.update(b"-" if scores is None else scores.contiguous().numpy().tobytes())
        return found.hexdigest()[:8]


def _numbers(explanation: Any, name: str) -> Tensor | None:
    scores = getattr(explanation, name, None)
    if scores is None:
        return None
    if not isinstance(scores, Tensor) or not bool(torch.isfinite(scores).all()):
        raise InputError(f"{name} must be a tensor of finite numbers (got {show(scores)})")
    return scores.detach().cpu().double()


@dataclass(frozen=True, eq=False)
class Restricted(Neighborhood):
    """A neighbourhood of which only one ``side`` of a selection moves; ``near.inside`` and ``near.outside`` make it.

    >>> from types import SimpleNamespace
    >>> from graphfaith.graph import Graph
    >>> from graphfaith.sampling import BernoulliEdges
    >>> x, path = torch.eye(4), torch.tensor([[3, 2, 1], [2, 1, 0]])
    >>> part = ComputationGraph.around(Graph.of(x, path), 0, num_hops=2)
    >>> masks = SimpleNamespace(edge_mask=torch.tensor([0.1, -2.0, 1.0]))
    >>> near = BernoulliEdges(1.0)
    >>> near.inside(masks, top=1).sample(part, 1).edges.tolist()      # the edge from 1 to 0; no loop has a score
    [[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]]
    >>> near.outside(masks, top=1, by="magnitude").sample(part, 1).edges.tolist()
    [[1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]]
    """

    near: Neighborhood
    selection: Selection
    side: Side

    # How likely a sample is depends on what else is in the computation graph, which a share is counted in.
    by_itself = False

    @property
    def perturbs_edges(self) -> bool:  # type: ignore[override]
        """Whether edges that have scores are moved."""
        scored = self.selection.edges is not None or self.selection.loops is not None
        return self.near.perturbs_edges and scored

    @property
    def perturbs_features(self) -> bool:  # type: ignore[override]
        """Whether features that have scores are moved."""
        return self.near.perturbs_features and self.selection.features is not None

    @property
    def drops_edges(self) -> bool:  # type: ignore[override]
        """Whether an entry of A is either unchanged or removed."""
        return self.near.drops_edges

    @property
    def drops_features(self) -> bool:  # type: ignore[override]
        """Whether a feature is either unchanged or 0."""
        return self.near.drops_features

    def __post_init__(self) -> None:
        """Something has to move."""
        if not self.perturbs_edges and not self.perturbs_features:
            raise InputError(f"{self.near}: the explanation has no scores of what this neighbourhood moves")

    def check(self, graph: ComputationGraph) -> None:
        """The neighbourhood has to mean something on the graph."""
        self.near.check(graph)

    def movable_edges(self, graph: ComputationGraph) -> Tensor:
        """Return which entries of A may move, [e]."""
        return self.selection.edge_sides(graph)[self.side == "outside"]

    def movable_features(self, graph: ComputationGraph) -> Tensor:
        """Return which features may move, [n, d]."""
        return self.selection.feature_sides(graph)[self.side == "outside"]

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:
        """Return eps_A of the whole neighbourhood, with 0 where nothing may move."""
        eps = self.near.edges(graph, samples, seed) if self.perturbs_edges else None
        return None if eps is None else eps * self.movable_edges(graph)

    def features(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:
        """Return eps_X of the whole neighbourhood, with 0 where nothing may move."""
        eps = self.near.features(graph, samples, seed) if self.perturbs_features else None
        return None if eps is None else eps * self.movable_features(graph)

    def units(self, graph: ComputationGraph) -> Tensor | None:
        """Return the units of the whole neighbourhood, unless only a part of one may move."""
        units = self.near.units(graph)
        if units is None or not self.perturbs_edges:
            return None
        moved = self.movable_edges(graph).double()
        sums, sizes = torch.zeros(int(units.max()) + 1).double(), torch.bincount(units)
        share = sums.index_add_(0, units, moved) / sizes
        return units if bool(((share == 0) | (share == 1)).all()) else None

    def is_symmetric(self, graph: ComputationGraph) -> bool:
        """Return whether the whole neighbourhood is symmetric."""
        return self.near.is_symmetric(graph)

    def edge_moments(self, graph: ComputationGraph) -> Moments | None:
        """Return the moments of the whole neighbourhood, with 0 where nothing may move."""
        moments = self.near.edge_moments(graph) if self.perturbs_edges else None
        return None if moments is None else _mask_moments(moments, self.movable_edges(graph))

    def feature_moments(self, graph: ComputationGraph) -> Moments | None:
        """Return the moments of the whole neighbourhood, with 0 where nothing may move."""
        moments = self.near.feature_moments(graph) if self.perturbs_features else None
        return None if moments is None else _mask_moments(moments, self.movable_features(graph).flatten())

    def __str__(self) -> str:
        """Return a text that tells this neighbourhood from others; it cannot be read, because it has no scores."""
        top = "all" if self.selection.top is None else f"the top {self.selection.top:g}"
        return f"{self.near} {self.side} {top} of scores {self.selection.digest}"


def _mask_moments(moments: Moments, moved: Tensor) -> Moments:
    return Moments(moments.mean * moved, moments.spread * moved, moments.common * moved)
