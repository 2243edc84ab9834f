"""A journal of the results measured so far, so that an interrupted run can continue.

The first line describes the run. Each other line contains the result of one unit of work. It is written and flushed to
the disk as soon as the unit is done, so that killing the run at any moment loses only the units in progress. A line has
a checksum, because a digit that was damaged on the disk would be another result.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from graphfaith._base.checksum import checksum_of
from graphfaith._base.errors import DataError, InputError, OutputError
from graphfaith._base.expansion import JSON_GROWTH, check_declared

try:
    import fcntl
except ImportError:  # This system has no file locks, so two runs could write to the same folder.
    fcntl = None  # type: ignore[assignment]


class Journal:
    """The results of the units of an experiment, in a file to which lines are appended.

    The constructor creates the file if it does not exist, and locks it against other runs. :meth:`load` reads it or
    empties it.

    Args:
        path: the file.
        header: the settings that the results depend on; a file with another header is not continued.
    """

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.path, self.header = path, json.loads(json.dumps(header))
        self.results: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        try:
            # Without a buffer, a failed write is not tried again when the file is closed.
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise OutputError(f"cannot write '{path}': {error.strerror or error}") from error
        try:
            self._lock()
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"another run is using '{self.path}': wait until it ends, or choose another --out"
            ) from None

    def _read(self) -> bytes:
        size = os.fstat(self._file.fileno()).st_size
        try:
            check_declared(size, JSON_GROWTH)
        except DataError as error:
            raise DataError(f"cannot read '{self.path}': {error}") from error
        return self._file.read(size)

    def load(self, *, restart: bool = False) -> Journal:
        """Read the results in the file, or delete them if ``restart`` is set."""
        if restart:
            self._file.truncate(0)
        self._file.seek(0)
        content = self._read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):  # The last line was being written when the run was killed.
            self._file.truncate(len(whole))
        lines = whole.splitlines()
        if not lines:
            self._write(self.header)
        for number, line in enumerate(lines, start=1):
            try:
                entry = json.loads(line)
                if number > 1:
                    if entry.pop("checksum") != checksum_of(json.dumps(entry)):
                        raise ValueError("the checksum is wrong")
                    self.results[entry["key"]], self.seconds[entry["key"]] = entry["found"], float(entry["seconds"])
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise DataError(
                    f"line {number} of '{self.path}' is damaged: delete this line, or measure everything again with "
                    "--restart"
                ) from None
            if number == 1 and entry != self.header:
                raise InputError(_describe_mismatch(self.path, entry, self.header))
        return self

    def add(self, key: str, result: Any, seconds: float) -> None:
        """Write the result of a unit and the seconds it took."""
        entry = {"key": key, "seconds": round(seconds, 3), "found": result}
        self._write({**entry, "checksum": checksum_of(json.dumps(entry))})
        self.results[key], self.seconds[key] = result, seconds

    def _write(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, allow_nan=False).encode() + b"\n"
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputError(f"cannot write '{self.path}': {error.strerror or error}") from error

    def close(self) -> None:
        """Close the file, so that another run can use it."""
        self._file.close()

    def __enter__(self) -> Journal:
        """Return the journal, which is closed at the end of the with statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the journal."""
        self.close()


def _describe_mismatch(path: Path, header: Any, wanted: dict[str, Any]) -> str:
    known = header if isinstance(header, dict) else {}
    different = [key for key in wanted if known.get(key) != wanted[key]]
    settings = ", ".join(f"{key} {known.get(key, 'unknown')} instead of {wanted[key]}" for key in different)
    return (
        f"'{path}' was begun with other settings ({settings}): choose another --out, or measure everything again with "
        "--restart"
    )
