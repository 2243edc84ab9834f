"""The variables outside of a model that its code reads: attributes of its classes, global variables and closures.

A flag may live in any of them. Only code of the user's own is looked at: the model's classes, and the functions that
they name, but nothing that is installed as a library, such as torch and PyG.
"""

from __future__ import annotations

import sys
import sysconfig
import weakref
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
# Libraries may also be installed for the user, for the system, or in another environment that this one reads.
_INSTALLED = frozenset(("site-packages", "dist-packages"))
_MOST = 100  # entries of a container; one with more is data rather than flags


def outer_variables(module: torch.nn.Module) -> Iterator[Any]:
    """Yield the values of the variables outside of ``module`` that its code reads."""
    seen: set[int] = set()
    for place in _own_places(type(module)):
        for name, value in list(vars(type(module).__mro__[place]).items()):
            function = getattr(value, "__func__", value)  # of a static method or a class method
            if isinstance(function, FunctionType):
                yield from _read_by(function, seen)
            elif name[:2] != "__" and not isinstance(value, property) and not _is_long(value):
                yield value
    for value in list(vars(module).values()):
        if type(value) is FunctionType:  # a forward or an activation that was set from outside
            yield from _read_by(value, seen)


def has_outer_variables(module: torch.nn.Module) -> bool:
    """Return whether there can be such variables: code of the user's own in the class or in an attribute."""
    return bool(_own_places(type(module))) or any(type(value) is FunctionType for value in vars(module).values())


# Numbers and not the classes themselves, which would keep each other in memory.
_OWN: weakref.WeakKeyDictionary[type, list[int]] = weakref.WeakKeyDictionary()


def _own_places(kind: type) -> list[int]:
    """Return which of the classes that ``kind`` inherits from, itself included, are the user's."""
    places = _OWN.get(kind)
    if places is None:
        places = _OWN[kind] = [place for place, base in enumerate(kind.__mro__) if not _is_foreign(base.__module__)]
    return places


def _read_by(function: FunctionType, seen: set[int]) -> Iterator[Any]:
    """Yield the values of the closure and the global variables of a function, and of the functions that it names.

    ``seen`` are the functions that need not be looked at again.
    """
    if id(function) in seen:
        return
    seen.add(id(function))
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
        yield from _look_at(value, (), seen)
    names, space = _names_in(function.__code__), function.__globals__
    for name in names:
        if name in space:
            yield from _look_at(space[name], names, seen)


def _look_at(value: Any, names: tuple[str, ...], seen: set[int]) -> Iterator[Any]:
    if isinstance(value, FunctionType):
        if not _is_foreign(value.__module__):
            yield from _read_by(value, seen)
    elif isinstance(value, ModuleType):
        if not _is_foreign(value.__name__):
            yield from (vars(value)[name] for name in names if name in vars(value))
    elif not callable(value) and not _is_long(value):
        yield value


@lru_cache(maxsize=1024)
def _is_foreign(module: str | None) -> bool:
    """Return whether a module belongs to a library or to Python itself."""
    path = getattr(sys.modules.get(module or ""), "__file__", None)
    if path is None:  # a module without a file is built in, or a session in which the user types
        return module in sys.builtin_module_names
    return str(path).startswith(_LIBRARIES) or not _INSTALLED.isdisjoint(Path(path).parts)


def _is_long(value: Any) -> bool:
    return isinstance(value, dict | list | tuple | set | frozenset) and len(value) > _MOST


@lru_cache(maxsize=1024)
def _names_in(code: CodeType) -> tuple[str, ...]:
    """Return the names of global variables and attributes that a function reads, also in functions within it."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names_in(constant)]
    return tuple(dict.fromkeys([*code.co_names, *inner]))
