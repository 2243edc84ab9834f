"""A process of the local engine: it reads tasks from its standard input, and ends when nobody holds the other end."""

from __future__ import annotations

import os
import pickle
import sys

from ..._base.errors import GraphfaithError, RunError, describe_error
from ..._base.heap import keep_free_memory
from ..._base.threads import use_one_thread
from ..work import begin, do
from .base import NO_MEMORY
from .pipe import write_message
from .process import receive, take_pipes


def main() -> None:
    """Do tasks until the run ends."""
    requests, replies = take_pipes()
    use_one_thread()
    keep_free_memory()
    tasks = receive(requests)
    path, pickled = tasks.get()
    sys.path[:] = path
    try:
        job, digests, place = pickle.loads(pickled)
        begin(job, digests, place)
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
