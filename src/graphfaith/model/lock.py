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
    # Two threads that take the locks they share in the same order cannot wait for each other.
    modules = sorted(model.modules(), key=id)
    with _LOCKS_LOCK:
        locks = [_LOCKS.setdefault(module, threading.RLock()) for module in modules]
    taken = 0
    try:
        for lock in locks:
            lock.acquire()
            taken += 1
        yield
    finally:
        for lock in locks[:taken]:
            lock.release()
