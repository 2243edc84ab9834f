"""Explanations of graph neural networks, with a number and an error bar that say how far to trust them."""

from .archive import load, save
from .computation_graph import ComputationGraph
from .conformance import CheckFailure, CheckResult, check_explainer
from .difference import AnchoredModel, DifferenceModel, KHopModel, LinearModel, SubgraphModel
from .errors import (
    DataError,
    GraphfaithError,
    InputError,
    MemoryLimitError,
    ModelError,
    OutputError,
    ReachWarning,
    UnsupportedError,
)
from .estimate import Unfaithfulness
from .explainers import KEC, AnchoredKEC, GNNExplainer, IntegratedGradients, Linear, PGExplainer, Saliency, SubgraphX
from .explanation import SignedExplanation, signed_subgraph, to_networkx, top_edges, top_features, top_nodes
from .many import explain_nodes
from .neighborhood import (
    BernoulliEdges,
    Neighborhood,
    Perturbations,
    UniformEdges,
    UniformFeatures,
    parse_neighborhood,
)
from .scores import node_scores
from .target import Target
from .unfaithfulness import (
    general_unfaithfulness,
    subgraph_lower_bound,
    unfaithfulness_of,
)
from .view import figure, page, show

__version__ = "0.1.0"

__all__ = [
    "KEC",
    "AnchoredKEC",
    "AnchoredModel",
    "BernoulliEdges",
    "CheckFailure",
    "CheckResult",
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
    "MemoryLimitError",
    "ModelError",
    "Neighborhood",
    "OutputError",
    "PGExplainer",
    "Perturbations",
    "ReachWarning",
    "Saliency",
    "SignedExplanation",
    "SubgraphModel",
    "SubgraphX",
    "Target",
    "Unfaithfulness",
    "UniformEdges",
    "UniformFeatures",
    "UnsupportedError",
    "check_explainer",
    "explain_nodes",
    "figure",
    "general_unfaithfulness",
    "load",
    "node_scores",
    "page",
    "parse_neighborhood",
    "save",
    "show",
    "signed_subgraph",
    "subgraph_lower_bound",
    "to_networkx",
    "top_edges",
    "top_features",
    "top_nodes",
    "unfaithfulness_of",
]
