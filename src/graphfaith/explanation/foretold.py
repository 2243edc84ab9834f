"""What scores foretell, and scores with pairs: a sum that a page can evaluate without p and without the model.

If eps is what is taken away of the entries of X and A, F changes by -(phi_X . eps_X + phi_A . eps_A) by the scores
that are shown. With pairs it changes by -(sum_u alone_u m_u + sum_uw together_uw m_u m_w), where m_u is what is taken
away of unit u; what the neighbourhood of the fit leaves still counts by its score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.explain import Explanation

from .._base.errors import UnsupportedError
from ..graph.computation_graph import ComputationGraph
from ..sampling.perturbations import Perturbations
from ..surrogate.difference import LinearModel, SubgraphModel
from ..surrogate.moves import Moves, spread_over_features
from ..surrogate.pairs import Paired
from .digest import are_fitted
from .masks import of_mask
from .reading import check_unchanged, node_kind_of, paired_of
from .scores import node_mask_of

By = Literal["scores", "pairs"]


@dataclass(frozen=True)
class Foretold:
    """The function that scores, or scores and pairs, are; on the entries of a computation graph."""

    graph: ComputationGraph
    phi_x: Tensor  # [n, d]
    phi_a: Tensor  # [e]
    paired: Paired | None

    @property
    def pairs(self) -> list[tuple[int, int, float]]:
        """The pairs: two units, and the weight of the product of their moves."""
        if self.paired is None:
            return []
        numbers = (self.paired.first, self.paired.second, self.paired.together)
        return list(zip(*(number.tolist() for number in numbers), strict=True))

    @property
    def moves(self) -> Moves:
        """The units of the pairs."""
        assert self.paired is not None
        return self.paired.moves

    def change(self, perturbation: Perturbations) -> float:
        """Return F after a perturbation, given as a single sample, less F before."""
        total = 0.0
        if perturbation.edges is not None:
            total += float(perturbation.edges[0] @ self.phi_a)
        if perturbation.features is not None:
            total += float((perturbation.features[0].double() * self.phi_x).sum())
        if self.paired is not None:
            moved = self.paired.moves.of(_complete(perturbation))
            total += float((moved[:, self.paired.first] * moved[:, self.paired.second]) @ self.paired.together)
        return -total


def foretold_of(explanation: Explanation, by: By) -> Foretold:
    """Return what an explanation foretells by its scores, or by scores and pairs."""
    check_unchanged(explanation)
    p = explanation.get("difference_model")
    method = explanation.get("method") or "this explanation"
    if p is None or isinstance(p, SubgraphModel):
        raise UnsupportedError(f"{method} has masks, which are no changes of F: use a method such as AnchoredKEC")
    if not are_fitted(explanation):
        raise UnsupportedError("what scores foretell needs the scores as they were made: these were edited or cut")
    graph: ComputationGraph = p.graph
    phi_x, phi_a = _features(explanation, graph), _entries(explanation, graph)
    if by == "scores" or isinstance(p, LinearModel):
        return Foretold(graph, phi_x, phi_a, None)
    paired = paired_of(explanation)
    alone_x, alone_a = paired.moves.spread_out(paired.alone)
    return Foretold(
        graph, phi_x if alone_x is None else alone_x, phi_a if alone_a is None else alone_a.double(), paired
    )


def _entries(explanation: Explanation, graph: ComputationGraph) -> Tensor:
    """Return the scores of the entries of A, [e]."""
    scores = torch.zeros(graph.num_edges, dtype=torch.float64)
    loops, mask = explanation.get("self_loop_score"), explanation.get("edge_mask")
    if loops is not None:
        scores[graph.num_plain :] = loops.detach().cpu().double()[graph.nodes]
    if mask is not None:
        given = (graph.edge_id >= 0).nonzero().view(-1)
        scores[given] = mask.detach().cpu().double()[graph.edge_id[given]]
    return scores


def _features(explanation: Explanation, graph: ComputationGraph) -> Tensor:
    """Return the scores of the features, [n, d]; those of a node or a column are spread over its features."""
    mask = node_mask_of(explanation)
    if mask is None:
        return torch.zeros(graph.x.shape, dtype=torch.float64)
    of = of_mask(node_kind_of(explanation))
    if of != "column":
        rows = torch.zeros(graph.num_nodes, mask.size(1), dtype=torch.float64)
        rows[: graph.num_visible] = mask[graph.nodes[: graph.num_visible]].double()
        mask = rows
    return mask.double() if of == "feature" else spread_over_features(graph, mask, of)


def _complete(perturbation: Perturbations) -> Perturbations:
    """Return the same perturbation with both of its parts."""
    graph = perturbation.graph
    edges, features = perturbation.edges, perturbation.features
    return Perturbations(
        graph,
        torch.zeros(1, *graph.x.shape, dtype=graph.x.dtype) if features is None else features,
        torch.zeros(1, graph.num_edges, dtype=torch.float64) if edges is None else edges,
    )
