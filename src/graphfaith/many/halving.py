"""Blocks that kill the process that explains them, halved down to the nodes that do.

A model may end its process: out of memory, by a fault in compiled code, by an exit. No exception is left to catch. The
block is halved where its length says, each half is explained by itself, a half that kills is halved again, and a single
node that kills is a row that says so. The pieces depend on the plan and on the nodes that kill alone, so that the rows
of the block come out the same in every run.
"""

from __future__ import annotations

from typing import Any

from .extra import import_extra
from .parts import Found
from .plan import Job
from .work import Task


class Halving:
    """The pieces of blocks that had to be halved, until a block is complete."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._pieces: dict[int, dict[int, Any]] = {}  # tables by their first place, by block

    def cut(self, task: Task) -> list[Task]:
        """Return the two halves of a task; the first is the smaller one, if the number of nodes is odd."""
        middle = len(task.ids) // 2
        halves = (task.ids[:middle], task.first), (task.ids[middle:], task.first + middle)
        return [Task(task.part, ids, first) for ids, first in halves]

    def add_failed(self, task: Task, how: str) -> Found | None:
        """Make the row of a single node that killed its process; otherwise as :meth:`add`."""
        error = f"the process that explained this node died each time ({how})"
        return self.add(task, self._job.failed_table(task.ids, error))

    def add(self, task: Task, table: Any) -> Found | None:
        """Keep the rows of a piece; with the last one the part is written, and what it says of itself is returned."""
        pieces = self._pieces.setdefault(task.part.block, {})
        pieces[task.first] = table
        if sum(piece.num_rows for piece in pieces.values()) < task.part.rows:
            return None
        ordered = [pieces[first] for first in sorted(pieces)]
        del self._pieces[task.part.block]
        rows = import_extra("pyarrow").concat_tables(ordered).combine_chunks()
        return task.part.write(rows, tuple(piece.num_rows for piece in ordered))
