"""What F's gradients at some perturbed graphs say: how steep it is on average, and along which directions it bends.

A gradient has a number for every feature and every entry of A, where a value of F is one. So a few of them tell a model
p what hundreds of values would not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._base.errors import ModelError
from ..model.target import Target
from ..sampling.perturbations import Perturbations
from .walks import Float64

RANK = 8  # directions, of X's columns and of curvature
_ROWS = 32  # nodes among which directions of columns are looked for: the most sensitive ones
_RIDGE = 0.1  # of the curvature, as a share of each direction's own spread
_CUT = 1e-6  # squared singular values below this share of the largest are rounding


@dataclass(frozen=True)
class Sensitivity:
    r"""F's gradient at (X, A) and its mean over samples, and the curvature that the samples' gradients show.

    With :math:`z = V^\top \epsilon` in the r ``directions`` in which gradients vary most,
    :math:`\nabla F(\cdot - \epsilon) \approx b + V B z`, so F's change bends by :math:`\frac12 z^\top B z`. Of what
    the neighbourhood leaves still, both gradients are the mean over the samples and (X, A).
    """

    along_x: Tensor  # [2 + r, n, d] the gradient for X, its mean, and the directions; [1, n, d] if X is still
    along_a: Tensor  # [2 + r, e] the same for A
    bend: Tensor  # [r, r] B
    columns: Tensor  # [d, u] orthonormal: the directions of a node's features that F looks at

    @classmethod
    def of(cls, target: Target, gradients: tuple[Tensor, Tensor], chunk: Perturbations) -> Sensitivity:
        """From F's gradients for X and A, those of :func:`gradients_at`, and the samples they were taken at.

        A sample at which the gradient is not finite is left out. If it is not so at (X, A), it counts as 0 there.
        """
        found, chunk = _finite(target, gradients, chunk)
        count, moves = len(chunk), (chunk.features, chunk.edges)
        mix, bend = _curvature([(g[1:], eps) for g, eps in zip(found, moves, strict=True) if eps is not None])
        rows = np.zeros((2 + len(mix), 1 + count))
        rows[:2, 0] = 1
        if count:
            rows[1, 0], rows[1, 1:], rows[2:, 1:] = 0, 1 / count, mix
        mixed = torch.from_numpy(rows)
        along_x, along_a = (
            g.unsqueeze(0) if eps is None else (mixed.to(g.dtype) @ g.flatten(1)).view(-1, *g.shape[1:])
            for g, eps in zip(found, moves, strict=True)
        )
        columns = _columns(along_x[1 if len(along_x) > 1 else 0, : chunk.graph.num_visible])
        return cls(along_x, along_a, torch.from_numpy(bend), columns)

    def foreseen(self, chunk: Perturbations) -> Tensor:
        """The changes that the gradient and the mean gradient foresee, and z: [S, 2 + r]."""
        found = None
        for eps, along in ((chunk.features, self.along_x), (chunk.edges, self.along_a)):
            if eps is not None:
                part = (eps.flatten(1) @ along.flatten(1).T.to(eps.dtype)).double()
                found = part if found is None else found + part
        assert found is not None
        return found

    def gradient(self, local: float, mean: float) -> tuple[Tensor, Tensor]:
        """So much of the gradient and so much of its mean, for X and for A."""
        both = torch.tensor([local, mean])
        found = (
            (local + mean) * along[0]
            if len(along) == 1
            else (both.to(along.dtype) @ along[:2].flatten(1)).view(along.shape[1:])
            for along in (self.along_x, self.along_a)
        )
        x, a = found
        return x, a

    @property
    def directions(self) -> tuple[Tensor | None, Tensor | None]:
        """V, [r, n, d] and [r, e]; None of what does not move."""
        x, a = (None if len(along) == 1 else along[2:] for along in (self.along_x, self.along_a))
        return x, a


def gradients_at(target: Target, chunk: Perturbations) -> tuple[Tensor, Tensor]:
    """Return F's gradients for X and A at the unperturbed graph and at S samples.

    They are [1 + S, ...] for what the samples move, and the sum over all points for the rest.
    """
    part, count = target.computation_graph, len(chunk) + 1
    held = part.num_edges + (0 if chunk.features is None else part.x.numel())
    per_sample = 8 * (4 * part.num_edges * target.unit_width() + 4 * held)
    size = max(1, target.room(8 * count * held, per_sample, f"the gradient at {count} points") // per_sample)
    x, weight = chunk.x_with_own, None if chunk.edges is None else chunk.weight_with_own
    parts = []
    for start in range(0, count, size):
        some = slice(start, start + size)
        parts.append(target.gradients(None if x is None else x[some], None if weight is None else weight[some]))
    _, dxs, das = zip(*parts, strict=True)
    dx = torch.stack(dxs).sum(dim=0) if x is None else torch.cat(dxs)
    return dx, torch.stack(das).sum(dim=0) if weight is None else torch.cat(das)


def _finite(
    target: Target, gradients: tuple[Tensor, Tensor], chunk: Perturbations
) -> tuple[tuple[Tensor, Tensor], Perturbations]:
    """Gradients without those that are not finite, of what moves; of the rest the mean over the points."""
    (dx, da), points = gradients, len(chunk) + 1
    if math.isfinite(float(dx.sum())) and math.isfinite(float(da.sum())):
        return (dx / points if chunk.features is None else dx, da / points if chunk.edges is None else da), chunk
    good = torch.ones(len(chunk), dtype=torch.bool)
    for g, eps in ((dx, chunk.features), (da, chunk.edges)):
        if eps is not None:
            good &= torch.isfinite(g[1:].flatten(1)).all(dim=1)
    try:
        own_x, own_a = target.gradient()
    except ModelError:
        own_x, own_a = torch.zeros_like(chunk.graph.x), torch.zeros_like(chunk.graph.weight)
    dx = own_x if chunk.features is None else torch.cat([own_x.unsqueeze(0), dx[1:][good]])
    return (dx, own_a if chunk.edges is None else torch.cat([own_a.unsqueeze(0), da[1:][good]])), chunk[good]


# Matrices are small from here on, and numpy is quicker at those.


def _curvature(parts: list[tuple[Tensor, Tensor]]) -> tuple[Float64, Float64]:
    """How to mix the gradients of S samples to get the directions, [r, S], and B.

    ``parts`` has gradients and perturbations, [S, ...], of X and of A, which are measured in units of how far they
    move.
    """
    count = len(parts[0][0])
    if not count:
        return np.zeros((0, 0)), np.zeros((0, 0))
    gram, meet = np.zeros((count, count)), np.zeros((count, count))  # meet is of perturbations (rows) with gradients
    for gradients, epsilon in parts:
        g, eps = gradients.flatten(1).numpy(), epsilon.flatten(1).numpy()
        spread = (
            float(np.vdot(eps, eps)) / eps.size
            if eps.dtype != np.float16
            else float(np.square(eps, dtype=np.float64).mean())
        )
        gram += spread * _products(g, g)
        meet += _products(eps.astype(g.dtype, copy=False), g)
    values, vectors = _largest(gram)
    root = np.sqrt(values)
    mix = vectors / root
    z, along = meet @ mix, vectors * root
    design = np.concatenate([np.ones((count, 1)), z], axis=1)
    normal = design.T @ design
    spread = normal.diagonal()
    normal.flat[:: len(normal) + 1] += np.where(spread > 0, _RIDGE * spread, 1.0)
    bend = np.linalg.solve(normal, design.T @ along)[1:]
    return mix.T, bend


def _columns(gradient: Tensor) -> Tensor:
    """The directions of columns in which a gradient [n, d] is largest, [d, u]; all of them if there are few."""
    if gradient.size(1) <= RANK:
        return torch.eye(gradient.size(1), dtype=torch.float64)
    rows = gradient.numpy()
    if len(rows) > _ROWS:
        rows = rows[np.argsort(-np.square(rows).sum(axis=1), kind="stable")[:_ROWS]]
    values, vectors = _largest(_products(rows, rows))
    return torch.from_numpy(rows.T.astype(np.float64) @ (vectors / np.sqrt(values)))


def _products(a: np.ndarray, b: np.ndarray) -> Float64:
    """a b^T; in the precision of a and b, if that has room for it."""
    with np.errstate(over="ignore", invalid="ignore"):
        found: Float64 = (a @ b.T).astype(np.float64)
        enough = a.dtype == np.float64 or (a.dtype == np.float32 and math.isfinite(found.sum()))
    if enough:
        return found
    return np.asarray(a.astype(np.float64) @ b.astype(np.float64).T)


def _largest(gram: Float64) -> tuple[Float64, Float64]:
    """The largest eigenvalues of a matrix of products, largest first, and their vectors."""
    values, vectors = np.linalg.eigh(gram)
    rank = min(RANK, int((values > _CUT * values[-1]).sum())) if len(values) and values[-1] > 0 else 0
    return values[::-1][:rank], vectors[:, ::-1][:, :rank]
