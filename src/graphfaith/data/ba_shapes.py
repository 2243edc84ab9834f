"""BA-Shapes: houses hung on a random graph, the usual graph for explanations with a known right answer.

Reference: "GNNExplainer: Generating Explanations for Graph Neural Networks" (arXiv 1903.03894), section 5.
"""

from __future__ import annotations

import networkx as nx
from torch_geometric.data import Data

from .motifs import NUM_MOTIFS, generator, with_motifs

NUM_BASE = 300
EDGES_PER_BASE_NODE = 5

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
    rng = generator(seed)
    base = nx.barabasi_albert_graph(NUM_BASE, EDGES_PER_BASE_NODE, seed=rng)
    spacing = NUM_BASE // NUM_MOTIFS
    hosts = range(0, NUM_MOTIFS * spacing, spacing)
    return with_motifs(base, hosts, HOUSE_EDGES, HOUSE_LABELS, rng)
