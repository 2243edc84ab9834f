"""Neighbourhoods of a graph, and the counter-based draws that make their samples depend on nothing but the seed."""

from .attributes import BernoulliAttributes, UniformAttributes
from .edges import BernoulliEdges, RemovedEdges, UniformEdges
from .features import BernoulliFeatures, UniformFeatures
from .neighborhood import (
    Moments,
    Neighborhood,
    draw_edges,
    draw_features,
    parse_neighborhood,
    register_neighborhood,
)
from .perturbations import Perturbations
from .restricted import Restricted, Selection

__all__ = [
    "BernoulliAttributes",
    "BernoulliEdges",
    "BernoulliFeatures",
    "Moments",
    "Neighborhood",
    "Perturbations",
    "RemovedEdges",
    "Restricted",
    "Selection",
    "UniformAttributes",
    "UniformEdges",
    "UniformFeatures",
    "draw_edges",
    "draw_features",
    "parse_neighborhood",
    "register_neighborhood",
]
