"""A predictor of links, trained on the citations between the papers of Cora."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit

from graphfaith._base.errors import InputError
from graphfaith.data import planetoid
from graphfaith.data.models import CitationGCN

from .training import descend, seeded

VAL_SHARE = 0.05
TEST_SHARE = 0.1


class LinkPredictor(nn.Module):
    """A network that returns the logit of a link between two nodes.

    Two graph convolutions encode every node i as z_i. The logit of a link between i and j is the dot product z_i . z_j.

    Example:
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> LinkPredictor(5)(torch.ones(3, 5), edge_index, edge_label_index=torch.tensor([[0], [2]])).shape
        torch.Size([1])
    """

    def __init__(
        self, in_channels: int, hidden_channels: int = 128, out_channels: int = 64, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.encoder = CitationGCN(in_channels, out_channels, hidden_channels, dropout)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_label_index: Tensor | None = None,
    ) -> Tensor:
        """Return the logits [L] of the node pairs `edge_label_index` [2, L], by default of the edges of the graph."""
        code = self.encoder(x, edge_index, edge_weight)
        source, sink = edge_index if edge_label_index is None else edge_label_index
        logits: Tensor = (code[source] * code[sink]).sum(dim=-1)
        return logits


class LinkSplits(NamedTuple):
    """The same graph for training, validation and test, each with its own node pairs to classify.

    `edge_label_index` holds the pairs and `edge_label` whether each pair is linked. `edge_index` holds the edges that
    the model may see: the training edges, and in `test` also the edges of `val`. `train` holds linked pairs only;
    `val` and `test` hold as many unlinked pairs as linked ones.
    """

    train: Data
    val: Data
    test: Data


def split_links(data: Data, seed: int = 0) -> LinkSplits:
    """Split the edges of an undirected graph at random: 85 % for training, 5 % for validation and 10 % for the test.

    The function leaves the global random state unchanged.
    """
    if data.is_directed():
        raise InputError(
            "the graph is directed; give every edge in both directions, as torch_geometric.utils.to_undirected does"
        )
    split = RandomLinkSplit(VAL_SHARE, TEST_SHARE, is_undirected=True, add_negative_train_samples=False)
    with seeded(seed):
        return LinkSplits(*split(data))


@dataclass(frozen=True)
class TrainedLinkPredictor:
    """A trained predictor in evaluation mode, with the links that it was trained, validated and tested on.

    `test_auc` is the area under the ROC curve over the pairs of `links.test`. It is the probability that a random
    linked pair has a higher logit than a random unlinked pair.
    """

    model: LinkPredictor
    links: LinkSplits
    test_auc: float
    seed: int


def train_link_predictor(data: Data | None = None, *, epochs: int = 150, seed: int = 0) -> TrainedLinkPredictor:
    """Train a predictor on 85 % of the edges of `data`, by default Cora.

    Every epoch also draws about as many new unlinked pairs as there are training edges. The model gets the weights of
    the epoch with the lowest loss on the pairs of `val`. `seed` determines the split, the initial weights, the dropout
    and the unlinked pairs. The function leaves the global random state unchanged.
    """
    data = planetoid("cora") if data is None else data
    links = split_links(data, seed)
    if not len(links.val.edge_label):
        raise InputError(f"{data.num_edges // 2} links are too few for training, validation and test; give 20 or more")
    # 99 % of the features of Cora's papers are zero. With a sparse tensor, dropout and product are many times faster.
    train, val = (copy.copy(part).update({"x": data.x.to_sparse()}) for part in (links.train, links.val))
    with seeded(seed):
        model = LinkPredictor(data.num_features)

        def losses() -> Iterator[Tensor]:
            linked, unlinked = train.edge_label_index, _draw_unlinked_pairs(train)
            labels = torch.cat([torch.ones(linked.size(1)), torch.zeros(unlinked.size(1))])
            yield F.binary_cross_entropy_with_logits(
                _compute_logits(model, train, torch.cat([linked, unlinked], dim=1)), labels
            )

        def validate() -> Tensor:
            return F.binary_cross_entropy_with_logits(_compute_logits(model, val, val.edge_label_index), val.edge_label)

        descend(model, losses, validate, epochs=epochs)
        with torch.no_grad():
            logits = _compute_logits(model, links.test, links.test.edge_label_index)
    auc = float(roc_auc_score(links.test.edge_label.numpy(), logits.numpy()))
    return TrainedLinkPredictor(model, links, auc, seed)


def _compute_logits(model: LinkPredictor, data: Data, pairs: Tensor) -> Tensor:
    logits: Tensor = model(data.x, data.edge_index, edge_label_index=pairs)
    return logits


def _draw_unlinked_pairs(data: Data) -> Tensor:
    """Draw as many random pairs as there are training links, and drop the linked pairs and the self-loops."""
    pairs = torch.randint(data.num_nodes, data.edge_label_index.shape)
    linked = torch.isin(pairs[0] * data.num_nodes + pairs[1], data.edge_index[0] * data.num_nodes + data.edge_index[1])
    return pairs[:, ~linked & (pairs[0] != pairs[1])]
