"""GNNExplainer: a mask for every edge and feature, learnt by PyG's own algorithm."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.explain import algorithm as pyg

from .._base.errors import ModelError
from ..model.call import Edges
from ..model.target import Target
from ..surrogate.difference import SubgraphModel
from .subgraph import MaskLearner, Silent, WithEmpty, leave_untouched, use_own_precision


class GNNExplainer(MaskLearner):
    """PyG's GNNExplainer (Definition 2.3).

    Args:
        hard: if True, edges with a mask below 0.5 are removed and the others keep their full weight; if False
            ("soft"), A_s = A * mask.
        epochs: how many epochs to train.
        lr: the learning rate.
        seed: the seed of PyG's initial masks.
        silent: see :class:`~graphfaith.explainers.subgraph.SubgraphExplainer`.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.
        coefficients: PyG's coefficients of the loss, such as ``edge_size``.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explanation = gf.explain(model, ring, 1, method="gnnexplainer")
    >>> explanation.method, bool(((explanation.edge_mask == 0) | (explanation.edge_mask == 1)).all())
    ('GNNExplainer', True)
    """

    follows_slopes = True

    def __init__(
        self,
        *,
        epochs: int = 100,
        lr: float = 0.01,
        hard: bool = False,
        seed: int = 0,
        silent: Silent = "drop",
        num_hops: int | None = None,
        edges: Edges = "auto",
        max_memory: int | str | None = None,
        **coefficients: Any,
    ) -> None:
        super().__init__(seed=seed, silent=silent, num_hops=num_hops, edges=edges, max_memory=max_memory)
        self.set_training(epochs, lr, coefficients, pyg.GNNExplainer.default_coeffs)
        self.hard = hard

    @property
    def method(self) -> str:  # type: ignore[override]
        """The name used in the paper's tables."""
        return "GNNExplainer" if self.hard else "GNNExplainer (soft)"

    def fit(self, target: Target) -> SubgraphModel:
        """Learn the masks and return F on the masked graph."""
        args, kwargs, places = self._call(target)
        _check_slope(target)
        algorithm = pyg.GNNExplainer(epochs=self.epochs, lr=self.lr)
        algorithm.coeffs = {**pyg.GNNExplainer.default_coeffs, **self.coefficients}
        algorithm.connect(self.explainer_config, self.model_config)
        use_own_precision(algorithm)
        with leave_untouched(target.model, self.seed):
            model = args[0]
            if isinstance(model, WithEmpty):
                named = {name: value for name, value in kwargs.items() if name not in ("target", "index")}
                args = model, *model.read(*args[1:], **named)
            masks = algorithm(*args, **kwargs)
        nodes, edges = self._masks_of(target, masks, places)
        learnt = torch.ones(len(places)) if edges is None else edges
        p = SubgraphModel(target, nodes, self._edge_mask(target, learnt, places))
        return self.harden(p) if self.hard else p

    @staticmethod
    def harden(p: SubgraphModel) -> SubgraphModel:
        """Return the hard version of a soft explanation: edges below 0.5 are removed, the others keep their weight."""
        assert p.edge_mask is not None
        return SubgraphModel(p.target, p.node_mask, (p.edge_mask >= 0.5).to(p.edge_mask.dtype))


def _check_slope(target: Target) -> None:
    """Check that the output depends on the graph in a way that autograd can follow, which the masks are learnt by."""
    part = target.computation_graph
    with torch.enable_grad():
        if not target(part.x.detach().requires_grad_(), part.weight.detach().requires_grad_()).requires_grad:
            raise ModelError(
                f"GNNExplainer learns its masks by derivatives, and the output of {type(target.model).__name__} has "
                "none: it is constant, or computed without autograd"
            )
