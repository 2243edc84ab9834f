"""Models that torch.compile has compiled are run as they were written while they are explained.

torch has one stance for all threads. Whoever enters it last would restore what another thread has set, and leave every
model of the process uncompiled for good. Therefore it is set by the first thread that comes and restored by the last.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_LOCK = threading.Lock()
_INSIDE: list[Any] = []  # an entry for each block that is being run; the first one knows the stance to restore


@contextmanager
def run_as_written() -> Iterator[None]:
    """Let compiled models be run as they were written inside the block. Blocks may be nested, and overlap in threads.

    >>> with run_as_written():
    ...     torch.compile(torch.nn.ReLU())(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if "torch._dynamo" not in sys.modules:  # Nothing was compiled, and loading the compiler takes a second.
        yield
        return
    with _LOCK:
        _INSIDE.append(None if _INSIDE else torch.compiler.set_stance("force_eager"))
    try:
        yield
    finally:
        with _LOCK:
            # Which block ends is of no importance: the first entry stays until there is no other.
            left = _INSIDE.pop()
            if left is not None:
                left.__exit__(None, None, None)
