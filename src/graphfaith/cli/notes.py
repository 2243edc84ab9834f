"""Lines for the user beside the results."""

from __future__ import annotations

from .._base.console import Notes

err = Notes()


def say(text: str) -> None:
    """Print a line for the user to standard error, which keeps standard output free for the results."""
    err.print(text, highlight=False, markup=False, soft_wrap=True)
