"""A word to the user when the core is compiled, which takes a while once on a machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import event

_EVENT = "numba:compile"  # It does not happen if the machine code is found on disk.
# What takes long, by the function of the core whose compilation comes first in it. All else takes a few seconds.
_LONG = {
    "fit_parts": "compiling KEC's part of the core, once on this machine: about a quarter of a minute",
    "anchor_parts": "compiling AnchoredKEC's part of the core, once on this machine: about half a minute",
}
_SHORT = "compiling the core, once on this machine: a few seconds"


def announce_compilation(say: Callable[[str], None]) -> Callable[[], None]:
    """Call ``say`` with a line when numba begins to compile, and with one before each part that takes long.

    Whoever asked last is told, and nobody else. Return a function that ends this.
    """
    told: tuple[Callable[[str], None], set[str]] = say, set()
    _LISTENER.told.append(told)
    return lambda: _LISTENER.told.remove(told)


class _Listener(event.Listener):  # type: ignore[misc]  # numba is not typed
    def __init__(self) -> None:
        self.told: list[tuple[Callable[[str], None], set[str]]] = []

    def on_start(self, event: Any) -> None:
        """Say it once."""
        if not self.told:
            return
        say, said = self.told[-1]
        line = _LONG.get(event.data["dispatcher"].py_func.__name__, "" if said else _SHORT)
        if line and line not in said:
            said.add(line)
            say(line)

    def on_end(self, event: object) -> None:
        """Nothing is said when it is done."""


_LISTENER = _Listener()
event.register(_EVENT, _LISTENER)
