"""The engine of one machine: a few processes, each with a pipe of its own.

A pool of ``concurrent.futures`` is broken as soon as one of its processes dies. Here a dead process is replaced, its
task is done again, and the others do not notice. The processes are started by their own command, so that a script that
explains many nodes need not be importable, as it would have to be for :mod:`multiprocessing`.
"""

from __future__ import annotations

import pickle
import queue
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ..._base.errors import RunError
from ..plan import Job
from ..work import Outcome, Task
from .base import RETRIES, Death, key_of, retries_of
from .pipe import write_message
from .process import Ended, hang_up, listen, start_process

_WORKER = "graphfaith.many.engines.worker"


@dataclass
class _Worker:
    """A process, and the task that it does."""

    number: int
    process: subprocess.Popen[bytes]
    task: Task | None = None
    is_ready: bool = False


@dataclass
class LocalEngine:
    """A number of processes that do tasks of one job."""

    job: Job
    digests: Mapping[str, str]
    workers: int
    place: int = 0
    deaths: int = 0
    _alive: dict[int, _Worker] = field(default_factory=dict)
    _events: queue.SimpleQueue[tuple[int, Any]] = field(default_factory=queue.SimpleQueue)
    _numbers: Iterator[int] = field(default_factory=count)
    _tries: dict[tuple[int, int, int], int] = field(default_factory=dict)  # deaths of a task's workers
    _unready: int = 0  # processes in a row that died before they could begin

    @classmethod
    @contextmanager
    def open(cls, job: Job, digests: Mapping[str, str], workers: int, place: int = 0) -> Iterator[LocalEngine]:
        """Start the processes, and end them afterwards, also after an exception."""
        engine = cls(job, digests, workers, place)
        try:
            for _ in range(workers):
                engine._start()
            yield engine
        finally:
            engine._close()

    def has_room(self) -> bool:
        """Return whether a process waits for a task; one that is still starting does, too."""
        return any(worker.task is None for worker in self._alive.values())

    def submit(self, task: Task) -> None:
        """Give a task to a process that waits, rather to one that is ready than to one that is starting."""
        waiting = [worker for worker in self._alive.values() if worker.task is None]
        worker = max(waiting, key=lambda one: one.is_ready)
        worker.task = task
        self._send(worker, task)

    def wait(self) -> tuple[Task, Outcome | Death]:
        """Wait until a task is done or given up."""
        while True:
            number, event = self._events.get()
            worker = self._alive.get(number)
            if worker is None:
                continue
            if isinstance(event, Ended):
                given_up = self._replace(worker, event)
                if given_up is not None:
                    return given_up
            elif event is None:
                worker.is_ready, self._unready = True, 0
            elif isinstance(event, BaseException):
                raise event
            else:
                task, worker.task = worker.task, None
                assert task is not None
                self._tries.pop(key_of(task), None)
                return task, event

    def _start(self) -> _Worker:
        number = next(self._numbers)
        process = start_process(_WORKER)
        worker = self._alive[number] = _Worker(number, process)
        listen(process, lambda event: self._events.put((number, event)))
        # The job is pickled inside of the message: its module may lie where only the path of this process leads.
        self._send(worker, (sys.path, pickle.dumps((self.job, dict(self.digests), self.place))))
        return worker

    def _send(self, worker: _Worker, message: Any) -> None:
        assert worker.process.stdin is not None
        with suppress(BrokenPipeError):  # It has died, and its listener says so.
            write_message(worker.process.stdin, message)

    def _replace(self, worker: _Worker, ended: Ended) -> tuple[Task, Death] | None:
        """Start another process for one that died, and let it do the task again; or give the task up."""
        del self._alive[worker.number]
        hang_up(worker.process.stdin)
        self.deaths += 1
        if not worker.is_ready:
            self._unready += 1
            # As long as another one works, it is rather that somebody kills them.
            if self._unready > RETRIES and not any(one.is_ready for one in self._alive.values()):
                raise RunError(
                    f"processes die before they can begin ({ended.how}): is there enough memory for {self.workers} of "
                    "them? What they said is on standard error"
                )
        other, task = self._start(), worker.task
        if task is None:
            return None
        if worker.is_ready:
            key = key_of(task)
            self._tries[key] = self._tries.get(key, 0) + 1
            if self._tries[key] > retries_of(task):
                del self._tries[key]
                return task, Death(ended.how)
        other.task = task
        self._send(other, task)
        return None

    def _close(self) -> None:
        for worker in self._alive.values():
            worker.process.kill()
        for worker in self._alive.values():
            worker.process.wait()
            hang_up(worker.process.stdin)
        self._alive.clear()
