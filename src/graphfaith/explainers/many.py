"""One explanation for each of many nodes, where PyG's ``index`` of several would give one for all of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation
from torch_geometric.explain.config import ExplanationType

from .._base.errors import InputError, UnsupportedError
from .._base.progress import track
from ..model.task import Task
from . import FaithfulExplainer
from .sweep import AT_LEAST, Sweep, why_not


def explain_nodes(
    explainer: Explainer,
    x: Tensor,
    edge_index: Tensor,
    nodes: int | Iterable[int] | Tensor | None = None,
    *,
    target: Tensor | None = None,
    progress: bool | None = None,
    together: bool | None = None,
    **kwargs: Any,
) -> Iterator[Explanation]:
    """Explain each of many nodes: an iterator of explanations, made as they are asked for.

    Each is what ``explainer(x, edge_index, index=node, ...)`` gives, but the model predicts on the whole graph only
    once. At edge or graph level ``nodes`` are rows of the model's output. None is all of them. ``progress`` shows a
    bar on standard error; None shows it on a terminal.

    Nodes can be explained ``together``, from one set of perturbed graphs (:mod:`graphfaith.explainers.sweep`), which is
    several times faster, but the first ones wait for others. That needs KEC in a neighbourhood of edges, and a model
    that does not look at the whole graph. None does so where it is possible, from 16 nodes on.

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
        predicted = explainer.get_target(prediction)
        once.get_prediction = lambda *_, **__: prediction
        once.get_target = lambda _: predicted
        target_rows = len(prediction) if prediction.dim() else 1
    else:
        if target is None:
            raise InputError('explanation_type="phenomenon" needs target=, the class of every row of the output')
        target_rows = len(target) if target.dim() else 1
    if task.level != "node":
        rows = task.rows(named, target_rows).tolist()
    reason = why_not(explainer.algorithm, task.level)
    if together and reason is not None:
        raise UnsupportedError(f"these {task.level}s cannot be explained together: {reason}")
    if together or (together is None and reason is None and len(rows) >= AT_LEAST):
        found = _together(once, x, edge_index, rows, target, kwargs, forced=bool(together))
    else:
        found = _one_by_one(once, x, edge_index, rows, target, kwargs)
    return track(found, "explaining", f"{task.level}s", show=progress, total=len(rows))


def _one_by_one(
    explainer: Explainer, x: Tensor, edge_index: Tensor, rows: list[int], target: Tensor | None, kwargs: dict[str, Any]
) -> Iterator[Explanation]:
    algorithm, alone = explainer.algorithm, None
    usual = isinstance(algorithm, FaithfulExplainer) and type(explainer).__call__ is Explainer.__call__
    for row in rows:
        if alone is None or not usual:
            alone = explainer(x, edge_index, target=target, index=row, **kwargs)
            yield alone
        else:  # as PyG's Explainer does it
            own = algorithm(explainer.model, x, edge_index, target=alone.target, index=torch.tensor([row]), **kwargs)
            yield _completed(own, row, explainer, alone, kwargs)


def _completed(
    explanation: Explanation, row: int, explainer: Explainer, like: Explanation, kwargs: dict[str, Any]
) -> Explanation:
    """What PyG adds to an explanation: the model's arguments and its answer, ``like`` in that of another row."""
    explanation._model_config, explanation._model_args = like._model_config, list(kwargs)
    for name in ("prediction", "target", "x", "edge_index", *kwargs):
        value = like.get(name)
        if value is not None:
            explanation[name] = value
    explanation["index"] = torch.tensor([row])
    return explanation.threshold(explainer.threshold_config)


def _together(
    explainer: Explainer,
    x: Tensor,
    edge_index: Tensor,
    rows: list[int],
    target: Tensor | None,
    kwargs: dict[str, Any],
    *,
    forced: bool,
) -> Iterator[Explanation]:
    algorithm = explainer.algorithm
    # The first one is made alone as well: it checks all there is to check, and has what PyG adds to an explanation.
    alone = explainer(x, edge_index, target=target, index=rows[0], **kwargs)
    first = algorithm.target(explainer.model, x, edge_index, rows[0], alone.target, kwargs)
    if first.call.degrees is None:
        if forced:
            raise UnsupportedError(
                f"{type(explainer.model).__name__} looks at the whole graph for every node: together=True is of no use"
            )
        yield from _one_by_one(explainer, x, edge_index, rows, target, kwargs)
        return
    found = Sweep(algorithm, first, x, edge_index, alone.target, kwargs).explanations(rows)
    for row, explanation in zip(rows, found, strict=True):
        if explanation is None:
            yield explainer(x, edge_index, target=target, index=row, **kwargs)
        else:
            yield _completed(explanation, row, explainer, alone, kwargs)
