"""KEC, the paper's k-hop Explanation with a Convolutional Core (Definition 4.1, Proposition 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from ..difference import KHopModel, khop_rows
from ..solve import truncated_svd
from ..target import Target
from ..unfaithfulness import change_of
from .base import FittedExplainer


class KEC(FittedExplainer):
    r"""Explain F by the k-hop model whose change follows F's best in a neighbourhood.

    .. math:: p(X, A) = \sum_{k=1}^{M} e_v^\top N(A^k) X w_k, \qquad
              W^* = (E[\phi\phi^\top])^{-1} E[\phi\,\delta F]

    with :math:`\phi` the stacked :math:`\tau_k = e_v^\top [N(A^k) X - N((A - \epsilon_A)^k)(X - \epsilon_X)]` and
    :math:`\delta F = F(X, A) - F(X - \epsilon_X, A - \epsilon_A)`. Scores are the gradient of p.

    Options: :class:`~graphfaith.explainers.base.FittedExplainer`.
    """

    method = "KEC"

    def fit(self, target: Target) -> KHopModel:
        """Proposition 3's optimum on ``num_samples`` samples."""
        graph, hops, near = target.computation_graph, target.num_hops, self.neighborhood
        x = graph.x.double()
        # Edges alone moved: phi = rows X, so phi lives in the span of X's rows. With X^T = Q R it has the same
        # singular values in the coordinates of Q, of which there are as many as nodes, not as features.
        basis: Tensor | None = None
        if not near.perturbs_features and x.size(1) > x.size(0):
            basis, upper = torch.linalg.qr(x.T)
            x = upper.T
        before = khop_rows(graph, graph.weight.double().unsqueeze(0), hops)
        features, changes = [], []
        for chunk in near.chunks(graph, self.num_samples, self.seed, width=target.width()):
            weight, moved = chunk.weight, chunk.x
            after = before if weight is None else khop_rows(graph, weight, hops)
            if moved is None:
                tau = (before - after) @ x
            else:
                seen = torch.einsum("ksn,snd->ksd", after.to(moved.dtype).expand(-1, len(chunk), -1), moved)
                tau = before @ x - seen.double()
            features.append(tau.transpose(0, 1).flatten(1))  # [S, M d]
            changes.append(change_of(target, chunk))
        solution = truncated_svd(torch.cat(features), torch.cat(changes), self.threshold, relative=self.relative)
        weights = solution.weights.view(hops, -1)
        return KHopModel(graph, weights if basis is None else weights @ basis.T, solution.error)
