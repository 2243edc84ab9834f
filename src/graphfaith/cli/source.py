"""The model and graph of a command: a data set with a model trained on it, or the user's model and graph."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch_geometric.data import Data, HeteroData

from .._base.errors import UnsupportedError, show
from ..data.graph_file import NAMES, read_any_graph
from ..data.models import Trained, load_trained
from ..data.own_model import load_model
from ..explainers.base import Samples
from ..facade import Options, Subject, TypedSubject
from ..model.arguments import arguments_for, convert_precision
from ..model.call import check_edges
from ..model.home import check_device, home_of
from ..model.task import Task
from .arguments import check_nodes, check_numbers, check_types, neighborhoods_of, samples_of, source_of
from .notes import say


@dataclass(frozen=True)
class Request:
    """What a command is asked about, checked: whose model on which graph, where, and from how many samples."""

    label: str
    model: str | None
    graph: Data | HeteroData | None
    near: list[str]
    samples: Samples
    task: Task
    options: Options
    model_seed: int
    device: str | None
    node_type: str | None = None

    def open(self, index: int) -> Subject:
        """Return the model on the graph of one type; see :func:`open_subject`."""
        subject = self.open_any(index)
        assert isinstance(subject, Subject)  # as read_request has checked, unless it was told otherwise
        return subject

    def open_any(self, index: int) -> Subject | TypedSubject:
        """Return the model on the graph, which may have several types; see :func:`open_subject`."""
        where = self.task, self.options, self.model_seed, self.device, self.node_type
        return open_subject(self.label, self.model, self.graph, index, *where)


def read_request(
    source: tuple[str | None, str | None, Path | None],
    task: Task,
    options: tuple[int | None, str, str | None],
    methods: Sequence[str],
    neighborhoods: Sequence[str],
    samples: str,
    test_samples: int,
    seeds: tuple[int, int],
    device: str | None,
    typed: str | None = None,
    node_type: str | None = None,
) -> Request:
    """Check what is common to commands that explain, before any work.

    Args:
        source: the data set, the user's model and the user's graph, each as it was given.
        task: what the output means.
        options: the number of hops, how edges are perturbed, and the limit on memory.
        methods: the names of the library's methods that are used.
        neighborhoods: where they explain.
        samples: how many samples they are fitted on, as it was given.
        test_samples: how many others they are scored on.
        seeds: that of the samples and that of the training.
        device: where the model is run, if it was said.
        typed: why the command takes no graph of several types, and what does; None if it takes them.
        node_type: whose rows the output of a model on such a graph has, if it was said.
    """
    check_device("cpu" if device is None else device)
    hops, edges, memory = options
    checked = Options(hops, check_edges(edges), memory)
    dataset, model, data = source
    label = source_of(dataset, model, data, task, seeds[1])
    count = samples_of(samples, methods)
    check_numbers(test_samples, *seeds)
    graph = None if data is None else read_any_graph(data)
    check_types(label, graph, typed, node_type)
    near = neighborhoods_of(neighborhoods, label, graph)
    return Request(label, model, graph, near, count, task, checked, seeds[1], device, node_type)


def open_subject(
    dataset: str,
    model: str | None,
    graph: Data | HeteroData | None,
    index: int,
    task: Task,
    options: Options,
    seed: int,
    device: str | None = None,
    node_type: str | None = None,
) -> Subject | TypedSubject:
    """Return the user's model on the user's graph, or else a data set with its trained model, on a ``device``.

    A model of the user is run once at row ``index`` of its output, so that errors show at once.
    """
    if graph is not None and model is not None:
        return _open_user_model(model, graph, dataset, index, task, options, device, node_type)
    check_nodes(dataset, [index])
    fit = train(dataset, seed, device)
    if isinstance(fit.data, HeteroData):
        return TypedSubject(fit.model, fit.data, node_type, task.level, task.mode, task.return_type, options)
    return Subject(fit.model, fit.data, task, options)


def train(dataset: str, seed: int, device: str | None = None) -> Trained:
    """Return the model of a data set, trained now or earlier, and print its test accuracy."""
    fit = load_trained(dataset, seed=seed, progress=True, device=device)
    say(f"{dataset}: test accuracy {100 * fit.test_accuracy:.1f} %")
    return fit


def _open_user_model(
    model: str,
    graph: Data | HeteroData,
    label: str,
    index: int,
    task: Task,
    options: Options,
    device: str | None,
    node_type: str | None,
) -> Subject | TypedSubject:
    """Return the user's model on the user's graph, run it once at row ``index``, and print its arguments.

    Without a ``device`` the graph goes where the model is.
    """
    module = load_model(model)
    home = home_of(module) if device is None else device
    subject: Subject | TypedSubject
    if isinstance(graph, HeteroData):
        given_task = task.level, task.mode, task.return_type
        subject = TypedSubject(module.to(home), copy.copy(graph).to(home), node_type, *given_task, options)
    else:
        subject = Subject(module, convert_precision(module, graph), task, options).to(home)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        subject.target(index)
    for warning in caught:
        say(f"note: {warning.message}")
    if isinstance(subject, TypedSubject):
        say(f"{label}: {_sizes(subject)}; the model is given {', '.join(['x', 'edge_index', *subject.arguments])}")
        return subject
    given = ["x", "edge_index", *arguments_for(module, graph)]
    unused = sorted(set(graph.keys()) - {*given, *NAMES})
    size = f"{len(graph.x)} nodes, {graph.edge_index.size(1)} edges, {graph.x.size(1)} features"
    say(f"{label}: {size}; the model is given {', '.join(given)}" + f" (not {', '.join(unused)})" * bool(unused))
    return subject


def _sizes(subject: TypedSubject) -> str:
    """Return how many nodes and edges of each type a graph has, in words."""
    nodes = [f"{len(x)} {show(name)} nodes" for name, x in subject.x.items()]
    edges = [f"{ends.size(1)} {show(name)}" for name, ends in subject.edge_index.items()]
    return f"{', '.join(nodes)}; edges: {', '.join(edges)}"


def select_supported(subject: Subject | TypedSubject, methods: Sequence[str]) -> list[str]:
    """Return the methods that can explain the model, and print why the others cannot."""
    supported = []
    for name in methods:
        try:
            subject.explainer(name, "U(A,0.5)")
        except UnsupportedError as error:
            say(f"note: {name} is left out: {error}")
        else:
            supported.append(name)
    return supported
