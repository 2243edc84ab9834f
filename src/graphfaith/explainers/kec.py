"""KEC, the paper's k-hop Explanation with a Convolutional Core (Definition 4.1, Proposition 3)."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ..difference import DifferenceModel, KHopModel, Normalization, khop_rows
from ..errors import InputError
from ..neighborhood import Neighborhood
from ..solve import Solution, truncated_svd
from ..target import Target
from ..unfaithfulness import change_of
from .base import FittedExplainer


class KEC(FittedExplainer):
    r"""Explain F by the k-hop model whose change follows F's best in a neighbourhood.

    .. math:: p(X, A) = \sum_{k=1}^{M} e^\top N(A^k) X w_k, \qquad
              W^* = (E[\phi\phi^\top])^{-1} E[\phi\,\delta F]

    with :math:`\phi` the stacked :math:`\tau_k = e^\top [N(A^k) X - N((A - \epsilon_A)^k)(X - \epsilon_X)]` and
    :math:`\delta F = F(X, A) - F(X - \epsilon_X, A - \epsilon_A)`. Scores are the gradient of p.

    ``normalization`` says what N is: "symmetric", as in the paper, "row", "none", or "auto": of the three the one
    with the smallest leave-one-out error on the samples of the fit. Other options:
    :class:`~graphfaith.explainers.base.FittedExplainer`.
    """

    method = "KEC"

    def __init__(
        self,
        neighborhood: Neighborhood | str,
        num_samples: int = 200,
        num_hops: int | None = None,
        threshold: float = 1e-4,
        seed: int = 0,
        *,
        normalization: Normalization | Literal["auto"] = "symmetric",
        **options: Any,
    ) -> None:
        super().__init__(neighborhood, num_samples, num_hops, threshold, seed, **options)
        if normalization not in (*get_args(Normalization), "auto"):
            known = ", ".join(get_args(Normalization))
            raise InputError(f"normalization must be one of {known}, auto (got {normalization!r})")
        self.normalization = normalization

    def fit(self, target: Target) -> KHopModel:
        """Proposition 3's optimum on ``num_samples`` samples."""
        graph, hops, near = target.computation_graph, target.num_hops, self.neighborhood
        x = graph.x.double()
        # Edges alone moved: phi = rows X, so phi lives in the span of X's rows. With X^T = Q R it has the same
        # singular values in the coordinates of Q, of which there are as many as nodes, not as features. Q itself is
        # kept as reflections: to multiply by it is cheaper than to write it down.
        reflections: tuple[Tensor, Tensor] | None = None
        if not near.perturbs_features and x.size(1) > x.size(0):
            reflections = torch.geqrf(x.T)
            x = reflections[0][: x.size(0)].triu().T
        kinds: tuple[Normalization, ...] = (
            get_args(Normalization) if self.normalization == "auto" else (self.normalization,)
        )
        before = {kind: khop_rows(graph, graph.weight.double().unsqueeze(0), hops, kind) for kind in kinds}
        features: dict[Normalization, list[Tensor]] = {kind: [] for kind in kinds}
        changes = []
        unknowns = hops * x.size(1)
        fixed = 8 * (3 * len(kinds) * self.num_samples * unknowns + 3 * graph.x.numel())
        for chunk in self.chunks(target, fixed):
            weight, moved = chunk.weight, chunk.x
            for kind in kinds:
                after = before[kind] if weight is None else khop_rows(graph, weight, hops, kind)
                if moved is None:
                    tau = (before[kind] - after) @ x
                else:
                    seen = torch.einsum("ksn,snd->ksd", after.to(moved.dtype).expand(-1, len(chunk), -1), moved)
                    tau = before[kind] @ x - seen.double()
                features[kind].append(tau.transpose(0, 1).flatten(1))  # [S, M d]
            changes.append(change_of(target, chunk))
        delta = torch.cat(changes)
        found = {kind: self._solve(torch.cat(features.pop(kind)), delta) for kind in kinds}
        best = min(kinds, key=lambda kind: found[kind].left_out)
        weights = found[best].weights.view(hops, -1)
        if reflections is not None:
            padded = torch.nn.functional.pad(weights, (0, graph.x.size(1) - weights.size(1)))
            weights = torch.ormqr(*reflections, padded.T).T
        p = KHopModel(graph, weights, found[best].error, best)
        p.rows = before[best]
        return p

    def _solve(self, features: Tensor, delta: Tensor) -> Solution:
        return truncated_svd(features, delta, self.threshold, relative=self.relative)

    def details(self, p: DifferenceModel) -> dict[str, Any]:
        """What N is, beside what every fit says of itself."""
        return {**super().details(p), "normalization": getattr(p, "normalization", None)}
