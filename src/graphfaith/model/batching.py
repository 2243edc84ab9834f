"""How a model can be called on many perturbed graphs at once.

``torch.func.vmap`` batches any forward, but pays for its own bookkeeping at every operation. Most forwards that consist
of graph convolutions and of functions of single numbers accept a leading dimension of samples unchanged, and much of
what they compute on a computation graph never reaches the explained rows. Whether a forward is of that kind cannot be
seen from outside. So it is tried once for each model, on a small graph that is made for this purpose: then the answer
does not depend on which node is explained first.

A forward that branches on its data would take one branch for all samples. vmap refuses to read a number out of a batch,
which a branch does, so a leading dimension is only used for what vmap can batch, too.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Graph
from .call import Call
from .readout import Readout
from .record import Batching, Key, Record, key_of

_LOG = logging.getLogger(__name__)
_SAMPLES = 3


def find_batching(call: Call, record: Record) -> Batching:
    """Return the quickest way to call a model on many graphs that gives what it gives on each of them alone.

    "whole" is :meth:`Call.batch`, "trimmed" is the same without what the explained rows do not need. It must be called
    inside :func:`~graphfaith.model.record.evaluating`, where the model matches its ``record``.
    """
    if not call.may_batch:
        return "vmap"
    key = _key(call)
    if key not in record.batching:
        record.batching[key] = _try_ways(call, record)
    way = record.batching[key]
    if way == "trimmed" and call.products is not None and call.products.near is None:
        return "whole"  # the nodes are not in the order of their distance
    return way


def distrust(call: Call, record: Record) -> None:
    """Leave the model of ``call`` to vmap from now on: it has given something else in a batch than alone."""
    record.batching[_key(call)] = "vmap"


def _key(call: Call) -> tuple[int, float | None, Key]:
    return call.part.num_hops, call.loop_weight, key_of(call.readout.kwargs)


def _try_ways(call: Call, record: Record) -> Batching:
    try:
        with torch.no_grad():
            ladder = _move_to_ladder(call, record)
            # A branch may depend on the size of the graph as well, and then be there on one of the two only.
            return _find_quickest(ladder) if _reads_no_number(call) and _reads_no_number(ladder) else "vmap"
    except Exception as error:  # the user's own forward may raise anything on a graph that is not its own
        _LOG.debug("%s cannot be tried on a graph made for it: %s", type(call.model).__name__, error)
        return "vmap"


def _reads_no_number(call: Call) -> bool:
    """Return whether vmap can batch the forward when features and entries of A differ between samples."""
    x, weight = (torch.stack([own, own]) for own in (call.part.x, call.part.weight))
    try:
        vmap(lambda a, b: call(a, b, plain=True), 0, randomness="same")(x, weight)
    except RuntimeError as error:
        _LOG.debug("%s reads a number out of its data: %s", type(call.model).__name__, error)
        return False
    return True


def _find_quickest(call: Call) -> Batching:
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
        return False  # an output that never changes proves nothing
    if way == "trimmed":
        if call.products.near is None:
            return False
        alone = alone[:, : call.products.near[0]]
    try:
        batched = call.batch(x, weight, trimmed=way == "trimmed")
    except Exception:  # a forward that cannot handle one more dimension may raise anything
        return False
    tolerance = 1e-9 if batched.dtype == torch.float64 else 1e-4
    scale = float(alone.abs().max())
    return batched.shape == alone.shape and torch.allclose(batched, alone, rtol=tolerance, atol=tolerance * scale)


def _move_to_ladder(call: Call, record: Record) -> Call:
    """Return the model's call on the computation graph of the end of a ladder, where every hop has its own nodes."""
    length = 2 * call.part.num_hops + 6
    low = torch.arange(length - 2)
    edge_index = torch.cat([torch.stack([low + 1, low]), torch.stack([low + 2, low]), torch.stack([low, low + 1])], 1)
    x = torch.randn(length, call.part.x.size(1), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x = x.to(call.part.x.dtype)
    graph = Graph(x, edge_index, None, call.readout.graph.flow)
    readout = Readout(call.task, graph, call.readout.kwargs, length, 0)
    part = ComputationGraph.around(graph, 0, call.part.num_hops, loop_weight=call.loop_weight)
    return Call(call.model, record, call.task, readout, part, call.loop_weight, "weight")


def vmap(
    function: Callable[..., Tensor], dims: int | tuple[int | None, ...], randomness: str = "error"
) -> Callable[..., Tensor]:
    """Return ``function`` for a batch of arguments, without torch's warning that an operation is slow in a batch."""

    def call_batched(*arguments: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")
            values: Tensor = torch.func.vmap(function, in_dims=dims, randomness=randomness)(*arguments)
            return values

    return call_batched
