"""F of many nodes at once, each on a computation graph of its own: all of them are one graph for the model."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Int64
from ..graph.parts import Parts
from .call import Call
from .readout import Readout
from .target import Target
from .whole import largest


def may_stand_side_by_side(target: Target) -> bool:
    """Return whether the model can be called on unconnected computation graphs of several nodes as on one graph.

    An argument with a row for each node or edge would have to be put together, too, and so would features of another
    form than a matrix.
    """
    given: Any = target.readout.kwargs.values()
    return target.graph.form is None and not any(isinstance(value, Tensor) for value in given)


def put_side_by_side(like: Target, parts: Parts, weight: Tensor, labels: Tensor | None) -> tuple[Target, Int64, Int64]:
    """Return the target of the nodes that ``parts`` are the computation graphs of, on all parts as one graph.

    Also returned is the order of the nodes and of the entries of the parts in that graph.

    The parts are not connected, so that the derivative of the sum of F over the nodes has the derivative of each F on
    its own part. ``weight`` are the entries of A, [e], and ``labels`` the explained classes. Nothing is proven of the
    model: whether its output on a part is that on the whole graph can be seen from the target's own rows.
    """
    graph, nodes, entries = parts.side_by_side(weight)
    target = _move(like, graph, labels)
    target.call.rows = graph.seeds
    target.take_own_rows()
    return target, nodes, entries


def put_alone(like: Target, parts: Parts, i: int, place: int) -> Target:
    """Return the target of the node that part number i is the computation graph of; it is at ``place`` in ``like``.

    The model's output on the part must be known to be that on the whole graph.
    """
    labels = None if like.labels is None else like.labels[place : place + 1]
    target = _move(like, parts.graph(i), labels)
    target.take_own_rows(like.own_rows[place : place + 1])
    if like.is_large:
        target.scale = largest(target.call.output)
    return target


def _move(like: Target, graph: ComputationGraph, labels: Tensor | None) -> Target:
    """Return the target of the first node of another computation graph, for the same model."""
    node = int(graph.nodes[0])
    readout = Readout(like.task, like.graph, like.readout.kwargs, like.graph.num_nodes, node, torch.tensor([node]))
    target = copy.copy(like)
    target.readout, target.labels = readout, labels
    target._index = node  # If the model changes, F is looked for anew, and it is F of this node.
    target.call = Call(like.model, like.record, like.task, readout, graph, like.call.loop_weight, like.route)
    return target
