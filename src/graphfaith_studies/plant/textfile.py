"""Rows of a text file with cells between commas, semicolons or tabs, read one at a time."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from graphfaith._base.errors import DataError

from .plant import Plant

Rows = Iterator[tuple[int, Sequence[Any]]]  # the number of a row, counted from 1 as in a spreadsheet, and its cells


def read_textfile(plant: Plant, path: Path, header_within: int) -> tuple[int, Rows]:
    """Return the number of lines, about, and the rows of a CSV file; its header is one of the first rows."""
    try:
        with path.open("rb") as file:
            total = sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 16), b""))
    except OSError as error:
        raise DataError(f"cannot load '{path}': {error.strerror or error}") from error
    return total, _read_rows(plant, path, header_within)


def _read_rows(plant: Plant, path: Path, header_within: int) -> Rows:
    """Yield the rows of a CSV file; a line is a row, so that a stray quote spoils one row and not all that follow.

    Only before and in the header a quoted cell may have several lines. A byte that is not a letter in the encoding of
    the file becomes a question mark in its cell, and so is no number there.
    """
    with path.open("rb") as file:
        # Spreadsheets write "Unicode text" in UTF-16, and begin it with this mark.
        encoding = "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    with path.open(encoding=encoding, errors="replace") as file:
        head = [file.readline(1 << 16) for _ in range(header_within)]
        names = next((line for line in head if plant.names[0].upper() in line.upper()), ",")
        delimiter = max(",;\t", key=names.count)
        file.seek(0)
        begun = ""
        for number, line in enumerate(file, start=1):
            text = begun + line
            if number < header_within and text.count('"') % 2:
                begun = text
                continue
            begun = ""
            cells = _split(text.rstrip("\n"), delimiter)
            # Between other delimiters a comma is a decimal comma; no text has a comma.
            yield number, cells if delimiter == "," else [cell.replace(",", ".") for cell in cells]


def _split(line: str, delimiter: str) -> list[str]:
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:  # A quote does not end, or ends within a cell; then it belongs to the text of its cell.
        return line.split(delimiter)
