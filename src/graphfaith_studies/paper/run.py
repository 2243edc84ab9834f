"""Run experiments: units of work in worker processes, with a journal of their results and the time left."""

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
from graphfaith._base.files import check_writable, write_file
from graphfaith._base.threads import one_thread
from graphfaith._base.workers import open_pool
from graphfaith.view.figure import render

from ..bench.machine import machine
from .experiment import Experiment, Row, Size, Unit
from .journal import Journal
from .progress import Clock

FORMAT = 2  # the format of the journal, to be raised when a change makes earlier results invalid
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
    """Run experiments, continue an interrupted run in ``folder``, and write the results there.

    The files of each experiment are ``NAME.json`` (the rows), ``NAME.md``, a PNG and a PDF of each figure, and the
    journal. With one worker everything runs in this process. The rows do not depend on the number of workers. If an
    experiment fails, the others are still completed, and then its error is raised.
    """
    for experiment in experiments:
        _check_files(experiment, folder)
        if not restart:
            _check_results(experiment, folder)
    with ExitStack() as stack:
        journals = {
            experiment.name: stack.enter_context(
                Journal(folder / f"{experiment.name}.journal.jsonl", _header_of(experiment, size))
            )
            for experiment in experiments
        }
        for journal in journals.values():  # No journal is emptied before all of them are locked.
            journal.load(restart=restart)
        units = {experiment.name: experiment.units(size) for experiment in experiments}
        work = _Work(size, folder, workers, journals, units)
        plan = {experiment.name: (units[experiment.name], experiment.alone) for experiment in experiments}
        clock = stack.enter_context(Clock(plan, workers, show))
        for experiment in experiments:
            for unit in work.done(experiment):
                clock.count_earlier(experiment.name, unit, journals[experiment.name].seconds[unit.key])
        rows: dict[str, list[Row]] = {}
        errors: dict[str, Exception] = {}

        def finish(experiment: Experiment, *, measured: bool) -> None:
            try:
                rows[experiment.name] = work.finish(experiment, measured=measured)
            except Exception as error:
                errors.setdefault(experiment.name, error)

        for together in _group(experiments):
            jobs = [(experiment, unit) for experiment in together for unit in work.left(experiment)]
            # The units left are counted here, because workers add results to the journals before this loop sees them.
            left = {experiment.name: len(work.left(experiment)) for experiment in together}
            for experiment in together:
                if not left[experiment.name]:
                    finish(experiment, measured=False)
            count = 1 if together[0].alone else workers
            for experiment, unit, seconds, error in _measure_all(jobs, size, count, work.keep):
                if error is not None:
                    errors.setdefault(experiment.name, error)
                    continue
                clock.count_done(experiment.name, unit, seconds)
                left[experiment.name] -= 1
                if not left[experiment.name]:
                    finish(experiment, measured=True)
        if errors:
            raise next(iter(errors.values()))
        return {experiment.name: rows[experiment.name] for experiment in experiments}


def _header_of(experiment: Experiment, size: Size) -> dict[str, Any]:
    """Return the settings that the results depend on."""
    versions = {name: metadata.version(name) for name in ("torch", "torch_geometric")}
    settings = {"experiment": experiment.name, "size": asdict(size), "graphfaith": __version__}
    return {**settings, **versions, "format": FORMAT}


def _check_files(experiment: Experiment, folder: Path) -> None:
    """Check that the results can be written; the work would be for nothing otherwise."""
    for suffix in (".journal.jsonl", ".run.json", ".json", ".md"):
        check_writable(folder / f"{experiment.name}{suffix}")


def _check_results(experiment: Experiment, folder: Path) -> None:
    """Check that no results without a journal would be overwritten."""
    journal = folder / f"{experiment.name}.journal.jsonl"
    if (folder / f"{experiment.name}.json").exists() and not (journal.exists() and journal.stat().st_size):
        raise InputError(
            f"'{folder}' has results of {experiment.name} without their journal: choose another --out, or measure "
            "everything again and replace them with --restart"
        )


@dataclass
class _Work:
    """The units of all experiments, the journals of those that are done, and the folder of the results."""

    size: Size
    folder: Path
    workers: int
    journals: dict[str, Journal]
    plan: dict[str, list[Unit]]

    def done(self, experiment: Experiment) -> list[Unit]:
        return [unit for unit in self.plan[experiment.name] if unit.key in self.journals[experiment.name].results]

    def left(self, experiment: Experiment) -> list[Unit]:
        return [unit for unit in self.plan[experiment.name] if unit.key not in self.journals[experiment.name].results]

    def keep(self, experiment: Experiment, unit: Unit, result: Any, seconds: float) -> None:
        self.journals[experiment.name].add(unit.key, result, seconds)

    def finish(self, experiment: Experiment, *, measured: bool) -> list[Row]:
        """Make the rows from the results of the units, and write all files of the experiment."""
        journal, units, name = self.journals[experiment.name], self.plan[experiment.name], experiment.name
        rows = experiment.make_rows({unit: journal.results[unit.key] for unit in units}, self.size)
        about = self.folder / f"{name}.run.json"
        # A run that finds all units done did not measure, so its machine and workers are not recorded.
        if measured or not about.exists():
            description = {
                "size": self.size.name,
                "units": len(units),
                "work_seconds": round(math.fsum(journal.seconds[unit.key] for unit in units), 1),
                "workers": 1 if experiment.alone else self.workers,
                "machine": machine(),
            }
            write_file(about, (json.dumps(description, indent=2) + "\n").encode())
        write_rows(self.folder / f"{name}.json", rows)
        write_file(self.folder / f"{name}.md", f"# {experiment.title}\n\n{experiment.to_markdown(rows)}\n".encode())
        for figure_name, figure in experiment.draw_figures(rows).items():
            for suffix in (".png", ".pdf"):
                write_file(self.folder / f"{figure_name}{suffix}", render(figure, suffix))
        return rows


def _group(experiments: Sequence[Experiment]) -> Iterator[list[Experiment]]:
    """Yield the experiments that may run at the same time, then each experiment that must run alone."""
    together = [experiment for experiment in experiments if not experiment.alone]
    if together:
        yield together
    for experiment in experiments:
        if experiment.alone:
            yield [experiment]


# Work -------------------------------------------------------------------------------------------------------------


def _measure_all(
    jobs: Sequence[Job], size: Size, workers: int, keep: Keep
) -> Iterator[tuple[Experiment, Unit, float, Exception | None]]:
    """Do the jobs, pass each result to ``keep``, and yield each job that is done with its seconds and its error."""
    if workers == 1 or len(jobs) < 2:
        for experiment, unit in jobs:
            with one_thread():
                result, seconds, error = _measure(experiment, unit, size)
            if error is None:
                keep(experiment, unit, result, seconds)
            yield experiment, unit, seconds, error
        return
    ended: SimpleQueue[tuple[Job, float, Exception | None, BaseException | None]] = SimpleQueue()

    def end(job: Job, future: Future[Measured]) -> None:
        # This runs in the pool's thread, so that a result is on the disk even while the main thread draws a figure.
        if future.cancelled():
            return
        fatal, seconds, error = future.exception(), 0.0, None
        if fatal is None:
            result, seconds, error = future.result()
            if error is None:
                try:
                    keep(*job, result, seconds)
                except Exception as failure:
                    fatal = failure
        ended.put((job, seconds, error, fatal))

    with open_pool(min(workers, len(jobs))) as pool:
        waiting, running = iter(jobs), 0

        def start() -> int:
            job = next(waiting, None)
            if job is not None:
                pool.submit(_measure, *job, size).add_done_callback(partial(end, job))
            return int(job is not None)

        # Two more jobs than workers are submitted, so that no worker has to wait for this process.
        for _ in range(workers + 2):
            running += start()
        while running:
            (experiment, unit), seconds, error, fatal = ended.get()
            if isinstance(fatal, BrokenProcessPool):
                raise RunError(
                    f"a worker process of {experiment.name} died at or near {unit.key} (perhaps for lack of memory): "
                    "run the same command again to continue, with fewer --workers if it happens again"
                )
            if fatal is not None:
                raise fatal
            running += start() - 1
            yield experiment, unit, seconds, error


def _measure(experiment: Experiment, unit: Unit, size: Size) -> Measured:
    """Return the result of a unit, the seconds it took, and the error, if any, with the name of the unit."""
    started = time.perf_counter()
    result, error = None, None
    try:
        # The result is converted as the journal will do it, so that an interrupted run gives the same rows.
        result = json.loads(json.dumps(experiment.measure(unit, size), allow_nan=False))
    except GraphfaithError as cause:
        error = type(cause)(f"{experiment.name}, {unit.key}: {cause}")
    except Exception as cause:
        error = RunError(f"{experiment.name}, {unit.key}: {type(cause).__name__}: {cause}")
        error.__cause__ = cause
    return result, time.perf_counter() - started, error


# Results ----------------------------------------------------------------------------------------------------------


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write the rows as a JSON list with one line per row, because rows are long."""
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    write_file(path, f"[\n{lines}\n]\n".encode())
