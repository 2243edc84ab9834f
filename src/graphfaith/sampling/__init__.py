"""Neighbourhoods of a graph, and the counter-based draws that make their samples depend on nothing but the seed."""

from .neighborhood import (
    BernoulliEdges,
    Neighborhood,
    UniformEdges,
    UniformFeatures,
    draw_edges,
    draw_features,
    parse_neighborhood,
    register_neighborhood,
)
from .perturbations import Perturbations

__all__ = [
    "BernoulliEdges",
    "Neighborhood",
    "Perturbations",
    "UniformEdges",
    "UniformFeatures",
    "draw_edges",
    "draw_features",
    "parse_neighborhood",
    "register_neighborhood",
]
