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
    """A cache of the answers to the last questions, as many as weigh ``keep`` together.

    By default every answer weighs 1. An answer that weighs more than ``keep`` is given to those who wait, but not kept.

    >>> flights = Flights(keep=2)
    >>> flights.get("6 x 7", lambda: 42), flights.get("6 x 7", lambda: 1 / 0)
    (42, 42)
    """

    def __init__(self, keep: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self.keep, self._weigh = keep, weigh
        self._lock = threading.Lock()
        self._flights: OrderedDict[Hashable, Future[V]] = OrderedDict()
        self._weights: dict[Hashable, int] = {}  # of the answers that are there

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
                self._keep(question, flight.result())
        try:
            return flight.result()
        finally:
            del flight  # An error refers to this frame. Without this the two would keep each other in memory.

    def _keep(self, question: Hashable, answer: V) -> None:
        """Keep an answer, and forget the oldest ones that are too much."""
        with self._lock:
            self._weights[question] = self._weigh(answer)
            total = sum(self._weights.values())
            for oldest in [one for one in self._flights if one in self._weights]:
                if total <= self.keep:
                    return
                total -= self._weights.pop(oldest)
                del self._flights[oldest]
