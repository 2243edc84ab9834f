"""The whole case study: studies of several seeds, in parallel if there are several cores, a summary and a report."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphfaith._base.checks import check_count, check_seed
from graphfaith._base.errors import DataError, InputError, OutputError, RunError
from graphfaith._base.files import check_writable, make_folder, write_file
from graphfaith._base.workers import POSSIBLE_WORKERS, open_pool

from .causes import What
from .loader import MAX_GAP, load
from .report import REPORT, write_report
from .study import FULL, QUICK, Case, Size, run_study, simulate_case, split_recordings, train_monitor
from .summary import summarise
from .truth import read_truth

try:
    import fcntl
except ImportError:  # Windows has no fcntl.
    fcntl = None  # type: ignore[assignment]

SIMULATION = "a SWaT-like simulation"
_SUFFIXES = (".csv", ".xlsx")


def run(
    folder: Path,
    *,
    data: Path | None = None,
    quick: bool = False,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    what: What = "deviation",
    compare: bool = True,
    workers: int | None = None,
    max_gap: int = MAX_GAP,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, Any], list[Path]]:
    """Run the case study in ``folder``, and return the content of results.json and the paths of the written files.

    ``data`` is a folder with two files of the user, one of normal operation and one with attacks. Without ``data`` the
    plant is simulated. A run that was stopped resumes where it stopped.
    """
    size = QUICK if quick else FULL
    chosen = [check_seed(seed) for seed in seeds]
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError("give at least one seed, and no seed twice")
    files = None if data is None else find_files(data)
    if workers is None:
        workers = min(os.cpu_count() or 1, len(chosen), 8)
    check_count(workers, "workers", most=POSSIBLE_WORKERS)
    for seed in chosen:
        make_folder(folder / f"seed-{seed}")
    for name in ("results.json", *REPORT, *(f"seed-{seed}/result.json" for seed in chosen)):
        check_writable(folder / name)
    case = None
    if files is not None and data is not None:
        truth = find_truth(data)
        known = None if truth is None else read_truth(truth)
        normal, attacked = (load(path, max_gap=max_gap) for path in files)
        case = split_recordings(normal, attacked, known)
    with _lock_folder(folder):
        return _finish(folder, chosen, case, size, what, compare, workers, str(data or SIMULATION), say)


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
    case: Case | None,
    size: Size,
    what: What,
    compare: bool,
    workers: int,
    source: str,
    say: Callable[[str], None],
) -> tuple[dict[str, Any], list[Path]]:
    studies = _run_studies(folder, chosen, case, size, what, compare, workers, say)
    results = summarise(studies)
    results |= {"source": source, "what": what, "truth": bool(studies[0]["marks"]["truth"])}
    write_file(folder / "results.json", (json.dumps(results, indent=1, allow_nan=False) + "\n").encode())
    say("writing the report")
    first = simulate_case(chosen[0], size) if case is None else case
    monitor, _ = train_monitor(first, chosen[0], size, folder / f"seed-{chosen[0]}", lambda _: None)
    pages = write_report(folder, first, monitor, studies[0], results)
    return results, [folder / "results.json", *pages]


def find_files(folder: Path) -> tuple[Path, Path]:
    """Return the two files of a folder that have "normal" and "attack" in their names."""
    if not folder.is_dir():
        raise DataError(f"there is no folder '{folder}'")
    chosen = []
    for word in ("normal", "attack"):
        files = sorted(
            path
            for path in folder.iterdir()
            # Excel writes a file whose name begins with ~$ beside each open workbook.
            if path.suffix.lower() in _SUFFIXES and word in path.stem.lower() and not path.name.startswith("~$")
        )
        if len(files) != 1:
            names = ", ".join(f"'{path.name}'" for path in files) or "none"
            raise DataError(f"'{folder}' must have one .csv or .xlsx file with '{word}' in its name; it has {names}")
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
    case: Case | None,
    size: Size,
    what: What,
    compare: bool,
    workers: int,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    if workers == 1 or len(seeds) == 1:
        studies = []
        for seed in seeds:
            heading = f"seed {seed}: "
            studies.append(_run_seed(folder, seed, case, size, what, compare, lambda text, h=heading: say(h + text)))  # type: ignore[misc]
        return studies
    results: dict[int, dict[str, Any]] = {}
    with open_pool(min(workers, len(seeds))) as pool:
        waiting = {pool.submit(_run_seed, folder, seed, case, size, what, compare): seed for seed in seeds}
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
    case: Case | None,
    size: Size,
    what: What,
    compare: bool,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    return run_study(
        simulate_case(seed, size) if case is None else case,
        seed,
        size,
        folder / f"seed-{seed}",
        what=what,
        compare=compare,
        say=say,
    )
