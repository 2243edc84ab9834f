"""What a user types on the command line, read and checked before any work is done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from torch_geometric.data import Data

from .._base.checks import check_count, check_node, check_seed
from .._base.errors import InputError
from ..data import DATASETS, MOTIF_DATASETS, load_dataset
from ..explainers.base import FittedExplainer, Samples
from ..explainers.methods import method_named
from ..facade.subject import expand_neighborhoods
from ..model.task import Task


def parse_nodes(text: str) -> Sequence[int]:
    """Return nodes written as ``start:stop:step`` or as a list.

    A range stays one, because it may name more nodes than fit in memory; :func:`check_nodes` finds that out.

    >>> parse_nodes("0:10:4")
    range(0, 10, 4)
    >>> parse_nodes("3,5,3")
    [3, 5]
    """
    nodes: Sequence[int] = []
    try:
        if ":" in text:
            parts = [int(part) for part in text.split(":")]
            nodes = range(*parts) if len(parts) in (2, 3) else []
        else:
            nodes = list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        nodes = []
    if not nodes or min(_extremes(nodes)) < 0:
        raise InputError(
            f"cannot read the nodes {text!r}: write start:stop:step, as in 0:1000:50, or a list, as in 3,5,8"
        )
    return nodes


def _extremes(nodes: Sequence[int]) -> tuple[int, int]:
    """Return the least and the greatest of some nodes, without walking through a range."""
    ends = (nodes[0], nodes[-1]) if isinstance(nodes, range) else nodes
    return min(ends), max(ends)


def source_of(dataset: str | None, model: str | None, data: Path | None, task: Task, model_seed: int) -> str:
    """Return the name of the graph: that of the data set, or of the file beside the user's own model."""
    if model is None and data is None:
        if task != Task():
            raise InputError("--level, --mode and --return-type tell of your own model: give --model and --data too")
        return "cora" if dataset is None else dataset
    if dataset is not None:
        raise InputError("--dataset brings its own model: leave it out, or leave out --model and --data")
    if model is None or data is None:
        missing = "--model module:function" if model is None else "--data FILE"
        raise InputError(f"--model and --data go together: give {missing} too")
    if model_seed:
        raise InputError("--model-seed is for models that are trained here: leave it out with --model")
    return data.name


def samples_of(text: str, methods: Sequence[str]) -> Samples:
    """Return how many samples to fit on: a number, or "auto" if every method that is fitted can choose by itself.

    >>> samples_of("200", ["kec"]), samples_of("auto", ["anchored-kec", "saliency"])
    (200, 'auto')
    """
    if text == "auto":
        for name in methods:
            kind = method_named(name).kind
            if issubclass(kind, FittedExplainer) and not kind.chooses_samples:
                raise InputError(f"--samples auto is for methods that choose by themselves: {name} needs a number")
        return "auto"
    try:
        count = int(text)
    except ValueError:
        raise InputError(f"--samples must be a number, or auto (got {text!r})") from None
    return check_count(count, "samples")


def neighborhoods_of(texts: Sequence[str], dataset: str, graph: Data | None = None) -> list[str]:
    """Return neighbourhoods in the paper's notation, each once; "all" is every one that makes sense on the graph."""
    if graph is None and dataset not in DATASETS:
        raise InputError(f"unknown dataset {dataset!r}: known are {', '.join(DATASETS)}")
    constant = dataset in MOTIF_DATASETS if graph is None else bool(graph.x.min() == graph.x.max())
    return expand_neighborhoods(texts, dataset, constant=constant)


def check_nodes(dataset: str, nodes: Sequence[int]) -> None:
    """Check that a data set has these nodes."""
    count = load_dataset(dataset).num_nodes
    for node in _extremes(nodes):
        check_node(node, count)


def free_path(stem: str, suffix: str) -> Path:
    """Return a free name in this folder, so that no file is overwritten that the user did not name."""
    # A name may have 255 bytes. The number and the suffix need some, and a character must not be cut in two.
    stem = os.fsencode(stem)[:200].decode(errors="ignore")
    number, path = 1, Path(stem + suffix)
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}{suffix}")
    return path


def check_numbers(test_samples: int, seed: int, model_seed: int) -> None:
    """Check numbers of samples and seeds."""
    check_count(test_samples, "test_samples")
    check_seed(seed)
    check_seed(seed + 1)
    check_seed(model_seed)
