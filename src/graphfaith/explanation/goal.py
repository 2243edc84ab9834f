"""What counts as another answer: another class, or a regression past a value."""

from __future__ import annotations

import torch
from torch import Tensor

from .._base.errors import InputError, UnsupportedError
from ..model.target import Target


class Goal:
    """Which outputs are another answer, and how far others are from that."""

    def __init__(self, target: Target, past: float | None) -> None:
        self.task, own = target.task, target.own_rows.double()
        mode = self.task.mode
        if len(own) != 1 or (mode == "multiclass_classification" and own.dim() != 2):
            raise UnsupportedError(
                f"a counterfactual is about one row of the output, and {target.name} with an output of shape "
                f"{list(own.shape)} {'are' if len(own) > 1 else 'is'} explained: explain a single {self.task.level}"
            )
        self.before: int | float
        self.own = self.read(own.unsqueeze(0))[0]
        if mode == "regression":
            self.before = float(self.own)
            if past is None:
                raise InputError(f"say which value the output, now {self.before:.6g}, has to pass: past=")
            if past == self.before:
                raise InputError(f"past is the present output, {self.before:.6g}: say a value above or below it")
            self.past, self.sign = past, 1.0 if past > self.before else -1.0
            return
        if past is not None:
            raise InputError("past is for a regression; the answer of a classifier changes with its class")
        self.before = self.answer(self.own)
        if mode == "binary_classification":
            self.past = 0.5 if self.task.return_type == "probs" else 0.0
            self.sign = -1.0 if self.before else 1.0

    def read(self, rows: Tensor) -> Tensor:
        """Return the numbers that the answer depends on, [S, C], from the explained row of S outputs, [S, 1, ...]."""
        if self.task.mode == "multiclass_classification":
            return rows[:, 0]
        return rows.flatten(1).sum(dim=1, keepdim=True)

    def answer(self, numbers: Tensor) -> int | float:
        """Return the class, or the output of a regression, of the numbers [C] of one output."""
        if self.task.mode == "regression":
            return float(numbers)
        row = numbers.unsqueeze(0)
        labels = self.task.labels(row, None)
        assert labels is not None
        return int(labels)

    def margins(self, numbers: Tensor) -> Tensor:
        """Return how far the numbers [S, C] are from each other answer, [S, C]; what is below 0 is one."""
        if self.task.mode != "multiclass_classification":
            return (self.past - numbers) * self.sign
        margins = numbers[..., self.before : self.before + 1] - numbers
        margins[..., self.before] = torch.inf  # type: ignore[index]
        return margins

    def reached(self, numbers: Tensor) -> Tensor:
        """Return whether the numbers [S, C] are another answer, [S]."""
        if self.task.mode == "regression":
            return (self.margins(numbers) < 0).view(-1)
        labels = self.task.labels(numbers, None)
        assert labels is not None
        return labels != self.before

    def column(self, target: Target) -> tuple[int, float]:
        """Return which of the numbers F is, and the sign with which."""
        if self.task.mode == "multiclass_classification":
            assert target.label is not None
            return target.label, 1.0
        return 0, -1.0 if self.task.mode == "binary_classification" and target.label == 0 else 1.0
