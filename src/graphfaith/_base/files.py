"""Files: say early that one cannot be written or read, and never leave half of one where a whole one was."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterable
from pathlib import Path

from .errors import DataError, InputError, OutputError


def check_output(path: str | os.PathLike[str], suffixes: Collection[str]) -> Path:
    """The file that `path` leads to, if a file with one of these suffixes can be written there."""
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise InputError(f"cannot tell the format from '{target.name}': end the name in {' or '.join(suffixes)}")
    target = Path(os.path.realpath(target))  # replacing a link would leave the file it leads to as it was
    if target.is_dir():
        raise OutputError(f"cannot write '{path}': it is a folder")
    if not target.parent.is_dir():
        raise OutputError(f"cannot write '{path}': the folder '{target.parent}' does not exist")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write '{path}': no permission to write in '{target.parent}'")
    if target.exists() and not os.access(target, os.W_OK):
        raise OutputError(f"cannot write '{path}': the file there is write-protected")
    return target


def write_file(target: Path, content: bytes) -> None:
    """Write beside the target, then rename: readers see the old file or the new one, whatever happens between."""
    write_parts(target, (content,))


def write_parts(target: Path, parts: Iterable[bytes]) -> None:
    """Write a file that is too large to be held whole, part after part, as `write_file` does."""
    draft = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}.tmp")
    try:
        with draft.open("wb") as file:
            for part in parts:
                file.write(part)
        os.replace(draft, target)
    except OSError as error:
        raise OutputError(f"cannot write '{target}': {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


def read_file(path: str | os.PathLike[str], doing: str) -> bytes:
    """All of a file; ``doing`` opens the message if it cannot be had, as in "cannot load"."""
    source = Path(path)
    if not source.is_file():
        found = "it is a folder" if source.is_dir() else "it is no file" if source.exists() else "there is no such file"
        raise DataError(f"{doing} '{path}': {found}")
    try:
        return source.read_bytes()
    except OSError as error:
        raise DataError(f"{doing} '{path}': {error.strerror or error}") from error
