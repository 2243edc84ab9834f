"""PyG's explanation algorithms as entrants: run as they are, on a copy of the model, with numbers drawn by seed."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.explain import Explainer
from torch_geometric.explain.algorithm import ExplainerAlgorithm, PGExplainer

from .._base.errors import UnsupportedError
from .._base.randomness import seeded
from ..metric.attribution import Attribution
from ..metric.unfaithfulness import MASK_LEARNERS
from ..model.home import fetch, home_of, send
from ..model.record import evaluating
from ..model.target import Target
from ..model.task import Task
from ..sampling.draw import keys
from ..surrogate.difference import SubgraphModel
from .scene import Scene

TRAINED_ON = 10  # rows, evenly out of those that are judged


def seeded_at(scene: Scene, seed: int, index: int) -> AbstractContextManager[None]:
    """Draw global random numbers from a seed and a row, where the model lives too, and restore the generators."""
    number = int(keys(seed, "peer", np.array([index]))[0] >> np.uint64(1))
    return seeded(number, home_of(scene.subject.model), numpy=True)  # Captum draws from numpy's.


@dataclass
class Algorithm:
    """An algorithm of PyG's, made anew for each row, or a single one that the user gave.

    It is run on the computation graph of the row, on which the model answers as on the whole graph: PyG's own run on
    the whole graph, and most of them take twenty times as long there. ``whole`` is for those that need the whole graph.
    """

    name: str
    make: Callable[[torch.nn.Module], ExplainerAlgorithm]
    whole: bool = False
    edges_only: bool = False
    is_fitted: bool = False

    def prepare(self, scene: Scene, seed: int) -> None:
        """There is nothing to do once."""

    def explain(self, scene: Scene, index: int, seed: int) -> Attribution:
        """Run the algorithm, and lay its masks out over the computation graph."""
        target, model = scene.target(index), scene.copy_model()
        with seeded_at(scene, seed, index):
            algorithm = self.make(model)
            return run_algorithm(algorithm, scene, target, index, model, whole=self.whole, edges_only=self.edges_only)


@dataclass
class TrainedAlgorithm:
    """PyG's PGExplainer, which is trained on rows together before it explains any; it needs the whole graph.

    A step of its training takes the model on the whole graph, so that at most ten rows are trained on. Noise on the
    input comes after the training: what was trained is asked again.
    """

    name: str
    make: Callable[[torch.nn.Module], PGExplainer]
    is_fitted: bool = False

    def prepare(self, scene: Scene, seed: int) -> None:
        """Train it for this scene and seed."""
        self._train(scene, seed)

    def explain(self, scene: Scene, index: int, seed: int) -> Attribution:
        """Ask the trained network for the scores of a row."""
        algorithm, model = self._train(scene, seed)
        with seeded_at(scene, seed, index):
            return run_algorithm(algorithm, scene, scene.target(index), index, model, whole=True, edges_only=True)

    def _train(self, scene: Scene, seed: int) -> tuple[PGExplainer, torch.nn.Module]:
        key = self.name, seed
        if key not in scene.trained:
            model, data = Bound(scene.copy_model(), scene.arguments(), scene.subject.task), scene.subject.data
            rows = scene.nodes[:: max(1, -(-len(scene.nodes) // TRAINED_ON))]
            with seeded_at(scene, seed, 0), torch.enable_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # It converts its loss to a number without detaching it.
                algorithm = self.make(model.model)
                explainer = make_explainer(model, algorithm, scene, edges_only=True)
                labels = labels_on(explainer, scene, data.x, data.edge_index, None)
                for epoch in range(algorithm.epochs):
                    for index in rows:
                        row = None if scene.subject.task.level == "graph" and len(labels) == 1 else index
                        algorithm.train(epoch, model, data.x, data.edge_index, target=labels, index=row)
            scene.trained[key] = algorithm, model.model
        found: tuple[PGExplainer, torch.nn.Module] = scene.trained[key]
        return found


class Given(Algorithm):
    """A PGExplainer that the user has trained: it is run as it is, on the whole graph."""

    def __init__(self, name: str, algorithm: PGExplainer) -> None:
        super().__init__(name, lambda model: algorithm, whole=True, edges_only=True)  # noqa: ARG005


class Bound(torch.nn.Module):
    """A model of x and edge_index alone: PyG's wrapper of Captum passes other arguments by their place.

    The output of a regression with one number a row is [rows]: a second dimension of one makes Captum's Shapley values
    have one more, too.
    """

    def __init__(self, model: torch.nn.Module, arguments: Mapping[str, Any], task: Task) -> None:
        super().__init__()
        self.model, self.arguments, self.flat = model, dict(arguments), task.mode == "regression"

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Call the model with the other arguments that were given."""
        out: Tensor = self.model(x, edge_index, **self.arguments)
        return out.squeeze(-1) if self.flat and out.dim() == 2 and out.size(-1) == 1 else out


def make_explainer(model: torch.nn.Module, algorithm: Any, scene: Scene, *, edges_only: bool) -> Explainer:
    """Return PyG's Explainer for an algorithm, with masks of as much as the algorithm can score."""
    kinds = ["model", "phenomenon"] if scene.subject.labels is None else ["phenomenon", "model"]
    masks = [None] if edges_only else ["attributes", "object", None]
    reasons: list[str] = []
    for kind, nodes in product(kinds, masks):
        with _quiet():
            try:
                return Explainer(
                    model,
                    algorithm=algorithm,
                    explanation_type=kind,
                    node_mask_type=nodes,
                    edge_mask_type="object",
                    model_config=scene.subject.task.model_config,
                )
            except (ValueError, NotImplementedError) as error:
                reasons.append(str(error))
    raise UnsupportedError(f"PyG does not run {type(algorithm).__name__} on this task: {reasons[0]}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep PyG from logging why settings do not suit an algorithm, which others are then tried for."""
    root = logging.getLogger()
    root.addFilter(_nothing)
    try:
        yield
    finally:
        root.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:  # noqa: ARG001
    return False


def labels_on(explainer: Explainer, scene: Scene, x: Tensor, edge_index: Tensor, own: Tensor | None) -> Tensor:
    """Return the class of every row: the predicted one, or that which is explained where it was given."""
    if scene.subject.labels is not None and own is None:
        return scene.subject.labels
    labels: Tensor = explainer.get_target(explainer.get_prediction(x, edge_index))
    return labels


def run_algorithm(
    algorithm: Any,
    scene: Scene,
    target: Target,
    index: int,
    model: torch.nn.Module,
    *,
    whole: bool,
    edges_only: bool,
) -> Attribution:
    """Run an algorithm of PyG's for a row, on its computation graph or on the whole graph, and lay out its masks."""
    graph, call = target.computation_graph, target.call
    places = ((graph.edge_id >= 0) & graph.felt).nonzero().view(-1)
    if whole:
        data = scene.subject.data
        x, edge_index, arguments, row = data.x, data.edge_index, scene.arguments(), torch.tensor([index])
    else:
        x, edge_index = graph.x, call.edges_at(places)
        arguments, row = call.arguments_at(places)
        if target.graph.is_weighted:
            arguments["edge_weight"] = graph.weight[places]
    x, edge_index, row = (send(value, call.home) for value in (x, edge_index, row))
    arguments = {name: send(value, call.home) for name, value in arguments.items()}
    bound = Bound(model, arguments, scene.subject.task)
    explainer = make_explainer(bound, algorithm, scene, edges_only=edges_only)
    words: dict[str, Any] = {}
    if explainer.explanation_type.value == "phenomenon":
        labels = labels_on(explainer, scene, x, edge_index, None if whole else row)
        if not whole and target.labels is not None:
            labels = labels.clone()
            labels[row] = send(target.labels.to(labels.dtype), labels.device)
        words["target"] = labels
    at: Tensor | None = row[:1]
    if scene.subject.task.level == "graph" and target.readout.kwargs.get("batch") is None:
        at = None if _has_no_rows(bound, x, edge_index, scene) else at
    with torch.inference_mode(False), torch.enable_grad(), evaluating(bound), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Captum warns that it sets requires_grad on its own inputs.
        explanation = explainer(x, edge_index, index=at, **words)
    mask, nodes = fetch(explanation.get("edge_mask")), fetch(explanation.get("node_mask"))
    edges = features = None
    if mask is not None:
        edges = torch.zeros(graph.num_edges, dtype=torch.float64)
        edges[places] = mask.detach().double()[graph.edge_id[places] if whole else slice(None)]
    if nodes is not None:
        features = nodes.detach().double()
        features = features[graph.nodes] if whole and features.size(0) != 1 else features
    if isinstance(algorithm, MASK_LEARNERS):
        weighed = torch.zeros(graph.num_edges, dtype=torch.bool)
        weighed[places] = True
        kept = None if edges is None else torch.where(weighed, edges, 1.0)
        return Attribution(graph, edges, features, SubgraphModel(target, features, kept))
    return Attribution(graph, edges, features)


def _has_no_rows(model: torch.nn.Module, x: Tensor, edge_index: Tensor, scene: Scene) -> bool:
    """Return whether the output for a single graph comes without a row for it, so that no index can name it."""
    with torch.no_grad():
        out = model.eval()(x, edge_index)
    return bool(out.dim() < (2 if scene.subject.task.mode == "multiclass_classification" else 1))
