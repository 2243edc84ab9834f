"""A model on a part of the graph: what it is called with there, and how it takes A."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from .._base.errors import InputError, ModelError, UnsupportedError
from .._base.threads import SMALL, one_thread
from ..graph.computation_graph import ComputationGraph
from .adapter import Adapter
from .home import PROCESSOR, Kept, home_of, run_at_home, send
from .layers import Degrees, mask_messages, message_passing_layers, remove_masks_afterwards, takes_edge_weight
from .products import Products, convolutions
from .readout import ATTRIBUTES, Places, Readout
from .record import Record, Route, key_of
from .task import Task

Edges = Literal["auto", "weight", "removal", "mask"]


def check_edges(edges: str) -> Edges:
    """Return ``edges`` if it names a way to take A."""
    if edges not in get_args(Edges):
        raise InputError(f"edges must be one of {', '.join(get_args(Edges))} (got {edges!r})")
    return edges  # type: ignore[return-value]


class Call:
    """The model's output as a function of X and A on ``part``.

    ``loop_weight`` is the weight of the self-loops that the model's layers add, None if they add none. ``rows`` are
    the explained rows of the output there. ``record`` is what is known of the model.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        record: Record,
        task: Task,
        readout: Readout,
        part: ComputationGraph,
        loop_weight: float | None,
        edges: Edges,
    ) -> None:
        part = readout.with_attributes(part, loop_weight)
        self.model, self.task, self.readout, self.part, self.loop_weight = model, task, readout, part, loop_weight
        # Layers that add self-loops are given every loop, last and in node order, because PyG would misplace a mask
        # otherwise. Other layers are given the loops that the graph has.
        self._read = None if loop_weight is not None else part.felt.nonzero().view(-1)
        places: Places = slice(None) if self._read is None else self._read
        self._edge_index = self.edges_at(places)
        self._kwargs, self.rows = self.arguments_at(places)
        self._form = readout.graph.form
        self.home = home_of(model)
        self._own_weight = part.weight if self._read is None else part.weight[self._read]
        self.kept = Kept(self.home, (part.x, self._own_weight, self._edge_index, *self._kwargs.values()))
        self.products: Products | None = None
        self.degrees: Degrees | None = None  # the degrees that the part was cut out for; None if nothing was cut off
        self.route: Route = self._find_route(edges, record)
        # If every self-loop is given, convolutions are products with a matrix.
        plain = not isinstance(model, Adapter) or model.takes != "adjacency"  # whose layers are given no edges
        self._convolutions = convolutions(model) if self.route == "weight" and self._read is None and plain else []
        if self._convolutions and self.home == PROCESSOR:
            self.products = Products(self._convolutions, self._edge_index, part.num_nodes, _count_near(part))

    @cached_property
    def output(self) -> Tensor:
        """The model's output on the unperturbed part."""
        with torch.no_grad(), one_thread(self.is_small):
            return self(self.part.x, self.part.weight)

    def inputs(self, weight: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """Return the ``edge_index`` and the keyword arguments of the model for the entries ``weight`` [e] of A.

        With masks there are no weights to pass: the model is then called as on the unperturbed part.
        """
        weight = weight if self._read is None else weight[self._read]
        own = {"edge_weight": weight} if self.route == "weight" else {}
        return self._edge_index, {**self._kwargs, **own}

    @property
    def is_small(self) -> bool:
        """Whether one thread is enough for the part."""
        return self.part.num_edges <= SMALL

    @contextmanager
    def first_order(self) -> Iterator[None]:
        """Allow derivatives in closed form, which are quicker but cannot be differentiated again."""
        if self.products is None:
            yield
            return
        try:
            self.products.first_order = True
            yield
        finally:
            self.products.first_order = False

    @cached_property
    def is_convolutional(self) -> bool:
        """Whether every message is part of a graph convolution's product with N(A)."""
        return bool(self._convolutions) and len(self._convolutions) == len(message_passing_layers(self.model))

    @property
    def may_batch(self) -> bool:
        """Whether :meth:`batch` is worth trying: every message is part of a product, and rows are nodes."""
        return (
            self.products is not None
            and (self.products.dense or self.products.first_order or not torch.is_grad_enabled())
            and (self.products.dense or self.part.x.dtype in (torch.float32, torch.float64))
            and self.task.level == "node"
            and self.is_convolutional
            and self._form is None
            and not any(isinstance(value, Tensor) for value in self._kwargs.values())
        )

    def batch(self, x: Tensor, weight: Tensor, *, trimmed: bool) -> Tensor:
        """Return the output on S graphs, [S, n, ...], by one call with a leading dimension on what differs.

        The model's forward was not written for that, so the caller must verify the result. ``trimmed`` computes no more
        than the explained rows need, and returns those alone, [S, rows, ...].
        """
        assert self.products is not None
        with self.products.batch(weight, trimmed=trimmed):
            out: Tensor = self.model(x, self._edge_index, edge_weight=weight, **self._kwargs)
            return out

    def __call__(
        self,
        x: Tensor,
        weight: Tensor,
        matrix: Tensor | None = None,
        *,
        plain: bool = False,
        attributes: Tensor | None = None,
    ) -> Tensor:
        """Return the model's output with features ``x`` [n, d], A's entries ``weight`` [e] and edge attributes [e, c].

        ``matrix`` is N(A) of ``weight``, if it has been computed already. ``plain`` uses PyG's layers unchanged.
        """
        kwargs = self._kwargs if attributes is None else self._with(attributes)
        own = weight is self.part.weight
        if self._read is not None:
            weight = self._own_weight if own else weight[self._read]
        if not plain and self.products is not None and self.products.dense:
            with self.products.alone(weight, self.products.matrix(weight) if matrix is None else matrix):
                return as_rows(self.model(self.formed(x), self._edge_index, edge_weight=weight, **kwargs), self.task)
        if self.route == "weight":
            return as_rows(self.ask(x, self._edge_index, {"edge_weight": weight, **kwargs}), self.task)
        # Where nothing is perturbed, no factors are needed, which some layers cannot be given.
        factors = None if self.route == "removal" and own else weight
        return as_rows(self.run(x, self._edge_index, kwargs, factors), self.task)

    def _with(self, attributes: Tensor) -> dict[str, Any]:
        """Return the model's keyword arguments with other edge attributes, [e, c]."""
        given = attributes if self._read is None else attributes[self._read]
        return {**self._kwargs, ATTRIBUTES: self.shape_attributes(given)}

    def shape_attributes(self, rows: Tensor) -> Tensor:
        """Return rows of edge attributes, [any, c], in the shape that the model is given."""
        return rows.reshape(len(rows), *self.readout.kwargs[ATTRIBUTES].shape[1:])

    def ask(self, x: Tensor, edge_index: Tensor, kwargs: dict[str, Any]) -> Tensor:
        """Return what the model says, on the processor, wherever it lives."""
        given = self.formed(x) if self._form is not None else self.kept(x)
        named = {name: self.kept(value) for name, value in kwargs.items()} if self.home != PROCESSOR else kwargs
        out: Tensor = run_at_home(self.model, self.home, (given, self.kept(edge_index)), named)
        return out

    def formed(self, x: Tensor) -> Tensor:
        """Return what the model is given for X of the part, [n, d], or for copies of the part one after the other."""
        return x if self._form is None else self._form.restore(x, self.part.nodes)

    @property
    def on_matrix(self) -> torch.nn.Module:
        """The model as a function of the matrix X of the part, which algorithms of others can be given."""
        return self.model if self._form is None else OnMatrix(self)

    def run(self, x: Tensor, edge_index: Tensor, kwargs: dict[str, Any], factors: Tensor | None) -> Tensor:
        """Return the model's output, with its messages multiplied by ``factors``, one for each edge, if given."""
        if factors is None:
            return self.ask(x, edge_index, kwargs)
        edge_index = send(self.kept(edge_index), self.home)
        with remove_masks_afterwards(self.model):
            self._set_masks(send(factors, self.home), edge_index, kwargs)
            try:
                masked = self.ask(x, edge_index, kwargs)
            except AssertionError as error:
                if str(error):
                    raise
                # PyG's assertion has no text when a mask has another number of entries than there are messages.
                raise UnsupportedError(
                    f"a layer of {type(self.model).__name__} does not pass one message for each edge it was given "
                    "(it drops, splits or adds edges), so its messages cannot be masked: let forward take edge_weight, "
                    "or explain in a neighbourhood that removes edges, such as B(A,0.5), by a method without gradients"
                ) from error
            return masked

    def _set_masks(self, factors: Tensor, edge_index: Tensor, kwargs: dict[str, Any]) -> None:
        """Let every layer multiply its messages by ``factors``; a heterogeneous model knows which are whose."""
        if self.part.kinds is None:
            mask_messages(self.model, factors, edge_index, send(kwargs.get("edge_type"), self.home))
        else:
            places = (send(kwargs[name], self.home) for name in ("node_place", "edge_place"))
            self.model.set_masks(factors, edge_index, *places)  # type: ignore[operator]  # it is a JointModel

    def edges_at(self, places: Places) -> Tensor:
        """Return the ``edge_index`` of the entries of A at ``places``, in the direction in which the model reads it."""
        edges = self.part.edge_index.clone() if isinstance(places, slice) else self.part.edge_index[:, places]
        return edges if self.readout.graph.flow == "source_to_target" else edges.flip(0)

    def arguments_at(self, places: Places) -> tuple[dict[str, Any], Tensor]:
        """Return the model's keyword arguments for the edges at ``places``, and the explained rows of its output."""
        arguments = self.readout.arguments(self.part, places, self.loop_weight)
        return arguments, self.readout.rows_on(self.part, places)

    def _find_route(self, forced: Edges, record: Record) -> Route:
        reads = False
        if forced in ("auto", "weight"):
            key = key_of(self.readout.kwargs)
            if key not in record.reads_weight:
                record.reads_weight[key] = takes_edge_weight(self.model) and self.reads_weight()
            reads = record.reads_weight[key]
        if reads:
            return "weight"
        name, layers = type(self.model).__name__, message_passing_layers(self.model)
        if forced == "weight":
            raise ModelError(f'{name} takes no edge_weight or ignores it: use edges="auto"')
        if self.readout.graph.is_weighted:
            raise ModelError(f"{name} ignores the edge_weight it is given")
        if not layers:
            raise ModelError(f"{name} ignores edge_weight and has no layer to mask")
        for layer in layers:
            if layer.explain is False:
                raise ModelError(f"{layer} has explain=False, so its messages cannot be masked: set it to None")
        if forced == "mask":
            return "mask"
        if self.readout.kind == "edge":
            # A row that belongs to an edge is gone if the edge is.
            if forced == "removal":
                raise ModelError(f'{name} has a row for each edge, which would be removed with it: use edges="mask"')
            return "mask"
        return "removal"

    def reads_weight(self) -> bool:
        """Return whether the output depends on ``edge_weight``, according to autograd."""
        self.route = "weight"
        with torch.enable_grad():
            weight = self.part.weight.detach().clone().requires_grad_()
            try:
                out = self(self.part.x, weight)
            except TypeError:  # forward takes any keyword, but the function that it calls does not
                return False
            if not out.requires_grad:
                return False
            return torch.autograd.grad(out.sum(), weight, allow_unused=True)[0] is not None


class OnMatrix(torch.nn.Module):
    """A model that is given the matrix X of a part, where its own features have another form."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.model, self._formed = call.model, call.formed

    def forward(self, x: Tensor, edge_index: Tensor, **kwargs: Any) -> Any:
        """Return what the model returns."""
        home = x.device
        return self.model(send(self._formed(x.to(PROCESSOR)), home), edge_index, **kwargs)


def _count_near(part: ComputationGraph) -> list[int] | None:
    """Return how many nodes there are within 0, 1, ..., M hops of the explained ones, if nodes are in that order."""
    hop = part.hop.numpy()
    if bool((hop[1:] < hop[:-1]).any()):
        return None
    near: list[int] = np.searchsorted(hop, np.arange(part.num_hops + 1), side="right").tolist()
    return near


def check_output(out: Any) -> None:
    """Check that a model has returned a tensor of real numbers, as F and its changes are."""
    if not isinstance(out, Tensor):
        which = next(iter(out), 0) if isinstance(out, Mapping) else 0
        raise UnsupportedError(
            f"the model must return one tensor (got {type(out).__name__}): explain graphfaith.adapt(model, "
            f"output={which!r}), or another of its outputs, instead"
        )
    if not out.is_floating_point():
        raise UnsupportedError(
            f"the model must return real numbers, such as logits or probabilities (got {out.dtype}): let it return "
            "what it rounds, or chooses a class from"
        )


def as_rows(out: Tensor, task: Task) -> Tensor:
    """Return the output with a row for each node, edge or graph; that of a single graph may come without one."""
    check_output(out)
    wanted = 2 if task.mode == "multiclass_classification" else 1
    if task.level == "graph" and out.dim() < wanted:
        out = out.unsqueeze(0)
    if out.dim() == 0 or not len(out):
        raise UnsupportedError(f"the model must return a row for each {task.level} (got {list(out.shape)})")
    return out
