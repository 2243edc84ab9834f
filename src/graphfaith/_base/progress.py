"""A progress bar on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

T = TypeVar("T")


def track(
    items: Iterable[T], doing: str, what: str, *, show: bool | None = None, total: int | None = None
) -> Iterator[T]:
    """Go through ``items`` with a bar that says how many are done and how long the rest will take.

    ``show`` None shows it if standard error is a terminal. ``total`` is how many there are, if they cannot be counted.
    """
    console = Console(stderr=True)
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
    # In a log the bar cannot be wiped away again, so there it is written once, when all is done.
    with Progress(*columns, console=console, transient=console.is_terminal) as bar:
        yield from bar.track(items, total=total)
