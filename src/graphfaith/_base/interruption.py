"""Ctrl-C while the command is still loading.

Loading torch takes seconds. A KeyboardInterrupt in there ends in a traceback, or is lost in the code of a library that
catches everything. The command therefore ends at once, without an exception, until :func:`allow_interrupts` is called.
This module is the first that :mod:`graphfaith` imports, and it does nothing in any other program.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

STOPPED = 130  # what a shell calls the exit code of a process that Ctrl-C has ended


def is_command() -> bool:
    """Return whether this process is ``graphfaith`` or ``python -m graphfaith``."""
    if sys.argv[:1] == ["-m"]:  # Python has not found the module yet.
        given = sys.orig_argv
        return "-m" in given[:-1] and given[given.index("-m") + 1] == "graphfaith"
    return bool(sys.argv) and Path(sys.argv[0]).stem == "graphfaith"


def stop_at_once(signal_number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """Say that the command was stopped, and end the process."""
    os.write(2, b"stopped\n")
    os._exit(STOPPED)


def allow_interrupts() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, now that there is somebody to catch it."""
    if signal.getsignal(signal.SIGINT) is stop_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# A process whose interrupts are ignored, such as a background job of a shell, keeps ignoring them.
if (
    is_command()
    and threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, stop_at_once)
