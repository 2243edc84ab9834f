"""The exact subgraph that a prediction depends on.

With M rounds of message passing, F at node v depends on the features of nodes up to M hops away. A layer that
normalises by degree also needs the in-edges of the nodes at M hops, whose sources are one hop further away. The
features of these outermost nodes never reach v, so a single node represents all of them. The result contains every
edge that F depends on, and no other edge.

A prediction may be read from several nodes, for example the two ends of a link or all nodes of a graph. The search
then starts at all of these nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base.checks import check_count, check_node
from .._base.errors import InputError
from .graph import NO_LIMIT, Graph, Int64
from .kinds import Kinds


@dataclass(frozen=True)
class ComputationGraph:
    """The part of (X, A) on which F(X, A) depends.

    The nodes are ordered by hop, so the nodes that F is read from (``seeds``) come first. The edges keep their order
    in the whole graph and are followed by one self-loop for every node. A self-loop that F does not read (``felt`` is
    False) has weight 1.

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
    num_visible: int  # F depends on the features of the first ``num_visible`` nodes only
    edge_index: Tensor  # [2, e] (source, sink) as positions in ``nodes``
    edge_id: Tensor  # [e] column in the whole graph's edge_index; -1 for a self-loop that is not in it
    weight: Tensor  # [e] the entries of A
    # [e] whether F reads the entry. It does not read self-loops too far away, nor self-loops that are not in the whole
    # graph's edge_index if the layers add none.
    felt: Tensor
    x: Tensor  # [n, d] the features
    feature_range: float  # max(X) - min(X) over the whole graph
    num_hops: int  # M
    size: tuple[int, int]  # nodes and edges of the whole graph
    seeds: Tensor  # [s] positions of the nodes that F is read from
    e: Tensor  # [s] how often F is read from each seed: the vector e of the paper, in double precision
    ends: Tensor  # [2, e] (source, sink) as ids in the whole graph, also where one node represents the outermost ones
    shape: tuple[int, ...] | None = None  # of a node's features, if the model is given another one than [d]
    attributes: Tensor | None = None  # [e, c] those of edges, E, of real numbers; 0 for self-loops that are added
    attribute_range: float = 0.0  # max(E) - min(E) over the whole graph; the largest of all edge types, if several
    categorical: bool = False  # whether X says which features differ from the baseline; see graphfaith.graph.form
    kinds: Kinds | None = None  # of nodes and edges, if the graph is a heterogeneous one in one numbering
    # [e, c] the range of the attributes of each edge's type in a heterogeneous graph; 0 at columns that it has not
    attribute_ranges: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """The number of nodes, n."""
        return len(self.nodes)

    @property
    def num_edges(self) -> int:
        """The number of entries of A including self-loops, e."""
        return len(self.weight)

    @property
    def num_plain(self) -> int:
        """The number of entries of A that are not self-loops; these come first."""
        return self.num_edges - self.num_nodes

    @property
    def is_loop(self) -> Tensor:
        """Whether each entry of A is a self-loop, [e]."""
        return torch.arange(self.num_edges) >= self.num_plain

    @cached_property
    def present_features(self) -> tuple[Tensor, Tensor]:
        """The nodes and columns of the features that F sees and that are not 0."""
        node, column = self.x[: self.num_visible].nonzero().unbind(1)
        return node, column

    @property
    def node_kind(self) -> Tensor:
        """The place of the type of each node, [n]; all are 0 in a homogeneous graph."""
        return torch.zeros_like(self.nodes) if self.kinds is None else self.kinds.of_nodes(self.nodes)

    @property
    def edge_kind(self) -> Tensor:
        """The place of the type of each entry of A, [e]; -1 for a self-loop that is not among the edges."""
        return torch.where(self.edge_id < 0, -1, 0) if self.kinds is None else self.kinds.of_edges(self.edge_id)

    @property
    def feature_span(self) -> float | Tensor:
        """How far features may move: max(X) - min(X); in a heterogeneous graph that of each type, [n, d].

        It is 0 at the columns of other types, which a node does not have.
        """
        return self.feature_range if self.kinds is None else self.kinds.spread(self.nodes, self.kinds.span)

    @property
    def attribute_span(self) -> float | Tensor:
        """How far edge attributes may move: max(E) - min(E); in a heterogeneous graph that of each type, [e, c]."""
        return self.attribute_range if self.attribute_ranges is None else self.attribute_ranges

    @property
    def carries_message(self) -> Tensor:
        """Whether a message along each edge reaches a seed, [e]; the other edges only count in degrees."""
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
        most: int = NO_LIMIT,
        each: int = 0,
    ) -> ComputationGraph:
        """Return the computation graph of ``seeds`` (one node or several) for ``num_hops`` rounds of message passing.

        ``degrees`` says that the model divides messages by the in-degree of the node that sends them, ``out_degrees``
        that it divides them by the out-degree of either end. ``loop_weight`` is the weight of the self-loops that the
        layers of the model add, or None if they add none. ``most`` nodes and edges may be in it, and ``each`` edges at
        a node; see :meth:`Graph.find_part`.
        """
        start, e = _check_seeds(seeds, graph.num_nodes)
        num_hops = check_count(num_hops, "num_hops")
        depth = num_hops if degrees or out_degrees else num_hops - 1
        nodes, hop, inner, edges, ends, beyond = graph.find_part(
            start, num_hops, depth, out_degrees=out_degrees, most=most, each=each
        )
        visible = len(nodes)
        if beyond >= 0:
            nodes, hop, ends = graph.add_beyond(nodes, hop, edges, ends, beyond, num_hops)
        # F reads the self-loops of the nodes up to hop ``depth``. The messages of nodes further away reach no seed.
        return cls.of_part(graph, nodes, hop, visible, edges, ends, inner, num_hops, loop_weight, len(start), e)

    @classmethod
    def whole(
        cls, graph: Graph, seeds: int | Sequence[int] | Int64, num_hops: int, *, loop_weight: float | None = 1.0
    ) -> ComputationGraph:
        """Return the whole graph with its nodes in their order, for a model whose output depends on all of it."""
        start, e = _check_seeds(seeds, graph.num_nodes)
        n = graph.num_nodes
        found, hops, *_ = graph.find_part(start, num_hops, num_hops - 1)
        hop = np.full(n, num_hops + 1)
        hop[found] = hops
        edges = graph.find_all()
        ends = graph.ends(edges)
        return cls.of_part(graph, np.arange(n), hop, n, edges, ends, n, num_hops, loop_weight, start, e)

    @classmethod
    def of_part(
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
        seeds: Int64 | int = 1,
        e: NDArray[np.float64] | None = None,
    ) -> ComputationGraph:
        """Return the computation graph of the ``edges`` in some slots; their ``ends`` are positions in ``nodes``.

        F reads the self-loops of the first ``num_read`` nodes. ``seeds`` are positions too, or just their number if
        the seeds are the first nodes; without them, F is read from the first node.
        """
        plain, n = len(edges), len(nodes)
        loops = graph.loops(nodes)
        felt = np.zeros(plain + n, dtype=bool)
        felt[: plain + num_read] = True
        if loop_weight is None:
            felt[plain:] &= loops >= 0
        edge_index = np.empty((2, plain + n), dtype=np.int64)
        edge_index[:, :plain] = ends
        edge_index[:, plain:] = np.arange(n)
        # Nodes that are further away than F sees have one place, which does not tell which of them it is.
        whole_ends = graph.ends_of_part(edges, lambda: (nodes[ends], ends >= num_visible))
        node_ids = torch.from_numpy(nodes)
        return cls(
            nodes=node_ids,
            hop=torch.from_numpy(hop),
            num_visible=num_visible,
            edge_index=torch.from_numpy(edge_index),
            edge_id=torch.from_numpy(graph.ids(np.concatenate((edges, loops)))),
            weight=_collect_weights(graph, edges, loops, felt[plain:], loop_weight),
            felt=torch.from_numpy(felt),
            x=graph.features(nodes),
            feature_range=graph.feature_range,
            num_hops=num_hops,
            size=(graph.num_nodes, graph.num_edges),
            seeds=torch.arange(seeds) if isinstance(seeds, int) else torch.from_numpy(seeds),
            e=torch.from_numpy(np.ones(1) if e is None else e),
            ends=torch.from_numpy(np.concatenate((whole_ends, np.stack((nodes, nodes))), axis=1)),
            shape=None if graph.form is None else graph.form.shape,
            categorical=graph.form is not None and graph.form.categories is not None,
            kinds=graph.kinds,
        )


def _check_seeds(seeds: int | Sequence[int] | Int64, num_nodes: int) -> tuple[Int64, NDArray[np.float64]]:
    """Return the distinct nodes of ``seeds`` in ascending order, and how often each occurs."""
    named = [seeds] if not isinstance(seeds, Sequence | np.ndarray) else seeds
    if not len(named):
        raise InputError("there is no node to explain: give at least one")
    if len(named) == 1 and (isinstance(named, list) or (isinstance(named, np.ndarray) and named.ndim == 1)):
        only = named[0] if isinstance(named, list) else named.tolist()[0]
        return np.array([check_node(only, num_nodes)], dtype=np.int64), np.ones(1)
    if isinstance(named, np.ndarray) and named.dtype == np.int64 and 0 <= named.min() <= named.max() < num_nodes:
        start = named
    else:
        start = np.array([check_node(node, num_nodes) for node in named], dtype=np.int64)
    nodes, counts = np.unique(start, return_counts=True)
    return nodes, counts.astype(np.float64)


def _collect_weights(
    graph: Graph, edges: Int64, loops: Int64, read: NDArray[np.bool_], loop_weight: float | None
) -> Tensor:
    """Return the entries of A at ``edges``, then at the self-loops ``loops``; entries that F does not read are 1."""
    plain = len(edges)
    weight = torch.cat((given := graph.weights(edges), given.new_ones(len(loops))))
    if graph.is_weighted:
        explicit = np.flatnonzero(read & (loops >= 0))
        weight[torch.from_numpy(plain + explicit)] = graph.weights(loops[explicit])
    if loop_weight not in (None, 1.0):
        weight[torch.from_numpy(plain + np.flatnonzero(read & (loops < 0)))] = loop_weight
    return weight
