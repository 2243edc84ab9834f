"""``graphfaith judge``: judge explainers, anybody's, by every figure of merit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._base.checks import check_count, check_seed
from .._base.errors import InputError
from .._base.files import check_output
from .._base.progress import track
from .._base.selection import parse_nodes
from . import names
from .options import (
    AnyDataset,
    DeviceName,
    Edges,
    FitSamples,
    Json,
    Level,
    MaxMemory,
    Mode,
    Neighborhoods,
    NumHops,
    OwnData,
    OwnModel,
    ReturnType,
    Seed,
    TestSamples,
    completing,
)

if TYPE_CHECKING:
    from ..sampling.restricted import Top

_METHOD_HELP = (
    f"A method of this library, or one of {', '.join(names.PEERS)}. May be repeated; if left out, ten of them."
)


def judge(
    nodes: Annotated[
        str, typer.Option(help="start:stop:step, or a list such as 3,5,8: rows of the output to explain.")
    ],
    dataset: AnyDataset = None,
    model: OwnModel = None,
    data: OwnData = None,
    method: Annotated[
        list[str],
        typer.Option("--method", help=_METHOD_HELP, autocompletion=completing((*names.METHODS, *names.PEERS))),
    ] = list(names.JUDGED),  # noqa: B006
    measure: Annotated[
        list[str],
        typer.Option(
            "--measure",
            help=f"One of {', '.join(names.MEASURES)}, or 'all'. May be repeated.",
            autocompletion=completing((*names.MEASURES, "all")),
        ),
    ] = ["all"],  # noqa: B006
    neighborhood: Neighborhoods = list(names.JUDGED_IN),  # noqa: B006
    top: Annotated[str, typer.Option(help="How many edges are inside: a number, or a share such as 0.2.")] = "0.2",
    by: Annotated[str | None, typer.Option(help="Which are inside: of the largest score, or magnitude.")] = None,
    part: Annotated[list[str], typer.Option(help="What is removed: edges or features; may be repeated.")] = ["edges"],  # noqa: B006
    level: Level = "node",
    mode: Mode = names.MODES[0],
    return_type: ReturnType = names.RETURN_TYPES[0],
    num_hops: NumHops = None,
    edges: Edges = "auto",
    max_memory: MaxMemory = None,
    device: DeviceName = None,
    samples: FitSamples = "200",
    test_samples: TestSamples = 500,
    draws: Annotated[int, typer.Option(help="How many samples robust fidelity, sufficiency and necessity take.")] = 100,
    repeats: Annotated[int, typer.Option(help="How many noisy inputs are explained again for stability.")] = 3,
    alpha1: Annotated[float, typer.Option(help="Robust fidelity+: the share of edges inside that go.")] = 0.1,
    alpha2: Annotated[float, typer.Option(help="Robust fidelity-: the share of edges outside that stay.")] = 0.9,
    truth_file: Annotated[
        Path | None,
        typer.Option(
            "--truth",
            help="What is known to matter: a .pt, .safetensors or .npz file with 'edges' [E] or 'nodes' [N]. If left "
            "out, edge_label of the graph.",
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Also print each method less this one, on the same predictions.")
    ] = None,
    seed: Seed = 0,
    model_seed: Annotated[
        list[int], typer.Option(help="Seed of the training of the model; may be repeated, and all are pooled.")
    ] = [0],  # noqa: B006
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
      graphfaith judge --dataset ba-shapes --nodes 400:700:60 --measure roc-auc --model-seed 0 --model-seed 1
      graphfaith judge --model mymodule:load --data graph.pt --nodes 0:50 --truth truth.npz --against kec
    """
    # Loading these takes seconds, which --help does not need.
    from rich.console import Console

    from ..judging import judge as judge_all
    from ..judging.entrants import make_entrants
    from ..judging.measures import expand_measures
    from ..judging.peers import PEERS
    from ..metric.question import check_share
    from ..model.task import Task
    from ..sampling.restricted import check_by
    from .arguments import check_nodes
    from .source import read_request
    from .truth import read_truth_file, truth_in

    task, options, source = Task(mode, return_type, level), (num_hops, edges, max_memory), (dataset, model, data)
    entrants = make_entrants(method, PEERS)
    expand_measures(measure)
    own = [entrant.name for entrant in entrants if entrant.is_fitted]
    inside = _top_of(top)
    for one in part:
        if one not in ("edges", "features"):
            raise InputError(f"--part must be edges or features (got {one!r})")
    if len(set(model_seed)) != len(model_seed):
        raise InputError(f"--model-seed has a seed twice (got {', '.join(map(str, model_seed))})")
    known = [*(entrant.name for entrant in entrants), "random", "zero"]
    if against is not None and against not in known:
        raise InputError(f"--against must be one of the methods that are judged: {', '.join(known)} (got {against!r})")
    for count, name in ((draws, "--draws"), (repeats, "--repeats")):
        check_count(count, name)
    for share, name in ((alpha1, "--alpha1"), (alpha2, "--alpha2")):
        check_share(share, name)
    for number in model_seed:
        check_seed(number)
    truth = None if truth_file is None else read_truth_file(truth_file)
    seeds = seed, max(model_seed)
    typed = "judge takes graphs of one type; graphfaith score compares the methods of this library on it"
    asked = read_request(source, task, options, own, neighborhood, samples, test_samples, seeds, device, typed)
    chosen = list(parse_nodes(nodes))
    for path, suffix in ((json_file, ".json"), (page_file, ".html")):
        if path is not None:
            check_output(path, (suffix,))
    if asked.graph is None:
        check_nodes(asked.label, chosen)
    subjects = [replace(asked, model_seed=one).open(chosen[0]) for one in model_seed]
    subject = subjects[0]
    verdict = judge_all(
        [one.model for one in subjects],
        subject.data,
        [entrant.name for entrant in entrants],
        chosen,
        measure,
        neighborhoods=asked.near,
        parts=part,  # type: ignore[arg-type]  # they are checked above
        top=inside,
        by=None if by is None else check_by(by),
        samples=asked.samples,
        test_samples=test_samples,
        truth=truth_in(subject.data) if truth is None else truth,
        draws=draws,
        repeats=repeats,
        alpha1=alpha1,
        alpha2=alpha2,
        seed=seed,
        level=level,
        mode=mode,
        return_type=return_type,
        num_hops=num_hops,
        edges=asked.options.edges,
        max_memory=max_memory,
        dataset=asked.label,
        progress=lambda items: track(list(items), "judging", "nodes", show=True),
    )
    # Whoever reads the output may stop reading at any time, so the files are written first.
    if json_file is not None:
        verdict.to_json(json_file)
    if page_file is not None:
        verdict.page(page_file, against=against)
    console = Console(width=150)
    console.print(verdict)
    if against is not None:
        console.print(verdict.against(against))
    for what, path in (("Rows", json_file), ("Page", page_file)):
        if path is not None:
            typer.echo(f"{what}: {path}")


def _top_of(text: str) -> Top:
    """Return how many entries are inside: a whole number, or a share.

    >>> _top_of("10"), _top_of("0.2")
    (10, 0.2)
    """
    from ..sampling.restricted import check_top

    try:
        return check_top(int(text) if text.strip().isdecimal() else float(text))
    except ValueError:
        raise InputError(f"--top must be a number of edges, or a share such as 0.2 (got {text!r})") from None
