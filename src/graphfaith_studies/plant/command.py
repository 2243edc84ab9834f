"""The commands ``graphfaith plant run`` and ``graphfaith plant check``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphfaith._base.checks import check_count, check_seed
from graphfaith._base.errors import InputError
from graphfaith.cli.loading import needs_no_library
from graphfaith.cli.notes import say

if TYPE_CHECKING:
    from .tables import Table

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="A monitor for any plant: alarms in recordings, and their causes.\n\n"
    "\b\n"
    "Example:\n"
    "  graphfaith plant run --plant batadal --data batadal --out results/batadal",
)
MOST_SEEDS = 1000  # a seed takes minutes
Plant = Annotated[str, typer.Option(help="swat, batadal, or the path of your plant file (.toml).")]


def add_to(application: typer.Typer) -> None:
    """Add the commands to the application."""
    application.add_typer(app, name="plant")


@app.callback(invoke_without_command=True)
def plant(context: typer.Context) -> None:
    """Show the help if there is no subcommand."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
@needs_no_library
def check(
    files: Annotated[list[Path], typer.Argument(help="Recordings, as .csv or .xlsx.")],
    plant: Plant = "swat",
    max_gap: Annotated[int | None, typer.Option(help="Gaps of up to so many seconds are bridged.")] = None,
) -> None:
    """Read recordings, and say what had to be mended in them.

    \b
    Example:
      graphfaith plant check --plant batadal dataset03.csv dataset04.csv
    """
    # Loading these takes seconds, which --help does not need.
    from .loader import load_each
    from .plant import find_plant

    for path, recording in zip(files, load_each(find_plant(plant), files, max_gap=max_gap), strict=True):
        typer.echo(
            f"{path}: {len(recording)} rows from {_clock(recording.times[0])} to {_clock(recording.times[-1])}, "
            + (f"{int(recording.labels.sum())} of them under attack" if recording.labelled else "without labels")
        )
        for notice in recording.notices:
            typer.echo(f"  {notice}")


@app.command()
def run(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")],
    data: Annotated[
        Path,
        typer.Option(
            help="Folder with your files: *normal* and *monitor* (or *attack*), .xlsx or .csv; perhaps *truth* (.csv)."
        ),
    ],
    plant: Plant = "swat",
    quick: Annotated[bool, typer.Option("--quick", help="Few epochs and samples.")] = False,
    seeds: Annotated[int | None, typer.Option(help="Number of trainings; default five, or one with --quick.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first training.")] = 0,
    compare: Annotated[bool, typer.Option(help="Also train other networks, for comparison.")] = True,
    workers: Annotated[int | None, typer.Option(help="Number of worker processes; default one per core.")] = None,
    max_gap: Annotated[int | None, typer.Option(help="Gaps of up to so many seconds are bridged.")] = None,
) -> None:
    """Train a monitor on normal operation, raise alarms in another recording, explain them, and write pages.

    For batadal the folder has the competition's files: dataset03.csv, dataset04.csv, test_dataset.csv and
    ctown_map.inp. Files of your own need no labels; without them nothing is judged, and only the operator's page is
    written. A run that was stopped resumes where it stopped.

    \b
    Examples:
      graphfaith plant run --plant batadal --data batadal --out results/batadal
      graphfaith plant run --plant my.toml --data recordings --out results/mine
    """
    # Loading these takes seconds, which --help does not need.
    from .plant import find_plant
    from .run import Options, load_case
    from .run import run as run_studies
    from .study import FULL, QUICK
    from .tables import list_tables

    count = check_count((1 if quick else 5) if seeds is None else seeds, "--seeds", most=MOST_SEEDS)
    chosen = tuple(range(check_seed(seed), seed + count))
    options: dict[str, Any] = {"seeds": chosen, "workers": workers, "say": say}
    runner = _RUNNERS.get(plant)
    if runner is not None:
        if max_gap is not None:
            raise InputError(f"--max-gap is for files of your own; the files of {plant} have no gaps")
        results, paths = runner()(folder, data, quick=quick, compare=compare, **options)
    else:
        known = find_plant(plant)
        case = load_case(known, data, max_gap, say)
        settings = Options(QUICK if quick else FULL, compare=compare, quick=quick)
        results, paths = run_studies(folder, case, settings, title=known.title, **options)
    show_tables(list_tables(results)[:1], results["remarks"])
    typer.echo(f"\nNumbers: {paths[0]}\nAlarms (open it in a browser): {paths[1]}")


def show_tables(tables: Sequence[tuple[str, Table]], remarks: Sequence[str] = ()) -> None:
    """Print tables on standard output, and remarks below them; a table that is too wide is printed in parts."""
    from rich.console import Console
    from rich.table import Table as Grid

    console = Console()
    for title, (heads, rows) in tables:
        for part, places in enumerate(_fit_columns(heads, rows, console.width)):
            grid = Grid(title=f"{title}, continued" if part else title, title_justify="left")
            for place in places:
                grid.add_column(heads[place], justify="right" if place else "left", no_wrap=False)
            for row in rows:
                grid.add_row(*(row[place] for place in places))
            console.print(grid)
    for remark in remarks:
        typer.echo(remark)


def _fit_columns(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """Return the columns of each part of a table, so that no cell or word of a head has to be cut.

    Each part begins with the first column, which names the rows and may take several lines.

    >>> _fit_columns(["name", "one", "two"], [["a", "1 % ± 1 %", "2 % ± 1 %"]], 24)
    [[0, 1], [0, 2]]
    """

    def size(place: int) -> int:
        words = heads[place].split()
        cells = [row[place] for row in rows]
        return 3 + max(map(len, words + (cells if place else [word for cell in cells for word in cell.split()])))

    first = max(size(0), min(3 + max((len(row[0]) for row in rows), default=0), width // 3))
    parts, left = [[0]], width - 1 - first
    for place in range(1, len(heads)):
        if size(place) > left and len(parts[-1]) > 1:
            parts.append([0])
            left = width - 1 - first
        parts[-1].append(place)
        left -= size(place)
    return parts


def _batadal() -> Callable[..., tuple[dict[str, Any], list[Path]]]:
    from ..batadal.run import run as run_batadal  # It imports this package.

    return run_batadal


# Plants whose data have names and a layout of their own.
_RUNNERS: dict[str, Callable[[], Callable[..., tuple[dict[str, Any], list[Path]]]]] = {"batadal": _batadal}


def _clock(time: Any) -> str:
    return str(time).replace("T", " ")
