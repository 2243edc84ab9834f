"""What a table or figure of the paper is made of: units of work, each a node or so, and rows made of their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from matplotlib.figure import Figure

Row = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How much of an experiment to do.

    Attributes:
        name: what the size is called.
        thin: of the paper's nodes, every so manieth is taken.
        most: at most so many nodes.
        trainings: at most so many model seeds.
        share: of the samples to fit and to test on.
    """

    name: str
    thin: int = 1
    most: int | None = None
    trainings: int = 3
    share: float = 1.0

    def nodes(self, nodes: Sequence[int]) -> list[int]:
        """Of the nodes of an experiment those that this size takes.

        >>> QUICK.nodes(range(400, 700, 5))
        [400, 450, 500, 550, 600, 650]
        """
        return list(nodes)[:: self.thin][: self.most]

    def model_seeds(self, wanted: int) -> range:
        """The model seeds of an experiment that asks for ``wanted`` trainings."""
        return range(min(wanted, self.trainings))

    def samples(self, wanted: int) -> int:
        """How many samples to draw where the paper draws ``wanted``."""
        return max(8, round(self.share * wanted))


FULL = Size("full")
QUICK = Size("quick", thin=10)
TOY = Size("toy", thin=29, most=2, trainings=1, share=0.1)


@dataclass(frozen=True)
class Unit:
    """The smallest piece of work that is kept: a node of a data set, explained for a model of some seed.

    ``part`` tells apart what the other fields do not; ``cost`` is about how many seconds it takes.
    """

    dataset: str
    model_seed: int = 0
    node: int | None = None
    part: str = ""
    cost: float = field(default=1.0, compare=False)

    @property
    def key(self) -> str:
        """Its name in a journal."""
        node = "" if self.node is None else str(self.node)
        return "/".join((self.dataset, str(self.model_seed), node, self.part))


class Experiment(ABC):
    """One table or figure of the paper, in the library's words.

    The work is :meth:`measure` of each of the :meth:`units`, in any order and in several processes; what it returns
    goes through JSON. Everything people see is made of the :meth:`rows`.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # heading in the results
    alone: ClassVar[bool] = False  # whether nothing else may run beside it, because it takes times

    @abstractmethod
    def units(self, size: Size) -> list[Unit]:
        """The work there is."""

    @abstractmethod
    def measure(self, unit: Unit, size: Size) -> Any:
        """Do a unit of it: plain values, as JSON has them, that depend on nothing but the arguments."""

    @abstractmethod
    def rows(self, found: Mapping[Unit, Any], size: Size) -> list[Row]:
        """Rows of the results, with our value, its error and the paper's, of what :meth:`measure` returned."""

    @abstractmethod
    def markdown(self, rows: Sequence[Row]) -> str:
        """The rows as people read them, without a heading: tables, and what they mean."""

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:  # noqa: ARG002
        """Pictures of the rows, each with the name of its file (without a suffix)."""
        return {}
