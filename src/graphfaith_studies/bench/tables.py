"""The results of the bench, printed as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from .curve import Curve
from .ratios import BARS


def print_run(console: Console, result: Mapping[str, Any]) -> None:
    """Print the table of every data set, the other measurements, and finally the figures with their bars."""
    for name, rows in result["tables"].items():
        _print(console, _methods_table(name, rows))
    if "computation_graph" in result:
        parts = result["computation_graph"]
        console.print(
            f"\nKEC given the computation graph by PyG's Explainer, as Captum is: {parts['kec_ms']:.2f} ms, "
            f"{parts['ratio']:.2f} times Captum saliency ({parts['captum_saliency_ms']:.2f} ms)\n"
            f"With the prediction taken out of both: {parts['kec_of_explain_nodes_ms']:.2f} ms, "
            f"{parts['ratio_without_prediction']:.2f} times Captum saliency "
            f"({parts['captum_without_prediction_ms']:.2f} ms)",
            highlight=False,
        )
    if "whole_graph" in result:
        whole = result["whole_graph"]
        console.print(
            f"All {whole['nodes']} nodes of Cora: {whole['seconds']:.2f} s, {whole['ms_a_node']:.2f} ms a node; alone "
            f"{whole['alone_mean_ms']:.2f} ms on average (ratio {whole['over_mean']:.3f}), median "
            f"{whole['alone_median_ms']:.2f} ms (ratio {whole['over_median']:.3f}); with masks for every node "
            f"{whole['masks_ms_a_node']:.2f} ms a node, with two threads {whole['two_threads_ms_a_node']:.2f}",
            highlight=False,
        )
    if "faithfulness" in result:
        scores = ", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in result["faithfulness"].items())
        console.print(f"Held-out Delta of KEC: {scores}", highlight=False)
    for profile in result.get("profile", ()):
        _print(console, _profile_table(profile))
    _print(console, _figures_table(result))
    if result["bench_peak_mb"] is not None:
        console.print(f"Most memory of this process: {result['bench_peak_mb']:.0f} MB", highlight=False)


def print_growth(console: Console, curves: Sequence[Curve]) -> None:
    """Print a table for each curve, with the exponents in its last rows."""
    for curve in curves:
        values = curve.as_json()
        table = _make_table(f"KEC against {curve.against}", [curve.against, "ms a node", "peak MB"], left=0)
        for size, seconds, megabytes in zip(curve.sizes, curve.seconds, curve.megabytes, strict=True):
            table.add_row(f"{size:,}", f"{1e3 * seconds:.2f}", _format(megabytes))
        for label, end in (("exponent", ""), ("in the upper half", "_upper_half")):
            table.add_row(label, _format(values[f"time_exponent{end}"]), _format(values[f"memory_exponent{end}"]))
        _print(console, table)


def print_threads(console: Console, result: Mapping[str, Any]) -> None:
    """Print the seconds of each way, the ratio of two of them, and how far the scores differ."""
    title = f"{result['dataset']}, {result['nodes']} nodes {result['rounds']} times, KEC"
    table = _make_table(title, ["how", "seconds"])
    for way, seconds in result["seconds"].items():
        table.add_row(way.replace("_", " "), f"{seconds:.3f}")
    _print(console, table)
    console.print(
        f"Two processes / two threads: {result['processes_over_threads']:.2f}; largest relative difference of a score "
        f"with one and with two threads: {result['largest_relative_difference']:.1e}",
        highlight=False,
    )


def _print(console: Console, table: Table) -> None:
    console.print()
    console.print(table)


def _make_table(title: str, columns: Sequence[str], left: int = 1) -> Table:
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < left else "right")
    return table


def _methods_table(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = ["method", "nodes", "median ms", "quartiles", "mean ms", "/ Captum saliency", "/ GNNExplainer"]
    table = _make_table(f"{name}: time a node", columns)
    for row in rows:
        table.add_row(
            row["method"],
            str(row["nodes"]),
            _format(row["median_ms"]),
            f"{_format(row['lower_quartile_ms'])} - {_format(row['upper_quartile_ms'])}",
            _format(row["mean_ms"]),
            _format(row["over_captum_saliency"]),
            _format(row["over_gnnexplainer"]),
        )
    return table


def _profile_table(profile: Mapping[str, Any]) -> Table:
    title = f"{profile['dataset']}, KEC in {profile['neighborhood']}: where the time goes"
    table = _make_table(title, ["stage", "ms", "%"])
    total = profile["total_ms"]
    for stage, taken in [*profile["ms"].items(), ("all", total)]:
        table.add_row(stage, f"{taken:.3f}", f"{100 * taken / total:.1f}")
    return table


def _figures_table(result: Mapping[str, Any]) -> Table:
    table = _make_table("figures", ["figure", "value", "of means", "bar", "reached"])
    for key, bar in BARS.items():
        value = result["ratios"][key]
        if value is not None:
            means = _format(result["ratios_of_means"].get(key))
            table.add_row(bar.what, _format(value), means, str(bar), "yes" if bar.reached(value) else "no")
    return table


def _format(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
