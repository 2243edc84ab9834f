"""Insertion and deletion: fidelity as a function of how much is inside, and the area under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .._base.checks import check_count
from ..model.call import Edges
from ..sampling.perturbations import Perturbations
from ..sampling.restricted import By
from .attribution import Attribution, Explained, Part, Source, read_attribution
from .measured import Measured
from .question import Selected, default_by, summarise
from .response import Level, Responses, ask


class Curves(NamedTuple):
    """What is lost at each share of the entries, and the areas: of deletion (higher is better), of insertion (lower).

    ``shares`` are [steps + 1] numbers from 0 to 1. At share s, ``deleted`` is what the model loses without the first
    s of the entries, and ``inserted`` what it loses with nothing but these.

    >>> from graphfaith.metric import Curves
    >>> Curves._fields
    ('shares', 'deleted', 'inserted', 'deletion', 'insertion')
    """

    shares: Tensor
    deleted: Tensor
    inserted: Tensor
    deletion: Measured
    insertion: Measured


@dataclass(frozen=True)
class CurvesQuestion(Selected):
    """What is lost as the entries are removed one after the other, and as they are added; see :func:`curves`."""

    steps: int = 20

    def __post_init__(self) -> None:
        """Check the number of steps."""
        super().__post_init__()
        check_count(self.steps, "steps")

    @property
    def shares(self) -> Tensor:
        """The shares at which the curves are taken."""
        return torch.linspace(0, 1, self.steps + 1, dtype=torch.float64)

    def samples(self, attribution: Attribution) -> Perturbations:
        """Return the graphs of deletion and then those of insertion."""
        ranking = attribution.ranking(self.part, self.by)
        first = ranking.first((self.shares * len(ranking)).round().long())
        return ranking.perturb(torch.cat([first, ~first]))

    def curves(self, answers: Responses) -> tuple[Tensor, Tensor]:
        """Return what is lost at each share, of deletion and of insertion, [steps + 1, r] each."""
        lost = answers.changes(self.level)
        return lost[: self.steps + 1], lost[self.steps + 1 :]

    def read(self, attribution: Attribution, answers: Responses) -> list[Measured]:  # noqa: ARG002
        """Return the areas, by the trapezoidal rule."""
        areas = [torch.trapezoid(curve, self.shares, dim=0).unsqueeze(0) for curve in self.curves(answers)]
        letter = "A" if self.part == "edges" else "X"
        return [
            summarise("deletion", areas[0], "higher", f"B({letter},1) inside each share", drawn=False),
            summarise("insertion", areas[1], "lower", f"B({letter},1) outside each share", drawn=False),
        ]


def curves(
    source: Source,
    explanation: Explained,
    *,
    steps: int = 20,
    by: By | None = None,
    part: Part = "edges",
    level: Level = "probability",
    edges: Edges | None = None,
) -> Curves:
    r"""Remove the entries of an explanation in the order of their scores, and add them in that order.

    .. math:: \mathrm{deletion} = \int_0^1 d(F(G), F(G \setminus G_s))\, ds, \qquad
              \mathrm{insertion} = \int_0^1 d(F(G), F(G_s))\, ds,

    where :math:`G_s` has the share s of the entries with the largest scores. So each point of the curves is a
    :func:`~graphfaith.metric.fidelity.fidelity`, whose arguments these are.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explainer = gf.explainer_for(model, ring, method="saliency")
    >>> explanation = explainer(ring.x, ring.edge_index, index=1)
    >>> found = curves(explainer, explanation)
    >>> found.deletion.measure, found.insertion.measure
    ('deletion', 'insertion')
    """
    target, scores = read_attribution(source, explanation, edges)
    question = CurvesQuestion(part, None, default_by(target.task.mode, by), level, steps)
    answers = ask(target, question.samples(scores))
    deleted, inserted = question.curves(answers)
    deletion, insertion = question.read(scores, answers)
    return Curves(question.shares, deleted.mean(dim=1), inserted.mean(dim=1), deletion, insertion)
