"""Where a command's subject comes from: a data set with a model trained here, or the user's own of both."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from rich.console import Console
from torch_geometric.data import Data

from .._base.errors import UnsupportedError
from ..data.graph_file import NAMES
from ..data.models import Trained, trained
from ..data.own_model import load_model
from ..facade import Options, Subject
from ..model.arguments import arguments_for, in_precision_of
from ..model.task import Task
from .arguments import check_nodes

err = Console(stderr=True)


def open_subject(
    dataset: str, model: str | None, graph: Data | None, index: int, task: Task, options: Options, seed: int
) -> Subject:
    """The user's model on the user's graph, or the data set's; tried at the row ``index`` of the output."""
    if graph is not None and model is not None:
        return _own(model, graph, dataset, index, task, options)
    check_nodes(dataset, [index])
    fit = train(dataset, seed)
    return Subject(fit.model, fit.data, task, options)


def train(dataset: str, seed: int) -> Trained:
    """The model of a data set, trained now or before; says how good it is."""
    fit = trained(dataset, seed=seed, progress=True)
    say(f"{dataset}: test accuracy {100 * fit.test_accuracy:.1f} %")
    return fit


def _own(model: str, graph: Data, label: str, index: int, task: Task, options: Options) -> Subject:
    """The user's model on the user's graph, tried once; says what it was called with."""
    made = load_model(model)
    subject = Subject(made, in_precision_of(made, graph), task, options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        subject.target(index)
    for warning in caught:
        say(f"note: {warning.message}")
    given = ["x", "edge_index", *arguments_for(made, graph)]
    unused = sorted(set(graph.keys()) - {*given, *NAMES})
    size = f"{len(graph.x)} nodes, {graph.edge_index.size(1)} edges, {graph.x.size(1)} features"
    say(f"{label}: {size}; the model is given {', '.join(given)}" + f" (not {', '.join(unused)})" * bool(unused))
    return subject


def supported(subject: Subject, methods: Sequence[str]) -> list[str]:
    """Of all methods those that can explain such a model; says which cannot."""
    found = []
    for name in methods:
        try:
            subject.explainer(name, "U(A,0.5)")
        except UnsupportedError as error:
            say(f"note: {name} is left out: {error}")
        else:
            found.append(name)
    return found


def say(text: str) -> None:
    """A line for the user that is no result."""
    err.print(text, highlight=False, markup=False, soft_wrap=True)
