"""Which tags were attacked when: a small CSV file beside the recordings, for what their labels do not say.

Its columns are ``attack`` (a number), ``start`` and ``stop`` (the first and last second), and ``tags`` (with spaces).
`graphfaith swat simulate` writes one; who holds genuine files can write theirs from the list that came with them.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from graphfaith._base.errors import DataError, InputError
from graphfaith._base.files import check_output, read_file, write_file

from .recording import Run
from .series import STEP, Series
from .tags import NUM_TAGS, TAGS, column

COLUMNS: Final = ("attack", "start", "stop", "tags")


@dataclass(frozen=True)
class Known:
    """An attack that is known: its number, its first and last second, and the tags."""

    number: int
    start: np.datetime64
    stop: np.datetime64
    tags: tuple[int, ...]


def write_truth(run: Run, path: str | os.PathLike[str]) -> None:
    """Write which tags of a simulation were attacked when."""
    target = check_output(path, (".csv",))
    lines = [",".join(COLUMNS)]
    for number in dict.fromkeys(run.attack_id[run.attack_id > 0].tolist()):
        rows = np.flatnonzero(run.attack_id == number)
        tags = " ".join(TAGS[tag] for tag in np.flatnonzero(run.attacked[rows].any(0)))
        lines.append(f"{number},{run.times[rows[0]]},{run.times[rows[-1]]},{tags}")
    write_file(target, ("\n".join(lines) + "\n").encode())


def read_truth(path: Path) -> list[Known]:
    """Read what `write_truth` writes, or a user wrote; a mistake is an error with its row and column."""
    try:
        text = read_file(path, "cannot read").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"cannot read '{path}': it is not text in UTF-8") from error
    rows = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise DataError(f"cannot read '{path}': it has no column '{missing[0]}'; it needs {', '.join(COLUMNS)}")
    found = []
    for number, row in enumerate(rows, 2):
        found.append(_known(row, f"cannot read '{path}', row {number}"))
    if not found:
        raise DataError(f"cannot read '{path}': it names no attack")
    return found


def _known(row: dict[str, str | None], where: str) -> Known:
    cells = {name: (row[name] or "").strip() for name in COLUMNS}
    if not cells["attack"].isdecimal() or int(cells["attack"]) < 1:
        raise DataError(f"{where}, column attack: '{cells['attack']}' is no number of an attack, from 1")
    times: list[np.datetime64] = []
    for name in ("start", "stop"):
        try:
            times.append(np.datetime64(cells[name], "s"))
        except ValueError:
            times.append(np.datetime64("NaT"))
        if np.isnat(times[-1]):
            raise DataError(f"{where}, column {name}: '{cells[name]}' is no time such as 2015-12-28T10:29:14")
    if times[1] < times[0]:
        raise DataError(f"{where}, column stop: it is before the start")
    tags = cells["tags"].split()
    if not tags:
        raise DataError(f"{where}, column tags: it names none")
    try:
        return Known(int(cells["attack"]), times[0], times[1], tuple(column(tag) for tag in tags))
    except InputError as error:
        raise DataError(f"{where}, column tags: {error}") from error


def with_truth(series: Series, known: Sequence[Known]) -> Series:
    """The series with the numbers and the tags of its attacks; its own labels stay.

    A step under attack belongs to the attack that it falls in, or else, at the edges, to the nearest; if that is more
    than two minutes away, the two files do not belong together.
    """
    attacked = np.zeros((len(series), NUM_TAGS), dtype=bool)
    numbers = np.zeros(len(series), dtype=np.int64)
    middle = series.times + np.timedelta64(STEP // 2, "s")
    for step in np.flatnonzero(series.labels):
        away = [max((one.start - middle[step]), (middle[step] - one.stop)) / np.timedelta64(1, "s") for one in known]
        nearest = int(np.argmin(away))
        if away[nearest] > 120:
            raise DataError(f"the rows at {series.times[step]} are labelled as an attack, but the truth has none there")
        numbers[step] = known[nearest].number
        attacked[step, list(known[nearest].tags)] = True
    return replace(series, attacked=attacked, attack_id=numbers)
