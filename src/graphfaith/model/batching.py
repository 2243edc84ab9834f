"""How a model can be called on many perturbed graphs at once.

``torch.func.vmap`` batches any forward, at the price of its own bookkeeping at every operation. Most forwards made of
graph convolutions and functions of single numbers take a leading dimension of samples as it is, and much of what they
compute on a computation graph never reaches the explained rows. Neither can be seen from outside, so it is tried: once
a model, on a small graph made for that, so that the way does not depend on which node was explained first.
"""

from __future__ import annotations

import logging
import warnings
import weakref
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Graph
from .call import Call
from .layers import evaluating, modules_of, state_of
from .readout import Readout

Batching = Literal["vmap", "whole", "trimmed"]

_LOG = logging.getLogger(__name__)
_SAMPLES = 3
# With what the model was when it was tried: its modules and parameters may have changed since.
_KNOWN: weakref.WeakKeyDictionary[torch.nn.Module, tuple[tuple[object, ...], Batching]] = weakref.WeakKeyDictionary()


def batching_of(call: Call) -> Batching:
    """The quickest way to call the model of ``call`` on many graphs that gives what it gives on each alone.

    "whole" is :meth:`Call.batch`, "trimmed" the same with no more than the explained rows need.
    """
    if not call.may_batch:
        return "vmap"
    state = ((id(tensor), tensor._version) for tensor in state_of(call.model))
    stamp = (call.part.num_hops, call.loop_weight, *map(id, modules_of(call.model)), *state)
    known = _KNOWN.get(call.model)
    if known is None or known[0] != stamp:
        known = stamp, _tried(call)
        _KNOWN[call.model] = known
    if known[1] == "trimmed" and call.products is not None and call.products.near is None:
        return "whole"  # nodes are not in the order of their distance
    return known[1]


def distrust(call: Call) -> None:
    """Leave the model of ``call`` to vmap from now on: it has given something else in a batch than alone."""
    known = _KNOWN.get(call.model)
    if known is not None:
        _KNOWN[call.model] = known[0], "vmap"


def _tried(call: Call) -> Batching:
    try:
        with evaluating(call.model), torch.no_grad():
            return _quickest(_on_a_ladder(call))
    except Exception as error:  # whatever the user's own forward may raise on a graph that is not its own
        _LOG.debug("%s cannot be tried on a graph made for it: %s", type(call.model).__name__, error)
        return "vmap"


def _quickest(call: Call) -> Batching:
    generator = torch.Generator().manual_seed(0)
    part = call.part
    weight = torch.rand(_SAMPLES, part.num_edges, generator=generator, dtype=torch.float64).to(part.weight.dtype)
    moved = torch.randn(_SAMPLES, *part.x.shape, generator=generator, dtype=torch.float64).to(part.x.dtype)
    ways: tuple[Batching, ...] = ("trimmed", "whole")
    for way in ways:
        if all(_agrees(call, x, w, way) for x, w in ((part.x, weight), (moved, part.weight), (moved, weight))):
            return way
    return "vmap"


def _agrees(call: Call, x: Tensor, weight: Tensor, way: Batching) -> bool:
    assert call.products is not None
    alone = torch.stack(
        [
            call(x[s] if x.dim() == 3 else x, weight[s] if weight.dim() == 2 else weight, plain=True)
            for s in range(_SAMPLES)
        ]
    )
    if bool((alone == alone[0]).all()):
        return False  # an answer that never changes shows nothing
    if way == "trimmed":
        if call.products.near is None:
            return False
        alone = alone[:, : call.products.near[0]]
    try:
        found = call.batch(x, weight, trimmed=way == "trimmed")
    except Exception:  # a forward that does not know what to do with one dimension more
        return False
    tolerance = 1e-9 if found.dtype == torch.float64 else 1e-4
    scale = float(alone.abs().max())
    return found.shape == alone.shape and torch.allclose(found, alone, rtol=tolerance, atol=tolerance * scale)


def _on_a_ladder(call: Call) -> Call:
    """The model on the computation graph of the end of a ladder, on which every hop has nodes of its own."""
    length = 2 * call.part.num_hops + 6
    low = torch.arange(length - 2)
    edge_index = torch.cat([torch.stack([low + 1, low]), torch.stack([low + 2, low]), torch.stack([low, low + 1])], 1)
    x = torch.randn(length, call.part.x.size(1), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x = x.to(call.part.x.dtype)
    graph = Graph(x, edge_index, None, call.readout.graph.flow)
    readout = Readout(call.task, graph, call.readout.kwargs, length, 0)
    part = ComputationGraph.around(graph, 0, call.part.num_hops, loop_weight=call.loop_weight)
    return Call(call.model, call.task, readout, part, call.loop_weight, "weight")


def is_first(own: Tensor, points: Tensor) -> bool:
    """Whether ``own`` is the first of some points, or the only one."""
    return torch.equal(own, points if points.dim() == own.dim() else points[0])


def vmap(function: Callable[..., Tensor], dims: int | tuple[int | None, ...]) -> Callable[..., Tensor]:
    """``function`` for a batch of arguments, without the remark that some operation is slow in a batch."""

    def batched(*arguments: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")
            found: Tensor = torch.func.vmap(function, in_dims=dims)(*arguments)
            return found

    return batched
