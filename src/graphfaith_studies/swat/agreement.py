"""Scores of explanations of alarms: how faithful they are, and whether they find the cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from scipy.stats import rankdata, spearmanr

from graphfaith.metric.pooling import pool_clustered

from .causes import NEIGHBORHOODS, Cause, find_path_edges, find_reach
from .scoring import Event
from .tags import EDGES, NUM_TAGS

TOP: Final = 5


def score_cause(event: Event, cause: Cause) -> dict[str, Any]:
    """Return the scores of an explanation: ranks of the attacked tag and of the path from it to the accused tag.

    ``path_rank`` is the mean rank, by |score| among the 79 edges, of the edges on the shortest path through the plant.
    It is None if the accused tag was itself attacked, or if the attacked tags are unknown. The values whose names end
    in ``_random`` are those expected for a random order of the tags and edges within the model's reach. All other tags
    and edges have a score of zero by construction.
    """
    row: dict[str, Any] = {
        "relative": {name: value if math.isfinite(value) else None for name, value in cause.relative.items()},
        "negative": {"tags": _share_negative(cause.tags), "edges": _share_negative(cause.edges)},
    }
    row |= dict.fromkeys(("attacked_rank", "attacked_rank_random", "top", "top_random", "accused", "path_rank"))
    row["path_rank_random"] = None
    if not event.attacked:
        return row
    tags, edges = find_reach(cause.accused)
    num_inside = len(tags & set(event.attacked))
    row["attacked_rank"] = cause.rank(event.attacked)
    row["attacked_rank_random"] = _expect_best_rank(num_inside, len(tags), len(event.attacked))
    row["top"] = row["attacked_rank"] <= TOP
    row["top_random"] = 1 - math.comb(len(tags) - num_inside, TOP) / math.comb(len(tags), TOP)
    row["accused"] = cause.accused in event.attacked
    if not row["accused"]:
        ranks = rankdata(-np.abs(cause.edges), method="average")
        path = min((find_path_edges(tag, cause.accused) for tag in event.attacked), key=len)
        row["path_rank"] = float(np.mean(ranks[path]))
        chance = [(len(edges) + 1) / 2 if edge in edges else (len(edges) + 1 + len(EDGES)) / 2 for edge in path]
        row["path_rank_random"] = float(np.mean(chance))
    return row


def _expect_best_rank(inside: int, reach: int, attacked: int) -> float:
    """Return the expected best rank of the attacked tags if the tags within reach come first, in a random order.

    ``inside`` is the number of attacked tags within reach, ``reach`` the number of all tags within reach. The tags
    outside of the reach have equal scores and share the mean of the remaining ranks.
    """
    if inside:
        return (reach + 1) / (inside + 1)
    return (reach + 1 + NUM_TAGS) / 2 if attacked else math.nan


def _share_negative(scores: Any) -> float | None:
    """Return the share of negative scores among the scores that are not zero."""
    nonzero = scores[scores != 0]
    return float((nonzero < 0).mean()) if len(nonzero) else None


def correlate(first: Cause, second: Cause) -> dict[str, float | None]:
    """Return Spearman's rank correlation of two explanations, over the tags and over the edges within reach.

    Both are None if the explanations have different accused tags.
    """
    if first.accused != second.accused:
        return {"tags": None, "edges": None}
    tags, edges = (sorted(kind) for kind in find_reach(first.accused))
    return {
        "tags": _spearman(first.tags[tags], second.tags[tags]),
        "edges": _spearman(first.edges[edges], second.edges[edges]),
    }


def _spearman(first: Any, second: Any) -> float | None:
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(spearmanr(first, second).statistic)


def pool(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the means of the scores of one method over many alarms.

    Each row has the result of `score_cause`, and the ``seed`` and the ``attack`` of its alarm.
    """

    def average(values: Callable[[dict[str, Any]], float | None]) -> dict[str, float | None]:
        known = [(value, row["seed"], row["attack"]) for row in rows if (value := values(row)) is not None]
        return mean([value for value, _, _ in known], [(seed, attack) for _, seed, attack in known])

    return {
        "alarms": len(rows),
        "relative": {name: average(lambda row, name=name: row["relative"][name]) for name in NEIGHBORHOODS},  # type: ignore[misc]
        "dropped": sum(row["relative"][name] is None for row in rows for name in NEIGHBORHOODS),
        "median": {name: _median([row["relative"][name] for row in rows]) for name in NEIGHBORHOODS},
        "attacked_rank": average(lambda row: row["attacked_rank"]),
        "attacked_rank_random": average(lambda row: row["attacked_rank_random"]),
        "top": average(lambda row: row["top"]),
        "top_random": average(lambda row: row["top_random"]),
        "path_rank": average(lambda row: row["path_rank"]),
        "path_rank_random": average(lambda row: row["path_rank_random"]),
        "accused": average(lambda row: row["accused"]),
        "apart": {  # only alarms that accuse a tag that was not attacked
            name: average(lambda row, name=name: row[name] if row["accused"] is False else None)  # type: ignore[misc]
            for name in ("top", "top_random", "attacked_rank", "attacked_rank_random")
        },
        "negative_tags": average(lambda row: row["negative"]["tags"]),
        "negative_edges": average(lambda row: row["negative"]["edges"]),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def mean(values: Sequence[float], alarms: Sequence[tuple[int, int]] | None = None) -> dict[str, float | None]:
    """Return the mean, the standard error and the count of the finite values.

    ``alarms`` holds the seed and the attack of each value. Alarms of the same seed share a model, and alarms of the
    same attack share its actions, so that values are correlated: they are pooled by both
    (:func:`~graphfaith.metric.pooling.pool_clustered`). Without ``alarms`` every value is a cluster of its own.
    """
    numbers = np.array([float(value) for value in values], dtype=np.float64)
    clusters = np.arange(len(numbers))[:, None].repeat(2, axis=1) if alarms is None else np.array(alarms)
    finite = np.isfinite(numbers)
    count = int(finite.sum())
    if not count:
        return {"mean": None, "stderr": None, "count": 0}
    average, error = pool_clustered(numbers[finite], clusters[finite])
    return {"mean": average, "stderr": error, "count": count}
