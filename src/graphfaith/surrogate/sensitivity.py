"""The mean gradient of F and its main directions of curvature, from F's gradients at some perturbed graphs.

A gradient has a number for every feature and every entry of A, but a value of F is one number. A few gradients
therefore tell more about F than hundreds of values.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._base import core
from .._base.errors import ModelError
from ..graph.graph import Int64
from ..model.target import Target
from ..sampling.perturbations import Perturbations
from .estimate import rounding_square
from .walks import Float64

RANK = 8  # the largest number of directions, both of the columns of X and of the curvature
ROWS = 32  # the directions of the columns are computed from the gradients at this many most sensitive nodes
RIDGE = 0.1  # the ridge penalty of the curvature, as a share of the spread of each direction
CUT = 1e-6  # squared singular values below this share of the largest one are rounding errors


@dataclass(frozen=True)
class Sensitivity:
    r"""F's gradient at (X, A), the mean gradient over samples, and the curvature that the samples' gradients show.

    Let V be the r ``directions`` in which the gradients vary most, and :math:`z = V^\top \epsilon`. Then
    :math:`\nabla F(\cdot - \epsilon) \approx b + V B z`, so the curvature contributes :math:`\frac12 z^\top B z` to F's
    change. If the neighbourhood does not perturb X (or A), both gradients for X (or A) are the same: the mean over the
    samples and the unperturbed graph.
    """

    along_x: Tensor  # [2 + r, n, d] the gradient for X, its mean, and V; [1, n, d] if X is not perturbed
    along_a: Tensor  # [2 + r, e] the same for A
    bend: Tensor  # [r, r] B
    columns: Tensor  # [d, u] orthonormal: the directions of a node's features that F looks at
    strength: Tensor  # [e] the mean of |dF/dA| over the unperturbed graph and the samples, times A

    @classmethod
    def of(cls, target: Target, gradients: tuple[Tensor, Tensor], chunk: Perturbations) -> Sensitivity:
        """Return the sensitivity, given the gradients for X and A that :func:`gradients_at` returns of some samples.

        A sample with a gradient that is not finite is left out. If the gradient at (X, A) is not finite, 0 is used.
        """
        (of_x, of_a), chunk = _select_finite(target, gradients, chunk)
        # There are few entries of A, so that their gradients are combined in double precision.
        slopes = of_x, of_a.double()
        count, moves = len(chunk), (chunk.features, chunk.edges)
        noise = rounding_square(target.scale, chunk.graph.x.dtype)
        moved = [(g[1:], eps) for g, eps in zip(slopes, moves, strict=True) if eps is not None]
        mix, bend = _fit_curvature(moved, noise)
        rows = np.zeros((2 + len(mix), 1 + count))
        rows[:2, 0] = 1
        if count:
            rows[1, 0], rows[1, 1:], rows[2:, 1:] = 0, 1 / count, mix
        mixed = torch.from_numpy(rows)
        along_x, along_a = (
            g.unsqueeze(0) if eps is None else _combine(mixed, g) for g, eps in zip(slopes, moves, strict=True)
        )
        columns = main_columns(along_x[1 if len(along_x) > 1 else 0, : chunk.graph.num_visible])
        slope_a = slopes[1].unsqueeze(0) if chunk.edges is None else slopes[1]
        steepness: Tensor = torch.linalg.vector_norm(slope_a, ord=1, dim=0, dtype=torch.float64) / len(slope_a)
        strength = steepness * chunk.graph.weight.double().abs()
        return cls(along_x, along_a, torch.from_numpy(bend), columns, strength)

    @classmethod
    def still(cls, target: Target) -> Sensitivity:
        """Return the sensitivity where neither X nor A is perturbed: F's gradient at (X, A), and no curvature."""
        part = target.computation_graph
        try:
            of_x, of_a = target.gradient()
        except ModelError:
            of_x, of_a = torch.zeros_like(part.x), torch.zeros_like(part.weight)
        columns = main_columns(of_x[: part.num_visible])
        strength = of_a.double().abs() * part.weight.double().abs()
        none = torch.zeros(0, 0, dtype=torch.float64)
        return cls(of_x.unsqueeze(0), of_a.double().unsqueeze(0), none, columns, strength)

    def foreseen(self, chunk: Perturbations) -> Tensor:
        """Return the changes that the gradient and the mean gradient predict, and z, for each sample: [S, 2 + r]."""
        products = None
        for eps, along in ((chunk.features, self.along_x), (chunk.edges, self.along_a)):
            if eps is not None:
                part = products_along(eps, along)
                products = part if products is None else products + part
        return torch.zeros(len(chunk), 2, dtype=torch.float64) if products is None else products

    def gradient(self, local: float, mean: float) -> tuple[Tensor, Tensor]:
        """Return ``local`` times the gradient at (X, A) plus ``mean`` times the mean gradient, for X and for A."""
        both = torch.tensor([local, mean], dtype=torch.float64)
        combined = (
            (local + mean) * along[0]
            if len(along) == 1
            else (both.to(along.dtype) @ along[:2].flatten(1)).view(along.shape[1:])
            for along in (self.along_x, self.along_a)
        )
        x, a = combined
        return x, a

    @property
    def directions(self) -> tuple[Tensor | None, Tensor | None]:
        """V for X, [r, n, d], and for A, [r, e]; None if X or A is not perturbed."""
        x, a = (None if len(along) == 1 else along[2:] for along in (self.along_x, self.along_a))
        return x, a


def products_along(eps: Tensor, along: Tensor) -> Tensor:
    """Return the products of perturbations, [S, ...], with directions, [r, ...], in double precision, [S, r]."""
    return project(eps.flatten(1), along.flatten(1)).double()


def project(numbers: Tensor, directions: Tensor) -> Tensor:
    """Return the products of many rows, [..., d], with a few directions, [r, d], in the rows' precision, [..., r].

    It takes half of the time if the directions stand on the left, and a 25th where the rows are stored by columns.
    """
    flat = numbers.reshape(-1, numbers.size(-1))
    return (directions.to(flat.dtype) @ flat.T).T.view(*numbers.shape[:-1], len(directions))


def gradients_at(target: Target, chunk: Perturbations) -> tuple[Tensor, Tensor, Tensor]:
    """Return F and its gradients with respect to X and A at the unperturbed graph and at S samples.

    F is [1 + S]. The gradients are [1 + S, ...] for X if the samples perturb X, and for A if they perturb A. Otherwise
    the gradient is the sum over all 1 + S points.
    """
    return gradients_of(target, chunk.x_with_own, None if chunk.edges is None else chunk.weight_with_own)


def gradients_of(target: Target, x: Tensor | None, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return F at some points, given by X [P, n, d] or A [P, e] or both, and its gradients: as many as fit at once."""
    given = weight if x is None else x
    assert given is not None
    count = len(given)
    size = _count_at_once(target, count, moves_x=x is not None, moves_a=weight is not None)
    parts = []
    for start in range(0, count, size):
        points = slice(start, start + size)
        parts.append(target.gradients(None if x is None else x[points], None if weight is None else weight[points]))
    values, dxs, das = zip(*parts, strict=True)
    dx = torch.stack(dxs).sum(dim=0) if x is None else torch.cat(dxs)
    return torch.cat(values), dx, torch.stack(das).sum(dim=0) if weight is None else torch.cat(das)


def slopes_of_attributes(target: Target, chunk: Perturbations) -> Tensor | None:
    """Return F's gradient for edge attributes at the unperturbed graph and its mean over samples, [2, e, c].

    It is None if the samples do not perturb edge attributes. A gradient that is not finite counts as 0.
    """
    own = chunk.graph.attributes
    if chunk.attributes is None or own is None:
        return None
    total, count = torch.zeros(2, *own.shape, dtype=torch.float64), 0
    points: list[tuple[Tensor | None, Tensor | None, Tensor]] = [(None, None, own)]
    for s in range(len(chunk)):
        x = None if chunk.features is None else chunk.graph.x - chunk.features[s]
        weight = None if chunk.edges is None else chunk.graph.weight.double() - chunk.edges[s]
        points.append((x, weight, own - chunk.attributes[s]))
    for place, point in enumerate(points):
        with suppress(ModelError):
            slope = target.attribute_gradients(*point)
            assert slope is not None
            total[min(place, 1)] += slope.double()
            count += place > 0
    total[1] /= max(count, 1)
    return total


def slopes_at(target: Target, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return F's gradients at S points with entries of A [S, e], of which the first are those of the graph as it is.

    They are the gradient for X at the first point, its mean over all points, both [n, d], and the gradients for A,
    [S, e].
    """
    size = _count_at_once(target, len(weight), moves_x=False, moves_a=True)
    total, of_a, own, _ = target.gradients_and_first(weight[:size])
    parts = [of_a]
    for start in range(size, len(weight), size):
        _, more, of_a = target.gradients(None, weight[start : start + size])
        total += more
        parts.append(of_a)
    return own, total / len(weight), torch.cat(parts)


def slopes_and_changes(
    target: Target, weight: Tensor, asked: Int64, rest: Int64
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor | None]:
    """Return :func:`slopes_at` the graph as it is and the ``asked`` of S samples, and F's change at the ``rest``, [S'].

    ``weight``, [1 + S, e], has the entries of A of the graph as it is and then of the samples. On a tiny graph one call
    of the model is enough for both; elsewhere the change is not known (None).
    """
    count = 1 + len(asked)
    if not target.is_tiny or _count_at_once(target, len(weight), moves_x=False, moves_a=True) < len(weight):
        return slopes_at(target, weight[torch.from_numpy(np.concatenate(([0], 1 + asked)))]), None
    order = torch.from_numpy(np.concatenate(([0], 1 + asked, 1 + rest)))
    total, of_a, own, values = target.gradients_and_first(weight[order], count)
    if not math.isfinite(float(total.sum())):  # Where F's slope is infinite, nothing asked of it is not nothing.
        return slopes_at(target, weight[order[:count]]), None
    return (own, total / count, of_a), values[0].double() - values[count:].double()


def _count_at_once(target: Target, count: int, *, moves_x: bool, moves_a: bool) -> int:
    """Return at how many points F is differentiated at once, so that it fits in memory."""
    part = target.computation_graph
    held = part.num_edges + (part.x.numel() if moves_x else 0)
    per_sample = 8 * (4 * part.num_edges * target.unit_width(drops=moves_a) + 4 * held)
    return max(1, target.room(8 * count * held, per_sample, f"the gradient at {count} points") // per_sample)


def _select_finite(
    target: Target, gradients: tuple[Tensor, Tensor], chunk: Perturbations
) -> tuple[tuple[Tensor, Tensor], Perturbations]:
    """Return the gradients and the samples, without the samples at which a gradient is not finite.

    If X (or A) is not perturbed, its gradient is the mean over all points, or the gradient at (X, A) if any gradient
    is not finite.
    """
    (dx, da), points = gradients, len(chunk) + 1
    if math.isfinite(float(dx.sum())) and math.isfinite(float(da.sum())):
        return (dx / points if chunk.features is None else dx, da / points if chunk.edges is None else da), chunk
    good = torch.ones(len(chunk), dtype=torch.bool)
    for g, eps in ((dx, chunk.features), (da, chunk.edges)):
        if eps is not None:
            good &= torch.isfinite(g[1:].flatten(1)).all(dim=1)
    try:
        centre_x, centre_a = target.gradient()
    except ModelError:
        centre_x, centre_a = torch.zeros_like(chunk.graph.x), torch.zeros_like(chunk.graph.weight)
    dx = centre_x if chunk.features is None else torch.cat([centre_x.unsqueeze(0), dx[1:][good]])
    da = centre_a if chunk.edges is None else torch.cat([centre_a.unsqueeze(0), da[1:][good]])
    return (dx, da), chunk[good]


def _combine(weights: Tensor, gradients: Tensor) -> Tensor:
    """Return the sums of S gradients [S, ...] with the weights of each row of [r, S], in the gradients' precision."""
    narrow, flat = weights.to(gradients.dtype), gradients.flatten(1)
    # The weights of tiny gradients are huge, and may need a wider range than the directions that they make.
    product = narrow @ flat if math.isfinite(float(narrow.sum())) else (weights @ flat.double()).to(gradients.dtype)
    return product.view(-1, *gradients.shape[1:])


# The functions below use numpy, because it is faster than torch for small matrices.


def _fit_curvature(parts: list[tuple[Tensor, Tensor]], noise: float) -> tuple[Float64, Float64]:
    """Return the weights with which the gradients of S samples add up to the directions V, [r, S], and B, [r, r].

    ``parts`` has the gradients and the perturbations, [S, ...], for X and for A. The gradients of X and of A are
    comparable because each is scaled by the mean square of its perturbations. If they are so large that a product
    overflows, there are no directions, and the mean gradient is all that is known of F's slope. A direction along
    which F changes by no more than its rounding, whose mean square is ``noise``, is none.
    """
    count = len(parts[0][0])
    gram, meet = np.zeros((count, count)), np.zeros((count, count))  # meet: perturbations times gradients
    with np.errstate(over="ignore", invalid="ignore"):
        for gradients, epsilon in parts if count else []:
            g, eps = gradients.flatten(1).numpy(), epsilon.flatten(1).numpy()
            spread = math.inf if eps.dtype == np.float16 else float(np.vdot(eps, eps)) / eps.size
            if not math.isfinite(spread):  # the sum of squares may need more than the precision of eps
                spread = float(np.square(eps, dtype=np.float64).mean())
            gram += spread * _products(g, g)
            meet += _products(eps.astype(g.dtype, copy=False), g)
    mix, bend = core.fit_curvature(gram, meet, RANK, CUT, RIDGE, noise)
    return mix.T, bend


def main_columns(gradient: Tensor) -> Tensor:
    """Return the directions of the columns in which a gradient [n, d] is largest, [d, u]; all of them if d is small."""
    return torch.from_numpy(core.main_columns(gradient.double().contiguous().numpy(), RANK, ROWS, CUT))


def _products(a: np.ndarray, b: np.ndarray) -> Float64:
    """Return a b^T, computed in the precision of a and b unless it overflows there."""
    with np.errstate(over="ignore", invalid="ignore"):
        products: Float64 = (a @ b.T).astype(np.float64)
        enough = a.dtype == np.float64 or (a.dtype == np.float32 and math.isfinite(products.sum()))
    if enough:
        return products
    return np.asarray(a.astype(np.float64) @ b.astype(np.float64).T)
