"""A progress bar on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(
    items: Iterable[T], doing: str, what: str, *, show: bool | None = None, total: int | None = None
) -> Iterator[T]:
    """Yield ``items`` while a bar shows how many are done and how long the rest will take.

    If ``show`` is None, the bar appears only if standard error is a terminal. ``total`` is the number of items; it is
    needed for the remaining time if ``items`` has no length.
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

    from .console import Notes

    console = Notes()
    if show is False or (show is None and not console.is_terminal):
        yield from items
        return
    columns = (
        TextColumn(doing),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{what},"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    # A log file keeps every line, so there the bar is written only once, at the end.
    with Progress(*columns, console=console, transient=console.is_terminal) as bar:
        yield from bar.track(items, total=total)
