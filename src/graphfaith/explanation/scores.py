"""The scores of an explanation, whoever made it: read out of PyG's fields, checked, and put in order of strength.

Everything is a few tensor operations whatever the size of the graph, on the CPU and in double precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch_geometric.explain import Explanation, HeteroExplanation

from .._base.checks import check_count, check_node, check_real
from .._base.errors import InputError, UnsupportedError

Sign = Literal["+", "-"]
Names = Sequence[str] | Mapping[int, str]


class Entries(NamedTuple):
    """Entries of A with their scores: every edge of the graph, then the self-loops that are scored but not in it."""

    ends: Tensor  # [2, m] source and sink
    score: Tensor  # [m]
    edge_id: Tensor  # [m] place in edge_index; -1 for a self-loop that is implied


def entries(explanation: Explanation) -> Entries:
    """The scores of edges and self-loops; of edges only where there is an ``edge_mask``."""
    edge_index = edge_index_of(explanation)
    edges = _vector(explanation, "edge_mask", edge_index.size(1))
    loops = _vector(explanation, "self_loop_score", num_nodes_of(explanation))
    ends, scores = [edge_index[:, :0]], [torch.zeros(0, dtype=torch.float64)]
    edge_id = [torch.zeros(0, dtype=torch.int64)]
    if edges is not None:
        ends, scores, edge_id = [edge_index], [edges], [torch.arange(len(edges))]
    if loops is not None:
        if edges is not None:
            loops = loops.clone()
            loops[edge_index[0, edge_index[0] == edge_index[1]]] = 0  # a loop of the graph is among its edges
        nodes = loops.nonzero().view(-1)
        ends.append(nodes.expand(2, -1))
        scores.append(loops[nodes])
        edge_id.append(torch.full_like(nodes, -1))
    return Entries(torch.cat(ends, dim=1), torch.cat(scores), torch.cat(edge_id))


def strongest(
    scores: Tensor, k: int | None = None, sign: Sign | None = None, share: float | None = None
) -> Tensor:  # fmt: skip
    """Places of the scores that are not zero, the largest |score| first and of equal ones the first.

    At most ``k``; only those of one ``sign``; only the first that have together a ``share`` of the sum of |score|.

    >>> strongest(torch.tensor([0.0, -3.0, 1.0, 3.0]), 2).tolist()
    [1, 3]
    >>> strongest(torch.tensor([0.0, -3.0, 1.0, 3.0]), share=0.9).tolist()
    [1, 3, 2]
    """
    if k is not None:
        k = check_count(k, "k")
    if sign not in (None, "+", "-"):
        raise InputError(f'sign must be "+", "-" or None for both (got {sign!r})')
    wanted = scores != 0 if sign is None else scores > 0 if sign == "+" else scores < 0
    places = wanted.nonzero().view(-1)
    if k is not None and k < len(places):  # the rest, which may be millions, need no order
        places = places[scores[places].abs() >= scores[places].abs().topk(k).values[-1]]
    size, order = scores[places].abs().sort(descending=True, stable=True)
    if share is not None:
        if k is not None:
            raise InputError("k and share both say how much to keep: give one")
        if check_real(share, "share", above=0.0) > 1:
            raise InputError(f"share must be at most 1 (got {share!r})")
        total = size.cumsum(0)
        if share < 1 and len(total):
            k = int((total < share * total[-1]).sum()) + 1
    return places[order[:k]]


def node_scores(explanation: Explanation) -> Tensor:
    """One score a node, [N]: the derivative with respect to a mask on the whole node.

    A ``node_mask`` of type "object" has it. From one of type "attributes" it is sum_c x_vc score_vc; if the scores are
    themselves a mask between 0 and 1, that is what the mask leaves of the node's features. A mask of one column is
    taken for "object".

    >>> x, mask = torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([[1.0, -1.0], [2.0, 5.0]])
    >>> node_scores(Explanation(x=x, node_mask=mask)).tolist()
    [-1.0, 6.0]
    """
    scores = scores_of_nodes(explanation)
    if scores is None:
        raise InputError('scores of nodes need node_mask_type="object" or "attributes"')
    return scores


def scores_of_nodes(explanation: Explanation) -> Tensor | None:
    """:func:`node_scores`, or None if no node has a score of its own."""
    mask, num_nodes = explanation.get("node_mask"), num_nodes_of(explanation)
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dim() not in (1, 2) or mask.size(0) not in (1, num_nodes):
        raise InputError(f"node_mask must be [{num_nodes}, d] or [1, d] (got {shape_of(mask)})")
    if mask.size(0) != num_nodes:
        return None
    scores = numbers_of(mask, "node_mask", mask.dtype if mask.is_floating_point() else torch.float64)
    if scores.dim() == 1 or scores.size(1) == 1:
        return scores.reshape(-1)
    x = explanation.get("x")
    if not isinstance(x, Tensor) or x.shape != mask.shape:
        raise InputError(f"node_mask {list(mask.shape)} needs an x of the same shape (got {shape_of(x)})")
    return (scores * x.detach().cpu()).sum(dim=1)


def num_nodes_of(explanation: Explanation) -> int:
    """How many nodes the graph has; PyG would take the one row of a mask on columns for one node."""
    if isinstance(explanation, HeteroExplanation):
        raise UnsupportedError("explanations of heterogeneous graphs are not supported")
    if not isinstance(explanation, Explanation):
        raise InputError(f"an explanation of PyG is needed (got {type(explanation).__name__})")
    count = explanation.get("num_nodes")
    if count is not None:
        return int(count)
    for name in ("x", "self_loop_score", "node_names"):
        if explanation.get(name) is not None:
            return len(explanation[name])
    mask, edge_index = explanation.get("node_mask"), explanation.get("edge_index")
    if isinstance(mask, Tensor) and mask.dim() and (len(mask) > 1 or edge_index is None):
        return len(mask)
    return int(edge_index.max()) + 1 if isinstance(edge_index, Tensor) and edge_index.numel() else 0


def num_columns_of(explanation: Explanation) -> int:
    """How many features a node has."""
    for name in ("x", "node_mask"):
        value = explanation.get(name)
        if isinstance(value, Tensor) and value.dim() == 2:
            return value.size(1)
    raise InputError("the explanation has no x and no node_mask: there are no features")


def edge_index_of(explanation: Explanation) -> Tensor:
    """The edges, [2, E], checked; [2, 0] if there is no ``edge_index``."""
    edge_index, num_nodes = explanation.get("edge_index"), num_nodes_of(explanation)
    if edge_index is None:
        return torch.zeros(2, 0, dtype=torch.int64)
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"edge_index must be a tensor [2, E] (got {shape_of(edge_index)})")
    check_ids(edge_index, num_nodes, "edge_index")
    return edge_index.detach().cpu().long()


def check_ids(ids: Tensor, count: int, name: str, least: int = 0) -> None:
    """See that all ``ids`` are whole numbers from ``least`` to ``count - 1``."""
    if ids.dtype not in (torch.int64, torch.int32):
        raise InputError(f"{name} must hold whole numbers (got {ids.dtype})")
    if ids.numel() and not least <= int(ids.min()) <= int(ids.max()) < count:
        raise InputError(f"{name} holds numbers outside {least} to {count - 1}")


def explained_nodes(explanation: Explanation) -> Tensor:
    """Ids of the nodes whose prediction is explained: at edge level sources, then sinks; none for a whole graph."""
    index, num_nodes, level = explanation.get("index"), num_nodes_of(explanation), task_level(explanation)
    none = torch.zeros(0, dtype=torch.int64)
    if index is None:
        return none
    ids = torch.as_tensor(index).detach().cpu()
    ids = ids.nonzero().view(-1) if ids.dtype == torch.bool else ids.reshape(-1)
    if level == "node":
        check_ids(ids, num_nodes, "index", least=-num_nodes)
        return ids.long() % max(num_nodes, 1)
    field = pairs_field(explanation) if level == "edge" else ""
    if not field:
        return none
    pairs = explanation[field]
    check_ids(pairs, num_nodes, field)
    check_ids(ids, pairs.size(1), "index", least=-pairs.size(1))
    ends: Tensor = pairs.detach().cpu().long()[:, ids.long()]
    return ends.reshape(-1)


def pairs_field(explanation: Explanation) -> str:
    """The field whose columns the rows of the output stand for at edge level: pairs to judge, or the edges."""
    output = next((explanation[name] for name in ("target", "prediction") if explanation.get(name) is not None), None)
    count = len(output) if isinstance(output, Tensor) and output.dim() else None
    names: list[str] = ["edge_label_index", *(getattr(explanation, "_model_args", None) or []), "edge_index"]
    for name in names:
        value = explanation.get(name)
        if isinstance(value, Tensor) and value.dim() == 2 and value.size(0) == 2 and not value.is_floating_point():
            if count is None and name == "edge_label_index":
                return name
            if value.size(1) == count:
                return name
    return ""


def task_level(explanation: Explanation) -> str:
    """What was explained: the prediction of a "node", of an "edge" or of a "graph"."""
    config = getattr(explanation, "_model_config", None)
    return str(getattr(getattr(config, "task_level", None), "value", "node"))


def names_of(explanation: Explanation, field: str) -> Sequence[Any] | None:
    """The names in ``node_names`` or ``feature_names``, checked for their number; None if there are none."""
    names = explanation.get(field)
    if names is None:
        return None
    count = num_nodes_of(explanation) if field == "node_names" else num_columns_of(explanation)
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != count:
        raise InputError(f"{field} must be a list of {count} names (got {shape_of(names)})")
    return names


def check_fields(explanation: Explanation) -> None:
    """See that scores, names and ids fit the graph."""
    num_nodes, num_edges = num_nodes_of(explanation), edge_index_of(explanation).size(1)
    lengths = dict.fromkeys(("x", "self_loop_score", "node_id", "batch"), num_nodes)
    lengths |= dict.fromkeys(("edge_mask", "edge_weight", "edge_attr", "edge_id"), num_edges)
    for name, length in lengths.items():
        value = explanation.get(name)
        if value is not None and (not isinstance(value, Tensor) or not value.dim() or len(value) != length):
            raise InputError(f"{name} must be a tensor with {length} rows (got {shape_of(value)})")
    mask = explanation.get("node_mask")
    if mask is not None and (not isinstance(mask, Tensor) or not mask.dim() or len(mask) not in (1, num_nodes)):
        raise InputError(f"node_mask must be a tensor with {num_nodes} rows or one (got {shape_of(mask)})")
    for name in ("node_id", "edge_id"):
        if explanation.get(name) is not None:
            check_ids(explanation[name], 1 << 62, name)
    if explanation.get("batch") is not None:
        # Models make a row for each number up to the largest: more than nodes or outputs there cannot be.
        outputs = [explanation.get(name) for name in ("x", "prediction", "target")]
        counts = [len(values) for values in outputs if isinstance(values, Tensor) and values.dim()]
        check_ids(explanation.batch, max([num_nodes, *counts]), "batch")
    for name in ("node_names", "feature_names"):
        names_of(explanation, name)
    index = explanation.get("index")
    if index is not None and not isinstance(index, int | list | Tensor):
        raise InputError(f"index must be a whole number, or a list or tensor of them (got {shape_of(index)})")
    explained_nodes(explanation)


def give_names(names: Names, before: Sequence[Any] | None, count: int, what: str) -> list[str]:
    """A list of ``count`` names from such a list, or from some of them by id; the rest keep theirs, or their id."""
    if isinstance(names, Mapping):
        given = [str(name) for name in (range(count) if before is None else before)]
        for place, name in names.items():
            try:
                given[check_node(place, count)] = name
            except InputError:
                raise InputError(f"there is no {what[:-1]} {place!r} to name: there are {count} {what}") from None
    elif isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"names of {what} must be a list or a dictionary (got {type(names).__name__})")
    else:
        given = list(names)
    if len(given) != count:
        raise InputError(f"{len(given)} names for {count} {what}: give one to each, or a dictionary for some")
    for name in given:
        if not isinstance(name, str):
            raise InputError(f"a name must be a text (got {name!r})")
    return given


def numbers_of(values: Tensor, name: str, dtype: torch.dtype = torch.float64) -> Tensor:
    """Scores as numbers that can be put in order."""
    scores = values.detach().cpu().to(dtype)
    if bool(scores.isnan().any()):
        raise InputError(f"{name} holds NaN: such scores have no order")
    return scores


def shape_of(value: object) -> str:
    """What a value is, in a word, for a message."""
    if isinstance(value, Tensor):
        return f"a tensor {list(value.shape)}"
    return f"{len(value)}" if isinstance(value, list | tuple) else type(value).__name__


def _vector(explanation: Explanation, name: str, size: int) -> Tensor | None:
    scores = explanation.get(name)
    if scores is None:
        return None
    if not isinstance(scores, Tensor) or scores.numel() != size or scores.dim() > 2:
        raise InputError(f"{name} must have {size} entries (got {shape_of(scores)})")
    return numbers_of(scores, name).reshape(-1)
