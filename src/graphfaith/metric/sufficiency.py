"""Sufficiency and necessity: the outside may change without effect, and the inside may not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..model.call import Edges
from ..sampling.draw import keys, uniform
from ..sampling.perturbations import Perturbations
from ..sampling.restricted import By, Top, ties_of_edges, ties_of_features
from .attribution import Attribution, Explained, Part, Ranking, Source, read_attribution
from .measured import Measured
from .question import Selected, check_share, default_by, drop, put, summarise
from .response import Responses


class Sufficiency(NamedTuple):
    """Sufficiency and necessity, both from 0 to 1; higher is better.

    >>> from graphfaith.metric import Sufficiency
    >>> Sufficiency._fields
    ('sufficiency', 'necessity')
    """

    sufficiency: Measured
    necessity: Measured


@dataclass(frozen=True)
class SufficiencyQuestion(Selected):
    """How far the answer moves if the outside is perturbed, and if some of the inside is; see :func:`sufficiency`."""

    drop_rate: float = 0.5
    budget: float = 0.1
    num_samples: int = 100
    seed: int = 1

    def __post_init__(self) -> None:
        """Check the probabilities."""
        super().__post_init__()
        check_share(self.drop_rate, "drop_rate")
        check_share(self.budget, "budget")

    def samples(self, attribution: Attribution) -> Perturbations:
        """Return the samples of sufficiency and then those of necessity."""
        ranking = attribution.ranking(self.part, self.by)
        inside = ranking.inside(self.top)
        outside = drop(ranking, self.drop_rate, self.num_samples, self.seed) & ~inside
        return ranking.perturb(torch.cat([outside, self._remove_some(ranking, inside)]))

    def count(self, ranking: Ranking) -> int:
        """Return how many entries necessity removes: the same number for every explanation."""
        return max(1, round(self.budget * len(ranking)))

    def _remove_some(self, ranking: Ranking, inside: Tensor) -> Tensor:
        """Return which entries are removed in each sample, [S, m]: so many of the inside, each as likely."""
        ties = ties_of_edges(ranking.graph) if ranking.part == "edges" else ties_of_features(ranking.graph)
        rows = keys(self.seed, "budget", np.arange(self.num_samples))
        drawn = torch.from_numpy(uniform(rows, ties[ranking.places.numpy()]))
        drawn[:, ~inside] = 2.0  # after every entry of the inside
        most = min(self.count(ranking), int(inside.sum()))
        gone = torch.zeros(drawn.shape, dtype=torch.bool)
        return gone.scatter_(1, drawn.argsort(dim=1, stable=True)[:, :most], True)

    def read(self, attribution: Attribution, answers: Responses) -> list[Measured]:  # noqa: ARG002
        """Return exp(-E d) of the outside and 1 - exp(-E d) of the inside."""
        far, count = answers.distances(), self.num_samples
        # Its law has no letter of A or X: without the part, numbers of features would take the place of those of edges.
        fixed = f"{self.budget:g} of all {self.part} removed {self.law(1, 'inside')[7:]}"
        moved = self.law(self.drop_rate, "outside"), fixed
        suf = summarise("sufficiency", far[:count], "higher", moved[0], drawn=True, seed=self.seed)
        nec = summarise("necessity", far[count:], "higher", moved[1], drawn=True, seed=self.seed)
        kept, gone = math.exp(-suf.value), math.exp(-nec.value)
        return [
            Measured("sufficiency", kept, kept * suf.stderr, "higher", count, moved[0], self.seed),
            Measured("necessity", 1 - gone, gone * nec.stderr, "higher", count, moved[1], self.seed),
        ]


def sufficiency(
    source: Source,
    explanation: Explained,
    *,
    top: Top = 0.2,
    by: By | None = None,
    part: Part = "edges",
    drop_rate: float = 0.5,
    budget: float = 0.1,
    num_samples: int = 200,
    seed: int = 1,
    edges: Edges | None = None,
) -> Sufficiency:
    r"""Measure sufficiency and necessity of an explanation R with complement C (after arXiv 2406.15156).

    .. math:: \mathrm{Suf} = \exp(-E_{C'}\, d(P(\cdot \mid R \cup C), P(\cdot \mid R \cup C'))), \qquad
              \mathrm{Nec} = 1 - \exp(-E_{R'}\, d(P(\cdot \mid R \cup C), P(\cdot \mid R' \cup C)))

    The form is this one: d is the total variation of the class probabilities, and the difference of outputs for
    regression; C' drops each edge outside with probability ``drop_rate`` (as robust fidelity- does, of which
    sufficiency is then a monotone function in another distance); R' lacks a fixed number of edges, ``budget`` times the
    edges that F depends on, drawn from the inside, so that an explanation gains nothing by holding edges that do not
    matter. The error is that of the linearised exponential. The other arguments are those of
    :func:`~graphfaith.metric.fidelity.fidelity`, but for ``by``: a distance has no side, so that the largest magnitudes
    are inside if nothing is said.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explainer = gf.explainer_for(model, ring, method="saliency")
    >>> explanation = explainer(ring.x, ring.edge_index, index=1)
    >>> found = sufficiency(explainer, explanation, num_samples=20)
    >>> 0 <= found.sufficiency.value <= 1
    True
    """
    target, scores = read_attribution(source, explanation, edges)
    by = default_by(target.task.mode, by, sided=False)
    question = SufficiencyQuestion(part, top, by, "probability", drop_rate, budget, num_samples, seed)
    return Sufficiency(*put(question, target, scores))
