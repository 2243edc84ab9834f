"""One run of the bench: tables of every data set, and the figures made of them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from graphfaith._base.progress import track
from graphfaith.explainers import KEC
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.surrogate.difference import DifferenceModel

from . import contenders as who
from .case import TEN_THOUSAND, Case, generated, lattice_model, loaded, spread
from .machine import machine
from .peak import highest, peak_of_one_node
from .plan import Plan
from .ratios import in_order
from .straightforward import straightforward_kec
from .timing import Contender, Ratio, Timing, interleaved, ratio

TABLES = ("ba-shapes", "cora", "citeseer", "million")


def cases_for(names: Sequence[str], plan: Plan) -> dict[str, Case]:
    """The cases of these tables by name, and the smaller graph that the million is compared with."""
    counts = {"ba-shapes": plan.ba_shapes_nodes}
    found = {name: loaded(name, counts.get(name, plan.nodes)) for name in names if name != "million"}
    if "million" in names:
        model = lattice_model()
        found["ten-thousand"] = generated(TEN_THOUSAND, spread(range(TEN_THOUSAND), plan.nodes), model)
        found["million"] = generated(plan.large, spread(range(plan.large), plan.nodes), model)
    return found


def run(cases: Mapping[str, Case], plan: Plan, *, show: bool | None = False) -> dict[str, Any]:
    """Time everything on these cases; the result is plain values, ``ratios`` among them.

    Figures need the cases they are of: "cora" for most, and "citeseer", "million" and "ten-thousand".
    """
    started = time.perf_counter()
    result: dict[str, Any] = {"ratios": {}, "machine": machine(), "tables": {}}
    figures: dict[str, Ratio | float | None] = {}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        for message in ("Converting a tensor with requires_grad=True", "Input Tensor . did not already require"):
            warnings.filterwarnings("ignore", message=message)  # PyG's and Captum's about themselves
        torch.manual_seed(0)  # PyG's explainers begin with a random mask
        for name in (name for name in TABLES if name in cases):
            timings = _timed(cases[name], plan, name, show)
            result["tables"][name] = rows_of(timings)
            if name == "cora":
                figures |= _figures_of(timings)
        if "cora" in cases:
            same = _on_the_same_part(cases["cora"], plan, show)
            result["computation_graph"], figures["kec_over_captum_saliency"] = same
            result["faithfulness"] = _faithfulness(cases["cora"], plan, show)
            result["whole_graph"], figures["whole_graph_over_one_node"] = _whole_graph(cases["cora"], plan, show)
        if "cora" in cases and "citeseer" in cases:
            figures["citeseer_over_cora"] = _beside(cases["citeseer"], cases["cora"], plan, show)
        if "million" in cases:
            figures["million_over_ten_thousand"] = _beside(cases["million"], cases["ten-thousand"], plan, show)
            figures["million_peak_mb"] = peak_of_one_node(plan.large)
    result["ratios"] = in_order(figures)
    result["ratios_of_means"] = {key: one.of_means for key, one in figures.items() if isinstance(one, Ratio)}
    result["bench_peak_mb"] = highest()
    result["seconds"] = time.perf_counter() - started
    return result


def rows_of(timings: Mapping[str, Timing]) -> list[dict[str, Any]]:
    """A row for each contender, with its ratios to Captum's saliency and to GNNExplainer."""
    saliency, gnn = timings[who.CAPTUM_SALIENCY], timings[who.GNN]
    return [
        {
            **one.as_json(),
            "over_captum_saliency": ratio(one, saliency).value,
            "over_gnnexplainer": ratio(one, gnn).value,
        }
        for one in timings.values()
    ]


def _timed(case: Case, plan: Plan, name: str, show: bool | None) -> dict[str, Timing]:
    taking = who.contenders_on(case, plan)
    # Not on the million: a hundred epochs there would take minutes.
    whole = 0 if name == "million" else plan.whole_graph_nodes if name == "cora" else plan.whole_graph_elsewhere
    if whole:
        taking.append(who.whole_graph_contender(case, plan, whole))
    if name == "cora":
        taking += who.variants_on(case, plan)
    return interleaved(taking, plan.repetitions, plan.slow_repetitions, track=_tracked(case.name, show))


def _figures_of(timings: Mapping[str, Timing]) -> dict[str, Ratio | float | None]:
    kec = timings["kec"]
    return {
        "gnnexplainer_over_kec": ratio(timings[who.GNN], kec),
        "gnnexplainer_whole_graph_over_kec": ratio(timings[who.GNN_WHOLE], kec),
        "straightforward_over_kec": ratio(timings[who.STRAIGHTFORWARD], kec),
        "kec1500_over_kec200": ratio(timings[who.KEC_MANY], kec),
        "features_over_straightforward": ratio(timings[who.KEC_FEATURES], timings[who.STRAIGHTFORWARD_FEATURES]),
        "anchored_over_kec": ratio(timings["anchored-kec"], kec),
    }


def _on_the_same_part(case: Case, plan: Plan, show: bool | None) -> tuple[dict[str, float], Ratio]:
    """KEC over Captum, both by PyG's Explainer on the same part; beside it both without a prediction."""
    taking = who.on_the_same_part(case, plan)
    timings = interleaved(taking, plan.repetitions, track=_tracked(f"parts of {case.name}", show))
    part, saliency = timings[who.KEC_PART], timings[who.CAPTUM_SALIENCY]
    kec, given = timings["kec"], timings[who.CAPTUM_GIVEN]
    alike = ratio(part, saliency)
    found = {
        "kec_ms": 1e3 * part.median,
        "captum_saliency_ms": 1e3 * saliency.median,
        "ratio": alike.value,
        "ratio_of_means": alike.of_means,
        "kec_of_explain_nodes_ms": 1e3 * kec.median,
        "captum_without_prediction_ms": 1e3 * given.median,
        "ratio_without_prediction": ratio(kec, given).value,
    }
    return found, alike


def _whole_graph(case: Case, plan: Plan, show: bool | None) -> tuple[dict[str, Any], Ratio]:
    """Time a node when all are explained, over that of one node alone; nodes alone are spread over the graph."""
    count = int(case.data.num_nodes)
    # One every so many, as in 0:2708:10.
    sample = list(range(0, count, max(1, count // (plan.sample_of_all - 1)))) if plan.sample_of_all > 1 else [0]
    timings = interleaved(
        [who.kec_on(case, plan, "alone", sample), who.all_nodes(case, plan, "all")],
        plan.repetitions,
        plan.all_nodes_repetitions,
        track=_tracked(f"all of {case.name}", show),
    )
    alone, each = timings["alone"], timings["all"].median / count
    found = {
        "nodes": count,
        "seconds": timings["all"].median,
        "ms_a_node": 1e3 * each,
        "alone_mean_ms": 1e3 * alone.mean,
        "alone_median_ms": 1e3 * alone.median,
        "over_mean": each / alone.mean,
        "over_median": each / alone.median,
    }
    # Nodes differ in size and the median one is small: time for all over their number is a mean.
    return found, Ratio(found["over_mean"], found["over_mean"])


def _beside(above: Case, below: Case, plan: Plan, show: bool | None) -> Ratio:
    """KEC on one graph over KEC on another, in turns."""
    taking: list[Contender] = [who.kec_on(above, plan, "above"), who.kec_on(below, plan, "below")]
    timings = interleaved(taking, plan.repetitions, track=_tracked(f"{above.name} and {below.name}", show))
    return ratio(timings["above"], timings["below"], paired=False)


def _faithfulness(case: Case, plan: Plan, show: bool | None) -> dict[str, float]:
    """Held-out Delta(p), a mean over nodes, of the fast KEC, the straightforward one, and all nodes together."""
    nodes, scores = spread(case.nodes, plan.scored_nodes), []
    alone = case.explanations(KEC(who.EDGES, plan.samples), nodes)
    shared = case.explanations(KEC(who.EDGES, plan.samples), nodes, together=True)
    for node, one, other in zip(_tracked("held-out Delta", show)(nodes), alone, shared, strict=True):
        target = case.target(node)
        plain, _ = straightforward_kec(target, who.EDGES, plan.samples)
        models: list[DifferenceModel] = [one.difference_model, plain, other.difference_model]
        scores.append([score.value for score in unfaithfulness_of(target, models, who.EDGES, plan.test_samples, 1)])
    means = np.mean(scores, axis=0).tolist()
    return dict(zip(("fast", "straightforward", "whole_graph"), means, strict=True))


def _tracked(doing: str, show: bool | None) -> Callable[[Sequence[Any]], Any]:
    return partial(track, doing=doing, what="steps", show=show)
