"""What the model answered where it is explained: a class with its probability, or a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import Explanation

from .scores import class_names_of

_LONGEST = 40  # characters of a name


@dataclass(frozen=True)
class Answer:
    """The explained class and its probability, or the output of a regression, and F, the number that is explained.

    ``names`` are those of the classes, or of the output of a regression.
    ``predicted`` is another class if the explained one is not the one that the model would choose.
    """

    label: int | None
    probability: float | None
    value: float | None
    unit: str  # what F is: "logit", "probability", "log-probability" or "output"
    names: tuple[str, ...] | None = None
    predicted: tuple[int, float] | None = None

    def __str__(self) -> str:
        """Return the answer in words.

        >>> print(Answer(3, 0.931, 2.1, "logit", names=("Theory", "Rules", "Genes", "Neural Networks")))
        Class 3 (Neural Networks), probability 0.93
        >>> print(Answer(0, 0.02, -1.1, "logit", predicted=(1, 0.98)))
        Class 0, probability 0.02 (the model chooses class 1, probability 0.98)
        >>> print(Answer(None, None, 3.14159, "output"))
        The output is 3.14
        >>> print(Answer(None, None, -2.5, "output", names=("Solubility",)))
        Solubility is −2.5
        >>> print(Answer(None, None, -2.5, "output", names=("log-P",)))
        log-P is −2.5
        """
        if self.label is None:
            named = cut_name(self.names[0]) if self.names else "The output"
            return "" if self.value is None else f"{named} is " + f"{self.value:.3g}".replace("-", "−")
        said = self._say(self.label) + ("" if self.probability is None else f", probability {self.probability:.2f}")
        if self.predicted is not None:
            other = self._say(self.predicted[0])
            said += f" (the model chooses {other[0].lower()}{other[1:]}, probability {self.predicted[1]:.2f})"
        return said

    def _say(self, label: int) -> str:
        named = self.names is not None and label < len(self.names)
        return f"Class {label}" + (f" ({cut_name(self.names[label])})" if named and self.names is not None else "")


def answer_of(explanation: Explanation) -> Answer | None:
    """Return what the model answered; None if the explanation does not say, or is about several rows of the output."""
    config = getattr(explanation, "_model_config", None)
    if config is None:
        return None
    mode, kind = str(config.mode.value), str(getattr(config.return_type, "value", "raw"))
    output, target = explanation.get("prediction"), explanation.get("target")
    if isinstance(output, Tensor) and output.dim() < (2 if mode == "multiclass_classification" else 1):
        output = output.unsqueeze(0)  # The output for a single graph may have no row for it.
    target = target.view(1) if isinstance(target, Tensor) and not target.dim() else target
    row = _row_of(explanation, output if isinstance(output, Tensor) else target)
    if row is None:
        return None
    numbers = output[row].detach().cpu().double().reshape(-1) if isinstance(output, Tensor) else None
    if mode == "regression":
        if numbers is None:
            return None
        return Answer(None, None, float(numbers.sum()), "output", class_names_of(explanation))
    label = int(target[row]) if isinstance(target, Tensor) and target[row].numel() == 1 else None
    label = None if label is not None and label < 0 else label  # A stored explanation may not know it.
    names = class_names_of(explanation)
    unit = {"raw": "logit", "probs": "probability", "log_probs": "log-probability"}[kind]
    if numbers is None:
        return None if label is None else Answer(label, None, None, unit, names)
    shares = _probabilities(numbers, mode, kind)
    chosen = int(shares.argmax())
    label = chosen if label is None else label
    if mode == "binary_classification":
        value = float(numbers.sum())
        value = value if label else 1 - value if kind == "probs" else -value
    else:
        value = float(numbers[label])
    other = None if chosen == label else (chosen, float(shares[chosen]))
    return Answer(label, float(shares[label]), value, unit, names, other)


def _probabilities(numbers: Tensor, mode: str, kind: str) -> Tensor:
    """Return the probability of each class from a row of the output."""
    if mode == "binary_classification":
        one = numbers.sum() if kind == "probs" else numbers.sum().sigmoid()
        return torch.stack([1 - one, one])
    return numbers if kind == "probs" else numbers.softmax(dim=0)


def _row_of(explanation: Explanation, output: Any) -> int | None:
    """Return the explained row of the output; None if there are several."""
    if not isinstance(output, Tensor) or not output.dim() or not len(output):
        return None
    index = explanation.get("index")
    if index is None:
        return 0 if len(output) == 1 else None
    rows = torch.as_tensor(index).reshape(-1)
    if rows.dtype == torch.bool:
        rows = rows.nonzero().view(-1)
    if len(rows) != 1 or not -len(output) <= int(rows) < len(output):
        return None
    return int(rows) % len(output)


def cut_name(name: str) -> str:
    """Return a name as one printable line that is not too long for a sentence.

    >>> cut_name("two\\nlines"), cut_name(" "), len(cut_name("x" * 90))
    ('two lines', '(no name)', 40)
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split()) or "(no name)"
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"
