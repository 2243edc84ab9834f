"""Global random numbers, for foreign code that draws from nothing else."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

_LOCK = threading.RLock()


@contextmanager
def seeded(seed: int, device: torch.device | None = None, *, numpy: bool = False) -> Iterator[None]:
    """Seed torch's global generator inside the block, for one thread at a time, and restore its state afterwards.

    So is the generator of a ``device``, if that is another one than the processor, and with ``numpy`` that of numpy.

    All threads draw from the same generator. Without the lock, two threads that train masks on two models would each
    get some of the other's numbers, and the same seed would no longer give the same masks.

    >>> with seeded(3):
    ...     first = torch.rand(2)
    >>> with seeded(3):
    ...     torch.equal(first, torch.rand(2))
    True
    """
    away = device is not None and device.type != "cpu"
    kept: dict[str, Any] = {"devices": [device], "device_type": device.type} if device and away else {"devices": []}
    with _LOCK, torch.random.fork_rng(**kept):
        # torch.manual_seed is not used because it would also seed other devices, which fork_rng does not restore here.
        torch.default_generator.manual_seed(seed)
        if away:
            module = torch.get_device_module(device)
            # Only its own generator is restored, so that only that one is seeded where there are several.
            with module.device(device) if hasattr(module, "device") else nullcontext():
                (module.manual_seed if hasattr(module, "manual_seed") else module.manual_seed_all)(seed)
        with _numpy_seeded(seed) if numpy else nullcontext():
            yield


@contextmanager
def _numpy_seeded(seed: int) -> Iterator[None]:
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def random_state() -> tuple[Any, ...]:
    """Return what changes when random numbers are drawn from the global generators of torch, numpy or Python."""
    numbers = np.random.get_state(legacy=False)  # noqa: NPY002 (a model may use numpy's global generator)
    return torch.get_rng_state().numpy().tobytes(), _freeze(numbers), random.getstate()


def _freeze(state: Any) -> Any:
    """Return a state of numpy as values that can be compared; its text would take a hundred times as long to make."""
    if isinstance(state, dict):
        return {name: _freeze(value) for name, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


@contextmanager
def keep_random_state() -> Iterator[tuple[Any, ...]]:
    """Yield :func:`random_state`, for one thread at a time, and put it back afterwards.

    The lock is that of :func:`seeded`: a thread that puts a state back would make another one draw its numbers twice.
    """
    with _LOCK:
        state, numbers, plain = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
        try:
            yield random_state()
        finally:
            torch.set_rng_state(state)
            np.random.set_state(numbers)  # noqa: NPY002
            random.setstate(plain)
