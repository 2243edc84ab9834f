"""What an entrant is given: a model on a graph, the predictions to explain, and how F is taken."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..explainers.base import Samples
from ..facade.subject import Subject
from ..metric.stability import add_noise
from ..model.target import Target
from ..sampling.neighborhood import Neighborhood


@dataclass(frozen=True, eq=False)
class Scene:
    """A model on a graph, and the rows of its output that are explained.

    ``near`` is where methods that are fitted are fitted, with ``samples`` samples. Entrants of others work on a copy of
    the model, because some leave marks on it: Captum fails on a model that PyG's mask learners were used on.
    """

    subject: Subject
    nodes: tuple[int, ...]
    near: Neighborhood
    samples: Samples = 200
    # What was trained once for this training of the model; the scenes with noise have the same.
    trained: dict[Any, Any] = field(default_factory=dict, repr=False)
    _targets: dict[int, Target] = field(default_factory=dict, repr=False)

    def target(self, index: int) -> Target:
        """Return F at a row; that of the last row is kept."""
        if index not in self._targets:
            self._targets.clear()
            self._targets[index] = self.subject.target(index)
        return self._targets[index]

    def at(self, near: Neighborhood) -> Scene:
        """Return the same scene for another neighbourhood."""
        return replace(self, near=near)

    def copy_model(self) -> torch.nn.Module:
        """Return a copy of the model, in evaluation mode."""
        return copy.deepcopy(self.subject.model).eval()

    def with_noise(self, size: float, number: int, seed: int) -> Scene:
        """Return the scene with noise on the features; see :func:`~graphfaith.metric.stability.add_noise`."""
        data = copy.copy(self.subject.data)
        data.x = add_noise(data.x, size, number, seed)
        # A copy of the model keeps what is known of it beside this graph apart from what is known beside the other.
        subject = replace(self.subject, model=self.copy_model(), data=data, labels=self._labels())
        return replace(self, subject=subject, _targets={})

    def _labels(self) -> Tensor | None:
        """Return the classes that are explained, so that noise does not change them; None for regression."""
        if self.subject.task.mode == "regression" or self.subject.labels is not None:
            return self.subject.labels
        output = self.output()
        return self.subject.task.labels(output, None)

    def output(self) -> Tensor:
        """Return the model's output on the whole graph."""
        model, data = self.copy_model(), self.subject.data
        with torch.no_grad():
            out: Tensor = model(data.x, data.edge_index, **self.arguments())
        wanted = 2 if self.subject.task.mode == "multiclass_classification" else 1
        return out.unsqueeze(0) if out.dim() < wanted else out

    def arguments(self) -> dict[str, Any]:
        """Return what the model is called with beside x and edge_index."""
        return dict(self.subject.arguments)
