"""A graph that is kept in a folder of files and read where it is needed, so that it may be larger than memory.

The folder is written by :func:`~graphfaith.graph.packing.pack_graph`. Its files are arrays (``.npy``), which are mapped
into memory: processes that read the same graph share its pages, and none holds anything of the size of the graph.

- ``x.npy`` [N, d] the features;
- ``edge.npy`` [E, 2] the sources of the edges, which are sorted by sink, and beside each the column of the user's
  ``edge_index`` that it comes from: draws are keyed by these, so that answers are those of the graph in memory. Both
  are read together, and so are on one page. Self-loops come last;
- ``sink.npy`` [E] their sinks, which a walk against the edges knows without reading them;
- ``start.npy`` [N + 1] where the edges into each node begin;
- ``out.npy`` [E'], ``out_start.npy`` [N + 1] the slots of edges without self-loops, sorted by source;
- ``weight.npy`` [E], ``loop.npy`` [N] (slots of self-loops), ``y.npy`` [N, ...] if there are such;
- ``graph.json`` the counts, the range of the features, the direction of messages, and sizes and digests of the files.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base.errors import DataError, UnsupportedError
from .._base.files import read_file
from .graph import Graph, Ids, Index, Int64, Known, as_index

FORMAT, _EARLIER = "graphfaith graph 2", "graphfaith graph 1"
HEADER = "graph.json"
_NEEDED = ("x", "edge", "sink", "start", "out", "out_start")
_OPTIONAL = ("weight", "loop", "y")
_TOO_MUCH = 1 << 62  # bytes
_SAMPLED, _PAGE = 64, 4096  # pages of a file that are looked at to see whether it has changed, and their bytes
_PIECE = 1 << 24  # bytes of a file that are read at a time when its digest is verified


class PackedGraph(Graph):
    """The graph in a folder that :func:`~graphfaith.graph.packing.pack_graph` has written; see the module's docstring.

    ``whole`` says whether a model may be run on all of it, if it is small: see :attr:`loaded_bytes`.

    Opening it reads the header alone. It can be pickled, as its path, so that other processes open it themselves.

    >>> import tempfile
    >>> from graphfaith.graph.packing import pack_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = {"x": torch.eye(3), "edge_index": torch.tensor([[2, 1], [1, 0]])}     # 2 -> 1 -> 0
    ...     graph = pack_graph(path, f"{folder}/path")
    ...     graph, graph.find_part(np.array([0]), 1, 0).nodes.tolist()
    (PackedGraph(3 nodes, 2 edges, 3 features), [0, 1])
    """

    def __init__(self, folder: str | os.PathLike[str], *, whole: bool = True) -> None:
        self.folder, self.whole = Path(folder).absolute(), whole
        self.about = about = _read_header(self.folder)
        self.num_nodes, self.num_features = int(about["num_nodes"]), int(about["num_features"])
        self.num_edges, self.num_loops = int(about["num_edges"]), int(about["num_loops"])
        self.flow: str = about["flow"]
        self.lowest = float(about["lowest"])
        self.feature_range = float(about["highest"]) - self.lowest
        arrays = {name: _map(self.folder, name, entry) for name, entry in about["files"].items()}
        _check_arrays(self, arrays)
        none: Ids = np.empty(0, dtype=arrays["start"].dtype)
        self._features: NDArray[Any] = arrays["x"]
        self._weights: NDArray[Any] | None = arrays.get("weight")
        edge = arrays["edge"]
        self.source, self._place, self.sink = edge[:, 0], edge[:, 1], arrays["sink"]
        # numpy calls columns of fewer than two rows dense, which would be another layout for the compiled core.
        table = edge if len(edge) > 1 else np.concatenate((edge, np.zeros((2, 2), dtype=edge.dtype)))
        self._table = table[:, 0], table[:, 1]
        self.loop_edge = arrays.get("loop", none)
        self._in = none, arrays["start"]
        self._out = arrays["out"], arrays["out_start"]
        self._y: NDArray[Any] | None = arrays.get("y")

    @property
    def device(self) -> torch.device:
        """The processor; nothing is read to tell that."""
        return torch.device("cpu")

    def __repr__(self) -> str:
        """Return the size of the graph."""
        return f"PackedGraph({self.num_nodes} nodes, {self.num_edges} edges, {self.num_features} features)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process opens the graph: by its path."""
        return partial(PackedGraph, whole=self.whole), (str(self.folder),)

    # The parts of the graph that are read where they are needed ------------------------------------------------------

    @property
    def is_weighted(self) -> bool:
        """Whether the graph has edge weights."""
        return self._weights is not None

    @property
    def has_every_loop(self) -> bool:
        """Whether the graph has a self-loop for every node."""
        return self.num_loops == self.num_nodes

    @property
    def held_bytes(self) -> int:
        """Nothing is held of the graph."""
        return 0

    @property
    def loaded_bytes(self) -> int:
        """How much is read to run a model on the whole graph; more than there is if that must not be done."""
        if not self.whole:
            return _TOO_MUCH
        weights = 0 if self._weights is None else self._weights.nbytes
        return self._features.nbytes + weights + 16 * self.num_edges

    @property
    def labels(self) -> Column | None:
        """The labels y that were packed with the graph; None if there are none."""
        return None if self._y is None else Column(self._y)

    def features(self, nodes: Int64) -> Tensor:
        """Return the features of ``nodes``, [n, d]."""
        return torch.from_numpy(self._features[nodes])

    def weights(self, edges: Int64) -> Tensor:
        """Return the weights of the edges in some slots, [e]; ones if the graph has none."""
        if self._weights is None:
            return torch.ones(len(edges), dtype=_torch_type(self._features.dtype))
        return torch.from_numpy(self._weights[edges])

    def ids(self, edges: Int64) -> Int64:
        """Return the ids of the edges in some slots; -1 for a self-loop that the user did not give, which has -1."""
        given = edges >= 0
        found = np.full(len(edges), -1, dtype=np.int64)
        found[given] = self._place[edges[given]]
        return found

    def loops(self, nodes: Int64) -> Int64:
        """Return the slots of the self-loops of ``nodes``; -1 where the user gave none."""
        if not len(self.loop_edge):
            return np.full(len(nodes), -1, dtype=np.int64)
        return self.loop_edge[nodes].astype(np.int64)

    def find_all(self) -> Int64:
        """Return the slots of all edges without self-loops, in the order of their ids."""
        found: Int64 = np.argsort(self._place[: self.num_edges - self.num_loops])
        return found

    def _make_index(self, *, out_degrees: bool) -> Index:
        out_of = self._out if out_degrees else (self._out[0][:0], self._out[1][:0])
        source, place = self._table
        return as_index(self._in, out_of, (source, self.sink), place, self.loop_edge)

    def ends_of_part(self, edges: Int64, known: Callable[[], Known]) -> Int64:
        """Return source and sink of edges in a part; only those that the walk does not know are read."""
        found, is_other = known()
        for end, others, ids in zip(found, is_other, (self.source, self.sink), strict=True):
            if others.any():
                end[others] = ids[edges[others]]
        return found

    # The whole graph ------------------------------------------------------------------------------------------------

    def check_flow(self, flow: str) -> None:
        """Refuse a model whose messages go in another direction than that by which the edges are sorted."""
        if flow != self.flow:
            raise UnsupportedError(
                f"the model passes messages {flow}, and the graph in '{self.folder}' is packed for {self.flow}: pack "
                f"it with flow='{flow}'"
            )

    def check_whole(self, why: str) -> None:
        """Refuse to be read as a whole."""
        raise UnsupportedError(
            f"{why}, and the graph in '{self.folder}' is too large to run it on all of it: load it with "
            "PackedGraph.tensors(), if there is memory for that, and explain its tensors"
        )

    def tensors(self) -> dict[str, Tensor]:
        """Read the whole graph into memory: x, edge_index, and edge_weight and y if there are such."""
        order = np.argsort(self._place)
        ends = np.stack((self.source, self.sink) if self.flow == "source_to_target" else (self.sink, self.source))
        found = {"x": torch.from_numpy(self._features.copy())}
        found["edge_index"] = torch.from_numpy(ends[:, order].astype(np.int64))
        if self._weights is not None:
            found["edge_weight"] = torch.from_numpy(self._weights[order])
        if self._y is not None:
            found["y"] = torch.from_numpy(self._y.copy())
        return found

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        return self.tensors()

    @property
    def x(self) -> Tensor:
        """The node features X, [N, d]; it reads the whole graph."""
        return self._tensors["x"]

    @property
    def edge_index(self) -> Tensor:
        """The edges in the user's order, [2, E]; it reads the whole graph."""
        return self._tensors["edge_index"]

    @property
    def edge_weight(self) -> Tensor | None:
        """The user's edge weights, [E], or None; it reads the whole graph."""
        return self._tensors.get("edge_weight") if self.is_weighted else None

    def verify(self) -> None:
        """Read every file and compare it with its digest; raise a :class:`DataError` that names one that differs."""
        for name, entry in self.about["files"].items():
            digest = hashlib.sha256()
            with open(self.folder / f"{name}.npy", "rb") as file:
                while piece := file.read(_PIECE):
                    digest.update(piece)
            if digest.hexdigest() != entry["sha256"]:
                raise DataError(f"the graph in '{self.folder}' is damaged: {name}.npy is not what was packed")

    def sample_digests(self) -> dict[str, str]:
        """Return a digest of up to 64 pages of each file, always the same ones, the first and the last among them.

        Small files are read as a whole, large ones not: a page that is overwritten by itself is found by
        :meth:`verify` alone, but not a file that is another one.
        """
        return {name: _sample(self.folder / f"{name}.npy") for name in sorted(self.about["files"])}


class Column:
    """A number for every node, of which those that are asked for are read.

    >>> Column(np.array([4, 5, 6]))[torch.tensor([2, 0])].tolist()
    [6, 4]
    """

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self._values)

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Return the numbers of some nodes."""
        return torch.from_numpy(self._values[rows.numpy()])


def open_graph(folder: str | os.PathLike[str]) -> PackedGraph:
    """Open a graph that :func:`~graphfaith.graph.packing.pack_graph`, or ``graphfaith graph pack``, has written.

    Only its header is read. :func:`graphfaith.explain_all` takes the graph in place of ``x`` and ``edge_index``.

    >>> import os, tempfile, torch
    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> folder = os.path.join(tempfile.mkdtemp(), "ring")
    >>> packed = gf.pack_graph(ring, folder)
    >>> gf.open_graph(folder).num_nodes
    4
    """
    return PackedGraph(folder)


def check_packed(folder: Path) -> None:
    """Raise a :class:`DataError` if there is no such folder, or if it is not one of a packed graph."""
    if not folder.is_dir():
        raise DataError(f"cannot open the graph '{folder}': there is no such folder")
    if not (folder / HEADER).exists():
        raise DataError(
            f"cannot open the graph '{folder}': it has no {HEADER}, so it is not a packed graph; `graphfaith graph "
            "pack NEW_FOLDER --data ...` makes one"
        )


def _read_header(folder: Path) -> dict[str, Any]:
    """Return what ``graph.json`` says, after checking that it says all that is needed."""
    check_packed(folder)
    content = read_file(folder / HEADER, "cannot open the graph")
    try:
        about = json.loads(content)
    except ValueError as error:
        raise DataError(f"cannot open the graph '{folder}': {HEADER} is damaged ({error})") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        found = about.get("format") if isinstance(about, dict) else type(about).__name__
        again = "; an earlier version packed it: pack it again with `graphfaith graph pack`" * (found == _EARLIER)
        raise DataError(f"cannot open the graph '{folder}': {HEADER} says {found!r}, not {FORMAT!r}{again}")
    counts = ("num_nodes", "num_edges", "num_loops", "num_features")
    right = all(type(about.get(name)) is int and about[name] >= 0 for name in counts)
    right = right and all(_is_number(about.get(name)) for name in ("lowest", "highest"))
    right = right and about.get("flow") in ("source_to_target", "target_to_source")
    files = about.get("files")
    if not right or not isinstance(files, dict) or not all(isinstance(entry, dict) for entry in files.values()):
        raise DataError(f"cannot open the graph '{folder}': {HEADER} does not say what a graph is made of")
    for name in (*_NEEDED, *files):
        if name not in files or name not in (*_NEEDED, *_OPTIONAL):
            wrong = "lacks" if name not in files else "has"
            raise DataError(f"cannot open the graph '{folder}': its list of files {wrong} {name!r}")
    return about


def _sample(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            last = max(0, os.fstat(file.fileno()).st_size - 1) // _PAGE
            for page in np.unique(np.linspace(0, last, _SAMPLED).astype(np.int64)).tolist():
                digest.update(os.pread(file.fileno(), _PAGE, page * _PAGE))
    except OSError as error:
        raise DataError(f"cannot read the graph '{path.parent}': {path.name}: {error.strerror or error}") from error
    return digest.hexdigest()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _map(folder: Path, name: str, entry: dict[str, Any]) -> NDArray[Any]:
    """Return the array in a file, mapped into memory; its size, type and shape are those that the header says."""
    path = folder / f"{name}.npy"
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != entry.get("bytes"):
                raise DataError(f"cannot open the graph '{folder}': {name}.npy has {size} bytes, not {entry['bytes']}")
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, is_fortran, dtype = read(file)
            offset = file.tell()
            if dtype.hasobject or is_fortran or dtype.str != entry.get("dtype") or list(shape) != entry.get("shape"):
                raise DataError(f"cannot open the graph '{folder}': {name}.npy does not hold what {HEADER} says")
            if math.prod(shape) == 0:
                return np.empty(shape, dtype=dtype)
            if size != offset + math.prod(shape) * dtype.itemsize:
                raise DataError(f"cannot open the graph '{folder}': {name}.npy is incomplete")
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"cannot open the graph '{folder}': {name}.npy: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(f"cannot open the graph '{folder}': {name}.npy is damaged ({error})") from None
    if hasattr(pages, "madvise"):
        # Nodes are read here and there. Reading ahead would fetch a hundred times as much as is asked for.
        pages.madvise(mmap.MADV_RANDOM)
    found: NDArray[Any] = np.frombuffer(pages, dtype=dtype, count=math.prod(shape), offset=offset).reshape(shape)
    return found


def _check_arrays(graph: PackedGraph, arrays: dict[str, NDArray[Any]]) -> None:
    """Check that the arrays have the sizes and types that go together, as far as that takes no time."""
    nodes, edges, plain = graph.num_nodes, graph.num_edges, graph.num_edges - graph.num_loops
    sizes: dict[str, tuple[int, ...]] = {
        "sink": (edges,),
        "start": (nodes + 1,),
        "out": (plain,),
        "out_start": (nodes + 1,),
    }
    sizes |= {"edge": (edges, 2), "weight": (edges,), "loop": (nodes,)}
    for name, array in arrays.items():
        if name in sizes:
            kinds = "f" if name == "weight" else "i"
            right = array.shape == sizes[name] and array.dtype.kind in kinds and array.dtype.isnative
        elif name == "x":
            right = array.shape == (nodes, graph.num_features) and array.dtype.str[1:] in ("f2", "f4", "f8")
        else:
            right = array.shape[:1] == (nodes,)
        if not right:
            raise DataError(f"cannot open the graph '{graph.folder}': {name}.npy has the wrong shape or type")
    for name in ("start", "out_start"):
        if int(arrays[name][0]) != 0 or int(arrays[name][-1]) != plain:
            raise DataError(f"cannot open the graph '{graph.folder}': {name}.npy does not say where edges begin")
    if ("loop" in arrays) != bool(graph.num_loops):
        raise DataError(f"cannot open the graph '{graph.folder}': it does not say which nodes have self-loops")


def _torch_type(dtype: np.dtype[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype=dtype)).dtype
