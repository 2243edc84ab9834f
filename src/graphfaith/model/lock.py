"""One thread at a time may run a model to explain it.

An explanation changes the model while it lasts: its mode, masks on its layers, the layers' own methods. A thread that
runs the model meanwhile would get other numbers, and would not notice.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOCKS: weakref.WeakKeyDictionary[torch.nn.Module, threading.RLock] = weakref.WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


@contextmanager
def locked(model: torch.nn.Module) -> Iterator[None]:
    """Keep other threads from explaining ``model``, or any model that shares a module with it, inside the block.

    Every module has a lock of its own, because the same layers may be in several models: in a wrapper that each thread
    makes for itself, for example. Blocks may be nested.
    """
    with taken(locks_of(model)):
        yield


def locks_of(model: torch.nn.Module) -> list[threading.RLock]:
    """Return the locks of all modules, in an order in which two threads that share some cannot wait for each other."""
    modules = sorted(model.modules(), key=id)
    with _LOCKS_LOCK:
        return [_LOCKS.setdefault(module, threading.RLock()) for module in modules]


@contextmanager
def taken(locks: list[threading.RLock]) -> Iterator[None]:
    """Hold some locks inside the block."""
    taken = 0
    try:
        for lock in locks:
            lock.acquire()
            taken += 1
        yield
    finally:
        for lock in locks[:taken]:
            lock.release()
