"""The model on the whole graph: what a computation graph is checked against, computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._base.errors import ModelError, UnsupportedError, said
from ..graph.graph import Graph
from .call import as_rows
from .layers import state_of, takes_edge_weight
from .task import Task


class Whole:
    """A model and the arguments it is called with on ``graph``."""

    def __init__(self, model: torch.nn.Module, graph: Graph, kwargs: dict[str, Any], task: Task) -> None:
        self.model, self.graph, self.kwargs, self.task = model, graph, kwargs, task
        self.weighted = graph.edge_weight is not None or kwargs.get("edge_weight") is not None

    def arguments(self) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
        """What the model is called with."""
        kwargs = dict(self.kwargs)
        if self.weighted and not takes_edge_weight(self.model):
            raise ModelError(f"{type(self.model).__name__}.forward takes no edge_weight, but one was given")
        if self.graph.edge_weight is not None:
            kwargs["edge_weight"] = self.graph.edge_weight
        return (self.graph.x, self.graph.edge_index), kwargs

    def output(self) -> Tensor:
        """The model's output, a row for each thing it says something of."""
        out: Tensor = self.remembered("output", lambda: self.output_with(self.graph.x))
        return out

    def output_with(self, x: Tensor) -> Tensor:
        """The same with other features."""
        (_, edge_index), kwargs = self.arguments()
        try:
            out = self.model(x, edge_index, **kwargs)
        except Exception as error:  # whatever the user's own forward may raise
            raise ModelError(f"the model cannot be run on this graph: {said(error)}") from error
        if not isinstance(out, Tensor):
            raise UnsupportedError(f"the model must return one tensor (got {type(out).__name__})")
        return as_rows(out, self.task)

    def remembered(self, name: str, compute: Callable[[], Any]) -> Any:
        """Something of the graph and the model, computed once while neither is written to."""
        stamp: list[tuple[Any, ...]] = [(id(t), t._version) for t in state_of(self.model)]
        if self.kwargs:
            stamp.extend((k, id(v), getattr(v, "_version", 0)) for k, v in sorted(self.kwargs.items()))
        memory = self.graph.memory.setdefault(self.model, {})
        if memory.get(name, (None,))[0] != stamp:
            memory[name] = (stamp, compute())
        return memory[name][1]

    def forget(self) -> None:
        """Compute all anew: a write may have left no trace, such as one to ``parameter.data``."""
        self.graph.memory.pop(self.model, None)
