"""A cache of answers in which the same question is never computed twice at the same time.

A thread that asks a question which another thread is computing waits for that result.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

V = TypeVar("V")


class Flights(Generic[V]):
    """A cache of the answers to the last ``keep`` questions.

    >>> flights = Flights(keep=2)
    >>> flights.get("6 x 7", lambda: 42), flights.get("6 x 7", lambda: 1 / 0)
    (42, 42)
    """

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self._lock = threading.Lock()
        self._flights: OrderedDict[Hashable, Future[V]] = OrderedDict()

    def get(self, question: Hashable, answer: Callable[[], V]) -> V:
        """Return the answer from the cache, from another thread that is computing it, or by calling ``answer``."""
        with self._lock:
            flight = self._flights.get(question)
            is_new = flight is None
            if flight is None:
                flight = self._flights[question] = Future()
            self._flights.move_to_end(question)
        if is_new:
            try:
                flight.set_result(answer())
            except BaseException as error:
                # All waiting threads get the error, but it is not cached: a later call computes the answer again.
                with self._lock:
                    self._flights.pop(question, None)
                flight.set_exception(error)
            else:
                self._forget_oldest()
        return flight.result()

    def _forget_oldest(self) -> None:
        with self._lock:
            done = [question for question, flight in self._flights.items() if flight.done()]
            for question in done[: max(len(done) - self.keep, 0)]:
                del self._flights[question]
