"""What is known of a model, in one record that is dropped as soon as the model changes.

To explain a prediction several things have to be found out about the model, each by running it: whether it reads edge
weights, whether it can be called on many graphs at once, how far its messages go. They do not change from node to node,
so they are kept. They would be wrong after a change of the model, so :func:`evaluating`, the only way to run a model
here, compares the model with what it was when the record was written: its modules, parameters, buffers, hooks and
plain attributes, and the variables outside of it that its code reads. A model that differs gets a new, empty record.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from ..graph.graph import Graph
from .failure import naming_failures
from .lock import locked, locks_of, taken
from .snapshot import DEPTH, OPAQUE, PLAIN, Snapshot
from .stance import run_as_written
from .variables import outer_variables

Route = Literal["weight", "removal", "mask"]
Batching = Literal["vmap", "whole", "trimmed"]


@dataclass(eq=False)
class Facts:
    """What is known of a model on one graph, called with one set of arguments."""

    output: Tensor | None = None  # on the whole graph, as the model returned it
    embeddings: Tensor | None = None  # of the nodes, on the whole graph
    scale: float | None = None  # the largest magnitude of the output
    looks_at_all: bool = False  # whether the output at a node depends on what no message can bring there
    proved: tuple[Any, ...] | None = None  # the kind of computation graph that has been shown to be enough


Key = tuple[tuple[str, Any], ...]


def key_of(arguments: Mapping[str, Any]) -> Key:
    """Return what identifies a way to call a model: the flags among its arguments, and the names of the others.

    >>> key_of({"batch": torch.zeros(3), "use_weights": False})
    (('batch', 'Tensor'), ('use_weights', False))
    """
    named = sorted(arguments.items())
    return tuple((name, value if type(value) in PLAIN else type(value).__name__) for name, value in named)


@dataclass(eq=False)
class Record:
    """What is known of a model in its present state; see the module's docstring.

    A flag may be an argument of the model's forward as well, so that findings are kept by the :func:`key_of` the
    arguments.
    """

    reads_weight: dict[Key, bool] = field(default_factory=dict)  # whether the output depends on edge_weight
    batching: dict[tuple[int, float | None, Key], Batching] = field(default_factory=dict)  # also by hops and loops
    one_by_one: set[Key] = field(default_factory=set)  # where even vmap fails, because the model reads a value
    copies: dict[Key, bool] = field(default_factory=dict)  # whether disjoint copies have no effect on each other
    probed: set[tuple[Any, ...]] = field(default_factory=set)  # the kinds of parts that held at random features too
    steady: set[Key] = field(default_factory=set)  # where the output depends on nothing but the arguments
    own_loops: dict[tuple[Key, float], bool] = field(default_factory=dict)  # whether loops may be given with the edges
    # The modules that functions have chosen, as weak references, which do not keep the model in memory.
    fitting: dict[Callable[[torch.nn.Module], bool], list[weakref.ref[torch.nn.Module]]] = field(default_factory=dict)
    warned: int | None = None  # the reach that has been checked for being longer than the model's own
    _facts: weakref.WeakKeyDictionary[Graph, tuple[Any, Facts]] = field(default_factory=weakref.WeakKeyDictionary)

    def on(self, graph: Graph, arguments: Mapping[str, Any]) -> Facts:
        """Return what is known of the model on ``graph``, as long as its ``arguments`` are not written to."""
        state = [(name, _describe(value, 0)) for name, value in sorted(arguments.items())]
        kept = self._facts.get(graph)
        if kept is None or kept[0] != state:
            kept = self._facts[graph] = state, Facts()
        return kept[1]

    def clear(self) -> None:
        """Drop everything, because the model has changed in a way that could not be seen."""
        findings = self.reads_weight, self.batching, self.one_by_one, self.copies, self.probed, self.steady
        for kept in (*findings, self.own_loops, self.fitting, self._facts):
            kept.clear()
        self.warned = None

    def forget(self, graph: Graph) -> None:
        """Drop what is known of the model on ``graph``, because a write to ``parameter.data`` is not counted."""
        self._facts.pop(graph, None)


_Held = tuple[torch.nn.Module, bool, dict[str, Any], dict[str, Any]]  # a module's mode, attributes and buffers


class _Entry:
    """A model's record, and the state that the record is of."""

    def __init__(self) -> None:
        self.runner: int | None = None  # the thread that runs the model
        self.record = Record()
        self.state: list[Any] = []
        self.snapshot: Snapshot | None = None  # of the model in that state
        self.tensors: list[
            Tensor
        ] = []  # they are kept alive, because a new tensor could get the identity of an old one
        self.locks: list[threading.RLock] | None = None  # of the modules that it had then
        self.volatile: set[int] = set()  # places in the state that the model's own forward changes
        self.before: list[_Held] = []  # while it is running
        self.run: Run | None = None  # the last run that was noted, while it is running

    def is_up_to_date(self) -> bool:
        """Return whether it is seen at once that the model is in the state that the record is of."""
        return self.snapshot is not None and self.snapshot.holds()

    def update(self, state: list[Any]) -> None:
        """Take a new state, and drop the record if it is another one."""
        self.snapshot = None
        same = len(state) == len(self.state) and all(
            now == before or place in self.volatile
            for place, (now, before) in enumerate(zip(state, self.state, strict=True))
        )
        if state != self.state and not same:
            self.record = Record()
            self.volatile = set()
        self.state = state

    def note_changes(self, state: list[Any]) -> None:
        """Note which places a run of the model has changed; a layout that has changed is left to :meth:`update`."""
        if len(state) == len(self.state):
            pairs = enumerate(zip(state, self.state, strict=True))
            self.volatile |= {place for place, (now, before) in pairs if now != before}


_ENTRIES: weakref.WeakKeyDictionary[torch.nn.Module, _Entry] = weakref.WeakKeyDictionary()
_ENTRIES_LOCK = threading.Lock()


class evaluating:
    """Put ``model`` in eval mode for one thread at a time, yield its record, and restore every module afterwards.

    A tensor that a forward leaves on a module is taken away again: it may belong to a batch of samples, and would be
    no tensor outside of that. Calls may be nested. What the model raises leaves the outermost call as a
    :class:`ModelError`; further in, it can be caught as it is.
    """

    __slots__ = ("_model", "_run")

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model

    def __enter__(self) -> Record:
        entry = _ENTRIES.get(self._model)
        if entry is None:
            with _ENTRIES_LOCK:
                entry = _ENTRIES.setdefault(self._model, _Entry())
        self._run: AbstractContextManager[None] | None = None
        if entry.runner != threading.get_ident():  # else this thread has entered further out
            self._run = _running(self._model, entry)
            self._run.__enter__()
        return entry.record

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return None if self._run is None else self._run.__exit__(kind, error, trace)


@contextmanager
def _running(model: torch.nn.Module, entry: _Entry) -> Iterator[None]:
    """Hold the locks of a model, and bring its record up to date, for a run."""
    locks = entry.locks  # Another thread may forget them at any time.
    if locks is not None:  # They are those of the model if it has not changed.
        with taken(locks):
            if entry.is_up_to_date():
                assert entry.snapshot is not None
                with _switched(model, entry, entry.snapshot.modules()):
                    yield
                return
    with locked(model):
        if not entry.is_up_to_date():
            entry.update(describe_state(model))
        with _switched(model, entry, list(model.modules())):
            yield


@contextmanager
def _switched(model: torch.nn.Module, entry: _Entry, modules: list[torch.nn.Module]) -> Iterator[None]:
    """Put a model that is locked in eval mode, and restore its ``modules`` afterwards.

    What torch.compile has made of a model, or of a part of it, is run as it was written: a graph of every other size
    would be compiled anew, which takes longer than to explain, and a mask on a layer would not be seen.
    """
    with naming_failures(model), run_as_written():
        before = [(module, module.training, dict(vars(module)), dict(module._buffers)) for module in modules]
        try:
            entry.runner, entry.before = threading.get_ident(), before
            # A model may do more in a train() or eval() of its own, so it is only spared the call if it has neither.
            if any(module.training or _switches_modes_itself(module) for module in modules):
                model.eval()
            yield
        finally:
            entry.runner, entry.before, entry.run = None, [], None
            for module, training, *_ in before:
                if module.training is not training:
                    module.training = training
            if not entry.is_up_to_date():
                _take_over(entry, model, before)


def modules_that(model: torch.nn.Module, fit: Callable[[torch.nn.Module], bool]) -> list[Any]:
    """Return the modules of ``model`` that ``fit``, in the order in which they are registered.

    Where it is known that the model has not changed, they are kept, so that it is asked once and not for each node.
    """
    entry = _ENTRIES.get(model)
    if entry is None or entry.snapshot is None or entry.runner != threading.get_ident():
        return [module for module in model.modules() if fit(module)]
    if fit not in entry.record.fitting:
        found = [module for module in model.modules() if fit(module)]
        entry.record.fitting[fit] = [weakref.ref(module) for module in found]
    return [reference() for reference in entry.record.fitting[fit]]


def _take_over(entry: _Entry, model: torch.nn.Module, before: list[_Held]) -> None:
    """Restore a model after a run that may have changed it, and take over its state.

    What the model's own forward has changed, such as a counter of calls, is no change by the user.
    """
    if any(_differs(vars(module), held) or _differs(module._buffers, own) for module, _, held, own in before):
        entry.note_changes(describe_state(model))
        for module, _, attributes, buffers in before:
            _restore(vars(module), attributes)
            _restore(module._buffers, buffers)
    state = describe_state(model)
    entry.note_changes(state)
    entry.state = state
    entry.tensors = [*model.parameters(), *model.buffers()]
    # A model that changes itself would never be the same as in a snapshot.
    entry.snapshot = None if entry.volatile else Snapshot(model)
    entry.locks = None if entry.volatile else locks_of(model)


class Run:
    """A run of a model on a graph, which need not be repeated as long as nothing that it has read is written to."""

    def __init__(self, x: Tensor, edge_index: Tensor, kwargs: Mapping[str, Any], output: Tensor) -> None:
        self._read, self._names, self.output = (x, edge_index, *kwargs.values()), list(kwargs), output
        self._versions = [_version_of(value) for value in (*self._read, output)]

    def is_of(self, x: Tensor, edge_index: Tensor, kwargs: Mapping[str, Any]) -> bool:
        """Return whether the model was run with these very arguments."""
        read = (x, edge_index, *kwargs.values())
        return (
            list(kwargs) == self._names
            and all(map(operator.is_, read, self._read))
            and None not in self._versions
            and [_version_of(value) for value in (*read, self.output)] == self._versions
        )


def _version_of(value: Any) -> int | None:
    """Return the number of writes to a value; None if they are not counted."""
    if isinstance(value, Tensor):
        return None if value.is_inference() else value._version
    return 0 if value is None or type(value) in PLAIN else None


def note_run(model: torch.nn.Module, x: Tensor, edge_index: Tensor, kwargs: Mapping[str, Any], output: Tensor) -> None:
    """Keep the output of a run of ``model`` until the outermost :func:`evaluating` ends; it must be called inside."""
    _ENTRIES[model].run = Run(x, edge_index, kwargs, output)


def noted_output(model: torch.nn.Module, x: Tensor, edge_index: Tensor, kwargs: Mapping[str, Any]) -> Tensor | None:
    """Return a copy of the output of ``model`` if it has just been run like that; None if it has to be run.

    It is a copy, because the user has the output itself and may write to it later.
    """
    run = _ENTRIES[model].run
    return run.output.detach().clone() if run is not None and run.is_of(x, edge_index, kwargs) else None


def forget_run(model: torch.nn.Module) -> None:
    """Drop the output that was noted; it must be called inside :func:`evaluating`."""
    _ENTRIES[model].run = None


def drop_kept(model: torch.nn.Module) -> list[str]:
    """Take away the tensors that runs of ``model`` have left on it, and return their names.

    It must be called inside :func:`evaluating`.
    """
    names: list[str] = []
    for module, _, attributes, buffers in _ENTRIES[model].before:
        for place, held in ((vars(module), attributes), (module._buffers, buffers)):
            names += [
                name for name, value in place.items() if isinstance(value, Tensor) and value is not held.get(name)
            ]
            _restore(place, held)
    return names


def describe_state(model: torch.nn.Module) -> list[Any]:
    """Return a description of ``model`` that differs after any change that can be seen from outside.

    It has an entry for each module and each attribute of a module: plain values as they are, tensors with the number
    of writes to them, containers and the attributes of plain objects by their entries, other objects by identity.
    Parameters, buffers and hooks are in containers of that kind. Variables outside of the model that its code reads
    follow. The mode (train or eval) is left out, because models are always run in eval mode here.
    """
    state: list[Any] = []
    for module in model.modules():
        attributes = vars(module)
        state += id(module), tuple(attributes)
        for name, value in attributes.items():
            if type(value) in PLAIN:
                state.append(None if name == "training" else value)
            elif value is None or (isinstance(value, dict) and not value):  # most dictionaries are of no hooks
                state.append(None)
            else:
                state.append(_describe(value, 0))
        state += [_describe(value, 1) for value in outer_variables(module)]
    return state


def _describe(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, Tensor):
        if is_lazy(value):  # it has no version before the first call of the model
            return id(value)
        # Writes in inference mode are not counted. A module that is moved, or cast, keeps its parameters, as new ones.
        return id(value), 0 if value.is_inference() else value._version, value.device, value.dtype
    if depth < DEPTH:
        if isinstance(value, dict):
            return id(value), tuple((_describe(k, depth + 1), _describe(v, depth + 1)) for k, v in value.items())
        if isinstance(value, list | tuple | set | frozenset):
            return id(value), tuple(_describe(entry, depth + 1) for entry in value)
        if hasattr(value, "__dict__") and not isinstance(value, OPAQUE):
            return id(value), tuple((name, _describe(v, depth + 1)) for name, v in vars(value).items())
    return id(value)


def _differs(place: dict[str, Any], before: dict[str, Any]) -> bool:
    """Return whether ``place`` holds other objects than before; tensors have no plain equality."""
    return not (
        len(place) == len(before)
        and all(map(operator.is_, place, before))
        and all(map(operator.is_, place.values(), before.values()))
    )


def _restore(place: dict[str, Any], before: dict[str, Any]) -> None:
    """Undo the tensors that a forward has left in ``place``: attributes that were tensors or None, and buffers."""
    for name in [name for name, value in place.items() if isinstance(value, Tensor)]:
        if place[name] is not before.get(name):
            del place[name]
    place.update({name: value for name, value in before.items() if value is None or isinstance(value, Tensor)})


def _switches_modes_itself(module: torch.nn.Module) -> bool:
    kind, own = type(module), vars(module)
    inherited = kind.train is torch.nn.Module.train and kind.eval is torch.nn.Module.eval
    return not inherited or "train" in own or "eval" in own
