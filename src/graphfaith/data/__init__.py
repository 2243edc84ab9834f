"""Graphs by name: BA-Shapes, Tree-Cycles and Tree-Grid, generated here; Cora and CiteSeer, fetched and verified."""

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

# Motifs hung on a base graph, whose nodes differ in nothing but their place: all features are 1.
MOTIF_DATASETS: dict[str, Callable[[int], Data]] = {
    "ba-shapes": ba_shapes,
    "tree-cycles": tree_cycles,
    "tree-grid": tree_grid,
}
DATASETS = (*MOTIF_DATASETS, *FOLDERS)


def load_dataset(name: str, *, seed: int = 0, normalize: bool = True) -> Data:
    """Load one of `DATASETS`.

    `seed` says which graph is generated, if it is one of `MOTIF_DATASETS`, and `normalize` whether the rows of
    Cora's and CiteSeer's features sum to 1; neither has a meaning for the others.

    Example:
        >>> load_dataset("ba-shapes").num_nodes
        700
    """
    if name not in DATASETS:
        raise InputError(f"unknown data set {name!r}; known are {', '.join(DATASETS)}")
    if name in MOTIF_DATASETS:
        return MOTIF_DATASETS[name](seed)
    return planetoid(name, normalize=normalize)
