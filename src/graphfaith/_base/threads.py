"""How many threads to compute with.

On a computation graph of a few thousand entries a second thread gains nothing: waiting for it costs more than it does,
and several processes at work side by side stand in each other's way. And a product split among threads is rounded
otherwise. So small work is done by one thread, whatever torch was told, and gives the same answer whatever that was.
"""

from __future__ import annotations

from types import TracebackType

import torch

SMALL = 5000  # entries of A: up to so many one thread is enough


class one_thread:
    """Let torch compute with one thread inside ``with one_thread():``, and as before afterwards.

    It is a matter of the Python thread that enters; others go on as they were, but one that computes for the first
    time just then begins with one as well. ``when`` False does nothing.

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
