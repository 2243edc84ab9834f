"""Coordinates for the least-squares problem of a k-hop model: as few unknowns as there are, and no answer changed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from .._base.scratch import scratch
from ..graph.computation_graph import ComputationGraph
from ..sampling.neighborhood import Perturbations


class Coordinates:
    """Coordinates for the features of the fit: as few as span them, and orthonormal, so that no answer changes.

    If edges alone move then :math:`\\tau_k = r_k X` for a row :math:`r_k` that is 0 at nodes further away than k hops.
    So it lies in the span of the features of the n_k nodes within k hops, which come first. With :math:`X = L Q^\\top`,
    L lower triangular and Q orthonormal, the first n_k columns of Q span it, and singular values are the same in their
    coordinates. Nodes whose features are combinations of those before them, such as a copy or nothing at all, add no
    coordinate.
    """

    def __init__(self, graph: ComputationGraph, hops: int, *, moved: bool, gram: Tensor | None = None) -> None:
        self.graph, self.hops = graph, hops
        self.x = self._own = graph.x.double()
        nodes, columns = self.x.shape
        hop = graph.hop.numpy()
        self.near = [nodes] * hops
        if bool((hop[1:] >= hop[:-1]).all()):
            self.near = np.searchsorted(hop, np.arange(1, hops + 1), side="right").tolist()
        self.widths = [columns] * hops
        self._basis: Callable[[Tensor], Tensor] | None = None  # from coordinates [c, M] to features [d, M]
        if not moved and columns > nodes:
            self._span(self.x @ self.x.T if gram is None else gram)

    def _span(self, gram: Tensor) -> None:
        """Find L and Q by Cholesky's factors of X X^T, or by Householder's if X is too close to being singular."""
        x = self._own
        kept, factor = _independent(x, gram)
        if factor is None:
            reflections = torch.geqrf(x.T)
            self.x = reflections[0][: len(x)].triu().T
            self.widths = self.near
            self._basis = lambda coordinates: torch.ormqr(*reflections, _padded(coordinates, x.size(1)))
            return
        self.x, self.widths, base = factor, self.near, x
        if len(kept) < len(x):
            base, places = x[kept], kept.numpy()
            self.x = torch.linalg.solve_triangular(factor.T, gram[:, kept], upper=True, left=False)
            self.widths = np.searchsorted(places, self.near, side="left").tolist()
        # X = L Q^T, so Q = X^T L^-T.
        self._basis = lambda coordinates: base.T @ torch.linalg.solve_triangular(factor.T, coordinates, upper=True)

    @property
    def size(self) -> int:
        """How many unknowns there are."""
        return sum(self.widths)

    def features(self, before: Tensor, after: Tensor | None, chunk: Perturbations) -> Tensor:
        """The stacked tau_k, [S, P], from the rows e^T N(A^k) before [M, 1, n] and after [M, S, n] (None: the same)."""
        if chunk.features is None:
            assert after is not None
            return self.of_rows((before - after).transpose(1, 2))
        eps = chunk.features
        # e^T [N(A^k) X - N((A - eps_A)^k)(X - eps_X)], without the difference of two large numbers
        rows = (before if after is None else after).transpose(0, 1).to(eps.dtype)
        found = scratch("products", len(chunk), self.hops, eps.size(2), dtype=eps.dtype)
        torch.matmul(rows[0] if after is None else rows, eps, out=found)
        if after is None:
            return found.flatten(1)
        return (found.double() + torch.matmul(before - after, self.x).transpose(0, 1)).flatten(1)

    def of_rows(self, rows: Tensor) -> Tensor:
        """The stacked r_k X, [S, P], for the columns r_k^T, [M, n, S]."""
        parts = zip(rows, self.near, self.widths, strict=True)
        return torch.cat([row[:near].T @ self.x[:near, :width] for row, near, width in parts], dim=1)

    def weights(self, solved: Tensor) -> Tensor:
        """The w_k, [M, d], given their coordinates; then ``own`` is X w_k, [n, M]."""
        if self._basis is None:
            weights = solved.view(self.hops, -1)
            self.own = self._own @ weights.T
            return weights
        stacked = solved.new_zeros(self.hops, self.x.size(1))
        for row, part in zip(stacked, torch.split(solved, self.widths), strict=True):
            row[: len(part)] = part
        self.own = self.x @ stacked.T
        return self._basis(stacked.T).T


_SAFE = 1e-3  # a node whose features are new by less, relative to their size, is not left to Cholesky, who squares it
_COPY = 1e-11  # by less than this it is a combination of others, and the rest is rounding
_COPIES = 32  # that are looked for one by one


def _independent(x: Tensor, gram: Tensor) -> tuple[Tensor, Tensor | None]:
    """The nodes whose features are no combinations of those before them, and the Cholesky factor of their products.

    None is in its place if it would not be exact.
    """
    kept, own = torch.arange(len(x)), gram
    for _ in range(min(_COPIES, len(x))):
        factor, info = torch.linalg.cholesky_ex(own)
        doubtful = (factor.diagonal().square() <= _SAFE**2 * own.diagonal()).numpy()
        if int(info):
            doubtful[int(info) - 1] = True
        if not doubtful.any():
            return kept, factor
        first = int(doubtful.argmax())
        node, others = kept[first], kept[:first]
        copied = _is_copy(x, gram, int(node), others)
        if not copied and not _is_combination(x[node], x[others], factor[:first, :first]):
            break
        kept = torch.cat([kept[:first], kept[first + 1 :]])
        own = gram[kept][:, kept]
        if not len(kept):
            break
    return kept, None


def _is_copy(x: Tensor, gram: Tensor, node: int, others: Tensor) -> bool:
    """Whether a node has no features at all, or those of one of ``others``; as nearly all that add nothing do."""
    alike = others[gram[node, others] == gram[node, node]]
    return not bool(x[node].any()) or any(torch.equal(x[node], x[other]) for other in alike[:1].tolist())


def _is_combination(row: Tensor, others: Tensor, factor: Tensor) -> bool:
    """Whether ``row`` is a combination of ``others``, of whose products ``factor`` is the Cholesky factor."""
    rest = row
    for _ in range(2 if len(others) else 0):  # the second time mends the rounding of the first
        rest = rest - torch.cholesky_solve((others @ rest).unsqueeze(1), factor)[:, 0] @ others
    return bool(torch.linalg.vector_norm(rest) <= _COPY * torch.linalg.vector_norm(row))


def _padded(coordinates: Tensor, count: int) -> Tensor:
    return torch.nn.functional.pad(coordinates, (0, 0, 0, count - len(coordinates)))
