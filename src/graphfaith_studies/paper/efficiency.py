"""Seconds to explain a node: the paper's table of running times, all methods in turns in one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from graphfaith.explainers import GNNExplainer, PGExplainer

from .experiment import Experiment, Row, Size, Unit
from .markdown import number, published_number, table, with_error
from .pooling import pooled
from .published import DATASET_NAMES
from .setting import Fit, Setting, setting

NEAR = "U(A,0.5)"
NODES = {"ba-shapes": range(300, 700, 4), "cora": range(0, 1000, 10), "citeseer": range(0, 1000, 10)}
SEED = 0


@dataclass(frozen=True)
class Timed:
    """A row of the paper's table: a method, its size, and the paper's seconds by data set, if it has any."""

    method: str
    label: str
    samples: int | None = None
    epochs: int | None = None
    paper: tuple[float, float, float] | None = None

    @property
    def key(self) -> str:
        """Its name in what :meth:`Efficiency.measure` returns."""
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
    """Seconds from the graph to the scores of a node, by method and data set.

    Every method explains a node before the next node comes, so that a machine that is slow for a while is slow for
    all of them. On BA-Shapes PGExplainer is trained on all nodes together, as in the paper; each of them bears an
    equal share of that. On Cora and CiteSeer it is trained for each node.
    """

    name = "efficiency"
    title = "Efficiency: seconds a node (Fig. 2b)"
    alone = True

    def units(self, size: Size) -> list[Unit]:
        """The nodes of each data set."""
        return [
            Unit(dataset, 0, node, cost=6.0 if dataset == "ba-shapes" else 0.5)
            for dataset, nodes in NODES.items()
            for node in size.nodes(nodes)
        ]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Seconds by method, and PGExplainer's share of a training on all nodes."""
        assert unit.node is not None
        known = _warm(unit.dataset, unit.model_seed, tuple(size.nodes(NODES[unit.dataset])), size)
        found = {}
        for timed in TIMED:
            fit = _fit(known, timed, unit.node, size)
            found[timed.key] = fit.seconds
            if timed.method == "pgexplainer":
                found["shared"] = fit.shared
        return found

    def rows(self, found: Mapping[Unit, Any], size: Size) -> list[Row]:
        """One for each method and data set, over the nodes."""
        rows = []
        for place, dataset in enumerate(NODES):
            units = [unit for unit in self.units(size) if unit in found and unit.dataset == dataset]
            for timed in TIMED if units else ():
                seconds = [found[unit][timed.key] for unit in units]
                mean, error = pooled([seconds])
                shared = sum(found[unit]["shared"] for unit in units) / len(units)
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

    def markdown(self, rows: Sequence[Row]) -> str:
        """Methods by data set, and what is quicker than what."""
        datasets = list(dict.fromkeys(row["dataset"] for row in rows))
        cells = {(_label(row), row["dataset"]): _cell(row) for row in rows}
        labels = list(dict.fromkeys(label for label, _ in cells))
        body = [[label, *(cells[label, dataset] for dataset in datasets)] for label in labels]
        counts = ", ".join(
            f"{len(_of(rows, dataset)[0]['nodes'])} nodes of {DATASET_NAMES[dataset]}" for dataset in datasets
        )
        parts = [
            f"Seconds from the graph to the scores of a node, mean ± standard error over {counts}; in brackets the "
            f"paper's, on a Tesla T4. Ours are on one core, in one run, every method in turns; fits are in {NEAR}.",
            table(["method", *(DATASET_NAMES[dataset] for dataset in datasets)], body),
        ]
        shared = [row for row in rows if row["shared_seconds"] > 0]
        parts += [
            f"On {DATASET_NAMES[row['dataset']]} PGExplainer is trained on all {len(row['nodes'])} nodes together: "
            f"{number(row['shared_seconds'])} of its {number(row['seconds_per_node'])} seconds a node are its share of "
            "that."
            for row in shared
        ]
        return "\n\n".join([*parts, _lines([_compared(_of(rows, dataset)) for dataset in datasets])])


@lru_cache(maxsize=len(NODES))
def _warm(dataset: str, model_seed: int, nodes: tuple[int, ...], size: Size) -> Setting:
    """The model, after every method has been called once: the first call of a process takes longer."""
    known = setting(dataset, model_seed, nodes)
    for timed in TIMED:
        _fit(known, timed, nodes[0], size)
    return known


def _fit(known: Setting, timed: Timed, node: int, size: Size) -> Fit:
    samples = 1 if timed.samples is None else size.samples(timed.samples)
    return known.fit(timed.method, node, NEAR, samples, SEED)


def _of(rows: Sequence[Row], dataset: str) -> list[Row]:
    return [row for row in rows if row["dataset"] == dataset]


def _label(row: Row) -> str:
    label = LABELS[row["method"]]
    if row["fit_samples"] is not None:
        return f"{label} ({row['fit_samples']} samples)"
    return label if row["epochs"] is None else f"{label} ({row['epochs']} epochs)"


def _cell(row: Row) -> str:
    ours = with_error(row["seconds_per_node"], row["stderr"])
    return ours if row["paper"] is None else f"{ours} ({published_number(row['paper'])})"


def _lines(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _compared(rows: Sequence[Row]) -> str:
    """What one data set says, here and in the paper."""
    ordered = sorted(rows, key=lambda row: row["seconds_per_node"])
    of: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["fit_samples"] or 0):
        of.setdefault(row["method"], []).append(row)
    kec, saliency, masks = of["kec"][0], of["saliency"][0], of["gnnexplainer"][0]
    more = "; ".join(
        f"{LABELS[method]} {_ratio(of[method][-1], of[method][0])}" for method in ("linear", "kec", "anchored-kec")
    )
    few, many = of["kec"][0]["fit_samples"], of["kec"][-1]["fit_samples"]
    return (
        f"{DATASET_NAMES[rows[0]['dataset']]}, from the quickest: {', '.join(map(_label, ordered))}. "
        f"KEC with {few} samples takes {_ratio(kec, saliency)} times as long as SM, and GNNExplainer "
        f"{_ratio(masks, kec)} times as long as KEC. {many} samples cost as many times what {few} do: {more}."
    )


def _ratio(row: Row, other: Row) -> str:
    """Of seconds in this run, and in the paper."""
    here = number(row["seconds_per_node"] / other["seconds_per_node"], 2)
    if row["paper"] is None or other["paper"] is None:
        return here
    return f"{here} (paper: about {row['paper'] / other['paper']:.2g})"
