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

from ..graph.computation_graph import ComputationGraph
from .walks import Float64, Normalization

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

    def gradient(self, weight: Float64, y: Float64, v: Float64, normalization: Normalization) -> Float64:
        r"""Return the derivative of a weighted sum of rows and moments with respect to the entries of A, [e].

        The sum is :math:`\sum_{k=1}^M e^\top N^k y_k + \sum_{k<M} \sum_j v_{kj} e^\top N^k c^j`, where ``y`` is [n, M]
        and ``v`` is [M, 2]. Let :math:`l_k = (N^\top)^k e` and :math:`y'_k = y_k + \sum_j v_{kj} c^j`. The derivative
        with respect to N is :math:`\sum_k l_k R_k^\top + q 1^\top`, with :math:`R_k = y'_{k+1} + N R_{k+1}` and
        :math:`q = \sum_k l_k \sum_j j v_{kj} c^{j-1}`. The chain rule through D gives the derivative with respect to A.
        The vectors are short, and numpy is faster than torch for short vectors.
        """
        source, sink, size, hops = self.source.numpy(), self.sink.numpy(), self.num_nodes, self.num_hops

        def add_up(at: np.ndarray, entries: Float64) -> Float64:
            return np.bincount(at, weights=entries, minlength=size).astype(np.float64, copy=False)

        total = add_up(sink, weight)
        inverse = np.divide(1.0, total, out=np.zeros(size), where=total > 0)
        left, right = np.ones(size), np.ones(size)
        if normalization == "symmetric":
            left = right = np.sqrt(inverse)
        elif normalization == "row":
            left = inverse
        both = left[sink] * right[source]
        inner = self._depth < hops
        both *= inner
        entries = weight * both
        c = add_up(sink, entries)
        walks = [self.e[:, 0].numpy()]
        for _ in range(hops - 1):
            walks.append(add_up(source, entries * walks[-1][sink]))
        q, ends = np.zeros(size), np.zeros(size)
        slope = np.zeros(len(weight))
        for k in range(hops - 1, -1, -1):
            # This is R_k = y'_{k+1} + N R_{k+1}.
            ends = add_up(sink, entries * ends[source]) + y[:, k]
            if k + 1 < hops:
                ends += sum(v[k + 1, i] * c**j for i, j in enumerate(MOMENTS))
            q += walks[k] * sum(v[k, i] * j * c ** (j - 1) for i, j in enumerate(MOMENTS))
            slope += walks[k][sink] * ends[source]
        slope += q[sink]
        gradient: Float64 = slope * both
        parts = slope * entries
        if normalization == "symmetric":
            gradient -= (0.5 * inverse * (add_up(sink, parts) + add_up(source, parts)))[sink]
        elif normalization == "row":
            gradient -= (inverse * add_up(sink, parts))[sink]
        return gradient
