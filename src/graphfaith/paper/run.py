"""Running experiments: units of work in worker processes, journalled as they end, with progress and time left."""

from __future__ import annotations

import json
import math
import multiprocessing
import multiprocessing.connection
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch

from .. import __version__
from ..bench.machine import machine
from ..errors import GraphfaithError, ModelError
from ..output import write_file
from ..view.figure import render
from .experiment import Experiment, Row, Size, Unit
from .journal import Journal
from .progress import Clock

FORMAT = 1  # of the journal: raise it when a change makes earlier results wrong
Job = tuple[Experiment, Unit]
Keep = Callable[[Experiment, Unit, Any, float], None]


def reproduce(
    experiments: Sequence[Experiment],
    size: Size,
    folder: Path,
    *,
    workers: int = 1,
    restart: bool = False,
    show: bool = False,
) -> dict[str, list[Row]]:
    """Run experiments, go on where an earlier run in ``folder`` was stopped, and write what comes out there.

    Of each experiment: ``NAME.json`` (the rows), ``NAME.md``, a PNG and a PDF of each figure, and the journal. With
    one worker all is done in this process. Same rows, whatever the number of workers.
    """
    with ExitStack() as stack:
        journals = {
            one.name: stack.enter_context(
                Journal(
                    folder / f"{one.name}.journal.jsonl",
                    {"experiment": one.name, "size": asdict(size), "graphfaith": __version__, "format": FORMAT},
                    restart=restart,
                )
            )
            for one in experiments
        }
        plan = {one.name: one.units(size) for one in experiments}
        clock = stack.enter_context(
            Clock({one.name: (plan[one.name], one.alone) for one in experiments}, workers, show)
        )
        for name, units in plan.items():
            for unit in units:
                if unit.key in journals[name].found:
                    clock.had(name, unit, journals[name].seconds[unit.key])
        rows: dict[str, list[Row]] = {}
        for together in _groups(experiments):
            jobs = [
                (one, unit) for one in together for unit in plan[one.name] if unit.key not in journals[one.name].found
            ]
            left = {one.name: sum(job[0] is one for job in jobs) for one in together}
            for one in together:
                if not left[one.name]:
                    rows[one.name] = _finish(one, plan[one.name], journals[one.name], size, folder, workers)
            alone = together[0].alone

            def keep(one: Experiment, unit: Unit, found: Any, seconds: float) -> None:
                journals[one.name].add(unit.key, found, seconds)

            for one, unit, seconds in _measured(jobs, size, 1 if alone else workers, keep):
                clock.did(one.name, unit, seconds)
                left[one.name] -= 1
                if not left[one.name]:
                    rows[one.name] = _finish(one, plan[one.name], journals[one.name], size, folder, workers)
        return {one.name: rows[one.name] for one in experiments}


def _groups(experiments: Sequence[Experiment]) -> Iterator[list[Experiment]]:
    """Those that may run beside each other, then each that must not."""
    beside = [one for one in experiments if not one.alone]
    if beside:
        yield beside
    for one in experiments:
        if one.alone:
            yield [one]


# Work -------------------------------------------------------------------------------------------------------------


def _measured(jobs: Sequence[Job], size: Size, workers: int, keep: Keep) -> Iterator[tuple[Experiment, Unit, float]]:
    """Do the jobs and ``keep`` what each finds; yields those that are done, with the seconds each took."""
    if workers == 1 or len(jobs) < 2:
        for one, unit in jobs:
            found, seconds = _measure(one, unit, size)
            keep(one, unit, found, seconds)
            yield one, unit, seconds
        return
    ended: SimpleQueue[tuple[Job, float, BaseException | None]] = SimpleQueue()

    def end(job: Job, future: Future[tuple[Any, float]]) -> None:
        # In the pool's own thread: this one may be drawing a figure, and what is done has to be on the disk.
        if future.cancelled():
            return
        error, seconds = future.exception(), 0.0
        if error is None:
            found, seconds = future.result()
            try:
                keep(*job, found, seconds)
            except Exception as failed:
                error = failed
        ended.put((job, seconds, error))

    with _pool(min(workers, len(jobs))) as pool:
        waiting, running = iter(jobs), 0

        def start() -> int:
            job = next(waiting, None)
            if job is not None:
                pool.submit(_measure, *job, size).add_done_callback(partial(end, job))
            return int(job is not None)

        for _ in range(workers + 2):  # a few beyond the number of workers, so that none has to wait for this process
            running += start()
        while running:
            (one, unit), seconds, error = ended.get()
            if isinstance(error, BrokenProcessPool):
                raise ModelError(
                    f"a worker died at {one.name}, {unit.key} (of too little memory, perhaps): run the same command "
                    "again to go on, with fewer --workers if it happens again"
                )
            if error is not None:
                raise error
            running += start() - 1
            yield one, unit, seconds


def _measure(one: Experiment, unit: Unit, size: Size) -> tuple[Any, float]:
    started = time.perf_counter()
    try:
        found = one.measure(unit, size)
    except GraphfaithError as error:
        raise type(error)(f"{one.name}, {unit.key}: {error}") from error
    # As it will come back from the journal: a run that was interrupted gives the same rows as one that was not.
    return json.loads(json.dumps(found, allow_nan=False)), time.perf_counter() - started


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    # Not forked: threads of torch do not survive that.
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
    """One thread a worker, and none outlives the process that gives it work."""
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


# Results ----------------------------------------------------------------------------------------------------------


def _finish(
    one: Experiment, units: Sequence[Unit], journal: Journal, size: Size, folder: Path, workers: int
) -> list[Row]:
    """Make the rows of what was found, and write everything."""
    rows = one.rows({unit: journal.found[unit.key] for unit in units}, size)
    about = {
        "size": size.name,
        "units": len(units),
        "work_seconds": round(math.fsum(journal.seconds[unit.key] for unit in units), 1),
        "workers": 1 if one.alone else workers,
        "machine": machine(),
    }
    write_rows(folder / f"{one.name}.json", rows)
    write_file(folder / f"{one.name}.run.json", (json.dumps(about, indent=2) + "\n").encode())
    write_file(folder / f"{one.name}.md", f"# {one.title}\n\n{one.markdown(rows)}\n".encode())
    draw(one, rows, folder, (".png", ".pdf"))
    return rows


def draw(one: Experiment, rows: Sequence[Row], folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Write the figures of an experiment."""
    paths = []
    for name, figure in one.figures(rows).items():
        for suffix in suffixes:
            paths.append(folder / f"{name}{suffix}")
            write_file(paths[-1], render(figure, suffix))
    return paths


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """A JSON list with a row a line, since they are long."""
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    write_file(path, f"[\n{lines}\n]\n".encode())
