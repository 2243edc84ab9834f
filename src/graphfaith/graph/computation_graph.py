"""The exact subgraph that a prediction depends on.

With M rounds of message passing, F at node v sees the features of nodes up to M hops away. A layer that normalises
by degree also needs the in-edges of the nodes at M hops, which begin one hop further out; what those outermost nodes
hold never reaches v, so one of them stands for all. This keeps every edge F can feel, and no other.

A prediction may be read from several nodes: the two ends of a link, all nodes of a graph. The walk starts at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base.checks import check_count, check_node
from .._base.errors import InputError
from .graph import Graph, Int64


@dataclass(frozen=True)
class ComputationGraph:
    """The part of (X, A) on which F(X, A) depends.

    Its nodes are ordered by hop, those that F is read from (``seeds``) first. Its edges are those of the whole graph
    in their order there, followed by one self-loop for every node. A loop that F does not read (``felt`` is False)
    has weight 1.

    >>> x, path = torch.eye(4), torch.tensor([[3, 2, 1], [2, 1, 0]])     # 3 -> 2 -> 1 -> 0
    >>> part = ComputationGraph.around(Graph.of(x, path), 0, num_hops=1, degrees=True)
    >>> part.nodes.tolist(), part.hop.tolist()    # features of nodes 0 and 1 matter; node 2 only as a neighbour
    ([0, 1, 2], [0, 1, 2])
    >>> part.edge_index.tolist()                  # 2 -> 1, 1 -> 0 and the loops
    [[2, 1, 0, 1, 2], [1, 0, 0, 1, 2]]
    >>> part.felt.tolist()                        # the loop of node 2 is not read
    [True, True, True, True, False]
    >>> ComputationGraph.around(Graph.of(x, path), [0, 2], num_hops=1).seeds.tolist()    # e.g. the ends of a link
    [0, 1]
    """

    nodes: Tensor  # [n] ids in the whole graph
    hop: Tensor  # [n] distance from the nearest seed
    num_visible: int  # the first so many nodes are the ones whose features F can see
    edge_index: Tensor  # [2, e] (source, sink) in places of ``nodes``
    edge_id: Tensor  # [e] place in the whole graph's edge_index; -1 for a self-loop that is implied
    weight: Tensor  # [e] the entries of A
    felt: Tensor  # [e] whether F reads the entry: not the loops too far away, nor implied ones if layers add none
    x: Tensor  # [n, d] the features
    feature_range: float  # max(X) - min(X) over the whole graph
    num_hops: int  # M
    size: tuple[int, int]  # nodes and edges of the whole graph
    seeds: Tensor  # [s] places of the nodes that F is read from
    e: Tensor  # [s] how often it is read from each: the vector e of the paper, in double precision

    @property
    def num_nodes(self) -> int:
        """How many nodes there are, n."""
        return len(self.nodes)

    @property
    def num_edges(self) -> int:
        """How many entries of A there are, self-loops included, e."""
        return len(self.weight)

    @property
    def num_plain(self) -> int:
        """How many entries of A are no self-loops; they come first."""
        return self.num_edges - self.num_nodes

    @property
    def is_loop(self) -> Tensor:
        """[e] whether an entry of A is a self-loop."""
        return torch.arange(self.num_edges) >= self.num_plain

    @property
    def carries_message(self) -> Tensor:
        """[e] whether a message along the edge reaches a seed; other edges only count as degrees."""
        reached: Tensor = self.hop[self.edge_index[1]] < self.num_hops
        return reached

    @classmethod
    def around(
        cls,
        graph: Graph,
        seeds: int | Sequence[int] | Int64,
        num_hops: int,
        *,
        degrees: bool = True,
        out_degrees: bool = False,
        loop_weight: float | None = 1.0,
    ) -> ComputationGraph:
        """The computation graph of ``seeds`` (one node or several) for ``num_hops`` rounds of message passing.

        ``degrees`` says that messages are divided by the in-degree of the node that sends them, ``out_degrees`` by
        the out-degree of either end; ``loop_weight`` is the weight of the self-loops that the model's layers add,
        None if they add none.
        """
        start, e = _checked_seeds(seeds, graph.num_nodes)
        num_hops = check_count(num_hops, "num_hops")
        depth = num_hops if degrees or out_degrees else num_hops - 1
        rings, edges = _walk(graph, start, depth, num_hops)
        visible = np.concatenate(rings)
        inner = sum(map(len, rings[: depth + 1]))
        if out_degrees:
            edges = np.concatenate((edges, _unknown(graph.out_edges(visible[:inner]), edges)))
            edges.sort()
        ends, beyond = _places(visible, graph.ends(edges))
        nodes = np.concatenate((visible, beyond))
        hop = np.repeat([*range(len(rings)), num_hops + 1], [*map(len, rings), len(beyond)])
        # Every loop within depth is read; those of nodes whose messages go nowhere are not.
        return cls._of(graph, nodes, hop, len(visible), edges, ends, inner, num_hops, loop_weight, len(start), e)

    @classmethod
    def whole(
        cls, graph: Graph, seeds: int | Sequence[int] | Int64, num_hops: int, *, loop_weight: float | None = 1.0
    ) -> ComputationGraph:
        """All of the graph, nodes in their order, for a model that looks at all of it."""
        start, e = _checked_seeds(seeds, graph.num_nodes)
        n = graph.num_nodes
        rings, _ = _walk(graph, start, num_hops - 1, num_hops)
        hop = np.full(n, num_hops + 1)
        for k, ring in enumerate(rings):
            hop[ring] = k
        edges = np.flatnonzero(graph.source != graph.sink)
        ends = graph.ends(edges)
        return cls._of(graph, np.arange(n), hop, n, edges, ends, n, num_hops, loop_weight, start, e)

    @classmethod
    def _of(
        cls,
        graph: Graph,
        nodes: Int64,
        hop: Int64,
        num_visible: int,
        edges: Int64,
        ends: Int64,
        num_read: int,
        num_hops: int,
        loop_weight: float | None,
        seeds: Int64 | int,
        e: NDArray[np.float64],
    ) -> ComputationGraph:
        """From ``edges`` and their ``ends`` in places of ``nodes``; F reads the loops of the first ``num_read`` nodes.

        ``seeds`` are places too, or the number of them if they come first.
        """
        plain, n = len(edges), len(nodes)
        loops = graph.loop_edge.take(nodes)
        felt = np.zeros(plain + n, dtype=bool)
        felt[: plain + num_read] = True
        if loop_weight is None:
            felt[plain:] &= loops >= 0
        edge_index = np.empty((2, plain + n), dtype=np.int64)
        edge_index[:, :plain] = ends
        edge_index[:, plain:] = np.arange(n)
        own = torch.from_numpy(nodes)
        return cls(
            nodes=own,
            hop=torch.from_numpy(hop),
            num_visible=num_visible,
            edge_index=torch.from_numpy(edge_index),
            edge_id=torch.from_numpy(np.concatenate((edges, loops))),
            weight=_weights(graph, edges, loops, felt[plain:], loop_weight),
            felt=torch.from_numpy(felt),
            x=graph.x.detach().index_select(0, own),
            feature_range=graph.feature_range,
            num_hops=num_hops,
            size=(graph.num_nodes, graph.num_edges),
            seeds=torch.arange(seeds) if isinstance(seeds, int) else torch.from_numpy(seeds),
            e=torch.from_numpy(e),
        )


def _checked_seeds(seeds: int | Sequence[int] | Int64, num_nodes: int) -> tuple[Int64, NDArray[np.float64]]:
    """The nodes in ascending order, each once, and how often each was named."""
    named = [seeds] if not isinstance(seeds, Sequence | np.ndarray) else seeds
    if not len(named):
        raise InputError("there is no node to explain: name at least one")
    if len(named) == 1 and (isinstance(named, list) or (isinstance(named, np.ndarray) and named.ndim == 1)):
        return np.array([check_node(named[0], num_nodes)], dtype=np.int64), np.ones(1)
    if isinstance(named, np.ndarray) and named.dtype == np.int64 and 0 <= named.min() <= named.max() < num_nodes:
        start = named
    else:
        start = np.array([check_node(node, num_nodes) for node in named], dtype=np.int64)
    found, counts = np.unique(start, return_counts=True)
    return found, counts.astype(np.float64)


def _walk(graph: Graph, start: Int64, depth: int, reach: int) -> tuple[list[Int64], Int64]:
    """Nodes by hop up to ``reach``, and the edges into the nodes up to hop ``depth`` in whole-graph order."""
    rings, edges, known = [start], [], start
    for hop in range(1, depth + 2):
        edges.append(graph.in_edges(rings[-1]))
        if hop > reach:
            break
        ring = _unknown(graph.source[edges[-1]], known)
        if not len(ring):
            break
        rings.append(ring)
        known = np.concatenate((known, ring))
        known.sort()
    found = np.concatenate(edges) if edges else np.empty(0, dtype=np.int64)
    found.sort()
    return rings, found


def _unknown(ids: Int64, known: Int64) -> Int64:
    """Those of ``ids`` that are not in the sorted ``known``, sorted and each once; ``ids`` is sorted in place.

    ``np.setdiff1d`` does the same, and takes longer to set up than all the rest of a small graph.
    """
    ids.sort()
    fresh = known.take(known.searchsorted(ids), mode="clip") != ids if len(known) else np.ones(len(ids), dtype=bool)
    fresh[1:] &= ids[1:] != ids[:-1]
    found: Int64 = ids[fresh]
    return found


def _places(nodes: Int64, ids: Int64) -> tuple[Int64, Int64]:
    """Places of ``ids`` in ``nodes``; those not there are outermost nodes, for which the least of them, last, stands.

    It is returned with the places, as a list of one node or of none.
    """
    order = nodes.argsort()
    ordered = nodes.take(order)
    found = ordered.searchsorted(ids)
    places: Int64 = order.take(found, mode="clip")
    missing = ordered.take(found, mode="clip") != ids
    outside = ids[missing]
    if len(outside):
        places[missing] = len(nodes)
        outside = outside.min(keepdims=True)
    return places, outside


def _weights(graph: Graph, edges: Int64, loops: Int64, read: NDArray[np.bool_], loop_weight: float | None) -> Tensor:
    """The entries of A at ``edges`` and then at the self-loops ``loops``; one that is not read weighs 1."""
    given, plain = graph.edge_weight, len(edges)
    weight = torch.ones(plain + len(loops), dtype=graph.x.dtype if given is None else given.dtype)
    if given is not None:
        given = given.detach()
        weight[:plain] = given[torch.from_numpy(edges)]
        there = np.flatnonzero(read & (loops >= 0))
        weight[torch.from_numpy(plain + there)] = given[torch.from_numpy(loops[there])]
    if loop_weight not in (None, 1.0):
        weight[torch.from_numpy(plain + np.flatnonzero(read & (loops < 0)))] = loop_weight
    return weight
