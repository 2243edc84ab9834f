"""Writing a graph to a folder of files, in memory that does not depend on its size; see :mod:`graphfaith.graph.packed`.

Edges come in pieces. They are sorted by their sink, and again by their source, by dividing the nodes into ranges, a
file of edges for each, until the edges of a range fit in memory. All files are written from the beginning to the end,
so that their digests are made on the way. The folder has a temporary name until it is complete.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base.errors import GraphfaithError, InputError, OutputError, show
from .._base.files import flush_folder, make_folder
from .._base.memory import parse_memory
from .._base.version import __version__
from .graph import check_edge_index, check_matrix, check_range, check_weights, finite_ends
from .packed import FORMAT, HEADER, PackedGraph

Array = NDArray[Any]
Piece = tuple[Array, Array, Array | None]  # sources and targets of some edges, and their weights

PACKED = ("x", "edge_index", "edge_weight", "y")
_NO_INPUTS = ("edge_label", "edge_label_index", "n_id", "e_id")  # and masks
_MEMORY = "500 MB"
_LEAST = 2**24  # bytes; a limit on memory has to leave room for buffers
_PAGE, _BEFORE_HEADER = 4096, 10  # bytes of a page, and of what precedes the header of a .npy file: magic and length
_WAYS = 256  # files that edges are divided into at a time
_BYTES = 160  # memory for each edge of those that are sorted at a time


class Edges(Protocol):
    """The edges of a graph, which come in pieces, in the order of ``edge_index``."""

    @property
    def num_edges(self) -> int:
        """The number of edges."""

    @property
    def weight_type(self) -> np.dtype[Any] | None:
        """The type of the weights; None if there are none."""

    def pieces(self, size: int) -> Iterator[Piece]:
        """Yield the edges, at most about ``size`` at a time."""


@dataclass(frozen=True)
class ArrayEdges:
    """The edges in arrays, which may be mapped files."""

    edge_index: Array  # [2, E]
    edge_weight: Array | None = None

    def __post_init__(self) -> None:
        """Check the shapes and types, which takes no time."""
        index, weight = self.edge_index, self.edge_weight
        if index.ndim != 2 or len(index) != 2:
            raise InputError(f"edge_index must have shape [2, edges] (got {list(index.shape)})")
        if index.dtype.kind not in "iu":
            raise InputError(f"edge_index must hold whole numbers, the ids of nodes (got {index.dtype})")
        if weight is not None and weight.shape != index.shape[1:]:
            raise InputError(
                f"edge_weight must have one number for each of the {self.num_edges} edges (got shape "
                f"{list(weight.shape)})"
            )

    @property
    def num_edges(self) -> int:
        """The number of edges."""
        return int(self.edge_index.shape[1])

    @property
    def weight_type(self) -> np.dtype[Any] | None:
        """The type of the weights."""
        return None if self.edge_weight is None else self.edge_weight.dtype

    def pieces(self, size: int) -> Iterator[Piece]:
        """Yield the edges, at most ``size`` at a time."""
        for first in range(0, self.num_edges, size):
            some = slice(first, first + size)
            weight = None if self.edge_weight is None else self.edge_weight[some]
            yield self.edge_index[0, some], self.edge_index[1, some], weight


def pack_graph(
    data: Any,
    folder: str | os.PathLike[str],
    *,
    flow: str = "source_to_target",
    max_memory: int | str = _MEMORY,
    leave_out: Collection[str] = (),
) -> PackedGraph:
    """Write a graph to a new folder, from which it is read where it is needed, and open it.

    ``data`` is PyG's ``Data``, or a dictionary of tensors or arrays: ``x`` [N, d], ``edge_index`` [2, E], and, if there
    are such, ``edge_weight`` [E] and ``y`` [N, ...]. Arrays may be mapped files (``np.load(..., mmap_mode="r")``). The
    graph is checked on the way as every graph is. ``flow`` is that of the model's layers, in PyG's terms.
    ``max_memory`` is for what is held beside ``data``.

    Any other tensor that a model may read, such as ``edge_attr`` or ``pos``, has no place in the folder, and without it
    F would be another function: it is refused, unless ``leave_out`` names it ("all" stands for every one). Labels of
    edges and masks (``train_mask``) are no inputs of a model and are left out by themselves.

    >>> import tempfile, graphfaith as gf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ring = {"x": torch.rand(3, 2), "edge_index": torch.tensor([[0, 1, 2], [1, 2, 0]])}
    ...     gf.pack_graph(ring, f"{folder}/ring"), gf.open_graph(f"{folder}/ring").num_edges
    (PackedGraph(3 nodes, 3 edges, 2 features), 3)
    """
    x, edge_index, weight, y = (
        data.get(name) if isinstance(data, Mapping) else getattr(data, name, None) for name in PACKED
    )
    given = data if isinstance(data, Mapping) else data.to_dict() if hasattr(data, "to_dict") else vars(data)
    check_left_out((name for name, value in given.items() if _is_input(value)), leave_out)
    for name, value in (("x", x), ("edge_index", edge_index)):
        if value is None:
            raise InputError(f"the graph to pack has no {name}")
    if isinstance(x, Tensor):
        check_matrix(x)
    if isinstance(edge_index, Tensor):
        check_edge_index(edge_index)
    edges = ArrayEdges(_array(edge_index, "edge_index"), None if weight is None else _array(weight, "edge_weight"))
    return write_graph(
        folder, _array(x, "x"), edges, None if y is None else _array(y, "y"), flow=flow, max_memory=max_memory
    )


def check_left_out(names: Iterable[str], leave_out: Collection[str]) -> None:
    """Raise an :class:`InputError` if something of a graph would be lost that a model may read."""
    if isinstance(leave_out, str):
        raise InputError(f"leave_out must be a list of names, such as ['edge_attr'] (got {show(leave_out)})")
    lost = [name for name in names if name not in (*PACKED, *_NO_INPUTS) and not name.endswith("_mask")]
    kept = [name for name in lost if name not in leave_out] if "all" not in leave_out else []
    if kept:
        raise InputError(
            f"the graph has {', '.join(map(show, kept))}, which cannot be packed: a model that reads it would be given "
            f"none and be another function. If yours does not, leave it out (leave_out={show(kept)} or --leave-out)"
        )


def _is_input(value: Any) -> bool:
    """Return whether a model may read a value as a tensor: scalars, texts and lists of names are none."""
    return getattr(value, "ndim", 0) > 0 or type(value).__name__ == "SparseTensor"


def write_graph(
    folder: str | os.PathLike[str],
    x: Array,
    edges: Edges,
    y: Array | None = None,
    *,
    flow: str = "source_to_target",
    max_memory: int | str = _MEMORY,
) -> PackedGraph:
    """Write the graph of features and edges to a new folder, as :func:`pack_graph` does, and open it."""
    target, memory = Path(folder), parse_memory(max_memory) or 0
    if memory < _LEAST:
        raise InputError(f"packing a graph takes at least {_LEAST >> 20} MiB (got max_memory={max_memory!r})")
    if flow not in ("source_to_target", "target_to_source"):
        raise InputError(f"flow must be source_to_target or target_to_source (got {flow!r})")
    _check_types(x, edges, y)
    _check_new(target)
    make_folder(target.absolute().parent)
    draft = target.absolute().with_name(f".graphfaith-{secrets.token_hex(8)}.tmp")
    try:
        draft.mkdir()
        _Packing(draft, x, edges, y, flow, memory).write()
        _check_new(target)
        os.rename(draft, target)
        flush_folder(target.absolute().parent)
    except GraphfaithError:  # It says what is wrong, with what was read as well, and some are OSErrors, too.
        raise
    except OSError as error:
        raise OutputError(f"cannot write the graph '{folder}': {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return PackedGraph(target)


def _array(value: Any, name: str) -> Array:
    if isinstance(value, Tensor):
        try:
            found: Array = value.detach().cpu().numpy()
        except TypeError:
            raise InputError(
                f"{name} has a type that numpy does not know ({value.dtype}): pass {name}.float()"
            ) from None
        return found
    if not isinstance(value, np.ndarray):
        raise InputError(f"{name} must be a tensor or an array (got {type(value).__name__})")
    return value


def _check_types(x: Array, edges: Edges, y: Array | None) -> None:
    """Check what can be seen before anything is read: the kinds of numbers, and how many there are."""
    check_matrix(_like(x, "x"))
    if edges.weight_type is not None and edges.weight_type.str[1:] not in ("f2", "f4", "f8"):
        raise InputError(f"edge_weight must hold real numbers in float16, float32 or float64 (got {edges.weight_type})")
    if y is not None and y.shape[:1] != (len(x),):
        raise InputError(f"y must have a row for each of the {len(x)} nodes (got shape {list(y.shape)})")
    if y is not None and y.dtype.kind not in "biuf":
        raise InputError(f"y must hold numbers (got {y.dtype})")


def _like(array: Array, name: str) -> Tensor:
    """Return a tensor of the shape and type of an array that takes no memory."""
    if not array.dtype.isnative:
        raise InputError(f"{name} must hold numbers in the byte order of this machine (got {array.dtype})")
    try:
        dtype = torch.from_numpy(np.empty(0, dtype=array.dtype)).dtype
    except TypeError:
        raise InputError(f"{name} must hold real numbers (got {array.dtype})") from None
    return torch.empty(array.shape, dtype=dtype, device="meta")


def _check_new(folder: Path) -> None:
    if os.path.lexists(folder):
        raise OutputError(f"cannot write the graph '{folder}': there is something of that name; choose another one")


class _File:
    """An array that is written to a file from the beginning to the end, with its digest."""

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.dtype, self.shape, self._left = np.dtype(dtype), shape, math.prod(shape)
        self._file: BinaryIO = open(path, "wb")  # noqa: SIM115  # it is closed by finish
        self._digest = hashlib.sha256()
        header = _header(self.dtype, shape)
        self._digest.update(header)
        self._file.write(header)

    def write(self, numbers: Array) -> None:
        """Write the next numbers."""
        content = np.ascontiguousarray(numbers, dtype=self.dtype)
        self._left -= content.size
        data = content.reshape(-1).view(np.uint8).data if content.size else b""
        self._digest.update(data)
        self._file.write(data)

    def close(self) -> None:
        """Close the file, whether it is complete or not."""
        self._file.close()

    def finish(self) -> dict[str, Any]:
        """Flush the file to the disk, and return what the header of the graph says of it."""
        assert self._left == 0, "an array has another size than was announced"
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self.close()
        digest = self._digest.hexdigest()
        return {"dtype": self.dtype.str, "shape": list(self.shape), "bytes": size, "sha256": digest}


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the header of a ``.npy`` file, filled up to a page: rows that divide a page do not cross one."""
    plain = io.BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(plain, about)
    text = plain.getvalue()[_BEFORE_HEADER:].rstrip()
    text += b" " * (_PAGE - _BEFORE_HEADER - len(text) - 1) + b"\n"
    return plain.getvalue()[: _BEFORE_HEADER - 2] + len(text).to_bytes(2, "little") + text


class _Packing:
    """The graph that is being written to a folder."""

    def __init__(self, folder: Path, x: Array, edges: Edges, y: Array | None, flow: str, memory: int) -> None:
        self._folder, self._x, self._edges, self._y, self._flow, self._memory = folder, x, edges, y, flow, memory
        self._num_nodes, self._num_edges = len(x), edges.num_edges
        self._node = np.dtype(np.int32 if self._num_nodes < 1 << 31 else np.int64)
        self._slot = np.dtype(np.int32 if self._num_edges < 1 << 31 else np.int64)
        self._most = max(1024, memory // _BYTES)  # edges that are sorted at a time
        self._files: dict[str, dict[str, Any]] = {}
        self._pair = np.promote_types(self._node, self._slot)
        self._record = np.dtype(
            [("key", self._node), ("edge", self._pair, 2)]
            + ([] if edges.weight_type is None else [("weight", edges.weight_type)])
        )

    def write(self) -> None:
        """Write all files, the header last."""
        lowest, highest = self._write_features()
        num_loops = self._write_edges()
        self._write_out_edges(self._num_edges - num_loops)
        if self._y is not None:
            with self._open("y", self._y.dtype, *self._y.shape) as file:
                rows = max(1, self._memory // 8 // max(1, self._y[:1].nbytes))
                for first in range(0, self._num_nodes, rows):
                    file.write(self._y[first : first + rows])
        about = {
            "format": FORMAT,
            "made_by": f"graphfaith {__version__}",
            "num_nodes": self._num_nodes,
            "num_edges": self._num_edges,
            "num_loops": num_loops,
            "num_features": int(self._x.shape[1]),
            "flow": self._flow,
            "lowest": lowest,
            "highest": highest,
            "files": self._files,
        }
        with open(self._folder / HEADER, "w", encoding="utf-8") as header:
            json.dump(about, header, indent=1)
            header.write("\n")
            header.flush()
            os.fsync(header.fileno())

    def _open(self, name: str, dtype: np.dtype[Any], *shape: int) -> _Written:
        return _Written(self._folder, name, _File(self._folder / f"{name}.npy", dtype, shape), self._files)

    def _write_features(self) -> tuple[float, float]:
        """Copy X, and return its smallest and its largest number, after checking that all are finite."""
        x, lowest, highest = self._x, math.inf, -math.inf
        rows = max(1, self._memory // 8 // x[:1].nbytes)
        with self._open("x", x.dtype, *x.shape) as file:
            for first in range(0, len(x), rows):
                some = np.array(x[first : first + rows])  # a copy, because a mapped file cannot be written to
                least, most = finite_ends(torch.from_numpy(some), "x", first)
                lowest, highest = min(lowest, least), max(highest, most)
                file.write(some)
        return lowest, highest

    def _write_edges(self) -> int:
        """Write the edges sorted by their sink, self-loops last, and return how many loops there are."""
        num_edges, weight_type = self._num_edges, self._edges.weight_type
        with ExitStack() as stack:
            scratch = stack.enter_context(_Scratch(self._folder))
            loops = _Spill(scratch.path("loops"), self._record)
            stack.callback(loops.close)
            files = {
                "edge": stack.enter_context(self._open("edge", self._pair, num_edges, 2)),
                "key": stack.enter_context(self._open("sink", self._node, num_edges)),
            }
            if weight_type is not None:
                files["weight"] = stack.enter_context(self._open("weight", weight_type, num_edges))
            start = stack.enter_context(self._open("start", self._slot, self._num_nodes + 1))
            starts = _Starts(start, self._num_nodes)
            for piece in self._sort(self._plain_edges(loops), num_edges, scratch):
                starts.add(piece["key"])
                for name, file in files.items():
                    file.write(piece[name])
            starts.finish()
            count = loops.finish()
            if count:
                slots = stack.enter_context(self._open("loop", self._slot, self._num_nodes))
                self._write_loops(self._sort(loops.pieces(self._most), count, scratch), files, slots, count)
        return count

    def _plain_edges(self, loops: _Spill) -> Iterator[Array]:
        """Yield the edges that are no self-loops, checked, and put self-loops aside."""
        place, (source, sink) = 0, (0, 1) if self._flow == "source_to_target" else (1, 0)
        for *ends, weight in self._edges.pieces(max(1, self._most // 2)):
            least, most = (int(find([find(end) for end in ends])) for find in (np.min, np.max))
            check_range(least, most, self._num_nodes)
            found = np.empty(len(ends[0]), dtype=self._record)
            found["edge"][:, 0], found["key"] = ends[source], ends[sink]
            found["edge"][:, 1] = np.arange(place, place + len(found))
            if weight is not None:
                check_weights(torch.from_numpy(np.array(weight)), place)
                found["weight"] = weight
            place += len(found)
            is_loop = found["edge"][:, 0] == found["key"]
            if is_loop.any():
                loops.add(found[is_loop])
                found = found[~is_loop]
            yield found
        if place != self._num_edges:
            raise InputError(f"there are {place} edges, not the {self._num_edges} that were announced")

    def _write_loops(self, loops: Iterable[Array], files: Mapping[str, _Written], slots: _Written, count: int) -> None:
        """Write the self-loops after all other edges, and for each node the slot of its own, or -1."""
        slot, node = self._num_edges - count, 0
        for piece in loops:
            keys = piece["key"].astype(np.int64)
            again = np.flatnonzero(keys[1:] == keys[:-1])
            if len(again) or (len(keys) and keys[0] < node):
                wrong = int(keys[again[0]]) if len(again) else int(keys[0])
                raise InputError(
                    f"node {wrong} has several self-loops, but A has one entry for it; merge them first "
                    "(torch_geometric.utils.coalesce)"
                )
            for name, file in files.items():
                file.write(piece[name])
            for first, last in _ranges(node, int(keys[-1]) + 1, self._most):
                own = np.full(last - first, -1, dtype=np.int64)
                here = slice(*np.searchsorted(keys, (first, last)).tolist())
                own[keys[here] - first] = slot + np.arange(here.start, here.stop)
                slots.write(own)
            slot, node = slot + len(keys), int(keys[-1]) + 1
        for first, last in _ranges(node, self._num_nodes, self._most):
            slots.write(np.full(last - first, -1, dtype=np.int64))

    def _write_out_edges(self, count: int) -> None:
        """Write the slots of edges without self-loops, sorted by their source."""
        record = np.dtype([("key", self._node), ("slot", self._slot)])
        with ExitStack() as stack:
            scratch = stack.enter_context(_Scratch(self._folder))
            out = stack.enter_context(self._open("out", self._slot, count))
            start = stack.enter_context(self._open("out_start", self._slot, self._num_nodes + 1))
            starts = _Starts(start, self._num_nodes)

            def edges() -> Iterator[Array]:
                with open(self._folder / "edge.npy", "rb") as file:
                    np.lib.format.read_magic(file)
                    np.lib.format.read_array_header_1_0(file)
                    for first, last in _ranges(0, count, self._most // 2):
                        found = np.empty(last - first, dtype=record)
                        found["key"] = np.fromfile(file, dtype=self._pair, count=2 * (last - first))[::2]
                        found["slot"] = np.arange(first, last)
                        yield found

            for piece in self._sort(edges(), count, scratch):
                starts.add(piece["key"])
                out.write(piece["slot"])
            starts.finish()

    def _sort(self, pieces: Iterable[Array], count: int, scratch: _Scratch) -> Iterator[Array]:
        """Yield records in the order of their keys, those of one key in the order in which they came."""
        return _sort_pieces(pieces, count, range(self._num_nodes), self._most, scratch)


class _Written:
    """A file of the graph while it is open; what is known of it is noted if it is complete."""

    def __init__(self, folder: Path, name: str, file: _File, files: dict[str, dict[str, Any]]) -> None:
        self._folder, self._name, self._file, self._files = folder, name, file, files

    def write(self, numbers: Array) -> None:
        """Write the next numbers."""
        self._file.write(numbers)

    def __enter__(self) -> _Written:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Note the digest, unless something failed."""
        if kind is None:
            self._files[self._name] = self._file.finish()
        else:
            self._file.close()


class _Starts:
    """Where the records of each node begin, from the keys of sorted records that come in pieces."""

    def __init__(self, file: _Written, num_nodes: int) -> None:
        self._file, self._num_nodes, self._node, self._count = file, num_nodes, 0, 0

    def add(self, keys: Array) -> None:
        """Take the keys of the next records."""
        if len(keys):
            self._write(int(keys[-1]) + 1, keys)
            self._count += len(keys)

    def finish(self) -> None:
        """Write what is left: where nothing begins any more."""
        self._write(self._num_nodes + 1, np.empty(0, dtype=np.int64))

    def _write(self, stop: int, keys: Array) -> None:
        for first, last in _ranges(self._node, stop, 1 << 20):
            nodes = np.arange(first, last)
            self._file.write(self._count + np.searchsorted(keys, nodes.astype(keys.dtype)))
        self._node = max(self._node, stop)


class _Scratch:
    """A folder for files that are needed for a while."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder / f"scratch-{secrets.token_hex(4)}", 0

    def path(self, name: str) -> Path:
        """Return the path of a new file."""
        self._count += 1
        return self._folder / f"{name}-{self._count}"

    def __enter__(self) -> _Scratch:
        """Make the folder."""
        self._folder.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self._folder, ignore_errors=True)


class _Spill:
    """Records that are put aside in a file."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self._path, self._dtype, self._count = path, dtype, 0
        self._file: BinaryIO | None = None

    def add(self, records: Array) -> None:
        """Put some records aside."""
        if self._file is None:
            self._file = open(self._path, "wb", buffering=0)  # noqa: SIM115  # it is closed by finish
        self._file.write(np.ascontiguousarray(records).view(np.uint8).data)
        self._count += len(records)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def finish(self) -> int:
        """Close the file, and return how many records there are."""
        self.close()
        return self._count

    def pieces(self, size: int) -> Iterator[Array]:
        """Yield the records in their order, and remove the file."""
        if not self._count:
            return
        with open(self._path, "rb") as file:
            while len(found := np.fromfile(file, dtype=self._dtype, count=size)):
                yield found
        self._path.unlink()


def _sort_pieces(pieces: Iterable[Array], count: int, keys: range, most: int, scratch: _Scratch) -> Iterator[Array]:
    """Yield ``count`` records, or fewer, with these ``keys`` in the order of their keys, stably.

    If there are more than ``most``, they are divided by ranges of keys into files, which are sorted one by one.
    """
    if count <= most:
        found = list(pieces)
        if found:
            records = np.concatenate(found)
            found.clear()
            yield records[np.argsort(records["key"], kind="stable")]
        return
    if len(keys) == 1:  # The records of a hub have their order already.
        yield from pieces
        return
    ways = min(len(keys), _WAYS, 2 * math.ceil(count / most))
    width = math.ceil(len(keys) / ways)
    spills: list[_Spill] = []
    try:
        for records in pieces:
            way = (records["key"] - keys.start) // width
            if not spills:
                spills = [_Spill(scratch.path("part"), records.dtype) for _ in range(ways)]
            order = np.argsort(way, kind="stable")
            cuts = np.searchsorted(way, np.arange(ways + 1), sorter=order)
            records = records[order]
            for spill, first, last in zip(spills, cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
                if last > first:
                    spill.add(records[first:last])
        counts = [spill.finish() for spill in spills]
    finally:
        for spill in spills:
            spill.close()
    for i, (spill, number) in enumerate(zip(spills, counts, strict=True)):
        own = keys[i * width : (i + 1) * width]
        yield from _sort_pieces(spill.pieces(most), number, own, most, scratch)


def _ranges(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ends of ranges of at most ``size`` numbers that make up ``start`` to ``stop``."""
    for first in range(start, stop, size):
        yield first, min(stop, first + size)
