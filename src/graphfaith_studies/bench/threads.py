"""One process with two threads against two processes of one thread each, and whether threads change the result.

``python -m graphfaith_studies.bench.threads DATASET NODES THREADS`` is one such process. It says when it is ready,
waits for a line, explains its nodes a few times and prints when it began and ended.
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

from .case import Case, loaded
from .contenders import EDGES

_ROUNDS = 5  # over its nodes by each process: a second or so of work, beside which starting together hardly counts


def threads(name: str, count: int, repetitions: int) -> dict[str, Any]:
    """Seconds for rounds over ``count`` nodes of a data set, each way, and the largest difference of a score."""
    case = loaded(name, count)
    nodes = list(case.nodes)
    ways = {
        "one_process_one_thread": [(nodes, 1)],
        "one_process_two_threads": [(nodes, 2)],
        "two_processes_one_thread": [(nodes[::2], 1), (nodes[1::2], 1)],
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repetitions):
        for way, workers in ways.items():
            seconds[way].append(_wall_time(name, workers))
    found = {way: float(np.median(taken)) for way, taken in seconds.items()}
    return {
        "dataset": name,
        "nodes": count,
        "rounds": _ROUNDS,
        "seconds": found,
        "processes_over_threads": found["two_processes_one_thread"] / found["one_process_two_threads"],
        "largest_relative_difference": largest_difference(case, nodes),
    }


def largest_difference(case: Case, nodes: Sequence[int]) -> float:
    """How far scores with one and with two threads are apart, at most, over the largest score of the node."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = [_scores(explanation) for explanation in case.explanations(KEC(EDGES), nodes)]
        torch.set_num_threads(2)
        two = [_scores(explanation) for explanation in case.explanations(KEC(EDGES), nodes)]
    finally:
        torch.set_num_threads(before)
    return max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(one, two, strict=True))


def _scores(explanation: Any) -> torch.Tensor:
    dx, da = explanation.difference_model.gradient()
    return torch.cat([dx.double().flatten(), da.double().flatten()])


def _wall_time(name: str, workers: Sequence[tuple[Sequence[int], int]]) -> float:
    """From the start of the first to the end of the last; the clock is one for all processes."""
    running = [_start(name, nodes, count) for nodes, count in workers]
    try:
        for one in running:
            _line(one)  # it is ready
        for one in running:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        spans = [json.loads(_line(one)) for one in running]
    finally:
        for one in running:
            one.kill()
            one.communicate()
    return float(max(end for _, end in spans) - min(begun for begun, _ in spans))


def _start(name: str, nodes: Sequence[int], count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "graphfaith_studies.bench.threads", name, ",".join(map(str, nodes)), str(count)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(count)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, said = process.communicate()
        raise GraphfaithError(f"a process of the bench stopped early: {said.strip()[-300:]}")
    return line


def _main(name: str, nodes: Sequence[int], count: int) -> None:
    torch.set_num_threads(count)
    case = loaded(name, 1)
    for _ in case.explanations(KEC(EDGES), nodes[:3]):
        pass
    print("ready", flush=True)
    sys.stdin.readline()
    rounds = [case.explanations(KEC(EDGES), nodes) for _ in range(_ROUNDS)]
    begun = time.monotonic()
    for explanations in rounds:
        for _ in explanations:
            pass
    print(json.dumps([begun, time.monotonic()]), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1], [int(node) for node in sys.argv[2].split(",")], int(sys.argv[3]))
