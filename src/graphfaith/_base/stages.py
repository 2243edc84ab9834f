"""Where the time of an explanation goes: a clock for each stage, which costs next to nothing while nobody looks."""

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
    """Count the time inside ``with stage(name):`` to a stage. Stages do not nest.

    ``subgraph`` is finding the computation graph, and proving it against the whole one; ``sensitivity`` F's gradients
    at samples; ``sampling`` drawing the perturbations; ``F`` the model on them; ``features`` the terms of p;
    ``solve`` the least squares; ``gradient`` the scores; ``layout`` writing them into PyG's masks.
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


def timed(items: Iterable[Item], name: Stage) -> Iterator[Item]:
    """The same items; the time it takes to make each counts to a stage."""
    source = iter(items)
    while True:
        with stage(name):
            item = next(source, None)
        if item is None:
            return
        yield item


@contextmanager
def measured() -> Iterator[dict[Stage, float]]:
    """Seconds spent in each stage inside this block, by any thread.

    >>> with measured() as seconds, stage("solve"):
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
