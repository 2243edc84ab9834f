"""Properties of a model that its message-passing layers show, and removal of the masks that PyG leaves on them."""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric import nn
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import MessagePassing

from .._base.errors import ModelError
from .adapter import Adapter
from .record import modules_that

# These layers may use the in-degree of a message's receiver, but not the degree of its sender. Every other layer is
# assumed to normalise by the in-degrees of both ends. If that is wrong, the computation graph has one ring of edges
# more than needed, but never one less.
_NO_SOURCE_DEGREE = (
    nn.CGConv,
    nn.FastRGCNConv,
    nn.GATConv,
    nn.GATv2Conv,
    nn.GINConv,
    nn.GINEConv,
    nn.GraphConv,
    nn.HANConv,
    nn.HGTConv,
    nn.NNConv,
    nn.PNAConv,
    nn.RGCNConv,
    nn.ResGatedGraphConv,
    nn.SAGEConv,
    nn.TransformerConv,
)
_OUT_DEGREE = (nn.ChebConv,)
_WRAPPERS = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
_HETEROGENEOUS = (nn.HANConv, nn.HGTConv, nn.HeteroConv)

_LINEAR = (torch.nn.Linear, nn.Linear)

Degrees = Literal["none", "in", "out"]


def message_passing_layers(model: torch.nn.Module) -> list[MessagePassing]:
    """Return the layers of ``model`` that pass messages, in the order in which they are registered."""
    return modules_that(model, _passes_messages)


def _passes_messages(module: torch.nn.Module) -> bool:
    return isinstance(module, MessagePassing)


def _has_parameters(module: torch.nn.Module) -> bool:
    return bool(module._parameters)


def _is_heterogeneous(module: torch.nn.Module) -> bool:
    return _is_typed_dictionary(module) or isinstance(module, _HETEROGENEOUS)


def _is_typed_dictionary(module: torch.nn.Module) -> bool:
    # PyG's to_hetero replaces a layer by a dictionary with a layer for each edge type "source__relation__sink".
    return isinstance(module, torch.nn.ModuleDict) and any(str(key).count("__") >= 2 for key in module)


def count_hops(model: torch.nn.Module) -> int:
    """Return how many hops messages go if the layers are applied one after the other, each once.

    A layer with K rounds counts K times. Layers of several edge types are applied side by side.

    >>> from torch_geometric.nn import APPNP, GCN
    >>> count_hops(GCN(2, 4, num_layers=3)), count_hops(APPNP(K=10, alpha=0.1))
    (3, 10)
    """
    if heterogeneous_part(model) is None:
        return sum(_rounds(layer) for layer in message_passing_layers(model))
    return _count_typed(model, set())


def _count_typed(module: torch.nn.Module, seen: set[torch.nn.Module]) -> int:
    """Return how many hops messages go in a module, in which layers of several edge types are side by side."""
    if module in seen:
        return 0
    seen.add(module)
    if isinstance(module, MessagePassing):
        return _rounds(module)
    side_by_side = isinstance(module, nn.HeteroConv) or _is_typed_dictionary(module)
    counts = [
        _count_typed(part, seen)
        for part in (module.convs.values() if isinstance(module, nn.HeteroConv) else module.children())
    ]
    return max(counts, default=0) if side_by_side else sum(counts)


def _rounds(layer: MessagePassing) -> int:
    """Return how many hops messages go within one layer."""
    if isinstance(layer, nn.ChebConv):
        return len(layer.lins) - 1
    if isinstance(layer, (nn.ARMAConv, nn.GatedGraphConv)):
        return int(layer.num_layers)
    if isinstance(layer, nn.MixHopConv):
        return int(max(layer.powers))
    if isinstance(layer, (nn.APPNP, nn.SGConv, nn.SSGConv, nn.TAGConv)):
        return int(layer.K)
    return 1


def find_sender_degrees(model: torch.nn.Module) -> Degrees:
    """Return which degree of the sender at least one layer divides messages by, or is assumed to divide them by."""
    layers = message_passing_layers(model)
    if any(isinstance(layer, _OUT_DEGREE) for layer in layers):
        return "out"
    reads = not layers or any(
        not isinstance(layer, _NO_SOURCE_DEGREE) and getattr(layer, "normalize", True) for layer in layers
    )
    return "in" if reads else "none"


def heterogeneous_part(model: torch.nn.Module) -> str | None:
    """Return the part of ``model`` that makes it heterogeneous (several node or edge types); None if there is none.

    >>> from torch_geometric.nn import GCN, SAGEConv, to_hetero
    >>> heterogeneous_part(GCN(2, 4, num_layers=2)) is None
    True
    """
    for module in modules_that(model, _is_heterogeneous):
        return type(module).__name__ if isinstance(module, _HETEROGENEOUS) else "to_hetero"
    return None


def unwrap(model: torch.nn.Module) -> Any:
    """Return the model inside of a compiled model, of one for several devices, or of an adapter that takes tensors.

    The forward of these takes anything, and that of the model inside says what it really takes.
    """
    inner: Any = model
    while True:
        if hasattr(inner, "_orig_mod"):
            inner = inner._orig_mod
        elif isinstance(inner, _WRAPPERS):
            inner = inner.module
        elif isinstance(inner, Adapter) and inner.takes == "tensors":
            inner = inner.model
        else:
            return inner


def takes_edge_weight(model: torch.nn.Module) -> bool:
    """Return whether ``model.forward`` takes ``edge_weight``, by name or as **kwargs, and the model does not deny it.

    PyG's models deny it by ``supports_edge_weight = False``.
    """
    inner = unwrap(model)
    parameters = inspect.signature(inner.forward).parameters.values()
    named = any(p.name == "edge_weight" or p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters)
    return named and bool(getattr(inner, "supports_edge_weight", True))


def widest_layer(model: torch.nn.Module) -> int:
    """Return a guess at the width of the widest layer, from the shapes of parameters; at least 16.

    The width of a linear layer is that of its output. Its input is not counted, because it is stored once and not once
    for every edge.
    """
    width = 16
    for module in modules_that(model, _has_parameters):
        linear = isinstance(module, _LINEAR)
        for parameter in module._parameters.values():
            if parameter is not None and not is_lazy(parameter):
                width = max((width, *(parameter.shape[:1] if linear else parameter.shape)))
    return width


@contextmanager
def remove_masks_afterwards(model: torch.nn.Module) -> Iterator[None]:
    """Remove the explain masks and all other attributes that PyG has added to the layers of ``model`` in the block."""
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


def check_layers(model: torch.nn.Module, num_hops: int | None) -> list[Any]:
    """Return the message-passing layers of a model, after a check that none is cached and that the hops are known."""
    layers = message_passing_layers(model)
    for layer in layers:
        if getattr(layer, "cached", False):
            raise ModelError(
                f"{layer} was made with cached=True, so it ignores the edges it is given: set its `cached` to "
                "False (this does not change the weights)"
            )
    if not layers and num_hops is None:
        raise ModelError(
            f"{type(model).__name__} has no MessagePassing layer, so its hops cannot be counted: pass num_hops="
        )
    return layers


def mask_messages(model: torch.nn.Module, factors: Tensor, edge_index: Tensor, edge_type: Any = None) -> None:
    """Let every layer multiply its messages by ``factors``, one for each edge, until PyG's masks are cleared.

    ``edge_type`` are the types of the edges, if the model is called with some: RGCNConv passes the messages of one type
    after the other.
    """
    find_originals(message_passing_layers(model))
    set_masks(model, factors, edge_index, apply_sigmoid=False)
    for layer in message_passing_layers(model):
        if type(layer) is nn.RGCNConv and isinstance(edge_type, Tensor):
            mask_in_turn(layer, [factors[edge_type == kind] for kind in range(layer.num_relations)])


def find_originals(layers: Sequence[Any]) -> None:
    """Let PyG know the original ``propagate`` of the layers, which it masks messages in.

    PyG takes the compiled one of a parent class for the original, as that of RGCNConv for FastRGCNConv if a layer of
    the parent was made first. It knows no masks, and may have other arguments.
    """
    for kind in {type(layer) for layer in layers}:
        if _is_compiled(getattr(kind, "_orig_propagate", None)):
            own = (vars(parent).get("propagate") for parent in kind.__mro__)
            kind._orig_propagate = next(method for method in own if method is not None and not _is_compiled(method))


def _is_compiled(method: Any) -> bool:
    return method is not None and str(method.__module__).endswith("_propagate")


def mask_in_turn(layer: MessagePassing, masks: Sequence[Tensor]) -> None:
    """Let a layer that passes the messages of one edge type after the other multiply them by the mask of each.

    The method is an attribute of the layer, which is removed with PyG's masks.
    """
    turns = itertools.cycle(masks)

    def explain_message(_: Any, inputs: Tensor, dim_size: int | None) -> Tensor:  # noqa: ARG001
        return inputs * next(turns).view(-1, *[1] * (inputs.dim() - 1))

    layer.explain_message = types.MethodType(explain_message, layer)
    layer.explain = True
