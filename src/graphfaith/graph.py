"""The whole graph (X, A) as the user gave it: checked once, and indexed so that a walk need not scan all edges."""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .errors import InputError

Int64 = npt.NDArray[np.int64]


class Graph:
    """A checked graph with an index of in-edges (compressed columns of A).

    ``A[i, j]`` is the weight of the edge along which a message goes from j to i, so ``in_edges`` of i is row i of
    A. Self-loops are kept apart: A has one for every node, of weight 1 unless the user gave another.

    Use :meth:`of`, which remembers the last graphs: the checks and the index are made once for a graph, not once
    for a node.

    >>> graph = Graph.of(torch.ones(3, 2), torch.tensor([[0, 1, 2], [1, 2, 2]]))
    >>> graph.in_edges(np.array([1, 2])).tolist()      # ids of edges, loops left out
    [0, 1]
    >>> graph.loop_edge.tolist()                       # the explicit loop of node 2 is edge 2
    [-1, -1, 2]
    """

    def __init__(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, flow: str = "source_to_target"
    ) -> None:
        _check(x, edge_index, edge_weight)
        self._x, self._edge_index = weakref.ref(x), weakref.ref(edge_index)
        self._edge_weight = None if edge_weight is None else weakref.ref(edge_weight)
        self.num_nodes, self.num_features = int(x.size(0)), int(x.size(1))
        self.num_edges = int(edge_index.size(1))
        self.flow = flow
        self.feature_range = float(x.detach().max() - x.detach().min())
        ends = edge_index.detach().cpu().numpy()
        source, sink = (ends[0], ends[1]) if flow == "source_to_target" else (ends[1], ends[0])
        self.source: Int64 = source.astype(np.int64, copy=False)
        self.sink: Int64 = sink.astype(np.int64, copy=False)
        self._index_edges()
        # What a model computed on this graph as a whole; see Target.remembered.
        self.memory: weakref.WeakKeyDictionary[torch.nn.Module, dict[str, Any]] = weakref.WeakKeyDictionary()

    def _index_edges(self) -> None:
        loops = np.flatnonzero(self.source == self.sink)
        self.loop_edge: Int64 = np.full(self.num_nodes, -1, dtype=np.int64)
        self.loop_edge[self.sink[loops]] = loops
        if len(loops) != np.count_nonzero(self.loop_edge >= 0):
            nodes, counts = np.unique(self.sink[loops], return_counts=True)
            raise InputError(
                f"node {nodes[counts > 1][0]} has {counts[counts > 1][0]} self-loops: A has one entry for it; merge "
                "them first (torch_geometric.utils.coalesce)"
            )
        self._in = self._by_end(self.sink)

    def _by_end(self, end: Int64) -> tuple[Int64, Int64]:
        """Ids of the edges that are no loops, sorted by one end, and where each node's begin."""
        others = np.flatnonzero(self.source != self.sink)
        start = np.zeros(self.num_nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(end[others], minlength=self.num_nodes), out=start[1:])
        return others[np.argsort(end[others], kind="stable")], start

    @cached_property
    def _out(self) -> tuple[Int64, Int64]:
        return self._by_end(self.source)

    @property
    def x(self) -> Tensor:
        """The node features X, [N, d]."""
        return _alive(self._x)

    @property
    def edge_index(self) -> Tensor:
        """The edges as the user gave them, [2, E]."""
        return _alive(self._edge_index)

    @property
    def edge_weight(self) -> Tensor | None:
        """The weights the user gave, [E]; None stands for ones."""
        return None if self._edge_weight is None else _alive(self._edge_weight)

    def in_edges(self, nodes: Int64) -> Int64:
        """Ids of the edges into ``nodes``, loops left out, in the order of the nodes."""
        return _edges_at(nodes, *self._in)

    def out_edges(self, nodes: Int64) -> Int64:
        """Ids of the edges out of ``nodes``, loops left out, in the order of the nodes."""
        return _edges_at(nodes, *self._out)

    @classmethod
    def of(
        cls, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, flow: str = "source_to_target"
    ) -> Graph:
        """The graph of these tensors, from memory when they have been seen and not written to since."""
        tensors = (x, edge_index, edge_weight)
        if any(isinstance(t, Tensor) and t.is_inference() for t in tensors):
            return cls(x, edge_index, edge_weight, flow)  # writes to such a tensor leave no trace
        stamp = (flow, *(None if t is None else (id(t), t._version) for t in tensors if _is_tensor(t)))
        found = _RECENT.get(stamp)
        if found is not None and found._is_of(tensors):
            return found
        graph = cls(x, edge_index, edge_weight, flow)
        while len(_RECENT) >= _REMEMBERED:
            _RECENT.pop(next(iter(_RECENT)))
        _RECENT[stamp] = graph
        return graph

    def _is_of(self, tensors: tuple[Tensor | None, ...]) -> bool:
        held = (self._x(), self._edge_index(), None if self._edge_weight is None else self._edge_weight())
        return all(a is b for a, b in zip(held, tensors, strict=True))


# Only weak references to the user's tensors are held, so remembering a graph does not keep its features alive.
_RECENT: dict[Any, Graph] = {}
_REMEMBERED = 8
_PRECISIONS = (torch.float16, torch.float32, torch.float64)


def _edges_at(nodes: Int64, ids: Int64, start: Int64) -> Int64:
    first, count = start[nodes], start[nodes + 1] - start[nodes]
    offsets = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    found: Int64 = ids[np.repeat(first, count) + offsets]
    return found


def _is_tensor(value: Tensor | None) -> bool:
    return value is None or isinstance(value, Tensor)


def _alive(reference: weakref.ref[Tensor]) -> Tensor:
    tensor = reference()
    if tensor is None:
        raise InputError("the graph's tensors are gone: keep x, edge_index and edge_weight while you explain them")
    return tensor


def _check(x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> None:
    """Raise an :class:`InputError` for anything (X, A) cannot be."""
    if not isinstance(x, Tensor) or x.dim() != 2:
        raise InputError(f"x must be a tensor of shape [nodes, features] (got {_shape(x)})")
    if x.dtype not in _PRECISIONS:
        raise InputError(
            f"x must hold real numbers of a precision numpy knows, e.g. x.float(); ids that a model looks up must be "
            f"looked up before (got {x.dtype})"
        )
    if x.size(0) == 0 or x.size(1) == 0:
        raise InputError(f"the graph is empty: x has shape {list(x.shape)}")
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"edge_index must be a tensor of shape [2, edges] (got {_shape(edge_index)})")
    if edge_index.dtype != torch.int64:
        raise InputError(f"edge_index must hold int64 node ids (got {edge_index.dtype})")
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < x.size(0):
        worst = int(edge_index.min()) if int(edge_index.min()) < 0 else int(edge_index.max())
        raise InputError(f"edge_index names node {worst}, but the graph has nodes 0 to {x.size(0) - 1}")
    _check_finite(x, "x")
    if edge_weight is None:
        return
    if not isinstance(edge_weight, Tensor) or edge_weight.shape != (edge_index.size(1),):
        raise InputError(
            f"edge_weight must have one number for each of the {edge_index.size(1)} edges (got {_shape(edge_weight)})"
        )
    if edge_weight.dtype not in _PRECISIONS:
        raise InputError(f"edge_weight must hold real numbers, e.g. edge_weight.float() (got {edge_weight.dtype})")
    _check_finite(edge_weight, "edge_weight")
    edge_weight = edge_weight.detach()
    if edge_weight.numel() and float(edge_weight.min()) < 0:
        where = int(edge_weight.argmin())
        raise InputError(f"edge {where} has weight {float(edge_weight[where]):g}: weights must be 0 or more")


def _check_finite(tensor: Tensor, name: str) -> None:
    tensor = tensor.detach()
    # The sum of finite numbers can overflow, so a finite sum proves the point and another is looked into.
    if torch.isfinite(tensor.sum()) or torch.isfinite(tensor).all():
        return
    where = tuple(int(i) for i in (~torch.isfinite(tensor)).nonzero()[0])
    place = ", ".join(map(str, where))
    raise InputError(f"{name}[{place}] is {float(tensor[where]):g}: every entry must be finite")


def _shape(value: object) -> str:
    return f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
