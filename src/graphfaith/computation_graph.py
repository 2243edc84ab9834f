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

from .checks import check_count, check_node
from .errors import InputError
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
        rings, edges = _walk(graph, start, depth)
        inner = np.concatenate(rings[: depth + 1])
        visible = np.concatenate(rings[: num_hops + 1])
        if out_degrees:
            edges = np.union1d(edges, graph.out_edges(inner))
        beyond = np.setdiff1d(np.concatenate([graph.source[edges], graph.sink[edges]]), visible)[:1]
        nodes = np.concatenate([visible, beyond])
        hops = [np.full(len(ring), k) for k, ring in enumerate(rings[: num_hops + 1])]
        hop = np.concatenate([*hops, np.full(len(beyond), num_hops + 1)])
        # Every loop within depth is read; those of nodes whose messages go nowhere are not.
        read = np.arange(len(nodes)) < len(inner)
        return cls._of(graph, nodes, hop, len(visible), edges, read, num_hops, loop_weight, np.arange(len(start)), e)

    @classmethod
    def whole(
        cls, graph: Graph, seeds: int | Sequence[int] | Int64, num_hops: int, *, loop_weight: float | None = 1.0
    ) -> ComputationGraph:
        """All of the graph, nodes in their order, for a model that looks at all of it."""
        start, e = _checked_seeds(seeds, graph.num_nodes)
        everyone = np.arange(graph.num_nodes)
        edges = np.flatnonzero(graph.source != graph.sink)
        rings, _ = _walk(graph, start, num_hops)
        hop = np.full(graph.num_nodes, num_hops + 1)
        for k, ring in enumerate(rings):
            hop[ring] = k
        read = np.ones(graph.num_nodes, dtype=bool)
        return cls._of(graph, everyone, hop, len(everyone), edges, read, num_hops, loop_weight, start, e)

    @classmethod
    def _of(
        cls,
        graph: Graph,
        nodes: Int64,
        hop: Int64,
        num_visible: int,
        edges: Int64,
        read: NDArray[np.bool_],
        num_hops: int,
        loop_weight: float | None,
        seeds: Int64,
        e: NDArray[np.float64],
    ) -> ComputationGraph:
        source, sink = _places(nodes, graph.source[edges]), _places(nodes, graph.sink[edges])
        loops = graph.loop_edge[nodes]
        felt = np.concatenate([np.ones(len(edges), dtype=bool), ((loops >= 0) | (loop_weight is not None)) & read])
        edge_id = np.concatenate([edges, loops])
        own = np.arange(len(nodes))
        return cls(
            nodes=torch.from_numpy(nodes),
            hop=torch.from_numpy(hop),
            num_visible=num_visible,
            edge_index=torch.from_numpy(np.stack([np.concatenate([source, own]), np.concatenate([sink, own])])),
            edge_id=torch.from_numpy(edge_id),
            weight=_weights(graph, edge_id, felt, 1.0 if loop_weight is None else loop_weight),
            felt=torch.from_numpy(felt),
            x=graph.x.detach()[torch.from_numpy(nodes)],
            feature_range=graph.feature_range,
            num_hops=num_hops,
            size=(graph.num_nodes, graph.num_edges),
            seeds=torch.from_numpy(seeds),
            e=torch.from_numpy(e),
        )


def _checked_seeds(seeds: int | Sequence[int] | Int64, num_nodes: int) -> tuple[Int64, NDArray[np.float64]]:
    """The nodes in ascending order, each once, and how often each was named."""
    named = [seeds] if not isinstance(seeds, Sequence | np.ndarray) else seeds
    if not len(named):
        raise InputError("there is no node to explain: name at least one")
    if isinstance(named, np.ndarray) and named.dtype == np.int64 and 0 <= named.min() <= named.max() < num_nodes:
        start = named
    else:
        start = np.array([check_node(node, num_nodes) for node in named], dtype=np.int64)
    found, counts = np.unique(start, return_counts=True)
    return found, counts.astype(np.float64)


def _walk(graph: Graph, start: Int64, depth: int) -> tuple[list[Int64], Int64]:
    """Nodes by hop up to ``depth + 1``, and the edges into the nodes up to ``depth`` in whole-graph order."""
    rings, edges = [start], []
    seen = rings[0]
    for _ in range(depth + 1):
        entering = graph.in_edges(rings[-1])
        edges.append(entering)
        ring = np.setdiff1d(graph.source[entering], seen)
        seen = np.concatenate([seen, ring])
        rings.append(ring)
        if not len(ring):
            break
    return rings, np.sort(np.concatenate(edges))


def _places(nodes: Int64, ids: Int64) -> Int64:
    """Places of ``ids`` in ``nodes``; an id that is not there is an outermost node, which the last one stands for."""
    order = np.argsort(nodes)
    found: Int64 = order[np.searchsorted(nodes[order], ids).clip(max=len(nodes) - 1)]
    found[nodes[found] != ids] = len(nodes) - 1
    return found


def _weights(graph: Graph, edge_id: Int64, felt: NDArray[np.bool_], loop_weight: float) -> Tensor:
    given = graph.edge_weight
    ids = torch.from_numpy(edge_id)
    if given is None:
        weight = torch.ones(len(ids), dtype=graph.x.dtype)
    else:
        weight = torch.ones(len(ids), dtype=given.dtype)
        weight[ids >= 0] = given.detach()[ids[ids >= 0]]
    weight[ids < 0] = loop_weight
    weight[torch.from_numpy(~felt)] = 1.0
    return weight
