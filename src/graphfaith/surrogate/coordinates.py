"""Coordinates for the least-squares problem of a k-hop model: fewer unknowns, and the same answer."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph
from ..sampling.perturbations import Perturbations


class Coordinates:
    r"""Orthonormal coordinates in which the features of the fit have as few entries as possible.

    If only edges move, then :math:`\tau_k = r_k X` for a row :math:`r_k` that is 0 at nodes further away than k hops.
    So it lies in the span of the features of the n_k nodes within k hops, which come first. With :math:`X = L Q^\top`,
    L lower triangular and Q orthonormal, the first n_k columns of Q span it. Because Q is orthonormal, singular values
    and norms are the same in these coordinates.
    """

    def __init__(self, graph: ComputationGraph, hops: int, *, moved: bool) -> None:
        self.graph, self.hops = graph, hops
        self.x = graph.x.double()
        nodes, columns = self.x.shape
        hop = graph.hop.numpy()
        self.near = [nodes] * hops
        if bool((hop[1:] >= hop[:-1]).all()):
            self.near = np.searchsorted(hop, np.arange(1, hops + 1), side="right").tolist()
        self.widths = [columns] * hops
        self._reflections: tuple[Tensor, Tensor] | None = None  # Householder's reflections, whose product is Q
        if not moved and columns > nodes:
            self._reflections = torch.geqrf(self.x.T)
            self.x = self._reflections[0][:nodes].triu().T
            self.widths = self.near

    @property
    def size(self) -> int:
        """How many unknowns there are."""
        return sum(self.widths)

    def features(self, before: Tensor, after: Tensor | None, chunk: Perturbations) -> Tensor:
        r"""Return the stacked :math:`\tau_k = e^\top [N(A^k) X - N((A - \epsilon_A)^k)(X - \epsilon_X)]`, [S, P].

        ``before`` has the rows e^T N(A^k), [M, 1, n], and ``after`` those of A - eps_A, [M, S, n]; None if edges stay.
        """
        eps = chunk.features
        if eps is None:
            assert after is not None
            return self.of_rows((before - after).transpose(1, 2))
        # Written as a sum, because the difference of the two large products would be less exact.
        rows = (before if after is None else after).transpose(0, 1).to(eps.dtype)
        moved = torch.matmul(rows[0] if after is None else rows, eps)
        return moved.flatten(1) if after is None else self._add_change(moved.flatten(1), before, after)

    def add_to(self, moved: Tensor, rows: Tensor) -> Tensor:
        r"""Return the stacked :math:`\tau_k`, [S, P], given :math:`e^\top N((A - \epsilon_A)^k) \epsilon_X`, [S, P].

        ``rows`` are e^T N(A^k), and then e^T N((A - eps_A)^k) of the samples, [M, 1 + S, n].
        """
        return self._add_change(moved, rows[:, :1], rows[:, 1:])

    def _add_change(self, moved: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """Add e^T [N(A^k) - N((A - eps_A)^k)] X to what the moves of X contribute."""
        return moved.double() + torch.matmul(before - after, self.x).transpose(0, 1).flatten(1)

    def of_rows(self, rows: Tensor) -> Tensor:
        """Return the stacked r_k X, [S, P], for the columns r_k^T, [M, n, S]."""
        parts = zip(rows, self.near, self.widths, strict=True)
        return torch.cat([row[:near].T @ self.x[:near, :width] for row, near, width in parts], dim=1)

    def weights(self, solution: Tensor) -> Tensor:
        """Return the w_k, [M, d], for a solution in these coordinates, [P]."""
        if self._reflections is None:
            return solution.view(self.hops, -1)
        stacked = solution.new_zeros(self.hops, self.x.size(1))
        for row, part in zip(stacked, torch.split(solution, self.widths), strict=True):
            row[: len(part)] = part
        padded = torch.nn.functional.pad(stacked.T, (0, 0, 0, self.graph.x.size(1) - stacked.size(1)))
        return torch.ormqr(*self._reflections, padded).T
