"""One process with two threads against two processes of one thread each, and whether threads change the result.

``python -m graphfaith_studies.bench.threads DATASET NODES THREADS`` is a worker process. It prints a line when it is
ready, waits for a line, explains its nodes several times, and prints the times when it began and ended. If NODES is
"all", it explains all nodes of the graph together.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from graphfaith._base.errors import GraphfaithError
from graphfaith.explainers import KEC

from .case import Case, load_case
from .contenders import EDGES

# Each process explains its nodes this many times. That is about a second of work, so that the moment at which the
# processes start hardly matters.
_ROUNDS = 5

Worker = tuple[Sequence[int] | None, int]  # the nodes of a process, None for all of them together, and its threads


def threads(name: str, count: int, repetitions: int) -> dict[str, Any]:
    """Measure the seconds that each way takes for ``count`` nodes of a data set, and how far the scores differ."""
    case = load_case(name, count)
    nodes = list(case.nodes)
    ways: dict[str, list[Worker]] = {
        "one_process_one_thread": [(nodes, 1)],
        "one_process_two_threads": [(nodes, 2)],
        "two_processes_one_thread": [(nodes[::2], 1), (nodes[1::2], 1)],
        "one_sweep_one_thread": [(None, 1)],
        "one_sweep_two_threads": [(None, 2)],
        "two_sweeps_at_once": [(None, 1), (None, 1)],
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repetitions):
        for way, workers in ways.items():
            seconds[way].append(_measure_wall_time(name, workers))
    medians = {way: float(np.median(taken)) for way, taken in seconds.items()}
    return {
        "dataset": name,
        "nodes": count,
        "rounds": _ROUNDS,
        "seconds": medians,
        "processes_over_threads": medians["two_processes_one_thread"] / medians["one_process_two_threads"],
        "sweep_over_one_thread": medians["one_sweep_two_threads"] / medians["one_sweep_one_thread"],
        # Two processes that share nothing slow each other down too, where two processors share what they are made of.
        "sweep_floor": medians["two_sweeps_at_once"] / 2 / medians["one_sweep_one_thread"],
        "largest_relative_difference": find_largest_difference(case, nodes),
    }


def find_largest_difference(case: Case, nodes: Sequence[int]) -> float:
    """Return the largest relative difference between the scores with one and with two threads.

    It is max_v max_i |a_vi - b_vi| / max_i |a_vi|, for the scores a_v with one thread and b_v with two at a node v.
    """
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with_one = [_scores_of(explanation) for explanation in case.explanations(KEC(EDGES), nodes)]
        torch.set_num_threads(2)
        with_two = [_scores_of(explanation) for explanation in case.explanations(KEC(EDGES), nodes)]
    finally:
        torch.set_num_threads(before)
    return max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(with_one, with_two, strict=True))


def _scores_of(explanation: Any) -> torch.Tensor:
    dx, da = explanation.difference_model.gradient()
    return torch.cat([dx.double().flatten(), da.double().flatten()])


def _measure_wall_time(name: str, workers: Sequence[Worker]) -> float:
    """Return the seconds from the start of the first worker to the end of the last one.

    All processes share the same monotonic clock.
    """
    processes = [_start_worker(name, nodes, count) for nodes, count in workers]
    try:
        for process in processes:
            _read_line(process)  # The worker says that it is ready.
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        spans = [json.loads(_read_line(process)) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return float(max(ended for _, ended in spans) - min(began for began, _ in spans))


def _start_worker(name: str, nodes: Sequence[int] | None, count: int) -> subprocess.Popen[str]:
    named = "all" if nodes is None else ",".join(map(str, nodes))
    command = [sys.executable, "-m", "graphfaith_studies.bench.threads", name, named, str(count)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(count)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def _read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, errors = process.communicate()
        raise GraphfaithError(f"a process of the bench stopped early: {errors.strip()[-300:]}")
    return line


def _main(name: str, nodes: Sequence[int] | None, count: int) -> None:
    torch.set_num_threads(count)
    case, algorithm = load_case(name, 1), KEC(EDGES)

    def explain() -> None:
        if nodes is None:
            case.records(algorithm)
        else:
            for _ in case.explanations(algorithm, nodes):
                pass

    explain()  # The first explanations are a warm-up and are not timed.
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    for _ in range(_ROUNDS):
        explain()
    print(json.dumps([began, time.monotonic()]), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1], None if sys.argv[2] == "all" else [int(n) for n in sys.argv[2].split(",")], int(sys.argv[3]))
