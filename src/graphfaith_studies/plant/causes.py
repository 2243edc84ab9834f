"""Explanations of alarms: which tags and edges made a reading differ from what was expected, by several methods.

A tag's *unusual part* D_j is its window less what the monitor expected of it, step by step. The explained function is
the gap at the accused tag i as a function of all unusual parts, F(D, A) = +-(reading_i - forecast_i), with the sign
that makes it positive. So D_j = 0 means that tag j had behaved as expected, and the reading of the accused tag itself
is part of D. Tags and edges with a positive score (blue) widened the gap. If a reading is out of its range although
the plant around it explains it, the forecast is explained in the place of the gap: what drove it there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Literal

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from graphfaith.explainers.methods import method_named
from graphfaith.explanation.counterfactual import counterfactual
from graphfaith.explanation.faithfulness import record_unfaithfulness
from graphfaith.explanation.signed import SignedExplanation
from graphfaith.facade import Subject
from graphfaith.metric.unfaithfulness import general_unfaithfulness
from graphfaith.model.task import Task
from graphfaith.sampling import Neighborhood, UniformEdges, UniformFeatures
from graphfaith.surrogate.estimate import Unfaithfulness

from .forecaster import Forecaster, Nowcaster
from .plant import Plant

What = Literal["deviation", "forecast"]
METHODS: Final = ("anchored-kec", "kec", "saliency", "gnnexplainer-soft")
NAMES: Final = {
    "anchored-kec": "AnchoredKEC",
    "kec": "KEC",
    "saliency": "Saliency",
    "gnnexplainer-soft": "GNNExplainer (soft)",
}
MASKS: Final = frozenset(("gnnexplainer-soft",))  # methods whose scores of readings have no sign
REACH: Final = 2  # hops, because the forecaster has two layers of messages
FORETOLD: Final = 3  # tags about which p and the model are asked
FEWEST: Final = 5  # readings of other tags that may be restored together, so that the alarm clears
_TRIED: Final = 500  # sets of them about which the model is asked at most
READING_RANGE: Final = 0.1  # share of a tag's span in normal operation
EDGE_RANGE: Final = 0.5
NEIGHBORHOODS: Final = ("edges", "readings", "both")
SHOWN: Final = "both"  # the neighbourhood of figures; readings and edges vary, so that it tests the scores of both
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Question:
    """What is asked of a model: the scaled window ``x`` [n, window], what was ``expected`` of it, and whom it accuses.

    ``sign`` is 1 if the reading was too high, else -1. ``gap`` is the size of what has to be explained.
    """

    x: Tensor
    expected: Tensor
    accused: int
    sign: float
    gap: float
    what: What = "deviation"

    @property
    def unusual(self) -> Tensor:
        """The unusual parts D [n, window]."""
        return self.x - self.expected


class Gap(nn.Module):
    """The model F = sign (reading - forecast) [n, 1], or sign forecast, as a function of the unusual parts D.

    If it ``holds`` the readings, F = |reading as it was - forecast|: what the readings of others did to the gap. It is
    the size, because an alarm is not cleared by a forecast that is as wrong on the other side.
    """

    def __init__(self, forecaster: Forecaster | Nowcaster, question: Question, *, holds: bool = False) -> None:
        super().__init__()
        self.forecaster, self.sign, self.what, self.holds = forecaster, question.sign, question.what, holds
        self.register_buffer("expected", question.expected)
        self.register_buffer("readings", question.x[:, -1:])

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the gaps for the unusual parts ``x`` [n, window].

        ``x`` may hold the tags of several plants one after the other.
        """
        expected: Any = self.expected
        readings = x + expected.to(x.dtype).repeat(x.size(-2) // len(expected), 1)
        forecast: Tensor = self.forecaster(readings, edge_index, edge_weight)
        held: Any = self.readings
        now = held.to(x.dtype).repeat(x.size(-2) // len(held), 1) if self.holds else readings[..., -1:]
        gap: Tensor = forecast if self.what == "forecast" else now - forecast
        signed: Tensor = self.sign * gap
        return signed.abs() if self.holds and self.what == "deviation" else signed


@dataclass(frozen=True)
class Cause:
    """The explanation p of one alarm by one method: signed scores of ``tags`` [n] and ``arrows`` [2m].

    The score of another tag j is sum_c dp/dD_jc D_jc: what p, linear in the readings, would lose if the tag had behaved
    as expected. The accused tag has the rest of the gap, which the others do not explain, so that the scores add up to
    the gap. (A mask, such as GNNExplainer's, has no sign: there all tags have sum_c mask_jc |D_jc|.) An arrow is one
    direction of an edge; its score is dp/dA, the decrease of p without the arrow, to first order. Both are derivatives,
    also for AnchoredKEC, whose usual scores are shares: a share is about readings that move within the neighbourhood,
    and the expected readings are outside. ``relative`` holds Delta(p)/Delta(0) for each neighbourhood, on held-out
    samples, close to the readings and not at the expected ones. ``shown`` is the same share, with its error, for the
    scores alone, which are what a picture shows; None if it is not known. ``foretold`` has, for the strongest other
    tags, the change of F if the tag had behaved as expected: as p foretells it, and as the model says.
    """

    plant: Plant
    method: str
    accused: int
    tags: Array
    arrows: Array
    relative: dict[str, float]
    relative_stderr: dict[str, float]
    shown: tuple[float, float] | None = None
    foretold: dict[int, tuple[float, float]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the cause as plain values for JSON, for :meth:`from_json`."""
        return {
            "method": self.method,
            "accused": self.plant.names[self.accused],
            "tags": dict(zip(self.plant.names, self.tags.tolist(), strict=True)),
            "arrows": self.arrows.tolist(),  # in the order of Plant.arrows
            "relative": {name: _finite_or_none(value) for name, value in self.relative.items()},
            "relative_stderr": {name: _finite_or_none(value) for name, value in self.relative_stderr.items()},
            "shown": None if self.shown is None else [_finite_or_none(value) for value in self.shown],
            "foretold": {self.plant.names[tag]: list(changes) for tag, changes in self.foretold.items()},
        }

    @classmethod
    def from_json(cls, plant: Plant, row: dict[str, Any]) -> Cause:
        """Return the cause that :meth:`as_json` converted to ``row``."""
        relative = {name: math.inf if value is None else float(value) for name, value in row["relative"].items()}
        stderr = {name: math.inf if value is None else float(value) for name, value in row["relative_stderr"].items()}
        tags = np.array([float(row["tags"][tag]) for tag in plant.names])
        arrows = np.array([float(score) for score in row["arrows"]])
        shown, pair = row["shown"], None
        if shown is not None:
            share, error = (math.inf if value is None else float(value) for value in shown)
            pair = share, error
        foretold = {plant.column(tag): (float(p), float(model)) for tag, (p, model) in row["foretold"].items()}
        accused = plant.column(row["accused"])
        return cls(plant, str(row["method"]), accused, tags, arrows, relative, stderr, pair, foretold)

    @property
    def edges(self) -> Array:
        """The scores [m] of the edges, each the sum over its two directions."""
        half = len(self.arrows) // 2
        return self.arrows[:half] + self.arrows[half:]

    @property
    def explanation(self) -> SignedExplanation:
        """The explanation that figures and pages show, with one score per tag."""
        explanation = SignedExplanation(
            edge_index=self.plant.arrows,
            edge_mask=torch.from_numpy(self.arrows),
            node_mask=torch.from_numpy(self.tags).unsqueeze(-1),
            index=torch.tensor(self.accused),
            method=NAMES[self.method],
            neighborhood="readings and edges",
            node_names=list(self.plant.names),
            num_nodes=len(self.plant),
        )
        share, error = (math.inf, math.inf) if self.shown is None else self.shown
        if math.isfinite(share):
            # A cause keeps Delta in units of Delta(0), and neither the number of samples nor their seed.
            near = explanation.neighborhood
            record = Unfaithfulness(share, error, share, error, 1.0, 0, near, 0, moves_edges=True, moves_features=True)
            record_unfaithfulness(explanation, record)
        return explanation


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
    forecaster: Forecaster | Nowcaster,
    question: Question,
    *,
    methods: Sequence[str] = METHODS,
    neighborhoods: Sequence[str] = NEIGHBORHOODS,
    samples: int = 200,
    test_samples: int = 500,
    seed: int = 0,
) -> list[Cause]:
    """Explain one alarm by each of the methods; ``neighborhoods`` are those in which they are measured."""
    model = Gap(forecaster, question)
    plant = forecaster.plant
    data = Data(x=question.unusual, edge_index=plant.arrows, node_names=list(plant.names))
    subject = Subject(model.eval(), data, Task("regression", "raw", "node"))
    near = make_neighborhoods(question.unusual)
    accused = question.accused
    results = []
    for method in methods:
        shown = subject.explain(accused, method, near[SHOWN], samples=samples, test_samples=test_samples, seed=seed)
        scores = {SHOWN: shown.unfaithfulness}
        fitted_here = shown
        if shown.get("reading") is not None:
            shown = shown.reading("slope")
            explainer = subject.explainer(method, near[SHOWN], samples=samples, seed=seed)
            general_unfaithfulness(explainer, shown, near[SHOWN], num_samples=test_samples, seed=seed + 1)
        for name in neighborhoods:
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
        cause = _make_cause(plant, method, question, shown, scores)
        results.append(replace(cause, foretold=_foretell(cause, fitted_here)) if method == METHODS[0] else cause)
    return results


def _foretell(cause: Cause, explanation: SignedExplanation) -> dict[int, tuple[float, float]]:
    """Return for the strongest other tags what p and the model say of F, if the tag had behaved as expected."""
    others = [int(tag) for tag in np.argsort(-cause.tags, kind="stable") if tag != cause.accused][:FORETOLD]
    answers = {}
    for tag in others:
        asked = explanation.what_if(set={(tag, step): 0.0 for step in range(cause.plant.window)}, check=True)
        answers[tag] = (asked.change, float(asked.actual or 0.0))
    return answers


@dataclass(frozen=True)
class Fewest:
    """The fewest ``readings`` (tag, steps before) that clear an alarm if they had been as expected, confirmed.

    The accused tag's own reading stays as it is. There are none if no set of up to `FEWEST` of them was found among
    those that were ``tried``. ``smallest`` says that every smaller set was tried.
    """

    readings: tuple[tuple[int, int], ...]
    tried: int
    smallest: bool

    def as_json(self, plant: Plant) -> dict[str, Any]:
        """Return the readings as plain values for JSON."""
        names = [[plant.names[tag], before] for tag, before in self.readings]
        return {"readings": names, "tried": self.tried, "smallest": self.smallest}


def find_fewest(forecaster: Forecaster | Nowcaster, question: Question, past: float) -> Fewest:
    """Search for the fewest readings of the others with which, as expected, F falls below ``past``.

    The slopes of the model say which sets are worth a try, and the model is asked about them
    (:func:`~graphfaith.explanation.counterfactual.counterfactual`).
    """
    plant = forecaster.plant
    data = Data(x=question.unusual, edge_index=plant.arrows, node_names=list(plant.names))
    subject = Subject(Gap(forecaster, question, holds=True).eval(), data, Task("regression", "raw", "node"))
    near = make_neighborhoods(question.unusual)[SHOWN]
    explanation = subject.explain(question.accused, "saliency", near, samples=1, test_samples=2)
    found = counterfactual(explanation, FEWEST, of="features", past=past, evaluations=_TRIED)
    readings = tuple((tag, plant.window - 1 - slot) for tag, slot in found.features)
    return Fewest(readings, found.evaluations, found.found and found.is_smallest)


@dataclass(frozen=True)
class Restored:
    """The accused tag's reading and forecast [n + 1] if one tag had behaved as expected; the last row is as it was.

    Only the accused tag's own reading differs from what was read, and only in its own row.
    """

    readings: Array
    forecasts: Array

    @property
    def gaps(self) -> Array:
        """The reading less the forecast [n + 1]."""
        return self.readings - self.forecasts


def restore_each(forecaster: Forecaster | Nowcaster, question: Question) -> Restored:
    """Ask the model about every tag: what if its window had been as expected? All numbers are scaled."""
    n = len(question.x)
    changed = question.x.repeat(n + 1, 1, 1)
    for tag in range(n):
        changed[tag, tag] = question.expected[tag].to(changed.dtype)
    with torch.no_grad():
        forecasts = forecaster.forecast(changed)[:, question.accused].double().numpy()
    return Restored(changed[:, question.accused, -1].double().numpy(), forecasts)


def effects_of(restored: Restored, question: Question) -> Array:
    """Return the effect [n] of each tag's unusual part on F, by the model itself: F less F without that part.

    As in a `Cause`, the accused tag has what the others do not explain.
    """
    values = -restored.forecasts if question.what == "deviation" else restored.forecasts
    effects = question.sign * (values[-1] - values[:-1])
    effects[question.accused] = 0.0
    effects[question.accused] = question.gap - effects.sum()
    return np.asarray(effects)


def _make_cause(
    plant: Plant, method: str, question: Question, explanation: Explanation, scores: dict[str, Any]
) -> Cause:
    parts = question.unusual.double()
    if method not in MASKS:
        tags = (explanation.node_mask.double() * parts).sum(-1).numpy()
        tags[question.accused] = 0.0
        tags[question.accused] = question.gap - tags.sum()
    else:
        tags = (explanation.node_mask.double() * parts.abs()).sum(-1).numpy()
    of_scores = explanation.unfaithfulness.scores or explanation.unfaithfulness
    return Cause(
        plant=plant,
        method=method,
        accused=question.accused,
        tags=tags,
        arrows=explanation.edge_mask.double().numpy(),
        relative={name: score.relative for name, score in scores.items()},
        relative_stderr={name: score.relative_stderr for name, score in scores.items()},
        shown=(of_scores.relative, of_scores.relative_stderr),
    )


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Path:
    """The tags on a path of messages from an attacked tag to the accused one, and the sum of the arrows' scores.

    The sum is the decrease of p without these arrows, to first order. It is positive if they widened the gap.
    """

    tags: tuple[int, ...]
    score: float


def find_strongest_path(cause: Cause, start: int) -> Path | None:
    """Return the path with the largest |sum of scores| from ``start`` to the accused tag, of at most `REACH` arrows.

    The result is None if there is no such path, because messages cannot reach the accused tag from ``start``.
    """
    if start == cause.accused:
        return Path((start,), 0.0)
    scores = {(s, t): cause.arrows[i] for i, (s, t) in enumerate(cause.plant.arrows.T.tolist())}
    graph = nx.DiGraph(scores.keys())
    paths = list(nx.all_simple_paths(graph, start, cause.accused, cutoff=REACH))
    if not paths:
        return None
    candidates = [Path(tuple(tags), float(sum(scores[pair] for pair in pairwise(tags)))) for tags in paths]
    return max(candidates, key=lambda path: (abs(path.score), -len(path.tags)))


def count_hops(plant: Plant, accused: int) -> Array:
    """Return the hops [n] from each tag to the accused one; a tag that is not connected with it has n hops."""
    hops = np.full(len(plant), float(len(plant)))
    for tag, distance in nx.single_source_shortest_path_length(nx.Graph(plant.edges), accused).items():
        hops[tag] = distance
    return hops


def find_reach(plant: Plant, accused: int) -> tuple[frozenset[int], frozenset[int]]:
    """Return the tags and the edges (positions in ``plant.edges``) on which the forecast of ``accused`` can depend."""
    hops = count_hops(plant, accused)
    edges = [i for i, (s, t) in enumerate(plant.edges) if min(hops[s], hops[t]) < REACH]
    return frozenset(np.flatnonzero(hops <= REACH).tolist()), frozenset(edges)
