"""Data sets by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch_geometric.data import Data, HeteroData

from .._base.errors import InputError
from ..model.home import check_device
from .ba_shapes import ba_shapes
from .heterogeneous import HETEROGENEOUS_DATASETS
from .heterophilous import SHA256, heterophilous
from .planetoid import FOLDERS, planetoid
from .trees import tree_cycles, tree_grid

MOTIF_DATASETS: dict[str, Callable[[int], Data]] = {
    "ba-shapes": ba_shapes,
    "tree-cycles": tree_cycles,
    "tree-grid": tree_grid,
}
"""Generated graphs with motifs attached to a base graph, and the functions that make them from a seed.

All features are 1, so nodes differ only by their position.
"""
HETEROPHILOUS_DATASETS = tuple(SHA256)
"""The names that :func:`heterophilous` takes."""
DATASETS = (*MOTIF_DATASETS, *FOLDERS, *HETEROPHILOUS_DATASETS)
"""The names of all graphs with one type of nodes that :func:`load_dataset` takes."""


def load_dataset(
    name: str, *, seed: int = 0, normalize: bool = True, device: torch.device | str | None = None
) -> Data | HeteroData:
    """Load the data set with this name, one of `DATASETS`, or of `HETEROGENEOUS_DATASETS`.

    `seed` selects the generated graph and only concerns `MOTIF_DATASETS`. `normalize` scales the rows of the features
    to sum 1 and only concerns data sets that are not generated. `device` is where its tensors are to be.

    Example:
        >>> load_dataset("ba-shapes").num_nodes
        700
    """
    if name not in DATASETS and name not in HETEROGENEOUS_DATASETS:
        known = ", ".join((*DATASETS, *HETEROGENEOUS_DATASETS))
        raise InputError(f"unknown data set {name!r}; known are {known}")
    where = None if device is None else check_device(device)
    data: Data | HeteroData
    if name in HETEROGENEOUS_DATASETS:
        data = HETEROGENEOUS_DATASETS[name](seed)
    elif name in MOTIF_DATASETS:
        data = MOTIF_DATASETS[name](seed)
    elif name in HETEROPHILOUS_DATASETS:
        data = heterophilous(name, normalize=normalize)
    else:
        data = planetoid(name, normalize=normalize)
    return data if where is None else data.to(where)
