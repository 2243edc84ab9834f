"""The arena as an experiment: units of work, and rows of who wins where, by how much and how sure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphfaith.data import HETEROPHILOUS_DATASETS, crippen, load_dataset
from graphfaith.judging import MEASURES, Verdict, judge
from graphfaith.metric.pooling import pool
from graphfaith.metric.truth import signed_agreement

from ..paper.experiment import Experiment, Row, Size, Unit
from .contests import CONTESTS, Contest, Ground, contest_named, ground_of
from .text import format_rows

METHODS = (
    *("anchored-kec", "kec", "linear", "saliency", "ig-zero", "gnnexplainer", "gnnexplainer-soft"),
    *("pyg-gnnexplainer", "pyg-pgexplainer", "pyg-attention"),
    *("captum-saliency", "captum-ig", "captum-deconvolution", "captum-inputxgradient"),
)
SLOW = ("pyg-graphmask", "captum-shapley", "subgraphx", "shapley")  # on fewer predictions, and explained once
ANCHORED = "anchored-kec"
AGAIN = tuple(name for name, measure in MEASURES.items() if measure.group == "again")
ONCE = tuple(name for name in MEASURES if name not in AGAIN)
OF_TRUTH = ("rank-agreement", "sign-agreement")
NODES, NODES_SLOW = 3, 1  # predictions of each contest, in each of three trainings; the latter also for AGAIN
DRAWS, TEST_SAMPLES = 50, 300

Table = NDArray[np.float64]


class Arena(Experiment):
    """Every explainer of the judge, by every figure of merit, on data that others have made."""

    name = "arena"
    title = "The arena"

    def check(self) -> None:
        """Load the data, so that what is missing is said before any work."""
        for dataset in HETEROPHILOUS_DATASETS:
            load_dataset(dataset)
        crippen()

    def units(self, size: Size) -> list[Unit]:
        """Return a unit for the quick methods on each contest, and then one for the slow ones."""
        return [
            Unit(contest.dataset, part=f"{contest.family}/{speed}", cost=cost)
            for speed, cost in (("quick", 120.0), ("slow", 40.0))
            for contest in CONTESTS
        ]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Judge explainers on one contest; return the numbers of each column at each training and prediction."""
        family, speed = unit.part.split("/")
        contest, count = contest_named(f"{unit.dataset} {family}"), _count(size)
        trainings = size.trainings if size.name == "full" else 1
        ground = ground_of(contest, trainings, count)
        quick = speed == "quick"
        methods = [name for name in (METHODS if quick else SLOW) if _enters(name, contest)]
        rows = ground.rows if quick else ground.rows[:NODES_SLOW]
        columns = _columns(_judge(contest, ground, methods, rows, ONCE, size))
        if quick:
            columns += _columns(_judge(contest, ground, methods, rows[:NODES_SLOW], AGAIN, size))
        found = {"quality": ground.quality, "rows": list(rows), "columns": columns}
        if ground.own:
            own = [_judge(contest, ground, methods, rows, OF_TRUTH, size, training) for training in range(trainings)]
            found["columns"] += _own_columns(own)
            found["learnt"] = _learnt(ground)
        return found

    def make_rows(self, results: Mapping[Unit, Any], size: Size) -> list[Row]:  # noqa: ARG002
        """Return a row for each contest and column, with each method's value and error, the winner and how sure."""
        by_contest: dict[tuple[str, str], dict[str, Any]] = {}
        for unit, found in results.items():
            family, speed = unit.part.split("/")
            by_contest.setdefault((unit.dataset, family), {})[speed] = found
        rows = []
        for contest in CONTESTS:
            parts = by_contest.get((contest.dataset, contest.family), {})
            if "quick" in parts:
                rows += _rows_of(contest, parts)
        return rows

    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return the rows as tables."""
        return format_rows(rows, [contest.name for contest in CONTESTS])


def _count(size: Size) -> int:
    """Return how many predictions of a contest are explained."""
    return NODES if size.name == "full" else min(2, size.most or 2)


def _enters(method: str, contest: Contest) -> bool:
    """Return whether a method can be asked: attention is for attention, and SubgraphX for nodes."""
    if method == "pyg-attention":
        return contest.family == "GAT"
    if method == "pyg-graphmask":
        return contest.family != "GINE"  # PyG's needs layers that know the number of their channels
    return method != "subgraphx" or contest.level == "node"


def _judge(
    contest: Contest,
    ground: Ground,
    methods: Sequence[str],
    rows: Sequence[int],
    measures: str | Sequence[str],
    size: Size,
    training: int | None = None,
) -> Verdict:
    """Judge methods on all trainings; or on one of them by what its own model loses without each atom."""
    models = list(ground.models) if training is None else [ground.models[training]]
    return judge(
        models,
        ground.data,
        list(methods),
        list(rows),
        measures,
        neighborhoods=contest.neighborhoods if training is None else contest.neighborhoods[:1],
        truth=ground.truth if training is None else ground.own[training],
        level=contest.level,
        mode=contest.mode,
        draws=DRAWS,
        test_samples=size.samples(TEST_SAMPLES),
        repeats=1,
        dataset=contest.dataset,
    )


def _columns(verdict: Verdict) -> list[dict[str, Any]]:
    """Return each figure of merit in each neighbourhood: the methods' values, errors and numbers at predictions."""
    found = []
    for measure, near in verdict.columns:
        methods = {}
        for row in verdict:
            if (row.measure, row.neighborhood) == (measure, near):
                failed = next(iter(row.errors.values()), None)
                methods[row.method] = {
                    "value": _plain(row.value),
                    "stderr": _plain(row.stderr),
                    "table": [[_plain(value) for value in line] for line in row.table.tolist()],
                    **({"failed": str(failed)[:200]} if failed and not row.nodes else {}),
                }
        found.append({"measure": measure, "neighborhood": near, "methods": methods})
    return found


def _own_columns(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return the columns of agreement with each model's own effects, pooled over trainings."""
    found = []
    for measure in OF_TRUTH:
        methods = {}
        for method in verdicts[0].methods:
            tables = [verdict.row(method, measure).table for verdict in verdicts]
            if any(not table.size for table in tables):
                continue
            table = np.concatenate(tables)
            value, error = pool(table) if not np.isnan(table).all() else (math.nan, None)
            methods[method] = {
                "value": _plain(value),
                "stderr": _plain(math.nan if error is None else error),
                "table": [[_plain(number) for number in line] for line in table.tolist()],
            }
        found.append({"measure": f"own-{measure}", "neighborhood": "", "methods": methods})
    return found


def _learnt(ground: Ground) -> dict[str, float | None]:
    """Return how far each model's own effects agree with the truth: no explainer of it can be expected to do better."""
    assert ground.truth is not None
    batch, found = ground.data.batch, {}
    tables: dict[str, list[list[float]]] = {name: [] for name in OF_TRUTH}
    for own in ground.own:
        agreed = [
            signed_agreement(own.numbers[batch == row], ground.truth.numbers[batch == row]) for row in ground.rows
        ]
        for name, values in zip(OF_TRUTH, zip(*agreed, strict=True), strict=True):
            tables[name].append([value.value for value in values])
    for name, table in tables.items():
        value, error = pool(table)
        found[name], found[f"{name} stderr"] = _plain(value), _plain(math.nan if error is None else error)
    return found


def _rows_of(contest: Contest, parts: Mapping[str, Any]) -> list[Row]:
    quick, slow = parts["quick"], parts.get("slow")
    others = {(c["measure"], c["neighborhood"]): c["methods"] for c in slow["columns"]} if slow else {}
    rows = []
    for column in quick["columns"]:
        measure, near = column["measure"], column["neighborhood"]
        late = {k: v for k, v in others.get((measure, near), {}).items() if k in SLOW}
        methods = {**column["methods"], **late}
        known = MEASURES[measure.removeprefix("own-")]
        row: Row = {
            "dataset": contest.dataset,
            "model": contest.family,
            "measure": measure,
            "neighborhood": near,
            "better": known.better,
            "nodes": len(quick["rows"]),
            "slow_nodes": len(slow["rows"]) if slow else 0,
            "trainings": len(quick["quality"]),
            "quality": quick["quality"],
            "values": {name: [_short(one["value"]), _short(one["stderr"])] for name, one in methods.items()},
            "failed": {name: one["failed"] for name, one in methods.items() if "failed" in one},
        }
        if measure in ("delta", "rank-agreement", "own-rank-agreement", "roc-auc"):
            row |= _pairs(methods, known.better)
        if "learnt" in quick:
            row["learnt"] = quick["learnt"]
        rows.append(row)
    return rows


def _pairs(methods: Mapping[str, Any], better: str) -> Row:
    """Return the winner among methods on all predictions, and each method less AnchoredKEC and less the winner."""
    tables = {name: _table(one["table"]) for name, one in methods.items() if one["value"] is not None}
    full = {name: table for name, table in tables.items() if name not in SLOW and not np.isnan(table).any()}
    if not full:
        return {}
    sign = 1 if better == "lower" else -1
    order = sorted(full, key=lambda name: sign * float(full[name].mean()))
    found: Row = {"winner": order[0], "second": order[1] if len(order) > 1 else None}
    if len(order) > 1:
        found["margin"] = _difference(full[order[1]], full[order[0]])
    if ANCHORED in tables:
        found["less_anchored"] = {
            name: _difference(table, tables[ANCHORED]) for name, table in tables.items() if name != ANCHORED
        }
    return found


def _difference(first: Table, second: Table) -> list[float | None]:
    """Return the mean difference over the predictions that both have, its error, and the number of pairs."""
    trainings, rows = (min(a, b) for a, b in zip(first.shape, second.shape, strict=True))
    both = first[:trainings, :rows] - second[:trainings, :rows]  # Slow methods have the first predictions.
    count = int((~np.isnan(both)).sum())
    if not count:
        return [None, None, 0]
    value, error = pool(both)
    return [_short(value), _short(error), count]


def _table(values: Sequence[Sequence[float | None]]) -> Table:
    return np.array([[math.nan if value is None else value for value in line] for line in values], dtype=np.float64)


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
