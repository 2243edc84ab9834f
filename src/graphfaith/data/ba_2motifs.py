"""BA-2Motifs: random trees that each carry a house or a ring, to be told apart as whole graphs.

Reference: "Parameterized Explainer for Graph Neural Network" (arXiv 2011.04573), section 5.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import networkx as nx
import torch
from torch_geometric.data import Data

from .._base.errors import InputError
from .ba_shapes import HOUSE_EDGES
from .motifs import generator

NUM_BASE = 20
EDGES_PER_BASE_NODE = 1  # so the base is a tree: every cycle of a graph lies in its motif
NUM_MOTIF = 5
NUM_FEATURES = 10
FEATURE = 0.1

RING_EDGES = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
# By class.
MOTIFS = (HOUSE_EDGES, RING_EDGES)


class Splits(NamedTuple):
    """The graphs to train on, to choose weights by, and to test with."""

    train: list[Data]
    val: list[Data]
    test: list[Data]


def ba_2motifs(num_graphs: int = 1000, seed: int = 0) -> list[Data]:
    """Generate BA-2Motifs: graphs of 25 nodes, of which 20 to 24 are a house (class 0) or a ring (class 1).

    The base is a Barabasi-Albert tree of 20 nodes. The motif hangs by one edge from its first node (in a house one
    of the two of degree 3) to a base node drawn at random. The classes alternate; all features are 0.1.

    Each graph has `x` [25, 10], `edge_index` (both directions, sorted), `y` [1], `motif_edge` [E] (True for the
    edges inside the motif, not for the one it hangs by) and `motif_node` [25]. A graph with a house has one edge
    more than one with a ring, so a model may count edges and never look for a motif.

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
    rng = generator(seed)
    return [_graph(place % len(MOTIFS), rng) for place in range(num_graphs)]


def splits(graphs: Sequence[Data], seed: int = 0) -> Splits:
    """Part graphs at random into 80, 10 and 10 % (rounded, for training the rest), each class by itself.

    Example:
        >>> parts = splits(ba_2motifs(40))
        >>> [len(part) for part in parts], sum(int(graph.y) for graph in parts.test)
        ([32, 4, 4], 2)
    """
    rng = generator(seed)
    parts = Splits([], [], [])
    for label in sorted({int(graph.y) for graph in graphs}):
        members = [graph for graph in graphs if int(graph.y) == label]
        rng.shuffle(members)
        tenth = round(len(members) / 10)
        parts.test.extend(members[:tenth])
        parts.val.extend(members[tenth : 2 * tenth])
        parts.train.extend(members[2 * tenth :])
    # Otherwise the first half of each part would be one class, and so would every batch of it.
    for part in parts:
        rng.shuffle(part)
    return parts


def _graph(label: int, rng: random.Random) -> Data:
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
