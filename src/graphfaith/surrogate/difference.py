"""Local difference models p: functions of (X, A) whose *change* approximates the change of F.

A difference model has two methods. ``change(perturbations)`` returns p(X, A) - p(X - eps_X, A - eps_A), [S]; the
metric compares it with the same difference of F. ``gradient()`` returns the explanation: the derivatives of p with
respect to X [n, d] and to A [e]. Nodes and edges have the order of the computation graph.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph
from ..model.target import Target
from ..sampling.perturbations import Perturbations
from .attention import Attention
from .estimate import Unfaithfulness
from .evidence import Evidence
from .hinges import Hinges
from .kriging import Kriging
from .propagation import Propagation
from .sensitivity import products_along, project
from .typed_walks import WalkSum
from .walks import Normalization, khop_gradient, khop_rows


@runtime_checkable
class DifferenceModel(Protocol):
    """The interface of p: any object with these two methods can be scored, if it is passed as ``difference_model=``.

    >>> import torch, graphfaith as gf
    >>> class Nothing:
    ...     def change(self, perturbations):
    ...         return torch.zeros(len(perturbations))
    ...     def gradient(self):
    ...         return torch.zeros(4, 2), torch.zeros(8)
    >>> isinstance(Nothing(), gf.DifferenceModel)
    True
    """

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return p(X, A) - p(X - eps_X, A - eps_A) for each sample, [S]."""
        ...

    def gradient(self) -> tuple[Tensor, Tensor]:
        """Return the derivatives of p at (X, A) with respect to X, [n, d], and A, [e]."""
        ...


class LinearModel:
    r"""Case I of the paper: :math:`p(X, A) = \Phi_X^\top V(X) + \Phi_A^\top V(A)`, so p's change is linear in eps.

    Saliency, Integrated Gradients and the Linear optimum are of this kind. If ``phi_x`` or ``phi_a`` is None, it is 0.
    ``phi_e``, [e, c], is the slope for edge attributes E, if p depends on them.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> target = gf.Target(model, ring.x, ring.edge_index, 1)
    >>> p = gf.LinearModel(target.computation_graph, *target.gradient())
    >>> samples = gf.UniformEdges(0.5).sample(target.computation_graph, 3, seed=0)
    >>> p.change(samples).shape
    torch.Size([3])
    """

    def __init__(
        self,
        graph: ComputationGraph,
        phi_x: Tensor | None = None,
        phi_a: Tensor | None = None,
        in_sample_error: float | None = None,
        phi_e: Tensor | None = None,
    ) -> None:
        self.graph, self.in_sample_error, self.phi_e = graph, in_sample_error, phi_e
        self.phi_x = torch.zeros_like(graph.x) if phi_x is None else phi_x
        self.phi_a = torch.zeros_like(graph.weight) if phi_a is None else phi_a

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return Phi_X . eps_X + Phi_A . eps_A + Phi_E . eps_E for each sample, [S]."""
        change = torch.zeros(len(perturbations), dtype=torch.float64)
        if perturbations.edges is not None:
            change += perturbations.edges @ self.phi_a.double()
        if perturbations.features is not None:
            flat = perturbations.features.flatten(1)
            change += (flat @ self.phi_x.to(flat.dtype).flatten()).double()
        if perturbations.attributes is not None and self.phi_e is not None:
            change += perturbations.attributes.flatten(1).double() @ self.phi_e.double().flatten()
        return change

    def gradient(self) -> tuple[Tensor, Tensor]:
        """Return (Phi_X, Phi_A), which do not depend on the point."""
        return self.phi_x, self.phi_a


class SubgraphModel:
    """Case II of the paper: p(X, A) = F(X_s, A_s), with X_s = X * node_mask and A_s = A * edge_mask.

    A perturbation is applied to the subgraph, F(X_s - eps_X, A_s - eps_A), and weights are clipped at 0. Where F reads
    an entry of 0 as a removed edge, an edge is removed if the mask or the perturbation removes it whole. The node mask
    has shape [n, d], or one that broadcasts to it, and the edge mask [e]. If a mask is None, nothing is removed.
    """

    def __init__(self, target: Target, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> None:
        self.target, self.graph = target, target.computation_graph
        self.node_mask, self.edge_mask = node_mask, edge_mask
        self.x = self.graph.x if node_mask is None else self.graph.x * node_mask.to(self.graph.x.dtype)
        weight = self.graph.weight
        self.weight = weight if edge_mask is None else weight * edge_mask.to(weight.dtype)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the target: a stored explanation holds the masks, but not the model."""
        return {**vars(self), "target": None}

    @property
    def value(self) -> float:
        """F(X_s, A_s), by the model in its present state."""
        return float(self.target.evaluate(self.x, self.weight))

    def outputs(self, perturbations: Perturbations) -> Tensor:
        """Return F(X_s - eps_X, A_s - eps_A) for each sample, [S]."""
        x = self.x if perturbations.features is None else self.x - perturbations.features
        weight = self.weight
        if perturbations.edges is not None:
            weight = (self.weight.double() - perturbations.edges).clamp_(min=0)
            if self.target.route == "removal":
                # An entry of 0 is a removed edge there. One that is only clipped is a silent message.
                gone = (self.weight == 0) | (perturbations.edges == self.graph.weight.double())
                weight.masked_fill_((weight == 0) & ~gone, torch.finfo(self.graph.weight.dtype).tiny)
        attributes = None
        if perturbations.attributes is not None:
            assert self.graph.attributes is not None
            attributes = self.graph.attributes - perturbations.attributes
        return self.target.evaluate(x, weight, attributes).double()

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return F(X_s, A_s) - F(X_s - eps_X, A_s - eps_A) for each sample, [S]."""
        return self.value - self.outputs(perturbations)

    def gradient(self) -> tuple[Tensor, Tensor]:
        """Return the gradient of F at (X_s, A_s)."""
        return self.target.gradient(self.x, self.weight)


class KHopModel:
    r"""The k-hop model with a convolutional core, Definition 4.1:
    :math:`p(X, A) = \sum_{k=1}^{M} e^\top N(A^k) X w_k`, with ``weights`` the w_k, [M, d].

    A includes the self-loops, and :math:`D_k = \mathrm{diag}(A^k 1)`. The ``normalization`` of the paper is
    "symmetric", :math:`N(A^k) = D_k^{-1/2} A^k D_k^{-1/2}`. The others are "row", :math:`D_k^{-1} A^k`, which suits
    models that take means, and "none", :math:`A^k`, which suits models that take sums.
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
        """The rows e^T N(A^k) of the unperturbed graph, [M, 1, n]."""
        return khop_rows(self.graph, self.graph.weight.double().unsqueeze(0), len(self.weights), self.normalization)

    @cached_property
    def products(self) -> Tensor:
        """The products X w_k, [n, M]."""
        return self.graph.x.double() @ self.weights.T

    def remember(self, rows: Tensor) -> None:
        """Take over the rows e^T N(A^k), [M, 1, n], which the fit has computed already."""
        self.rows = rows

    def remember_gradient(self, gradient_a: Tensor) -> None:
        """Take over the derivative with respect to A, [e], which the fit has computed already."""
        self._gradient_a = gradient_a

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return sum_k tau_k . w_k, [S], where tau_k = e^T [N(A^k) X - N((A - eps_A)^k)(X - eps_X)]."""
        weight, x = perturbations.weight, perturbations.x
        rows = self.rows
        if weight is not None:
            rows = khop_rows(self.graph, weight, len(self.weights), self.normalization)
        if x is None:
            return torch.einsum("ksn,nk->s", self.rows - rows, self.products)
        moved = (x @ self.weights.T.to(x.dtype)).double()  # [S, n, M]
        before = torch.einsum("ksn,nk->s", self.rows, self.products)
        return before - torch.einsum("ksn,snk->s", rows.expand(-1, len(x), -1), moved)

    def gradient(self) -> tuple[Tensor, Tensor]:
        """Return the derivatives of p at the unperturbed graph.

        For X it is sum_k N(A^k)^T e w_k^T. For A it is the chain rule through A^k and D_k.
        """
        da = self._gradient_a.clone()
        da[~self.graph.felt] = 0
        return self.gradient_x(), da

    @cached_property
    def _gradient_a(self) -> Tensor:
        """The derivative of p with respect to A, [e], also where F does not read an entry."""
        return khop_gradient(self.graph, self.graph.weight, self.products, self.normalization)

    def gradient_x(self) -> Tensor:
        """Return the derivative of p with respect to X, [n, d]."""
        return self.rows[:, 0].T @ self.weights


class AnchoredModel:
    r"""The k-hop model anchored to the gradients of F, which :class:`~graphfaith.explainers.AnchoredKEC` fits.

    .. math:: p(X, A) = \sum_{k=0}^{M} e^\top N(A)^k X w_k + \sum_{k=0}^{M-1} \sum_{j=2}^{3} v_{kj}\, e^\top N(A)^k c^j
              + \Phi_X \cdot X + \Phi_A \cdot A - q(X_0 - X, A_0 - A) - g(A_0 - A) + t(X, A) + h(X, A)

    where :math:`c = N(A) 1` and :math:`(X_0, A_0)` is the unperturbed graph. The curvature is
    :math:`q(\epsilon) = \kappa_X |\epsilon_X|^2 + \kappa_A |\epsilon_A|^2 + \frac12 z^\top B z`, where z has the
    products of :math:`\epsilon` with ``along_x`` and ``along_a``. Its derivative is 0 at :math:`(X_0, A_0)`, so the
    gradient of p there is that of the other terms. For removed edges, g
    (:class:`~graphfaith.surrogate.kriging.Kriging`) interpolates what these terms leave. For an F with attention
    layers, where features move, t (:class:`~graphfaith.surrogate.attention.Attention`) follows that attention. In a
    heterogeneous graph, h (:class:`~graphfaith.surrogate.typed_walks.WalkSum`) is a sum over typed walks. A p that was
    asked for them also has hinges (:class:`~graphfaith.surrogate.hinges.Hinges`), at which F has kinks.

    Args:
        graph: the computation graph.
        weights: the w_k, [M + 1, d].
        degree_weights: the v_kj, [M, 2].
        phi_x: Phi_X, [n, d].
        phi_a: Phi_A, [e].
        stiffness: kappa_X and kappa_A, [2].
        along_x: directions of X, [r, n, d]; None if the curvature does not depend on X.
        along_a: directions of A, [r, e]; None if the curvature does not depend on A.
        bend: B, [r, r].
        normalization: the definition of N, as in :class:`KHopModel`, for k = 1.
        in_sample_error: Delta(p) on the samples of the fit.
        estimate: the leave-one-out estimate of Delta(p), if p was fitted.
        fit_samples: how many samples were drawn for the fit.
        chosen: which candidate the fit has chosen: "anchored", "saliency" or "zero".
        evidence: what the fit has seen of F.
        kriging: what is known beside these terms of edges that are removed, if the neighbourhood removes some.
        attention: what the attention of F's own layers lets through, if F has such layers and features move.
        phi_e: Phi_E, [e, c], which adds Phi_E . E to p, if F is given edge attributes E.
        stiffness_e: kappa_E, which adds kappa_E |eps_E|^2 to q.
        walks: what typed walks bring, if the graph is heterogeneous.
        hinges: where F has kinks, if they were looked for and features move.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        weights: Tensor,
        degree_weights: Tensor,
        phi_x: Tensor,
        phi_a: Tensor,
        stiffness: Tensor,
        along_x: Tensor | None,
        along_a: Tensor | None,
        bend: Tensor,
        normalization: Normalization = "symmetric",
        in_sample_error: float | None = None,
        estimate: Unfaithfulness | None = None,
        fit_samples: int | None = None,
        chosen: str | None = None,
        evidence: Evidence | None = None,
        kriging: Kriging | None = None,
        attention: Attention | None = None,
        phi_e: Tensor | None = None,
        stiffness_e: float = 0.0,
        walks: WalkSum | None = None,
        hinges: Hinges | None = None,
    ) -> None:
        self.phi_e, self.stiffness_e = phi_e, stiffness_e
        self.graph, self.weights, self.degree_weights = graph, weights.double(), degree_weights.double()
        self.phi_x, self.phi_a, self.stiffness = phi_x, phi_a, stiffness.double()
        self.along_x, self.along_a, self.bend = along_x, along_a, bend.double()
        self.normalization: Normalization = normalization
        self.in_sample_error = in_sample_error
        self.estimate, self.fit_samples, self.chosen = estimate, fit_samples, chosen
        self.evidence = evidence
        self.kriging, self.attention, self.walks, self.hinges = kriging, attention, walks, hinges

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what was read off p before, which can be read again."""
        known = "_read", "_readings", "_gradient_x", "_gradient_a", "_attention_gradient"
        return {"phi_x": self.phi_x, **{name: value for name, value in vars(self).items() if name not in known}}

    @property
    def num_hops(self) -> int:
        """M, the largest number of hops."""
        return len(self.weights) - 1

    @cached_property
    def propagation(self) -> Propagation:
        """The propagation on the computation graph."""
        return Propagation(self.graph, self.num_hops)

    @cached_property
    def rows(self) -> Tensor:
        """The rows e^T N(A)^k of the unperturbed graph for k = 1 .. M, [M, n]."""
        return self.propagation.of(self.graph.weight.double().unsqueeze(1), self.normalization).rows[..., 0]

    @cached_property
    def products(self) -> Tensor:
        """The products X w_k for k = 1 .. M, [n, M]."""
        return self.graph.x.double() @ self.weights[1:].T

    def remember(self, propagation: Propagation, rows: Tensor) -> None:
        """Store the propagation and the rows, if the fit has computed them already."""
        self.propagation, self.rows = propagation, rows

    def lead_to(self, gradient_x: Tensor, gradient_a: Tensor) -> None:
        """Let Phi_X be such that the derivative with respect to X is ``gradient_x``, [n, d].

        ``gradient_a``, [e], is the derivative with respect to A, which the fit has computed already.
        """
        del self.phi_x
        self._gradient_x, self._gradient_a = gradient_x, gradient_a

    @cached_property
    def phi_x(self) -> Tensor:
        """Phi_X, [n, d], where the derivative with respect to X was given instead."""
        return self._gradient_x - self._khop_gradient_x()

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return the change of p for each sample, [S]."""
        eps, moved = perturbations.features, perturbations.weight
        linear = LinearModel(self.graph, self.phi_x, self.phi_a, phi_e=self.phi_e)
        change = linear.change(perturbations) + self._curvature(perturbations)
        if perturbations.attributes is not None:
            change += self.stiffness_e * energy(perturbations.attributes)
        if moved is not None:
            change += self._own_value - self._value(moved)
        if eps is not None:
            rows = self.rows.unsqueeze(2)
            if moved is not None:
                rows = self.propagation.of(moved.T.contiguous(), self.normalization).rows
            change += carry(self.propagation, rows, project(eps, self.weights)).diagonal(dim1=1, dim2=2).sum(dim=1)
        if self.kriging is not None and perturbations.edges is not None:
            change += self.kriging.change(perturbations.edges)
        if self.walks is not None:
            change += self.walks.change(perturbations)
        if self.hinges is not None:
            change += self.hinges.change(perturbations)
        return change if self.attention is None else change + self.attention.change(perturbations)

    def _value(self, weight: Tensor) -> Tensor:
        """Return sum_k e^T N(A)^k X w_k + sum_kj v_kj e^T N(A)^k c^j for S sets of entries of A, [S, e] -> [S]."""
        return self.propagation.value(weight.T, self.products, self.degree_weights, self.normalization)

    @cached_property
    def _own_value(self) -> Tensor:
        """The value of these terms on the unperturbed graph, [1]."""
        return self._value(self.graph.weight.double().unsqueeze(0))

    def _curvature(self, perturbations: Perturbations) -> Tensor:
        """Return q(eps) = kappa_X |eps_X|^2 + kappa_A |eps_A|^2 + z^T B z / 2 for each sample, [S]."""
        curvature = torch.zeros(len(perturbations), dtype=torch.float64)
        z = torch.zeros(len(perturbations), len(self.bend), dtype=torch.float64)
        parts = ((perturbations.features, self.along_x), (perturbations.edges, self.along_a))
        for kappa, (eps, along) in zip(self.stiffness.tolist(), parts, strict=True):
            if eps is not None:
                curvature += kappa * energy(eps)
                if along is not None:
                    z += products_along(eps, along)
        return curvature + curvature_of(z, self.bend)

    def gradient(self) -> tuple[Tensor, Tensor]:
        """Return the derivatives of p at the unperturbed graph.

        For X it is sum_k (N(A)^k)^T e w_k^T + Phi_X. For A it is the chain rule through N, plus Phi_A.
        """
        return self.gradient_x(), self.gradient_a()

    def mean_gradient(
        self, mean_x: Tensor | None, mean_a: Tensor | None, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the derivatives of p in a neighbourhood on average, [n, d] and [e].

        The curvature is that of the mean perturbations. The derivative of the other terms with respect to A is the mean
        of those at samples with entries ``weight``, [S, e]; without any, it is that at A. Given A, p is a polynomial of
        degree 2 in X, whose best additive function in a symmetric neighbourhood has these coefficients.
        """
        dx, da = self.gradient_x().double(), self.gradient_a(weight).double()
        attention = self.attention
        if attention is not None and attention.mean_x is not None and attention.mean_a is not None:
            dx = dx + (attention.mean_x.double() - self._attention_gradient[0])
            da = da + (attention.mean_a - self._attention_gradient[1])
        if self.hinges is not None:
            of_x, of_a = self.hinges.mean_gradient()
            dx, da = dx + of_x, da if of_a is None else da + of_a
        z = torch.zeros(len(self.bend), dtype=torch.float64)
        for mean, along in ((mean_x, self.along_x), (mean_a, self.along_a)):
            if mean is not None and along is not None:
                z += along.double().flatten(1) @ mean.flatten()
        pull = self.bend @ z if len(z) else z
        if mean_x is not None:
            dx = dx + 2 * float(self.stiffness[0]) * mean_x
            if self.along_x is not None:
                dx = dx + (pull @ self.along_x.double().flatten(1)).view_as(dx)
        if mean_a is not None:
            da = da + 2 * float(self.stiffness[1]) * mean_a
            if self.along_a is not None:
                da = da + pull @ self.along_a.double()
        return dx, da

    @cached_property
    def _attention_gradient(self) -> tuple[Tensor, Tensor]:
        """The derivatives of the terms of attention at the unperturbed graph, [n, d] and [e]."""
        assert self.attention is not None
        return self.attention.mean_gradient(Perturbations(self.graph, None, None))

    def gradient_x(self) -> Tensor:
        """Return the derivative of p with respect to X, [n, d]."""
        known: Tensor | None = vars(self).get("_gradient_x")
        if known is not None:
            return known.clone()
        dx = self._khop_gradient_x().add_(self.phi_x)
        if self.walks is not None:
            dx[: self.graph.num_visible] += self.walks.gradient_x()[: self.graph.num_visible].to(dx.dtype)
        return dx if self.attention is None else dx + self._attention_gradient[0].to(dx.dtype)

    def _khop_gradient_x(self) -> Tensor:
        """Return the derivative of sum_k e^T N(A)^k X w_k with respect to X, [n, d]."""
        dx = torch.cat([self.propagation.e.T, self.rows]).T @ self.weights
        dx[self.graph.num_visible :] = 0
        return dx

    def gradient_a(self, weight: Tensor | None = None) -> Tensor:
        """Return the derivative of p with respect to A, [e], or its mean at samples with entries ``weight``, [S, e].

        That of g and of the curvature is always the one at the unperturbed graph.
        """
        known: Tensor | None = vars(self).get("_gradient_a")
        if weight is None and known is not None:
            return known.clone()
        values = (self.graph.weight.double().unsqueeze(0) if weight is None else weight).T
        da = self.propagation.gradient(values, self.products, self.degree_weights, self.normalization)
        da = da if self.walks is None else da + self.walks.gradient_a(weight)
        da[~self.graph.felt] = 0
        da.add_(self.phi_a)
        da = da if self.kriging is None else da + self.kriging.gradient()
        return da if self.attention is None else da + self._attention_gradient[1]


def carry(propagation: Propagation, rows: Tensor, moved: Tensor) -> Tensor:
    """Return e^T N(A)^k eps_X W for k = 0 .. M, [S, M + 1, u], from eps_X W, [S, n, u].

    ``rows`` are the rows e^T N(A)^k for k = 1 .. M, [M, n, S], or [M, n, 1] if they are equal in all samples. To
    multiply the many columns of eps_X by W first takes one pass over it, however many rows there are.
    """
    first = propagation.e.T.expand(rows.size(2), 1, -1)
    stacked = torch.cat([first, rows.permute(2, 0, 1)], dim=1)  # [S, M + 1, n]
    return torch.matmul(stacked, moved.double())


def energy(eps: Tensor) -> Tensor:
    """Return |eps|^2 of each sample, [S]."""
    if eps.dim() == 2:  # Edge perturbations are often stored transposed, where a plain sum is faster than a norm.
        return eps.square().sum(dim=1)
    length: Tensor = torch.linalg.vector_norm(eps.flatten(1), dim=1)
    if not math.isfinite(float(length.sum())):  # The square of a single feature may need a wider range than eps has.
        length = torch.linalg.vector_norm(eps.flatten(1), dim=1, dtype=torch.float64)
    return length.double().square()


def curvature_of(z: Tensor, bend: Tensor) -> Tensor:
    """Return z^T B z / 2 of each sample, [S]."""
    return (z @ bend).mul_(z).sum(dim=1).mul_(0.5)
