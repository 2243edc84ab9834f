"""Crippen molecules: a regression in which the contribution of every atom is known exactly.

Crippen's logP of a molecule is the sum of a number for each of its atoms, which depends on the atom's type and
surroundings. So a model that predicts logP can be compared, atom by atom and with the sign, with what is true.

Reference: "Evaluating Attribution for Graph Neural Networks" (NeurIPS 2020), data set "Crippen"; molecules from ZINC12.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch_geometric.data import Data

from .heterophilous import load_arrays
from .verified import Published

FILE = Published(
    "crippen.npz",
    folder="crippen",
    cached="crippen",
    sha256="70e03bd38600bed1d706ac6f025a82d300bd74d4ae2540d11e8bb4bf02081b07",
    # The published files, in the folder data/crippen of github.com/google-research/graph-attribution, have arrays of
    # objects, that is pickles. The arrays of numbers made from them have no public address.
    source=None,
)


class Molecules(NamedTuple):
    """The molecules for training and for testing."""

    train: list[Data]
    test: list[Data]


def crippen() -> Molecules:
    """Load 1127 molecules with Crippen's logP, 901 for training and 226 for testing.

    Each graph has `x` [n, 14] (the element of each atom), `edge_index` (both directions of each bond), `edge_attr`
    [E, 5] (the kind of each bond), `y` [1] (logP) and `atom_truth` [n], the signed contributions of the atoms, whose
    sum is `y`.

    The file is read from `crippen/crippen.npz` in the folder that the environment variable `GRAPHFAITH_DATA` names.
    """
    return _split_molecules(load_arrays(FILE.read(), FILE.name))


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
