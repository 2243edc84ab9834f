"""Least squares in double precision: the optimal parameters of a difference model (Propositions 3 and Def. 2.4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from .._base.errors import InputError

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Solution:
    """Parameters W that minimise ``mean((features @ W - change)^2)``, and how well they do."""

    weights: Tensor  # [P]
    rank: int  # singular values that were kept
    residual: Tensor  # [S] what is left of the change, with the opposite sign
    _directions: Callable[[], Tensor]  # the kept left singular vectors, [S, rank]; not everyone asks for them

    @cached_property
    def error(self) -> float:
        """The mean of squares that is left."""
        return float(self.residual.square().mean())

    @cached_property
    def left_out(self) -> float:
        """The leave-one-out error, mean_s (r_s / (1 - h_s))^2 with h_s = |u_s|^2 the leverage of a sample.

        It holds for the kept singular vectors as they are. A fit that passes through a sample whatever its value has
        learnt nothing about it, which is an error without bound.
        """
        free = 1 - self._directions().square().sum(dim=1)
        if bool((free < len(free) * _EPS).any()):
            return float("inf")
        return float((self.residual / free).square().mean())


def truncated_svd(features: Tensor, change: Tensor, threshold: float = 1e-4, *, relative: bool = False) -> Solution:
    r"""Minimise ``mean_s (phi_s . W - delta_s)^2`` by a truncated singular value decomposition.

    .. math:: W^* = (E[\phi\phi^\top])^{-1} E[\phi\,\delta] = V \Sigma^{-1} U^\top \delta,
              \qquad [\phi_1 \dots \phi_S]^\top = U \Sigma V^\top

    where singular values of at most ``threshold`` (times the largest one, if ``relative``) are left out, as in
    the paper. Of all W with that error it is the one of the smallest norm. ``features`` is [S, P], ``change`` [S].

    >>> phi = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> truncated_svd(phi, phi @ torch.tensor([3.0, -1.0])).weights.round(decimals=9).tolist()
    [3.0, -1.0]
    """
    phi, delta = _checked(features, change, threshold)
    found = _by_cholesky(phi, delta, threshold, relative)
    if found is None and len(phi) > phi.size(1) > 0:
        found = _by_reflections(phi, delta, threshold, relative)
    if found is not None:
        return found
    u, sigma, vt = _svd(phi)
    rank = _rank(sigma, threshold, relative, len(sigma) * _EPS)
    weights = vt[:rank].T @ ((u[:, :rank].T @ delta) / sigma[:rank])
    return Solution(weights, rank, phi @ weights - delta, lambda: u[:, :rank])


# A triangular factor R or L of phi has its singular values. Of those the smallest is at least 1 / |R^-1| in Frobenius'
# norm and the largest at most |R|. If that says that none is to be left out, a triangular system has the solution of
# the decomposition, several times sooner.


def _by_cholesky(phi: Tensor, delta: Tensor, threshold: float, relative: bool) -> Solution | None:
    """W = (phi^T phi)^-1 phi^T delta or phi^T (phi phi^T)^-1 delta, whichever is smaller, if phi is far from singular.

    To multiply phi with itself squares how far it is: of 16 digits at most 6 are lost.
    """
    tall = len(phi) > phi.size(1)
    factor, info = torch.linalg.cholesky_ex(phi.T @ phi if tall else _products(phi))
    if int(info) or not len(factor):
        return None
    identity = torch.eye(len(factor), dtype=phi.dtype)
    inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
    if not _keeps_all(factor, inverse, threshold, relative, _FAR):
        return None
    if tall:
        weights = inverse.T @ (inverse @ (phi.T @ delta))
        return Solution(weights, len(factor), phi @ weights - delta, lambda: phi @ inverse.T)
    weights = phi.T @ (inverse.T @ (inverse @ delta))
    return Solution(weights, len(factor), phi @ weights - delta, lambda: identity)


_FAR = 1e-3
_ROWS = 64


def _products(phi: Tensor) -> Tensor:
    """phi phi^T, or the half of it below and on the diagonal, which is all that Cholesky looks at."""
    gram = phi.new_zeros(len(phi), len(phi))
    for start in range(0, len(phi), _ROWS):
        stop = start + _ROWS
        gram[start:stop, :stop] = phi[start:stop] @ phi[:stop].T
    return gram


def _by_reflections(phi: Tensor, delta: Tensor, threshold: float, relative: bool) -> Solution:
    """More samples than parameters: phi = Q R, where R is small."""
    width = phi.size(1)
    # The last column of the factor of [phi delta] holds Q^T delta.
    r = torch.geqrf(torch.cat([phi, delta.unsqueeze(1)], dim=1))[0][:width].triu()
    r, projected = r[:, :width], r[:, width:]
    identity = torch.eye(width, dtype=r.dtype)
    solved = torch.linalg.solve_triangular(r, torch.cat([identity, projected], dim=1), upper=True)
    if _keeps_all(r, solved[:, :width], threshold, relative, width * _EPS):
        weights, left = solved[:, width], identity
    else:
        u, sigma, vt = _svd(r)
        rank = _rank(sigma, threshold, relative, width * _EPS)
        left = u[:, :rank]
        weights = vt[:rank].T @ ((left.T @ projected[:, 0]) / sigma[:rank])
    return Solution(weights, left.size(1), phi @ weights - delta, lambda: torch.linalg.qr(phi)[0] @ left)


def _keeps_all(factor: Tensor, inverse: Tensor, threshold: float, relative: bool, rounding: float) -> bool:
    """Whether no singular value of a triangular factor is to be left out, nor below ``rounding`` times the largest."""
    largest = float(torch.linalg.vector_norm(factor))
    smallest = max(threshold * largest if relative else threshold, rounding * largest)
    return float(torch.linalg.vector_norm(inverse)) * smallest < 1


@dataclass(frozen=True)
class Ridge:
    """Parameters W that leave-one-out error has chosen the ridge of, and what they leave."""

    weights: Tensor  # [P]
    penalty: float  # the ridge, in units of S
    residual: Tensor  # [S] what is left of the change, with the opposite sign
    left_out_residual: Tensor  # [S] the same, each sample left to a fit of the others

    @property
    def error(self) -> float:
        """The mean of squares that is left."""
        return float(self.residual.square().mean())

    @property
    def left_out(self) -> float:
        """The leave-one-out error, as in :class:`Solution`."""
        return float(self.left_out_residual @ self.left_out_residual) / len(self.left_out_residual)


PENALTIES = tuple(10 ** (half / 2) for half in range(-16, 5))  # 1e-8 .. 100
_NEARLY = 1.1  # as good as the best: its error is not known any better, and larger penalties leave smaller weights


def ridge(features: Tensor, change: Tensor) -> Ridge:
    r"""Minimise :math:`\sum_s (\phi_s \cdot W - \delta_s)^2 + S \lambda |W|^2`, lambda chosen by leave-one-out error.

    Of ``PENALTIES`` it is the largest one whose error is within a tenth of the least. The error at a sample is
    :math:`r_s / (1 - h_s)` in closed form, :math:`h_s = \phi_s^\top (\phi^\top \phi + S \lambda I)^{-1} \phi_s`: a fit
    that follows a sample whatever its value has h near 1, and is not taken for a good one. ``features`` is [S, P], of
    a mean square of about 1 a sample.

    >>> phi = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [2.0, 1.0]])
    >>> found = ridge(phi, phi @ torch.tensor([3.0, -1.0]))
    >>> found.weights.round(decimals=4).tolist(), found.penalty
    ([3.0, -1.0], 1e-08)
    """
    phi, delta = (part.numpy() for part in _checked(features, change, 0.0))
    if phi.shape[1] > len(phi):  # the same fit in as many coordinates as there are samples
        left, spread, right = np.linalg.svd(phi, full_matrices=False)
        found = ridge(torch.from_numpy(left * spread), change)
        return replace(found, weights=torch.from_numpy(right.T @ found.weights.numpy()))
    count, penalties = len(phi), np.array(PENALTIES)
    values, vectors = np.linalg.eigh(phi.T @ phi)
    turned = phi @ vectors  # [S, P]
    shrink = 1 / (values.clip(min=0)[:, None] + count * penalties)  # [P, penalties]
    coefficients = shrink * (turned.T @ delta)[:, None]
    residual = turned @ coefficients - delta[:, None]
    left_out = residual / (1 - np.square(turned) @ shrink)
    errors = np.square(left_out).sum(axis=0)
    best = int(np.flatnonzero(errors <= _NEARLY * errors.min())[-1])
    columns = (vectors @ coefficients[:, best], residual[:, best].copy(), left_out[:, best].copy())
    weights, residual, left_out = map(torch.from_numpy, columns)
    return Ridge(weights, PENALTIES[best], residual, left_out)


def truncated_svd_dual(gram: Tensor, change: Tensor, threshold: float = 1e-4, *, relative: bool = False) -> Solution:
    r"""The same optimum from the Gram matrix ``phi phi^T`` [S, S]: alpha [S] with :math:`W^* = \phi^\top \alpha`.

    For more parameters than samples, where phi itself need not be held. Singular values of phi are the square
    roots of the Gram matrix's eigenvalues; the rule for leaving them out is the same.

    >>> phi = torch.tensor([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]], dtype=torch.float64)
    >>> alpha = truncated_svd_dual(phi @ phi.T, torch.tensor([1.0, 2.0])).weights
    >>> torch.allclose(phi.T @ alpha, truncated_svd(phi, torch.tensor([1.0, 2.0])).weights)
    True
    """
    matrix, delta = _checked(gram, change, threshold)
    if matrix.size(0) != matrix.size(1):
        raise InputError(f"a Gram matrix is square (got {list(matrix.shape)})")
    values, vectors = torch.linalg.eigh(matrix)
    sigma, u = values.clamp(min=0).sqrt().flip(0), vectors.flip(1)
    rank = _rank(sigma, threshold, relative, (len(sigma) * _EPS) ** 0.5)  # a square root of rounding
    alpha = u[:, :rank] @ ((u[:, :rank].T @ delta) / sigma[:rank].square())
    return Solution(alpha, rank, matrix @ alpha - delta, lambda: u[:, :rank])


def _checked(matrix: Tensor, change: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    phi, delta = matrix.to(torch.float64), change.to(torch.float64)
    if phi.dim() != 2 or delta.shape != phi.shape[:1]:
        raise InputError(f"features must be [S, P] and change [S] (got {list(phi.shape)}, {list(delta.shape)})")
    if not len(delta):
        raise InputError("nothing to fit: there are no samples")
    if not threshold >= 0:
        raise InputError(f"threshold must be 0 or more (got {threshold!r})")
    # LAPACK answers a matrix that holds an infinity with finite numbers that mean nothing. A sum has all of them.
    for name, tensor in (("features", phi), ("change", delta)):
        if not math.isfinite(float(tensor.sum())) and not torch.isfinite(tensor).all():
            where = int((~torch.isfinite(tensor)).nonzero()[0, 0])
            raise InputError(f"{name} to be fitted are not finite (first in sample {where})")
    return phi, delta


def _rank(sigma: Tensor, threshold: float, relative: bool, rounding: float) -> int:
    """How many singular values to keep; what rounding has left of a zero is never one of them."""
    largest = float(sigma[0]) if len(sigma) else 0.0
    return int((sigma > max(threshold * largest if relative else threshold, rounding * largest)).sum())


def _svd(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    try:
        u, sigma, vt = torch.linalg.svd(matrix, full_matrices=False)
        return u, sigma, vt
    except RuntimeError:  # the divide-and-conquer driver gave up; the older one does not
        parts = scipy.linalg.svd(matrix.numpy(), full_matrices=False, lapack_driver="gesvd")
        u, sigma, vt = (torch.from_numpy(part) for part in parts)
        return u, sigma, vt
