"""One explanation for each of many nodes; PyG's ``index`` with several nodes gives one explanation for all of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation
from torch_geometric.explain.config import ExplanationType

from .._base.errors import InputError, UnsupportedError
from .._base.progress import track
from .._base.stages import stage
from .._base.version import __version__
from ..graph.graph import check_features
from ..model.side_by_side import may_stand_side_by_side
from ..model.task import Task
from . import AnchoredKEC, FaithfulExplainer
from .anchored_sweep import AnchoredBlock
from .feature_sweep import AnchoredFeatureBlock, FeatureBlock
from .records import Records, RecordsBuilder, has_nodes
from .sweep import AT_LEAST, Block, Sweep, reason_against


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
    KEC or AnchoredKEC, and a model that does not read the whole graph for every node; for AnchoredKEC in a
    neighbourhood of edges one that is given no tensors beside X and A. If ``together`` is None, this is done for 16
    nodes or more, if it is possible.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.nn import GCN
    >>> explainer = Explainer(GCN(2, 4, 2, out_channels=3), gf.Saliency(), explanation_type="model",
    ...                       node_mask_type="attributes", edge_mask_type="object",
    ...                       model_config=dict(mode="multiclass_classification", task_level="node", return_type="raw"))
    >>> ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> [int(explanation.index) for explanation in gf.explain_nodes(explainer, torch.rand(3, 2), ring, [2, 0])]
    [2, 0]
    """
    asked = _Asked.of(explainer, x, edge_index, nodes, target, kwargs)
    if together and asked.reason is not None:
        raise UnsupportedError(f"these {asked.level}s cannot be explained together: {asked.reason}")
    if together or (together is None and asked.reason is None and len(asked.rows) >= AT_LEAST):
        explanations = _explain_together(asked, forced=bool(together))
    else:
        explanations = _explain_one_by_one(asked)
    return track(explanations, "explaining", f"{asked.level}s", show=progress, total=len(asked.rows))


def explain_all(
    explainer: Explainer,
    x: Tensor,
    edge_index: Tensor,
    nodes: int | Iterable[int] | Tensor | None = None,
    *,
    target: Tensor | None = None,
    progress: bool | None = None,
    **kwargs: Any,
) -> Records:
    """Explain many nodes, all of them if ``nodes`` is None, and return their scores as a few arrays.

    The arguments and the scores are those of :func:`explain_nodes`. There is no mask of the size of the graph for every
    node, so that this is the fastest way; see :class:`~graphfaith.explainers.records.Records`.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.nn import GCN
    >>> explainer = Explainer(GCN(2, 4, 2, out_channels=3), gf.KEC("U(A,0.5)"), explanation_type="model",
    ...                       node_mask_type="attributes", edge_mask_type="object",
    ...                       model_config=dict(mode="multiclass_classification", task_level="node", return_type="raw"))
    >>> ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> records = gf.explain_all(explainer, torch.rand(3, 2), ring)
    >>> records.columns()["index"].tolist()[:7], records.source[:6].tolist(), records.sink[:6].tolist()
    ([0, 0, 0, 0, 0, 0, 1], [0, 1, 2, 0, 2, 1], [1, 2, 0, 0, 2, 1])
    """
    if isinstance(explainer, Explainer):
        _check_recorded(explainer)
    asked = _Asked.of(explainer, x, edge_index, nodes, target, kwargs)
    found = RecordsBuilder()
    if asked.reason is None and len(asked.rows) >= AT_LEAST:
        pieces = _record_together(asked, found)
    else:
        pieces = _record_one_by_one(asked, found)
    for _ in track(pieces, "explaining", f"{asked.level}s", show=progress, total=len(asked.rows)):
        pass
    algorithm = explainer.algorithm
    about = {"method": algorithm.method, "settings": algorithm.settings, "made_by": f"graphfaith {__version__}"}
    return found.finish(about)


def _check_recorded(explainer: Explainer) -> None:
    """Raise an :class:`InputError` if the scores of an explainer cannot be recorded, before any work is done."""
    if not isinstance(explainer.algorithm, FaithfulExplainer):
        raise InputError(
            f"records are made by methods of graphfaith (got {type(explainer.algorithm).__name__}): see explain_nodes"
        )
    if explainer.edge_mask_type is None:
        raise InputError('records have scores of edges: make the Explainer with edge_mask_type="object"')
    if explainer.threshold_config is not None:
        raise InputError("records have all scores: make the Explainer without threshold_config")


@dataclass(frozen=True)
class _Asked:
    """What is asked of an explainer: rows of the model's output, which predicts only once for all of them."""

    explainer: Explainer
    x: Tensor
    edge_index: Tensor
    rows: list[int]
    target: Tensor | None
    kwargs: dict[str, Any]
    level: str
    reason: str | None  # why the rows cannot be explained together

    @classmethod
    def of(
        cls,
        explainer: Explainer,
        x: Tensor,
        edge_index: Tensor,
        nodes: int | Iterable[int] | Tensor | None,
        target: Tensor | None,
        kwargs: dict[str, Any],
    ) -> _Asked:
        """Check the arguments, and let the model predict."""
        if not isinstance(explainer, Explainer):
            raise InputError(f"a torch_geometric.explain.Explainer is needed first (got {type(explainer).__name__})")
        config = explainer.model_config
        task = Task(config.mode.value, config.return_type.value, config.task_level.value)
        if not isinstance(x, Tensor):
            raise InputError(f"x must be a tensor of shape [nodes, features] (got {type(x).__name__})")
        named = list(nodes) if isinstance(nodes, Iterable) and not isinstance(nodes, Tensor) else nodes
        if task.level == "node":
            rows = task.rows(
                named, len(x)
            ).tolist()  # This raises an error now, and not when the iterator is first used.
        once = copy.copy(explainer)
        if explainer.explanation_type == ExplanationType.model:
            if target is not None:
                raise InputError(
                    'target is for explanation_type="phenomenon": leave it out for explanation_type="model"'
                )
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
        return cls(once, x, edge_index, rows, target, kwargs, task.level, reason)

    def alone(self, row: int) -> Explanation:
        """Return the explanation of one row, by PyG's Explainer."""
        return self.explainer(self.x, self.edge_index, target=self.target, index=row, **self.kwargs)


def _explain_one_by_one(asked: _Asked) -> Iterator[Explanation]:
    """Yield the explanations of rows, each computed by itself."""
    explainer, algorithm, first = asked.explainer, asked.explainer.algorithm, None
    # The shortcut below repeats what PyG's Explainer does, so it is not used if a subclass does something else.
    usual = isinstance(algorithm, FaithfulExplainer) and type(explainer).__call__ is Explainer.__call__
    for row in asked.rows:
        if first is None or not usual:
            first = asked.alone(row)
            yield first
        else:
            given = {"target": first.target, "index": torch.tensor([row]), **asked.kwargs}
            explanation = algorithm(explainer.model, asked.x, asked.edge_index, **given)
            yield _complete(explanation, row, asked, first)


def _complete(explanation: Explanation, row: int, asked: _Asked, like: Explanation) -> Explanation:
    """Add the fields that PyG adds to an explanation, with the values of ``like``, the explanation of another row."""
    explanation._model_config, explanation._model_args = like._model_config, list(asked.kwargs)
    for name in ("prediction", "target", "x", "edge_index", *asked.kwargs):
        value = like.get(name)
        if value is not None:
            explanation[name] = value
    explanation["index"] = torch.tensor([row])
    return explanation.threshold(asked.explainer.threshold_config)


def _sweep(asked: _Asked) -> tuple[Explanation, Sweep | str]:
    """Return the explanation of the first row, and the sweep over all; or why every row has to be explained alone."""
    # The first row is also explained alone. This checks all arguments, and gives the fields that PyG adds.
    alone, algorithm = asked.alone(asked.rows[0]), asked.explainer.algorithm
    first = algorithm.target(
        asked.explainer.model, asked.x, asked.edge_index, asked.rows[0], alone.target, asked.kwargs
    )
    name = type(asked.explainer.model).__name__
    if first.call.degrees is None:
        return alone, f"{name} looks at the whole graph for every node"
    anchored, moves_x = isinstance(algorithm, AnchoredKEC), algorithm.neighborhood.perturbs_features
    if anchored and not moves_x and not may_stand_side_by_side(first):
        return alone, f"{algorithm.method} needs gradients, and {name} is given other tensors beside X and A"
    kinds = ((Block, FeatureBlock), (AnchoredBlock, AnchoredFeatureBlock))
    kind = kinds[anchored][moves_x]
    return alone, Sweep(algorithm, first, asked.x, asked.edge_index, alone.target, asked.kwargs, kind)


def _explain_together(asked: _Asked, *, forced: bool) -> Iterator[Explanation]:
    """Yield the explanations of rows, computed together from one set of perturbed graphs where that is possible."""
    alone, sweep = _sweep(asked)
    if isinstance(sweep, str):
        if forced:
            raise UnsupportedError(f"{sweep}: together=True cannot be used")
        yield from _explain_one_by_one(asked)
        return
    for row, explanation in zip(asked.rows, sweep.explanations(asked.rows), strict=True):
        yield asked.alone(row) if explanation is None else _complete(explanation, row, asked, alone)


def _record_one_by_one(asked: _Asked, found: RecordsBuilder) -> Iterator[None]:
    """Record the explanations of rows, each computed by itself."""
    for row, explanation in zip(asked.rows, _explain_one_by_one(asked), strict=True):
        found.add_explanation(row, explanation, asked.explainer.algorithm)
        yield


def _record_together(asked: _Asked, found: RecordsBuilder) -> Iterator[None]:
    """Record the explanations of rows, computed together where that is possible."""
    _, sweep = _sweep(asked)
    if isinstance(sweep, str):
        yield from _record_one_by_one(asked, found)
        return
    with_nodes, done = has_nodes(asked.explainer.node_mask_type), 0
    for batch in sweep.batches(asked.rows, ahead=True):
        rows = asked.rows[done : done + len(batch)]
        for part in batch.runs():
            if batch.proven[part.start]:
                with stage("layout"):
                    found.add(**batch.records(part, with_nodes), index=rows[part])
            else:
                for row in rows[part]:
                    found.add_explanation(row, asked.alone(row), asked.explainer.algorithm)
        done += len(batch)
        yield from (None for _ in rows)
