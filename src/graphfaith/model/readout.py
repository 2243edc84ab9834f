"""Which nodes an output of a model is read from, and the model's arguments on a part of the graph.

At node level row v of the output stands for node v. At edge level it stands for a pair of nodes, column v of
``edge_label_index``, or edge v of the graph. At graph level it stands for all nodes of graph v of a ``batch``.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .._base.errors import InputError, UnsupportedError
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Graph, Int64
from .task import Index, Task

Kind = Literal["node", "pair", "edge", "graph", "other"]


class Readout:
    """The explained rows of a model's output: where on the graph they are read, and where they are on a part of it."""

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
        if self.kind == "other" and index is not None:
            wanted = {
                "node": f"each of the {graph.num_nodes} nodes",
                "edge": f"each column of edge_label_index=, or each of the {graph.num_edges} edges",
                "graph": "each graph of batch=, or one row without it",
            }
            raise UnsupportedError(
                f"the model must return a row for {wanted[task.level]} (got {count} rows), or be explained as a whole, "
                "without index="
            )
        self.rows = task.rows(index, count) if rows is None or self.kind != "node" else rows
        self.seeds: Int64 = self._seeds()

    def _kind(self, level: str, count: int) -> tuple[Kind, str]:
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

    def _num_graphs(self) -> int:
        batch = self.kwargs.get("batch")
        if batch is None:
            return 1
        if not isinstance(batch, Tensor) or batch.shape != (self.graph.num_nodes,) or batch.dtype != torch.int64:
            raise InputError(f"batch must hold the graph of each of the {self.graph.num_nodes} nodes, as int64")
        return int(batch.max()) + 1

    def _seeds(self) -> Int64:
        if self.kind == "node":
            found = self.rows
        elif self.kind == "pair":
            found = self.kwargs[self.pairs][:, self.rows].reshape(-1)
            if not 0 <= int(found.min()) <= int(found.max()) < self.graph.num_nodes:
                raise InputError(f"{self.pairs} names a node that the graph has not")
        elif self.kind == "edge":
            found = self.graph.edge_index[:, self.rows].reshape(-1)
        elif self.kind == "graph" and self.kwargs.get("batch") is not None:
            batch = self.kwargs["batch"]
            members = [(batch == row).nonzero().view(-1) for row in self.rows.tolist()]
            for row, nodes in zip(self.rows.tolist(), members, strict=True):
                if not len(nodes):
                    raise InputError(f"graph {row} of the batch has no nodes")
            found = torch.cat(members)
        else:
            found = torch.arange(self.graph.num_nodes)
        return found.detach().cpu().numpy().astype(np.int64)

    @property
    def reads_whole_graph(self) -> bool:
        """Whether the rows cannot be told apart by nodes, so that nothing can be left out."""
        return self.kind == "other"

    def rows_on(self, part: ComputationGraph, places: Tensor) -> Tensor:
        """Places of the explained rows in the model's output on ``part`` with the edges at ``places``."""
        if self.kind == "node":
            return _places_of(self.rows, part.nodes)
        if self.kind == "pair":
            return torch.arange(len(self.rows))
        if self.kind == "edge":
            return _places_of(self.rows, part.edge_id[places])
        if self.kind == "graph" and self.kwargs.get("batch") is not None:
            return _places_of(self.rows, torch.unique(self.kwargs["batch"][part.nodes]))
        return self.rows

    def arguments(self, part: ComputationGraph, places: Tensor, loop_weight: float | None) -> dict[str, Any]:
        """The model's keyword arguments on ``part``, if it is given the edges at ``places``."""
        return {name: self._part_of(name, value, part, places, loop_weight) for name, value in self.kwargs.items()}

    def _part_of(self, name: str, value: Any, part: ComputationGraph, places: Tensor, loop_weight: float | None) -> Any:
        if not isinstance(value, Tensor) or value.dim() == 0:
            return value
        if self.kind == "pair" and name == self.pairs:
            return _places_of(value[:, self.rows].reshape(-1), part.nodes).view(2, -1)
        if is_pairs(value) and name.endswith("index"):
            return value
        nodes, edges = part.size
        if value.size(0) == edges and (name.startswith("edge") or edges != nodes):
            ids = part.edge_id[places]
            found = value[ids.clamp(min=0)] if edges else value.new_zeros(len(ids), *value.shape[1:])
            # One number an edge may be its weight, whatever it is called. What is written for the attributes of loops
            # is not read: layers that add loops bring their own.
            one = found.dim() == 1 and found.is_floating_point()
            found[ids < 0] = (1.0 if loop_weight is None else loop_weight) if one else 0
            return found
        if value.size(0) == nodes:
            found = value[part.nodes]
            return torch.unique(found, return_inverse=True)[1] if name == "batch" else found
        return value


def is_pairs(value: Any) -> bool:
    """Whether a value can be a list of pairs of nodes."""
    return isinstance(value, Tensor) and value.dim() == 2 and value.size(0) == 2 and value.dtype == torch.int64


def _places_of(ids: Tensor, among: Tensor) -> Tensor:
    """Places of ``ids`` in ``among``, which has each of them once or more."""
    if len(ids) == 1:  # one node, mostly: nothing to be sorted for
        found = (among == ids.to(among.device)).nonzero().view(-1)[:1]
        if len(found):
            return found
    order = among.argsort(stable=True)
    return order[torch.searchsorted(among[order].contiguous(), ids.to(among.device).contiguous())]
