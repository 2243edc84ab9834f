"""Sums over walks: the rows e^T N(A^k), which are all that a k-hop model needs of A, and their derivatives.

N(A^k) = L A^k R with diagonal L and R made of A^k 1. Only the row e^T L A^k and the vector A^k 1 are needed; A^k itself
never is. Each is a chain of k sparse products, with one pattern and as many values as there are perturbed graphs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Int64

Float64 = npt.NDArray[np.float64]
Normalization = Literal["symmetric", "row", "none"]


class Walks:
    """Where A has entries, and where walks start: on one computation graph, or on several side by side.

    >>> from graphfaith.graph.graph import Graph
    >>> x, path = torch.eye(3), torch.tensor([[2, 1], [1, 0]])                            # 2 -> 1 -> 0, and the loops
    >>> part = ComputationGraph.around(Graph.of(x, path), 0, num_hops=2)
    >>> Walks.on(part).rows(torch.ones(part.num_edges, 1), 2, "none")[:, :, 0].tolist()     # walks of 1 and 2 steps
    [[1.0, 1.0, 0.0], [1.0, 2.0, 1.0]]
    """

    def __init__(
        self, ends: Int64, num_nodes: int, hop: Int64, seeds: Int64, e: Float64, owner: Int64 | None = None
    ) -> None:
        self.source, self.sink = ends
        self.num_nodes, self.seeds, self.e = num_nodes, seeds, e
        self.owner = owner  # [n] which seed's graph a node belongs to, if there are several graphs of one seed each
        self._depth = hop[self.sink]

    @classmethod
    def on(cls, graph: ComputationGraph) -> Walks:
        """Walks on one computation graph."""
        ends, hop = graph.edge_index.numpy(), graph.hop.numpy()
        return cls(ends, graph.num_nodes, hop, graph.seeds.numpy(), graph.e.numpy())

    @classmethod
    def beside(cls, graphs: Sequence[ComputationGraph]) -> Walks:
        """Walks on several computation graphs of one seed each, nodes and entries of A one after the other."""
        sizes = [graph.num_nodes for graph in graphs]
        first = np.cumsum([0, *sizes[:-1]])
        ends = np.concatenate([graph.edge_index.numpy() + at for graph, at in zip(graphs, first, strict=True)], axis=1)
        hop = np.concatenate([graph.hop.numpy() for graph in graphs])
        seeds = np.concatenate([graph.seeds.numpy() for graph in graphs]) + first
        e = np.concatenate([graph.e.numpy() for graph in graphs])
        return cls(ends, sum(sizes), hop, seeds, e, np.repeat(np.arange(len(sizes)), sizes))

    def rows(self, values: Tensor, num_hops: int, normalization: Normalization) -> Tensor:
        """e^T N(A^k) for k = 1 .. ``num_hops`` and each of S sets of values of the entries of A, [e, S]: [M, n, S].

        From one node L is a number, and a row follows from the last by one sparse product. A node from which no walk
        of length k starts has a zero row and column. A walk of k steps has come no further than k - 1 hops before its
        last, so that entries of A further out are left alone until then.
        """
        shape = (self.num_nodes, values.size(1))
        sides = self._sides(values, shape, num_hops, normalization)
        steps = [self._step(values, k) for k in range(num_hops)]
        if not bool((self.e == 1).all()):
            e = np.zeros(self.num_nodes)
            e[self.seeds] = self.e
            steps[0][2].mul_(torch.from_numpy(e[steps[0][0].numpy()]).unsqueeze(1))
        one_chain = len(self.seeds) == 1 or self.owner is not None or normalization == "none"
        rows = torch.empty(num_hops, *shape, dtype=values.dtype)
        walks = None
        for k in range(num_hops):
            left, right = sides[k] if sides else (None, None)
            if one_chain:
                row = walks = _product(walks, steps[k], shape)
                if left is not None:
                    row = torch.mul(walks, self._begins(left), out=rows[k])
            else:
                assert left is not None
                (sink, source, first), *others = steps[: k + 1]
                row = _product(None, (sink, source, first * left.index_select(0, sink)), shape)
                for step in others:
                    row = _product(row, step, shape)
            if right is not None:
                torch.mul(row, right, out=rows[k])
            elif row is not rows[k]:
                rows[k] = row
        return rows

    def _begins(self, left: Tensor) -> Tensor:
        """The entries of the diagonal L that a row starts with, for each node or one for all of them."""
        if self.owner is not None:
            return left.index_select(0, torch.from_numpy(self.seeds[self.owner]))
        seed = int(self.seeds[0])
        return left[seed : seed + 1]

    def _step(self, values: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """The entries of A that the step after k steps may take, as (sink, source, values)."""
        taken = np.flatnonzero(self._depth <= k)
        own = values.index_select(0, torch.from_numpy(taken))
        return torch.from_numpy(self.sink[taken]), torch.from_numpy(self.source[taken]), own

    def _sides(
        self, values: Tensor, shape: tuple[int, int], num_hops: int, normalization: Normalization
    ) -> list[tuple[Tensor, Tensor | None]]:
        source, sink = torch.from_numpy(self.source), torch.from_numpy(self.sink)
        found, total = [], None
        for _ in range(num_hops if normalization != "none" else 0):
            terms = values if total is None else total.index_select(0, source).mul_(values)
            total = torch.zeros(shape, dtype=values.dtype).index_add_(0, sink, terms)
            found.append(_sides(total, normalization))
        return found

    def gradient(self, weight: Float64, y: Float64, normalization: Normalization) -> Float64:
        """The derivative of sum_k e^T N(A^k) y_k with respect to the entries of A, [e], at ``weight``; ``y`` is [n, M].

        A^k and D_k = A^k 1, of which L_k and R_k are made, are chains of k products, so each entry of A collects one
        term for each place it has in a chain. For D the derivatives of D^-1/2 and D^-1 are -D^-3/2 / 2 and -D^-2.
        Vectors are short here, and numpy is quicker at those.
        """
        source, sink, size, hops = self.source, self.sink, self.num_nodes, y.shape[1]

        def forth(vector: Float64) -> Float64:  # A vector
            return np.bincount(sink, weights=vector[source] * weight, minlength=size).astype(np.float64, copy=False)

        def back(vector: Float64) -> Float64:  # A^T vector
            return np.bincount(source, weights=vector[sink] * weight, minlength=size).astype(np.float64, copy=False)

        totals = [np.ones(size)]
        for _ in range(hops):
            totals.append(forth(totals[-1]))
        e = np.zeros(size)
        e[self.seeds] = self.e
        gradient = np.zeros(len(weight))
        for k in range(1, hops + 1):
            left = right = np.ones(size)
            if normalization != "none":
                sides = _sides(torch.from_numpy(totals[k]), normalization)
                left, right = sides[0].numpy(), right if sides[1] is None else sides[1].numpy()
            walks, ends = [e * left], [right * y[:, k - 1]]
            for _ in range(k):
                walks.append(back(walks[-1]))
                ends.append(forth(ends[-1]))
            d_total = np.zeros(size)
            if normalization == "symmetric":
                d_total = -0.5 * left**3 * (e * ends[k] + walks[k] * y[:, k - 1])
            elif normalization == "row":
                d_total = -(left**2) * e * ends[k]
            for step in range(k, 0, -1):
                gradient += walks[step - 1][sink] * ends[k - step][source] + d_total[sink] * totals[step - 1][source]
                if step > 1:
                    d_total = back(d_total)
        return gradient


def khop_rows(
    graph: ComputationGraph, weight: Tensor, num_hops: int, normalization: Normalization = "symmetric"
) -> Tensor:
    """e^T N(A^k) for k = 1 .. ``num_hops`` and each of S sets of weights [S, e]: [num_hops, S, n]."""
    values = weight.T.contiguous()  # [e, S]: rows of edges make gathers contiguous
    return Walks.on(graph).rows(values, num_hops, normalization).transpose(1, 2)


def _product(vectors: Tensor | None, step: tuple[Tensor, Tensor, Tensor], shape: tuple[int, int]) -> Tensor:
    """A^T v for vectors v [n, S]: one step of every walk; None for the first one, which starts at the seeds."""
    sink, source, values = step
    terms = values if vectors is None else vectors.index_select(0, sink).mul_(values)
    return torch.zeros(shape, dtype=values.dtype).index_add_(0, source, terms)


def _sides(total: Tensor, normalization: Normalization) -> tuple[Tensor, Tensor | None]:
    """The diagonals of L and R in N(A^k) = L A^k R, given A^k 1; None is the identity."""
    some = torch.where(total > 0, total, math.inf)
    if normalization == "row":
        return some.reciprocal_(), None
    inverse = some.rsqrt_()
    return inverse, inverse
