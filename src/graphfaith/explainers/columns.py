"""The columns of X that explanations depend on most: one score for each column, as of PyG's "common_attributes"."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base import core
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Int64
from ..surrogate.frame import as_array
from ..surrogate.walks import Float64


class StrongestColumns(NamedTuple):
    r"""The columns of X with the largest scores, :math:`\sum_v x_{vc}\, s_{vc}`, of each of b explained nodes.

    The sum is over the nodes whose features F sees. Columns are in the order of the size of their score, and those in
    which all of these nodes have 0 are left out.
    """

    counts: Int64  # [b] how many of each there are
    column: Int64  # [b, k]
    score: Float64  # [b, k]
    stderr: Float64  # [b, k] NaN where it is not known

    @classmethod
    def none(cls, size: int, most: int) -> StrongestColumns:
        """Return room for ``most`` columns of each of ``size`` nodes."""
        shape = size, most
        return cls(np.zeros(size, np.int64), np.zeros(shape, np.int64), np.zeros(shape), np.full(shape, np.nan))

    @classmethod
    def of_one(
        cls, graph: ComputationGraph, scores: Tensor | None, errors: Tensor | None, most: int, *, as_mask: bool
    ) -> StrongestColumns:
        """Return those of one computation graph, whose features have ``scores`` [n, d].

        ``errors`` are the standard errors of the scores of whole columns, laid out as the scores are. With ``as_mask``
        the scores are those of the columns already, the same for every node.
        """
        found = cls.none(1, most)
        if scores is None or not most:
            return found
        if as_mask:
            own = scores[0].detach().double().numpy()
            order = np.lexsort((np.arange(len(own)), -np.abs(own)))[: min(most, np.count_nonzero(own))]
            found.counts[0], found.column[0, : len(order)], found.score[0, : len(order)] = len(order), order, own[order]
            return found
        x = core.sparse_of(as_array(graph.x.detach()))
        gradient, still = scores.detach().double().contiguous().numpy(), np.zeros((0, 0))
        given = np.zeros(1, np.int64), np.array([graph.num_visible]), np.arange(graph.num_nodes)
        core.find_strongest_columns(np.zeros(1, np.int64), *given, x, (gradient, still, still), tuple(found[:3]))
        if errors is not None:
            seen, rows = slice(graph.num_visible), torch.from_numpy(found.column[0, : found.counts[0]])
            sums = (errors[seen].double() * graph.x[seen].double()).sum(dim=0).abs()
            found.stderr[0, : len(rows)] = sums[rows].numpy()
        return found

    def rows(self, chosen: slice) -> StrongestColumns:
        """Return those of a run of the nodes."""
        return StrongestColumns(self.counts[chosen], self.column[chosen], self.score[chosen], self.stderr[chosen])

    def records(self, x: Tensor | None) -> dict[str, NDArray[Any]]:
        """Return pieces of the arrays of :class:`~graphfaith.explainers.records.Records`.

        ``x`` are the features of the explained nodes, [b, d]; None if what is explained is no single node.
        """
        there = np.arange(self.column.shape[1]) < self.counts[:, None]
        column = self.column[there]
        value = np.full(len(column), np.nan)
        if x is not None and len(column):
            rows = torch.from_numpy(np.repeat(np.arange(len(self.counts)), self.counts))
            value = x.detach()[rows, torch.from_numpy(column)].double().numpy()
        return {
            "feature_start": self.counts,
            "feature": column,
            "feature_score": self.score[there],
            "feature_stderr": self.stderr[there],
            "feature_value": value,
        }
