"""One explanation for each of many nodes; PyG's ``index`` with several nodes gives one explanation for all of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation
from torch_geometric.explain.config import ExplanationType

from .._base.checks import check_count
from .._base.errors import InputError, UnsupportedError
from .._base.progress import track
from .._base.stages import stage
from .._base.version import __version__
from ..graph.packed import Column, PackedGraph
from ..model.record import evaluating
from ..model.side_by_side import may_stand_side_by_side
from ..model.target import LARGE
from ..model.task import Task
from . import AnchoredKEC, FaithfulExplainer
from .anchored_sweep import AnchoredBlock
from .feature_sweep import AnchoredFeatureBlock, FeatureBlock
from .records import Records, RecordsBuilder, has_nodes
from .sweep import AT_LEAST, WITH_FEATURES, Block, Sweep, reason_against


def explain_nodes(
    explainer: Explainer,
    x: Tensor | PackedGraph,
    edge_index: Tensor | None = None,
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

    An explanation has masks of the size of the graph. A graph that was opened (:func:`graphfaith.open_graph`) is read
    as a whole for that, and refused if it is large: see :func:`explain_all`.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.nn import GCN
    >>> explainer = Explainer(GCN(2, 4, 2, out_channels=3), gf.Saliency(), explanation_type="model",
    ...                       node_mask_type="attributes", edge_mask_type="object",
    ...                       model_config=dict(mode="multiclass_classification", task_level="node", return_type="raw"))
    >>> ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> [int(explanation.index) for explanation in gf.explain_nodes(explainer, torch.rand(3, 2), ring, [2, 0])]
    [2, 0]
    """
    if isinstance(x, PackedGraph):
        if edge_index is not None:
            raise InputError(_OWN_EDGES)
        if x.loaded_bytes > LARGE:
            raise UnsupportedError(f"masks of {x} would have the size of the graph: use explain_all, which has none")
        own = x.tensors()
        x, edge_index, labels = own.pop("x"), own.pop("edge_index"), own.pop("y", None)
        kwargs = {**own, **kwargs}
        if isinstance(explainer, Explainer) and explainer.explanation_type == ExplanationType.phenomenon:
            target = labels if target is None else target
    asked = _Asked.of(explainer, x, edge_index, nodes, target, kwargs)
    if together and asked.reason is not None:
        raise UnsupportedError(f"these {asked.level}s cannot be explained together: {asked.reason}")
    if together or (together is None and asked.pays_together):
        explanations = _explain_together(asked, forced=bool(together))
    else:
        explanations = _explain_one_by_one(asked)
    return track(explanations, "explaining", f"{asked.level}s", show=progress, total=len(asked.rows))


def explain_all(
    explainer: Explainer,
    x: Tensor | PackedGraph,
    edge_index: Tensor | None = None,
    nodes: int | Iterable[int] | Tensor | None = None,
    *,
    target: Tensor | None = None,
    progress: bool | None = None,
    top_features: int = 0,
    **kwargs: Any,
) -> Records:
    """Explain many nodes, all of them if ``nodes`` is None, and return their scores as a few arrays.

    The arguments and the scores are those of :func:`explain_nodes`. There is no mask of the size of the graph for every
    node, so that this is the fastest way; see :class:`~graphfaith.explainers.records.Records`. ``top_features`` is how
    many columns of X each explanation has scores of, the strongest ones. If features move, make the Explainer with
    ``node_mask_type="common_attributes"``, so that the scores of columns have error bars and a number of their own.

    A graph that was opened (:func:`graphfaith.open_graph`) stands in place of ``x`` and ``edge_index``. Nothing of the
    size of the graph is then made: the explained class is that of the model's output on the node's computation graph,
    or of the labels y that were packed, if the Explainer has ``explanation_type="phenomenon"``.

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
        _check_recorded(explainer, check_count(top_features, "top_features", least=0))
    asked = _Asked.of(explainer, x, edge_index, nodes, target, kwargs)
    explainer.algorithm.check_call(explainer.model, x, edge_index)
    # A table of 10^9 columns would be mostly air, and there are no more of them than this.
    num_columns = x.num_features if isinstance(x, PackedGraph) else math.prod(x.shape[1:])
    top_features, found = min(top_features, num_columns), RecordsBuilder()
    if asked.pays_together:
        pieces = _record_together(asked, found, top_features)
    else:
        pieces = _record_one_by_one(asked, found, top_features)
    for _ in track(pieces, "explaining", f"{asked.level}s", show=progress, total=len(asked.rows)):
        pass
    algorithm = explainer.algorithm
    about = {"method": algorithm.method, "settings": algorithm.settings, "made_by": f"graphfaith {__version__}"}
    return found.finish(about)


def _is_usual(explainer: Explainer) -> bool:
    """Return whether PyG's Explainer and a method do what they usually do, so that only p need be made."""
    kind = type(explainer.algorithm)
    if not issubclass(kind, FaithfulExplainer) or type(explainer).__call__ is not Explainer.__call__:
        return False
    return kind.forward is FaithfulExplainer.forward and kind.explanation is FaithfulExplainer.explanation


def _check_recorded(explainer: Explainer, top_features: int) -> None:
    """Raise an :class:`InputError` if the scores of an explainer cannot be recorded, before any work is done."""
    if not isinstance(explainer.algorithm, FaithfulExplainer):
        raise InputError(
            f"records are made by methods of graphfaith (got {type(explainer.algorithm).__name__}): see explain_nodes"
        )
    if explainer.edge_mask_type is None:
        raise InputError('records have scores of edges: make the Explainer with edge_mask_type="object"')
    if explainer.threshold_config is not None:
        raise InputError("records have all scores: make the Explainer without threshold_config")
    kind = getattr(explainer.node_mask_type, "value", None)
    # Of a mask on features, or of scores of whole nodes, no score of a column can be made.
    if top_features and kind != "common_attributes" and (kind != "attributes" or explainer.algorithm.learns_mask):
        raise InputError(
            f'scores of columns need node_mask_type="common_attributes" (got {kind!r}): give it to the Explainer, or '
            "leave out top_features"
        )


_NO_TARGET = 'target is for explanation_type="phenomenon": leave it out for explanation_type="model"'
_OWN_EDGES = "a graph in place of x has its own edges: leave out edge_index"


@dataclass(frozen=True)
class _Asked:
    """What is asked of an explainer: rows of the model's output, which predicts only once for all of them."""

    explainer: Explainer
    x: Tensor | PackedGraph
    edge_index: Tensor | None
    rows: list[int]
    target: Tensor | Column | None
    kwargs: dict[str, Any]
    task: Task
    reason: str | None  # why the rows cannot be explained together
    labels: Tensor | Column | None  # the class of every row; None if it is that of the output on each part of the graph

    @classmethod
    def of(
        cls,
        explainer: Explainer,
        x: Tensor | PackedGraph,
        edge_index: Tensor | None,
        nodes: int | Iterable[int] | Tensor | None,
        target: Tensor | None,
        kwargs: dict[str, Any],
    ) -> _Asked:
        """Check the arguments, and let the model predict."""
        if not isinstance(explainer, Explainer):
            raise InputError(f"a torch_geometric.explain.Explainer is needed first (got {type(explainer).__name__})")
        config = explainer.model_config
        task = Task(config.mode.value, config.return_type.value, config.task_level.value)
        if isinstance(x, PackedGraph):
            return cls._of_packed(explainer, x, edge_index, nodes, target, kwargs, task)
        if isinstance(x, Mapping):
            raise UnsupportedError(
                "nodes of a heterogeneous graph are explained one at a time, by explainer(x_dict, edge_index_dict, "
                "index=...); many together need one type, by data.to_homogeneous()"
            )
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
                raise InputError(_NO_TARGET)
            if isinstance(explainer.algorithm, FaithfulExplainer):
                # before the model runs, which would raise an error that does not say what is right
                explainer.algorithm.check_call(explainer.model, x, edge_index)
            prediction = explainer.get_prediction(x, edge_index, **kwargs)
            predicted = explainer.get_target(prediction)
            once.get_prediction = lambda *_, **__: prediction
            once.get_target = lambda _: predicted
            target_rows, labels = len(prediction) if prediction.dim() else 1, predicted
        else:
            if target is None:
                raise InputError('explanation_type="phenomenon" needs target=, the class of every row of the output')
            target_rows, labels = len(target) if target.dim() else 1, target
        if task.level != "node":
            rows = task.rows(named, target_rows).tolist()
        reason = reason_against(explainer.algorithm, task.level)
        return cls(once, x, edge_index, rows, target, kwargs, task, reason, labels)

    @property
    def level(self) -> str:
        """What the rows are: nodes, edges or graphs."""
        return self.task.level

    @property
    def pays_together(self) -> bool:
        """Whether the rows can be explained together, and are so many that this takes less time."""
        if self.reason is not None:
            return False
        moves_x = self.explainer.algorithm.neighborhood.perturbs_features
        return len(self.rows) >= AT_LEAST * (WITH_FEATURES if moves_x else 1)

    @classmethod
    def _of_packed(
        cls,
        explainer: Explainer,
        graph: PackedGraph,
        edge_index: Tensor | None,
        nodes: int | Iterable[int] | Tensor | None,
        target: Tensor | None,
        kwargs: dict[str, Any],
        task: Task,
    ) -> _Asked:
        """Check the arguments for a graph that is read from files, on the whole of which the model does not run."""
        algorithm = explainer.algorithm
        if edge_index is not None:
            raise InputError(_OWN_EDGES)
        if task.level != "node":
            raise UnsupportedError(f"rows of the output are {task.level}s: of a packed graph only nodes are explained")
        if not _is_usual(explainer):
            raise UnsupportedError(f"{type(algorithm).__name__} makes its explanations itself, from tensors")
        named = list(nodes) if isinstance(nodes, Iterable) and not isinstance(nodes, Tensor) else nodes
        rows = task.rows(named, graph.num_nodes).tolist()
        labels: Tensor | Column | None = target
        if explainer.explanation_type == ExplanationType.model:
            if target is not None:
                raise InputError(_NO_TARGET)
        elif target is None:
            labels = graph.labels
            if labels is None:
                raise InputError('explanation_type="phenomenon" needs target=, or a graph that was packed with y')
        reason = reason_against(algorithm, task.level)
        return cls(explainer, graph, None, rows, labels, kwargs, task, reason, labels)

    def record(self, row: int, found: RecordsBuilder, top_features: int) -> None:
        """Record the explanation of one row, which is made by itself."""
        explainer, algorithm = self.explainer, self.explainer.algorithm
        what = explainer.model, self.x, self.edge_index, row, self.labels, self.kwargs
        if not _is_usual(explainer):
            found.add_explanation(row, self.alone(row), algorithm, algorithm.target(*what), top_features)
            return
        target, p = algorithm.fit_row(*what)
        kind = getattr(explainer.node_mask_type, "value", None)
        found.add_fit(row, p, algorithm, target, kind, algorithm.details(p), top_features)

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


def _sweep(asked: _Asked) -> Sweep | str:
    """Return the sweep over all rows; or why every row has to be explained alone."""
    model, algorithm = asked.explainer.model, asked.explainer.algorithm
    with torch.inference_mode(False), evaluating(model), stage("subgraph"):
        first = algorithm.target(model, asked.x, asked.edge_index, asked.rows[0], asked.labels, asked.kwargs)
    name = type(model).__name__
    if first.graph.form is not None:
        return f"the features that {name} is given are no matrix of real numbers"
    if first.call.degrees is None:
        return f"{name} looks at the whole graph for every node"
    anchored, moves_x = isinstance(algorithm, AnchoredKEC), algorithm.neighborhood.perturbs_features
    if anchored and not moves_x and not may_stand_side_by_side(first):
        return f"{algorithm.method} needs gradients, and {name} is given other tensors beside X and A"
    kinds = ((Block, FeatureBlock), (AnchoredBlock, AnchoredFeatureBlock))
    kind = kinds[anchored][moves_x]
    return Sweep(algorithm, first, asked.x, asked.edge_index, asked.labels, asked.kwargs, kind)


def _explain_together(asked: _Asked, *, forced: bool) -> Iterator[Explanation]:
    """Yield the explanations of rows, computed together from one set of perturbed graphs where that is possible."""
    # The first row is also explained alone. This checks all arguments, and gives the fields that PyG adds.
    alone = asked.alone(asked.rows[0])
    sweep = _sweep(asked)
    if isinstance(sweep, str):
        if forced:
            raise UnsupportedError(f"{sweep}: together=True cannot be used")
        yield from _explain_one_by_one(asked)
        return
    for row, explanation in zip(asked.rows, sweep.explanations(asked.rows), strict=True):
        yield asked.alone(row) if explanation is None else _complete(explanation, row, asked, alone)


def _record_one_by_one(asked: _Asked, found: RecordsBuilder, top_features: int) -> Iterator[None]:
    """Record the explanations of rows, each computed by itself."""
    for row in asked.rows:
        asked.record(row, found, top_features)
        yield


def _record_together(asked: _Asked, found: RecordsBuilder, top_features: int) -> Iterator[None]:
    """Record the explanations of rows, computed together where that is possible."""
    sweep = _sweep(asked)
    if isinstance(sweep, str):
        yield from _record_one_by_one(asked, found, top_features)
        return
    with_nodes, done = has_nodes(asked.explainer.node_mask_type), 0
    for batch in sweep.batches(asked.rows, ahead=True):
        rows = asked.rows[done : done + len(batch)]
        for part in batch.runs():
            if batch.proven[part.start]:
                with stage("layout"):
                    found.add(**batch.records(part, with_nodes, top_features), index=rows[part])
            else:
                for row in rows[part]:
                    asked.record(row, found, top_features)
        done += len(batch)
        yield from (None for _ in rows)
