"""BA-Shapes: houses attached to a random graph, a common benchmark for explanations with a known correct answer.

Reference: "GNNExplainer: Generating Explanations for Graph Neural Networks" (arXiv 1903.03894), section 5.
"""

from __future__ import annotations

from torch_geometric.data import Data

from .motifs import NUM_MOTIFS, attach_motifs, make_generator

NUM_BASE = 300
EDGES_PER_BASE_NODE = 5

# Nodes 0 and 1 are the middle of the house, nodes 2 and 3 its bottom, and node 4 is its roof.
HOUSE_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4))
HOUSE_LABELS = (1, 1, 2, 2, 3)


def ba_shapes(seed: int = 0) -> Data:
    """Generate BA-Shapes: 700 nodes, in which nodes 300 to 699 are 80 houses of five consecutive nodes each.

    The base is a Barabasi-Albert graph of 300 nodes, in which each new node has 5 edges. Every third of its first 240
    nodes has one edge to the first node of a house. Then 70 random pairs of nodes are connected. The classes are base
    (0) and middle (1), bottom (2) and roof (3) of a house. All features are 1.

    The result has `x` [700, 10], `edge_index` (both directions, sorted), `y`, `edge_label` (1 for the edges of
    the houses, 0 for all others) and `train_mask`, `val_mask`, `test_mask` (80, 10 and 10 % of the nodes).
    The same seed gives the same tensors, and no global random state is read or changed.

    Example:
        >>> data = ba_shapes()
        >>> data.num_nodes, data.y[300:305].tolist(), int(data.edge_label.sum())
        (700, [1, 1, 2, 2, 3], 960)
    """
    import networkx as nx

    rng = make_generator(seed)
    base = nx.barabasi_albert_graph(NUM_BASE, EDGES_PER_BASE_NODE, seed=rng)
    spacing = NUM_BASE // NUM_MOTIFS
    hosts = range(0, NUM_MOTIFS * spacing, spacing)
    return attach_motifs(base, hosts, HOUSE_EDGES, HOUSE_LABELS, rng)
