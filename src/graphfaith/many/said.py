"""Warnings of the processes of a run, which its own process says, each of them once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .._base.errors import one_line


class Warned(NamedTuple):
    """A warning, as it is sent to another process."""

    category: type[Warning]
    text: str

    @classmethod
    def of(cls, heard: Iterable[warnings.WarningMessage]) -> tuple[Warned, ...]:
        """Return warnings that were heard, each once; kinds that the other process may not know are general ones."""
        known = ("builtins", "graphfaith")
        found = [
            cls(
                one.category if one.category.__module__.partition(".")[0] in known else UserWarning,
                one_line(str(one.message)),
            )
            for one in heard
        ]
        return tuple(dict.fromkeys(found))


@contextmanager
def hearing() -> Iterator[list[warnings.WarningMessage]]:
    """Keep the warnings of this process instead of writing them to standard error, with a path and a line of code."""
    with warnings.catch_warnings(record=True) as heard:
        yield heard


def say_again(warned: Iterable[Warned]) -> None:
    """Say warnings of another process in this one."""
    for one in warned:
        warnings.warn(one.text, one.category, stacklevel=2)
