"""Every public name of the library. :mod:`graphfaith` has them from here, as soon as one of them is used."""

from __future__ import annotations

from ._base.compilation import announce_compilation
from ._base.errors import (
    DataError,
    FewSamplesWarning,
    GraphfaithError,
    InputError,
    MemoryLimitError,
    ModelError,
    OutputError,
    ReachWarning,
    SameSamplesWarning,
    UnfinishedRunWarning,
    UnsupportedError,
)
from ._base.progress import say_if_watched
from ._base.version import __version__
from .explainers import (
    KEC,
    AnchoredKEC,
    FaithfulExplainer,
    FittedExplainer,
    GNNExplainer,
    IntegratedGradients,
    Linear,
    PGExplainer,
    Records,
    Saliency,
    Shapley,
    SubgraphX,
    explain_all,
    explain_nodes,
    register_method,
)
from .explanation.archive import load, save
from .explanation.scores import node_scores
from .explanation.signed import (
    SignedExplanation,
    signed_subgraph,
    to_networkx,
    top_attributes,
    top_edges,
    top_features,
    top_nodes,
)
from .explanation.typed import TypedExplanation
from .facade import compare, explain, explainer_for
from .graph.packed import PackedGraph, open_graph
from .graph.packing import pack_graph
from .judging import Verdict, judge
from .many.explain import explain_many
from .many.job import ManyJob
from .many.run import Run
from .metric.unfaithfulness import general_unfaithfulness, subgraph_lower_bound
from .model.adapter import adapt, edges_of
from .model.joint import OfType
from .model.target import Target
from .sampling import (
    BernoulliAttributes,
    BernoulliEdges,
    BernoulliFeatures,
    Neighborhood,
    Perturbations,
    RemovedEdges,
    UniformAttributes,
    UniformEdges,
    UniformFeatures,
    parse_neighborhood,
    register_neighborhood,
)
from .surrogate.difference import DifferenceModel, LinearModel
from .surrogate.estimate import Unfaithfulness
from .view import figure, page, show

__all__ = [
    "KEC",
    "AnchoredKEC",
    "BernoulliAttributes",
    "BernoulliEdges",
    "BernoulliFeatures",
    "DataError",
    "DifferenceModel",
    "FaithfulExplainer",
    "FewSamplesWarning",
    "FittedExplainer",
    "GNNExplainer",
    "GraphfaithError",
    "InputError",
    "IntegratedGradients",
    "Linear",
    "LinearModel",
    "ManyJob",
    "MemoryLimitError",
    "ModelError",
    "Neighborhood",
    "OfType",
    "OutputError",
    "PGExplainer",
    "PackedGraph",
    "Perturbations",
    "ReachWarning",
    "Records",
    "RemovedEdges",
    "Run",
    "Saliency",
    "SameSamplesWarning",
    "Shapley",
    "SignedExplanation",
    "SubgraphX",
    "Target",
    "TypedExplanation",
    "Unfaithfulness",
    "UnfinishedRunWarning",
    "UniformAttributes",
    "UniformEdges",
    "UniformFeatures",
    "UnsupportedError",
    "Verdict",
    "__version__",
    "adapt",
    "compare",
    "edges_of",
    "explain",
    "explain_all",
    "explain_many",
    "explain_nodes",
    "explainer_for",
    "figure",
    "general_unfaithfulness",
    "judge",
    "load",
    "node_scores",
    "open_graph",
    "pack_graph",
    "page",
    "parse_neighborhood",
    "register_method",
    "register_neighborhood",
    "save",
    "show",
    "signed_subgraph",
    "subgraph_lower_bound",
    "to_networkx",
    "top_attributes",
    "top_edges",
    "top_features",
    "top_nodes",
]

announce_compilation(say_if_watched)  # The first explanation on a machine waits for it, and should say so.
