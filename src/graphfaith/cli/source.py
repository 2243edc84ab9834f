"""The model and graph of a command: a data set with a model trained on it, or the user's model and graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from torch_geometric.data import Data

from .._base.console import Notes
from .._base.errors import UnsupportedError
from ..data.graph_file import NAMES
from ..data.models import Trained, load_trained
from ..data.own_model import load_model
from ..facade import Options, Subject
from ..model.arguments import arguments_for, convert_precision
from ..model.task import Task
from .arguments import check_nodes

err = Notes()


def open_subject(
    dataset: str, model: str | None, graph: Data | None, index: int, task: Task, options: Options, seed: int
) -> Subject:
    """Return the user's model on the user's graph, or else a data set with its trained model.

    A model of the user is run once at row ``index`` of its output, so that errors show at once.
    """
    if graph is not None and model is not None:
        return _open_user_model(model, graph, dataset, index, task, options)
    check_nodes(dataset, [index])
    fit = train(dataset, seed)
    return Subject(fit.model, fit.data, task, options)


def train(dataset: str, seed: int) -> Trained:
    """Return the model of a data set, trained now or earlier, and print its test accuracy."""
    fit = load_trained(dataset, seed=seed, progress=True)
    say(f"{dataset}: test accuracy {100 * fit.test_accuracy:.1f} %")
    return fit


def _open_user_model(model: str, graph: Data, label: str, index: int, task: Task, options: Options) -> Subject:
    """Return the user's model on the user's graph, run it once at row ``index``, and print its arguments."""
    module = load_model(model)
    subject = Subject(module, convert_precision(module, graph), task, options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        subject.target(index)
    for warning in caught:
        say(f"note: {warning.message}")
    given = ["x", "edge_index", *arguments_for(module, graph)]
    unused = sorted(set(graph.keys()) - {*given, *NAMES})
    size = f"{len(graph.x)} nodes, {graph.edge_index.size(1)} edges, {graph.x.size(1)} features"
    say(f"{label}: {size}; the model is given {', '.join(given)}" + f" (not {', '.join(unused)})" * bool(unused))
    return subject


def select_supported(subject: Subject, methods: Sequence[str]) -> list[str]:
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


def say(text: str) -> None:
    """Print a line for the user to standard error, which keeps standard output free for the results."""
    err.print(text, highlight=False, markup=False, soft_wrap=True)
