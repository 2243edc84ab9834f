"""The variables outside of a model that its code reads: attributes of its classes, global variables and closures.

A flag may live in any of them. Only the code of the model's own classes is looked at, and of the functions that it
names, not that of torch and PyG.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

_FOREIGN = ("torch", "torch_geometric", "numpy", "scipy", "builtins")
_DEPTH = 3  # functions that call functions
_MOST = 100  # entries of a container; one with more is data rather than flags


def outer_variables(module: torch.nn.Module) -> Iterator[Any]:
    """Yield the values of the variables outside of ``module`` that its code reads."""
    for kind in _own_classes(type(module)):
        for name, value in list(vars(kind).items()):
            function = getattr(value, "__func__", value)  # of a static method or a class method
            if isinstance(function, FunctionType):
                yield from _read_by(function, 0)
            elif not name.startswith("__") and not isinstance(value, property):
                yield value
    for value in list(vars(module).values()):
        if isinstance(value, FunctionType):  # a forward or an activation that was set from outside
            yield from _read_by(value, 0)


def _own_classes(kind: type) -> list[type]:
    """Return the classes, among one and those it inherits from, whose code is the user's."""
    return [base for base in kind.__mro__ if not _is_foreign(base.__module__)]


@lru_cache(maxsize=1024)
def _is_foreign(module: str | None) -> bool:
    return (module or "").split(".")[0] in _FOREIGN


def _read_by(function: FunctionType, depth: int) -> Iterator[Any]:
    """Yield the values of the global variables and the closure of a function, and of the functions that it names."""
    for cell in function.__closure__ or ():
        try:
            yield from _look_at(cell.cell_contents, (), depth)
        except ValueError:  # the variable has no value yet
            continue
    names = _names_in(function.__code__)
    for name in names:
        if name in function.__globals__:
            yield from _look_at(function.__globals__[name], names, depth)


def _look_at(value: Any, names: tuple[str, ...], depth: int) -> Iterator[Any]:
    if isinstance(value, FunctionType):
        if depth < _DEPTH and not _is_foreign(value.__module__):
            yield from _read_by(value, depth + 1)
    elif isinstance(value, ModuleType):
        if not _is_foreign(value.__name__):
            yield from (vars(value)[name] for name in names if name in vars(value))
    elif not callable(value) and not (hasattr(value, "__len__") and _is_long(value)):
        yield value


def _is_long(value: Any) -> bool:
    try:
        return not isinstance(value, str | bytes | torch.Tensor) and len(value) > _MOST
    except Exception:  # a class of the user's own may raise anything
        return True


@lru_cache(maxsize=1024)
def _names_in(code: CodeType) -> tuple[str, ...]:
    """Return the names of global variables and attributes that a function reads, also in functions within it."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names_in(constant)]
    return tuple(dict.fromkeys([*code.co_names, *inner]))
