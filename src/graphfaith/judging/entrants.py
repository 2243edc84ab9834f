"""Entrants: anybody's explainer, asked for scores of one prediction in the order of its computation graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain.algorithm import ExplainerAlgorithm, PGExplainer

from .._base.errors import InputError, show
from ..explainers.base import FaithfulExplainer
from ..explainers.methods import method_named, method_names
from ..metric.attribution import Attribution
from ..sampling.draw import keys
from ..sampling.neighborhood import draw_edges, draw_features
from .algorithm import Algorithm, Given, seeded_at
from .scene import Scene

ScoreFunction = Callable[[torch.nn.Module, Data, int], Any]


class Entrant(Protocol):
    """An explainer that is judged."""

    name: str

    @property
    def is_fitted(self) -> bool:
        """Whether its scores depend on the neighbourhood."""

    def prepare(self, scene: Scene, seed: int) -> None:
        """Do what is done once for all rows, such as training."""

    def explain(self, scene: Scene, index: int, seed: int) -> Attribution:
        """Return the scores of one row of the output."""


@dataclass
class Own:
    """A method of this library, by its name or as an algorithm."""

    name: str
    algorithm: FaithfulExplainer | None = None

    @property
    def is_fitted(self) -> bool:
        """Whether the method is fitted to a neighbourhood; one that is given as an object has its own."""
        return self.algorithm is None and method_named(self.name).is_fitted

    def prepare(self, scene: Scene, seed: int) -> None:
        """Make the method once, so that bad settings show."""
        if self.algorithm is None:
            scene.subject.explainer(self.name, scene.near, samples=scene.samples, seed=seed)
        else:
            scene.subject.explainer_with(self.algorithm)

    def explain(self, scene: Scene, index: int, seed: int) -> Attribution:
        """Fit p, and read its scores."""
        graph = scene.target(index).computation_graph
        if self.algorithm is None:
            fit = scene.subject.fit(self.name, index, scene.near, samples=scene.samples, seed=seed)
            assert fit.scores is not None
            return Attribution(graph, fit.scores[1], fit.scores[0], fit.p)
        algorithm = scene.subject.explainer_with(self.algorithm).algorithm
        given, had = "seed" in inspect.signature(type(algorithm).__init__).parameters, getattr(algorithm, "seed", None)
        if given:
            algorithm.seed = seed
        try:
            data = scene.subject.data
            call = scene.subject.model, data.x, data.edge_index, index, scene.subject.labels, scene.arguments()
            target, p = algorithm.fit_row(*call)
            features, edges = algorithm.scores(p)
            features = features if algorithm.scores_features(target) else None
        finally:
            if given:
                algorithm.seed = had
        return Attribution(graph, edges, features, p)


@dataclass
class Function:
    """A function (model, data, row) that returns scores of edges, [E], or of nodes (or features) and of edges."""

    name: str
    function: ScoreFunction
    is_fitted: bool = False

    def prepare(self, scene: Scene, seed: int) -> None:
        """There is nothing to do once."""

    def explain(self, scene: Scene, index: int, seed: int) -> Attribution:
        """Call the function, and take the scores of what F depends on."""
        graph = scene.target(index).computation_graph
        with seeded_at(scene, seed, index):
            # A copy: what a function does to the graph must not reach the others, nor the user.
            found = self.function(scene.copy_model(), scene.subject.data.clone(), index)
        nodes, edges = found if isinstance(found, tuple | list) and len(found) == 2 else (None, found)
        if nodes is None and edges is None:
            raise InputError(f"{self.name} must return scores of edges, or of (nodes, edges) (got {show(found)})")
        num_nodes, num_edges = graph.size
        d, scores, features = graph.x.size(1), None, None
        if edges is not None:
            given = _check_scores(edges, [(num_edges,)], self.name)
            scores = torch.zeros(graph.num_edges, dtype=torch.float64)
            places = graph.edge_id >= 0
            scores[places] = given[graph.edge_id[places]]
        if nodes is not None:
            rows = _check_scores(nodes, [(num_nodes,), (num_nodes, 1), (num_nodes, d), (1, d)], self.name)
            rows = rows.unsqueeze(1) if rows.dim() == 1 else rows
            features = rows if rows.size(0) == 1 else rows[graph.nodes]
        return Attribution(graph, scores, features)


@dataclass
class Random:
    """Scores that are drawn: each is uniform in [-1, 1], a function of (seed, row, entry) alone."""

    name: str = "random"
    is_fitted: bool = False

    def prepare(self, scene: Scene, seed: int) -> None:
        """There is nothing to do once."""

    def explain(self, scene: Scene, index: int, seed: int) -> Attribution:
        """Draw a score for everything that F depends on."""
        graph, number = scene.target(index).computation_graph, np.array([index])
        own = int(keys(seed, "random", np.zeros(1, dtype=np.int64))[0] >> np.uint64(34))  # apart from other draws
        edges, features = (2 * draw(graph, number, own)[0] - 1 for draw in (draw_edges, draw_features))
        return Attribution(graph, edges, features)


@dataclass
class Zero:
    """The explanation that says that nothing matters. Where an order is asked for, all entries are equal."""

    name: str = "zero"
    is_fitted: bool = False

    def prepare(self, scene: Scene, seed: int) -> None:
        """There is nothing to do once."""

    def explain(self, scene: Scene, index: int, seed: int) -> Attribution:  # noqa: ARG002
        """Return zeros."""
        graph = scene.target(index).computation_graph
        return Attribution(graph, torch.zeros(graph.num_edges), torch.zeros_like(graph.x))


def _check_scores(scores: Any, shapes: list[tuple[int, ...]], name: str) -> Tensor:
    try:
        given = torch.as_tensor(scores).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must return numbers (got {show(scores)})") from None
    if given.is_complex():
        raise InputError(f"{name} must return real numbers (got {given.dtype})")
    numbers = given.double()
    if tuple(numbers.shape) not in shapes:
        known = " or ".join(str(list(shape)) for shape in shapes)
        raise InputError(f"{name} must return scores of shape {known} (got {list(numbers.shape)})")
    return numbers


def make_entrants(explainers: Any, peers: Mapping[str, Callable[[], Entrant]]) -> list[Entrant]:
    """Return the entrants that a user names: names, algorithms, functions, or a mapping of names to these."""
    if isinstance(explainers, str | ExplainerAlgorithm) or callable(explainers):
        explainers = [explainers]
    if isinstance(explainers, Mapping):
        pairs = list(explainers.items())
    elif isinstance(explainers, Iterable):
        pairs = [(None, one) for one in explainers]
    else:
        raise InputError(f"explainers must be names, algorithms or functions (got {explainers!r})")
    found: list[Entrant] = []
    for name, one in pairs:
        found += [_make_entrant(name, each, peers) for each in _expand(one, peers)]
    names = [entrant.name for entrant in found]
    twice = {name for name in names if names.count(name) > 1 or name in ("random", "zero")}
    if twice:
        raise InputError(f"every explainer needs a name of its own, other than random and zero (got {sorted(twice)})")
    return found


def _expand(one: Any, peers: Mapping[str, Any]) -> list[Any]:
    if one == "all":
        return [*method_names(in_all=True), *peers]
    return [one]


def _make_entrant(name: str | None, one: Any, peers: Mapping[str, Callable[[], Entrant]]) -> Entrant:
    if isinstance(one, str):
        if one in peers:
            entrant: Entrant = peers[one]()
        elif one in method_names():
            entrant = Own(one)
        else:
            raise InputError(f"unknown method {one!r}: known are {', '.join([*method_names(), *peers])}")
        if name is not None and name != one:
            raise InputError(f"{one!r} is the name of a method already: leave out {name!r}")
        return entrant
    label = name or type(one).__name__
    if isinstance(one, FaithfulExplainer):
        return Own(label, one)
    if isinstance(one, PGExplainer):
        return Given(label, one)
    if isinstance(one, ExplainerAlgorithm):
        return Algorithm(label, lambda model: one)  # noqa: ARG005
    if callable(one):
        return Function(name or str(getattr(one, "__name__", "function")), one)
    raise InputError(f"an explainer is a name, an algorithm of PyG's or a function (got {one!r})")
