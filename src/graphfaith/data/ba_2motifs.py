"""BA-2Motifs: random trees with a house or a ring attached; the task is to classify the whole graph.

Reference: "Parameterized Explainer for Graph Neural Network" (arXiv 2011.04573), section 5.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch_geometric.data import Data

from .._base.errors import InputError
from .ba_shapes import HOUSE_EDGES
from .motifs import make_generator

NUM_BASE = 20
EDGES_PER_BASE_NODE = 1  # the base is then a tree, so every cycle of a graph lies in its motif
NUM_MOTIF = 5
NUM_FEATURES = 10
FEATURE = 0.1

RING_EDGES = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
MOTIFS = (HOUSE_EDGES, RING_EDGES)  # indexed by class


class Splits(NamedTuple):
    """The graphs for training, validation and testing."""

    train: list[Data]
    val: list[Data]
    test: list[Data]


def ba_2motifs(num_graphs: int = 1000, seed: int = 0) -> list[Data]:
    """Generate BA-2Motifs: graphs of 25 nodes, in which nodes 20 to 24 are a house (class 0) or a ring (class 1).

    The base is a Barabasi-Albert tree of 20 nodes. One edge connects the first node of the motif (in a house, one of
    the two nodes of degree 3) with a random node of the base. The classes alternate, and all features are 0.1.

    Each graph has `x` [25, 10], `edge_index` (both directions, sorted), `y` [1], `motif_edge` [E] (True for the
    edges inside the motif, False for the edge to the base) and `motif_node` [25]. A graph with a house has one edge
    more than a graph with a ring, so a model can classify by counting edges, without recognising a motif.

    The same seed gives the same tensors, whatever `num_graphs` is, and no global random state is read or changed.

    Example:
        >>> house, ring = ba_2motifs(2)
        >>> house.y.item(), house.num_edges, int(house.motif_edge.sum())
        (0, 52, 12)
        >>> ring.y.item(), ring.num_edges, int(ring.motif_edge.sum())
        (1, 50, 10)
    """
    if num_graphs < 1:
        raise InputError(f"num_graphs is {num_graphs}; it must be 1 or more")
    rng = make_generator(seed)
    return [_make_graph(number % len(MOTIFS), rng) for number in range(num_graphs)]


def splits(graphs: Sequence[Data], seed: int = 0) -> Splits:
    """Split graphs at random into 80 % for training, 10 % for validation and 10 % for testing, class by class.

    The two smaller parts are rounded, and the rest is for training.

    Example:
        >>> parts = splits(ba_2motifs(40))
        >>> [len(part) for part in parts], sum(int(graph.y) for graph in parts.test)
        ([32, 4, 4], 2)
    """
    rng = make_generator(seed)
    parts = Splits([], [], [])
    for label in sorted({int(graph.y) for graph in graphs}):
        members = [graph for graph in graphs if int(graph.y) == label]
        rng.shuffle(members)
        tenth = round(len(members) / 10)
        parts.test.extend(members[:tenth])
        parts.val.extend(members[tenth : 2 * tenth])
        parts.train.extend(members[2 * tenth :])
    # Without this shuffle each part would be sorted by class, and batches would have graphs of one class only.
    for part in parts:
        rng.shuffle(part)
    return parts


def _make_graph(label: int, rng: random.Random) -> Data:
    import networkx as nx

    graph = nx.barabasi_albert_graph(NUM_BASE, EDGES_PER_BASE_NODE, seed=rng)
    graph.add_edge(rng.randrange(NUM_BASE), NUM_BASE)
    graph.add_edges_from((NUM_BASE + i, NUM_BASE + j) for i, j in MOTIFS[label])
    edge_index = torch.tensor(sorted(graph.to_directed().edges())).t().contiguous()
    motif_node = torch.arange(NUM_BASE + NUM_MOTIF) >= NUM_BASE
    return Data(
        x=torch.full((NUM_BASE + NUM_MOTIF, NUM_FEATURES), FEATURE),
        edge_index=edge_index,
        y=torch.tensor([label]),
        motif_edge=motif_node[edge_index].all(dim=0),
        motif_node=motif_node,
    )
