"""Reading and writing of files, with early errors and without half-written results.

An unusable path is reported before any long computation, and an interrupted write never damages an existing file.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterable
from pathlib import Path

from .errors import DataError, GraphfaithError, InputError, OutputError
from .expansion import check_declared


def check_output(path: str | os.PathLike[str], suffixes: Collection[str]) -> Path:
    """Return the file that `path` refers to, with links resolved, after checking that it can be written.

    The name must end in one of `suffixes`; otherwise an :class:`InputError` is raised.
    """
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise InputError(f"cannot tell the format from '{target.name}': end the name in {' or '.join(suffixes)}")
    # Links are resolved because `write_parts` renames a file over the target: a link itself would be replaced, and
    # the file that it points to would keep its old content.
    target = Path(os.path.realpath(target))
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
    """Write `content` to `target` atomically: a reader sees either the old file or the complete new one."""
    write_parts(target, (content,))


def write_parts(target: Path, parts: Iterable[bytes]) -> None:
    """Write `parts` to `target` one after another, for files that are too large to be held in memory.

    The parts go to a temporary file in the same folder, which is then renamed to `target`.
    """
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


def read_file(path: str | os.PathLike[str], doing: str, growth: int = 1) -> bytes:
    """Return the content of a file; an error message begins with ``doing``, for example "cannot load".

    A file whose content would take more than half of the machine's memory, as a file with holes may, is refused before
    it is read. What is made of the content takes ``growth`` times its size.
    """
    source = Path(path)
    if not source.is_file():
        if source.is_dir():
            reason = "it is a folder"
        else:
            reason = "it is not a regular file" if source.exists() else "there is no such file"
        raise DataError(f"{doing} '{path}': {reason}")
    try:
        with source.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            check_declared(size, growth)
            return file.read(size)
    except GraphfaithError as error:
        raise DataError(f"{doing} '{path}': {error}") from error
    except OSError as error:
        raise DataError(f"{doing} '{path}': {error.strerror or error}") from error
