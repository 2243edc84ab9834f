"""What a model was made of at one moment, kept in such a form that it is told at once that nothing has changed since.

A full description of a model (:func:`graphfaith.model.record.describe_state`) takes a tenth of an explanation, and
nearly always it is the same as before. A snapshot has the identities of everything that such a description looks at.
If they are all the same, and no tensor was written to, so is the description. If they are not, it may still be the
same: an equal number may have taken the place of another one. Then the model has to be described.

A snapshot has no reference to a module or to a container of one, which would keep the model in memory. It does refer
to numbers, texts and tensors: a new one could have the identity of an old one that is gone.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from operator import itemgetter
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from .variables import has_outer_variables, outer_variables

PLAIN = frozenset((bool, int, float, str, bytes, complex))
# Objects whose attributes are no flags of the model, or are described elsewhere.
OPAQUE = (torch.nn.Module, type, ModuleType, FunctionType, MethodType, BuiltinFunctionType)
DEPTH = 3  # containers within containers whose entries are compared; deeper ones are compared by identity
_MOST = 1000  # entries of a container whose identities are kept; a model with a longer one is described every time

Check = Callable[[Any], bool]  # whether a container has the entries that it had


def _version_of(tensor: Tensor) -> tuple[int, torch.device, torch.dtype]:
    """Return the number of writes to a tensor, and what else is another one when its module is moved or cast."""
    return tensor._version, tensor.device, tensor.dtype


class Snapshot:
    """The identities of all that a model consists of, as far as a description of it would look."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._held: list[Any] = []
        self._tensors: list[Tensor] = []
        self._is_sure = True  # whether all that a description looks at can be kept
        modules = list(model.modules())
        self._modules = [
            (weakref.ref(module), type(module), self._look_at_names(vars(module), -1)) for module in modules
        ]
        self._outer = [
            (weakref.ref(module), self._look_at_entries(list(outer_variables(module)), 0))
            for module in modules
            if has_outer_variables(module)
        ]
        self._versions = [_version_of(tensor) for tensor in self._tensors]

    def holds(self) -> bool:
        """Return whether nothing has changed; no walk is needed, as modules are attributes of modules."""
        if not self._is_sure or [_version_of(tensor) for tensor in self._tensors] != self._versions:
            return False
        for reference, kind, is_same in self._modules:
            module = reference()
            if type(module) is not kind or not is_same(vars(module)):
                return False
        for reference, is_same in self._outer:
            module = reference()
            if module is None or not is_same(list(outer_variables(module))):
                return False
        return True

    def modules(self) -> list[Any]:
        """Return the modules, all of which are there if the snapshot holds."""
        return [reference() for reference, *_ in self._modules]

    def _look_at(self, value: Any, depth: int) -> Check | None:
        """Return a check of what is in ``value``; None if its identity says all."""
        if value is None or type(value) in PLAIN:
            self._held.append(value)
        elif isinstance(value, Tensor):
            self._held.append(value)
            if is_lazy(value):  # It becomes another kind of tensor when the model is first called.
                self._is_sure = False
            elif not value.is_inference():  # Writes to a tensor of inference mode are not counted.
                self._tensors.append(value)
        elif depth < DEPTH:
            if isinstance(value, dict):
                return self._look_at_names(value, depth)
            if isinstance(value, tuple):
                return self._look_at_tuple(value, depth)
            if isinstance(value, list):
                return self._look_at_entries(value, depth)
            if isinstance(value, set | frozenset):
                return self._look_at_set(value)
            if hasattr(value, "__dict__") and not isinstance(value, OPAQUE):
                is_same = self._look_at_names(vars(value), depth)
                return lambda now: is_same(vars(now))
        return None

    def _look_at_names(self, space: dict[Any, Any], depth: int) -> Check:
        names, values = list(space), [*map(id, space.values())]
        if len(names) > _MOST or not all(type(name) in PLAIN for name in names):
            self._is_sure = False
            return lambda _: False
        found = [(name, self._look_at(value, depth + 1)) for name, value in space.items()]
        # Most dictionaries in a module are of hooks, of which there are none.
        none = [name for name, _ in found if isinstance(space[name], dict) and not space[name] and depth + 1 < DEPTH]
        inner = [(name, is_same) for name, is_same in found if is_same is not None and name not in none]
        empty: Any = itemgetter(*none) if len(none) > 1 else lambda now: [now[name] for name in none]

        def is_same(now: dict[Any, Any]) -> bool:
            if list(now) != names or [*map(id, now.values())] != values or any(empty(now)):
                return False
            for name, is_same_within in inner:  # noqa: SIM110 (A generator takes twice as long.)
                if not is_same_within(now[name]):
                    return False
            return True

        return is_same

    def _look_at_entries(self, entries: Sequence[Any], depth: int) -> Check:
        if len(entries) > _MOST:
            self._is_sure = False
        found = [self._look_at(value, depth + 1) for value in entries[:_MOST]]
        values = [*map(id, entries[:_MOST])]
        inner = [(place, is_same) for place, is_same in enumerate(found) if is_same is not None]

        def is_same(now: Sequence[Any]) -> bool:
            return [*map(id, now)] == values and all(is_same_within(now[place]) for place, is_same_within in inner)

        return is_same

    def _look_at_tuple(self, entries: tuple[Any, ...], depth: int) -> Check | None:
        """Return a check of what is in the entries; the entries of a tuple are others only if the tuple is another."""
        found = [self._look_at(value, depth + 1) for value in entries]
        inner = [(place, is_same) for place, is_same in enumerate(found) if is_same is not None]
        return (lambda now: all(is_same(now[place]) for place, is_same in inner)) if inner else None

    def _look_at_set(self, entries: set[Any] | frozenset[Any]) -> Check:
        if len(entries) > _MOST or not all(type(entry) in PLAIN for entry in entries):
            self._is_sure = False
        kept = frozenset(entries) if self._is_sure else None
        return lambda now: now == kept
