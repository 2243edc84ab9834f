"""The loader of recordings of a plant, as xlsx or as CSV, as historians and spreadsheets write them.

Files may have a banner row before the header, stray spaces in names and labels, semicolons between cells (and then
perhaps decimal commas), texts and -999 instead of readings, states in words, missing rows, and dates with the month
first. What can be mended is mended, and `Recording.notices` says what it was. A file is refused if more than half of
its rows, or of the readings of a tag, are unusable; the error message names the file, a row and a column.
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphfaith._base.checks import is_whole
from graphfaith._base.errors import DataError, InputError
from graphfaith._base.progress import track

from .clock import Clock, find_strays
from .plant import Plant, Tag
from .recording import Gap, Recording
from .repair import Grid, find_impossible, keep_rows, repair, spread_rows
from .textfile import Rows, read_textfile
from .workbook import read_workbook

SUFFIXES: Final = (".csv", ".xlsx")
HEADER_WITHIN: Final = 10  # the header must be one of this many first rows
_TOO_MANY: Final = 0.5  # share of unusable rows, or readings of a tag, with which a file is refused
_MOST_STRAYS: Final = 0.01  # share of rows whose times may be out of order; a file with more is not sorted
_LISTED: Final = 3  # gaps that a notice lists
_MOST_SLOTS: Final = 2**31 - 1  # rows that a recording could have between its first and its last time


class Order(NamedTuple):
    """The order of day and month in dates that another file has told, and the name of that file."""

    day_first: bool
    file: str


def load(
    plant: Plant,
    path: str | os.PathLike[str],
    *,
    max_gap: int | None = None,
    order: Order | None = None,
    show: bool | None = None,
) -> Recording:
    """Read a recording of a plant from a ``.csv`` or ``.xlsx`` file.

    Gaps of up to ``max_gap`` seconds are bridged, by default ``plant.longest_gap``; `Recording.gaps` lists those that
    remain. If rows are further apart than the plant file says, the recording is of the plant at that interval.
    ``order`` is what a file beside this one has told of dates; without it the plant file says what is expected.
    ``show`` switches the progress bar on or off; None shows it if standard error is a terminal.
    """
    if max_gap is not None and (not is_whole(max_gap) or max_gap < 0):
        raise InputError(f"max_gap must be a whole number of seconds, 0 or more (got {max_gap!r})")
    source = Path(path)
    suffix = source.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"cannot load '{path}': use a {' or '.join(SUFFIXES)} file")
    if not source.is_file():
        reason = "it is a folder" if source.is_dir() else "there is no such file"
        raise DataError(f"cannot load '{path}': {reason}")
    if not source.stat().st_size:
        raise DataError(f"cannot load '{path}': the file is empty")
    total, rows = read_textfile(plant, source, HEADER_WITHIN) if suffix == ".csv" else _xlsx_rows(source)
    table = _Table(plant, source, order)
    for number, cells in track(rows, "Reading", "rows", show=show, total=total):
        table.add(number, cells)
    return table.to_recording(None if max_gap is None else int(max_gap))


def load_each(
    plant: Plant, paths: Iterable[Path], *, max_gap: int | None = None, say: Callable[[str], None] = lambda _: None
) -> Iterator[Recording]:
    """Read recordings that belong together, one after the other, and say what was mended in each.

    A file of a single day does not tell the order of day and month. It is read in the order that a file before it has
    told, because one program has written them.
    """
    order = None
    for path in paths:
        recording = load(plant, path, max_gap=max_gap, order=order)
        for notice in recording.notices:
            say(f"{path.name}: {notice}")
        if order is None and recording.day_first is not None:
            order = Order(recording.day_first, path.name)
        yield recording


def _xlsx_rows(path: Path) -> tuple[int | None, Rows]:
    total, rows = read_workbook(path)
    return total, enumerate(rows, start=1)


# The table of all rows --------------------------------------------------------------------------------------------


class _Fault:
    """How often something was wrong, and the first time."""

    def __init__(self, first: str) -> None:
        self.first, self.count = first, 0


class _Table:
    """A table that takes rows one by one, finds the header, and stores the rows below it as plain numbers.

    Readings are stored in single precision, which has the seven digits of a reading, so that a file does not take more
    memory than it has bytes.
    """

    def __init__(self, plant: Plant, path: Path, order: Order | None) -> None:
        self._plant, self._path, layout = plant, path, plant.layout
        self._order = Order(layout.day_first, "the plant file") if order is None else order
        self._day_first: bool | None = None
        self._columns = (*plant.names, layout.time, layout.label)
        self._words = dict.fromkeys(map(_normalise, layout.normal), False)
        self._words |= dict.fromkeys(map(_normalise, layout.attack), True)
        # Some historians write a state as a word.
        self._states = {
            tag.name: {_normalise(word): float(state) for state, word in tag.kind.states.items()} for tag in plant.tags
        }
        self._names: list[str] = []
        self._places: dict[str, int] = {}
        self._last_cell = 0
        self._labelled = True
        self._readings, self._labels, self._numbers = array("f"), array("b"), array("i")
        self._clock = Clock()
        self._left_out: _Fault | None = None
        self._not_numbers: dict[str, _Fault] = {}
        self._notices: list[str] = []

    def add(self, number: int, cells: Sequence[Any]) -> None:
        """Add a row of the file: the banner, the header, the readings of a moment, or an empty row."""
        if not self._places:
            self._find_header(number, cells)
            return
        if len(cells) <= self._last_cell:
            if not _is_blank(cells):
                missing = next(name for name, place in self._places.items() if place >= len(cells))
                self._leave_out(number, missing, f"the row ends after {len(cells)} cells")
            return
        values, layout = self._pick(cells), self._plant.layout
        stamp, label = cells[self._places[layout.time]], cells[self._places[layout.label]] if self._labelled else None
        under_attack = self._words.get(_normalise(label)) if self._labelled else False
        if under_attack is None:
            if not _is_blank(cells):
                what = f"{_show(label)} is neither {layout.normal[0]!r} nor {layout.attack[0]!r}"
                self._leave_out(number, layout.label, what)
            return
        if len(cells) > len(self._names) and any(cell not in (None, "") for cell in cells[len(self._names) :]):
            what = f"the row has more cells than the header: {len(cells)} cells for {len(self._names)} names"
            self._leave_out(number, self._names[-1], what)
            return
        if not self._clock.add(stamp):
            if not _is_blank(cells):
                self._leave_out(number, layout.time, f"{_show(stamp)} is not a time such as '28/12/2015 10:00:00 AM'")
            return
        size = len(self._readings)
        try:
            self._readings.extend(map(float, values))
        except (TypeError, ValueError):
            del self._readings[size:]
            self._readings.extend(self._parse_cells(number, values))
        self._labels.append(under_attack)
        self._numbers.append(number)

    def _parse_cells(self, number: int, values: Sequence[Any]) -> Iterator[float]:
        for tag, value in zip(self._plant.names, values, strict=True):
            try:
                reading = float(value)
            except (TypeError, ValueError):
                reading = self._states[tag].get(_normalise(value), math.nan)
                if math.isnan(reading):
                    fault = self._not_numbers.setdefault(tag, _Fault(f"{_show(value)} in row {number}"))
                    fault.count += 1
            yield reading

    def to_recording(self, longest: int | None) -> Recording:
        """Return the recording, after the checks that need all rows."""
        plant = self._plant
        if not self._places:
            names = f"{plant.layout.time}, {plant.names[0]} to {plant.names[-1]}"
            raise DataError(
                f"cannot load '{self._path}': none of its first {HEADER_WITHIN} rows is a header with the columns "
                f"{names}{f' and {plant.layout.label}' if plant.layout.needs_label else ''}"
            )
        if not self._numbers and self._left_out is None:
            raise DataError(f"cannot load '{self._path}': there is no row below the header")
        times, rows = self._read_times()
        plant = self._adapt(plant, times)
        max_gap = plant.longest_gap if longest is None else longest
        if (times[-1] - times[0]) // plant.period >= _MOST_SLOTS:
            last = int(np.diff(times).argmax()) + 1
            raise self._cell_error(
                self._numbers[rows[last]],
                plant.layout.time,
                f"{_format_time(times[last])} is too far from {_format_time(times[last - 1])} in the row before",
            )
        slots = ((times - times[0] + plant.period // 2) // plant.period).astype(np.int32)
        self._clock = Clock()  # Its stamps are not needed any more.
        if (np.diff(slots) == 0).any():
            # Of rows that share a place in time, the one that is nearest to it counts.
            order = np.lexsort((np.abs(times - times[0] - slots * np.int64(plant.period)), slots))
            kept = order[np.append(True, np.diff(slots[order]) > 0)]
            close = np.delete(np.arange(len(slots)), kept)
            self._notices.append(
                f"{len(close)} rows are less than {plant.period} s from another, the first is row "
                f"{self._numbers[rows[close[0]]]}; they are left out"
            )
            times, rows, slots = times[kept], rows[kept], slots[kept]
        grid = Grid.of(slots, max_gap // plant.period)
        labels = np.frombuffer(self._labels, dtype=np.int8)[rows].astype(np.bool_)
        for _ in range(len(rows), len(grid.slots)):  # Room for the missing rows, before anything looks into the array.
            self._readings.extend(self._readings[: len(plant)])
        whole = np.frombuffer(self._readings, dtype=np.float32).reshape(-1, len(plant))
        self._clean(plant, keep_rows(whole, rows), np.frombuffer(self._numbers, dtype=np.int32)[rows])
        readings = whole[: len(grid.slots)]
        spread_rows(readings, grid.place)
        left, source = grid.slots, grid.source
        del grid, rows  # These are as long as the file, as all arrays here are.
        mended = repair(plant, left, readings, max_gap // plant.period)
        self._judge(plant, len(left), mended.dropped, mended.incomplete)
        if mended.bridged:
            self._notices.append(f"{mended.bridged} missing readings are bridged, in gaps of up to {max_gap} s")
        if mended.dropped:
            left, source = left[mended.rows], source[mended.rows]
        moments = (left - slots[source]).astype(np.int64)
        moments *= plant.period
        moments += times[source]
        recording = Recording(
            plant=plant,
            times=moments.view("datetime64[s]"),
            readings=mended.readings,
            labels=labels[source],
            gaps=_list_gaps(left),
            labelled=self._labelled,
            day_first=self._day_first,
        )
        self._describe_gaps(recording, max_gap)
        return replace(recording, notices=tuple(self._notices))

    def _read_times(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the increasing times, and the rows that have them."""
        name = self._plant.layout.time
        if self._numbers:
            times, valid, notice, self._day_first = self._clock.read(*self._order)
            if notice is not None:
                self._notices.append(notice)
            for row in np.flatnonzero(~valid):
                self._leave_out(self._numbers[int(row)], name, "there is no such day")
        else:
            times, valid = np.empty(0, np.int64), np.empty(0, bool)
        rows = np.flatnonzero(valid).astype(np.int32)
        if self._left_out is not None:
            if len(rows) <= self._left_out.count * _TOO_MANY / (1 - _TOO_MANY):
                raise DataError(f"cannot load '{self._path}': {self._left_out.first}")
            noun = "row is" if self._left_out.count == 1 else "rows are"
            self._notices.append(f"{self._left_out.count} {noun} left out ({self._left_out.first})")
        times = times[rows]
        strays = find_strays(times)
        if len(strays) and len(strays) <= _MOST_STRAYS * len(times):
            first = int(strays[0])
            noun = "row is" if len(strays) == 1 else "rows are"
            self._notices.append(
                f"{len(strays)} {noun} left out, because the time is out of order "
                f"({_format_time(times[first])} in row {self._numbers[rows[first]]})"
            )
            times, rows = np.delete(times, strays), np.delete(rows, strays)
        apart = np.diff(times)
        if (apart < 0).any():
            back = int(np.flatnonzero(apart < 0)[0])
            raise self._cell_error(
                self._numbers[rows[back + 1]],
                name,
                f"the time goes back to {_format_time(times[back + 1])}: row {self._numbers[rows[back]]} has "
                f"{_format_time(times[back])}; sort the rows, or write times without the hour of summer time",
            )
        if (apart == 0).any():
            again = int(np.flatnonzero(apart == 0)[0]) + 1
            self._notices.append(
                f"{int((apart == 0).sum())} times occur twice, the first is {_format_time(times[again])} in row "
                f"{self._numbers[rows[again]]}; of rows with the same time the first one counts"
            )
            keep = np.append(True, apart > 0)
            times, rows = times[keep], rows[keep]
        return times, rows

    def _adapt(self, plant: Plant, times: NDArray[np.int64]) -> Plant:
        """Return the plant at the interval of the rows of this file."""
        if len(times) < 2:
            return plant
        intervals, counts = np.unique(np.diff(times), return_counts=True)
        period = int(intervals[counts.argmax()])
        if period == plant.period:
            return plant
        adapted = plant.every(period)
        self._notices.append(
            f"rows are {period} s apart, and not {plant.period} s: a step of the forecaster is {adapted.step} s"
        )
        return adapted

    def _clean(self, plant: Plant, readings: NDArray[np.float32], numbers: NDArray[np.int32]) -> None:
        """Make impossible readings NaN, round the others, and notice units that cannot be right."""
        for column, tag in enumerate(plant.tags):
            values = np.ascontiguousarray(readings[:, column])
            infinite = ~np.isfinite(values)
            fault = self._not_numbers.get(tag.name)
            if infinite.any():
                count = int(infinite.sum())
                first = f"row {numbers[int(infinite.argmax())]}" if fault is None else fault.first
                self._refuse_many(tag, count, len(values), f"not numbers (the first is {first})")
                self._notices.append(f"{count} readings of {tag.name} are not numbers (the first is {first})")
            wrong = find_impossible(tag, values)
            if wrong.any():
                row = int(wrong.argmax())
                what = f"impossible (the first is {values[row]:g} in row {numbers[row]}; {_say_possible(tag)})"
                self._refuse_many(tag, int(wrong.sum()), len(values), what)
                self._notices.append(f"{int(wrong.sum())} readings of {tag.name} are {what}")
            values[infinite | wrong] = np.nan
            if tag.kind.resolution:
                values = np.round(values / tag.kind.resolution) * np.float32(tag.kind.resolution)
            readings[:, column] = values
            self._check_unit(tag, float(np.nanmedian(values)))

    def _refuse_many(self, tag: Tag, count: int, of: int, what: str) -> None:
        if count > _TOO_MANY * of:
            unit = f"; is its unit {tag.kind.unit}?" if tag.kind.unit else ""
            raise DataError(f"cannot load '{self._path}': {count} of {of} readings of {tag.name} are {what}{unit}")

    def _check_unit(self, tag: Tag, median: float) -> None:
        low, high = tag.kind.usual
        if not low <= median <= high:
            self._notices.append(
                f"the median of {tag.name} is {median:.4g} {tag.kind.unit}, and it should be between {low:g} and "
                f"{high:g}: is it in another unit?"
            )

    def _judge(self, plant: Plant, rows: int, dropped: int, incomplete: NDArray[np.int64]) -> None:
        if dropped > _TOO_MANY * rows:
            worst = int(incomplete.argmax())
            raise DataError(
                f"cannot load '{self._path}': {dropped} of {rows} rows have a gap that is too long to "
                f"be bridged, most of them in {plant.names[worst]}; leave out such a tag, or allow longer gaps"
            )

    def _describe_gaps(self, recording: Recording, max_gap: int) -> None:
        if not recording.gaps:
            return
        longest = sorted(recording.gaps, key=lambda gap: -gap.missing)[:_LISTED]
        texts = [
            f"{gap.missing} rows before {str(recording.times[gap.row]).replace('T', ' ')}"
            for gap in sorted(longest, key=lambda gap: gap.row)
        ]
        count = len(recording.gaps)
        noun, more = ("gap is", "") if count == 1 else ("gaps are", "" if count <= _LISTED else ", and others")
        self._notices.append(
            f"{count} {noun} longer than {max_gap} s and not bridged ({', '.join(texts)}{more}); nothing is forecast "
            "across"
        )

    def _find_header(self, number: int, cells: Sequence[Any]) -> None:
        if number > HEADER_WITHIN:
            self.to_recording(0)  # This raises the error that there is no header.
        names = {_normalise(name): name for name in self._columns}
        places = [names.get(_normalise(cell)) for cell in cells]
        if sum(name is not None for name in places) < len(self._columns) // 2:
            return
        twice = sorted({name for name in places if name is not None and places.count(name) > 1})
        if twice:
            raise self._cell_error(number, twice[0], "the header has this column twice")
        layout = self._plant.layout
        self._labelled = layout.label in places
        missing = [
            name for name in self._columns if name not in places and (name != layout.label or layout.needs_label)
        ]
        if missing:
            others = f", and {len(missing) - 1} more are missing" if len(missing) > 1 else ""
            if missing == [layout.label]:
                others = "; for files without labels, use a plant file without 'label' in [files]"
            raise self._cell_error(number, missing[0], f"the header has no such column{others}")
        self._places = {name: place for place, name in enumerate(places) if name is not None}
        self._names = [str(cell).strip() for cell in cells]
        while self._names[-1] in ("", "None"):
            self._names.pop()
        self._last_cell = max(self._places.values())
        self._pick = itemgetter(*(self._places[tag] for tag in self._plant.names))

    def _leave_out(self, number: int, name: str, what: str) -> None:
        if self._left_out is None:
            self._left_out = _Fault(f"row {number}, column {name}: {what}")
        self._left_out.count += 1

    def _cell_error(self, number: int, name: str, what: str) -> DataError:
        return DataError(f"cannot load '{self._path}': row {number}, column {name}: {what}")


def _list_gaps(slots: NDArray[np.int32]) -> tuple[Gap, ...]:
    apart = np.diff(slots)
    return tuple(Gap(int(row) + 1, int(apart[row]) - 1) for row in np.flatnonzero(apart > 1))


def _say_possible(tag: Tag) -> str:
    if tag.is_actuator:
        return f"a {tag.kind.name} has one of {', '.join(map(str, sorted(tag.kind.states)))}"
    low, high = tag.kind.possible
    return "such a number stands for no reading" if math.isinf(low) else f"possible are {low:g} to {high:g}"


def _normalise(cell: Any) -> str:
    """Return the text of a cell without spaces and in capitals; names and labels are compared in this form."""
    return "".join(str(cell).split()).upper()


def _is_blank(cells: Sequence[Any]) -> bool:
    return all(cell is None or cell == "" for cell in cells)


def _show(cell: Any) -> str:
    return "an empty cell" if cell is None or cell == "" else repr(cell)[:60]


def _format_time(second: int) -> str:
    return str(np.datetime64(int(second), "s")).replace("T", " ")
