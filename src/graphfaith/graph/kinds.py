"""The kinds of nodes and edges of a heterogeneous graph, which is carried as one graph with labels.

Nodes of all types are numbered one after another, and so are edges of all types, and columns of all feature matrices:
X is block diagonal. Everything that looks at a graph then sees a plain one. Only what has to know the types asks here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

EdgeType = tuple[str, str, str]  # source, relation, sink


@dataclass(frozen=True)
class Kinds:
    """Where the nodes, columns and edges of each type begin in the joint numbering.

    >>> types = ("paper", "word"), (("word", "in", "paper"),)
    >>> kinds = Kinds(*types, (0, 2, 5), (0, 1, 4), (0, 6), (0.0, 0.0), (1.0, 2.0))
    >>> kinds.of_nodes(torch.tensor([0, 2, 4])).tolist(), kinds.of_edges(torch.tensor([3, -1])).tolist()
    ([0, 1, 1], [0, -1])
    >>> kinds.name_of(3)
    'word 1'
    """

    node_types: tuple[str, ...]
    edge_types: tuple[EdgeType, ...]
    node_start: tuple[int, ...]  # [types + 1]
    column_start: tuple[int, ...]  # [types + 1]
    edge_start: tuple[int, ...]  # [edge types + 1]
    lowest: tuple[float, ...]  # min(X) of each node type
    span: tuple[float, ...]  # max(X) - min(X) of each node type

    def of_nodes(self, nodes: Tensor) -> Tensor:
        """Return the place of the type of each node, by its joint id."""
        return _find(nodes, self.node_start)

    def of_edges(self, edges: Tensor) -> Tensor:
        """Return the place of the type of each edge, by its joint id; -1 for an edge without one."""
        return torch.where(edges < 0, -1, _find(edges, self.edge_start))

    def nodes(self, kind: int) -> slice:
        """Return the joint ids of the nodes of a type."""
        return slice(self.node_start[kind], self.node_start[kind + 1])

    def columns(self, kind: int) -> slice:
        """Return the columns of X that a type of nodes has."""
        return slice(self.column_start[kind], self.column_start[kind + 1])

    def edges(self, kind: int) -> slice:
        """Return the joint ids of the edges of a type."""
        return slice(self.edge_start[kind], self.edge_start[kind + 1])

    def ends(self, kind: int) -> tuple[int, int]:
        """Return the places of the types of source and sink of an edge type."""
        source, _, sink = self.edge_types[kind]
        return self.node_types.index(source), self.node_types.index(sink)

    def name_of(self, node: int) -> str:
        """Return the type of a node and its number there."""
        kind = int(self.of_nodes(torch.tensor([node])))
        return f"{self.node_types[kind]} {node - self.node_start[kind]}"

    def spread(self, nodes: Tensor, values: tuple[float, ...]) -> Tensor:
        """Return a number of each type at the features that each node has, [n, d], and 0 at those it has not."""
        found = torch.zeros(len(nodes), self.column_start[-1], dtype=torch.float64)
        of_node = self.of_nodes(nodes)
        for kind, value in enumerate(values):
            rows = (of_node == kind).nonzero().view(-1, 1)
            columns = torch.arange(self.column_start[kind], self.column_start[kind + 1])
            found[rows, columns] = value
        return found


def _find(ids: Tensor, starts: tuple[int, ...]) -> Tensor:
    bounds = torch.tensor(starts[1:], dtype=ids.dtype, device=ids.device)
    return torch.searchsorted(bounds, ids.contiguous(), right=True)
