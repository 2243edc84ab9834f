"""The commands ``graphfaith swat simulate`` and ``graphfaith swat run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from graphfaith._base.checks import check_count, check_real, check_seed
from graphfaith._base.errors import InputError
from graphfaith._base.files import check_output, make_folder
from graphfaith.cli.notes import say

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="The case study: a water-treatment plant, attacks on it, alarms, and their causes.\n\n"
    "\b\n"
    "Example:\n"
    "  graphfaith swat run --quick --out results/swat-quick",
)
MOST_SEEDS = 1000  # a seed takes minutes
MOST_DAYS = 365  # a recording has a row a second, and is made in memory
Seed = Annotated[int, typer.Option(help="Seed of the plant and of the attacks.")]


def add_to(application: typer.Typer) -> None:
    """Add the commands to the application."""
    application.add_typer(app, name="swat")


@app.callback(invoke_without_command=True)
def swat(context: typer.Context) -> None:
    """Show the help if there is no subcommand."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def simulate(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the files.")],
    days: Annotated[float, typer.Option(help="Days of normal operation.")] = 4.0,
    attack_days: Annotated[
        float | None, typer.Option(help="Days with attacks; default as many as 69 attacks take, about six and a half.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Write a recording of normal operation, a recording with attacks, and a file with the attacked tags.

    They are those of the study of the same seed: a plant in service, which starts, stops and wears, and attacks on
    12 % of the points. The recordings have the layout of the genuine files.

    \b
    Example:
      graphfaith swat simulate --attack-days 2 --out plant
    """
    # Loading these takes seconds, which --help does not need.
    from ..plant.truth import write_truth
    from .files import write_csv
    from .study import FULL, simulate_attacks, simulate_normal

    check_real(days, "--days", above=0.0, most=MOST_DAYS)
    if attack_days is not None:
        check_real(attack_days, "--attack-days", above=0.0, most=MOST_DAYS)
    check_seed(seed)
    make_folder(folder)
    names = ("Simulated_Normal.csv", "Simulated_Attack.csv", "Simulated_Truth.csv")
    normal, attacked, truth = (check_output(folder / name, (".csv",)) for name in names)
    write_csv(simulate_normal(days, seed), normal)
    run = simulate_attacks(seed, FULL, attack_days).run
    write_csv(run, attacked)
    write_truth(run, truth)
    for path in (normal, attacked, truth):
        typer.echo(f"{path}")
    typer.echo(f"{len(run.spans)} attacks: {', '.join(str(span.attack.number) for span in run.spans)}")


@app.command()
def run(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with your files: *normal* and *attack* (.xlsx or .csv), and perhaps *truth* (.csv)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use eight attacks and a day; takes a minute.")] = False,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds; default five, or one with --quick.")] = None,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    what: Annotated[str, typer.Option(help="What to explain: deviation or forecast.")] = "deviation",
    compare: Annotated[bool, typer.Option(help="Also train the graph deviation network, for comparison.")] = True,
    workers: Annotated[int | None, typer.Option(help="Number of worker processes; default one per core.")] = None,
    max_gap: Annotated[
        int | None, typer.Option(help="Largest number of consecutive seconds that may be missing; default 120.")
    ] = None,
) -> None:
    """Train a monitor of the plant, raise alarms, explain them, and write a report.

    A run that was stopped resumes where it stopped.

    \b
    Examples:
      graphfaith swat run --quick --out results/swat-quick
      graphfaith swat run --out results/swat
      graphfaith swat run --data ~/SWaT --seeds 1 --out results/genuine
    """
    # Loading these takes seconds, which --help does not need.
    from ..plant.causes import What
    from ..plant.command import show_tables
    from ..plant.tables import list_tables
    from .run import run as run_case_study
    from .verdicts import list_own_tables

    if what not in get_args(What):
        raise InputError(f"--what must be one of {', '.join(get_args(What))} (got {what!r})")
    count = check_count((1 if quick else 5) if seeds is None else seeds, "--seeds", most=MOST_SEEDS)
    chosen: Any = what
    results, paths = run_case_study(
        folder,
        data=data,
        quick=quick,
        seeds=tuple(range(check_seed(seed), seed + count)),
        what=chosen,
        compare=compare,
        workers=workers,
        max_gap=max_gap,
        say=say,
    )
    show_tables(list_tables(results) + (list_own_tables(results) if results["labelled"] else []), results["remarks"])
    typer.echo(f"\nNumbers: {paths[0]}\nReport (open it in a browser): {paths[1]}")
