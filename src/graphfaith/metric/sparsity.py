"""Sparsity: how few entries carry the scores."""

from __future__ import annotations

from torch import Tensor

from .attribution import Attribution, Part
from .measured import Measured


def sparsity(scores: Attribution | Tensor, part: Part = "edges") -> Measured:
    r"""Return 1 - k / m, where k is the number of entries that the scores are spread over, out of m.

    .. math:: k = \frac{(\sum_i |\phi_i|)^2}{\sum_i \phi_i^2}

    For a mask of zeros and ones k is the number of ones, so that this is the sparsity of a subgraph as it is usually
    defined; it also has a meaning for scores, without a threshold. Scores that are all 0 have sparsity 1.

    >>> import torch
    >>> sparsity(torch.tensor([0.0, 1.0, 1.0, 0.0])).value, sparsity(torch.tensor([1.0, -1.0])).value
    (0.5, 0.0)
    """
    numbers = scores.ranking(part, "score").scores if isinstance(scores, Attribution) else scores.detach().double()
    if not len(numbers):
        return Measured("sparsity", 1.0)
    total, square = float(numbers.abs().sum()), float(numbers.square().sum())
    return Measured("sparsity", 1.0 - (total * total / square if square > 0 else 0.0) / len(numbers))
