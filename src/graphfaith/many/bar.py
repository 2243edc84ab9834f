"""The progress bar of a run: rows done, failures so far, and the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .._base.progress import is_watched, make_bar

_PERIOD = 600.0  # seconds over which the speed is measured: a block may take a minute


@contextmanager
def show_rows(total: int, done: int, failed: int, show: bool | None) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes the numbers of rows that are done and that failed, and shows them in a bar.

    If ``show`` is None, the bar appears only if standard error is a terminal.
    """
    if show is False or (show is None and not is_watched()):
        yield lambda *_: None
        return
    with make_bar("explaining", "rows", "{task.fields[failed]:,} failed,", period=_PERIOD) as progress:
        row = progress.add_task("", total=total, completed=done, failed=failed)
        yield lambda done, failed: progress.update(row, completed=done, failed=failed)
