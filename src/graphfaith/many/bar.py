"""The progress of a run: rows done, failures so far, and the time left, in a bar or in a line a minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .._base.duration import in_words
from .._base.progress import is_watched, make_bar

_MINUTE = 60.0  # seconds between two lines, if nobody watches
_PERIOD = 600.0  # seconds over which the speed is measured: a block may take a minute


@contextmanager
def show_rows(total: int, done: int, failed: int, show: bool | None) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes the numbers of rows that are done and that failed, and shows them in a bar.

    If standard error is no terminal, as under ``nohup`` or ``ray job submit``, there is a line a minute in place of the
    bar. If ``show`` is False there is neither; True has the first line at once.
    """
    if show is False:
        yield lambda *_: None
        return
    if not is_watched():
        yield _Lines(total, done, soon=bool(show)).show
        return
    with make_bar("explaining", "rows", "{task.fields[failed]:,} failed,", period=_PERIOD) as progress:
        row = progress.add_task("", total=total, completed=done, failed=failed)
        yield lambda done, failed: progress.update(row, completed=done, failed=failed)


class _Lines:
    """Lines on standard error, at most one a minute."""

    def __init__(self, total: int, done: int, *, soon: bool) -> None:
        self._total, self._before, self._began = total, done, time.monotonic()
        self._last = self._began - (_MINUTE if soon else 0.0)
        from .._base.console import Notes  # not at the top: whoever only computes should not wait for rich

        self._notes = Notes()

    def show(self, done: int, failed: int) -> None:
        """Write a line, if the last one was a minute ago. The time left is that at the speed since the beginning."""
        now = time.monotonic()
        if now - self._last < _MINUTE:
            return
        self._last, gone = now, now - self._began
        left = gone * (self._total - done) / (done - self._before) if done > self._before else None
        ahead = "" if left is None else f", about {in_words(left)} left"
        text = f"explaining: {done:,}/{self._total:,} rows, {failed:,} failed, {in_words(gone)} gone{ahead}"
        self._notes.print(text, highlight=False, markup=False, soft_wrap=True)
