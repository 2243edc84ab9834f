"""One task of a run, as a worker does it: explain a block and write its part, or explain a piece of a block."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .._base.errors import DataError, GraphfaithError
from .nodes import Ids
from .parts import FAILURE, STATUS, Part, count_failed
from .plan import Job
from .said import Warned, hearing


@dataclass(frozen=True)
class Task:
    """Nodes that are explained together: those of a whole block, or a piece that begins at place ``first`` of it."""

    part: Part
    ids: Ids
    first: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether these are all nodes of the block."""
        return len(self.ids) == self.part.rows


@dataclass(frozen=True)
class Outcome:
    """What a worker reports: the rows of a piece, or how many rows of a block it has written, and what that took."""

    rows: int
    failed: int = 0
    error: str | None = None  # of the first row that failed
    table: Any = None  # of a piece; a block is written by the worker itself
    processor: float = 0.0  # seconds of processor time
    writing: float = 0.0  # seconds of them for the file
    warned: tuple[Warned, ...] = ()


def check_same(job: Job, digests: Mapping[str, str]) -> None:
    """Raise a :class:`DataError` if what this process has opened is not the graph and the model of the plan."""
    own = job.digests()
    different = [name for name in digests if own.get(name) != digests[name]]
    if different:
        raise DataError(
            f"the {' and the '.join(different)} that this worker opened is not that of the plan: does load() draw "
            "random weights, or has a file changed since the run began?"
        )


def begin(job: Job, digests: Mapping[str, str], place: int) -> None:
    """Open the graph and the model, and find out what a process finds out once for a model.

    That is done at a node that is known to be good, not at the first one that comes: the proof that a computation graph
    is enough looks at nodes around, and one that kills must cost the same rows whatever the process did before.
    """
    with hearing():  # What there is to be said, the process that has looked at the model has said.
        check_same(job, digests)
        with suppress(GraphfaithError):  # Rows say it.
            job.check_at(place)


def do(job: Job, digests: Mapping[str, str], task: Task) -> Outcome:
    """Explain the nodes of a task; write the part of a whole block, return the table of a piece.

    ``digests`` are those of the plan. A job knows its own without computing them again.
    """
    used = time.process_time()
    check_same(job, digests)
    with hearing() as heard:
        table = job.table(task.ids)
    warned = Warned.of(heard)
    failed, error = count_failed(table), _first_error(table)
    if not task.is_whole:
        spent = time.process_time() - used
        return Outcome(table.num_rows, failed, error, table, spent, warned=warned)
    explained = time.process_time()
    found = task.part.write(table)
    ended = time.process_time()
    return Outcome(found.rows, failed, error, None, ended - used, ended - explained, warned)


def _first_error(table: Any) -> str | None:
    states = table.column(STATUS).to_pylist()
    return str(table.column("error")[states.index(FAILURE)]) if FAILURE in states else None
