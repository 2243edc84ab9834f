"""The networks of the arena on heterophilous graphs, and how they are trained: one recipe for every contest."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GCNConv, GraphSAGE

from graphfaith._base.randomness import seeded
from graphfaith.data.models import train

FAMILIES = ("GCN", "SAGE", "GAT")
DROPOUT, HEADS = 0.5, 2


class Recipe(NamedTuple):
    """How a network is built and trained; ``own`` says whether each layer also has weights for a node's own numbers."""

    own: bool
    hidden: int
    epochs: int


# Those that validation accuracy has chosen from, the smallest first (benchmarks/arena_recipes.py).
RECIPES = tuple(Recipe(own, 16, epochs) for own in (False, True) for epochs in (100, 200))
RECIPE = Recipe(own=True, hidden=16, epochs=200)


class ResidualGCN(nn.Module):
    """Two graph convolutions, each beside a linear layer: H' = N(A) H W + H R + b.

    N(A) gives a node's own numbers no weight of their own, so that a plain GCN is poor where neighbours tend to differ.

    >>> import torch
    >>> ResidualGCN(3, 4, 2)(torch.rand(2, 3), torch.tensor([[0], [1]])).shape
    torch.Size([2, 2])
    """

    def __init__(self, in_channels: int, hidden: int, out_channels: int, dropout: float = DROPOUT) -> None:
        super().__init__()
        widths = ((in_channels, hidden), (hidden, out_channels))
        self.convs = nn.ModuleList(GCNConv(*width) for width in widths)
        self.residuals = nn.ModuleList(nn.Linear(*width, bias=False) for width in widths)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of all nodes."""
        h = (self.convs[0](x, edge_index, edge_weight) + self.residuals[0](x)).relu()
        h = functional.dropout(h, self.dropout, self.training)
        found: Tensor = self.convs[1](h, edge_index, edge_weight) + self.residuals[1](h)
        return found


def train_network(family: str, data: Data, seed: int, recipe: Recipe = RECIPE) -> tuple[nn.Module, float]:
    """Train a network of a family, and return it with its validation accuracy."""
    with seeded(seed):
        model = _make(family, data.num_features, int(data.y.max()) + 1, recipe)
    return model, train(model, data, epochs=recipe.epochs, seed=seed)


def _make(family: str, inputs: int, classes: int, recipe: Recipe) -> nn.Module:
    """Return an untrained network of two layers; PyG's GraphSAGE always has weights for a node's own numbers."""
    if family == "GCN" and recipe.own:
        return ResidualGCN(inputs, recipe.hidden, classes)
    kind: type[nn.Module] = {"GCN": GCN, "SAGE": GraphSAGE, "GAT": GAT}[family]
    options = {"heads": HEADS, "residual": recipe.own} if family == "GAT" else {}
    return kind(inputs, recipe.hidden, 2, classes, dropout=DROPOUT, **options)
