"""A word to the user when the core is compiled, which takes a while once on a machine."""

from __future__ import annotations

from collections.abc import Callable

from numba.core import event

_EVENT = "numba:compile"  # It does not happen if the machine code is found on disk.


def announce_compilation(say: Callable[[str], None]) -> Callable[[], None]:
    """Call ``say`` with one line when numba begins to compile for the first time; return a function that ends this."""
    listener = _Listener(say)
    event.register(_EVENT, listener)
    return lambda: event.unregister(_EVENT, listener)


class _Listener(event.Listener):  # type: ignore[misc]  # numba is not typed
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say: Callable[[str], None] | None = say

    def on_start(self, event: object) -> None:  # noqa: ARG002
        """Say it once."""
        say, self._say = self._say, None
        if say is not None:
            say("compiling the core, once on this machine: a third of a minute for KEC, up to a minute for all")

    def on_end(self, event: object) -> None:
        """Nothing is said when it is done."""
