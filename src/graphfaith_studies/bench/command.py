"""``graphfaith bench`` as it is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphfaith.cli.options import Json, completing

TABLES = ("ba-shapes", "cora", "citeseer", "million")


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(bench)


def bench(
    dataset: Annotated[
        list[str],
        typer.Option(
            help=f"A data set; may be repeated. By default all of {', '.join(TABLES)}.",
            autocompletion=completing(TABLES),
        ),
    ] = [],  # noqa: B006
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure every figure in two minutes, on fewer nodes.")
    ] = False,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Show the time of each stage of all our work, not only where bars are missed."),
    ] = False,
    growth: Annotated[
        bool, typer.Option("--growth", help="Instead, measure how time and memory grow with each size.")
    ] = False,
    threads: Annotated[
        bool, typer.Option("--threads", help="Instead, compare two threads with two processes.")
    ] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Measure all of it in one run: the figures, --profile, --growth and --threads."),
    ] = False,
    figure_file: Annotated[
        Path | None, typer.Option("--figure", help="Draw the curves of --growth into this file (.png, .pdf or .svg).")
    ] = None,
    json_file: Json = None,
    from_file: Annotated[
        Path | None, typer.Option("--from", help="Measure nothing; show what an earlier run has written by --json.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables as Markdown.")] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="Also write the tables into this page (.md), between its marks.")
    ] = None,
) -> None:
    """Time every method of graphfaith and its peers in turns, and compare the ratios with their bars.

    \b
    Examples:
      graphfaith bench --quick --json bench.json
      graphfaith bench --growth --figure growth.png
      graphfaith bench --all --json bench.json
      graphfaith bench --from bench.json --page docs/speed.md
    """
    from rich.console import Console

    from .session import run_bench  # It loads torch, which --help does not need.

    options = {"quick": quick, "profile": profile, "growth": growth, "threads": threads, "everything": everything}
    options["markdown"] = markdown
    run_bench(
        Console(),
        dataset,
        **options,
        figure=figure_file,
        json_file=json_file,
        from_file=from_file,
        page=page,
    )
