"""What a model answers on the graph and on many perturbed ones: the changes that figures of merit are means of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from .._base.errors import InputError, UnsupportedError
from .._base.threads import one_thread
from ..model.target import Target
from ..model.task import Task
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations

Level = Literal["probability", "label", "value"]


def check_level(level: str) -> Level:
    """Return ``level`` if it names a number of the model's answer."""
    if level not in get_args(Level):
        raise InputError(f"level must be one of {', '.join(get_args(Level))} (got {level!r})")
    return level  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Responses:
    """The explained rows of the output on the graph itself, [r, ...], and on S perturbed graphs, [S, r, ...].

    >>> own, rows = torch.tensor([[2.0, 0.0]]), torch.tensor([[[0.0, 2.0]], [[2.0, 0.0]]])
    >>> answers = Responses(Task(), torch.tensor([0]), own, rows)
    >>> answers.changes("label").tolist(), [round(float(c), 3) for c in answers.changes("probability")]
    ([[1.0], [0.0]], [0.762, 0.0])
    """

    task: Task
    labels: Tensor | None
    own: Tensor
    rows: Tensor

    def __len__(self) -> int:
        """Return the number of perturbed graphs."""
        return len(self.rows)

    def __getitem__(self, samples: slice) -> Responses:
        """Return the answers to some of the samples."""
        return Responses(self.task, self.labels, self.own, self.rows[samples])

    @cached_property
    def probabilities(self) -> tuple[Tensor, Tensor]:
        """The probability of each class on the graph, [r, ..., C], and on the samples, [S, r, ..., C]."""
        return self._probabilities(self.own), self._probabilities(self.rows)

    def _probabilities(self, rows: Tensor) -> Tensor:
        mode, kind = self.task.mode, self.task.return_type
        if mode == "binary_classification":
            one = (rows if kind == "probs" else rows.sigmoid()).reshape(*self._lead(rows), -1)[..., :1]
            return torch.cat([1 - one, one], dim=-1)
        return rows.softmax(dim=-1) if kind == "raw" else rows.exp() if kind == "log_probs" else rows

    def _lead(self, rows: Tensor) -> tuple[int, ...]:
        """Return the dimensions of samples and of rows."""
        return tuple(rows.shape[: 1 + (rows is not self.own)])

    @property
    def is_regression(self) -> bool:
        """Whether the output is a number rather than a choice of a class."""
        return self.task.mode == "regression"

    def changes(self, level: Level) -> Tensor:
        r"""Return how much of the model's answer a perturbation takes away, for each sample and row, [S, r].

        "probability": :math:`P(y \mid X, A) - P(y \mid X', A')` of the explained class y. "label":
        :math:`|1(\hat y = y) - 1(\hat y' = y)|`, which is 1 if the explained class is not predicted any more. "value":
        F(X, A) - F(X', A'), in the unit of the output. For regression it is always :math:`|F(X, A) - F(X', A')|`: an
        output has no side that is the confident one.
        """
        check_level(level)
        if self.is_regression:
            flat, own = self.rows.flatten(2) if self.rows.dim() > 2 else self.rows.unsqueeze(2), self.own
            return (own.reshape(1, len(own), -1) - flat).abs().sum(dim=2)
        assert self.labels is not None
        own, rows = self.probabilities
        if level == "label":
            # Of equal probabilities PyG takes the first class of a multi-class model, and class 0 of a binary one.
            was, now = own.argmax(dim=-1) == self.labels, rows.argmax(dim=-1) == self.labels
            return self._by_row((was.double() - now.double()).abs())
        if level == "value":
            return self._by_row(self._explained(self.own) - self._explained(self.rows))
        labels = self.labels.reshape(own.shape[:-1]).unsqueeze(-1)
        lost = own.gather(-1, labels) - rows.gather(-1, labels.expand(*rows.shape[:-1], 1))
        return self._by_row(lost.squeeze(-1))

    def _explained(self, rows: Tensor) -> Tensor:
        """Return the output for the explained class."""
        assert self.labels is not None
        if self.task.mode == "binary_classification":
            one = rows.reshape(*self._lead(rows), -1)[..., 0]
            sign = 2 * self.labels - 1
            return one * sign + (self.labels == 0) * (self.task.return_type == "probs")
        labels = self.labels.unsqueeze(-1)
        return rows.gather(-1, labels.expand(*rows.shape[:-1], 1)).squeeze(-1)

    def _by_row(self, numbers: Tensor) -> Tensor:
        """Return the mean over what a row has beside its classes, [S, r]."""
        return numbers.reshape(*numbers.shape[:2], -1).mean(dim=2)

    def distances(self) -> Tensor:
        r"""Return how far the answers are from that on the graph, [S, r]: :math:`\frac12 \sum_c |P(c) - P'(c)|`.

        It is the total variation of the probabilities; for regression the difference of the outputs.
        """
        if self.is_regression:
            return self.changes("value")
        own, rows = self.probabilities
        return self._by_row((own - rows).abs().sum(dim=-1) / 2)

    def divergences(self) -> Tensor:
        r"""Return the divergence of PyG's ``unfaithfulness``, :math:`\sum_c P'(c) \log (P'(c) / P(c))`, [S, r]."""
        if self.is_regression:
            raise UnsupportedError("the divergence of a regression model's outputs is not defined: they are no classes")
        own, rows = self.probabilities
        return self._by_row(torch.nn.functional.kl_div(own.log().expand_as(rows), rows, reduction="none").sum(dim=-1))


def ask(target: Target, perturbations: Perturbations) -> Responses:
    """Return the model's answers to samples, evaluated in as few calls as memory allows."""
    graph = target.computation_graph
    width = target.unit_width(drops=True)
    law = Neighborhood()
    law.perturbs_features = perturbations.features is not None
    size = law.sample_bytes(graph, width)
    room = target.room(16 * len(perturbations), size, f"judging on {len(perturbations)} samples")
    step, rows = max(1, room // size), []
    own = None
    with one_thread(target.call.is_small):
        for start in range(0, len(perturbations), step):
            out = target.outputs(perturbations[start : start + step])
            # Each call has its own rounding, which the difference to the graph itself in the same call does not have.
            own = out[0] if own is None else own
            rows.append(out[1:] - (out[0] - own))
    if own is None:
        own = target.own_rows.double()
        rows = [own.new_zeros(0, *own.shape)]
    return Responses(target.task, target.labels, own, torch.cat(rows))


def join(parts: Sequence[Perturbations]) -> Perturbations:
    """Return all samples of several sets; what one of them moves, all of them do."""
    first = parts[0]
    features = None if first.features is None else torch.cat([one.features for one in parts])  # type: ignore[misc]
    edges = None if first.edges is None else torch.cat([one.edges for one in parts])  # type: ignore[misc]
    return Perturbations(first.graph, features, edges)
