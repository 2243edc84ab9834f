"""A classifier of whole graphs by the motif that they contain, trained on BA-2Motifs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GraphConv, global_add_pool, global_max_pool, global_mean_pool
from torch_geometric.utils import softmax

from graphfaith._base.errors import InputError
from graphfaith.data.ba_2motifs import NUM_FEATURES, Splits, ba_2motifs, splits

from .training import descend, seeded

POOLINGS = ("mean", "max", "attention")
BATCH_SIZE = 100


class MotifClassifier(nn.Module):
    """A graph classifier: three graph convolutions with leaky ReLU, pooling over each graph and one linear layer.

    A convolution is W1 x_i + W2 sum_j A_ij x_j. It does not divide by degrees: all nodes of BA-2Motifs have the same
    features, so that only the size of the sum distinguishes nodes.

    `pooling` is "mean", "max" or "attention". Attention is a mean weighted by the softmax of a learnt score. All three
    learn BA-2Motifs, but with the mean the model partly counts edges instead of recognising the motif. When edges are
    ranked by their gradients, an edge of the motif comes before another edge in 78 % of the pairs with the mean, 96 %
    with the maximum and 97 % with attention (seed 0).

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> MotifClassifier()(torch.ones(4, 10), edge_index, batch=torch.tensor([0, 0, 1, 1])).shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        in_channels: int = NUM_FEATURES,
        num_classes: int = 2,
        hidden_channels: int = 32,
        pooling: str = "attention",
    ) -> None:
        super().__init__()
        if pooling not in POOLINGS:
            raise InputError(f"unknown pooling {pooling!r}; use one of {', '.join(POOLINGS)}")
        self.pooling = pooling
        self.conv1 = GraphConv(in_channels, hidden_channels)
        self.conv2 = GraphConv(hidden_channels, hidden_channels)
        self.conv3 = GraphConv(hidden_channels, hidden_channels)
        self.gate = nn.Linear(hidden_channels, 1) if pooling == "attention" else None
        self.readout = nn.Linear(hidden_channels, num_classes)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, batch: Tensor | None = None
    ) -> Tensor:
        """Return the class logits [num_graphs, num_classes].

        `batch` [N] holds the number of each node's graph. None means that all nodes belong to one graph.
        """
        # With a plain ReLU training fails for some seeds. All nodes have the same features, so that a unit can be
        # zero at all nodes at once, and then it receives no gradient any more.
        for conv in (self.conv1, self.conv2, self.conv3):
            x = F.leaky_relu(conv(x, edge_index, edge_weight))
        logits: Tensor = self.readout(self._pool(x, batch))
        return logits

    def _pool(self, h: Tensor, batch: Tensor | None) -> Tensor:
        if self.gate is not None:
            score = self.gate(h)
            h = h * (score.softmax(dim=-2) if batch is None else softmax(score, batch))
        pool = {"mean": global_mean_pool, "max": global_max_pool, "attention": global_add_pool}[self.pooling]
        pooled: Tensor = pool(h, batch)
        return pooled


@dataclass(frozen=True)
class TrainedMotifClassifier:
    """A trained classifier in evaluation mode, with the graphs that it was trained, validated and tested on."""

    model: MotifClassifier
    graphs: Splits
    test_accuracy: float
    seed: int


def train_motif_classifier(
    graphs: Sequence[Data] | None = None, *, pooling: str = "attention", epochs: int = 60, seed: int = 0
) -> TrainedMotifClassifier:
    """Train a classifier on 80 % of `graphs`, by default those of `ba_2motifs()`.

    The model gets the weights of the epoch with the lowest loss on the next 10 % of the graphs. The last 10 % give the
    test accuracy. `seed` determines the split, the initial weights and the order of the batches. The function leaves
    the global random state unchanged.
    """
    with seeded(seed):
        parts = splits(ba_2motifs() if graphs is None else graphs, seed)
        if not parts.test:
            raise InputError(
                f"{sum(map(len, parts))} graphs are too few for training, validation and test; give 20 or more"
            )
        model = MotifClassifier(parts.train[0].num_features, pooling=pooling)
        batches = [
            _make_batch(parts.train[first : first + BATCH_SIZE]) for first in range(0, len(parts.train), BATCH_SIZE)
        ]
        val, test = _make_batch(parts.val), _make_batch(parts.test)

        def losses() -> Iterator[Tensor]:
            for number in torch.randperm(len(batches)).tolist():
                yield _compute_loss(model, batches[number])

        descend(model, losses, lambda: _compute_loss(model, val), epochs=epochs)
        with torch.no_grad():
            correct = _compute_logits(model, test).argmax(dim=-1) == test.y
    return TrainedMotifClassifier(model, parts, correct.double().mean().item(), seed)


def _make_batch(graphs: list[Data]) -> Data:
    return Batch.from_data_list(graphs)


def _compute_logits(model: MotifClassifier, batch: Data) -> Tensor:
    logits: Tensor = model(batch.x, batch.edge_index, batch=batch.batch)
    return logits


def _compute_loss(model: MotifClassifier, batch: Data) -> Tensor:
    return F.cross_entropy(_compute_logits(model, batch), batch.y)
