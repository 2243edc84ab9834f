"""What ``graphfaith reproduce`` does: check the arguments, run the experiments, and print the tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from graphfaith._base.checks import check_count
from graphfaith._base.errors import InputError
from graphfaith._base.files import make_folder
from graphfaith._base.workers import POSSIBLE_WORKERS
from graphfaith.data import DATASETS, load_dataset

from ..arena.arena import Arena
from ..arena.kept import Kept
from ..arena.page import make_page as make_arena_page
from .experiment import FULL, QUICK, Experiment
from .experiments import EXPERIMENTS
from .results import page as make_page
from .run import reproduce as reproduce_all

ARENA, KEPT = Arena(), Kept()
MOST_WORKERS = 8  # that are started unless the user asks for more


def run_reproduce(
    names: Sequence[str],
    folder: Path,
    *,
    everything: bool = False,
    quick: bool = False,
    workers: int | None = None,
    restart: bool = False,
    page: Path | None = None,
) -> None:
    """Make the named tables and figures in ``folder``, or write a ``page`` of those that the folder contains."""
    if page is not None:
        if list(names) not in ([], [ARENA.name]) or everything or quick or restart:
            raise InputError(
                "--page makes a page of the results in --out and measures nothing: use it only with --out, and with "
                "arena for the page of the arena"
            )
        (make_arena_page if names else make_page)(folder, page)
        typer.echo(f"Page: {page}")
        return
    # The arena is not of the paper, nor of --all.
    known: dict[str, Experiment] = {**EXPERIMENTS, ARENA.name: ARENA, KEPT.name: KEPT}
    for name in names:
        if name not in known:
            raise InputError(f"unknown name {name!r}: known are {', '.join(known)}, and --all")
    if everything == bool(names):
        raise InputError(f"name what to reproduce ({', '.join(known)}), or use --all")
    if workers is not None:
        check_count(workers, "--workers", most=POSSIBLE_WORKERS)
    chosen = [one for name, one in known.items() if name in names or (everything and name in EXPERIMENTS)]
    size = QUICK if quick else FULL
    for experiment in chosen:
        experiment.check()
    for dataset in {unit.dataset for experiment in chosen for unit in experiment.units(size)} & set(DATASETS):
        load_dataset(dataset)  # A data set that cannot be loaded is reported before any work.
    make_folder(folder)
    count = min(os.cpu_count() or 1, MOST_WORKERS) if workers is None else workers
    try:
        rows = reproduce_all(chosen, size, folder, workers=count, restart=restart, show=True)
    except KeyboardInterrupt:
        again = "" if not restart else " without --restart"
        typer.echo(f"Finished work is kept in {folder}: run the same command{again} to continue.", err=True)
        raise
    for experiment in chosen:
        typer.echo(f"\n{experiment.title}\n\n{experiment.to_markdown(rows[experiment.name])}")
    typer.echo(f"\nResults: {folder}")
