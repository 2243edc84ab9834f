"""Scores in the order of the computation graph, whoever made them, and the entries that figures of merit rank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation

from .._base.errors import InputError
from ..explanation.masks import target_of
from ..explanation.scores import node_mask_of
from ..graph.computation_graph import ComputationGraph
from ..model.call import Edges
from ..model.target import Target
from ..sampling.perturbations import Perturbations
from ..sampling.restricted import By, Top, count_top, order_scores, ties_of_edges, ties_of_features
from ..surrogate.difference import DifferenceModel, LinearModel
from .unfaithfulness import edge_scores_on

Part = Literal["edges", "features"]


@dataclass(frozen=True, eq=False)
class Attribution:
    """The scores of entries of A, [e], and of features, [n, d], [n, 1] or [1, d]; None is a kind without scores.

    ``p`` is the difference model behind the scores, if they are of one.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explainer = gf.explainer_for(model, ring, method="saliency")
    >>> explanation = explainer(ring.x, ring.edge_index, index=1)
    >>> target = gf.Target(model, ring.x, ring.edge_index, 1)
    >>> scores = torch.ones(target.computation_graph.num_edges)
    >>> Attribution(target.computation_graph, scores).edges.dtype
    torch.float64
    """

    graph: ComputationGraph
    edges: Tensor | None = None
    features: Tensor | None = None
    p: DifferenceModel | None = None

    def __post_init__(self) -> None:
        """Take the scores in double precision, and check their shapes and that they are finite."""
        (n, d), e = self.graph.x.shape, self.graph.num_edges
        for name, shapes in (("edges", [(e,)]), ("features", [(n, d), (n, 1), (1, d)])):
            scores = getattr(self, name)
            if scores is None:
                continue
            if tuple(scores.shape) not in shapes:
                known = " or ".join(str(list(shape)) for shape in shapes)
                raise InputError(
                    f"scores of {name} must be {known} on this computation graph (got {list(scores.shape)})"
                )
            if not bool(torch.isfinite(scores).all()):
                raise InputError(f"the scores of {name} are not finite")
            object.__setattr__(self, name, scores.detach().double())

    @cached_property
    def linear(self) -> LinearModel:
        """The scores as a linear function: what they say if each is the change of F for a unit of its entry."""
        features = None if self.features is None else self.features.expand(self.graph.x.shape)
        return LinearModel(self.graph, features, self.edges)

    def has(self, part: Part) -> bool:
        """Return whether there are scores of this kind."""
        return (self.edges if part == "edges" else self.features) is not None

    def ranking(self, part: Part, by: By) -> Ranking:
        """Return the scores of this kind in order; see :class:`Ranking`."""
        return Ranking.of(self, part, by)

    @cached_property
    def flat(self) -> Tensor:
        """The scores of everything that is judged, edges and then features, as one vector."""
        rankings = [self.ranking(part, "score") for part in get_args(Part) if self.has(part)]
        return torch.cat([ranking.scores for ranking in rankings]) if rankings else torch.zeros(0).double()

    @cached_property
    def node_scores(self) -> Tensor:
        r"""One score for each node, [n]: :math:`\sum_c x_{vc} \phi_{vc}`, or the node's own score if there is one.

        Without scores of features it is half the sum of the scores of the edges at the node.
        """
        n = self.graph.num_nodes
        if self.features is not None and self.features.size(0) == n:
            if self.features.size(1) == 1:
                return self.features[:, 0]
            return (self.features * self.graph.x.double()).sum(dim=1)
        scores = torch.zeros(n, dtype=torch.float64)
        if self.edges is not None:
            given = (self.graph.edge_id >= 0).nonzero().view(-1)
            for ends in self.graph.edge_index[:, given]:
                scores.index_add_(0, ends, self.edges[given] / 2)
        return scores


@dataclass(frozen=True, eq=False)
class Ranking:
    """The entries that are judged, and their order, the largest score first.

    These are the edges of the graph that F depends on, both entries of an undirected edge by themselves; or the
    features that F sees and that are not 0. Self-loops that the model's layers add are not edges of the graph: they
    are never inside an explanation, and never removed, as in PyG.
    """

    graph: ComputationGraph
    part: Part
    places: Tensor  # [m] in A, or in X flattened
    scores: Tensor  # [m]
    order: Tensor  # [m] into ``places``
    by: By

    @classmethod
    def of(cls, attribution: Attribution, part: Part, by: By) -> Ranking:
        """Rank the scores of one kind."""
        graph = attribution.graph
        places = judged_places(graph, part)
        if part == "edges":
            given, ties = attribution.edges, ties_of_edges(graph)
        else:
            given, ties = attribution.features, ties_of_features(graph)
            given = None if given is None else given.expand(graph.x.shape).flatten()
        scores = torch.zeros(len(places), dtype=torch.float64) if given is None else given[places]
        return cls(graph, part, places, scores, order_scores(scores, by, ties[places.numpy()]), by)

    def __len__(self) -> int:
        """Return how many entries are judged."""
        return len(self.places)

    def count(self, top: Top) -> int:
        """Return how many entries are inside; see :func:`~graphfaith.sampling.restricted.count_top`."""
        return count_top(self.scores, top, self.by)

    def inside(self, top: Top) -> Tensor:
        """Return which of the entries are inside, [m]."""
        return self.first(torch.tensor([self.count(top)]))[0]

    def first(self, counts: Tensor) -> Tensor:
        """Return which entries are among the first so many, for each of S ``counts``, [S, m]."""
        rank = torch.empty_like(self.order)
        rank[self.order] = torch.arange(len(self.order))
        return rank.unsqueeze(0) < counts.unsqueeze(1)

    def perturb(self, share: Tensor) -> Perturbations:
        """Return samples in which each entry loses a ``share`` of its value, [S, m]: 1 (or True) removes it."""
        graph = self.graph
        if self.part == "edges":
            eps = torch.zeros(len(share), graph.num_edges, dtype=torch.float64)
            eps[:, self.places] = share * graph.weight.double()[self.places]
            return Perturbations(graph, None, eps)
        flat = torch.zeros(len(share), graph.x.numel(), dtype=graph.x.dtype)
        flat[:, self.places] = share.to(graph.x.dtype) * graph.x.flatten()[self.places]
        return Perturbations(graph, flat.view(-1, *graph.x.shape), None)


def judged_places(graph: ComputationGraph, part: Part) -> Tensor:
    """Return the places of the entries that are judged, in A, or in X flattened."""
    if part == "edges":
        return ((graph.edge_id >= 0) & graph.felt).nonzero().view(-1)
    row, column = graph.present_features
    return row * graph.x.size(1) + column


Source: TypeAlias = Target | Explainer
Explained: TypeAlias = Explanation | Attribution


def read_attribution(source: Source, explanation: Explained, edges: Edges | None = None) -> tuple[Target, Attribution]:
    """Return F, and the scores of an explanation in the order of its computation graph.

    ``source`` is the ``Explainer`` that made the explanation, or the F to judge it by. ``edges`` says what A is, if not
    what it is in the explanation.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explainer = gf.explainer_for(model, ring, method="saliency")
    >>> explanation = explainer(ring.x, ring.edge_index, index=1)
    >>> target, attribution = read_attribution(explainer, explanation)
    >>> attribution.edges.shape == target.computation_graph.weight.shape
    True
    """
    if isinstance(source, Target):
        target = source
    elif isinstance(explanation, Attribution):
        raise InputError("scores on a computation graph are judged by a Target (got an Explainer)")
    else:
        target = target_of(source, explanation, edges)
    if isinstance(explanation, Attribution):
        return target, explanation
    graph, nodes = target.computation_graph, node_mask_of(explanation)
    features = nodes if nodes is None or nodes.size(0) == 1 else nodes[graph.nodes]
    return target, Attribution(graph, edge_scores_on(explanation, target, implied=0.0), features)
