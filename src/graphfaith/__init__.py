"""Explanations of graph neural networks, with a number and an error bar that say how far to trust them.

``explain`` and ``compare`` are the way in. Methods and neighbourhoods are arguments of theirs, or of PyG's own
``torch_geometric.explain.Explainer``. Everything else lives in its room; ``docs/architecture.md`` leads through them.
"""

from __future__ import annotations

from ._base import interruption  # noqa: F401  # It has to come before torch: see there.
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
from .explanation.signed import SignedExplanation, signed_subgraph, to_networkx, top_edges, top_features, top_nodes
from .facade import compare, explain, explainer_for
from .graph.packed import PackedGraph, open_graph
from .graph.packing import pack_graph
from .judging import Verdict, judge
from .many.explain import explain_many
from .many.job import ManyJob
from .many.run import Run
from .metric.unfaithfulness import general_unfaithfulness, subgraph_lower_bound
from .model.target import Target
from .sampling import (
    BernoulliEdges,
    BernoulliFeatures,
    Neighborhood,
    Perturbations,
    RemovedEdges,
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
    "Unfaithfulness",
    "UnfinishedRunWarning",
    "UniformEdges",
    "UniformFeatures",
    "UnsupportedError",
    "Verdict",
    "__version__",
    "compare",
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
    "top_edges",
    "top_features",
    "top_nodes",
]
