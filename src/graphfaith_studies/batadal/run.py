"""The run on BATADAL: the monitor learns a year without attacks, and is judged on the two recordings with attacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from graphfaith._base.errors import DataError

from ..plant.loader import load_each
from ..plant.plant import Plant
from ..plant.run import Options
from ..plant.run import run as run_studies
from ..plant.scoring import events_of
from ..plant.series import Series, join_series, series_of
from ..plant.study import Case, Size, split_series
from ..plant.summary import DETECTORS
from ..plant.tables import Table, number_format
from .attacks import attacked_tags, compare_with_readings
from .network import Network, read_network

# The graph deviation networks have all their epochs: batch norm lets the error rise for some, and it falls again.
FULL: Final = Size(
    epochs=60, compared_epochs=30, network_epochs=45, network_patience=45, samples=200, test_samples=400, thorough=8
)
QUICK: Final = Size(epochs=10, compared_epochs=4, network_epochs=4, samples=100, test_samples=100, thorough=2)
NORMAL, TRAINING, TEST, MODEL = "dataset03.csv", "dataset04.csv", "test_dataset.csv", "ctown_map.inp"
# What the competition reported for its winner (Housh and Ohar) on the test data, recalled from its paper: attacks found
# and S. The teams also had the labels of dataset04 and rules made by hand.
WINNER: Final = (7, 0.97)


def run(
    folder: Path,
    data: Path,
    *,
    quick: bool = False,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    compare: bool = True,
    workers: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, Any], list[Path]]:
    """Run the studies in ``folder`` on the files of the folder ``data``, and return results.json and the written files.

    A run that was stopped resumes where it stopped.
    """
    plant = Plant.named("batadal")
    case, network = load_case(plant, data, say), read_network(data / MODEL)
    # Options are sent to the worker processes, which a function defined in here could not be.
    options = Options(
        QUICK if quick else FULL, compare=compare, more=partial(list_further_tables, network), quick=quick
    )
    return run_studies(folder, case, options, title=plant.title, seeds=seeds, workers=workers, say=say)


def load_case(plant: Plant, folder: Path, say: Callable[[str], None] = lambda _: None) -> Case:
    """Read the three recordings; the two with attacks are one series with a gap between them."""
    for name in (NORMAL, TRAINING, TEST, MODEL):
        if not (folder / name).is_file():
            raise DataError(f"'{folder}' has no {name}; it must have {NORMAL}, {TRAINING}, {TEST} and {MODEL}")
    notices: list[str] = []

    def note(notice: str) -> None:
        notices.append(notice)
        say(notice)

    files = (folder / name for name in (NORMAL, TRAINING, TEST))
    normal, first, second = map(series_of, load_each(plant, files, say=note))
    joined = _name_attacks(join_series(first, _count_on(second, int(first.attack_id.max()))))
    case = split_series(normal, joined)
    parts = ((TRAINING, 0, len(first)), (TEST, len(first), len(joined)))
    return replace(case, notices=tuple(notices), parts=parts)


def _count_on(series: Series, number: int) -> Series:
    return replace(series, attack_id=(series.attack_id + number) * series.labels)


def _name_attacks(series: Series) -> Series:
    attacked = series.attacked.copy()
    for event in events_of(series):
        columns = [series.plant.column(name) for name in attacked_tags(event.number)]
        attacked[event.start : event.stop, columns] = True
    return replace(series, attacked=attacked)


# Tables -----------------------------------------------------------------------------------------------------------


def list_further_tables(
    network: Network, case: Case, results: dict[str, Any], _: Sequence[dict[str, Any]]
) -> list[tuple[str, Table]]:
    """Return the tables that only this plant has, with their titles."""
    return [
        ("The competition's score", competition_table(results["seeds"])),
        ("The attacks, and what the readings show", attacks_table(case, network)),
    ]


def competition_table(seeds: Sequence[dict[str, Any]]) -> Table:
    """Return S of every detector on the two recordings, as means over seeds, and what the competition reported.

    ``seeds`` are those of results.json, each with the ``parts`` of its ``detectors``.
    """
    form, count = number_format(3), number_format(1)
    heads = ["", "attacks found, test", "S, test", "S_TTD", "S_CLF", "TPR", "TNR", "S, dataset04", "found, dataset04"]
    rows = []
    for name, words in DETECTORS.items():
        found = [row["detectors"][name]["parts"] for row in seeds if name in row["detectors"]]
        if not found:
            continue

        def mean(part: str, key: str, found: list[dict[str, Any]] = found) -> tuple[float, float | None]:
            values = [row[part][key] for row in found]
            average = sum(values) / len(values)
            spread = (sum((value - average) ** 2 for value in values) / max(len(values) - 1, 1)) ** 0.5
            return average, spread if len(values) > 1 else None

        cells = [form(*mean(TEST, key)) for key in ("s", "s_ttd", "s_clf", "tpr", "tnr")]
        others = [form(*mean(TRAINING, "s")), count(*mean(TRAINING, "events_detected"))]
        rows.append([words, count(*mean(TEST, "events_detected")), *cells, *others])
    events, score = WINNER
    rows.append(["the competition's winner, as recalled", str(events), f"about {score}", *[""] * 6])
    return heads, rows


def attacks_table(case: Case, network: Network) -> Table:
    """Return the attacks with the tags as recalled, and what two rules find in the readings."""
    heads = [
        "attack",
        "from",
        "hours",
        "attacked, as recalled",
        "outside of the year's range, hours",
        "controls broken, hours",
    ]
    rows = []
    whole = join_series(join_series(case.normal, case.held_out), case.quiet)
    for row in compare_with_readings(case.plant, case.attacked, whole, network.controls):
        outside = [f"{name} {hours}" for name, hours in list(row["outside"].items())[:6]]
        broken = [f"{name} {hours}" for name, hours in row["broken"].items()]
        cells = (str(row["attack"]), row["start"][:13].replace("T", " "), str(row["hours"]), " ".join(row["attacked"]))
        rows.append([*cells, ", ".join(outside) or "–", ", ".join(broken) or "–"])
    return heads, rows
