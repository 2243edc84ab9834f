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
from .walks import Float64, Normalization, khop_rows

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

    @property
    def size(self) -> int:
        """How many unknowns there are."""
        return int(self._spans[1].sum())

    def features(self, weight: Tensor, kind: Normalization) -> tuple[Tensor, Float64]:
        """Return the rows e^T N(A^k), [M, 1, n], and the features of samples, [S, P], from entries of A, [1 + S, e].

        The first of these are those of the graph as it is.
        """
        rows = khop_rows(self.graph, weight, self.num_hops, kind)
        phi: Float64 = core.features_of(rows.transpose(1, 2).numpy(), self.factor, *self._spans)
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
            error = float(np.square(phi @ solution - change.numpy()).mean())
        else:
            bound = threshold if relative else threshold / max(float(np.linalg.norm(phi)), np.finfo(float).tiny)
            if not bound >= core.FINE:
                return None
            truncated = truncated_svd(torch.from_numpy(phi), change, threshold, relative=relative)
            solution, error = truncated.weights.numpy(), truncated.error
        beta, _ = core.expand(solution, self.factor, self.independent, self._spans[1], self.graph.num_nodes)
        return model_of(self.graph, rows, beta, error, kind)


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
