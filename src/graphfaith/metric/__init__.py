"""Figures of merit: how far an explanation follows the model, with an error bar."""

from .unfaithfulness import general_unfaithfulness, subgraph_lower_bound, unfaithfulness_of

__all__ = ["general_unfaithfulness", "subgraph_lower_bound", "unfaithfulness_of"]
