"""The sizes that a .pt or .npz file declares, found out without making any of its tensors or arrays."""

from __future__ import annotations

import ast
import io
import math
import pickle
import pickletools
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._base.errors import DataError
from .._base.expansion import check_declared, list_entries
from .._base.memory import format_size

_MAGIC = 0x1950A86A20F9469CFC6C  # the first number in a file of torch.save's old format, which is not a zip file
_PICKLES = 5  # the number of pickles in such a file before the raw data
_PICKLE_GROWTH = 64  # An empty list is one byte of a pickle, and 56 bytes in memory.
_TEXT_GROWTH = 16  # A text of one letter is 4 bytes of an array, and up to 60 bytes in a list.
_WIDEST = 8  # bytes; a number of any other type may be converted to one of this size
_HEADER = 10_000  # bytes; numpy reads no longer header of an array
_SIZES = {"Bool": 1, "Byte": 1, "Char": 1, "Short": 2, "Half": 2, "BFloat16": 2, "Int": 4, "Float": 4}


def list_pickles(content: bytes) -> Iterator[bytes]:
    """Yield the pickles that torch.load would read in a file written by torch.save, without reading them."""
    # torch.load decides by the same first bytes, so it reads the same part of the file that is checked here.
    if content.startswith(b"PK"):
        entries = list_entries(content)
        check_declared(sum(entry.file_size for entry in entries))
        pickled = [entry for entry in entries if entry.filename.rpartition("/")[2].endswith(".pkl")]
        if [entry.filename.rpartition("/")[2] for entry in pickled] != ["data.pkl"]:
            raise DataError("it is a zip file, but not one written by torch.save")
        check_declared(pickled[0].file_size, _PICKLE_GROWTH)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield archive.read(pickled[0])
        return
    stream = io.BytesIO(content)
    for i in range(_PICKLES):
        start = stream.tell()
        arguments = [argument for _, argument, _ in pickletools.genops(stream) if isinstance(argument, int)]
        check_declared(stream.tell() - start, _PICKLE_GROWTH)
        yield content[start : stream.tell()]
        if i == 0 and _MAGIC not in arguments:
            raise DataError("it is a pickle, but not one written by torch.save")


def check_sizes(content: bytes) -> None:
    """Refuse a file of torch.save whose storages exceed it, or whose tensors would not fit in memory.

    A tensor may be larger than its storage: one number with strides of 0 stands for any number of equal ones, and all
    of them are allocated when they are converted or moved. The names in the file must have been checked before.
    """
    held = len(content)
    if content.startswith(b"PK"):
        held = sum(entry.file_size for entry in list_entries(content))
    for pickled in list_pickles(content):
        counter = _Counter(io.BytesIO(pickled))
        counter.load()
        stored = sum(counter.storages.values())
        if stored > held:
            raise DataError(f"it declares {format_size(stored)} of numbers, but holds {format_size(held)}")
        check_declared(counter.tensors)


class _Anything:
    """Stands for an object of any class: it takes any arguments and any state, and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, _: Any) -> None:
        pass


class _Mapping(dict[Any, Any]):
    """Stands for a dictionary with attributes."""


class _Counter(pickle._Unpickler):
    """Reads a pickle without making its objects: every name in it becomes one of the harmless stand-ins above.

    It is Python's own implementation, because the one in C allocates as much as a single opcode asks for.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.tensors = 0  # bytes that the tensors take after conversion
        self.storages: dict[Any, int] = {}  # bytes by the names of the storages

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for the class or function of that name, which is never looked up."""
        if module == "torch" and name.endswith("Storage"):
            return name
        if module == "torch._utils":
            return self._count_tensor if name.startswith("_rebuild_tensor") else _Anything
        return _Mapping if (module, name) == ("collections", "OrderedDict") else _Anything

    def persistent_load(self, pid: Any) -> Any:
        """Note the size that a storage declares: ("storage", class, key, device, numbers, ...)."""
        _, kind, key, _, numbers, *_ = pid
        self.storages[key] = int(numbers) * _SIZES.get(kind.removesuffix("Storage"), _WIDEST)

    def _count_tensor(self, _storage: Any, _offset: Any, size: Any, *_: Any) -> None:
        self.tensors += _WIDEST * math.prod(abs(int(length)) for length in size)


def check_arrays(content: bytes) -> None:
    """Refuse a .npz file whose arrays exceed it, or would not fit in memory."""
    entries = list_entries(content)
    check_declared(sum(entry.file_size for entry in entries))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            with archive.open(entry) as file:
                start = file.read(12)
                if not start.startswith(b"\x93NUMPY"):
                    continue  # numpy returns its bytes, which are no more than the entry declares
                wide = start[6] > 1  # The length of the header has two bytes in version 1 and four bytes later.
                length = int.from_bytes(start[8:12] if wide else start[8:10], "little")
                if length > _HEADER:
                    raise DataError(f"the header of its '{name[:60]}' declares {format_size(length)}")
                text = (b"" if wide else start[10:]) + file.read(length if wide else length - 2)
            header = ast.literal_eval(text.decode("utf-8" if start[6] > 2 else "latin1"))
            dtype = np.lib.format.descr_to_dtype(header["descr"])
            declared = math.prod(map(abs, header["shape"])) * dtype.itemsize
            held = entry.file_size - length - (12 if wide else 10)
            if declared > held and not dtype.hasobject:  # numpy refuses objects, whose size is not declared
                raise DataError(
                    f"its '{name[:60]}' declares {format_size(declared)}, but has {format_size(max(0, held))}"
                )
            check_declared(declared, _TEXT_GROWTH if dtype.kind == "U" else 1)
