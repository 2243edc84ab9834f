"""Explanations of graph neural networks, with a number and an error bar that say how far to trust them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._base.errors import (
    DataError,
    GraphfaithError,
    InputError,
    MemoryLimitError,
    ModelError,
    OutputError,
    ReachWarning,
    UnsupportedError,
)
from ._base.version import __version__
from .explainers import KEC, AnchoredKEC, GNNExplainer, IntegratedGradients, Linear, PGExplainer, Saliency, SubgraphX
from .explainers.many import explain_nodes
from .explanation.archive import load, save
from .explanation.scores import node_scores
from .explanation.signed import SignedExplanation, signed_subgraph, to_networkx, top_edges, top_features, top_nodes
from .graph.computation_graph import ComputationGraph
from .metric.unfaithfulness import general_unfaithfulness, subgraph_lower_bound, unfaithfulness_of
from .model.target import Target
from .sampling.neighborhood import (
    BernoulliEdges,
    Neighborhood,
    Perturbations,
    UniformEdges,
    UniformFeatures,
    parse_neighborhood,
)
from .surrogate.difference import AnchoredModel, DifferenceModel, KHopModel, LinearModel, SubgraphModel
from .surrogate.estimate import Unfaithfulness
from .testing import CheckFailure, CheckResult, check_explainer

if TYPE_CHECKING:
    from .view import figure, page, show

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
    "__version__",
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


def __getattr__(name: str) -> Any:
    # The view loads matplotlib, which takes longer than to explain a node, and most programs never draw.
    if name in ("figure", "page", "show"):
        from . import view

        return getattr(view, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
