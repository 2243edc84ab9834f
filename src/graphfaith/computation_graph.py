"""The exact subgraph that one prediction depends on.

With M rounds of message passing, F at node v sees the features of nodes up to M hops away. A layer that normalises
by degree also needs the in-edges of the nodes at M hops, which begin one hop further out; what those outermost nodes
hold never reaches v, so one of them stands for all. This keeps every edge F can feel, and no other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.nn import (
    GATConv,
    GATv2Conv,
    GINConv,
    GINEConv,
    GraphConv,
    MessagePassing,
    SAGEConv,
    TransformerConv,
)

from .checks import check_count, check_node
from .graph import Graph, Int64

# Layers that look at the in-edges of the node they write to and at no other degree. Any other layer is taken to
# normalise by the degrees of both ends, which is the safe assumption: one ring of edges more, never one less.
_NO_SOURCE_DEGREE = (SAGEConv, GINConv, GINEConv, GraphConv, GATConv, GATv2Conv, TransformerConv)


def message_passing_layers(model: torch.nn.Module) -> list[MessagePassing]:
    """The layers of ``model`` that pass messages, in the order in which they are registered."""
    return [module for module in model.modules() if isinstance(module, MessagePassing)]


def normalises_by_degree(model: torch.nn.Module) -> bool:
    """Whether some layer divides a message by the degree of the node that sends it, or may well do so."""
    layers = message_passing_layers(model)
    return not layers or any(
        not isinstance(layer, _NO_SOURCE_DEGREE) and getattr(layer, "normalize", True) for layer in layers
    )


@dataclass(frozen=True)
class ComputationGraph:
    """The part of (X, A) on which F(X, A) at ``node`` depends.

    Its nodes are ordered by hop, the explained node first. Its edges are those of the whole graph in their order
    there, followed by one self-loop for every node. A loop that F does not read (``felt`` is False) has weight 1.

    >>> x, path = torch.eye(4), torch.tensor([[3, 2, 1], [2, 1, 0]])     # 3 -> 2 -> 1 -> 0
    >>> part = ComputationGraph.around(Graph.of(x, path), 0, num_hops=1, degrees=True)
    >>> part.nodes.tolist(), part.hop.tolist()    # features of nodes 0 and 1 matter; node 2 only as a neighbour
    ([0, 1, 2], [0, 1, 2])
    >>> part.edge_index.tolist()                  # 2 -> 1, 1 -> 0 and the loops
    [[2, 1, 0, 1, 2], [1, 0, 0, 1, 2]]
    >>> part.felt.tolist()                        # the loop of node 2 is not read
    [True, True, True, True, False]
    """

    nodes: Tensor  # [n] ids in the whole graph
    hop: Tensor  # [n] distance from the explained node
    num_visible: int  # the first so many nodes are the ones whose features F can see
    edge_index: Tensor  # [2, e] (source, sink) in places of ``nodes``
    edge_id: Tensor  # [e] place in the whole graph's edge_index; -1 for a self-loop that is implied
    weight: Tensor  # [e] the entries of A
    felt: Tensor  # [e] whether F reads the entry: not the loops too far away, nor implied ones if layers add none
    x: Tensor  # [n, d] the features
    feature_range: float  # max(X) - min(X) over the whole graph
    num_hops: int  # M
    size: tuple[int, int]  # nodes and edges of the whole graph

    node = 0  # place of the explained node: it comes first

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
        """[e] whether a message along the edge reaches the explained node; other edges only count as degrees."""
        reached: Tensor = self.hop[self.edge_index[1]] < self.num_hops
        return reached

    @classmethod
    def around(
        cls, graph: Graph, node: int, num_hops: int, *, degrees: bool = True, loop_weight: float | None = 1.0
    ) -> ComputationGraph:
        """The computation graph of ``node`` for ``num_hops`` rounds of message passing.

        ``degrees`` says that messages are divided by the degree of the node that sends them; ``loop_weight`` is
        the weight of the self-loops that the model's layers add, None if they add none.
        """
        node, num_hops = check_node(node, graph.num_nodes), check_count(num_hops, "num_hops")
        depth = num_hops if degrees else num_hops - 1
        rings, edges = _walk(graph, node, depth)
        inner = np.concatenate(rings[: depth + 1])
        visible = np.concatenate(rings[: num_hops + 1])
        outside = rings[num_hops + 1][:1] if len(rings) > num_hops + 1 else visible[:0]
        nodes = np.concatenate([visible, outside])
        hops = [np.full(len(ring), k) for k, ring in enumerate(rings[: num_hops + 1])]
        hop = np.concatenate([*hops, np.full(len(outside), num_hops + 1)])
        source, sink = _places(nodes, graph.source[edges]), _places(nodes, graph.sink[edges])
        loops = graph.loop_edge[nodes]
        read = ((loops >= 0) | (loop_weight is not None)) & (np.arange(len(nodes)) < len(inner))
        felt = np.concatenate([np.ones(len(edges), dtype=bool), read])
        edge_id = np.concatenate([edges, loops])
        own = np.arange(len(nodes))
        return cls(
            nodes=torch.from_numpy(nodes),
            hop=torch.from_numpy(hop),
            num_visible=len(visible),
            edge_index=torch.from_numpy(np.stack([np.concatenate([source, own]), np.concatenate([sink, own])])),
            edge_id=torch.from_numpy(edge_id),
            weight=_weights(graph, edge_id, felt, 1.0 if loop_weight is None else loop_weight),
            felt=torch.from_numpy(felt),
            x=graph.x.detach()[torch.from_numpy(nodes)],
            feature_range=graph.feature_range,
            num_hops=num_hops,
            size=(graph.num_nodes, graph.num_edges),
        )


def _walk(graph: Graph, node: int, depth: int) -> tuple[list[Int64], Int64]:
    """Nodes by hop up to ``depth + 1``, and the edges into the nodes up to ``depth`` in whole-graph order."""
    rings, edges = [np.array([node], dtype=np.int64)], []
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
