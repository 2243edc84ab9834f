"""Kriging: what the terms of p leave of F where edges are removed, interpolated between the samples of a fit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph

_MOST_ENTRIES = 128  # entries of A by which samples are told apart: the strongest
# The length of a kernel, the variance of all terms and that of the kernel, in units of the noise.
_LENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0)
_OF_TERMS = (1e0, 1e2, 1e4, 1e6, 1e8)
_OF_KERNEL = (0.0, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5)
_ALIKE = 1e-8  # the mean variance of a kernel below which all samples are alike
_ROUNDS = 2  # how often each of the three is chosen again, the others being as they are


@dataclass(frozen=True)
class Kriging:
    r"""A function of the removed edges that is large near samples which it has seen, and small far from all of them.

    .. math:: g(\epsilon) = \sum_i \alpha_i\, \kappa(\epsilon, \epsilon_i), \qquad
              \kappa(\epsilon, \epsilon') = k(\epsilon, \epsilon') - k(\epsilon, 0) - k(0, \epsilon') + 1, \qquad
              k(\epsilon, \epsilon') = \exp \left( - \sum_e \rho_e \left( \frac{\epsilon_e - \epsilon'_e}{A_e} \right)^2
              \right)

    with one :math:`\epsilon_i` for each sample of the fit and :math:`\rho_e` proportional to the strength of an entry,
    the mean of \|dF / dA\| A over the graph as it is and the samples where F's gradient is known. So samples are alike
    if the strong edges that only one of them has removed are few and weak.
    """

    entries: Tensor  # [l] the places of the entries in A
    weight: Tensor  # [l] A_e
    rho: Tensor  # [l]
    seen: Tensor  # [S, l] eps_i / A
    alpha: Tensor  # [S]
    num_edges: int

    def change(self, eps: Tensor) -> Tensor:
        """Return g at perturbations of A, [S', e] -> [S']."""
        removed = eps[:, self.entries] / self.weight
        size, more = removed.square() @ self.rho, self.seen.square() @ self.rho
        near = _compare(removed, self.seen, self.rho, size, more).sub_(torch.exp(-more))
        return near @ self.alpha - torch.expm1(-size) * self.alpha.sum()

    def gradient(self) -> Tensor:
        """Return the derivative of g with respect to eps at 0, [e]."""
        near = torch.exp(-self.seen.square() @ self.rho)
        slope = torch.zeros(self.num_edges, dtype=torch.float64)
        slope[self.entries] = 2 * self.rho * ((self.alpha * near) @ self.seen) / self.weight
        return slope


def _compare(one: Tensor, other: Tensor, rho: Tensor, size: Tensor, more: Tensor) -> Tensor:
    """Return k between two lists of removed entries, [S, S'], given their sum_e rho_e eps_e^2 / A_e^2."""
    return ((2 * one * rho) @ other.T).sub_(size.unsqueeze(1)).sub_(more).exp_()


def _kernel(seen: Tensor, rho: Tensor) -> Tensor:
    """Return kappa between all samples, [S, S]."""
    size = seen.square() @ rho
    alone = torch.exp(-size)
    return _compare(seen, seen, rho, size, size).sub_(alone.unsqueeze(1)).sub_(alone).add_(1)


@dataclass(frozen=True)
class Kriged:
    """A fit of terms and a :class:`Kriging` together, with the errors they leave."""

    kriging: Kriging
    weights: Tensor  # [P] of the terms
    residual: Tensor  # [S]
    left_out_residual: Tensor  # [S] the residual of each sample in a fit to all other samples


def strongest(strength: Tensor) -> Tensor:
    """Return the places of the entries of A by which samples are told apart, the strongest first, [l].

    >>> strongest(torch.tensor([0.1, 0.0, 2.0])).tolist()
    [2, 0]
    """
    known = strength.double().abs()
    return torch.argsort(-known, stable=True)[: min(_MOST_ENTRIES, int((known > 0).sum()))]


def krige(terms: Tensor, change: Tensor, graph: ComputationGraph, seen: Tensor, strength: Tensor) -> Kriged | None:
    r"""Fit F's ``change``, [S], by the ``terms`` of p, [S, P], and by a function of the removed edges.

    Weights of terms and the function are a Gaussian process: the change of F has the covariance
    :math:`K = t\, T T^\top + s\, \kappa + I`, times a number, so that :math:`\alpha = K^{-1} \delta` gives
    :math:`w = t\, T^\top \alpha`, :math:`g = s\, \sum_i \alpha_i \kappa(\cdot, \epsilon_i)` and the residual of a
    sample that is left out, :math:`- \alpha_i / (K^{-1})_{ii}`. Of t, s and the length of the kernel, those are taken
    under which the change of F is most likely.

    ``seen`` has eps of the :func:`strongest` entries, [S, l]. The result is None if there is nothing to be told apart:
    F does not change, or depends on no edge.
    """
    typical, entries = math.sqrt(float(change.square().mean())), strongest(strength)
    if not (typical > 0 and len(entries)):
        return None
    weight, share = graph.weight.double()[entries], strength.double().abs()[entries]
    seen, share = seen / weight, share / share[0]
    search = _Search(terms.double(), change.double() / typical, seen, share)  # so that no square is too small or large
    length, of_terms, of_kernel = search.best()
    solved = search.solve(length, of_terms, of_kernel)
    alpha = typical * solved.alpha
    return Kriged(
        Kriging(entries, weight, length * share, seen, search.scale(length, of_kernel) * alpha, graph.num_edges),
        typical * solved.weights,
        -alpha,
        -alpha / solved.precision(),
    )


@dataclass(frozen=True)
class _Solved:
    """The solution for given variances; s kappa + I = C C^T, and [C^-1 T; I / sqrt t] = Q R."""

    weights: Tensor  # [P]
    alpha: Tensor  # [S]
    factor: Tensor  # [S, S] C
    basis: Tensor  # [S, P] the upper part of Q
    surprise: float  # -2 log of the likelihood of the changes, but for a constant, at the most likely size of all

    def precision(self) -> Tensor:
        """Return the diagonal of K^-1 = C^-T (I - Q Q^T) C^-1, [S]."""
        identity = torch.eye(len(self.factor), dtype=torch.float64)
        inverse: Tensor = torch.linalg.solve_triangular(self.factor, identity, upper=False)
        explained: Tensor = self.basis.T @ inverse
        return inverse.square().sum(dim=0) - explained.square().sum(dim=0)


class _Search:
    """The search for the length of the kernel and for the variances of terms and kernel."""

    def __init__(self, terms: Tensor, change: Tensor, seen: Tensor, share: Tensor) -> None:
        self._both, self._seen, self._share = torch.cat([terms, change.unsqueeze(1)], dim=1), seen, share
        self._kernels: dict[float, Tensor] = {}
        self._factors: dict[tuple[float, float], tuple[Tensor, Tensor]] = {}

    def _kernel(self, length: float) -> Tensor:
        """Return kappa between all samples, [S, S]."""
        if length not in self._kernels:
            self._kernels[length] = _kernel(self._seen, length * self._share)
        return self._kernels[length]

    def scale(self, length: float, of_kernel: float) -> float:
        """Return s, the factor with which the mean variance of the kernel at the samples is ``of_kernel``.

        It is 0 if the kernel cannot tell samples apart, because strong entries are never removed: what is left of it is
        rounding.
        """
        variance = float(self._kernel(length).diagonal().mean())
        return of_kernel / variance if variance > _ALIKE else 0.0

    def _whiten(self, length: float, of_kernel: float) -> tuple[Tensor, Tensor]:
        """Return C and C^-1 [T, delta]."""
        if (length, of_kernel) not in self._factors:
            covariance = self.scale(length, of_kernel) * self._kernel(length)
            covariance.diagonal().add_(1.0)
            factor = torch.linalg.cholesky(covariance)
            white = torch.linalg.solve_triangular(factor, self._both, upper=False)
            self._factors[length, of_kernel] = factor, white
        return self._factors[length, of_kernel]

    def solve(self, length: float, of_terms: float, of_kernel: float) -> _Solved:
        """Return the solution for these variances.

        With t up to 1e8, K itself is too close to singular: w is that of a regression of C^-1 delta on C^-1 T with the
        penalty 1 / t, and alpha = C^-T times what is left.
        """
        factor, white = self._whiten(length, of_kernel)
        count = white.size(1) - 1
        penalty = torch.eye(count, dtype=torch.float64) / math.sqrt(of_terms)
        basis, upper = torch.linalg.qr(torch.cat([white[:, :-1], penalty]))
        basis = basis[: len(white)]
        weights = torch.linalg.solve_triangular(upper, (basis.T @ white[:, -1]).unsqueeze(1), upper=True)[:, 0]
        left = white[:, -1] - white[:, :-1] @ weights
        alpha = torch.linalg.solve_triangular(factor.T, left.unsqueeze(1), upper=True)[:, 0]
        square = float(left @ left) + float(weights @ weights) / of_terms
        volume = 2 * float(factor.diagonal().log().sum()) + 2 * float(upper.diagonal().abs().log().sum())
        surprise = len(left) * math.log(square / len(left)) + volume + count * math.log(of_terms)
        return _Solved(weights, alpha, factor, basis, surprise)

    def best(self) -> tuple[float, float, float]:
        """Return the three numbers under which the changes are most likely, one after the other."""
        chosen = _LENGTHS[3], _OF_TERMS[3], _OF_KERNEL[5]
        tried: dict[tuple[float, float, float], float] = {}
        for place in _ROUNDS * (0, 1, 2):
            length, of_terms, of_kernel = chosen
            options = (
                [(value, of_terms, of_kernel) for value in _LENGTHS],
                [(length, value, of_kernel) for value in _OF_TERMS],
                [(length, of_terms, value) for value in _OF_KERNEL],
            )[place]
            for option in options:
                if option not in tried:
                    tried[option] = self.solve(*option).surprise
            chosen = min(options, key=lambda option: tried[option])
        return chosen
