"""Sums over walks: the rows e^T N(A^k), through which a k-hop model depends on A, and their derivatives.

N(A^k) = L A^k R, where the diagonal matrices L and R are functions of A^k 1. The row e^T L A^k and the vector A^k 1 are
each a chain of k sparse products, so the matrix A^k is never computed. All perturbed graphs share one sparsity pattern,
and each has its own values.
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


def walk_bytes(graph: ComputationGraph, kinds: int) -> int:
    """Estimate what walks of so many normalisations take on a graph, beside the samples they are summed in.

    The index of the entries of A, the matrices of the unperturbed graph and the derivatives of p are a few numbers an
    entry each (measured by ``benchmarks/memory.py``).
    """
    return 8 * (8 + 12 * kinds) * graph.num_edges


class Walks:
    """Walks on one computation graph, or on several side by side: the places of the entries of A, and the start nodes.

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
        self.owner = owner  # [n] the graph of each node, if there are several graphs with one seed each; otherwise None
        self._depth = hop[self.sink]

    @classmethod
    def on(cls, graph: ComputationGraph) -> Walks:
        """Return the walks on one computation graph."""
        ends, hop = graph.edge_index.numpy(), graph.hop.numpy()
        return cls(ends, graph.num_nodes, hop, graph.seeds.numpy(), graph.e.numpy())

    @classmethod
    def beside(cls, graphs: Sequence[ComputationGraph]) -> Walks:
        """Return the walks on several computation graphs with one seed each, with concatenated nodes and entries."""
        sizes = [graph.num_nodes for graph in graphs]
        first = np.cumsum([0, *sizes[:-1]])
        shifted = [graph.edge_index.numpy() + start for graph, start in zip(graphs, first, strict=True)]
        ends = np.concatenate(shifted, axis=1)
        hop = np.concatenate([graph.hop.numpy() for graph in graphs])
        seeds = np.concatenate([graph.seeds.numpy() for graph in graphs]) + first
        e = np.concatenate([graph.e.numpy() for graph in graphs])
        return cls(ends, sum(sizes), hop, seeds, e, np.repeat(np.arange(len(sizes)), sizes))

    def rows(self, values: Tensor, num_hops: int, normalization: Normalization) -> Tensor:
        """Return e^T N(A^k), [M, n, S], for k = 1 .. M = ``num_hops`` and S sets of values of the entries of A, [e, S].

        With one seed L is a number, and each row is one sparse product with the previous row. A node without walks of
        length k has a zero row and column in N(A^k). Before its last step, a walk of k steps is at most k - 1 hops away
        from the seed. Step k therefore needs only the entries of A whose sink is within k - 1 hops.
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
                    row = torch.mul(walks, self._start_scale(left), out=rows[k])
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

    def _start_scale(self, left: Tensor) -> Tensor:
        """Return the entry of the diagonal L at the seed: a row for each node, or one row if there is one graph."""
        if self.owner is not None:
            return left.index_select(0, torch.from_numpy(self.seeds[self.owner]))
        seed = int(self.seeds[0])
        return left[seed : seed + 1]

    def _step(self, values: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the entries of A that a walk can take after k steps, as (sink, source, values)."""
        taken = np.flatnonzero(self._depth <= k)
        entries = values.index_select(0, torch.from_numpy(taken))
        return torch.from_numpy(self.sink[taken]), torch.from_numpy(self.source[taken]), entries

    def _sides(
        self, values: Tensor, shape: tuple[int, int], num_hops: int, normalization: Normalization
    ) -> list[tuple[Tensor, Tensor | None]]:
        """Return the diagonals of L and R for k = 1 .. ``num_hops``; an empty list if nothing is normalised."""
        source, sink = torch.from_numpy(self.source), torch.from_numpy(self.sink)
        sides, total = [], None
        for _ in range(num_hops if normalization != "none" else 0):
            terms = values if total is None else total.index_select(0, source).mul_(values)
            total = torch.zeros(shape, dtype=values.dtype).index_add_(0, sink, terms)
            sides.append(_sides(total, normalization))
        return sides

    def gradient(self, weight: Float64, y: Float64, normalization: Normalization) -> Float64:
        """Return the derivative of sum_k e^T N(A^k) y_k with respect to the entries of A, [e], at ``weight``.

        ``y`` is [n, M]. L_k and R_k are functions of D_k = A^k 1. Both A^k and D_k are chains of k products, so an
        entry of A contributes one term for each position in a chain. The derivatives of D^-1/2 and D^-1 with respect to
        D are -D^-3/2 / 2 and -D^-2. The vectors are short, and numpy is faster than torch for short vectors.
        """
        source, sink, size, hops = self.source, self.sink, self.num_nodes, y.shape[1]

        def multiply(vector: Float64) -> Float64:  # A vector
            return np.bincount(sink, weights=vector[source] * weight, minlength=size).astype(np.float64, copy=False)

        def multiply_transposed(vector: Float64) -> Float64:  # A^T vector
            return np.bincount(source, weights=vector[sink] * weight, minlength=size).astype(np.float64, copy=False)

        totals = [np.ones(size)]
        for _ in range(hops):
            totals.append(multiply(totals[-1]))
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
                walks.append(multiply_transposed(walks[-1]))
                ends.append(multiply(ends[-1]))
            d_total = np.zeros(size)
            if normalization == "symmetric":
                d_total = -0.5 * left**3 * (e * ends[k] + walks[k] * y[:, k - 1])
            elif normalization == "row":
                d_total = -(left**2) * e * ends[k]
            for step in range(k, 0, -1):
                gradient += walks[step - 1][sink] * ends[k - step][source] + d_total[sink] * totals[step - 1][source]
                if step > 1:
                    d_total = multiply_transposed(d_total)
        return gradient


def khop_rows(
    graph: ComputationGraph, weight: Tensor, num_hops: int, normalization: Normalization = "symmetric"
) -> Tensor:
    """Return e^T N(A^k) for k = 1 .. ``num_hops``, [num_hops, S, n], and S sets of values of A's entries, [S, e]."""
    values = weight.T.contiguous()  # [e, S], so that the values of one entry are contiguous
    return Walks.on(graph).rows(values, num_hops, normalization).transpose(1, 2)


def _product(vectors: Tensor | None, step: tuple[Tensor, Tensor, Tensor], shape: tuple[int, int]) -> Tensor:
    """Return A^T v, one step of every walk, for vectors v [n, S]; None if the walks are still at the seeds."""
    sink, source, values = step
    terms = values if vectors is None else vectors.index_select(0, sink).mul_(values)
    return torch.zeros(shape, dtype=values.dtype).index_add_(0, source, terms)


def _sides(total: Tensor, normalization: Normalization) -> tuple[Tensor, Tensor | None]:
    """Return the diagonals of L and R in N(A^k) = L A^k R, given A^k 1; None stands for the identity."""
    positive = torch.where(total > 0, total, math.inf)
    if normalization == "row":
        return positive.reciprocal_(), None
    inverse = positive.rsqrt_()
    return inverse, inverse
