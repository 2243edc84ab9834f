"""The graphs of the paper by name: BA-Shapes, generated here, and Cora and CiteSeer, fetched and verified."""

from __future__ import annotations

from torch_geometric.data import Data

from graphfaith.datasets.ba_shapes import ba_shapes
from graphfaith.datasets.planetoid import cache_folder, planetoid
from graphfaith.errors import InputError

__all__ = ["DATASETS", "ba_shapes", "cache_folder", "load_dataset", "planetoid"]

DATASETS = ("ba-shapes", "cora", "citeseer")


def load_dataset(name: str, *, seed: int = 0, normalize: bool = True) -> Data:
    """Load one of `DATASETS`.

    `seed` says which BA-Shapes graph is generated and `normalize` whether the rows of Cora's and CiteSeer's
    features sum to 1; neither has a meaning for the others.

    Example:
        >>> load_dataset("ba-shapes").num_nodes
        700
    """
    if name not in DATASETS:
        raise InputError(f"unknown data set {name!r}; known are {', '.join(DATASETS)}")
    return ba_shapes(seed) if name == "ba-shapes" else planetoid(name, normalize=normalize)
