"""Times of several contenders, taken in turns so that a busy moment of the machine hits all of them alike."""

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
    """Something to time: ``explanations(nodes)`` is an iterator that makes one explanation each time it is asked.

    What is done before the first one is asked for is not timed. A ``slow`` one gets fewer repetitions, and one node
    of warm-up rather than a round; ``warm_up`` False spares it that one too.
    """

    name: str
    nodes: Sequence[int]
    explanations: Callable[[Sequence[int]], Iterator[Any]]
    slow: bool = False
    warm_up: bool = True


@dataclass(frozen=True)
class Timing:
    """Seconds of each repetition, by node."""

    name: str
    seconds: dict[int, list[float]] = field(default_factory=dict)

    @property
    def by_node(self) -> dict[int, float]:
        """The median over repetitions for each node."""
        return {node: float(np.median(taken)) for node, taken in self.seconds.items()}

    @property
    def median(self) -> float:
        """The median over nodes of their medians."""
        return float(np.median(list(self.by_node.values())))

    @property
    def mean(self) -> float:
        """The mean over nodes of their medians."""
        return float(np.mean(list(self.by_node.values())))

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper quartile over nodes."""
        low, high = np.percentile(list(self.by_node.values()), [25, 75])
        return float(low), float(high)

    def as_json(self) -> dict[str, Any]:
        """The summary in milliseconds, and how many nodes and repetitions it is of."""
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
    """How much longer one takes than another: the typical node's ratio, and the ratio of the means."""

    value: float
    of_means: float


def ratio(above: Timing, below: Timing, *, paired: bool = True) -> Ratio:
    """``above`` over ``below``: the median over the nodes both have of the node's ratio, and the ratio of means.

    Unpaired, for nodes of different graphs, it is the ratio of the medians.
    """
    if not paired:
        return Ratio(above.median / below.median, above.mean / below.mean)
    a, b = above.by_node, below.by_node
    shared = [node for node in a if node in b]
    if not shared:
        raise ValueError(f"{above.name} and {below.name} have no node in common")
    value = float(np.median([a[node] / b[node] for node in shared]))
    return Ratio(value, sum(a[node] for node in shared) / sum(b[node] for node in shared))


def interleaved(
    contenders: Sequence[Contender],
    repetitions: int,
    slow_repetitions: int = 1,
    *,
    clock: Callable[[], float] = time.perf_counter,
    track: Track[tuple[int, Contender]] = iter,
) -> dict[str, Timing]:
    """Time every contender on its nodes, ``repetitions`` times after a round that does not count.

    In a repetition the first node of each comes first, then the second of each, and so on. Which contender goes
    first is drawn anew every time: each then finds the caches as any other may have left them.
    """
    timings = {one.name: Timing(one.name, {node: [] for node in one.nodes}) for one in contenders}
    running: dict[str, Iterator[Any]] = {}
    current = None
    for repetition, one in track(_schedule(contenders, repetitions, slow_repetitions)):
        if repetition != current:
            current, running = repetition, {}
        if one.name not in running:
            nodes = _nodes_in(one, repetition)
            running[one.name] = zip(nodes, one.explanations(nodes), strict=True)
        started = clock()
        node, made = next(running[one.name])
        taken = clock() - started
        del made  # freeing an explanation is not part of making the next
        if repetition >= 0:
            timings[one.name].seconds[node].append(taken)
    return timings


def _nodes_in(one: Contender, repetition: int) -> Sequence[int]:
    if repetition >= 0:
        return one.nodes
    return one.nodes[: (1 if one.slow else len(one.nodes)) * one.warm_up]


def _schedule(contenders: Sequence[Contender], repetitions: int, slow_repetitions: int) -> list[tuple[int, Contender]]:
    """Who makes an explanation when; repetition -1 is the warm-up."""
    order, steps = random.Random(0), []
    for repetition in range(-1, repetitions):
        taking = [one for one in contenders if repetition < (slow_repetitions if one.slow else repetitions)]
        for place in range(max((len(_nodes_in(one, repetition)) for one in taking), default=0)):
            turn = [one for one in taking if place < len(_nodes_in(one, repetition))]
            order.shuffle(turn)
            steps += [(repetition, one) for one in turn]
    return steps
