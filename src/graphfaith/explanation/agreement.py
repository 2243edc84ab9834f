"""How far methods agree: the rank correlation of their scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from scipy.stats import spearmanr
from torch import Tensor

from .scores import Scores


def agreement_of(scores: Sequence[Scores]) -> list[list[float | None]]:
    """Return Spearman's rank correlation of the scores of edges and self-loops, for each pair of explanations.

    It is over the entries of A that any of the explanations scores, because most of a graph is out of reach of all of
    them. None is where it is not defined: without scores, with all of them equal, or on other edges.
    """
    rows = [_entries(one) for one in scores]
    return [[_correlate(rows, i, j) for j in range(len(rows))] for i in range(len(rows))]


def _entries(scores: Scores) -> Tensor | None:
    if scores.edge is None:
        return None
    loops = torch.zeros(scores.num_nodes, dtype=torch.float64) if scores.loop is None else scores.loop
    return torch.cat([scores.edge, loops])


def _correlate(rows: Sequence[Tensor | None], i: int, j: int) -> float | None:
    first, second = rows[i], rows[j]
    if first is None or second is None or first.shape != second.shape:
        return None
    scored = torch.stack([row for row in rows if row is not None and row.shape == first.shape]).any(dim=0)
    a, b = first[scored], second[scored]
    if len(a) < 2 or bool((a == a[0]).all()) or bool((b == b[0]).all()):
        return None
    return 1.0 if i == j else float(spearmanr(a.numpy(), b.numpy()).statistic)
