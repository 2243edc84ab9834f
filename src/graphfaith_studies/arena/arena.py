"""The arena as an experiment: units of work, and rows of who wins where, by how much and how sure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphfaith.data import HETEROPHILOUS_DATASETS, crippen, load_dataset
from graphfaith.judging import MEASURES, Verdict, judge
from graphfaith.metric.pooling import pool_widened
from graphfaith.metric.truth import signed_agreement

from ..paper.experiment import Experiment, Row, Size, Unit
from .contests import CONTESTS, Contest, Ground, baseline_of, contest_named, ground_of, refusal_of
from .reading import ANCHORED, KEC, RANDOM
from .text import format_rows

METHODS = (
    *(
        "anchored-kec",
        "kec",
        "linear",
        "saliency",
        "ig-zero",
        "gnnexplainer",
        "gnnexplainer-soft",
        "subgraphx",
        "shapley",
    ),
    *("pyg-gnnexplainer", "pyg-pgexplainer", "pyg-graphmask", "pyg-attention", "pyg-dummy"),
    *("captum-saliency", "captum-ig", "captum-deconvolution", "captum-inputxgradient", "captum-shapley"),
)
AGAIN = tuple(name for name, measure in MEASURES.items() if measure.group == "again")
ONCE = tuple(name for name, measure in MEASURES.items() if measure.group not in ("again", "training"))
LARGE = ("minesweeper", "actor")
OF_TRAININGS = "stability-training"
OF_TRUTH = ("rank-agreement", "sign-agreement")
# Predictions of each contest in each of three trainings; of PyG's PGExplainer on large graphs, and for stability.
NODES, NODES_SLOW = 4, 1
MOLECULES = 10  # that are compared with the truth
DRAWS, TEST_SAMPLES, REPEATS = 50, 300, 3

Table = NDArray[np.float64]


class Arena(Experiment):
    """Every explainer of the judge, by every figure of merit, on models that nothing here was tuned on."""

    name = "arena"
    title = "The arena"

    def check(self) -> None:
        """Load the data, so that what is missing is said before any work."""
        for dataset in HETEROPHILOUS_DATASETS:
            load_dataset(dataset)
        crippen()

    def units(self, size: Size) -> list[Unit]:
        """Return a unit for each contest and training; all contests come before the next training.

        So a run that is stopped has something of every contest.
        """
        seeds = _seeds(size)
        plan = [(seed, part) for seed in seeds for part in ("methods", "atoms")]
        plan += [(0, "trainings")] if len(seeds) > 1 else []
        return [
            Unit(contest.dataset, seed, part=f"{contest.family}/{part}", cost=30.0)
            for seed, part in plan
            for contest in CONTESTS
            if part != "atoms" or contest.dataset == "crippen"
        ]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Judge explainers on one contest; return the numbers of each column at each training and prediction."""
        family, part = unit.part.split("/")
        contest, count = contest_named(f"{unit.dataset} {family}"), _count(size)
        methods = [name for name in METHODS if not refusal_of(name, contest)]
        quick = [name for name in methods if not _is_slow(name, contest)]
        slow = [name for name in methods if _is_slow(name, contest)]
        if part == "trainings":
            ground = ground_of(contest, _seeds(size), count)
            verdict = _judge(contest, ground, quick, ground.rows[:NODES_SLOW], [OF_TRAININGS], size)
            return {"columns": _columns(verdict)}
        if part == "atoms":
            return _judge_atoms(contest, unit.model_seed, methods, MOLECULES if size.name == "full" else count, size)
        ground = ground_of(contest, (unit.model_seed,), count)
        rows = ground.rows
        columns = _columns(_judge(contest, ground, quick, rows, ONCE, size))
        columns += _columns(_judge(contest, ground, quick, rows[:NODES_SLOW], AGAIN, size))
        late = _columns(_judge(contest, ground, slow, rows[:NODES_SLOW], ONCE, size)) if slow else []
        return {"quality": ground.quality[0], "rows": list(rows), "columns": columns, "late": late}

    def make_rows(self, results: Mapping[Unit, Any], size: Size) -> list[Row]:
        """Return a row for each contest and column, with each method's value and error, the winner and how sure."""
        by_contest: dict[tuple[str, str], dict[str, list[Any]]] = {}
        for unit, found in sorted(results.items(), key=lambda item: item[0].model_seed):
            family, part = unit.part.split("/")
            by_contest.setdefault((unit.dataset, family), {}).setdefault(part, []).append(found)
        rows = []
        for contest in CONTESTS:
            parts = by_contest.get((contest.dataset, contest.family), {})
            if "methods" in parts:
                rows += [{**row, "size": size.name} for row in _rows_of(contest, parts)]
        return rows

    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return the rows as tables."""
        return format_rows(rows, [contest.name for contest in CONTESTS])


def _seeds(size: Size) -> tuple[int, ...]:
    """Return the seeds of the trainings."""
    return tuple(range(size.trainings if size.name == "full" else 1))


def _count(size: Size) -> int:
    """Return how many predictions of a contest are explained."""
    return NODES if size.name == "full" else min(2, size.most or 2)


def _is_slow(method: str, contest: Contest) -> bool:
    """Return whether a method explains few predictions; PGExplainer is trained on the whole graph."""
    return method == "pyg-pgexplainer" and contest.dataset in LARGE


def _judge(
    contest: Contest,
    ground: Ground,
    methods: Sequence[str],
    rows: Sequence[int],
    measures: str | Sequence[str],
    size: Size,
    *,
    own: bool = False,
) -> Verdict:
    """Judge methods, by the truth of the data or by what the model's ``own`` prediction loses without each atom."""
    return judge(
        list(ground.models),
        ground.data,
        list(methods),
        list(rows),
        measures,
        neighborhoods=contest.neighborhoods,
        truth=ground.own[0] if own else ground.truth,
        level=contest.level,
        mode=contest.mode,
        parts=("edges", "features") if contest.moves_features else "edges",
        draws=DRAWS,
        test_samples=size.samples(TEST_SAMPLES),
        repeats=REPEATS,
        dataset=contest.dataset,
    )


def _columns(verdict: Verdict) -> list[dict[str, Any]]:
    """Return each figure of merit in each neighbourhood: the methods' numbers at trainings and predictions."""
    found = []
    for measure, near in verdict.columns:
        methods = {}
        for row in verdict:
            if (row.measure, row.neighborhood) == (measure, near):
                failed = next(iter(row.errors.values()), None) or (row.remark and f"no {measure}: {row.remark}")
                methods[row.method] = {
                    "table": [[_plain(value) for value in line] for line in row.table.tolist()],
                    **({"failed": str(failed)[:200]} if failed and not row.nodes else {}),
                }
        found.append({"measure": measure, "neighborhood": near, "methods": methods})
    return found


def _judge_atoms(contest: Contest, seed: int, methods: Sequence[str], count: int, size: Size) -> Any:
    """Return the agreement of scores with true contributions, and with the model's own effects, on more molecules."""
    ground = ground_of(contest, (seed,), count)
    columns = _columns(_judge(contest, ground, methods, ground.rows, OF_TRUTH, size))
    columns += _own_columns(contest, ground, methods, ground.rows, size)
    learnt = _learnt(ground, ground.rows)
    return {"quality": ground.quality[0], "rows": list(ground.rows), "columns": columns, "learnt": learnt}


def _own_columns(
    contest: Contest, ground: Ground, methods: Sequence[str], rows: Sequence[int], size: Size
) -> list[dict[str, Any]]:
    """Return the agreement with what the model's own prediction loses without each atom."""
    own = _columns(_judge(contest, ground, methods, rows, OF_TRUTH, size, own=True))
    return [{**column, "measure": f"own-{column['measure']}"} for column in own]


def _learnt(ground: Ground, rows: Sequence[int]) -> dict[str, list[float | None]]:
    """Return how far the model's own effects agree with the truth, at each prediction."""
    assert ground.truth is not None
    batch, own, truth = ground.data.batch, ground.own[0].numbers, ground.truth.numbers
    agreed = [signed_agreement(own[batch == row], truth[batch == row]) for row in rows]
    return {
        name: [_plain(one.value) for one in values]
        for name, values in zip(OF_TRUTH, zip(*agreed, strict=True), strict=True)
    }


def _rows_of(contest: Contest, parts: Mapping[str, Sequence[Any]]) -> list[Row]:
    """Return the rows of one contest, from its units in the order of trainings."""
    units, atoms = parts["methods"], parts.get("atoms", [])
    of_atoms = _join([one["columns"] for one in atoms])
    columns = {**_join([one["columns"] for one in [*units, *parts.get("trainings", [])]]), **of_atoms}
    late = _join([one["late"] for one in units])
    learnt = {name: _pooled(_table([one["learnt"][name] for one in atoms])) for name in OF_TRUTH if atoms}
    rows = []
    for (measure, near), methods in columns.items():
        slowly = {name: one for name, one in late.get((measure, near), {}).items() if name not in methods}
        found = {**methods, **slowly}
        tables = {name: one["table"] for name, one in found.items()}
        partial = _partial(tables)
        if measure == "relative-delta":
            tables = _shares(columns["delta", near], late.get(("delta", near), {}))
        known, own = MEASURES[measure.removeprefix("own-")], atoms if (measure, near) in of_atoms else units
        row: Row = {
            "dataset": contest.dataset,
            "model": contest.family,
            "measure": measure,
            "neighborhood": near,
            "better": known.better,
            "nodes": len(own[0]["rows"]),
            "slow": list(slowly),
            "partial": partial,
            "trainings": len(own),
            "quality": [_short(one["quality"]) for one in units],
            "baseline": [_short(number) for number in baseline_of(contest)],
            "values": {name: _pooled(table) for name, table in tables.items()},
            "failed": {name: one["failed"] for name, one in found.items() if one.get("failed")},
            "absent": {name: reason for name in METHODS if (reason := refusal_of(name, contest))},
        }
        if measure in ("delta", "rank-agreement", "own-rank-agreement", "roc-auc"):
            row |= _pairs({name: table for name, table in tables.items() if not np.isnan(table).all()}, known.better)
        if (measure, near) in of_atoms:
            row["learnt"] = learnt
        rows.append(row)
    return rows


def _partial(tables: Mapping[str, Table]) -> list[str]:
    """Return the methods that lack predictions which others of the column have; their means are not beside the others'.

    A method without any number is not among them.
    """
    counts = {name: int((~np.isnan(table)).sum()) for name, table in tables.items()}
    return [name for name, count in counts.items() if 0 < count < max(counts.values())]


def _join(parts: Sequence[Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the columns of several trainings with their tables one below the other."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for part in parts:
        for column in part:
            methods = found.setdefault((column["measure"], column["neighborhood"]), {})
            for name, one in column["methods"].items():
                table = _table(one["table"])
                if name in methods:
                    table = np.concatenate([methods[name]["table"], table])
                methods[name] = {"table": table, "failed": one.get("failed")}
    return found


def _shares(quick: Mapping[str, Any], slow: Mapping[str, Any]) -> dict[str, Table]:
    """Return tables whose means are Delta over Delta(0), the Delta of the zero explanation."""
    found = {}
    for methods, wanted in ((quick, set(quick)), (slow, set(slow) - set(quick))):
        for name in sorted(wanted):
            above, below = methods[name]["table"], methods["zero"]["table"]
            scale = float(below[~np.isnan(above)].mean()) if not np.isnan(above).all() else math.nan
            ratio = float(np.nanmean(above)) / scale if scale > 0 else math.nan
            found[name] = ratio + (above - ratio * below) / scale if scale > 0 else np.full(above.shape, math.nan)
    return found


def _pooled(table: Table) -> list[float | None]:
    """Return the mean over trainings and predictions, and its error."""
    value, error = pool_widened(table) if not np.isnan(table).all() else (math.nan, None)
    return [_short(value), _short(error)]


def _pairs(tables: Mapping[str, Table], better: str) -> Row:
    """Return the winner among methods on all predictions, the next best less it, and each method less AnchoredKEC."""
    most = max((table.size for table in tables.values()), default=0)
    full = {name: table for name, table in tables.items() if table.size == most and not np.isnan(table).any()}
    if not full:
        return {}
    sign = 1 if better == "lower" else -1
    order = sorted(full, key=lambda name: sign * float(full[name].mean()))
    found: Row = {"winner": order[0], "second": order[1] if len(order) > 1 else None}
    if len(order) > 1:
        found["margin"] = _difference(full[order[1]], full[order[0]])
    if KEC in tables and RANDOM in tables:
        found["random_less_kec"] = _difference(tables[RANDOM], tables[KEC])
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
    value, error = pool_widened(both)
    return [_short(value), _short(error), count]


def _table(values: Sequence[Sequence[float | None]]) -> Table:
    return np.array([[math.nan if value is None else value for value in line] for line in values], dtype=np.float64)


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
