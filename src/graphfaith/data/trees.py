"""Tree-Cycles and Tree-Grid: cycles and grids attached to a binary tree; the task is to recognise their nodes.

Reference: "GNNExplainer: Generating Explanations for Graph Neural Networks" (arXiv 1903.03894), section 5. The code
of that paper generates other graphs: 60 cycles instead of 80, motifs at even distances, and random edges numbering one
hundredth of the edges. This module follows the text of the paper, with the share of random edges that it states for
BA-Shapes.
"""

from __future__ import annotations

from torch_geometric.data import Data

from .motifs import NUM_MOTIFS, attach_motifs, make_generator

HEIGHT = 8

CYCLE_EDGES = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))
# The nodes are numbered row by row, so node 0 is a corner and node 4 the middle.
GRID_EDGES = (
    *((0, 1), (1, 2), (3, 4), (4, 5), (6, 7), (7, 8)),
    *((0, 3), (3, 6), (1, 4), (4, 7), (2, 5), (5, 8)),
)


def tree_cycles(seed: int = 0) -> Data:
    """Generate Tree-Cycles: 991 nodes, in which nodes 511 to 990 are 80 cycles of six consecutive nodes each.

    The base is a balanced binary tree of height 8. Of its nodes, 80 random ones have one edge to the first node of a
    cycle each. Then 99 random pairs of nodes are connected. The classes are tree (0) and cycle (1). All features are 1.

    The result has `x` [991, 10] and the same other fields as `ba_shapes`; `edge_label` is 1 for the edges of the
    cycles. The same seed gives the same tensors, and no global random state is read or changed.

    Example:
        >>> data = tree_cycles()
        >>> data.num_nodes, data.y[510:512].tolist(), int(data.edge_label.sum())
        (991, [0, 1], 960)
    """
    return _make_tree(CYCLE_EDGES, 6, seed)


def tree_grid(seed: int = 0) -> Data:
    """Generate Tree-Grid: 1231 nodes, in which nodes 511 to 1230 are 80 grids of nine consecutive nodes each.

    It is built as `tree_cycles`, but with grids of 3 by 3 nodes, attached at a corner, and with 123 random edges.

    Example:
        >>> data = tree_grid()
        >>> data.num_nodes, data.y[510:512].tolist(), int(data.edge_label.sum())
        (1231, [0, 1], 1920)
    """
    return _make_tree(GRID_EDGES, 9, seed)


def _make_tree(edges: tuple[tuple[int, int], ...], size: int, seed: int) -> Data:
    import networkx as nx

    rng = make_generator(seed)
    tree = nx.balanced_tree(2, HEIGHT)
    hosts = rng.sample(range(tree.number_of_nodes()), NUM_MOTIFS)
    return attach_motifs(tree, hosts, edges, [1] * size, rng)
