"""The model on graphs that lack edges: disjoint copies of a part, each without its own edges, in one call.

On a route without edge weights a factor of 0 silences a message, but the softmax of an attention layer and the mean of
an aggregation still count it. Only a graph without the edge shows what the model computes without it.
"""

from __future__ import annotations

import inspect
import logging

import torch
from torch import Tensor
from torch_geometric.explain.algorithm.utils import set_masks

from .._base.errors import UnsupportedError
from .call import Call, as_rows
from .layers import remove_masks_afterwards
from .placement import is_close
from .record import Record, key_of

_LOG = logging.getLogger(__name__)


def removable_entries(call: Call) -> Tensor:
    """Return the entries of A that can be removed, [e].

    A self-loop that a layer adds cannot be removed, because the layer would add it again: its entry of A multiplies
    its message, also if the entry is 0.
    """
    return call.part.felt if call.loop_weight is None else ~call.part.is_loop


def lacks_edges(call: Call, weight: Tensor) -> bool:
    """Return whether any of the graphs with these entries of A, [e] or [S, e], is read as one without some edges."""
    return call.route == "removal" and bool(((weight.detach() == 0) & removable_entries(call)).any())


def run_without_edges(call: Call, record: Record, x: Tensor, weight: Tensor, own: Tensor, scale: float) -> Tensor:
    """Return the explained rows on S graphs that lack edges, [S, r, ...], from one call on copies if that is right.

    The unperturbed graph, whose rows ``own`` are known, is added as the last copy. If the model gives other rows there,
    copies have an effect on each other or on their order, and the model is run on one graph after the other.
    """
    key, part = key_of(call.readout.kwargs), call.part
    weight = weight.expand(len(x), -1) if weight.dim() == 1 else weight
    xs = x if x.dim() == 3 else x.expand(len(weight), *x.shape)
    if key not in record.no_copies:
        moved = x if x.dim() == 2 and torch.equal(x.detach(), part.x) else torch.cat([xs, part.x.unsqueeze(0)])
        try:
            rows = run_on_copies(call, moved, torch.cat([weight, part.weight.unsqueeze(0).to(weight.dtype)]))
        except Exception as error:  # the user's own forward may raise anything on copies of its graph
            _LOG.debug("%s cannot be run on copies of a graph: %s", type(call.model).__name__, error)
        else:
            if is_close(rows[-1].detach(), own, scale):
                return rows[:-1]
    rows = torch.cat([run_on_copies(call, a, b.unsqueeze(0)) for a, b in zip(xs, weight, strict=True)])
    record.no_copies.add(key)  # only now, because what fails here too is no matter of copies
    return rows


def run_on_copies(call: Call, x: Tensor, weight: Tensor) -> Tensor:
    """Return the explained rows of the model's output on S graphs, [S, r, ...], from one call on disjoint copies.

    Entries of ``weight`` [S, e] that are 0 are removed from the graph, the others multiply the messages. ``x`` is
    [S, n, d], or [n, d] if the graphs share it. The caller must verify that copies have no effect on each other.
    """
    part, count = call.part, len(weight)
    kept = part.felt | (call.loop_weight is not None)
    kept = kept & ~((weight.detach() == 0) & removable_entries(call))
    if call.loop_weight is None:
        sample, entry = kept.nonzero().unbind(1)
    else:  # Layers that add self-loops are given every loop, last and in node order; see Call.
        plain, loops = kept[:, : part.num_plain].nonzero(), kept[:, part.num_plain :].nonzero()
        loops[:, 1] += part.num_plain
        sample, entry = torch.cat([plain, loops]).unbind(1)
    edge_index = call.edges_at(entry) + sample * part.num_nodes
    rows, kwargs = _rows_and_arguments(call, entry, count)
    x = x.repeat(count, 1) if x.dim() == 2 else x.reshape(count * part.num_nodes, -1)
    factors = weight[sample, entry]
    if factors.requires_grad or not bool((factors == 1).all()):
        with remove_masks_afterwards(call.model):
            set_masks(call.model, factors, edge_index, apply_sigmoid=False)
            out = call.model(x, edge_index, **kwargs)
    else:
        out = call.model(x, edge_index, **kwargs)
    out = as_rows(out, call.task)[rows]
    return out.view(count, -1, *out.shape[1:])


def _rows_and_arguments(call: Call, places: Tensor, count: int) -> tuple[Tensor, dict[str, object]]:
    """Return the explained rows of all copies, and the model's keyword arguments for them."""
    readout, per_copy = call.readout, call.readout.count_rows(call.part)
    kwargs = readout.arguments_of_copies(call.part, places, call.loop_weight, count)
    if count > 1 and readout.kind == "graph" and kwargs.get("batch") is None:
        if "batch" not in inspect.signature(call.model.forward).parameters:
            raise UnsupportedError("the model takes no batch, so that it cannot tell copies of a graph apart")
        kwargs["batch"] = torch.arange(count).repeat_interleave(call.part.num_nodes)
    return (call.rows + per_copy * torch.arange(count).unsqueeze(1)).view(-1), kwargs
