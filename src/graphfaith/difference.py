"""Local difference models p: functions of (X, A) whose *change* is meant to follow the change of F.

A difference model answers two questions. ``change(perturbations)`` is p(X, A) - p(X - eps_X, A - eps_A), [S]; the
metric compares it with the same difference of F. ``gradient()`` is the explanation: the derivatives of p with respect
to X [n, d] and to A [e], nodes and edges ordered as in the computation graph.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from .computation_graph import ComputationGraph
from .neighborhood import Perturbations
from .target import Target
from .walks import Normalization, Walks, khop_rows


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

    def __getstate__(self) -> dict[str, Any]:
        """The masks alone: the model is not kept with an explanation, but taken from its explainer again."""
        return {**vars(self), "target": None}

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
    :math:`p(X, A) = \sum_{k=1}^{M} e^\top N(A^k) X w_k`, with ``weights`` the w_k, [M, d].

    A holds the self-loops, and :math:`D_k = \mathrm{diag}(A^k 1)`. The paper's ``normalization`` is "symmetric",
    :math:`N(A^k) = D_k^{-1/2} A^k D_k^{-1/2}`; "row" is :math:`D_k^{-1} A^k`, for models that take means, and "none"
    is A^k, for models that take sums.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        weights: Tensor,
        in_sample_error: float | None = None,
        normalization: Normalization = "symmetric",
    ) -> None:
        self.graph, self.weights, self.in_sample_error = graph, weights.double(), in_sample_error
        self.normalization: Normalization = normalization

    @cached_property
    def rows(self) -> Tensor:
        """e^T N(A^k), [M, 1, n]."""
        return khop_rows(self.graph, self.graph.weight.double().unsqueeze(0), len(self.weights), self.normalization)

    def remember(self, rows: Tensor, own: Tensor) -> None:
        """Take e^T N(A^k), [M, 1, n], from who has fitted the model, and X w_k, [n, M], for the next gradient."""
        self.rows, self._own = rows, own

    def change(self, perturbations: Perturbations) -> Tensor:
        """The sum over k of tau_k . w_k, tau_k = e^T [N(A^k) X - N((A - eps_A)^k)(X - eps_X)]."""
        weight, x = perturbations.weight, perturbations.x
        rows = self.rows
        if weight is not None:
            rows = khop_rows(self.graph, weight, len(self.weights), self.normalization)
        own = self.graph.x.double() @ self.weights.T  # [n, M]
        if x is None:
            return torch.einsum("ksn,nk->s", self.rows - rows, own)
        moved = (x @ self.weights.T.to(x.dtype)).double()  # [S, n, M]
        before = torch.einsum("ksn,nk->s", self.rows, own)
        return before - torch.einsum("ksn,snk->s", rows.expand(-1, len(x), -1), moved)

    def gradient(self) -> tuple[Tensor, Tensor]:
        """The derivatives of p: sum_k N(A^k)^T e w_k^T for X, and for A the chain rule through A^k and D_k."""
        own = vars(self).pop("_own", None)
        if own is None:
            own = self.graph.x.double() @ self.weights.T
        weight = self.graph.weight.double().numpy()
        da = torch.from_numpy(Walks.on(self.graph).gradient(weight, own.numpy(), self.normalization))
        da[~self.graph.felt] = 0
        return self.rows[:, 0].T @ self.weights, da
