"""Graph convolutions as dense products, for many small graphs at once.

A layer that gathers, multiplies and scatters does so for every sample, edge and unit. On a computation graph of a few
dozen nodes the matrix D^-1/2 A D^-1/2 itself is small, it is the same for every layer, and one batched product with it
is several times faster than PyG's messages. The numbers are the same up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

LARGEST = 128  # nodes; beyond it a dense matrix has more zeros than a sparse one has detours


def dense_convolutions(model: torch.nn.Module, num_nodes: int) -> list[Any]:
    """The layers of ``model`` that can be dense products on a graph of so many nodes, all self-loops given."""
    return [] if num_nodes > LARGEST else [layer for layer in model.modules() if _is_plain(layer)]


def _is_plain(layer: Any) -> bool:
    """Whether a layer is PyG's own GCNConv, and nothing listens to what it does."""
    return (
        type(layer) is GCNConv
        and bool(layer.normalize and layer.add_self_loops and not layer.cached)
        and layer.explain is not True
        and layer.flow == "source_to_target"
        and not any(hooks for name, hooks in vars(layer).items() if name.endswith("hooks"))
        and "forward" not in vars(layer)
    )


def normalised(weight: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """D^-1/2 A D^-1/2 for A's entries [..., e], with D = diag(A 1): [..., n, n]."""
    lead = weight.shape[:-1]
    place = edge_index[1] * num_nodes + edge_index[0]
    a = weight.new_zeros(*lead, num_nodes * num_nodes).index_add(-1, place, weight)
    a = a.view(*lead, num_nodes, num_nodes)
    degree = a.sum(dim=-1)
    scale = torch.where(degree > 0, degree, 1.0).rsqrt() * (degree > 0)
    return scale.unsqueeze(-1) * a * scale.unsqueeze(-2)


@contextmanager
def as_dense_products(layers: list[Any], edge_index: Tensor, weight: Tensor, matrix: Tensor) -> Iterator[None]:
    """Let ``layers`` compute N(A) (X W) + b by a dense product, when they are given these edges and weights.

    ``matrix`` is N(A) of ``weight``. With other edges or weights a layer does as it always does.
    """

    def forward_of(layer: Any) -> Any:
        usual = layer.forward

        def forward(x: Tensor, edges: Tensor, edge_weight: Tensor | None = None) -> Tensor:
            if edges is not edge_index or edge_weight is not weight or x.dim() != 2:
                found: Tensor = usual(x, edges, edge_weight)
                return found
            out: Tensor = matrix @ layer.lin(x)
            return out if layer.bias is None else out + layer.bias

        return forward

    try:
        for layer in layers:
            vars(layer)["forward"] = forward_of(layer)
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)
