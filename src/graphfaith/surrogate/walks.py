"""Sums over walks: the rows e^T N(A^k), through which a k-hop model depends on A, and their derivatives.

N(A^k) = L A^k R, where the diagonal matrices L and R are functions of A^k 1. The row e^T L A^k and the vector A^k 1 are
each a chain of k sparse products, so the matrix A^k is never computed. All perturbed graphs share one sparsity pattern,
and each has its own values. The products are those of :mod:`graphfaith._base.core`.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._base import core
from ..graph.computation_graph import ComputationGraph

Float64 = npt.NDArray[np.float64]
Normalization = Literal["symmetric", "row", "none"]
CODES = dict(zip(get_args(Normalization), (core.SYMMETRIC, core.ROW, core.NONE), strict=True))


def walk_bytes(graph: ComputationGraph, kinds: int) -> int:
    """Estimate what walks of so many normalisations take on a graph, beside the samples they are summed in.

    The index of the entries of A, the matrices of the unperturbed graph and the derivatives of p are a few numbers an
    entry each (measured by ``benchmarks/memory.py``).
    """
    return 8 * (8 + 12 * kinds) * graph.num_edges


def khop_rows(
    graph: ComputationGraph, weight: Tensor, num_hops: int, normalization: Normalization = "symmetric"
) -> Tensor:
    """Return e^T N(A^k) for k = 1 .. M = ``num_hops``, [M, S, n], and S sets of values of A's entries, [S, e].

    A node without walks of length k has a zero row and column in N(A^k).

    >>> from graphfaith.graph.graph import Graph
    >>> x, path = torch.eye(3), torch.tensor([[2, 1], [1, 0]])                            # 2 -> 1 -> 0, and the loops
    >>> part = ComputationGraph.around(Graph.of(x, path), 0, num_hops=2)
    >>> khop_rows(part, torch.ones(1, part.num_edges), 2, "none")[:, 0].tolist()            # walks of 1 and 2 steps
    [[1.0, 1.0, 0.0], [1.0, 2.0, 1.0]]
    """
    values = weight.double().T.contiguous().numpy()  # [e, S], so that the values of one entry are contiguous
    source, sink = graph.edge_index.numpy()
    places = np.arange(graph.num_edges)
    seeds, e, kind = graph.seeds.numpy(), graph.e.numpy(), CODES[normalization]
    rows = core.rows_of_walks(values, places, source, sink, graph.hop.numpy(), seeds, e, num_hops, kind)
    return torch.from_numpy(rows).transpose(1, 2)


def khop_gradient(graph: ComputationGraph, weight: Tensor, y: Tensor, normalization: Normalization) -> Tensor:
    """Return the derivative of sum_k e^T N(A^k) y_k, y [n, M], with respect to the entries of A, [e], at ``weight``."""
    source, sink = graph.edge_index.numpy()
    seeds, e, kind = graph.seeds.numpy(), graph.e.numpy(), CODES[normalization]
    numbers = weight.double().contiguous().numpy(), np.ascontiguousarray(y.double().numpy())
    return torch.from_numpy(core.gradient_of_walks(numbers[0], source, sink, seeds, e, numbers[1], kind))
