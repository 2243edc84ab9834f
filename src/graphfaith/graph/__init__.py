"""The graph (X, A) as the user gave it, checked and indexed, and the part of it that a prediction depends on."""

from .computation_graph import ComputationGraph
from .graph import Graph

__all__ = ["ComputationGraph", "Graph"]
