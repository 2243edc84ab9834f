"""Results as tables for people and as JSON: scores of methods, and one explanation with its strongest parts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor
from torch_geometric.explain import Explanation

from .._base.errors import UnsupportedError
from .._base.files import write_file
from ..explanation.faithfulness import (
    NOT_MEASURED,
    Faithfulness,
    faithfulness_by_kind,
    measured_unfaithfulness,
    own_estimate,
)
from ..explanation.reading import Interaction, interactions_of
from ..explanation.scores import explained_nodes, names_of, node_mask_of, task_level
from ..explanation.signed import ScoredFeature, top_attributes, top_edges, top_features
from ..explanation.typed import TypedExplanation, as_shown
from ..explanation.what_if import WhatIf
from ..graph.form import flatten_features
from ..surrogate.estimate import Kind, Unfaithfulness
from .labels import describe_route, shorten

PAIRS = 3  # the pairs that are shown beside the scores


class Without(NamedTuple):
    """Edges that a user thinks away, by (source, sink), and what is foretold of that; None if the method has no p."""

    edges: list[tuple[int, int]]
    answer: WhatIf | None


def print_explanation(
    console: Console, explanation: Explanation | TypedExplanation, label: str, top: int, without: Without | None = None
) -> None:
    """Print an explanation of the graph called ``label``: its faithfulness, its strongest edges, features and pairs.

    ``without`` is what was asked about a graph that lacks some edges.
    """
    explanation = as_shown(explanation)
    output = _explained_output(explanation)
    answer = f", class {output['class']}" if output["class"] is not None else ""
    # A classifier's output has no scale that a reader knows, but a regression's output is what is explained.
    if not answer and output["output"] is not None:
        answer = f", output {output['output']:.4g}"
    title = Text(f"\n{explanation.method}", style="bold")
    title.append(f": {_line(label)} {output['level']} {output['index']}{_names(explanation)}{answer}", style="not bold")
    console.print(title)
    what = describe_route(output["route"]) or "how an edge is changed is not known"
    hops = f"{output['num_hops']} hop{'s' if output['num_hops'] != 1 else ''}"
    console.print(f"{what}; messages go {hops} far", highlight=False)
    measured, estimate = measured_unfaithfulness(explanation), own_estimate(explanation)
    if measured is not None:
        console.print(_describe_measured(measured), highlight=False, soft_wrap=True)
    if estimate is not None:
        console.print(_describe_estimate(explanation, estimate), highlight=False, soft_wrap=True)
    elif explanation.get("in_sample_error") is not None:
        console.print(f"Delta(p) on the samples it was fitted to: {explanation.in_sample_error:.3g}", highlight=False)
    edges = Table()
    edges.add_column("edge")
    edges.add_column("score", justify="right")
    for edge in top_edges(explanation, top):
        source, sink = (_line(name) for name in edge.names)
        name = f"{source} (itself)" if edge.source == edge.sink else f"{source} -> {sink}"
        edges.add_row(Text(name), f"{edge.score:+.4g}")
    _print_title(console, explanation, "edges")
    console.print(edges)
    features = _strongest_features(explanation, top)
    if features:
        _print_title(console, explanation, "features")
        console.print(_features_table(explanation, features))
    if explanation.get("edge_attr_score") is not None:
        console.print(Text("strongest edge attributes", style="italic"))
        console.print(_attributes_table(explanation, top))
    pairs = _strongest_pairs(explanation)
    if pairs:
        console.print(Text("strongest pairs", style="italic"))
        for pair in pairs:
            named = pair._replace(names=(_line(pair.names[0]), _line(pair.names[1])))
            console.print(Text(f"  {named}"), soft_wrap=True)
    if without is not None:
        console.print(Text(_describe_without(explanation, without)), soft_wrap=True)


def _features_table(explanation: Explanation, features: Sequence[ScoredFeature]) -> Table:
    table, values = Table(), flatten_features(explanation.x)
    table.add_column("node")
    table.add_column("feature")
    table.add_column("value", justify="right")
    table.add_column("score", justify="right")
    for feature in features:
        value = float(values[feature.node, feature.column])
        node, name = (Text(_line(name)) for name in feature.names)
        table.add_row(node, name, f"{value:.3g}", f"{feature.score:+.4g}")
    return table


def _attributes_table(explanation: Explanation, top: int) -> Table:
    table, names = Table(), names_of(explanation, "node_names")
    for title in ("source", "sink", "attribute"):
        table.add_column(title)
    table.add_column("score", justify="right")
    for one in top_attributes(explanation, top):
        ends = (Text(_line(str(end if names is None else names[end]))) for end in (one.source, one.sink))
        table.add_row(*ends, str(one.column), f"{one.score:+.4g}")
    return table


def _print_title(console: Console, explanation: Explanation, kind: Kind) -> None:
    """Print the title of a table of scores, and what is to be said of them if the number above is not about them."""
    known = faithfulness_by_kind(explanation).get(kind)
    above = (measured_unfaithfulness(explanation), own_estimate(explanation))
    note = f" ({known or NOT_MEASURED})" if known is None or known.record not in above else ""
    # A title of the table itself would be broken to the width of its columns.
    console.print(Text(f"strongest {kind}{note}", style="italic"), soft_wrap=True)


def _describe_without(explanation: Explanation, without: Without) -> str:
    """Return in words what is foretold of a graph that lacks some edges."""
    names = names_of(explanation, "node_names")
    edges = [" - ".join(_line(str(v if names is None else names[v])) for v in edge) for edge in without.edges]
    answer = without.answer or f"{explanation.method} foretells nothing, because it has no p that was fitted"
    return f"without {' and '.join(edges)}: {answer}"


def _strongest_pairs(explanation: Explanation) -> list[Interaction]:
    """Return the strongest pairs beside the scores; there are none if these are no reading of a p."""
    if explanation.get("reading") is None:
        return []
    try:
        return interactions_of(explanation, PAIRS)
    except UnsupportedError:  # The scores were edited, or p was not kept.
        return []


def _strongest_features(explanation: Explanation, top: int) -> list[ScoredFeature]:
    """Return the strongest features; there are none if the method scores edges alone."""
    return [] if node_mask_of(explanation) is None else top_features(explanation, top)


def _describe_measured(measured: Unfaithfulness) -> str:
    """Return what was measured, beginning with the scores, because these are what is shown."""
    known = Faithfulness(measured, is_estimate=False)
    if measured.scores is None or not known.beyond:
        return str(measured)
    return f"these scores leave {known}; {known.beyond}\nthe whole explanation: {replace(measured, scores=None)}"


def _describe_estimate(explanation: Explanation, estimate: Unfaithfulness) -> str:
    """Return in words what an explanation estimates of its own Delta(p), and how it was fitted."""
    simple = {"saliency": "; p is the gradient alone", "zero": "; p = 0, because no other p follows F better"}
    text = Faithfulness(estimate, is_estimate=True).short
    text = text if estimate.scores is None or not estimate.delta_zero else f"these scores leave {text}"
    return f"{text} ({explanation.fit_samples} samples){simple.get(explanation.chosen, '')}"


def explanation_row(
    explanation: Explanation | TypedExplanation, top: int, without: Without | None = None, /, **settings: Any
) -> dict[str, Any]:
    """Return an explanation as a row of JSON: ``settings``, its faithfulness, and its strongest edges and features.

    The numbers of an explanation that was not scored, or edited since, are None, and so is the share of F's change
    that is left unexplained where F does not change. ``unfaithfulness``, ``stderr`` and ``relative`` are of p, the
    whole explanation. ``faithfulness`` says for the scores of edges and for those of features, which the row also has,
    how much these leave, or "not measured"; if p is more than their sum, ``whole`` has the numbers of p. On a
    heterogeneous graph, nodes and columns are numbered within their types, which the row has beside them.
    """
    explanation = as_shown(explanation)
    score, output = measured_unfaithfulness(explanation), _explained_output(explanation)
    return {
        **settings,
        **({"node": output["index"]} if output["level"] == "node" else {}),
        "unfaithfulness": None if score is None else score.value,
        "stderr": None if score is None else score.stderr,
        "relative": None if score is None else Faithfulness(replace(score, scores=None), is_estimate=False).relative,
        "delta_zero": None if score is None else score.delta_zero,
        "seconds_per_node": explanation.get("seconds"),
        "num_samples": None if score is None else score.num_samples,
        **_estimate_row(explanation),
        "faithfulness": {kind: _kind_row(known) for kind, known in faithfulness_by_kind(explanation).items()},
        **output,
        **_strongest_row(explanation, top),
        **_attributes_row(explanation, top),
        "interactions": [_pair_row(explanation, pair) for pair in _strongest_pairs(explanation)],
        **({} if without is None else {"without": _without_row(explanation, without)}),
    }


def _strongest_row(explanation: Explanation, top: int) -> dict[str, Any]:
    """Return the strongest edges and features; those of a heterogeneous graph by type."""
    typed = explanation._source if explanation.get("kinds") is not None else explanation
    features = [] if node_mask_of(explanation) is None else typed.top_features(top)
    return {
        "edges": [edge._asdict() for edge in typed.top_edges(top)],
        "features": [feature._asdict() for feature in features],
    }


def _pair_row(explanation: Explanation, pair: Interaction) -> dict[str, Any]:
    """Return a pair; on a heterogeneous graph only names tell which two it is of, because its ids are joint ones."""
    row = {**pair._asdict(), "words": str(pair)}
    joint = () if explanation.get("kinds") is None else ("first", "second")
    return {key: value for key, value in row.items() if key not in joint}


def _attributes_row(explanation: Explanation, top: int) -> dict[str, Any]:
    """Return the strongest edge attributes, if they have scores."""
    if explanation.get("edge_attr_score") is None:
        return {}
    typed = explanation.get("kinds") is not None
    strongest = explanation._source.top_attributes(top) if typed else top_attributes(explanation, top)
    return {"edge_attributes": [one._asdict() for one in strongest]}


def _without_row(explanation: Explanation, without: Without) -> dict[str, Any]:
    """Return what is foretold of a graph that lacks some edges; what is not known is None."""
    answer = WhatIf(math.nan, None) if without.answer is None else without.answer
    known = {"change": None if math.isnan(answer.change) else answer.change, "stderr": answer.stderr}
    kinds = explanation.get("kinds")
    edges = [list(edge if kinds is None else map(kinds.name_of, edge)) for edge in without.edges]
    return {"edges": edges, **known, "actual": answer.actual}


def _estimate_row(explanation: Explanation) -> dict[str, Any]:
    own = own_estimate(explanation)
    if own is None:
        return {}
    estimate = _numbers(Faithfulness(own, is_estimate=True))
    return {"estimate": estimate, "fit_samples": explanation.fit_samples, "chosen": explanation.chosen}


def _numbers(known: Faithfulness) -> dict[str, Any]:
    """Return Delta(p) and the share it leaves unexplained, with their errors; None is unknown, or no such share."""
    record, more = known.record, {}
    if record.scores is not None:
        more = {"scores": _numbers(replace(known, record=record.scores)), **_beyond(known)}
        known = replace(known, record=replace(record, scores=None))
    numbers = {"unfaithfulness": record.value, "stderr": record.stderr}
    finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
    return {**finite, "relative": known.relative, "relative_stderr": known.relative_stderr, **more}


def _beyond(known: Faithfulness) -> dict[str, Any]:
    """Return what scores and pairs leave, how many pairs there are, and what every additive function leaves."""
    record = known.record
    pairs = None if record.pairs is None else _numbers(replace(known, record=record.pairs))
    return {"pairs": pairs, "num_pairs": record.num_pairs, "floor": record.floor}


def _kind_row(known: Faithfulness | None) -> dict[str, Any] | str:
    if known is None:
        return NOT_MEASURED
    record = known.record
    more = {"num_samples": record.num_samples, "neighborhood": record.neighborhood, "is_estimate": known.is_estimate}
    if record.scores is None:
        return {**_numbers(known), **more}
    # These numbers stand beside the scores, so they are those of the scores.
    whole = _numbers(replace(known, record=replace(record, scores=None)))
    return {**_numbers(replace(known, record=record.scores)), **_beyond(known), "whole": whole, **more}


def _explained_output(explanation: Explanation) -> dict[str, Any]:
    """Return which row of the output is explained, its class if it has one, and how A enters the model."""
    index, mode = int(explanation.index), explanation._model_config.mode.value
    output: Tensor = explanation.prediction
    if output.dim() < (2 if mode == "multiclass_classification" else 1):
        output = output.unsqueeze(0)  # The output for a single graph may have no row for it.
    row, label = output[index], None
    if mode == "multiclass_classification":
        label = int(row.argmax()) if row.dim() == 1 else None
        value = float(row.max()) if row.dim() == 1 else None
    else:
        label = int(explanation.target[index]) if mode == "binary_classification" else None
        value = float(row.sum())
    level, kinds, typed = task_level(explanation), explanation.get("kinds"), {}
    if kinds is not None and level == "node":
        typed = {"node_type": explanation.node_type}
        index -= kinds.node_start[kinds.node_types.index(explanation.node_type)]
    return {
        "level": level,
        **typed,
        "index": index,
        "class": label,
        "output": value,
        "route": explanation.edge_route,
        "num_hops": int(explanation.num_hops),
    }


def _names(explanation: Explanation) -> str:
    """Return the ends of an explained pair, and the names of explained nodes, in brackets; '' if there are none."""
    names, ends = names_of(explanation, "node_names"), explained_nodes(explanation).tolist()
    if not ends or (names is None and len(ends) == 1):
        return ""
    return f" ({' -> '.join(_line(str(end if names is None else names[end])) for end in ends)})"


def _line(name: str) -> str:
    """Return a name as one short printable line, because a name from a file may contain commands for a terminal."""
    return shorten(name, 40)


def finite_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with None for numbers that are not finite, because JSON has no infinity."""
    return [
        {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        for row in rows
    ]


def write_json(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as a JSON list."""
    write_file(path, (json.dumps(finite_rows(rows), indent=2, allow_nan=False) + "\n").encode())
