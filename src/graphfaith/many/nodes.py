"""The nodes of a run, in their order: a range, or a list.

A list in ascending order takes its own memory a few times while it is checked, any other one is sorted besides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._base.checks import check_node
from .._base.errors import DataError, InputError, describe_error, show
from .._base.files import read_file
from .._base.selection import parse_nodes
from .extra import import_extra

Ids = npt.NDArray[np.int64]

_WRITTEN = re.compile(r"[\d:,\s-]+")  # a range or a list; anything else is the name of a file
PIECE = 1 << 20  # nodes of a long list that are copied at once
_COLUMN = "node"
_GROWTH = 24  # bytes of memory for a byte of text: a Python string for each line


@dataclass(frozen=True)
class Nodes:
    """Nodes without repetitions: ``range`` or ``list``, of which the other is None."""

    range: range | None = None
    list: Ids | None = None

    def __len__(self) -> int:
        return len(self.range) if self.range is not None else len(self._listed)

    @property
    def _listed(self) -> Ids:
        assert self.list is not None
        return self.list

    def ids(self, first: int, stop: int) -> Ids:
        """Return the nodes at places ``first`` to ``stop`` of the order."""
        if self.range is not None:
            part = self.range[first:stop]
            return np.arange(part.start, part.stop, part.step, dtype=np.int64)
        return np.ascontiguousarray(self._listed[first:stop])


def choose_nodes(nodes: str | os.PathLike[str] | int | Iterable[int], num_nodes: int) -> Nodes:
    """Return the nodes that a user asks for: ids, "all", a text such as 0:1000:50 or 3,5,8, or the name of a file.

    A file has one id a line, or is a ``.npy`` array or a ``.parquet`` table with a column "node" or only one. A node
    that is named twice is explained once, where it is named first.

    >>> choose_nodes("0:10:4", 10).ids(1, 3)
    array([4, 8])
    >>> choose_nodes([5, 3, 5], 10).ids(0, 2)
    array([5, 3])
    """
    if isinstance(nodes, str) and nodes == "all":
        return Nodes(range(num_nodes))
    where = "nodes"
    # A file may have a name such as 2024-01-01, which is written like a list.
    if isinstance(nodes, str) and _WRITTEN.fullmatch(nodes) and not os.path.isfile(nodes):
        chosen: Any = parse_nodes(nodes)
    elif isinstance(nodes, (str, os.PathLike)):
        chosen, where = _read(Path(nodes)), f"'{nodes}'"
    else:
        chosen = nodes
    if isinstance(chosen, range):
        if not chosen:
            raise InputError("there is no node to explain: nodes is empty")
        for node in (chosen[0], chosen[-1]):
            check_node(node, num_nodes)
        return Nodes(_shortest(chosen[0], chosen[-1], chosen.step))
    return _listed(_as_ids(chosen, where), num_nodes, where)


def _shortest(first: int, last: int, step: int) -> range:
    """Return the range from a node to another. The same nodes are the same plan, however they were written."""
    step = 1 if first == last else step
    return range(first, last + (1 if step > 0 else -1), step)


def _as_ids(chosen: Any, where: str) -> Ids:
    if not (isinstance(chosen, Iterable) or np.isscalar(chosen)):
        raise InputError(f"{where} must be whole numbers, one for each node (got {show(chosen)})")
    values = np.atleast_1d(np.asarray(list(chosen) if isinstance(chosen, Iterator) else chosen))
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise InputError(f"{where} must be whole numbers, one for each node (got {values.dtype} of {values.shape})")
    return values.astype(np.int64)


def _listed(ids: Ids, num_nodes: int, where: str) -> Nodes:
    if not len(ids):
        raise InputError(f"there is no node to explain: {where} is empty")
    for node in (int(ids.min()), int(ids.max())):
        check_node(node, num_nodes)
    steps = np.diff(ids)
    step = int(steps[0]) if len(steps) else 1
    if step and bool((steps == step).all()):
        return Nodes(_shortest(int(ids[0]), int(ids[-1]), step))
    if bool((steps > 0).all()):
        return Nodes(list=ids)
    first = np.unique(ids, return_index=True)[1]
    return Nodes(list=ids if len(first) == len(ids) else ids[np.sort(first)])


def _read(path: Path) -> Any:
    """Return the ids in a file."""
    try:
        if path.suffix == ".npy":
            return np.load(path, mmap_mode="r", allow_pickle=False)
        if path.suffix == ".parquet":
            return _column_of(path)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise DataError(f"cannot read the nodes in '{path}': {describe_error(error)}") from error
    if not path.exists():
        raise DataError(
            f"cannot read the nodes in '{path}': there is no such file (nodes are all, start:stop:step, 3,5 or a file)"
        )
    text = read_file(path, "cannot read the nodes in", growth=_GROWTH).decode(errors="replace")
    words = text.split()
    try:
        return np.array(words, dtype=np.int64) if words else np.empty(0, dtype=np.int64)
    except (ValueError, OverflowError):
        wrong = next(word for word in words if not re.fullmatch(r"-?\d{1,18}", word))
        raise InputError(f"'{path}' must have one node a line, as a number (it has {show(wrong)})") from None


def _column_of(path: Path) -> Any:
    parquet = import_extra("pyarrow.parquet")
    names = parquet.read_schema(path).names
    if _COLUMN not in names and len(names) != 1:
        raise InputError(f"'{path}' must have a column '{_COLUMN}', or only one column (it has {', '.join(names)})")
    column = parquet.read_table(path, columns=[_COLUMN if _COLUMN in names else names[0]]).column(0)
    if column.null_count:
        raise InputError(f"'{path}' names no node in {column.null_count} of its rows")
    return column.to_numpy()
