"""The checked and indexed graph (X, A) of the user, and the subgraph that one prediction depends on."""

from .computation_graph import ComputationGraph
from .graph import Graph

__all__ = ["ComputationGraph", "Graph"]
