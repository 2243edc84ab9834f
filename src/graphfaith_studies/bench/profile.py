"""How the time of an explanation is distributed over its stages."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from graphfaith._base.stages import measure_stages
from graphfaith.explainers import KEC
from graphfaith.sampling.neighborhood import Neighborhood

from .case import Case
from .contenders import EDGES, FEATURES
from .plan import Plan


def profiles(cases: Mapping[str, Case], plan: Plan) -> list[dict[str, Any]]:
    """Return the milliseconds per node of each stage of KEC, for every case and each kind of perturbation.

    Nodes are explained one at a time.
    """
    rows = []
    for name, case in cases.items():
        # Constant features have no range, so they cannot be perturbed.
        kinds: list[Neighborhood] = [EDGES] if case.data.x.min() == case.data.x.max() else [EDGES, FEATURES]
        rows += [{"dataset": name, "neighborhood": str(near), **_measure_stages(case, near, plan)} for near in kinds]
    return rows


def profile_of_all(name: str, case: Case, plan: Plan) -> dict[str, Any]:
    """Return the milliseconds per node of each stage of KEC when all nodes of a graph are explained together."""
    nodes = range(int(case.data.num_nodes))
    row = _measure_stages(case, EDGES, plan, nodes, plan.all_nodes_repetitions, together=True)
    return {"dataset": f"all of {name}", "neighborhood": str(EDGES), **row}


def _measure_stages(
    case: Case,
    near: Neighborhood,
    plan: Plan,
    nodes: Sequence[int] | None = None,
    repetitions: int | None = None,
    *,
    together: bool = False,
) -> dict[str, Any]:
    algorithm = KEC(near, num_samples=plan.samples)
    nodes = case.nodes if nodes is None else nodes
    repetitions = plan.repetitions if repetitions is None else repetitions
    # The first explanations are a warm-up and are not measured.
    for _ in case.explanations(algorithm, nodes[: len(case.nodes)], together=together):
        pass
    total, stages = 0.0, dict[str, float]()
    for _ in range(repetitions):
        explanations = case.explanations(algorithm, nodes, together=together)
        with measure_stages() as seconds:
            started = time.perf_counter()
            for _explanation in explanations:
                pass
            total += time.perf_counter() - started
        for stage, taken in seconds.items():
            stages[stage] = stages.get(stage, 0.0) + taken
    to_ms = 1e3 / (repetitions * len(nodes))
    stages["other"] = total - sum(stages.values())
    return {"nodes": len(nodes), "total_ms": to_ms * total, "ms": {name: to_ms * t for name, t in stages.items()}}
