"""F(X, A): which number of which model, on which graph, is explained; and F on many perturbed graphs at once."""

from __future__ import annotations

import inspect
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

from .checks import check_node
from .computation_graph import ComputationGraph, message_passing_layers, normalises_by_degree
from .errors import InputError, ModelError, UnsupportedError
from .graph import Graph

Route = Literal["weight", "mask"]

RETURN_TYPES = {
    "multiclass_classification": ("raw", "probs", "log_probs"),
    "binary_classification": ("raw", "probs"),
    "regression": ("raw",),
}
_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}

# How a model takes A does not change from node to node, so it is found out once a model.
_ROUTES: weakref.WeakKeyDictionary[torch.nn.Module, Route] = weakref.WeakKeyDictionary()


class Target:
    r"""The scalar :math:`F(X, A) = \{e_v^\top f(X, A)\}_y`, evaluated on the computation graph of node v.

    For classification F is the model's output for class ``label`` (the predicted class if None): a logit, a
    probability or a log-probability, whatever the model returns. For regression it is the output itself.

    A is the model's ``edge_weight`` if its forward takes one and its output depends on it; otherwise A multiplies
    the messages, as PyG's explain masks do. ``route`` says which. Entries of A are ordered as in
    ``computation_graph``, self-loops last.

    >>> from torch_geometric.nn import GCN
    >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> F = Target(GCN(2, 4, num_layers=2, out_channels=3), torch.rand(4, 2), ring, node=1, label=0)
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
        node: int,
        label: int | None = None,
        *,
        edge_weight: Tensor | None = None,
        num_hops: int | None = None,
        mode: str = "multiclass_classification",
        return_type: str = "raw",
        **kwargs: Any,
    ) -> None:
        if mode not in RETURN_TYPES:
            raise InputError(f"mode must be one of {', '.join(RETURN_TYPES)} (got {mode!r})")
        if return_type not in RETURN_TYPES[mode]:
            known = ", ".join(RETURN_TYPES[mode])
            raise InputError(f"return_type of a {mode} model must be one of {known} (got {return_type!r})")
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
        self.model, self.mode, self.return_type = model, mode, return_type
        self.graph = Graph.of(x, edge_index, edge_weight, layers[0].flow if layers else "source_to_target")
        self.num_hops = len(layers) if num_hops is None else num_hops
        node = check_node(node, self.graph.num_nodes)
        self._whole_kwargs = kwargs
        self._can_batch = True
        with evaluating(model), torch.no_grad():
            self._place(node)
            out = self._output(self.computation_graph.x, self.computation_graph.weight)
            self.output_shape = out.shape[1:]
            self.label = self._label(out, label)
            self.value = float(self._select(out))
        if not torch.isfinite(torch.tensor(self.value)):
            raise ModelError(f"the model's output at node {node} is {self.value}: it must be finite")

    # The computation graph --------------------------------------------------------------------------------------

    def _place(self, node: int) -> None:
        """Cut out the computation graph and check F on it against F on the whole graph."""
        whole = self.remembered("output", self._whole_output)
        self.scale = _largest(whole)
        degrees = normalises_by_degree(self.model)
        layers = message_passing_layers(self.model)
        added = [getattr(layer, "add_self_loops", False) for layer in layers]
        # GCNConv(improved=True) gives its loops a 2, but without weights a 1 as to any other edge.
        improved = self.graph.edge_weight is not None and any(getattr(layer, "improved", False) for layer in layers)
        # A model whose layers disagree about self-loops is explained without implied ones.
        for loop_weight in (2.0 if improved else 1.0, None) if added and all(added) else (None,):
            part = ComputationGraph.around(self.graph, node, self.num_hops, degrees=degrees, loop_weight=loop_weight)
            self.computation_graph = part
            self._prepare(part, loop_weight)
            self.route: Route = self._find_route()
            found, expected = self._output(part.x, part.weight)[0], whole[node]
            if self._agree(found, expected):
                return
            # What is remembered may be out of date in a way that leaves no trace, such as a write to p.data.
            self.graph.memory.pop(self.model, None)
            whole = self.remembered("output", self._whole_output)
            expected, self.scale = whole[node], _largest(whole)
            if self._agree(found, expected):
                return
        raise ModelError(
            f"the model's output at node {node} is {_short(expected)}, but {_short(found)} on its computation graph "
            f"of {self.num_hops} hops: its messages go further than it has layers, or it looks at the whole graph. "
            f"Pass a larger num_hops="
        )

    def _agree(self, found: Tensor, expected: Tensor) -> bool:
        tolerance = _TOLERANCE.get(found.dtype, 1e-2)
        return torch.allclose(found, expected, rtol=tolerance, atol=tolerance * self.scale, equal_nan=True)

    def remembered(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        """Something of the whole graph and this model, computed once while neither is written to."""
        state = (*self.model.parameters(), *self.model.buffers())
        stamp = (
            *((id(t), t._version) for t in state),
            *((k, id(v)) for k, v in sorted(self._whole_kwargs.items())),
        )
        memory = self.graph.memory.setdefault(self.model, {})
        if memory.get(name, (None,))[0] != stamp:
            memory[name] = (stamp, compute())
        found: Tensor = memory[name][1]
        return found

    def whole_arguments(self) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
        """What the model is called with on the whole graph."""
        kwargs = dict(self._whole_kwargs)
        if self.graph.edge_weight is not None:
            if not takes_edge_weight(self.model):
                raise ModelError(f"{type(self.model).__name__}.forward takes no edge_weight, but one was given")
            kwargs["edge_weight"] = self.graph.edge_weight
        return (self.graph.x, self.graph.edge_index), kwargs

    def _whole_output(self) -> Tensor:
        args, kwargs = self.whole_arguments()
        try:
            out = self.model(*args, **kwargs)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise ModelError(f"the model cannot be run on this graph: {' '.join(str(error).split())}") from error
        if not isinstance(out, Tensor) or out.dim() == 0 or out.size(0) != self.graph.num_nodes:
            got = f"shape {list(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
            raise UnsupportedError(
                f"the model must return one row for each of the {self.graph.num_nodes} nodes (got {got})"
            )
        return out

    def _prepare(self, part: ComputationGraph, loop_weight: float | None) -> None:
        """What the model is called with."""
        # Layers that add loops get every loop, last and in node order: PyG misplaces a mask otherwise. Others get
        # those that are there.
        self.adds_loops = loop_weight is not None
        self._read = None if self.adds_loops else part.felt.nonzero().view(-1)
        edges = part.edge_index if self._read is None else part.edge_index[:, self._read]
        self._edge_index = edges if self.graph.flow == "source_to_target" else edges.flip(0)
        self.kwargs = {key: self._part_of(key, value) for key, value in self._whole_kwargs.items()}

    def _part_of(self, name: str, value: Any) -> Any:
        nodes, edges = self.computation_graph.size
        if not isinstance(value, Tensor) or value.dim() == 0:
            return value
        if value.size(0) == nodes and not (name.startswith("edge") and value.size(0) == edges):
            return value[self.computation_graph.nodes]
        if value.size(0) == edges:
            raise UnsupportedError(f"{name} holds a value an edge: only edge_weight can be explained")
        return value

    def _find_route(self) -> Route:
        route: Route = _ROUTES.get(self.model, "mask")
        part = self.computation_graph
        if self.model not in _ROUTES and takes_edge_weight(self.model):
            self.route = "weight"
            with torch.enable_grad():
                weight = part.weight.detach().clone().requires_grad_()
                out = self._output(part.x, weight)
                read = out.requires_grad and torch.autograd.grad(out.sum(), weight, allow_unused=True)[0] is not None
            route = "weight" if read else "mask"
        if route == "mask" and self.graph.edge_weight is not None:
            raise ModelError(f"{type(self.model).__name__} ignores the edge_weight it is given")
        if route == "mask" and not message_passing_layers(self.model):
            raise ModelError(f"{type(self.model).__name__} ignores edge_weight and has no layer to mask")
        for layer in message_passing_layers(self.model) if route == "mask" else ():
            if layer.explain is False:
                raise ModelError(f"{layer} has explain=False, so its messages cannot be masked: set it to None")
        _ROUTES[self.model] = route
        return route

    # F --------------------------------------------------------------------------------------------------------

    def _output(self, x: Tensor, weight: Tensor) -> Tensor:
        """The model's output on the computation graph with features ``x`` [n, d] and A's entries ``weight`` [e]."""
        if self._read is not None:
            weight = weight[self._read]
        if self.route == "weight":
            out: Tensor = self.model(x, self._edge_index, edge_weight=weight, **self.kwargs)
            return out
        with unmasked_afterwards(self.model):
            set_masks(self.model, weight, self._edge_index, apply_sigmoid=False)
            masked: Tensor = self.model(x, self._edge_index, **self.kwargs)
            return masked

    def _label(self, out: Tensor, label: int | None) -> int | None:
        row = out[0]
        if self.mode == "multiclass_classification":
            if row.dim() != 1:
                raise UnsupportedError(f"a classifier must return [nodes, classes] (got {list(out.shape)})")
            if label is None:
                return int(row.argmax())
            if int(label) != label or not 0 <= label < len(row):
                raise InputError(f"class {label} is out of range: the model has classes 0 to {len(row) - 1}")
            return label
        if row.numel() != 1:
            raise UnsupportedError(f"a {self.mode} model must return one number a node (got {list(out.shape)})")
        if self.mode == "regression":
            return None
        if label is None:
            return int(float(row) > (0.5 if self.return_type == "probs" else 0.0))
        if label not in (0, 1):
            raise InputError(f"class {label} is out of range: a binary model has classes 0 and 1")
        return label

    def _select(self, out: Tensor) -> Tensor:
        row = out[0]
        if self.mode == "multiclass_classification":
            return row[self.label]
        row = row.reshape(())
        if self.mode == "regression" or self.label == 1:
            return row
        return 1 - row if self.return_type == "probs" else -row

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
                return self._select(self._output(x, weight))
            if self._can_batch:
                try:
                    with warnings.catch_warnings():
                        warnings.filterwarnings("ignore", message="There is a performance drop")
                        return torch.func.vmap(lambda a, b: self._select(self._output(a, b)), in_dims=dims)(x, weight)
                except RuntimeError:  # the model does something that cannot be batched, such as reading a value
                    self._can_batch = False
            count = len(x) if dims[0] == 0 else len(weight)
            xs = x if dims[0] == 0 else x.expand(count, *x.shape)
            weights = weight if dims[1] == 0 else weight.expand(count, -1)
            return torch.stack([self._select(self._output(a, b)) for a, b in zip(xs, weights, strict=True)])

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
        node = int(self.computation_graph.nodes[0])
        raise ModelError(f"the model's output at node {node}, or its gradient, is not finite (entry {where})")

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


def takes_edge_weight(model: torch.nn.Module) -> bool:
    """Whether ``model.forward`` has a parameter called ``edge_weight`` that the model says it uses."""
    named = "edge_weight" in inspect.signature(model.forward).parameters
    return named and bool(getattr(model, "supports_edge_weight", True))


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Put ``model`` in eval mode and leave every module as it was found."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def unmasked_afterwards(model: torch.nn.Module) -> Iterator[None]:
    """Leave no explain mask on ``model``, nor anything else that PyG puts on its layers to apply one."""
    layers = message_passing_layers(model)
    names = [set(vars(layer)) for layer in layers]
    try:
        yield
    finally:
        for layer in layers:
            layer._parameters.pop("_edge_mask", None)
        clear_masks(model)
        for layer, before in zip(layers, names, strict=True):
            for name in set(vars(layer)) - before:
                delattr(layer, name)


def _largest(values: Tensor) -> float:
    """The largest finite magnitude."""
    return float(values.detach().nan_to_num(0.0, 0.0, 0.0).abs().max())


def _short(values: Tensor) -> str:
    flat = values.detach().reshape(-1)[:4].tolist()
    return "[" + ", ".join(f"{v:.4g}" for v in flat) + (", ...]" if values.numel() > 4 else "]")
