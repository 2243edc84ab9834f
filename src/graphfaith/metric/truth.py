"""Agreement with a truth that is known: which entries matter, or how much each contributes and with which sign."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._base.checks import check_count
from .._base.errors import InputError
from .attribution import Attribution, judged_places
from .measured import Measured
from .stability import rank, rank_correlation


@dataclass(frozen=True, eq=False)
class Truth:
    """What is known of an explained row: numbers of edges, [E], or of nodes, [N], of the whole graph.

    Truth values or zeros and ones say what matters. Other numbers are contributions with a sign.

    >>> from graphfaith.metric import Truth
    >>> Truth(nodes=torch.tensor([0.3, -0.1])).is_signed, Truth(edges=torch.tensor([0, 1, 1])).is_signed
    (True, False)
    """

    edges: Tensor | None = None
    nodes: Tensor | None = None

    def __post_init__(self) -> None:
        """There has to be a truth."""
        if (self.edges is None) == (self.nodes is None):
            raise InputError("a truth is of edges, or of nodes: give one of the two")

    @property
    def numbers(self) -> Tensor:
        """The numbers, in double precision."""
        given = self.edges if self.edges is not None else self.nodes
        assert given is not None
        return torch.as_tensor(given).detach().cpu().double()  # Scores are on the processor too.

    @property
    def is_signed(self) -> bool:
        """Whether the numbers are contributions rather than truth values."""
        return not bool(((self.numbers == 0) | (self.numbers == 1)).all())

    def beside(self, attribution: Attribution) -> tuple[Tensor, Tensor]:
        """Return the scores of what is judged, and the truth of the same entries."""
        graph = attribution.graph
        self.check(*graph.size)
        if self.edges is not None:
            places = judged_places(graph, "edges")
            scores = torch.zeros(len(places)).double() if attribution.edges is None else attribution.edges[places]
            return scores, self.numbers[graph.edge_id[places]]
        seen = torch.arange(graph.num_visible)
        return attribution.node_scores[seen], self.numbers[graph.nodes[seen]]

    def check(self, num_nodes: int, num_edges: int) -> None:
        """Raise an :class:`InputError` unless there is a finite number for each node, or each edge, of the graph."""
        wanted = num_edges if self.edges is not None else num_nodes
        if self.numbers.shape != (wanted,):
            what = "edges" if self.edges is not None else "nodes"
            raise InputError(f"a truth of {what} must have [{wanted}] numbers (got {list(self.numbers.shape)})")
        if not bool(torch.isfinite(self.numbers).all()):
            raise InputError("the truth has numbers that are not finite")


class Agreement(NamedTuple):
    """Rank correlation with a signed truth, and the share of entries with the right sign.

    >>> from graphfaith.metric import Agreement
    >>> Agreement._fields
    ('ranks', 'signs')
    """

    ranks: Measured
    signs: Measured


def roc_auc(scores: Tensor, truth: Tensor) -> Measured:
    r"""Return the probability that an entry that matters has a larger score than one that does not.

    .. math:: P(\phi_i > \phi_j) + \tfrac12 P(\phi_i = \phi_j), \quad i \text{ true}, j \text{ not}

    It is NaN if all entries are of one kind.

    >>> roc_auc(torch.tensor([0.1, 0.4, 0.4, 0.9]), torch.tensor([0, 1, 0, 1])).value
    0.875
    """
    right = _check_pair(scores, truth) != 0
    good, bad = int(right.sum()), int((~right).sum())
    if not good or not bad:
        return Measured("roc-auc", math.nan, math.nan)
    ranks = rank(scores)
    return Measured("roc-auc", (float(ranks[right.numpy()].sum()) - good * (good + 1) / 2) / (good * bad))


def precision_at_k(scores: Tensor, truth: Tensor, k: int | None = None) -> Measured:
    r"""Return the share of the k largest scores that belong to what matters; k is the number of these if None.

    Of scores that are equal at the k-th place, each counts with the probability that it is chosen.

    >>> precision_at_k(torch.tensor([0.1, 0.4, 0.4, 0.9]), torch.tensor([0, 1, 0, 1])).value
    0.75
    """
    right = (_check_pair(scores, truth) != 0).double()
    k = int(right.sum()) if k is None else check_count(k, "k")
    k = min(k, len(scores))
    if not k or not bool(right.any()):
        return Measured("precision-at-k", math.nan, math.nan)
    least = float(scores.double().topk(k).values[-1])
    above, equal = scores > least, scores == least
    room = k - int(above.sum())
    hits = float(right[above].sum()) + room * float(right[equal].mean())
    return Measured("precision-at-k", hits / k)


def signed_agreement(scores: Tensor, truth: Tensor) -> Agreement:
    r"""Compare scores with contributions that have a sign: Spearman's rank correlation, and the share of right signs.

    The share is over the entries whose contribution is not 0; a score of 0 has no sign, and is half right. The signs
    of scores that have none, such as masks, say nothing.

    >>> ranks, signs = signed_agreement(torch.tensor([2.0, -1.0, 0.0]), torch.tensor([5.0, -1.0, -2.0]))
    >>> round(ranks.value, 2), round(signs.value, 2)
    (0.5, 0.83)
    """
    numbers = _check_pair(scores, truth)
    ranks = rank_correlation(scores.double(), numbers)
    known = numbers != 0
    agree = (torch.sign(scores.double()) * torch.sign(numbers))[known]
    signs = float((agree + 1).mean()) / 2 if bool(known.any()) else math.nan
    return Agreement(Measured("rank-agreement", ranks, _exact(ranks)), Measured("sign-agreement", signs, _exact(signs)))


def judge_by_truth(attribution: Attribution, truth: Truth) -> list[Measured]:
    """Return every figure of merit that a truth allows."""
    scores, numbers = truth.beside(attribution)
    if truth.is_signed:
        return list(signed_agreement(scores, numbers))
    return [roc_auc(scores, numbers), precision_at_k(scores, numbers)]


def _exact(value: float) -> float:
    return math.nan if math.isnan(value) else 0.0


def _check_pair(scores: Tensor, truth: Tensor) -> Tensor:
    numbers = torch.as_tensor(truth).double()
    if scores.dim() != 1 or scores.shape != numbers.shape:
        raise InputError(
            f"scores {list(scores.shape)} and truth {list(numbers.shape)} must be two vectors of one length"
        )
    if not np.isfinite(numbers.numpy()).all():
        raise InputError("the truth has numbers that are not finite")
    return numbers
