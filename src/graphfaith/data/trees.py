"""Tree-Cycles and Tree-Grid: rings and grids hung on a binary tree, to be told from it.

Reference: "GNNExplainer: Generating Explanations for Graph Neural Networks" (arXiv 1903.03894), section 5. The
graphs that its code makes are others: 60 cycles in place of 80, motifs at even distances, and random edges for a
hundredth of the edges. Here all is as the paper says, with as many random edges as it gives BA-Shapes.
"""

from __future__ import annotations

import networkx as nx
from torch_geometric.data import Data

from .motifs import NUM_MOTIFS, generator, with_motifs

HEIGHT = 8

CYCLE_EDGES = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))
# Row by row: node 0 is a corner and 4 the middle.
GRID_EDGES = (
    *((0, 1), (1, 2), (3, 4), (4, 5), (6, 7), (7, 8)),
    *((0, 3), (3, 6), (1, 4), (4, 7), (2, 5), (5, 8)),
)


def tree_cycles(seed: int = 0) -> Data:
    """Generate Tree-Cycles: 991 nodes, of which 511 to 990 are the 80 cycles, six consecutive nodes each.

    A balanced binary tree of height 8 carries the cycles at 80 nodes drawn at random; each hangs by one edge at its
    first node. Then 99 pairs of nodes drawn at random are joined. The classes are tree (0) and cycle (1); all
    features are 1.

    The result has `x` [991, 10] and what else `ba_shapes` returns; `edge_label` is 1 for the edges of the cycles.
    The same seed gives the same tensors, and no global random state is read or changed.

    Example:
        >>> data = tree_cycles()
        >>> data.num_nodes, data.y[510:512].tolist(), int(data.edge_label.sum())
        (991, [0, 1], 960)
    """
    return _tree_with(CYCLE_EDGES, 6, seed)


def tree_grid(seed: int = 0) -> Data:
    """Generate Tree-Grid: 1231 nodes, of which 511 to 1230 are the 80 grids, nine consecutive nodes each.

    As `tree_cycles`, but what hangs is a grid of 3 by 3 nodes, by a corner, and 123 random pairs are joined.

    Example:
        >>> data = tree_grid()
        >>> data.num_nodes, data.y[510:512].tolist(), int(data.edge_label.sum())
        (1231, [0, 1], 1920)
    """
    return _tree_with(GRID_EDGES, 9, seed)


def _tree_with(edges: tuple[tuple[int, int], ...], size: int, seed: int) -> Data:
    rng = generator(seed)
    tree = nx.balanced_tree(2, HEIGHT)
    hosts = rng.sample(range(tree.number_of_nodes()), NUM_MOTIFS)
    return with_motifs(tree, hosts, edges, [1] * size, rng)
