"""Propagation: the rows e^T N(A)^k of a chain of graph convolutions, and their derivatives.

KEC normalises the powers of A, N(A^k). A network of convolutions takes powers of the normalised A, N(A)^k. These need
only one sparse matrix, N(A), for every k: each row is the product of the previous row with it. This holds for a node,
and also for a pair of nodes or a whole graph.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._base import core
from ..graph.computation_graph import ComputationGraph
from .walks import CODES, Normalization

# The powers j of c. Power 1 is left out, because e^T N(A)^k c = e^T N(A)^(k + 1) 1. Powers above 3 overfit.
MOMENTS = (2, 3)


class Propagated(NamedTuple):
    """The rows and moments of S graphs."""

    rows: Tensor  # [M, n, S] e^T N(A)^k for k = 1 .. M
    moments: Tensor  # [M, 2, S] e^T N(A)^k c^j for k = 0 .. M - 1 and j = 2, 3, with c = N(A) 1

    def change(self) -> Propagated:
        """Return the values of the first graph minus those of each other graph, [..., S - 1]."""
        return Propagated(*(part[..., :1] - part[..., 1:] for part in self))


class Propagation:
    """Propagation on a computation graph: the places of the entries of A, and the vector e of the nodes that F reads.

    N(A) is :math:`D^{-1/2} A D^{-1/2}` ("symmetric"), :math:`D^{-1} A` ("row") or A ("none"), D = diag(A 1).
    The row of a node without incoming weight is 0.

    >>> from graphfaith.graph.graph import Graph
    >>> x, path = torch.eye(3), torch.tensor([[2, 1], [1, 0]])                            # 2 -> 1 -> 0, and the loops
    >>> part = ComputationGraph.around(Graph.of(x, path), 0, num_hops=2)
    >>> Propagation(part, 2).of(torch.ones(part.num_edges, 1), "row").rows[:, :, 0].tolist()
    [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25]]
    """

    def __init__(self, graph: ComputationGraph, num_hops: int) -> None:
        self.graph, self.num_hops, self.num_nodes = graph, num_hops, graph.num_nodes
        self.source, self.sink = graph.edge_index
        e = np.zeros((self.num_nodes, 1))
        e[graph.seeds.numpy(), 0] = graph.e.numpy()
        self.e = torch.from_numpy(e)  # [n, 1]

    def of(self, values: Tensor, normalization: Normalization) -> Propagated:
        """Return the rows and moments for S sets of values of the entries of A, [e, S]."""
        given = values.double().contiguous().numpy(), *self._graph_arrays(), self.num_hops, CODES[normalization]
        rows, moments = core.propagate(*given)
        return Propagated(torch.from_numpy(rows), torch.from_numpy(moments))

    def value(self, values: Tensor, y: Tensor, v: Tensor, normalization: Normalization) -> Tensor:
        r"""Return a weighted sum of rows and moments for S sets of values of the entries of A, [e, S] -> [S].

        The sum is :math:`\sum_{k=1}^M e^\top N^k y_k + \sum_{k<M} \sum_j v_{kj} e^\top N^k c^j`, where ``y`` is [n, M]
        and ``v`` is [M, 2].
        """
        given = self._arguments(values, y, v, normalization)
        return torch.from_numpy(core.value_of_propagation(*given, np.zeros(len(values)), 1.0))

    def gradient(self, values: Tensor, y: Tensor, v: Tensor, normalization: Normalization) -> Tensor:
        """Return the derivative of :meth:`value` with respect to the entries of A, [e], its mean over S sets of values.

        The chain rule goes through N and through the degrees D that it is normalised with.
        """
        return torch.from_numpy(core.gradient_of_propagation(*self._arguments(values, y, v, normalization)))

    def _arguments(self, values: Tensor, y: Tensor, v: Tensor, normalization: Normalization) -> tuple[object, ...]:
        """Return the arguments of the compiled core."""
        numbers = [part.double().contiguous().numpy() for part in (values, y, v)]
        return numbers[0], *self._graph_arrays(), *numbers[1:], CODES[normalization]

    def _graph_arrays(self) -> tuple[object, ...]:
        """Return the ends of the entries of A, the distances of the nodes, and e, [n]."""
        return self.source.numpy(), self.sink.numpy(), self.graph.hop.numpy(), self.e[:, 0].contiguous().numpy()
