"""Which papers cite each other: prediction of links, trained on Cora."""

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
    """Two graph convolutions encode the nodes; the logit of a link is the dot product of its ends' codes.

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
        """Return the logits [L] of the pairs `edge_label_index` [2, L], by default of the edges of the graph."""
        code = self.encoder(x, edge_index, edge_weight)
        source, sink = edge_index if edge_label_index is None else edge_label_index
        logits: Tensor = (code[source] * code[sink]).sum(dim=-1)
        return logits


class LinkSplits(NamedTuple):
    """One graph three times, each with the pairs to judge in `edge_label_index` and the answers in `edge_label`.

    `edge_index` has the edges that may be known: those to train on, and in `test` those of `val` too. `train` has
    only pairs that are linked, the others as many pairs that are not.
    """

    train: Data
    val: Data
    test: Data


def split_links(data: Data, seed: int = 0) -> LinkSplits:
    """Part the edges of an undirected graph at random: 85 % to train on, 5 % to choose weights by, 10 % to test.

    The global random state is as before afterwards.
    """
    if data.is_directed():
        raise InputError(
            "the graph is directed; give every edge in both directions (torch_geometric.utils.to_undirected)"
        )
    split = RandomLinkSplit(VAL_SHARE, TEST_SHARE, is_undirected=True, add_negative_train_samples=False)
    with seeded(seed):
        return LinkSplits(*split(data))


@dataclass(frozen=True)
class TrainedLinkPredictor:
    """A trained predictor in evaluation mode, with the links it was trained, chosen and tested on.

    `test_auc` is the area under the ROC curve over the pairs of `links.test`: how often a linked pair gets the higher
    logit of a linked and an unlinked one.
    """

    model: LinkPredictor
    links: LinkSplits
    test_auc: float
    seed: int


def trained_link_predictor(data: Data | None = None, *, epochs: int = 150, seed: int = 0) -> TrainedLinkPredictor:
    """Train a predictor on 85 % of the edges of `data`, by default Cora, and as many new unlinked pairs each epoch.

    Kept are the weights of the epoch with the lowest loss on the links of `val`. `seed` decides the parts, the
    initial weights, the dropout and the unlinked pairs. The global random state is as before afterwards.
    """
    data = planetoid("cora") if data is None else data
    links = split_links(data, seed)
    if not len(links.val.edge_label):
        raise InputError(f"{data.num_edges // 2} links are too few to train, choose and test with: give 20 or more")
    # The features of papers are 99 % zeros: as a sparse tensor their dropout and product take a fraction of the time.
    train, val = (copy.copy(part).update({"x": data.x.to_sparse()}) for part in (links.train, links.val))
    with seeded(seed):
        model = LinkPredictor(data.num_features)

        def losses() -> Iterator[Tensor]:
            linked, unlinked = train.edge_label_index, _unlinked_pairs(train)
            labels = torch.cat([torch.ones(linked.size(1)), torch.zeros(unlinked.size(1))])
            yield F.binary_cross_entropy_with_logits(
                _logits(model, train, torch.cat([linked, unlinked], dim=1)), labels
            )

        def validate() -> Tensor:
            return F.binary_cross_entropy_with_logits(_logits(model, val, val.edge_label_index), val.edge_label)

        descend(model, losses, validate, epochs=epochs)
        with torch.no_grad():
            logits = _logits(model, links.test, links.test.edge_label_index)
    auc = float(roc_auc_score(links.test.edge_label.numpy(), logits.numpy()))
    return TrainedLinkPredictor(model, links, auc, seed)


def _logits(model: LinkPredictor, data: Data, pairs: Tensor) -> Tensor:
    logits: Tensor = model(data.x, data.edge_index, edge_label_index=pairs)
    return logits


def _unlinked_pairs(data: Data) -> Tensor:
    """Draw as many pairs as there are links to train on, less those that happen to be linked or loops."""
    pairs = torch.randint(data.num_nodes, data.edge_label_index.shape)
    linked = torch.isin(pairs[0] * data.num_nodes + pairs[1], data.edge_index[0] * data.num_nodes + data.edge_index[1])
    return pairs[:, ~linked & (pairs[0] != pairs[1])]
