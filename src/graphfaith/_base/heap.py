"""The heap of the process: what it has freed is returned to the system, or kept for the next arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

# The options of mallopt(3): bytes that may lie free at the top of the heap, bytes that it grows by, and bytes of an
# array that gets pages of its own, which are given back when it is freed (32 MiB is the most that may be asked for).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT = {_TRIM_THRESHOLD: 256 << 20, _TOP_PAD: 16 << 20, _MMAP_THRESHOLD: 32 << 20}


def return_free_memory() -> None:
    """Return memory that was freed to the system, which takes some milliseconds.

    The C library of Linux keeps what is freed if something above it is still in use, so a process that alternates
    between large tensors and small things that it keeps grows slowly. Other systems return memory by themselves.
    """
    trim = _find_trim()
    if trim is not None:
        trim(0)


def keep_free_memory() -> bool:
    """Keep up to 256 MB of freed memory for the next arrays, and return whether the C library does so.

    By itself the C library of Linux gives large arrays back as soon as they are freed, and the system clears every page
    of the next ones, which two workers at once do not do in half of the time. It is for processes that do nothing else
    than make the same arrays again and again.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # This is not the GNU C library.
        return False
    taken = [set_option(option, size) for option, size in _KEPT.items()]
    return all(taken)


@cache
def _find_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # This is not the GNU C library.
        return None
    return trim
