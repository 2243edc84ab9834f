"""One explanation for each of many nodes, where PyG's ``index`` of several would give one for all of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor
from torch_geometric.explain import Explainer, Explanation
from torch_geometric.explain.config import ExplanationType

from .errors import InputError
from .progress import track
from .task import Task


def explain_nodes(
    explainer: Explainer,
    x: Tensor,
    edge_index: Tensor,
    nodes: int | Iterable[int] | Tensor | None = None,
    *,
    target: Tensor | None = None,
    progress: bool | None = None,
    **kwargs: Any,
) -> Iterator[Explanation]:
    """Explain nodes one at a time: an iterator of explanations, each made when it is asked for.

    Each is what ``explainer(x, edge_index, index=node, ...)`` gives, but the model predicts on the whole graph only
    once. At edge or graph level ``nodes`` are rows of the model's output. None is all of them. ``progress`` shows a
    bar on standard error; None shows it on a terminal.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.nn import GCN
    >>> explainer = Explainer(GCN(2, 4, 2, out_channels=3), gf.Saliency(), explanation_type="model",
    ...                       node_mask_type="attributes", edge_mask_type="object",
    ...                       model_config=dict(mode="multiclass_classification", task_level="node", return_type="raw"))
    >>> ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> [int(explanation.index) for explanation in gf.explain_nodes(explainer, torch.rand(3, 2), ring, [2, 0])]
    [2, 0]
    """
    config = explainer.model_config
    task = Task(config.mode.value, config.return_type.value, config.task_level.value)
    if not isinstance(x, Tensor):
        raise InputError(f"x must be a tensor of shape [nodes, features] (got {type(x).__name__})")
    named = list(nodes) if isinstance(nodes, Iterable) and not isinstance(nodes, Tensor) else nodes
    if task.level == "node":
        rows = task.rows(named, len(x)).tolist()  # what is wrong with them is said now, not at the first one
    once = copy.copy(explainer)
    if explainer.explanation_type == ExplanationType.model:
        if target is not None:
            raise InputError('target is for explanation_type="phenomenon": the model gives its own here')
        prediction = explainer.get_prediction(x, edge_index, **kwargs)
        once.get_prediction = lambda *_, **__: prediction
        target_rows = len(prediction) if prediction.dim() else 1
    else:
        if target is None:
            raise InputError('explanation_type="phenomenon" needs target=, the class of every row of the output')
        target_rows = len(target) if target.dim() else 1
    if task.level != "node":
        rows = task.rows(named, target_rows).tolist()
    return _one_by_one(once, x, edge_index, rows, target, f"{task.level}s", progress, kwargs)


def _one_by_one(
    explainer: Explainer,
    x: Tensor,
    edge_index: Tensor,
    rows: list[int],
    target: Tensor | None,
    what: str,
    progress: bool | None,
    kwargs: dict[str, Any],
) -> Iterator[Explanation]:
    for row in track(rows, "explaining", what, show=progress):
        yield explainer(x, edge_index, target=target, index=row, **kwargs)
