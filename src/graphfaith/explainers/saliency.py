"""The saliency map: the gradient of F itself, signed."""

from __future__ import annotations

from ..difference import LinearModel
from ..target import Target
from .base import FaithfulExplainer


class Saliency(FaithfulExplainer):
    r"""Explain F by its linearisation, :math:`\Phi_X = \nabla_X F(X, A)`, :math:`\Phi_A = \nabla_A F(X, A)`."""

    method = "Saliency"

    def fit(self, target: Target) -> LinearModel:
        """The gradient of F at (X, A)."""
        return LinearModel(target.computation_graph, *target.gradient())
