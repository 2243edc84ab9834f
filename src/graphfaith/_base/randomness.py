"""Torch's global random numbers, for foreign code that draws from nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.RLock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator inside the block, for one thread at a time, and restore its state afterwards.

    All threads draw from the same generator. Without the lock, two threads that train masks on two models would each
    get some of the other's numbers, and the same seed would no longer give the same masks.

    >>> with seeded(3):
    ...     first = torch.rand(2)
    >>> with seeded(3):
    ...     torch.equal(first, torch.rand(2))
    True
    """
    with _LOCK, torch.random.fork_rng(devices=[]):
        # torch.manual_seed is not used because it would also seed other devices, which fork_rng does not restore here.
        torch.default_generator.manual_seed(seed)
        yield
