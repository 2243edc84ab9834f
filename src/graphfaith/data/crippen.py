"""Crippen molecules: a regression in which the contribution of every atom is known exactly.

Crippen's logP of a molecule is the sum of a number for each of its atoms, which depends on the atom's type and
surroundings. So a model that predicts logP can be compared, atom by atom and with the sign, with what is true.

Reference: "Evaluating Attribution for Graph Neural Networks" (NeurIPS 2020), data set "Crippen"; molecules from ZINC12.
The published files are lists of dictionaries, that is pickles, which can run code when they are read. So each file is
compared with its checksum below before it is read.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch_geometric.data import Data

from .heterophilous import load_arrays
from .verified import UNSET, Published, check_sum, read_given

SOURCE = (
    "https://raw.githubusercontent.com/google-research/graph-attribution/"
    "03e7495379df26a21395b25c6a14d92dc27fc3b0/data/crippen/"
)
FOLDER = "crippen"
SHA256 = {
    "x_true.npz": "746ec60eba85e1ed4a7cbb4ae3915996e5b337f608b2f95eea8d0696822d975e",
    "y_true.npz": "cfdbe6dde298e916306ac5681410b80bf0641abccee81602f655574b8237e151",
    "true_raw_attribution_datadicts.npz": "c6f96df2972bad484ac9f2a46d3de074162e0d8bed0270474556b9c51744b191",
    "crippen_traintest_indices.npz": "2e9bce35e25603cb74460827b1ab23d5628e0d77defe3ea3cb16509f442b3882",
}
# The same numbers in one file without pickles, all molecules one after another, for folders that have it.
ARRAYS = "crippen.npz"
ARRAYS_SHA256 = "70e03bd38600bed1d706ac6f025a82d300bd74d4ae2540d11e8bb4bf02081b07"


class Molecules(NamedTuple):
    """The molecules for training and for testing.

    Example:
        >>> train, test = crippen()
        >>> len(train), len(test)
        (901, 226)
    """

    train: list[Data]
    test: list[Data]


def crippen() -> Molecules:
    """Load 1127 molecules with Crippen's logP, 901 for training and 226 for testing.

    Each graph has `x` [n, 14] (the element of each atom), `edge_index` (both directions of each bond), `edge_attr`
    [E, 5] (the kind of each bond), `y` [1] (logP) and `atom_truth` [n], the signed contributions of the atoms, whose
    sum is `y`.

    If the environment variable `GRAPHFAITH_DATA` names a folder, they are read from there: from `crippen/crippen.npz`
    if it is there, and otherwise from the published files (`crippen/x_true.npz` and so on). Without that variable the
    published files are read from the cache, to which they are downloaded if they are missing.

    Example:
        >>> molecule = crippen().train[0]
        >>> bool((molecule.atom_truth.sum() - molecule.y).abs() < 1e-4)
        True
    """
    given = os.environ.get("GRAPHFAITH_DATA")
    arrays = Path(given) / FOLDER / ARRAYS if given else None
    if arrays is not None and arrays.exists():
        content = check_sum(read_given(arrays), ARRAYS, ARRAYS_SHA256, arrays, f"delete it, or {UNSET}")
        return _split_molecules(load_arrays(content, ARRAYS))
    return _split_molecules(
        join_published({name: Published(name, FOLDER, FOLDER, sha, SOURCE).read() for name, sha in SHA256.items()})
    )


def join_published(files: dict[str, bytes]) -> dict[str, np.ndarray]:
    """Return the numbers of the published files as arrays, all molecules one after another.

    The files must have been compared with their checksums: they are unpickled here.
    """
    read = {name: np.load(io.BytesIO(content), allow_pickle=True) for name, content in files.items()}
    graphs: list[dict[str, Any]] = read["x_true.npz"]["datadict_list"].ravel().tolist()
    truths: list[dict[str, Any]] = read["true_raw_attribution_datadicts.npz"]["datadict_list"].ravel().tolist()
    splits = read["crippen_traintest_indices.npz"]
    return {
        "x": np.concatenate([graph["nodes"] for graph in graphs]),
        "edge_attr": np.concatenate([graph["edges"] for graph in graphs]),
        "source": np.concatenate([graph["senders"] for graph in graphs]),
        "target": np.concatenate([graph["receivers"] for graph in graphs]),
        "num_nodes": np.array([len(graph["nodes"]) for graph in graphs]),
        "num_edges": np.array([len(graph["edges"]) for graph in graphs]),
        "y": read["y_true.npz"]["y"].ravel(),
        "atom_truth": np.concatenate([truth["nodes"] for truth in truths]),
        "train": splits["train_index"],
        "test": splits["test_index"],
    }


def _split_molecules(arrays: dict[str, np.ndarray]) -> Molecules:
    """Return the molecules, which are one after another in the arrays."""
    atoms, bonds = np.cumsum(arrays["num_nodes"]), np.cumsum(arrays["num_edges"])
    molecules = []
    for i, (last_atom, last_bond) in enumerate(zip(atoms, bonds, strict=True)):
        atom = slice(last_atom - arrays["num_nodes"][i], last_atom)
        bond = slice(last_bond - arrays["num_edges"][i], last_bond)
        ends = np.stack([arrays["source"][bond], arrays["target"][bond]]).astype(np.int64)
        molecules.append(
            Data(
                x=torch.from_numpy(arrays["x"][atom]).float(),
                edge_index=torch.from_numpy(ends),
                edge_attr=torch.from_numpy(arrays["edge_attr"][bond]).float(),
                y=torch.tensor([arrays["y"][i]], dtype=torch.float32),
                atom_truth=torch.from_numpy(arrays["atom_truth"][atom]),
            )
        )
    train, test = ([molecules[i] for i in arrays[part].tolist()] for part in ("train", "test"))
    return Molecules(train, test)
