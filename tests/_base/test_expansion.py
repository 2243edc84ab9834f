"""Small files that stand for a large content are refused by the size they declare, and nothing of it is allocated."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save

import graphfaith as gf
from graphfaith._base import expansion
from graphfaith._base.errors import DataError
from graphfaith._base.files import read_file
from graphfaith.data.graph_file import read_graph

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])
GB = 10**9


@pytest.fixture
def limit(monkeypatch):
    """Let a file declare 1 GB, whatever the memory of this machine is."""
    monkeypatch.setattr(expansion, "_total_memory", lambda: 2 * GB)
    return 1 * GB


def pt_of(x, **options):
    stream = io.BytesIO()
    torch.save({"x": x, "edge_index": EDGES}, stream, **options)
    return stream.getvalue()


def npz_of(**entries):
    """Return a zip file whose entries are deflated, given the bytes of each."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def npy_header(shape, descr="<f4", version=1, padding=0):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b" " * padding + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text


def with_huge_entry(declared):
    """Return a zip file whose directory says that an entry inflates to ``declared`` bytes."""
    content = bytearray(npz_of(x=npy_header((10,)) + bytes(40), edge_index=npy_header((2, 3), "<i8") + bytes(48)))
    place = content.rfind(b"PK\x01\x02", 0, content.rfind(b"PK\x01\x02"))
    content[place + 24 : place + 28] = struct.pack("<I", declared)
    return bytes(content)


def header_of(length, text=b"{}"):
    return struct.pack("<Q", length) + text


def declared_storage(numbers, **options):
    """Return a file of torch.save whose pickle says that the storage of x has so many numbers."""
    mark = 123457
    content = pt_of(torch.zeros(mark, 1), **options)
    before, after = b"J" + struct.pack("<i", mark), b"\x8a\x08" + struct.pack("<q", numbers)
    if not options:  # The pickle is an entry of the zip file, which is written again.
        stream = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
            for entry in old.infolist():
                new.writestr(entry.filename, old.read(entry).replace(before, after)[:1000])
        return stream.getvalue()
    assert before in content
    return content.replace(before, after)[:2000]


BEYOND = b'{"x":{"dtype":"F32","shape":[100000,100000],"data_offsets":[0,40000000000]}}'
BOMBS = {
    "a tensor of one number, 40 billion times": (".pt", pt_of(torch.zeros(1, 1).expand(10**10, 4)), "declares 320 GB"),
    "whole numbers, repeated": (".pt", pt_of(torch.zeros(1, 1, dtype=torch.uint8).expand(10**9, 1)), "declares 8.0 GB"),
    "in the old format": (
        ".pt",
        pt_of(torch.zeros(1, 1).expand(10**10, 4), _use_new_zipfile_serialization=False),
        "declares 320 GB",
    ),
    "a storage that is not there": (".pt", declared_storage(10**10), "declares 40 GB of numbers, but holds"),
    "a storage that is not there, old": (
        ".pt",
        declared_storage(10**10, _use_new_zipfile_serialization=False),
        "declares 40 GB of numbers, but holds",
    ),
    "an array that is not there": (".npz", npz_of(x=npy_header((10**10,))), "'x' declares 40 GB, but has 0 bytes"),
    "an array of long texts": (".npz", npz_of(x=npy_header((1000,), "<U10000000")), "declares 40 GB, but has"),
    "a long header": (
        ".npz",
        npz_of(x=npy_header((1,), version=2, padding=10**6)),
        "header of its 'x' declares 1.0 MB",
    ),
    "an entry that inflates": (".npz", with_huge_entry(4 * GB), "declares 4.0 GB: more than 1.0 GB, half of this"),
    "an entry that inflates, for torch": (".pt", with_huge_entry(4 * GB), "declares 4.0 GB: more than 1.0 GB"),
    "a header beyond the file": (".safetensors", header_of(40 * GB), "declares a header of 40 GB and has 2 bytes"),
    "a tensor beyond the file": (
        ".safetensors",
        header_of(len(BEYOND), BEYOND),
        "damaged",
    ),
    "too many entries": (".npz", b"PK\x03\x04" + b"PK\x01\x02" * 10_001, "more than 10,000 entries"),
    "bytes of any number": (".pt", pickle.dumps(bytearray(10), protocol=5), "it names a bytearray"),
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_file_that_expands_is_refused(tmp_path, limit, case):
    suffix, content, message = BOMBS[case]
    path = tmp_path / f"graph{suffix}"
    path.write_bytes(content)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError) as caught:
        read_graph(path)
    assert message in str(caught.value), str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < 100_000  # KB


def test_a_file_with_holes_is_refused_before_it_is_read(tmp_path, limit):
    for suffix in (".pt", ".npz", ".safetensors"):
        path = tmp_path / f"graph{suffix}"
        with path.open("wb") as file:
            file.truncate(40 * GB)
        assert os.stat(path).st_blocks * 512 < 10**6
        with pytest.raises(
            DataError, match=r"cannot read the graph .*it declares 40 GB: more than 1\.0 GB, half of this"
        ):
            read_graph(path)
        if suffix == ".safetensors":
            with pytest.raises(DataError, match=r"cannot load .*it declares 40 GB: more than 1\.0 GB"):
                gf.load(path)


def test_a_long_description_of_an_explanation_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(expansion, "_total_memory", lambda: 10**6)
    path = tmp_path / "explanation.safetensors"
    path.write_bytes(save({"x": torch.ones(2)}, {"graphfaith": json.dumps([[]] * 10_000)}))
    with pytest.raises(DataError, match=r"cannot load .*it declares 40 KB, which may take 32 times as much in memory"):
        gf.load(path)


def test_what_is_honest_is_read(tmp_path, limit):
    few = torch.ones(1, 1).expand(3, 4)  # A repeated number is no fault in itself.
    torch.save({"x": few, "edge_index": EDGES}, tmp_path / "graph.pt")
    torch.save({"x": few, "edge_index": EDGES}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    np.savez_compressed(tmp_path / "graph.npz", x=np.zeros((10**5, 20), dtype=np.float32), edge_index=EDGES.numpy())
    assert os.stat(tmp_path / "graph.npz").st_size < 20_000
    for name, nodes in (("graph.pt", 3), ("old.pt", 3), ("graph.npz", 10**5)):
        assert len(read_graph(tmp_path / name).x) == nodes


def test_the_limit_is_half_of_the_memory(tmp_path, monkeypatch):
    assert 10**8 < expansion.readable_bytes() < 10**14
    monkeypatch.setattr(expansion, "_total_memory", lambda: 200)
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert len(read_file(tmp_path / "file", "cannot read")) == 100
    with pytest.raises(DataError, match=r"^cannot read '.*': it declares 100 bytes, which may take 2 times"):
        read_file(tmp_path / "file", "cannot read", growth=2)
    (tmp_path / "file").write_bytes(b"x" * 101)
    with pytest.raises(DataError, match=r"^cannot read '.*': it declares 101 bytes: more than 100 bytes, half of"):
        read_file(tmp_path / "file", "cannot read")


def test_a_container_counts(monkeypatch, tmp_path):
    allowed = tmp_path / "memory.max"
    machine = expansion._total_memory()
    monkeypatch.setattr(expansion, "Path", lambda _: allowed)
    assert expansion._total_memory() >= machine
    for text, expected in (("5000\n", 5000), ("max\n", expansion._total_memory())):
        allowed.write_text(text)
        assert expansion._total_memory() == expected


def test_a_file_of_weights_with_holes_is_trained_again(tmp_path):
    """A cached file that declares much more than the model has is not opened."""
    script = """
import logging, resource, sys
from graphfaith.data import models
logging.basicConfig()
recipe = type("Recipe", (), {"dataset": "cora"})()
models._path = lambda _: __import__("pathlib").Path(sys.argv[1])
held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert models._load(models.CitationGCN(5, 3), recipe) is None
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < 50_000
"""
    path = tmp_path / "weights.safetensors"
    header = b'{"x":{"dtype":"U8","shape":[3000000000],"data_offsets":[0,3000000000]}}'
    with path.open("wb") as file:
        file.write(header_of(len(header), header))
        file.truncate(8 + len(header) + 3_000_000_000)
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "it is for another model" in done.stderr
