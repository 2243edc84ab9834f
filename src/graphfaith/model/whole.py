"""The model on the whole graph: the reference that a computation graph is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._base.errors import ModelError, describe_error
from ..graph.graph import Graph
from .call import as_rows
from .home import fetch, home_of, run_at_home
from .layers import takes_edge_weight
from .record import Facts, Record, forget_run, noted_output
from .task import Task

_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}


class Whole:
    """A model, the arguments it is called with on ``graph``, and what is known of it there."""

    def __init__(
        self,
        model: torch.nn.Module,
        record: Record,
        graph: Graph,
        kwargs: dict[str, Any],
        task: Task,
        given: dict[str, Any] | None = None,
    ) -> None:
        self.model, self.record, self.graph, self.kwargs, self.task = model, record, graph, kwargs, task
        self._given = kwargs if given is None else given  # the same arguments, where the user has them
        self.home = home_of(model)
        self.weighted = graph.is_weighted or kwargs.get("edge_weight") is not None

    @property
    def facts(self) -> Facts:
        """What is known of the model on this graph."""
        # Those that the user gave, because copies of them on the processor are made for each target anew.
        return self.record.on(self.graph, self._given)

    def arguments(self) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
        """Return the positional and the keyword arguments of the model."""
        kwargs = dict(self.kwargs)
        if self.weighted and not takes_edge_weight(self.model):
            raise ModelError(f"{type(self.model).__name__}.forward takes no edge_weight, but one was given")
        if self.graph.edge_weight is not None:
            kwargs["edge_weight"] = self.graph.edge_weight
        return (self.formed(self.graph.x), self.graph.edge_index), kwargs

    def formed(self, x: Tensor) -> Tensor:
        """Return what the model is given for X of the whole graph."""
        return x if self.graph.form is None else self.graph.form.restore(x)

    def output(self) -> Tensor:
        """Return the model's output on the whole graph, from memory if it is known."""
        facts = self.facts
        if facts.output is None:
            x, edge_index, weight = self.graph.given
            kwargs = self._given if weight is None else {**self._given, "edge_weight": weight}
            known = noted_output(self.model, x, edge_index, kwargs)
            facts.output = self._run(self.graph.x) if known is None else fetch(known)
        return as_rows(facts.output, self.task)

    def output_with(self, x: Tensor) -> Tensor:
        """Return the model's output on the whole graph with other features."""
        return as_rows(self._run(x), self.task)

    def _run(self, x: Tensor) -> Tensor:
        (_, edge_index), kwargs = self.arguments()
        try:
            out: Tensor = run_at_home(self.model, self.home, (self.formed(x), edge_index), kwargs)
        except (Exception, SystemExit) as error:  # the user's own forward may raise anything
            raise ModelError(f"the model cannot be run on this graph: {describe_error(error)}") from error
        return out

    def scale(self) -> float:
        """Return the largest magnitude of the output on the whole graph."""
        facts = self.facts
        if facts.scale is None:
            facts.scale = largest(self.output())
        return facts.scale

    def forget(self) -> None:
        """Drop what is known of the model on this graph, for a write that has left no trace."""
        self.record.forget(self.graph)
        forget_run(self.model)


def largest(values: Tensor) -> float:
    """Return the largest finite magnitude."""
    return float(values.detach().nan_to_num(0.0, 0.0, 0.0).abs().max())


def is_close(output: Tensor, expected: Tensor, scale: float) -> bool:
    """Return whether two outputs differ by no more than rounding, if the largest output there is has this scale."""
    tolerance = _TOLERANCE.get(output.dtype, 1e-2)
    if output.shape != expected.shape:
        return False
    if output.dtype in _TOLERANCE and expected.dtype == output.dtype:  # nearly always; allclose takes far longer
        with np.errstate(all="ignore"):  # an output that is not finite is refused elsewhere
            difference: npt.NDArray[np.floating] = output.detach().numpy() - expected.detach().numpy()
            if bool((np.abs(difference) <= tolerance * scale).all()):
                return True
    return torch.allclose(output, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def are_close(output: Tensor, expected: Tensor, scale: float) -> Tensor:
    """Return which rows of two outputs :func:`is_close` finds to differ by no more than rounding."""
    if output.shape != expected.shape:
        return torch.zeros(len(expected), dtype=torch.bool)
    near = (output - expected).abs() <= _TOLERANCE.get(output.dtype, 1e-2) * scale
    close = near.flatten(1).all(dim=1) if near.dim() > 1 else near
    for i in close.logical_not().nonzero().flatten().tolist():
        close[i] = is_close(output[i], expected[i], scale)
    return close
