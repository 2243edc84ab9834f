"""Worker processes that share a long run and end when it ends."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from .threads import use_one_thread

POSSIBLE_WORKERS = 256  # processes; each loads torch, so that more would fill the memory of any machine


@contextmanager
def open_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of ``workers`` processes with one thread each.

    Any exception inside the block, including a keyboard interrupt, terminates the processes immediately.
    """
    # The processes are spawned, not forked, because the threads of torch do not survive a fork.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    except BaseException:
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    """Set up a worker process: one thread, no reaction to Ctrl-C, and an exit when the parent process has died."""
    use_one_thread()
    # Ctrl-C reaches every process of the group. The parent handles it and terminates the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def exit_with_parent() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()
