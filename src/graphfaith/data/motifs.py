"""Motifs hung on a base graph: what BA-Shapes, Tree-Cycles and Tree-Grid have in common.

Reference: "GNNExplainer: Generating Explanations for Graph Neural Networks" (arXiv 1903.03894), section 5.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data

from .._base.errors import InputError

NUM_MOTIFS = 80
NUM_FEATURES = 10


def generator(seed: int) -> random.Random:
    """Return what a graph is drawn with."""
    # Python's generator takes -1 for 1, which would be a second name for the same graph.
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or more")
    return random.Random(seed)


def with_motifs(
    base: nx.Graph,
    hosts: Sequence[int],
    edges: Sequence[tuple[int, int]],
    labels: Sequence[int],
    rng: random.Random,
) -> Data:
    """Hang a copy of a motif from each host, join pairs of nodes at random, a tenth as many as nodes, and split.

    `edges` and `labels` are those of the motif; each copy hangs by one edge at its first node, and its nodes are
    consecutive, after those of the base. The base has label 0, and all features are 1.

    Example:
        >>> data = with_motifs(nx.path_graph(4), [3, 0], [(0, 1), (1, 2), (2, 0)], [1, 1, 2], generator(0))
        >>> data.num_nodes, data.y.tolist(), int(data.edge_label.sum())
        (10, [0, 0, 0, 0, 1, 1, 2, 1, 1, 2], 12)
    """
    graph = base.copy()
    num_base = graph.number_of_nodes()
    motif_edges = _hang_motifs(graph, hosts, edges, len(labels))
    num_nodes = graph.number_of_nodes()
    _join_random_pairs(graph, num_nodes // 10, rng)

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


def _hang_motifs(
    graph: nx.Graph, hosts: Sequence[int], edges: Sequence[tuple[int, int]], size: int
) -> set[tuple[int, int]]:
    """Add the motifs to the base; return their edges, each with the smaller node first."""
    num_base = graph.number_of_nodes()
    motif_edges: set[tuple[int, int]] = set()
    for place, host in enumerate(hosts):
        first = num_base + place * size
        motif_edges.update((first + min(edge), first + max(edge)) for edge in edges)
        graph.add_edge(first, host)
    graph.add_edges_from(motif_edges)
    return motif_edges


def _join_random_pairs(graph: nx.Graph, count: int, rng: random.Random) -> None:
    """Add the random edges, none of them a loop and none there already."""
    wanted = graph.number_of_edges() + count
    while graph.number_of_edges() < wanted:
        graph.add_edge(*rng.sample(range(graph.number_of_nodes()), 2))


def _split(num_nodes: int, rng: random.Random) -> tuple[Tensor, Tensor, Tensor]:
    """Return masks of a random 80, 10 and 10 % of the nodes."""
    order = list(range(num_nodes))
    rng.shuffle(order)
    rank = torch.empty(num_nodes, dtype=torch.long)
    rank[order] = torch.arange(num_nodes)
    tenth = num_nodes // 10
    return rank < 8 * tenth, (rank >= 8 * tenth) & (rank < 9 * tenth), rank >= 9 * tenth
