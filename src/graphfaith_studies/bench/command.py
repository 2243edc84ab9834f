"""``graphfaith bench``: check the arguments, run the bench, and print and write the results."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from graphfaith._base.errors import InputError
from graphfaith._base.files import check_output, write_file
from graphfaith.cli.options import Json
from graphfaith.data import load_dataset

from . import growth as sweep
from . import plan as plans
from .contenders import check_peers
from .machine import machine
from .picture import draw
from .profile import profile_of_all, profiles
from .run import TABLES, cases_for, run
from .tables import print_growth, print_run, print_threads
from .threads import threads as compare_threads


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(bench)


def bench(
    dataset: Annotated[
        list[str], typer.Option(help=f"A data set; may be repeated. By default all of {', '.join(TABLES)}.")
    ] = [],  # noqa: B006
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure every figure in two minutes, on fewer nodes.")
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Also show the time of each stage of KEC.")] = False,
    growth: Annotated[
        bool, typer.Option("--growth", help="Instead, measure how time and memory grow with each size.")
    ] = False,
    threads: Annotated[
        bool, typer.Option("--threads", help="Instead, compare two threads with two processes.")
    ] = False,
    figure_file: Annotated[
        Path | None, typer.Option("--figure", help="Draw the curves of --growth into this file (.png, .pdf or .svg).")
    ] = None,
    json_file: Json = None,
) -> None:
    """Time every method of graphfaith and its peers in turns, and compare the ratios with their bars.

    \b
    Examples:
      graphfaith bench --quick --json bench.json
      graphfaith bench --growth --figure growth.png
    """
    options = {"quick": quick, "profile": profile, "growth": growth, "threads": threads}
    run_bench(Console(), dataset, **options, figure=figure_file, json_file=json_file)


def run_bench(
    console: Console,
    datasets: Sequence[str],
    *,
    quick: bool = False,
    profile: bool = False,
    growth: bool = False,
    threads: bool = False,
    figure: Path | None = None,
    json_file: Path | None = None,
) -> None:
    """Run the comparison, or instead the measurements that ``growth`` and ``threads`` select."""
    names = _check_arguments(datasets, profile, growth or threads, growth, figure)
    picture = None if figure is None else check_output(figure, (".png", ".pdf", ".svg"))
    path = None if json_file is None else check_output(json_file, (".json",))
    if not growth:
        _check_data(["cora"] if threads else names)
    if not (growth or threads):
        check_peers()
    if not console.is_terminal:  # In a file or a pipe, rich would fold the tables to 80 columns.
        console = Console(file=console.file, width=120)
    plan, sizes = (plans.QUICK, sweep.QUICK) if quick else (plans.FULL, sweep.FULL)
    result: dict[str, Any] = {"quick": quick}
    if growth:
        curves = sweep.measure_growth(sizes, show=True)
        result |= {"machine": machine(), "growth": [curve.as_json() for curve in curves]}
        if picture is not None:
            draw(curves, picture)
    if threads:
        comparison = compare_threads("cora", plans.FULL.nodes, 1 if quick else 3)
        result |= {"machine": machine(), "threads": comparison}
    if not (growth or threads):
        cases = cases_for(names, plan)
        result = {**run(cases, plan, show=True), **result}
        if profile:
            result["profile"] = profiles({name: cases[name] for name in names}, plan)
            if "cora" in names:
                result["profile"].append(profile_of_all("cora", cases["cora"], plan))
    # Whoever reads the output may stop reading at any time, so the file is written first.
    if path is not None:
        write_file(path, (json.dumps(_to_json(result), indent=2, allow_nan=False) + "\n").encode())
    if growth:
        print_growth(console, curves)
    if threads:
        print_threads(console, comparison)
    if not (growth or threads):
        print_run(console, result)
    if path is not None:
        console.print(f"\nFigures: {json_file}", highlight=False, markup=False, soft_wrap=True)


def _check_arguments(
    datasets: Sequence[str], profile: bool, instead: bool, growth: bool, figure: Path | None
) -> list[str]:
    """Check that the arguments fit together, and return the names of the tables to make."""
    for name in datasets:
        if name not in TABLES:
            raise InputError(f"unknown dataset {name!r}: known are {', '.join(TABLES)}")
    if figure is not None and not growth:
        raise InputError("--figure draws the curves of --growth: add --growth")
    if instead and (datasets or profile):
        raise InputError("--growth and --threads choose the graphs themselves: leave out --dataset and --profile")
    return [name for name in TABLES if name in datasets or not datasets]


def _check_data(names: Sequence[str]) -> None:
    """Load the data sets, so that a missing one is reported now and not after minutes of work."""
    for name in names:
        if name != "million":
            load_dataset(name)


def _to_json(value: Any) -> Any:
    """Return the value with None for every number that JSON cannot represent (infinity and NaN)."""
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
