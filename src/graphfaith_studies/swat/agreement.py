"""Numbers where the paper has pictures: how far explanations of alarms go, and whether they find the cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from scipy.stats import rankdata, spearmanr

from .causes import NEIGHBORHOODS, Cause, path_edges, within_reach
from .scoring import Event
from .tags import EDGES, NUM_TAGS

TOP: Final = 5


def found(event: Event, cause: Cause) -> dict[str, Any]:
    """What an explanation of an alarm found: the place of the attacked tag, and of the way from it to the accused one.

    ``path_rank`` is the mean place among the 79 edges, by |score|, of those on the shortest way through the plant; None
    where the accused tag was attacked itself, or nobody knows who was. Names that end in ``_random`` have what a random
    order of the tags and edges within the model's reach would have: all others have a score of zero by construction.
    """
    row: dict[str, Any] = {
        "relative": {name: value if math.isfinite(value) else None for name, value in cause.relative.items()},
        "negative": {"tags": _negative(cause.tags), "edges": _negative(cause.edges)},
    }
    row |= dict.fromkeys(("attacked_rank", "attacked_rank_random", "top", "top_random", "accused", "path_rank"))
    row["path_rank_random"] = None
    if not event.attacked:
        return row
    tags, edges = within_reach(cause.accused)
    inside = len(tags & set(event.attacked))
    row["attacked_rank"] = cause.rank(event.attacked)
    row["attacked_rank_random"] = _best_place(inside, len(tags), len(event.attacked))
    row["top"] = row["attacked_rank"] <= TOP
    row["top_random"] = 1 - math.comb(len(tags) - inside, TOP) / math.comb(len(tags), TOP)
    row["accused"] = cause.accused in event.attacked
    if not row["accused"]:
        places = rankdata(-np.abs(cause.edges), method="average")
        way = min((path_edges(tag, cause.accused) for tag in event.attacked), key=len)
        row["path_rank"] = float(np.mean(places[way]))
        chance = [(len(edges) + 1) / 2 if edge in edges else (len(edges) + 1 + len(EDGES)) / 2 for edge in way]
        row["path_rank_random"] = float(np.mean(chance))
    return row


def _best_place(inside: int, reach: int, attacked: int) -> float:
    """The expected best place of the attacked tags, if those within reach come first, in a random order.

    Those beyond share the mean of the places that are left.
    """
    if inside:
        return (reach + 1) / (inside + 1)
    return (reach + 1 + NUM_TAGS) / 2 if attacked else math.nan


def _negative(scores: Any) -> float | None:
    """The share of negative ones among scores that are not zero."""
    told = scores[scores != 0]
    return float((told < 0).mean()) if len(told) else None


def correlation(one: Cause, other: Cause) -> dict[str, float | None]:
    """Spearman's rank correlation of two explanations of one accused tag, over the tags and edges within reach."""
    if one.accused != other.accused:
        return {"tags": None, "edges": None}
    tags, edges = (sorted(kind) for kind in within_reach(one.accused))
    return {
        "tags": _spearman(one.tags[tags], other.tags[tags]),
        "edges": _spearman(one.edges[edges], other.edges[edges]),
    }


def _spearman(one: Any, other: Any) -> float | None:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(spearmanr(one, other).statistic)


def pooled(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means of what was found in many alarms by one method; ``seed`` and ``attack`` of a row say which alarm it was."""

    def over(values: Callable[[dict[str, Any]], float | None]) -> dict[str, float | None]:
        kept = [(value, row["seed"], row["attack"]) for row in rows if (value := values(row)) is not None]
        return mean([value for value, _, _ in kept], [(seed, attack) for _, seed, attack in kept])

    return {
        "alarms": len(rows),
        "relative": {name: over(lambda row, name=name: row["relative"][name]) for name in NEIGHBORHOODS},  # type: ignore[misc]
        "dropped": sum(row["relative"][name] is None for row in rows for name in NEIGHBORHOODS),
        "median": {name: _median([row["relative"][name] for row in rows]) for name in NEIGHBORHOODS},
        "attacked_rank": over(lambda row: row["attacked_rank"]),
        "attacked_rank_random": over(lambda row: row["attacked_rank_random"]),
        "top": over(lambda row: row["top"]),
        "top_random": over(lambda row: row["top_random"]),
        "path_rank": over(lambda row: row["path_rank"]),
        "path_rank_random": over(lambda row: row["path_rank_random"]),
        "accused": over(lambda row: row["accused"]),
        "apart": {  # where the accused tag was not the attacked one
            name: over(lambda row, name=name: row[name] if row["accused"] is False else None)  # type: ignore[misc]
            for name in ("top", "top_random", "attacked_rank", "attacked_rank_random")
        },
        "negative_tags": over(lambda row: row["negative"]["tags"]),
        "negative_edges": over(lambda row: row["negative"]["edges"]),
    }


def _median(values: Sequence[float | None]) -> float | None:
    kept = [value for value in values if value is not None]
    return float(np.median(kept)) if kept else None


def mean(values: Sequence[float], alarms: Sequence[tuple[int, int]] | None = None) -> dict[str, float | None]:
    """Mean, standard error and count of finite values.

    ``alarms`` are the seed and the attack of each. Alarms of one seed share a model, and those of one attack what was
    done, so V = V_seeds + V_attacks - V_alarms, each G / (G - 1) sum_g (sum of g's residuals)^2 / n^2 over its G
    groups; never less than the largest of the three.
    """
    kept = np.array([float(value) for value in values], dtype=np.float64)
    finite = np.isfinite(kept)
    kept = kept[finite]
    if not len(kept):
        return {"mean": None, "stderr": None, "count": 0}
    found = float(kept.mean())
    if len(kept) == 1:
        return {"mean": found, "stderr": None, "count": 1}
    each = np.arange(len(kept))
    single = _variance(kept - found, each)
    if alarms is None:
        return {"mean": found, "stderr": math.sqrt(single), "count": len(kept)}
    pairs = np.array(alarms)[finite]
    seeds, attacks = (_variance(kept - found, np.unique(column, return_inverse=True)[1]) for column in pairs.T)
    variance = max(single, seeds, attacks, seeds + attacks - single)
    return {"mean": found, "stderr": math.sqrt(variance), "count": len(kept)}


def _variance(residuals: Any, group: Any) -> float:
    """Of the mean, if all of a group go together; 0 if there is one group, of which nothing can be learnt."""
    sums = np.bincount(group, weights=residuals)
    count = len(sums)
    return float((sums**2).sum()) / len(residuals) ** 2 * count / (count - 1) if count > 1 else 0.0
