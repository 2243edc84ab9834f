"""Questions under way: one that is being answered is waited for, and never answered twice at the same time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

V = TypeVar("V")


class Flights(Generic[V]):
    """Answers by question, of which the last ``keep`` are kept.

    >>> flights = Flights(keep=2)
    >>> flights.get("6 x 7", lambda: 42), flights.get("6 x 7", lambda: 1 / 0)
    (42, 42)
    """

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self._lock = threading.Lock()
        self._flights: OrderedDict[Hashable, Future[V]] = OrderedDict()

    def get(self, question: Hashable, answer: Callable[[], V]) -> V:
        """The answer: from before, from whoever is working it out, or worked out here and now."""
        with self._lock:
            flight = self._flights.get(question)
            mine = flight is None
            if flight is None:
                flight = self._flights[question] = Future()
            self._flights.move_to_end(question)
        if mine:
            try:
                flight.set_result(answer())
            except BaseException as error:
                with self._lock:  # all who wait hear of it, but it may be asked again
                    self._flights.pop(question, None)
                flight.set_exception(error)
            else:
                self._forget()
        return flight.result()

    def _forget(self) -> None:
        with self._lock:
            landed = [question for question, flight in self._flights.items() if flight.done()]
            for question in landed[: max(len(landed) - self.keep, 0)]:
                del self._flights[question]
