"""What has been measured so far, a line a unit of work: whoever is interrupted goes on where it was.

A line is written when its unit is done and flushed to the disk, so that a kill at any moment loses the units in work
and nothing else. The first line says what the others belong to.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from graphfaith._base.errors import DataError, InputError, OutputError

try:
    import fcntl
except ImportError:  # not on this system: then nobody stops two runs from writing to one folder
    fcntl = None  # type: ignore[assignment]


class Journal:
    """The results of an experiment by unit, in a file that grows.

    To open one makes the file, if there is none, and keeps other runs from it; it is read, or begun anew, by
    :meth:`load`.

    Args:
        path: the file.
        header: what the results depend on; a file that begins with another one is not continued.
    """

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.path, self.header = path, json.loads(json.dumps(header))
        self.found: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        try:
            self._file = path.open("a+b", buffering=0)  # what cannot be written must not be tried again when it closes
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
            raise InputError(f"another run is at work on '{self.path}': wait for it, or choose another --out") from None

    def load(self, *, restart: bool = False) -> Journal:
        """Take what is there, or, to ``restart``, throw it away."""
        if restart:
            self._file.truncate(0)
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):  # the line that was being written when the run was stopped
            self._file.truncate(len(whole))
        lines = whole.splitlines()
        if not lines:
            self._write(self.header)
        for number, line in enumerate(lines, start=1):
            try:
                entry = json.loads(line)
                if number > 1:
                    self.found[entry["key"]], self.seconds[entry["key"]] = entry["found"], float(entry["seconds"])
            except (ValueError, TypeError, KeyError):
                raise DataError(
                    f"line {number} of '{self.path}' is damaged: take it out, or measure all anew with --restart"
                ) from None
            if number == 1 and entry != self.header:
                raise InputError(_mismatch(self.path, entry, self.header))
        return self

    def add(self, key: str, found: Any, seconds: float) -> None:
        """Keep the result of a unit, and how long it took."""
        self._write({"key": key, "seconds": round(seconds, 3), "found": found})
        self.found[key], self.seconds[key] = found, seconds

    def _write(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, allow_nan=False).encode() + b"\n"
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputError(f"cannot write '{self.path}': {error.strerror or error}") from error

    def close(self) -> None:
        """Let another run have the file."""
        self._file.close()

    def __enter__(self) -> Journal:
        """Use it in a with statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


def _mismatch(path: Path, found: Any, wanted: dict[str, Any]) -> str:
    known = found if isinstance(found, dict) else {}
    other = [key for key in wanted if known.get(key) != wanted[key]]
    was = ", ".join(f"{key} {known.get(key, 'unknown')} instead of {wanted[key]}" for key in other)
    return f"'{path}' was begun otherwise ({was}): choose another --out, or measure all anew with --restart"
