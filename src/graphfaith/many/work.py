"""One task of a run, as a worker does it: explain a block and write its part, or explain a piece of a block."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from .nodes import Ids
from .parts import Part
from .plan import Job


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
    table: Any = None  # of a piece; a block is written by the worker itself
    seconds: float = 0.0
    processor: float = 0.0  # seconds of processor time
    writing: float = 0.0  # seconds of them for the file


def do(job: Job, task: Task) -> Outcome:
    """Explain the nodes of a task; write the part of a whole block, return the table of a piece."""
    began, used = time.monotonic(), time.process_time()
    table = job.table(task.ids)
    if not task.is_whole:
        return Outcome(table.num_rows, 0, table, time.monotonic() - began, time.process_time() - used)
    explained = time.process_time()
    found = task.part.write(table)
    ended = time.process_time()
    return Outcome(found.rows, found.failed, None, time.monotonic() - began, ended - used, ended - explained)
