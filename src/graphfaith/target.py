"""F(X, A): which number of which model, on which graph, is explained; and F on many perturbed graphs at once."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .call import Call, Edges, Route, as_rows, check_edges
from .checks import check_count
from .computation_graph import ComputationGraph
from .errors import InputError, ModelError, ReachWarning, UnsupportedError
from .graph import Graph
from .layers import (
    Degrees,
    counted_hops,
    degrees_read,
    evaluating,
    message_passing_layers,
    takes_edge_weight,
)
from .memory import parse_memory, room_for_chunks
from .readout import Readout
from .task import Index, Task

_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}
_SEARCHED = 16  # hops that are tried beyond a reach that is too short, to say which would be right

# The reach of a model is looked at once.
_REACHES_SEEN: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()


class Target:
    r"""The scalar :math:`F(X, A) = \{e^\top f(X, A)\}_y`, evaluated on the computation graph of what it is read from.

    For classification F is the model's output for class ``label`` (the predicted class if None): a logit, a
    probability or a log-probability, whatever the model returns. For regression it is the output itself. ``index``
    names rows of the output (None is all of them); F is the sum over them. A row is a node, a pair of nodes
    (``level="edge"``, with the pairs in ``edge_label_index``) or a graph of a ``batch``.

    A is the model's ``edge_weight`` if its forward takes one and its output depends on it; otherwise A multiplies
    the messages, as PyG's explain masks do. ``route`` says which; ``edges`` forces one. Entries of A are ordered as
    in ``computation_graph``, self-loops last.

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
        **kwargs: Any,
    ) -> None:
        self.model, self.task = model, Task(mode, return_type, level)
        self.max_memory = parse_memory(max_memory)
        self._edges = check_edges(edges)
        layers = _checked_layers(model, num_hops)
        self.num_hops = max(1, counted_hops(model)) if num_hops is None else check_count(num_hops, "num_hops")
        if edges == "mask" and edge_weight is not None:  # then A multiplies messages, and weights are as any attribute
            kwargs["edge_weight"], edge_weight = edge_weight, None
        self._weighted = edge_weight is not None or kwargs.get("edge_weight") is not None
        self.graph = Graph.of(x, edge_index, edge_weight, layers[0].flow if layers else "source_to_target")
        if level == "node" and index is not None:
            self.task.rows(index, self.graph.num_nodes)  # a node that is not there is found before the model runs
        self._whole_kwargs = kwargs
        self._can_batch = True
        self._check_whole_fits()
        with evaluating(model), torch.no_grad():
            whole = self.remembered("output", self._whole_output)
            self.readout = Readout(self.task, self.graph, kwargs, len(whole), index)
            self._place()
            explained = self.call.output[self.call.rows]
            self.labels = self.task.labels(explained, self._label_of(label, len(whole)))
            self.value = float(self.task.value(explained, self.labels))
            self._check_reach()
        if not torch.isfinite(torch.tensor(self.value)):
            raise ModelError(f"the model's output at {self.name} is {self.value}: it must be finite")

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

    def _label_of(self, label: int | Tensor | None, count: int) -> int | Tensor | None:
        """Labels of the explained rows, of labels for every row of the output (or one for all)."""
        if not isinstance(label, Tensor) or label.dim() == 0:
            return label
        if len(label) != count:
            raise InputError(f"there must be a class for each of the {count} rows of the output (got {len(label)})")
        return label[self.readout.rows]

    # The computation graph --------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Cut out the computation graph and check F on it against F on the whole graph."""
        if not self.readout.reads_whole_graph:
            if self._try(self.num_hops):
                return
            # What is remembered may be out of date in a way that leaves no trace, such as a write to p.data.
            self.graph.memory.pop(self.model, None)
            if self._try(self.num_hops):
                return
            self._raise_if_reach_is_longer()
        for loop_weight in self._loop_weights():
            if self._fits(
                ComputationGraph.whole(self.graph, self.readout.seeds, self.num_hops, loop_weight=loop_weight),
                loop_weight,
            ):
                return
        raise ModelError(
            f"the model's output at {self.name} changes from one call to the next, or depends on the order of edges: "
            "it cannot be explained"
        )

    def _try(self, num_hops: int) -> bool:
        """Whether F on a computation graph of so many hops is F on the whole graph; it is kept if so."""
        own = degrees_read(self.model)
        options: tuple[Degrees, ...] = (own,) if own == "out" else (own, "out")
        for degrees in options:
            for loop_weight in self._loop_weights():
                part = ComputationGraph.around(
                    self.graph,
                    self.readout.seeds,
                    num_hops,
                    degrees=degrees == "in",
                    out_degrees=degrees == "out",
                    loop_weight=loop_weight,
                )
                if self._fits(part, loop_weight):
                    return True
        return False

    def _loop_weights(self) -> tuple[float | None, ...]:
        layers = message_passing_layers(self.model)
        added = [getattr(layer, "add_self_loops", False) for layer in layers]
        # GCNConv(improved=True) gives its loops a 2, but without weights a 1 as to any other edge.
        improved = self._weighted and any(getattr(layer, "improved", False) for layer in layers)
        # A model whose layers disagree about self-loops is explained without implied ones.
        return (2.0 if improved else 1.0, None) if added and all(added) else (None,)

    def _fits(self, part: ComputationGraph, loop_weight: float | None) -> bool:
        """Whether F on ``part`` is F on the whole graph; it is kept, fit or not."""
        self.computation_graph = part
        self.call = Call(self.model, self.task, self.readout, part, loop_weight, self._edges)
        whole = self.remembered("output", self._whole_output)
        self.scale = _largest(whole)
        found, expected = self.call.output[self.call.rows], whole[self.readout.rows]
        tolerance = _TOLERANCE.get(found.dtype, 1e-2)
        return torch.allclose(found, expected, rtol=tolerance, atol=tolerance * self.scale, equal_nan=True)

    @property
    def route(self) -> Route:
        """Whether A is the model's edge weight ("weight") or multiplies its messages ("mask")."""
        return self.call.route

    @property
    def adds_loops(self) -> bool:
        """Whether the model's layers add self-loops, which are then entries of A."""
        return self.call.loop_weight is not None

    def _raise_if_reach_is_longer(self) -> None:
        """Find out whether more hops would do, and say how many."""
        nodes = self.computation_graph.num_nodes
        for hops in range(self.num_hops + 1, self.num_hops + 1 + _SEARCHED):
            if self._try(hops):
                raise ModelError(
                    f"messages of {type(self.model).__name__} go further than {self.num_hops} hops: its output at "
                    f"{self.name} is the same as on the whole graph from {hops} hops on. Pass num_hops={hops}"
                )
            if self.computation_graph.num_nodes == nodes:
                return  # there is nothing further out: the model looks at the whole graph
            nodes = self.computation_graph.num_nodes

    def _check_reach(self) -> None:
        """Warn, once a model, if features of the outermost hop cannot matter: the reach is shorter than thought."""
        part = self.computation_graph
        ring = part.hop[: part.num_visible]
        # A layer may divide what a node sends by its in-degree, and so by nothing if none goes in.
        heard = torch.zeros(part.num_nodes, dtype=torch.bool)
        heard[part.edge_index[1][part.felt]] = True
        outermost = (ring == self.num_hops) & (heard[: part.num_visible] | (degrees_read(self.model) == "none"))
        if _REACHES_SEEN.get(self.model) == self.num_hops or not bool(outermost.any()):
            return
        _REACHES_SEEN[self.model] = self.num_hops
        generator = torch.Generator().manual_seed(0)
        felt = 0
        for _ in range(2):  # a feature that is 0 or a unit that is dead may hide a path; random features do not
            with torch.enable_grad():
                x = (
                    torch.randn(part.x.shape, generator=generator, dtype=torch.float64)
                    .to(part.x.dtype)
                    .requires_grad_()
                )
                out = self.call(x, torch.ones_like(part.weight))[self.call.rows]
                out = (out * torch.randn(out.shape, generator=generator).to(out.dtype)).sum()
                if not out.requires_grad:
                    return
                (gradient,) = torch.autograd.grad(out, x, allow_unused=True)
            if gradient is not None:
                seen = (gradient[: part.num_visible] != 0).any(dim=1)
                felt = max([felt, *ring[seen].tolist()])
        if 0 < felt < self.num_hops:
            warnings.warn(
                f"messages of {type(self.model).__name__} seem to go {felt} hops, not {self.num_hops}: pass "
                f"num_hops={felt} for a smaller computation graph and a better fit",
                ReachWarning,
                stacklevel=3,
            )

    # The whole graph --------------------------------------------------------------------------------------------

    def remembered(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        """Something of the whole graph and this model, computed once while neither is written to."""
        state = (*self.model.parameters(), *self.model.buffers())
        stamp = (
            *((id(t), t._version) for t in state),
            *((k, id(v), getattr(v, "_version", 0)) for k, v in sorted(self._whole_kwargs.items())),
        )
        memory = self.graph.memory.setdefault(self.model, {})
        if memory.get(name, (None,))[0] != stamp:
            memory[name] = (stamp, compute())
        found: Tensor = memory[name][1]
        return found

    def whole_arguments(self) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
        """What the model is called with on the whole graph."""
        kwargs = dict(self._whole_kwargs)
        if self._weighted and not takes_edge_weight(self.model):
            raise ModelError(f"{type(self.model).__name__}.forward takes no edge_weight, but one was given")
        if self.graph.edge_weight is not None:
            kwargs["edge_weight"] = self.graph.edge_weight
        return (self.graph.x, self.graph.edge_index), kwargs

    def _whole_output(self) -> Tensor:
        args, kwargs = self.whole_arguments()
        try:
            out = self.model(*args, **kwargs)
        except Exception as error:  # whatever the user's own forward may raise
            raise ModelError(
                f"the model cannot be run on this graph: {type(error).__name__}: {' '.join(str(error).split())}"
            ) from error
        if not isinstance(out, Tensor):
            raise UnsupportedError(f"the model must return one tensor (got {type(out).__name__})")
        return as_rows(out, self.task)

    # Memory -----------------------------------------------------------------------------------------------------

    def _check_whole_fits(self) -> None:
        """The model runs on the whole graph once: see that this, and the index of its edges, is allowed."""
        graph = self.graph
        numbers = 8 * graph.num_edges + 4 * graph.num_nodes + 3 * self.width() * (graph.num_edges + graph.num_nodes)
        room_for_chunks(self.max_memory, 8 * numbers, 0, f"running the model once on {graph.num_nodes} nodes")

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
            if self._can_batch:
                try:
                    with warnings.catch_warnings():
                        warnings.filterwarnings("ignore", message="There is a performance drop")
                        return torch.func.vmap(lambda a, b: self._value(self.call(a, b)), in_dims=dims)(x, weight)
                except RuntimeError:  # the model does something that cannot be batched, such as reading a value
                    self._can_batch = False
            count = len(x) if dims[0] == 0 else len(weight)
            xs = x if dims[0] == 0 else x.expand(count, *x.shape)
            weights = weight if dims[1] == 0 else weight.expand(count, -1)
            return torch.stack([self._value(self.call(a, b)) for a, b in zip(xs, weights, strict=True)])

    def evaluate(self, x: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """F of S perturbed graphs, [S], checked to be finite and without a record for autograd."""
        with torch.no_grad():
            return self._finite(self(x, weight))

    def gradient(self, x: Tensor | None = None, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The gradients of F with respect to X [n, d] and to A [e], at (X, A) or at another point.

        With a leading dimension S on either argument they are the means over the S points. Where a node has no
        weight left on its in-edges N(A) is not differentiable; there it is taken as constant.
        """
        part = self.computation_graph
        with torch.inference_mode(False), torch.enable_grad():
            a = (part.x if x is None else x.to(part.x.dtype)).detach().clone().requires_grad_()
            b = (part.weight if weight is None else weight.to(part.weight.dtype)).detach().clone().requires_grad_()
            found = torch.autograd.grad(self(a, b).mean(), (a, b), allow_unused=True)
        dx, da = (torch.zeros_like(t) if g is None else g.detach() for t, g in zip((a, b), found, strict=True))
        dx = dx.sum(dim=0) if dx.dim() == 3 else dx
        da = self._defined(da, b.detach())
        da = da.sum(dim=0) if da.dim() == 2 else da
        # The outermost node only stands for others, and F does not read every loop.
        dx[part.num_visible :] = 0
        da[~part.felt] = 0
        return self._finite(dx), self._finite(da)

    def _defined(self, da: Tensor, weight: Tensor) -> Tensor:
        """Gradients with respect to A where a node without in-weight has made them undefined."""
        if not torch.isnan(da).any():
            return da
        sink = self.computation_graph.edge_index[1]
        degree = torch.zeros(*weight.shape[:-1], self.computation_graph.num_nodes, dtype=weight.dtype)
        degree.index_add_(-1, sink, weight * self.computation_graph.felt)
        return da.masked_fill((degree == 0)[..., sink] & torch.isnan(da), 0.0)

    def _finite(self, values: Tensor) -> Tensor:
        if torch.isfinite(values).all():
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
        """A guess at the widest layer, from the model's parameters; it only sizes chunks."""
        return max([16, *(p.size(0) for p in self.model.parameters() if p.dim() == 1)])


def _checked_layers(model: torch.nn.Module, num_hops: int | None) -> list[Any]:
    layers = message_passing_layers(model)
    for layer in layers:
        if getattr(layer, "cached", False):
            raise ModelError(
                f"{layer} was made with cached=True, so it ignores the edges it is given: set its `cached` to "
                "False (the weights stay as they are)"
            )
    if not layers and num_hops is None:
        raise ModelError(
            f"{type(model).__name__} has no MessagePassing layer to count: pass num_hops=, how far its messages go"
        )
    return layers


def _largest(values: Tensor) -> float:
    """The largest finite magnitude."""
    return float(values.detach().nan_to_num(0.0, 0.0, 0.0).abs().max())
