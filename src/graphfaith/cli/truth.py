"""What is known to matter: from a file, or from the labels of edges that a data set has."""

from __future__ import annotations

from pathlib import Path

from torch_geometric.data import Data

from .._base.errors import InputError
from ..data.graph_file import read_tensors
from ..metric.truth import Truth
from .notes import say


def read_truth_file(path: Path) -> Truth:
    """Read a truth from a .pt, .safetensors or .npz file, which has one tensor: ``edges`` [E] or ``nodes`` [N].

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/truth.npz", nodes=[0.5, -1.0])
    ...     read_truth_file(Path(folder) / "truth.npz").is_signed
    True
    """
    tensors = read_tensors(path, "the truth")
    known = {name: tensors[name] for name in ("edges", "nodes") if name in tensors}
    if len(known) != 1:
        found = ", ".join(sorted(tensors)) or "no tensors"
        raise InputError(f"'{path}' must have a tensor 'edges' [E] or 'nodes' [N], and one of them (it has {found})")
    return Truth(**known)


def truth_in(data: Data) -> Truth | None:
    """Return the truth that a graph has itself: ``edge_label``, zeros and ones, [E]; that of links to find is none."""
    label = data.get("edge_label")
    if label is None or "edge_label_index" in data or tuple(label.shape) != (data.edge_index.size(1),):
        return None
    truth = Truth(edges=label)
    if truth.is_signed:
        return None
    say("truth: the edge_label of the graph")
    return truth
