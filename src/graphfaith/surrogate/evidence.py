"""What a fit has seen of F: which samples, how much F changed there, and what p leaves of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
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
    noise: float  # the mean square of F's rounding

    def perturbations(self, graph: ComputationGraph, near: Neighborhood) -> Perturbations:
        """Return the samples."""
        numbers: np.ndarray = self.samples.numpy()
        return near.numbered(graph, numbers, self.seed)
