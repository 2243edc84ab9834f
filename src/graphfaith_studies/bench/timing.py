"""Times of several contenders, measured in turns so that a busy moment of the machine affects all of them alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
Track = Callable[[Sequence[T]], Iterable[T]]


@dataclass(frozen=True)
class Contender:
    """Something to time: ``explanations(nodes)`` returns an iterator that computes one explanation per step.

    Work that ``explanations`` does before it returns the iterator is not timed. A ``slow`` contender gets fewer
    repetitions, and a warm-up of one node instead of all. With ``warm_up`` False it gets no warm-up.
    """

    name: str
    nodes: Sequence[int]
    explanations: Callable[[Sequence[int]], Iterator[Any]]
    slow: bool = False
    warm_up: bool = True


@dataclass(frozen=True)
class Timing:
    """The seconds of each repetition, for every node."""

    name: str
    seconds: dict[int, list[float]] = field(default_factory=dict)

    @property
    def by_node(self) -> dict[int, float]:
        """The median over the repetitions, for every node."""
        return {node: float(np.median(taken)) for node, taken in self.seconds.items()}

    @property
    def median(self) -> float:
        """The median over the nodes of their medians."""
        return float(np.median(list(self.by_node.values())))

    @property
    def mean(self) -> float:
        """The mean over the nodes of their medians."""
        return float(np.mean(list(self.by_node.values())))

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper quartile over the nodes of their medians."""
        low, high = np.percentile(list(self.by_node.values()), [25, 75])
        return float(low), float(high)

    def as_json(self) -> dict[str, Any]:
        """Return a summary in milliseconds, with the numbers of nodes and repetitions."""
        low, high = self.quartiles
        return {
            "method": self.name,
            "nodes": len(self.seconds),
            "repetitions": min(map(len, self.seconds.values())),
            "median_ms": 1e3 * self.median,
            "lower_quartile_ms": 1e3 * low,
            "upper_quartile_ms": 1e3 * high,
            "mean_ms": 1e3 * self.mean,
        }


@dataclass(frozen=True)
class Ratio:
    """How much longer one contender takes than another: the median of the nodes' ratios, and the ratio of the means."""

    value: float
    of_means: float


def ratio_of(above: Timing, below: Timing, *, paired: bool = True) -> Ratio:
    """Return ``above`` over ``below`` on the nodes that both have: the median ratio, and the ratio of the means.

    With ``paired`` False, for nodes of different graphs, the value is the ratio of the medians over all nodes.
    """
    if not paired:
        return Ratio(above.median / below.median, above.mean / below.mean)
    a, b = above.by_node, below.by_node
    shared = [node for node in a if node in b]
    if not shared:
        raise ValueError(f"{above.name} and {below.name} have no node in common")
    value = float(np.median([a[node] / b[node] for node in shared]))
    return Ratio(value, sum(a[node] for node in shared) / sum(b[node] for node in shared))


def time_interleaved(
    contenders: Sequence[Contender],
    repetitions: int,
    slow_repetitions: int = 1,
    *,
    clock: Callable[[], float] = time.perf_counter,
    track: Track[tuple[int, Contender]] = iter,
) -> dict[str, Timing]:
    """Time every contender on its nodes, ``repetitions`` times after a warm-up that is not counted.

    In each repetition all contenders explain their first node, then all explain their second node, and so on. The
    order of the contenders is drawn anew for every node, so that none always finds the caches in the state that one
    particular other contender left.
    """
    timings = {
        contender.name: Timing(contender.name, {node: [] for node in contender.nodes}) for contender in contenders
    }
    running: dict[str, Iterator[Any]] = {}
    current = None
    for repetition, contender in track(_make_schedule(contenders, repetitions, slow_repetitions)):
        if repetition != current:
            current, running = repetition, {}
        if contender.name not in running:
            nodes = _nodes_in(contender, repetition)
            running[contender.name] = zip(nodes, contender.explanations(nodes), strict=True)
        started = clock()
        node, explanation = next(running[contender.name])
        taken = clock() - started
        del explanation  # It is freed here, so that this time does not count for the next explanation.
        if repetition >= 0:
            timings[contender.name].seconds[node].append(taken)
    return timings


def _nodes_in(contender: Contender, repetition: int) -> Sequence[int]:
    """Return the nodes that a contender explains in a repetition, where -1 is the warm-up."""
    if repetition >= 0:
        return contender.nodes
    return contender.nodes[: (1 if contender.slow else len(contender.nodes)) * contender.warm_up]


def _make_schedule(
    contenders: Sequence[Contender], repetitions: int, slow_repetitions: int
) -> list[tuple[int, Contender]]:
    """Return the order in which the contenders explain, each with the number of the repetition; -1 is the warm-up."""
    order, steps = random.Random(0), []
    for repetition in range(-1, repetitions):
        active = [
            contender for contender in contenders if repetition < (slow_repetitions if contender.slow else repetitions)
        ]
        for place in range(max((len(_nodes_in(contender, repetition)) for contender in active), default=0)):
            turn = [contender for contender in active if place < len(_nodes_in(contender, repetition))]
            order.shuffle(turn)
            steps += [(repetition, contender) for contender in turn]
    return steps
