"""Whether explanations follow the model's parameters: every method at several checkpoints of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from graphfaith.metric.pooling import pool
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.surrogate.difference import SubgraphModel

from .checkpoints import make_checkpoints
from .edge_auc import (
    closeness,
    edge_scores,
    house_of_edges,
    house_of_node,
    near_edges,
    paper_auc,
    rank_auc,
    sparsity_area,
)
from .experiment import Experiment, Row, Size, Unit
from .parameter_figures import draw_ba_shapes, draw_cora
from .parameter_findings import format_findings, format_quantities
from .setting import Setting

NEAR = "U(A,0.5)"
SEED, FIT_SAMPLES, TEST_SAMPLES = 0, 200, 500
NODES = {"ba-shapes": range(400, 700, 10), "cora": range(0, 1000, 25)}
# At these epochs the test accuracy of model seed 0 covers its range: 0.17 to 0.97 (BA-Shapes), 0.22 to 0.81 (Cora).
EPOCHS = {"ba-shapes": (0, 20, 38, 50, 70, 111, 1000), "cora": (0, 2, 4, 7, 15, 30, 200)}
FEW_EPOCHS = (5, 20)  # for toy sizes, which only check that the experiment runs
METHODS = ("gnnexplainer-soft", "pgexplainer", "saliency", "ig-zero", "ig-random", "linear", "kec", "anchored-kec")
COST = {"ba-shapes": 1.2, "cora": 0.6}


class Parameters(Experiment):
    """Fig. 3: unfaithfulness, ROC-AUC (BA-Shapes) and sparsity (Cora) against the test accuracy of checkpoints."""

    name = "parameters"
    title = "Faithfulness to the model's parameters (Fig. 3)"

    def units(self, size: Size) -> list[Unit]:
        """Return a unit for each node of each checkpoint."""
        return [
            Unit(dataset, 0, node, str(epoch), COST[dataset])
            for dataset in NODES
            for epoch in _epochs_of(dataset, size)
            for node in size.nodes(NODES[dataset])
        ]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Measure the held-out Delta(p) of each method, its seconds, and the AUC or sparsity of its edge scores."""
        assert unit.node is not None
        nodes = tuple(size.nodes(NODES[unit.dataset]))
        here = _make_setting(unit.dataset, int(unit.part), _epochs_of(unit.dataset, size), unit.model_seed, nodes)
        fits = here.fits(METHODS, unit.node, [NEAR], samples=size.samples(FIT_SAMPLES), seed=SEED)
        target = here.target(unit.node)
        models = [fits[method, NEAR].p for method in METHODS]
        deltas = unfaithfulness_of(target, models, NEAR, num_samples=size.samples(TEST_SAMPLES), seed=SEED + 1)
        graph = target.computation_graph
        near = near_edges(graph)
        in_house = in_any_house = np.zeros(0, dtype=np.bool_)
        if unit.dataset == "ba-shapes":
            house = house_of_edges(here.data)[graph.edge_id.numpy()[near]]
            in_house, in_any_house = house == house_of_node(unit.node), house >= 0
        result: dict[str, Any] = {"test_accuracy": here.test_accuracy, "change": deltas[0].delta_zero, "methods": {}}
        if unit.dataset == "ba-shapes":
            result["auc_by_distance"] = rank_auc(in_house, closeness(graph)[near])
        for method, p, delta in zip(METHODS, models, deltas, strict=True):
            scores = edge_scores(p)[near]
            values = {"unfaithfulness": delta.value, "seconds_per_node": fits[method, NEAR].seconds}
            if unit.dataset == "ba-shapes":
                values["auc"], values["auc_any_house"] = rank_auc(in_house, scores), rank_auc(in_any_house, scores)
                # Masks are already between 0 and 1, so the paper does not apply a sigmoid to them.
                values["auc_paper"] = values["auc"] if isinstance(p, SubgraphModel) else paper_auc(in_house, scores)
            else:
                values["sparsity"] = sparsity_area(scores)
            result["methods"][method] = values
        return result

    def make_rows(self, results: Mapping[Unit, Any], size: Size) -> list[Row]:
        """Return a row for each data set, checkpoint and method, pooled over the nodes."""
        parts: dict[tuple[str, int, int], dict[int, Any]] = {}
        for unit, result in results.items():
            assert unit.node is not None
            parts.setdefault((unit.dataset, unit.model_seed, int(unit.part)), {})[unit.node] = result
        return [
            _make_row(dataset, model_seed, epoch, method, at_nodes, size)
            for (dataset, model_seed, epoch), at_nodes in sorted(parts.items())
            for method in METHODS
        ]

    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return a table for each quantity of each data set, and which of the paper's findings hold."""
        return format_quantities(rows) + "\n\n" + format_findings(rows)

    def draw_figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Draw the quantities against test accuracy, with a line for each method."""
        makers = {"ba-shapes": draw_ba_shapes, "cora": draw_cora}
        return {
            f"parameters-{dataset}": make([row for row in rows if row["dataset"] == dataset])
            for dataset, make in makers.items()
            if any(row["dataset"] == dataset for row in rows)
        }


def _epochs_of(dataset: str, size: Size) -> tuple[int, ...]:
    """Return the epochs of the checkpoints; a size with a limit on the nodes uses only two epochs."""
    return EPOCHS[dataset] if size.most is None else FEW_EPOCHS


@cache
def _make_setting(dataset: str, epoch: int, epochs: tuple[int, ...], seed: int, nodes: tuple[int, ...]) -> Setting:
    """Return a checkpoint to be explained; on BA-Shapes PGExplainer is trained on all nodes together."""
    checkpoint = make_checkpoints(dataset, epochs, seed)[epoch]
    together = nodes if dataset == "ba-shapes" else None
    return Setting(checkpoint.model, checkpoint.data, together=together, test_accuracy=checkpoint.test_accuracy)


def _make_row(dataset: str, model_seed: int, epoch: int, method: str, at_nodes: dict[int, Any], size: Size) -> Row:
    nodes = sorted(at_nodes)
    results = [at_nodes[node] for node in nodes]
    values = [result["methods"][method] for result in results]
    row: Row = {
        "dataset": dataset,
        "method": method,
        "neighborhood": NEAR,
        "nodes": nodes,
        "epoch": epoch,
        "test_accuracy": results[0]["test_accuracy"],
    }
    row["unfaithfulness"], row["stderr"] = pool([[value["unfaithfulness"] for value in values]])
    change = float(np.mean([result["change"] for result in results]))
    row["relative"] = row["unfaithfulness"] / change if change > 0 else None
    for name in ("auc", "auc_paper", "auc_any_house", "sparsity"):
        if name in values[0]:
            row[name], row[f"{name}_stderr"] = pool([[value[name] for value in values]])
    if dataset == "ba-shapes":
        row["auc_by_distance"], _ = pool([[result["auc_by_distance"] for result in results]])
    return row | {
        "seconds_per_node": float(np.mean([value["seconds_per_node"] for value in values])),
        "num_samples": size.samples(TEST_SAMPLES),
        "fit_samples": size.samples(FIT_SAMPLES),
        "seed": SEED,
        "model_seed": model_seed,
        "paper": None,
    }
