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
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.explain import Explanation

from .computation_graph import ComputationGraph
from .errors import InputError


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
