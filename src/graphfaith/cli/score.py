"""``graphfaith score``: compare methods on many nodes of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from .._base.files import check_output
from .._base.progress import track
from .._base.selection import parse_nodes
from ..data import MOTIF_DATASETS
from ..data.models import Trained
from ..explainers.base import Samples
from ..explainers.methods import expand_methods
from ..facade import Comparison, compare
from ..model.task import Task
from ..view.report import write_json
from .arguments import check_nodes, check_numbers, neighborhoods_of, samples_of
from .options import Dataset, FitSamples, Json, Methods, ModelSeed, Neighborhoods, Seed, TestSamples
from .source import train

PAPER_NODES = {
    "ba-shapes": "400:700:5",
    "tree-cycles": "511:871:6",
    "tree-grid": "511:1231:12",
    "cora": "0:1000:5",
    "citeseer": "0:1000:5",
    # The paper has no nodes for the following ones.
    "texas": "0:183:5",
    "cornell": "0:183:5",
    "wisconsin": "0:251:5",
    "actor": "0:1000:20",
    "minesweeper": "0:1000:20",
}


def score(
    dataset: Dataset = "ba-shapes",
    nodes: Annotated[
        str | None, typer.Option(help="start:stop:step, or a list such as 3,5,8; if left out, the nodes of the paper.")
    ] = None,
    method: Methods = ["all"],  # noqa: B006
    neighborhood: Neighborhoods = ["U(A,0.5)"],  # noqa: B006
    samples: FitSamples = "200",
    test_samples: TestSamples = 500,
    seed: Seed = 0,
    model_seed: ModelSeed = 0,
    json_file: Json = None,
) -> None:
    """Score methods on nodes: print Delta(p) with its error bar over nodes, relative Delta, and seconds per node.

    \b
    Example:
      graphfaith score --dataset cora --nodes 0:1000:50 --method kec --method saliency --neighborhood all
    """
    methods, near = expand_methods(method), neighborhoods_of(neighborhood, dataset)
    count = samples_of(samples, methods)
    check_numbers(test_samples, seed, model_seed)
    chosen = parse_nodes(PAPER_NODES[dataset] if nodes is None else nodes)
    path = None if json_file is None else check_output(json_file, (".json",))
    check_nodes(dataset, chosen)
    fit = train(dataset, model_seed)
    rows = compare_methods(fit, list(chosen), methods, near, count, test_samples, seed)
    if path is not None:  # Whoever reads the output may stop reading at any time, so the file is written first.
        write_json(path, [row.as_json() for row in rows])
    Console().print(rows)
    if path is not None:
        typer.echo(f"\nRows: {json_file}")


def compare_methods(
    fit: Trained,
    nodes: Sequence[int],
    methods: Sequence[str],
    near: Sequence[str],
    samples: Samples = 200,
    test_samples: int = 500,
    seed: int = 0,
) -> Comparison:
    """Compare methods on nodes of a data set, and show a progress bar."""
    return compare(
        fit.model,
        fit.data,
        nodes,
        methods=methods,
        neighborhoods=near,
        samples=samples,
        test_samples=test_samples,
        seed=seed,
        mode=Task.mode,
        return_type=Task.return_type,
        dataset=fit.name,
        model_seed=fit.seed,
        train_jointly=fit.name in MOTIF_DATASETS,
        progress=lambda items: track(list(items), "explaining", "nodes", show=True),
    )
