"""A generated graph of any size that looks the same from every node, so that graphs differ only in size."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from graphfaith._base.checks import check_count, check_seed
from graphfaith._base.errors import InputError

CLASSES = 4
_BLOCK = 25  # the number of consecutive nodes of one class
_REWIRED = 0.2  # the share of the edges whose far end is moved


def lattice(num_nodes: int, *, seed: int = 0, num_features: int = 16, half_degree: int = 2) -> Data:
    """Generate a ring on which each node has edges to the next ``half_degree`` nodes; a fifth of the edges are moved.

    A moved edge ends at most 5 ``half_degree`` places further, so the subgraph in reach of a node depends neither on
    the size of the graph nor on the node. The average degree is 2 ``half_degree``, minus the moved edges that coincide
    with others. Classes form blocks along the ring. The features are the mean of the class plus Gaussian noise.

    >>> data = lattice(1000)
    >>> data.x.shape, bool(data.is_undirected()), bool(data.has_self_loops())
    (torch.Size([1000, 16]), True, False)
    """
    check_count(num_nodes, "num_nodes")
    check_count(num_features, "num_features")
    check_seed(seed)
    window = 5 * check_count(half_degree, "half_degree")
    if num_nodes <= 2 * window:
        raise InputError(f"a ring of {num_nodes} nodes is too small: use more than {2 * window} nodes")
    rng = np.random.default_rng(seed)
    near = np.repeat(np.arange(num_nodes), half_degree)
    step = np.tile(np.arange(1, half_degree + 1), num_nodes)
    moved = rng.random(len(step)) < _REWIRED
    step[moved] = rng.integers(1, window + 1, int(moved.sum()))
    far = (near + step) % num_nodes
    one_way = np.unique(np.minimum(near, far) * num_nodes + np.maximum(near, far))
    a, b = one_way // num_nodes, one_way % num_nodes
    y = np.arange(num_nodes) // _BLOCK % CLASSES
    x = rng.standard_normal((num_nodes, num_features), dtype=np.float32)
    x += np.eye(CLASSES, num_features, dtype=np.float32)[y]
    split = torch.from_numpy(rng.random(num_nodes))
    return Data(
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(np.stack([np.concatenate([a, b]), np.concatenate([b, a])])),
        y=torch.from_numpy(y),
        train_mask=split < 0.2,
        val_mask=(split >= 0.2) & (split < 0.4),
    )
