"""F(X, A): which number of which model, on which graph, is explained; and F on many perturbed graphs at once."""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .._base.checks import check_count
from .._base.errors import InputError, ModelError, UnprovenError
from .._base.memory import parse_memory, room_for_chunks
from ..graph.graph import Graph
from .batching import batching_of, distrust, is_first, vmap
from .call import Edges, Route, check_edges
from .layers import checked_layers, counted_hops, evaluating, widest_layer
from .placement import Placement
from .readout import Readout
from .task import Index, Task
from .whole import Whole

_LOG = logging.getLogger(__name__)

LARGE = 256 * 2**20  # bytes; a graph on which to run the model takes more is looked at in parts alone

# Models that do something which cannot be batched, such as reading a value.
_ONE_BY_ONE: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()


class Target:
    r"""The scalar :math:`F(X, A) = \{e^\top f(X, A)\}_y`, evaluated on the computation graph of what it is read from.

    For classification F is the model's output for class ``label`` (the predicted class if None): a logit, a
    probability or a log-probability, whatever the model returns. For regression it is the output itself. ``index``
    names rows of the output (None is all of them); F is the sum over them. A row is a node, a pair of nodes
    (``level="edge"``, with the pairs in ``edge_label_index``) or a graph of a ``batch``.

    A is the model's ``edge_weight`` if its forward takes one and its output depends on it; otherwise A multiplies
    the messages, as PyG's explain masks do. ``route`` says which; ``edges`` forces one. Entries of A are ordered as
    in ``computation_graph``, self-loops last. What else the model is called with is given by name, or in ``inputs``
    if a name is taken.

    >>> from torch_geometric.nn import GCN
    >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> F = Target(GCN(2, 4, num_layers=2, out_channels=3), torch.rand(4, 2), ring, 1, label=0)
    >>> F.route, F.computation_graph.num_edges            # three edges and four self-loops
    ('weight', 7)
    >>> halves = torch.full((5, 7), 0.5)                  # five graphs whose edges all weigh 1/2
    >>> F.evaluate(weight=halves).shape
    torch.Size([5])
    """

    def __init__(
        self,
        model: torch.nn.Module,
        x: Tensor,
        edge_index: Tensor,
        index: Index,
        label: int | Tensor | None = None,
        *,
        edge_weight: Tensor | None = None,
        num_hops: int | None = None,
        mode: str = "multiclass_classification",
        return_type: str = "raw",
        level: str = "node",
        edges: Edges = "auto",
        max_memory: int | str | None = None,
        inputs: Mapping[str, Any] | None = None,
        prove_later: bool = False,
        **kwargs: Any,
    ) -> None:
        self.model, self.task = model, Task(mode, return_type, level)
        self.max_memory = parse_memory(max_memory)
        self._width: int | None = None
        layers = checked_layers(model, num_hops)
        self.num_hops = max(1, counted_hops(model)) if num_hops is None else check_count(num_hops, "num_hops")
        arguments = {**(inputs or {}), **kwargs}
        weight = arguments.pop("edge_weight", None) if edge_weight is None else edge_weight
        if check_edges(edges) == "mask" and weight is not None:  # A multiplies messages; weights are as any attribute
            arguments["edge_weight"], weight = weight, None
        self.graph = Graph.of(x, edge_index, weight, layers[0].flow if layers else "source_to_target")
        self.whole = Whole(model, self.graph, arguments, self.task)
        rows = None
        if level == "node" and index is not None:  # a node that is not there is found before the model runs
            rows = self.task.rows(index, self.graph.num_nodes)
        size = self.graph.num_nodes, self.graph.num_edges
        large = level == "node" and index is not None and self._bytes_on(*size) > min(LARGE, self.max_memory or LARGE)
        if not large:
            self._check_size(*size)
        with evaluating(model), torch.no_grad():
            count = self.graph.num_nodes if large else len(self.whole.output())
            self.readout = Readout(self.task, self.graph, arguments, count, index, rows)
            where = self.whole, self.readout, self.num_hops, edges, self.name
            placement = Placement(*where, large=large, check_size=self._check_size, later=prove_later)
            self.call = placement.find()
            self.computation_graph, self.scale, self._placement = self.call.part, placement.scale(self.call), placement
            explained = self.call.output[self.call.rows] if placement.proven else placement.expected[self.readout.rows]
            self.labels, self._explained = self._labels(explained, label, count), explained
            self.value = float(self.task.value(explained, self.labels))
            placement.check_reach(self.call)
        if not math.isfinite(self.value):
            raise ModelError(f"the model's output at {self.name} is {self.value}: it must be finite")

    def prove(self, rows: Tensor | None = None) -> None:
        """See that the model gives on the computation graph what it gives on the whole graph, if that was put off.

        ``rows`` are the explained rows of its output there, if they have been computed. Whoever makes a target with
        ``prove_later`` calls this, and on an :class:`UnprovenError` makes it again without.
        """
        if self._placement.proven:
            return
        rows = self.call.output[self.call.rows] if rows is None else rows
        if not self.is_right(rows):
            raise UnprovenError(f"the model's output at {self.name} is another one on its computation graph")
        self.value, self._placement.proven = float(self.task.value(rows, self.labels)), True

    def is_right(self, rows: Tensor) -> bool:
        """Whether these are the explained rows of the model's output on the graph as it is, up to rounding."""
        return self._placement.same(rows, self._explained, self.scale)

    def is_right_at(self, place: int, rows: Tensor) -> bool:
        """The same for one of the explained rows."""
        return self._placement.same(rows, self._explained[place : place + 1], self.scale)

    @property
    def name(self) -> str:
        """What is explained, for a message: a node, a link, a graph, or several."""
        rows = self.readout.rows.tolist()
        level = self.task.level
        return f"{level} {rows[0]}" if len(rows) == 1 else f"{len(rows)} {level}s"

    @property
    def label(self) -> int | None:
        """The class that is explained, if there is one."""
        found = None if self.labels is None else torch.unique(self.labels)
        return None if found is None or len(found) > 1 else int(found)

    def _labels(self, explained: Tensor, label: Any, count: int) -> Tensor | None:
        """Labels of the explained rows, given those of every row of the output, or one for all, or none."""
        if label is None or self.task.mode == "regression":
            return self.task.labels(explained, None)
        given = torch.as_tensor(label)
        if given.dim() == 0:
            return self.task.labels(explained, given)
        if len(given) != count:
            self.task.labels(explained, None)  # which may be what is really wrong
            raise InputError(f"there must be a class for each of the {count} rows of the output (got {len(given)})")
        return self.task.labels(explained, given[self.readout.rows])

    @property
    def route(self) -> Route:
        """Whether A is the model's edge weight ("weight") or multiplies its messages ("mask")."""
        return self.call.route

    @property
    def adds_loops(self) -> bool:
        """Whether the model's layers add self-loops, which are then entries of A."""
        return self.call.loop_weight is not None

    # Memory -----------------------------------------------------------------------------------------------------

    def _bytes_on(self, nodes: int, edges: int) -> int:
        """What it takes to run the model on so many nodes and edges, about, and to have an index of the graph's."""
        messages = 3 * self.width() * (edges + nodes)
        return 8 * (8 * self.graph.num_edges + 4 * self.graph.num_nodes + messages)

    def _check_size(self, nodes: int, edges: int) -> None:
        """See that the model may be run on so many nodes and edges."""
        room_for_chunks(self.max_memory, self._bytes_on(nodes, edges), 0, f"running the model once on {nodes} nodes")

    def unit_width(self) -> int:
        """How many numbers an entry of A takes when F is evaluated on a sample: as many as the widest layer has units.

        As products with a matrix, entries stay numbers, and units are a matter of nodes.
        """
        with torch.no_grad():
            if batching_of(self.call) == "vmap":
                return self.width()
        part = self.computation_graph
        return min(self.width(), 3 + 2 * self.width() * part.num_nodes // part.num_edges)

    def room(self, fixed: int, per_sample: int, what: str) -> int:
        """Bytes that a chunk of samples may take beside ``fixed`` ones; see ``max_memory``."""
        part = self.computation_graph
        own = 8 * (8 * self.graph.num_edges + 4 * self.graph.num_nodes + 10 * part.num_edges + 3 * part.x.numel())
        where = f"{what} for {self.name} ({part.num_nodes} nodes and {part.num_edges} entries of A in reach)"
        return room_for_chunks(self.max_memory, own + fixed, per_sample, where)

    # F --------------------------------------------------------------------------------------------------------

    def _value(self, out: Tensor) -> Tensor:
        return self.task.value(out[self.call.rows], self.labels)

    def __call__(self, x: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """F on the computation graph with other features [n, d] or entries of A [e]; differentiable.

        With a leading dimension, features [S, n, d] or entries of A [S, e], it is F of S graphs in one call, [S].
        What the samples share is computed once: with edges alone perturbed, the first layer's X W is.
        """
        part = self.computation_graph
        x = part.x if x is None else x.to(part.x.dtype)
        weight = part.weight if weight is None else weight.to(part.weight.dtype)
        dims = (0 if x.dim() == 3 else None, 0 if weight.dim() == 2 else None)
        with evaluating(self.model):
            if dims == (None, None):
                return self._value(self.call(x, weight))
            if self.model not in _ONE_BY_ONE:
                try:
                    return self._batched(x, weight, dims)
                except RuntimeError as error:
                    self._one_by_one(error)
            count = len(x) if dims[0] == 0 else len(weight)
            xs = x if dims[0] == 0 else x.expand(count, *x.shape)
            weights = weight if dims[1] == 0 else weight.expand(count, -1)
            return torch.stack([self._value(self.call(a, b)) for a, b in zip(xs, weights, strict=True)])

    def _batched(self, x: Tensor, weight: Tensor, dims: tuple[int | None, int | None]) -> Tensor:
        way = batching_of(self.call)
        if way != "vmap":
            # The graph as it is goes with the samples: what a model gives in a batch is believed if that is right.
            part, trimmed = self.computation_graph, way == "trimmed"
            if is_first(part.x, x) and is_first(part.weight, weight):
                found = self._at_once(x, weight, trimmed=trimmed)
                right = self.is_right(found[0]) if self._placement.proven else True
                self.prove(found[0].detach())  # if it fails, what is wrong is looked for without a batch
            elif x is part.x:
                found = self._at_once(x, torch.cat([part.weight.unsqueeze(0), weight]), trimmed=trimmed)
                right, found = self.is_right(found[0]), found[1:]
            else:
                right = self.is_right(self._at_once(part.x, part.weight.unsqueeze(0), trimmed=trimmed)[0])
                found = self._at_once(x, weight, trimmed=trimmed)
            if right:
                return self._values(found)
            distrust(self.call)
        return self._by_vmap(x, weight, dims)

    def with_own(self, weight: Tensor) -> tuple[float, Tensor]:
        """F on the graph as it is, and on S graphs; ``weight`` [S + 1, e] has the entries of A as they are first.

        Both come from one call, so that they are rounded alike; it also proves what was put off.
        """
        with torch.no_grad(), evaluating(self.model):
            way, part = batching_of(self.call), self.computation_graph
            if way != "vmap":
                try:
                    rows = self._at_once(part.x, weight.to(part.weight.dtype), trimmed=way == "trimmed")
                except RuntimeError:
                    rows = torch.full((1, *self._explained.shape), math.nan)
                right = self.is_right(rows[0]) if self._placement.proven else True
                self.prove(rows[0])  # if it fails, what is wrong is looked for without a batch
                if right:
                    found = self._values(rows)
                    return float(found[0]), self._finite(found[1:])
                distrust(self.call)
            self.prove()
            found = self.evaluate(None, weight)
            return float(found[0]), found[1:]

    def _by_vmap(self, x: Tensor, weight: Tensor, dims: tuple[int | None, int | None]) -> Tensor:
        if self.call.products is None or not self.call.products.dense:
            return vmap(lambda a, b: self._value(self.call(a, b)), dims)(x, weight)
        matrix = self.call.products.matrix(weight)
        return vmap(lambda a, b, c: self._value(self.call(a, b, c)), (*dims, dims[1]))(x, weight, matrix)

    def _at_once(self, x: Tensor, weight: Tensor, *, trimmed: bool) -> Tensor:
        """The explained rows on S graphs by one call of the model's own forward, [S, r, ...]."""
        return self.call.batch(x, weight, trimmed=trimmed)[:, self.call.rows]

    def _values(self, rows: Tensor) -> Tensor:
        """F of S sets of explained rows, [S]."""
        if self.labels is None or self.task.mode != "multiclass_classification":
            return torch.stack([self.task.value(row, self.labels) for row in rows])
        labels = self.labels.expand(len(rows), *self.labels.shape)
        return rows.gather(-1, labels.unsqueeze(-1)).flatten(1).sum(dim=1)

    def evaluate(self, x: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """F of S perturbed graphs, [S], checked to be finite and without a record for autograd."""
        with torch.no_grad():
            return self._finite(self(x, weight))

    def each(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """F of every explained row by itself: on the graph as it is, [r], and with S sets of entries of A, [S, r]."""
        part = self.computation_graph
        weight = torch.cat([part.weight.unsqueeze(0), weight.to(part.weight.dtype)])

        def values(entries: Tensor) -> Tensor:
            return self.task.values(self.call(part.x, entries)[self.call.rows], self.labels)

        with torch.no_grad(), evaluating(self.model):
            way = batching_of(self.call)
            if way != "vmap":
                try:
                    rows = self._at_once(part.x, weight, trimmed=way == "trimmed")
                except RuntimeError:
                    rows = torch.full((1, *self._explained.shape), math.nan)
                if self.is_right(rows[0]):
                    found = torch.stack([self.task.values(row, self.labels) for row in rows])
                    return found[0], self._finite(found[1:])
                distrust(self.call)
            if self.model not in _ONE_BY_ONE:
                try:
                    found = vmap(values, 0)(weight)
                    return found[0], self._finite(found[1:])
                except RuntimeError as error:
                    self._one_by_one(error)
            found = torch.stack([values(entries) for entries in weight])
            return found[0], self._finite(found[1:])

    def _one_by_one(self, error: RuntimeError) -> None:
        _LOG.debug("%s cannot be batched: %s", type(self.model).__name__, error)
        _ONE_BY_ONE.add(self.model)

    def gradient(self, x: Tensor | None = None, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The gradients of F with respect to X [n, d] and to A [e], at (X, A) or at another point.

        With a leading dimension S on either argument they are the means over the S points. Where a node has no
        weight left on its in-edges N(A) is not differentiable; there it is taken as constant.
        """
        _, dx, da = self.gradients(x, weight)
        count = next((len(given) for given, own in ((x, 2), (weight, 1)) if given is not None and given.dim() > own), 1)
        dx, da = self._finite(dx), self._finite(da)
        return (dx.sum(dim=0) if dx.dim() == 3 else dx) / count, (da.sum(dim=0) if da.dim() == 2 else da) / count

    def gradients(
        self, x: Tensor | None = None, weight: Tensor | None = None, at: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """F at S points, [S], and its gradients ``at`` some of them (None: all), [g, n, d] and [g, e].

        Of what the points share it is the sum of the gradients. F is checked to be finite, its gradients are not.
        """
        part = self.computation_graph
        with torch.inference_mode(False), torch.enable_grad(), self.call.first_order():
            a = (part.x if x is None else x.to(part.x.dtype)).detach().requires_grad_()
            b = (part.weight if weight is None else weight.to(part.weight.dtype)).detach().requires_grad_()
            values = self(a, b)
            some = (values if at is None else values.index_select(0, at)).sum()
            # A model may hide its gradient, by torch.no_grad() for one.
            found = torch.autograd.grad(some, (a, b), allow_unused=True) if some.requires_grad else (None, None)
        dx, da = (torch.zeros_like(t) if g is None else g.detach() for t, g in zip((a, b), found, strict=True))
        entries = b.detach()
        if at is not None:
            dx = dx.index_select(0, at) if dx.dim() == 3 else dx
            da, entries = (t.index_select(0, at) if t.dim() == 2 else t for t in (da, entries))
        if not math.isfinite(float(da.sum())):
            da = self._defined(da, entries)
        # The outermost node only stands for others, and F does not read every loop.
        dx[..., part.num_visible :, :] = 0
        if not bool(part.felt.all()):
            da[..., ~part.felt] = 0
        return self._finite(values.detach()), dx, da

    def _defined(self, da: Tensor, weight: Tensor) -> Tensor:
        """Gradients with respect to A where a node without in-weight has made them undefined."""
        sink = self.computation_graph.edge_index[1]
        degree = torch.zeros(*weight.shape[:-1], self.computation_graph.num_nodes, dtype=weight.dtype)
        degree.index_add_(-1, sink, weight * self.computation_graph.felt)
        return da.masked_fill((degree == 0)[..., sink] & torch.isnan(da), 0.0)

    def _finite(self, values: Tensor) -> Tensor:
        # A sum that is finite has none that is not, and is found sooner.
        if math.isfinite(float(values.sum())) or torch.isfinite(values).all():
            return values
        where = (~torch.isfinite(values)).nonzero()[0].tolist()
        raise ModelError(f"the model's output at {self.name}, or its gradient, is not finite (entry {where})")

    def weighed_by_masks(self, every_loop: bool) -> Tensor:
        """[e] the entries of A that have a place in PyG's explain masks.

        Layers that add self-loops leave them all at 1, unless ``every_loop`` was given with the edges.
        """
        part = self.computation_graph
        given = (part.edge_id >= 0) & part.felt
        return given if every_loop or not self.adds_loops else given & ~part.is_loop

    def width(self) -> int:
        """A guess at the width of the model's widest layer; it only sizes chunks."""
        if self._width is None:
            self._width = widest_layer(self.model)
        return self._width
