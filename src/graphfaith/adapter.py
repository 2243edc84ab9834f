"""Between PyG's way to call an explainer and ours: from its arguments to a Target, from scores to its masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation
from torch_geometric.explain.config import MaskType

from .computation_graph import ComputationGraph
from .difference import DifferenceModel
from .errors import InputError, UnsupportedError
from .explanation import SignedExplanation, scores_digest
from .target import Target

# PyG puts the model's arguments on the explanation, where these names are taken.
OWN_FIELDS = (
    *("x", "edge_index", "target", "prediction", "index", "node_mask", "edge_mask"),
    *("self_loop_score", "difference_model", "edge_route", "num_hops", "scores_digest"),
    *("method", "neighborhood", "in_sample_error", "normalization", "node_names", "feature_names"),
)


def explain(
    target: Target,
    difference_model: DifferenceModel,
    node_score: Tensor | None,
    edge_score: Tensor,
    *,
    as_mask: bool,
    node_mask_type: MaskType | None,
    edge_mask_type: MaskType | None,
    **extra: Any,
) -> Explanation:
    """Lay scores of the computation graph, [n, d] and [e], out over the whole graph in PyG's masks.

    With ``node_mask_type`` "attributes" the node mask is the score of every feature. A mask on a whole node
    multiplies its features, so its score ("object") is sum_c x_vc score_vc, and that of a column
    ("common_attributes") is sum_v x_vc score_vc. With ``as_mask`` the scores are such masks already, and None keeps
    every feature.
    """
    part = target.computation_graph
    num_nodes, num_edges = part.size
    explanation = SignedExplanation()
    if node_mask_type is not None:
        scores = torch.ones_like(part.x) if node_score is None else node_score.to(part.x.dtype)
        explanation.node_mask = _node_mask(part, scores, node_mask_type, as_mask)
    dtype = part.weight.dtype
    if edge_mask_type is not None:
        explanation.edge_mask = _zeros((num_edges,), dtype)
        given = part.edge_id >= 0
        explanation.edge_mask[part.edge_id[given]] = edge_score[given].to(dtype)
    loops = _zeros((num_nodes,), dtype)
    loops[part.nodes] = edge_score[part.num_plain :].to(dtype)
    explanation.self_loop_score = loops
    explanation.difference_model = difference_model
    explanation.edge_route = target.route
    explanation.num_hops = target.num_hops
    for name, value in extra.items():
        explanation[name] = value
    explanation.scores_digest = scores_digest(explanation, part)
    return explanation


def _node_mask(part: ComputationGraph, scores: Tensor, kind: MaskType, as_mask: bool) -> Tensor:
    seen, num_nodes = part.num_visible, part.size[0]
    weighed = scores if as_mask else scores * part.x
    if kind == MaskType.common_attributes:
        return weighed[:1] if as_mask else weighed[:seen].sum(dim=0, keepdim=True)
    rows = scores[:seen]
    if kind == MaskType.object:
        rows = scores[:seen, :1] if as_mask else weighed[:seen].sum(dim=1, keepdim=True)
    mask = _zeros((num_nodes, rows.size(1)), rows.dtype)
    mask[part.nodes[:seen]] = rows
    return mask


def _zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros that take no time and no memory until they are written to: masks are as large as the whole graph."""
    return torch.from_numpy(np.zeros(shape, dtype=torch.empty(0, dtype=dtype).numpy().dtype))


def target_of(explainer: Explainer, explanation: Explanation) -> Target:
    """The F(X, A) that ``explanation`` explains, with the model of ``explainer`` as it is now."""
    if explanation.get("node_id") is not None:
        raise InputError("an excerpt of an explanation cannot be scored: score the explanation it was cut from")
    for name in ("x", "edge_index", "target"):
        if explanation.get(name) is None:
            raise InputError(f"the explanation has no {name!r}: make it by calling an Explainer")
    return make_target(
        explainer.model,
        explanation.x,
        explanation.edge_index,
        explanation.get("index"),
        explanation.target,
        explainer.model_config,
        {name: explanation.get(name) for name in getattr(explanation, "_model_args", [])},
        num_hops=explanation.get("num_hops"),
        edges=explanation.get("edge_route") or "auto",
        max_memory=getattr(explainer.algorithm, "max_memory", None),
    )


def make_target(
    model: torch.nn.Module,
    x: Tensor,
    edge_index: Tensor,
    index: int | Tensor | None,
    labels: Tensor | None,
    config: Any,
    kwargs: dict[str, Any],
    **options: Any,
) -> Target:
    """A target in PyG's terms: ``labels`` has the class of every row of the output, ``config`` is a ModelConfig.

    ``kwargs`` are the model's, ``options`` those of :class:`Target`.
    """
    for name in kwargs:
        if name in OWN_FIELDS:
            raise UnsupportedError(
                f"the model's argument {name!r} has the name of a field of the explanation: wrap the model so that it "
                "has another"
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
