"""Explanations in files: one safetensors file that holds the tensors, and all other values as JSON in its header.

Nothing in such a file can run. Before an explanation is made of it, the content is checked: it may have the types
below and no others, tensors must have the right shapes, and ids must lie within the graph.

The header's metadata has one entry, "graphfaith", a JSON object with the number of the format, the version of the
library that wrote it, the explanation, and a checksum of these and of the tensors. Plain values are JSON's own; any
other value is an object whose "type" says how to read it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
import struct
from collections.abc import Callable
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch_geometric.explain import Explanation, HeteroExplanation
from torch_geometric.explain.config import ModelConfig

from .._base.checksum import checksum_of
from .._base.errors import DataError, GraphfaithError, InputError, UnsupportedError
from .._base.expansion import safetensors_header
from .._base.files import check_output, read_file, write_file
from .._base.version import __version__
from ..graph.computation_graph import ComputationGraph
from ..graph.kinds import Kinds
from ..surrogate.attention import Attention, AttentionLayer
from ..surrogate.difference import AnchoredModel, KHopModel, LinearModel, SubgraphModel
from ..surrogate.estimate import Unfaithfulness
from ..surrogate.evidence import Evidence
from ..surrogate.hinges import Hinges
from ..surrogate.kriging import Kriging
from ..surrogate.typed_walks import TypedKHopModel, WalkSum
from .scores import check_fields, edge_index_of, num_nodes_of
from .signed import SignedExplanation
from .soundness import check_graph, check_kinds, check_model
from .typed import TypedExplanation, pack, unpack

FORMAT = 2

_KEY = "graphfaith"
_PRIVATE = ("_model_config", "_model_args")  # PyG sets these beside the fields
_DEPTH = 40  # of lists within lists; no explanation needs more, and Python's stack allows it
_HEADER = 100_000_000  # bytes; safetensors does not read a longer header
_REAL = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64)
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64)
_DTYPES = (*_REAL, *_WHOLE, torch.bool)  # the types that safetensors has
_KNOWN = (Unfaithfulness, ComputationGraph, Kinds, Evidence, Kriging, Attention, AttentionLayer, WalkSum, Hinges)
_RECORDS = {cls.__name__: cls for cls in _KNOWN}
_MODELS = {cls.__name__: cls for cls in (LinearModel, KHopModel, TypedKHopModel, AnchoredModel)}


def save(explanation: Explanation | HeteroExplanation, path: str | os.PathLike[str]) -> None:
    """Save an explanation to a ``.safetensors`` file, from which :func:`load` makes the same explanation.

    Every tensor is kept bit for bit, and so are the fitted p of a linear or k-hop method and the measured Delta(p). The
    p of a subgraph method is the model on the masked graph: it is not saved, because it can be made again from the
    masks and the model. Devices and gradients are not kept. A field with a value that is neither a tensor nor plain is
    an error, and then no file is written.

    >>> import tempfile
    >>> explanation = SignedExplanation(edge_index=torch.tensor([[0], [1]]), edge_mask=torch.tensor([-0.5]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(explanation.name(nodes=["pump", "tank"]), f"{folder}/pump.safetensors")
    ...     load(f"{folder}/pump.safetensors").top_edges()
    [NamedEdge(source=0, sink=1, score=-0.5, names=['pump', 'tank'])]
    """

    target = check_output(path, (".safetensors",))
    if isinstance(explanation, HeteroExplanation):
        explanation = pack(explanation)
    _check(explanation)
    fields = explanation.to_dict()
    if isinstance(fields.get("difference_model"), SubgraphModel):
        _check_masks(explanation, fields.pop("difference_model"))
    fields |= {key: getattr(explanation, key) for key in _PRIVATE if getattr(explanation, key, None) is not None}
    writer = _Writer()
    document = {
        "format": FORMAT,
        "written_by": __version__,
        "explanation": {key: writer.encode(value, key) for key, value in fields.items()},
    }
    document["checksum"] = checksum_of(json.dumps(document), writer.tensors)
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    content: bytes = safetensors.torch.save(writer.tensors, {_KEY: text})
    if int.from_bytes(content[:8], "little") > _HEADER:
        raise InputError(
            f"the names and plain values of the explanation need more than {_HEADER:,} bytes: store them as tensors"
        )
    write_file(target, content)


def load(path: str | os.PathLike[str]) -> SignedExplanation | TypedExplanation:
    """Read an explanation that :func:`save` wrote. Nothing in the file is ever executed.

    >>> import os, tempfile
    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> file = os.path.join(tempfile.mkdtemp(), "ring.safetensors")
    >>> gf.save(gf.explain(model, ring, 1, method="saliency"), file)
    >>> gf.load(file).method
    'Saliency'
    """
    content = read_file(path, "cannot load")
    try:
        explanation = _read(content)
        return explanation if explanation.get("kinds") is None else unpack(explanation)
    except GraphfaithError as error:
        raise DataError(f"cannot load '{path}': {error}") from error


def _check(explanation: Explanation) -> None:
    """Check that all parts of an explanation fit together, so that no id points outside the graph."""
    check_fields(explanation)
    config, arguments = (getattr(explanation, name, None) for name in _PRIVATE)
    if not isinstance(config, ModelConfig | None) or not isinstance(arguments, list | None):
        raise InputError("_model_config must be a ModelConfig of PyG, and _model_args a list")
    for kind, names in ((Unfaithfulness, ("unfaithfulness", "estimate")), (str, ("scored_digest", "scores_digest"))):
        for name in names:
            if not isinstance(explanation.get(name), kind | None):
                raise InputError(f"{name} must be of type {kind.__name__} (got {type(explanation[name]).__name__})")
    measurements = explanation.get("measurements")
    if measurements is not None and (
        not isinstance(measurements, list) or not all(isinstance(one, Unfaithfulness) for one in measurements)
    ):
        raise InputError("measurements must be a list of records of type Unfaithfulness")
    model = explanation.get("difference_model")
    if isinstance(model, LinearModel | KHopModel | TypedKHopModel | AnchoredModel):
        if tuple(model.graph.size) != (num_nodes_of(explanation), edge_index_of(explanation).size(1)):
            size = "{} nodes and {} edges".format(*model.graph.size)
            raise InputError(f"the computation graph belongs to a graph of {size}, not to this one")
        check_model(model)


def _check_masks(explanation: Explanation, model: SubgraphModel) -> None:
    """Check that the explanation has the masks of its subgraph, from which scoring makes p again after loading."""
    for name in ("node_mask", "edge_mask"):
        mask = getattr(model, name)
        if mask is not None and explanation.get(name) is None and not bool((mask == 1).all()):
            kind = "node_mask_type" if name == "node_mask" else 'edge_mask_type="object"'
            raise UnsupportedError(f"a subgraph explanation cannot be saved without its {name}: explain with {kind}")


class _Writer:
    """Turns values into JSON; tensors are collected apart, under names that say where they were."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[int, tuple[Tensor, dict[str, Any]]] = {}
        self._storages: set[int] = set()

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """Return a value as JSON; ``where`` is the name of its field."""
        if depth > _DEPTH:
            raise InputError(f"'{where[:60]}...' is nested too deeply to be saved")
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return value if abs(value) < 1 << 63 else {"type": "int", "hex": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"type": "float", "hex": struct.pack(">d", value).hex()}
        if kind is list:
            return [self.encode(item, f"{where}.{i}", depth + 1) for i, item in enumerate(value)]
        if kind is tuple:
            return {"type": "tuple", "items": self.encode(list(value), where, depth)}
        if kind is dict:
            return {"type": "dict", "items": self._encode_fields(value, where, depth)}
        if kind in (Tensor, torch.nn.Parameter):
            return self._encode_tensor(value, where)
        if kind is ModelConfig:
            values = {field.name: getattr(value, field.name).value for field in dataclasses.fields(value)}
            return {"type": "ModelConfig", "items": values}
        if kind in _RECORDS.values():
            values = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return {"type": kind.__name__, "items": self._encode_fields(values, where, depth)}
        if kind in _MODELS.values():
            # A model keeps the arguments of its constructor under the same names.
            values = {name: getattr(value, name) for name in _parameters(kind)}
            return {"type": kind.__name__, "items": self._encode_fields(values, where, depth)}
        raise UnsupportedError(
            f"field '{where}' cannot be saved: it holds {kind.__module__}.{kind.__qualname__}, and files hold only "
            "tensors and plain values; set the field to None to save the rest"
        )

    def _encode_fields(self, values: dict[Any, Any], where: str, depth: int) -> dict[str, Any]:
        for key in values:
            if type(key) is not str:
                raise UnsupportedError(f"field '{where}' cannot be saved: its key {key!r} is not a text")
        return {key: self.encode(value, f"{where}.{key}", depth + 1) for key, value in values.items()}

    def _encode_tensor(self, value: Tensor, where: str) -> dict[str, Any]:
        if id(value) in self._names:
            return self._names[id(value)][1]
        if value.layout != torch.strided or value.dtype not in _DTYPES or value.is_quantized or value.is_meta:
            raise UnsupportedError(f"field '{where}' cannot be saved: a tensor of {value.dtype} and {value.layout}")
        plain = value.detach().cpu().resolve_conj().resolve_neg()
        # The last digits of a product depend on whether a matrix is stored by rows or by columns, so keep the order.
        strides = plain.stride()
        order = sorted(range(plain.dim()), key=lambda axis: -strides[axis])
        plain = plain.permute(order).contiguous()
        if plain.untyped_storage().data_ptr() in self._storages:
            plain = plain.clone()
        self._storages.add(plain.untyped_storage().data_ptr())
        name = where if where.isascii() and where != "__metadata__" else f"tensor {len(self.tensors)}"
        while name in self.tensors:
            name += "'"
        self.tensors[name] = plain
        entry: dict[str, Any] = {"type": "tensor", "name": name}
        if order != sorted(order):
            entry["order"] = order
        self._names[id(value)] = (value, entry)  # The tensor is kept alive, so that no other one gets its id.
        return entry


def _read(content: bytes) -> SignedExplanation:
    """Make an explanation from the bytes of a file."""
    try:
        described = safetensors_header(content)
        tensors = safetensors.torch.load(content)
        header = json.loads(described)
    except (
        SafetensorError,
        ArithmeticError,
        AssertionError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        reason = str(error).removeprefix("Error while deserializing: ") or type(error).__name__
        raise DataError(f"it is not a safetensors file, or a damaged one ({reason[:120]})") from error
    text = (header.get("__metadata__") or {}).get(_KEY)
    if text is None:
        raise DataError("it is a safetensors file, but not one that graphfaith saved")
    try:
        document = json.loads(text)
        version, fields = document["format"], document.get("explanation")
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise DataError("its description is damaged: it is not JSON that graphfaith writes") from error
    if type(version) is not int or version != FORMAT:
        writer = document.get("written_by")
        by = f", written by graphfaith {writer[:20]}" if isinstance(writer, str) and writer.isprintable() else ""
        cure = "use that version, or save the explanation again with this one"
        if type(version) is int and version > FORMAT:
            cure = "upgrade graphfaith"
        raise DataError(f"it has format {str(version)[:20]}{by}; this graphfaith reads format {FORMAT}: {cure}")
    if document.pop("checksum", None) != checksum_of(json.dumps(document), tensors):
        raise DataError("it is damaged: its checksum is missing or wrong")
    return _Reader(tensors).decode_explanation(fields)


class _Reader:
    """Turns JSON into values, of the types that a file may name and no others."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._stored, self._made = tensors, dict[str, Tensor]()
        self._readers: dict[str, Callable[[dict[str, Any], int], Any]] = {
            "tensor": lambda entry, _: self._decode_tensor(**entry),
            "int": lambda entry, _: int(entry["hex"], 16),
            "float": lambda entry, _: struct.unpack(">d", bytes.fromhex(entry["hex"]))[0],
            "tuple": lambda entry, depth: tuple(_check_type(list, self.decode(entry["items"], depth))),
            "dict": lambda entry, depth: self._decode_fields(entry["items"], depth),
            "ModelConfig": lambda entry, depth: ModelConfig(**self._decode_fields(entry["items"], depth)),
        }

    def decode_explanation(self, fields: Any) -> SignedExplanation:
        """Return the explanation with these fields, checked."""
        explanation = SignedExplanation()
        try:
            for key, value in self._decode_fields(fields, -1).items():
                if key in _PRIVATE:
                    setattr(explanation, key, value)
                else:
                    explanation[key] = value
            unused = set(self._stored) - set(self._made)
            if unused:
                raise DataError(f"its description does not mention the tensor {sorted(unused)[0]!r}")
            _check(explanation)
        except GraphfaithError:
            raise
        # Any other error is the fault of a damaged file.
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RuntimeError,
            TypeError,
            ValueError,
            struct.error,
        ) as error:
            raise DataError(f"its description is damaged ({str(error)[:120]})") from error
        return explanation

    def decode(self, entry: Any, depth: int = 0) -> Any:
        """Return the value that JSON stands for."""
        if depth > _DEPTH:
            raise DataError("its description is nested too deeply")
        if isinstance(entry, list):
            return [self.decode(item, depth + 1) for item in entry]
        if not isinstance(entry, dict):
            return entry
        values = dict(entry)
        kind = values.pop("type", None)
        if isinstance(kind, str) and kind in self._readers:
            return self._readers[kind](values, depth)
        if isinstance(kind, str) and kind in _RECORDS:
            return _make_record(_RECORDS[kind], self._decode_fields(values["items"], depth))
        if isinstance(kind, str) and kind in _MODELS:
            return _make_model(_MODELS[kind], self._decode_fields(values["items"], depth))
        raise DataError(f"its description names an unknown type {str(kind)[:40]!r}")

    def _decode_fields(self, items: Any, depth: int) -> dict[str, Any]:
        return {key: self.decode(value, depth + 1) for key, value in _check_type(dict, items).items()}

    def _decode_tensor(self, name: str, order: list[int] | None = None) -> Tensor:
        if name not in self._made:
            if name not in self._stored:
                raise DataError(f"its description names a tensor {name[:60]!r} that the file does not hold")
            tensor = self._stored[name]
            if tensor.dtype == torch.bool and tensor.numel() and int(tensor.view(torch.uint8).max()) > 1:
                raise DataError(f"the tensor {name[:60]!r} holds truth values other than 0 and 1")
            tensor = tensor.clone()  # This memory is aligned as torch aligns it, and not as the file happens to be.
            if order is not None:
                if sorted(order) != list(range(tensor.dim())):
                    raise DataError(f"the tensor {name[:60]!r} has an impossible order of dimensions")
                tensor = tensor.permute(sorted(order, key=order.__getitem__))
            self._made[name] = tensor
        return self._made[name]


def _parameters(model: type) -> list[str]:
    return list(inspect.signature(model).parameters)


def _make_model(cls: type, values: dict[str, Any]) -> Any:
    if not isinstance(values.get("graph"), ComputationGraph):
        raise DataError(f"its {cls.__name__} has no computation graph")
    return cls(**values)


def _make_record(cls: type, values: dict[str, Any]) -> Any:
    for field in dataclasses.fields(cls):
        if field.name in values and not _fits(values[field.name], str(field.type)):
            raise DataError(f"{field.name} of its {cls.__name__} is not {field.type}")
    record = cls(**values)
    if isinstance(record, Unfaithfulness):
        for part in (record.scores, record.pairs):
            _check_type(Unfaithfulness | None, part)  # type: ignore[arg-type]
    if isinstance(record, Kinds):
        check_kinds(record)
    if isinstance(record, ComputationGraph):
        check_graph(record)  # This must come before anything is computed on the graph.
    return record


def _fits(value: Any, annotation: str) -> bool:
    """Return whether a plain value has the declared type of a field; values of other types pass."""
    plain = {
        "int": (int,),
        "float": (float, int),
        "str": (str,),
        "bool": (bool,),
        "Tensor": (Tensor,),
        "None": (type(None),),
    }
    for name in annotation.split(" | "):
        if name == "tuple[int, int]":
            return type(value) is tuple and [type(item) for item in value] == [int, int]
        if name not in plain or type(value) in plain[name]:
            return True
    return False


def _check_type(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise DataError(f"its description has a {type(value).__name__} in place of a {kind.__name__}")
    return value
