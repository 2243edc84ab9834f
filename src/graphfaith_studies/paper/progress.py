"""The progress of a run, and an estimate of the time left from the units that are done."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from graphfaith._base.console import Notes
from graphfaith._base.duration import in_words

from .experiment import Unit

QUIET = 60.0  # seconds between lines where there is no terminal to show a bar


class Clock:
    """A progress bar on a terminal, and a line per minute elsewhere.

    The time left is the sum over experiments of (cost of the units left) * (seconds per cost so far) / workers. An
    experiment without finished units uses the seconds per cost of all experiments.

    Args:
        plan: for each experiment, its units and whether it must run alone.
        workers: the number of units that run at the same time.
        show: whether to show anything.
    """

    def __init__(self, plan: Mapping[str, tuple[Sequence[Unit], bool]], workers: int, show: bool) -> None:
        self.plan, self.workers, self.show = plan, workers, show
        self.left = {name: sum(unit.cost for unit in units) for name, (units, _) in plan.items()}
        self.total = sum(self.left.values())
        self.cost = dict.fromkeys(plan, 0.0)
        self.taken = dict.fromkeys(plan, 0.0)
        self.count = dict.fromkeys(plan, 0)
        self.began = self.reported = time.monotonic()
        self.console = Notes()
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Clock:
        """Start the bar, if there is a terminal."""
        if self.show and self.console.is_terminal:
            columns = (TextColumn("{task.fields[what]}"), BarColumn(), TextColumn("{task.fields[left]}"))
            self._bar = Progress(*columns, console=self.console, transient=True)
            self._task = self._bar.add_task("", total=max(self.total, 1e-9), what="starting", left="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()

    def count_earlier(self, name: str, unit: Unit, seconds: float) -> None:
        """Count a unit that an earlier run has done."""
        self._count(name, unit, seconds)
        self._report(name, now=False)

    def count_done(self, name: str, unit: Unit, seconds: float) -> None:
        """Count a unit that is done now."""
        self._count(name, unit, seconds)
        self._report(name, now=self.count[name] == len(self.plan[name][0]))

    def seconds_left(self) -> float:
        """Return the estimated seconds that the rest will take."""
        cost = sum(self.cost.values())
        overall = sum(self.taken.values()) / cost if cost else 1.0
        total = 0.0
        for name, (_, alone) in self.plan.items():
            scale = self.taken[name] / self.cost[name] if self.cost[name] else overall
            total += self.left[name] * scale / (1 if alone else self.workers)
        return total

    def _count(self, name: str, unit: Unit, seconds: float) -> None:
        self.left[name] = max(0.0, self.left[name] - unit.cost)
        self.cost[name] += unit.cost
        self.taken[name] += seconds
        self.count[name] += 1

    def _report(self, name: str, *, now: bool) -> None:
        if not self.show:
            return
        what = f"{name}: {self.count[name]} of {len(self.plan[name][0])}"
        left = f"{in_words(time.monotonic() - self.began)} gone, about {in_words(self.seconds_left())} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=self.total - sum(self.left.values()), what=what, left=left)
        elif now or time.monotonic() - self.reported >= QUIET:
            self.reported = time.monotonic()
            self.console.print(f"{what}; {left}", highlight=False, markup=False, soft_wrap=True)
