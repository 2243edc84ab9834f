"""The engine of a cluster: Ray Core tasks, one a block.

Tasks get the job and the ids; the graph is a path in the job, and the rows of a block go from the task to the shared
folder. So nothing large passes through Ray's object store, and the run's own process is no bottleneck.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..._base.errors import GraphfaithError, RunError, describe_error
from ..._base.heap import keep_free_memory
from ..._base.threads import use_one_thread
from ..extra import import_extra
from ..plan import Job
from ..work import Outcome, Task, begin, do
from .base import NO_MEMORY, Death, key_of, retries_of

_STORE = 100 << 20  # bytes of the object store of a Ray of our own, which holds no more than a few pieces of blocks


@cache
def _open(path: tuple[str, ...], pickled: bytes) -> tuple[Job, dict[str, str]]:
    """Return the job and the digests of the plan, once in a process: the job keeps what it has loaded."""
    use_one_thread()
    keep_free_memory()
    # The module of the job, or of its model, may lie where only the path of the run leads.
    sys.path += [folder for folder in path if folder not in sys.path]
    job, digests, place = pickle.loads(pickled)
    begin(job, digests, place)
    return job, digests


def _do(path: tuple[str, ...], pickled: bytes, task: Task) -> Outcome | GraphfaithError:
    """Do a task in a process of Ray. An error is returned, because Ray would wrap one that is raised."""
    try:
        job, digests = _open(path, pickled)
        try:
            return do(job, digests, task)
        except MemoryError as error:
            if isinstance(error, GraphfaithError):
                raise
            os._exit(NO_MEMORY)
    except GraphfaithError as error:
        return error
    except Exception as error:
        return RunError(describe_error(error))


@dataclass
class RayEngine:
    """Tasks of Ray, of which as many are under way as there are workers."""

    job: tuple[tuple[str, ...], bytes]  # the path of this process, and the pickled job with the digests
    workers: int
    do: Any  # the function, as one of Ray
    deaths: int = 0
    _under_way: dict[Any, Task] = field(default_factory=dict)
    _tries: dict[tuple[int, int, int], int] = field(default_factory=dict)  # deaths of a task's processes

    @classmethod
    @contextmanager
    def open(
        cls, job: Job, digests: Mapping[str, str], workers: int, address: str | None, place: int = 0
    ) -> Iterator[RayEngine]:
        """Use the Ray of this process, or connect to a cluster, or start Ray on this machine; end only what was begun.

        Without an address a cluster is looked for in RAY_ADDRESS, where ``ray job submit`` leaves it.
        """
        ray = import_extra("ray")
        with _connected(ray, workers, address):
            pickled = pickle.dumps((job, dict(digests), place))
            engine = cls((tuple(sys.path), pickled), workers, ray.remote(num_cpus=1)(_do))
            try:
                yield engine
            finally:
                for reference in engine._under_way:
                    with suppress(Exception):  # The cluster may be gone.
                        ray.cancel(reference, force=True)

    def has_room(self) -> bool:
        """Return whether fewer tasks are under way than there are workers."""
        return len(self._under_way) < self.workers

    def submit(self, task: Task) -> None:
        """Give a task to Ray, which is not to do it again by itself: it would not say how often."""
        self._under_way[self.do.options(max_retries=0).remote(*self.job, task)] = task

    def wait(self) -> tuple[Task, Outcome | Death]:
        """Wait until a task is done or given up."""
        ray = import_extra("ray")
        lost = ray.exceptions
        while True:
            (reference,), _ = ray.wait(list(self._under_way), num_returns=1)
            task = self._under_way.pop(reference)
            key = key_of(task)
            try:
                outcome = ray.get(reference)
            except (lost.WorkerCrashedError, lost.OutOfMemoryError, lost.NodeDiedError, lost.ObjectLostError) as error:
                self.deaths += 1
                self._tries[key] = self._tries.get(key, 0) + 1
                if self._tries[key] > retries_of(task):
                    del self._tries[key]
                    return task, Death(_reason(error))
                self.submit(task)
                continue
            except lost.RayError as error:
                raise RunError(f"Ray has given up: {describe_error(error)}") from error
            if isinstance(outcome, GraphfaithError):
                raise outcome
            self._tries.pop(key, None)
            return task, outcome


def _reason(error: Exception) -> str:
    return "out of memory" if type(error).__name__ == "OutOfMemoryError" else "its worker of Ray crashed"


@contextmanager
def _connected(ray: Any, workers: int, address: str | None) -> Iterator[None]:
    """Connect to Ray, quietly, unless this process already is."""
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    own = {"num_cpus": workers, "object_store_memory": _STORE, "include_dashboard": False} if address == "local" else {}
    with _quiet(ray):
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise RunError(f"Ray at '{address}' cannot be used: {describe_error(error)}") from error
        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Keep Ray from printing to standard output that a worker has died: the run knows, and says so itself."""
    # There is no public way: log_to_driver silences workers, not raylets.
    place, name = getattr(getattr(ray, "_private", None), "worker", None), "_worker_logs_enabled"
    before = getattr(place, name, None)
    if before is not None:
        setattr(place, name, False)
    try:
        yield
    finally:
        if before is not None:
            setattr(place, name, before)
