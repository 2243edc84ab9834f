"""The results of the bench as named sections, each a table or a few sentences, whoever prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphfaith._base.stages import STAGES

from .ratios import BARS


@dataclass(frozen=True)
class Section:
    """A part of the results: a table with a title, or ``text``. The ``name`` says where it stands on a page."""

    name: str
    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    text: tuple[str, ...] = ()


def sections_of(result: Mapping[str, Any]) -> list[Section]:
    """Return the sections of what a run has measured, the figures with their bars last but for growth and threads."""
    sections = [_methods(name, rows) for name, rows in result.get("tables", {}).items()]
    sections += [_in_words(result)] if "computation_graph" in result else []
    sections += [_profiles(result["profile"])] if result.get("profile") else []
    sections += [_limits(result["limits"])] if result.get("limits", {}).get("rows") else []
    sections += [_figures(result)] if any(value is not None for value in result.get("ratios", {}).values()) else []
    curves = result.get("growth", ())
    for name, title, together in (
        ("growth", "KEC, one node after the other", False),
        ("growth-together", "KEC, all nodes of a graph together", True),
    ):
        some = [curve for curve in curves if curve["together"] == together]
        sections += [_growth(name, title, some)] if some else []
    sections += [_threads(result["threads"])] if "threads" in result else []
    return [*sections, _machine(result)]


def _methods(name: str, rows: Sequence[Mapping[str, Any]]) -> Section:
    columns = ("method", "nodes", "median ms", "quartiles", "mean ms", "/ Captum saliency", "/ GNNExplainer")
    cells = tuple(
        (
            row["method"],
            str(row["nodes"]),
            _format(row["median_ms"]),
            f"{_format(row['lower_quartile_ms'])} to {_format(row['upper_quartile_ms'])}",
            _format(row["mean_ms"]),
            _format(row["over_captum_saliency"]),
            _format(row["over_gnnexplainer"]),
        )
        for row in rows
    )
    return Section(name, f"{name}: time a node", columns, cells)


def _in_words(result: Mapping[str, Any]) -> Section:
    """Return what stands behind the figures of Cora, in sentences."""
    parts, whole, anchored = (result[key] for key in ("computation_graph", "whole_graph", "anchored_whole_graph"))
    scores = ", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in result["faithfulness"].items())
    return Section(
        "words",
        text=(
            f"KEC given the computation graph by PyG's Explainer, as Captum is: {parts['kec_ms']:.2f} ms, "
            f"{parts['ratio']:.2f} times Captum saliency ({parts['captum_saliency_ms']:.2f} ms). With the prediction "
            f"taken out of both: {parts['kec_of_explain_nodes_ms']:.2f} ms, {parts['ratio_without_prediction']:.2f} "
            f"times Captum saliency ({parts['captum_without_prediction_ms']:.2f} ms).",
            f"All {whole['nodes']:,} nodes of Cora: {whole['seconds']:.2f} s, {whole['ms_a_node']:.3f} ms a node; "
            f"alone {whole['alone_mean_ms']:.2f} ms on average (ratio {whole['over_mean']:.3f}), median "
            f"{whole['alone_median_ms']:.2f} ms (ratio {whole['over_median']:.3f}); with masks for every node "
            f"{whole['masks_ms_a_node']:.3f} ms a node, with two threads {whole['two_threads_ms_a_node']:.3f}.",
            f"AnchoredKEC on {anchored['nodes']:,} nodes of Cora: {anchored['ms_a_node']:.2f} ms a node, alone "
            f"{anchored['alone_mean_ms']:.2f} ms on average (ratio {anchored['over_mean']:.3f}); its slope alone "
            f"{anchored['slope_ms_a_node']:.2f} and {anchored['slope_alone_mean_ms']:.2f} ms (ratio "
            f"{anchored['slope_over_mean']:.3f}).",
            f"Held-out Delta of KEC: {scores}.",
        ),
    )


def _profiles(profiles: Sequence[Mapping[str, Any]]) -> Section:
    """Return the milliseconds of the stages, one row for each piece of work."""
    stages = (*STAGES, "other")
    rows = tuple(
        (row["piece"], *(_format(row["ms"].get(stage, 0.0)) for stage in stages), _format(row["total_ms"]))
        for row in profiles
    )
    return Section("profile", "where the time goes, ms a node", ("", *stages, "all"), rows)


def _limits(limits: Mapping[str, Any]) -> Section:
    columns = ("", "measured ms", "limit ms", "measured / limit", "floor ms")
    rows = tuple(
        (row["piece"], *(_format(row[key]) for key in ("measured_ms", "limit_ms", "over_limit", "floor_ms")))
        for row in limits["rows"]
    )
    return Section("limits", "time a node, and the limit of bytes and arithmetic", columns, rows)


def _figures(result: Mapping[str, Any]) -> Section:
    columns = ("figure", "bar", "value", "of means", "at the floor", "reached")
    means, floors, rows = result.get("ratios_of_means", {}), result.get("floors", {}), []
    for key, bar in BARS.items():
        value = result["ratios"].get(key)
        if value is not None:
            reached = "-" if bar.bound is None else "yes" if bar.reached(value) else "no"
            rows.append(
                (bar.what, str(bar), _format(value), _format(means.get(key)), _format(floors.get(key)), reached)
            )
    return Section("figures", "figures", columns, tuple(rows))


def _growth(name: str, title: str, curves: Sequence[Mapping[str, Any]]) -> Section:
    """Return a row for each curve: its points, and the exponents over all of them and over the upper half."""
    columns = ("against", "ms a node", "exponent (upper half)", "peak MB", "exponent (upper half)")
    rows = []
    for curve in curves:
        cells = [curve["against"]]
        for values, key in ((curve["ms"], "time"), (curve["mb"], "memory")):
            points = zip(curve["sizes"], values, strict=True)
            cells.append(", ".join(f"{size:,}: {_format(value)}" for size, value in points))
            whole, upper = (curve[f"{key}_exponent{end}"] for end in ("", "_upper_half"))
            cells.append(f"{_round(whole)} ({_round(upper)})")
        rows.append(tuple(cells))
    return Section(name, title, columns, tuple(rows))


def _threads(result: Mapping[str, Any]) -> Section:
    def tell(what: str) -> str:
        times = result["seconds"].items()
        return ", ".join(f"{way.replace('_', ' ')} {taken:.3f} s" for way, taken in times if what in way)

    return Section(
        "threads",
        text=(
            f"{result['dataset']}, {result['nodes']} nodes {result['rounds']} times, KEC one node after the other: "
            f"{tell('process')}. Two processes / two threads: {result['processes_over_threads']:.2f}; largest relative "
            f"difference of a score with one and with two threads: {result['largest_relative_difference']:.1e}.",
            f"All nodes together, {result['rounds']} times: {tell('sweep')}. Two threads / one: "
            f"{result['sweep_over_one_thread']:.2f}. Half of what two sweeps at once take, each in a process of its "
            f"own, is {result['sweep_floor']:.2f} of one alone: threads could take no less on this machine.",
        ),
    )


def _machine(result: Mapping[str, Any]) -> Section:
    about, rates = result["machine"], result.get("limits", {}).get("rates", {})
    versions = ", ".join(
        f"{name} {about[name]}" for name in ("python", "torch", "torch_geometric", "captum", "numpy") if about[name]
    )
    load = "unknown" if about["load"] is None else f"{about['load']:.1f}"
    kind = "Quick run" if result["quick"] else "Full run"
    took = f" of {result['seconds'] / 60:.1f} minutes" if result.get("seconds") else ""
    text = [
        f"{kind}{took}: {about['cpu']}, {about['cores']} cores, {about['threads']} of them used, load {load} at first; "
        f"{versions}."
    ]
    if rates:
        text.append(
            f"Rates of one thread: copy {rates['copy_gb_s']:.1f} GB/s, compiled loop {rates['loop_gflop_s']:.1f} "
            f"Gflop/s, matrix product {rates['product_gflop_s']:.1f} Gflop/s in double and "
            f"{rates['product_single_gflop_s']:.1f} in single precision."
        )
    if "forward_ms" in rates:
        text.append(
            f"One call of Cora's model on a computation graph: {rates['forward_ms']:.2f} ms, with a pass backwards "
            f"{rates['forward_and_backward_ms']:.2f} ms."
        )
    if result.get("bench_peak_mb") is not None:
        text.append(f"Most memory of the bench: {result['bench_peak_mb']:.0f} MB.")
    return Section("machine", text=tuple(text))


def _format(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _round(value: float | None) -> str:
    return "-" if value is None else f"{round(value, 2) + 0.0:.2f}"  # -0.0 is written as 0.00
