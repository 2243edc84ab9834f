"""What the bench found, as a person reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from .curve import Curve
from .ratios import BARS


def print_run(console: Console, result: Mapping[str, Any]) -> None:
    """The table of every data set, what else was measured, and last the figures with their bars."""
    for name, rows in result["tables"].items():
        _print(console, _methods(name, rows))
    if "computation_graph" in result:
        one = result["computation_graph"]
        console.print(
            f"\nKEC given the computation graph by PyG's Explainer, as Captum is: {one['kec_ms']:.2f} ms, "
            f"{one['ratio']:.2f} times Captum saliency ({one['captum_saliency_ms']:.2f} ms)\n"
            f"With the prediction taken out of both: {one['kec_of_explain_nodes_ms']:.2f} ms, "
            f"{one['ratio_without_prediction']:.2f} times Captum saliency "
            f"({one['captum_without_prediction_ms']:.2f} ms)",
            highlight=False,
        )
    if "whole_graph" in result:
        one = result["whole_graph"]
        console.print(
            f"All {one['nodes']} nodes of Cora: {one['seconds']:.2f} s, {one['ms_a_node']:.2f} ms a node; alone "
            f"{one['alone_mean_ms']:.2f} ms on average (ratio {one['over_mean']:.3f}), median "
            f"{one['alone_median_ms']:.2f} ms (ratio {one['over_median']:.3f})",
            highlight=False,
        )
    if "faithfulness" in result:
        said = ", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in result["faithfulness"].items())
        console.print(f"Held-out Delta of KEC: {said}", highlight=False)
    for one in result.get("profile", ()):
        _print(console, _profile(one))
    _print(console, _figures(result))
    if result["bench_peak_mb"] is not None:
        console.print(f"Most memory of this process: {result['bench_peak_mb']:.0f} MB", highlight=False)


def print_growth(console: Console, curves: Sequence[Curve]) -> None:
    """A table for each curve, with the exponents below it."""
    for curve in curves:
        found = curve.as_json()
        table = _table(f"KEC against {curve.against}", [curve.against, "ms a node", "peak MB"], left=0)
        for size, seconds, megabytes in zip(curve.sizes, curve.seconds, curve.megabytes, strict=True):
            table.add_row(f"{size:,}", f"{1e3 * seconds:.2f}", _number(megabytes))
        for label, end in (("exponent", ""), ("in the upper half", "_upper_half")):
            table.add_row(label, _number(found[f"time_exponent{end}"]), _number(found[f"memory_exponent{end}"]))
        _print(console, table)


def print_threads(console: Console, found: Mapping[str, Any]) -> None:
    """Seconds of each way, their ratio, and whether the results agree."""
    table = _table(f"{found['dataset']}, {found['nodes']} nodes {found['rounds']} times, KEC", ["how", "seconds"])
    for way, seconds in found["seconds"].items():
        table.add_row(way.replace("_", " "), f"{seconds:.3f}")
    _print(console, table)
    console.print(
        f"Two processes / two threads: {found['processes_over_threads']:.2f}; largest relative difference of a score "
        f"with one and with two threads: {found['largest_relative_difference']:.1e}",
        highlight=False,
    )


def _print(console: Console, table: Table) -> None:
    console.print()
    console.print(table)


def _table(title: str, columns: Sequence[str], left: int = 1) -> Table:
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < left else "right")
    return table


def _methods(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = ["method", "nodes", "median ms", "quartiles", "mean ms", "/ Captum saliency", "/ GNNExplainer"]
    table = _table(f"{name}: time a node", columns)
    for row in rows:
        table.add_row(
            row["method"],
            str(row["nodes"]),
            _number(row["median_ms"]),
            f"{_number(row['lower_quartile_ms'])} - {_number(row['upper_quartile_ms'])}",
            _number(row["mean_ms"]),
            _number(row["over_captum_saliency"]),
            _number(row["over_gnnexplainer"]),
        )
    return table


def _profile(found: Mapping[str, Any]) -> Table:
    table = _table(f"{found['dataset']}, KEC in {found['neighborhood']}: where the time goes", ["stage", "ms", "%"])
    total = found["total_ms"]
    for stage, taken in [*found["ms"].items(), ("all", total)]:
        table.add_row(stage, f"{taken:.3f}", f"{100 * taken / total:.1f}")
    return table


def _figures(result: Mapping[str, Any]) -> Table:
    table = _table("figures", ["figure", "value", "of means", "bar", "reached"])
    for key, bar in BARS.items():
        value = result["ratios"][key]
        if value is not None:
            means = _number(result["ratios_of_means"].get(key))
            table.add_row(bar.what, _number(value), means, str(bar), "yes" if bar.reached(value) else "no")
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
