"""Small experiments for tests of the runner, which worker processes can import."""

from __future__ import annotations

import os
import time
from pathlib import Path

from matplotlib.figure import Figure

from graphfaith._base.errors import InputError
from graphfaith_studies.paper.experiment import Experiment, Unit


class Squares(Experiment):
    """Compute the square of each node; each unit writes a mark, so that tests can count how often it ran."""

    name = "squares"
    title = "Squares"
    count = 12

    def units(self, size):
        return [Unit("none", 0, node, cost=2.0) for node in range(self.count)]

    def measure(self, unit, size):
        marks = os.environ.get("PAPER_TOY_MARKS")
        if marks:
            with Path(marks).open("a") as file:
                file.write(f"{unit.node} {os.getpid()}\n")
        return {"square": unit.node**2}

    def make_rows(self, results, size):
        seen = os.environ.get("PAPER_TOY_ROWS")
        if seen:
            with Path(seen).open("a") as file:
                file.write(f"{self.name}\n")
        return [{"node": unit.node, "square": result["square"], "paper": None} for unit, result in results.items()]

    def to_markdown(self, rows):
        return ", ".join(str(row["square"]) for row in rows)

    def draw_figures(self, rows):
        figure = Figure()
        figure.subplots().plot([row["square"] for row in rows])
        return {"squares-curve": figure}


class Slow(Squares):
    """The first units take no time, and each other one a minute, so that all workers are busy for long."""

    name = "slow"
    count = 12
    quick = 6

    def measure(self, unit, size):
        result = super().measure(unit, size)
        time.sleep(60 if unit.node >= self.quick else 0)
        return result


class Uneven(Squares):
    """The last unit takes a minute, so that one of two workers is idle."""

    name = "uneven"
    count = 3

    def measure(self, unit, size):
        result = super().measure(unit, size)
        time.sleep(60 if unit.node == 2 else 0)
        return result


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

    def to_markdown(self, rows):
        return str(1 / 0)
