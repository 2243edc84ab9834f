"""A whole run: studies of several seeds, in parallel if there are several cores, a summary and a report."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from graphfaith._base.checks import check_count, check_seed
from graphfaith._base.errors import DataError, InputError, OutputError, RunError
from graphfaith._base.files import check_writable, make_folder, write_file
from graphfaith._base.workers import POSSIBLE_WORKERS, open_pool
from graphfaith.view.figure import render

from .answers import ANSWERS, write_answers
from .causes import Cause, What
from .drawing import draw_plan, write_plan_page
from .findings import Finding, find_findings
from .loader import SUFFIXES, load_each
from .page import PAGE, write_pages
from .plant import Plant
from .study import Case, Examine, Size, case_of, run_study, train_monitor
from .summary import summarise
from .tables import Table, format_tables, list_tables
from .truth import read_truth

try:
    import fcntl
except ImportError:  # Windows has no fcntl.
    fcntl = None  # type: ignore[assignment]

Source = Case | Callable[[int, Any], Case]  # a case for all seeds, or a function that makes that of a seed and a size

TABLES: Final = "results.md"
TIME: Final = "time.json"  # It has a file of its own, because all others are the same bytes in every run.
_DPI: Final = 110


@dataclass(frozen=True)
class Options:
    """What all studies of a run share, beside their data."""

    size: Size
    what: What = "deviation"
    compare: bool = True
    examine: Examine | None = None
    shown: tuple[int, ...] = ()  # numbers of attacks that are drawn by all methods
    summary: Callable[[Sequence[dict[str, Any]]], dict[str, Any]] | None = None  # further results
    more: Callable[[Case, dict[str, Any], Sequence[dict[str, Any]]], list[tuple[str, Table]]] | None = None  # tables
    quick: bool = False  # The size is a small one, to see how a run goes.


def run(
    folder: Path,
    source: Source,
    options: Options,
    *,
    title: str,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    workers: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, Any], list[Path]]:
    """Run the studies of all seeds in ``folder``, and return the content of results.json and the written files.

    A run that was stopped resumes where it stopped. ``title`` names the data in the pages.
    """
    chosen = [check_seed(seed) for seed in seeds]
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError("give at least one seed, and no seed twice")
    if workers is None:
        workers = min(os.cpu_count() or 1, len(chosen), 8)
    check_count(workers, "workers", most=POSSIBLE_WORKERS)
    for seed in chosen:
        make_folder(folder / f"seed-{seed}")
    for name in ("results.json", TABLES, TIME, PAGE, ANSWERS, *(f"seed-{seed}/result.json" for seed in chosen)):
        check_writable(folder / name)
    with _lock_folder(folder):
        return _finish(folder, chosen, source, options, workers, title, say)


def load_case(
    plant: Plant, folder: Path, max_gap: int | None = None, say: Callable[[str], None] = lambda _: None
) -> Case:
    """Read the case of a folder with one file of normal operation, one to monitor, and perhaps one of attacked tags.

    ``say`` gets what was mended in the files.
    """
    files, truth = find_files(folder), find_truth(folder)
    known = None if truth is None else read_truth(plant, truth)
    notices: list[str] = []

    def note(notice: str) -> None:
        notices.append(notice)
        say(notice)

    case = case_of(load_each(plant, files, max_gap=max_gap, say=note), known)
    return replace(case, notices=tuple(notices))


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, because two runs in the same folder would overwrite each other's files."""
    try:
        file = check_writable(folder / ".lock").open("w")
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write in '{folder}': {error.strerror or error}") from error
    with file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OutputError(f"another run is using '{folder}'; wait until it ends, or use another folder") from error
        yield


def _finish(
    folder: Path,
    chosen: Sequence[int],
    source: Source,
    options: Options,
    workers: int,
    title: str,
    say: Callable[[str], None],
) -> tuple[dict[str, Any], list[Path]]:
    before = sum(os.times()[:4])
    made = all((folder / f"seed-{seed}" / "result.json").exists() for seed in chosen)
    studies = _run_studies(folder, chosen, source, options, workers, say)
    if not made:
        _note_time(folder / TIME, sum(os.times()[:4]) - before)
    results = summarise(studies) | ({} if options.summary is None else options.summary(studies))
    results |= {"source": title, "what": options.what, "truth": bool(studies[0]["marks"]["truth"])}
    first = _case_of(source, chosen[0], options.size)
    remarks = results["remarks"] = _remark(first, options, len(chosen))
    write_file(folder / "results.json", (json.dumps(results, indent=1, allow_nan=False) + "\n").encode())
    tables = list_tables(results) + ([] if options.more is None else options.more(first, results, studies))
    write_file(folder / TABLES, format_tables(tables, remarks).encode())
    say("writing the pages")
    monitor, _ = train_monitor(first, chosen[0], options.size, folder / f"seed-{chosen[0]}", lambda _: None)
    watched = monitor.watch(first.attacked)
    found = find_findings(first.attacked, monitor.scale, studies[0]["alarms"])
    pages = write_pages(folder, f"Alarms of {title}", watched, monitor, found, first.notices)
    if first.labelled:
        pages.append(write_answers(folder, f"Alarms of {title}", found, studies[0], tables, remarks))
        pages += _draw_attacks(folder, first.plant, found, options.shown)
    return results, [folder / "results.json", *pages, folder / TABLES]


def _note_time(path: Path, seconds: float) -> None:
    """Write the processor time of the studies, of this process and of its workers, and add that of stopped runs.

    A run that was killed has written none: its time is not counted.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):  # A first run has no such file yet.
        seconds += float(json.loads(path.read_text())["processor_seconds"])
    write_file(path, (json.dumps({"processor_seconds": round(seconds, 1)}) + "\n").encode())


def _remark(case: Case, options: Options, trainings: int) -> list[str]:
    """Return what a reader of the numbers has to know first."""
    remarks = []
    if options.quick:
        epochs = options.size.epochs
        words = f"one short training ({epochs} epochs)"
        if trainings > 1:
            words = f"{trainings} short trainings ({epochs} epochs each)"
        remarks.append(f"A quick run: these numbers are of {words}. Run without --quick for numbers to rely on.")
    if not case.labelled:
        remarks.append(
            f"The recording has no column '{case.plant.layout.label}': whether there were attacks is not known, so the "
            f"tables of detection and localisation, and {ANSWERS}, are left out."
        )
    return remarks


def _draw_attacks(folder: Path, plant: Plant, found: Sequence[Finding], shown: Sequence[int]) -> list[Path]:
    """Draw the first alarm of some attacks by all methods, as figures and as a page to explore."""
    paths = []
    for number in shown:
        chosen = [finding.row for finding in found if number in finding.row["event"]["attacks"]]
        if not chosen:
            continue
        causes = [Cause.from_json(plant, row) for row in chosen[0]["causes"]]
        attacked = [plant.column(name) for name in chosen[0]["event"]["attacked"]]
        for suffix in (".png", ".pdf"):
            paths.append(folder / f"attack-{number}{suffix}")
            write_file(paths[-1], render(draw_plan(causes, attacked), suffix, _DPI))
        paths.append(folder / f"attack-{number}.html")
        write_plan_page(causes, attacked, f"Attack {number}", paths[-1])
    return paths


def _case_of(source: Source, seed: int, size: Size) -> Case:
    return source if isinstance(source, Case) else source(seed, size)


def find_files(folder: Path) -> tuple[Path, Path]:
    """Return the two files of a folder that have "normal" and "monitor" (or "attack") in their names."""
    if not folder.is_dir():
        raise DataError(f"there is no folder '{folder}'")
    chosen = []
    for words in (("normal",), ("monitor", "attack")):
        files = sorted(
            path
            for path in folder.iterdir()
            # Excel writes a file whose name begins with ~$ beside each open workbook.
            if path.suffix.lower() in SUFFIXES
            and any(word in path.stem.lower() for word in words)
            and not path.name.startswith("~$")
        )
        if len(files) != 1:
            names = ", ".join(f"'{path.name}'" for path in files) or "none"
            wanted = " or ".join(f"'{word}'" for word in words)
            raise DataError(f"'{folder}' must have one .csv or .xlsx file with {wanted} in its name; it has {names}")
        chosen.append(files[0])
    return chosen[0], chosen[1]


def find_truth(folder: Path) -> Path | None:
    """Return the file of attacked tags, which has "truth" in its name, or None if there is no such file."""
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".csv" and "truth" in path.stem.lower())
    if len(files) > 1:
        names = ", ".join(f"'{path.name}'" for path in files)
        raise DataError(f"'{folder}' must not have more than one .csv file with 'truth' in its name; it has {names}")
    return files[0] if files else None


def _run_studies(
    folder: Path,
    seeds: Sequence[int],
    source: Source,
    options: Options,
    workers: int,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    if workers == 1 or len(seeds) == 1:
        studies = []
        for seed in seeds:
            heading = f"seed {seed}: "
            studies.append(_run_seed(folder, seed, source, options, lambda text, h=heading: say(h + text)))  # type: ignore[misc]
        return studies
    results: dict[int, dict[str, Any]] = {}
    with open_pool(min(workers, len(seeds))) as pool:
        waiting = {pool.submit(_run_seed, folder, seed, source, options): seed for seed in seeds}
        for done in as_completed(waiting):
            try:
                results[waiting[done]] = done.result()
            except BrokenProcessPool as error:
                raise RunError(
                    "a worker process ended unexpectedly, perhaps for lack of memory; run the same command again to "
                    "resume, and use fewer --workers if it happens again"
                ) from error
            say(f"seed {waiting[done]} is done, {len(results)} of {len(seeds)}")
    return [results[seed] for seed in seeds]


def _run_seed(
    folder: Path,
    seed: int,
    source: Source,
    options: Options,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    return run_study(
        _case_of(source, seed, options.size),
        seed,
        options.size,
        folder / f"seed-{seed}",
        what=options.what,
        compare=options.compare,
        examine=options.examine,
        say=say,
    )
