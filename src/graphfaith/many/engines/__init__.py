"""Engines: where the tasks of a run are done. Rows do not depend on the engine, nor on the number of workers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from ..plan import Job
from .base import Death, Engine
from .local import LocalEngine
from .ray_tasks import RayEngine

__all__ = ["ENGINES", "Death", "Engine", "open_engine"]

ENGINES = ("local", "ray")


def open_engine(
    name: str, job: Job, digests: Mapping[str, str], workers: int, address: str | None, place: int = 0
) -> AbstractContextManager[Engine]:
    """Return the engine of that name, which starts when it is entered and ends what it has started when it is left.

    ``digests`` are those of the graph and the model that each worker has to find. ``place`` is that of a node at which
    the model can be explained, see :meth:`~graphfaith.many.plan.Job.check_at`.
    """
    if name == "ray":
        return RayEngine.open(job, digests, workers, address, place)
    return LocalEngine.open(job, digests, workers, place)
