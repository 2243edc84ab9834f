"""The part of a large graph that an explanation is about, as a small graph of its own with other numbers."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from .._base.errors import DataError
from .computation_graph import ComputationGraph
from .graph import Graph
from .packed import PackedGraph


def cut_out(graph: Graph, part: ComputationGraph) -> Data:
    """Return the graph of a node's computation graph with every node written out, also those that only send an edge.

    Its nodes are numbered anew, the explained ones first; its edges keep their order. ``n_id`` and ``e_id`` are the
    numbers in the large graph, as in the batches of PyG's loaders, both of all nodes and of all edges. F is the same on
    both: the nodes that the computation graph has one node in place of are counted in degrees, and have their edges.

    >>> x, path = torch.eye(5), torch.tensor([[4, 3, 2, 1], [3, 2, 1, 0]])      # 4 -> 3 -> 2 -> 1 -> 0
    >>> graph = Graph.of(x, path)
    >>> cut = cut_out(graph, ComputationGraph.around(graph, 1, 1))
    >>> cut.n_id.tolist(), cut.edge_index.tolist(), cut.e_id.tolist()
    ([1, 2, 3], [[2, 1], [1, 0]], [1, 2])
    """
    # F does not read the self-loops of nodes that only send an edge, and their weights are not known here.
    kept = torch.nonzero((part.edge_id >= 0) & part.felt).view(-1)
    kept = kept[part.edge_id[kept].argsort()]
    ends = part.ends[:, kept].numpy()
    inner = part.nodes[: part.num_visible].numpy()
    ids = np.concatenate((inner, np.setdiff1d(ends, inner)))
    order = np.argsort(ids)
    positions = order[np.searchsorted(ids, ends, sorter=order)]
    if graph.flow == "target_to_source":
        positions = positions[::-1].copy()
    data = Data(x=graph.features(ids), edge_index=torch.from_numpy(positions))
    if graph.is_weighted:
        data.edge_weight = part.weight[kept].to(data.x.dtype)
    if isinstance(graph, PackedGraph) and graph.labels is not None:
        data.y = graph.labels[torch.from_numpy(ids)]
    data.n_id, data.e_id = torch.from_numpy(ids), part.edge_id[kept]
    return data


def find_places(ids: Tensor, wanted: Tensor) -> Tensor:
    """Return where each of ``wanted`` is among ``ids``, which are distinct; an error if one of them is not there.

    >>> find_places(torch.tensor([7, 3, 5]), torch.tensor([5, 7])).tolist()
    [2, 0]
    """
    ordered, order = ids.sort()
    found = torch.searchsorted(ordered, wanted).clamp(max=max(0, len(ids) - 1))
    if len(wanted) and (not len(ids) or bool((ordered[found] != wanted).any())):
        raise DataError(
            "a row has scores of edges or nodes that its prediction does not depend on: was it made by another model?"
        )
    return order[found]
