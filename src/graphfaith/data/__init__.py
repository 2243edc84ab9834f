"""Data sets by name. BA-Shapes, Tree-Cycles and Tree-Grid are generated, the others downloaded and verified.

`ba_2motifs` and `crippen` are sets of graphs, not one graph, so that they have functions of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_geometric.data import Data

from .._base.errors import InputError
from .ba_2motifs import ba_2motifs
from .ba_shapes import ba_shapes
from .crippen import crippen
from .heterophilous import SHA256, heterophilous
from .planetoid import FOLDERS, planetoid
from .trees import tree_cycles, tree_grid
from .verified import cache_folder

__all__ = [
    "DATASETS",
    "HETEROPHILOUS_DATASETS",
    "MOTIF_DATASETS",
    "ba_2motifs",
    "ba_shapes",
    "cache_folder",
    "crippen",
    "heterophilous",
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
HETEROPHILOUS_DATASETS = tuple(SHA256)
DATASETS = (*MOTIF_DATASETS, *FOLDERS, *HETEROPHILOUS_DATASETS)


def load_dataset(name: str, *, seed: int = 0, normalize: bool = True) -> Data:
    """Load the data set with this name, one of `DATASETS`.

    `seed` selects the generated graph and only concerns `MOTIF_DATASETS`. `normalize` scales the rows of the features
    to sum 1 and only concerns data sets that are not generated.

    Example:
        >>> load_dataset("ba-shapes").num_nodes
        700
    """
    if name not in DATASETS:
        raise InputError(f"unknown data set {name!r}; known are {', '.join(DATASETS)}")
    if name in MOTIF_DATASETS:
        return MOTIF_DATASETS[name](seed)
    if name in HETEROPHILOUS_DATASETS:
        return heterophilous(name, normalize=normalize)
    return planetoid(name, normalize=normalize)
