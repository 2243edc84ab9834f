"""An experiment, which makes a table or figure of the paper from units of work and rows of results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from matplotlib.figure import Figure

Row = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """The share of an experiment that a run does.

    Attributes:
        name: the name of the size.
        thin: one of every ``thin`` nodes of the paper is used.
        most: the largest number of nodes, or None for no limit.
        trainings: the largest number of model seeds.
        share: the share of the samples for fitting and testing that are drawn.
    """

    name: str
    thin: int = 1
    most: int | None = None
    trainings: int = 3
    share: float = 1.0

    def nodes(self, nodes: Sequence[int]) -> list[int]:
        """Return the nodes of an experiment that this size uses.

        >>> QUICK.nodes(range(400, 700, 5))
        [400, 450, 500, 550, 600, 650]
        """
        return list(nodes)[:: self.thin][: self.most]

    def model_seeds(self, wanted: int) -> range:
        """Return the model seeds of an experiment that asks for ``wanted`` trainings."""
        return range(min(wanted, self.trainings))

    def samples(self, wanted: int) -> int:
        """Return the number of samples to draw where the paper draws ``wanted``."""
        return max(8, round(self.share * wanted))


FULL = Size("full")
QUICK = Size("quick", thin=10)
TOY = Size("toy", thin=29, most=2, trainings=1, share=0.1)


@dataclass(frozen=True)
class Unit:
    """The smallest piece of work whose result is kept: usually a node of a data set, for a model of a given seed.

    ``part`` distinguishes units whose other fields are equal. ``cost`` is roughly the number of seconds it takes.
    """

    dataset: str
    model_seed: int = 0
    node: int | None = None
    part: str = ""
    cost: float = field(default=1.0, compare=False)

    @property
    def key(self) -> str:
        """The name of the unit in a journal."""
        node = "" if self.node is None else str(self.node)
        return "/".join((self.dataset, str(self.model_seed), node, self.part))


class Experiment(ABC):
    """One table or figure of the paper.

    :meth:`measure` is called for each of the :meth:`units`, in any order and in several processes. Its results are
    stored as JSON. All texts and figures are made from the rows that :meth:`make_rows` returns.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # the heading in the results
    alone: ClassVar[bool] = False  # whether nothing else may run at the same time, because it measures times

    def check(self) -> None:  # noqa: B027
        """Raise an error if something that the experiment needs is missing; this is asked before any work."""

    @abstractmethod
    def units(self, size: Size) -> list[Unit]:
        """Return the units of work."""

    @abstractmethod
    def measure(self, unit: Unit, size: Size) -> Any:
        """Do one unit of work and return JSON values that depend only on the arguments."""

    @abstractmethod
    def make_rows(self, results: Mapping[Unit, Any], size: Size) -> list[Row]:
        """Return the rows with our value, its error and the paper's value, from the results of :meth:`measure`."""

    @abstractmethod
    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return the rows as tables with explanations, without a heading."""

    def draw_figures(self, rows: Sequence[Row]) -> dict[str, Figure]:  # noqa: ARG002
        """Return figures of the rows by the names of their files (without a suffix)."""
        return {}
