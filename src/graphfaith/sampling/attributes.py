"""Neighbourhoods of edge attributes E: numbers that move within a range, attributes that are set to 0, and products.

An attribute is drawn by (seed, sample, edge in the whole graph, column). Self-loops that a layer adds have none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._base.errors import InputError
from ..graph.computation_graph import ComputationGraph
from .draw import keys, uniform
from .neighborhood import Moments, Neighborhood, check_sigma, register_neighborhood, say_share


class _Attributes(Neighborhood):
    """What neighbourhoods of edge attributes share."""

    perturbs_attributes = True

    def check(self, graph: ComputationGraph) -> None:
        """There must be attributes."""
        if graph.attributes is None:
            lacking = (
                "the model is given no edge_attr of real numbers by type (whole numbers, ids of categories, are given "
                "as they are, and neither moved nor scored)"
                if graph.kinds is not None
                else "the model is given no edge_attr of real numbers, a row for each edge (whole numbers, ids of "
                "categories, are given as they are, and neither moved nor scored)"
            )
            raise InputError(f"{self}: {lacking}; use a neighbourhood of features or edges, such as U(A,0.5)")

    def _draw(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """Return a number in (0, 1) for every sample and attribute, [S, e, c]."""
        assert graph.attributes is not None
        rows = keys(seed, "edgeattr", samples[:, None], graph.edge_id.numpy()[None, :]).reshape(-1)
        columns = keys(seed, "attrcol", np.arange(graph.attributes.size(1)))
        return torch.from_numpy(uniform(rows, columns)).view(len(samples), *graph.attributes.shape)

    @staticmethod
    def _given(graph: ComputationGraph) -> Tensor:
        """Return which entries of A are edges of the graph that F reads, [e, 1]."""
        return ((graph.edge_id >= 0) & graph.felt).unsqueeze(1)


@register_neighborhood
@dataclass(frozen=True)
class UniformAttributes(_Attributes):
    """U(E, sigma r): each edge attribute moves by U[-sigma r, sigma r], r = max(E) - min(E) over the whole graph.

    In a heterogeneous graph r is that of each type of edges.

    >>> import graphfaith as gf
    >>> isinstance(gf.parse_neighborhood("U(E,0.2r)"), gf.UniformAttributes)
    True
    """

    sigma: float
    notation = "U(E,{sigma}r)"

    def __post_init__(self) -> None:
        """Check sigma."""
        check_sigma(self.sigma, math.inf, "UniformAttributes")

    @property
    def words(self) -> str:
        """What happens to the attributes, in words."""
        return f"when every edge attribute may move by up to {100 * self.sigma:g} % of the attributes' range"

    def check(self, graph: ComputationGraph) -> None:
        """Constant attributes have no range to move in."""
        super().check(graph)
        if not 0 < graph.attribute_range < math.inf:
            raise InputError(
                f"{self}: r = max(E) - min(E) is {graph.attribute_range:g}, so that nothing would move; use B(E,0.5), "
                "or a neighbourhood of edges"
            )

    def attributes(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """Return eps = sigma r (2 u - 1) for the edges of the graph that F reads, 0 elsewhere."""
        assert graph.attributes is not None
        moved = self.sigma * graph.attribute_span * (2 * self._draw(graph, samples, seed) - 1)
        return (moved * self._given(graph)).to(graph.attributes.dtype)

    def is_symmetric(self, graph: ComputationGraph) -> bool:  # noqa: ARG002
        """Return True, because nothing is clipped."""
        return True


@register_neighborhood
@dataclass(frozen=True)
class BernoulliAttributes(_Attributes):
    """B(E, sigma): each edge attribute that is not 0 is set to 0 with probability sigma.

    >>> import graphfaith as gf
    >>> isinstance(gf.parse_neighborhood("B(E,0.5)"), gf.BernoulliAttributes)
    True
    """

    sigma: float
    notation = "B(E,{sigma})"
    drops_attributes = True

    def __post_init__(self) -> None:
        """Check sigma."""
        check_sigma(self.sigma, 1.0, "BernoulliAttributes")

    @property
    def words(self) -> str:
        """What happens to the attributes, in words."""
        return f"when every edge attribute that is there is set to 0 with probability {say_share(self.sigma)}"

    def attributes(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """Return eps = E where u < sigma, 0 elsewhere."""
        assert graph.attributes is not None
        gone = (self._draw(graph, samples, seed) < self.sigma) & self._given(graph)
        return gone * graph.attributes

    def is_symmetric(self, graph: ComputationGraph) -> bool:  # noqa: ARG002
        """Return whether an attribute is as often dropped as not."""
        return self.sigma == 0.5


@dataclass(frozen=True)
class WithAttributes(Neighborhood):
    """Edge attributes perturbed together with features, with edges or with both, independently of these."""

    moved: Neighborhood  # of attributes
    rest: Neighborhood  # of features, of edges, or a product

    perturbs_attributes = True

    def __post_init__(self) -> None:
        """One factor has to move attributes alone, and the other must leave them."""
        a, b = self.moved, self.rest
        if not a.perturbs_attributes or a.perturbs_edges or a.perturbs_features or b.perturbs_attributes:
            raise InputError(f"{a} x {b}: a product has one neighbourhood of attributes, as in U(E,0.2r)xU(A,0.5)")

    @property
    def perturbs_features(self) -> bool:  # type: ignore[override]
        """Whether the other factor moves features."""
        return self.rest.perturbs_features

    @property
    def perturbs_edges(self) -> bool:  # type: ignore[override]
        """Whether the other factor moves edges."""
        return self.rest.perturbs_edges

    @property
    def drops_edges(self) -> bool:  # type: ignore[override]
        """Whether the other factor drops edges."""
        return self.rest.drops_edges

    @property
    def drops_features(self) -> bool:  # type: ignore[override]
        """Whether the other factor drops features."""
        return self.rest.drops_features

    @property
    def drops_attributes(self) -> bool:  # type: ignore[override]
        """Whether the factor that moves attributes drops them."""
        return self.moved.drops_attributes

    @property
    def by_itself(self) -> bool:  # type: ignore[override]
        """Whether both factors draw every entry by itself."""
        return self.moved.by_itself and self.rest.by_itself

    def units(self, graph: ComputationGraph) -> Tensor | None:
        """Return the units of the other factor."""
        return self.rest.units(graph)

    def is_symmetric(self, graph: ComputationGraph) -> bool:
        """Return whether both factors are symmetric."""
        return self.moved.is_symmetric(graph) and self.rest.is_symmetric(graph)

    def edge_moments(self, graph: ComputationGraph) -> Moments | None:
        """Return those of the other factor."""
        return self.rest.edge_moments(graph)

    def feature_moments(self, graph: ComputationGraph) -> Moments | None:
        """Return those of the other factor."""
        return self.rest.feature_moments(graph)

    def check(self, graph: ComputationGraph) -> None:
        """Both factors have to mean something."""
        self.moved.check(graph)
        self.rest.check(graph)

    def features(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:
        """eps_X of the other factor."""
        return self.rest.features(graph, samples, seed)

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:
        """eps_A of the other factor."""
        return self.rest.edges(graph, samples, seed)

    def attributes(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:
        """eps_E of the factor that moves attributes."""
        return self.moved.attributes(graph, samples, seed)

    @property
    def words(self) -> str:
        """What both factors do, in words."""
        return f"{self.moved.words} and {self.rest.words.removeprefix('when ')}"

    def __str__(self) -> str:
        """The text form."""
        return f"{self.moved}x{self.rest}"
