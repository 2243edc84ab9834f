"""What can be taken away from a graph: its edges, or its features that are not zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch_geometric.explain import Explanation

from ..graph.computation_graph import ComputationGraph
from ..graph.graph import is_undirected
from ..sampling.edges import BernoulliEdges
from ..sampling.features import BernoulliFeatures
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations
from .scores import edge_index_of, names_of

Kind = Literal["edges", "features"]
Units = tuple[int, ...]  # a set of units, ascending


class Removals:
    """The units of a computation graph that can be taken away, numbered, and the graphs without some of them.

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
        self.graph, self.of = graph, of
        self._nodes, self._features = names_of(explanation, "node_names"), names_of(explanation, "feature_names")
        self._unit_of_entry = torch.full((graph.num_edges,), -1)
        if of == "edges":
            self.is_undirected = is_undirected(edge_index_of(explanation))
            self._number_edges()
        else:
            seen = graph.x[: graph.num_visible]
            self._places = (seen.flatten() != 0).nonzero().view(-1)
        # The unit before each one that is alike, or -1. Of alike units it is enough to take away the first ones.
        self.before = [-1] * len(self)
        if of == "edges" and by_degree:
            self._find_alike()

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self._places)

    def _number_edges(self) -> None:
        """Number the edges by their ends, in the order of their first entries."""
        graph = self.graph
        entries = (graph.felt & ~graph.is_loop & (graph.weight != 0)).nonzero().view(-1)
        first: dict[tuple[int, int], int] = {}
        places: list[int] = []
        for entry, source, sink in zip(entries.tolist(), *graph.ends[:, entries].tolist(), strict=True):
            ends = (min(source, sink), max(source, sink)) if self.is_undirected else (source, sink)
            if ends not in first:
                first[ends] = len(places)
                places.append(entry)
            self._unit_of_entry[entry] = first[ends]
        self._places = torch.tensor(places, dtype=torch.int64)

    def _find_alike(self) -> None:
        """Find the edges that only add the same weight to the degree of the same node."""
        graph, unit = self.graph, self._unit_of_entry
        count = torch.bincount(unit[unit >= 0], minlength=len(self))
        outer = (~graph.carries_message & (unit >= 0)).nonzero().view(-1)
        outer = outer[count[unit[outer]] == 1]
        last: dict[tuple[int, float], int] = {}
        for entry in outer.tolist():
            key = int(graph.edge_index[1, entry]), float(graph.weight[entry])
            self.before[int(unit[entry])] = last.get(key, -1)
            last[key] = int(unit[entry])

    @property
    def like(self) -> Neighborhood:
        """A neighbourhood whose samples take as much memory as graphs without some of the units."""
        return BernoulliEdges(1.0) if self.of == "edges" else BernoulliFeatures(1.0)

    def without(self, sets: Sequence[Units]) -> Perturbations:
        """Return the perturbations that take away sets of units, one sample a set."""
        rows = torch.tensor([row for row, units in enumerate(sets) for _ in units], dtype=torch.int64)
        units = torch.tensor([unit for units in sets for unit in units], dtype=torch.int64)
        graph = self.graph
        if self.of == "edges":
            gone = torch.zeros(len(sets), len(self) + 1, dtype=torch.float64)  # The last column is that of no unit, -1.
            gone[rows, units] = 1.0
            return Perturbations(graph, None, gone[:, self._unit_of_entry] * graph.weight.double())
        eps = torch.zeros(len(sets), graph.x.numel(), dtype=graph.x.dtype)
        places = self._places[units]
        eps[rows, places] = graph.x.flatten()[places]
        return Perturbations(graph, eps.view(len(sets), *graph.x.shape), None)

    def place(self, unit: int) -> tuple[int, int]:
        """Return (source, sink) of an edge, or (node, column) of a feature, in the whole graph."""
        at = int(self._places[unit])
        if self.of == "edges":
            source, sink = self.graph.ends[:, at].tolist()
            return (min(source, sink), max(source, sink)) if self.is_undirected else (source, sink)
        width = self.graph.x.size(1)
        return int(self.graph.nodes[at // width]), at % width

    def name(self, unit: int) -> str:
        """Return the name of an edge or a feature."""
        a, b = self.place(unit)
        first = str(a if self._nodes is None else self._nodes[a])
        if self.of == "features":
            return f"{first}: {b if self._features is None else self._features[b]}"
        return f"{first}{'–' if self.is_undirected else '→'}{b if self._nodes is None else self._nodes[b]}"
