"""Clocks that measure how long each stage of an explanation takes.

While no measurement is running, a stage costs almost no time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Literal, TypeVar, get_args

Stage = Literal["subgraph", "sensitivity", "sampling", "F", "features", "solve", "gradient", "layout"]
STAGES: tuple[Stage, ...] = get_args(Stage)

Item = TypeVar("Item")

_seconds: dict[Stage, float] | None = None


class stage:
    """Add the time spent inside ``with stage(name):`` to the clock of a stage. Stages must not be nested.

    - ``subgraph``: finding the computation graph and verifying it against the whole graph
    - ``sensitivity``: computing the gradients of F at samples
    - ``sampling``: drawing the perturbations
    - ``F``: running the model on the perturbations
    - ``features``: computing the terms of p
    - ``solve``: solving the least-squares problem, and all else that the core does in the same call
    - ``gradient``: computing the scores
    - ``layout``: writing the scores into the masks of PyG
    """

    __slots__ = ("counted", "name", "started")

    def __init__(self, name: Stage) -> None:
        self.name: Stage = name

    def __enter__(self) -> None:
        self.counted = _seconds
        if _seconds is not None:
            self.started = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.counted is not None:
            self.counted[self.name] += time.perf_counter() - self.started


def time_items(items: Iterable[Item], name: Stage) -> Iterator[Item]:
    """Yield the same items; the time that producing each of them takes is added to the clock of a stage."""
    source = iter(items)
    while True:
        with stage(name):
            item = next(source, None)
        if item is None:
            return
        yield item


@contextmanager
def measure_stages() -> Iterator[dict[Stage, float]]:
    """Measure the seconds that all threads together spend in each stage inside this block.

    >>> with measure_stages() as seconds, stage("solve"):
    ...     pass
    >>> 0 <= seconds["solve"] < 1, seconds["F"]
    (True, 0.0)
    """
    global _seconds
    before, _seconds = _seconds, dict.fromkeys(STAGES, 0.0)
    try:
        yield _seconds
    finally:
        _seconds = before
