"""What a user types on the command line, read and checked before any work is done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from torch_geometric.data import Data, HeteroData

from .._base.checks import check_count, check_node, check_seed
from .._base.errors import InputError, UnsupportedError, show
from .._base.selection import extremes
from ..data import DATASETS, HETEROGENEOUS_DATASETS, MOTIF_DATASETS, load_dataset
from ..data.heterogeneous import LABELLED
from ..explainers.base import FittedExplainer, Samples
from ..explainers.methods import method_named
from ..facade.subject import expand_neighborhoods
from ..model.task import Task
from .names import DATASET


def check_without(texts: Sequence[str], methods: Sequence[str]) -> None:
    """Check the edges of ``--without`` as far as the graph need not be known."""
    for text in texts:
        if len(text.split("-")) < 2:
            raise InputError(f"--without takes an edge such as 3-42, two nodes by id or by name (got {show(text)})")
    if texts and not any(method_named(name).is_fitted for name in methods):
        raise InputError("--without needs a p that was fitted: use --method anchored-kec, kec or linear")


def find_edges(texts: Sequence[str], data: Data, *, by_id: bool = True) -> list[tuple[int, int]]:
    """Return the edges of ``--without``, each as two nodes of the graph.

    A node is written by its id, if ``by_id``, or its name. A name may have a hyphen itself, so that every hyphen may be
    the one between the nodes; it is an error if that does not leave exactly one edge of the graph.

    >>> import torch
    >>> path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3, node_names=["P-1", "T-1", "V-1"])
    >>> find_edges(["P-1-T-1", "1-2"], path)
    [(0, 1), (1, 2)]
    """
    names = data.node_names if "node_names" in data else None
    ids: dict[str, list[int]] = {}
    for node, name in enumerate(names or ()):
        ids.setdefault(str(name), []).append(node)
    edges = set(zip(*data.edge_index.cpu().tolist(), strict=True))
    return [_find_edge(text, ids, int(data.num_nodes) if by_id else 0, edges) for text in texts]


def _find_edge(text: str, ids: dict[str, list[int]], count: int, edges: set[tuple[int, int]]) -> tuple[int, int]:
    parts, found = text.split("-"), set()
    for cut in range(1, len(parts)):
        ends = ["-".join(side).strip() for side in (parts[:cut], parts[cut:])]
        # A name of digits may be the name of one node and the id of another.
        nodes = [{*ids.get(end, ()), *([int(end)] if end.isdecimal() and int(end) < count else ())} for end in ends]
        pairs = [(a, b) for a in nodes[0] for b in nodes[1]]
        found |= {(a, b) if (a, b) in edges else (b, a) for a, b in pairs if (a, b) in edges or (b, a) in edges}
    if len(found) == 1:
        return found.pop()
    if not found:
        hint = "" if count else f"; a node is written as its type and its number there, such as {next(iter(ids))}"
        raise InputError(f"--without {text}: the graph has no such edge{hint}")
    # Of a graph of several types, these numbers are in one numbering of all, which nobody but this project has.
    could = " or ".join(f"{a}-{b}" for a, b in sorted(found)[:3]) if count else f"any of {len(found)} edges"
    raise InputError(f"--without {text} could be {could}: name the nodes so that only one edge is meant")


def source_of(dataset: str | None, model: str | None, data: Path | None, task: Task, model_seed: int) -> str:
    """Return the name of the graph: that of the data set, or of the file beside the user's own model."""
    if model is None and data is None:
        if task != Task():
            raise InputError("--level, --mode and --return-type tell of your own model: give --model and --data too")
        return DATASET if dataset is None else dataset
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


def neighborhoods_of(texts: Sequence[str], dataset: str, graph: Data | HeteroData | None = None) -> list[str]:
    """Return neighbourhoods in the paper's notation, each once; "all" is every one that makes sense on the graph."""
    known = (*DATASETS, *HETEROGENEOUS_DATASETS)
    if graph is None and dataset not in known:
        raise InputError(f"unknown dataset {dataset!r}: known are {', '.join(known)}")
    if graph is None:
        constant = dataset in (*MOTIF_DATASETS, "hetero-ba-shapes")
    else:
        features = graph.collect("x", True).values() if isinstance(graph, HeteroData) else (graph.x,)
        constant = all(bool(x.min() == x.max()) for x in features)
    return expand_neighborhoods(texts, dataset, constant=constant)


def check_types(label: str, graph: Data | HeteroData | None, refused: str | None, node_type: str | None = None) -> None:
    """Check whether a command takes the graph, if it has several types, and ``--node-type``, if it has not.

    ``refused`` is why the command takes no such graphs, and what does.
    """
    typed = label in HETEROGENEOUS_DATASETS if graph is None else isinstance(graph, HeteroData)
    if typed and refused is not None:
        raise UnsupportedError(f"{label} is heterogeneous: {refused}")
    if node_type is None:
        return
    if not typed:
        raise InputError(f"--node-type is for a graph of several types, and {label} has one: leave it out")
    if graph is None:
        raise InputError("--node-type is for your own model: leave it out, or give --model and --data")
    if node_type not in graph.node_types:
        raise InputError(f"there is no node type {show(node_type)}: the graph has {', '.join(graph.node_types)}")


def check_nodes(dataset: str, nodes: Sequence[int]) -> None:
    """Check that a data set has these nodes; in one of several types they are of that which has classes."""
    data = load_dataset(dataset)
    count = len(data[LABELLED[dataset]].x) if isinstance(data, HeteroData) else data.num_nodes
    for node in extremes(nodes):
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
