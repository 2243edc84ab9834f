"""Cora and CiteSeer, read only from files whose checksums are those of the published files.

The files are pickles, which can run code when they are read. So each file is compared with the checksums below before
it is read.

Reference: "Revisiting Semi-Supervised Learning with Graph Embeddings" (arXiv 1603.08861).
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.io import read_planetoid_data

from .._base.errors import InputError
from .verified import Published

SOURCE = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/"
FOLDERS = {"cora": "Cora/raw", "citeseer": "CiteSeer/raw"}
SHA256 = {
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
}
# The published collections have as many papers of each class, and no two classes are of one size: so they are told from
# each other. Beside its 249 papers about AI, CiteSeer's first class has 15 without any words or links.
CLASS_NAMES = {
    "cora": (
        *("Theory", "Reinforcement Learning", "Genetic Algorithms", "Neural Networks", "Probabilistic Methods"),
        *("Case Based", "Rule Learning"),
    ),
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
}


def planetoid(name: str, *, normalize: bool = True) -> Data:
    """Load "cora" or "citeseer" with the public split in `train_mask`, `val_mask` and `test_mask`.

    The classes have their names, in `class_names`.

    With `normalize` each row of the features is divided by its sum; rows without any feature stay zero.

    If the environment variable `GRAPHFAITH_DATA` names a folder, the files are read from there (`Cora/raw/ind.cora.x`
    and so on), and nothing is written to it. Otherwise they are read from the cache folder, and missing files are
    downloaded to it.

    Example:
        >>> cora = planetoid("cora")
        >>> cora.num_nodes, cora.class_names[3]
        (2708, 'Neural Networks')
    """
    if name not in FOLDERS:
        raise InputError(f"unknown citation graph {name!r}; known are {', '.join(FOLDERS)}")
    folder = FOLDERS[name]
    files = [
        Published(file, folder, f"planetoid/{folder}", digest, SOURCE)
        for file, digest in SHA256.items()
        if file.startswith(f"ind.{name}.")
    ]
    data = _parse(name, {file.name: file.read() for file in files})
    data.class_names = list(CLASS_NAMES[name])
    if normalize:
        data.x = normalize_rows(data.x)
    return data


def _parse(name: str, files: dict[str, bytes]) -> Data:
    """Parse the verified content from a private copy, so that no file can change between the check and the reading."""
    with tempfile.TemporaryDirectory(prefix="graphfaith-") as folder, warnings.catch_warnings():
        for file, content in files.items():
            (Path(folder) / file).write_bytes(content)
        return read_planetoid_data(folder, name)


def normalize_rows(x: Tensor) -> Tensor:
    """Return the features with each row divided by its sum; rows without any feature stay zero."""
    total = x.sum(dim=-1, keepdim=True)
    return x / total.masked_fill(total == 0, 1)
