"""Explanations of alarms: which tags and edges made the forecast differ from the reading, by several methods.

The explained function is the deviation at the accused tag, F(X, A) = +-(reading - forecast(X, A)). The sign is + if the
reading was too high and - if it was too low, so that F is positive. Tags and edges with a positive score (blue) widened
the gap between reading and forecast. The reading is a measured number; only the forecast depends on X and A. With
``what="forecast"`` the explained function is the forecast itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from graphfaith.explainers.methods import method_named
from graphfaith.explanation.faithfulness import record_unfaithfulness
from graphfaith.explanation.signed import SignedExplanation
from graphfaith.facade import Subject
from graphfaith.metric.unfaithfulness import general_unfaithfulness
from graphfaith.model.task import Task
from graphfaith.sampling import Neighborhood, UniformEdges, UniformFeatures
from graphfaith.surrogate.estimate import Unfaithfulness

from .forecaster import Forecaster, plant_edges
from .tags import EDGES, NUM_TAGS, TAGS, column

What = Literal["deviation", "forecast"]
METHODS: Final = ("anchored-kec", "kec", "saliency", "gnnexplainer-soft")
NAMES: Final = {
    "anchored-kec": "AnchoredKEC",
    "kec": "KEC",
    "saliency": "Saliency",
    "gnnexplainer-soft": "GNNExplainer (soft)",
}
REACH: Final = 2  # hops, because the forecaster has two layers of messages
READING_RANGE: Final = 0.1  # share of a tag's span in normal operation
EDGE_RANGE: Final = 0.5
NEIGHBORHOODS: Final = ("edges", "readings", "both")
SHOWN: Final = "both"  # the neighbourhood of figures; readings and edges vary, so that it tests the scores of both
Array = NDArray[np.float64]


class Deviation(nn.Module):
    """The model F = sign (reading - forecast) [51, 1], for a forecaster and the ``readings`` [51] after the windows."""

    def __init__(self, forecaster: Forecaster, readings: Tensor, sign: float) -> None:
        super().__init__()
        self.forecaster, self.sign = forecaster, sign
        self.register_buffer("readings", readings)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the deviation from the forecast for the windows ``x`` [51, 5].

        ``x`` may hold the tags of several plants one after the other.
        """
        forecast = self.forecaster(x, edge_index, edge_weight)
        readings: Any = self.readings
        out: Tensor = self.sign * (readings.repeat(forecast.size(-2) // NUM_TAGS).unsqueeze(-1) - forecast)
        return out


@dataclass(frozen=True)
class Cause:
    """The explanation p of one alarm by one method: signed scores of ``tags`` [51] and ``arrows`` [158].

    The score of a tag is sum_c dp/dx_c (x_c - usual_c). The difference model p is linear in the readings, so that the
    score is the decrease of p if the tag had its usual readings. An arrow is one direction of an edge; its score is
    dp/dA, the decrease of p without the arrow, to first order. Both are derivatives, also for AnchoredKEC, whose usual
    scores are shares: a share is about readings that move within the neighbourhood, and the usual readings are outside.
    ``relative`` holds Delta(p)/Delta(0) for each neighbourhood, on held-out samples. It measures p close to the
    readings, and not at the usual readings. ``shown`` is the same share, with its error, for the scores alone, which
    are what a picture shows; None if it is not known.
    """

    method: str
    accused: int
    tags: Array
    arrows: Array
    relative: dict[str, float]
    relative_stderr: dict[str, float]
    shown: tuple[float, float] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the cause as plain values for JSON, for :meth:`from_json`."""
        return {
            "method": self.method,
            "accused": TAGS[self.accused],
            "tags": dict(zip(TAGS, self.tags.tolist(), strict=True)),
            "arrows": self.arrows.tolist(),  # in the order of plant_edges()
            "relative": {name: _finite_or_none(value) for name, value in self.relative.items()},
            "relative_stderr": {name: _finite_or_none(value) for name, value in self.relative_stderr.items()},
            "shown": None if self.shown is None else [_finite_or_none(value) for value in self.shown],
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Cause:
        """Return the cause that :meth:`as_json` converted to ``row``."""
        relative = {name: math.inf if value is None else float(value) for name, value in row["relative"].items()}
        stderr = {name: math.inf if value is None else float(value) for name, value in row["relative_stderr"].items()}
        tags = np.array([float(row["tags"][tag]) for tag in TAGS])
        arrows = np.array([float(score) for score in row["arrows"]])
        shown = row.get("shown")  # Rows of older runs lack it.
        pair = None
        if shown is not None:
            share, error = (math.inf if value is None else float(value) for value in shown)
            pair = share, error
        return cls(str(row["method"]), column(row["accused"]), tags, arrows, relative, stderr, pair)

    @property
    def edges(self) -> Array:
        """The scores [79] of the edges, each the sum over its two directions."""
        half = len(self.arrows) // 2
        return self.arrows[:half] + self.arrows[half:]

    @property
    def explanation(self) -> SignedExplanation:
        """The explanation that figures and pages show, with one score per tag."""
        explanation = SignedExplanation(
            edge_index=plant_edges(),
            edge_mask=torch.from_numpy(self.arrows),
            node_mask=torch.from_numpy(self.tags).unsqueeze(-1),
            index=torch.tensor(self.accused),
            method=NAMES[self.method],
            neighborhood="readings and edges",
            node_names=list(TAGS),
            num_nodes=NUM_TAGS,
        )
        share, error = (math.inf, math.inf) if self.shown is None else self.shown
        if math.isfinite(share):
            # A cause keeps Delta in units of Delta(0), and neither the number of samples nor their seed.
            near = explanation.neighborhood
            record = Unfaithfulness(share, error, share, error, 1.0, 0, near, 0, moves_edges=True, moves_features=True)
            record_unfaithfulness(explanation, record)
        return explanation

    def rank(self, tags: Sequence[int]) -> float:
        """Return the best rank by |score|, from 1, among these tags; equal scores share the mean of their ranks."""
        ranks = rankdata(-np.abs(self.tags), method="average")
        return float(min(ranks[tag] for tag in tags))


def make_neighborhoods(x: Tensor) -> dict[str, Neighborhood]:
    """Return the neighbourhoods of edges, of readings, and of both.

    The readings vary by a share of a tag's usual span. A share of the range of this window would be wrong, because one
    tag with an extreme reading would then make all other tags vary as much.
    """
    spread = float(x.max() - x.min())
    readings = UniformFeatures(READING_RANGE / max(spread, 1e-9))
    edges = UniformEdges(EDGE_RANGE)
    return {"edges": edges, "readings": readings, "both": readings * edges}


def explain_alarm(
    forecaster: Forecaster,
    x: Tensor,
    readings: Tensor,
    usual: Tensor,
    accused: int,
    sign: float,
    *,
    what: What = "deviation",
    methods: Sequence[str] = METHODS,
    samples: int = 200,
    test_samples: int = 500,
    seed: int = 0,
) -> list[Cause]:
    """Explain one alarm by each of the methods.

    ``x`` [51, 5] holds the scaled windows before the alarm, ``readings`` [51] the scaled readings at the alarm, and
    ``usual`` [51] the usual scaled readings. ``sign`` is 1 if the reading of the accused tag was too high, else -1.
    """
    model: nn.Module = forecaster if what == "forecast" else Deviation(forecaster, readings, sign)
    data = Data(x=x, edge_index=plant_edges(), node_names=list(TAGS))
    subject = Subject(model.eval(), data, Task("regression", "raw", "node"))
    near = make_neighborhoods(x)
    results = []
    for method in methods:
        shown = subject.explain(accused, method, near[SHOWN], samples=samples, test_samples=test_samples, seed=seed)
        scores = {SHOWN: shown.unfaithfulness}
        if shown.get("reading") is not None:
            shown = shown.reading("slope")
            explainer = subject.explainer(method, near[SHOWN], samples=samples, seed=seed)
            general_unfaithfulness(explainer, shown, near[SHOWN], num_samples=test_samples, seed=seed + 1)
        for name in NEIGHBORHOODS:
            if name == SHOWN:
                continue
            if method_named(method).is_fitted:  # These methods are fitted to each neighbourhood.
                fitted = subject.explain(
                    accused, method, near[name], samples=samples, test_samples=test_samples, seed=seed
                )
                scores[name] = fitted.unfaithfulness
            else:
                explainer = subject.explainer(method, near[name], samples=samples, seed=seed)
                scores[name] = general_unfaithfulness(
                    explainer, shown, near[name], num_samples=test_samples, seed=seed + 1
                )
        results.append(_make_cause(method, accused, shown, usual, scores))
    return results


def measure_unusual(forecaster: Forecaster, x: Tensor, usual: Tensor, accused: int, sign: float) -> Array:
    """Return the effect [51] of each tag's unusual readings on F, computed with the model itself.

    The effect of tag i is F(X) - F(X with the usual readings at tag i).
    """
    changed = x.repeat(NUM_TAGS + 1, 1, 1)
    for tag in range(NUM_TAGS):
        changed[tag, tag] = usual[tag].to(x.dtype)
    with torch.no_grad():
        forecast = forecaster.forecast(changed)[:, accused].double()
    return (-sign * (forecast[-1] - forecast[:-1])).numpy()


def _make_cause(method: str, accused: int, explanation: Explanation, usual: Tensor, scores: dict[str, Any]) -> Cause:
    difference = explanation.x.double() - usual.unsqueeze(-1)
    tags = (explanation.node_mask.double() * difference).sum(-1).numpy()
    of_scores = explanation.unfaithfulness.scores or explanation.unfaithfulness
    return Cause(
        method=method,
        accused=accused,
        tags=tags,
        arrows=explanation.edge_mask.double().numpy(),
        relative={name: score.relative for name, score in scores.items()},
        relative_stderr={name: score.relative_stderr for name, score in scores.items()},
        shown=(of_scores.relative, of_scores.relative_stderr),
    )


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _tag_pairs() -> list[tuple[int, int]]:
    ends = [(column(first), column(second)) for first, second in EDGES]
    return [(min(pair), max(pair)) for pair in ends]


@dataclass(frozen=True)
class Path:
    """The tags on a path of messages from an attacked tag to the accused one, and the sum of the arrows' scores.

    The sum is the decrease of p without these arrows, to first order. It is positive if they widened the gap.
    """

    tags: tuple[int, ...]
    score: float

    def __str__(self) -> str:
        return " - ".join(TAGS[tag] for tag in self.tags)


def find_strongest_path(cause: Cause, start: int) -> Path | None:
    """Return the path with the largest |sum of scores| from ``start`` to the accused tag, of at most `REACH` arrows.

    The result is None if there is no such path, because messages cannot reach the accused tag from ``start``.
    """
    if start == cause.accused:
        return Path((start,), 0.0)
    scores = {(s, t): cause.arrows[i] for i, (s, t) in enumerate(plant_edges().T.tolist())}
    graph = nx.DiGraph(scores.keys())
    paths = list(nx.all_simple_paths(graph, start, cause.accused, cutoff=REACH))
    if not paths:
        return None
    candidates = [Path(tuple(tags), float(sum(scores[pair] for pair in pairwise(tags)))) for tags in paths]
    return max(candidates, key=lambda path: (abs(path.score), -len(path.tags)))


def find_reach(accused: int) -> tuple[frozenset[int], frozenset[int]]:
    """Return the tags and the edges (positions in `EDGES`) on which the forecast of ``accused`` can depend."""
    graph = nx.Graph(_tag_pairs())
    hops = nx.single_source_shortest_path_length(graph, accused, cutoff=REACH)
    edges = [i for i, (s, t) in enumerate(_tag_pairs()) if min(hops.get(s, REACH), hops.get(t, REACH)) < REACH]
    return frozenset(hops), frozenset(edges)


def find_path_edges(start: int, end: int) -> list[int]:
    """Return the edges (positions in `EDGES`) on the shortest path through the plant from one tag to another."""
    pairs = _tag_pairs()
    graph = nx.Graph(pairs)
    tags = nx.shortest_path(graph, start, end)
    return [pairs.index((min(pair), max(pair))) for pair in pairwise(tags)]
