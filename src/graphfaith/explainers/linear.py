"""Linear: the linear difference model that is optimal in a neighbourhood (Definition 2.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from .._base.checks import check_real
from .._base.memory import CHUNK_BYTES
from ..graph.computation_graph import ComputationGraph
from ..model.call import Edges
from ..model.target import Target
from ..sampling.neighborhood import Neighborhood
from ..surrogate.difference import LinearModel
from ..surrogate.solve import truncated_svd, truncated_svd_dual
from .base import FittedExplainer


class Linear(FittedExplainer):
    r"""Explain F by the linear function of (X, A) whose change approximates F's change best in a neighbourhood.

    .. math:: \Phi^* = (E[\epsilon\epsilon^\top])^{-1} E[\epsilon\,(F(X, A) - F(X - \epsilon_X, A - \epsilon_A))]

    where :math:`\epsilon` has the features and the entries of A that the neighbourhood perturbs; the others have no
    score. The solution is computed by a truncated SVD, as in the paper. With fewer samples than unknowns, p fits the
    samples of the fit exactly and other samples badly, so ``num_samples`` should exceed the number of unknowns.

    Args:
        neighborhood: where p has to approximate F, e.g. ``UniformEdges(0.5)`` or ``"U(A,0.5)"``.
        num_samples: how many perturbed graphs to fit on.
        seed: the seed of the samples.
        threshold: singular values of at most this size are left out.
        relative: whether ``threshold`` is a share of the largest singular value.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explanation = gf.explain(model, ring, 1, method="linear", neighborhood="B(A,0.5)")
    >>> explanation.method, explanation.edge_mask.shape
    ('Linear', torch.Size([4]))
    """

    method = "Linear"

    def __init__(
        self,
        neighborhood: Neighborhood | str,
        *,
        num_samples: int = 200,
        seed: int = 0,
        threshold: float = 1e-4,
        relative: bool = False,
        num_hops: int | None = None,
        edges: Edges = "auto",
        max_memory: int | str | None = None,
    ) -> None:
        super().__init__(
            neighborhood, num_samples=num_samples, seed=seed, num_hops=num_hops, edges=edges, max_memory=max_memory
        )
        self.threshold, self.relative = check_real(threshold, "threshold", least=0.0), relative

    def fit(self, target: Target) -> LinearModel:
        """Return Definition 2.4's optimum on ``num_samples`` samples."""
        graph, near = target.computation_graph, self.neighborhood
        changes, edges, count = [], [], self.count_samples()
        width = graph.num_edges if near.perturbs_edges else 0  # entries of A among the columns; those of E follow
        # The decomposition makes some copies of eps_A, and of a square matrix: that of the samples if features move,
        # else the smaller one of the samples and the entries of A. Only one block of eps_X at a time is in memory.
        columns = width + (graph.attributes.numel() if near.perturbs_attributes and graph.attributes is not None else 0)
        side = count if near.perturbs_features else min(count, columns)
        fixed = 8 * ((5 * columns + 8) * count + 5 * side * side)
        if near.perturbs_features:
            fixed += 2 * min(CHUNK_BYTES, 8 * count * graph.x.numel()) + 16 * graph.x.numel()
        for chunk in self.chunks(target, fixed):
            changes.append(target.changes(chunk))
            parts = [] if chunk.edges is None else [chunk.edges]
            parts += [] if chunk.attributes is None else [chunk.attributes.flatten(1).double()]
            if parts:
                edges.append(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))
        delta, epsilon = torch.cat(changes), torch.cat(edges) if edges else None
        if near.perturbs_features:
            return self._fit_features(graph, epsilon, delta, width)
        assert epsilon is not None
        solution = truncated_svd(epsilon, delta, self.threshold, relative=self.relative)
        return LinearModel(graph, None, *_split(graph, solution.weights, width, solution.error))

    def _fit_features(self, graph: ComputationGraph, epsilon: Tensor | None, delta: Tensor, width: int) -> LinearModel:
        """Return the optimum Phi = eps^T alpha, solved for one number alpha per sample.

        eps_X of all samples would not fit in memory. But a block of it can be drawn again at any time, so it is drawn
        twice: once for the Gram matrix eps eps^T and once for Phi.
        """
        gram = torch.zeros(len(delta), len(delta), dtype=torch.float64)
        if epsilon is not None:
            gram += epsilon @ epsilon.T
        for _, block in self._blocks(graph):
            gram += block @ block.T
        solution = truncated_svd_dual(gram, delta, self.threshold, relative=self.relative)
        alpha = solution.weights
        phi_x = torch.zeros(graph.x.shape, dtype=torch.float64)
        for nodes, block in self._blocks(graph):
            phi_x[nodes] = (block.T @ alpha).view(-1, graph.x.size(1))
        phi = None if epsilon is None else epsilon.T @ alpha
        return LinearModel(graph, phi_x, *_split(graph, phi, width, solution.error))

    def _blocks(self, graph: ComputationGraph) -> Iterator[tuple[slice, Tensor]]:
        """Yield eps_X of all samples, a block of nodes at a time."""
        samples = np.arange(self.count_samples())
        step = max(1, CHUNK_BYTES // (8 * len(samples) * graph.x.size(1)))
        for start in range(0, graph.num_visible, step):
            nodes = slice(start, min(start + step, graph.num_visible))
            part = replace(graph, nodes=graph.nodes[nodes], x=graph.x[nodes], num_visible=nodes.stop - nodes.start)
            drawn = self.neighborhood.features(part, samples, self.seed)
            assert drawn is not None
            yield nodes, drawn.double().flatten(1)


def _split(
    graph: ComputationGraph, phi: Tensor | None, width: int, error: float
) -> tuple[Tensor | None, float, Tensor | None]:
    """Return the slopes of the entries of A, the error of the fit, and the slopes of edge attributes."""
    if phi is None or graph.attributes is None or len(phi) == width:
        return phi, error, None
    return phi[:width] if width else None, error, phi[width:].view(graph.attributes.shape)
