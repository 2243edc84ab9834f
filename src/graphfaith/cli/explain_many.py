"""``graphfaith explain-many``: explain as many nodes as there are, into a folder of Parquet files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._base.errors import InputError
from . import names
from .notes import one_line_each, say
from .options import (
    AnyDataset,
    DeviceName,
    Edges,
    FitSamples,
    MaxMemory,
    ModelSeed,
    NumHops,
    OwnModel,
    completing,
)

if TYPE_CHECKING:
    from ..many.explain import Summary


def explain_many(
    out: Annotated[Path, typer.Option(help="Folder of the run. One that was begun with these settings goes on.")],
    nodes: Annotated[
        str,
        typer.Option(help="all, start:stop:step, a list such as 3,5,8, or a FILE: one id a line, .npy or .parquet."),
    ] = "all",
    dataset: AnyDataset = None,
    graph: Annotated[
        Path | None,
        typer.Option(
            "--data",
            "--graph",
            help="The graph for your model: a packed folder, or a file (.pt, .safetensors, .npz).",
        ),
    ] = None,
    model: OwnModel = None,
    method: Annotated[
        str,
        typer.Option(
            help="The method; graphfaith explain --help lists them.", autocompletion=completing(names.METHODS)
        ),
    ] = names.METHOD,
    neighborhood: Annotated[
        str,
        typer.Option(help="E.g. U(A,0.5), B(A,0.5), R(A,5).", autocompletion=completing(names.NEIGHBORHOODS[:-1])),
    ] = names.NEIGHBORHOOD,
    samples: FitSamples = "200",
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0,
    top_edges: Annotated[int, typer.Option(help="How many edges of each explanation are kept.")] = 50,
    top_features: Annotated[int, typer.Option(help="How many features of each explanation are kept.")] = 20,
    target: Annotated[str, typer.Option(help="The class that is explained: predicted, or labels.")] = "predicted",
    mode: Annotated[str | None, typer.Option(help="The task of your model; found out if left out.")] = None,
    return_type: Annotated[str | None, typer.Option(help="What it returns: raw, probs or log_probs.")] = None,
    num_hops: NumHops = None,
    edges: Edges = "auto",
    max_memory: MaxMemory = None,
    device: DeviceName = None,
    model_seed: ModelSeed = 0,
    engine: Annotated[
        str,
        typer.Option(help=f"Where it runs: {' or '.join(names.ENGINES)}.", autocompletion=completing(names.ENGINES)),
    ] = names.ENGINES[0],
    address: Annotated[str | None, typer.Option(help="Of the Ray cluster, e.g. auto; a Ray of its own else.")] = None,
    workers: Annotated[int, typer.Option(help="How many blocks are explained at once.")] = 2,
    block: Annotated[int, typer.Option(help="How many nodes are explained together, and are one file.")] = 2000,
    progress: Annotated[
        bool | None,
        typer.Option("--progress/--no-progress", help="Show a bar, or, without a terminal, a line a minute."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="First read all files of a packed graph and compare their digests.")
    ] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Do blocks with failed rows again.")] = False,
) -> None:
    """Explain many nodes: one row each, in Parquet files. A run that was stopped or killed goes on where it was.

    \b
    Examples:
      graphfaith explain-many --dataset cora --out run/
      graphfaith explain-many --data packed/ --model mymodule:load --nodes flagged.txt --out run/ --workers 8
      graphfaith explain-many --data packed/ --model mymodule:load --out run/ --engine ray --address auto
    """
    # Loading these takes seconds, which --help does not need.
    from ..many.explain import explain_many as explain_into
    from ..many.extra import import_extra
    from ..many.job import ManyJob
    from ..model.call import check_edges
    from .arguments import check_types, samples_of

    import_extra("pyarrow")  # before a data set is downloaded, or a model trained
    source = _graph_of(dataset, graph, model, model_seed)
    if graph is None:
        check_types(source, None, "explain-many takes graphs of one type; graphfaith explain takes a node of it")
    job = ManyJob(
        graph=source,
        model=model,
        method=method,
        neighborhood=neighborhood,
        samples=samples_of(samples, [method]),
        seed=seed,
        top_edges=top_edges,
        top_features=top_features,
        target=target,  # type: ignore[arg-type]  # ManyJob checks it.
        mode=mode,
        return_type=return_type,
        num_hops=num_hops,
        edges=check_edges(edges),
        max_memory=max_memory,
        device=device,
        model_seed=model_seed,
    )
    if verify:
        job.verify()
    with one_line_each():
        summary = explain_into(
            job,
            nodes,
            out,
            engine=engine,
            workers=workers,
            block=block,
            address=address,
            progress=progress,
            retry_failed=retry_failed,
        )
    _tell(summary)
    if summary.failed == summary.rows:
        raise typer.Exit(1)


def _graph_of(dataset: str | None, graph: Path | None, model: str | None, model_seed: int) -> str:
    """Return the name of a data set or of the user's own graph; exactly one of them is meant."""
    if graph is None:
        if model is not None:
            raise InputError("--model and --data go together: give --data FOLDER too")
        return names.DATASET if dataset is None else dataset
    if dataset is not None:
        raise InputError("--dataset brings its own model: leave it out, or leave out --model and --data")
    if model is None:
        raise InputError("--model and --data go together: give --model module:function too")
    if model_seed:
        raise InputError("--model-seed is for models that are trained here: leave it out with --model")
    # A file that has the name of a data set is meant as a file here.
    return os.path.abspath(graph) if str(graph) in names.DATASETS else os.fspath(graph)


def _tell(summary: Summary) -> None:
    for path in summary.aside:
        say(f"note: {path.name} was no part of this run and is in '{path.parent}' now")
    if summary.failed:
        rows = "1 row has" if summary.failed == 1 else f"{summary.failed:,} rows have"
        say(f"note: {rows} the status 'failed', and an error that says why (see --retry-failed)")
    typer.echo(f"{summary}\nRows: {summary.folder / 'explanations'}")
