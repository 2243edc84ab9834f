"""``graphfaith reproduce`` as it is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphfaith.cli.options import completing

ARENA = "arena"
# The names of the experiments, which a test compares with what there is.
NAMES = (
    *("table1", "table2", "table3", "efficiency", "parameters", "temperature", "samples", "illustration"),
    *("propositions", "levels", ARENA, "kept"),
)


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(reproduce)


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help=f"Any of {', '.join(NAMES)}.", autocompletion=completing(NAMES))
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Reproduce all of the paper.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Use a tenth of the nodes.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the results. By default results/paper, with --quick results/quick."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of processes. By default one per core, at most 8.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Measure again what was already measured.")] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="Instead, write a page of the results in --out to this .md file.")
    ] = None,
) -> None:
    """Reproduce tables and figures of the paper, with its values next to ours. An interrupted run continues.

    The arena is not of the paper: it is every explainer by every measure on data that others have made.

    \b
    Examples:
      graphfaith reproduce table1 --quick
      graphfaith reproduce --all --out results/paper
      graphfaith reproduce --page results/paper.md --out results/paper
      graphfaith reproduce arena --quick
      graphfaith reproduce arena --page results/arena.md --out results/arena
    """
    from .request import run_reproduce  # It loads torch, which --help does not need.

    arena = names == [ARENA]
    usual = ("arena-quick" if quick else "arena") if arena else ("quick" if quick else "paper")
    folder = folder or Path("results") / usual
    options = {"everything": everything, "quick": quick, "restart": restart}
    run_reproduce(names or [], folder, **options, workers=workers, page=page)
