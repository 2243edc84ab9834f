"""What F's gradients at some perturbed graphs say: where it is steep, on average, and along which directions it bends.

A gradient has a number for every feature and every entry of A, where a value of F is one. So a few of them tell a model
p what hundreds of values would not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .neighborhood import Neighborhood, Perturbations
from .target import Target

RANK = 8  # directions, of X's columns and of curvature
_ROWS = 64  # nodes among which directions of columns are looked for: the most sensitive ones
_RIDGE = 0.1  # of the curvature, as a share of each direction's own spread
_CUT = 1e-6  # squared singular values below this share of the largest are rounding


@dataclass(frozen=True)
class Sensitivity:
    r"""F's gradient at (X, A) and its mean over samples, and the curvature that the samples' gradients show.

    With :math:`z = V^\top \epsilon` in the r ``directions`` in which gradients vary most,
    :math:`\nabla F(\cdot - \epsilon) \approx b + V B z`, so F's change bends by :math:`\frac12 z^\top B z`. Of what
    the neighbourhood leaves still, ``own`` and ``mean`` are the same: the mean over the samples and (X, A).
    """

    own: tuple[Tensor, Tensor]  # [n, d], [e]
    mean: tuple[Tensor, Tensor]
    directions: tuple[Tensor | None, Tensor | None]  # [r, n, d], [r, e]
    bend: Tensor  # [r, r] B
    columns: Tensor  # [d, u] orthonormal: the directions of a node's features that F looks at

    @classmethod
    def of(cls, target: Target, near: Neighborhood, samples: np.ndarray, seed: int) -> Sensitivity:
        """From F's gradients at these samples of ``near``."""
        part = target.computation_graph
        chunk = near.numbered(part, samples, seed)
        dx, da = _gradients(target, chunk)
        count = len(chunk)
        parts = [
            (g[1:].flatten(1), eps.flatten(1))
            for g, eps in ((dx, chunk.features), (da, chunk.edges))
            if eps is not None
        ]
        own_x, mean_x = (dx[0], dx[1:].mean(dim=0)) if chunk.features is not None else (dx / (count + 1),) * 2
        own_a, mean_a = (da[0], da[1:].mean(dim=0)) if chunk.edges is not None else (da / (count + 1),) * 2
        mix, bend = _curvature(parts)
        along_x = None if chunk.features is None else torch.tensordot(mix.to(dx.dtype), dx[1:], dims=1)
        along_a = None if chunk.edges is None else mix @ da[1:].double()
        columns = _columns(mean_x[: part.num_visible])
        return cls((own_x, own_a), (mean_x, mean_a), (along_x, along_a), bend, columns)

    def along(self, chunk: Perturbations) -> tuple[Tensor, Tensor, Tensor]:
        """The changes that the gradient and the mean gradient foresee, [S] each, and z, [S, r]."""
        found = torch.zeros(len(chunk), 2 + len(self.bend), dtype=torch.float64)
        for eps, own, mean, directions in zip(
            (chunk.features, chunk.edges), self.own, self.mean, self.directions, strict=True
        ):
            if eps is not None:
                assert directions is not None
                stack = torch.cat(
                    [own.unsqueeze(0).to(eps.dtype), mean.unsqueeze(0).to(eps.dtype), directions.to(eps.dtype)]
                )
                found += (eps.flatten(1) @ stack.flatten(1).T).double()
        return found[:, 0], found[:, 1], found[:, 2:]


def _gradients(target: Target, chunk: Perturbations) -> tuple[Tensor, Tensor]:
    """Gradients at (X, A) and at the samples: [1 + S, ...] of what moves, the sum of the rest."""
    part = target.computation_graph
    per_sample = 8 * (8 * part.num_edges * target.width() + 3 * part.x.numel())
    room = target.room(8 * (len(chunk) + 1) * (part.num_edges + part.x.numel()), per_sample, "gradients at samples")
    x = None if chunk.features is None else torch.cat([part.x.unsqueeze(0), part.x - chunk.features])
    weight = None
    if chunk.edges is not None:
        weight = torch.cat([part.weight.unsqueeze(0), (part.weight.double() - chunk.edges).to(part.weight.dtype)])
    size = max(1, room // per_sample)
    found = [
        target.gradients(
            None if x is None else x[start : start + size], None if weight is None else weight[start : start + size]
        )
        for start in range(0, len(chunk) + 1, size)
    ]
    dxs, das = zip(*found, strict=True)
    dx = torch.cat(dxs) if x is not None else torch.stack(dxs).sum(dim=0)
    return dx, torch.cat(das) if weight is not None else torch.stack(das).sum(dim=0)


def _curvature(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """How to mix gradients [S, D] to get the directions, [r, S], and B; ``parts`` has gradients and perturbations.

    X and A are measured in units of how far they move.
    """
    count = len(parts[0][0])
    gram = torch.zeros(count, count, dtype=torch.float64)
    meet = torch.zeros(count, count, dtype=torch.float64)  # of perturbations (rows) with gradients
    for g, eps in parts:
        spread = float(eps.square().mean()) if eps.numel() else 0.0
        gram += spread * (g @ g.T).double()
        meet += (eps.to(g.dtype) @ g.T).double()
    values, vectors = torch.linalg.eigh(gram)
    rank = int((values > _CUT * values[-1]).sum()) if float(values[-1]) > 0 else 0
    rank = min(RANK, rank)
    values, vectors = values.flip(0)[:rank], vectors.flip(1)[:, :rank]
    mix = (vectors / values.sqrt()).T
    z, along = meet @ mix.T, vectors * values.sqrt()
    design = torch.cat([torch.ones(count, 1, dtype=torch.float64), z], dim=1)
    normal = design.T @ design
    normal += _RIDGE * torch.diag(normal.diagonal()) + 1e-300 * torch.eye(rank + 1, dtype=torch.float64)
    return mix, torch.linalg.solve(normal, design.T @ along)[1:]


def _columns(gradient: Tensor) -> Tensor:
    """The directions of columns in which a gradient [n, d] is largest, [d, u]; all of them if there are few."""
    if gradient.size(1) <= RANK:
        return torch.eye(gradient.size(1), dtype=torch.float64)
    if len(gradient) > _ROWS:
        gradient = gradient[gradient.square().sum(dim=1).argsort(descending=True, stable=True)[:_ROWS]]
    rows = gradient.double()
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    rank = min(RANK, int((values > _CUT * values[-1]).sum())) if float(values[-1]) > 0 else 0
    return rows.T @ (vectors.flip(1)[:, :rank] / values.flip(0)[:rank].sqrt())
