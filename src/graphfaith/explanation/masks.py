"""From PyG's arguments of an explainer to a Target, and from scores on the computation graph to PyG's masks."""

from __future__ import annotations

import contextlib
import math
import mmap
from functools import cache
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation, HeteroExplanation
from torch_geometric.explain.config import MaskType

from .._base.errors import InputError, ModelError, UnsupportedError
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Graph
from ..graph.packed import Column
from ..model.call import Edges
from ..model.record import Route
from ..model.target import Target
from ..surrogate.difference import DifferenceModel
from ..surrogate.moves import OfX
from .digest import digest_of
from .signed import SignedExplanation
from .typed import joint_of, one_of

# PyG stores the model's arguments on the explanation, where these names are taken.
OWN_FIELDS = (
    *("x", "edge_index", "target", "prediction", "index", "node_mask", "edge_mask"),
    *("self_loop_score", "difference_model", "edge_route", "num_hops", "scores_digest", "node_mask_type"),
    *("unfaithfulness", "measurements", "scored_digest", "settings", "made_by", "seconds", "features_scored"),
    *("method", "neighborhood", "in_sample_error", "normalization", "node_names", "feature_names", "class_names"),
    *("estimate", "fit_samples", "chosen", "reading", "node_stderr", "edge_stderr", "self_loop_stderr"),
    *("value_of_all", "value_of_none", "num_players", "control_variate"),
    *("evaluations", "rollouts", "budget_spent", "kept_scores", "stored_digest"),
    *("baseline_categories", "edge_attr_score"),
)
_MAPPED = 1 << 20  # A mask of at least so many bytes has memory pages of its own.


class Explained(Protocol):
    """What an explanation has to know of the target that it explains."""

    @property
    def computation_graph(self) -> ComputationGraph:
        """The computation graph, which has all the scores."""

    @property
    def route(self) -> Route:
        """What A is: the model's edge weight, or a factor of messages; see :attr:`Target.route`."""

    @property
    def num_hops(self) -> int:
        """The number of hops M."""

    @property
    def device(self) -> torch.device:
        """Where the user has the graph, and wants the masks."""

    @property
    def baseline(self) -> Tensor | None:
        """The category that stands for an absent feature, in the shape of a node's features; None of real ones."""


def lay_out_scores(
    target: Explained,
    difference_model: DifferenceModel,
    node_score: Tensor | None,
    edge_score: Tensor,
    *,
    errors: tuple[Tensor | None, Tensor | None] = (None, None),
    as_mask: bool,
    node_mask_type: MaskType | None,
    edge_mask_type: MaskType | None,
    attribute_score: Tensor | None = None,
    **extra: Any,
) -> SignedExplanation:
    """Write scores of the computation graph, [n, d] and [e], into PyG's masks over the whole graph.

    With ``node_mask_type`` "attributes" the node mask holds the score of every feature. A mask on a whole node
    multiplies its features, so a node's score ("object") is sum_c x_vc score_vc, and that of a column
    ("common_attributes") is sum_v x_vc score_vc. With ``as_mask`` the scores are such masks already. Without
    a ``node_score`` every feature is kept; ``features_scored`` is then False, which says that the ones in the mask are
    no scores. ``errors`` are the standard errors of the scores, where they are known. PyG has no mask for edge
    attributes: their scores, ``attribute_score`` [e, c], are in the field ``edge_attr_score``, [E, c].
    """
    part = target.computation_graph
    num_nodes, num_edges = part.size
    explanation = SignedExplanation()
    dtype, node_rows, given_score = part.weight.dtype, None, None
    if node_mask_type is not None:
        scores = torch.ones_like(part.x) if node_score is None else node_score.to(part.x.dtype)
        if part.kinds is not None:  # A node has no features of other types.
            own = part.kinds.spread(part.nodes, (1.0,) * len(part.kinds.node_types)) != 0
            scores = torch.where(own, scores, 0.0)
        if node_score is None:
            explanation["features_scored"] = False
        explanation["node_mask_type"] = node_mask_type.value
        node_rows = _node_rows(part, scores, node_mask_type, as_mask)
        explanation["node_mask"] = _lay_out_rows(part, node_rows, node_mask_type)
    edge_score = edge_score.to(dtype)
    _check_finite(part, node_rows, node_mask_type, edge_score, extra.get("method"))
    if edge_mask_type is not None:
        ids = part.edge_id.numpy()
        given = torch.from_numpy(np.flatnonzero(ids >= 0))
        given_score = edge_score[given]
        explanation["edge_mask"] = _zeros((num_edges,), dtype)
        explanation["edge_mask"].index_copy_(0, part.edge_id[given], given_score)
    loop_score = edge_score[part.num_plain :]
    explanation["self_loop_score"] = _zeros((num_nodes,), dtype)
    explanation["self_loop_score"].index_copy_(0, part.nodes, loop_score)
    if attribute_score is not None:
        scores = attribute_score.to(dtype)
        if not bool(torch.isfinite(scores).all()):
            raise ModelError(f"{extra.get('method') or 'the method'}: a score of an edge attribute is not finite")
        chosen = (part.edge_id >= 0).nonzero().view(-1)
        explanation["edge_attr_score"] = _zeros((num_edges, scores.size(1)), dtype)
        explanation["edge_attr_score"].index_copy_(0, part.edge_id[chosen], scores[chosen])
    _lay_out_errors(explanation, part, errors, node_mask_type, edge_mask_type)
    explanation["difference_model"] = difference_model
    explanation["edge_route"] = target.route
    explanation["num_hops"] = target.num_hops
    for name, value in extra.items():
        explanation[name] = value
    if target.baseline is not None:
        explanation["baseline_categories"] = target.baseline
    # This equals scores_digest() of the explanation, without reading the scores back from the masks.
    explanation["scores_digest"] = digest_of(node_rows, given_score, loop_score)
    if target.device.type != "cpu":
        explanation = explanation.to(target.device)
    return explanation


def _lay_out_errors(
    explanation: SignedExplanation,
    part: ComputationGraph,
    errors: tuple[Tensor | None, Tensor | None],
    node_mask_type: MaskType | None,
    edge_mask_type: MaskType | None,
) -> None:
    """Write the standard errors of scores beside them: of features, of edges and of self-loops."""
    (node_error, edge_error), (num_nodes, num_edges) = errors, part.size
    if node_error is not None and node_mask_type is not None:
        rows = _node_rows(part, node_error.to(part.x.dtype), node_mask_type, False).abs()
        explanation["node_stderr"] = _lay_out_rows(part, rows, node_mask_type)
    if edge_error is not None:
        rounded = edge_error.to(part.weight.dtype)
        if edge_mask_type is not None:
            given = (part.edge_id >= 0).nonzero().view(-1)
            explanation["edge_stderr"] = _zeros((num_edges,), part.weight.dtype)
            explanation["edge_stderr"][part.edge_id[given]] = rounded[given]
        explanation["self_loop_stderr"] = _zeros((num_nodes,), part.weight.dtype)
        explanation["self_loop_stderr"][part.nodes] = rounded[part.num_plain :]


def whole_graph(
    part: ComputationGraph, node_rows: Tensor, edge_numbers: Tensor, kind: MaskType | None
) -> tuple[Tensor, Tensor]:
    """Return numbers for the rows of a node mask of a ``kind`` and for the entries of A, [e], in the masks' shapes."""
    _, num_edges = part.size
    dtype, given = part.weight.dtype, (part.edge_id >= 0).nonzero().view(-1)
    edges = _zeros((num_edges,), dtype)
    edges[part.edge_id[given]] = edge_numbers[given].to(dtype)
    return _lay_out_rows(part, node_rows.to(part.x.dtype), kind or MaskType.attributes), edges


def _lay_out_rows(part: ComputationGraph, rows: Tensor, kind: MaskType) -> Tensor:
    """Return the rows of a node mask of a ``kind`` in its shape; scores of features have the shape of the features."""
    shape = (rows.size(1),) if part.shape is None or kind == MaskType.object else part.shape
    if kind == MaskType.common_attributes:
        return rows.view(1, *shape)
    mask = _zeros((part.size[0], rows.size(1)), rows.dtype)
    mask.index_copy_(0, part.nodes[: part.num_visible], rows)
    return mask.view(part.size[0], *shape)


def _check_finite(
    part: ComputationGraph, node_rows: Tensor | None, kind: MaskType | None, edge_score: Tensor, method: str | None
) -> None:
    """Raise a :class:`ModelError` that names the first score which is not a finite number in the masks' precision.

    A derivative of F with respect to a feature as small as 1e-42 may be too large for single precision.
    """
    for scores in (node_rows, edge_score):
        # The sum is finite only if every score is, and it is computed sooner than a truth value for each.
        if scores is None or math.isfinite(float(scores.sum())) or bool(torch.isfinite(scores).all()):
            continue
        row, *column = (~torch.isfinite(scores)).nonzero()[0].tolist()
        if scores is edge_score:
            source, sink = part.nodes[part.edge_index[:, row]].tolist()
            entry = f"the edge from node {source} to node {sink}" if source != sink else f"the self-loop of node {sink}"
        elif kind == MaskType.common_attributes:
            entry = f"feature {column[0]}"
        else:
            entry = f"node {int(part.nodes[row])}" + ("" if kind == MaskType.object else f", feature {column[0]}")
        seeds = part.nodes[part.seeds].tolist()
        read = f"node {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} nodes"
        wider = "" if scores.dtype == torch.float64 else ", or use double precision (model.double(), x.double())"
        raise ModelError(
            f"{method or 'the method'}, explaining {read}: the score of {entry} is {float(scores[row, *column])} in "
            f"{scores.dtype}; scale features and weights so that they are neither tiny nor huge{wider}"
        )


def of_mask(kind: MaskType | None) -> OfX:
    """Return what a node mask of PyG has scores of."""
    return "node" if kind == MaskType.object else "column" if kind == MaskType.common_attributes else "feature"


def _node_rows(part: ComputationGraph, scores: Tensor, kind: MaskType, as_mask: bool) -> Tensor:
    """Return the rows of the node mask: those of the nodes F can see, or the only row of a mask of columns."""
    seen = scores[: part.num_visible]
    if kind == MaskType.attributes:
        return seen
    if kind == MaskType.common_attributes:
        return scores[:1] if as_mask else (seen * part.x[: part.num_visible]).sum(dim=0, keepdim=True)
    return seen[:, :1] if as_mask else (seen * part.x[: part.num_visible]).sum(dim=1, keepdim=True)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return zeros that take no time and no memory until written to, since masks are as large as the whole graph."""
    kind = _numpy_type(dtype)
    size = math.prod(shape) * kind.itemsize
    if size >= _MAPPED and hasattr(mmap, "MAP_ANONYMOUS"):
        # numpy would clear memory that was freed before, and use pages of 2 MB, so that each row written takes a whole
        # page. A mask of Cora with 14 rows written took 15 MB and up to 2 ms that way; here it takes 0.2 MB and 0.1 ms.
        with contextlib.suppress(OSError):
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            return torch.from_numpy(np.frombuffer(memory, dtype=kind).reshape(shape))
    return torch.from_numpy(np.zeros(shape, dtype=kind))


@cache
def _numpy_type(dtype: torch.dtype) -> np.dtype[Any]:
    kind: np.dtype[Any] = torch.empty(0, dtype=dtype).numpy().dtype
    return kind


def target_of(explainer: Explainer, explanation: Explanation | HeteroExplanation, edges: Edges | None = None) -> Target:
    """Return the F(X, A) that ``explanation`` explains, with the present parameters of the model of ``explainer``.

    ``edges`` says what A is, if it is not to be what it is in the explanation.
    """
    if not isinstance(explainer, Explainer):
        raise InputError(f"a torch_geometric.explain.Explainer is needed first (got {type(explainer).__name__})")
    if isinstance(explanation, HeteroExplanation):
        explanation = one_of(explainer, explanation)
    if not isinstance(explanation, Explanation):
        raise InputError(f"an explanation of PyG is needed after the explainer (got {type(explanation).__name__})")
    if explanation.get("node_id") is not None:
        raise InputError("an excerpt of an explanation cannot be scored: score the explanation it was cut from")
    for name in ("x", "edge_index", "target"):
        if explanation.get(name) is None:
            raise InputError(f"the explanation has no {name!r}: make it by calling an Explainer")
    taken: Edges = edges or explanation.get("edge_route") or "auto"
    inputs: tuple[torch.nn.Module, Any, Any] = explainer.model, explanation.x, explanation.edge_index
    arguments = {name: explanation.get(name) for name in getattr(explanation, "_model_args", [])}
    if explanation.get("kinds") is not None:
        joint = joint_of(explainer, explanation._source, taken)
        inputs, arguments = (joint.model, joint.graph, None), joint.arguments
    return make_target(
        *inputs,
        explanation.get("index"),
        explanation.target,
        explainer.model_config,
        arguments,
        num_hops=explanation.get("num_hops"),
        edges=taken,
        max_memory=getattr(explainer.algorithm, "max_memory", None),
    )


def make_target(
    model: torch.nn.Module,
    x: Tensor | Graph,
    edge_index: Tensor | None,
    index: int | Tensor | None,
    labels: Tensor | Column | None,
    config: Any,
    kwargs: dict[str, Any],
    **options: Any,
) -> Target:
    """Return a target from PyG's terms: ``labels`` is the class of every row of the output, ``config`` a ModelConfig.

    ``kwargs`` are those of the model, and ``options`` those of :class:`Target`.
    """
    for name in kwargs:
        if name in OWN_FIELDS:
            raise UnsupportedError(
                f"the model's argument {name!r} has the name of a field of the explanation: wrap the model so that "
                "its argument has another name"
            )
    return Target(
        model,
        x,
        edge_index,
        index,
        None if config.mode.value == "regression" else labels,
        mode=config.mode.value,
        return_type=config.return_type.value,
        level=config.task_level.value,
        inputs=kwargs,
        **options,
    )
