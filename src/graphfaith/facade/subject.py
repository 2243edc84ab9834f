"""A model on a graph, and what is done with it for one row of its output: F, an explainer, a fit, an explanation."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explainer

from .._base.checks import check_count
from .._base.errors import InputError, UnsupportedError
from .._base.memory import parse_memory
from ..explainers.base import Samples
from ..explainers.methods import method_named
from ..explanation.scores import num_classes_of
from ..explanation.signed import SignedExplanation
from ..graph.form import is_categorical
from ..graph.graph import Graph, is_undirected
from ..metric.unfaithfulness import general_unfaithfulness
from ..model.adapter import edges_of, reason_to_adapt
from ..model.arguments import arguments_for, convert_precision
from ..model.call import Edges, check_edges
from ..model.home import check_device
from ..model.layers import unwrap
from ..model.record import evaluating
from ..model.target import Target
from ..model.task import Task
from ..sampling.edges import RemovedEdges
from ..sampling.neighborhood import Neighborhood, Product, parse_neighborhood
from .fitting import METHOD, NEIGHBORHOOD, Fit, Fitting

# The neighbourhoods of the paper.
EDGE_NEIGHBORHOODS = ("U(A,0.2)", "U(A,0.5)", "B(A,0.2)", "B(A,0.5)")
FEATURE_NEIGHBORHOODS = ("U(X,0.2r)", "U(X,0.2r)xU(A,0.2)", "U(X,0.5r)xU(A,0.5)")


def expand_neighborhoods(texts: Iterable[str], label: str, *, constant: bool) -> list[str]:
    """Return neighbourhoods in the paper's notation, each once; "all" stands for every one of the paper that applies.

    ``label`` is the name of the graph. ``constant`` says that all of its features are equal: then they have no range to
    be perturbed in.

    >>> expand_neighborhoods(["U(A, 0.50)", "U(A,0.5)"], "my graph", constant=False)
    ['U(A,0.5)']
    """
    texts = list(texts)
    if "all" in texts:
        known = EDGE_NEIGHBORHOODS
        return list(known if constant else FEATURE_NEIGHBORHOODS[:1] + known + FEATURE_NEIGHBORHOODS[1:])
    nears = [parse_neighborhood(text) for text in texts]
    for near in nears:
        if constant and near.perturbs_features and not near.drops_features:
            raise InputError(
                f"{near}: the features of {label} are constant; use a neighbourhood of edges, such as U(A,0.5)"
            )
    return list(dict.fromkeys(map(str, nears)))


def neighborhood_on(data: Data, neighborhood: Neighborhood | str) -> Neighborhood:
    """Return the neighbourhood that a text means on a graph; one that is given as an object is what it is.

    Whoever asks for up to five removed edges of an undirected graph means both entries of each: "R(A,5)" is
    "R(A,5,paired)" there. B(A,0.5) and U(A,0.5) are those of the paper, which moves each entry by itself.

    >>> both = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> str(neighborhood_on(both, "R(A,5)")), str(neighborhood_on(both, RemovedEdges(5)))
    ('R(A,5,paired)', 'R(A,5)')
    """
    if isinstance(neighborhood, Neighborhood):
        return neighborhood
    near = parse_neighborhood(neighborhood)
    removal = near.second if isinstance(near, Product) else near
    if not isinstance(removal, RemovedEdges) or removal.paired or not is_undirected(data.edge_index):
        return near
    paired = replace(removal, paired=True)
    return near.first * paired if isinstance(near, Product) else paired


@dataclass(frozen=True)
class Options:
    """How F is taken: the options that every method has (:class:`~graphfaith.explainers.base.FaithfulExplainer`)."""

    num_hops: int | None = None
    edges: Edges = "auto"
    max_memory: int | str | None = None

    def __post_init__(self) -> None:
        """Check the options before anything is read or trained."""
        if self.num_hops is not None:
            check_count(self.num_hops, "num_hops")
        check_edges(self.edges)
        parse_memory(self.max_memory)


def prepare(model: Any, data: Any) -> Data:
    """Check that these are a model and its graph, and return the graph in the precision of the model's parameters."""
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"model must be a torch.nn.Module (got {type(model).__name__})")
    if not isinstance(data, Data):
        raise InputError(
            f"data must be a torch_geometric.data.Data (got {type(data).__name__}); graphs of several types can be "
            "converted by to_homogeneous()"
        )
    if data.get("edge_index") is None and data.get("adj_t") is not None:
        data = _with_edges(data)
    for name in ("x", "edge_index"):
        if not isinstance(data.get(name), Tensor):
            raise InputError(f"data needs the tensor {name!r} (got {type(data.get(name)).__name__})")
    reason = reason_to_adapt(unwrap(model), data.edge_index)
    if reason is not None:
        raise UnsupportedError(f"graphfaith {reason}")
    data = convert_precision(model, data)
    Graph.of(data.x, data.edge_index)  # raises if they are no graph
    return data


def _with_edges(data: Data) -> Data:
    """Return a graph that has a sparse matrix ``adj_t`` with its entries as ``edge_index`` and ``edge_weight``."""
    edge_index, weight = edges_of(data.adj_t)
    converted = copy.copy(data)
    converted.adj_t, converted.edge_index = None, edge_index
    # A matrix of torch.sparse has values in any case. If all are 1, they are no weights.
    if weight is not None and not bool((weight == 1).all()):
        converted.edge_weight = weight
    return converted


@dataclass(frozen=True, eq=False)
class Subject(Fitting):
    """A model and a graph, explained one row of the output at a time.

    Args:
        model: the trained model.
        data: the graph, with whatever else the model's forward takes by name.
        task: what the output means.
        options: how F is taken.
        labels: the class of every row of the output, if not the predicted class is to be explained.
        together: the nodes that PGExplainer is trained on; None trains it on each node by itself.

    >>> from torch_geometric.nn import GAT
    >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> subject = Subject(GAT(2, 4, 2, out_channels=3), Data(x=torch.eye(4)[:, :2], edge_index=ring))
    >>> explanation = subject.explain(1, "saliency", "B(A,0.5)")
    >>> explanation.edge_route, explanation.unfaithfulness.num_samples
    ('removal', 500)
    """

    model: torch.nn.Module
    data: Data
    task: Task = field(default_factory=Task)
    options: Options = field(default_factory=Options)
    labels: Tensor | None = None
    together: tuple[int, ...] | None = None

    def to(self, device: torch.device | str) -> Subject:
        """Return the same subject on a device. The model itself is moved, as by ``model.to``; the graph is copied."""
        where = check_device(device)
        labels = None if self.labels is None else self.labels.to(where)
        return replace(self, model=self.model.to(where), data=copy.copy(self.data).to(where), labels=labels)

    @cached_property
    def arguments(self) -> dict[str, Tensor]:
        """What the model is called with beside ``x`` and ``edge_index``."""
        return arguments_for(self.model, self.data)

    def target(self, index: int) -> Target:
        """Return F for a row of the output; a model or graph that cannot be explained is an error here."""
        words: dict[str, Any] = {**asdict(self.task), **asdict(self.options)}
        return Target(self.model, self.data.x, self.data.edge_index, index, self.labels, inputs=self.arguments, **words)

    def explainer(
        self, method: str, neighborhood: Neighborhood | str = NEIGHBORHOOD, *, samples: Samples = 200, seed: int = 0
    ) -> Explainer:
        """Return PyG's Explainer with the method of that name, which scores every feature and every edge."""
        near = self.near(neighborhood)
        return self.explainer_with(method_named(method).make_for(near, samples, seed, **asdict(self.options)))

    def near(self, neighborhood: Neighborhood | str) -> Neighborhood:
        """Return the neighbourhood that a text means on this graph (:func:`neighborhood_on`)."""
        return neighborhood_on(self.data, neighborhood)

    def explainer_with(self, algorithm: Any) -> Explainer:
        """Return PyG's Explainer with an algorithm, which scores every feature and every edge."""
        slopes = getattr(algorithm, "follows_slopes", False)
        return Explainer(
            self.model,
            algorithm=algorithm,
            explanation_type="model" if self.labels is None else "phenomenon",
            # Categories have no derivatives, so that methods which follow these explain the edges alone.
            node_mask_type=None if is_categorical(self.data.x) and slopes else "attributes",
            edge_mask_type="object",
            model_config=self.task.model_config,
        )

    def explain(
        self,
        index: int,
        method: str = METHOD,
        neighborhood: Neighborhood | str = NEIGHBORHOOD,
        *,
        samples: Samples = 200,
        test_samples: int = 500,
        seed: int = 0,
        also: Neighborhood | str | None = None,
    ) -> SignedExplanation:
        """Return an explanation with its score on samples of the next seed, its names and the seconds it took.

        ``also`` is a second neighbourhood to score it in, for the kind of scores that the first one leaves still.
        """
        neighborhood, also = self.near(neighborhood), None if also is None else self.near(also)
        explainer, data = self.explainer(method, neighborhood, samples=samples, seed=seed), self.data
        target = {} if self.labels is None else {"target": self.labels}
        # PyG's Explainer runs the model by itself, to predict. In here it does so in a mode that is restored.
        with evaluating(self.model):
            started = time.perf_counter()
            explanation: SignedExplanation = explainer(data.x, data.edge_index, index=index, **target, **self.arguments)
            explanation.seconds = time.perf_counter() - started
            # The last measurement is the one that stands above the others.
            for near in (neighborhood,) if also is None else (also, neighborhood):
                general_unfaithfulness(explainer, explanation, near, num_samples=test_samples, seed=seed + 1)
        for given in ("node_kinds", "edge_orders"):
            if data.get(given) is not None:
                explanation[given] = data[given]
        classes = data.get("class_names")
        if classes is not None and num_classes_of(explanation) != len(classes):
            classes = None  # They are those of another task on the same graph, as the papers' classes for links.
        return explanation.name(data.get("node_names"), data.get("feature_names"), classes)

    def fit(
        self,
        method: str,
        index: int,
        neighborhood: Neighborhood | str = NEIGHBORHOOD,
        *,
        samples: Samples = 200,
        seed: int = 0,
    ) -> Fit:
        """Return a method's p for a row of the output; PGExplainer may have been trained on several rows together."""
        if method == "pgexplainer" and self.together is not None:
            explainer, shared = self._train_together(seed)
            return self._fit_by(explainer, index, shared)
        return super().fit(method, index, neighborhood, samples=samples, seed=seed)

    def _target_of(self, algorithm: Any, index: int) -> Target:
        target: Target = algorithm.target(
            self.model, self.data.x, self.data.edge_index, index, self.labels, self.arguments
        )
        return target

    def _train_together(self, seed: int) -> tuple[Explainer, float]:
        """Return PGExplainer, trained on ``together``, and the seconds of that for each of the nodes."""
        if seed not in self._trained:
            assert self.together is not None
            explainer, data = self.explainer("pgexplainer", seed=seed), self.data
            labels = self.labels
            if labels is None:
                labels = explainer.get_target(explainer.get_prediction(data.x, data.edge_index, **self.arguments))
            started = time.perf_counter()
            explainer.algorithm.train_on(
                self.model, data.x, data.edge_index, self.together, target=labels, **self.arguments
            )
            self._trained[seed] = explainer, (time.perf_counter() - started) / len(self.together)
        return self._trained[seed]

    @cached_property
    def _trained(self) -> dict[int, tuple[Explainer, float]]:
        return {}
