"""The time stamps of a file: texts in many layouts, and whether 03/04 is the third of April or the fourth of March.

The order of day and month is decided when all rows are known: the order in which more stamps are dates, then the order
in which more days follow each other, then that of the plant file.
"""

from __future__ import annotations

import datetime
import itertools
import re
from array import array
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_STAMP: Final = re.compile(
    r"\s*(?:(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d\d)|(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})"
    r"|(\d{1,2})[ /.-]([A-Za-z]{3,9})[ /.-](\d{4}|\d\d))"
    r"(?:[ T]+(\d{1,2})(?::(\d\d)(?::(\d\d)(\.\d+)?)?)?\s*([AaPp][Mm])?)?\s*(?:Z|[+-]\d\d:?\d\d)?\s*$",
    re.ASCII,
)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EPOCH: Final = datetime.date(1970, 1, 1)
DAY: Final = 86_400
Key = tuple[bool, int, int, int]  # whether day and month may be swapped; then day, month and year


class Dates(NamedTuple):
    """The ``seconds`` [T] since 1970, where they are dates at all [T], and a notice on the order of dates.

    ``day_first`` is that order, or None if the days did not tell.
    """

    seconds: NDArray[np.int64]
    valid: NDArray[np.bool_]
    notice: str | None
    day_first: bool | None


class Clock:
    """Time stamps of rows, added one by one."""

    def __init__(self) -> None:
        self._codes, self._seconds = array("i"), array("i")
        self._known: dict[Key, int] = {}
        self._parsed: dict[tuple[str | None, ...], Key] = {}

    def add(self, stamp: Any) -> bool:
        """Add a text or a date of a workbook, and return whether it is a time stamp; another one is not added."""
        if isinstance(stamp, datetime.datetime):
            exact = stamp.replace(tzinfo=None) + datetime.timedelta(microseconds=500_000)
            key: Key = (False, exact.day, exact.month, exact.year)
            second = 3600 * exact.hour + 60 * exact.minute + exact.second
        else:
            match = _STAMP.match(stamp) if isinstance(stamp, str) else None
            if match is None:
                return False
            *date, hour_text, minute, second_text, fraction, half = match.groups()
            hour = int(hour_text or 0)
            if half:
                if not 1 <= hour <= 12:
                    return False
                hour = hour % 12 + (12 if half in ("PM", "pm", "Pm", "pM") else 0)
            if hour > 23 or int(minute or 0) > 59 or int(second_text or 0) > 59:
                return False
            second = 3600 * hour + 60 * int(minute or 0) + int(second_text or 0)
            if fraction is not None and float(fraction) >= 0.5:
                second += 1
            key = self._key_of(tuple(date))
        self._codes.append(self._known.setdefault(key, len(self._known)))
        self._seconds.append(second)
        return True

    def _key_of(self, date: tuple[str | None, ...]) -> Key:
        key = self._parsed.get(date)
        if key is None:
            first, _, second, year, iso_year, iso_month, iso_day, day, month, its_year = date
            if month is not None:
                # 28-Dec-15; of a word that is no month there is no such day.
                number = _MONTHS.index(month[:3].lower()) + 1 if month[:3].lower() in _MONTHS else 0
                key = False, int(day or 0), number, int(its_year or 0) + (2000 if len(its_year or "") == 2 else 0)
            elif iso_year is not None:
                key = False, int(iso_day or 0), int(iso_month or 0), int(iso_year)
            else:
                century = 2000 if len(year or "") == 2 else 0
                key = True, int(first or 0), int(second or 0), century + int(year or 0)
            self._parsed[date] = key
        return key

    def read(self, day_first: bool, says: str = "the plant file") -> Dates:
        """Read all stamps; ``day_first`` is the order of dates that is expected, and ``says`` who expects it."""
        codes = np.frombuffer(self._codes, dtype=np.int32)
        keys = list(self._known)
        rows = np.bincount(codes, minlength=len(keys))
        days = {order: [_day_of(key, order) for key in keys] for order in (day_first, not day_first)}
        faults = {order: (sum(int(n) for n, day in zip(rows, found, strict=True) if day is None), _breaks(found))
                  for order, found in days.items()}  # fmt: skip
        chosen = min(faults, key=lambda order: faults[order])  # The expected order is first, and wins a tie.
        notice, told = None, faults[day_first] != faults[not day_first]
        if chosen != day_first:
            example = next(key for key in keys if key[0] and key[1] != key[2])
            notice = (
                f"dates are written as {_ORDERS[chosen]}: {example[1]:02}/{example[2]:02} is {_spell(example, chosen)}"
            )
        elif not told:
            doubtful = [key for key in keys if key[0] and key[1] != key[2]]
            if doubtful:
                example = doubtful[0]
                notice = (
                    f"{example[1]:02}/{example[2]:02} is read as {_spell(example, chosen)}, as {says} says; "
                    "the days of this file do not tell"
                )
        table = np.array([-1 if day is None else day for day in days[chosen]], dtype=np.int64)
        seconds = table[codes] * DAY + np.frombuffer(self._seconds, dtype=np.int32)
        return Dates(seconds, table[codes] >= 0, notice, chosen if told else None)


_ORDERS: Final = {True: "day/month", False: "month/day"}


def _day_of(key: Key, day_first: bool) -> int | None:
    swapped, first, second, year = key
    day, month = (first, second) if day_first or not swapped else (second, first)
    try:
        number = (datetime.date(year, month, day) - _EPOCH).days
    except ValueError:
        return None
    return number if number >= 0 else None


def _breaks(days: list[int | None]) -> int:
    """Count the days that do not follow the day before them in the file."""
    known = [day for day in days if day is not None]
    return sum(later - earlier != 1 for earlier, later in itertools.pairwise(known))


def _spell(key: Key, day_first: bool) -> str:
    day, month = (key[1], key[2]) if day_first else (key[2], key[1])
    return f"{day} {datetime.date(2000, month, 1):%B}" if 1 <= month <= 12 else "no date"


def find_strays(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows [k] whose times do not fit, while those right before and after them do.

    Where time goes back, the row before that is a stray if time does not go back without it, else the row after it.
    If neither is so, a whole stretch is out of order, and no single row is to blame.

    >>> find_strays(np.array([0, 1, 99, 3, 4, 2, 6, 8, 7, 9])).tolist()
    [2, 5, 7]
    >>> find_strays(np.array([0, 1, 2, 3, 1, 2, 3, 4])).tolist()
    []
    """
    strays = []
    for row in np.flatnonzero(np.diff(times) < 0).tolist():
        if row == 0 or times[row - 1] <= times[row + 1]:
            strays.append(row)
        elif row + 2 == len(times) or times[row] <= times[row + 2]:
            strays.append(row + 1)
    return np.array(strays, dtype=np.int64)
