"""How far a run is, and how long the rest will take, from what units of each experiment have taken so far."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from .experiment import Unit

QUIET = 60.0  # seconds between lines where there is no terminal to draw a bar on


class Clock:
    """A bar on a terminal, a line a minute elsewhere.

    Time left is the sum over experiments of the cost of what is left, scaled by what its units cost so far (those of
    another experiment, if it has not begun), divided by the number of workers.

    Args:
        plan: by experiment, its units and whether nothing may run beside it.
        workers: how many units run at once.
        show: whether to show anything.
    """

    def __init__(self, plan: Mapping[str, tuple[Sequence[Unit], bool]], workers: int, show: bool) -> None:
        self.plan, self.workers, self.show = plan, workers, show
        self.left = {name: sum(unit.cost for unit in units) for name, (units, _) in plan.items()}
        self.total = sum(self.left.values())
        self.cost = dict.fromkeys(plan, 0.0)
        self.taken = dict.fromkeys(plan, 0.0)
        self.count = dict.fromkeys(plan, 0)
        self.began = self.said = time.monotonic()
        self.console = Console(stderr=True)
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Clock:
        """Begin to show."""
        if self.show and self.console.is_terminal:
            columns = (TextColumn("{task.fields[what]}"), BarColumn(), TextColumn("{task.fields[left]}"))
            self._bar = Progress(*columns, console=self.console, transient=True)
            self._task = self._bar.add_task("", total=max(self.total, 1e-9), what="starting", left="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wipe the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def had(self, name: str, unit: Unit, seconds: float) -> None:
        """A unit was done by an earlier run."""
        self._count(name, unit, seconds)
        self._say(name, now=False)

    def did(self, name: str, unit: Unit, seconds: float) -> None:
        """A unit is done."""
        self._count(name, unit, seconds)
        self._say(name, now=self.count[name] == len(self.plan[name][0]))

    def seconds_left(self) -> float:
        """How long the rest will take."""
        known = sum(self.cost.values())
        overall = sum(self.taken.values()) / known if known else 1.0
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

    def _say(self, name: str, *, now: bool) -> None:
        if not self.show:
            return
        what = f"{name}: {self.count[name]} of {len(self.plan[name][0])}"
        left = f"{_minutes(time.monotonic() - self.began)} gone, about {_minutes(self.seconds_left())} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=self.total - sum(self.left.values()), what=what, left=left)
        elif now or time.monotonic() - self.said >= QUIET:
            self.said = time.monotonic()
            self.console.print(f"{what}; {left}", highlight=False, markup=False, soft_wrap=True)


def _minutes(seconds: float) -> str:
    """Time as people say it.

    >>> _minutes(12.3), _minutes(3700)
    ('12 s', '62 min')
    """
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
