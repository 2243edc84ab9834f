"""How the time of a piece of our work is distributed over its stages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphfaith._base.stages import measure_stages
from graphfaith.explainers import KEC, AnchoredKEC, FaithfulExplainer

from . import pieces
from .case import Case
from .contenders import EDGES, FEATURES, all_nodes_contender, anchored_nodes, part_runner
from .plan import Plan

# The pieces whose time is that of one node after the other on a data set, by the name of the data set.
_ON = {"ba-shapes": pieces.BA_SHAPES, "citeseer": pieces.CITESEER, "million": pieces.MILLION}


@dataclass(frozen=True)
class _Job:
    """Something to profile: ``start`` returns an iterator that does the work for ``nodes`` nodes."""

    start: Callable[[], Iterator[Any]]
    nodes: int
    repetitions: int
    warm_up: bool = True


def measure_profiles(
    cases: Mapping[str, Case], plan: Plan, wanted: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the milliseconds a node of each stage, for the ``wanted`` pieces of work that these cases have.

    If None, all of them are measured. "other" is what no stage claims.
    """
    jobs = _jobs_on(cases, plan)
    return [{"piece": name, **_measure(job)} for name, job in jobs.items() if wanted is None or name in wanted]


def _jobs_on(cases: Mapping[str, Case], plan: Plan) -> dict[str, _Job]:
    kec, jobs = KEC(EDGES, num_samples=plan.samples), {}
    if "cora" in cases:
        cora = cases["cora"]
        called = part_runner(cora, kec)
        jobs[pieces.ON_PART] = _Job(lambda: called(cora.nodes), len(cora.nodes), plan.repetitions)
        for name, algorithm in (
            (pieces.ONE, kec),
            (pieces.MANY, KEC(EDGES, num_samples=plan.many_samples)),
            (pieces.FEATURES, KEC(FEATURES, num_samples=plan.samples)),
            (pieces.SLOPE, AnchoredKEC(EDGES, num_samples=plan.samples, reading="slope")),
            (pieces.ANCHORED, AnchoredKEC(EDGES, num_samples=plan.samples)),
        ):
            jobs[name] = _one_by_one(cora, algorithm, plan)
        anchored = AnchoredKEC(EDGES, num_samples=plan.samples)
        jobs[pieces.ALL] = _together(cora, kec)
        jobs[pieces.ALL_THREADS] = _together(cora, kec, threads=2)
        jobs[pieces.ALL_MASKS] = _together(cora, kec, masks=True)
        jobs[pieces.ALL_ANCHORED] = _together(cora, anchored, anchored_nodes(cora, plan))
    jobs |= {piece: _one_by_one(cases[name], kec, plan) for name, piece in _ON.items() if name in cases}
    if "large-sweep" in cases:
        jobs[pieces.LARGE_SWEEP] = _together(cases["large-sweep"], kec)
    return jobs


def _one_by_one(case: Case, algorithm: FaithfulExplainer, plan: Plan) -> _Job:
    return _Job(lambda: case.explanations(algorithm, case.nodes), len(case.nodes), plan.repetitions)


def _together(case: Case, algorithm: FaithfulExplainer, nodes: Sequence[int] | None = None, **options: Any) -> _Job:
    """Return the job of explaining nodes together, all if None; being long, it is done once and not warmed up."""
    count = int(case.data.num_nodes) if nodes is None else len(nodes)
    contender = all_nodes_contender(case, "", algorithm, nodes, **options)
    return _Job(lambda: contender.explanations([0]), count, 1, warm_up=False)


def _measure(job: _Job) -> dict[str, Any]:
    if job.warm_up:
        for _ in job.start():
            pass
    total, stages = 0.0, dict[str, float]()
    for _ in range(job.repetitions):
        explanations = job.start()
        with measure_stages() as seconds:
            started = time.perf_counter()
            for _explanation in explanations:
                pass
            total += time.perf_counter() - started
        for stage, taken in seconds.items():
            stages[stage] = stages.get(stage, 0.0) + taken
    to_ms = 1e3 / (job.repetitions * job.nodes)
    stages["other"] = total - sum(stages.values())
    return {"nodes": job.nodes, "total_ms": to_ms * total, "ms": {name: to_ms * t for name, t in stages.items()}}
