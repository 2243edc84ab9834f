"""The computation graphs of many nodes, one after the other in a few arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._base import core
from .computation_graph import ComputationGraph
from .graph import NO_LIMIT, Graph, Int64, Known


class Rows:
    """The rows that entries of A have in a table of their values: edges first, then self-loops, and then a blank row.

    The blank row is that of self-loops that F does not read. What is kept has the size of the table, and not that of
    the graph.

    >>> rows = Rows(np.array([7, 3]), np.array([5]))     # ids of edges, and nodes
    >>> rows.of_nodes(np.array([5, 6])).tolist(), rows.blank
    ([0, -1], 3)
    """

    def __init__(self, edges: Int64, nodes: Int64) -> None:
        self.edges, self.nodes = core.table_of(edges, len(edges)), core.table_of(nodes, len(nodes))
        self.num_edges = len(edges)
        self.blank = len(edges) + len(nodes) if len(nodes) else -1

    def of_nodes(self, nodes: Int64) -> Int64:
        """Return the places of ``nodes`` among those that have a row for their self-loop; -1 if they are not there."""
        found: Int64 = core.look_up(self.nodes, nodes)
        return found


@dataclass(frozen=True)
class Parts:
    """The computation graphs of single nodes: what :meth:`ComputationGraph.around` finds for each of them.

    The nodes of part i are at ``node_start[i]`` to ``node_start[i + 1]``, and its entries of A, edges first and then a
    self-loop for every node, at ``entry_start[i]`` to ``entry_start[i + 1]``.

    >>> x, path = torch.eye(4), torch.tensor([[3, 2, 1], [2, 1, 0]])     # 3 -> 2 -> 1 -> 0
    >>> parts = Parts.around(Graph.of(x, path), [0, 3], num_hops=1)
    >>> parts.nodes.tolist(), parts.node_start.tolist(), parts.edge_id.tolist()
    ([0, 1, 2, 3], [0, 3, 4], [1, 2, -1, -1, -1, -1])
    >>> parts.graph(0).nodes.tolist()
    [0, 1, 2]
    """

    whole: Graph
    num_hops: int
    loop_weight: float | None
    node_start: Int64  # [b + 1]
    entry_start: Int64  # [b + 1]
    num_visible: Int64  # [b] how many of a part's nodes have features that F sees: the first ones
    num_inner: Int64  # [b] how many of them have a self-loop that F may read
    nodes: Int64  # [n] ids in the whole graph
    hop: Int64  # [n]
    edge: Int64  # [e] slots of the whole graph's edges; -1 for a self-loop that is not in it
    ends: Int64  # [2, e] sources and sinks, as positions among the part's nodes
    row: Int64  # [e] where the values of an entry are in a table of values

    def __len__(self) -> int:
        """Return how many parts there are."""
        return len(self.num_visible)

    @classmethod
    def around(
        cls,
        graph: Graph,
        nodes: npt.ArrayLike,
        num_hops: int,
        *,
        degrees: bool = True,
        out_degrees: bool = False,
        loop_weight: float | None = 1.0,
        rows: Rows | None = None,
        most: tuple[int, int] = (NO_LIMIT, NO_LIMIT),
        largest: int = NO_LIMIT,
    ) -> Parts:
        """Return the computation graphs of ``nodes``; the arguments are those of :meth:`ComputationGraph.around`.

        ``rows`` says in which row of a table the values of an entry are. Without it every row is -1. After the part
        with which there are ``most`` nodes or entries, no other one is looked for, nor are one that has more than
        ``largest`` nodes and edges and those after it.
        """
        nothing = np.empty(0, dtype=np.int64)
        rows = rows or Rows(nothing, nothing)
        depth = num_hops if degrees or out_degrees else num_hops - 1
        with graph.reading():
            found = core.find_parts(
                np.asarray(nodes, dtype=np.int64),
                graph.index(out_degrees),
                num_hops,
                depth,
                loop_weight is not None,
                (rows.edges, rows.nodes, rows.num_edges, rows.blank),
                most,
                largest,
            )
        return cls(graph, num_hops, loop_weight, *found)

    def slices(self, i: int) -> tuple[slice, slice]:
        """Return where the nodes and the entries of part number i are."""
        nodes, entries = self.node_start[i : i + 2], self.entry_start[i : i + 2]
        return slice(*nodes.tolist()), slice(*entries.tolist())

    @cached_property
    def edge_id(self) -> Int64:
        """Columns of the whole graph's edge_index; -1 for a self-loop that is not in it, [e]."""
        return self.whole.ids(self.edge)

    @cached_property
    def part_of_entry(self) -> Int64:
        """The part of each entry of A, [e]."""
        return np.repeat(np.arange(len(self)), np.diff(self.entry_start))

    @cached_property
    def own_node(self) -> Int64:
        """The node of each self-loop, as a position in its part; less than 0 for an edge, [e]."""
        counts = np.diff(self.node_start)[self.part_of_entry]
        return np.arange(len(self.row)) - self.entry_start[self.part_of_entry + 1] + counts

    @cached_property
    def felt(self) -> npt.NDArray[np.bool_]:
        """Whether F reads each entry of A, [e]."""
        own, known = self.own_node, (self.edge >= 0) | (self.loop_weight is not None)
        felt: npt.NDArray[np.bool_] = (own < 0) | (own < self.num_inner[self.part_of_entry]) & known
        return felt

    @cached_property
    def whole_ends(self) -> Int64:
        """Sources and sinks of the entries as ids in the whole graph, [2, e]."""
        own = self.own_node
        loop = self.nodes[self.node_start[self.part_of_entry] + np.maximum(own, 0)]
        if not self.whole.num_edges:
            return np.stack((loop, loop))
        part = self.part_of_entry

        def known() -> Known:
            is_outer = (self.ends >= self.num_visible[part]) & (own < 0)
            return self.nodes[self.ends + self.node_start[part]], is_outer

        found: Int64 = np.where(own < 0, self.whole.ends_of_part(np.where(own < 0, self.edge, 0), known), loop)
        return found

    def side_by_side(self, weight: Tensor) -> tuple[ComputationGraph, Int64, Int64]:
        """Return one graph that has all parts, unconnected, and the order of their nodes and entries in it.

        ``weight`` are the entries of A, [e]. The nodes are ordered by hop, so that the explained ones come first, and
        the edges are followed by the self-loops, as in every computation graph.
        """
        order = np.argsort(self.hop, kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        loops = np.flatnonzero(self.own_node >= 0)  # one for each node, in their order
        entries = np.concatenate((np.flatnonzero(self.own_node < 0), loops[order]))
        ends = position[self.ends + self.node_start[self.part_of_entry]]
        graph = ComputationGraph(
            nodes=torch.from_numpy(self.nodes[order]),
            hop=torch.from_numpy(self.hop[order]),
            num_visible=int((self.hop <= self.num_hops).sum()),
            edge_index=torch.from_numpy(ends[:, entries]),
            edge_id=torch.from_numpy(self.edge_id[entries]),
            weight=weight[torch.from_numpy(entries)],
            felt=torch.from_numpy(self.felt[entries]),
            x=self.whole.features(self.nodes[order]),
            feature_range=self.whole.feature_range,
            num_hops=self.num_hops,
            size=(self.whole.num_nodes, self.whole.num_edges),
            seeds=torch.arange(len(self)),
            e=torch.ones(len(self), dtype=torch.float64),
            ends=torch.from_numpy(self.whole_ends[:, entries]),
            shape=None if self.whole.form is None else self.whole.form.shape,
            categorical=self.whole.form is not None and self.whole.form.categories is not None,
        )
        return graph, order, entries

    def graph(self, i: int) -> ComputationGraph:
        """Return part number i as a computation graph."""
        nodes, entries = self.slices(i)
        plain = slice(entries.start, entries.stop - (nodes.stop - nodes.start))
        return ComputationGraph.of_part(
            self.whole,
            self.nodes[nodes],
            self.hop[nodes],
            int(self.num_visible[i]),
            self.edge[plain],
            self.ends[:, plain],
            int(self.num_inner[i]),
            self.num_hops,
            self.loop_weight,
        )
