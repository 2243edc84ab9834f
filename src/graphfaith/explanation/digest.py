"""Digests of the scores of an explanation, which tell edited scores from those that were fitted or measured."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor
from torch_geometric.explain import Explanation

from ..graph.computation_graph import ComputationGraph
from ..graph.form import flatten_features
from ..model.home import fetch
from .scores import num_nodes_of

_MASKS = ("node_mask", "edge_mask", "self_loop_score")


def masks_of(explanation: Explanation) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the scores of features, of edges and of self-loops, as far as there are some, on the processor.

    Those of features are a matrix, whatever the shape of the features.
    """
    nodes, edges, loops = (explanation.get(name) for name in _MASKS)
    nodes = flatten_features(nodes) if isinstance(nodes, Tensor) and nodes.dim() else nodes
    return fetch(nodes), fetch(edges), fetch(loops)


def scores_digest(explanation: Explanation, part: ComputationGraph) -> str:
    """Return the digest of the scores on the computation graph ``part``, which may be far smaller than the graph."""
    nodes, edges, loops = masks_of(explanation)
    return digest_of(
        nodes if nodes is None or nodes.size(0) == 1 else nodes[part.nodes[: part.num_visible]],
        None if edges is None else edges[part.edge_id[part.edge_id >= 0]],
        None if loops is None else loops[part.nodes],
    )


def current_digest(explanation: Explanation) -> str:
    """Return the digest of all that a picture of the explanation shows: its scores, its graph and what is explained."""
    index = explanation.get("index")
    shown = [explanation.get(name) for name in (*_MASKS, "edge_index", "x", "target")]
    if explanation.get("edge_attr_score") is not None:  # Files of earlier versions have digests without it.
        shown.append(explanation["edge_attr_score"])
    shown.append(None if index is None else torch.as_tensor(index).reshape(-1))
    tensors = [value if isinstance(value, Tensor) else None for value in shown]
    return f"{num_nodes_of(explanation)} nodes, {digest_of(*tensors)}"


def are_fitted(explanation: Explanation) -> bool:
    """Return whether the scores are still those of the p that the explanation carries, and all others are 0."""
    part = getattr(explanation.get("difference_model"), "graph", None)
    if not isinstance(part, ComputationGraph) or not _fits(explanation, part):
        return False
    if explanation.get("scores_digest") != scores_digest(explanation, part):
        return False
    nodes, edges, loops = masks_of(explanation)
    inside = (
        None if nodes is None or nodes.size(0) == 1 else nodes[part.nodes[: part.num_visible]],
        None if edges is None else edges[part.edge_id[part.edge_id >= 0]],
        None if loops is None else loops[part.nodes],
    )
    return all(
        some is None or every is None or int(every.count_nonzero()) == int(some.count_nonzero())
        for every, some in zip((nodes, edges, loops), inside, strict=True)
    )


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

    >>> digest_of(torch.zeros(0), None) == digest_of(None, torch.zeros(0))
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for values in scores:
        if values is None:
            digest.update(b"none;")
            continue
        digest.update(f"{values.dtype} {list(values.shape)};".encode())
        plain = values.detach().cpu().contiguous().reshape(-1)
        if plain.stride(0) != 1:  # A single number, whose steps are of any length, cannot be read as bytes.
            plain = plain.clone(memory_format=torch.contiguous_format)
        digest.update(plain.view(torch.uint8).numpy().data)
    return digest.hexdigest()
