"""A large graph that has the degrees and the features of a small one, so that only the size differs."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from graphfaith._base.checks import check_count, check_seed
from graphfaith._base.errors import InputError

_REWIRED = 0.05  # the share of undirected edges that lead to another copy


def linked_copies(data: Data, count: int, *, seed: int = 0) -> Data:
    """Return ``count`` copies of an undirected graph, of which an edge in twenty leads from each copy to another one.

    The copies of such an edge all lead equally far on around the ring of copies. So every copy of a node has the
    features, the label and the degree of the node, and so have its neighbours; only circles along these edges are
    opened. The copies come one after the other.

    >>> ring = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]]))
    >>> copies = linked_copies(ring, 4)
    >>> copies.x.shape, copies.edge_index.shape, bool(copies.is_undirected())
    (torch.Size([12, 3]), torch.Size([2, 24]), True)
    """
    check_count(count, "count")
    check_seed(seed)
    if not data.is_undirected():
        raise InputError("only an undirected graph keeps its degrees when its edges lead to other copies")
    rng, size = np.random.default_rng(seed), int(data.num_nodes)
    source, sink = data.edge_index.numpy()[:, data.edge_index[0] <= data.edge_index[1]]
    moved = (rng.random(len(source)) < _REWIRED) & (source != sink) & (count > 1)
    step = np.where(moved, rng.integers(1, max(count, 2), len(source)), 0)
    copy = np.arange(count)[:, None]
    near, far = (size * copy + source).ravel(), (size * ((copy + step) % count) + sink).ravel()
    plain = near != far
    edges = np.stack([np.concatenate([near, far[plain]]), np.concatenate([far, near[plain]])])
    parts = {"y": data.y.repeat(count)} if data.y is not None else {}
    return Data(x=data.x.repeat(count, 1), edge_index=torch.from_numpy(edges), num_nodes=size * count, **parts)
