"""How the paper's ROC-AUC of Saliency depends on its two settings, the temperature of a sigmoid and a threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from graphfaith.metric.pooling import pool

from .edge_auc import (
    TEMPERATURES,
    THRESHOLD,
    edge_scores,
    house_of_edges,
    house_of_node,
    near_edges,
    rank_auc,
    sigmoid_auc,
)
from .experiment import Experiment, Row, Size, Unit
from .markdown import format_number, format_table, format_with_error
from .setting import setting

DATASET, NODES = "ba-shapes", range(400, 700, 5)
THRESHOLDS = (0.0, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
SHOWN = (1e-18, 1e-12, 1e-6, 1e-3, 1.0, 1e3, 1e5)  # the temperatures in the table
STABLE = 0.05  # a threshold is called stable if the AUC changes by at most this over all temperatures


class Temperature(Experiment):
    """Fig. 5: mean ROC-AUC of Saliency over nodes of BA-Shapes for each temperature and threshold."""

    name = "temperature"
    title = "ROC-AUC of Saliency over temperature and threshold (Fig. 5)"

    def units(self, size: Size) -> list[Unit]:
        """Return a unit for each node."""
        return [Unit(DATASET, 0, node, cost=0.3) for node in size.nodes(NODES)]

    def measure(self, unit: Unit, size: Size) -> Any:  # noqa: ARG002
        """Measure the AUC by rank, and the AUC for each threshold and temperature."""
        assert unit.node is not None
        here = setting(DATASET, unit.model_seed)
        p = here.fit("saliency", unit.node, "U(A,0.5)").p
        graph = here.target(unit.node).computation_graph
        near = near_edges(graph)
        truth = house_of_edges(here.data)[graph.edge_id.numpy()[near]] == house_of_node(unit.node)
        scores = edge_scores(p)[near]
        return {
            "rank": rank_auc(truth, scores),
            "sigmoid": [[sigmoid_auc(truth, scores, T, t) for T in TEMPERATURES] for t in THRESHOLDS],
        }

    def make_rows(self, results: Mapping[Unit, Any], size: Size) -> list[Row]:  # noqa: ARG002
        """Return the row of the AUC by rank, then a row for each threshold and temperature."""
        by_node = {unit.node: result for unit, result in results.items() if unit.node is not None}
        nodes = sorted(by_node)
        values = [by_node[node] for node in nodes]

        def make_row(temperature: float | None, threshold: float | None, at_nodes: list[float]) -> Row:
            auc, stderr = pool([at_nodes])
            return {
                "dataset": DATASET,
                "method": "saliency",
                "neighborhood": None,
                "nodes": nodes,
                "temperature": temperature,
                "threshold": threshold,
                "auc": auc,
                "stderr": stderr,
                "num_samples": 0,
                "seed": 0,
                "model_seed": 0,
                "paper": None,
            }

        rows = [make_row(None, None, [value["rank"] for value in values])]
        for i, threshold in enumerate(THRESHOLDS):
            for j, temperature in enumerate(TEMPERATURES):
                rows.append(make_row(temperature, threshold, [value["sigmoid"][i][j] for value in values]))
        return rows

    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return a table of some temperatures and the range over all, and whether the paper's threshold is stable."""
        by_rank, grid = _split(rows)
        lines = []
        for threshold, line in grid.items():
            low, high = min(line.values()), max(line.values())
            name = f"**{threshold:g}** (the paper's)" if threshold == THRESHOLD else f"{threshold:g}"
            cells = [format_number(line[T]) for T in SHOWN if T in line]
            lines.append([name, *cells, format_number(low), format_number(high), format_number(high - low)])
        head = ["threshold t", *(f"T = {T:g}" for T in SHOWN), "lowest", "highest", "range"]
        auc = format_with_error(by_rank["auc"], by_rank["stderr"])
        return "\n\n".join(
            [
                f"Saliency on the trained model of BA-Shapes, mean over {len(by_rank['nodes'])} motif nodes of the "
                "ROC-AUC of σ(|s| [|s| ≥ t] / T), in single precision, for the edges of the node's own house among "
                "those of its 3-hop neighbourhood. Lowest, highest and range are over all "
                f"{len(next(iter(grid.values())))} temperatures, one a decade.",
                format_table(head, lines),
                f"By rank of |s|, with neither t nor T, the ROC-AUC is **{auc}**. "
                'The paper has a picture and these words: scores "span the entire possible range [0.5, 1.0]"; 10⁻³ is '
                "the least threshold with stable scores; the literature reports 88.2 %.",
                _interpret(by_rank, grid),
            ]
        )

    def draw_figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Draw the AUC against the temperature, with a line for each threshold."""
        by_rank, grid = _split(rows)
        figure = Figure(figsize=(7.2, 3.8), layout="constrained")
        panel = figure.subplots()
        # The lightness depends on the threshold, so that the order can be read without colours.
        shades = colormaps["viridis_r"]
        marks = "osD^v<>P"
        for place, (threshold, line) in enumerate(grid.items()):
            panel.plot(
                list(line),
                list(line.values()),
                color=shades(0.12 + 0.85 * place / max(1, len(grid) - 1)),
                marker=marks[place % len(marks)],
                markersize=4,
                linewidth=1.4,
                label=f"t = {_format_power(threshold)}",
            )
        panel.axhline(by_rank["auc"], color="#D55E00", linestyle="--", linewidth=1.4, label="by rank")
        panel.axhline(0.5, color="0.6", linestyle=":", linewidth=1.0, label="chance")
        panel.set(xscale="log", xlabel="temperature T of the sigmoid", ylabel="ROC-AUC of Saliency", ylim=(0.47, 1.02))
        panel.xaxis.set_major_locator(LogLocator(base=10, numticks=9))
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right center", frameon=False, fontsize=9)
        return {"temperature": figure}


def _format_power(value: float) -> str:
    return f"$10^{{{round(math.log10(value))}}}$" if value else "0"


def _split(rows: Sequence[Row]) -> tuple[Row, dict[float, dict[float, float]]]:
    """Return the row of the AUC by rank, and the other AUCs by threshold and temperature."""
    grid: dict[float, dict[float, float]] = {}
    by_rank: Row | None = None
    for row in rows:
        if row["temperature"] is None:
            by_rank = row
        else:
            grid.setdefault(row["threshold"], {})[row["temperature"]] = row["auc"]
    assert by_rank is not None
    return by_rank, grid


def _interpret(by_rank: Row, grid: dict[float, dict[float, float]]) -> str:
    every = [auc for line in grid.values() for auc in line.values()]
    ranges = {threshold: max(line.values()) - min(line.values()) for threshold, line in grid.items()}
    stable = [threshold for threshold, change in ranges.items() if change <= STABLE]
    steadiest = min(ranges, key=lambda threshold: ranges[threshold])
    whole = min(every) < 0.55 and max(every) > 0.95
    text = (
        f"Here the settings move the same scores from {format_number(min(every))} to {format_number(max(every))}: "
        f"the paper's range {'holds' if whole else 'is not reached'}. "
    )
    if not stable:
        text += f"No threshold is stable, if that means a change of at most {STABLE:g} over all temperatures: "
    elif min(stable) == THRESHOLD:
        text += f"10⁻³ is the smallest threshold whose AUC changes by at most {STABLE:g} over all temperatures: "
    else:
        text += (
            f"10⁻³ is not the smallest threshold whose AUC changes by at most {STABLE:g} over all temperatures; "
            f"{min(stable):g} is: "
        )
    text += f"at 10⁻³ it changes by {format_number(ranges.get(THRESHOLD))}, and least at {steadiest:g}, by "
    text += f"{format_number(ranges[steadiest])}. "
    above = sum(auc > by_rank["auc"] for auc in every)
    return text + (
        f"Of {len(every)} settings {above} give more than the order of the scores does by itself; a sigmoid adds "
        "nothing to an order, it can only tie edges."
    )
