"""What can be taken away from a graph: its edges, its features that are not zero, whole nodes or columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch_geometric.explain import Explanation

from ..graph.computation_graph import ComputationGraph
from ..graph.graph import is_undirected
from ..sampling.edges import RemovedEdges
from ..sampling.features import BernoulliFeatures
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations
from ..surrogate.moves import Moves
from .scores import edge_index_of, names_of

Kind = Literal["edges", "features"]
Units = tuple[int, ...]  # a set of units, ascending


class Labels:
    """Places and names of the units that a neighbourhood moves."""

    def __init__(self, explanation: Explanation, moves: Moves) -> None:
        self.moves = moves
        self._nodes, self._features = names_of(explanation, "node_names"), names_of(explanation, "feature_names")
        self._is_undirected = moves.near.perturbs_edges and moves.near.units(moves.graph) is not None
        self._entry: dict[int, int] = {}  # the first entry of A of each unit
        if moves.edge_unit is not None:
            for entry, unit in enumerate(moves.edge_unit.tolist()):
                if unit >= 0:
                    self._entry.setdefault(unit, entry)

    def kind(self, unit: int) -> str:
        """Return whether a unit is an edge, a feature, a node or a column."""
        return "edge" if unit < self.moves.num_edge_units else self.moves.of_x

    def place(self, unit: int) -> tuple[int, ...]:
        """Return (source, sink) of an edge, (node, column) of a feature, (node,) or (column,), in the whole graph."""
        kind, moves = self.kind(unit), self.moves
        if kind == "edge":
            source, sink = moves.graph.ends[:, self._entry[unit]].tolist()
            return (min(source, sink), max(source, sink)) if self._is_undirected else (source, sink)
        number = unit - moves.num_edge_units
        if kind == "feature":
            assert moves.feature_place is not None
            node, column = divmod(int(moves.feature_place[number]), moves.graph.x.size(1))
            return int(moves.graph.nodes[node]), column
        owner = int(moves.owners[number])
        return (int(moves.graph.nodes[owner]) if kind == "node" else owner,)

    def name(self, unit: int) -> str:
        """Return the name of an edge, a feature, a node or a column."""
        kind, place = self.kind(unit), self.place(unit)
        if kind == "column":
            return _name(self._features, place[0])
        first = _name(self._nodes, place[0])
        if kind == "node":
            return first
        if kind == "feature":
            return f"{first}: {_name(self._features, place[1])}"
        if place[0] == place[1]:
            return f"{first} (itself)"
        return f"{first}{'–' if self._is_undirected else '→'}{_name(self._nodes, place[1])}"


def _name(names: Sequence[str] | None, number: int) -> str:
    return str(number if names is None else names[number])


class Removals:
    """The units of a computation graph that can be taken away, and the graphs without some of them.

    A unit is an edge that F reads, with both directions of it if the graph is undirected, or a feature that is not
    zero. Self-loops stay.

    Args:
        explanation: has the whole graph, and the names.
        graph: the computation graph.
        of: whether edges or features are taken away.
        by_degree: whether an edge whose message reaches nothing that F is read from counts by its weight alone, as in
            layers that divide by the degree. Two such edges into one node are then alike.
    """

    def __init__(self, explanation: Explanation, graph: ComputationGraph, of: Kind, *, by_degree: bool) -> None:
        self.of = of
        self.near: Neighborhood = BernoulliFeatures(1.0)
        if of == "edges":
            self.near = RemovedEdges(1, paired=is_undirected(edge_index_of(explanation)))
        self.moves = Moves(graph, self.near)
        self.labels = Labels(explanation, self.moves)
        self._sizes = self.moves.sizes()
        # The unit before each one that is alike, or -1. Of alike units it is enough to take away the first ones.
        self.before = [-1] * len(self)
        if of == "edges" and by_degree:
            last: dict[int, int] = {}
            for unit, group in enumerate(self.moves.alike(torch.zeros(len(self))).tolist()):
                self.before[unit] = last.get(group, -1)
                last[group] = unit

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self.moves)

    def without(self, sets: Sequence[Units]) -> Perturbations:
        """Return the perturbations that take away sets of units, one sample a set."""
        gone = torch.zeros(len(sets), len(self), dtype=torch.float64)
        rows = torch.tensor([row for row, units in enumerate(sets) for _ in units], dtype=torch.int64)
        units = torch.tensor([unit for units in sets for unit in units], dtype=torch.int64)
        gone[rows, units] = self._sizes[units]
        return self.moves.perturbations(gone)
