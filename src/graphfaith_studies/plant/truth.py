"""The file of attacked tags: a small CSV file that adds to the labels of a recording which tags were attacked.

Its columns are ``attack`` (a number), ``start`` and ``stop`` (the first and last second), and ``tags`` (separated by
spaces). `graphfaith swat simulate` writes such a file. Users of genuine recordings can write it themselves from
the list of attacks that belongs to them.
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

from .plant import Plant
from .recording import KnownRecording
from .series import Series

COLUMNS: Final = ("attack", "start", "stop", "tags")


@dataclass(frozen=True)
class KnownAttack:
    """One row of the file: the number of an attack, its first and last second, and the columns of its tags."""

    number: int
    start: np.datetime64
    stop: np.datetime64
    tags: tuple[int, ...]


def write_truth(run: KnownRecording, path: str | os.PathLike[str]) -> None:
    """Write the attacks of a simulation and their tags to a ``.csv`` file."""
    target = check_output(path, (".csv",))
    lines = [",".join(COLUMNS)]
    for number in dict.fromkeys(run.attack_id[run.attack_id > 0].tolist()):
        rows = np.flatnonzero(run.attack_id == number)
        tags = " ".join(run.plant.names[tag] for tag in np.flatnonzero(run.attacked[rows].any(0)))
        lines.append(f"{number},{run.times[rows[0]]},{run.times[rows[-1]]},{tags}")
    write_file(target, ("\n".join(lines) + "\n").encode())


def read_truth(plant: Plant, path: Path) -> list[KnownAttack]:
    """Read a file in the format of `write_truth`; an error message names the row and the column of a mistake."""
    try:
        text = read_file(path, "cannot read").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"cannot read '{path}': it is not text in UTF-8") from error
    rows = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise DataError(
            f"cannot read '{path}': it has no column '{missing[0]}'; it needs the columns {', '.join(COLUMNS)}"
        )
    attacks = []
    for number, row in enumerate(rows, 2):
        attacks.append(_parse_row(plant, row, f"cannot read '{path}', row {number}"))
    if not attacks:
        raise DataError(f"cannot read '{path}': it has no row with an attack")
    return attacks


def _parse_row(plant: Plant, row: dict[str, str | None], where: str) -> KnownAttack:
    cells = {name: (row[name] or "").strip() for name in COLUMNS}
    if not cells["attack"].isdecimal() or int(cells["attack"]) < 1:
        raise DataError(
            f"{where}, column attack: '{cells['attack']}' is not the number of an attack; numbers begin with 1"
        )
    times: list[np.datetime64] = []
    for name in ("start", "stop"):
        try:
            times.append(np.datetime64(cells[name], "s"))
        except ValueError:
            times.append(np.datetime64("NaT"))
        if np.isnat(times[-1]):
            raise DataError(f"{where}, column {name}: '{cells[name]}' is not a time such as 2015-12-28T10:29:14")
    if times[1] < times[0]:
        raise DataError(f"{where}, column stop: the time is before the start")
    tags = cells["tags"].split()
    if not tags:
        raise DataError(f"{where}, column tags: the cell is empty; name at least one tag")
    try:
        return KnownAttack(int(cells["attack"]), times[0], times[1], tuple(plant.column(tag) for tag in tags))
    except InputError as error:
        raise DataError(f"{where}, column tags: {error}") from error


def add_truth(series: Series, known: Sequence[KnownAttack]) -> Series:
    """Return the series with the numbers and the tags of its attacks; the labels of the series stay unchanged.

    A step that is labelled as attacked belongs to the attack during which it happened, or to the nearest attack. If
    the nearest attack is further away than ``plant.quiet``, the two files do not belong together, and this is an error.
    """
    plant = series.plant
    attacked = np.zeros((len(series), len(plant)), dtype=bool)
    numbers = np.zeros(len(series), dtype=np.int64)
    middle = series.times + np.timedelta64(plant.step // 2, "s")
    for step in np.flatnonzero(series.labels):
        now = middle[step]
        seconds = [max(attack.start - now, now - attack.stop) / np.timedelta64(1, "s") for attack in known]
        nearest = int(np.argmin(seconds))
        if seconds[nearest] > plant.quiet:
            raise DataError(
                f"the rows at {series.times[step]} are labelled as an attack, but the truth file has no attack then"
            )
        numbers[step] = known[nearest].number
        attacked[step, list(known[nearest].tags)] = True
    return replace(series, attacked=attacked, attack_id=numbers)
