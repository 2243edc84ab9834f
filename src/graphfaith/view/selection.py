"""The selection: which nodes and edges of a graph are shown. It takes a few tensor operations on the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order
from torch import Tensor

from .._base.errors import InputError
from ..explanation.scores import Scores
from .positions import Array, Index


def check_positions(positions: Any, num_nodes: int) -> Array:
    """Return the positions, moved and scaled so that they lie between -1 and 1 around the middle."""
    try:
        points = np.array(positions, dtype=np.float64)
    except (TypeError, ValueError):
        points = np.empty(0)
    if points.shape != (num_nodes, 2) or not np.isfinite(points).all():
        raise InputError(f"positions must be finite numbers [{num_nodes}, 2], x and y of every node")
    points = points - (points.min(0) + points.max(0)) / 2
    result: Array = points / max(float(np.abs(points).max()), 1e-12)
    return result


def common_num_nodes(scores: Sequence[Scores]) -> int:
    """Return how many nodes the graph of all panels has; where that is not said, it is one more than the largest id."""
    known = {panel.num_nodes for panel in scores if panel.num_nodes_known}
    largest = max(panel.num_nodes for panel in scores)
    if largest == 0:
        raise InputError("the graph has no nodes")
    if len(known) > 1 or (known and max(known) < largest):
        sizes = ", ".join(str(panel.num_nodes) for panel in scores)
        raise InputError(f"panels must explain the same graph, but their graphs have {sizes} nodes")
    return largest


def _scale(values: Tensor) -> Tensor:
    largest = values.max() if values.numel() else values.new_zeros(())
    return values / largest if float(largest) > 0 else values


def measure_relevance(scores: Sequence[Scores], num_nodes: int) -> Tensor:
    """Return how relevant each node is, [N]: the largest |score| of the node, its self-loop or an edge at it.

    Each is taken as a share of the panel's largest, and the mean over panels is taken, because a method that rates
    everything high would otherwise decide alone what is shown.
    """
    relevance = torch.zeros(num_nodes, dtype=torch.float64)
    for panel in scores:
        largest = torch.zeros_like(relevance)
        for values in (panel.node, panel.loop):
            if values is not None:
                part = largest[: len(values)]
                torch.maximum(part, _scale(values.abs()), out=part)
        if panel.edge is not None:
            strength = _scale(panel.edge.abs())
            for end in panel.edge_index:
                largest.scatter_reduce_(0, end, strength, "amax")
        relevance += largest / len(scores)
    return relevance


def choose_nodes(
    relevance: Tensor, explained: Sequence[int], wanted: Sequence[int], max_nodes: int
) -> tuple[Tensor, int]:
    """Return the ids to show, ascending, and how many there would be without a limit. Ties go to the smaller id."""
    rank, is_candidate = relevance.clone(), relevance != 0
    rank[list(explained)] = torch.inf
    is_candidate[list(wanted)] = True
    is_candidate[list(explained)] = True
    candidates = is_candidate.nonzero().reshape(-1)
    best = candidates[rank[candidates].sort(descending=True, stable=True).indices[:max_nodes]]
    return best.sort().values, len(candidates)


@dataclass(frozen=True)
class Rest:
    """The nodes with a score that a layout has no room for, and the place of the nearest node that it has."""

    ids: Index  # [k] in the whole graph
    at: Index  # [k] places in the layout
    hops: Array  # [k] 1 if a link leads there, 2 if a longer path does, infinite if none does


def find_rest(
    scores: Sequence[Scores], relevance: Tensor, nodes: Tensor, place_of: Tensor, wanted: Sequence[int], centre: int
) -> Rest:
    """Return the nodes with a score, or `wanted`, that are not among `nodes`; what no path leads to is at `centre`."""
    is_left = relevance != 0
    is_left[list(wanted)] = True
    is_left[nodes] = False
    ids = is_left.nonzero().view(-1)
    if not len(ids):
        return Rest(ids.numpy(), ids.numpy(), np.zeros(0))
    is_known = is_left.clone()
    is_known[nodes] = True
    known = is_known.nonzero().view(-1)
    number = torch.cumsum(is_known, 0) - 1
    ends = torch.cat([number[panel.edge_index[:, is_known[panel.edge_index].all(0)]] for panel in scores], dim=1)
    # One more node, joined with all that the layout has, is where the walk begins.
    start = len(known)
    own = number[nodes].numpy()
    # Earlier versions of scipy walk over graphs of 32-bit numbers alone.
    source = np.concatenate([ends[0].numpy(), np.full(len(own), start)]).astype(np.int32)
    sink = np.concatenate([ends[1].numpy(), own]).astype(np.int32)
    graph = coo_array((np.ones(len(source)), (source, sink)), shape=(start + 1, start + 1)).tocsr()
    before = breadth_first_order(graph, start, directed=False)[1].astype(np.int64)
    before[own] = own
    left = number[ids].numpy()
    hops = np.where(before[left] < 0, np.inf, np.where(np.isin(before[left], own), 1.0, 2.0))
    before[before < 0] = own[0]
    while not np.array_equal(before, before[before]):
        before = before[before]
    places = place_of[known[before[left]]].numpy()
    return Rest(ids.numpy(), np.where(np.isfinite(hops), places, centre), hops)


def share_edges(
    scores: Sequence[Scores], place_of: Tensor, count: int, directed: bool | None
) -> tuple[Index, list[Tensor], bool]:
    """Return all panels' edges between shown nodes [m, 2], each panel's scores of them [m], and whether directed."""
    inner = []
    for panel in scores:
        ends = place_of[panel.edge_index]
        inside = (ends >= 0).all(0)
        values = torch.zeros(panel.edge_index.size(1), dtype=torch.float64) if panel.edge is None else panel.edge
        inner.append((ends[:, inside], values[inside]))
    keys = [ends[0] * count + ends[1] for ends, _ in inner]
    if directed is None:
        forward = torch.unique(torch.cat(keys))
        directed = not torch.equal(forward, ((forward % count) * count + forward // count).sort().values)
    if not directed:
        keys = [ends.min(0).values * count + ends.max(0).values for ends, _ in inner]
    union = torch.unique(torch.cat(keys))
    weights = []
    for key, (_, values) in zip(keys, inner, strict=True):
        weight = torch.zeros(len(union), dtype=torch.float64)
        weights.append(weight.index_add_(0, torch.searchsorted(union, key), values))
    return torch.stack([union // count, union % count], dim=1).numpy(), weights, directed
