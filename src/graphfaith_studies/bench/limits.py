"""The limit beside each time: how long the bytes and the arithmetic alone would take at this machine's rates."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from . import contenders, pieces
from .case import Case, spread
from .plan import Plan
from .rates import Rates, measure_rates
from .work import (
    Shape,
    Work,
    shapes_of,
    shared_work,
    work_of_anchored_fit,
    work_of_draws,
    work_of_feature_fit,
    work_of_fit,
    work_of_masks,
    work_of_model,
    work_of_records,
    work_of_share_draws,
    work_of_shares,
)

_MOST = 1000  # computation graphs of which the mean is taken for a graph with more nodes


def measure_limits(result: Mapping[str, Any], cases: Mapping[str, Case], plan: Plan) -> dict[str, Any]:
    """Return the machine's rates, and a row with the limit for every time that ``result`` has.

    ``limit_ms`` is what bytes and operations alone take (:mod:`~graphfaith_studies.bench.work`). ``floor_ms`` adds the
    calls of the model that no explanation of one node can do without, as long as each takes on a small graph.
    """
    rates = measure_rates()
    forward, backward = measure_calls(cases["cora"]) if "cora" in cases else (0.0, 0.0)
    rows = []
    for name, measured in times_of(result).items():
        limit, calls = _limit_of(name, cases, plan, rates)
        floor = limit + calls[0] * forward + calls[1] * backward
        rows.append(
            {
                "piece": name,
                "measured_ms": measured,
                "limit_ms": 1e3 * limit,
                "over_limit": measured / (1e3 * limit),
                "floor_ms": 1e3 * floor,
            }
        )
    calls_ms = {"forward_ms": 1e3 * forward, "forward_and_backward_ms": 1e3 * backward} if "cora" in cases else {}
    return {"rates": {**rates.as_json(), **calls_ms}, "rows": rows}


def times_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the milliseconds a node of each piece of our work in a run."""
    cora = {row["method"]: row["median_ms"] for row in result["tables"].get("cora", ())}
    parts, whole, sizes = (result.get(key, {}) for key in ("computation_graph", "whole_graph", "sizes"))
    times = {
        pieces.ON_PART: parts.get("kec_ms"),
        pieces.ONE: cora.get("kec"),
        pieces.MANY: cora.get(contenders.KEC_MANY),
        pieces.FEATURES: cora.get(contenders.KEC_FEATURES),
        pieces.SLOPE: cora.get(contenders.ANCHORED_SLOPE),
        pieces.ANCHORED: cora.get("anchored-kec"),
        pieces.ALL: whole.get("ms_a_node"),
        pieces.ALL_THREADS: whole.get("two_threads_ms_a_node"),
        pieces.ALL_ANCHORED: result.get("anchored_whole_graph", {}).get("ms_a_node"),
        pieces.LARGE_SWEEP: sizes.get("large_sweep_ms"),
        pieces.CITESEER: sizes.get("citeseer_ms"),
        pieces.MILLION: sizes.get("million_ms"),
    }
    return {name: taken for name, taken in times.items() if taken is not None}


def _limit_of(name: str, cases: Mapping[str, Case], plan: Plan, rates: Rates) -> tuple[float, tuple[int, int]]:
    """Return the seconds a node of a piece of work, and how often it has to call the model forwards, and backwards.

    The limit is the median over the nodes where the measured time is one, and the mean where all nodes are explained.
    """
    samples = plan.many_samples if name == pieces.MANY else plan.samples
    if name in (pieces.ALL, pieces.ALL_THREADS, pieces.ALL_ANCHORED, pieces.LARGE_SWEEP):
        case = cases["large-sweep" if name == pieces.LARGE_SWEEP else "cora"]
        anchored = name == pieces.ALL_ANCHORED
        fit = work_of_whole_anchored if anchored else work_of_fit
        count = int(case.data.num_nodes)
        shapes = shapes_of(case, spread(range(count), _MOST if count > 10 * _MOST else count))
        own = [fit(shape, samples) + work_of_records(shape) for shape in shapes]
        total = sum(own, Work()) * (1 / len(own)) + shared_work(case, samples, shares=anchored) * (1 / count)
        return total.seconds(rates) / (2 if name == pieces.ALL_THREADS else 1), (0, 0)
    case = cases[{pieces.CITESEER: "citeseer", pieces.MILLION: "million"}.get(name, "cora")]
    each = [_work_of_one(name, shape, samples).seconds(rates) for shape in shapes_of(case, case.nodes)]
    calls = (0, 1) if name in (pieces.SLOPE, pieces.ANCHORED) else (2 if name == pieces.ON_PART else 1, 0)
    return float(np.median(each)), calls


def _work_of_one(name: str, shape: Shape, samples: int) -> Work:
    """Return the work of one node that is explained alone."""
    features = name == pieces.FEATURES
    fits: dict[str, Callable[[Shape, int], Work]] = {
        pieces.FEATURES: work_of_feature_fit,
        pieces.SLOPE: work_of_anchored_fit,
        pieces.ANCHORED: work_of_whole_anchored,
    }
    drawn, ran = (work(shape, samples, features=features) for work in (work_of_draws, work_of_model))
    if name == pieces.ANCHORED:
        drawn = drawn + work_of_share_draws(shape)
    return drawn + ran + fits.get(name, work_of_fit)(shape, samples) + work_of_masks(shape)


def work_of_whole_anchored(shape: Shape, samples: int) -> Work:
    """Return the work of AnchoredKEC's fit and of the shares and pairs that are read off it."""
    return work_of_anchored_fit(shape, samples) + work_of_shares(shape, samples)


def measure_calls(case: Case, repetitions: int = 20) -> tuple[float, float]:
    """Return the seconds of one call of the model on a computation graph, and of one with a pass backwards.

    Both are medians over the nodes of the fastest of some repetitions.
    """
    forward, backward = [], []
    for node in case.nodes:
        part = case.target(node).computation_graph
        weight = part.weight.clone().requires_grad_()
        forward.append(_shortest_call(case.model, (part.x, part.edge_index, part.weight), None, repetitions))
        backward.append(_shortest_call(case.model, (part.x, part.edge_index, weight), weight, repetitions))
    return float(np.median(forward)), float(np.median(backward))


def _shortest_call(
    model: torch.nn.Module, arguments: Sequence[torch.Tensor], leaf: torch.Tensor | None, repetitions: int
) -> float:
    taken = []
    with torch.set_grad_enabled(leaf is not None):
        for _ in range(repetitions):
            started = time.perf_counter()
            out = model(*arguments)[0, 0]
            if leaf is not None:
                torch.autograd.grad(out, leaf)
            taken.append(time.perf_counter() - started)
    return min(taken)
