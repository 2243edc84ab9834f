"""The engine of one machine: a few processes, each with a pipe of its own.

A pool of ``concurrent.futures`` is broken as soon as one of its processes dies. Here a dead process is replaced, its
task is done again, and the others do not notice. The processes are started by their own command, so that a script that
explains many nodes need not be importable, as it would have to be for :mod:`multiprocessing`.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ..._base.errors import RunError
from ..plan import Job
from ..work import Outcome, Task
from .base import NO_MEMORY, RETRIES, Death, retries_of
from .pipe import read_message, write_message

# Ctrl-C reaches every process of the group. The run handles it, so a worker ignores it from its first line on.
_COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); import sys; sys.path[:] = sys.argv[1:]; "
    "from graphfaith.many.engines.worker import main; main()"
)
_LAST_WORDS = 5.0  # seconds for what a dead process had written to be read


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
    deaths: int = 0
    _alive: dict[int, _Worker] = field(default_factory=dict)
    _events: queue.SimpleQueue[tuple[int, Any]] = field(default_factory=queue.SimpleQueue)
    _numbers: Iterator[int] = field(default_factory=count)
    _tries: dict[tuple[int, int, int], int] = field(default_factory=dict)  # deaths of a task's workers
    _unready: int = 0  # processes in a row that died before they could begin

    @classmethod
    @contextmanager
    def open(cls, job: Job, digests: Mapping[str, str], workers: int) -> Iterator[LocalEngine]:
        """Start the processes, and end them afterwards, also after an exception."""
        engine = cls(job, digests, workers)
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
            if isinstance(event, _Ended):
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
                self._tries.pop(_key(task), None)
                return task, event

    def _start(self) -> _Worker:
        number = next(self._numbers)
        words = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")}
        # Without -P the current folder would come first, and a queue.py of the user would be taken for Python's own.
        command = [sys.executable, "-P", "-c", _COMMAND, *_standard_first(sys.path)]
        process = subprocess.Popen(command, env=words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        worker = self._alive[number] = _Worker(number, process)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        # The job is pickled inside of the message: its module may lie where only the path of this process leads.
        self._send(worker, (sys.path, pickle.dumps((self.job, dict(self.digests)))))
        return worker

    def _send(self, worker: _Worker, message: Any) -> None:
        assert worker.process.stdin is not None
        with suppress(BrokenPipeError):  # It has died, and its listener says so.
            write_message(worker.process.stdin, message)

    def _listen(self, worker: _Worker) -> None:
        """Pass on what a process says, and then that it has ended."""
        reader = threading.Thread(target=self._read, args=(worker,), daemon=True)
        reader.start()
        code = worker.process.wait()
        # Its pipe may stay open longer than it lived, if it has started processes of its own.
        reader.join(_LAST_WORDS)
        self._events.put((worker.number, _Ended(code)))

    def _read(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        with worker.process.stdout as pipe, suppress(EOFError, OSError):  # A message may be cut off by a death.
            while True:
                self._events.put((worker.number, read_message(pipe)))

    def _replace(self, worker: _Worker, ended: _Ended) -> tuple[Task, Death] | None:
        """Start another process for one that died, and let it do the task again; or give the task up."""
        del self._alive[worker.number]
        _hang_up(worker.process)
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
            key = _key(task)
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
            _hang_up(worker.process)
        self._alive.clear()


@dataclass(frozen=True)
class _Ended:
    """A process has ended, although it was not told to."""

    code: int

    @property
    def how(self) -> str:
        """How it ended, in words."""
        if self.code == NO_MEMORY:
            return "out of memory"
        if self.code >= 0:
            return f"exit code {self.code}"
        with suppress(ValueError):
            return f"signal {-self.code}, {signal.Signals(-self.code).name}"
        return f"signal {-self.code}"


def _key(task: Task) -> tuple[int, int, int]:
    return task.part.block, task.first, len(task.ids)


def _standard_first(folders: list[str]) -> list[str]:
    """Return the path by which a worker finds this library where this process has found it: Python's own modules first.

    The folder of a model may be the first one here, and its modules may have the names of Python's own.
    """
    standard = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
    found = [folder for folder in folders if folder]
    return sorted(found, key=lambda one: not (one.startswith(standard) and not one.endswith("-packages")))


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe to a dead process; the one from it is closed by whoever reads it."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
