"""What a run asks of an engine: processes that do tasks, and are replaced when they die."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..work import Outcome, Task

# Of a task whose process died: it may have been killed for a reason that has nothing to do with its nodes. A piece is
# of a block that has died more often than that, so that one more retry tells as much.
RETRIES, RETRIES_OF_PIECE = 3, 1
# The exit code of a worker that could not get memory. It ends, because what it has left tells nothing about the nodes:
# a new process tries again, and only what fails each time is halved.
NO_MEMORY = 86


@dataclass(frozen=True)
class Death:
    """The process of a task died, again after each retry."""

    how: str


def retries_of(task: Task) -> int:
    """Return how often a task is done again if its process dies."""
    return RETRIES if task.is_whole else RETRIES_OF_PIECE


def key_of(task: Task) -> tuple[int, int, int]:
    """Return what tells a task from all others of a run."""
    return task.part.block, task.first, len(task.ids)


class Engine(Protocol):
    """Workers that do tasks. A task whose worker dies is done again by another, :func:`retries_of` times at most."""

    deaths: int  # workers that died so far, as far as the engine is told

    def has_room(self) -> bool:
        """Return whether a worker waits for a task."""

    def submit(self, task: Task) -> None:
        """Give a task to a worker."""

    def wait(self) -> tuple[Task, Outcome | Death]:
        """Wait until a task is done or given up; an exception of a worker is raised here."""
