"""A process of the local engine: it reads tasks from its standard input, and ends when nobody holds the other end."""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from typing import Any, BinaryIO

from ..._base.errors import GraphfaithError, RunError, describe_error
from ..._base.threads import use_one_thread
from ..work import do
from .pipe import read_message, write_message


def main() -> None:
    """Do tasks until the run ends."""
    # A model may print. Its words go to standard error, so that the pipe has messages only.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    use_one_thread()
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, tasks), daemon=True).start()
    path, pickled = tasks.get()
    sys.path[:] = path
    try:
        job = pickle.loads(pickled)
        write_message(replies, None)  # ready
        while True:
            write_message(replies, do(job, tasks.get()))
    except BaseException as error:
        write_message(replies, error if isinstance(error, GraphfaithError) else RunError(describe_error(error)))


def _receive(requests: BinaryIO, tasks: queue.SimpleQueue[Any]) -> None:
    """Pass tasks on. When the run has ended, however it did, this process ends at once, whatever it is doing."""
    try:
        while True:
            tasks.put(read_message(requests))
    except (EOFError, OSError):
        os._exit(0)
