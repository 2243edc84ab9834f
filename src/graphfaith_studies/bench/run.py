"""One run of the bench: the tables of all data sets, and the figures computed from them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from graphfaith._base.progress import track
from graphfaith.explainers import KEC, AnchoredKEC
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.surrogate.difference import DifferenceModel
from graphfaith.surrogate.readings import Reading

from . import contenders
from .case import TEN_THOUSAND, Case, copy_case, generate_case, load_case, spread, train_lattice_model
from .command import TABLES
from .limits import measure_limits
from .machine import machine
from .peak import measure_peak, measure_peak_of_one_node, process_peak
from .plan import Plan
from .profile import measure_profiles
from .ratios import floors_of, missed_pieces, order_figures
from .straightforward import fit_straightforward_kec
from .timing import Ratio, Timing, ratio_of, time_interleaved


def cases_for(names: Sequence[str], plan: Plan) -> dict[str, Case]:
    """Return the cases of these tables by name.

    With "million" there is also the smaller graph that it is compared with, and with "cora" too the large graph with
    Cora's degrees, whose nodes are all explained.
    """
    counts = {"ba-shapes": plan.ba_shapes_nodes}
    cases = {name: load_case(name, counts.get(name, plan.nodes)) for name in names if name != "million"}
    if "million" in names:
        model = train_lattice_model()
        cases["ten-thousand"] = generate_case(TEN_THOUSAND, spread(range(TEN_THOUSAND), plan.nodes), model)
        cases["million"] = generate_case(plan.large, spread(range(plan.large), plan.nodes), model)
        if "cora" in names:
            cases["large-sweep"] = copy_case(cases["cora"], plan.large_sweep)
    return cases


def run(cases: Mapping[str, Case], plan: Plan, *, profile: bool = False, show: bool | None = False) -> dict[str, Any]:
    """Measure all tables and figures on these cases and return them as plain values.

    A figure is measured only if its cases are given: "cora" for most of them, and "citeseer", "million",
    "ten-thousand" and "large-sweep" for the others. The stages of our own work in figures that miss their bar are
    measured too; with ``profile``, the stages of all our work.
    """
    started = time.perf_counter()
    result: dict[str, Any] = {"ratios": {}, "machine": machine(), "tables": {}, "sizes": {}}
    figures: dict[str, Ratio | float | None] = {}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # PyG and Captum raise these warnings about their own code.
        for message in ("Converting a tensor with requires_grad=True", "Input Tensor . did not already require"):
            warnings.filterwarnings("ignore", message=message)
        torch.manual_seed(0)  # PyG's explainers start from a random mask.
        for name in (name for name in TABLES if name in cases):
            timings = _time_case(cases[name], plan, name, show)
            result["tables"][name] = rows_of(timings)
            if name == "cora":
                figures |= _figures_of(timings)
        if "cora" in cases:
            cora = cases["cora"]
            result["computation_graph"], figures["kec_over_captum_saliency"] = _compare_on_parts(cora, plan, show)
            result["faithfulness"] = _measure_faithfulness(cora, plan, show)
            result["whole_graph"], whole = _time_whole_graph(cora, plan, show)
            result["anchored_whole_graph"] = anchored = _time_anchored_graph(cora, plan, show)
            figures |= whole | {
                "anchored_whole_graph_over_one_node": anchored["over_mean"],
                "anchored_whole_graph_peak_mb": anchored["peak_mb"],
            }
        if "cora" in cases and "citeseer" in cases:
            sizes, figures["citeseer_over_cora"] = _compare_cases(cases, "citeseer", "cora", plan, show)
            result["sizes"] |= sizes
        if "million" in cases:
            sizes, figures["million_over_ten_thousand"] = _compare_cases(cases, "million", "ten-thousand", plan, show)
            result["sizes"] |= sizes
            figures["million_peak_mb"] = measure_peak_of_one_node(plan.large)
        if "cora" in cases and "large-sweep" in cases:
            sizes, figures["large_sweep_over_cora"] = _compare_sweeps(cases["large-sweep"], cora, plan, show)
            result["sizes"] |= sizes
        result["ratios"] = order_figures(figures)
        result["ratios_of_means"] = {
            key: figure.of_means for key, figure in figures.items() if isinstance(figure, Ratio)
        }
        result["limits"] = measure_limits(result, cases, plan)
        result["floors"] = floors_of(result["ratios"], result["limits"]["rows"])
        result["profile"] = measure_profiles(cases, plan, None if profile else missed_pieces(result["ratios"]))
    result["bench_peak_mb"] = process_peak()
    result["seconds"] = time.perf_counter() - started
    return result


def rows_of(timings: Mapping[str, Timing]) -> list[dict[str, Any]]:
    """Return a row for each contender, with its ratios to Captum's saliency and to GNNExplainer."""
    saliency, gnn = timings[contenders.CAPTUM_SALIENCY], timings[contenders.GNN]
    return [
        {
            **timing.as_json(),
            "over_captum_saliency": ratio_of(timing, saliency).value,
            "over_gnnexplainer": ratio_of(timing, gnn).value,
        }
        for timing in timings.values()
    ]


def _time_case(case: Case, plan: Plan, name: str, show: bool | None) -> dict[str, Timing]:
    """Time all contenders of the table of a data set."""
    timed = contenders.contenders_on(case, plan)
    # GNNExplainer does not run on the whole graph of a million nodes: its hundred epochs would take minutes.
    whole = 0 if name == "million" else plan.whole_graph_nodes if name == "cora" else plan.whole_graph_elsewhere
    if whole:
        timed.append(contenders.whole_graph_contender(case, plan, whole))
    if name == "cora":
        timed += contenders.kec_variants(case, plan)
    return time_interleaved(timed, plan.repetitions, plan.slow_repetitions, track=_tracker(case.name, show))


def _figures_of(timings: Mapping[str, Timing]) -> dict[str, Ratio | float | None]:
    kec, straightforward_features = timings["kec"], timings[contenders.STRAIGHTFORWARD_FEATURES]
    return {
        "gnnexplainer_over_kec": ratio_of(timings[contenders.GNN], kec),
        "gnnexplainer_whole_graph_over_kec": ratio_of(timings[contenders.GNN_WHOLE], kec),
        "straightforward_over_kec": ratio_of(timings[contenders.STRAIGHTFORWARD], kec),
        "kec1500_over_kec200": ratio_of(timings[contenders.KEC_MANY], kec),
        "features_over_straightforward": ratio_of(timings[contenders.KEC_FEATURES], straightforward_features),
        "anchored_over_kec": ratio_of(timings["anchored-kec"], kec),
        "anchored_slope_over_kec": ratio_of(timings[contenders.ANCHORED_SLOPE], kec),
        "readings_over_slope": ratio_of(timings["anchored-kec"], timings[contenders.ANCHORED_SLOPE]),
    }


def _compare_on_parts(case: Case, plan: Plan, show: bool | None) -> tuple[dict[str, float], Ratio]:
    """Return KEC over Captum, both called by PyG's Explainer on the computation graph.

    The values also contain the times of both without a prediction.
    """
    timed = contenders.part_contenders(case, plan)
    timings = time_interleaved(timed, plan.repetitions, track=_tracker(f"parts of {case.name}", show))
    kec_part, saliency = timings[contenders.KEC_PART], timings[contenders.CAPTUM_SALIENCY]
    kec, saliency_given = timings["kec"], timings[contenders.CAPTUM_GIVEN]
    ratio = ratio_of(kec_part, saliency)
    values = {
        "kec_ms": 1e3 * kec_part.median,
        "captum_saliency_ms": 1e3 * saliency.median,
        "ratio": ratio.value,
        "ratio_of_means": ratio.of_means,
        "kec_of_explain_nodes_ms": 1e3 * kec.median,
        "captum_without_prediction_ms": 1e3 * saliency_given.median,
        "ratio_without_prediction": ratio_of(kec, saliency_given).value,
    }
    return values, ratio


def _time_whole_graph(
    case: Case, plan: Plan, show: bool | None
) -> tuple[dict[str, Any], dict[str, Ratio | float | None]]:
    """Return the time per node when all nodes are explained, over the time of one node that is explained alone.

    The nodes that are explained alone are spread over the graph. All are also explained with two threads, and with
    masks of the size of the graph for every node.
    """
    count = int(case.data.num_nodes)
    algorithm = KEC(contenders.EDGES, num_samples=plan.samples)
    # The nodes are evenly spaced: 0, 10, 20, ... for the 2708 nodes of Cora.
    sample = list(range(0, count, max(1, count // (plan.sample_of_all - 1)))) if plan.sample_of_all > 1 else [0]
    timings = time_interleaved(
        [
            contenders.kec_contender(case, plan, "alone", sample),
            contenders.all_nodes_contender(case, "all", algorithm),
            contenders.all_nodes_contender(case, "masks", algorithm, masks=True),
            contenders.all_nodes_contender(case, "threads", algorithm, threads=2),
        ],
        plan.repetitions,
        plan.all_nodes_repetitions,
        track=_tracker(f"all of {case.name}", show),
    )
    alone, per_node = timings["alone"], timings["all"].median / count
    over_mean = per_node / alone.mean
    values = {
        "nodes": count,
        "seconds": timings["all"].median,
        "ms_a_node": 1e3 * per_node,
        "alone_mean_ms": 1e3 * alone.mean,
        "alone_median_ms": 1e3 * alone.median,
        "over_mean": over_mean,
        "over_median": per_node / alone.median,
        "masks_ms_a_node": 1e3 * timings["masks"].median / count,
        "two_threads_ms_a_node": 1e3 * timings["threads"].median / count,
        "peak_mb": measure_peak(lambda: case.records(algorithm)),
    }
    # The total time divided by the number of nodes is a mean, so it is compared with a mean. The median would be
    # smaller, because computation graphs differ in size and most of them are small.
    return values, {
        "whole_graph_over_one_node": Ratio(over_mean, over_mean),
        "two_threads_over_one": timings["threads"].median / timings["all"].median,
        "whole_graph_peak_mb": values["peak_mb"],
    }


def _time_anchored_graph(case: Case, plan: Plan, show: bool | None) -> dict[str, Any]:
    """Return the time a node of AnchoredKEC when nodes are explained together, over that of a node explained alone.

    Both have the same reading: the shares, which are the default and stand in the figure, or the slope alone.
    """
    nodes = contenders.anchored_nodes(case, plan)
    sample = spread(nodes, plan.sample_of_all)
    readings: tuple[Reading, ...] = ("share", "slope")
    timed = []
    for reading in readings:
        algorithm = AnchoredKEC(contenders.EDGES, num_samples=plan.samples, reading=reading)
        timed.append(contenders.anchored_contender(case, plan, f"alone {reading}", sample, reading))
        timed.append(contenders.all_nodes_contender(case, f"all {reading}", algorithm, nodes))
    timings = time_interleaved(
        timed,
        plan.all_nodes_repetitions,
        plan.all_nodes_repetitions,
        track=_tracker(f"AnchoredKEC on all of {case.name}", show),
    )
    share, slope = (
        {
            "ms_a_node": 1e3 * timings[f"all {reading}"].median / len(nodes),
            "alone_mean_ms": 1e3 * timings[f"alone {reading}"].mean,
            "over_mean": timings[f"all {reading}"].median / len(nodes) / timings[f"alone {reading}"].mean,
        }
        for reading in readings
    )
    whole = AnchoredKEC(contenders.EDGES, num_samples=plan.samples)
    return {
        "nodes": len(nodes),
        **share,
        **{f"slope_{key}": value for key, value in slope.items()},
        "peak_mb": measure_peak(lambda: case.records(whole, nodes)),
    }


def _compare_cases(
    cases: Mapping[str, Case], above: str, below: str, plan: Plan, show: bool | None
) -> tuple[dict[str, float], Ratio]:
    """Return the times of KEC on two graphs, timed in turns, and that on one over that on the other."""
    timed = [contenders.kec_contender(cases[name], plan, name) for name in (above, below)]
    timings = time_interleaved(timed, plan.repetitions, track=_tracker(f"{above} and {below}", show))
    sizes = {f"{name.replace('-', '_')}_ms": 1e3 * timings[name].median for name in (above, below)}
    return sizes, ratio_of(timings[above], timings[below], paired=False)


def _compare_sweeps(large: Case, cora: Case, plan: Plan, show: bool | None) -> tuple[dict[str, float], float]:
    """Return the time a node when all nodes of a large graph are explained, and that over the time of Cora's nodes."""
    algorithm, cases = KEC(contenders.EDGES, num_samples=plan.samples), {"large": large, "cora": cora}
    timed = [contenders.all_nodes_contender(case, name, algorithm) for name, case in cases.items()]
    timings = time_interleaved(timed, 1, 1, track=_tracker(f"all of {large.name}", show))
    each = {name: timings[name].median / int(case.data.num_nodes) for name, case in cases.items()}
    sizes = {"large_sweep_nodes": int(large.data.num_nodes), "large_sweep_ms": 1e3 * each["large"]}
    return sizes, each["large"] / each["cora"]


def _measure_faithfulness(case: Case, plan: Plan, show: bool | None) -> dict[str, float]:
    """Return the held-out Delta(p), averaged over nodes, of three ways to compute KEC.

    They are the fast KEC of one node, the straightforward KEC, and the fast KEC of all nodes together.
    """
    edges, nodes, scores = contenders.EDGES, spread(case.nodes, plan.scored_nodes), []
    alone = case.explanations(KEC(edges, num_samples=plan.samples), nodes)
    together = case.explanations(KEC(edges, num_samples=plan.samples), nodes, together=True)
    for node, fast, shared in zip(_tracker("held-out Delta", show)(nodes), alone, together, strict=True):
        target = case.target(node)
        straightforward, _ = fit_straightforward_kec(target, edges, plan.samples)
        models: list[DifferenceModel] = [fast.difference_model, straightforward, shared.difference_model]
        scores.append(
            [score.value for score in unfaithfulness_of(target, models, edges, num_samples=plan.test_samples, seed=1)]
        )
    means = np.mean(scores, axis=0).tolist()
    return dict(zip(("fast", "straightforward", "whole_graph"), means, strict=True))


def _tracker(doing: str, show: bool | None) -> Callable[[Sequence[Any]], Any]:
    return partial(track, doing=doing, what="steps", show=show)
