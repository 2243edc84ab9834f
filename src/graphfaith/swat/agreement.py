"""Numbers where the paper has pictures: how far explanations of alarms go, and whether they find the cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from scipy.stats import rankdata, spearmanr

from .causes import NEIGHBORHOODS, Cause, path_edges
from .scoring import Event
from .tags import EDGES, NUM_TAGS

TOP: Final = 5


def found(event: Event, cause: Cause) -> dict[str, Any]:
    """What an explanation of an alarm found: the place of the attacked tag, and of the way from it to the accused one.

    ``path_rank`` is the mean place among the 79 edges, by |score|, of those on the shortest way through the plant; 40
    is what a random order has. It is None where the accused tag was attacked itself, or nobody knows who was.
    """
    row: dict[str, Any] = {
        "relative": cause.relative,
        "negative": {
            "tags": _negative(cause.tags),
            "edges": _negative(cause.edges),
        },
        "attacked_rank": None,
        "attacked_rank_random": None,
        "top": None,
        "top_random": None,
        "path_rank": None,
    }
    if not event.attacked:
        return row
    count = len(event.attacked)
    row["attacked_rank"] = cause.rank(event.attacked)
    row["attacked_rank_random"] = (NUM_TAGS + 1) / (count + 1)
    row["top"] = row["attacked_rank"] <= TOP
    row["top_random"] = 1 - math.comb(NUM_TAGS - count, TOP) / math.comb(NUM_TAGS, TOP)
    if cause.accused not in event.attacked:
        places = rankdata(-np.abs(cause.edges), method="average")
        ways = [path_edges(tag, cause.accused) for tag in event.attacked]
        row["path_rank"] = float(np.mean(places[min(ways, key=len)]))
    return row


def _negative(scores: Any) -> float | None:
    """The share of negative ones among scores that are not zero."""
    told = scores[scores != 0]
    return float((told < 0).mean()) if len(told) else None


def correlation(one: Cause, other: Cause) -> dict[str, float | None]:
    """Spearman's rank correlation of two explanations, of tags and of edges."""
    return {"tags": _spearman(one.tags, other.tags), "edges": _spearman(one.edges, other.edges)}


def _spearman(one: Any, other: Any) -> float | None:
    if not one.any() or not other.any():
        return None
    return float(spearmanr(one, other).statistic)


def pooled(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means of what was found in many alarms by one method, with standard errors over alarms."""
    told = [row for row in rows if row["attacked_rank"] is not None]
    ways = [row["path_rank"] for row in rows if row["path_rank"] is not None]
    return {
        "alarms": len(rows),
        "relative": {name: mean([row["relative"][name] for row in rows]) for name in NEIGHBORHOODS},
        "attacked_rank": mean([row["attacked_rank"] for row in told]),
        "attacked_rank_random": mean([row["attacked_rank_random"] for row in told]),
        "top": mean([float(row["top"]) for row in told]),
        "top_random": mean([row["top_random"] for row in told]),
        "path_rank": mean(ways),
        "path_rank_random": (len(EDGES) + 1) / 2,
        "negative_tags": mean([row["negative"]["tags"] for row in rows if row["negative"]["tags"] is not None]),
        "negative_edges": mean([row["negative"]["edges"] for row in rows if row["negative"]["edges"] is not None]),
    }


def mean(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, standard error and count of finite values."""
    kept = [float(value) for value in values if math.isfinite(value)]
    if not kept:
        return {"mean": None, "stderr": None, "count": 0}
    spread = float(np.std(kept, ddof=1)) / math.sqrt(len(kept)) if len(kept) > 1 else None
    return {"mean": float(np.mean(kept)), "stderr": spread, "count": len(kept)}
