"""Methods side by side: every method of the paper by name, scored on the same nodes and the same samples."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explainer

from ._base.checks import check_node
from ._base.errors import InputError
from .explainers import (
    KEC,
    AnchoredKEC,
    FaithfulExplainer,
    GNNExplainer,
    IntegratedGradients,
    Linear,
    PGExplainer,
    Saliency,
    SubgraphX,
)
from .metric.unfaithfulness import unfaithfulness_of
from .model.target import Target
from .sampling.neighborhood import Neighborhood, as_neighborhood
from .surrogate.difference import DifferenceModel
from .surrogate.estimate import Unfaithfulness

MODEL_CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}

Samples = int | Literal["auto"]

# From (neighbourhood, samples, seed) to the method. Only those in FITTED look at the neighbourhood.
METHODS: dict[str, Callable[[Neighborhood, Any, int], FaithfulExplainer]] = {
    "anchored-kec": lambda near, samples, seed: AnchoredKEC(near, samples, seed=seed),
    "kec": lambda near, samples, seed: KEC(near, samples, seed=seed),
    "linear": lambda near, samples, seed: Linear(near, samples, seed=seed),
    "saliency": lambda _near, _samples, _seed: Saliency(),
    "ig-zero": lambda _near, _samples, _seed: IntegratedGradients(baseline="zero"),
    "ig-random": lambda _near, _samples, seed: IntegratedGradients(baseline="random", seed=seed),
    "ig-full": lambda _near, _samples, _seed: IntegratedGradients(baseline="full"),
    "gnnexplainer": lambda _near, _samples, seed: GNNExplainer(hard=True, seed=seed),
    "gnnexplainer-soft": lambda _near, _samples, seed: GNNExplainer(seed=seed),
    "pgexplainer": lambda _near, _samples, seed: PGExplainer(seed=seed),
    "subgraphx": lambda _near, _samples, seed: SubgraphX(seed=seed),
}
# What "all" stands for. SubgraphX takes seconds a node, and so is left out unless it is named.
ALL_METHODS = tuple(name for name in METHODS if name != "subgraphx")
FITTED = ("anchored-kec", "kec", "linear")


@dataclass(frozen=True)
class Row:
    """One method in one neighbourhood, averaged over nodes.

    ``unfaithfulness`` is the mean of Delta(p) and ``stderr`` its standard error over nodes (over samples, if there
    is one node); ``relative`` is that mean over the mean of Delta(0). ``by_node`` has Delta(p) at each node, and
    ``lowest`` the share of nodes at which no other method of the comparison has less.
    """

    dataset: str
    method: str
    neighborhood: str
    nodes: list[int]
    unfaithfulness: float
    stderr: float
    relative: float
    seconds_per_node: float
    num_samples: int  # to score with
    seed: int  # of the fit; scores are drawn with the next one
    fit_samples: int  # the mean over nodes, if each took as many as it needed
    model_seed: int
    by_node: list[float]
    lowest: float

    def as_json(self) -> dict[str, Any]:
        """The row as plain values; ``nodes`` is called ``node`` if there is one."""
        row = asdict(self)
        if len(self.nodes) == 1:
            row["node"] = row.pop("nodes")[0]
        return row


def explainer_for(
    model: torch.nn.Module,
    method: str,
    neighborhood: Neighborhood | str,
    *,
    samples: Samples = 200,
    seed: int = 0,
    return_type: str = "raw",
) -> Explainer:
    """PyG's Explainer of node classes with the method of that name, scoring every feature and every edge."""
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}: known are {', '.join(METHODS)}")
    near = as_neighborhood(neighborhood)
    return Explainer(
        model,
        algorithm=METHODS[method](near, samples, seed),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={**MODEL_CONFIG, "return_type": return_type},
    )


def compare(
    model: torch.nn.Module,
    data: Data,
    nodes: Sequence[int],
    methods: Sequence[str],
    neighborhoods: Sequence[Neighborhood],
    *,
    dataset: str = "",
    fit_samples: Samples = 200,
    num_samples: int = 500,
    seed: int = 0,
    model_seed: int = 0,
    train_jointly: bool = False,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[Row]:
    """Score ``methods`` on ``nodes`` in ``neighborhoods``, on samples drawn with ``seed + 1`` and so not fitted.

    One set of perturbed graphs, and one evaluation of F on it, serves all methods of a neighbourhood.
    ``train_jointly`` trains PGExplainer on all nodes together, as the paper does on BA-Shapes.
    """
    if not nodes or not methods or not neighborhoods:
        raise InputError("nothing to compare: name at least one node, one method and one neighbourhood")
    for node in nodes:
        check_node(node, data.num_nodes)
    explainers = {
        (method, near): explainer_for(model, method, near, samples=fit_samples, seed=seed)
        for near in neighborhoods
        for method in methods
    }
    labels = next(iter(explainers.values())).get_prediction(data.x, data.edge_index, **_weights(data)).argmax(dim=-1)
    shared = 0.0
    if train_jointly and "pgexplainer" in methods:
        shared = train_together(explainers["pgexplainer", neighborhoods[0]], model, data, nodes, labels)
    scores: dict[tuple[str, Neighborhood], list[Unfaithfulness]] = {key: [] for key in explainers}
    seconds = dict.fromkeys(explainers, 0.0)
    drawn: dict[tuple[str, Neighborhood], list[int]] = {key: [] for key in explainers}
    for node in progress(nodes):
        kept: dict[str, tuple[DifferenceModel, float]] = {}
        for near in neighborhoods:
            fitted = []
            for method in methods:
                if method in FITTED or method not in kept:
                    kept[method] = timed_fit(explainers[method, near], model, data, node, labels)
                p, taken = kept[method]
                fitted.append(p)
                drawn[method, near].append(getattr(p, "fit_samples", None) or 0)
                seconds[method, near] += taken + (shared if method == "pgexplainer" else 0.0)
            target = target_for(explainers[methods[0], near], model, data, node, labels)
            for method, score in zip(
                methods, unfaithfulness_of(target, fitted, near, num_samples, seed + 1), strict=True
            ):
                scores[method, near].append(score)
    return [
        Row(
            dataset=dataset,
            method=method,
            neighborhood=str(near),
            nodes=list(nodes),
            seconds_per_node=seconds[method, near] / len(nodes),
            num_samples=num_samples,
            seed=seed,
            fit_samples=round(statistics.mean(drawn[method, near])) if fit_samples == "auto" else fit_samples,
            model_seed=model_seed,
            by_node=[score.value for score in scores[method, near]],
            lowest=_lowest(scores[method, near], [scores[other, near] for other in methods if other != method]),
            **_mean(scores[method, near]),
        )
        for near in neighborhoods
        for method in methods
    ]


def train_together(
    explainer: Explainer, model: torch.nn.Module, data: Data, nodes: Sequence[int], labels: torch.Tensor
) -> float:
    """Train PGExplainer on all of the nodes at once; the seconds of that, for each of them."""
    started = time.perf_counter()
    explainer.algorithm.train_on(model, data.x, data.edge_index, nodes, target=labels, **_weights(data))
    return (time.perf_counter() - started) / len(nodes)


def target_for(explainer: Explainer, model: torch.nn.Module, data: Data, node: int, labels: torch.Tensor) -> Target:
    """The F that an explainer would explain at a node; ``labels`` are the classes of all nodes."""
    target: Target = explainer.algorithm.target(model, data.x, data.edge_index, node, labels, _weights(data))
    return target


def _weights(data: Data) -> dict[str, torch.Tensor]:
    return {} if data.get("edge_weight") is None else {"edge_weight": data.edge_weight}


def timed_fit(
    explainer: Explainer, model: torch.nn.Module, data: Data, node: int, labels: torch.Tensor
) -> tuple[DifferenceModel, float]:
    """A method's p for a node, and the seconds from the graph to its scores."""
    started = time.perf_counter()
    p: DifferenceModel = explainer.algorithm.fit(target_for(explainer, model, data, node, labels))
    explainer.algorithm.scores(p)
    return p, time.perf_counter() - started


def _lowest(scores: Sequence[Unfaithfulness], others: Sequence[Sequence[Unfaithfulness]]) -> float:
    """The share of nodes at which no other method has a smaller Delta(p)."""
    rivals = zip(*others, strict=True) if others else ((),) * len(scores)
    won = [all(score.value <= other.value for other in at) for score, at in zip(scores, rivals, strict=True)]
    return sum(won) / len(won)


def _mean(scores: Sequence[Unfaithfulness]) -> dict[str, float]:
    values = torch.tensor([score.value for score in scores], dtype=torch.float64)
    zero = sum(score.delta_zero for score in scores) / len(scores)
    mean = float(values.mean())
    spread = float(values.std()) / math.sqrt(len(scores)) if len(scores) > 1 else scores[0].stderr
    relative = mean / zero if zero > 0 else (0.0 if mean == 0 else math.inf)
    return {"unfaithfulness": mean, "stderr": spread, "relative": relative}
