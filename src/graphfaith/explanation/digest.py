"""Digests of the scores of an explanation, which tell edited scores from those that were fitted or measured."""

from __future__ import annotations

import hashlib

from torch import Tensor
from torch_geometric.explain import Explanation

from ..graph.computation_graph import ComputationGraph
from ..surrogate.difference import SubgraphModel
from .scores import num_nodes_of

_MASKS = ("node_mask", "edge_mask", "self_loop_score")


def scores_digest(explanation: Explanation, part: ComputationGraph) -> str:
    """Return the digest of the scores on the computation graph ``part``, which may be far smaller than the graph."""
    nodes, edges, loops = (explanation.get(name) for name in _MASKS)
    return digest_of(
        nodes if nodes is None or nodes.size(0) == 1 else nodes[part.nodes[: part.num_visible]],
        None if edges is None else edges[part.edge_id[part.edge_id >= 0]],
        None if loops is None else loops[part.nodes],
    )


def current_digest(explanation: Explanation) -> str | None:
    """Return the digest of the scores that the explanation has now; None if its parts do not fit together.

    Where the explanation carries the p that was fitted, the scores are those of p's computation graph: F does not
    depend on any other. Otherwise they are all scores of the graph. A subgraph's p counts as none, because it is not
    saved with an explanation, and the digest has to be the same after loading.
    """
    model = explanation.get("difference_model")
    part = None if isinstance(model, SubgraphModel) else getattr(model, "graph", None)
    if not isinstance(part, ComputationGraph):
        # The edges belong to it, so that a smaller graph with the same scores of columns has another digest.
        masks = [explanation.get(name) for name in (*_MASKS, "edge_index")]
        return f"{num_nodes_of(explanation)} nodes, {digest_of(*masks)}"
    return scores_digest(explanation, part) if _fits(explanation, part) else None


def _fits(explanation: Explanation, part: ComputationGraph) -> bool:
    """Return whether the ids of the computation graph are those of this graph, and not of one it was cut from."""
    num_nodes, num_edges = part.size
    edge_index = explanation.get("edge_index")
    if num_nodes_of(explanation) != num_nodes or edge_index is None or edge_index.size(1) != num_edges:
        return False
    lengths = {"node_mask": (1, num_nodes), "edge_mask": (num_edges,), "self_loop_score": (num_nodes,)}
    masks = {name: explanation.get(name) for name in _MASKS}
    return all(mask is None or len(mask) in lengths[name] for name, mask in masks.items())


def digest_of(*scores: Tensor | None) -> str:
    """Return the digest of several tensors: of their types, shapes and bytes. None differs from an empty tensor.

    >>> import torch
    >>> digest_of(torch.zeros(0), None) == digest_of(None, torch.zeros(0))
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for values in scores:
        if values is None:
            digest.update(b"none;")
            continue
        digest.update(f"{values.dtype} {list(values.shape)};".encode())
        digest.update(values.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
