"""Where messages for the user go while a command works."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from rich.console import Console


class _StandardError:
    """Standard error as it is now, except that what cannot be written is dropped."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


class Notes(Console):
    """Messages on standard error. If they cannot be written, because nobody reads them, the work goes on without.

    Rich's own console would end the process, and with it work whose results go to a file.
    """

    def __init__(self) -> None:
        super().__init__(file=_StandardError())  # type: ignore[arg-type]
