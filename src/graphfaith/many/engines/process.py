"""Processes that are started by a command of their own: they read messages from a pipe, and answer in another one."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, BinaryIO

from .base import NO_MEMORY
from .pipe import read_content, read_message, unpack

_LAST_WORDS = 5.0  # seconds for what a dead process had written to be read

# Ctrl-C reaches every process of the group. The run handles it, so these ignore it from their first line on.
_COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); import sys; sys.path[:] = sys.argv[1:]; "
    "from {module} import main; main()"
)


def start_process(module: str) -> subprocess.Popen[bytes]:
    """Start a process with one thread that calls ``main()`` of a module, with a pipe to it and one from it."""
    words = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")}
    # Without -P the current folder would come first, and a queue.py of the user would be taken for Python's own.
    command = [sys.executable, "-P", "-c", _COMMAND.format(module=module), *_standard_first(sys.path)]
    return subprocess.Popen(command, env=words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the pipes from and to whoever has started this process, and keep all others from them.

    A model may print. Its words go to standard error, so that the pipe has messages only.
    """
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def receive(requests: BinaryIO) -> queue.SimpleQueue[Any]:
    """Return the messages that come in. When the run has ended, however it did, this process ends at once."""
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, messages), daemon=True).start()
    return messages


@dataclass(frozen=True)
class Ended:
    """A process has ended, although it was not told to."""

    code: int

    @property
    def how(self) -> str:
        """How it ended, in words."""
        return describe_end(self.code)


def listen(process: subprocess.Popen[bytes], put: Callable[[Any], None]) -> None:
    """Pass on each message of a process as it comes, and at last that it has :class:`Ended`.

    The end of its pipe does not say that a process has ended: what it has started holds the pipe open, and may live on.
    """

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as pipe, suppress(EOFError, OSError):  # A message may be cut off by a death.
            while True:
                put(unpack(read_content(pipe)))

    def wait() -> None:
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        code = process.wait()
        reader.join(_LAST_WORDS)
        put(Ended(code))

    threading.Thread(target=wait, daemon=True).start()


def describe_end(code: int) -> str:
    """Return how a process ended, in words.

    >>> describe_end(3), describe_end(-9), describe_end(86)
    ('exit code 3', 'signal 9, SIGKILL', 'out of memory')
    """
    if code == NO_MEMORY:
        return "out of memory"
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {-code}, {signal.Signals(-code).name}"
    return f"signal {-code}"


def hang_up(pipe: IO[bytes] | None) -> None:
    """Close a pipe to or from a process that may be dead."""
    assert pipe is not None
    with suppress(OSError):
        pipe.close()


def _receive(requests: BinaryIO, messages: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            messages.put(read_message(requests))
    except (EOFError, OSError):
        os._exit(0)


def _standard_first(folders: list[str]) -> list[str]:
    """Return the path by which a process finds this library where this one has found it: Python's own modules first.

    The folder of a model may be the first one here, and its modules may have the names of Python's own.
    """
    standard = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
    found = [folder for folder in folders if folder]
    return sorted(found, key=lambda one: not (one.startswith(standard) and not one.endswith("-packages")))
