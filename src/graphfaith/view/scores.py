"""What one explanation says: its scores for nodes, edges, self-loops and features, read out of PyG and checked.

Everything here is a few tensor operations whatever the size of the graph; nothing is made per node. An explanation
by plain PyG has `edge_mask` and `node_mask` at most; the fields that graphfaith adds are used when they are there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import HeteroExplanation

from .._base.errors import InputError, UnsupportedError


@dataclass(frozen=True)
class Scores:
    """One explanation; a kind of score that it does not have is None. All scores are float64 on the CPU."""

    num_nodes: int
    num_nodes_known: bool  # False when only counted from the ids that occur
    edge_index: Tensor  # [2, E], without self-loops
    edge: Tensor | None  # [E]
    node: Tensor | None  # [N]
    loop: Tensor | None  # [N]
    feature: Tensor | None  # [d]
    explained: tuple[int, ...]
    method: str
    neighborhood: str
    faithfulness: str
    relative: float | None  # Delta(p) / Delta(0), and its standard error
    relative_stderr: float | None
    node_names: Sequence[object] | None
    feature_names: Sequence[object] | None


def read(explanation: Any) -> Scores:
    """Read and check one explanation."""
    if isinstance(explanation, HeteroExplanation):
        raise UnsupportedError("figures of heterogeneous graphs are not supported; convert with to_homogeneous()")
    edge_index = _edge_index(explanation)
    num_nodes, known = _num_nodes(explanation, edge_index)
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        raise InputError(f"edge_index names nodes outside 0..{num_nodes - 1}")
    edge = _edge_scores(explanation, edge_index.size(1))
    loop = _vector(explanation, "self_loop_score", num_nodes)
    is_loop = edge_index[0] == edge_index[1]
    if bool(is_loop.any()):
        if edge is not None:
            loop = torch.zeros(num_nodes, dtype=torch.float64) if loop is None else loop.clone()
            loop.index_add_(0, edge_index[0, is_loop], edge[is_loop])
            edge = edge[~is_loop]
        edge_index = edge_index[:, ~is_loop]
    node, feature = _node_and_feature_scores(explanation, num_nodes)
    found = _field(explanation, "unfaithfulness")
    return Scores(
        num_nodes=num_nodes,
        num_nodes_known=known,
        edge_index=edge_index,
        edge=edge,
        node=node,
        loop=loop,
        feature=feature,
        explained=_explained(explanation, num_nodes),
        method=_text(explanation, "method"),
        neighborhood=_text(explanation, "neighborhood") or _text(found, "neighborhood"),
        faithfulness=faithfulness_text(found),
        relative=_number(found, "relative"),
        relative_stderr=_number(found, "relative_stderr"),
        node_names=_names(explanation, "node_names", num_nodes),
        feature_names=_names(explanation, "feature_names", None if feature is None else feature.numel()),
    )


def faithfulness_text(unfaithfulness: object) -> str:
    """The share of the local change left unexplained, with its error; '' when there is nothing to say.

    >>> from types import SimpleNamespace
    >>> faithfulness_text(SimpleNamespace(relative=0.0763, relative_stderr=0.0091))
    '7.6 % ± 0.9 % unexplained'
    """
    relative = _number(unfaithfulness, "relative")
    if relative is not None:
        share, error = 100 * relative, _number(unfaithfulness, "relative_stderr")
        if not error:
            return f"{share:.3g} % unexplained"
        digits = min(max(-math.floor(math.log10(100 * abs(error))), 0), 4)
        return f"{share:.{digits}f} % ± {100 * error:.{digits}f} % unexplained"
    value, error = _number(unfaithfulness, "value"), _number(unfaithfulness, "stderr")
    if value is None:
        return ""
    if getattr(unfaithfulness, "relative", None) == math.inf:  # Delta(0) is 0
        return f"Δ = {value:.3g} where the model does not change"
    return f"Δ = {value:.3g}" + (f" ± {error:.1g}" if error else "")


def _field(explanation: Any, name: str) -> Any:
    # Not getattr for PyG's objects: `num_nodes` would be guessed there, with a warning.
    get = getattr(explanation, "get", None)
    return get(name) if callable(get) else getattr(explanation, name, None)


def _text(explanation: Any, name: str) -> str:
    value = _field(explanation, name)
    return "" if value is None else str(value)


def _number(holder: object, name: str) -> float | None:
    value = getattr(holder, name, None)
    if value is None:
        return None
    return float(value) if math.isfinite(float(value)) else None


def _names(explanation: Any, name: str, count: int | None) -> Sequence[object] | None:
    names = _field(explanation, name)
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"{name} must be a list of names, not {type(names).__name__}")
    if count is not None and len(names) != count:
        raise InputError(f"{name} has {len(names)} entries for {count}")
    return names


def _tensor(explanation: Any, name: str) -> Tensor | None:
    value = _field(explanation, name)
    if value is None:
        return None
    if not isinstance(value, Tensor):
        raise InputError(f"{name} must be a tensor, not {type(value).__name__}")
    return value.detach().cpu()


def _finite(scores: Tensor, name: str) -> Tensor:
    if not bool(torch.isfinite(scores).all()):
        raise InputError(f"{name} holds NaN or Inf: there is nothing sensible to draw")
    return scores.to(torch.float64)


def _edge_index(explanation: Any) -> Tensor:
    edge_index = _tensor(explanation, "edge_index")
    if edge_index is None:
        raise InputError(f"an explanation with edge_index is needed, not {type(explanation).__name__} without one")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"edge_index must be [2, E], not {list(edge_index.shape)}")
    return edge_index.long()


def _num_nodes(explanation: Any, edge_index: Tensor) -> tuple[int, bool]:
    count = _field(explanation, "num_nodes")
    if count is not None:
        return int(count), True
    for name in ("x", "self_loop_score", "node_mask"):
        value = _tensor(explanation, name)
        # A node_mask with one row holds features of all nodes, so its rows count nothing.
        if value is not None and not (name == "node_mask" and value.dim() == 2 and value.size(0) == 1):
            return value.size(0), True
    names = _field(explanation, "node_names")
    if names is not None:
        return len(names), True
    index = _tensor_index(explanation)
    largest = [int(t.max()) for t in (edge_index, index) if t is not None and t.numel()]
    return max(largest, default=0) + 1, False


def _edge_scores(explanation: Any, num_edges: int) -> Tensor | None:
    return _vector(explanation, "edge_mask", num_edges)


def _vector(explanation: Any, name: str, size: int) -> Tensor | None:
    scores = _tensor(explanation, name)
    if scores is None:
        return None
    if scores.numel() != size or scores.dim() > 2:
        raise InputError(f"{name} must have {size} entries, not shape {list(scores.shape)}")
    return _finite(scores.reshape(-1), name)


def _node_and_feature_scores(explanation: Any, num_nodes: int) -> tuple[Tensor | None, Tensor | None]:
    """A node's score, and a feature's, from a mask of any of PyG's three shapes.

    With a mask entry for every node and feature, the score of a node is the sum over its features of mask times x: the
    derivative with respect to a mask on the whole node. A feature's score is the same sum over the nodes.
    """
    mask = _tensor(explanation, "node_mask")
    if mask is None or _field(explanation, "features_scored") is False:
        return None, None
    mask = mask.unsqueeze(1) if mask.dim() == 1 else mask
    if mask.dim() != 2 or mask.size(0) not in (1, num_nodes):
        raise InputError(f"node_mask must be [{num_nodes}, d] or [1, d], not {list(mask.shape)}")
    if mask.size(0) != num_nodes:
        return None, _finite(mask[0], "node_mask")
    if mask.size(1) == 1:
        return _finite(mask[:, 0], "node_mask"), None
    x = _tensor(explanation, "x")
    product = mask if x is None or x.shape != mask.shape else mask * x
    return _finite(product.sum(1), "node_mask"), _finite(product.sum(0), "node_mask")


def _tensor_index(explanation: Any) -> Tensor | None:
    index = _field(explanation, "index")
    if index is None:
        return None
    index = torch.as_tensor(index).detach().cpu()
    return index.nonzero().reshape(-1) if index.dtype == torch.bool else index.reshape(-1).long()


def _explained(explanation: Any, num_nodes: int) -> tuple[int, ...]:
    index = _tensor_index(explanation)
    if index is None:
        return ()
    config = getattr(explanation, "_model_config", None)
    level = str(getattr(getattr(config, "task_level", None), "value", "node"))
    pairs = _tensor(explanation, "edge_label_index")
    if level == "graph" or (level == "edge" and pairs is None):
        return ()  # the index then counts graphs or edges, not nodes
    if level == "edge" and pairs is not None:
        index = pairs.long()[:, index].reshape(-1)
    if index.numel() and not -num_nodes <= int(index.min()) <= int(index.max()) < num_nodes:
        raise InputError(f"the explained node {index.tolist()} is not one of the {num_nodes} nodes")
    return tuple(dict.fromkeys(int(i) % num_nodes for i in index.tolist()))
