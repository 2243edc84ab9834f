"""The saliency map: the gradient of F itself, signed."""

from __future__ import annotations

from ..model.target import Target
from ..surrogate.difference import LinearModel
from .base import FaithfulExplainer


class Saliency(FaithfulExplainer):
    r"""Explain F by its linearisation, :math:`\Phi_X = \nabla_X F(X, A)`, :math:`\Phi_A = \nabla_A F(X, A)`.

    Edge attributes E have the scores :math:`\nabla_E F`, if the model is given some of real numbers.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explanation = gf.explain(model, ring, 1, method="saliency")
    >>> explanation.method, explanation.node_mask.shape, explanation.edge_mask.shape
    ('Saliency', torch.Size([4, 2]), torch.Size([4]))
    """

    method = "Saliency"
    follows_slopes = True

    def fit(self, target: Target) -> LinearModel:
        """Return the linear model whose coefficients are the gradient of F at (X, A)."""
        graph = target.computation_graph
        # For the gradient torch keeps a few numbers for every edge and unit of a layer.
        target.room(16 * graph.x.numel(), 8 * 8 * graph.num_edges * target.width(), self.method, alone=True)
        return LinearModel(graph, *target.gradient(), phi_e=target.attribute_gradients())
