"""Local difference models p: functions of (X, A) whose *change* is meant to follow the change of F.

A difference model answers two questions. ``change(perturbations)`` is p(X, A) - p(X - eps_X, A - eps_A), [S]; the
metric compares it with the same difference of F. ``gradient()`` is the explanation: the derivatives of p with respect
to X [n, d] and to A [e], nodes and edges ordered as in the computation graph.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from .computation_graph import ComputationGraph
from .neighborhood import Perturbations
from .target import Target


@runtime_checkable
class DifferenceModel(Protocol):
    """Anything with a change and a gradient can be scored; write your own and pass it as ``difference_model=``."""

    def change(self, perturbations: Perturbations) -> Tensor:
        """p(X, A) - p(X - eps_X, A - eps_A) for each sample, [S]."""
        ...

    def gradient(self) -> tuple[Tensor, Tensor]:
        """The derivatives of p at (X, A) with respect to X, [n, d], and A, [e]."""
        ...


class LinearModel:
    r"""Case I of the paper: :math:`p(X, A) = \Phi_X^\top V(X) + \Phi_A^\top V(A)`, so p's change is linear in eps.

    Saliency, Integrated Gradients and the Linear optimum are of this kind. None stands for zeros.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        phi_x: Tensor | None = None,
        phi_a: Tensor | None = None,
        in_sample_error: float | None = None,
    ) -> None:
        self.graph, self.in_sample_error = graph, in_sample_error
        self.phi_x = torch.zeros_like(graph.x) if phi_x is None else phi_x
        self.phi_a = torch.zeros_like(graph.weight) if phi_a is None else phi_a

    def change(self, perturbations: Perturbations) -> Tensor:
        """Phi_X . eps_X + Phi_A . eps_A."""
        change = torch.zeros(len(perturbations), dtype=torch.float64)
        if perturbations.edges is not None:
            change += perturbations.edges @ self.phi_a.double()
        if perturbations.features is not None:
            flat = perturbations.features.flatten(1)
            change += (flat @ self.phi_x.to(flat.dtype).flatten()).double()
        return change

    def gradient(self) -> tuple[Tensor, Tensor]:
        """(Phi_X, Phi_A)."""
        return self.phi_x, self.phi_a


class SubgraphModel:
    """Case II of the paper: p(X, A) = F(X_s, A_s), with X_s = X * node_mask and A_s = A * edge_mask.

    A perturbation is applied to the subgraph, F(X_s - eps_X, A_s - eps_A), and weights are clipped at 0. Masks are
    [n, d] (or what broadcasts to it) and [e]; None keeps everything.
    """

    def __init__(self, target: Target, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> None:
        self.target, self.graph = target, target.computation_graph
        self.node_mask, self.edge_mask = node_mask, edge_mask
        self.x = self.graph.x if node_mask is None else self.graph.x * node_mask.to(self.graph.x.dtype)
        weight = self.graph.weight
        self.weight = weight if edge_mask is None else weight * edge_mask.to(weight.dtype)

    @property
    def value(self) -> float:
        """F(X_s, A_s), by the model as it is now."""
        return float(self.target.evaluate(self.x, self.weight))

    def outputs(self, perturbations: Perturbations) -> Tensor:
        """F(X_s - eps_X, A_s - eps_A), [S]."""
        x = self.x if perturbations.features is None else self.x - perturbations.features
        weight = self.weight
        if perturbations.edges is not None:
            weight = (self.weight.double() - perturbations.edges).clamp_(min=0)
        return self.target.evaluate(x, weight).double()

    def change(self, perturbations: Perturbations) -> Tensor:
        """F(X_s, A_s) - F(X_s - eps_X, A_s - eps_A)."""
        return self.value - self.outputs(perturbations)

    def gradient(self) -> tuple[Tensor, Tensor]:
        """The gradient of F at (X_s, A_s)."""
        return self.target.gradient(self.x, self.weight)


class KHopModel:
    r"""The k-hop model with a convolutional core, Definition 4.1:
    :math:`p(X, A) = \sum_{k=1}^{M} e_v^\top N(A^k) X w_k`, with ``weights`` the w_k, [M, d].

    :math:`N(A^k) = D_k^{-1/2} A^k D_k^{-1/2}`, :math:`D_k = \mathrm{diag}(A^k 1)`; A holds the self-loops.
    """

    def __init__(self, graph: ComputationGraph, weights: Tensor, in_sample_error: float | None = None) -> None:
        self.graph, self.weights, self.in_sample_error = graph, weights.double(), in_sample_error
        self._rows = khop_rows(graph, graph.weight.double().unsqueeze(0), len(weights))  # [M, 1, n]

    def change(self, perturbations: Perturbations) -> Tensor:
        """The sum over k of tau_k . w_k, tau_k = e^T [N(A^k) X - N((A - eps_A)^k)(X - eps_X)]."""
        weight, x = perturbations.weight, perturbations.x
        rows = self._rows if weight is None else khop_rows(self.graph, weight, len(self.weights))
        own = self.graph.x.double() @ self.weights.T  # [n, M]
        if x is None:
            return torch.einsum("ksn,nk->s", self._rows - rows, own)
        moved = (x @ self.weights.T.to(x.dtype)).double()  # [S, n, M]
        before = torch.einsum("ksn,nk->s", self._rows, own)
        return before - torch.einsum("ksn,snk->s", rows.expand(-1, len(x), -1), moved)

    def gradient(self) -> tuple[Tensor, Tensor]:
        """The derivatives of p: sum_k N(A^k)^T e w_k^T for X, and for A the chain rule through A^k and D_k."""
        dx = self._rows[:, 0].T @ self.weights
        own = self.graph.x.double() @ self.weights.T
        da = sum(
            (_row_gradient(self.graph, k + 1, own[:, k]) for k in range(len(self.weights))),
            start=torch.zeros(self.graph.num_edges, dtype=torch.float64),
        )
        da[~self.graph.felt] = 0
        return dx, da


def khop_rows(graph: ComputationGraph, weight: Tensor, num_hops: int) -> Tensor:
    """e_v^T N(A^k) for k = 1 .. ``num_hops`` and each of S sets of weights [S, e]: [num_hops, S, n].

    Only the row e_v^T A^k and the vector A^k 1 are needed, each one sparse product from the last; A^k never is.
    A node from which no walk of length k starts has a zero row and column.
    """
    values = weight.T.contiguous()  # [e, S]: rows of edges make gathers contiguous
    source, sink = graph.edge_index
    walks = torch.zeros(graph.num_nodes, values.size(1), dtype=values.dtype)
    walks[graph.node] = 1
    total = torch.ones_like(walks)
    rows = []
    for _ in range(num_hops):
        walks = torch.zeros_like(walks).index_add_(0, source, walks[sink] * values)
        total = torch.zeros_like(total).index_add_(0, sink, total[source] * values)
        scale = _inverse_sqrt(total)
        rows.append((walks * scale * scale[graph.node]).T)
    return torch.stack(rows)


def _inverse_sqrt(degree: Tensor) -> Tensor:
    return torch.where(degree > 0, degree, 1.0).rsqrt() * (degree > 0)


def _row_gradient(graph: ComputationGraph, k: int, y: Tensor) -> Tensor:
    """The derivative of e_v^T N(A^k) y with respect to the entries of A, [e].

    With a = e^T A^k and D = A^k 1 the value is sum_j a_j y_j / sqrt(D_v D_j); a and D are chains of k products, so
    each entry of A collects one term for each place it has in a chain.
    """
    source, sink = graph.edge_index
    v, weight, zero = graph.node, graph.weight.double(), torch.zeros(graph.num_nodes, dtype=torch.float64)

    def forth(vector: Tensor) -> Tensor:  # A vector
        return zero.index_add(0, sink, vector[source] * weight)

    def back(vector: Tensor) -> Tensor:  # A^T vector
        return zero.index_add(0, source, vector[sink] * weight)

    walks, totals = [zero.clone()], [torch.ones_like(zero)]
    walks[0][v] = 1
    for _ in range(k):
        walks.append(back(walks[-1]))
        totals.append(forth(totals[-1]))
    a, scale = walks[k], _inverse_sqrt(totals[k])
    d_walks = scale[v] * scale * y
    d_totals = -0.5 * scale[v] * a * y * scale**3
    d_totals[v] += -0.5 * scale[v] ** 3 * (a * scale * y).sum()
    gradient = torch.zeros_like(weight)
    for step in range(k, 0, -1):
        gradient += walks[step - 1][sink] * d_walks[source] + d_totals[sink] * totals[step - 1][source]
        d_walks, d_totals = forth(d_walks), back(d_totals)
    return gradient
