"""The nodes that a model's output is read from, and the model's arguments on a part of the graph.

At node level, row v of the output belongs to node v. At edge level, it belongs to a pair of nodes, which is column v of
``edge_label_index``, or to edge v of the graph. At graph level, it belongs to all nodes of graph v of a ``batch``; if
there is none, all rows are of the whole graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .._base.errors import InputError, UnsupportedError
from ..graph.computation_graph import ComputationGraph
from ..graph.form import flatten_features
from ..graph.graph import Graph, Int64
from .task import Index, Task

Places = Tensor | slice  # of entries of A
ATTRIBUTES = "edge_attr"  # the argument with the attributes of edges, E
Kind = Literal["node", "pair", "edge", "graph", "other"]


class Readout:
    """The explained rows of a model's output: the nodes they are read from, and their places on a part of it."""

    def __init__(
        self,
        task: Task,
        graph: Graph,
        kwargs: dict[str, Any],
        count: int,
        index: Index,
        rows: Tensor | None = None,
    ) -> None:
        self.graph, self.kwargs = graph, kwargs
        self.kind, self.pairs = self._kind(task.level, count)
        if self.kind == "other" and index is not None and not self._is_of_the_whole(task.level, count):
            wanted = {
                "node": f"each of the {graph.num_nodes} nodes",
                "edge": f"each column of edge_label_index=, or each of the {graph.num_edges} edges",
                "graph": "each graph of batch=, or rows that are not of edges without it",
            }
            raise UnsupportedError(
                f"the model must return a row for {wanted[task.level]} (got {count} rows), or be explained as a whole, "
                "without index="
            )
        self.rows = task.rows(index, count) if rows is None or self.kind != "node" else rows
        self.seeds: Int64 = self._seeds()

    def _kind(self, level: str, count: int) -> tuple[Kind, str]:
        """Return what a row of the output belongs to, and for pairs of nodes the name of the argument that has them."""
        if level == "node" and count == self.graph.num_nodes:
            return "node", ""
        if level == "edge":
            for name, value in sorted(self.kwargs.items(), key=lambda item: item[0] != "edge_label_index"):
                if is_pairs(value) and value.size(1) == count:
                    return "pair", name
            if count == self.graph.num_edges:
                return "edge", ""
        if level == "graph" and count == self._num_graphs():
            return "graph", ""
        return "other", ""

    def _is_of_the_whole(self, level: str, count: int) -> bool:
        """Return whether each row of the output can be explained as a number of the whole graph.

        At graph level without a batch it can, as in PyG, unless rows may be of edges, which vanish with the edges.
        """
        return level == "graph" and self.kwargs.get("batch") is None and count != self.graph.num_edges

    def _num_graphs(self) -> int:
        """Return how many graphs ``batch`` has; 1 if there is no batch."""
        batch = self.kwargs.get("batch")
        if batch is None:
            return 1
        if not isinstance(batch, Tensor) or batch.shape != (self.graph.num_nodes,) or batch.dtype != torch.int64:
            raise InputError(f"batch must be an int64 tensor with the graph of each of {self.graph.num_nodes} nodes")
        return int(batch.max()) + 1

    def _seeds(self) -> Int64:
        """Return the nodes that the explained rows are read from."""
        if self.kind == "node":
            seeds = self.rows
        elif self.kind == "pair":
            seeds = self.kwargs[self.pairs][:, self.rows].reshape(-1)
            if not 0 <= int(seeds.min()) <= int(seeds.max()) < self.graph.num_nodes:
                raise InputError(f"{self.pairs} must name nodes 0 to {self.graph.num_nodes - 1} of the graph")
        elif self.kind == "edge":
            seeds = self.graph.edge_index[:, self.rows].reshape(-1)
        elif self.kind == "graph" and self.kwargs.get("batch") is not None:
            batch = self.kwargs["batch"]
            members = [(batch == row).nonzero().view(-1) for row in self.rows.tolist()]
            for row, nodes in zip(self.rows.tolist(), members, strict=True):
                if not len(nodes):
                    raise InputError(f"graph {row} of the batch has no nodes")
            seeds = torch.cat(members)
        else:
            seeds = torch.arange(self.graph.num_nodes)
        return seeds.detach().cpu().numpy().astype(np.int64)

    @property
    def reads_whole_graph(self) -> bool:
        """Whether the nodes that a row is read from are unknown, so that no part of the graph can be left out."""
        return self.kind == "other"

    def rows_on(self, part: ComputationGraph, places: Places) -> Tensor:
        """Return the places of the explained rows in the model's output on ``part`` with the edges at ``places``."""
        if self.kind == "node":
            return _places_of(self.rows, part.nodes)
        if self.kind == "pair":
            return torch.arange(len(self.rows))
        if self.kind == "edge":
            return _places_of(self.rows, part.edge_id[places])
        if self.kind == "graph" and self.kwargs.get("batch") is not None:
            return _places_of(self.rows, torch.unique(self.kwargs["batch"][part.nodes]))
        return self.rows

    def arguments(self, part: ComputationGraph, places: Places, loop_weight: float | None) -> dict[str, Any]:
        """Return the model's keyword arguments for a call on ``part`` with the edges at ``places``."""
        return {name: self._part_of(name, value, part, places, loop_weight) for name, value in self.kwargs.items()}

    def with_attributes(self, part: ComputationGraph, loop_weight: float | None) -> ComputationGraph:
        """Return a part with the attributes of its edges, if the model is given some of real numbers."""
        given = self.kwargs.get(ATTRIBUTES)
        if not isinstance(given, Tensor) or not given.is_floating_point() or not given.numel():
            return part
        if self._find_kind(ATTRIBUTES, given, part) != "edge":
            return part
        rows = self._part_of(ATTRIBUTES, given, part, slice(None), loop_weight)
        attributes, ranges = flatten_features(rows.detach()), self.graph.attribute_ranges(given.detach(), part.edge_id)
        if ranges is not None:
            most = float(ranges.max()) if ranges.numel() else 0.0
            return replace(part, attributes=attributes, attribute_range=most, attribute_ranges=ranges)
        least, largest = given.detach().aminmax()
        return replace(part, attributes=attributes, attribute_range=float(largest) - float(least))

    def count_rows(self, part: ComputationGraph) -> int:
        """Return how many rows the model's output on ``part`` has; only for rows of nodes, pairs and graphs."""
        if self.kind == "node":
            return part.num_nodes
        if self.kind == "graph":
            return len(self._graphs_of(part))
        return len(self.rows) if self.kind == "pair" else 1

    def _graphs_of(self, part: ComputationGraph) -> Tensor:
        """Return the graphs of the batch that ``part`` has nodes of; graph 0 if there is no batch."""
        batch = self.kwargs.get("batch")
        return torch.zeros(1, dtype=torch.int64) if batch is None else torch.unique(batch[part.nodes])

    def arguments_of_copies(
        self, part: ComputationGraph, places: Tensor, loop_weight: float | None, count: int
    ) -> dict[str, Any]:
        """Return the model's keyword arguments on ``count`` disjoint copies of ``part``.

        ``places`` are the entries of A that the edges of all copies belong to.
        """
        arguments = self.arguments(part, places, loop_weight)
        for name, value in arguments.items():
            kind = self._find_kind(name, self.kwargs[name], part)
            if kind == "pairs":
                starts = part.num_nodes * torch.arange(count).repeat_interleave(value.size(1))
                arguments[name] = value.repeat(1, count) + starts
            elif kind == "batch":
                starts = len(self._graphs_of(part)) * torch.arange(count)
                arguments[name] = value.repeat(count) + starts.repeat_interleave(len(value))
            elif kind in ("node", "graph"):
                arguments[name] = value.repeat(count, *[1] * (value.dim() - 1))
            elif kind == "index" and count > 1:
                raise UnsupportedError(f"it is not known what {name} means on copies of the graph")
        return arguments

    def _find_kind(self, name: str, value: Any, part: ComputationGraph) -> str:
        """Return what a keyword argument has a row for: each "node", "edge" or "graph", for example; else "other"."""
        if not isinstance(value, Tensor) or value.dim() == 0:
            return "other"
        if self.kind == "pair" and name == self.pairs:
            return "pairs"
        if is_pairs(value) and name.endswith("index"):
            return "index"
        nodes, edges = part.size
        if value.size(0) == edges and (name.startswith("edge") or edges != nodes):
            return "edge"
        if value.size(0) == nodes:
            return "batch" if name == "batch" else "node"
        if isinstance(self.kwargs.get("batch"), Tensor) and value.size(0) == int(self.kwargs["batch"].max()) + 1:
            return "graph"
        return "other"

    def _part_of(self, name: str, value: Any, part: ComputationGraph, places: Places, loop_weight: float | None) -> Any:
        """Return the rows of a keyword argument that belong to ``part``, if it has a row for every node or edge."""
        kind = self._find_kind(name, value, part)
        if kind == "pairs":
            return _places_of(value[:, self.rows].reshape(-1), part.nodes).view(2, -1)
        if kind == "edge":
            ids = part.edge_id[places]
            rows = value[ids.clamp(min=0)] if part.size[1] else value.new_zeros(len(ids), *value.shape[1:])
            # One number per edge may be the edge weight, whatever its name is, so a loop gets the weight of loops.
            # Attributes of loops can be 0, because layers that add loops use their own attributes for them.
            may_be_weight = rows.dim() == 1 and rows.is_floating_point()
            rows[ids < 0] = (1.0 if loop_weight is None else loop_weight) if may_be_weight else 0
            return rows
        if kind == "batch":
            return torch.unique(value[part.nodes], return_inverse=True)[1]
        if kind == "graph":
            return value[self._graphs_of(part)]
        return value[part.nodes] if kind == "node" else value


def is_pairs(value: Any) -> bool:
    """Return whether a value can be a list of pairs of nodes: an int64 tensor of shape [2, any]."""
    return isinstance(value, Tensor) and value.dim() == 2 and value.size(0) == 2 and value.dtype == torch.int64


def _places_of(ids: Tensor, among: Tensor) -> Tensor:
    """Return the first place of each of ``ids`` in ``among``, which must contain all of them."""
    if len(ids) == 1:  # This is the usual case, in which no sorting is needed.
        places = np.flatnonzero(among.numpy() == ids.item())[:1]
        if len(places):
            return torch.from_numpy(places)
    order = among.argsort(stable=True)
    return order[torch.searchsorted(among[order].contiguous(), ids.to(among.device).contiguous())]
