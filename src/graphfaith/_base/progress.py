"""A progress bar on standard error, and a line that says how long something takes that has no parts to count."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from .duration import in_words

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
SOON = 1.0  # seconds; what takes less needs no bar
_ONE = threading.Lock()  # held while a bar is there: a step of tracked work may itself be tracked, and has none
_LINES: list[_Line] = []  # the line of work without parts; a bar of a part of it takes its place


def track(
    items: Iterable[T],
    doing: str,
    what: str,
    *,
    show: bool | None = None,
    total: int | None = None,
    size: Callable[[T], int] | None = None,
) -> Iterator[T]:
    """Yield ``items`` while a bar shows how many are done and how long the rest will take.

    If ``show`` is None, the bar appears only if standard error is a terminal, and after a second. ``total`` is the
    number of items; it is needed for the remaining time if ``items`` has no length. ``size`` says how many an item
    counts for, if that is not one.
    """
    if show is False or (show is None and not is_watched()):
        yield from items
        return
    count = len(items) if total is None and isinstance(items, Sized) else total
    began, done, bar, row = time.monotonic(), 0, None, None
    try:
        for item in items:
            if bar is None and (show or time.monotonic() - began >= SOON) and _ONE.acquire(blocking=False):
                for line in _LINES:
                    line.give_way()
                bar = make_bar(doing, what)
                row = bar.add_task("", total=count, completed=done)
                # It has been at work since then, not only since the bar is there.
                bar.tasks[0].start_time = bar.get_time() - (time.monotonic() - began)
                bar.start()
            yield item
            done += 1 if size is None else size(item)
            if bar is not None and row is not None:
                bar.update(row, completed=done)
    finally:
        if bar is not None:
            bar.stop()
            _ONE.release()
            for line in _LINES:
                line.come_back()


@contextmanager
def waiting(doing: str, *, show: bool | None = None) -> Iterator[None]:
    """Say "doing, 12 seconds gone" while the block runs, of which nobody knows how long it will take.

    If ``show`` is None, the line appears only if standard error is a terminal, and after a second. If a part of the
    work is tracked, the part's bar is there in its place.
    """
    if _LINES or show is False or (show is None and not is_watched()):
        yield
        return
    line = _Line(doing)
    _LINES.append(line)
    due = threading.Timer(0.0 if show else SOON, line.come_back)
    due.daemon = True  # Whoever stops the work does not wait for its line.
    due.start()
    try:
        yield
    finally:
        due.cancel()
        _LINES.remove(line)
        line.give_way(for_good=True)


class _Line:
    """A line on standard error, which a thread of its own keeps up to date."""

    def __init__(self, doing: str) -> None:
        self.doing, self.began, self.ended = doing, time.monotonic(), False
        self.shown: Progress | None = None
        self.turn = threading.Lock()

    def come_back(self) -> None:
        """Show the line, unless the work has ended or a bar is there."""
        with self.turn:
            if self.shown is None and not self.ended and not _ONE.locked():
                self.shown = _make([f"{self.doing},"], 30.0)
                self.shown.add_task("", total=None)
                self.shown.tasks[0].start_time = self.shown.get_time() - (time.monotonic() - self.began)
                self.shown.start()

    def give_way(self, *, for_good: bool = False) -> None:
        """Take the line away."""
        with self.turn:
            self.ended = self.ended or for_good
            if self.shown is not None:
                self.shown.stop()
                self.shown = None


def make_bar(doing: str, what: str, *more: str, period: float = 30.0) -> Progress:
    """Return a bar: "doing ----- 3/8 what, 12 seconds gone, about 20 seconds left", with ``more`` fields before times.

    The speed is that of the last ``period`` seconds. In a file every line stays, so there the bar is written only once,
    at the end.
    """
    # rich is imported here because `import graphfaith` should not load it.
    from rich.progress import BarColumn, MofNCompleteColumn

    return _make([doing, BarColumn(), MofNCompleteColumn(), f"{what},", *more], period)


def _make(columns: list[Any], period: float) -> Progress:
    """Return a display of these columns, texts among them, and of the times."""
    from rich.progress import Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    from .console import Notes

    class Times(ProgressColumn):
        """The times gone and left, in words."""

        def render(self, task: Task) -> Text:
            gone, left = task.elapsed or 0.0, task.time_remaining
            ahead = "" if left is None or task.finished else f", about {in_words(left)} left"
            return Text(f"{in_words(gone)} gone{ahead}")

    columns = [TextColumn(one) if isinstance(one, str) else one for one in columns]
    console = Notes()
    return Progress(*columns, Times(), console=console, transient=console.is_terminal, speed_estimate_period=period)


def say_if_watched(line: str) -> None:
    """Write a line to standard error if that is a terminal."""
    if is_watched():
        print(line, file=sys.stderr, flush=True)


def is_watched() -> bool:
    """Return whether standard error is a terminal."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # It is closed.
        return False
