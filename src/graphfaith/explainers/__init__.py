"""The methods of the paper, one file each, all usable as ``torch_geometric.explain.Explainer(algorithm=...)``."""

from .anchored_kec import AnchoredKEC
from .base import FaithfulExplainer, FittedExplainer
from .integrated_gradients import IntegratedGradients
from .kec import KEC
from .linear import Linear
from .saliency import Saliency
from .subgraph import GNNExplainer, PGExplainer, SubgraphExplainer
from .subgraphx import SubgraphX

__all__ = [
    "KEC",
    "AnchoredKEC",
    "FaithfulExplainer",
    "FittedExplainer",
    "GNNExplainer",
    "IntegratedGradients",
    "Linear",
    "PGExplainer",
    "Saliency",
    "SubgraphExplainer",
    "SubgraphX",
]
