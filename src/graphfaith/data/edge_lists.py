"""Large graphs from files that are read piece by piece: arrays in a folder, and lists of edges in Parquet."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._base.errors import DataError, GraphfaithError, InputError
from ..graph.packing import ArrayEdges, Edges, Piece, check_left_out

COLUMNS = ("source", "target", "weight")


def open_array(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the array in a ``.npy`` file, mapped into memory; a file of Python objects is refused."""
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise DataError(f"cannot read '{path}': {error.strerror or 'it is not a .npy file'}") from error
    except (ValueError, EOFError) as error:
        raise DataError(f"cannot read '{path}': it is not a .npy file of numbers, or it is damaged") from error
    if not isinstance(found, np.ndarray):
        raise DataError(f"cannot read '{path}': it is not a .npy file")
    return found


def open_arrays(
    folder: str | os.PathLike[str], leave_out: Collection[str] = ()
) -> tuple[NDArray[Any], Edges, NDArray[Any] | None]:
    """Return X, the edges and y of a folder with ``x.npy`` [N, d] and ``edge_index.npy`` [2, E], mapped into memory.

    ``edge_weight.npy`` [E] and ``y.npy`` [N, ...] are read if they are there. Instead of ``edge_index.npy`` and
    ``edge_weight.npy`` there may be ``edges.parquet``; see :class:`ParquetEdges`. Another ``.npy`` file is an error
    unless ``leave_out`` names it: a model may read what it holds.
    """
    place = Path(folder)
    if not place.is_dir():
        raise DataError(f"cannot read the graph '{folder}': there is no such folder")
    check_left_out(sorted(path.stem for path in place.glob("*.npy")), leave_out)
    x, y = open_array(place / "x.npy"), place / "y.npy"
    table, index, weight = (place / name for name in ("edges.parquet", "edge_index.npy", "edge_weight.npy"))
    if table.exists() == index.exists():
        both = "both" if index.exists() else "neither"
        raise DataError(f"cannot read the graph '{folder}': it has {both} of edge_index.npy and edges.parquet")
    edges: Edges
    if table.exists():
        edges = ParquetEdges.of(table, leave_out)
    else:
        edges = ArrayEdges(open_array(index), open_array(weight) if weight.exists() else None)
    return x, edges, open_array(y) if y.exists() else None


@dataclass(frozen=True)
class ParquetEdges:
    """The edges in the rows of a Parquet file with the columns source, target and, if edges have weights, weight."""

    path: Path
    num_edges: int
    weight_type: np.dtype[Any] | None

    @classmethod
    def of(cls, path: str | os.PathLike[str], leave_out: Collection[str] = ()) -> ParquetEdges:
        """Open a file, of which the header is read. Another column is an error unless ``leave_out`` names it."""
        place = Path(path)
        if not place.is_file():
            raise DataError(f"cannot read the edges '{path}': there is no such file")
        parquet = _parquet()
        try:
            with parquet.ParquetFile(place) as file:
                schema, count = file.schema_arrow, file.metadata.num_rows
        except Exception as error:  # pyarrow raises its own types
            raise DataError(f"cannot read the edges '{path}': {error}") from error
        missing = [name for name in COLUMNS[:2] if name not in schema.names]
        if missing:
            has = ", ".join(schema.names)
            raise DataError(f"cannot read the edges '{path}': it has no column {missing[0]!r} (it has {has})")
        check_left_out((name for name in schema.names if name not in COLUMNS), leave_out)
        for name in COLUMNS[:2]:
            if not str(schema.field(name).type).startswith(("int", "uint")):
                kind = schema.field(name).type
                raise InputError(f"column {name!r} of '{path}' must hold whole numbers, the ids of nodes (got {kind})")
        weight = np.dtype(schema.field("weight").type.to_pandas_dtype()) if "weight" in schema.names else None
        return cls(place, count, weight)

    def pieces(self, size: int) -> Iterator[Piece]:
        """Yield the edges, at most ``size`` at a time."""
        names = list(COLUMNS if self.weight_type is not None else COLUMNS[:2])
        try:
            with _parquet().ParquetFile(self.path, memory_map=True) as file:
                for batch in file.iter_batches(batch_size=size, columns=names):
                    for name in names:
                        if batch.column(name).null_count:
                            raise InputError(f"column {name!r} of '{self.path}' has rows without a value")
                    source, target, *weight = (batch.column(name).to_numpy(zero_copy_only=False) for name in names)
                    yield source, target, weight[0] if weight else None
        except GraphfaithError:
            raise
        except Exception as error:  # pyarrow raises its own types
            raise DataError(f"cannot read the edges '{self.path}': {error}") from error


def _parquet() -> Any:
    try:
        return import_module("pyarrow.parquet")
    except ImportError:
        raise InputError("edges in Parquet need pyarrow: pip install pyarrow") from None
