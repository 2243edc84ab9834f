"""The one reader of explanations: it reads the scores of any PyG explanation, checks them and puts them in order.

An explanation by plain PyG has ``node_mask`` and ``edge_mask`` at most; the fields that graphfaith adds are used where
they exist. Everything is a few tensor operations, whatever the size of the graph, on the CPU and in double precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch_geometric.explain import Explanation, HeteroExplanation

from .._base.checks import check_count, check_node, check_real
from .._base.errors import InputError, UnsupportedError
from ..graph.form import flatten_features

Sign = Literal["+", "-"]
Names = Sequence[str] | Mapping[int, str]


class Entries(NamedTuple):
    """Entries of A with their scores: every edge of the graph, then the scored self-loops that are no edges of it."""

    ends: Tensor  # [2, m] source and sink
    score: Tensor  # [m]
    edge_id: Tensor  # [m] place in edge_index; -1 for a self-loop that is not there


@dataclass(frozen=True)
class Scores:
    """All scores of one explanation, float64 on the CPU; a kind of score that it does not have is None."""

    num_nodes: int
    num_nodes_known: bool  # False if the nodes were only counted from the ids that occur
    edge_index: Tensor  # [2, E] without self-loops
    edge: Tensor | None  # [E]
    node: Tensor | None  # [N]
    loop: Tensor | None  # [N]
    feature: Tensor | None  # [d]
    explained: tuple[int, ...]  # each node once
    method: str
    neighborhood: str  # in which the method was fitted
    node_names: Sequence[Any] | None
    feature_names: Sequence[Any] | None
    route: str | None = None  # how A enters the model, if that is known


def read_scores(explanation: Explanation) -> Scores:
    """Read and check an explanation as a picture shows it: self-loops apart from edges, and one score a feature."""
    num_nodes, known = _count_nodes(explanation)
    edge_index = edge_index_of(explanation)
    edge, loop = _edge_and_loop_scores(explanation, edge_index, num_nodes)
    is_loop = edge_index[0] == edge_index[1]
    if edge is not None and bool(is_loop.any()):
        loop = torch.zeros(num_nodes, dtype=torch.float64) if loop is None else loop
        loop.index_add_(0, edge_index[0, is_loop], edge[is_loop])
    node = scores_of_nodes(explanation)
    return Scores(
        num_nodes=num_nodes,
        num_nodes_known=known,
        edge_index=edge_index[:, ~is_loop],
        edge=None if edge is None else edge[~is_loop],
        node=None if node is None else node.double(),
        loop=loop,
        feature=scores_of_features(explanation),
        explained=tuple(dict.fromkeys(explained_nodes(explanation).tolist())),
        route=explanation.get("edge_route"),
        method=str(explanation.get("method") or ""),
        neighborhood=str(explanation.get("neighborhood") or ""),
        node_names=node_names_of(explanation),
        feature_names=names_of(explanation, "feature_names"),
    )


def entries(explanation: Explanation) -> Entries:
    """Return the scores of edges and self-loops; those of edges only if there is an ``edge_mask``."""
    edge_index = edge_index_of(explanation)
    edges, loops = _edge_and_loop_scores(explanation, edge_index, num_nodes_of(explanation))
    ends, scores = [edge_index[:, :0]], [torch.zeros(0, dtype=torch.float64)]
    edge_id = [torch.zeros(0, dtype=torch.int64)]
    if edges is not None:
        ends, scores, edge_id = [edge_index], [edges], [torch.arange(len(edges))]
    if loops is not None:
        nodes = loops.nonzero().view(-1)
        ends.append(nodes.expand(2, -1))
        scores.append(loops[nodes])
        edge_id.append(torch.full_like(nodes, -1))
    return Entries(torch.cat(ends, dim=1), torch.cat(scores), torch.cat(edge_id))


def _edge_and_loop_scores(
    explanation: Explanation, edge_index: Tensor, num_nodes: int
) -> tuple[Tensor | None, Tensor | None]:
    """Return the scores of all edges, [E], and those of the self-loops that are no scored edges, [N].

    A self-loop in ``edge_index`` has its score in ``edge_mask``, and graphfaith repeats it in ``self_loop_score``. It
    is one entry of A and counts once, as the metric counts it: the score in ``edge_mask`` holds.
    """
    edges = _vector(explanation, "edge_mask", edge_index.size(1))
    loops = _vector(explanation, "self_loop_score", num_nodes)
    if edges is not None and loops is not None:
        loops = loops.clone()
        loops[edge_index[0, edge_index[0] == edge_index[1]]] = 0
    return edges, loops


def strongest(scores: Tensor, k: int | None = None, sign: Sign | None = None, share: float | None = None) -> Tensor:
    """Return the places of the scores that are not zero, the largest |score| first; of equal ones, the first one.

    There are at most ``k``. With ``sign``, all have that sign. With ``share``, they are the fewest that have together
    that share of the sum of |score|.

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
    if k is not None and k < len(places):  # There may be millions of others, which need not be sorted.
        places = places[scores[places].abs() >= scores[places].abs().topk(k).values[-1]]
    size, order = scores[places].abs().sort(descending=True, stable=True)
    if share is not None:
        if k is not None:
            raise InputError("k and share both say how much to keep: give one of them")
        if check_real(share, "share", above=0.0) > 1:
            raise InputError(f"share must be at most 1 (got {share!r})")
        total = size.cumsum(0)
        if share < 1 and len(total):
            k = int((total < share * total[-1]).sum()) + 1
    return places[order[:k]]


def node_scores(explanation: Explanation) -> Tensor:
    """Return one score a node, [N]: the derivative with respect to a mask on the whole node.

    A ``node_mask`` of type "object" holds it. From one of type "attributes" it is sum_c x_vc score_vc; if the scores
    are themselves a mask between 0 and 1, that is what the mask leaves of the node's features. A mask of one column is
    taken for "object".

    >>> x, mask = torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([[1.0, -1.0], [2.0, 5.0]])
    >>> node_scores(Explanation(x=x, node_mask=mask)).tolist()
    [-1.0, 6.0]
    """
    scores = scores_of_nodes(explanation)
    if scores is None:
        raise InputError(
            'scores of nodes need a method that scores features, and node_mask_type="object" or "attributes"'
        )
    return scores


def scores_of_nodes(explanation: Explanation) -> Tensor | None:
    """Return :func:`node_scores`, or None if no node has a score of its own."""
    mask = node_mask_of(explanation)
    if mask is None or mask.size(0) != num_nodes_of(explanation):
        return None
    if mask.size(1) == 1:
        # Where x has one column, the mask may be of type "attributes" too. Its shape does not tell, so a mask of one
        # column is one score a node whatever x is, and not multiplied by x.
        return mask[:, 0]
    return _products(explanation, mask).sum(dim=1)


def scores_of_features(explanation: Explanation) -> Tensor | None:
    """Return one score a feature, [d]: the derivative with respect to a mask on the whole column, sum_v x_vc score_vc.

    A ``node_mask`` of type "common_attributes", which has one row, holds it. None if no feature has a score.
    """
    mask = node_mask_of(explanation)
    if mask is None:
        return None
    if mask.size(0) != num_nodes_of(explanation):
        return mask[0].double()
    return None if mask.size(1) == 1 else _products(explanation, mask).sum(dim=0).double()


def _products(explanation: Explanation, mask: Tensor) -> Tensor:
    """Return x_vc score_vc, [N, d]. Without x they are unknown, and a sum of the scores alone is no node's score."""
    x = features_of(explanation)
    if x is None or x.shape != mask.shape:
        raise InputError(
            f"node_mask {list(mask.shape)} needs an x of the same shape (got {shape_of(explanation.get('x'))})"
        )
    return _check_finite(mask * x, "node_mask times x")


def features_of(explanation: Explanation) -> Tensor | None:
    """Return X, [N, d], on the processor; None if there is no ``x``.

    Features of another shape than [d] are flattened. Of categories X says whether each differs from the baseline, which
    is in ``baseline_categories``.

    >>> window = Explanation(x=torch.zeros(3, 4, 2))
    >>> features_of(window).shape
    torch.Size([3, 8])
    """
    x, baseline = explanation.get("x"), explanation.get("baseline_categories")
    if not isinstance(x, Tensor) or not x.dim():
        return None
    x = flatten_features(x.detach().cpu())
    if not isinstance(baseline, Tensor) or baseline.numel() != x.size(1):
        return x
    present: Tensor = (x != baseline.detach().cpu().reshape(-1)).double()
    return present


def node_mask_of(explanation: Explanation) -> Tensor | None:
    """Return the scores in ``node_mask``, [N, d], [N, 1] or [1, d], checked; None if they say nothing.

    Scores of features that have another shape than [d] are flattened.

    A method that scores edges alone fills the mask with ones, because PyG asks for a mask, and sets
    ``features_scored`` to False. Those ones are no scores.
    """
    mask, num_nodes = explanation.get("node_mask"), num_nodes_of(explanation)
    if mask is None or explanation.get("features_scored") is False:
        return None
    if not isinstance(mask, Tensor) or not mask.dim() or mask.size(0) not in (1, num_nodes):
        raise InputError(f"node_mask must be a tensor [{num_nodes}, d] or [1, d] (got {shape_of(mask)})")
    scores = numbers_of(mask, "node_mask", mask.dtype if mask.is_floating_point() else torch.float64)
    return flatten_features(scores)


def num_nodes_of(explanation: Explanation) -> int:
    """Return how many nodes the graph has."""
    return _count_nodes(explanation)[0]


def _count_nodes(explanation: Explanation) -> tuple[int, bool]:
    """Return how many nodes the graph has, and whether that is known and not only the largest id that occurs.

    The fields with one row a node are asked in the order of their weight: the input of F, the scores, the names. Where
    they disagree, the check of the later one says so. PyG would take the one row of a mask on columns for one node.
    """
    if isinstance(explanation, HeteroExplanation):
        raise UnsupportedError("this is for explanations of one graph: take explanation.joint(), of all types together")
    if not isinstance(explanation, Explanation):
        raise InputError(f"an explanation of PyG is needed (got {type(explanation).__name__})")
    count = explanation.get("num_nodes")
    if count is not None:
        return int(count), True
    row_mask = False
    for name in ("x", "self_loop_score", "node_mask", "node_names"):
        value = explanation.get(name)
        if value is None:
            continue
        if not hasattr(value, "__len__") or (isinstance(value, Tensor) and not value.dim()):
            raise InputError(f"{name} must have one row a node (got {shape_of(value)})")
        if name == "node_mask" and len(value) == 1 and getattr(value, "ndim", 1) != 1:
            row_mask = True
            continue
        return len(value), True
    ids = [explanation.get("edge_index")]
    if task_level(explanation) == "node":  # At other levels the index counts pairs or graphs.
        ids.append(_index_of(explanation))
    largest = [int(values.max()) for values in ids if isinstance(values, Tensor) and values.numel()]
    # A mask of columns is one of at least one node.
    return max(max(largest, default=-1) + 1, int(row_mask)), False


def num_columns_of(explanation: Explanation) -> int:
    """Return how many features a node has."""
    count = _count_columns(explanation)
    if count is None:
        raise InputError("the explanation has no x and no node_mask with columns: there are no features")
    return count


def _count_columns(explanation: Explanation) -> int | None:
    """Return how many features a node has; None if that is unknown, as from a mask with one score a node."""
    x, mask = explanation.get("x"), explanation.get("node_mask")
    if isinstance(x, Tensor) and x.dim():
        return flatten_features(x).size(1)
    if isinstance(mask, Tensor) and mask.dim() > 1 and (mask[:1].numel() > 1 or mask.size(0) == 1):
        return mask[:1].numel()
    return None


def edge_index_of(explanation: Explanation) -> Tensor:
    """Return the edges, [2, E], checked; [2, 0] if there is no ``edge_index``."""
    edge_index, num_nodes = explanation.get("edge_index"), num_nodes_of(explanation)
    if edge_index is None:
        return torch.zeros(2, 0, dtype=torch.int64)
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"edge_index must be a tensor [2, E] (got {shape_of(edge_index)})")
    check_ids(edge_index, num_nodes, "edge_index")
    return edge_index.detach().cpu().long()


def check_ids(ids: Tensor, count: int, name: str, least: int = 0) -> None:
    """Check that all ``ids`` are whole numbers from ``least`` to ``count - 1``."""
    if ids.dtype not in (torch.int64, torch.int32):
        raise InputError(f"{name} must hold whole numbers (got {ids.dtype})")
    if ids.numel() and not least <= int(ids.min()) <= int(ids.max()) < count:
        raise InputError(f"{name} holds numbers outside {least} to {count - 1}")


def explained_nodes(explanation: Explanation) -> Tensor:
    """Return the ids of the nodes whose prediction is explained; there are none for the prediction of a whole graph.

    At edge level these are the sources and then the sinks of the explained pairs. The pairs are those in the field
    that :func:`pairs_field` names, so that a model which scores the edges themselves has explained nodes too.
    """
    ids, num_nodes, level = _index_of(explanation), num_nodes_of(explanation), task_level(explanation)
    none = torch.zeros(0, dtype=torch.int64)
    if ids is None:
        return none
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


def _index_of(explanation: Explanation) -> Tensor | None:
    """Return the explained rows of the output as a list of numbers; None if there is no ``index``."""
    index = explanation.get("index")
    if index is None:
        return None
    try:
        ids = torch.as_tensor(index).detach().cpu()
    except (RuntimeError, TypeError, ValueError):
        raise InputError(f"index must be a whole number, or a list or tensor of them (got {shape_of(index)})") from None
    return ids.nonzero().view(-1) if ids.dtype == torch.bool else ids.reshape(-1)


def pairs_field(explanation: Explanation) -> str:
    """Return the field whose columns the rows of the output stand for at edge level: pairs to judge, or the edges."""
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
    """Return what was explained: the prediction of a "node", of an "edge" or of a "graph"."""
    config = getattr(explanation, "_model_config", None)
    return str(getattr(getattr(config, "task_level", None), "value", "node"))


def names_of(explanation: Explanation, field: str) -> Sequence[Any] | None:
    """Return the names in ``node_names`` or ``feature_names``; None if there are none.

    Their number is checked, but for names of features that the explanation has no column of. Features that are more
    than a row, as of time steps and channels, are called by their places, as "3,1", if they have no names.
    """
    names = explanation.get(field)
    if names is None:
        x = explanation.get("x") if field == "feature_names" else None
        if isinstance(x, Tensor) and x.dim() > 2:
            return [",".join(map(str, place)) for place in product(*map(range, x.shape[1:]))]
        return None
    count = num_nodes_of(explanation) if field == "node_names" else _count_columns(explanation)
    if isinstance(names, str) or not isinstance(names, Sequence) or (count is not None and len(names) != count):
        wanted = "names" if count is None else f"{count} names"
        raise InputError(f"{field} must be a list of {wanted} (got {shape_of(names)})")
    return names


def class_names_of(explanation: Explanation) -> tuple[str, ...] | None:
    """Return the names of the classes; None if there are none."""
    names = explanation.get("class_names")
    if names is None:
        return None
    count = num_classes_of(explanation)
    if isinstance(names, str) or not isinstance(names, Sequence) or (count is not None and len(names) != count):
        wanted = "names" if count is None else f"{count} names"
        raise InputError(f"class_names must be a list of {wanted} (got {shape_of(names)})")
    return tuple(str(name) for name in names)


def types_of(explanation: Explanation) -> Sequence[Any] | None:
    """Return the type of each node of a heterogeneous graph, in ``node_types``; None if the graph has no types."""
    return _list_of(explanation, "node_types", num_nodes_of(explanation), "node")


def kinds_of(explanation: Explanation) -> Sequence[Any] | None:
    """Return what each node is, as the element of an atom, in ``node_kinds``; None if that was not given."""
    return _list_of(explanation, "node_kinds", num_nodes_of(explanation), "node")


def orders_of(explanation: Explanation) -> Sequence[Any] | None:
    """Return the order of each edge, as that of a bond, in ``edge_orders``; None if that was not given."""
    orders = _list_of(explanation, "edge_orders", edge_index_of(explanation).size(1), "edge")
    return None if orders is None else [check_real(order, "an order of edge_orders", above=0.0) for order in orders]


def node_names_of(explanation: Explanation) -> Sequence[str] | None:
    """Return what nodes are called: their names or, of atoms without names, element and id, as O7; None otherwise."""
    names, kinds = names_of(explanation, "node_names"), kinds_of(explanation)
    if names is not None or kinds is None:
        return names
    return [str(node) if kind is None else f"{kind}{node}" for node, kind in enumerate(kinds)]


def _list_of(explanation: Explanation, field: str, count: int, what: str) -> Sequence[Any] | None:
    given = explanation.get(field)
    if isinstance(given, Tensor):
        given = given.detach().cpu().tolist()
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != count:
        raise InputError(f"{field} must be a list of {count}, one for each {what} (got {shape_of(given)})")
    return given


def num_classes_of(explanation: Explanation) -> int | None:
    """Return how many classes the model tells apart, 1 for a regression; None if that is not known."""
    config, output = getattr(explanation, "_model_config", None), explanation.get("prediction")
    mode = str(getattr(getattr(config, "mode", None), "value", ""))
    if mode in ("binary_classification", "regression"):
        return 2 if mode == "binary_classification" else 1
    known = mode == "multiclass_classification" and isinstance(output, Tensor) and output.dim() == 2
    return int(output.size(1)) if known else None


def check_fields(explanation: Explanation) -> None:
    """Check that scores, names and ids fit the graph."""
    num_nodes, num_edges = num_nodes_of(explanation), edge_index_of(explanation).size(1)
    lengths = dict.fromkeys(("x", "self_loop_score", "node_id", "batch"), num_nodes)
    lengths |= dict.fromkeys(("edge_mask", "edge_weight", "edge_attr", "edge_attr_score", "edge_id"), num_edges)
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
        # A model makes a row for each number up to the largest. There are at most as many graphs as nodes or outputs.
        outputs = [explanation.get(name) for name in ("x", "prediction", "target")]
        counts = [len(values) for values in outputs if isinstance(values, Tensor) and values.dim()]
        check_ids(explanation.batch, max([num_nodes, *counts]), "batch")
    for name in ("node_names", "feature_names"):
        names_of(explanation, name)
    class_names_of(explanation)
    index = explanation.get("index")
    if index is not None and not isinstance(index, int | list | Tensor):
        raise InputError(f"index must be a whole number, or a list or tensor of them (got {shape_of(index)})")
    explained_nodes(explanation)


def give_names(names: Names, before: Sequence[Any] | None, count: int, what: str) -> list[str]:
    """Return ``count`` names, from a list of all or from a dictionary of some by id; others keep their name or id."""
    if isinstance(names, Mapping):
        given = [str(name) for name in (range(count) if before is None else before)]
        for place, name in names.items():
            try:
                given[check_node(place, count)] = name
            except InputError:
                one = "class" if what == "classes" else what[:-1]
                raise InputError(f"there is no {one} {place!r} to name: there are {count} {what}") from None
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
    """Return scores as finite numbers.

    NaN has no place in an order. An infinite score has one, but a share of the sum, a node's sum over features and a
    picture's scale do not exist with it. Both are refused everywhere, so that what can be listed can also be shown.
    """
    return _check_finite(values.detach().cpu().to(dtype), name)


def _check_finite(scores: Tensor, name: str) -> Tensor:
    if not bool(scores.isfinite().all()):
        raise InputError(f"{name} holds NaN or Inf: scores must be finite numbers")
    return scores


def shape_of(value: object) -> str:
    """Return what a value is, in a word, for a message."""
    if isinstance(value, Tensor):
        return f"a tensor {list(value.shape)}"
    return f"{len(value)}" if isinstance(value, list | tuple) else type(value).__name__


def _vector(explanation: Explanation, name: str, size: int) -> Tensor | None:
    scores = explanation.get(name)
    if scores is None:
        return None
    if not isinstance(scores, Tensor):
        raise InputError(f"{name} must be a tensor (got {type(scores).__name__})")
    if scores.numel() != size or scores.dim() > 2:
        raise InputError(f"{name} must have {size} entries (got {shape_of(scores)})")
    return numbers_of(scores, name).reshape(-1)
