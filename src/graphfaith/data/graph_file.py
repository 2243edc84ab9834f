"""Graphs from files: a PyG ``Data`` or a dictionary of tensors (.pt), or the same tensors as .safetensors or .npz.

A graph of several types is a PyG ``HeteroData`` (.pt).

No code in such a file is ever executed. A .pt file is a pickle, and a pickle is a program. Before it is read, the
functions and classes that it names are listed without calling them, and the file is refused if it names one that
neither a ``Data`` nor a tensor needs. It is then read by torch's restricted unpickler, and never by another one.
"""

from __future__ import annotations

import io
import json
import os
import pickletools
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors.torch
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.feature_store import TensorAttr
from torch_geometric.data.graph_store import EdgeAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from .._base.errors import DataError, GraphfaithError, InputError, show
from .._base.expansion import safetensors_header
from .._base.files import read_file
from ..explanation.scores import check_ids, give_names
from ..graph.graph import Graph
from ..graph.joint import kinds_of
from .declared import check_arrays, check_sizes, list_pickles

NAMES = ("node_names", "feature_names", "class_names")

_Made = TypeVar("_Made")
_TYPED = object()  # the name of the fields of a HeteroData, which no file can have
_ADVICE = "save a dictionary of plain tensors, torch.save({'x': x, 'edge_index': edge_index}, ...)"
_CLASSES = (
    *(Data, GlobalStorage, DataEdgeAttr, DataTensorAttr),
    *(HeteroData, BaseStorage, NodeStorage, EdgeStorage, EdgeAttr, TensorAttr),
)
_KINDS = ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double")
_OF_SPARSE = ("torch._utils._rebuild_sparse_tensor", "torch_sparse.tensor.SparseTensor")
_HARMLESS = frozenset(
    [
        "collections.OrderedDict",
        "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        *(f"torch.{kind}Storage" for kind in _KINDS),
        *(f"{cls.__module__}.{cls.__qualname__}" for cls in _CLASSES),
    ]
)


def read_graph(path: str | os.PathLike[str]) -> Data:
    """Read a graph from a ``.pt``, ``.safetensors`` or ``.npz`` file, and check it.

    The graph has ``x`` [N, d], ``edge_index`` [2, E] and all other tensors of the file. Of these, ``edge_weight`` [E],
    ``edge_attr`` [E, ...], ``batch`` [N] and ``edge_label_index`` [2, L] are checked. ``node_names``,
    ``feature_names`` and ``class_names`` are lists of texts; in a .safetensors file they are JSON in its metadata. Node
    ids become int64,
    and whole numbers in ``x``, ``edge_weight`` and ``edge_attr`` become float32.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/path.npz", x=np.eye(3), edge_index=[[0, 1], [1, 2]], node_names=["a", "b", "c"])
    ...     read_graph(f"{folder}/path.npz")
    Data(x=[3, 3], edge_index=[2, 2], node_names=[3])
    """
    return _read(path, "the graph", _make_data)


def read_any_graph(path: str | os.PathLike[str]) -> Data | HeteroData:
    """Read a graph as :func:`read_graph` does, or one of several types, a ``HeteroData`` in a ``.pt`` file.

    Every type has all of its tensors, and ``node_names`` and ``feature_names``, and the whole has ``class_names``. The
    types of nodes need ``x`` later, but not here.

    >>> import tempfile
    >>> data = HeteroData()
    >>> data["pump"].x, data["pump", "to", "pump"].edge_index = torch.eye(2), torch.tensor([[0], [1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save(data, f"{folder}/pumps.pt")
    ...     read_any_graph(f"{folder}/pumps.pt").edge_types
    [('pump', 'to', 'pump')]
    """
    return _read(path, "the graph", lambda fields: (_make_typed if _TYPED in fields else _make_data)(fields))


def read_tensors(path: str | os.PathLike[str], what: str) -> dict[str, Tensor]:
    """Return all tensors of a ``.pt``, ``.safetensors`` or ``.npz`` file by their names; ``what`` is for messages.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/truth.npz", edges=[0.0, 1.0])
    ...     read_tensors(f"{folder}/truth.npz", "the truth")
    {'edges': tensor([0., 1.], dtype=torch.float64)}
    """
    return _read(path, what, _all_tensors)


def _all_tensors(fields: Mapping[Any, Any]) -> dict[str, Tensor]:
    if _TYPED in fields:
        raise DataError(f"it holds a HeteroData, and not tensors by their names: {_ADVICE}")
    return {str(key): one for key, one in fields.items() if isinstance(one, Tensor)}


def _read(path: str | os.PathLike[str], what: str, make: Callable[[Mapping[Any, Any]], _Made]) -> _Made:
    """Read the fields of a file, and make something of them; all that can go wrong is an error that names the file."""
    source = Path(path)
    readers: dict[str, Callable[[bytes], Mapping[Any, Any]]] = {
        ".pt": _read_pt,
        ".safetensors": _read_safetensors,
        ".npz": _read_npz,
    }
    reader = readers.get(source.suffix.lower())
    if reader is None:
        raise InputError(f"cannot read {what} '{path}': use a .pt, .safetensors or .npz file")
    content = read_file(path, f"cannot read {what}")
    try:
        return make(reader(content))
    except GraphfaithError as error:
        raise DataError(f"cannot read {what} '{path}': {error}") from error
    # A damaged file can raise nearly any exception inside Python, numpy or torch.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".strip()
        reason = " ".join("".join(c if c.isprintable() else " " for c in reason).split())
        raise DataError(
            f"cannot read {what} '{path}': it is not a {source.suffix} file, or it is damaged ({reason[:160]})"
        ) from error


# .pt --------------------------------------------------------------------------------------------------------------


def _read_pt(content: bytes) -> Mapping[Any, Any]:
    _refuse_code(content)
    check_sizes(content)
    known = torch.serialization.get_safe_globals()
    # PyG allows Data, but not the classes inside a Data. Only the missing ones are added, because safe_globals removes
    # its classes at the end, and the ones that PyG allows must stay allowed.
    missing = [cls for cls in _CLASSES if cls not in known]
    with warnings.catch_warnings(), torch.serialization.safe_globals(missing):
        warnings.simplefilter("ignore")
        content_read = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    if type(content_read) is HeteroData:
        return {_TYPED: vars(content_read)}
    if type(content_read) is Data:
        # Data.to_dict() is avoided because in a crafted file the attributes that it uses may be any object.
        content_read = vars(vars(content_read).get("_store", content_read)).get("_mapping")
    if not isinstance(content_read, dict):
        kind = "a Data of another PyG version" if content_read is None else f"a {type(content_read).__name__}"
        raise DataError(f"it holds {kind}, not one Data or a dictionary of tensors: {_ADVICE}")
    return content_read


def _refuse_code(content: bytes) -> None:
    """Refuse a file that names a function or class which tensors do not need, without calling anything in it."""
    for name in _list_globals(content):
        if name in _OF_SPARSE:
            raise DataError(
                f"it holds a sparse tensor ({name}): store edge_index in place of adj_t, by type in a HeteroData, and "
                "x as an ordinary tensor (x.to_dense())"
            )
        if name not in _HARMLESS:
            raise DataError(
                f"it names {name}, which no graph needs and which could run code; nothing was run: {_ADVICE}"
            )


def _list_globals(content: bytes) -> Iterator[str]:
    """Yield the names of all functions and classes that torch.load would look up in a file written by torch.save."""
    for pickled in list_pickles(content):
        yield from _list_globals_of_pickle(io.BytesIO(pickled))


def _list_globals_of_pickle(pickled: io.BytesIO) -> Iterator[str]:
    texts: list[str] = []
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".", 1)
        elif opcode.name == "STACK_GLOBAL":
            # The name is on the stack. Honest pickles push it directly before, so the last two texts are the name. If
            # a pickle hides its name, these texts are not on the list of allowed names, and the file is refused.
            yield ".".join(texts[-2:]) or "a global"
            texts.clear()
        elif opcode.name.startswith("EXT"):
            yield f"extension {argument}"
        elif opcode.name == "BYTEARRAY8":
            # An unpickler allocates as many bytes as this declares, whether they follow or not.
            yield "a bytearray"
        elif isinstance(argument, str):
            texts.append(argument)


# The other formats ------------------------------------------------------------------------------------------------


def _read_safetensors(content: bytes) -> Mapping[Any, Any]:
    text = safetensors_header(content)
    fields: dict[str, Any] = dict(safetensors.torch.load(content))
    header = json.loads(text)
    texts = header.get("__metadata__") or {}
    return fields | {name: json.loads(texts[name]) for name in NAMES if name in texts}


def _read_npz(content: bytes) -> Mapping[Any, Any]:
    # numpy treats every other file as a pickle, and its error message would advise the user to allow pickles.
    if not content.startswith(b"PK"):
        raise DataError("it is not a .npz file, or it is damaged")
    check_arrays(content)
    fields: dict[str, Any] = {}
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        for name in archive.files:
            try:
                array = archive[name]
            except ValueError as error:
                if "allow_pickle" not in str(error):
                    raise
                raise DataError(
                    f"its '{name}' is an array of Python objects: only numbers and texts can be read"
                ) from error
            if array.dtype.kind == "U":
                fields[name] = array.tolist()
            elif array.dtype.kind in "biuf":
                native = array.astype(array.dtype.newbyteorder("="))
                fields[name] = torch.from_numpy(native)
    return fields


# Checks -----------------------------------------------------------------------------------------------------------


def _make_data(fields: Mapping[Any, Any]) -> Data:
    """Return the graph of these fields, after checking that the known ones fit together."""
    if _TYPED in fields:
        raise DataError(
            "it holds a HeteroData, and this is for graphs with one type of nodes: graphfaith explain and graphfaith "
            "score take it, and so does graphfaith.explain(model, data, node)"
        )
    tensors = _tensors_of(fields)
    for name in ("x", "edge_index"):
        if name not in tensors:
            present = ", ".join(sorted(tensors)) or "no tensors"
            raise DataError(f"it has no tensor '{name}' (it has {present})")
    for name in ("edge_index", "edge_label_index", "batch"):
        if name in tensors:
            tensors[name] = _to_ids(tensors[name], name)
    graph = Graph.of(tensors["x"], tensors["edge_index"], tensors.get("edge_weight"))
    _check_optional(tensors, graph)
    data = Data(x=tensors.pop("x"), edge_index=tensors.pop("edge_index"))
    for name, tensor in tensors.items():
        data[name] = tensor
    for name, what, count in zip(
        NAMES, ("nodes", "features", "classes"), (graph.num_nodes, graph.num_features, None), strict=True
    ):
        if fields.get(name) is not None:
            names = list(fields[name]) if isinstance(fields[name], tuple) else fields[name]
            # How many classes there are, only the model says.
            given = len(names) if count is None and hasattr(names, "__len__") else count
            data[name] = give_names(names, None, given or 0, what)
    return data


def _make_typed(fields: Mapping[Any, Any]) -> HeteroData:
    """Return the graph of several types that has these attributes, after checking its features and edges."""
    held, made = fields[_TYPED], HeteroData()
    for kind, given in (*_stores_of(held, "_node_store_dict"), *_stores_of(held, "_edge_store_dict")):
        # The name of a type may be any object in a crafted file.
        names = kind if type(kind) is tuple and len(kind) == 3 else (kind,)
        if not all(type(name) is str for name in names):
            raise DataError(f"it has nodes or edges of type {show(kind)}: types are named by texts")
        for key, tensor in _tensors_of(given).items():
            made[kind][key] = _to_ids(tensor, key) if key == "edge_index" else tensor
        for key, what in (("node_names", "nodes"), ("feature_names", "features")):
            if given.get(key) is not None and "x" in made[kind]:
                if made[kind].x.dim() < 2:
                    raise DataError(f"x of {show(kind)} must be [nodes, features] (got {list(made[kind].x.shape)})")
                made[kind][key] = give_names(given[key], None, made[kind].x.size(int(what == "features")), what)
    for key, tensor in _tensors_of(_mapping_of(held.get("_global_store"))).items():
        made._global_store[key] = tensor
    classes = _mapping_of(held.get("_global_store")).get("class_names")
    if classes is not None:
        made._global_store["class_names"] = give_names(
            classes, None, len(classes) if hasattr(classes, "__len__") else 0, "classes"
        )
    x, edge_index = made.collect("x", True), made.collect("edge_index", True)
    if set(x) >= {end for kind in edge_index for end in kind[::2]}:
        # It raises if they are no graph. Features that are missing, or of two precisions, depend on the model.
        kinds_of({name: rows.double() for name, rows in x.items()}, edge_index)
    return made


def _stores_of(held: Mapping[Any, Any], name: str) -> list[tuple[Any, Mapping[Any, Any]]]:
    """Return the fields of each type of nodes or edges of a ``HeteroData``."""
    stores = held.get(name)
    return [(kind, _mapping_of(store)) for kind, store in stores.items()] if type(stores) is dict else []


def _mapping_of(store: Any) -> Mapping[Any, Any]:
    """Return the fields of a store; none if it is something else, as in a crafted file."""
    mapping = vars(store).get("_mapping") if isinstance(store, BaseStorage) else None
    return mapping if type(mapping) is dict else {}


def _tensors_of(fields: Mapping[Any, Any]) -> dict[str, Tensor]:
    """Return those fields that are tensors, and could be arguments of a model."""
    return {key: _convert(key, value) for key, value in fields.items() if _is_field(key, value)}


def _is_field(key: Any, value: Any) -> bool:
    """Return whether the value is a tensor and its name could be an argument of a model."""
    named = isinstance(key, str) and key.isidentifier() and not key.startswith("_") and key != "num_nodes"
    return named and key not in NAMES and type(value) in (Tensor, torch.nn.Parameter)


def _convert(key: str, value: Tensor) -> Tensor:
    tensor = value.detach()
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    # Counts and one-hot codes are often stored as whole numbers, but models multiply them with real weights.
    real = key in ("x", "edge_weight", "edge_attr") and (whole or tensor.dtype == torch.bfloat16)
    return tensor.float() if real else tensor


def _to_ids(tensor: Tensor, name: str) -> Tensor:
    if tensor.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise DataError(f"{name} must hold whole numbers (got {tensor.dtype})")
    return tensor.long()


def _check_optional(tensors: dict[str, Tensor], graph: Graph) -> None:
    batch, pairs, attributes = (tensors.get(name) for name in ("batch", "edge_label_index", "edge_attr"))
    if batch is not None:
        if batch.shape != (graph.num_nodes,):
            raise DataError(
                f"batch must have shape [{graph.num_nodes}], the graph of each node (got {list(batch.shape)})"
            )
        check_ids(batch, graph.num_nodes, "batch")
    if pairs is not None:
        if pairs.dim() != 2 or len(pairs) != 2:
            raise DataError(f"edge_label_index must have shape [2, pairs] (got {list(pairs.shape)})")
        check_ids(pairs, graph.num_nodes, "edge_label_index")
    if attributes is not None:
        if not attributes.dim() or len(attributes) != graph.num_edges:
            raise DataError(
                f"edge_attr must have {graph.num_edges} rows, one for each edge (got shape {list(attributes.shape)})"
            )
        if not bool(torch.isfinite(attributes).all()):
            raise DataError("edge_attr holds a number that is not finite")
