"""The progress bar of a run: rows done, failures so far, and the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PERIOD = 600.0  # seconds over which the speed is measured: a block may take a minute


@contextmanager
def show_rows(total: int, done: int, failed: int, show: bool | None) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes the numbers of rows that are done and that failed, and shows them in a bar.

    If ``show`` is None, the bar appears only if standard error is a terminal.
    """
    # rich is imported here because `import graphfaith` should not load it.
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from .._base.console import Notes

    console = Notes()
    if show is False or (show is None and not console.is_terminal):
        yield lambda *_: None
        return
    columns = (
        TextColumn("explaining"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows,"),
        TextColumn("{task.fields[failed]:,} failed,"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    # A log file keeps every line, so there the bar is written only once, at the end.
    with Progress(*columns, console=console, transient=console.is_terminal, speed_estimate_period=_PERIOD) as progress:
        row = progress.add_task("", total=total, completed=done, failed=failed)
        yield lambda done, failed: progress.update(row, completed=done, failed=failed)
