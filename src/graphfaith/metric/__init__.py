"""Figures of merit: how far an explanation follows the model, with an error bar, and how such numbers are pooled."""

from .pooling import pool, pool_clustered, pool_ratio
from .unfaithfulness import general_unfaithfulness, subgraph_lower_bound, unfaithfulness_of

__all__ = [
    "general_unfaithfulness",
    "pool",
    "pool_clustered",
    "pool_ratio",
    "subgraph_lower_bound",
    "unfaithfulness_of",
]
