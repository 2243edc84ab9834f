"""Seconds to explain a node: the paper's table of running times, with all methods timed in turns in one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from graphfaith.explainers import GNNExplainer, PGExplainer
from graphfaith.facade import Fit
from graphfaith.metric.pooling import pool

from .experiment import Experiment, Row, Size, Unit
from .markdown import format_number, format_published, format_table, format_with_error
from .published import DATASET_NAMES
from .setting import Setting, setting

NEAR = "U(A,0.5)"
NODES = {"ba-shapes": range(300, 700, 4), "cora": range(0, 1000, 10), "citeseer": range(0, 1000, 10)}
SEED = 0


@dataclass(frozen=True)
class Timed:
    """A row of the paper's table: a method, its samples or epochs, and the paper's seconds per data set, if any."""

    method: str
    label: str
    samples: int | None = None
    epochs: int | None = None
    paper: tuple[float, float, float] | None = None

    @property
    def key(self) -> str:
        """The key of the row in the result of :meth:`Efficiency.measure`."""
        return self.method if self.samples is None else f"{self.method} {self.samples}"


TIMED = (
    Timed("gnnexplainer", "GNNExplainer", epochs=GNNExplainer().epochs, paper=(0.70, 0.50, 0.53)),
    Timed("pgexplainer", "PGExplainer", epochs=PGExplainer().epochs, paper=(0.62, 0.45, 0.47)),
    Timed("saliency", "SM", paper=(0.01, 0.01, 0.07)),
    Timed("ig-zero", "IG (50 points)", paper=(0.02, 0.45, 1.45)),
    Timed("linear", "Linear", 200, paper=(1.01e-3, 0.01, 0.04)),
    Timed("linear", "Linear", 1500, paper=(1.17e-3, 0.01, 0.04)),
    Timed("kec", "KEC", 200, paper=(0.04, 0.03, 0.06)),
    Timed("kec", "KEC", 1500, paper=(0.04, 0.03, 0.06)),
    Timed("anchored-kec", "AnchoredKEC", 200),
    Timed("anchored-kec", "AnchoredKEC", 1500),
)
LABELS = {timed.method: timed.label for timed in TIMED}


class Efficiency(Experiment):
    """The seconds from the graph to the scores of a node, for each method and data set.

    All methods explain a node before the next node follows, so that a slow moment of the machine affects all of them.
    On BA-Shapes, as in the paper, PGExplainer is trained on all nodes together, and each node is charged an equal
    share of this time. On Cora and CiteSeer it is trained for each node.
    """

    name = "efficiency"
    title = "Efficiency: seconds a node (Fig. 2b)"
    alone = True

    def units(self, size: Size) -> list[Unit]:
        """Return a unit for each node of each data set."""
        return [
            Unit(dataset, 0, node, cost=6.0 if dataset == "ba-shapes" else 0.5)
            for dataset, nodes in NODES.items()
            for node in size.nodes(nodes)
        ]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Measure the seconds of each method, and the node's share of PGExplainer's training on all nodes."""
        assert unit.node is not None
        here = _warm_up(unit.dataset, unit.model_seed, tuple(size.nodes(NODES[unit.dataset])), size)
        seconds = {}
        for timed in TIMED:
            fit = _fit(here, timed, unit.node, size)
            seconds[timed.key] = fit.seconds
            if timed.method == "pgexplainer":
                seconds["shared"] = fit.shared
        return seconds

    def make_rows(self, results: Mapping[Unit, Any], size: Size) -> list[Row]:
        """Return a row for each method and data set, pooled over the nodes."""
        rows = []
        for place, dataset in enumerate(NODES):
            units = [unit for unit in self.units(size) if unit in results and unit.dataset == dataset]
            for timed in TIMED if units else ():
                seconds = [results[unit][timed.key] for unit in units]
                mean, error = pool([seconds])
                shared = sum(results[unit]["shared"] for unit in units) / len(units)
                rows.append(
                    {
                        "dataset": dataset,
                        "method": timed.method,
                        "neighborhood": NEAR,
                        "fit_samples": None if timed.samples is None else size.samples(timed.samples),
                        "epochs": timed.epochs,
                        "nodes": [unit.node for unit in units],
                        "seconds_per_node": mean,
                        "stderr": error,
                        "median": median(seconds),
                        "shared_seconds": shared if timed.method == "pgexplainer" else 0.0,
                        "num_samples": 0,
                        "seed": SEED,
                        "model_seed": 0,
                        "paper": None if timed.paper is None else timed.paper[place],
                    }
                )
        return rows

    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return a table of methods and data sets, and a comparison of the methods."""
        datasets = list(dict.fromkeys(row["dataset"] for row in rows))
        cells = {(_label_of(row), row["dataset"]): _format_cell(row) for row in rows}
        labels = list(dict.fromkeys(label for label, _ in cells))
        body = [[label, *(cells[label, dataset] for dataset in datasets)] for label in labels]
        counts = ", ".join(
            f"{len(_rows_of(rows, dataset)[0]['nodes'])} nodes of {DATASET_NAMES[dataset]}" for dataset in datasets
        )
        parts = [
            f"Seconds from the graph to the scores of a node, mean ± standard error over {counts}; in brackets the "
            f"paper's, on a Tesla T4. Ours are on one core, in one run, every method in turns; fits are in {NEAR}.",
            format_table(["method", *(DATASET_NAMES[dataset] for dataset in datasets)], body),
        ]
        shared = [row for row in rows if row["shared_seconds"] > 0]
        parts += [
            f"On {DATASET_NAMES[row['dataset']]} PGExplainer is trained on all {len(row['nodes'])} nodes together: "
            f"{format_number(row['shared_seconds'])} of its {format_number(row['seconds_per_node'])} seconds a node "
            "are its share of that."
            for row in shared
        ]
        return "\n\n".join([*parts, _format_list([_compare(_rows_of(rows, dataset)) for dataset in datasets])])


@lru_cache(maxsize=len(NODES))
def _warm_up(dataset: str, model_seed: int, nodes: tuple[int, ...], size: Size) -> Setting:
    """Return the model after calling every method once, because the first call in a process takes longer."""
    here = setting(dataset, model_seed, nodes)
    for timed in TIMED:
        _fit(here, timed, nodes[0], size)
    return here


def _fit(here: Setting, timed: Timed, node: int, size: Size) -> Fit:
    samples = 1 if timed.samples is None else size.samples(timed.samples)
    return here.fit(timed.method, node, NEAR, samples=samples, seed=SEED)


def _rows_of(rows: Sequence[Row], dataset: str) -> list[Row]:
    return [row for row in rows if row["dataset"] == dataset]


def _label_of(row: Row) -> str:
    label = LABELS[row["method"]]
    if row["fit_samples"] is not None:
        return f"{label} ({row['fit_samples']} samples)"
    return label if row["epochs"] is None else f"{label} ({row['epochs']} epochs)"


def _format_cell(row: Row) -> str:
    ours = format_with_error(row["seconds_per_node"], row["stderr"])
    return ours if row["paper"] is None else f"{ours} ({format_published(row['paper'])})"


def _format_list(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _compare(rows: Sequence[Row]) -> str:
    """Compare the methods on one data set, here and in the paper."""
    ordered = sorted(rows, key=lambda row: row["seconds_per_node"])
    by_method: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["fit_samples"] or 0):
        by_method.setdefault(row["method"], []).append(row)
    kec, saliency, masks = by_method["kec"][0], by_method["saliency"][0], by_method["gnnexplainer"][0]
    more = "; ".join(
        f"{LABELS[method]} {_format_ratio(by_method[method][-1], by_method[method][0])}"
        for method in ("linear", "kec", "anchored-kec")
    )
    few, many = by_method["kec"][0]["fit_samples"], by_method["kec"][-1]["fit_samples"]
    return (
        f"{DATASET_NAMES[rows[0]['dataset']]}, from the quickest: {', '.join(map(_label_of, ordered))}. "
        f"KEC with {few} samples takes {_format_ratio(kec, saliency)} times as long as SM, and GNNExplainer "
        f"{_format_ratio(masks, kec)} times as long as KEC. {many} samples cost as many times what {few} do: {more}."
    )


def _format_ratio(row: Row, other: Row) -> str:
    """Return the ratio of the seconds of two rows, in this run and in the paper."""
    here = format_number(row["seconds_per_node"] / other["seconds_per_node"], 2)
    if row["paper"] is None or other["paper"] is None:
        return here
    return f"{here} (paper: about {row['paper'] / other['paper']:.2g})"
