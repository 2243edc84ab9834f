"""Delta(p) of methods at nodes, in two protocols, as rows and as tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphfaith.data import MOTIF_DATASETS
from graphfaith.explainers.subgraphx import FoundSubgraph
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.surrogate.difference import DifferenceModel

from .experiment import Row, Unit
from .markdown import number, published_number, table, with_error
from .pooling import pooled
from .published import ACCURACY, DATASET_NAMES, NAMES
from .setting import Setting

# The paper's first. By its number, a protocol's samples are of the fit's seed or of the next.
PROTOCOLS = ("in-sample", "held-out")


@dataclass(frozen=True)
class Scored:
    """A method at a node of a trained model in a neighbourhood; Delta(p) and Delta(0) by protocol."""

    dataset: str
    model_seed: int
    node: int
    accuracy: float
    neighborhood: str
    method: str
    seconds: float
    fitted: float | None  # Delta(p) on the samples of the fit alone
    by_protocol: dict[str, list[float]]
    search: dict[str, int] | None = None  # of SubgraphX: evaluations of F, rollouts, and whether the budget was spent


def scores_at(
    here: Setting,
    node: int,
    nears: Sequence[str],
    methods: Sequence[str],
    fit_samples: int,
    test_samples: int,
    seed: int,
) -> dict[str, Any]:
    """Every method in every neighbourhood, scored in both protocols on samples they share; plain values."""
    fits = here.fits(methods, node, nears, fit_samples, seed)
    target, found = here.target(node), []
    for near in nears:
        # These say nothing of features; the paper leaves PGExplainer out where they move.
        those = [name for name in methods if name not in ("pgexplainer", "subgraphx") or "X" not in near]
        models = [fits[name, near].p for name in those]
        scores = {
            protocol: unfaithfulness_of(target, models, near, test_samples, seed + ahead)
            for ahead, protocol in enumerate(PROTOCOLS)
        }
        found += [
            {
                "neighborhood": near,
                "method": name,
                "seconds": fits[name, near].seconds,
                "fitted": getattr(models[at], "in_sample_error", None),
                "search": _search(models[at]),
                "by_protocol": {protocol: [one[at].value, one[at].delta_zero] for protocol, one in scores.items()},
            }
            for at, name in enumerate(those)
        ]
    return {"accuracy": here.test_accuracy, "scores": found}


def _search(p: DifferenceModel) -> dict[str, int] | None:
    if not isinstance(p, FoundSubgraph):
        return None
    found = p.search
    return {"evaluations": found.evaluations, "rollouts": found.rollouts, "budget_spent": int(found.budget_spent)}


def scored(unit: Unit, found: dict[str, Any]) -> list[Scored]:
    """What :func:`scores_at` found for a unit of work."""
    assert unit.node is not None
    return [Scored(unit.dataset, unit.model_seed, unit.node, found["accuracy"], **score) for score in found["scores"]]


def to_rows(found: Sequence[Scored], fit_samples: int, test_samples: int, seed: int) -> list[Row]:
    """A row for each data set, neighbourhood, protocol and method, over its nodes and trainings.

    ``by_node`` has Delta(p) at each node, a list for each training, and ``lowest`` the share of nodes and trainings at
    which no other method has less.
    """
    cells: dict[tuple[str, str], dict[str, dict[tuple[int, int], Scored]]] = {}
    for one in found:
        methods = cells.setdefault((one.dataset, one.neighborhood), {})
        methods.setdefault(one.method, {})[one.model_seed, one.node] = one
    rows: list[Row] = []
    for (dataset, near), by_method in cells.items():
        for protocol in PROTOCOLS:
            for method in sorted(by_method, key=list(NAMES).index):
                places = by_method[method]
                seeds = sorted({seed for seed, _ in places})
                nodes = sorted({node for _, node in places})
                values = [[places[s, node].by_protocol[protocol][0] for node in nodes] for s in seeds]
                zero = statistics.fmean(one.by_protocol[protocol][1] for one in places.values())
                mean, stderr = pooled(values)
                others = [own for other, own in by_method.items() if other != method]
                won = [
                    all(one.by_protocol[protocol][0] <= other[place].by_protocol[protocol][0] for other in others)
                    for place, one in places.items()
                ]
                fitted = [one.fitted for one in places.values() if one.fitted is not None]
                accuracy = {s: next(one.accuracy for (at, _), one in places.items() if at == s) for s in seeds}
                rows.append(
                    {
                        "dataset": dataset,
                        "method": method,
                        "neighborhood": near,
                        "protocol": protocol,
                        "nodes": nodes,
                        "unfaithfulness": mean,
                        "stderr": stderr,
                        "relative": mean / zero if zero > 0 else None,
                        "lowest": sum(won) / len(won),
                        "seconds_per_node": statistics.fmean(one.seconds for one in places.values()),
                        "num_samples": test_samples,
                        "fit_samples": fit_samples,
                        "seed": seed,
                        "model_seeds": seeds,
                        "test_accuracy": [accuracy[s] for s in seeds],
                        "fitted": statistics.fmean(fitted) if fitted else None,
                        "by_node": [[float(f"{value:.5g}") for value in line] for line in values],
                        "search": _mean_search(list(places.values())),
                    }
                )
    return rows


def _mean_search(found: Sequence[Scored]) -> dict[str, float] | None:
    searches = [one.search for one in found if one.search is not None]
    if not searches:
        return None
    return {name: statistics.fmean(search[name] for search in searches) for name in searches[0]}


def tables(rows: Sequence[Row]) -> str:
    """A table for each data set and neighbourhood: both protocols, the paper's value, relative Delta, seconds."""
    parts = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == dataset]
        parts.append(_about(own))
        nears = dict.fromkeys(row["neighborhood"] for row in own)
        parts += [_table([row for row in own if row["neighborhood"] == near]) for near in nears]
    return "\n\n".join(parts)


def _about(rows: Sequence[Row]) -> str:
    first = rows[0]
    accuracy = ", ".join(f"{100 * one:.1f}" for one in first["test_accuracy"])
    published = f"{100 * ACCURACY[first['dataset']]:.1f}".removesuffix(".0")
    text = (
        f"**{DATASET_NAMES[first['dataset']]}**: {_count(len(first['nodes']), 'node')}, "
        f"{_count(len(first['model_seeds']), 'training')} (test accuracy {accuracy} %; the paper's {published} %), "
        f"fitted on {first['fit_samples']} samples, scored on {first['num_samples']}. `relative` (Delta(p) / Delta(0)) "
        "and `lowest` (the share of nodes at which no other method is better) are held-out; seconds were taken with "
        "all workers busy."
    )
    if first["dataset"] in MOTIF_DATASETS:
        text += " PGExpl is trained on these nodes together."
    return text


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _table(rows: Sequence[Row]) -> str:
    cells = {(row["method"], row["protocol"]): row for row in rows}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    best = {
        protocol: min(methods, key=lambda name: float(cells[name, protocol]["unfaithfulness"]))
        for protocol in PROTOCOLS
    }
    lines = []
    for method in methods:
        said = []
        for protocol in reversed(PROTOCOLS):
            row = cells[method, protocol]
            text = with_error(row["unfaithfulness"], row["stderr"])
            said.append(f"**{text}**" if best[protocol] == method else text)
        row = cells[method, "held-out"]
        lines.append(
            [
                NAMES[method],
                said[0],
                said[1],
                published_number(row["paper"]),
                number(row["relative"]),
                f"{100 * row['lowest']:.0f} %",
                number(row["seconds_per_node"], 2),
            ]
        )
    header = [f"{DATASET_NAMES[rows[0]['dataset']]}, {rows[0]['neighborhood']}"]
    header += ["held-out", "in-sample", "paper", "relative", "lowest", "s a node"]
    fitted = [
        f"{NAMES[name]} {number(cells[name, 'in-sample']['fitted'])}"
        for name in methods
        if cells[name, "in-sample"]["fitted"] is not None
    ]
    return table(header, lines) + (f"\n\nOn the samples of the fit alone: {', '.join(fitted)}." if fitted else "")
