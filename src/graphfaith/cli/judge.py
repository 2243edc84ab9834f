"""``graphfaith judge``: judge explainers, anybody's, by every figure of merit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .._base.errors import InputError
from .._base.files import check_output
from .._base.progress import track
from .._base.selection import parse_nodes
from ..data.graph_file import read_graph
from ..facade import Options
from ..judging import judge as judge_all
from ..judging.entrants import make_entrants
from ..judging.hearing import METHODS, NEIGHBORHOODS
from ..judging.measures import MEASURES, expand_measures
from ..judging.peers import PEERS
from ..model.call import check_edges
from ..model.task import Task
from ..sampling.restricted import Top, check_by, check_top
from .arguments import check_nodes, check_numbers, neighborhoods_of, samples_of, source_of
from .options import (
    AnyDataset,
    Edges,
    FitSamples,
    Json,
    Level,
    MaxMemory,
    Mode,
    ModelSeed,
    Neighborhoods,
    NumHops,
    OwnData,
    OwnModel,
    ReturnType,
    Seed,
    TestSamples,
)
from .source import open_subject

_METHOD_HELP = f"A method of this library, or one of {', '.join(PEERS)}. May be repeated; if left out, ten of them."


def judge(
    nodes: Annotated[
        str, typer.Option(help="start:stop:step, or a list such as 3,5,8: rows of the output to explain.")
    ],
    dataset: AnyDataset = None,
    model: OwnModel = None,
    data: OwnData = None,
    method: Annotated[list[str], typer.Option("--method", help=_METHOD_HELP)] = list(METHODS),  # noqa: B006
    measure: Annotated[
        list[str], typer.Option("--measure", help=f"One of {', '.join(MEASURES)}, or 'all'. May be repeated.")
    ] = ["all"],  # noqa: B006
    neighborhood: Neighborhoods = list(NEIGHBORHOODS),  # noqa: B006
    top: Annotated[str, typer.Option(help="How many edges are inside: a number, or a share such as 0.2.")] = "0.2",
    by: Annotated[str | None, typer.Option(help="Which are inside: of the largest score, or magnitude.")] = None,
    part: Annotated[list[str], typer.Option(help="What is removed: edges or features; may be repeated.")] = ["edges"],  # noqa: B006
    level: Level = "node",
    mode: Mode = Task.mode,
    return_type: ReturnType = Task.return_type,
    num_hops: NumHops = None,
    edges: Edges = "auto",
    max_memory: MaxMemory = None,
    samples: FitSamples = "200",
    test_samples: TestSamples = 500,
    seed: Seed = 0,
    model_seed: ModelSeed = 0,
    json_file: Json = None,
    page_file: Annotated[
        Path | None, typer.Option("--page", help="Also write a page with bars and ranks (.html).")
    ] = None,
) -> None:
    """Judge explainers on the same predictions: print every figure of merit with its error bar.

    \b
    Examples:
      graphfaith judge --dataset cora --nodes 0:1000:50 --json rows.json --page judged.html
      graphfaith judge --dataset cora --nodes 3,5,8 --method kec --method captum-ig --measure delta
      graphfaith judge --model mymodule:load --data graph.pt --nodes 0:50
    """
    task, options = Task(mode, return_type, level), Options(num_hops, check_edges(edges), max_memory)
    label = source_of(dataset, model, data, task, model_seed)
    entrants = make_entrants(method, PEERS)
    expand_measures(measure)
    own = [entrant.name for entrant in entrants if entrant.is_fitted]
    count = samples_of(samples, own)
    check_numbers(test_samples, seed, model_seed)
    inside = _top_of(top)
    for one in part:
        if one not in ("edges", "features"):
            raise InputError(f"--part must be edges or features (got {one!r})")
    graph = None if data is None else read_graph(data)
    near = neighborhoods_of(neighborhood, label, graph)
    chosen = list(parse_nodes(nodes))
    for path, suffix in ((json_file, ".json"), (page_file, ".html")):
        if path is not None:
            check_output(path, (suffix,))
    if graph is None:
        check_nodes(label, chosen)
    subject = open_subject(label, model, graph, chosen[0], task, options, model_seed)
    verdict = judge_all(
        subject.model,
        subject.data,
        [entrant.name for entrant in entrants],
        chosen,
        measure,
        neighborhoods=near,
        parts=part,  # type: ignore[arg-type]  # they are checked above
        top=inside,
        by=None if by is None else check_by(by),
        samples=count,
        test_samples=test_samples,
        seed=seed,
        level=level,
        mode=mode,
        return_type=return_type,
        num_hops=num_hops,
        edges=check_edges(edges),
        max_memory=max_memory,
        dataset=label,
        progress=lambda items: track(list(items), "judging", "nodes", show=True),
    )
    # Whoever reads the output may stop reading at any time, so the files are written first.
    if json_file is not None:
        verdict.to_json(json_file)
    if page_file is not None:
        verdict.page(page_file)
    Console(width=150).print(verdict)
    for what, path in (("Rows", json_file), ("Page", page_file)):
        if path is not None:
            typer.echo(f"{what}: {path}")


def _top_of(text: str) -> Top:
    """Return how many entries are inside: a whole number, or a share.

    >>> _top_of("10"), _top_of("0.2")
    (10, 0.2)
    """
    try:
        return check_top(int(text) if text.strip().isdecimal() else float(text))
    except ValueError:
        raise InputError(f"--top must be a number of edges, or a share such as 0.2 (got {text!r})") from None
