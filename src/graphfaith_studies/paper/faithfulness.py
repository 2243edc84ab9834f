"""Delta(p) of methods at nodes in two protocols, as rows and as tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphfaith.explainers.subgraphx import FoundSubgraph
from graphfaith.metric.pooling import pool
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.surrogate.difference import DifferenceModel

from .experiment import Row, Unit
from .markdown import format_number, format_published, format_table, format_with_error
from .published import ACCURACY, DATASET_NAMES, NAMES
from .setting import Setting

# The paper's protocol comes first. The position of a protocol is added to the seed of the fit to get its samples.
PROTOCOLS = ("in-sample", "held-out")


@dataclass(frozen=True)
class Scored:
    """The result of a method at a node of a trained model in a neighbourhood.

    ``by_protocol`` contains Delta(p) and Delta(0) for each protocol.
    """

    dataset: str
    model_seed: int
    node: int
    accuracy: float
    neighborhood: str
    method: str
    seconds: float
    fitted: float | None  # Delta(p) on the samples of the fit alone
    by_protocol: dict[str, list[float]]
    search: dict[str, int] | None = None  # only for SubgraphX: evaluations of F, rollouts, is the budget spent


def score_methods(
    here: Setting,
    node: int,
    nears: Sequence[str],
    methods: Sequence[str],
    fit_samples: int,
    test_samples: int,
    seed: int,
) -> dict[str, Any]:
    """Score every method in every neighbourhood and protocol on shared samples, and return JSON values."""
    fits = here.fits(methods, node, nears, samples=fit_samples, seed=seed)
    target, scores = here.target(node), []
    for near in nears:
        # PGExplainer and SubgraphX do not score features, so they are left out where features are perturbed. The paper
        # does the same for PGExplainer.
        names = [name for name in methods if name not in ("pgexplainer", "subgraphx") or "X" not in near]
        models = [fits[name, near].p for name in names]
        deltas = {
            protocol: unfaithfulness_of(target, models, near, num_samples=test_samples, seed=seed + ahead)
            for ahead, protocol in enumerate(PROTOCOLS)
        }
        scores += [
            {
                "neighborhood": near,
                "method": name,
                "seconds": fits[name, near].seconds,
                "fitted": getattr(models[at], "in_sample_error", None),
                "search": _search_of(models[at]),
                "by_protocol": {
                    protocol: [delta[at].value, delta[at].delta_zero] for protocol, delta in deltas.items()
                },
            }
            for at, name in enumerate(names)
        ]
    return {"accuracy": here.test_accuracy, "scores": scores}


def _search_of(p: DifferenceModel) -> dict[str, int] | None:
    if not isinstance(p, FoundSubgraph):
        return None
    search = p.search
    return {"evaluations": search.evaluations, "rollouts": search.rollouts, "budget_spent": int(search.budget_spent)}


def to_scored(unit: Unit, result: dict[str, Any]) -> list[Scored]:
    """Return the result of :func:`score_methods` for a unit of work as objects."""
    assert unit.node is not None
    return [Scored(unit.dataset, unit.model_seed, unit.node, result["accuracy"], **score) for score in result["scores"]]


def to_rows(scores: Sequence[Scored], fit_samples: int, test_samples: int, seed: int) -> list[Row]:
    """Return a row for each data set, neighbourhood, protocol and method, pooled over nodes and trainings.

    ``by_node`` contains Delta(p) at each node, in one list per training. ``lowest`` is the share of nodes and
    trainings at which no other method has a smaller Delta(p).
    """
    cells: dict[tuple[str, str], dict[str, dict[tuple[int, int], Scored]]] = {}
    for score in scores:
        methods = cells.setdefault((score.dataset, score.neighborhood), {})
        methods.setdefault(score.method, {})[score.model_seed, score.node] = score
    rows: list[Row] = []
    for (dataset, near), by_method in cells.items():
        for protocol in PROTOCOLS:
            for method in sorted(by_method, key=list(NAMES).index):
                places = by_method[method]
                seeds = sorted({seed for seed, _ in places})
                nodes = sorted({node for _, node in places})
                values = [[places[s, node].by_protocol[protocol][0] for node in nodes] for s in seeds]
                zero = statistics.fmean(score.by_protocol[protocol][1] for score in places.values())
                mean, stderr = pool(values)
                rivals = [rival for name, rival in by_method.items() if name != method]
                won = [
                    all(score.by_protocol[protocol][0] <= rival[place].by_protocol[protocol][0] for rival in rivals)
                    for place, score in places.items()
                ]
                fitted = [score.fitted for score in places.values() if score.fitted is not None]
                accuracy = {s: next(score.accuracy for (at, _), score in places.items() if at == s) for s in seeds}
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
                        "seconds_per_node": statistics.fmean(score.seconds for score in places.values()),
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


def _mean_search(scores: Sequence[Scored]) -> dict[str, float] | None:
    searches = [score.search for score in scores if score.search is not None]
    if not searches:
        return None
    return {name: statistics.fmean(search[name] for search in searches) for name in searches[0]}


def format_tables(rows: Sequence[Row]) -> str:
    """Return a table for each data set and neighbourhood.

    Its columns are both protocols, the paper's value, relative Delta, the share of nodes won, and seconds.
    """
    parts = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        of_dataset = [row for row in rows if row["dataset"] == dataset]
        parts.append(_describe_dataset(of_dataset))
        nears = dict.fromkeys(row["neighborhood"] for row in of_dataset)
        parts += [_format_column([row for row in of_dataset if row["neighborhood"] == near]) for near in nears]
    return "\n\n".join(parts)


def _describe_dataset(rows: Sequence[Row]) -> str:
    first = rows[0]
    accuracies = ", ".join(f"{100 * accuracy:.1f}" for accuracy in first["test_accuracy"])
    published = f"{100 * ACCURACY[first['dataset']]:.1f}".removesuffix(".0")
    return (
        f"**{DATASET_NAMES[first['dataset']]}**: {_format_count(len(first['nodes']), 'node')}, "
        f"{_format_count(len(first['model_seeds']), 'training')} "
        f"(test accuracy {accuracies} %; the paper's {published} %), "
        f"fitted on {first['fit_samples']} samples, scored on {first['num_samples']}."
    )


def _format_count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _format_column(rows: Sequence[Row]) -> str:
    cells = {(row["method"], row["protocol"]): row for row in rows}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    best = {
        protocol: min(methods, key=lambda name: float(cells[name, protocol]["unfaithfulness"]))
        for protocol in PROTOCOLS
    }
    lines = []
    for method in methods:
        cell_texts = []
        for protocol in reversed(PROTOCOLS):
            row = cells[method, protocol]
            text = format_with_error(row["unfaithfulness"], row["stderr"])
            cell_texts.append(f"**{text}**" if best[protocol] == method else text)
        row = cells[method, "held-out"]
        lines.append(
            [
                NAMES[method],
                *cell_texts,
                format_published(row["paper"]),
                format_number(row["relative"]),
                f"{100 * row['lowest']:.0f} %",
                format_number(row["seconds_per_node"], 2),
            ]
        )
    header = [f"{DATASET_NAMES[rows[0]['dataset']]}, {rows[0]['neighborhood']}"]
    header += ["held-out", "in-sample", "paper", "relative", "lowest", "s a node"]
    fitted = [
        f"{NAMES[name]} {format_number(cells[name, 'in-sample']['fitted'])}"
        for name in methods
        if cells[name, "in-sample"]["fitted"] is not None
    ]
    text = format_table(header, lines)
    return f"{text}\n\nOn the samples of the fit alone: {', '.join(fitted)}." if fitted else text
