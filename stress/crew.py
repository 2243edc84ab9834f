"""Processes that try one seed after another, and are replaced when a seed ends or blocks them."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from table import Outcome

Try = Callable[[int], Outcome]

DIED, BLOCKED = "process died", "no answer"


@dataclass
class Crew:
    """Tries seeds in a few processes, until all are tried or the time is over.

    Attributes:
        function: tries a seed; a function of a module, which the processes import.
        again: the command that tries one seed again, with ``{}`` for the seed; it is printed with every failure.
        workers: the number of processes; with 0 everything runs in this one, without any limit but the seconds.
        seconds: after these no seed is begun.
        patience: seconds after which a seed counts as blocked, and its process is ended.
        memory: bytes of address space that a process may add to what it has after importing; None sets no limit.
    """

    function: Try
    again: str
    workers: int = 2
    seconds: float = 120.0
    patience: float = 30.0
    memory: int | None = None
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    def try_all(self, seeds: Iterable[int]) -> dict[int, Outcome]:
        """Return the outcomes by seed, in the order of the seeds; those that there was no time for are missing."""
        waiting, order, end = iter(seeds), [], time.monotonic() + self.seconds
        waiting = iter(order := list(waiting))
        if not self.workers:
            for seed in waiting:
                if time.monotonic() > end:
                    break
                self._keep(seed, self.function(seed))
        else:
            self._share(waiting, end)
        return {seed: self.outcomes[seed] for seed in order if seed in self.outcomes}

    def _share(self, waiting: Any, end: float) -> None:
        hands = [_Hand(self.function, self.memory) for _ in range(self.workers)]
        while hands:
            multiprocessing.connection.wait([hand.pipe for hand in hands], timeout=1.0)
            for hand in list(hands):
                for seed, outcome in hand.answers():
                    self._keep(seed, outcome)
                if hand.is_gone(self.patience):
                    seed, outcome = hand.close()
                    if seed is not None:
                        self._keep(seed, outcome)
                    hands[hands.index(hand)] = hand = _Hand(self.function, self.memory)
                if hand.is_ready:
                    seed = next(waiting, None) if time.monotonic() < end else None
                    if seed is None:
                        hand.close()
                        hands.remove(hand)
                    else:
                        hand.give(seed)

    def _keep(self, seed: int, outcome: Outcome) -> None:
        self.outcomes[seed] = outcome
        if outcome.failed:
            detail = " ".join(outcome.detail.split())
            print(
                f"  {outcome.kind}: {detail[:400]}\n    again: {self.again.format(seed)}", file=sys.stderr, flush=True
            )


class _Hand:
    """One process, and the seed that it is trying."""

    def __init__(self, function: Try, memory: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(function, other, memory), daemon=True)
        self.process.start()
        other.close()
        self.seed: int | None = None
        self.began = time.monotonic()
        self.is_ready = False

    def give(self, seed: int) -> None:
        self.seed, self.began, self.is_ready = seed, time.monotonic(), False
        self.pipe.send(seed)

    def answers(self) -> list[tuple[int, Outcome]]:
        """Return what the process has sent; its first message only says that it is ready."""
        found: list[tuple[int, Outcome]] = []
        try:
            while self.pipe.poll():
                outcome = self.pipe.recv()
                if self.seed is not None:
                    found.append((self.seed, outcome))
                self.seed, self.is_ready = None, True
        except (EOFError, OSError):
            self.is_ready = False
        return found

    def is_gone(self, patience: float) -> bool:
        late = time.monotonic() - self.began > max(patience, 0 if self.seed is not None else 120)
        return not self.is_ready and (not self.process.is_alive() or late)

    def close(self) -> tuple[int | None, Outcome]:
        """End the process, and return the seed that it did not finish."""
        alive = self.process.is_alive()
        self.process.kill()
        self.process.join()
        self.pipe.close()
        if alive:
            return self.seed, Outcome(BLOCKED, True, f"seed {self.seed}: no answer in time")
        return self.seed, Outcome(DIED, True, f"seed {self.seed}: the process ended with code {self.process.exitcode}")


def _work(function: Try, pipe: Any, memory: int | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others.
    if memory is not None:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    pipe.send(None)
    while True:
        try:
            seed = pipe.recv()
        except EOFError:
            return
        pipe.send(function(seed))
