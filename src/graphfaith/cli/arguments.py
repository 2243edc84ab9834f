"""What a user types, read and checked before any work: nodes, methods, neighbourhoods, and what to explain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch_geometric.data import Data

from .._base.checks import check_count, check_node, check_seed
from .._base.errors import InputError
from ..compare import ALL_METHODS, FITTED, METHODS, Samples
from ..data import DATASETS, MOTIF_DATASETS, load_dataset
from ..model.task import Task
from ..sampling.neighborhood import Neighborhood, parse_neighborhood

EDGE_NEIGHBORHOODS = ("U(A,0.2)", "U(A,0.5)", "B(A,0.2)", "B(A,0.5)")
FEATURE_NEIGHBORHOODS = ("U(X,0.2r)", "U(X,0.2r)xU(A,0.2)", "U(X,0.5r)xU(A,0.5)")


def parse_nodes(text: str) -> list[int]:
    """Nodes written as ``start:stop:step`` or as a list.

    >>> parse_nodes("0:10:4")
    [0, 4, 8]
    >>> parse_nodes("3,5,3")
    [3, 5]
    """
    try:
        if ":" in text:
            parts = [int(part) for part in text.split(":")]
            found = list(range(*parts)) if len(parts) in (2, 3) else []
        else:
            found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise InputError(
            f"cannot read the nodes {text!r}: write start:stop:step, as in 0:1000:50, or a list, as in 3,5,8"
        )
    return list(dict.fromkeys(found))


def source_of(dataset: str | None, model: str | None, data: Path | None, task: Task, model_seed: int) -> str:
    """What the graph is called: the data set, or the file beside the user's own model."""
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
    """How many samples to fit on: a number, or "auto" if every one of ``methods`` that is fitted knows when to stop.

    >>> samples_of("200", ["kec"]), samples_of("auto", ["anchored-kec", "saliency"])
    (200, 'auto')
    """
    if text == "auto":
        others = [name for name in FITTED if name in methods and name != "anchored-kec"]
        if others:
            raise InputError(f"--samples auto is for anchored-kec: {others[0]} needs a number")
        return "auto"
    try:
        count = int(text)
    except ValueError:
        raise InputError(f"--samples must be a number, or auto (got {text!r})") from None
    return check_count(count, "samples")


def methods_of(names: Sequence[str]) -> list[str]:
    """Names of methods, each once; "all" is every one but subgraphx, and whatever is named beside it."""
    named = [name for name in names if name != "all"]
    chosen = list(dict.fromkeys([*ALL_METHODS, *named] if "all" in names else named))
    for name in chosen:
        if name not in METHODS:
            raise InputError(f"unknown method {name!r}: known are {', '.join(METHODS)}, and all")
    return chosen


def neighborhoods_of(texts: Sequence[str], dataset: str, graph: Data | None = None) -> list[str]:
    """Neighbourhoods in the paper's notation, each once; "all" is every one that makes sense on the graph."""
    if graph is None and dataset not in DATASETS:
        raise InputError(f"unknown dataset {dataset!r}: known are {', '.join(DATASETS)}")
    # Where the features are all ones, there is no range to perturb them in.
    constant = dataset in MOTIF_DATASETS if graph is None else bool(graph.x.min() == graph.x.max())
    if "all" in texts:
        return list(
            EDGE_NEIGHBORHOODS
            if constant
            else FEATURE_NEIGHBORHOODS[:1] + EDGE_NEIGHBORHOODS + FEATURE_NEIGHBORHOODS[1:]
        )
    near: list[Neighborhood] = [parse_neighborhood(text) for text in texts]
    for one in near:
        if constant and one.perturbs_features:
            raise InputError(
                f"{one}: the features of {dataset} are constant; use a neighbourhood of edges, as U(A,0.5)"
            )
    return list(dict.fromkeys(str(one) for one in near))


def check_nodes(dataset: str, nodes: Sequence[int]) -> None:
    """See that a data set has these nodes."""
    count = load_dataset(dataset).num_nodes
    for node in nodes:
        check_node(node, count)


def free_path(stem: str, suffix: str) -> Path:
    """A name in this folder that is not taken: nothing is overwritten that the user did not name."""
    number, path = 1, Path(stem + suffix)
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}{suffix}")
    return path


def check_numbers(test_samples: int, seed: int, model_seed: int) -> None:
    """See that numbers of samples and seeds can be such."""
    check_count(test_samples, "test_samples")
    check_seed(seed)
    check_seed(seed + 1)
    check_seed(model_seed)
