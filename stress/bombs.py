"""Files that were made to do harm: small ones that declare or unpack to huge sizes, and pickles that run code."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from originals import Read, make_originals

SHEET = (  # the beginning of a sheet with one cell
    b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    b'<sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>'
)
GIGABYTES = 40  # more than the machine of most users has


def make_bombs(canary: Path) -> dict[str, tuple[str, Callable[[Path], None], Read]]:
    """Return for each bomb the name of its file, a function that writes it, and how it is read.

    ``canary`` is a file that exists afterwards if any code in a file was run.
    """
    readers = {kind: original.read for kind, original in make_originals().items()}
    graph, explanation = readers["graph Data.pt"], readers["explanation by kec"]
    edges = torch.tensor([[0], [1]])
    huge = {"x": torch.ones(1, 1).expand(10**6, 10**4), "edge_index": edges}
    code = _Code(canary)
    found: dict[str, tuple[str, Callable[[Path], None], Read]] = {
        "expanded tensor .pt": ("a.pt", lambda p: torch.save(huge, p), graph),
        "expanded tensor, old .pt": (
            "b.pt",
            lambda p: torch.save(huge, p, _use_new_zipfile_serialization=False),
            graph,
        ),
        "unpacks to 2 GB .npz": ("c.npz", lambda p: _write_zeros(p, 2 << 30), graph),
        "declares 10^12 numbers .npz": ("d.npz", lambda p: _write_claim(p, (10**6, 10**6)), graph),
        "declares 10^15 numbers .safetensors": ("e.safetensors", _claim_tensor, graph),
        "header of 10^15 bytes .safetensors": ("f.safetensors", _claim_header, graph),
        "the same as an explanation": ("g.safetensors", _claim_header, explanation),
        "JSON nested 100,000 deep": ("h.safetensors", _nest, explanation),
        "code in a .pt": ("i.pt", lambda p: torch.save({"x": code, "edge_index": edges}, p), graph),
        "code in an old .pt": ("j.pt", lambda p: torch.save(code, p, _use_new_zipfile_serialization=False), graph),
        "a bare pickle as .pt": ("k.pt", lambda p: p.write_bytes(pickle.dumps(code)) and None, graph),
        "code in an array .npz": ("l.npz", lambda p: np.savez(p, x=np.array([code], dtype=object)), graph),
        "a bare pickle as .npz": ("m.npz", lambda p: p.write_bytes(pickle.dumps(code)) and None, graph),
        "unpacks to 2 GB .xlsx": ("n.xlsx", lambda p: _write_workbook(p, 2 << 30), readers["recording .xlsx"]),
        "nested result of a study": (
            "o.json",
            lambda p: p.write_text("[" * 10**6) and None,
            readers["result of a study"],
        ),
        "nested journal": ("p.jsonl", lambda p: p.write_text("[" * 10**6 + "\n") and None, readers["journal of a run"]),
        "nested rows": (
            "illustration.json",
            lambda p: p.write_text("[" * 10**6) and None,
            readers["rows of illustration"],
        ),
    }
    for kind, suffix in (
        ("graph Data.pt", ".pt"),
        ("graph graph.npz", ".npz"),
        ("graph graph.safetensors", ".safetensors"),
        ("explanation by kec", ".safetensors"),
        ("result of a study", ".json"),
        ("journal of a run", ".jsonl"),
        ("checkpoint of a training", ".safetensors"),
        ("truth .csv", ".csv"),
    ):
        found[f"{GIGABYTES} GB of nothing as {kind}"] = (f"hole{suffix}", _write_hole, readers[kind])
    return found


class _Code:
    """An object whose pickle makes the canary when it is read."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


def _write_zeros(path: Path, size: int) -> None:
    """Write a zip file with one array of zeros, which packs to a thousandth."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_1_0(file, _describe((size // 8, 1)))
        block = bytes(1 << 24)
        for _ in range(size // len(block)):
            file.write(block)


def _write_workbook(path: Path, size: int) -> None:
    """Write a workbook whose first sheet is one row with a text of zeros."""
    original = make_originals()["recording .xlsx"].content
    with (
        zipfile.ZipFile(io.BytesIO(original)) as good,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for name in good.namelist():
            if name != "xl/worksheets/sheet1.xml":
                archive.writestr(name, good.read(name))
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as file:
            file.write(SHEET)
            block = b"0" * (1 << 24)
            for _ in range(size // len(block)):
                file.write(block)
            file.write(b"</t></is></c></row></sheetData></worksheet>")


def _write_claim(path: Path, shape: tuple[int, int]) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, _describe(shape))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(64))
        archive.writestr("edge_index.npy", header.getvalue() + bytes(64))


def _describe(shape: tuple[int, int]) -> dict[str, Any]:
    return {"descr": "<f8", "fortran_order": False, "shape": shape}


def _claim_tensor(path: Path) -> None:
    header = json.dumps({"x": {"dtype": "F64", "shape": [10**9, 10**6], "data_offsets": [0, 8 * 10**15]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))


def _claim_header(path: Path) -> None:
    path.write_bytes(struct.pack("<Q", 10**15) + b"{" + bytes(64))


def _nest(path: Path) -> None:
    text = '{"format":1,"explanation":' + "[" * 10**5 + "]" * 10**5 + "}"
    header = json.dumps({"__metadata__": {"graphfaith": text}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def _write_hole(path: Path) -> None:
    """Write a file that is large to its reader and takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(GIGABYTES << 30)
