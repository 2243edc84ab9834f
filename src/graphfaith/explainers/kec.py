"""KEC, the paper's k-hop Explanation with a Convolutional Core (Definition 4.1, Proposition 3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from .._base.errors import InputError
from .._base.scratch import scratch
from .._base.stages import stage, timed
from ..model.target import Target
from ..sampling.neighborhood import Neighborhood
from ..surrogate.coordinates import Coordinates
from ..surrogate.difference import DifferenceModel, KHopModel
from ..surrogate.solve import Ridge, Solution, ridge, truncated_svd
from ..surrogate.walks import Normalization, khop_rows
from .base import FittedExplainer

Solver = Literal["tsvd", "ridge"]


class KEC(FittedExplainer):
    r"""Explain F by the k-hop model whose change follows F's best in a neighbourhood.

    .. math:: p(X, A) = \sum_{k=1}^{M} e^\top N(A^k) X w_k, \qquad
              W^* = (E[\phi\phi^\top])^{-1} E[\phi\,\delta F]

    with :math:`\phi` the stacked :math:`\tau_k = e^\top [N(A^k) X - N((A - \epsilon_A)^k)(X - \epsilon_X)]` and
    :math:`\delta F = F(X, A) - F(X - \epsilon_X, A - \epsilon_A)`. Scores are the gradient of p.

    ``normalization`` says what N is: "symmetric", as in the paper, "row", "none", or "auto": of the three the one
    with the smallest leave-one-out error on the samples of the fit. ``solver`` is "tsvd", the paper's truncated SVD, or
    "ridge", a penalty that leave-one-out error chooses. Other options:
    :class:`~graphfaith.explainers.base.FittedExplainer`.
    """

    method = "KEC"
    proves = True

    def __init__(
        self,
        neighborhood: Neighborhood | str,
        num_samples: int = 200,
        num_hops: int | None = None,
        threshold: float = 1e-4,
        seed: int = 0,
        *,
        normalization: Normalization | Literal["auto"] = "symmetric",
        solver: Solver = "tsvd",
        **options: Any,
    ) -> None:
        super().__init__(neighborhood, num_samples, num_hops, threshold, seed, **options)
        if normalization not in (*get_args(Normalization), "auto"):
            known = ", ".join(get_args(Normalization))
            raise InputError(f"normalization must be one of {known}, auto (got {normalization!r})")
        if solver not in get_args(Solver):
            raise InputError(f"solver must be one of {', '.join(get_args(Solver))} (got {solver!r})")
        self.normalization, self.solver = normalization, solver

    def fit(self, target: Target) -> KHopModel:
        """Proposition 3's optimum on ``num_samples`` samples."""
        graph, hops = target.computation_graph, target.num_hops
        with stage("features"):
            coordinates = Coordinates(graph, hops, moved=self.neighborhood.perturbs_features)
        before: dict[Normalization, Tensor] = {}
        changes, value, at = [], None, 0
        fixed = 8 * (3 * len(self.kinds) * self.num_samples * coordinates.size + 3 * graph.x.numel())
        chunks = self.chunks(target, fixed)
        shape = self.num_samples, coordinates.size
        features = {kind: scratch(f"fit {kind}", *shape, dtype=torch.float64) for kind in self.kinds}
        for chunk in timed(chunks, "sampling"):
            start = int(value is None)
            # The graph as it is goes with the first samples of it.
            weight = chunk.weight_with_own if start else chunk.weight
            with stage("features"):
                for kind in self.kinds:
                    after = before.get(kind) if weight is None else khop_rows(graph, weight, hops, kind)
                    assert after is not None
                    before.setdefault(kind, after[:, :1])
                    after = None if chunk.edges is None else after[:, start:]
                    features[kind][at : at + len(chunk)] = coordinates.features(before[kind], after, chunk)
            with stage("F"):
                if value is None and chunk.features is None and weight is not None:
                    value, outputs = target.with_own(weight)
                elif value is None:
                    target.prove()
                    value = target.value
                if start == 0 or chunk.features is not None:
                    # Features have been looked at: X - eps_X can be written over eps_X.
                    eps = chunk.features
                    moved = None if eps is None else torch.sub(graph.x, eps, out=eps)
                    outputs = target.evaluate(moved, chunk.weight)
                changes.append(value - outputs.double())
            at += len(chunk)
        with stage("solve"):
            return self.solve(coordinates, before, features, torch.cat(changes))

    @property
    def kinds(self) -> tuple[Normalization, ...]:
        """The normalisations that are tried."""
        return get_args(Normalization) if self.normalization == "auto" else (self.normalization,)

    def solve(
        self,
        coordinates: Coordinates,
        before: dict[Normalization, Tensor],
        features: dict[Normalization, Tensor],
        change: Tensor,
    ) -> KHopModel:
        """The optimum for each N, and of several the best; ``before`` has the rows e^T N(A^k) of the graph as it is."""
        found = {kind: self._solved(phi, change) for kind, phi in features.items()}
        best = next(iter(found)) if len(found) == 1 else min(found, key=lambda kind: found[kind].left_out)
        p = KHopModel(coordinates.graph, coordinates.weights(found[best].weights), found[best].error, best)
        p.remember(before[best], coordinates.own)
        return p

    def _solved(self, phi: Tensor, change: Tensor) -> Solution | Ridge:
        if self.solver == "tsvd":
            return truncated_svd(phi, change, self.threshold, relative=self.relative)
        scale = float(phi.square().sum()) / len(phi)
        scale = scale**-0.5 if scale > 0 else 1.0
        found = ridge(scale * phi, change)
        return replace(found, weights=scale * found.weights)

    def details(self, p: DifferenceModel) -> dict[str, Any]:
        """What N is, beside what every fit says of itself."""
        return {**super().details(p), "normalization": getattr(p, "normalization", None)}
