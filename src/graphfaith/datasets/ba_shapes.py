"""BA-Shapes: houses hung on a random graph, the usual graph for explanations with a known right answer.

Reference: "GNNExplainer: Generating Explanations for Graph Neural Networks" (arXiv 1903.03894), section 5.
"""

from __future__ import annotations

import random

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphfaith.errors import InputError

NUM_BASE = 300
EDGES_PER_BASE_NODE = 5
NUM_HOUSES = 80
NUM_RANDOM_EDGES = 70  # a tenth of the 700 nodes
NUM_FEATURES = 10

# Nodes 0 and 1 are the middle of the house, 2 and 3 its bottom, 4 its roof.
HOUSE_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4))
HOUSE_LABELS = (1, 1, 2, 2, 3)


def ba_shapes(seed: int = 0) -> Data:
    """Generate BA-Shapes: 700 nodes, of which 300 to 699 are the 80 houses, five consecutive nodes each.

    A Barabasi-Albert graph of 300 nodes, each new one with 5 edges, carries the houses at every third node; each
    hangs by one edge at its first node. Then 70 pairs of nodes drawn at random are joined. The classes are base
    (0), middle (1), bottom (2) and roof (3) of a house; all features are 1.

    The result has `x` [700, 10], `edge_index` (both directions, sorted), `y`, `edge_label` (1 for the edges of
    the houses, 0 for all others) and `train_mask`, `val_mask`, `test_mask` (80, 10 and 10 % of the nodes).
    The same seed gives the same tensors, and no global random state is read or changed.

    Example:
        >>> data = ba_shapes()
        >>> data.num_nodes, data.y[300:305].tolist(), int(data.edge_label.sum())
        (700, [1, 1, 2, 2, 3], 960)
    """
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or more")
    rng = random.Random(seed)
    graph = nx.barabasi_albert_graph(NUM_BASE, EDGES_PER_BASE_NODE, seed=rng)
    house_edges = _hang_houses(graph)
    _join_random_pairs(graph, rng)

    edges = sorted(graph.to_directed().edges())
    train, val, test = _split(graph.number_of_nodes(), rng)
    return Data(
        x=torch.ones(graph.number_of_nodes(), NUM_FEATURES),
        edge_index=torch.tensor(edges).t().contiguous(),
        y=torch.tensor([0] * NUM_BASE + list(HOUSE_LABELS) * NUM_HOUSES),
        edge_label=torch.tensor([float((min(edge), max(edge)) in house_edges) for edge in edges]),
        train_mask=train,
        val_mask=val,
        test_mask=test,
    )


def _hang_houses(graph: nx.Graph) -> set[tuple[int, int]]:
    """Add the houses to the base, evenly spaced; return their edges, each with the smaller node first."""
    spacing = NUM_BASE // NUM_HOUSES
    house_edges: set[tuple[int, int]] = set()
    for house in range(NUM_HOUSES):
        first = NUM_BASE + house * len(HOUSE_LABELS)
        house_edges.update((first + min(edge), first + max(edge)) for edge in HOUSE_EDGES)
        graph.add_edge(first, house * spacing)
    graph.add_edges_from(house_edges)
    return house_edges


def _join_random_pairs(graph: nx.Graph, rng: random.Random) -> None:
    """Add the random edges, none of them a loop and none there already."""
    wanted = graph.number_of_edges() + NUM_RANDOM_EDGES
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
