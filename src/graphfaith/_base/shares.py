"""Work that several threads share: each takes the next piece when it has done one, so that none waits for another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from .threads import one_thread

Piece = TypeVar("Piece")


class Shares:
    """Pieces of work that the threads of a pool begin at once, and that the thread which wants them done finishes.

    What a piece does must not depend on the others, nor on the thread that does it. Without a pool, all is done by the
    thread that calls :meth:`finish`.

    >>> done = []
    >>> Shares(done.append, [1, 2, 3], None, 0).finish()
    >>> done
    [1, 2, 3]
    """

    def __init__(
        self, work: Callable[[Piece], None], pieces: Iterable[Piece], pool: ThreadPoolExecutor | None, helpers: int
    ) -> None:
        self._left = deque(pieces)
        self._work: Callable[[Piece], None] = work
        self._helpers: list[Future[None]] = []
        if pool is not None:
            self._helpers = [pool.submit(self._do) for _ in range(min(helpers, len(self._left)))]

    def _do(self) -> None:
        """Do pieces until none is left."""
        with one_thread():  # torch's setting belongs to each thread
            while self._left:
                try:
                    piece = self._left.popleft()
                except IndexError:  # Another thread has taken the last one.
                    return
                self._work(piece)

    def finish(self) -> None:
        """Do what is left, and wait for what other threads do; an exception in any of them is raised here."""
        try:
            self._do()
        finally:
            self._left.clear()
            for helper in self._helpers:
                if not helper.cancel():  # One that has not begun has nothing left to do.
                    helper.result()
