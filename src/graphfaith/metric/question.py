"""A figure of merit as a question to the model: samples made from an explanation, and what is read from the answers.

Whoever judges many explanations by many figures of merit puts all the samples together and asks once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from .._base.checks import check_count, check_seed
from .._base.errors import InputError
from ..model.target import Target
from ..sampling.edges import BernoulliEdges
from ..sampling.features import BernoulliFeatures
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations
from ..sampling.restricted import By, Side, Top, check_by, check_top
from .attribution import Attribution, Part, Ranking
from .measured import Better, Measured, mean_and_error
from .response import Level, Responses, ask, check_level


class Question(Protocol):
    """A figure of merit, or several that share their samples."""

    @property
    def part(self) -> Part:
        """What the samples perturb."""

    def samples(self, attribution: Attribution) -> Perturbations:
        """Return the samples that the model is asked about."""

    def read(self, attribution: Attribution, answers: Responses) -> list[Measured]:
        """Return the figures of merit, given the answers to the samples."""


def put(question: Question, target: Target, attribution: Attribution) -> list[Measured]:
    """Ask the model one question about one explanation."""
    return question.read(attribution, ask(target, question.samples(attribution)))


def default_by(task_mode: str, by: By | None, *, sided: bool = True) -> By:
    """Return ``by``, or how scores are ordered if nothing is said: by score where a loss has a side, else by magnitude.

    The loss of a class's probability has a side: an edge with a negative score speaks against the class, and to remove
    it raises the probability. A regression's output has none, nor has a distance of probabilities (not ``sided``):
    there an edge that moves the answer down matters as much as one that moves it up.
    """
    if by is not None:
        return check_by(by)
    return "score" if sided and task_mode != "regression" else "magnitude"


@dataclass(frozen=True)
class Selected:
    """What the questions about a part of an explanation have in common.

    Args:
        part: whether edges or features are removed.
        top: how many are inside: a number, or a share of those that F depends on.
        by: whether the largest scores are inside, or the largest \\|scores\\|; see :func:`default_by`.
        level: what is read of the answer; see :meth:`Responses.changes`.
    """

    part: Part = "edges"
    top: Top = 0.2
    by: By = "score"
    level: Level = "probability"

    def __post_init__(self) -> None:
        """Check the options."""
        if self.part not in ("edges", "features"):
            raise InputError(f'part must be "edges" or "features" (got {self.part!r})')
        check_top(self.top)
        check_by(self.by)
        check_level(self.level)

    def law(self, share: float, side: Side) -> str:
        """Return the law in the words of restricted neighbourhoods."""
        of = "all" if self.top is None else f"the top {self.top:g}"
        of = f"{of} by magnitude" if self.by == "magnitude" else of
        return f"B({'A' if self.part == 'edges' else 'X'},{share:g}) {side} {of}"


def dropping(part: Part, share: float) -> Neighborhood:
    """Return the neighbourhood that drops every entry of a kind with a probability."""
    return BernoulliEdges(share) if part == "edges" else BernoulliFeatures(share)


def drop(ranking: Ranking, share: float, num_samples: int, seed: int) -> Tensor:
    """Return which entries B(A, share) or B(X, share) drops in each sample, [S, m]; share 0 drops none."""
    check_count(num_samples, "num_samples")
    check_seed(seed)
    if share == 0:
        return torch.zeros(num_samples, len(ranking), dtype=torch.bool)
    drawn = dropping(ranking.part, share).sample(ranking.graph, num_samples, seed)
    eps = drawn.edges if ranking.part == "edges" else drawn.features
    assert eps is not None
    return eps.flatten(1)[:, ranking.places] != 0


def summarise(
    measure: str, numbers: Tensor, better: Better, neighborhood: str, *, drawn: bool, seed: int | None = None
) -> Measured:
    """Return the mean of numbers [S, r] over samples and rows, with its standard error.

    If samples are ``drawn``, the error is over them; else over rows, which are then a sample of rows: 0 for one row.
    """
    by = numbers.mean(dim=1) if drawn else numbers.mean(dim=0)
    value, error = mean_and_error(by)
    if not drawn and len(by) == 1:
        error = 0.0
    return Measured(measure, value, error, better, len(numbers) if drawn else 0, neighborhood, seed)


def check_share(share: float, name: str) -> float:
    """Return a probability, checked."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.floating) or not 0 <= share <= 1:
        raise InputError(f"{name} must be from 0 to 1 (got {share!r})")
    return float(share)
