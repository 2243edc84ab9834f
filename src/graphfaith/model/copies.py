"""The model on graphs that lack edges: disjoint copies of a part, each without its own edges, in one call.

On a route without edge weights a factor of 0 silences a message, but the softmax of an attention layer and the mean of
an aggregation still count it. Only a graph without the edge shows what the model computes without it.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any

import torch
from torch import Tensor

from .._base.errors import GraphfaithError, ModelError, UnsupportedError, describe_error
from .call import Call, as_rows
from .layers import unwrap
from .readout import ATTRIBUTES
from .record import Record, key_of
from .whole import is_close

_LOG = logging.getLogger(__name__)
_CHECKED = 4  # copies that are run alone before a model is given copies for the first time


def removable_entries(call: Call) -> Tensor:
    """Return the entries of A that can be removed, [e].

    A self-loop that a layer adds cannot be removed, because the layer would add it again: its entry of A multiplies
    its message, also if the entry is 0.
    """
    return call.part.felt if call.loop_weight is None else ~call.part.is_loop


def lacks_edges(call: Call, weight: Tensor) -> bool:
    """Return whether any of the graphs with these entries of A, [e] or [S, e], is read as one without some edges."""
    return call.route == "removal" and bool(((weight.detach() == 0) & removable_entries(call)).any())


def run_without_edges(
    call: Call, record: Record, x: Tensor, weight: Tensor, scale: float, attributes: Tensor | None = None
) -> Tensor:
    """Return the explained rows on S graphs that lack edges, [S, r, ...], from one call on copies if that is right.

    Copies may have an effect on each other: through a norm over all nodes, a virtual node, a maximum. So some graphs
    are also run alone, four for the first time and then the one in the middle of the copies. If the model gives other
    rows there than on the copy, it is run on one graph after the other.
    """
    key = key_of(call.readout.kwargs)
    weight = weight.expand(len(x), -1) if weight.dim() == 1 else weight
    xs = x if x.dim() == 3 else x.expand(len(weight), *x.shape)
    count = len(weight)
    others = [attributes if attributes is None or attributes.dim() == 2 else attributes[s] for s in range(count)]
    if count > 1 and record.copies.get(key, True):
        try:
            rows = _run_on_copies(call, x, weight, attributes)
        except Exception as error:  # the user's own forward may raise anything on copies of its graph
            _LOG.debug("%s cannot be run on copies of a graph: %s", type(call.model).__name__, error)
        else:
            places = {count // 2} if key in record.copies else {count * k // _CHECKED for k in range(_CHECKED)}
            with torch.no_grad():
                points = {place: x if x.dim() == 2 else xs[place] for place in places}
                alone = {i: run_without_some(call, one, weight[i], others[i]) for i, one in points.items()}
            if all(is_close(rows[place].detach(), row, scale) for place, row in alone.items()):
                record.copies[key] = True
                return rows
    rows = torch.stack([run_without_some(call, a, b, c) for a, b, c in zip(xs, weight, others, strict=True)])
    if count > 1:
        record.copies[key] = False  # only now, because what fails here too is no matter of copies
    return rows


def run_without_some(call: Call, x: Tensor, weight: Tensor, attributes: Tensor | None = None) -> Tensor:
    """Return the explained rows on one graph, [r, ...], without the edges whose entry of ``weight`` [e] is 0."""
    try:
        return _run_on_copies(call, x, weight.unsqueeze(0), attributes)[0]
    except GraphfaithError:
        raise
    except Exception as error:  # the user's own forward may raise anything on a graph with few edges or none
        raise ModelError(
            f"the model cannot be run on a graph without some of its edges: {describe_error(error)}. With "
            'edges="mask" edges stay in the graph, and only their messages are silenced'
        ) from error


def left_entries(call: Call, weight: Tensor) -> Tensor:
    """Return which entries of A the model is given, [e] or [S, e], when those whose ``weight`` is 0 are removed."""
    given = call.part.felt | (call.loop_weight is not None)
    return given & ~((weight.detach() == 0) & removable_entries(call))


def output_without_some(call: Call, x: Tensor, weight: Tensor) -> Tensor:
    """Return the model's whole output on one graph without the edges whose entry of ``weight`` [e] is 0."""
    return _output_on_copies(call, x, weight.unsqueeze(0))[0]


def _run_on_copies(call: Call, x: Tensor, weight: Tensor, attributes: Tensor | None = None) -> Tensor:
    """Return the explained rows of the model's output on S graphs, [S, r, ...], from one call on disjoint copies."""
    out, rows = _output_on_copies(call, x, weight, attributes)
    out = out[rows]
    return out.view(len(weight), -1, *out.shape[1:])


def _output_on_copies(call: Call, x: Tensor, weight: Tensor, attributes: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the model's output on disjoint copies of the graph, and the explained rows of it.

    Entries of ``weight`` [S, e] that are 0 are removed from the graph, the others multiply the messages. ``x`` is
    [S, n, d], or [n, d] if the graphs share it; and so are edge attributes, [S, e, c] or [e, c], if they are others.
    """
    part, count = call.part, len(weight)
    kept = left_entries(call, weight)
    # The loops of all copies come last, in node order, for layers that add loops; see Call.
    plain, loops = kept[:, : part.num_plain].nonzero(), kept[:, part.num_plain :].nonzero()
    loops[:, 1] += part.num_plain
    sample, entry = torch.cat([plain, loops]).unbind(1)
    edge_index = call.edges_at(entry) + sample * part.num_nodes
    rows, kwargs = _rows_and_arguments(call, entry, count)
    if attributes is not None:
        kwargs[ATTRIBUTES] = call.shape_attributes(
            attributes[entry] if attributes.dim() == 2 else attributes[sample, entry]
        )
    # Features that all graphs share are copied where the model lives, unless they have another form.
    shared = call.kept(x) if part.shape is None else x
    x = shared.repeat(count, 1) if x.dim() == 2 else x.reshape(count * part.num_nodes, -1)
    factors = weight[sample, entry]
    silent = not factors.requires_grad and bool((factors == 1).all())
    return as_rows(call.run(x, edge_index, kwargs, None if silent else factors), call.task), rows


def _rows_and_arguments(call: Call, places: Tensor, count: int) -> tuple[Tensor, dict[str, Any]]:
    """Return the explained rows of all copies, and the model's keyword arguments for them."""
    readout = call.readout
    if count > 1 and readout.kind == "other":
        raise UnsupportedError("it is not known which rows of the output belong to which copy of the graph")
    kwargs = readout.arguments_of_copies(call.part, places, call.loop_weight, count)
    if count > 1 and readout.kind == "graph" and kwargs.get("batch") is None:
        if "batch" not in inspect.signature(unwrap(call.model).forward).parameters:
            raise UnsupportedError("the model takes no batch, so that it cannot tell copies of a graph apart")
        kwargs["batch"] = torch.arange(count).repeat_interleave(call.part.num_nodes)
    starts = readout.count_rows(call.part) * torch.arange(count)
    return (call.rows + starts.unsqueeze(1)).view(-1), kwargs
