"""Difference models p, which follow F's change in a neighbourhood, and the mathematics that fits them."""

from .difference import AnchoredModel, DifferenceModel, KHopModel, LinearModel, SubgraphModel

__all__ = ["AnchoredModel", "DifferenceModel", "KHopModel", "LinearModel", "SubgraphModel"]
