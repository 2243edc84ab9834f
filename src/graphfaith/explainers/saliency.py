"""The saliency map: the gradient of F itself, signed."""

from __future__ import annotations

from ..model.target import Target
from ..surrogate.difference import LinearModel
from .base import FaithfulExplainer


class Saliency(FaithfulExplainer):
    r"""Explain F by its linearisation, :math:`\Phi_X = \nabla_X F(X, A)`, :math:`\Phi_A = \nabla_A F(X, A)`."""

    method = "Saliency"

    def fit(self, target: Target) -> LinearModel:
        """Return the linear model whose coefficients are the gradient of F at (X, A)."""
        graph = target.computation_graph
        # For the gradient torch keeps a few numbers for every edge and unit of a layer.
        target.room(16 * graph.x.numel(), 8 * 8 * graph.num_edges * target.width(), self.method, alone=True)
        return LinearModel(graph, *target.gradient())
