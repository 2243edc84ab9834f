"""Lines for the user beside the results."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._base.console import Notes
from .._base.errors import one_line

err = Notes()


def say(text: str) -> None:
    """Print a line for the user to standard error, which keeps standard output free for the results."""
    err.print(text, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def one_line_each() -> Iterator[None]:
    """Say warnings as notes of one line, without the path and the line of code where they were raised."""
    before = warnings.showwarning

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"note: {one_line(str(message))}")

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before
