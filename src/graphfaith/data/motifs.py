"""Motifs attached to a base graph: the common part of BA-Shapes, Tree-Cycles and Tree-Grid.

Reference: "GNNExplainer: Generating Explanations for Graph Neural Networks" (arXiv 1903.03894), section 5.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._base.errors import InputError

if TYPE_CHECKING:
    import networkx as nx

NUM_MOTIFS = 80
NUM_FEATURES = 10


def make_generator(seed: int) -> random.Random:
    """Return a random number generator for one graph."""
    # Python's generator treats the seed -1 as 1, so two seeds would give the same graph.
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or more")
    return random.Random(seed)


def attach_motifs(
    base: nx.Graph,
    hosts: Sequence[int],
    edges: Sequence[tuple[int, int]],
    labels: Sequence[int],
    rng: random.Random,
) -> Data:
    """Attach a copy of a motif to each host, add random edges, a tenth as many as nodes, and split the nodes.

    `edges` and `labels` are the edges and the node labels of the motif. One edge connects each host with the first
    node of its copy. The nodes of a copy are consecutive and follow the nodes of the base. The nodes of the base have
    label 0, and all features are 1.

    Example:
        >>> import networkx as nx
        >>> path, triangle = nx.path_graph(4), [(0, 1), (1, 2), (2, 0)]
        >>> data = attach_motifs(path, [3, 0], triangle, [1, 1, 2], make_generator(0))
        >>> data.num_nodes, data.y.tolist(), int(data.edge_label.sum())
        (10, [0, 0, 0, 0, 1, 1, 2, 1, 1, 2], 12)
    """
    graph = base.copy()
    num_base = graph.number_of_nodes()
    motif_edges = _add_motifs(graph, hosts, edges, len(labels))
    num_nodes = graph.number_of_nodes()
    _add_random_edges(graph, num_nodes // 10, rng)

    directed = sorted(graph.to_directed().edges())
    train, val, test = _split(num_nodes, rng)
    return Data(
        x=torch.ones(num_nodes, NUM_FEATURES),
        edge_index=torch.tensor(directed).t().contiguous(),
        y=torch.tensor([0] * num_base + list(labels) * len(hosts)),
        edge_label=torch.tensor([float((min(edge), max(edge)) in motif_edges) for edge in directed]),
        train_mask=train,
        val_mask=val,
        test_mask=test,
    )


def _add_motifs(
    graph: nx.Graph, hosts: Sequence[int], edges: Sequence[tuple[int, int]], size: int
) -> set[tuple[int, int]]:
    """Add the motifs to the base; return their edges, each with the smaller node first."""
    num_base = graph.number_of_nodes()
    motif_edges: set[tuple[int, int]] = set()
    for number, host in enumerate(hosts):
        first = num_base + number * size
        motif_edges.update((first + min(edge), first + max(edge)) for edge in edges)
        graph.add_edge(first, host)
    graph.add_edges_from(motif_edges)
    return motif_edges


def _add_random_edges(graph: nx.Graph, count: int, rng: random.Random) -> None:
    """Add `count` random edges that are not self-loops and that the graph does not have yet."""
    num_edges = graph.number_of_edges() + count
    while graph.number_of_edges() < num_edges:
        graph.add_edge(*rng.sample(range(graph.number_of_nodes()), 2))


def _split(num_nodes: int, rng: random.Random) -> tuple[Tensor, Tensor, Tensor]:
    """Return the masks of a random split of the nodes into 80, 10 and 10 %."""
    order = list(range(num_nodes))
    rng.shuffle(order)
    rank = torch.empty(num_nodes, dtype=torch.long)
    rank[order] = torch.arange(num_nodes)
    tenth = num_nodes // 10
    return rank < 8 * tenth, (rank >= 8 * tenth) & (rank < 9 * tenth), rank >= 9 * tenth
