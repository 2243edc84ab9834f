"""A heterogeneous model as a model of one graph: it is given the joint graph, and gives its parts to the model by type.

F, its computation graph, disjoint copies, batches and gradients are then those of any other model. What the model is
called with by type is made anew in every call, from the ids of the nodes and edges that are there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.explain.algorithm.utils import set_hetero_masks, set_masks
from torch_geometric.nn import HANConv, HGTConv

from .._base.errors import InputError, ModelError, UnsupportedError, describe_error
from ..graph.joint import JointGraph, join_attributes
from ..graph.kinds import EdgeType, Kinds
from .adapter import Adapter
from .call import check_output
from .home import send
from .layers import count_hops, mask_in_turn, message_passing_layers, unwrap
from .record import evaluating

LINKS = (
    "links of heterogeneous graphs cannot be explained yet: explain the nodes at their ends, or a model of the graph "
    "that data.to_homogeneous() makes"
)
WEIGHTS = ("edge_weight_dict", "edge_weight")  # the names under which a model may take the weights of all edge types
ATTRIBUTES = ("edge_attr_dict", "edge_attr")  # and those of attributes of edges


@dataclass(frozen=True)
class Split:
    """The nodes and edges of a joint graph by type."""

    kinds: Kinds
    nodes: tuple[Tensor, ...]  # the places of the nodes of each type
    edges: tuple[Tensor, ...]  # the places of the edges of each type
    local: Tensor  # [n] the place of each node among those of its type

    @classmethod
    def of(cls, kinds: Kinds, node_place: Tensor, edge_place: Tensor) -> Split:
        """Return the split of nodes and edges, given their ids in the whole graph."""
        of_node, of_edge = kinds.of_nodes(node_place), kinds.of_edges(edge_place)
        nodes = tuple((of_node == kind).nonzero().view(-1) for kind in range(len(kinds.node_types)))
        edges = tuple((of_edge == kind).nonzero().view(-1) for kind in range(len(kinds.edge_types)))
        local = torch.zeros_like(node_place)
        for places in nodes:
            local[places] = torch.arange(len(places), device=places.device)
        return cls(kinds, nodes, edges, local)

    def features(self, x: Tensor) -> dict[str, Tensor]:
        """Return X of each type, from the joint one, [n, d]."""
        named = zip(self.kinds.node_types, self.nodes, strict=True)
        return {name: x[places][:, self.kinds.columns(kind)] for kind, (name, places) in enumerate(named)}

    def edge_index(self, edge_index: Tensor) -> dict[EdgeType, Tensor]:
        """Return the edges of each type, from the joint ones, [2, e]."""
        local = self.local[edge_index]
        return {name: local[:, places] for name, places in zip(self.kinds.edge_types, self.edges, strict=True)}

    def of_edges(self, numbers: Tensor) -> dict[EdgeType, Tensor]:
        """Return numbers of the edges, [e], by type."""
        return {name: numbers[places] for name, places in zip(self.kinds.edge_types, self.edges, strict=True)}

    def join_edges(self, numbers: Mapping[EdgeType, Tensor]) -> Tensor:
        """Return numbers of the edges of each type as one tensor, [e]; 0 for a type that has none."""
        found = torch.zeros(sum(map(len, self.edges)), dtype=next(iter(numbers.values())).dtype)
        for name, places in zip(self.kinds.edge_types, self.edges, strict=True):
            if numbers.get(name) is not None:
                found[places] = numbers[name]
        return found

    def join_nodes(self, rows: Mapping[str, Tensor]) -> Tensor:
        """Return masks of the nodes of each type as one, [n, d]: of single features, of nodes or of columns."""
        dtype = next(iter(rows.values())).dtype
        found = torch.zeros(len(self.local), self.kinds.column_start[-1], dtype=dtype)
        for kind, (name, places) in enumerate(zip(self.kinds.node_types, self.nodes, strict=True)):
            if rows.get(name) is not None:
                columns = torch.arange(found.size(1))[self.kinds.columns(kind)]
                found[places.unsqueeze(1), columns] = rows[name].expand(len(places), len(columns))
        return found


class JointModel(torch.nn.Module):
    """A heterogeneous ``model`` that is called with a joint graph, and returns a row for every node of it.

    ``node_type`` is the type whose nodes the model's output has rows for; None if it has one for each graph.
    Rows of nodes of other types are 0.
    """

    def __init__(self, model: torch.nn.Module, kinds: Kinds, node_type: str | None, *, weighted: bool) -> None:
        super().__init__()
        self.model, self.kinds, self.node_type = model, kinds, node_type
        self.supports_edge_weight = weighted
        self.attributes: dict[EdgeType, torch.Size] | None = None  # the shape of those of each edge type, if joined
        self._weight_name, self._batch_name = weight_argument(model), _argument(model, ("batch_dict", "batch"))

    def split(self, node_place: Tensor, edge_place: Tensor) -> Split:
        """Return the nodes and edges with these ids by type."""
        return Split.of(self.kinds, node_place, edge_place)

    def inputs(
        self, split: Split, x: Tensor, edge_index: Tensor, node_place: Tensor, edge_place: Tensor, **named: Any
    ) -> tuple[dict[str, Tensor], dict[EdgeType, Tensor], dict[str, Any]]:
        """Return what the model is called with: features and edges by type, and its other arguments."""
        weight = named.pop("edge_weight", None)
        batch = named.pop("batch") if isinstance(named.get("batch"), Tensor) else None
        attributes = named.pop("edge_attr") if self.attributes is not None else None
        arguments = {name: self._part_of(value, split, node_place, edge_place) for name, value in named.items()}
        if attributes is not None and self.attributes is not None:
            rows = split.of_edges(attributes)
            arguments[_argument(self.model, ATTRIBUTES) or ATTRIBUTES[0]] = {
                kind: rows[kind][:, : shape.numel()].reshape(len(rows[kind]), *shape)
                for kind, shape in self.attributes.items()
            }
        if batch is not None and self._batch_name is not None:
            named_nodes = zip(self.kinds.node_types, split.nodes, strict=True)
            arguments[self._batch_name] = {name: batch[places] for name, places in named_nodes}
        if weight is not None:
            assert self._weight_name is not None
            arguments[self._weight_name] = split.of_edges(weight)
        return split.features(x), split.edge_index(edge_index), arguments

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        node_place: Tensor,
        edge_place: Tensor,
        edge_weight: Tensor | None = None,
        **named: Any,
    ) -> Tensor:
        """Return the model's rows, those of nodes at their places in the joint graph.

        ``node_place`` and ``edge_place`` are the ids of the nodes and edges in the whole joint graph.
        """
        split = self.split(node_place, edge_place)
        given = self.inputs(split, x, edge_index, node_place, edge_place, edge_weight=edge_weight, **named)
        out = self.model(*given[:2], **given[2])
        if not isinstance(out, Tensor):
            raise UnsupportedError(f"the model must return one tensor (got {type(out).__name__}): see gf.OfType")
        if self.node_type is None:
            return out
        places = split.nodes[self.kinds.node_types.index(self.node_type)]
        if len(out) != len(places):
            raise UnsupportedError(
                f"the model must return a row for each of the {len(places)} nodes of type {self.node_type!r} (got "
                f"{len(out)})"
            )
        rows: Tensor = out.new_zeros(len(x), *out.shape[1:]).index_copy(0, places, out)
        return rows

    def _part_of(self, value: Any, split: Split, node_place: Tensor, edge_place: Tensor) -> Any:
        """Return what an argument by type has for the nodes or edges that are there."""
        if not isinstance(value, Mapping):
            return value
        kinds, found = self.kinds, {}
        for name, rows in value.items():
            if not isinstance(rows, Tensor):
                found[name] = rows
            elif name in kinds.node_types:
                kind = kinds.node_types.index(name)
                found[name] = rows[node_place[split.nodes[kind]] - kinds.node_start[kind]]
            elif name in kinds.edge_types:
                kind = kinds.edge_types.index(name)
                found[name] = rows[edge_place[split.edges[kind]] - kinds.edge_start[kind]]
            else:
                raise InputError(f"an argument of the model has a part for {name!r}, which is no type of the graph")
        return found

    def set_masks(self, factors: Tensor, edge_index: Tensor, node_place: Tensor, edge_place: Tensor) -> None:
        """Multiply the messages of every layer by ``factors``, one for each edge, until PyG's masks are cleared."""
        split = self.split(node_place, edge_place)
        masks, edges = split.of_edges(factors), split.edge_index(edge_index)
        set_hetero_masks(self.model, masks, edges, apply_sigmoid=False)
        for layer in message_passing_layers(self.model):
            if isinstance(layer, HGTConv):
                # It passes the messages of all edge types in one round, one type after the other.
                joined = torch.cat([masks[name] for name in self.kinds.edge_types])
                set_masks(layer, joined, torch.cat(list(edges.values()), dim=1), apply_sigmoid=False)
            elif isinstance(layer, HANConv):
                mask_in_turn(layer, [masks[name] for name in self.kinds.edge_types])
            elif layer.explain is not True:
                raise UnsupportedError(
                    f"{layer} belongs to no edge type, so that its messages cannot be masked: use HeteroConv, "
                    "to_hetero or HGTConv, or let forward take edge_weight_dict"
                )


class OfType(torch.nn.Module):
    """A heterogeneous model whose output is that of the nodes of one type.

    It is needed for a model that returns a dictionary, and for one whose output has as many rows as several types have
    nodes, so that it cannot be told whose they are.

    >>> class Both(torch.nn.Module):
    ...     def forward(self, x_dict, edge_index_dict):
    ...         return x_dict
    >>> OfType(Both(), "paper")({"paper": torch.ones(1), "word": torch.zeros(1)}, {})
    tensor([1.])
    """

    def __init__(self, model: torch.nn.Module, node_type: str) -> None:
        super().__init__()
        self.model, self.node_type = model, node_type

    def forward(self, *args: Any, **named: Any) -> Tensor:
        """Return the rows of the nodes of the type."""
        out: Any = self.model(*args, **named)
        is_typed = isinstance(out, Mapping)
        if is_typed and self.node_type not in out:
            raise InputError(f"the model returns nothing for {self.node_type!r}: it has {', '.join(map(repr, out))}")
        rows: Tensor = out[self.node_type] if is_typed else out
        return rows


@dataclass(frozen=True)
class Joint:
    """A heterogeneous model and graph as one model of one graph, with what the model is called with beside it."""

    model: JointModel
    graph: JointGraph
    arguments: dict[str, Any]

    @property
    def kinds(self) -> Kinds:
        """The types of nodes and edges."""
        return self.graph.kinds  # type: ignore[return-value]  # a joint graph has some

    @property
    def first(self) -> int:
        """The joint id of the first node that the model's output has a row for; 0 if rows are graphs."""
        name = self.model.node_type
        return 0 if name is None else self.kinds.node_start[self.kinds.node_types.index(name)]

    def index(self, index: int | Tensor | None) -> Any:
        """Return the rows of the joint output for those of the model's own."""
        name = self.model.node_type
        if name is None:
            return index
        count = self.kinds.node_start[self.kinds.node_types.index(name) + 1] - self.first
        if index is None:
            return torch.arange(count) + self.first
        asked = torch.as_tensor(index).cpu()
        if asked.numel() and not 0 <= int(asked.min()) <= int(asked.max()) < count:
            raise InputError(f"the graph has nodes 0 to {count - 1} of type {name!r} (got {asked.tolist()})")
        return asked + self.first

    def rows(self, rows: Tensor | None) -> Tensor | None:
        """Return something that each row of the model's output has as something that each row of the joint one has."""
        if self.model.node_type is None or not isinstance(rows, Tensor):
            return rows
        joint = rows.new_zeros(self.graph.num_nodes, *rows.shape[1:])
        joint[self.first : self.first + len(rows)] = rows.detach()
        return joint


def join(
    model: torch.nn.Module,
    x: Mapping[str, Tensor],
    edge_index: Mapping[EdgeType, Tensor],
    arguments: Mapping[str, Any],
    level: str,
    num_hops: int | None = None,
    *,
    weighted: bool = True,
) -> Joint:
    """Return a heterogeneous model and its graph as one model of one graph.

    ``arguments`` are those of the model beside features and edges, and ``level`` says what a row of its output is of.
    ``weighted`` says whether edge weights are A, if the model reads those of every type; else they are an argument.
    """
    if level == "edge":
        raise UnsupportedError(LINKS)
    named = dict(arguments)
    name = weight_argument(model) if weighted else None
    weights = None if name is None else named.get(name)
    if name is None:
        weighted = False
    elif isinstance(weights, Mapping) and all(kind in weights for kind in edge_index):
        del named[name]
    else:
        weighted = weights is None and _reads_weights(model, x, edge_index, named, name)
        weights = None
    layers = message_passing_layers(model)
    graph = JointGraph(x, edge_index, weights, layers[0].flow if layers else "source_to_target")
    kinds, home = graph.kinds, next(iter(x.values())).device
    assert kinds is not None
    node_type = None if level == "graph" else _find_node_type(model, graph, x, edge_index, dict(arguments), num_hops)
    for key in ("batch_dict", "batch") if level == "graph" else ():
        if isinstance(named.get(key), Mapping):
            named["batch"] = torch.cat([named[key][kind] for kind in kinds.node_types])
            named.pop("batch_dict", None)
    named["node_place"] = torch.arange(graph.num_nodes, device=home)
    named["edge_place"] = torch.arange(graph.num_edges, device=home)
    joint = JointModel(model, kinds, node_type, weighted=weighted)
    of_edges = _argument(model, ATTRIBUTES)
    if of_edges is not None and _can_be_joined(named.get(of_edges), edge_index):
        given = named.pop(of_edges)
        attributes = {kind: given[kind] for kind in kinds.edge_types if kind in given}
        joint.attributes = {kind: rows.shape[1:] for kind, rows in attributes.items()}
        graph.attribute_widths = tuple(joint.attributes.get(kind, torch.Size([0])).numel() for kind in kinds.edge_types)
        named["edge_attr"] = send(join_attributes(attributes, kinds), home)
    return Joint(joint, graph, named)


def _can_be_joined(given: Any, edge_index: Mapping[EdgeType, Tensor]) -> bool:
    """Return whether these are attributes of edges by type: real numbers of one precision, a row for each edge."""
    if not isinstance(given, Mapping) or not given or not set(given) <= set(edge_index):
        return False
    fits = all(
        isinstance(rows, Tensor) and rows.is_floating_point() and rows.dim() and len(rows) == edge_index[kind].size(1)
        for kind, rows in given.items()
    )
    return fits and len({rows.dtype for rows in given.values()}) == 1 and any(rows.numel() for rows in given.values())


def arguments_of(model: torch.nn.Module, find: Callable[[str], Any]) -> dict[str, Any]:
    """Return the arguments of a heterogeneous model beside features and edges that ``find`` knows by their names."""
    inner = inner_model(model)
    parameters = list(inspect.signature(inner.forward).parameters.values())[2:]
    named = [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    fields = inner.fields if isinstance(inner, Adapter) else ()
    found = {name: find(name) for name in (*named, *fields)}
    for name in fields:
        if found[name] is None:
            raise ModelError(f"the model reads the field {name!r}, which the graph does not have")
    return {name: value for name, value in found.items() if value is not None}


def weight_argument(model: torch.nn.Module) -> str | None:
    """Return the name under which a heterogeneous model takes edge weights; None if it takes none."""
    return _argument(model, WEIGHTS)


def _argument(model: torch.nn.Module, names: Sequence[str]) -> str | None:
    parameters = inspect.signature(inner_model(model).forward).parameters
    return next((name for name in names if name in parameters), None)


def inner_model(model: torch.nn.Module) -> Any:
    """Return the user's own model, whose forward has the names of the arguments."""
    inner = unwrap(model)
    return unwrap(inner.model) if isinstance(inner, OfType) else inner


def _reads_weights(
    model: torch.nn.Module,
    x: Mapping[str, Tensor],
    edge_index: Mapping[EdgeType, Tensor],
    named: dict[str, Any],
    name: str,
) -> bool:
    """Return whether the output depends on the weights of the edges of every type that it depends on at all.

    A model may take weights of some types and ignore the others, whose entries of A would then have no effect.
    """
    first = next(iter(x.values()))
    with evaluating(model), torch.enable_grad():
        ones = {
            kind: torch.ones(ends.size(1), dtype=first.dtype, device=first.device, requires_grad=True)
            for kind, ends in edge_index.items()
        }
        try:
            out = model(x, edge_index, **{**named, name: ones})
            slopes = torch.autograd.grad(out.sum(), list(ones.values()), allow_unused=True)
            unread = [kind for kind, slope in zip(ones, slopes, strict=True) if slope is None]
            with torch.no_grad():
                for kind in unread:
                    without = {**edge_index, kind: edge_index[kind][:, :0]}
                    weights = {**ones, kind: ones[kind][:0]}
                    if not torch.allclose(model(x, without, **{**named, name: weights}), out):
                        return False
        except Exception:  # the user's own forward may raise anything for weights that a layer does not take
            return False
    return len(unread) < len(ones)


def _find_node_type(
    model: torch.nn.Module,
    graph: JointGraph,
    x: Mapping[str, Tensor],
    edge_index: Mapping[EdgeType, Tensor],
    named: dict[str, Any],
    num_hops: int | None,
) -> str:
    """Return the type of nodes that the rows of the model's output belong to."""
    chosen = getattr(unwrap(model), "node_type", None) if isinstance(unwrap(model), OfType) else None
    if chosen is not None:
        if chosen not in x:
            raise InputError(f"there is no node type {chosen!r}: the graph has {', '.join(map(repr, x))}")
        return str(chosen)
    with evaluating(model), torch.no_grad():
        try:
            out = model(x, edge_index, **named)
        except (Exception, SystemExit) as error:  # the user's own forward may raise anything
            raise ModelError(f"the model cannot be run on this graph: {describe_error(error)}") from error
    check_output(out)
    fits = [name for name, features in x.items() if len(features) == len(out)]
    if len(fits) > 1:
        fits = [name for name in fits if _is_within_reach(model, graph, x, edge_index, named, name, num_hops)]
    if len(fits) != 1:
        sizes = ", ".join(f"{len(features)} of type {name!r}" for name, features in x.items())
        raise UnsupportedError(
            f"the model returns {len(out)} rows, and the graph has {sizes} nodes: it cannot be told whose rows these "
            "are. Wrap the model: gf.OfType(model, node_type)"
        )
    return fits[0]


def _is_within_reach(
    model: torch.nn.Module,
    graph: JointGraph,
    x: Mapping[str, Tensor],
    edge_index: Mapping[EdgeType, Tensor],
    named: dict[str, Any],
    name: str,
    num_hops: int | None,
) -> bool:
    """Return whether rows of the output depend on nothing further away than messages go, if they are of this type."""
    kinds = graph.kinds
    assert kinds is not None
    start, count = kinds.node_start[kinds.node_types.index(name)], len(x[name])
    reach = count_hops(model) if num_hops is None else num_hops
    generator = torch.Generator().manual_seed(0)
    with evaluating(model), torch.enable_grad():
        drawn = {
            key: torch.randn(value.shape, generator=generator).to(value).requires_grad_() for key, value in x.items()
        }
        out = model(drawn, edge_index, **named)
        for row in {0, count // 2, count - 1}:
            slopes = torch.autograd.grad(out[row].sum(), list(drawn.values()), allow_unused=True, retain_graph=True)
            near = graph.find_part(np.array([start + row]), max(1, reach), max(1, reach)).nodes
            for kind, slope in enumerate(slopes):
                seen = [] if slope is None else slope.detach().cpu().any(dim=1).nonzero().view(-1).numpy()
                if not np.isin(kinds.node_start[kind] + np.asarray(seen, dtype=np.int64), near).all():
                    return False
    return True
