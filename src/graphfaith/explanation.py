"""Explanations as PyG's :class:`~torch_geometric.explain.Explanation`, with what it lacks for signed scores.

An explanation made here is a plain PyG ``Explanation`` over the whole graph (``node_mask``, ``edge_mask``) that also
carries

- ``method`` and, where there is one, ``neighborhood``: how it was made;
- ``difference_model``: the fitted p, and ``in_sample_error``: its Delta on the samples it was fitted to;
- ``self_loop_score``: scores of self-loops, which PyG's ``edge_mask`` has no place for, one a node;
- ``edge_route``: whether A was the model's edge weight ("weight") or PyG's message mask ("mask").
"""

from __future__ import annotations

import hashlib
import numbers
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation
from torch_geometric.explain.config import MaskType

from .checks import check_node
from .computation_graph import ComputationGraph
from .difference import DifferenceModel
from .errors import InputError, UnsupportedError
from .target import Target


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
    explanation = Explanation()
    if node_mask_type is not None:
        scores = torch.ones_like(part.x) if node_score is None else node_score.to(part.x.dtype)
        explanation.node_mask = _node_mask(part, scores, node_mask_type, as_mask)
    dtype = part.weight.dtype
    if edge_mask_type is not None:
        explanation.edge_mask = torch.zeros(num_edges, dtype=dtype)
        given = part.edge_id >= 0
        explanation.edge_mask[part.edge_id[given]] = edge_score[given].to(dtype)
    loops = torch.zeros(num_nodes, dtype=dtype)
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
    mask = torch.zeros(num_nodes, rows.size(1), dtype=rows.dtype)
    mask[part.nodes[:seen]] = rows
    return mask


def scores_digest(explanation: Explanation, part: ComputationGraph) -> str:
    """A digest of the scores on the computation graph, by which an edited explanation is told from a fresh one."""
    digest = hashlib.blake2b(digest_size=16)
    nodes, edges = explanation.get("node_mask"), explanation.get("edge_mask")
    if nodes is not None:
        rows = nodes if nodes.size(0) == 1 else nodes[part.nodes[: part.num_visible]]
        digest.update(rows.detach().contiguous().numpy().tobytes())
    if edges is not None:
        digest.update(edges[part.edge_id[part.edge_id >= 0]].detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def target_of(explainer: Explainer, explanation: Explanation) -> Target:
    """The F(X, A) that ``explanation`` explains, with the model of ``explainer`` as it is now."""
    for name in ("x", "edge_index", "index", "target"):
        if explanation.get(name) is None:
            raise InputError(f"the explanation has no {name!r}: make it by calling an Explainer with index=")
    node = single_node(explanation.index)
    kwargs = {name: explanation[name] for name in getattr(explanation, "_model_args", [])}
    return make_target(
        explainer.model,
        explanation.x,
        explanation.edge_index,
        node,
        explanation.target,
        explainer.model_config,
        explanation.get("num_hops"),
        kwargs,
    )


def make_target(
    model: torch.nn.Module,
    x: Tensor,
    edge_index: Tensor,
    node: int,
    labels: Tensor,
    config: Any,
    num_hops: int | None,
    kwargs: dict[str, Any],
) -> Target:
    """The target of one node in PyG's terms: ``labels`` has the class of every node, ``config`` is a ModelConfig."""
    label = None
    if isinstance(x, Tensor):
        check_node(node, len(x))
    if config.mode.value != "regression":
        label = int(labels[node]) if labels.dim() else int(labels)
    return Target(
        model,
        x,
        edge_index,
        node,
        label,
        num_hops=num_hops,
        mode=config.mode.value,
        return_type=config.return_type.value,
        **kwargs,
    )


def single_node(index: int | Tensor | None) -> int:
    """The node that PyG's ``index`` names, if it names one."""
    if isinstance(index, Tensor) and index.numel() == 1 and index.dtype in (torch.int64, torch.int32):
        return int(index)
    if isinstance(index, numbers.Integral) and not isinstance(index, bool):
        return int(index)
    raise UnsupportedError(f"index must name one node (got {index!r}): explain nodes one at a time")


class ScoredEdge(NamedTuple):
    """An edge and its score; a self-loop has ``source == sink``."""

    source: int
    sink: int
    score: float


class ScoredFeature(NamedTuple):
    """A feature of a node and its score."""

    node: int
    column: int
    score: float


def top_edges(explanation: Explanation, k: int = 10) -> list[ScoredEdge]:
    """The ``k`` edges of largest |score|, self-loops among them, strongest first; zero scores are left out."""
    scores, ends = [], []
    edges, loops = explanation.get("edge_mask"), explanation.get("self_loop_score")
    if edges is not None:
        scores.append(edges)
        ends.append(explanation.edge_index)
    if loops is not None:
        given = explanation.edge_index[0][explanation.edge_index[0] == explanation.edge_index[1]]
        apart = loops.clone()
        if edges is not None:
            apart[given] = 0  # a loop the user gave is among the edges already
        scores.append(apart)
        ends.append(torch.arange(len(loops)).expand(2, -1))
    if not scores:
        return []
    all_scores, all_ends = torch.cat(scores), torch.cat(ends, dim=1)
    places = _largest(all_scores, k)
    return [ScoredEdge(int(all_ends[0, i]), int(all_ends[1, i]), float(all_scores[i])) for i in places.tolist()]


def top_features(explanation: Explanation, k: int = 10) -> list[ScoredFeature]:
    """The ``k`` features of largest |score| in a node mask of every attribute, strongest first."""
    mask = explanation.get("node_mask")
    if mask is None or mask.shape != explanation.x.shape:
        raise InputError('features of nodes need node_mask_type="attributes"')
    width = mask.size(1)
    flat = mask.reshape(-1)
    return [ScoredFeature(i // width, i % width, float(flat[i])) for i in _largest(flat, k).tolist()]


def _largest(scores: Tensor, k: int) -> Tensor:
    places: Tensor = torch.topk(scores.abs(), min(k, scores.numel())).indices
    return places[scores[places] != 0]
