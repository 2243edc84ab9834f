"""The body of ``graphfaith reproduce``: arguments checked, work done, tables printed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from ..datasets import DATASETS, load_dataset
from ..errors import InputError, OutputError
from .experiment import FULL, QUICK
from .experiments import EXPERIMENTS
from .results import page as make_page
from .run import reproduce

MOST_WORKERS = 8


def command(
    names: Sequence[str],
    folder: Path,
    *,
    everything: bool = False,
    quick: bool = False,
    workers: int | None = None,
    restart: bool = False,
    page: Path | None = None,
) -> None:
    """Make the named tables and figures in ``folder``, or the ``page`` of those that are there."""
    if page is not None:
        if names or everything or quick or restart:
            raise InputError("--page makes a page of the results in --out and measures nothing: name nothing else")
        make_page(folder, page)
        typer.echo(f"Page: {page}")
        return
    for name in names:
        if name not in EXPERIMENTS:
            raise InputError(f"unknown name {name!r}: known are {', '.join(EXPERIMENTS)}, and --all")
    if everything == bool(names):
        raise InputError(f"name what to reproduce ({', '.join(EXPERIMENTS)}), or say --all")
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1 (got {workers})")
    chosen = [one for name, one in EXPERIMENTS.items() if everything or name in names]
    size = QUICK if quick else FULL
    for dataset in {unit.dataset for one in chosen for unit in one.units(size)} & set(DATASETS):
        load_dataset(dataset)  # one that cannot be had is an error now
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder '{folder}': {error.strerror or error}") from error
    count = min(os.cpu_count() or 1, MOST_WORKERS) if workers is None else workers
    try:
        rows = reproduce(chosen, size, folder, workers=count, restart=restart, show=True)
    except KeyboardInterrupt:
        again = "" if not restart else " without --restart"
        typer.echo(f"What was done is kept in {folder}: the same command{again} goes on from there.", err=True)
        raise
    for one in chosen:
        typer.echo(f"\n{one.title}\n\n{one.markdown(rows[one.name])}")
    typer.echo(f"\nResults: {folder}")
