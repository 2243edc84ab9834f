"""The folder of a run: its plan, its parts, and a lock that ends with the process that holds it."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from .._base.errors import DataError, InputError, OutputError
from .._base.files import make_folder, read_file, write_parts
from .nodes import PIECE, Nodes
from .parts import DRAFTS, PARTS, Found, Part
from .plan import Plan

try:
    import fcntl
except ImportError:  # This system has no file locks. Two runs would write the same rows to the same files.
    fcntl = None  # type: ignore[assignment]

PLAN, NODES, DONE, LOCK, ASIDE = "plan.json", "nodes.npy", "done.json", ".lock", "_aside"
_BEGUN = {LOCK, DRAFTS, NODES, PARTS, ASIDE}  # what a run makes before its plan is written


class RunFolder:
    """The folder of one run, locked by :meth:`open` as long as the run works in it."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path, self.plan = path, plan

    @classmethod
    @contextmanager
    def open(cls, path: Path, plan: Plan) -> Iterator[RunFolder]:
        """Begin the run, or continue one that was begun with the same plan; another run has to wait."""
        path = path.resolve()  # Workers may work in another folder.
        folder = cls(path, plan)
        folder._check()
        make_folder(path)
        with _locked(path):
            folder._check()  # Another run may have begun meanwhile, and have ended.
            for made in (path / PARTS, path / DRAFTS):
                make_folder(made)
            folder._begin()
            yield folder

    @classmethod
    def check_free(cls, path: Path) -> None:
        """Raise an error if another run is working in the folder, before anything is found out about the model."""
        if (path / LOCK).exists():
            with _locked(path.resolve()):
                pass

    @classmethod
    def is_done(cls, path: Path, plan: Plan) -> bool:
        """Return whether a folder says that a run with this plan is complete."""
        with suppress(DataError):
            return read_json(path / DONE).get("digest") == plan.digest
        return False

    def _check(self) -> None:
        """Raise an error if the folder has another plan, or files and no plan."""
        if (self.path / PLAN).exists():
            self.plan.check_same(read_json(self.path / PLAN).get("plan"), str(self.path))
            return
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise OutputError(f"cannot write to '{self.path}': it is no folder")
        others = sorted({entry.name for entry in self.path.iterdir()} - _BEGUN)
        parts = self.path / PARTS
        if others or (parts.is_dir() and any(parts.iterdir())):
            named = others[0] if others else PARTS
            raise InputError(
                f"'{self.path}' has other files ({named}) and no {PLAN}: choose an empty or a new folder for the run"
            )

    def _begin(self) -> None:
        """Write the plan, unless it is there; the graph and the model may have been moved since."""
        if (self.path / PLAN).exists():
            known = read_json(self.path / PLAN)
            if known.get("places") != self.plan.places:
                self._write_json(self.path / PLAN, {**known, "places": self.plan.places})
            return
        if self.plan.nodes.list is not None:
            write_parts(self.path / NODES, _npy(self.plan.nodes), self.path / DRAFTS)
        self._write_json(self.path / PLAN, self.plan.as_json())

    def part(self, number: int) -> Part:
        """Return the part of a block."""
        return Part(self.path, self.plan.digest, number, self.plan.size(number))

    def find_done(self) -> tuple[dict[int, Found], list[Path]]:
        """Return the blocks that are done, and the files that are moved aside because they are no part of this run.

        A block is done if its part has a readable footer with the digest of the plan, the number of the block and the
        right number of rows. A file in the place of a part that is not one is moved, not deleted: it may be someone's.
        """
        found: dict[int, Found] = {}
        moved: list[Path] = []
        for entry in sorted((self.path / PARTS).iterdir()):
            number = _number_of(entry.name)
            if number is not None and number < self.plan.num_blocks:
                footer = self.part(number).read_footer()
                if footer is not None:
                    found[number] = footer
                    continue
            # Whoever reads all tables in this folder would read this one too.
            if entry.suffix == ".parquet":
                moved.append(self._move_aside(entry))
        if len(found) < self.plan.num_blocks:
            with suppress(FileNotFoundError):
                (self.path / DONE).unlink()
        return found, moved

    def _move_aside(self, entry: Path) -> Path:
        make_folder(self.path / ASIDE)
        place, number = self.path / ASIDE / entry.name, 1
        while os.path.lexists(place):
            number += 1
            place = self.path / ASIDE / f"{entry.name}.{number}"
        try:
            entry.rename(place)
        except OSError as error:
            raise OutputError(f"cannot move '{entry}' aside: {error.strerror or error}") from error
        return place

    def finish(self, rows: int, failed: int) -> None:
        """Say that the run is complete, after every part is there; drafts of killed processes are of no more use."""
        about = {"digest": self.plan.digest, "blocks": self.plan.num_blocks, "rows": rows, "failed": failed}
        self._write_json(self.path / DONE, about)
        shutil.rmtree(self.path / DRAFTS, ignore_errors=True)

    def _write_json(self, path: Path, value: Any) -> None:
        write_parts(path, ((json.dumps(value, indent=1) + "\n").encode(),), self.path / DRAFTS)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. The system releases it when the process ends, however it ends."""
    if fcntl is None:
        yield
        return
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise OutputError(f"cannot write in '{folder}': {error.strerror or error}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another run is working in '{folder}': wait until it ends, or choose another folder"
            ) from None
        except OSError as error:
            # A network file system may have no locks. Two runs then do the work twice, and write the same rows.
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise OutputError(f"cannot lock '{folder}': {error.strerror or error}") from error
        yield
    finally:
        os.close(handle)


def _npy(nodes: Nodes) -> Iterator[bytes]:
    """Yield a list of nodes as a ``.npy`` file, in pieces: it may be nearly as large as the memory."""
    header = io.BytesIO()
    about = {"descr": "<i8", "fortran_order": False, "shape": (len(nodes),)}
    np.lib.format.write_array_header_1_0(header, about)
    yield header.getvalue()
    for first in range(0, len(nodes), PIECE):
        yield nodes.ids(first, min(len(nodes), first + PIECE)).astype("<i8").tobytes()


def _number_of(name: str) -> int | None:
    """Return the block whose part has this name.

    >>> _number_of("part-00000012.parquet"), _number_of("part-12.parquet"), _number_of("notes.txt")
    (12, None, None)
    """
    digits = name.removeprefix("part-").removesuffix(".parquet")
    number = int(digits) if digits.isdecimal() else None
    return number if number is not None and name == f"part-{number:08}.parquet" else None


def read_json(path: Path) -> dict[str, Any]:
    """Return what a file of a run holds."""
    content = read_file(path, "cannot read")
    try:
        value = json.loads(content)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise DataError(f"'{path}' is damaged: choose another folder for the run")
    return value
