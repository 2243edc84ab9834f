"""How far methods agree: the rank correlation of their scores."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from scipy.stats import spearmanr
from torch import Tensor

from .scores import Scores


def agreement_of(scores: Sequence[Scores], *, directed: bool = True) -> list[list[float | None]]:
    """Return Spearman's rank correlation of the scores of links and self-loops, for each pair of explanations.

    Unless `directed`, the two directions of an edge are one link, whose score is the sum of both, as panels show it. It
    is over what any of the explanations scores, because most of a graph is out of reach of all of them. None is where
    it is not defined: without scores, with all of them equal, or on other edges.
    """
    count = max((one.num_nodes for one in scores), default=0)
    rows = [_read_links(one, count, directed) for one in scores]
    table: list[list[float | None]] = [[None] * len(rows) for _ in rows]
    for i, j in itertools.combinations_with_replacement(range(len(rows)), 2):
        table[i][j] = table[j][i] = _correlate(rows, i, j)
    return table


class _Links(NamedTuple):
    """The links of an explanation as numbers, ascending, and the scores of these and of all self-loops."""

    keys: Tensor
    scores: Tensor


def _read_links(scores: Scores, count: int, directed: bool) -> _Links | None:
    if scores.edge is None:
        return None
    ends = scores.edge_index if directed else scores.edge_index.sort(dim=0).values
    keys, link = torch.unique(ends[0] * count + ends[1], return_inverse=True)
    total = torch.zeros(len(keys) + count, dtype=torch.float64).index_add_(0, link, scores.edge)
    if scores.loop is not None:
        total[len(keys) : len(keys) + len(scores.loop)] = scores.loop
    return _Links(keys, total)


def _correlate(rows: Sequence[_Links | None], i: int, j: int) -> float | None:
    first, second = rows[i], rows[j]
    if first is None or second is None or not torch.equal(first.keys, second.keys):
        return None
    alike = [row.scores for row in rows if row is not None and torch.equal(row.keys, first.keys)]
    scored = torch.stack(alike).any(dim=0)
    a, b = first.scores[scored], second.scores[scored]
    if len(a) < 2 or bool((a == a[0]).all()) or bool((b == b[0]).all()):
        return None
    return 1.0 if i == j else float(spearmanr(a.numpy(), b.numpy()).statistic)
