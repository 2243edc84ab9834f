"""Least squares in double precision: the optimal parameters of a difference model (Propositions 3 and Def. 2.4)."""

from __future__ import annotations

from dataclasses import dataclass

import scipy.linalg
import torch
from torch import Tensor

from .errors import InputError

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Solution:
    """Parameters W that minimise ``mean((features @ W - change)^2)``, and how well they do."""

    weights: Tensor  # [P]
    rank: int  # singular values that were kept
    error: float  # the mean of squares that is left
    left_out: float  # the same where each sample is predicted by a fit to the others


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
    u, sigma, vt = _svd(phi)
    rank = _rank(sigma, threshold, relative, len(sigma) * _EPS)
    weights = vt[:rank].T @ ((u[:, :rank].T @ delta) / sigma[:rank])
    residual = phi @ weights - delta
    return Solution(weights, rank, float(residual.square().mean()), _left_out(residual, u[:, :rank]))


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
    residual = matrix @ alpha - delta
    return Solution(alpha, rank, float(residual.square().mean()), _left_out(residual, u[:, :rank]))


def _left_out(residual: Tensor, u: Tensor) -> float:
    """The leave-one-out error, mean_s (r_s / (1 - h_s))^2 with h_s = |u_s|^2 the leverage of a sample.

    It holds for the kept singular vectors as they are. A fit that passes through a sample whatever its value has
    learnt nothing about it, which is an error without bound.
    """
    free = 1 - u.square().sum(dim=1)
    if bool((free < len(residual) * _EPS).any()):
        return float("inf")
    return float((residual / free).square().mean())


def _checked(matrix: Tensor, change: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    phi, delta = matrix.to(torch.float64), change.to(torch.float64)
    if phi.dim() != 2 or delta.shape != phi.shape[:1]:
        raise InputError(f"features must be [S, P] and change [S] (got {list(phi.shape)}, {list(delta.shape)})")
    if not len(delta):
        raise InputError("nothing to fit: there are no samples")
    if not threshold >= 0:
        raise InputError(f"threshold must be 0 or more (got {threshold!r})")
    # LAPACK answers a matrix that holds an infinity with finite numbers that mean nothing.
    for name, tensor in (("features", phi), ("change", delta)):
        if not torch.isfinite(tensor).all():
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
