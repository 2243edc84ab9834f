"""Test the commands on a plant of the user's own: a plant file, two recordings with faults, and pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from graphfaith._base.errors import DataError, InputError
from graphfaith_studies.plant.command import app

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


def write(path: Path, rows: int, start: str, attack: slice | None = None) -> None:
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
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("own")
    (path / "my.toml").write_text(PLANT)
    (path / "data").mkdir()
    write(path / "data" / "normal.csv", 1500, "2024-03-01T00:00:00")
    write(path / "data" / "attack.csv", 400, "2024-04-01T00:00:00", slice(200, 230))
    return path


def test_a_plant_of_ones_own(folder: Path) -> None:
    arguments = ["run", "--plant", str(folder / "my.toml"), "--data", str(folder / "data"), "--quick", "--no-compare"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(folder / "out")])
    assert done.exit_code == 0, done.exception
    page = (folder / "out" / "report.html").read_text()
    assert "Alarms of two tanks" in page
    assert "Alarm 1: L2 too high" in page
    assert "L2 itself stands out: it has the largest part in this alarm" in page
    assert "normal.csv: 1 missing readings are bridged" in page
    assert "during attack 1" in (folder / "out" / "answers.html").read_text()
    assert "always" in (folder / "out" / "results.md").read_text()  # the trivial baseline


def test_check_says_what_it_mended(folder: Path) -> None:
    done = CliRunner().invoke(app, ["check", "--plant", str(folder / "my.toml"), str(folder / "data" / "attack.csv")])
    assert done.exit_code == 0, done.exception
    assert "400 rows from 2024-04-01 00:00:00 to 2024-04-01 06:39:00, 30 of them under attack" in done.stdout
    assert "1 readings of L1 are not numbers (the first is 'Bad Input' in row 42)" in done.stdout


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
