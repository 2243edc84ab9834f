"""What kind of model it is, found out from its output and the labels of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._base.errors import InputError, ModelError
from .arguments import arguments_for
from .call import as_rows
from .failure import describe_failure
from .home import check_home
from .record import evaluating
from .task import RETURN_TYPES, Task

_TOLERANCE = 1e-4  # by which probabilities of a row may miss 1


def find_task(
    model: torch.nn.Module, data: Data, level: str = "node", mode: str | None = None, return_type: str | None = None
) -> Task:
    """Return the task of ``model``; what is not given is found out from its output on ``data``.

    Two or more numbers a row are a classifier's, unless the labels are as many real numbers a row. One number a row is
    a binary classifier's if all labels are 0 or 1 (missing ones, NaN or -1, are left out), and a regression's if they
    are other real numbers; otherwise ``mode`` has to be given. Rows that sum to 1 are probabilities, rows whose
    exponentials do are log-probabilities, other outputs are "raw".

    >>> from torch_geometric.nn import GCN
    >>> ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> find_task(GCN(2, 4, 2, out_channels=3), Data(x=torch.rand(3, 2), edge_index=ring))
    Task(mode='multiclass_classification', return_type='raw', level='node')
    """
    if mode is not None and (return_type is not None or len(RETURN_TYPES.get(mode, ("",))) == 1):
        return Task(mode, return_type or "raw", level)
    out = _run(model, data, Task(level=level))
    return task_of(out, _labels_of(data, level), level, mode, return_type)


def task_of(out: Tensor, labels: Tensor | None, level: str, mode: str | None, return_type: str | None) -> Task:
    """Return the task of a model with this output; what is not given is found out as :func:`find_task` does."""
    mode = _find_mode(out, labels) if mode is None else mode
    return Task(mode, return_type or _find_return_type(out, mode), level)


def _run(model: torch.nn.Module, data: Data, task: Task) -> Tensor:
    arguments = arguments_for(model, data)
    check_home(model, {"x": data.x, "edge_index": data.edge_index, **arguments})
    return run_typed(model, data.x, data.edge_index, arguments, task)


def run_typed(model: torch.nn.Module, x: Any, edge_index: Any, arguments: Mapping[str, Any], task: Task) -> Tensor:
    """Return the rows of a model's output; features and edges may be tensors, or dictionaries by type."""
    with evaluating(model), torch.no_grad():
        try:
            out = model(x, edge_index, **arguments)
        except (Exception, SystemExit) as error:  # the user's own forward may raise anything
            raise ModelError(f"the model cannot be run on this graph: {describe_failure(model, error)}") from error
    return as_rows(out, task)


def _labels_of(data: Data, level: str) -> Tensor | None:
    labels = data.get("edge_label") if level == "edge" else data.get("y")
    return labels if isinstance(labels, Tensor) and labels.dim() and labels.numel() else None


def _find_mode(out: Tensor, labels: Tensor | None) -> str:
    if labels is not None and len(labels) != len(out):
        labels = None  # they are labels of something else
    if out.dim() > 1 and out.size(-1) > 1:
        if labels is None or labels.shape != out.shape:
            return "multiclass_classification"
        if _is_binary(labels):
            raise InputError(
                "the labels are several 0 and 1 a row, and graphfaith explains one class at a time: say "
                'mode="multiclass_classification" to explain the class with the largest output'
            )
        return "regression"
    if labels is not None:
        known = labels[torch.isfinite(labels)] if labels.is_floating_point() else labels[labels >= 0]
        if known.numel() and _is_binary(known):
            return "binary_classification"
        if labels.is_floating_point():
            return "regression"
    raise InputError(
        "the model returns one number a row, which a binary classifier and a regression both do: say "
        'mode="binary_classification" or mode="regression"'
    )


def _is_binary(labels: Tensor) -> bool:
    return bool(((labels == 0) | (labels == 1)).all())


def _find_return_type(out: Tensor, mode: str) -> str:
    if mode == "multiclass_classification":
        if bool((out >= 0).all()) and bool(((out.sum(dim=-1) - 1).abs() <= _TOLERANCE).all()):
            return "probs"
        if bool((out <= 0).all()) and bool((out.logsumexp(dim=-1).abs() <= _TOLERANCE).all()):
            return "log_probs"
    if mode == "binary_classification" and bool(((out >= 0) & (out <= 1)).all()):
        return "probs"
    return "raw"
