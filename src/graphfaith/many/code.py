"""What a model is: a digest of its numbers, its layers, and the code that it runs beside that of its libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..explanation.digest import digest_of

# The plan has the versions of these.
_KNOWN = {"torch", "torch_geometric", "numpy", "scipy", "numba", "graphfaith", *sys.stdlib_module_names}
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_OF_MODULES = set(vars(torch.nn.Module()))  # what every module has
_DEEPEST = 8  # levels of nested lists of plain values


def digest_of_model(model: torch.nn.Module) -> str:
    """Return a digest of a model: parameters and buffers, its layers and their plain settings, and their code.

    Code is the bytecode, with its constants, of the functions in the classes of the layers and of the functions and
    classes that these name, as far as they are in files of the user, and plain values that they name in their modules.
    Comments and the places of lines are no part of it. What a function reads from elsewhere, such as a file, is not
    known.

    >>> class Scaled(torch.nn.Module):
    ...     def __init__(self, factor):
    ...         super().__init__()
    ...         self.factor = factor
    >>> digest_of_model(Scaled(2.0)) == digest_of_model(Scaled(2.0)) != digest_of_model(Scaled(3.0))
    True
    """
    state = {**dict(model.named_buffers()), **model.state_dict()}  # Some buffers are not in the state.
    tensors = [state[name] for name in sorted(state) if isinstance(state[name], Tensor)]
    words = [f"{type(model)} {model} {sorted(state)}"]
    for name, layer in model.named_modules():
        own = _root(type(layer)) not in _KNOWN  # What libraries keep for themselves is no setting.
        kept = {key: value for key, value in vars(layer).items() if key not in _OF_MODULES}
        settings = {key: value for key, value in kept.items() if (own or not key.startswith("_")) and _is_plain(value)}
        words.append(f"{name} {sorted(settings.items())}")
        if own:
            arrays = {key: value for key, value in sorted(kept.items()) if isinstance(value, Tensor | np.ndarray)}
            words.append(f"{name} {list(arrays)}")
            tensors += [torch.as_tensor(value) for value in arrays.values()]
    found = _Code()
    for kind in dict.fromkeys(type(layer) for layer in model.modules()):
        found.add_class(kind)
    for layer in model.modules():  # A function that was put in place of a method.
        found.add_all(vars(layer).values())
    words += found.words
    return digest_of(
        torch.frombuffer(bytearray("\n".join(words), "utf-8"), dtype=torch.uint8), *tensors, *found.tensors
    )


class _Code:
    """The code that is reached from some classes, each piece once."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.tensors: list[Tensor] = []
        self._seen: set[int] = set()

    def add_all(self, values: Any) -> None:
        """Add those of some values that are functions or classes."""
        for value in values:
            self._add(value)

    def add_class(self, kind: type) -> None:
        """Add the functions of a class and of those that it is derived from."""
        for one in kind.__mro__:
            if id(one) in self._seen or _root(one) in _KNOWN:
                continue
            self._seen.add(id(one))
            self.words.append(f"class {one.__qualname__}")
            for name, value in sorted(vars(one).items()):
                if name.startswith("__") and name.endswith("__") and not callable(value):
                    continue  # its module, its documentation, its place
                if _is_plain(value):
                    self.words.append(f"{name} = {value!r}")
                for function in _functions_in(value):
                    self._add_function(function)

    def _add(self, value: Any) -> None:
        if isinstance(value, FunctionType) and _is_own(value):
            self._add_function(value)
        elif isinstance(value, type) and _is_own(value):
            self.add_class(value)
        elif isinstance(inner := getattr(value, "__wrapped__", None), FunctionType) and _is_own(inner):
            self._add_function(inner)  # of functools.cache, for example

    def _add_function(self, function: Callable[..., Any]) -> None:
        inner = getattr(function, "__wrapped__", None)
        if inner is not None:  # A decorator's own code counts, too.
            self._add_function(inner)
        code = getattr(function, "__code__", None)
        if code is None or id(code) in self._seen or _root(function) in _KNOWN:
            return
        self._seen.add(id(code))
        self.words.append(f"def {function.__qualname__} {_text_of(code, function.__doc__)}")
        given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        closed = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        for value in (*given, *closed):
            self._add_value("", value)
        for name, value in _named(code, function.__globals__):
            self._add_value(name, value)

    def _add_value(self, name: str, value: Any) -> None:
        if _is_plain(value):
            self.words.append(f"{name} = {value!r}")
        elif isinstance(value, Tensor):
            self.tensors.append(value)
        else:
            self._add(value)


def _functions_in(value: Any) -> Iterator[Callable[..., Any]]:
    """Yield the functions that an entry of a class stands for."""
    if isinstance(value, property):
        yield from (one for one in (value.fget, value.fset, value.fdel) if one is not None)
    elif isinstance(value, staticmethod | classmethod):
        yield value.__func__
    elif isinstance(value, FunctionType):
        yield value


def _named(code: CodeType, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a code names in its module, also as ``helpers.scale`` in modules of the user, in its order."""
    names = [*code.co_names]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _named(constant, known)
    for name in names:
        if name not in known or _is_place(name):
            continue
        value = known[name]
        if isinstance(value, ModuleType):
            if _is_own(value):
                held = vars(value)
                yield from ((other, held[other]) for other in names if other in held and not _is_place(other))
        else:
            yield name, value


def _is_place(name: str) -> bool:
    """Return whether a name is one that Python gives: a module's file and name differ where the same code lies."""
    return name.startswith("__") and name.endswith("__")


def _text_of(code: CodeType, documentation: str | None = None) -> str:
    """Return the bytecode and constants of a function, without the places of its lines and its documentation."""
    constants = [
        _text_of(one)
        if isinstance(one, CodeType)
        else repr(sorted(map(repr, one)) if isinstance(one, frozenset) else one)
        for one in code.co_consts
        if documentation is None or one != documentation
    ]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames} {code.co_freevars}"


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether a value is written the same in every process: numbers, texts, and lists of such."""
    if type(value) in (list, tuple):
        return depth < _DEEPEST and all(_is_plain(one, depth + 1) for one in value)
    if type(value) is dict:
        return depth < _DEEPEST and all(_is_plain(part, depth + 1) for item in value.items() for part in item)
    return type(value) in _PLAIN  # What is derived from these may be written in another way each time.


def _is_own(value: Any) -> bool:
    """Return whether something is in a file of the user, and not in an installed package."""
    path = getattr(sys.modules.get(_module_of(value)), "__file__", None) or ""
    return _root(value) not in _KNOWN and "site-packages" not in path and "dist-packages" not in path


def _module_of(value: Any) -> str:
    """Return in which module something is written; ``functools.wraps`` gives a function the module of another."""
    if isinstance(value, ModuleType):
        return value.__name__
    written = value.__globals__.get("__name__") if isinstance(value, FunctionType) else None
    return str(written or getattr(value, "__module__", None) or "")


def _root(value: Any) -> str:
    return _module_of(value).partition(".")[0]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # It raises if nothing was put there yet.
    except ValueError:
        return False
    return True
