"""Least squares in double precision: the optimal parameters of a difference model (Proposition 3, Definition 2.4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from .._base import core
from .._base.errors import InputError

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Solution:
    """Parameters W that minimise ``mean((features @ W - change)^2)``, and the errors they leave."""

    weights: Tensor  # [P]
    rank: int  # how many singular values were kept
    residual: Tensor  # [S] features @ W - change
    _directions: Callable[[], Tensor]  # returns the kept left singular vectors, [S, rank]; called only if needed

    @cached_property
    def error(self) -> float:
        """The mean square of the residual."""
        return float(self.residual.square().mean())

    @cached_property
    def left_out(self) -> float:
        """The leave-one-out error, mean_s (r_s / (1 - h_s))^2, where h_s = |u_s|^2 is the leverage of sample s.

        The formula assumes that the same singular vectors are kept when a sample is left out. If h_s = 1, the fit
        passes through sample s whatever its value is. Nothing is then known about its error, so the result is infinite.
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
    the paper. Among all W with the same error, it has the smallest norm. ``features`` is [S, P], ``change`` is [S].

    >>> phi = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> truncated_svd(phi, phi @ torch.tensor([3.0, -1.0])).weights.round(decimals=9).tolist()
    [3.0, -1.0]
    """
    phi, delta = _check(features, change, threshold)
    solution = _by_cholesky(phi, delta, threshold, relative)
    if solution is None and len(phi) > phi.size(1) > 0:
        solution = _by_reflections(phi, delta, threshold, relative)
    if solution is not None:
        return solution
    return _by_columns(phi, delta, threshold, relative)


# A triangular factor R of phi has the same singular values as phi. In the Frobenius norm, the smallest of them is at
# least 1 / |R^-1| and the largest is at most |R|. If these bounds show that no singular value is left out, a triangular
# system has the same solution as the singular value decomposition, and it is several times faster to solve.


def _by_cholesky(phi: Tensor, delta: Tensor, threshold: float, relative: bool) -> Solution | None:
    """Return the solution by Cholesky's decomposition; None if phi is not far enough from singular.

    W = (phi^T phi)^-1 phi^T delta or phi^T (phi phi^T)^-1 delta, whichever inverts the smaller matrix. The product of
    phi with itself squares its condition number. Because of the limit ``_FAR``, at most 6 of 16 digits are lost.
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


_FAR = 1e-3  # the least ratio of the smallest to the largest singular value for which Cholesky is used
_ROWS = 64  # rows of phi phi^T that are computed at once


def _products(phi: Tensor) -> Tensor:
    """Return phi phi^T on and below the diagonal; other entries may be 0, because Cholesky does not read them."""
    gram = phi.new_zeros(len(phi), len(phi))
    for start in range(0, len(phi), _ROWS):
        stop = start + _ROWS
        gram[start:stop, :stop] = phi[start:stop] @ phi[:stop].T
    return gram


def _by_reflections(phi: Tensor, delta: Tensor, threshold: float, relative: bool) -> Solution:
    """Return the solution by phi = Q R, where R is small if there are more samples than parameters."""
    width = phi.size(1)
    # The last column of the triangular factor of [phi delta] is Q^T delta, so Q is not needed.
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


def _by_columns(phi: Tensor, delta: Tensor, threshold: float, relative: bool) -> Solution:
    """Return the solution by phi^T = Q R, where R is small if there are more parameters than samples.

    Parameters whose feature is 0 in every sample stay 0. Words that no document in reach has are many.
    """
    used = (phi != 0).any(dim=0).nonzero().view(-1)
    some = phi if len(used) == phi.size(1) else phi[:, used]
    wide = len(used) > len(phi)
    reflections = torch.geqrf(some.T) if wide else None
    small = some if reflections is None else reflections[0][: len(phi)].triu().T
    u, sigma, vt = _svd(small)
    rank = _rank(sigma, threshold, relative, len(sigma) * _EPS)
    solved = vt[:rank].T @ ((u[:, :rank].T @ delta) / sigma[:rank])
    if reflections is not None:
        padded = torch.nn.functional.pad(solved.unsqueeze(1), (0, 0, 0, len(used) - len(solved)))
        solved = torch.ormqr(*reflections, padded)[:, 0]
    weights = phi.new_zeros(phi.size(1))
    weights[used] = solved
    return Solution(weights, rank, some @ solved - delta, lambda: u[:, :rank])


def _keeps_all(factor: Tensor, inverse: Tensor, threshold: float, relative: bool, rounding: float) -> bool:
    """Return whether all singular values of a factor exceed the threshold and ``rounding`` times the largest one."""
    largest = float(torch.linalg.vector_norm(factor))
    smallest = max(threshold * largest if relative else threshold, rounding * largest)
    return float(torch.linalg.vector_norm(inverse)) * smallest < 1


@dataclass(frozen=True)
class Ridge:
    """Parameters W of a ridge regression whose penalty was chosen by leave-one-out error, and the errors they leave."""

    weights: Tensor  # [P]
    penalty: float  # lambda, where S lambda |W|^2 was added to the sum of squares
    residual: Tensor  # [S] features @ W - change
    left_out_residual: Tensor  # [S] the residual of each sample in a fit to all other samples

    @property
    def error(self) -> float:
        """The mean square of the residual."""
        return float(self.residual.square().mean())

    @property
    def left_out(self) -> float:
        """The leave-one-out error, as in :class:`Solution`."""
        return float(self.left_out_residual @ self.left_out_residual) / len(self.left_out_residual)


PENALTIES = tuple(10 ** (half / 2) for half in range(-16, 5))  # 1e-8 .. 100
# An error of up to this multiple of the least error counts as equally good, because the errors are not known more
# precisely. Among equally good penalties the largest is taken, because it gives the smallest weights.
NEARLY = 1.1


def ridge(features: Tensor, change: Tensor) -> Ridge:
    r"""Minimise :math:`\sum_s (\phi_s \cdot W - \delta_s)^2 + S \lambda |W|^2`, lambda chosen by leave-one-out error.

    Lambda is the largest of ``PENALTIES`` whose error is at most 1.1 times the least error. The leave-one-out residual
    of a sample has a closed form, :math:`r_s / (1 - h_s)` with the leverage
    :math:`h_s = \phi_s^\top (\phi^\top \phi + S \lambda I)^{-1} \phi_s`. If a fit would pass through a sample whatever
    its value is, then h is near 1 and the error is large, so such a fit is not chosen. ``features`` is [S, P]. Because
    ``PENALTIES`` are absolute numbers, the mean over samples of :math:`|\phi_s|^2` should be about 1.

    >>> phi = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [2.0, 1.0]])
    >>> solution = ridge(phi, phi @ torch.tensor([3.0, -1.0]))
    >>> solution.weights.round(decimals=4).tolist(), solution.penalty
    ([3.0, -1.0], 1e-08)
    """
    checked = _check(features, change, 0.0)
    _check_squares(checked[0], "features")
    phi, delta = (part.numpy() for part in checked)
    if phi.shape[1] > len(phi):  # The solution lies in the span of the samples, so solve in S coordinates.
        left, spread, right = np.linalg.svd(phi, full_matrices=False)
        solution = ridge(torch.from_numpy(left * spread), change)
        return replace(solution, weights=torch.from_numpy(right.T @ solution.weights.numpy()))
    weights, best, residual, left_out = core.fit_ridge(np.ascontiguousarray(phi), delta, np.array(PENALTIES), NEARLY)
    parts = (torch.from_numpy(part) for part in (weights, residual, left_out))
    return Ridge(next(parts), PENALTIES[best], *parts)


def truncated_svd_dual(gram: Tensor, change: Tensor, threshold: float = 1e-4, *, relative: bool = False) -> Solution:
    r"""Return alpha [S], with :math:`W^* = \phi^\top \alpha` the optimum of :func:`truncated_svd`, as the weights.

    It needs only the Gram matrix :math:`\phi \phi^\top`, [S, S]. That saves memory if there are many more parameters
    than samples. The singular values of phi are the square roots of the Gram matrix's eigenvalues, and small ones are
    left out by the same rule.

    >>> phi = torch.tensor([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]], dtype=torch.float64)
    >>> alpha = truncated_svd_dual(phi @ phi.T, torch.tensor([1.0, 2.0])).weights
    >>> torch.allclose(phi.T @ alpha, truncated_svd(phi, torch.tensor([1.0, 2.0])).weights)
    True
    """
    matrix, delta = _check(gram, change, threshold)
    if matrix.size(0) != matrix.size(1):
        raise InputError(f"the Gram matrix must be square (got {list(matrix.shape)})")
    values, vectors = torch.linalg.eigh(matrix)
    sigma, u = values.clamp(min=0).sqrt().flip(0), vectors.flip(1)
    # The singular values are square roots of eigenvalues, so their rounding error is a square root too.
    rank = _rank(sigma, threshold, relative, (len(sigma) * _EPS) ** 0.5)
    alpha = u[:, :rank] @ ((u[:, :rank].T @ delta) / sigma[:rank].square())
    return Solution(alpha, rank, matrix @ alpha - delta, lambda: u[:, :rank])


def _check(matrix: Tensor, change: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Check the arguments of a fit, and return the features and the change in double precision."""
    phi, delta = matrix.to(torch.float64), change.to(torch.float64)
    if phi.dim() != 2 or delta.shape != phi.shape[:1]:
        raise InputError(f"features must be [S, P] and change [S] (got {list(phi.shape)}, {list(delta.shape)})")
    if not len(delta):
        raise InputError("there are no samples to fit: at least one is needed")
    if not threshold >= 0:
        raise InputError(f"threshold must be 0 or more (got {threshold!r})")
    # LAPACK returns meaningless finite numbers for a matrix that contains an infinity. The sum, which is not finite if
    # any entry is not, is a fast first check.
    for name, tensor in (("features", phi), ("change", delta)):
        if not math.isfinite(float(tensor.sum())) and not torch.isfinite(tensor).all():
            where = int((~torch.isfinite(tensor)).nonzero()[0, 0])
            raise InputError(
                f"{name} to be fitted are not finite (first in sample {where}): use a smaller neighbourhood, or scale "
                "features and weights"
            )
    _check_squares(delta, "change")
    return phi, delta


def _check_squares(tensor: Tensor, name: str) -> None:
    """Raise an :class:`InputError` if the numbers are finite, but the sum of their squares is not."""
    if not math.isfinite(float(torch.linalg.vector_norm(tensor))):
        raise InputError(
            f"{name} to be fitted are as large as {float(tensor.abs().max()):.1e}, so that squares overflow: use a "
            "smaller neighbourhood, or scale features and weights"
        )


def _rank(sigma: Tensor, threshold: float, relative: bool, rounding: float) -> int:
    """Return how many singular values to keep; a value that differs from 0 only by rounding is never kept."""
    largest = float(sigma[0]) if len(sigma) else 0.0
    return int((sigma > max(threshold * largest if relative else threshold, rounding * largest)).sum())


def _svd(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, the singular values and V^T."""
    try:
        u, sigma, vt = torch.linalg.svd(matrix, full_matrices=False)
        return u, sigma, vt
    except RuntimeError:  # The divide-and-conquer driver may fail to converge; the older driver gesvd is more robust.
        parts = scipy.linalg.svd(matrix.numpy(), full_matrices=False, lapack_driver="gesvd")
        u, sigma, vt = (torch.from_numpy(part) for part in parts)
        return u, sigma, vt
