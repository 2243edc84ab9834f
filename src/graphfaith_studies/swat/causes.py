"""From an alarm to its cause: which tags and edges made the model expect something else, by several methods.

What is explained is the deviation at the accused tag, F(X, A) = +-(reading - forecast(X, A)): + if the reading was too
high, - if it was too low, so that F is positive, and what speaks for it (blue) widened the gap. The reading is a number
that was measured; only the forecast depends on X and A. On demand F is the forecast itself.
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
from graphfaith.compare import FITTED
from graphfaith.subject import Subject
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from graphfaith.explanation.faithfulness import record_unfaithfulness
from graphfaith.explanation.signed import SignedExplanation
from graphfaith.metric.unfaithfulness import general_unfaithfulness
from graphfaith.model.task import Task
from graphfaith.sampling.neighborhood import Neighborhood, UniformEdges, UniformFeatures
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
REACH: Final = 2  # layers of the forecaster
READING_RANGE: Final = 0.1  # of a tag's span in normal operation
EDGE_RANGE: Final = 0.5
NEIGHBORHOODS: Final = ("edges", "readings", "both")
SHOWN: Final = "both"  # where tags and edges move, so that the scores of both are held to account
Array = NDArray[np.float64]


class Deviation(nn.Module):
    """+-(reading - forecast) [51, 1] at every tag, of a forecaster and the readings [51] that followed."""

    def __init__(self, forecaster: Forecaster, readings: Tensor, sign: float) -> None:
        super().__init__()
        self.forecaster, self.sign = forecaster, sign
        self.register_buffer("readings", readings)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """The deviation from what is forecast for windows ``x`` [51, 5]; of several plants, one after the other."""
        forecast = self.forecaster(x, edge_index, edge_weight)
        known: Any = self.readings
        out: Tensor = self.sign * (known.repeat(forecast.size(-2) // NUM_TAGS).unsqueeze(-1) - forecast)
        return out


@dataclass(frozen=True)
class Cause:
    """What one method says of one alarm: ``tags`` [51] and ``arrows`` [158] with signs, and how far to believe it.

    A tag's score is sum_c dp/dx_c (x_c - usual_c): what p, which is linear there, loses if its readings are as usual.
    An arrow's, an edge one way, is dp/dA: what p loses, to first order, without it. ``relative`` has Delta(p)/Delta(0)
    by neighbourhood, on samples held out; it judges p close to what was read, and not how far a tag is from usual.
    """

    method: str
    accused: int
    tags: Array
    arrows: Array
    relative: dict[str, float]
    relative_stderr: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """As plain values, from which :meth:`from_json` makes it again."""
        return {
            "method": self.method,
            "accused": TAGS[self.accused],
            "tags": dict(zip(TAGS, self.tags.tolist(), strict=True)),
            "arrows": self.arrows.tolist(),  # in the order of plant_edges()
            "relative": {name: _finite(value) for name, value in self.relative.items()},
            "relative_stderr": {name: _finite(value) for name, value in self.relative_stderr.items()},
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Cause:
        """See :meth:`as_json`."""
        number = {name: math.inf if value is None else float(value) for name, value in row["relative"].items()}
        error = {name: math.inf if value is None else float(value) for name, value in row["relative_stderr"].items()}
        tags = np.array([float(row["tags"][tag]) for tag in TAGS])
        arrows = np.array([float(score) for score in row["arrows"]])
        return cls(str(row["method"]), column(row["accused"]), tags, arrows, number, error)

    @property
    def edges(self) -> Array:
        """[79] of both directions."""
        half = len(self.arrows) // 2
        return self.arrows[:half] + self.arrows[half:]

    @property
    def explanation(self) -> SignedExplanation:
        """As figures and pages show it: one score a tag."""
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
        share, error = self.relative[SHOWN], self.relative_stderr[SHOWN]
        if math.isfinite(share):
            # A cause keeps Delta(p) in units of Delta(0), and neither the number of samples nor their seed.
            near = explanation.neighborhood
            record_unfaithfulness(explanation, Unfaithfulness(share, error, share, error, 1.0, 0, near, 0))
        return explanation

    def rank(self, tags: Sequence[int]) -> float:
        """The best place of any of these tags by |score|, from 1; those with the same score share their mean place."""
        places = rankdata(-np.abs(self.tags), method="average")
        return float(min(places[tag] for tag in tags))


def neighborhoods(x: Tensor) -> dict[str, Neighborhood]:
    """Of edges, of readings, and of both.

    Readings move by a share of a tag's usual span, not of the range of this window: one tag far off would else let all
    others move as far.
    """
    spread = float(x.max() - x.min())
    readings = UniformFeatures(READING_RANGE / max(spread, 1e-9))
    edges = UniformEdges(EDGE_RANGE)
    return {"edges": edges, "readings": readings, "both": readings * edges}


def causes(
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
    """Explain one alarm by each of the methods."""
    model: nn.Module = forecaster if what == "forecast" else Deviation(forecaster, readings, sign)
    data = Data(x=x, edge_index=plant_edges(), node_names=list(TAGS))
    subject = Subject(model.eval(), data, Task("regression", "raw", "node"))
    near = neighborhoods(x)
    found = []
    for method in methods:
        shown = subject.explain(accused, method, near[SHOWN], samples, test_samples, seed)
        scores = {SHOWN: shown.unfaithfulness}
        for name in NEIGHBORHOODS:
            if name == SHOWN:
                continue
            if method in FITTED:  # one that is fitted is fitted anew
                one = subject.explain(accused, method, near[name], samples, test_samples, seed)
                scores[name] = one.unfaithfulness
            else:
                explainer = subject.explainer(method, near[name], samples, seed)
                scores[name] = general_unfaithfulness(explainer, shown, near[name], test_samples, seed + 1)
        found.append(_cause(method, accused, shown, usual, scores))
    return found


def unusual(forecaster: Forecaster, x: Tensor, usual: Tensor, accused: int, sign: float) -> Array:
    """[51] F less F with one tag's readings as usual: what each tag's unusual readings did, by the model itself."""
    changed = x.repeat(NUM_TAGS + 1, 1, 1)
    for tag in range(NUM_TAGS):
        changed[tag, tag] = usual[tag].to(x.dtype)
    with torch.no_grad():
        forecast = forecaster.forecast(changed)[:, accused].double()
    return (-sign * (forecast[-1] - forecast[:-1])).numpy()


def _cause(method: str, accused: int, explanation: Explanation, usual: Tensor, scores: dict[str, Any]) -> Cause:
    unusual = explanation.x.double() - usual.unsqueeze(-1)
    tags = (explanation.node_mask.double() * unusual).sum(-1).numpy()
    return Cause(
        method=method,
        accused=accused,
        tags=tags,
        arrows=explanation.edge_mask.double().numpy(),
        relative={name: score.relative for name, score in scores.items()},
        relative_stderr={name: score.relative_stderr for name, score in scores.items()},
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _pairs() -> list[tuple[int, int]]:
    ends = [(column(one), column(other)) for one, other in EDGES]
    return [(min(pair), max(pair)) for pair in ends]


@dataclass(frozen=True)
class Path:
    """Tags along which messages go from an attacked one to the accused one, and the sum of the arrows' scores.

    The sum is what p loses, to first order, without these arrows: positive, if they widened the gap.
    """

    tags: tuple[int, ...]
    score: float

    def __str__(self) -> str:
        return " - ".join(TAGS[tag] for tag in self.tags)


def strongest_path(cause: Cause, start: int) -> Path | None:
    """Of the paths that the model can see, at most `REACH` arrows long, that with the largest |sum| of scores.

    None if there is none: the tag is further away than the model looks.
    """
    if start == cause.accused:
        return Path((start,), 0.0)
    scores = {(s, t): cause.arrows[i] for i, (s, t) in enumerate(plant_edges().T.tolist())}
    graph = nx.DiGraph(scores.keys())
    paths = list(nx.all_simple_paths(graph, start, cause.accused, cutoff=REACH))
    if not paths:
        return None
    found = [Path(tuple(tags), float(sum(scores[pair] for pair in pairwise(tags)))) for tags in paths]
    return max(found, key=lambda path: (abs(path.score), -len(path.tags)))


def within_reach(accused: int) -> tuple[frozenset[int], frozenset[int]]:
    """Tags whose readings the forecast of ``accused`` can depend on, and places in `EDGES` of such edges."""
    graph = nx.Graph(_pairs())
    far = nx.single_source_shortest_path_length(graph, accused, cutoff=REACH)
    edges = [i for i, (s, t) in enumerate(_pairs()) if min(far.get(s, REACH), far.get(t, REACH)) < REACH]
    return frozenset(far), frozenset(edges)


def path_edges(start: int, end: int) -> list[int]:
    """Places in `EDGES` of the shortest way through the plant from one tag to another."""
    pairs = _pairs()
    graph = nx.Graph(pairs)
    tags = nx.shortest_path(graph, start, end)
    return [pairs.index((min(pair), max(pair))) for pair in pairwise(tags)]
