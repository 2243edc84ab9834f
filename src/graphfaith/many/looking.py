"""What has to be known of a job before its run begins, asked in a process of its own.

A model may end the process that runs it: by a fault in compiled code, by an exit, for want of memory. The run's own
process therefore never opens one. If the process that looks at it dies, another one looks in another way: on other
nodes, or on parts of the graph in place of the whole. So a few nodes that kill do not keep the others from being
explained, and a model that always kills is an error that says how.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .._base.errors import GraphfaithError, RunError, describe_error
from .._base.threads import use_one_thread
from .engines.base import NO_MEMORY
from .engines.pipe import write_message
from .engines.process import Ended, hang_up, listen, receive, start_process, take_pipes
from .plan import CHECKED, Job
from .said import Warned, hearing, say_again

_TRIES = 4  # processes that look at the model, before it is believed that every one dies


class _DiedError(Exception):
    """The process that looked has died; the message says how."""


class Looking:
    """A process that looks at a job, and is replaced if it dies."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._process: subprocess.Popen[bytes] | None = None
        self._said: queue.SimpleQueue[Any] = queue.SimpleQueue()  # by the process, its end last

    @classmethod
    @contextmanager
    def at(cls, job: Job) -> Iterator[Looking]:
        """Look at a job, and end the process afterwards."""
        looking = cls(job)
        try:
            yield looking
        finally:
            looking._end()

    def settle(self) -> tuple[Job, int, dict[str, str]]:
        """Return the job with all that is found out from its model said, the number of nodes, and the digests."""
        died: list[str] = []
        while len(died) < _TRIES:
            try:
                found: tuple[Job, int, dict[str, str]] = self._ask("settle", tuple(died))
            except _DiedError as error:
                died.append(str(error))
                continue
            self.job = found[0]
            if died:
                _warn(died[-1], "it was looked at in another way")
            return found
        raise RunError(f"each process that looked at the model died ({died[-1]}): what it said is on standard error")

    def check(self) -> int:
        """Return the place of a node at which the model can be explained, or raise an error if none of a few is one."""
        failures: list[GraphfaithError] = []
        died = ""
        for place in range(CHECKED):
            try:
                self._ask("check", place)
            except _DiedError as error:
                died = str(error)
                failures.append(
                    RunError(
                        f"the process that looked at the model died ({died}), as at each of {CHECKED} nodes from the "
                        "first to the last: what it said is on standard error"
                    )
                )
            except GraphfaithError as error:  # One node may be at fault, but hardly all of them.
                failures.append(error)
            else:
                if died:
                    _warn(died, "another node can be explained, so the run goes on")
                return place
        # What the model said is more than that a process died.
        raise next((one for one in failures if not isinstance(one, RunError)), failures[0])

    def _ask(self, what: str, given: Any) -> Any:
        """Return the answer of the process; an error that it has met is raised here."""
        if self._process is None:
            self._process, self._said = start_process(__name__), queue.SimpleQueue()
            listen(self._process, self._said.put)
            self._send(sys.path)
        # The job is pickled inside of the message: its module may lie where only the path of this process leads.
        self._send((what, pickle.dumps(self.job), given))
        said = self._said.get()
        if isinstance(said, Ended):
            self._end()
            raise _DiedError(said.how)
        if isinstance(said, BaseException):
            raise said
        answer, warned = said
        say_again(warned)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _send(self, message: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # It has died, which is seen where its answer is read.
            write_message(self._process.stdin, message)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            hang_up(self._process.stdin)
            self._process = None


def _warn(died: str, then: str) -> None:
    warnings.warn(f"a process that looked at the model died ({died}); {then}", stacklevel=4)


def main() -> None:
    """Answer what is asked about a job, until the run needs to know no more."""
    requests, replies = take_pipes()
    use_one_thread()
    messages = receive(requests)
    sys.path[:] = messages.get()
    while True:
        what, pickled, given = messages.get()
        with hearing() as heard:
            answer = _answer(what, pickled, given)
        write_message(replies, (answer, Warned.of(heard)))


def _answer(what: str, pickled: bytes, given: Any) -> Any:
    try:
        job: Job = pickle.loads(pickled)
        if what == "check":
            job.check_at(given)
            return None
        # A model may change when it is run, for example count its calls: it is known by what it was before.
        before = None if given else (job.num_nodes, job.digests())
        settled = job.settled(given)
        return settled, *(before or (settled.num_nodes, settled.digests()))
    except MemoryError as error:
        if isinstance(error, GraphfaithError):
            return error
        os._exit(NO_MEMORY)
    except BaseException as error:
        return error if isinstance(error, GraphfaithError) else RunError(describe_error(error))
