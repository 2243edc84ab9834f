"""What is known of a model, in one record that is dropped as soon as the model changes.

To explain a prediction several things have to be found out about the model, each by running it: whether it reads edge
weights, whether it can be called on many graphs at once, how far its messages go. They do not change from node to node,
so they are kept. They would be wrong after a change of the model, so :func:`evaluating`, the only way to run a model
here, compares the model with what it was when the record was written: its modules, parameters, buffers, hooks and
plain attributes. A model that differs gets a new, empty record.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from ..graph.graph import Graph

Route = Literal["weight", "mask"]
Batching = Literal["vmap", "whole", "trimmed"]
Stamp = list[Any]

_PLAIN = frozenset((bool, int, float, str, bytes, complex))
_DEPTH = 3  # containers within containers whose entries are compared; deeper ones are compared by identity


@dataclass(eq=False)
class Facts:
    """What is known of a model on one graph, called with one set of arguments."""

    output: Tensor | None = None  # on the whole graph
    embeddings: Tensor | None = None  # of the nodes, on the whole graph
    scale: float | None = None  # the largest magnitude of the output
    looks_at_all: bool = False  # whether the output at a node depends on what no message can bring there
    proved: tuple[Any, ...] | None = None  # the kind of computation graph that has been shown to be enough


@dataclass(eq=False)
class Record:
    """What is known of a model in its present state; see the module's docstring."""

    stamp: Stamp
    route: Route | None = None  # how the model takes A, once that has been tried
    batching: dict[tuple[int, float | None], Batching] = field(default_factory=dict)  # by hops and weight of loops
    one_by_one: bool = False  # whether even vmap fails, because the model reads a value, for example
    probed: int | None = None  # the reach that held for random features too
    warned: int | None = None  # the reach that has been checked for being longer than the model's own
    _facts: weakref.WeakKeyDictionary[Graph, tuple[Stamp, Facts]] = field(default_factory=weakref.WeakKeyDictionary)

    def on(self, graph: Graph, arguments: Mapping[str, Any]) -> Facts:
        """Return what is known of the model on ``graph``, as long as its ``arguments`` are not written to."""
        stamp: Stamp = []
        _describe(dict(sorted(arguments.items())), stamp, 0)
        del stamp[0]  # the identity of a dictionary that was made just now
        kept = self._facts.get(graph)
        if kept is None or kept[0] != stamp:
            kept = self._facts[graph] = stamp, Facts()
        return kept[1]

    def forget(self, graph: Graph) -> None:
        """Drop what is known of the model on ``graph``: a write to ``parameter.data`` leaves no trace."""
        self._facts.pop(graph, None)


class _Entry:
    """A model's lock and its record. Running a model changes it (mode, masks), so one thread at a time may do so."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.record: Record | None = None
        self.running = False


_ENTRIES: weakref.WeakKeyDictionary[torch.nn.Module, _Entry] = weakref.WeakKeyDictionary()
_ENTRIES_LOCK = threading.Lock()


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[Record]:
    """Put ``model`` in eval mode for one thread at a time, yield its record, and restore every module afterwards.

    A tensor that a forward leaves on a module is taken away again: it may belong to a batch of samples, and would be
    no tensor outside of that. Calls may be nested.
    """
    with _ENTRIES_LOCK:
        entry = _ENTRIES.setdefault(model, _Entry())
    with entry.lock:
        if entry.running:  # this thread has entered further out
            assert entry.record is not None
            yield entry.record
            return
        stamp = stamp_of(model)
        if entry.record is None or entry.record.stamp != stamp:
            entry.record = Record(stamp)
        modules = list(model.modules())
        before = [(module, module.training, dict(vars(module)), dict(module._buffers)) for module in modules]
        try:
            entry.running = True
            # A model may do more in a train() or eval() of its own, so it is only spared the call if it has neither.
            if any(module.training or _switches_modes_itself(module) for module in modules):
                model.eval()
            yield entry.record
        finally:
            entry.running = False
            for module, training, attributes, buffers in before:
                if module.training is not training:
                    module.training = training
                _restore(vars(module), attributes)
                _restore(module._buffers, buffers)
            # What the model's own forward has changed, such as a counter of calls, is no change by the user.
            entry.record.stamp = stamp_of(model)


def stamp_of(model: torch.nn.Module) -> Stamp:
    """Return a description of ``model`` that differs after any change that can be seen from outside.

    It holds the modules, their parameters and buffers with the number of writes to each, their hooks, and their other
    attributes: plain values as they are, containers by their entries, other objects by identity. The mode (train or
    eval) is left out, because models are always run in eval mode here.
    """
    stamp: list[Any] = []
    for module in model.modules():
        attributes = vars(module)
        stamp += id(module), tuple(attributes)
        for name, value in attributes.items():
            if type(value) in _PLAIN:
                if name != "training":
                    stamp.append(value)
            elif value is not None and (not isinstance(value, dict) or value):  # most dictionaries are of no hooks
                _describe(value, stamp, 0)
    return stamp


def _describe(value: Any, stamp: list[Any], depth: int) -> None:
    """Append a description of ``value`` to ``stamp``."""
    if type(value) in _PLAIN:
        stamp.append(value)
        return
    stamp.append(id(value))
    if isinstance(value, Tensor):
        if not value.is_inference():  # writes to such a tensor are not counted
            stamp.append(value._version)
    elif isinstance(value, dict | list | tuple | set | frozenset) and depth < _DEPTH:
        stamp.append(len(value))
        for entry in value:
            _describe(entry, stamp, depth + 1)
            if isinstance(value, dict):
                _describe(value[entry], stamp, depth + 1)


def _restore(place: dict[str, Any], before: dict[str, Any]) -> None:
    """Undo the tensors that a forward has left in ``place``: attributes that were tensors or None, and buffers."""
    # Usually nothing was overwritten. Tensors have no plain equality, so values are compared by identity.
    if (
        len(place) == len(before)
        and all(map(operator.is_, place, before))
        and all(map(operator.is_, place.values(), before.values()))
    ):
        return
    for name in [name for name, value in place.items() if isinstance(value, Tensor)]:
        if place[name] is not before.get(name):
            del place[name]
    place.update({name: value for name, value in before.items() if value is None or isinstance(value, Tensor)})


def _switches_modes_itself(module: torch.nn.Module) -> bool:
    own = (getattr(module.train, "__func__", None), getattr(module.eval, "__func__", None))
    return own != (torch.nn.Module.train, torch.nn.Module.eval)
