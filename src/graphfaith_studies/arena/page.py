"""The page of the arena, made from the rows of a run, finished or not; and the table of agreement in another page."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from graphfaith._base.errors import DataError, InputError, describe_error
from graphfaith._base.expansion import JSON_GROWTH
from graphfaith._base.files import check_output, read_file, write_file

from ..paper.experiment import FULL, QUICK, Row
from ..paper.journal import Journal
from ..paper.results import rows_in
from ..paper.run import write_rows
from .arena import LARGE, Arena
from .kept import Kept
from .text import format_agreement, format_message, format_random

MARK, END = "<!-- arena: agreement -->", "<!-- /arena -->"
INTRODUCTION = """\
# The arena

{message}

Every explainer of the judge, by every measure. Heterophilous web graphs, minesweeper and molecules
with the exact signed contribution of every atom (Crippen) are data of others; Tree-Cycles, Tree-Grid and BA-2Motifs are
generated here, from the text of the papers that made them. Models on heterophilous graphs have two layers and 16 hidden
numbers: PyG's GraphSAGE, PyG's GAT with residuals, and a GCN with a linear layer beside each convolution. There a
network has to tell a node's own numbers from those of its neighbours, and a plain GCN or GAT learns little. That, and
200 epochs, is one recipe for all of these graphs and families, chosen by validation accuracy alone
(`python benchmarks/arena_recipes.py` prints it for every recipe that was tried). Others are the model of GNNExplainer's
repository on trees, graph convolutions with attention pooling on BA-2Motifs, and three layers of GINE on molecules. No
explanation was looked at for any of this, and methods have their default options. Predictions are test nodes at even
distances; on heterophilous graphs among those with at most 120 nodes within three hops.

This page was made by

    {command}

from the rows that

    {made}

left there. All methods explain the same predictions, but for pyg-pgexplainer on {large}, where it is trained on the
whole graph: it explains the first of each training there. Stability is of that prediction alone.
"""


def make_page(folder: Path, path: Path) -> Path:
    """Write the page of a run in ``folder`` to ``path``, and its last two tables to measures-tables.md beside it.

    If the folder also has a run of ``graphfaith reproduce kept``, the page ends with that.
    """
    target = check_output(path, (".md",))
    finished = folder / "arena.json"
    if not finished.exists():
        collect_rows(folder)
    rows = rows_in(folder, "arena")
    kept = rows_in(folder, Kept.name) if (folder / f"{Kept.name}.json").exists() else []
    try:
        text = page_text(folder, path, rows, kept)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"the rows in '{finished}' are damaged or those of another version ({describe_error(error)}): measure them "
            "again with --restart"
        ) from error
    write_file(target, text.encode())
    beside = path.parent / "measures-tables.md"
    if beside.exists():
        random = f"## Which a random explainer wins\n\n{format_random(rows)}"
        _put_agreement(beside, f"{format_agreement(rows)}\n\n{random}", folder)
    return target


def page_text(folder: Path, path: Path, rows: list[Row], kept: Sequence[Row] = ()) -> str:
    """Return the text of the page, with the rows of what masks keep, if they are there."""
    where = shlex.quote(folder.as_posix())
    command = f"graphfaith reproduce arena --page {shlex.quote(path.as_posix())} --out {where}"
    quick = " --quick" if rows[0]["size"] == "quick" else ""
    made = f"graphfaith reproduce arena{quick} --out {where}"
    words = {"message": format_message(rows), "command": command, "made": made, "large": " and ".join(LARGE)}
    start = INTRODUCTION.format(**words).rstrip()
    parts = [start, Arena().to_markdown(rows)]
    if kept:
        small = " --quick" if kept[0]["size"] == "quick" else ""
        parts += [f"## {Kept.title}", f"    graphfaith reproduce {Kept.name}{small} --out {where}"]
        parts.append(Kept().to_markdown(kept))
    return "\n\n".join(parts) + "\n"


def collect_rows(folder: Path) -> None:
    """Write the rows of a run that is not finished, from its journal."""
    path = folder / "arena.journal.jsonl"
    if not path.exists():
        raise DataError(f"'{folder}' has no results: make them with graphfaith reproduce arena --out {folder}")
    first = read_file(path, "cannot read", JSON_GROWTH).split(b"\n", 1)[0]
    try:
        header = json.loads(first)
        size = {one.name: one for one in (FULL, QUICK)}[header["size"]["name"]]
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"the first line of '{path}' is damaged: measure again with --restart") from error
    with Journal(path, header) as journal:
        results = journal.load().results
    experiment = Arena()
    done = {unit: results[unit.key] for unit in experiment.units(size) if unit.key in results}
    if not done:
        raise InputError(f"nothing in '{folder}' is measured yet: wait for the first unit of work")
    write_rows(folder / "arena.json", experiment.make_rows(done, size))


def _put_agreement(path: Path, table: str, folder: Path) -> None:
    """Put tables after their mark in a page, in place of those that are there."""
    text = path.read_text(encoding="utf-8")
    if MARK not in text:
        return
    made = (
        f"`graphfaith reproduce arena --page {path.parent.name}/arena.md --out {folder.as_posix()}` put this here.\n\n"
    )
    block = f"{MARK}\n\n{made}{table}\n\n{END}"
    whole = re.escape(MARK) + r"(?:.*?" + re.escape(END) + ")?"
    write_file(path, re.sub(whole, lambda _: block, text, count=1, flags=re.DOTALL).encode())
