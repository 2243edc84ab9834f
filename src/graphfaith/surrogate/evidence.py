"""What a fit has seen of F: which samples, how much F changed there, and what p leaves of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations


@dataclass(frozen=True)
class Evidence:
    """The values of F that a p was fitted to; the perturbations themselves are drawn again from their numbers."""

    samples: Tensor  # [S] the numbers of the samples in the stream of the seed
    seed: int
    neighborhood: str
    change: Tensor  # [S] F(X, A) - F(X - eps_X, A - eps_A)
    left_out: Tensor  # [S] the change of p, when it is fitted without the sample, less that of F
    fitted: Tensor  # [S] the change of p, when it is fitted with all samples
    noise: float  # the mean square of F's rounding
    strength: Tensor | None = None  # [e] of the edges, if the samples lean towards those that F depends on

    def perturbations(self, graph: ComputationGraph, near: Neighborhood) -> Perturbations:
        """Return the samples."""
        return next(self.chunks(graph, near, max(1, len(self.samples))))

    def chunks(self, graph: ComputationGraph, near: Neighborhood, size: int) -> Iterator[Perturbations]:
        """Yield the samples, ``size`` at a time."""
        drawn = near if self.strength is None else near.lean(self.strength) or near
        numbers: np.ndarray = self.samples.numpy()
        for start in range(0, max(1, len(numbers)), size):
            yield drawn.numbered(graph, numbers[start : start + size], self.seed)

    def fair(self, near: Neighborhood) -> Evidence:
        """Return the part whose samples are drawn as the neighbourhood draws them."""
        leaning = None if self.strength is None else near.lean(self.strength)
        if leaning is None:
            return self
        return replace(self._part(torch.from_numpy(~leaning.leans(self.samples.numpy(), self.seed))), strength=None)

    def first(self, count: int) -> Evidence:
        """Return the part with the first ``count`` samples."""
        return self._part(torch.arange(len(self.samples)) < count)

    def _part(self, kept: Tensor) -> Evidence:
        """Return the part with the samples for which ``kept``, [S], is true."""
        names = ("samples", "change", "left_out", "fitted")
        parts: dict[str, Any] = {name: getattr(self, name)[kept] for name in names}
        return replace(self, **parts)
