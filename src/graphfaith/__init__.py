"""Explanations of graph neural networks, with a number and an error bar that say how far to trust them."""

from .computation_graph import ComputationGraph
from .difference import DifferenceModel, KHopModel, LinearModel, SubgraphModel
from .errors import DataError, GraphfaithError, InputError, ModelError, OutputError, UnsupportedError
from .explainers import KEC, GNNExplainer, IntegratedGradients, Linear, PGExplainer, Saliency
from .explanation import top_edges, top_features
from .neighborhood import (
    BernoulliEdges,
    Neighborhood,
    Perturbations,
    UniformEdges,
    UniformFeatures,
    parse_neighborhood,
)
from .target import Target
from .unfaithfulness import (
    Unfaithfulness,
    general_unfaithfulness,
    subgraph_lower_bound,
    unfaithfulness_of,
)
from .view import figure, show

__version__ = "0.1.0"

__all__ = [
    "KEC",
    "BernoulliEdges",
    "ComputationGraph",
    "DataError",
    "DifferenceModel",
    "GNNExplainer",
    "GraphfaithError",
    "InputError",
    "IntegratedGradients",
    "KHopModel",
    "Linear",
    "LinearModel",
    "ModelError",
    "Neighborhood",
    "OutputError",
    "PGExplainer",
    "Perturbations",
    "Saliency",
    "SubgraphModel",
    "Target",
    "Unfaithfulness",
    "UniformEdges",
    "UniformFeatures",
    "UnsupportedError",
    "figure",
    "general_unfaithfulness",
    "parse_neighborhood",
    "show",
    "subgraph_lower_bound",
    "top_edges",
    "top_features",
    "unfaithfulness_of",
]
