"""Do explanations follow the model's parameters? Every method at several moments of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.surrogate.difference import SubgraphModel

from .checkpoints import checkpoints
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
from .parameter_figures import ba_shapes_figure, cora_figure
from .parameter_findings import findings, quantity_tables
from .pooling import pooled
from .setting import Setting

NEAR = "U(A,0.5)"
SEED, FIT_SAMPLES, TEST_SAMPLES = 0, 200, 500
NODES = {"ba-shapes": range(400, 700, 10), "cora": range(0, 1000, 25)}
# Epochs at which the test accuracy of model seed 0 goes through its range: from 0.17 to 0.97, and from 0.22 to 0.81.
EPOCHS = {"ba-shapes": (0, 20, 38, 50, 70, 111, 1000), "cora": (0, 2, 4, 7, 15, 30, 200)}
FEW_EPOCHS = (5, 20)  # for a look at whether it runs
METHODS = ("gnnexplainer-soft", "pgexplainer", "saliency", "ig-zero", "ig-random", "linear", "kec", "anchored-kec")
COST = {"ba-shapes": 1.2, "cora": 0.6}


class Parameters(Experiment):
    """Fig. 3: unfaithfulness, ROC-AUC (BA-Shapes) and sparsity (Cora) against the test accuracy of checkpoints."""

    name = "parameters"
    title = "Faithfulness to the model's parameters (Fig. 3)"

    def units(self, size: Size) -> list[Unit]:
        """One a node of a checkpoint."""
        return [
            Unit(dataset, 0, node, str(epoch), COST[dataset])
            for dataset in NODES
            for epoch in _epochs(dataset, size)
            for node in size.nodes(NODES[dataset])
        ]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Delta(p) of each method on samples that it was not fitted on, its seconds, and what its edge scores say."""
        assert unit.node is not None
        nodes = tuple(size.nodes(NODES[unit.dataset]))
        here = _setting(unit.dataset, int(unit.part), _epochs(unit.dataset, size), unit.model_seed, nodes)
        fits = here.fits(METHODS, unit.node, [NEAR], size.samples(FIT_SAMPLES), SEED)
        target = here.target(unit.node)
        models = [fits[method, NEAR].p for method in METHODS]
        scored = unfaithfulness_of(target, models, NEAR, size.samples(TEST_SAMPLES), SEED + 1)
        graph = target.computation_graph
        near = near_edges(graph)
        own = every = np.zeros(0, dtype=np.bool_)
        if unit.dataset == "ba-shapes":
            house = house_of_edges(here.data)[graph.edge_id.numpy()[near]]
            own, every = house == house_of_node(unit.node), house >= 0
        result: dict[str, Any] = {"test_accuracy": here.test_accuracy, "change": scored[0].delta_zero, "methods": {}}
        if unit.dataset == "ba-shapes":
            result["auc_by_distance"] = rank_auc(own, closeness(graph)[near])
        for method, p, score in zip(METHODS, models, scored, strict=True):
            scores = edge_scores(p)[near]
            found = {"unfaithfulness": score.value, "seconds_per_node": fits[method, NEAR].seconds}
            if unit.dataset == "ba-shapes":
                found["auc"], found["auc_any_house"] = rank_auc(own, scores), rank_auc(every, scores)
                # Masks are between 0 and 1 already, and the paper takes them as they are.
                found["auc_paper"] = found["auc"] if isinstance(p, SubgraphModel) else paper_auc(own, scores)
            else:
                found["sparsity"] = sparsity_area(scores)
            result["methods"][method] = found
        return result

    def rows(self, found: Mapping[Unit, Any], size: Size) -> list[Row]:
        """One for each data set, checkpoint and method."""
        parts: dict[tuple[str, int, int], dict[int, Any]] = {}
        for unit, result in found.items():
            assert unit.node is not None
            parts.setdefault((unit.dataset, unit.model_seed, int(unit.part)), {})[unit.node] = result
        return [
            _row(dataset, model_seed, epoch, method, at_nodes, size)
            for (dataset, model_seed, epoch), at_nodes in sorted(parts.items())
            for method in METHODS
        ]

    def markdown(self, rows: Sequence[Row]) -> str:
        """A table for each quantity of each data set, and which of the paper's findings they bear out."""
        return quantity_tables(rows) + "\n\n" + findings(rows)

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Quantities against test accuracy, a line for each method."""
        makers = {"ba-shapes": ba_shapes_figure, "cora": cora_figure}
        return {
            f"parameters-{dataset}": make([row for row in rows if row["dataset"] == dataset])
            for dataset, make in makers.items()
            if any(row["dataset"] == dataset for row in rows)
        }


def _epochs(dataset: str, size: Size) -> tuple[int, ...]:
    """The checkpoints; a size that says how many nodes there may be at most is one to see that things run."""
    return EPOCHS[dataset] if size.most is None else FEW_EPOCHS


@cache
def _setting(dataset: str, epoch: int, epochs: tuple[int, ...], seed: int, nodes: tuple[int, ...]) -> Setting:
    """A checkpoint to be explained; on BA-Shapes PGExplainer is trained on all nodes together, for each of them."""
    made = checkpoints(dataset, epochs, seed)[epoch]
    return Setting(made.model, made.data, made.test_accuracy, nodes if dataset == "ba-shapes" else None)


def _row(dataset: str, model_seed: int, epoch: int, method: str, at_nodes: dict[int, Any], size: Size) -> Row:
    nodes = sorted(at_nodes)
    results = [at_nodes[node] for node in nodes]
    own = [result["methods"][method] for result in results]
    row: Row = {
        "dataset": dataset,
        "method": method,
        "neighborhood": NEAR,
        "nodes": nodes,
        "epoch": epoch,
        "test_accuracy": results[0]["test_accuracy"],
    }
    row["unfaithfulness"], row["stderr"] = pooled([[one["unfaithfulness"] for one in own]])
    change = float(np.mean([result["change"] for result in results]))
    row["relative"] = row["unfaithfulness"] / change if change > 0 else None
    for name in ("auc", "auc_paper", "auc_any_house", "sparsity"):
        if name in own[0]:
            row[name], row[f"{name}_stderr"] = pooled([[one[name] for one in own]])
    if dataset == "ba-shapes":
        row["auc_by_distance"], _ = pooled([[result["auc_by_distance"] for result in results]])
    return row | {
        "seconds_per_node": float(np.mean([one["seconds_per_node"] for one in own])),
        "num_samples": size.samples(TEST_SAMPLES),
        "fit_samples": size.samples(FIT_SAMPLES),
        "seed": SEED,
        "model_seed": model_seed,
        "paper": None,
    }
