"""Test the plant file: what it says is what a plant is, and each mistake in it is named."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from graphfaith._base.errors import DataError, InputError
from graphfaith_studies.plant import Plant, read_plant
from graphfaith_studies.plant.plant import find_plant

SMALL = """
title = "two tanks"
parts = ["left", "right"]
[time]
row = 60
[kinds.level]
unit = "m"
possible = [0.0, 9.0]
[kinds.pump]
states = { 0 = "off", 1 = "on" }
[tags]
A = { kind = "level", part = "left", at = [0, 0] }
B = { kind = "pump", part = "right", at = [1, 0], note = "runs at night" }
C = { kind = "level", part = "right", at = [2, 0], unit = "mm", possible = [0, 9000] }
[edges]
pipe = ["A B"]
control = ["B C"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "small.toml"


def parse(file: Path, text: str = SMALL) -> Plant:
    file.write_text(text)
    return read_plant(file)


def test_a_plant_is_what_its_file_says(file: Path) -> None:
    plant = parse(file)
    assert (plant.name, plant.title, plant.names, plant.parts) == (
        "small",
        "two tanks",
        ("A", "B", "C"),
        ("left", "right"),
    )
    assert (plant.edges, plant.edge_kinds) == (((0, 1), (1, 2)), ("pipe", "control"))
    assert plant.arrows.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert plant.adjacency.sum() == 4
    assert plant.actuators == (1,)
    assert (plant["C"].kind.unit, plant["C"].kind.possible, plant["A"].kind.possible) == ("mm", (0, 9000), (0, 9))
    assert plant["B"].note == "runs at night"
    assert (plant.period, plant.step, plant.window, plant.quiet) == (60, 60, 5, 720)
    assert pickle.loads(pickle.dumps(plant)) == plant  # workers get it
    assert find_plant(str(file)) == plant


def test_another_interval(file: Path) -> None:
    plant = parse(file)
    slow, fast = plant.every(300), plant.every(25)
    assert (slow.period, slow.step, slow.quiet) == (300, 300, 3600)
    assert (fast.period, fast.step) == (25, 75)
    # A gap of 12 steps stays one of 12 steps: of a file with a row every 15 minutes a single row may be missing.
    assert (plant.longest_gap, plant.every(900).longest_gap) == (720, 10_800)
    assert replace(plant, longest_gap=30).every(900).longest_gap == 900


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"A B"', '"A X"', "edges.pipe: the edge 'A X' has the unknown tag 'X'"),
        ('"A B"', '"A A"', "edges.pipe: an edge is two different tags"),
        ('"A B"', '"A B C"', "edges.pipe: an edge is two different tags"),
        ('"B C"', '"B A"', "edges.control: the edge 'B A' is there twice"),
        ('pipe = ["A B"]\ncontrol = ["B C"]', "", "edges: a plant needs at least one edge"),
        ('kind = "pump"', 'kind = "pmup"', "tags.B.kind: 'pmup' is not one of the kinds level, pump"),
        ('part = "left"', 'part = "up"', "tags.A.part: 'up' is not one of the parts left, right"),
        ("at = [1, 0]", "at = [0, 0]", r"tags.B.at: A is already at \[0.0, 0.0\]"),
        ("at = [1, 0]", "at = [1]", "tags.B.at: this must be two numbers"),
        (", at = [1, 0]", "", "tags.B.at: this entry is missing"),
        ("row = 60", "", "time.row: this entry is missing"),
        ("row = 60", "row = 0", "time.row: this must be a whole number, 1 or more"),
        ("row = 60", "row = 60\nstep = 90", "time.step: a step is a multiple of a row, which is 60 s"),
        ("row = 60", "row = 60\nsetp = 90", "time.setp: there is no such entry"),
        ('title = "two tanks"', "title = 3", "title: this must be a text"),
        ("possible = [0.0, 9.0]", "possible = [9.0, 0.0]", "kinds.level.possible: the first number must be less"),
        ('0 = "off"', 'off = "off"', "kinds.pump.states: a state is a whole number"),
        ("[time]", "[time", "it is not TOML"),
    ],
)
def test_a_mistake_is_named(file: Path, old: str, new: str, what: str) -> None:
    assert old in SMALL
    with pytest.raises(DataError, match=f"small.toml.*{what}"):
        parse(file, SMALL.replace(old, new))


def test_names_and_paths() -> None:
    with pytest.raises(InputError, match="there is no plant 'swta'; give one of batadal, swat, or the path"):
        Plant.named("swta")
    with pytest.raises(InputError, match=r"a plant file ends in \.toml"):
        read_plant("plant.json")
    with pytest.raises(DataError, match=r"cannot read 'none\.toml'"):
        read_plant("none.toml")
    with pytest.raises(InputError, match="unknown tag 'X'"):
        Plant.named("swat").column("X")
