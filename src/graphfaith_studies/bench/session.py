"""What ``graphfaith bench`` does: check the arguments, run the bench, and print and write the results."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from graphfaith._base.errors import InputError
from graphfaith._base.files import check_output, write_file
from graphfaith.data import load_dataset

from . import growth as sweep
from . import plan as plans
from .command import TABLES
from .contenders import check_peers
from .curve import Curve
from .machine import machine
from .picture import draw
from .ratios import THREADS
from .run import cases_for, run
from .sections import sections_of
from .tables import fill_page, mark, marked_in, print_sections
from .threads import threads as compare_threads


def run_bench(
    console: Console,
    datasets: Sequence[str],
    *,
    quick: bool = False,
    profile: bool = False,
    growth: bool = False,
    threads: bool = False,
    everything: bool = False,
    figure: Path | None = None,
    json_file: Path | None = None,
    from_file: Path | None = None,
    page: Path | None = None,
    markdown: bool = False,
) -> None:
    """Run the comparison, or instead the measurements that ``growth`` and ``threads`` select, or all; and show them."""
    chosen = bool(datasets) or quick or profile or growth or threads or everything or json_file is not None
    _check_arguments(datasets, profile=profile, growth=growth, threads=threads, everything=everything)
    if from_file is not None and chosen:
        raise InputError("--from shows an earlier run: leave out what chooses or writes a new one")
    if figure is not None and not (growth or everything or from_file is not None):
        raise InputError("--figure draws the curves of --growth: add --growth")
    if page is not None and not (everything or from_file is not None):
        raise InputError("--page needs all tables of one run: add --all, or --from with the file of such a run")
    picture = None if figure is None else check_output(figure, (".png", ".pdf", ".svg"))
    path = None if json_file is None else check_output(json_file, (".json",))
    text = None if page is None else _read_page(page)
    if not console.is_terminal:  # In a file or a pipe, rich would fold the tables to 80 columns.
        console = Console(file=console.file, width=120)
    if from_file is not None:
        result = _read_run(from_file)
    else:
        names = [name for name in TABLES if name in datasets or not datasets]
        instead = (growth or threads) and not everything
        if not growth or everything:
            _check_data(["cora"] if instead else names)
        if not instead:
            check_peers()
        result = _measure(names, quick, profile or everything, growth or everything, threads or everything, instead)
    # Whoever reads the output may stop reading at any time, so the files are written first.
    if path is not None:
        write_file(path, (json.dumps(_to_json(result), indent=2, allow_nan=False) + "\n").encode())
    if picture is not None:
        if "growth" not in result:
            raise InputError(f"{from_file} has no curves of --growth: --figure has nothing to draw")
        draw([Curve.from_json(curve) for curve in result["growth"]], picture)
    sections = sections_of(_to_json(result))
    if page is not None and text is not None:
        write_file(page, fill_page(text, sections).encode())
    if markdown:
        for section in sections:
            console.print(mark(section), highlight=False, markup=False, soft_wrap=True)
    else:
        print_sections(console, sections)
    for what, file in (("Figures", json_file), ("Page", page)):
        if file is not None and not markdown:
            console.print(f"\n{what}: {file}", highlight=False, markup=False, soft_wrap=True)


def _measure(
    names: Sequence[str], quick: bool, profile: bool, growth: bool, threads: bool, instead: bool
) -> dict[str, Any]:
    """Measure what was asked for; the figures and tables are left out if only something else is (``instead``)."""
    plan, sizes = (plans.QUICK, sweep.QUICK) if quick else (plans.FULL, sweep.FULL)
    started = time.perf_counter()
    result: dict[str, Any] = {"machine": machine()} if instead else {}
    if not instead:
        result |= run(cases_for(names, plan), plan, profile=profile, show=True)
    if growth:
        result["growth"] = [curve.as_json() for curve in sweep.measure_growth(sizes, show=True)]
    if threads:
        result["threads"] = compare_threads("cora", plans.FULL.nodes, 1 if quick else 3)
        if result.get("ratios", {}).get(THREADS) is not None:
            result["floors"][THREADS] = result["threads"]["sweep_floor"]
    return {**result, "quick": quick, "seconds": time.perf_counter() - started}


def _check_arguments(datasets: Sequence[str], *, profile: bool, growth: bool, threads: bool, everything: bool) -> None:
    """Check that the arguments fit together."""
    for name in datasets:
        if name not in TABLES:
            raise InputError(f"unknown dataset {name!r}: known are {', '.join(TABLES)}")
    if everything and (datasets or profile or growth or threads):
        raise InputError("--all has every data set, --profile, --growth and --threads: leave them out")
    if (growth or threads) and (datasets or profile):
        raise InputError("--growth and --threads choose the graphs themselves: leave out --dataset and --profile")


def _read_run(path: Path) -> dict[str, Any]:
    """Return what an earlier run has written."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}, which should be of graphfaith bench --json: {error}") from error
    known = ("machine", "quick")
    if not isinstance(result, dict) or any(key not in result for key in known):
        raise InputError(f"{path} is not a file that graphfaith bench --json has written")
    return result


def _read_page(path: Path) -> str:
    """Return the text of a page, which has to be there before."""
    checked = check_output(path, (".md",))
    try:
        text = checked.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the page {path}: {error}") from error
    if not marked_in(text):
        raise InputError(f"{path} has no place for a table: mark one by <!-- bench: figures --> and <!-- end -->")
    return text


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
