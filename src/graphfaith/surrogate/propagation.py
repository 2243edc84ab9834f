"""Propagation: the rows e^T N(A)^k of a chain of graph convolutions, and their derivatives.

KEC normalises the powers of A, N(A^k). A network of convolutions takes powers of the normalised A, N(A)^k. These need
only one sparse matrix, N(A), for every k: each row is the product of the previous row with it. This holds for a node,
and also for a pair of nodes or a whole graph.
"""

from __future__ import annotations

import math
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
        # Only the entries whose sink is within M - 1 hops are in a walk. The others only count in the degrees D.
        self._depth = graph.hop.numpy()[self.sink.numpy()]
        inner = np.flatnonzero(self._depth < num_hops)
        self._inner = torch.from_numpy(inner)
        ends = self.source.numpy()[inner], self.sink.numpy()[inner]
        self._inner_ends = torch.from_numpy(ends[0]), torch.from_numpy(ends[1])
        self._steps = []
        for k in range(num_hops):
            taken = np.flatnonzero(self._depth[inner] <= k)
            self._steps.append(tuple(torch.from_numpy(part) for part in (taken, ends[0][taken], ends[1][taken])))
        # If the nodes are sorted by distance, the first _near[k] nodes are those within k hops. They are not sorted if
        # the computation graph is the whole graph.
        hop = graph.hop.numpy()
        self._near = [self.num_nodes] * num_hops
        if bool((hop[1:] >= hop[:-1]).all()):
            self._near = np.searchsorted(hop, np.arange(num_hops), side="right").tolist()
        e = np.zeros((self.num_nodes, 1))
        e[graph.seeds.numpy(), 0] = graph.e.numpy()
        self.e = torch.from_numpy(e)  # [n, 1]

    def of(self, values: Tensor, normalization: Normalization) -> Propagated:
        """Return the rows and moments for S sets of values of the entries of A, [e, S]."""
        shape = self.num_nodes, values.size(1)
        entries = self._entries(values, normalization)
        inward = values.new_zeros(self._near[-1], shape[1]).index_add_(0, self._inner_ends[1], entries)
        powers = values.new_empty(len(MOMENTS), *inward.shape)
        torch.mul(torch.mul(inward, inward, out=powers[0]), inward, out=powers[1])
        rows = values.new_empty(self.num_hops, *shape)
        moments = values.new_empty(self.num_hops, len(MOMENTS), shape[1])
        row = self.e
        for k, (step, source, sink) in enumerate(self._steps):
            near = self._near[k]
            torch.sum(row[:near] * powers[:, :near], dim=1, out=moments[k])
            terms = entries.index_select(0, step).mul_(row.index_select(0, sink))
            row = rows[k].zero_().index_add_(0, source, terms)
        return Propagated(rows, moments)

    def _entries(self, values: Tensor, normalization: Normalization) -> Tensor:
        """Return the entries of N(A) whose sink is within M - 1 hops, [inner, S]."""
        inner = values.index_select(0, self._inner)
        if normalization == "none":
            return inner
        source, sink = self._inner_ends
        total = values.new_zeros(self.num_nodes, values.size(1)).index_add_(0, self.sink, values)
        degree = torch.where(total > 0, total, math.inf)
        if normalization == "row":
            return inner.div_(degree.index_select(0, sink))
        scale = degree.rsqrt_()
        return inner.mul_(scale.index_select(0, sink)).mul_(scale.index_select(0, source))

    def value(self, values: Tensor, y: Tensor, v: Tensor, normalization: Normalization) -> Tensor:
        r"""Return a weighted sum of rows and moments for S sets of values of the entries of A, [e, S] -> [S].

        The sum is :math:`\sum_{k=1}^M e^\top N^k y_k + \sum_{k<M} \sum_j v_{kj} e^\top N^k c^j`, where ``y`` is [n, M]
        and ``v`` is [M, 2].
        """
        return torch.from_numpy(core.value_of_propagation(*self._arguments(values, y, v, normalization)))

    def gradient(self, values: Tensor, y: Tensor, v: Tensor, normalization: Normalization) -> Tensor:
        """Return the derivative of :meth:`value` with respect to the entries of A, [e], its mean over S sets of values.

        The chain rule goes through N and through the degrees D that it is normalised with.
        """
        return torch.from_numpy(core.gradient_of_propagation(*self._arguments(values, y, v, normalization)))

    def _arguments(self, values: Tensor, y: Tensor, v: Tensor, normalization: Normalization) -> tuple[object, ...]:
        """Return the arguments of the compiled core."""
        numbers = [part.double().contiguous().numpy() for part in (values, y, v)]
        graph = self.source.numpy(), self.sink.numpy(), self.graph.hop.numpy(), self.e[:, 0].contiguous().numpy()
        return numbers[0], *graph, *numbers[1:], CODES[normalization]
