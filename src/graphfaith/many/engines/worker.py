"""A process of the local engine: it reads tasks from its standard input, and ends when nobody holds the other end."""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from typing import Any, BinaryIO

from ..._base.errors import GraphfaithError, RunError, describe_error
from ..._base.heap import keep_free_memory
from ..._base.threads import use_one_thread
from ..work import check_same, do
from .base import NO_MEMORY
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
    keep_free_memory()
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, tasks), daemon=True).start()
    path, pickled = tasks.get()
    sys.path[:] = path
    try:
        job, digests = pickle.loads(pickled)
        check_same(job, digests)  # It opens the graph and the model.
        write_message(replies, None)  # ready
        while True:
            task = tasks.get()
            try:
                outcome = do(job, digests, task)
            except MemoryError as error:
                if isinstance(error, GraphfaithError):
                    raise
                os._exit(NO_MEMORY)
            write_message(replies, outcome)
    except BaseException as error:
        write_message(replies, error if isinstance(error, GraphfaithError) else RunError(describe_error(error)))


def _receive(requests: BinaryIO, tasks: queue.SimpleQueue[Any]) -> None:
    """Pass tasks on. When the run has ended, however it did, this process ends at once, whatever it is doing."""
    try:
        while True:
            tasks.put(read_message(requests))
    except (EOFError, OSError):
        os._exit(0)
