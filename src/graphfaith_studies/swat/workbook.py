"""The rows of an xlsx file, one at a time: a week of seconds does not fit into memory as a workbook."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from graphfaith._base.errors import DataError, UnsupportedError, said


def workbook_rows(path: Path) -> tuple[int | None, Iterator[Sequence[Any]]]:
    """How many rows the first sheet says it has, if it does, and its rows: numbers, texts, times and None."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise UnsupportedError(
            f"cannot load '{path}': xlsx files need openpyxl: pip install 'graphfaith[studies]', or save the sheet as CSV"
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles, which are not read
            book = load_workbook(path, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        total = sheet.max_row
        sheet.reset_dimensions()  # some programs write a wrong size, and cells beyond it would be lost
    except Exception as error:
        raise _damaged(path, error) from error
    return total, _rows(path, book, sheet)


def _rows(path: Path, book: Any, sheet: Any) -> Iterator[Sequence[Any]]:
    rows = sheet.iter_rows(values_only=True)
    try:
        while True:
            # Whatever a damaged file makes zlib, the XML parser or openpyxl say in here, it is a damaged file.
            try:
                row = next(rows, None)
            except Exception as error:
                raise _damaged(path, error) from error
            if row is None:
                return
            yield row
    finally:
        book.close()


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"cannot load '{path}': it is no xlsx file, or a damaged one ({said(error)[:160]})")
