"""The page of results: all tables and figures of a run, made from the files that the run has written."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from graphfaith._base.errors import DataError, describe_error
from graphfaith._base.expansion import JSON_GROWTH
from graphfaith._base.files import check_output, read_file, write_file
from graphfaith._base.version import __version__

from .conclusions import count_conclusions, format_conclusions
from .experiment import Experiment, Row
from .experiments import EXPERIMENTS
from .folds import fold_tables
from .markdown import format_table

INTRODUCTION = """\
# The paper, reproduced

{message}Every table and figure of "Faithful Explanations for Deep Graph Models" (arXiv 2205.11850), measured with this
library, with the paper's value beside ours.
"""

MEASURED = """\
## How it was measured

This page was made by

    {command}

from the files that

    {made}

left there (where they are without their journals, as in a clone, add --restart, which measures anew and replaces them).

A number with ± has its standard error over nodes, and over trainings of the model where there are several
(`graphfaith.metric.pooling`). Lower is better, unless it says otherwise; the lowest of a column is bold. `relative` is
Delta(p) / Delta(0), the share of F's own change that is left unexplained, and compares across models and choices;
`lowest` is the share of nodes at which no other method is better. Both are held-out.

**Two protocols.** In `held-out` the samples that score are others than those of the fit: that is the column to believe.
The paper does not say whether its 500 are others than the 200 that Linear and KEC are solved with, and its appendix
reads as if they were not. In `in-sample` the first 200 of the 500 are those of the fit, which flatters what is fitted.
Where a section does not name a protocol, it is held-out.

**Choices that the paper leaves open.** Features are row-normalised and F is the logit of the predicted class; the
appendix shows how the absolute level depends on both. BA-Shapes has 60 nodes in 400:700:5, where the paper's caption
says 80. The entries of A that are perturbed are those of the computation graph, with self-loops. PGExpl is trained on
the nodes of BA-Shapes together. Seconds were taken with all workers busy.
"""


def page(folder: Path, path: Path) -> Path:
    """Write a page of the results in ``folder`` to ``path``; its figures are linked, not copied."""
    target = check_output(path, (".md",))
    rows = {name: rows_in(folder, name) for name in EXPERIMENTS if (folder / f"{name}.json").exists()}
    if not rows:
        raise DataError(f"'{folder}' has no results: make them with graphfaith reproduce --all --out {folder}")
    try:
        text = page_text(folder, path, rows)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"the results in '{folder}' are damaged or those of another version ({describe_error(error)}): make them "
            "again with --restart"
        ) from error
    write_file(target, text.encode())
    return target


def page_text(folder: Path, path: Path, rows: dict[str, list[Row]]) -> str:
    """Return the text of the page for the rows of each experiment."""
    runs = {name: _read_json(folder / f"{name}.run.json") for name in rows}
    sizes = {str(run["size"]) for run in runs.values()}
    quick = " --quick" if sizes == {"quick"} else ""
    where = shlex.quote(folder.as_posix())
    command = f"graphfaith reproduce --page {shlex.quote(path.as_posix())} --out {where}"
    made = f"graphfaith reproduce --all{quick} --out {where}"
    if len(sizes) > 1:
        made += "    # and another of a different size, see below"
    of_tables = [row for name in ("table1", "table2", "table3") for row in rows.get(name, ())]
    message = f"**{count_conclusions(of_tables)}**\n\n" if of_tables else ""
    parts = [INTRODUCTION.format(message=message).rstrip()]
    if of_tables:
        parts += ["## Which conclusions survive", format_conclusions(of_tables)]
    parts += [MEASURED.format(command=command, made=made).rstrip(), _describe_runs(runs)]
    for name in rows:
        parts.append(_format_section(EXPERIMENTS[name], rows[name], folder, path))
    return fold_tables("\n\n".join(parts) + "\n")


def _format_section(experiment: Experiment, rows: Sequence[Row], folder: Path, path: Path) -> str:
    name = experiment.name
    parts = [
        f"## {experiment.title}",
        f"`graphfaith reproduce {name}`; rows: [{name}.json]({_link_to(folder / f'{name}.json', path)})",
    ]
    pictures = sorted(folder.glob(f"{name}*.png"))
    parts += [f"![{picture.stem}]({_link_to(picture, path)})" for picture in pictures]
    return "\n\n".join([*parts, experiment.to_markdown(rows)])


def _describe_runs(runs: dict[str, dict[str, Any]]) -> str:
    """Describe the machine, the versions and the time of each experiment."""
    first = next(iter(runs.values()))
    machine = first["machine"]
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("python", "graphfaith", "torch", "torch_geometric", "numpy")
    )
    lines, total = [], 0.0
    for name, run in runs.items():
        wall = run["work_seconds"] / run["workers"]
        total += wall
        lines.append([name, run["size"], str(run["units"]), f"{run['work_seconds'] / 60:.1f}", f"{wall / 60:.1f}"])
    lines.append(["all", "", "", "", f"{total / 60:.1f}"])
    workers = max(run["workers"] for run in runs.values())
    other = machine["graphfaith"] != __version__
    return (
        f"**Machine**: {machine['cpu']}, {machine['cores']} cores, {machine['platform']}; {versions}. {workers} worker"
        f"{'s' if workers > 1 else ''} with one thread each; `efficiency` runs beside no other. Minutes of work are "
        "summed over workers and include training."
        f"{' The rows are of the version named here, which is not this release.' * other}\n\n"
        + format_table(["experiment", "size", "units of work", "minutes of work", "minutes on the clock, about"], lines)
    )


def rows_in(folder: Path, name: str) -> list[Row]:
    """Return the rows of an experiment that a run has written to ``folder``."""
    rows: list[Row] = _read_json(folder / f"{name}.json")
    return rows


def _read_json(path: Path) -> Any:
    try:
        return json.loads(read_file(path, "cannot read", JSON_GROWTH))
    except (ValueError, RecursionError) as error:
        raise DataError(f"cannot read '{path}': it is not JSON ({error})") from error


def _link_to(path: Path, page: Path) -> str:
    return quote(Path(os.path.relpath(path, page.parent)).as_posix())
