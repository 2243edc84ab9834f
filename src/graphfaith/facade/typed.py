"""One prediction on a heterogeneous graph explained in one line, with its score."""

from __future__ import annotations

import copy
import time
from dataclasses import asdict
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer

from .._base.checks import is_whole
from .._base.errors import InputError, UnsupportedError
from ..explainers.base import Samples
from ..explainers.methods import method_named
from ..explanation.scores import num_classes_of
from ..explanation.typed import TypedExplanation
from ..graph.form import is_categorical
from ..graph.joint import join_edges, kinds_of
from ..metric.unfaithfulness import general_unfaithfulness
from ..model.adapter import edges_of, reason_to_adapt
from ..model.home import check_typed_home, parameters_of
from ..model.inference import run_typed, task_of
from ..model.joint import LINKS, Joint, OfType, arguments_of, join
from ..model.layers import unwrap
from ..model.record import evaluating
from ..model.target import Target
from ..model.task import Task
from ..sampling.neighborhood import Neighborhood
from .fitting import METHOD, NEIGHBORHOOD, Fitting
from .subject import Options, neighborhood_on


class TypedSubject(Fitting):
    """A model and a heterogeneous graph, explained one row of the output at a time.

    ``node_type`` names the nodes that the output is of, for a model that returns a dictionary, or whose output has as
    many rows as several types have nodes.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        data: HeteroData,
        node_type: str | None,
        level: str,
        mode: str | None,
        return_type: str | None,
        options: Options,
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise InputError(f"model must be a torch.nn.Module (got {type(model).__name__})")
        if level == "edge":
            raise UnsupportedError(LINKS)
        reason = reason_to_adapt(unwrap(model))
        if reason is not None:
            raise UnsupportedError(f"graphfaith {reason}")
        data = _with_edges(data)
        if node_type is not None and node_type not in data.node_types:
            raise InputError(f"there is no node type {node_type!r}: the graph has {', '.join(data.node_types)}")
        self.model = model if node_type is None else OfType(model, node_type)
        self.data, self.options = data, options
        self.x, self.edge_index = _in_precision(model, data.collect("x", True)), data.collect("edge_index", True)
        named = dict.fromkeys((*data.node_types, *(end for kind in self.edge_index for end in kind[::2])))
        lacking = [name for name in named if name not in self.x]
        if lacking or not self.edge_index:
            lacks = f"there is no x of {', '.join(lacking)}" if lacking else "there is no edge_index"
            remedy = "; for a type without features, give the model rows of an embedding as its x" if lacking else ""
            raise InputError(f"data needs x of every node type, and edges ({lacks}){remedy}")
        self.arguments = arguments_of(self.model, self._find)
        check_typed_home(model, x=self.x, edge_index=self.edge_index, **self.arguments)
        try:
            out = run_typed(self.model, self.x, self.edge_index, self.arguments, Task(level=level))
        except UnsupportedError as error:
            known = "" if node_type is not None else "; where it returns rows by type of nodes, name one as node_type"
            raise UnsupportedError(f"{error}{known}") from error
        labels = next((data[name].get("y") for name, rows in self.x.items() if len(rows) == len(out)), None)
        self.task = task_of(out, labels if isinstance(labels, Tensor) else None, level, mode, return_type)
        self.num_rows = len(out)

    def _find(self, name: str) -> Any:
        """Return what the graph has for an argument of the model."""
        found = self.data.collect(name.removesuffix("_dict"), True)
        return found or self.data._global_store.get(name)

    @cached_property
    def named_edges(self) -> Data:
        """The edges of all types in the joint numbering, and names of the nodes, "circle 3" if they have none."""
        kinds = kinds_of(self.x, self.edge_index)
        names, given = [], self._names("node_names") or {}
        for kind, name in enumerate(kinds.node_types):
            count = kinds.node_start[kind + 1] - kinds.node_start[kind]
            names += given.get(name) or [f"{name} {node}" for node in range(count)]
        return Data(edge_index=join_edges(kinds, self.edge_index), num_nodes=len(names), node_names=names)

    @cached_property
    def joint(self) -> Joint:
        """The model and the graph as one model of one graph."""
        options, weighted = self.options, self.options.edges in ("auto", "weight")
        given = self.model, self.x, self.edge_index, self.arguments, self.task.level, options.num_hops
        return join(*given, weighted=weighted)

    def near(self, neighborhood: Neighborhood | str) -> Neighborhood:
        """Return the neighbourhood that a text means on this graph (:func:`~.subject.neighborhood_on`)."""
        if isinstance(neighborhood, Neighborhood):
            return neighborhood
        return neighborhood_on(self.named_edges, neighborhood)

    def target(self, index: int) -> Target:
        """Return F for a row of the output; a model or graph that cannot be explained is an error here."""
        joint, words = self.joint, {**asdict(self.task), **asdict(self.options)}
        return Target(joint.model, joint.graph, None, joint.index(index), inputs=joint.arguments, **words)

    def _target_of(self, algorithm: Any, index: int) -> Target:
        joint = self.joint
        target: Target = algorithm.target(
            joint.model, joint.graph, None, joint.index(index), None, dict(joint.arguments)
        )
        return target

    def explainer(
        self, method: str, neighborhood: Neighborhood | str = NEIGHBORHOOD, *, samples: Samples = 200, seed: int = 0
    ) -> Explainer:
        """Return PyG's Explainer with the method of that name; one that does not explain types is an error."""
        near = self.near(neighborhood)
        algorithm = method_named(method).make_for(near, samples, seed, **asdict(self.options))
        # Categories have no derivatives, so that methods which follow these explain the edges alone.
        edges_alone = any(map(is_categorical, self.x.values())) and getattr(algorithm, "follows_slopes", False)
        explainer = Explainer(
            self.model,
            algorithm=algorithm,
            explanation_type="model",
            node_mask_type=None if edges_alone else "attributes",
            edge_mask_type="object",
            model_config=self.task.model_config,
        )
        algorithm.check_call(self.model, self.x, self.edge_index)
        return explainer

    def explain(
        self,
        index: Any,
        method: str = METHOD,
        neighborhood: Neighborhood | str = NEIGHBORHOOD,
        *,
        samples: Samples = 200,
        test_samples: int = 500,
        seed: int = 0,
        also: Neighborhood | str | None = None,
    ) -> TypedExplanation:
        """Return an explanation with its score on samples of the next seed, and the seconds it took."""
        if not is_whole(index):
            raise InputError(f"one whole number names what is explained (got {index!r})")
        near = self.near(neighborhood)
        explainer = self.explainer(method, near, samples=samples, seed=seed)
        with evaluating(self.model):
            started = time.perf_counter()
            explanation: TypedExplanation = explainer(self.x, self.edge_index, index=int(index), **self.arguments)
            explanation.seconds = time.perf_counter() - started
            for one in (near,) if also is None else (self.near(also), near):
                general_unfaithfulness(explainer, explanation, one, num_samples=test_samples, seed=seed + 1)
        classes = self.data._global_store.get("class_names")
        if classes is not None and num_classes_of(explanation.joint()) != len(classes):
            classes = None
        return explanation.name(self._names("node_names"), self._names("feature_names"), classes)

    def _names(self, key: str) -> dict[str, list[str]] | None:
        """Return names of the nodes or features of each type that has some; None if none has."""
        found: dict[str, list[str]] = self.data.collect(key, True)
        return found or None


def _with_edges(data: HeteroData) -> HeteroData:
    """Return a graph whose sparse matrices ``adj_t``, [sinks, sources], are edges with weights."""
    sparse = [store for store in data.edge_stores if "edge_index" not in store and "adj_t" in store]
    if not sparse:
        return data
    converted = copy.copy(data)
    found = {store._key: edges_of(store["adj_t"], rectangular=True) for store in sparse}
    # A matrix of torch.sparse has values in any case. If all are 1, they are no weights.
    weighted = any(weight is not None and not bool((weight == 1).all()) for _, weight in found.values())
    for kind, (edge_index, weight) in found.items():
        del converted[kind]["adj_t"]
        converted[kind].edge_index = edge_index
        if weighted:
            ones = torch.ones(edge_index.size(1), device=edge_index.device)
            converted[kind].edge_weight = ones if weight is None else weight
    return converted


def _in_precision(model: torch.nn.Module, x: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the features in the precision of the model's parameters, if these share one."""
    dtypes = {one.dtype for one in parameters_of(model) if one.is_floating_point()}
    if len(dtypes) != 1:
        return dict(x)
    dtype = dtypes.pop()
    return {name: rows.to(dtype) if rows.is_floating_point() else rows for name, rows in x.items()}
