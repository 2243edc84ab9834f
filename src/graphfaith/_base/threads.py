"""The number of threads that torch computes with.

On a computation graph with a few thousand entries a second thread saves no time, because synchronising it costs more
than the work it does, and several processes with many threads each slow each other down. A matrix product that is
split among threads is also rounded differently. Small computations therefore use one thread, whatever number torch is
set to, and their results do not depend on that number.
"""

from __future__ import annotations

from types import TracebackType

import torch

SMALL = 5000  # computation graphs with at most this many entries of A are computed by one thread


class one_thread:
    """Make torch compute with one thread inside ``with one_thread():``, and restore the old number afterwards.

    The setting belongs to the Python thread that enters the block, so other threads keep theirs. The exception is a
    thread that uses torch for the first time during the block: it starts with one thread as well. If ``when`` is
    False, nothing changes.

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.when and self.before != 1:
            torch.set_num_threads(self.before)
