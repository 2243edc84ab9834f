"""Neighbourhoods of features: numbers that move within a range, and features that are left out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._base.errors import InputError
from ..graph.computation_graph import ComputationGraph
from .draw import below_at, symmetric32
from .neighborhood import Moments, Neighborhood, check_sigma, keys_of_features, register_neighborhood, say_share


@register_neighborhood
@dataclass(frozen=True)
class UniformFeatures(Neighborhood):
    """U(X, sigma r): each feature moves by U[-sigma r, sigma r], r = max(X) - min(X) over the whole graph.

    >>> import graphfaith as gf
    >>> str(gf.UniformFeatures(0.2)), str(gf.UniformFeatures(0.2) * gf.UniformEdges(0.5))
    ('U(X,0.2r)', 'U(X,0.2r)xU(A,0.5)')
    """

    sigma: float
    notation = "U(X,{sigma}r)"
    perturbs_features = True

    def __post_init__(self) -> None:
        """Check sigma."""
        check_sigma(self.sigma, math.inf, "UniformFeatures")

    @property
    def words(self) -> str:
        """What happens to the features, in words."""
        return f"when every feature may move by up to {100 * self.sigma:g} % of the features' range"

    def check(self, graph: ComputationGraph) -> None:
        """Categories and constant features have no range to move in, and the range has to be a number."""
        if graph.categorical:
            raise InputError(
                f"{self}: x has ids of categories, between which there is nothing; use B(X,0.5), which puts the most "
                "frequent category of its column in the place of a feature, or pass x.float() if they are numbers"
            )
        if not math.isfinite(graph.feature_range):
            raise InputError(f"{self}: r = max(X) - min(X) is too large for {graph.x.dtype}; scale the features")
        if graph.feature_range == 0:
            raise InputError(
                f"{self}: every feature of this graph is {float(graph.x[0, 0]):g}, so r = max(X) - min(X) = 0 and "
                "nothing would move; use a neighbourhood of edges, such as U(A,0.5)"
            )
        if not self.sigma * graph.feature_range <= torch.finfo(graph.x.dtype).max / 2:
            raise InputError(
                f"{self}: sigma r, with r = max(X) - min(X) = {graph.feature_range:g}, is too large for "
                f"{graph.x.dtype}; use a smaller sigma"
            )

    def features(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """Return eps = sigma r (2 u - 1) for the nodes whose features F can see, 0 for the outermost one."""
        rows, columns = keys_of_features(graph, samples, seed)
        scale, wide = self.sigma * graph.feature_span, graph.x.dtype == torch.float64
        if isinstance(scale, Tensor):  # each type of nodes has its own range, and no feature of other types
            drawn = torch.from_numpy(symmetric32(rows, columns, 1.0)).to(graph.x.dtype)
            drawn = drawn.view(len(samples), *graph.x.shape).mul_(scale.to(graph.x.dtype))
        else:
            drawn = torch.from_numpy(symmetric32(rows, columns, 1.0 if wide else scale)).to(graph.x.dtype)
            if wide:  # single precision may be too narrow for the range
                drawn.mul_(scale)
            drawn = drawn.view(len(samples), *graph.x.shape)
        # The outermost node is drawn too and then reset, which is quicker than drawing around it.
        drawn[:, graph.num_visible :] = 0
        return drawn

    def is_symmetric(self, graph: ComputationGraph) -> bool:  # noqa: ARG002
        """Return True, because nothing is clipped."""
        return True

    def feature_moments(self, graph: ComputationGraph) -> Moments:
        """Return the moments of U[-sigma r, sigma r]: no mean, and v = (sigma r)^2 / 3."""
        spread = torch.zeros(graph.x.shape, dtype=torch.float64)
        span = graph.feature_span
        span = span[: graph.num_visible] if isinstance(span, Tensor) else span
        spread[: graph.num_visible] = (self.sigma * span) ** 2 / 3
        return Moments(torch.zeros(spread.numel()).double(), spread.flatten(), torch.zeros(spread.numel()).double())


@register_neighborhood
@dataclass(frozen=True)
class BernoulliFeatures(Neighborhood):
    """B(X, sigma): each feature that is not 0 is set to 0 with probability sigma; an absent word stays absent.

    Of features that are categories, each is replaced by the most frequent category of its column.

    >>> import graphfaith as gf
    >>> near = gf.BernoulliFeatures(0.5)
    >>> str(near), near.perturbs_features, near.perturbs_edges
    ('B(X,0.5)', True, False)
    """

    sigma: float
    notation = "B(X,{sigma})"
    perturbs_features = True
    drops_features = True

    def __post_init__(self) -> None:
        """Check sigma."""
        check_sigma(self.sigma, 1.0, "BernoulliFeatures")

    @property
    def words(self) -> str:
        """What happens to the features, in words."""
        return f"when every feature that is there is set to 0 with probability {say_share(self.sigma)}"

    def features(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """Return eps = X where u < sigma, 0 elsewhere, for the nodes whose features F can see."""
        # Most words are in no document, so only those that are there are drawn.
        row, column = graph.present_features
        rows, columns = keys_of_features(graph, samples, seed)
        by_sample = rows.reshape(len(samples), graph.num_nodes)
        dropped = below_at(by_sample, columns, row.numpy(), column.numpy(), float(self.sigma))
        eps = torch.zeros(len(samples), *graph.x.shape, dtype=graph.x.dtype)
        eps[:, row, column] = torch.from_numpy(dropped) * graph.x[row, column]
        return eps

    def is_symmetric(self, graph: ComputationGraph) -> bool:  # noqa: ARG002
        """Return whether a feature is as often dropped as not."""
        return self.sigma == 0.5

    def feature_moments(self, graph: ComputationGraph) -> Moments:
        """Return the moments of X times a truth value, v = sigma (1 - sigma) X^2."""
        x, share = torch.zeros(graph.x.shape, dtype=torch.float64), float(self.sigma)
        x[: graph.num_visible] = graph.x[: graph.num_visible].double()
        x = x.flatten()
        return Moments(share * x, share * (1 - share) * x.square(), share * x)
