"""``graphfaith score``: compare methods on many nodes of a data set, or of the user's own graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from .._base.errors import InputError
from .._base.files import check_output
from .._base.progress import track
from .._base.selection import extremes, parse_nodes
from . import names
from .options import (
    AnyGraph,
    DeviceName,
    Edges,
    FitSamples,
    Json,
    Level,
    MaxMemory,
    Methods,
    Mode,
    ModelSeed,
    Neighborhoods,
    NodeType,
    NumHops,
    OwnData,
    OwnModel,
    ReturnType,
    Seed,
    TestSamples,
)

if TYPE_CHECKING:
    from ..explainers.base import Samples
    from ..facade import Comparison, Subject, TypedSubject

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
    "hetero-ba-shapes": "155:355:10",
    "cora-bibliography": "0:1000:20",
}


def score(
    dataset: AnyGraph = None,
    model: OwnModel = None,
    data: OwnData = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="start:stop:step, or a list such as 3,5,8; if left out, the paper's nodes of a data set (your graph "
            "needs them)."
        ),
    ] = None,
    method: Methods = ["all"],  # noqa: B006
    neighborhood: Neighborhoods = [names.NEIGHBORHOOD],  # noqa: B006
    node_type: NodeType = None,
    level: Level = "node",
    mode: Mode = names.MODES[0],
    return_type: ReturnType = names.RETURN_TYPES[0],
    num_hops: NumHops = None,
    edges: Edges = "auto",
    max_memory: MaxMemory = None,
    samples: FitSamples = "200",
    test_samples: TestSamples = 500,
    seed: Seed = 0,
    model_seed: ModelSeed = 0,
    device: DeviceName = None,
    json_file: Json = None,
) -> None:
    """Score methods on nodes: print Delta(p) with its error bar over nodes, relative Delta, and seconds per node.

    \b
    Examples:
      graphfaith score --nodes 400:700:50
      graphfaith score --dataset cora --nodes 0:1000:50 --method kec --method saliency --neighborhood all
      graphfaith score --model mymodule:load --data graph.pt --nodes 0:50 --json rows.json
    """
    # Loading these takes seconds, which --help does not need.
    from rich.console import Console

    from ..explainers.methods import expand_methods
    from ..model.task import Task
    from ..view.report import write_json
    from .arguments import check_nodes
    from .source import read_request, select_supported

    task, options, source = Task(mode, return_type, level), (num_hops, edges, max_memory), (dataset, model, data)
    methods = expand_methods(method)
    seeds = seed, model_seed
    asked = read_request(
        source, task, options, methods, neighborhood, samples, test_samples, seeds, device, None, node_type
    )
    if nodes is None and model is not None:
        raise InputError("--nodes says which rows of your model's output to explain: give it, as in --nodes 0:50")
    chosen = parse_nodes(PAPER_NODES[asked.label] if nodes is None else nodes)
    path = None if json_file is None else check_output(json_file, (".json",))
    if asked.graph is None:
        check_nodes(asked.label, chosen)
    subject = asked.open_any(chosen[0])
    if asked.graph is not None:
        for node in extremes(chosen):
            subject.target(node)  # A row that the output does not have is an error before any work.
        if "all" in method:
            methods = select_supported(subject, methods)
    nodes_of, near = list(chosen), asked.near
    rows = compare_methods(subject, asked.label, nodes_of, methods, near, asked.samples, test_samples, *seeds)
    if path is not None:  # Whoever reads the output may stop reading at any time, so the file is written first.
        write_json(path, [row.as_json() for row in rows])
    Console().print(rows)
    if path is not None:
        typer.echo(f"\nRows: {json_file}")


def compare_methods(
    subject: Subject | TypedSubject,
    label: str,
    nodes: Sequence[int],
    methods: Sequence[str],
    near: Sequence[str],
    samples: Samples = 200,
    test_samples: int = 500,
    seed: int = 0,
    model_seed: int = 0,
) -> Comparison:
    """Compare methods on nodes of a model's graph, and show a progress bar."""
    from ..data import MOTIF_DATASETS
    from ..facade import Subject
    from ..facade.comparison import compare_on

    # There the paper trains PGExplainer on all nodes together.
    if label in MOTIF_DATASETS and isinstance(subject, Subject):
        subject = replace(subject, together=tuple(nodes))
    return compare_on(
        subject,
        nodes,
        methods,
        [subject.near(text) for text in near],
        samples=samples,
        test_samples=test_samples,
        seed=seed,
        dataset=label,
        model_seed=model_seed,
        progress=lambda items: track(list(items), "explaining", "nodes", show=True),
    )
