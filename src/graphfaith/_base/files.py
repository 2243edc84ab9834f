"""Reading and writing of files, with early errors and without half-written results.

An unusable path is reported before any long computation, and an interrupted write never damages an existing file.
Whatever is written goes through :func:`write_parts`.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from .errors import DataError, GraphfaithError, InputError, OutputError
from .expansion import check_declared

_ACCESS_LIST = "system.posix_acl_access"  # the attribute in which Linux keeps the permissions of further users


def check_output(path: str | os.PathLike[str], suffixes: Collection[str]) -> Path:
    """Return `path`, after checking that the file it refers to can be written.

    The name must end in one of `suffixes`; otherwise an :class:`InputError` is raised. Links are not resolved, because
    the file that a link leads to may have a name without a suffix.
    """
    named = Path(path)
    if named.suffix.lower() not in suffixes:
        raise InputError(f"cannot tell the format from '{named.name}': end the name in {' or '.join(suffixes)}")
    check_writable(named)
    return named


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Return the file that `path` refers to, with links resolved, after checking that it can be written.

    A device, a FIFO or a socket is refused: a file would be renamed over it, and it would be gone.
    """
    try:
        # Links are resolved because `write_parts` renames a file over the target: a link itself would be replaced, and
        # the file that it points to would keep its old content.
        target = Path(os.path.realpath(path))
        # Only a pipe that a shell has made leads nowhere and is there: /dev/stdout may be a link to one.
        state = os.stat(path) if os.path.exists(path) and not os.path.lexists(target) else None
        if state is None:
            _check_parent(target, path)
            state = _state_of(target)
    except (OSError, ValueError) as error:  # A name with a zero byte is a ValueError.
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"cannot write '{path}': {getattr(error, 'strerror', None) or error}") from error
    if state is None:
        return target
    if stat.S_ISDIR(state.st_mode):
        raise OutputError(f"cannot write '{path}': it is a folder")
    if not stat.S_ISREG(state.st_mode):
        raise OutputError(f"cannot write '{path}': it is {_kind_of(state.st_mode)}, not a regular file")
    if not os.access(target, os.W_OK):
        raise OutputError(f"cannot write '{path}': the file there is write-protected")
    if _is_kept_by_owner(target, state):
        raise OutputError(f"cannot write '{path}': it belongs to another user, and only its owner may replace it there")
    return target


def _check_parent(target: Path, path: str | os.PathLike[str]) -> None:
    """Check that a file of the name of ``target`` can be made in its folder."""
    parent = target.parent
    if not parent.is_dir():
        raise OutputError(f"cannot write '{path}': the folder '{parent}' does not exist")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write '{path}': no permission to write in '{parent}'")
    most = os.pathconf(parent, "PC_NAME_MAX") if hasattr(os, "pathconf") else 255
    length = len(os.fsencode(target.name))
    if 0 < most < length:
        raise OutputError(f"cannot write '{path}': its name has {length} bytes, and {most} are possible there")


def _state_of(target: Path) -> os.stat_result | None:
    try:
        return target.lstat()
    except FileNotFoundError:
        return None


def _kind_of(mode: int) -> str:
    kinds = ((stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"), (stat.S_ISLNK, "a link that leads to itself"))
    return next((name for test, name in kinds if test(mode)), "a device")


def _is_kept_by_owner(target: Path, state: os.stat_result) -> bool:
    """Return whether the folder, as /tmp does, lets nobody but a file's owner replace the file."""
    folder = target.parent.stat()
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    return bool(folder.st_mode & stat.S_ISVTX) and user not in (0, state.st_uid, folder.st_uid)


def write_file(target: str | os.PathLike[str], content: bytes) -> None:
    """Write `content` to `target` atomically: a reader sees either the old file or the complete new one."""
    write_parts(target, (content,))


def write_parts(target: str | os.PathLike[str], parts: Iterable[bytes], drafts: Path | None = None) -> None:
    """Write `parts` to `target` one after another, for files that are too large to be held in memory.

    The parts go to a temporary file in the same folder, or in `drafts`, a folder on the same file system. It is flushed
    to the disk and then renamed to `target`. A file that is replaced passes its owner and its permissions on; a new one
    has those that the user's umask gives.
    """
    path = check_writable(target)
    # The temporary name does not contain the other one, which may be as long as a name can be.
    draft = (path.parent if drafts is None else drafts) / f".graphfaith-{secrets.token_hex(8)}.tmp"
    try:
        before = _state_of(path)
        # Until it has the permissions of the old file, nobody else may read the new one.
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600)
        with open(handle, "wb") as file:
            if before is not None:
                _pass_on_permissions(before, path, file.fileno())
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OutputError(f"cannot write '{target}': {error.strerror or error}") from error
        raise
    try:
        os.replace(draft, path)
        flush_folder(path.parent)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # It would fill the disk for nothing.
            draft.unlink(missing_ok=True)
        # Something else may have taken the name meanwhile. The result is whole, so it is kept.
        kept = f"; the result is in '{draft}'" if draft.exists() else ""
        raise OutputError(f"cannot write '{target}': {error.strerror or error}{kept}") from error


def _pass_on_permissions(before: os.stat_result, path: Path, handle: int) -> None:
    """Give the new file the owner, the mode and the access list of the one that it replaces."""
    if not hasattr(os, "fchown"):
        return
    for owner in ({"uid": before.st_uid, "gid": -1}, {"uid": -1, "gid": before.st_gid}):
        with suppress(PermissionError):  # Only root may give a file away.
            os.fchown(handle, **owner)
    os.fchmod(handle, stat.S_IMODE(before.st_mode))
    if hasattr(os, "getxattr"):
        # With an access list, the mode's bits for the group are the most that anyone in the list may do. Without the
        # list they would be given to the group.
        with suppress(OSError):  # Most files have none.
            os.setxattr(handle, _ACCESS_LIST, os.getxattr(path, _ACCESS_LIST))


def flush_folder(folder: Path) -> None:
    """Flush the new name to the disk too, where the system can do that."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with suppress(PermissionError):  # A folder that may be written in, but not listed, cannot be opened.
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno != errno.EINVAL:  # Some file systems do not flush folders.
                raise
        finally:
            os.close(handle)


def make_folder(folder: Path) -> None:
    """Make the folder for results, if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot make the folder '{folder}': {getattr(error, 'strerror', None) or error}") from error


def read_file(path: str | os.PathLike[str], doing: str, growth: int = 1) -> bytes:
    """Return the content of a file; an error message begins with ``doing``, for example "cannot load".

    A file whose content would take more than half of the machine's memory, as a file with holes may, is refused before
    it is read. What is made of the content takes ``growth`` times its size.
    """
    source = Path(path)
    try:
        if source.is_file():
            with source.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                check_declared(size, growth)
                return file.read(size)
        if source.is_dir():
            reason = "it is a folder"
        else:
            reason = "it is not a regular file" if source.exists() else "there is no such file"
    except GraphfaithError as error:
        raise DataError(f"{doing} '{path}': {error}") from error
    except OSError as error:
        raise DataError(f"{doing} '{path}': {error.strerror or error}") from error
    raise DataError(f"{doing} '{path}': {reason}")
