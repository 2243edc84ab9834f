"""One explanation for each of many nodes; PyG's ``index`` with several nodes gives one explanation for all of them."""

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
from ..graph.graph import check_features
from ..model.task import Task
from . import FaithfulExplainer
from .sweep import AT_LEAST, Sweep, reason_against


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
    """Return an iterator over the explanations of many nodes, each of which is computed when it is requested.

    Each explanation is the one that ``explainer(x, edge_index, index=node, ...)`` returns, but the model predicts on
    the whole graph only once. At edge or graph level, ``nodes`` are rows of the model's output. If ``nodes`` is None,
    all of them are explained. ``progress`` shows a progress bar on standard error; None shows it only on a terminal.

    If ``together`` is True, the nodes are explained from one set of perturbed graphs
    (:mod:`graphfaith.explainers.sweep`). This is several times faster, but the first explanation takes longer. It needs
    KEC in a neighbourhood of edges, and a model that does not read the whole graph for every node. If ``together`` is
    None, this is done for 16 nodes or more, if it is possible.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.nn import GCN
    >>> explainer = Explainer(GCN(2, 4, 2, out_channels=3), gf.Saliency(), explanation_type="model",
    ...                       node_mask_type="attributes", edge_mask_type="object",
    ...                       model_config=dict(mode="multiclass_classification", task_level="node", return_type="raw"))
    >>> ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> [int(explanation.index) for explanation in gf.explain_nodes(explainer, torch.rand(3, 2), ring, [2, 0])]
    [2, 0]
    """
    if not isinstance(explainer, Explainer):
        raise InputError(f"a torch_geometric.explain.Explainer is needed first (got {type(explainer).__name__})")
    config = explainer.model_config
    task = Task(config.mode.value, config.return_type.value, config.task_level.value)
    if not isinstance(x, Tensor):
        raise InputError(f"x must be a tensor of shape [nodes, features] (got {type(x).__name__})")
    named = list(nodes) if isinstance(nodes, Iterable) and not isinstance(nodes, Tensor) else nodes
    if task.level == "node":
        rows = task.rows(named, len(x)).tolist()  # This raises an error now, and not when the iterator is first used.
    once = copy.copy(explainer)
    if explainer.explanation_type == ExplanationType.model:
        if target is not None:
            raise InputError('target is for explanation_type="phenomenon": leave it out for explanation_type="model"')
        if isinstance(explainer.algorithm, FaithfulExplainer):
            check_features(x)  # before the model runs, which would raise an error that does not say what is right
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
    reason = reason_against(explainer.algorithm, task.level)
    if together and reason is not None:
        raise UnsupportedError(f"these {task.level}s cannot be explained together: {reason}")
    if together or (together is None and reason is None and len(rows) >= AT_LEAST):
        explanations = _explain_together(once, x, edge_index, rows, target, kwargs, forced=bool(together))
    else:
        explanations = _explain_one_by_one(once, x, edge_index, rows, target, kwargs)
    return track(explanations, "explaining", f"{task.level}s", show=progress, total=len(rows))


def _explain_one_by_one(
    explainer: Explainer, x: Tensor, edge_index: Tensor, rows: list[int], target: Tensor | None, kwargs: dict[str, Any]
) -> Iterator[Explanation]:
    """Yield the explanations of rows, each computed by itself."""
    algorithm, first = explainer.algorithm, None
    # The shortcut below repeats what PyG's Explainer does, so it is not used if a subclass does something else.
    usual = isinstance(algorithm, FaithfulExplainer) and type(explainer).__call__ is Explainer.__call__
    for row in rows:
        if first is None or not usual:
            first = explainer(x, edge_index, target=target, index=row, **kwargs)
            yield first
        else:
            index = torch.tensor([row])
            explanation = algorithm(explainer.model, x, edge_index, target=first.target, index=index, **kwargs)
            yield _complete(explanation, row, explainer, first, kwargs)


def _complete(
    explanation: Explanation, row: int, explainer: Explainer, like: Explanation, kwargs: dict[str, Any]
) -> Explanation:
    """Add the fields that PyG adds to an explanation, with the values of ``like``, the explanation of another row."""
    explanation._model_config, explanation._model_args = like._model_config, list(kwargs)
    for name in ("prediction", "target", "x", "edge_index", *kwargs):
        value = like.get(name)
        if value is not None:
            explanation[name] = value
    explanation["index"] = torch.tensor([row])
    return explanation.threshold(explainer.threshold_config)


def _explain_together(
    explainer: Explainer,
    x: Tensor,
    edge_index: Tensor,
    rows: list[int],
    target: Tensor | None,
    kwargs: dict[str, Any],
    *,
    forced: bool,
) -> Iterator[Explanation]:
    """Yield the explanations of rows, computed together from one set of perturbed graphs where that is possible."""
    algorithm = explainer.algorithm
    # The first row is also explained alone. This checks all arguments, and gives the fields that PyG adds.
    alone = explainer(x, edge_index, target=target, index=rows[0], **kwargs)
    first = algorithm.target(explainer.model, x, edge_index, rows[0], alone.target, kwargs)
    if first.call.degrees is None:
        if forced:
            raise UnsupportedError(
                f"{type(explainer.model).__name__} looks at the whole graph for every node: together=True "
                "cannot be used"
            )
        yield from _explain_one_by_one(explainer, x, edge_index, rows, target, kwargs)
        return
    explanations = Sweep(algorithm, first, x, edge_index, alone.target, kwargs).explanations(rows)
    for row, explanation in zip(rows, explanations, strict=True):
        if explanation is None:
            yield explainer(x, edge_index, target=target, index=row, **kwargs)
        else:
            yield _complete(explanation, row, explainer, alone, kwargs)
