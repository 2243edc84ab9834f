"""KEC, the paper's k-hop Explanation with a Convolutional Core (Definition 4.1, Proposition 3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from .._base.checks import check_real
from .._base.errors import InputError, UnsupportedError
from .._base.stages import stage, time_items
from ..graph.computation_graph import ComputationGraph
from ..model.call import Edges
from ..model.target import Target
from ..sampling.neighborhood import Neighborhood
from ..surrogate.coordinates import Coordinates
from ..surrogate.difference import DifferenceModel, KHopModel
from ..surrogate.frame import Frame, fit_at_once, is_small
from ..surrogate.solve import Ridge, Solution, ridge, truncated_svd
from ..surrogate.typed_walks import TypedCoordinates, TypedKHopModel, group_walks, row_bytes, typed_rows
from ..surrogate.walks import Normalization, khop_rows, walk_bytes
from .base import FittedExplainer

Solver = Literal["tsvd", "ridge"]

_ALIKE = 1e-9  # the share by which leave-one-out errors may differ by rounding alone


class KEC(FittedExplainer):
    r"""Explain F by the k-hop model whose change follows F's best in a neighbourhood.

    .. math:: p(X, A) = \sum_{k=1}^{M} e^\top N(A^k) X w_k, \qquad
              W^* = (E[\phi\phi^\top])^{-1} E[\phi\,\delta F]

    with :math:`\phi` the stacked :math:`\tau_k = e^\top [N(A^k) X - N((A - \epsilon_A)^k)(X - \epsilon_X)]` and
    :math:`\delta F = F(X, A) - F(X - \epsilon_X, A - \epsilon_A)`. Scores are the gradient of p. Edge attributes have
    no part in p: where they move too, p follows what edges and features do, and leaves the rest.

    Args:
        neighborhood: where p has to follow F, e.g. ``UniformEdges(0.5)`` or ``"U(A,0.5)"``.
        num_samples: how many perturbed graphs to fit on.
        seed: names the samples.
        normalization: what N is: "symmetric", as in the paper, "row", "none", or "auto": of the three the one with
            the smallest leave-one-out error on the samples of the fit.
        solver: "tsvd", the paper's truncated SVD, or "ridge", a penalty that leave-one-out error chooses.
        threshold: singular values below it are left out ("tsvd").
        relative: whether ``threshold`` is a share of the largest singular value.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explanation = gf.explain(model, ring, 1, method="kec", neighborhood="B(A,0.5)")
    >>> explanation.method, explanation.unfaithfulness.relative < 1
    ('KEC', True)
    """

    method = "KEC"
    fits_soon = True

    def __init__(
        self,
        neighborhood: Neighborhood | str,
        *,
        num_samples: int = 200,
        seed: int = 0,
        normalization: Normalization | Literal["auto"] = "symmetric",
        solver: Solver = "tsvd",
        threshold: float = 1e-4,
        relative: bool = False,
        num_hops: int | None = None,
        edges: Edges = "auto",
        max_memory: int | str | None = None,
    ) -> None:
        super().__init__(
            neighborhood, num_samples=num_samples, seed=seed, num_hops=num_hops, edges=edges, max_memory=max_memory
        )
        if normalization not in (*get_args(Normalization), "auto"):
            known = ", ".join(get_args(Normalization))
            raise InputError(f"normalization must be one of {known}, auto (got {normalization!r})")
        if solver not in get_args(Solver):
            raise InputError(f"solver must be one of {', '.join(get_args(Solver))} (got {solver!r})")
        near = self.neighborhood
        if near.perturbs_attributes and not near.perturbs_edges and not near.perturbs_features:
            raise UnsupportedError(
                f"KEC: in {near} its p would never change, because its walks see X and A and no edge attributes; use "
                "AnchoredKEC, Linear or Saliency, or move edges too, as in U(E,0.2r)xU(A,0.5)"
            )
        self.normalization, self.solver = normalization, solver
        self.threshold, self.relative = check_real(threshold, "threshold", least=0.0), relative

    def fit(self, target: Target) -> KHopModel | TypedKHopModel:
        """Return Proposition 3's optimum on ``num_samples`` samples."""
        if target.computation_graph.kinds is not None:
            return self._fit_typed(target)
        p = self._fit_in_core(target) if self.is_compiled else None
        return self._fit(target) if p is None else p

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled core has this fit: only edges move, and N and the solver are single."""
        return self.solver == "tsvd" and len(self.kinds) == 1 and not self.neighborhood.perturbs_features

    def _fit_in_core(self, target: Target) -> KHopModel | None:
        """Return the optimum by the compiled core; None if that is too slow or not exact enough."""
        graph, hops, kind, count = target.computation_graph, target.num_hops, self.kinds[0], self.count_samples()
        visible, frame = graph.num_visible, None
        if not is_small(visible, graph.x.size(1)):
            return None
        phi, changes = [], []
        unknowns = hops * min(visible, graph.x.size(1))
        fixed = 8 * 3 * (count * unknowns + graph.x.numel()) + walk_bytes(graph, 1)
        for chunk in time_items(self.chunks(target, fixed), "sampling"):
            with stage("F"):
                changes.append(target.changes(chunk))
            if len(chunk) == count:
                given = chunk.weight_with_own, changes[0], kind, self.threshold, self.relative
                with stage("solve"):
                    p = fit_at_once(graph, hops, *given)
                if p is not None:
                    return p
            with stage("features"):
                frame = frame or Frame.of(graph, hops)
                assert frame is not None  # The graph is small.
                rows, features = frame.features(chunk.weight_with_own, kind)
                phi.append(features)
        assert frame is not None
        with stage("solve"):
            every = np.concatenate(phi, axis=1)
            return frame.solve(every, torch.cat(changes), rows, kind, self.threshold, self.relative)

    def _fit(self, target: Target) -> KHopModel:
        """Return the optimum of any neighbourhood, normalisation and solver."""
        graph, hops, count = target.computation_graph, target.num_hops, self.count_samples()
        with stage("features"):
            coordinates = Coordinates(graph, hops, moved=self.neighborhood.perturbs_features)
        rows: dict[Normalization, Tensor] = {}
        features: dict[Normalization, list[Tensor]] = {kind: [] for kind in self.kinds}
        changes: list[Tensor] = []
        fixed = 8 * (3 * len(self.kinds) * count * coordinates.size + 3 * graph.x.numel())
        fixed += walk_bytes(graph, len(self.kinds))
        for chunk in time_items(self.chunks(target, fixed), "sampling"):
            with stage("features"):
                for kind in self.kinds:
                    before, after = rows.get(kind), None
                    if before is None or chunk.edges is not None:
                        # The first of these rows are those of the unperturbed graph.
                        both = khop_rows(graph, chunk.weight_with_own, hops, kind)
                        before, after = rows.setdefault(kind, both[:, :1]), both[:, 1:]
                    moved = None if chunk.edges is None else after
                    features[kind].append(coordinates.features(before, moved, chunk))
            with stage("F"):
                changes.append(target.changes(chunk))
        with stage("solve"):
            stacked = {kind: torch.cat(parts) for kind, parts in features.items()}
            return self.solve(coordinates, rows, stacked, torch.cat(changes))

    def _fit_typed(self, target: Target) -> TypedKHopModel:
        """Return the optimum of a heterogeneous graph, whose walks are typed."""
        graph, hops, count = target.computation_graph, target.num_hops, self.count_samples()
        with stage("features"):
            groups = group_walks(graph, hops, target.gradient)
            coordinates = TypedCoordinates(graph, groups, moved=self.neighborhood.perturbs_features)
        own: dict[Normalization, Tensor] = {}
        features: dict[Normalization, list[Tensor]] = {kind: [] for kind in self.kinds}
        changes: list[Tensor] = []
        fixed = 8 * (3 * len(self.kinds) * count * coordinates.size + 3 * graph.x.numel())
        fixed += walk_bytes(graph, len(self.kinds))
        for chunk in time_items(self.chunks(target, fixed, row_bytes(graph, len(groups))), "sampling"):
            with stage("features"):
                for kind in self.kinds:
                    rows = typed_rows(graph, chunk.weight_with_own, groups, kind)
                    own[kind] = rows[:, 0]
                    moved = rows if chunk.edges is None else rows[:, 1:]
                    features[kind].append(coordinates.features(own[kind], moved, chunk))
            with stage("F"):
                changes.append(target.changes(chunk))
        with stage("solve"):
            change = torch.cat(changes)
            solutions = {kind: self._solve_one(torch.cat(parts), change) for kind, parts in features.items()}
            best = _best_of(solutions)
            weights = coordinates.weights(solutions[best].weights)
            return TypedKHopModel(graph, groups, weights, solutions[best].error, best)

    def fit_given(self, graph: ComputationGraph, num_hops: int, weight: Tensor, change: Tensor) -> KHopModel:
        """Return the optimum for entries of A, [1 + S, e], first those of the graph as it is, and F's changes, [S]."""
        frame = Frame.of(graph, num_hops) if self.is_compiled else None
        if frame is not None:
            own, phi = frame.features(weight, self.kinds[0])
            p = frame.solve(phi, change, own, self.kinds[0], self.threshold, self.relative)
            if p is not None:
                return p
        coordinates = Coordinates(graph, num_hops, moved=False)
        both = {kind: khop_rows(graph, weight, num_hops, kind) for kind in self.kinds}
        features = {kind: coordinates.of_rows((row[:, :1] - row[:, 1:]).transpose(1, 2)) for kind, row in both.items()}
        return self.solve(coordinates, {kind: row[:, :1].clone() for kind, row in both.items()}, features, change)

    @property
    def kinds(self) -> tuple[Normalization, ...]:
        """The normalisations that are tried."""
        return get_args(Normalization) if self.normalization == "auto" else (self.normalization,)

    def solve(
        self,
        coordinates: Coordinates,
        rows: dict[Normalization, Tensor],
        features: dict[Normalization, Tensor],
        change: Tensor,
    ) -> KHopModel:
        """Return the optimum of the best N; ``rows`` are e^T N(A^k) of the unperturbed graph, [M, 1, n]."""
        solutions = {kind: self._solve_one(phi, change) for kind, phi in features.items()}
        best = _best_of(solutions)
        weights = coordinates.weights(solutions[best].weights)
        p = KHopModel(coordinates.graph, weights, solutions[best].error, best)
        p.remember(rows[best])
        return p

    def _solve_one(self, phi: Tensor, change: Tensor) -> Solution | Ridge:
        if self.solver == "tsvd":
            return truncated_svd(phi, change, self.threshold, relative=self.relative)
        scale = float(phi.square().sum()) / len(phi)
        scale = scale**-0.5 if scale > 0 else 1.0
        solution = ridge(scale * phi, change)
        return replace(solution, weights=scale * solution.weights)

    def details(self, p: DifferenceModel) -> dict[str, Any]:
        """Return what N is, beside what every fit says of itself."""
        return {**super().details(p), "normalization": getattr(p, "normalization", None)}


def _best_of(solutions: dict[Normalization, Solution | Ridge]) -> Normalization:
    """Return the N with the least leave-one-out error.

    Several may fit equally well, but for rounding, which must not decide. Of these the first one is taken.
    """
    if len(solutions) == 1:
        return next(iter(solutions))
    least = min(solution.left_out for solution in solutions.values())
    return next(kind for kind, one in solutions.items() if one.left_out <= least * (1 + _ALIKE))
