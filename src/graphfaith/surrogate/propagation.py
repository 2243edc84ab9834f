"""Propagation: the rows e^T N(A)^k of a chain of graph convolutions, and their derivatives.

KEC normalises powers of A, N(A^k); a network of convolutions takes powers of the normalised A, N(A)^k. One sparse
matrix, N(A), serves every k, so that a row follows from the last by one product, whatever F is read from.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph
from .walks import Float64, Normalization

MOMENTS = (2, 3)  # powers of c: the first is the next k, and higher ones than these fit single samples


class Propagated(NamedTuple):
    """What S propagations found."""

    rows: Tensor  # [M, n, S] e^T N(A)^k for k = 1 .. M
    moments: Tensor  # [M, 2, S] e^T N(A)^k c^j for k = 0 .. M - 1 and j = 2, 3, with c = N(A) 1

    def change(self) -> Propagated:
        """What the first lost in each of the others."""
        return Propagated(*(part[..., :1] - part[..., 1:] for part in self))


class Propagation:
    """Where A has entries, and where F is read from.

    N(A) is :math:`D^{-1/2} A D^{-1/2}` ("symmetric"), :math:`D^{-1} A` ("row") or A ("none"), D = diag(A 1).
    A node that no weight comes to has a row of zeros.

    >>> from graphfaith.graph.graph import Graph
    >>> x, path = torch.eye(3), torch.tensor([[2, 1], [1, 0]])                            # 2 -> 1 -> 0, and the loops
    >>> part = ComputationGraph.around(Graph.of(x, path), 0, num_hops=2)
    >>> Propagation(part, 2).of(torch.ones(part.num_edges, 1), "row").rows[:, :, 0].tolist()
    [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25]]
    """

    def __init__(self, graph: ComputationGraph, num_hops: int) -> None:
        self.graph, self.num_hops, self.num_nodes = graph, num_hops, graph.num_nodes
        self.source, self.sink = graph.edge_index
        # Convolution k of M is read at nodes within M - k hops: entries further out only count in a D.
        self._depth = graph.hop.numpy()[self.sink.numpy()]
        inner = np.flatnonzero(self._depth < num_hops)
        self._inner = torch.from_numpy(inner)
        ends = self.source.numpy()[inner], self.sink.numpy()[inner]
        self._inner_ends = torch.from_numpy(ends[0]), torch.from_numpy(ends[1])
        self._steps = []
        for k in range(num_hops):
            taken = np.flatnonzero(self._depth[inner] <= k)
            self._steps.append(tuple(torch.from_numpy(part) for part in (taken, ends[0][taken], ends[1][taken])))
        # Nodes come in the order of their distance, unless the graph was not cut out: so many within k hops.
        hop = graph.hop.numpy()
        self._near = [self.num_nodes] * num_hops
        if bool((hop[1:] >= hop[:-1]).all()):
            self._near = np.searchsorted(hop, np.arange(num_hops), side="right").tolist()
        e = np.zeros((self.num_nodes, 1))
        e[graph.seeds.numpy(), 0] = graph.e.numpy()
        self.e = torch.from_numpy(e)  # [n, 1] the vector e

    def of(self, values: Tensor, normalization: Normalization) -> Propagated:
        """Rows and moments for S sets of values of the entries of A, [e, S]."""
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
        """The inner entries of N(A), [inner, S]."""
        own = values.index_select(0, self._inner)
        if normalization == "none":
            return own
        source, sink = self._inner_ends
        total = values.new_zeros(self.num_nodes, values.size(1)).index_add_(0, self.sink, values)
        some = torch.where(total > 0, total, math.inf)
        if normalization == "row":
            return own.div_(some.index_select(0, sink))
        scale = some.rsqrt_()
        return own.mul_(scale.index_select(0, sink)).mul_(scale.index_select(0, source))

    def gradient(self, weight: Float64, y: Float64, v: Float64, normalization: Normalization) -> Float64:
        r"""The derivative of :math:`\sum_{k=1}^M e^\top N^k y_k + \sum_{k<M} \sum_j v_{kj} e^\top N^k c^j` for A, [e].

        ``y`` is [n, M] and ``v`` [M, 2]. With :math:`l_k = (N^\top)^k e` and :math:`y'_k = y_k + \sum_j v_{kj} c^j`
        the derivative for N is :math:`\sum_k l_k R_k^\top + q 1^\top`, :math:`R_k = y'_{k+1} + N R_{k+1}` and
        :math:`q = \sum_k l_k \sum_j j v_{kj} c^{j-1}`; then the chain rule through D. Vectors are short here, and
        numpy is quicker at those.
        """
        source, sink, size, hops = self.source.numpy(), self.sink.numpy(), self.num_nodes, self.num_hops

        def gathered(at: np.ndarray, entries: Float64) -> Float64:
            return np.bincount(at, weights=entries, minlength=size).astype(np.float64, copy=False)

        total = gathered(sink, weight)
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
        c = gathered(sink, entries)
        walks = [self.e[:, 0].numpy()]
        for _ in range(hops - 1):
            walks.append(gathered(source, entries * walks[-1][sink]))
        q, ends = np.zeros(size), np.zeros(size)
        slope = np.zeros(len(weight))
        for k in range(hops - 1, -1, -1):
            # R_k from R_{k+1}
            ends = gathered(sink, entries * ends[source]) + y[:, k]
            if k + 1 < hops:
                ends += sum(v[k + 1, i] * c**j for i, j in enumerate(MOMENTS))
            q += walks[k] * sum(v[k, i] * j * c ** (j - 1) for i, j in enumerate(MOMENTS))
            slope += walks[k][sink] * ends[source]
        slope += q[sink]
        found: Float64 = slope * both
        parts = slope * entries
        if normalization == "symmetric":
            found -= (0.5 * inverse * (gathered(sink, parts) + gathered(source, parts)))[sink]
        elif normalization == "row":
            found -= (inverse * gathered(sink, parts))[sink]
        return found
