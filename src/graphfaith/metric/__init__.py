"""Figures of merit: how far an explanation follows the model, with an error bar, and how such numbers are pooled."""

from .attribution import Attribution, read_attribution
from .curves import Curves, curves
from .divergence import pyg_unfaithfulness
from .fidelity import Fidelity, characterization, fidelity, robust_fidelity
from .infidelity import infidelity
from .measured import Measured
from .pooling import pool, pool_clustered, pool_ratio
from .sparsity import sparsity
from .stability import rank_correlation, sensitivity_max, stability
from .sufficiency import Sufficiency, sufficiency
from .truth import Agreement, Truth, precision_at_k, roc_auc, signed_agreement
from .unfaithfulness import general_unfaithfulness, subgraph_lower_bound, unfaithfulness_of

__all__ = [
    "Agreement",
    "Attribution",
    "Curves",
    "Fidelity",
    "Measured",
    "Sufficiency",
    "Truth",
    "characterization",
    "curves",
    "fidelity",
    "general_unfaithfulness",
    "infidelity",
    "pool",
    "pool_clustered",
    "pool_ratio",
    "precision_at_k",
    "pyg_unfaithfulness",
    "rank_correlation",
    "read_attribution",
    "robust_fidelity",
    "roc_auc",
    "sensitivity_max",
    "signed_agreement",
    "sparsity",
    "stability",
    "subgraph_lower_bound",
    "sufficiency",
    "unfaithfulness_of",
]
