"""Rows of an xlsx file, read one at a time, because a workbook with a week of seconds does not fit into memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from graphfaith._base.errors import DataError, GraphfaithError, UnsupportedError, describe_error
from graphfaith._base.expansion import check_declared, list_entries
from graphfaith._base.files import read_file

_XML_GROWTH = 16  # The objects of a parsed text take up to about this multiple of its length.


def read_workbook(path: Path) -> tuple[int | None, Iterator[Sequence[Any]]]:
    """Return the number of rows that the first sheet declares, if any, and an iterator over its rows.

    A cell is a number, a text, a time or None.
    """
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise UnsupportedError(
            f"cannot load '{path}': xlsx files need openpyxl; run pip install 'graphfaith[studies]', "
            "or save the sheet as CSV"
        ) from error
    _check_sizes(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns about styles, which are not read here.
            book = load_workbook(path, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        total = sheet.max_row
        # Some programs write a wrong size of the sheet, and openpyxl would ignore the cells outside of it.
        sheet.reset_dimensions()
    except Exception as error:
        raise _damage_error(path, error) from error
    return total, _read_rows(path, book, sheet)


def _check_sizes(path: Path) -> None:
    """Refuse a workbook whose parts would not fit in memory; a sheet may be larger, because it is read row by row."""
    content = read_file(path, "cannot load")
    try:
        parts = [entry for entry in list_entries(content) if not entry.filename.startswith("xl/worksheets/")]
        check_declared(sum(part.file_size for part in parts), _XML_GROWTH)
    except GraphfaithError as error:
        raise DataError(f"cannot load '{path}': {error}") from error
    except Exception as error:
        raise _damage_error(path, error) from error


def _read_rows(path: Path, book: Any, sheet: Any) -> Iterator[Sequence[Any]]:
    rows = sheet.iter_rows(values_only=True)
    try:
        while True:
            # A damaged file can make zlib, the XML parser or openpyxl raise many kinds of exceptions.
            try:
                row = next(rows, None)
            except Exception as error:
                raise _damage_error(path, error) from error
            if row is None:
                return
            yield row
    finally:
        book.close()


def _damage_error(path: Path, error: Exception) -> DataError:
    return DataError(f"cannot load '{path}': it is not an xlsx file, or it is damaged ({describe_error(error)[:160]})")
