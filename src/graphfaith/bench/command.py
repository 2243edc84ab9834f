"""The body of ``graphfaith bench``: arguments checked, work done, results printed and written."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ..datasets import load_dataset
from ..errors import InputError
from ..output import check_output, write_file
from . import growth as sweep
from . import plan as plans
from .contenders import check_peers
from .machine import machine
from .picture import draw
from .profile import profile_of_all, profiles
from .run import TABLES, cases_for, run
from .tables import print_growth, print_run, print_threads
from .threads import threads as compare_threads


def bench(
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
    """Run the comparison, or what ``growth`` and ``threads`` ask for instead."""
    names = _checked(datasets, profile, growth or threads, growth, figure)
    picture = None if figure is None else check_output(figure, (".png", ".pdf", ".svg"))
    path = None if json_file is None else check_output(json_file, (".json",))
    if not growth:
        _check_data(["cora"] if threads else names)
    if not (growth or threads):
        check_peers()
    if not console.is_terminal:  # in a file or a pipe tables are not folded to 80 columns
        console = Console(file=console.file, width=120)
    plan, sizes = (plans.QUICK, sweep.QUICK) if quick else (plans.FULL, sweep.FULL)
    result: dict[str, Any] = {"quick": quick}
    if growth:
        curves = sweep.growth(sizes, show=True)
        result |= {"machine": machine(), "growth": [curve.as_json() for curve in curves]}
        print_growth(console, curves)
        if picture is not None:
            draw(curves, picture)
    if threads:
        found = compare_threads("cora", plans.FULL.nodes, 1 if quick else 3)
        result |= {"machine": machine(), "threads": found}
        print_threads(console, found)
    if not (growth or threads):
        cases = cases_for(names, plan)
        result = {**run(cases, plan, show=True), **result}
        if profile:
            result["profile"] = profiles({name: cases[name] for name in names}, plan)
            if "cora" in names:
                result["profile"].append(profile_of_all("cora", cases["cora"], plan))
        print_run(console, result)
    if path is not None:
        write_file(path, (json.dumps(_plain(result), indent=2, allow_nan=False) + "\n").encode())
        console.print(f"\nFigures: {json_file}", highlight=False, markup=False, soft_wrap=True)


def _checked(datasets: Sequence[str], profile: bool, instead: bool, growth: bool, figure: Path | None) -> list[str]:
    for name in datasets:
        if name not in TABLES:
            raise InputError(f"unknown dataset {name!r}: known are {', '.join(TABLES)}")
    if figure is not None and not growth:
        raise InputError("--figure draws the curves of --growth: add it")
    if instead and (datasets or profile):
        raise InputError("--growth and --threads have graphs of their own: leave out --dataset and --profile")
    return [name for name in TABLES if name in datasets or not datasets]


def _check_data(names: Sequence[str]) -> None:
    """Read the data sets now: one that cannot be had is said before minutes have gone by."""
    for name in names:
        if name != "million":
            load_dataset(name)


def _plain(value: Any) -> Any:
    """The same with null for what JSON has no number for."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
