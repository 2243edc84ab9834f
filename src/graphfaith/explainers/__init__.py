"""The methods of the paper, one file each, all usable as ``torch_geometric.explain.Explainer(algorithm=...)``."""

from .anchored_kec import AnchoredKEC
from .base import FaithfulExplainer, FittedExplainer
from .gnnexplainer import GNNExplainer
from .integrated_gradients import IntegratedGradients
from .kec import KEC
from .linear import Linear
from .many import explain_all, explain_nodes
from .methods import register_method
from .pgexplainer import PGExplainer
from .records import Records
from .saliency import Saliency
from .shapley import Shapley
from .subgraph import SubgraphExplainer
from .subgraphx import SubgraphX
from .turns import take_turns

__all__ = [
    "KEC",
    "AnchoredKEC",
    "FaithfulExplainer",
    "FittedExplainer",
    "GNNExplainer",
    "IntegratedGradients",
    "Linear",
    "PGExplainer",
    "Records",
    "Saliency",
    "Shapley",
    "SubgraphExplainer",
    "SubgraphX",
    "explain_all",
    "explain_nodes",
    "register_method",
]

take_turns()
