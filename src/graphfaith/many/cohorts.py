"""Cohorts: classes of nodes whose explanations are alike, found by k-means on the scores of features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.cluster.vq import kmeans2, vq
from scipy.sparse.linalg import svds

from .._base.errors import InputError
from ..explainers.records import Float64
from ..graph.graph import Int64
from .ranking import Ranking

_FITTED = 20_000  # explanations that cohorts are found from; all others join the cohort that is next to them
_DIRECTIONS, _TRIES = 32, 8


class Batch(NamedTuple):
    """Some explanations: their nodes and classes, and the scores of features of one after the other."""

    node: Int64  # [n]
    group: Int64  # [n]
    start: Int64  # [n + 1]
    feature: Int64  # [f]
    score: Float64  # [f]


@dataclass(frozen=True, eq=False)
class Cohorts:
    """The cohort of each explained node, numbered by size, and what the cohorts have in common.

    ``spread`` is the mean square distance of an explanation from the middle of its cohort, as a share of that from the
    middle of all: 0 if the explanations of a cohort are the same, and 1 if cohorts say nothing.
    """

    node: Int64  # [n]
    cohort: Int64  # [n]
    sizes: Int64  # [k]
    classes: Int64  # [k, c] how many nodes of each class a cohort has
    spread: float
    features: Ranking  # by cohort


class Middles(NamedTuple):
    """The middles of cohorts, [k, r], in the directions, [d, r], in which explanations differ most."""

    directions: Float64
    middles: Float64
    spread: float

    def assign(self, batch: Batch) -> Int64:
        """Return the cohort whose middle is next to each explanation, [n]."""
        found: Int64 = vq(_matrix(batch, len(self.directions)) @ self.directions, self.middles)[0]
        return found


def find_middles(batches: Callable[[], Iterator[Batch]], count: int, k: int, seed: int) -> Middles:
    """Return the middles of k cohorts of ``count`` explanations, by k-means on scores of unit length.

    Explanations of the same direction are alike, whatever the size of their scores. The scores are taken in the 32
    directions of their largest singular values. The best of 8 tries from seeded starts counts.
    """
    step, seen, chosen = max(1, -(-count // _FITTED)), 0, []
    width = 0
    for batch in batches():
        rows = np.arange(seen, seen + len(batch.node)) % step == 0
        seen += len(batch.node)
        width = max(width, int(batch.feature.max(initial=-1)) + 1)
        chosen.append(select(batch, rows))
    fitted = sum(len(batch.node) for batch in chosen)
    if fitted < k:
        raise InputError(f"{k} cohorts need at least as many explanations (got {fitted})")
    if not width:
        raise InputError("cohorts are found from scores of features, and this run has kept none: use top_features")
    matrix = sparse.vstack([_matrix(batch, width) for batch in chosen]).tocsr()
    rank = min(_DIRECTIONS, *matrix.shape)
    if rank < min(matrix.shape):
        start = np.random.default_rng(seed).standard_normal(min(matrix.shape))
        directions = svds(matrix, rank, v0=start)[2].T
    else:
        directions = np.linalg.svd(matrix.toarray(), full_matrices=False)[2].T
    points = matrix @ directions
    total = float(np.square(points - points.mean(axis=0)).sum())
    best: tuple[float, Float64] | None = None
    for number in range(_TRIES):
        generator = np.random.default_rng([seed, number])
        middles, own = kmeans2(points, k, iter=100, minit="++", missing="warn", seed=generator)
        left = float(np.square(points - middles[own]).sum())
        if best is None or left < best[0]:
            best = left, middles
    assert best is not None
    return Middles(directions, best[1], best[0] / total if total else 0.0)


def select(batch: Batch, rows: np.ndarray) -> Batch:
    """Return some of the explanations of a batch."""
    counts = np.diff(batch.start)
    kept = np.repeat(rows, counts)
    start = np.concatenate(([0], np.cumsum(counts[rows])))
    return Batch(batch.node[rows], batch.group[rows], start, batch.feature[kept], batch.score[kept])


def _matrix(batch: Batch, width: int) -> sparse.csr_matrix:
    """Return scores as rows of length 1; what no explanation that cohorts were found from has is left out."""
    owner = np.repeat(np.arange(len(batch.node)), np.diff(batch.start))
    known = batch.feature < width
    owner, feature, score = owner[known], batch.feature[known], batch.score[known]
    length = np.sqrt(np.bincount(owner, np.square(score), minlength=len(batch.node)))
    score = score / np.where(length > 0, length, 1.0)[owner]
    return sparse.csr_matrix((score, (owner, feature)), shape=(len(batch.node), width))
