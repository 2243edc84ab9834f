"""Experiments that only run and wait, importable by worker processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from matplotlib.figure import Figure

from graphfaith._base.errors import InputError
from graphfaith_studies.paper.experiment import Experiment, Unit


class Squares(Experiment):
    """The square of each node; each unit leaves a mark, so that tests can see how often it was run."""

    name = "squares"
    title = "Squares"
    count = 12
    pause = 0.0

    def units(self, size):
        return [Unit("none", 0, node, cost=2.0) for node in range(self.count)]

    def measure(self, unit, size):
        marks = os.environ.get("PAPER_TOY_MARKS")
        if marks:
            with Path(marks).open("a") as file:
                file.write(f"{unit.node} {os.getpid()}\n")
        time.sleep(self.pause)
        return {"square": unit.node**2}

    def rows(self, found, size):
        seen = os.environ.get("PAPER_TOY_ROWS")
        if seen:
            with Path(seen).open("a") as file:
                file.write(f"{self.name}\n")
        return [{"node": unit.node, "square": one["square"], "paper": None} for unit, one in found.items()]

    def markdown(self, rows):
        return ", ".join(str(row["square"]) for row in rows)

    def figures(self, rows):
        drawn = Figure()
        drawn.subplots().plot([row["square"] for row in rows])
        return {"squares-curve": drawn}


class Slow(Squares):
    name = "slow"
    pause = 0.3
    count = 40


class Uneven(Squares):
    """The last unit takes long, and leaves one of two workers idle."""

    name = "uneven"
    count = 3

    def measure(self, unit, size):
        found = super().measure(unit, size)
        time.sleep(60 if unit.node == 2 else 0)
        return found


class Alone(Squares):
    name = "alone"
    alone = True
    count = 3


class Failing(Squares):
    name = "failing"

    def measure(self, unit, size):
        if unit.node == 5:
            raise InputError("five is not a number here")
        return super().measure(unit, size)


class Dying(Squares):
    name = "dying"

    def measure(self, unit, size):
        if unit.node == 5:
            os._exit(9)
        return super().measure(unit, size)


class Odd(Squares):
    name = "odd"

    def measure(self, unit, size):
        return {"square": float("nan") if unit.node == 5 else unit.node}


class Unwritable(Squares):
    name = "unwritable"

    def markdown(self, rows):
        return str(1 / 0)
