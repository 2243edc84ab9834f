"""Test the commands on a plant of the user's own: a plant file, two recordings with faults, and pages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from graphfaith._base.errors import DataError, InputError
from graphfaith_studies.plant.command import app, show_tables
from graphfaith_studies.plant.loader import load
from graphfaith_studies.plant.plant import read_plant
from graphfaith_studies.plant.study import case_of
from graphfaith_studies.plant.truth import KnownAttack

PLANT = """
title = "two tanks"
parts = ["left", "right"]
[time]
row = 60
window = 8
[kinds.level]
unit = "m"
[kinds.pump]
states = { 0 = "off", 1 = "on" }
[tags]
L1 = { kind = "level", part = "left", at = [0, 0] }
P1 = { kind = "pump", part = "left", at = [1, 0], note = "runs every other half hour" }
L2 = { kind = "level", part = "right", at = [2, 0] }
[edges]
pipe = ["L1 P1", "P1 L2"]
"""


def write(path: Path, rows: int, start: str, attack: slice | None = None, labelled: bool = True) -> None:
    """Write a recording in which a pump moves water from one tank to the other; the attack holds the second level."""
    noise = np.random.default_rng(rows)
    pump = (np.arange(rows) // 30) % 2
    level = np.cumsum(np.where(pump == 1, 0.02, -0.02)) + 2.0
    second, labels = 5.0 - level + noise.normal(0, 0.002, rows), np.zeros(rows, dtype=int)
    if attack is not None:
        second[attack], labels[attack] = 7.5, 1
    times = np.datetime64(start, "s") + 60 * np.arange(rows)
    lines = ["time,P1,L1,L2,label"]
    for row in range(rows):
        reading = "Bad Input" if row == 40 else f"{level[row] + noise.normal(0, 0.002):.4f}"
        label = "attack" if labels[row] else "normal"
        lines.append(f"{str(times[row]).replace('T', ' ')},{pump[row]},{reading},{second[row]:.4f},{label}")
    if not labelled:
        lines = [line.rpartition(",")[0] for line in lines]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("own")
    (path / "my.toml").write_text(PLANT)
    (path / "data").mkdir()
    write(path / "data" / "normal.csv", 1500, "2024-03-01T00:00:00")
    write(path / "data" / "attack.csv", 400, "2024-04-01T00:00:00", slice(200, 230))
    (path / "bare").mkdir()
    write(path / "bare" / "normal.csv", 1500, "2024-03-01T00:00:00", labelled=False)
    write(path / "bare" / "monitor.csv", 400, "2024-04-01T00:00:00", slice(200, 230), labelled=False)
    return path


def run(folder: Path, data: str, *options: str) -> Result:
    """Run the command on a folder of recordings; its results are beside it."""
    arguments = ["run", "--plant", str(folder / "my.toml"), "--data", str(folder / data), "--no-compare", *options]
    return CliRunner().invoke(app, [*arguments, "--out", str(folder / f"out-{data}")])


@pytest.fixture(scope="module")
def finished(folder: Path) -> dict[str, Result]:
    """The same run on the recordings with and without labels."""
    return {data: run(folder, data, "--quick") for data in ("data", "bare")}


def test_a_plant_of_ones_own(folder: Path, finished: dict[str, Result]) -> None:
    assert finished["data"].exit_code == 0, finished["data"].exception
    page = (folder / "out-data" / "report.html").read_text()
    assert "Alarms of two tanks" in page
    assert "Alarm 1: L2 too high" in page
    assert "L2 itself stands out: it has the largest part in this alarm" in page
    assert "normal.csv: 1 missing readings are bridged" in page
    assert "during attack 1" in (folder / "out-data" / "answers.html").read_text()
    assert "always" in (folder / "out-data" / "results.md").read_text()  # the trivial baseline


def test_a_quick_run_says_that_its_numbers_are_of_a_short_training(folder: Path, finished: dict[str, Result]) -> None:
    words = "A quick run: these numbers are of one short training (5 epochs)."
    for name in ("answers.html", "results.md"):
        assert words in (folder / "out-data" / name).read_text()
    assert words in " ".join(finished["data"].stdout.split())


class TestWithoutLabels:
    def test_the_page_is_the_same(self, folder: Path, finished: dict[str, Result]) -> None:
        """Labels are for judging; neither the alarms nor what is said of them may depend on them."""
        assert finished["bare"].exit_code == 0, finished["bare"].exception
        known, bare = ((folder / f"out-{data}" / "report.html").read_text() for data in ("data", "bare"))
        assert known.count("<section class='alarm'") >= 1
        assert bare == known.replace("attack.csv", "monitor.csv")

    def test_what_needs_a_truth_is_left_out_and_that_is_said(self, folder: Path, finished: dict[str, Result]) -> None:
        out = folder / "out-bare"
        assert not (out / "answers.html").exists()
        tables = (out / "results.md").read_text()
        words = "The recording has no column 'label'"
        assert words in tables
        assert words in " ".join(finished["bare"].stdout.split())
        for word in ("attack", "F1", "eTaP", "PA%K", "VUS", "Whether they find", "delay"):
            assert word not in tables.replace("whether there were attacks", "")
        assert "| always | 1.0 |" in tables  # the trivial baseline, one alarm that never ends
        results = json.loads((out / "results.json").read_text())
        assert (results["labelled"], results["truth"], results["causes"]) == (False, False, None)
        assert results["seeds"][0]["attacks"] is None
        assert set(results["alarms"]) == {"all", "range", "developed"}
        numbers = {name: value for name, value in results["detectors"]["monitor"].items() if value is not None}
        known = {"forecast_gain", "epochs", "false_alarms_per_day", "quiet_in_alarm", "alarms_raised", "spread"}
        assert set(numbers) == known
        assert numbers["alarms_raised"] == results["alarms"]["all"]

    def test_a_run_resumes(self, folder: Path, finished: dict[str, Result]) -> None:
        page = folder / "out-bare" / "report.html"
        before = page.read_text()
        page.unlink()
        again = run(folder, "bare", "--quick")
        assert "explaining alarm" in finished["bare"].output
        assert "explaining alarm" not in again.output
        assert page.read_text() == before

    def test_a_recording_in_which_nothing_happens(self, folder: Path) -> None:
        (folder / "still").mkdir()
        write(folder / "still" / "normal.csv", 1500, "2024-03-01T00:00:00", labelled=False)
        write(folder / "still" / "monitor.csv", 100, "2024-04-01T00:00:00", labelled=False)
        done = run(folder, "still", "--quick")
        assert done.exit_code == 0, done.exception
        assert "There was none." in (folder / "out-still" / "report.html").read_text()
        tables = (folder / "out-still" / "results.md").read_text()
        assert "the monitor: nowcaster and wide range | 0.0 |" in tables  # a count, and here a true one
        assert "believed" not in tables  # There is no explanation to believe.

    def test_check(self, folder: Path) -> None:
        file = folder / "bare" / "monitor.csv"
        done = CliRunner().invoke(app, ["check", "--plant", str(folder / "my.toml"), str(file)])
        assert "to 2024-04-01 06:39:00, without labels" in done.stdout

    def test_a_label_that_the_plant_file_names_must_be_there(self, folder: Path, tmp_path: Path) -> None:
        """A misspelt name must not turn a recording with labels into one without."""
        (tmp_path / "my.toml").write_text(PLANT + '[files]\nlabel = "flag"\n')
        plant = read_plant(tmp_path / "my.toml")
        with pytest.raises(DataError, match=r"row 1, column flag: the header has no such column; .* without 'label'"):
            load(plant, folder / "bare" / "monitor.csv")

    def test_a_truth_without_labels_is_refused(self, folder: Path) -> None:
        case = [load(read_plant(folder / "my.toml"), folder / "bare" / name) for name in ("normal.csv", "monitor.csv")]
        start = np.datetime64("2024-04-01T03:20:00", "s")
        with pytest.raises(InputError, match="a truth file needs labels"):
            case_of(case, [KnownAttack(1, start, start + 1800, (2,))])

    def test_only_the_recording_that_is_judged_needs_labels(self, folder: Path) -> None:
        plant = read_plant(folder / "my.toml")
        normal, bare = (load(plant, folder / "bare" / name) for name in ("normal.csv", "monitor.csv"))
        assert case_of((normal, load(plant, folder / "data" / "attack.csv"))).labelled
        assert not case_of((load(plant, folder / "data" / "normal.csv"), bare)).labelled

    def test_empty_rows_are_no_faults(self, folder: Path, tmp_path: Path) -> None:
        text = (folder / "bare" / "monitor.csv").read_text()
        (tmp_path / "more.csv").write_text(text + ",,,\n\n,,,\n")
        plant = read_plant(folder / "my.toml")
        assert load(plant, tmp_path / "more.csv").notices == load(plant, folder / "bare" / "monitor.csv").notices


def test_check_says_what_it_mended(folder: Path) -> None:
    done = CliRunner().invoke(app, ["check", "--plant", str(folder / "my.toml"), str(folder / "data" / "attack.csv")])
    assert done.exit_code == 0, done.exception
    assert "400 rows from 2024-04-01 00:00:00 to 2024-04-01 06:39:00, 30 of them under attack" in done.stdout
    assert "1 readings of L1 are not numbers (the first is 'Bad Input' in row 42)" in done.stdout


def test_check_loads_neither_torch_nor_the_library(folder: Path) -> None:
    """They take seconds, and half of the memory in which a long file has to find room."""
    script = """
import sys
from graphfaith.cli.application import main
try:
    main()
except SystemExit as done:
    heavy = {"torch", "torch_geometric", "numba", "scipy", "matplotlib", "graphfaith.public"} & set(sys.modules)
    print("code", done.code, "loaded", sorted(heavy))
"""
    options = ["plant", "check", "--plant", str(folder / "my.toml"), str(folder / "data" / "attack.csv")]
    done = subprocess.run([sys.executable, "-c", script, *options], capture_output=True, text=True, check=True)
    assert "400 rows from" in done.stdout
    assert done.stdout.splitlines()[-1] == "code 0 loaded []"


def test_mistakes_are_one_line(folder: Path, tmp_path: Path) -> None:
    def fail(*arguments: str) -> BaseException | None:
        return CliRunner().invoke(app, [*arguments]).exception

    assert isinstance(fail("run", "--plant", "none", "--data", str(tmp_path), "--out", str(tmp_path / "o")), InputError)
    assert isinstance(
        fail("run", "--plant", "batadal", "--data", str(tmp_path), "--out", str(tmp_path / "o")), DataError
    )
    options = ("--data", str(tmp_path), "--max-gap", "5", "--out", str(tmp_path / "o"))
    assert "--max-gap is for files of your own" in str(fail("run", "--plant", "batadal", *options))
    assert list(tmp_path.iterdir()) == []


def test_no_cell_of_a_table_is_cut_in_a_narrow_terminal(monkeypatch, capsys) -> None:
    """A table that is too wide comes in parts, each of which begins with the names of the rows."""
    monkeypatch.setenv("COLUMNS", "80")
    heads = ["detector", *(f"false alarms a quiet day, {place}" for place in range(12))]
    rows = [[f"graph deviation network, number {row}", *["1234.5 ± 678.9"] * 12] for row in range(3)]
    show_tables([("Events", (heads, rows))], ["a remark"])
    text = capsys.readouterr().out
    assert "…" not in text
    assert text.count("1234.5 ± 678.9") == 36
    assert text.count("Events") == text.count("network") // 3 > 1
    assert max(map(len, text.splitlines())) <= 80
    assert "a remark" in text


def test_the_seed_of_the_first_training(folder: Path) -> None:
    assert isinstance(run(folder, "data", "--seed", "-1").exception, InputError)
