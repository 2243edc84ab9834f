"""Data sets by name. BA-Shapes, Tree-Cycles and Tree-Grid are generated, Cora and CiteSeer downloaded and verified."""

from __future__ import annotations

from collections.abc import Callable

from torch_geometric.data import Data

from .._base.errors import InputError
from .ba_shapes import ba_shapes
from .planetoid import FOLDERS, cache_folder, planetoid
from .trees import tree_cycles, tree_grid

__all__ = [
    "DATASETS",
    "MOTIF_DATASETS",
    "ba_shapes",
    "cache_folder",
    "load_dataset",
    "planetoid",
    "tree_cycles",
    "tree_grid",
]

# Generated graphs with motifs attached to a base graph. All features are 1, so nodes differ only by their position.
MOTIF_DATASETS: dict[str, Callable[[int], Data]] = {
    "ba-shapes": ba_shapes,
    "tree-cycles": tree_cycles,
    "tree-grid": tree_grid,
}
DATASETS = (*MOTIF_DATASETS, *FOLDERS)


def load_dataset(name: str, *, seed: int = 0, normalize: bool = True) -> Data:
    """Load the data set with this name, one of `DATASETS`.

    `seed` selects the generated graph and only concerns `MOTIF_DATASETS`. `normalize` scales the rows of the features
    to sum 1 and only concerns Cora and CiteSeer.

    Example:
        >>> load_dataset("ba-shapes").num_nodes
        700
    """
    if name not in DATASETS:
        raise InputError(f"unknown data set {name!r}; known are {', '.join(DATASETS)}")
    if name in MOTIF_DATASETS:
        return MOTIF_DATASETS[name](seed)
    return planetoid(name, normalize=normalize)
