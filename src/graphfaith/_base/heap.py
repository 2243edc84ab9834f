"""The heap of the process, of which a long-running one has to return what it has freed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def return_free_memory() -> None:
    """Return memory that was freed to the system, which takes some milliseconds.

    The C library of Linux keeps what is freed if something above it is still in use, so a process that alternates
    between large tensors and small things that it keeps grows slowly. Other systems return memory by themselves.
    """
    trim = _find_trim()
    if trim is not None:
        trim(0)


@cache
def _find_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # This is not the GNU C library.
        return None
    return trim
