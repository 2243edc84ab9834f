"""The whole graph (X, A) of the user, checked once, with an index so that a search need not scan all edges."""

from __future__ import annotations

import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._base import core
from .._base.errors import DataError, InputError, MemoryLimitError
from .form import CATEGORIES, Form, flatten_features, is_categorical
from .kinds import Kinds

Int64 = npt.NDArray[np.int64]
Ids = npt.NDArray[Any]  # int32 or int64
NO_LIMIT = 1 << 62  # nodes and edges, more than any graph has
Pair = tuple[Ids, Ids]
Index = tuple[Pair, Pair, Pair, Ids, Ids]
Known = tuple[Int64, npt.NDArray[np.bool_]]


class Part(NamedTuple):
    """The part of a graph that a walk against the edges has found, from some nodes on."""

    nodes: Int64  # [n] by hop, and then by id
    hop: Int64  # [n]
    num_inner: int  # how many of the nodes, the first ones, have all their edges here
    edges: Int64  # [e] slots in the order of the edges' ids, without self-loops
    ends: Int64  # [2, e] positions among the nodes, or n for all nodes that are further away
    beyond: int  # the smallest id of these; -1 if there are none


class Graph:
    """A checked graph with an index of in-edges (compressed columns of A).

    ``A[i, j]`` is the weight of the edge along which a message goes from j to i, so ``in_edges`` of i is row i of
    A. Self-loops are stored separately: A has one for every node, with weight 1 unless the user gave another.

    An edge is kept in a slot. Here that is its id, the column of ``edge_index``; a graph that is kept in files has its
    edges sorted (:class:`~graphfaith.graph.packed.PackedGraph`).

    Use :meth:`of`, which caches the most recent graphs: the checks and the index are then computed once for each graph
    and not once for each explained node.

    >>> graph = Graph.of(torch.ones(3, 2), torch.tensor([[0, 1, 2], [1, 2, 2]]))
    >>> graph.in_edges(np.array([1, 2])).tolist()      # slots of edges, without self-loops
    [0, 1]
    >>> graph.loop_edge.tolist()                       # the explicit self-loop of node 2 is edge 2
    [-1, -1, 2]
    """

    _copies: tuple[Any, ...] | None = None  # on the processor, of tensors that are elsewhere
    form: Form | None = None  # what X stands for; None if the model is given X itself
    _matrix: Tensor | None = None  # X, if it is no view of what the user gave
    kinds: Kinds | None = None  # of nodes and edges, if the graph is a heterogeneous one in one numbering

    def __init__(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        flow: str = "source_to_target",
        dtype: torch.dtype | None = None,
    ) -> None:
        given = x, edge_index, edge_weight
        # Tensors of another device are copied once; what is explained is computed on the processor.
        x, edge_index, edge_weight = own = tuple(map(_fetch, given))
        if any(a is not b for a, b in zip(own, given, strict=True)):
            self._copies = own
        check_features(x)
        self.form = Form.of(x)
        if self.form is not None:
            dtype = edge_weight.dtype if isinstance(edge_weight, Tensor) else dtype or torch.get_default_dtype()
            matrix = self.form.matrix(x, dtype)
            self._matrix = None if matrix.data_ptr() == x.data_ptr() else matrix
            x = matrix
        self.lowest, highest = _check(x, edge_index, edge_weight)
        self.feature_range = highest - self.lowest
        self._given = tuple(None if tensor is None else weakref.ref(tensor) for tensor in given)
        self.num_nodes, self.num_features = int(x.size(0)), int(x.size(1))
        self.num_edges = int(edge_index.size(1))
        self.flow = flow
        ends: Int64 = edge_index.detach().numpy()
        source, sink = (0, 1) if flow == "source_to_target" else (1, 0)
        self.source, self.sink = np.ascontiguousarray(ends[source]), np.ascontiguousarray(ends[sink])
        self._index_edges()

    def _index_edges(self) -> None:
        self._small = np.int32 if max(self.num_edges, self.num_nodes) < 1 << 31 else np.int64
        loops = np.flatnonzero(self.source == self.sink)
        self.loop_edge: Ids = np.full(self.num_nodes, -1, dtype=self._small)
        if len(loops):
            self.loop_edge[self.sink[loops]] = loops
            # If a node has several self-loops, the assignment above kept only the last one, so the first one differs.
            if (self.loop_edge[self.sink[loops]] != loops).any():
                nodes, counts = np.unique(self.sink[loops], return_counts=True)
                raise InputError(
                    f"node {nodes[counts > 1][0]} has {counts[counts > 1][0]} self-loops, but A has one entry for it; "
                    "merge them first (torch_geometric.utils.coalesce)"
                )
        self._has_loops = bool(len(loops))
        self._in = self._sort_by_end(self.sink)

    def _sort_by_end(self, end: Int64) -> tuple[Ids, Ids]:
        """Return the ids of the edges without self-loops, sorted by one end, and where the edges of each node begin.

        Both are 32-bit integers if these suffice, because for a large graph they take memory beside the user's tensors.
        """
        small = self._small
        others = np.flatnonzero(self.source != self.sink) if self._has_loops else np.arange(self.num_edges)
        end = end[others] if self._has_loops else end.copy()
        start = np.zeros(self.num_nodes + 1, dtype=small)
        np.cumsum(np.bincount(end, minlength=self.num_nodes), out=start[1:])
        shift = self.num_edges.bit_length()
        if shift + self.num_nodes.bit_length() > _KEY_BITS:
            return others[np.argsort(end, kind="stable")].astype(small), start
        # The pair (end, id) is packed into one number and sorted in place. An argsort would need twice the memory and
        # several times as long.
        end <<= shift
        end |= others
        del others
        end.sort()
        end &= (1 << shift) - 1
        return end.astype(small), start

    @cached_property
    def _out(self) -> tuple[Ids, Ids]:
        return self._sort_by_end(self.source)

    @property
    def x(self) -> Tensor:
        """The node features X, [N, d], on the processor."""
        if self.form is None:
            return self._tensor(0)
        return flatten_features(self._tensor(0)) if self._matrix is None else self._matrix

    @property
    def edge_index(self) -> Tensor:
        """The edges in the user's order, [2, E]."""
        return self._tensor(1)

    @property
    def edge_weight(self) -> Tensor | None:
        """The user's edge weights, [E]; None means that all weights are 1."""
        return self._tensor(2) if self.is_weighted else None

    def _tensor(self, place: int) -> Tensor:
        if self._copies is not None:
            copied: Tensor = self._copies[place]
            return copied
        reference = self._given[place]
        assert reference is not None
        return _alive(reference)

    @property
    def device(self) -> torch.device:
        """Where the user has X."""
        return self.given[0].device

    @property
    def given(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """X, the edges and the edge weights as the user gave them, wherever they are."""
        if self._copies is None:
            return self.x if self.form is None else self._tensor(0), self.edge_index, self.edge_weight
        x, edge_index, edge_weight = (None if one is None else _alive(one) for one in self._given)
        assert x is not None
        assert edge_index is not None
        return x, edge_index, edge_weight

    @property
    def is_weighted(self) -> bool:
        """Whether the user gave edge weights."""
        return self._given[2] is not None

    @property
    def has_every_loop(self) -> bool:
        """Whether the user gave a self-loop for every node."""
        return bool((self.loop_edge >= 0).all())

    @property
    def loaded_bytes(self) -> int:
        """How much is read to run a model on the whole graph: nothing, because its tensors are there already."""
        return 0

    @property
    def held_bytes(self) -> int:
        """A bound on what the index takes while it is made."""
        return 8 * (8 * self.num_edges + 4 * self.num_nodes)

    def features(self, nodes: Int64) -> Tensor:
        """Return the features of ``nodes``, [n, d]."""
        return self.x.detach().index_select(0, torch.from_numpy(nodes))

    def weights(self, edges: Int64) -> Tensor:
        """Return the weights of the edges in some slots, [e]; ones if the user gave none."""
        given = self.edge_weight
        if given is None:
            return torch.ones(len(edges), dtype=self.x.dtype)
        return given.detach()[torch.from_numpy(edges)]

    def ids(self, edges: Int64) -> Int64:
        """Return the ids of the edges in some slots; -1 for a self-loop that the user did not give, which has -1."""
        return edges

    def loops(self, nodes: Int64) -> Int64:
        """Return the slots of the self-loops of ``nodes``; -1 where the user gave none."""
        return self.loop_edge.take(nodes).astype(np.int64, copy=False)

    def check_flow(self, flow: str) -> None:
        """Refuse to be read in another direction; the graph of tensors was indexed for the one that was asked for."""

    def check_whole(self, why: str) -> None:
        """Refuse to be read as a whole if that is too much; the tensors of this graph are there already."""

    def ends(self, edges: Int64) -> Int64:
        """Return source and sink of the edges in some slots, [2, e]."""
        ends = np.empty((2, len(edges)), dtype=np.int64)
        ends[0], ends[1] = self.source[edges], self.sink[edges]
        return ends

    def ends_of_part(self, edges: Int64, known: Callable[[], Known]) -> Int64:  # noqa: ARG002
        """Return source and sink of edges in a part of the graph, [2, e]; ``known`` returns what the walk knows.

        That is ids of the ends, and which of them are not theirs, because they stand for several nodes.
        """
        return self.ends(edges)

    def in_edges(self, nodes: Int64) -> Int64:
        """Return the slots of the edges into ``nodes`` without self-loops, in the order of the nodes."""
        return _edges_at(nodes, *self._in)

    def find_all(self) -> Int64:
        """Return the slots of all edges without self-loops, in the order of their ids."""
        return np.flatnonzero(self.source != self.sink)

    def find_part(
        self, seeds: Int64, reach: int, depth: int, *, out_degrees: bool = False, most: int = NO_LIMIT, each: int = 0
    ) -> Part:
        """Return the nodes up to ``reach`` hops before ``seeds`` and the edges into those up to hop ``depth``.

        The seeds are distinct. With ``out_degrees`` the edges out of these nodes are found too. If there are more than
        ``most`` nodes and edges, the walk stops there and raises a :class:`MemoryLimitError`. If ``each`` is not 0, the
        part is one of a thinner graph: an edge is in it only if it is one of the first ``each`` at both of its ends.

        >>> graph = Graph.of(torch.ones(4, 2), torch.tensor([[3, 2, 1], [2, 1, 0]]))      # 3 -> 2 -> 1 -> 0
        >>> part = graph.find_part(np.array([0]), 1, 1)
        >>> part.nodes.tolist(), part.edges.tolist(), part.ends.tolist(), part.beyond
        ([0, 1], [1, 2], [[2, 1], [1, 0]], 2)
        """
        into, out_of, ends, ids, _ = self.index(out_degrees or each > 0)
        with self.reading():
            found = Part(*core.find_part(seeds, into, out_of, ends, ids, reach, depth, out_degrees, most, each))
        if not len(found.nodes):
            raise MemoryLimitError(f"the computation graph has more than {most} nodes and edges")
        return found

    def attribute_ranges(self, attributes: Tensor, ids: Tensor) -> Tensor | None:  # noqa: ARG002
        """Return how far the attributes of edges may move, by type; None, because all are of one."""
        return None

    def add_beyond(
        self,
        nodes: Int64,
        hop: Int64,
        edges: Int64,  # noqa: ARG002
        ends: Int64,
        beyond: int,
        num_hops: int,
    ) -> tuple[Int64, Int64, Int64]:
        """Return nodes, hops and ends of a part with one node more, which stands for all that are further away."""
        return np.append(nodes, beyond), np.append(hop, num_hops + 1), ends

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what the core says of edges that lead nowhere, which damaged files may have, into an error of data."""
        try:
            yield
        except IndexError as error:
            raise DataError(f"the graph is damaged: {error}") from None

    def index(self, out_degrees: bool = False) -> Index:
        """Return what the compiled core reads of the graph.

        These are the slots of edges by their sink, and where those of each node begin; the same by their source, if
        ``out_degrees``; sources, and sinks if ``out_degrees``; ids, or -1 if slots are ids; and self-loops.

        The core is compiled once for each layout of its arguments. Whatever the graph, they are 32-bit integers if
        these suffice and cannot be written to, and the sources and the ids lie two apart, as the halves of 64-bit
        integers and as columns of a table do.
        """
        return self._index_with_out if out_degrees else self._index

    @cached_property
    def _index(self) -> Index:
        return self._make_index(out_degrees=False)

    @cached_property
    def _index_with_out(self) -> Index:
        return self._make_index(out_degrees=True)

    def _make_index(self, *, out_degrees: bool) -> Index:
        none = np.empty(0, dtype=self._small)
        out_of, sink = (self._out, self.sink.astype(self._small)) if out_degrees else ((none, none), none)
        ids = np.full((2, 2), -1, dtype=self._small)
        source = halves(self.source) if self._small is np.int32 else self.source
        return as_index(self._in, out_of, (source, sink), ids[:, 0], self.loop_edge)

    @classmethod
    def of(
        cls,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        flow: str = "source_to_target",
        dtype: torch.dtype | None = None,
    ) -> Graph:
        """Return the graph of these tensors, from the cache if it is there and no tensor was written to since.

        ``dtype`` is the precision of X and of A if ``x`` has ids of categories, which have none.
        """
        tensors = (x, edge_index, edge_weight)
        dtype = dtype if is_categorical(x) else None
        if any(isinstance(t, Tensor) and t.is_inference() for t in tensors):
            # Inference tensors have no version counter, so writes to them could not be noticed.
            return cls(x, edge_index, edge_weight, flow, dtype)
        stamp = (flow, dtype, *(None if t is None else (id(t), t._version) for t in tensors if _is_tensor(t)))
        cached = _RECENT.get(stamp)
        is_known = cached is not None and cached._is_of(tensors)
        graph = cached if cached is not None and is_known else cls(x, edge_index, edge_weight, flow, dtype)
        with _RECENT_LOCK:
            # The graph moves to the end of the dictionary, whose first entry is the least recently used.
            _RECENT.pop(stamp, None)
            _RECENT[stamp] = graph
            while len(_RECENT) > _REMEMBERED:
                del _RECENT[next(iter(_RECENT))]
        return graph

    def _is_of(self, tensors: tuple[Tensor | None, ...]) -> bool:
        held = (None if reference is None else reference() for reference in self._given)
        return all(a is b for a, b in zip(held, tensors, strict=True))


# A graph holds only weak references to the user's tensors, so the cache does not keep their memory in use.
_RECENT: dict[Any, Graph] = {}
_RECENT_LOCK = threading.Lock()
_REMEMBERED = 8
_ROWS = 1 << 16  # number of rows that are searched at a time for an entry that is not finite
_KEY_BITS = 63  # bits of the number that holds a node and an edge id while edges are sorted
_PRECISIONS = (torch.float16, torch.float32, torch.float64)


def halves(ids: Int64) -> Ids:
    """Return a view of 64-bit integers that fit into 32 bits as such, two apart; of fewer than two, a copy with more.

    numpy calls an array of one number dense, whatever the distance to the next.

    >>> halves(np.array([5, 7])).tolist(), halves(np.array([5])).strides
    ([5, 7], (8,))
    """
    if len(ids) < 2:
        ids = np.concatenate((ids, np.zeros(2, dtype=np.int64)))
    return ids.view(np.int32)[0 if sys.byteorder == "little" else 1 :: 2]


def as_index(into: Pair, out_of: Pair, ends: Pair, ids: Ids, loops: Ids) -> Index:
    """Return what the core reads of a graph as arrays that cannot be written to."""
    return _frozen(*into), _frozen(*out_of), _frozen(*ends), *_frozen(ids, loops)


def _frozen(one: Ids, other: Ids) -> Pair:
    one, other = one.view(), other.view()
    one.flags.writeable = other.flags.writeable = False
    return one, other


def _edges_at(nodes: Int64, ids: Ids, start: Ids) -> Int64:
    if len(nodes) == 1:
        return ids[start[nodes[0]] : start[nodes[0] + 1]].astype(np.int64)
    last = start.take(nodes + 1)
    count = last - start.take(nodes)
    # Edge k of the result, if it belongs to nodes[i], is at position start[i] + k - (edges of nodes[0] to nodes[i-1]),
    # which is k + last[i] - total[i].
    total = count.cumsum(dtype=np.int64)
    positions = (last - total).repeat(count)
    positions += np.arange(len(positions))
    edges: Int64 = ids.take(positions).astype(np.int64, copy=False)
    return edges


def _is_tensor(value: Tensor | None) -> bool:
    return value is None or isinstance(value, Tensor)


def _fetch(tensor: Any) -> Any:
    """Return a tensor on the processor; the same one if it is there."""
    return tensor.detach().cpu() if isinstance(tensor, Tensor) and tensor.device.type != "cpu" else tensor


def _alive(reference: weakref.ref[Tensor]) -> Tensor:
    tensor = reference()
    if tensor is None:
        raise InputError("the graph's tensors are gone: keep x, edge_index and edge_weight until the explanation ends")
    return tensor


def check_features(x: Tensor) -> None:
    """Check that x holds features, [nodes, ...]; raise an :class:`InputError` that names the first fault otherwise.

    They are real numbers, or ids of categories.
    """
    if not isinstance(x, Tensor) or not x.dim():
        raise InputError(f"x must be a tensor of shape [nodes, features] or [nodes, ...] (got {_shape(x)})")
    if x.layout != torch.strided:
        raise InputError(f"x must be dense (got {x.layout}): pass x.to_dense()")
    if x.dtype not in (*_PRECISIONS, *CATEGORIES):
        raise InputError(
            f"x must hold real numbers in float16, float32 or float64, or ids of categories (got {x.dtype}): pass "
            "x.float()"
        )
    if x.numel() == 0:
        raise InputError(f"the graph is empty: x has shape {list(x.shape)}")


def check_matrix(x: Tensor) -> None:
    """Check that x is a matrix of real numbers; raise an :class:`InputError` that names the first fault otherwise."""
    if not isinstance(x, Tensor) or x.dim() != 2:
        raise InputError(f"x must be a tensor of shape [nodes, features] (got {_shape(x)})")
    if x.dtype not in _PRECISIONS:
        raise InputError(f"x must hold real numbers in float16, float32 or float64 (got {x.dtype}): pass x.float()")
    check_features(x)


def check_edge_index(edge_index: Tensor) -> None:
    """Check that edge_index holds pairs of node ids, whichever nodes there are; raise an :class:`InputError` if not."""
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"edge_index must be a tensor of shape [2, edges] (got {_shape(edge_index)})")
    if edge_index.dtype != torch.int64:
        raise InputError(f"edge_index must hold int64 node ids (got {edge_index.dtype})")


def is_undirected(edge_index: Tensor) -> bool:
    """Return whether every edge is there in both directions, and there is at least one that is no self-loop.

    >>> is_undirected(torch.tensor([[0, 1, 2], [1, 0, 2]])), is_undirected(torch.tensor([[0, 1], [1, 2]]))
    (True, False)
    """
    plain = edge_index[:, edge_index[0] != edge_index[1]]
    if not plain.size(1):
        return False
    size = int(plain.max()) + 1
    there = torch.unique(plain[0] * size + plain[1])
    back = torch.unique(plain[1] * size + plain[0])
    return torch.equal(there, back)


def _check(x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> tuple[float, float]:
    """Check that the tensors form a valid graph (X, A), and return min(X) and max(X).

    Raise an :class:`InputError` that names the first fault otherwise.
    """
    check_edge_index(edge_index)
    check_ends(x, edge_index)
    lowest, highest = finite_ends(x, "x")
    if edge_weight is None:
        return lowest, highest
    if not isinstance(edge_weight, Tensor) or edge_weight.shape != (edge_index.size(1),):
        raise InputError(
            f"edge_weight must have one number for each of the {edge_index.size(1)} edges (got {_shape(edge_weight)})"
        )
    if edge_weight.dtype not in _PRECISIONS:
        raise InputError(
            f"edge_weight must hold real numbers in float16, float32 or float64 (got {edge_weight.dtype}): pass "
            "edge_weight.float()"
        )
    check_weights(edge_weight)
    return lowest, highest


def check_ends(x: object, edge_index: object) -> None:
    """Raise an :class:`InputError` if an edge starts or ends at no node; nothing else is said of what is no tensor."""
    if isinstance(x, Tensor) and x.dim() and isinstance(edge_index, Tensor) and edge_index.numel():
        least, most = edge_index.aminmax()
        check_range(int(least), int(most), x.size(0))


def check_range(least: int, most: int, num_nodes: int) -> None:
    """Raise an :class:`InputError` if the least or the largest end of some edges is no node."""
    if least < 0 or most >= num_nodes:
        worst = least if least < 0 else most
        raise InputError(f"edge_index names node {worst}, but the graph has nodes 0 to {num_nodes - 1}")


def check_weights(edge_weight: Tensor, first: int = 0) -> None:
    """Raise an :class:`InputError` if a weight is negative or not finite; ``first`` is the first edge that has one."""
    if edge_weight.numel() and finite_ends(edge_weight, "edge_weight", first)[0] < 0:
        where = int(edge_weight.detach().argmin())
        weight = float(edge_weight.detach()[where])
        raise InputError(f"edge {first + where} has weight {weight:g}: weights must be 0 or more")


def finite_ends(tensor: Tensor, name: str, first: int = 0) -> tuple[float, float]:
    """Return the smallest and the largest entry; raise an :class:`InputError` if any entry is not finite.

    ``first`` is the number of the first row, if the tensor is a part of a larger one.
    """
    # An infinite entry is the smallest or the largest one, and a NaN makes both NaN, so these two show every fault.
    tensor = tensor.detach()
    least, most = tensor.aminmax()
    if math.isfinite(least) and math.isfinite(most):
        return float(least), float(most)
    for start in range(0, len(tensor), _ROWS):  # in parts, because the mask of a large tensor needs much memory
        wrong = ~torch.isfinite(tensor[start : start + _ROWS])
        if wrong.any():
            row, *rest = wrong.nonzero()[0].tolist()
            where = (start + row, *rest)
            break
    named = ", ".join(map(str, (first + where[0], *where[1:])))
    raise InputError(f"{name}[{named}] is {float(tensor[where]):g}: every entry must be finite")


def _shape(value: object) -> str:
    return f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
