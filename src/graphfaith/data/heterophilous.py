"""Heterophilous graphs, in which neighbours tend to differ: web pages, actors, and a game of minesweeper.

The files are arrays without pickles; each is compared with its checksum below before it is read.

References: "A Critical Look at the Evaluation of GNNs under Heterophily" (arXiv 2302.11640), which made minesweeper and
republished the others; "Geom-GCN" (arXiv 2002.05287), which made those from WebKB and the actor network.
"""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from .._base.checks import check_count
from .._base.errors import DataError, InputError
from .declared import check_arrays
from .planetoid import normalize_rows
from .verified import Published

SOURCE = "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data/"
FOLDER = "heterophilous"
SHA256 = {
    "texas": "b164b99e6c3d43e4ab07488ec59bd8c815f90cbc1bd4cf425ce587d2b534d844",
    "cornell": "684c54ba3daa13b0ba1f04a3d6dd1b1175c1ae9bdeb982851fd4ff96d3aac298",
    "wisconsin": "2543c89838cfc75f737f7c4664cc1d097f8268602c20b2d1bd4f21407df9c074",
    "actor": "c350eef06b2c2a9bf8218be2b57cac6d4003d0922eb597a039e9123f75817816",
    "minesweeper": "e664c8dacf1e8ac466c2c09ed4b237bd2c5541f47a6eae9c6092cb87f16412b3",
}
NUM_SPLITS = 10


def heterophilous(name: str, *, split: int = 0, normalize: bool = True) -> Data:
    """Load "texas", "cornell", "wisconsin" (web pages), "actor" or "minesweeper".

    The masks are those of the published `split`, 0 to 9. The published edges have one direction, the graph has both.
    With `normalize` each row of the features is divided by its sum; rows without any feature stay zero.

    If the environment variable `GRAPHFAITH_DATA` names a folder, the file is read from there
    (`heterophilous/texas.npz`), otherwise from the cache, to which it is downloaded if it is missing.

    Example:
        >>> heterophilous("texas").num_nodes
        183
    """
    if name not in SHA256:
        raise InputError(f"unknown heterophilous graph {name!r}; known are {', '.join(SHA256)}")
    check_count(split, "split", least=0, most=NUM_SPLITS - 1)
    file = Published(f"{name}.npz", FOLDER, FOLDER, SHA256[name], SOURCE)
    arrays = load_arrays(file.read(), file.name)
    x = torch.from_numpy(arrays["node_features"]).float()
    edges = torch.from_numpy(arrays["edges"].astype(np.int64)).t()
    return Data(
        x=normalize_rows(x) if normalize else x,
        edge_index=to_undirected(edges, num_nodes=len(x)),
        y=torch.from_numpy(arrays["node_labels"].astype(np.int64)),
        **{f"{part}_mask": torch.from_numpy(arrays[f"{part}_masks"][split]) for part in ("train", "val", "test")},
    )


def load_arrays(content: bytes, name: str) -> dict[str, Any]:
    """Return the arrays of a .npz file by their names; a file with pickled objects is refused.

    >>> buffer = io.BytesIO()
    >>> np.savez(buffer, y=np.arange(3))
    >>> load_arrays(buffer.getvalue(), "toy.npz")["y"].tolist()
    [0, 1, 2]
    """
    try:
        check_arrays(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return dict(archive)
    except (DataError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read {name}: {error}") from error
