"""F(X, A): which number of which model, on which graph, is explained; and F on many perturbed graphs at once."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .._base.checks import check_count
from .._base.errors import InputError, ModelError
from .._base.memory import parse_memory, room_for_chunks
from ..graph.computation_graph import ComputationGraph
from ..graph.form import is_categorical
from ..graph.graph import NO_LIMIT, Graph
from ..graph.packed import Column
from ..sampling.perturbations import Perturbations
from .arguments import precision_of
from .batching import distrust, find_batching, vmap
from .call import Edges, check_edges
from .copies import lacks_edges, run_without_edges, run_without_some
from .home import check_home, chunk_bytes, fetch, fetch_all
from .layers import check_layers, count_hops, widest_layer
from .placement import Placement
from .readout import Readout
from .record import Batching, Record, Route, evaluating, key_of
from .task import Index, Task
from .whole import Whole, are_close, is_close

_LOG = logging.getLogger(__name__)
_TINY = 96  # nodes, up to which samples whose gradients nobody asks for may go along in a pass backwards

LARGE = 256 * 2**20  # bytes; if running the model on the whole graph takes more, parts of the graph are compared


class PlacedAnewError(Exception):
    """The model gives something else on the part of the graph than on the whole, so that F is on another part now.

    What was found on the part before is of no use.
    """


def _graph_of(
    model: torch.nn.Module, x: Tensor | Graph, edge_index: Tensor | None, weight: Tensor | None, flow: str
) -> Graph:
    """Return the graph that a model is explained on: the one that is given in place of ``x``, or that of tensors."""
    if not isinstance(x, Graph):
        dtype = precision_of(model) if is_categorical(x) else None
        return Graph.of(x, edge_index, weight, flow, dtype)  # type: ignore[arg-type]  # it checks what it is given
    if edge_index is not None or weight is not None:
        raise InputError("a graph in place of x has its own edges and weights: leave out edge_index and edge_weight")
    x.check_flow(flow)
    return x


def _is_many(tensor: Tensor | None, own: int) -> bool:
    """Return whether a tensor has one dimension more than its ``own``, that of samples."""
    return tensor is not None and tensor.dim() > own


def _points(x: Tensor, weight: Tensor, attributes: Tensor | None) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Yield X, A and edge attributes of each of S graphs, of which they may share some."""
    counts = [len(one) for one, own in ((x, 2), (weight, 1), (attributes, 2)) if one is not None and one.dim() > own]
    for s in range(counts[0]):
        e = attributes[s] if attributes is not None and attributes.dim() == 3 else attributes
        yield x[s] if x.dim() == 3 else x, weight[s] if weight.dim() == 2 else weight, e


class Target:
    r"""The scalar :math:`F(X, A) = \{e^\top f(X, A)\}_y`, evaluated on the computation graph of what it is read from.

    For classification F is the model's output for class ``label`` (the predicted class if None): a logit, a
    probability or a log-probability, whatever the model returns. For regression it is the output itself. ``index``
    names rows of the output (None is all of them); F is the sum over them. A row is a node, a pair of nodes
    (``level="edge"``, with the pairs in ``edge_label_index``) or a graph of a ``batch``.

    A is the model's ``edge_weight`` if its forward takes one and its output depends on it ("weight"). Otherwise an edge
    whose entry of A is 0 is not in the graph, and other entries multiply the messages, as PyG's explain masks do
    ("removal"). With "mask" an entry of 0 multiplies a message too. ``route`` says which; ``edges`` forces one.
    Entries of A are ordered as
    in ``computation_graph``, self-loops last. A graph that was opened (:func:`graphfaith.open_graph`) stands in place
    of ``x``, with None for ``edge_index``. Further arguments of the model are given by name, or in ``inputs`` if
    this constructor has an argument of that name.

    A change of the model between two evaluations is noticed, and the computation graph is found anew.

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
        x: Tensor | Graph,
        edge_index: Tensor | None,
        index: Index,
        label: int | Tensor | Column | None = None,
        *,
        edge_weight: Tensor | None = None,
        num_hops: int | None = None,
        mode: str = "multiclass_classification",
        return_type: str = "raw",
        level: str = "node",
        edges: Edges = "auto",
        max_memory: int | str | None = None,
        inputs: Mapping[str, Any] | None = None,
        _later: bool = False,  # whether F may be compared with the whole graph when it is evaluated; see prove()
        **kwargs: Any,
    ) -> None:
        self.model, self.task = model, Task(mode, return_type, level)
        self.max_memory = parse_memory(max_memory)
        self._width: int | None = None
        layers = check_layers(model, num_hops)
        self.num_hops = max(1, count_hops(model)) if num_hops is None else check_count(num_hops, "num_hops")
        arguments = {**(inputs or {}), **kwargs}
        weight = arguments.pop("edge_weight", None) if edge_weight is None else edge_weight
        if check_edges(edges) in ("removal", "mask") and weight is not None:
            # A multiplies the messages, so that the weights are an attribute like any other.
            arguments["edge_weight"], weight = weight, None
        given = {} if isinstance(x, Graph) else {"x": x, "edge_index": edge_index, "edge_weight": weight}
        check_home(model, {**given, **arguments})
        self.graph = _graph_of(model, x, edge_index, weight, layers[0].flow if layers else "source_to_target")
        self._given, self._arguments, self._edges = arguments, fetch_all(arguments), edges
        self._index = fetch(index)
        with evaluating(model) as record:
            self._place(record, later=_later)
            self.labels = self._labels_of(self._own_rows, label)
            self._placement.check_reach(self.call)
            if not math.isfinite(self.value):
                raise ModelError(f"the model's output at {self.name} is {self.value}: it must be finite")

    def _place(self, record: Record, *, later: bool = False) -> None:
        """Find the part of the graph that F is computed on, for the model in its present state."""
        graph = self.graph
        whole = Whole(self.model, record, graph, self._arguments, self.task, self._given)
        by_node = self.task.level == "node" and self._index is not None
        # A node that the graph does not have is refused before the model runs.
        rows = self.task.rows(self._index, graph.num_nodes) if by_node else None
        large = by_node and self._bytes_on_all() > min(LARGE, self.max_memory or LARGE)
        if not large:
            self._check_size(graph.num_nodes, graph.num_edges)
        with torch.no_grad():
            count = graph.num_nodes if large else len(whole.output())
            readout = Readout(self.task, graph, self._arguments, count, self._index, rows)
            where = whole, readout, self.num_hops, self._edges, self._describe(readout)
            placement = Placement(
                *where, large=large, most=self.most_entries, limit=self.max_memory, check_size=self._check_size
            )
            call = placement.find(later=later)
            scale = placement.scale(call)
            expected = None if placement.is_proven else whole.output()[readout.rows]
        # All is taken over at once: a model that cannot be placed must not leave parts of two states.
        self.whole, self.readout, self._placement, self.call, self.scale = whole, readout, placement, call, scale
        self._num_rows, self._record, self._is_proven = count, record, placement.is_proven
        self.take_own_rows(expected)

    def take_own_rows(self, rows: Tensor | None = None) -> None:
        """Keep the explained rows of the model's output on the unperturbed graph; ``rows`` are they, if known."""
        self._own_rows = self.call.output[self.call.rows] if rows is None else rows
        self._own_as_sample: dict[tuple[bool, bool], Tensor] = {}

    def prove(self) -> None:
        """Compare the output on the part with that on the whole graph, if that was left for later.

        The first evaluation of F does so too, with the graph as it is among its samples. If they differ, F is looked
        for anew, and a :class:`PlacedAnewError` is raised.
        """
        if self._is_proven:
            return
        with torch.no_grad(), evaluating(self.model) as record:
            self._is_proven = record is self._record and self._placement.holds(self.call)
            if self._is_proven:
                self.take_own_rows()
                return
            self._place(record)
        raise PlacedAnewError

    @property
    def is_large(self) -> bool:
        """Whether the graph is so large that the model is not run on the whole of it."""
        return self._placement.large

    @property
    def record(self) -> Record:
        """What is known of the model."""
        return self._record

    @property
    def device(self) -> torch.device:
        """Where the user has the graph."""
        return self.graph.device

    @property
    def baseline(self) -> Tensor | None:
        """The category that stands for an absent feature, in the shape of a node's features; None of real ones."""
        form = self.graph.form
        return None if form is None or form.baseline is None else form.baseline.view(form.shape)

    @property
    def computation_graph(self) -> ComputationGraph:
        """The part of the graph that F depends on."""
        return self.call.part

    @property
    def name(self) -> str:
        """What is explained, for a message: a node, a link, a graph, or several."""
        return self._describe(self.readout)

    def _describe(self, readout: Readout) -> str:
        rows, level = readout.rows.tolist(), self.task.level
        return f"{level} {rows[0]}" if len(rows) == 1 else f"{len(rows)} {level}s"

    @property
    def label(self) -> int | None:
        """The class that is explained, if there is one."""
        labels = None if self.labels is None else torch.unique(self.labels)
        return None if labels is None or len(labels) > 1 else int(labels)

    def _labels_of(self, explained: Tensor, label: Any) -> Tensor | None:
        """Return the labels of the explained rows, given a label for every row of the output, one for all, or none."""
        if label is None or self.task.mode == "regression":
            return self.task.labels(explained, None)
        given = label if isinstance(label, Column) else fetch(torch.as_tensor(label))
        if isinstance(given, Tensor) and given.dim() == 0:
            return self.task.labels(explained, given)
        if len(given) != self._num_rows:
            self.task.labels(explained, None)  # raises if the shape of the output is what is really wrong
            raise InputError(
                f"there must be a class for each of the {self._num_rows} rows of the output (got {len(given)})"
            )
        return self.task.labels(explained, given[self.readout.rows])

    @property
    def route(self) -> Route:
        """Whether A is the model's edge weight ("weight") or multiplies its messages ("removal" and "mask").

        An edge whose entry of A is 0 is not in the graph ("removal"), or it is there and its message is 0 ("mask").
        """
        return self.call.route

    @property
    def adds_loops(self) -> bool:
        """Whether the model's layers add self-loops, which are then entries of A."""
        return self.call.loop_weight is not None

    # Memory -----------------------------------------------------------------------------------------------------

    def _bytes_on(self, nodes: int, edges: int) -> int:
        """Estimate what it takes to run the model on so many nodes and edges, and to index the graph."""
        return self._bytes_of_entry() * (edges + nodes) + self.graph.held_bytes

    def _bytes_on_all(self) -> int:
        """Estimate what it takes to run the model on the whole graph; the same wherever the graph is kept."""
        graph = self.graph
        index = 8 * (8 * graph.num_edges + 4 * graph.num_nodes)
        running = self._bytes_on(graph.num_nodes, graph.num_edges) - graph.held_bytes
        return max(running + index, graph.loaded_bytes)

    @property
    def most_entries(self) -> int:
        """How many nodes and edges the model may be run on so that ``max_memory`` is not exceeded."""
        if self.max_memory is None:
            return NO_LIMIT
        return max(0, self.max_memory - self.graph.held_bytes) // self._bytes_of_entry()

    def _bytes_of_entry(self) -> int:
        """Estimate what it takes to run the model for each node and each edge."""
        return 8 * 3 * self.width()

    def _check_size(self, nodes: int, edges: int) -> None:
        """Refuse to run the model on so many nodes and edges if that takes more than ``max_memory``."""
        room_for_chunks(self.max_memory, self._bytes_on(nodes, edges), 0, f"running the model once on {nodes} nodes")

    def width(self) -> int:
        """Return a guess at the width of the model's widest layer; it only sizes chunks."""
        if self._width is None:
            self._width = widest_layer(self.model)
        return self._width

    def unit_width(self, *, drops: bool = False) -> int:
        """Return how many numbers an entry of A takes when F is evaluated on a sample that ``drops`` edges, or not.

        Messages are as wide as the widest layer. In a product with a matrix an entry is a single number, and the
        units of a layer count for the nodes instead.
        """
        part = self.computation_graph
        if drops and self.route == "removal":  # a copy of the graph has its own features
            return self.width() + part.x.numel() // part.num_edges
        if self.batching == "vmap":
            return self.width()
        return min(self.width(), 3 + 2 * self.width() * part.num_nodes // part.num_edges)

    def room(self, fixed: int, per_sample: int, what: str, *, alone: bool = False) -> int:
        """Return the bytes that a chunk of samples may take beside ``fixed`` ones; see ``max_memory``.

        ``per_sample`` is a bound on the bytes of a sample, by which chunks are sized. What a sample takes is less in
        single precision and in products with a matrix, and more in vmap. The unperturbed graph goes with every chunk,
        so that one sample takes twice as much. These factors were measured (``benchmarks/memory.py``). ``alone`` says
        that F is evaluated at one point after the other, without vmap.
        """
        most = chunk_bytes(self.call.home)
        if self.max_memory is None:
            return most
        part = self.computation_graph
        own = 8 * (16 * part.num_edges + 4 * part.num_nodes + 3 * part.x.numel()) + self.graph.held_bytes
        precision = max(4, part.x.element_size()) / 8
        taken = max(1, int(per_sample * precision * (1.25 if not alone and self.batching == "vmap" else 0.75)))
        where = f"{what} for {self.name} ({part.num_nodes} nodes and {part.num_edges} entries of A in reach)"
        room = room_for_chunks(self.max_memory, own + fixed + taken, taken, where)
        return min(most, room * per_sample // taken)

    @property
    def batching(self) -> Batching:
        """How the model is called on many graphs at once; see :func:`~graphfaith.model.batching.find_batching`."""
        with torch.no_grad(), self._evaluating():
            return find_batching(self.call, self._record)

    # F --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Run the model in its present state: if it has changed since the last time, F is placed anew."""
        with evaluating(self.model) as record:
            if record is not self._record:
                self._place(record)
            yield

    @property
    def value(self) -> float:
        """F(X, A), by the model in its present state."""
        with self._evaluating():
            return float(self.task.value(self._own_rows, self.labels))

    @property
    def own_rows(self) -> Tensor:
        """The explained rows of the model's output on the unperturbed graph, [r, ...]."""
        with self._evaluating():
            return self._own_rows

    def __call__(
        self, x: Tensor | None = None, weight: Tensor | None = None, attributes: Tensor | None = None
    ) -> Tensor:
        """Return F on the computation graph with other features [n, d], entries of A [e] or attributes of edges [e, c].

        It is differentiable. With a leading dimension S on any of these it is F of S graphs in one call, [S].
        Whatever the samples share is computed once: the first layer's X W, for example, if only weights are perturbed.
        """
        with self._evaluating():
            part = self.computation_graph
            x = part.x if x is None else x.to(part.x.dtype)
            weight = part.weight if weight is None else weight.to(part.weight.dtype)
            if x.dim() not in (2, 3) or x.shape[-2:] != part.x.shape:
                raise InputError(f"x must be {list(part.x.shape)}, or several of these (got {list(x.shape)})")
            if weight.dim() not in (1, 2) or weight.size(-1) != part.num_edges:
                raise InputError(f"weight must be [{part.num_edges}], or several of these (got {list(weight.shape)})")
            if attributes is not None:
                attributes = self._check_attributes(attributes)
            if x.dim() == 2 and weight.dim() == 1 and (attributes is None or attributes.dim() == 2):
                return self.task.value(self._rows_of_one(x, weight, attributes), self.labels)
            return self.task.value_of_each(self._rows_at(x, weight, attributes=attributes), self.labels)

    def _check_attributes(self, attributes: Tensor) -> Tensor:
        own = self.computation_graph.attributes
        if own is None or attributes.dim() not in (2, 3) or attributes.shape[-2:] != own.shape:
            wanted = "none" if own is None else f"{list(own.shape)}, or several of these"
            raise InputError(f"edge attributes must be {wanted} (got {list(attributes.shape)})")
        return attributes.to(own.dtype)

    def evaluate(
        self, x: Tensor | None = None, weight: Tensor | None = None, attributes: Tensor | None = None
    ) -> Tensor:
        """Return F of S perturbed graphs, [S], checked to be finite and without a record for autograd."""
        with torch.no_grad():
            return self._check_finite(self(x, weight, attributes))

    def changes(self, perturbations: Perturbations) -> Tensor:
        """Return F(X, A) - F(X - eps_X, A - eps_A) for S samples, [S], in double precision.

        Both terms come from one call of the model, so that they are rounded alike.
        """
        changes = self._differences(perturbations, self.task.value_of_each)
        self._check_route(changes, perturbations.edges is not None)
        return changes

    def changes_by_row(self, perturbations: Perturbations) -> Tensor:
        """Return :meth:`changes` of every explained row by itself, [S, r]."""
        changes = self._differences(
            perturbations, lambda rows, labels: torch.stack([self.task.values(row, labels) for row in rows])
        )
        self._check_route(changes, perturbations.edges is not None)
        return changes

    def outputs(self, perturbations: Perturbations) -> Tensor:
        """Return the explained rows of the model's whole output on (X, A) and then on S samples, [1 + S, r, ...].

        All classes are in it, not only the explained one. They are in double precision and from one call of the model.
        """
        with torch.no_grad(), self._evaluating():
            return self._check_finite(self._rows_with_own(perturbations)).double()

    def _check_route(self, values: Tensor, moved: bool = True) -> None:
        """Raise a :class:`ModelError` if the model has stopped to read weights, which makes all ``values`` 0.

        A node without neighbours has such values, too. ``moved`` says whether they are of entries of A at all.
        """
        if not moved or self.route != "weight" or bool(values.any()):
            return
        with self._evaluating():
            if self.route == "weight" and not self.call.reads_weight():
                self._record.clear()
                raise ModelError(
                    f"{type(self.model).__name__} does not read edge_weight any more: something outside of it has "
                    "changed that it depends on. Explain again"
                )

    def _differences(self, perturbations: Perturbations, read: Callable[[Tensor, Tensor | None], Tensor]) -> Tensor:
        with torch.no_grad(), self._evaluating():
            values = self._check_finite(read(self._rows_with_own(perturbations), self.labels)).double()
        return values[0] - values[1:]

    def _rows_with_own(self, perturbations: Perturbations) -> Tensor:
        """Return the explained rows on (X, A) and then on S samples, [1 + S, r, ...]."""
        attributes = perturbations.attributes_with_own
        if len(perturbations) == 1 and perturbations.features is not None and attributes is None:
            rows = self._rows_of_single(perturbations)
            if rows is not None:
                return rows
        part, x, weight = self.computation_graph, perturbations.x_with_own, self.computation_graph.weight
        if perturbations.edges is not None:
            weight = perturbations.weight_with_own.to(part.weight.dtype)
        return self._rows_at(part.x if x is None else x, weight, self._own_rows, attributes=attributes)

    def _rows_of_single(self, sample: Perturbations) -> Tensor | None:
        """Return the explained rows on (X, A) and on one sample, [2, r, ...]; None if edges are removed from it.

        A graph is so large then that one sample is a chunk. The rows on (X, A) are computed once for all of them, by a
        call on a batch of one graph as for a sample, so that they are rounded alike.
        """
        part, x, weight = self.computation_graph, sample.x, sample.weight
        assert x is not None
        weight = part.weight if weight is None else weight.to(part.weight.dtype)
        if lacks_edges(self.call, weight):
            return None
        key = weight.dim() == 2, torch.is_grad_enabled()
        if key not in self._own_as_sample:
            own = part.weight.unsqueeze(0) if key[0] else part.weight
            self._own_as_sample[key] = self._rows_at(part.x.unsqueeze(0), own, self._own_rows)
        return torch.cat([self._own_as_sample[key], self._rows_at(x, weight, trusted=True)])

    def _rows_at(
        self,
        x: Tensor,
        weight: Tensor,
        first: Tensor | None = None,
        *,
        trusted: bool = False,
        attributes: Tensor | None = None,
    ) -> Tensor:
        """Return the explained rows of the model's output on S graphs, [S, r, ...].

        Graphs that lack edges are disjoint copies in one call; see :mod:`graphfaith.model.copies`. For others, the
        quickest way that works is taken: one call of the model's own forward with a leading dimension, which is
        believed if it gives on the first graph what the model gives on it alone; else vmap; else one graph after the
        other. ``first`` is the answer for the first graph, if it is known. ``trusted`` says that a batch of this shape
        was compared before.
        """
        if lacks_edges(self.call, weight):
            self.prove()
            if weight.dim() == 1:
                weight = weight.expand(len(x) if x.dim() == 3 or attributes is None else len(attributes), -1)
            return run_without_edges(self.call, self._record, x, weight, self.scale, attributes)
        way = find_batching(self.call, self._record)
        if way != "vmap":  # which it is for a model that is given edge attributes
            try:
                rows = self.call.batch(x, weight, trimmed=way == "trimmed")[:, self.call.rows]
            except Exception as error:  # what it raises on one graph as well is raised below
                _LOG.debug("%s cannot be called with one dimension more: %s", type(self.model).__name__, error)
            else:
                if trusted:
                    return rows
                if first is None:
                    first = self._rows_alone(x, weight)
                if is_close(rows[0].detach(), first, self.scale):
                    self._is_proven |= first is self._own_rows
                    return rows
            self.prove()  # It may be the part that is wrong, and not the batch.
            distrust(self.call, self._record)
        self.prove()
        dims = tuple(0 if _is_many(one, own) else None for one, own in ((x, 2), (weight, 1), (attributes, 2)))
        key = key_of(self._arguments)
        if key not in self._record.one_by_one:
            try:
                return self._rows_by_vmap(x, weight, attributes, dims)
            except Exception as error:
                _LOG.debug("%s cannot be batched: %s", type(self.model).__name__, error)
        points = _points(x, weight, attributes)
        rows = torch.stack([self.call(a, b, attributes=e)[self.call.rows] for a, b, e in points])
        self._record.one_by_one.add(key)  # only now, because what fails here too is no matter of batches
        return rows

    def _rows_alone(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the explained rows on the first of S graphs, computed by itself if it is not the unperturbed one."""
        part = self.computation_graph
        x, weight = (x[0] if x.dim() == 3 else x).detach(), (weight[0] if weight.dim() == 2 else weight).detach()
        if torch.equal(x, part.x) and torch.equal(weight, part.weight):
            return self._own_rows
        with torch.no_grad():
            return self._rows_of_one(x, weight)

    def _rows_of_one(self, x: Tensor, weight: Tensor, attributes: Tensor | None = None) -> Tensor:
        """Return the explained rows on one graph, with features [n, d], entries of A [e] and edge attributes [e, c]."""
        if lacks_edges(self.call, weight):
            return run_without_some(self.call, x, weight, attributes)
        return self.call(x, weight, attributes=attributes)[self.call.rows]

    def _rows_by_vmap(
        self, x: Tensor, weight: Tensor, attributes: Tensor | None, dims: tuple[int | None, ...]
    ) -> Tensor:
        if attributes is not None:
            each = vmap(lambda a, b, c: self.call(a, b, attributes=c, plain=True)[self.call.rows], dims)
            return each(x, weight, attributes)
        dims = dims[:2]
        if self.call.products is None or not self.call.products.dense:
            return vmap(lambda a, b: self.call(a, b)[self.call.rows], dims)(x, weight)
        matrix = self.call.products.matrix(weight)
        return vmap(lambda a, b, c: self.call(a, b, c)[self.call.rows], (*dims, dims[1]))(x, weight, matrix)

    def is_right_at(self, place: int, rows: Tensor) -> Tensor:
        """Return which of ``rows`` are the unperturbed output of the explained rows from ``place`` on, to rounding."""
        return are_close(rows, self._own_rows[place : place + len(rows)], self.scale)

    def gradient(self, x: Tensor | None = None, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the gradients of F with respect to X [n, d] and to A [e], at (X, A) or at another point.

        With a leading dimension S on either argument they are the means over the S points. Where a node has no
        weight left on its in-edges N(A) is not differentiable; there it is taken as constant.
        """
        _, dx, da = self.gradients(x, weight)
        count = next((len(given) for given, own in ((x, 2), (weight, 1)) if given is not None and given.dim() > own), 1)
        dx, da = self._check_finite(dx), self._check_finite(da)
        return (dx.sum(dim=0) if dx.dim() == 3 else dx) / count, (da.sum(dim=0) if da.dim() == 2 else da) / count

    def gradients(self, x: Tensor | None = None, weight: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return F at S points, [S], and its gradients there, [S, n, d] and [S, e].

        For an argument that the points share it is the sum of the gradients. F is checked to be finite, its gradients
        are not.
        """
        values, dx, da, _ = self._differentiate(x, weight, first=False)
        return values, dx, da

    def attribute_gradients(
        self, x: Tensor | None = None, weight: Tensor | None = None, attributes: Tensor | None = None
    ) -> Tensor | None:
        """Return F's gradients for edge attributes at S points, [S, e, c]; at one point [e, c]; None without any.

        For attributes that the points share it is the mean of the gradients. Where F cannot be differentiated it is 0.
        """
        own = self.computation_graph.attributes
        if own is None:
            return None
        with torch.inference_mode(False), torch.enable_grad(), self._evaluating():
            leaf = (own if attributes is None else self._check_attributes(attributes)).detach().requires_grad_()
            values = self(x, weight, leaf)
            slope = None
            if values.requires_grad:
                slope = torch.autograd.grad(values.sum(), leaf, allow_unused=True)[0]
        if slope is None:
            return torch.zeros_like(leaf.detach())
        shared = leaf.dim() == 2 and values.dim() == 1
        found = self._check_finite(slope.detach()) / (len(values) if shared else 1)
        return found * ((self.computation_graph.edge_id >= 0) & self.computation_graph.felt).unsqueeze(1)

    def gradients_and_first(self, weight: Tensor, count: int | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the sum of F's gradients for X at S points with entries of A [S, e], [n, d], and those for A, [S, e].

        Also returned are the gradient for X at the first point, which takes no other call of the model, and F at all
        points, [S]. If ``count`` is given, the gradients are those at as many points, the first ones.
        """
        values, dx, da, first = self._differentiate(None, weight, first=True, count=count)
        return dx, da, first, values

    @property
    def is_tiny(self) -> bool:
        """Whether a pass backwards through some more points takes less time than another call of the model.

        Then all messages are products with small matrices, and have a derivative where a node has no weight left.
        """
        return self.computation_graph.num_nodes <= _TINY and self.call.may_batch and self.call.is_convolutional

    def _differentiate(
        self, x: Tensor | None, weight: Tensor | None, *, first: bool, count: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        with torch.inference_mode(False), torch.enable_grad(), self._evaluating(), self.call.first_order():
            part = self.computation_graph
            a = (part.x if x is None else x.to(part.x.dtype)).detach().requires_grad_()
            b = (part.weight if weight is None else weight.to(part.weight.dtype)).detach().requires_grad_()
            values = self(a, b)
            total = (values if count is None else values[:count]).sum()
            # A model may hide its gradient, by torch.no_grad() for example.
            slopes: tuple[Tensor | None, ...] = (None, None)
            own: tuple[Tensor | None, ...] = (None,)
            if total.requires_grad:
                if first:
                    own = torch.autograd.grad(values[0], a, allow_unused=True, retain_graph=True)
                slopes = torch.autograd.grad(total, (a, b), allow_unused=True)
        given = zip((a, b, a), (*slopes, own[0]), strict=True)
        dx, da, dx_first = (torch.zeros_like(t) if g is None else g.detach() for t, g in given)
        if count is not None:
            b, da = b[:count], da[:count]
        if not math.isfinite(float(da.sum())):
            da = self._define(da, b.detach())
        self._check_route(da)
        # The outermost node represents all further nodes, so its features have no gradient. F does not read every loop.
        dx[..., part.num_visible :, :] = 0
        dx_first[..., part.num_visible :, :] = 0
        if not bool(part.felt.all()):
            da[..., ~part.felt] = 0
        return self._check_finite(values.detach()), dx, da, dx_first

    def _define(self, da: Tensor, weight: Tensor) -> Tensor:
        """Return gradients with respect to A with 0 where a node without in-weight has made them undefined."""
        sink = self.computation_graph.edge_index[1]
        degree = torch.zeros(*weight.shape[:-1], self.computation_graph.num_nodes, dtype=weight.dtype)
        degree.index_add_(-1, sink, weight * self.computation_graph.felt)
        return da.masked_fill((degree == 0)[..., sink] & torch.isnan(da), 0.0)

    def _check_finite(self, values: Tensor) -> Tensor:
        # The sum is finite only if every value is, and it is computed sooner than a truth value for each.
        if math.isfinite(float(values.sum())) or torch.isfinite(values).all():
            return values
        where = (~torch.isfinite(values)).nonzero()[0].tolist()
        raise ModelError(f"the model's output at {self.name}, or its gradient, is not finite (entry {where})")

    def weighed_by_masks(self, every_loop: bool) -> Tensor:
        """Return [e] the entries of A that have a place in PyG's explain masks.

        Layers that add self-loops leave them all at 1, unless ``every_loop`` was given with the edges.
        """
        part = self.computation_graph
        given = (part.edge_id >= 0) & part.felt
        return given if every_loop or not self.adds_loops else given & ~part.is_loop
