"""Explanations to look at: one layout, drawn as a figure, as a page, and in a notebook.

The functions are imported when they are first used, so that to explain something does not load matplotlib.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .figure import figure, show
    from .page import Page, page

__all__ = ["Page", "figure", "page", "show"]

_MODULES = {"Page": "page", "figure": "figure", "page": "page", "show": "figure"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


class _View(ModuleType):
    """A package in which ``figure`` and ``page`` stay functions.

    Python sets a submodule as an attribute of its package when it is imported. The modules ``figure`` and ``page``
    would so replace the functions of the same names.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in _MODULES:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _View
