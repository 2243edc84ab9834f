"""The number of threads that torch, numpy and scipy compute with.

On a computation graph with a few thousand entries a second thread saves no time, because synchronising it costs more
than the work it does, and several processes with many threads each slow each other down. A matrix product that is
split among threads is also rounded differently. Small computations therefore use one thread, whatever number torch is
set to, and their results do not depend on that number.

numpy and scipy each bring a BLAS of their own, with threads that know nothing of torch's and wait for each other by
spinning: on a busy machine an eigendecomposition of 300 rows waits for them longer than it computes. They are limited
at the same places as torch.
"""

from __future__ import annotations

import threading
from functools import cache
from types import TracebackType
from typing import Any

import scipy.linalg  # noqa: F401  (A BLAS can be limited only once it is loaded; this loads numpy's and scipy's.)
import torch
from threadpoolctl import ThreadpoolController

SMALL = 5000  # computation graphs with at most this many entries of A are computed by one thread


class one_thread:
    """Compute with one thread inside ``with one_thread():``, and restore the old numbers afterwards.

    torch's setting belongs to the Python thread that enters the block, so other threads keep theirs. The exception is a
    thread that uses torch for the first time during the block: it starts with one thread as well. The setting of a BLAS
    belongs to the process: it has one thread until the last Python thread has left its block. If ``when`` is False,
    nothing changes.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """

    __slots__ = ("before", "when")

    def __init__(self, when: bool = True) -> None:
        self.when = when
        self.before = 1

    def __enter__(self) -> None:
        if self.when:
            self.before = torch.get_num_threads()
            if self.before != 1:
                torch.set_num_threads(1)
            _BLAS.limit()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.when:
            _BLAS.release()
            if self.before != 1:
                torch.set_num_threads(self.before)


def use_one_thread() -> None:
    """Make this process compute with one thread from now on; for commands and workers, which own their process."""
    torch.set_num_threads(1)
    _BLAS.limit()


class _Blas:
    """The BLAS libraries of this process, limited to one thread as long as anybody wants that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._before: list[tuple[Any, int]] = []

    def limit(self) -> None:
        """Limit the libraries, if nobody has done so yet."""
        with self._lock:
            if self._wanted == 0:
                self._before = [(library, library.num_threads) for library in _libraries()]
                for library, before in self._before:
                    if before != 1:
                        library.set_num_threads(1)
            self._wanted += 1

    def release(self) -> None:
        """Restore the libraries, if nobody else wants them limited."""
        with self._lock:
            self._wanted -= 1
            if self._wanted == 0:
                for library, before in self._before:
                    # If another limit is in force elsewhere in the process, ours had no effect and is not undone.
                    if before != 1 and library.num_threads == 1:
                        _set(library, before)


def _set(library: Any, count: int) -> None:
    """Set the number of threads of a library, even if another Python thread has limited it.

    From version 3.8 of threadpoolctl on, only the thread that has limited OpenBLAS may change the number until it is
    cleared. The thread that leaves its block last need not be the one that entered first.
    """
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
    library.set_num_threads(count)
    if clear is not None:
        clear()


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries that are loaded and have one limit for all Python threads.

    To find them takes some milliseconds. A BLAS that is built on OpenMP has a limit for each thread, as torch has.
    """
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library for library in found if getattr(library, "threading_layer", None) != "openmp"]


_BLAS = _Blas()
