"""Whether a ranking of tags finds the cause of an alarm, for explanations and for rankings that need no explanation.

What the cause is has two readings (`TRUTHS`). The *causal* one asks the plant: the causes are the tags that clear the
alarm if they are as without the attack, and a plant that cannot run again has none. The other is the *attacked* tags.

A ranking is a score for each tag, the largest first. Where scores are equal the order is random, and what follows are
expected values: a score of zero beyond a model's reach, and all tags at the same number of hops, are such ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from graphfaith.metric.pooling import pool_clustered

from .causes import METHODS, NAMES, NEIGHBORHOODS, Array, Cause, count_hops, find_reach
from .plant import Plant

Flags = NDArray[np.bool_]
KS: Final = (1, 3, 5)
TRUTHS: Final = ("causal", "attacked")
BASELINES: Final = {
    "model": "the model asked tag by tag",
    "deviation": "deviation rank",
    "hops": "hops from the accused tag",
    "random": "random within reach",
    "accused": "the accused tag itself",
}
RANKINGS: Final = {**{method: NAMES[method] for method in METHODS}, **BASELINES}


def rank_without_explaining(plant: Plant, accused: int, excess: Array, effects: Array) -> dict[str, Array]:
    """Return the rankings that need no explanation.

    ``excess`` [n] is the detector's at the step, and ``effects`` [n] come from asking the model about every tag.
    """
    hops = count_hops(plant, accused)
    reach = np.zeros(len(plant))
    reach[sorted(find_reach(plant, accused)[0])] = 1.0
    return {
        "model": effects,
        "deviation": np.abs(excess),
        "hops": -hops,
        "random": reach,
        "accused": (hops == 0).astype(np.float64),
    }


def expect_hit(scores: Array, causes: Sequence[int], k: int) -> float:
    """Return the probability that one of the causes is among the first k tags, ties in random order.

    >>> expect_hit(np.array([3.0, 1.0, 1.0, 0.0]), [2], 2)
    0.5
    """
    before, tied, inside = _find_tie(scores, causes)
    drawn = k - before
    if drawn <= 0:
        return 0.0
    return 1.0 - math.comb(tied - inside, min(drawn, tied)) / math.comb(tied, min(drawn, tied))


def expect_reciprocal(scores: Array, causes: Sequence[int]) -> float:
    """Return the expected 1 / rank of the best cause, ties in random order.

    >>> round(expect_reciprocal(np.array([3.0, 1.0, 1.0, 0.0]), [2]), 4)
    0.4167
    """
    before, tied, inside = _find_tie(scores, causes)
    total = math.comb(tied, inside)
    # The best of the causes is the r-th of the tied tags if the others are among those after it.
    return sum(math.comb(tied - r, inside - 1) / total / (before + r) for r in range(1, tied - inside + 2))


def _find_tie(scores: Array, causes: Sequence[int]) -> tuple[int, int, int]:
    """Return how many tags come before the best cause, how many are tied with it, and how many of them are causes."""
    best = max(float(scores[tag]) for tag in causes)
    tied = scores == best
    return int((scores > best).sum()), int(tied.sum()), int(tied[list(causes)].sum())


def expect_first(scores: Array, clears: Flags, without: int | None = None) -> float:
    """Return the probability that the first tag clears the alarm, ``without`` the accused tag if it is given."""
    allowed = np.ones(len(scores), dtype=bool)
    if without is not None:
        allowed[without] = False
    first = allowed & (scores == scores[allowed].max())
    return float(clears[first].mean())


def score_ranking(
    scores: Array, accused: int, attacked: Sequence[int], in_model: Flags, in_plant: Flags | None
) -> dict[str, Any]:
    """Return the scores of a ranking for one alarm as plain values for JSON.

    ``in_model`` and ``in_plant`` [n] say whether the alarm clears if a tag is as expected, or as without the attack;
    ``in_plant`` is None where no plant can be asked. Hits and ranks are of the tags that clear the alarm in the plant
    (``causal_``) and of the attacked ones (``attacked_``); they are None if there is no such tag, or if nobody knows.
    ``other_`` leaves out the accused tag, which mostly clears its own alarm, and so tells nothing: some rankings spend
    their first place on it by construction. Hits among other tags are None if no other tag is a cause.
    """
    clearing = [] if in_plant is None else np.flatnonzero(in_plant).tolist()
    row: dict[str, Any] = {}
    for truth, causes in zip(TRUTHS, (clearing, attacked), strict=True):
        row |= {f"{truth}_{name}": value for name, value in _score_hits(scores, accused, causes).items()}
    for name, clears in (("model", in_model), ("plant", in_plant)):
        row[f"clears_{name}"] = None if clears is None else expect_first(scores, clears)
        row[f"other_{name}"] = None if clears is None else expect_first(scores, clears, accused)
    return row


def _score_hits(scores: Array, accused: int, causes: Sequence[int]) -> dict[str, float | None]:
    """Return the hits and the reciprocal rank of the causes, and the hits with the accused tag left out."""
    row = {f"hit{k}": expect_hit(scores, causes, k) if causes else None for k in KS}
    others = scores.astype(np.float64)
    others[accused] = -np.inf
    elsewhere = [tag for tag in causes if tag != accused]
    row |= {f"other_hit{k}": expect_hit(others, elsewhere, k) if elsewhere else None for k in KS}
    row["reciprocal"] = expect_reciprocal(scores, causes) if causes else None
    return row


def score_faithfulness(cause: Cause) -> dict[str, Any]:
    """Return what an explanation leaves unexplained, and its shares of negative scores, as plain values for JSON."""
    return {
        "relative": {name: value if math.isfinite(value) else None for name, value in cause.relative.items()},
        "negative": {"tags": _share_negative(cause.tags), "edges": _share_negative(cause.edges)},
    }


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
    tags, edges = (sorted(kind) for kind in find_reach(first.plant, first.accused))
    return {
        "tags": _spearman(first.tags[tags], second.tags[tags]),
        "edges": _spearman(first.edges[edges], second.edges[edges]),
    }


def _spearman(first: Any, second: Any) -> float | None:
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(spearmanr(first, second).statistic)


# Means over alarms ------------------------------------------------------------------------------------------------

Cluster = tuple[int, int]  # the seed and the attack of an alarm
NUMBERS: Final = (
    *(f"{truth}_{name}" for truth in TRUTHS for name in (*(f"hit{k}" for k in KS), "reciprocal")),
    *(f"{truth}_other_hit{k}" for truth in TRUTHS for k in KS),
    *(f"{which}_{where}" for where in ("model", "plant") for which in ("clears", "other")),
)
COMPARED: Final = tuple(f"{truth}_{name}" for truth in TRUTHS for name in ("hit3", "other_hit3"))
CLEARING: Final = ("clears_model", "clears_plant", "other_model", "other_plant")


def pool_rankings(rows: Sequence[dict[str, dict[str, Any]]], clusters: Sequence[Cluster]) -> dict[str, Any]:
    """Return the mean scores of every ranking over alarms, and some of them compared alarm by alarm.

    Each row has the result of `score_ranking` for each of `RANKINGS`. ``attacks`` counts an attack once, also if
    several trainings have alarms of it, and ``seed_attacks`` once for each of them. ``versus`` has, for each of
    `COMPARED` and each ranking, the differences to the hits of hops and of the deviation rank. ``clearing`` has, for
    each other ranking, by how much more often the first cause of the first of `METHODS` clears the alarm.
    """
    means = {
        ranking: {name: mean_of([row[ranking][name] for row in rows], clusters) for name in NUMBERS}
        for ranking in RANKINGS
    }
    versus = {
        name: {
            method: {other: _compare(rows, clusters, name, method, other) for other in ("hops", "deviation")}
            for method in RANKINGS
        }
        for name in COMPARED
    }
    clearing = {
        other: {name: _compare(rows, clusters, name, METHODS[0], other) for name in CLEARING}
        for other in RANKINGS
        if other != METHODS[0]
    }
    return {
        "alarms": len(rows),
        "attacks": len({attack for _, attack in clusters}),
        "seed_attacks": len(set(clusters)),
        "rankings": means,
        "versus": versus,
        "clearing": clearing,
    }


def _compare(
    rows: Sequence[dict[str, dict[str, Any]]], clusters: Sequence[Cluster], name: str, first: str, second: str
) -> dict[str, float | None]:
    """Return the mean of the differences of a number between two rankings, alarm by alarm."""
    return mean_of([_subtract(row[first][name], row[second][name]) for row in rows], clusters)


def _subtract(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def pool_faithfulness(rows: Sequence[dict[str, Any]], clusters: Sequence[Cluster]) -> dict[str, Any]:
    """Return the means of `score_faithfulness` over alarms."""

    def average(value: Callable[[dict[str, Any]], float | None]) -> dict[str, float | None]:
        return mean_of([value(row) for row in rows], clusters)

    return {
        "alarms": len(rows),
        "relative": {name: average(lambda row, name=name: row["relative"].get(name)) for name in NEIGHBORHOODS},  # type: ignore[misc]
        "negative_tags": average(lambda row: row["negative"]["tags"]),
        "negative_edges": average(lambda row: row["negative"]["edges"]),
    }


def mean_of(values: Sequence[float | None], clusters: Sequence[Cluster] | None = None) -> dict[str, float | None]:
    """Return the mean, the standard error and the count of the known values.

    ``clusters`` holds the seed and the attack of each value. Alarms of the same seed share a model, and alarms of the
    same attack share its actions, so that values are correlated: they are pooled by both
    (:func:`~graphfaith.metric.pooling.pool_clustered`). Without ``clusters`` every value is a cluster of its own.
    """
    known = [index for index, value in enumerate(values) if value is not None and math.isfinite(value)]
    if not known:
        return {"mean": None, "stderr": None, "count": 0}
    numbers = [float(values[index] or 0.0) for index in known]
    chosen = [(index, index) if clusters is None else clusters[index] for index in known]
    average, error = pool_clustered(numbers, chosen)
    return {"mean": average, "stderr": error, "count": len(known)}
