"""Running experiments: units of work in worker processes, journalled as they end, with progress and time left."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from graphfaith import __version__
from graphfaith._base.errors import GraphfaithError, InputError, RunError
from graphfaith._base.files import write_file
from graphfaith._base.threads import one_thread
from graphfaith._base.workers import pool_of
from graphfaith.view.figure import render

from ..bench.machine import machine
from .experiment import Experiment, Row, Size, Unit
from .journal import Journal
from .progress import Clock

FORMAT = 1  # of the journal: raise it when a change makes earlier results wrong
Job = tuple[Experiment, Unit]
Keep = Callable[[Experiment, Unit, Any, float], None]
Measured = tuple[Any, float, Exception | None]


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
    one worker all is done in this process. Same rows, whatever the number of workers. An experiment that fails does
    not keep the others from being done; its error is raised when they are.
    """
    for one in experiments:
        if not restart:
            _check_results(one, folder)
    with ExitStack() as stack:
        journals = {
            one.name: stack.enter_context(Journal(folder / f"{one.name}.journal.jsonl", _header(one, size)))
            for one in experiments
        }
        for journal in journals.values():  # none is thrown away before all are ours
            journal.load(restart=restart)
        work = _Work(size, folder, workers, journals, {one.name: one.units(size) for one in experiments})
        clock = stack.enter_context(
            Clock({one.name: (work.plan[one.name], one.alone) for one in experiments}, workers, show)
        )
        for one in experiments:
            for unit in work.done(one):
                clock.had(one.name, unit, journals[one.name].seconds[unit.key])
        rows: dict[str, list[Row]] = {}
        errors: dict[str, Exception] = {}

        def finish(one: Experiment, *, measured: bool) -> None:
            try:
                rows[one.name] = work.finish(one, measured=measured)
            except Exception as error:
                errors.setdefault(one.name, error)

        for together in _groups(experiments):
            jobs = [(one, unit) for one in together for unit in work.left(one)]
            # Counted here: the journals are ahead of what has been seen to.
            left = {one.name: len(work.left(one)) for one in together}
            for one in together:
                if not left[one.name]:
                    finish(one, measured=False)
            for one, unit, seconds, error in _measured(jobs, size, 1 if together[0].alone else workers, work.keep):
                if error is not None:
                    errors.setdefault(one.name, error)
                    continue
                clock.did(one.name, unit, seconds)
                left[one.name] -= 1
                if not left[one.name]:
                    finish(one, measured=True)
        if errors:
            raise next(iter(errors.values()))
        return {one.name: rows[one.name] for one in experiments}


def _header(one: Experiment, size: Size) -> dict[str, Any]:
    """What the results depend on."""
    versions = {name: metadata.version(name) for name in ("torch", "torch_geometric")}
    return {"experiment": one.name, "size": asdict(size), "graphfaith": __version__, **versions, "format": FORMAT}


def _check_results(one: Experiment, folder: Path) -> None:
    """See that no results are written over that no journal holds."""
    journal = folder / f"{one.name}.journal.jsonl"
    if (folder / f"{one.name}.json").exists() and not (journal.exists() and journal.stat().st_size):
        raise InputError(
            f"'{folder}' has results of {one.name} without their journal: choose another --out, or measure all anew, "
            "and replace them, with --restart"
        )


@dataclass
class _Work:
    """What there is to do, what is done, and where it goes."""

    size: Size
    folder: Path
    workers: int
    journals: dict[str, Journal]
    plan: dict[str, list[Unit]]

    def done(self, one: Experiment) -> list[Unit]:
        return [unit for unit in self.plan[one.name] if unit.key in self.journals[one.name].found]

    def left(self, one: Experiment) -> list[Unit]:
        return [unit for unit in self.plan[one.name] if unit.key not in self.journals[one.name].found]

    def keep(self, one: Experiment, unit: Unit, found: Any, seconds: float) -> None:
        self.journals[one.name].add(unit.key, found, seconds)

    def finish(self, one: Experiment, *, measured: bool) -> list[Row]:
        """Make the rows of what was found, and write everything."""
        journal, units, name = self.journals[one.name], self.plan[one.name], one.name
        rows = one.rows({unit: journal.found[unit.key] for unit in units}, self.size)
        about = self.folder / f"{name}.run.json"
        if measured or not about.exists():  # of a run that finds all done neither machine nor workers count
            said = {
                "size": self.size.name,
                "units": len(units),
                "work_seconds": round(math.fsum(journal.seconds[unit.key] for unit in units), 1),
                "workers": 1 if one.alone else self.workers,
                "machine": machine(),
            }
            write_file(about, (json.dumps(said, indent=2) + "\n").encode())
        write_rows(self.folder / f"{name}.json", rows)
        write_file(self.folder / f"{name}.md", f"# {one.title}\n\n{one.markdown(rows)}\n".encode())
        for figure_name, figure in one.figures(rows).items():
            for suffix in (".png", ".pdf"):
                write_file(self.folder / f"{figure_name}{suffix}", render(figure, suffix))
        return rows


def _groups(experiments: Sequence[Experiment]) -> Iterator[list[Experiment]]:
    """Those that may run beside each other, then each that must not."""
    beside = [one for one in experiments if not one.alone]
    if beside:
        yield beside
    for one in experiments:
        if one.alone:
            yield [one]


# Work -------------------------------------------------------------------------------------------------------------


def _measured(
    jobs: Sequence[Job], size: Size, workers: int, keep: Keep
) -> Iterator[tuple[Experiment, Unit, float, Exception | None]]:
    """Do the jobs and ``keep`` what each finds; yields those that are done, with their seconds, or their error."""
    if workers == 1 or len(jobs) < 2:
        for one, unit in jobs:
            with one_thread():
                found, seconds, error = _measure(one, unit, size)
            if error is None:
                keep(one, unit, found, seconds)
            yield one, unit, seconds, error
        return
    ended: SimpleQueue[tuple[Job, float, Exception | None, BaseException | None]] = SimpleQueue()

    def end(job: Job, future: Future[Measured]) -> None:
        # In the pool's own thread: this one may be drawing a figure, and what is done has to be on the disk.
        if future.cancelled():
            return
        fatal, seconds, error = future.exception(), 0.0, None
        if fatal is None:
            found, seconds, error = future.result()
            if error is None:
                try:
                    keep(*job, found, seconds)
                except Exception as failed:
                    fatal = failed
        ended.put((job, seconds, error, fatal))

    with pool_of(min(workers, len(jobs))) as pool:
        waiting, running = iter(jobs), 0

        def start() -> int:
            job = next(waiting, None)
            if job is not None:
                pool.submit(_measure, *job, size).add_done_callback(partial(end, job))
            return int(job is not None)

        for _ in range(workers + 2):  # a few beyond the number of workers, so that none has to wait for this process
            running += start()
        while running:
            (one, unit), seconds, error, fatal = ended.get()
            if isinstance(fatal, BrokenProcessPool):
                raise RunError(
                    f"a worker died while {one.name} was at work, at or near {unit.key} (of too little memory, "
                    "perhaps): run the same command again to go on, with fewer --workers if it happens again"
                )
            if fatal is not None:
                raise fatal
            running += start() - 1
            yield one, unit, seconds, error


def _measure(one: Experiment, unit: Unit, size: Size) -> Measured:
    """What a unit finds, the seconds it took, and the error that names it, if there was one."""
    started = time.perf_counter()
    found, error = None, None
    try:
        # As it will come back from the journal: a run that was interrupted gives the same rows as one that was not.
        found = json.loads(json.dumps(one.measure(unit, size), allow_nan=False))
    except GraphfaithError as wrong:
        error = type(wrong)(f"{one.name}, {unit.key}: {wrong}")
    except Exception as wrong:
        error = RunError(f"{one.name}, {unit.key}: {type(wrong).__name__}: {wrong}")
        error.__cause__ = wrong
    return found, time.perf_counter() - started, error


# Results ----------------------------------------------------------------------------------------------------------


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """A JSON list with a row a line, since they are long."""
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    write_file(path, f"[\n{lines}\n]\n".encode())
