"""The meaning of a model's output, and F, the explained number, as a function of that output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._base.checks import is_whole
from .._base.errors import InputError, UnsupportedError, show

RETURN_TYPES = {
    "multiclass_classification": ("raw", "probs", "log_probs"),
    "binary_classification": ("raw", "probs"),
    "regression": ("raw",),
}
LEVELS = ("node", "edge", "graph")

Index = int | Sequence[int] | np.ndarray | Tensor | None


@dataclass(frozen=True)
class Task:
    """A model's task in PyG's terms: the meaning of a row of its output (level) and of the numbers in it.

    >>> task = Task("multiclass_classification", "log_probs", "graph")
    >>> out = torch.tensor([[-0.1, -2.3], [-0.7, -0.69]])     # two graphs, two classes
    >>> labels = task.labels(out, None)
    >>> labels.tolist(), round(float(task.value(out, labels)), 2)
    ([0, 1], -0.79)
    """

    mode: str = "multiclass_classification"
    return_type: str = "raw"
    level: str = "node"

    def __post_init__(self) -> None:
        """Check that mode, return type and level are known and go together."""
        if self.mode not in RETURN_TYPES:
            raise InputError(f"mode must be one of {', '.join(RETURN_TYPES)} (got {self.mode!r})")
        if self.return_type not in RETURN_TYPES[self.mode]:
            known = ", ".join(RETURN_TYPES[self.mode])
            raise InputError(f"return_type of a {self.mode} model must be one of {known} (got {self.return_type!r})")
        if self.level not in LEVELS:
            raise InputError(f"level must be one of {', '.join(LEVELS)} (got {self.level!r})")

    @property
    def model_config(self) -> dict[str, str]:
        """The task in the words of PyG's ``Explainer``."""
        return {"mode": self.mode, "task_level": self.level, "return_type": self.return_type}

    def rows(self, index: Index, count: int) -> Tensor:
        """Return the rows that PyG's ``index`` selects in an output of ``count`` rows, [r]; None selects all."""
        if index is None:
            return torch.arange(count)
        if type(index) is int and 0 <= index < count:
            return torch.tensor([index])
        if isinstance(index, np.ndarray):
            index = torch.from_numpy(index)
        if isinstance(index, Tensor) and index.dtype == torch.bool:
            if index.shape != (count,):
                raise InputError(f"a mask for index must have {count} entries (got shape {list(index.shape)})")
            index = index.nonzero().view(-1)
        named = index.reshape(-1).tolist() if isinstance(index, Tensor) and index.dim() < 2 else index
        if isinstance(named, list) and len(named) == 1 and type(named[0]) is int and 0 <= named[0] < count:
            return torch.tensor(named)
        if is_whole(named):
            named = [named]
        if not isinstance(named, Sequence) or isinstance(named, str) or not all(map(is_whole, named)):
            raise InputError(f"index must be None, a whole number, or a list or tensor of them (got {show(index)})")
        if not len(named):
            raise InputError("index is empty: select at least one row of the model's output")
        for row in named:
            if not 0 <= int(row) < count:
                where = f"{self.level} {show(row)}"
                holder = "the graph" if self.level == "node" else "the model's output"
                raise InputError(f"{where} is out of range: {holder} has {self.level}s 0 to {count - 1}")
        return torch.tensor([int(row) for row in named])

    def labels(self, out: Tensor, label: int | Tensor | None) -> Tensor | None:
        """Return the class of each row of ``out`` [r, ...]: ``label``, or the predicted class if that is None."""
        if self.mode == "regression":
            return None
        if isinstance(label, Tensor) and label.dtype == torch.int64 and label.shape == out.shape[:-1] == (1,):
            classes = out.size(-1) if self.mode == "multiclass_classification" else 0
            if 0 <= int(label) < classes:  # This is the usual case; the general code below takes ten times as long.
                return label
        if self.mode == "binary_classification":
            if out.numel() != len(out):
                raise UnsupportedError(f"a {self.mode} model must return one number a row (got {list(out.shape)})")
            shape, classes = out.shape[:1], 2
            predicted = out.reshape(-1) > (0.5 if self.return_type == "probs" else 0.0)
        else:
            if out.dim() < 2:
                raise UnsupportedError(f"a classifier must return [{self.level}s, classes] (got {list(out.shape)})")
            shape, classes = out.shape[:-1], out.size(-1)
            predicted = out.argmax(dim=-1)
        if label is None:
            return predicted.long()
        given = torch.as_tensor(label)
        given = given.long() if given.dtype == torch.bool else given
        if given.numel() == predicted.numel():
            given = given.reshape(shape)
        elif given.dim():
            raise InputError(f"the classes must have shape {list(shape)}, one for each row (got {list(given.shape)})")
        wrong = given[(given < 0) | (given >= classes) | (given != given.round())]
        if wrong.numel():
            raise InputError(f"class {wrong.reshape(-1)[0]:g} is out of range: there are classes 0 to {classes - 1}")
        return given.long().expand(shape)

    def value(self, out: Tensor, labels: Tensor | None) -> Tensor:
        r"""Return F, given the explained rows of the output: :math:`\sum_r \{f(X, A)_r\}_{y_r}`.

        For regression, F is the sum of the rows. A binary model returns a number for class 1; the number for class 0
        is 1 minus it if it is a probability, and the negative of it if it is a logit.
        """
        if labels is None:
            return out.sum()
        if self.mode == "multiclass_classification":
            return out.gather(-1, labels.unsqueeze(-1)).sum()
        sign = 2 * labels - 1
        total = (out.reshape(-1) * sign).sum()
        return total + (labels == 0).sum() if self.return_type == "probs" else total

    def value_of_each(self, outs: Tensor, labels: Tensor | None) -> Tensor:
        """Return :meth:`value` of each of S outputs ``outs`` [S, r, ...], as a tensor [S]."""
        if labels is None or self.mode != "multiclass_classification":
            return torch.stack([self.value(out, labels) for out in outs])
        if labels.shape == (1,) and outs.dim() == 3:  # This is the usual case; the general one takes five operations.
            return outs[:, 0, int(labels)]
        labels = labels.expand(len(outs), *labels.shape)
        return outs.gather(-1, labels.unsqueeze(-1)).flatten(1).sum(dim=1)

    def values(self, out: Tensor, labels: Tensor | None) -> Tensor:
        """Return :meth:`value` of each row by itself, [r]."""
        if labels is None:
            return out.reshape(len(out), -1).sum(dim=1)
        if self.mode == "multiclass_classification":
            return out.gather(-1, labels.unsqueeze(-1)).reshape(len(out), -1).sum(dim=1)
        values = out.reshape(-1) * (2 * labels - 1)
        return values + (labels == 0) if self.return_type == "probs" else values
