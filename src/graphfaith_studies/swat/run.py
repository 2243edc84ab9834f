"""The whole case study: studies of several seeds, side by side if there are cores, their summary, and the report."""

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
from graphfaith._base.files import write_file
from graphfaith._base.workers import pool_of

from .causes import What
from .loader import MAX_GAP, load
from .report import write_report
from .study import FULL, QUICK, Case, Size, monitor_of, recorded, simulated, study
from .summary import summary
from .truth import read_truth

try:
    import fcntl
except ImportError:  # not on Windows
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
    """Do all of it in ``folder``; returns what results.json holds, and the files that were written.

    ``data`` is a folder with two files of the user's own, one of normal operation and one with attacks; without it the
    plant is simulated. A run that was stopped goes on where it was.
    """
    size = QUICK if quick else FULL
    chosen = [check_seed(seed) for seed in seeds]
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError("name at least one seed, and each once")
    files = None if data is None else find_files(data)
    workers = check_count(workers, "workers") if workers is not None else min(os.cpu_count() or 1, len(chosen), 8)
    try:
        for seed in chosen:
            (folder / f"seed-{seed}").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder '{folder}': {error.strerror or error}") from error
    case = None
    if files is not None and data is not None:
        truth = find_truth(data)
        known = None if truth is None else read_truth(truth)
        normal, attacked = (load(path, max_gap=max_gap) for path in files)
        case = recorded(normal, attacked, known)
    with _alone(folder):
        return _finish(folder, chosen, case, size, what, compare, workers, str(data or SIMULATION), say)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One run at a time in a folder: two would write each other's files."""
    try:
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise OutputError(f"cannot write in '{folder}': {error.strerror or error}") from error
    with file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OutputError(f"another run is at work in '{folder}': wait for it, or use another folder") from error
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
    studies = _studies(folder, chosen, case, size, what, compare, workers, say)
    results = summary(studies)
    results |= {"source": source, "what": what, "truth": bool(studies[0]["marks"]["truth"])}
    write_file(folder / "results.json", (json.dumps(results, indent=1, allow_nan=False) + "\n").encode())
    say("report")
    first = simulated(chosen[0], size) if case is None else case
    monitor, _ = monitor_of(first, chosen[0], size, folder / f"seed-{chosen[0]}", lambda _: None)
    pages = write_report(folder, first, monitor, studies[0], results)
    return results, [folder / "results.json", *pages]


def find_files(folder: Path) -> tuple[Path, Path]:
    """The files of normal operation and of attacks in a folder: those with these words in their names."""
    if not folder.is_dir():
        raise DataError(f"there is no folder '{folder}'")
    found = []
    for word in ("normal", "attack"):
        files = sorted(
            path
            for path in folder.iterdir()
            # A name with ~$ is what Excel leaves beside a file that is open.
            if path.suffix.lower() in _SUFFIXES and word in path.stem.lower() and not path.name.startswith("~$")
        )
        if len(files) != 1:
            names = ", ".join(f"'{path.name}'" for path in files) or "none"
            raise DataError(f"'{folder}' should have one .csv or .xlsx file with '{word}' in its name; it has {names}")
        found.append(files[0])
    return found[0], found[1]


def find_truth(folder: Path) -> Path | None:
    """The file that says which tags were attacked when, if there is one: that with "truth" in its name."""
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".csv" and "truth" in path.stem.lower())
    if len(found) > 1:
        names = ", ".join(f"'{path.name}'" for path in found)
        raise DataError(f"'{folder}' should have one .csv file with 'truth' in its name, or none; it has {names}")
    return found[0] if found else None


def _studies(
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
            studies.append(_one(folder, seed, case, size, what, compare, lambda text, h=heading: say(h + text)))  # type: ignore[misc]
        return studies
    found: dict[int, dict[str, Any]] = {}
    with pool_of(min(workers, len(seeds))) as pool:
        waiting = {pool.submit(_one, folder, seed, case, size, what, compare): seed for seed in seeds}
        for done in as_completed(waiting):
            try:
                found[waiting[done]] = done.result()
            except BrokenProcessPool as error:
                raise RunError(
                    "a worker died (of too little memory, perhaps): run the same command again to go on, with fewer "
                    "--workers if it happens again"
                ) from error
            say(f"seed {waiting[done]} is done, {len(found)} of {len(seeds)}")
    return [found[seed] for seed in seeds]


def _one(
    folder: Path,
    seed: int,
    case: Case | None,
    size: Size,
    what: What,
    compare: bool,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    return study(
        simulated(seed, size) if case is None else case,
        seed,
        size,
        folder / f"seed-{seed}",
        what=what,
        compare=compare,
        say=say,
    )
