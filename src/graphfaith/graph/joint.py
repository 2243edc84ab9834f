"""A heterogeneous graph as one graph: the nodes of all types one after another, and so the edges of all types."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._base.errors import InputError, UnsupportedError
from .form import find_baseline, is_categorical
from .graph import Graph, Int64, check_edge_index, check_features, check_range, check_weights, finite_ends
from .kinds import EdgeType, Kinds


class JointGraph(Graph):
    """The graph of several types of nodes and edges, in one numbering; see :mod:`graphfaith.graph.kinds`.

    X has the columns of all types, and a node has zeros in those of other types. It takes memory for all nodes times
    all columns.

    >>> x = {"paper": torch.ones(2, 1), "word": torch.eye(3)}
    >>> edges = {("word", "in", "paper"): torch.tensor([[0, 2], [0, 1]])}
    >>> graph = JointGraph(x, edges)
    >>> graph.x.shape, graph.edge_index.tolist()
    (torch.Size([5, 4]), [[2, 4], [0, 1]])
    """

    def __init__(
        self,
        x: Mapping[str, Tensor],
        edge_index: Mapping[EdgeType, Tensor],
        edge_weight: Mapping[EdgeType, Tensor] | None = None,
        flow: str = "source_to_target",
    ) -> None:
        self.kinds = kinds = kinds_of(x, edge_index)
        self._device = next(iter(x.values())).device
        joint_x = torch.zeros(kinds.node_start[-1], kinds.column_start[-1], dtype=next(iter(x.values())).dtype)
        for place, name in enumerate(kinds.node_types):
            if is_categorical(joint_x) and len(x[name]):
                # A node has the baseline in the columns of other types, which thereby stays the most frequent there.
                joint_x[:, kinds.columns(place)] = find_baseline(x[name].detach().cpu())
            joint_x[kinds.nodes(place), kinds.columns(place)] = x[name].detach()  # which copies from any device
        joint_edges, weight = join_edges(kinds, edge_index), None
        if edge_weight is not None:
            counts = {kind: edge_index[kind].size(1) for kind in kinds.edge_types}
            parts = [_check_weight(edge_weight, kind, count) for kind, count in counts.items()]
            weight = torch.cat([part.to(joint_x.dtype) for part in parts])
        _check_loops(kinds, joint_edges)
        super().__init__(joint_x, joint_edges, weight, flow)
        self._copies = joint_x, joint_edges, weight  # They are our own, and nobody else keeps them.
        self.lowest, self.feature_range = min(kinds.lowest), max(kinds.span)
        # How many columns the attributes of each edge type have, if the model is given some of real numbers.
        self.attribute_widths: tuple[int, ...] = ()

    @property
    def device(self) -> torch.device:
        """Where the user has X."""
        return self._device

    @property
    def given(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """X, the edges and the edge weights in the joint numbering."""
        return self.x, self.edge_index, self.edge_weight

    def attribute_ranges(self, attributes: Tensor, ids: Tensor) -> Tensor | None:
        """Return how far the attributes of edges may move, [e, c]: the range of those of their type in the graph."""
        assert self.kinds is not None
        if not self.attribute_widths:
            return None
        found, of_edge = torch.zeros(len(ids), attributes.size(1), dtype=torch.float64), self.kinds.of_edges(ids)
        for kind, width in enumerate(self.attribute_widths):
            own = attributes[self.kinds.edges(kind), :width]
            if own.numel():
                least, most = own.aminmax()
                found[of_edge == kind, :width] = float(most) - float(least)
        return found

    def add_beyond(
        self,
        nodes: Int64,
        hop: Int64,
        edges: Int64,
        ends: Int64,
        beyond: int,  # noqa: ARG002
        num_hops: int,
    ) -> tuple[Int64, Int64, Int64]:
        """Append a node of each type for all nodes of that type that are further away than F sees."""
        assert self.kinds is not None
        far = ends >= len(nodes)
        ids = self.ends(edges)[far]
        assert self.kinds is not None
        kinds = self.kinds.of_nodes(torch.from_numpy(ids)).numpy()
        present = np.unique(kinds)
        first = np.array([ids[kinds == kind].min() for kind in present], dtype=np.int64)
        ends = ends.copy()
        ends[far] = len(nodes) + np.searchsorted(present, kinds)
        return np.append(nodes, first), np.append(hop, np.full(len(first), num_hops + 1)), ends


def join_edges(kinds: Kinds, edge_index: Mapping[EdgeType, Tensor]) -> Tensor:
    """Return the edges of all types, [2, e], in the joint numbering."""
    parts = []
    for place, kind in enumerate(kinds.edge_types):
        starts = torch.tensor([kinds.node_start[end] for end in kinds.ends(place)])
        parts.append(edge_index[kind].detach().cpu() + starts.unsqueeze(1))
    return torch.cat(parts, dim=1)


def join_attributes(rows: Mapping[EdgeType, Tensor], kinds: Kinds) -> Tensor:
    """Return attributes of edges by type, or scores of them, as one matrix [E, c]; columns that a type lacks are 0."""
    flat = {kind: one.detach().reshape(len(one), -1) for kind, one in rows.items() if len(one)}
    first = next(iter(rows.values()))
    joint = torch.zeros(kinds.edge_start[-1], max((one.size(1) for one in flat.values()), default=0), dtype=first.dtype)
    for place, kind in enumerate(kinds.edge_types):
        if kind in flat:
            joint[kinds.edges(place), : flat[kind].size(1)] = flat[kind]  # which copies from any device
    return joint


def kinds_of(x: Mapping[str, Tensor], edge_index: Mapping[EdgeType, Tensor]) -> Kinds:
    """Check the tensors of a heterogeneous graph, and return where each type begins."""
    if not isinstance(x, Mapping) or not isinstance(edge_index, Mapping):
        raise InputError("a heterogeneous graph has a dictionary of x and one of edge_index")
    if not x or not edge_index:
        raise InputError(f"the graph is empty: it has {len(x)} types of nodes and {len(edge_index)} of edges")
    lowest, span = [], []
    for name, features in x.items():
        try:
            check_features(features)
        except InputError as error:
            raise InputError(f"nodes of type {name!r}: {error}") from None
        least, most = finite_ends(features.detach().cpu(), f"x[{name!r}]")
        lowest.append(least)
        span.append(most - least)
    if len({features.dtype for features in x.values()}) > 1:
        named = ", ".join(f"{name}: {features.dtype}" for name, features in x.items())
        raise InputError(
            f"the features of all types of nodes must have one precision (got {named}); where x of a type has ids of "
            "categories, look their embeddings up before the graph, and give the model those rows as x"
        )
    for kind, ends in edge_index.items():
        _check_edges(kind, ends, x)
    nodes, columns = (starts_of([features.size(axis) for features in x.values()]) for axis in (0, 1))
    edges = starts_of([ends.size(1) for ends in edge_index.values()])
    return Kinds(tuple(x), tuple(edge_index), nodes, columns, edges, tuple(lowest), tuple(span))


def _check_edges(kind: Any, ends: Any, x: Mapping[str, Tensor]) -> None:
    if not isinstance(kind, tuple) or len(kind) != 3:
        raise InputError(f"an edge type is (source type, relation, sink type) (got {kind!r})")
    try:
        check_edge_index(ends)
        for place, row in zip((0, 2), ends, strict=True):
            if kind[place] not in x:
                raise InputError(f"there is no x of nodes of type {kind[place]!r}")
            if row.numel():
                least, most = row.aminmax()
                check_range(int(least), int(most), x[kind[place]].size(0))
    except InputError as error:
        raise InputError(f"edges of type {kind}: {error}") from None


def _check_weight(weights: Mapping[EdgeType, Tensor], kind: EdgeType, count: int) -> Tensor:
    weight = weights.get(kind)
    if not isinstance(weight, Tensor) or weight.shape != (count,):
        got = list(weight.shape) if isinstance(weight, Tensor) else type(weight).__name__
        raise InputError(
            f"edges of type {kind}: edge_weight must have one number for each of {count} edges (got {got})"
        )
    check_weights(weight)
    return weight.detach().cpu()


def _check_loops(kinds: Kinds, edge_index: Tensor) -> None:
    """A has one entry for the self-loop of a node, so that loops of two relations at one node have no place in it."""
    loops = edge_index[0, edge_index[0] == edge_index[1]]
    nodes, counts = torch.unique(loops, return_counts=True)
    if len(nodes) and int(counts.max()) > 1:
        raise UnsupportedError(
            f"{kinds.name_of(int(nodes[counts > 1][0]))} has self-loops of several edge types, or several of one: give "
            "at most one, and let the layers of other relations add theirs"
        )


def starts_of(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return where each type begins, and the whole size."""
    return 0, *itertools.accumulate(sizes)
