"""The k-hop model on one computation graph where only edges move, fitted by the compiled core."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._base import core
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Int64
from .difference import KHopModel
from .solve import truncated_svd
from .walks import CODES, Float64, Normalization, khop_rows

_FIRST = np.zeros(1, np.int64)  # the number of the only one of some computation graphs
_MOST = 2**27  # multiplications that it takes to find coordinates of X; for more, LAPACK is faster than the core


@dataclass(frozen=True)
class Frame:
    r"""Coordinates in which the features of the fit have as few entries as possible, and their fit.

    If only edges move, then :math:`\tau_k = r_k X` for a row :math:`r_k` that is 0 at nodes further away than k hops.
    So it lies in the span of the features of the n_k nodes within k hops. With :math:`X = L Q^\top`, L lower triangular
    and Q orthonormal, its coordinates are :math:`r_k L`, and singular values and norms are the same in them. L is
    Cholesky's factor of :math:`X X^\top`, without the columns of nodes whose features depend on those before them.
    """

    graph: ComputationGraph
    num_hops: int
    factor: Float64  # [n, r] L
    independent: Int64  # [r] the nodes whose features do not depend on those of nodes before them

    @classmethod
    def of(cls, graph: ComputationGraph, num_hops: int) -> Frame | None:
        """Return the frame of a computation graph; None if the graph is so large that the core is not the right way."""
        if not is_small(graph.num_visible, graph.x.size(1)):
            return None
        x = core.sparse_of(as_array(graph.x))
        return cls(graph, num_hops, *core.coordinates_of(x, np.arange(graph.num_visible)))

    @cached_property
    def _spans(self) -> tuple[Int64, Int64]:
        """How many nodes walks of k steps may reach, and how many of these have independent features."""
        found: tuple[Int64, Int64] = core.spans_of(self.graph.hop.numpy(), self.independent, self.num_hops)
        return found

    def features(self, weight: Tensor, kind: Normalization) -> tuple[Tensor, Float64]:
        """Return the rows e^T N(A^k), [M, 1, n], and the features of samples, [P, S], from entries of A, [1 + S, e].

        The first of these are those of the graph as it is.
        """
        rows = khop_rows(self.graph, weight, self.num_hops, kind)
        given = self.factor, self.independent, *self._spans
        phi: Float64 = core.features_of(rows.transpose(1, 2).numpy(), *given)
        return rows[:, :1].clone(), phi

    def solve(
        self, phi: Float64, change: Tensor, rows: Tensor, kind: Normalization, threshold: float, relative: bool
    ) -> KHopModel | None:
        """Return the optimum by a truncated singular value decomposition; None if the coordinates are not exact enough.

        That is so if features are so close to dependent that singular values above the threshold are lost in rounding.
        """
        few = len(self.independent) < len(self.factor)
        solution, sound = core.solve_kept(phi, change.numpy(), float(threshold), bool(relative), few)
        if sound:
            error = float(np.square(solution @ phi - change.numpy()).mean())
        else:
            bound = threshold if relative else threshold / max(float(np.linalg.norm(phi)), np.finfo(float).tiny)
            if not bound >= core.FINE:
                return None
            truncated = truncated_svd(torch.from_numpy(phi).T, change, threshold, relative=relative)
            solution, error = truncated.weights.numpy(), truncated.error
        beta, _ = core.expand(solution, self.factor, self.independent, self._spans[1], self.graph.num_nodes)
        return model_of(self.graph, rows, beta, error, kind)


def describe_graph(graph: ComputationGraph) -> tuple[Any, ...] | None:
    """Return one computation graph as the core reads several; None if F is not read from its first node alone."""
    if len(graph.seeds) != 1 or int(graph.seeds[0]) != 0 or float(graph.e[0]) != 1:
        return None
    count, entries = graph.num_nodes, graph.num_edges
    return (
        np.array([0, count]),
        np.array([0, entries]),
        np.array([graph.num_visible]),
        np.arange(count),
        graph.hop.numpy(),
        graph.edge_index.numpy(),
        np.arange(entries),
    )


def fit_at_once(
    graph: ComputationGraph,
    num_hops: int,
    weight: Tensor,
    change: Tensor,
    kind: Normalization,
    threshold: float,
    relative: bool,
) -> KHopModel | None:
    """Return the optimum for entries of A, [1 + S, e], and F's changes, [S], from one call of the core.

    The first of these entries are those of the graph as it is. It is None if F is not read from one node, or if the
    optimum has to be found in another way: see :meth:`Frame.of` and :meth:`Frame.solve`.
    """
    described = describe_graph(graph)
    if described is None or not is_small(graph.num_visible, graph.x.size(1)):
        return None
    x, values = core.sparse_of(as_array(graph.x)), weight.T.contiguous().numpy()
    count, error, sound = graph.num_nodes, np.zeros(1), np.zeros(1, dtype=bool)
    rows, beta, products = np.zeros((3, count, num_hops))
    scores = np.zeros(graph.num_edges)
    options = num_hops, CODES[kind], float(threshold), bool(relative)
    found = rows, beta, products, scores, error, sound
    core.fit_parts(_FIRST, described, values, x, change.numpy()[None], *options, found)
    if not sound[0]:
        return None
    p = model_of(graph, torch.from_numpy(rows.T.copy()).unsqueeze(1), beta, float(error[0]), kind)
    p.remember_gradient(torch.from_numpy(scores))
    return p


def model_of(graph: ComputationGraph, rows: Tensor, beta: Float64, error: float, kind: Normalization) -> KHopModel:
    """Return the k-hop model with w_k = X^T beta_k, given beta, [n, M], and the rows e^T N(A^k), [M, 1, n]."""
    p = KHopModel(graph, torch.from_numpy(beta.T.copy()) @ graph.x.double(), error, kind)
    p.remember(rows)
    return p


def is_small(count: Any, width: int) -> Any:
    """Return whether the core is the fastest way to find coordinates of so many rows of features, or of such a list."""
    return count * np.minimum(count, width) ** 2 <= _MOST


def as_array(x: Tensor) -> np.ndarray:
    """Return features as an array that the core can read; it has no numbers in half precision."""
    return (x if x.dtype in (torch.float32, torch.float64) else x.float()).contiguous().numpy()
