"""The loader of recordings: files that `write_csv` wrote, and genuine files of the plant, as xlsx or as CSV.

The genuine files may have a banner row before the header, stray spaces in names and labels, semicolons between cells
(and then perhaps decimal commas), and missing seconds. The loader accepts all of that. It refuses impossible values,
and the error message names the file, the row and the column.
"""

from __future__ import annotations

import csv
import datetime
import math
import os
import re
from array import array
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np

from graphfaith._base.checks import is_whole
from graphfaith._base.errors import DataError, InputError, describe_error
from graphfaith._base.progress import track

from .files import ATTACK, LABEL_COLUMN, NORMAL, TIME_COLUMN
from .recording import Gap, Recording
from .tags import ACTUATORS, NUM_TAGS, TAGS
from .workbook import read_workbook

MAX_GAP: Final = 120  # seconds; the genuine files miss 81 seconds in total, so that each of their gaps is shorter
_HEADER_WITHIN: Final = 10  # the header must be one of this many first rows
_COLUMNS: Final = (*TAGS, TIME_COLUMN, LABEL_COLUMN)
_LABELS: Final = {NORMAL.upper(): False, ATTACK.upper(): True}
_CLOCK: Final = re.compile(
    r"\s*(?:(\d{1,2})/(\d{1,2})/(\d{4})|(\d{4})-(\d\d)-(\d\d))[ T]+"
    r"(\d{1,2}):(\d\d):(\d\d)(?:\.0+)?\s*([AaPp][Mm])?\s*$",
    re.ASCII,
)


def load(path: str | os.PathLike[str], *, max_gap: int = MAX_GAP, show: bool | None = None) -> Recording:
    """Read a recording from a ``.csv`` or ``.xlsx`` file.

    Up to ``max_gap`` consecutive seconds may be missing; `Recording.gaps` lists them. ``show`` switches the progress
    bar on or off; None shows it if standard error is a terminal.
    """
    if not is_whole(max_gap) or max_gap < 0:
        raise InputError(f"max_gap must be a whole number of seconds, 0 or more (got {max_gap!r})")
    source = Path(path)
    readers = {".csv": _csv_rows, ".xlsx": _xlsx_rows}
    reader = readers.get(source.suffix.lower())
    if reader is None:
        raise InputError(f"cannot load '{path}': use a {' or '.join(readers)} file")
    if not source.is_file():
        reason = "it is a folder" if source.is_dir() else "there is no such file"
        raise DataError(f"cannot load '{path}': {reason}")
    if not source.stat().st_size:
        raise DataError(f"cannot load '{path}': the file is empty")
    total, rows = reader(source)
    table = _Table(source, int(max_gap))
    for number, cells in track(rows, "Reading", "rows", show=show, total=total):
        table.add(number, cells)
    return table.to_recording()


# Readers yield the rows of a file: their number, counted from 1 as in a spreadsheet, and their cells ---------------

Rows = Iterator[tuple[int, Sequence[Any]]]


def _xlsx_rows(path: Path) -> tuple[int | None, Rows]:
    total, rows = read_workbook(path)
    return total, enumerate(rows, start=1)


def _csv_rows(path: Path) -> tuple[int | None, Rows]:
    try:
        with path.open("rb") as file:
            total = sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 20), b""))
    except OSError as error:
        raise DataError(f"cannot load '{path}': {error.strerror or error}") from error
    return total, _read_csv(path)


def _read_csv(path: Path) -> Rows:
    reader = None
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = [file.readline(1 << 16) for _ in range(_HEADER_WITHIN)]
            names = next((line for line in head if TAGS[0] in line.upper()), ",")
            delimiter = max(",;\t", key=names.count)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            for cells in reader:
                # In a file with semicolons between the cells a comma is a decimal comma; no text has a comma.
                yield reader.line_num, [cell.replace(",", ".") for cell in cells] if delimiter == ";" else cells
    except (UnicodeDecodeError, csv.Error) as error:
        after = f" after row {reader.line_num}" if reader is not None else ""
        raise DataError(
            f"cannot load '{path}': it is not a CSV file in UTF-8, or it is damaged{after} "
            f"({describe_error(error)[:160]})"
        ) from error


# The table of all rows --------------------------------------------------------------------------------------------


class _Table:
    """A table that takes rows one by one, finds the header, and stores the rows below it as plain numbers."""

    def __init__(self, path: Path, max_gap: int) -> None:
        self._path = path
        self._max_gap = max_gap
        self._names: list[str] = []
        self._places: dict[str, int] = {}
        self._last_cell = 0
        self._readings, self._times, self._labels, self._numbers = array("d"), array("q"), array("b"), array("q")
        self._gaps: list[Gap] = []
        self._days: dict[tuple[str | None, ...], int] = {}

    def add(self, number: int, cells: Sequence[Any]) -> None:
        """Add a row of the file: the banner, the header, the readings of a second, or an empty row."""
        if not self._places:
            self._find_header(number, cells)
            return
        if len(cells) <= self._last_cell:
            if all(cell is None or cell == "" for cell in cells):
                return
            missing = next(name for name, place in self._places.items() if place >= len(cells))
            raise self._cell_error(number, missing, f"the row ends after {len(cells)} cells")
        values = self._pick(cells)
        stamp, label = cells[self._places[TIME_COLUMN]], cells[self._places[LABEL_COLUMN]]
        try:
            self._readings.extend(map(float, values))
        except (TypeError, ValueError):
            if all(cell is None or cell == "" for cell in cells):
                return
            raise self._number_error(number, values) from None
        if not math.isfinite(sum(self._readings[-NUM_TAGS:])):
            raise self._number_error(number, values)
        under_attack = _LABELS.get(_normalise(label))
        if under_attack is None:
            raise self._cell_error(number, LABEL_COLUMN, f"{_show(label)} is neither '{NORMAL}' nor '{ATTACK}'")
        if len(cells) > len(self._names) and any(cell not in (None, "") for cell in cells[len(self._names) :]):
            raise self._cell_error(
                number,
                self._names[-1],
                f"the row has more cells than the header: {len(cells)} cells for {len(self._names)} names",
            )
        self._add_time(number, stamp)
        self._labels.append(under_attack)
        self._numbers.append(number)

    def to_recording(self) -> Recording:
        """Return the recording, after the checks that are faster on all rows at once."""
        if not self._places:
            raise DataError(
                f"cannot load '{self._path}': none of its first {_HEADER_WITHIN} rows is a header with the columns "
                f"{TIME_COLUMN}, {TAGS[0]} to {TAGS[-1]} and {LABEL_COLUMN}"
            )
        if not self._times:
            raise DataError(f"cannot load '{self._path}': there is no row below the header")
        readings = np.frombuffer(self._readings).reshape(-1, NUM_TAGS)
        actuators = [number for number, tag in enumerate(TAGS) if tag in ACTUATORS]
        wrong = np.argwhere(~np.isin(readings[:, actuators], (0.0, 1.0, 2.0)))
        if len(wrong):
            row, tag = int(wrong[0, 0]), actuators[int(wrong[0, 1])]
            raise self._cell_error(
                self._numbers[row], TAGS[tag], f"{readings[row, tag]:g} is not a state; a valve or pump has 0, 1 or 2"
            )
        return Recording(
            times=np.frombuffer(self._times, dtype=np.int64).astype("datetime64[s]"),
            readings=readings,
            labels=np.frombuffer(self._labels, dtype=np.int8).astype(np.bool_),
            gaps=tuple(self._gaps),
        )

    def _find_header(self, number: int, cells: Sequence[Any]) -> None:
        if number > _HEADER_WITHIN:
            self.to_recording()  # This raises the error that there is no header.
        names = {_normalise(name): name for name in _COLUMNS}
        places = [names.get(_normalise(cell)) for cell in cells]
        if sum(name is not None for name in places) < len(_COLUMNS) // 2:
            return
        twice = sorted({name for name in places if name is not None and places.count(name) > 1})
        if twice:
            raise self._cell_error(number, twice[0], "the header has this column twice")
        missing = [name for name in _COLUMNS if name not in places]
        if missing:
            others = f", and {len(missing) - 1} more are missing" if len(missing) > 1 else ""
            raise self._cell_error(number, missing[0], f"the header has no such column{others}")
        self._places = {name: place for place, name in enumerate(places) if name is not None}
        self._names = [str(cell).strip() for cell in cells]
        while self._names[-1] in ("", "None"):
            self._names.pop()
        self._last_cell = max(self._places.values())
        self._pick = itemgetter(*(self._places[tag] for tag in TAGS))

    def _add_time(self, number: int, stamp: Any) -> None:
        now = self._parse_time(stamp)
        if now is None:
            raise self._cell_error(
                number, TIME_COLUMN, f"{_show(stamp)} is not a time such as ' 28/12/2015 10:00:00 AM'"
            )
        if self._times:
            apart = now - self._times[-1]
            previous = f"row {self._numbers[-1]} has {_format_time(self._times[-1])}"
            if apart == 0:
                raise self._cell_error(number, TIME_COLUMN, f"{_format_time(now)} occurs twice: {previous}")
            if apart < 0:
                raise self._cell_error(number, TIME_COLUMN, f"the time goes back to {_format_time(now)}: {previous}")
            if apart - 1 > self._max_gap:
                raise self._cell_error(
                    number,
                    TIME_COLUMN,
                    f"{apart - 1} seconds are missing before {_format_time(now)}: {previous}; "
                    f"up to {self._max_gap} are accepted; use max_gap={apart - 1} to accept more",
                )
            if apart > 1:
                self._gaps.append(Gap(len(self._times), apart - 1))
        self._times.append(now)

    def _parse_time(self, stamp: Any) -> int | None:
        """Return a time stamp in seconds since 1970, or None if it is not a time."""
        if isinstance(stamp, datetime.datetime):
            rounded = stamp.replace(tzinfo=datetime.UTC) + datetime.timedelta(microseconds=500_000)
            return int(rounded.timestamp() // 1)
        match = _CLOCK.match(stamp) if isinstance(stamp, str) else None
        if match is None:
            return None
        *date, hour_text, minute, second, half = match.groups()
        day = self._parse_day(tuple(date))
        hour = int(hour_text)
        if half:
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + (12 if half.upper() == "PM" else 0)
        if day is None or hour > 23 or int(minute) > 59 or int(second) > 59:
            return None
        return day + 3600 * hour + 60 * int(minute) + int(second)

    def _parse_day(self, date: tuple[str | None, ...]) -> int | None:
        """Return the beginning of a day in seconds since 1970, or None; a file has few days, so they are cached."""
        if date not in self._days:
            day, month, year, iso_year, iso_month, iso_day = (int(part or 0) for part in date)
            try:
                parsed = datetime.date(year or iso_year, month or iso_month, day or iso_day)
            except ValueError:
                return None
            self._days[date] = 86_400 * (parsed - datetime.date(1970, 1, 1)).days
        return self._days[date]

    def _number_error(self, number: int, values: Sequence[Any]) -> DataError:
        for tag, value in zip(TAGS, values, strict=True):
            try:
                finite = math.isfinite(float(value))
            except (TypeError, ValueError):
                finite = False
            if not finite:
                return self._cell_error(number, tag, f"{_show(value)} is not a number")
        return self._cell_error(number, TAGS[0], "the numbers of this row are too large")

    def _cell_error(self, number: int, name: str, what: str) -> DataError:
        return DataError(f"cannot load '{self._path}': row {number}, column {name}: {what}")


def _normalise(cell: Any) -> str:
    """Return the text of a cell without spaces and in capitals; names and labels are compared in this form."""
    return "".join(str(cell).split()).upper()


def _show(cell: Any) -> str:
    return "an empty cell" if cell is None or cell == "" else repr(cell)[:60]


def _format_time(second: int) -> str:
    return str(np.datetime64(second, "s")).replace("T", " ")
