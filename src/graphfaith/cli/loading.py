"""What a command loads before it works: the library, unless the command says that it needs none of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

_LIGHT: Final = "needs_no_library"
Work = TypeVar("Work", bound=Callable[..., Any])


def needs_no_library(work: Work) -> Work:
    """Mark a command that works without torch and the library, which take seconds and 400 MB of memory."""
    setattr(work, _LIGHT, True)
    return work


def needs_library(work: Callable[..., Any]) -> bool:
    """Return whether the library is loaded before this command works."""
    return not getattr(work, _LIGHT, False)
