"""Memory that is used again, for what is too large to be asked for anew at every node.

A fresh array of 16 MB costs several milliseconds before anything is in it: the system has to clear four thousand pages.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_KEPT = 32 * 2**20  # bytes that a thread holds at most, under all names

_local = threading.local()


def scratch(name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor with anything in it, which the next call with this name in this thread hands out again.

    >>> scratch("a", 2, 3).shape, scratch("a", 4).data_ptr() == scratch("a", 5).data_ptr()
    (torch.Size([2, 3]), True)
    """
    size = math.prod(shape) * dtype.itemsize
    held: dict[str, Tensor] = vars(_local).setdefault("held", {})
    found = held.get(name)
    if found is None or len(found) < size:
        held.pop(name, None)
        found = torch.empty(size, dtype=torch.uint8)
        if size + sum(map(len, held.values())) <= _KEPT:
            held[name] = found
    return found[:size].view(dtype).view(shape)


@contextmanager
def lending() -> Iterator[None]:
    """Let :func:`lent` hand out memory that is used again, in this thread."""
    before, _local.lends = getattr(_local, "lends", False), True
    try:
        yield
    finally:
        _local.lends = before


def lent(name: str, *shape: int) -> Tensor | None:
    """A :func:`scratch` tensor if whoever called is :func:`lending`, otherwise None."""
    return scratch(name, *shape) if getattr(_local, "lends", False) else None
