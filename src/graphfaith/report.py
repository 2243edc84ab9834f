"""Results as a person reads them and as JSON: tables of scores, and one explanation with its strongest parts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from torch_geometric.explain import Explanation

from .comparison import Row
from .explanation import top_edges, top_features
from .output import write_file


def print_rows(console: Console, rows: Sequence[Row]) -> None:
    """Print a table for each neighbourhood, the lowest Delta(p) in bold."""
    for near in dict.fromkeys(row.neighborhood for row in rows):
        console.print()
        console.print(_table([row for row in rows if row.neighborhood == near]))


def _table(rows: Sequence[Row]) -> Table:
    first, count = rows[0], len(rows[0].nodes)
    title = f"{first.dataset}, {first.neighborhood}, {count} node{'s' if count != 1 else ''}"
    table = Table(title=title, title_justify="left")
    table.add_column("method")
    for name in ("Delta(p)", "± stderr", "relative", "seconds a node"):
        table.add_column(name, justify="right")
    best = min(row.unfaithfulness for row in rows)
    for row in rows:
        style = "bold" if row.unfaithfulness == best and len(rows) > 1 else ""
        numbers = (
            _number(row.unfaithfulness),
            _number(row.stderr, 2),
            _number(row.relative),
            f"{row.seconds_per_node:.3f}",
        )
        table.add_row(row.method, *numbers, style=style)
    return table


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}g}" if math.isfinite(value) else "inf"


def print_explanation(console: Console, explanation: Explanation, dataset: str, node: int, top: int) -> None:
    """Print what an explanation says of a node: its score, and its ``top`` strongest edges and features."""
    label = int(explanation.target[node])
    console.print(f"\n[bold]{explanation.method}[/bold]: {dataset} node {node}, class {label}", highlight=False)
    console.print(str(explanation.unfaithfulness), highlight=False, soft_wrap=True)
    if explanation.get("in_sample_error") is not None:
        console.print(f"Delta(p) on the samples it was fitted to: {explanation.in_sample_error:.3g}", highlight=False)
    edges = Table(title="strongest edges", title_justify="left")
    edges.add_column("edge")
    edges.add_column("score", justify="right")
    for edge in top_edges(explanation, top):
        name = f"{edge.source} (itself)" if edge.source == edge.sink else f"{edge.source} -> {edge.sink}"
        edges.add_row(name, f"{edge.score:+.4g}")
    features = Table(title="strongest features", title_justify="left")
    features.add_column("node")
    features.add_column("feature")
    features.add_column("value", justify="right")
    features.add_column("score", justify="right")
    for one in top_features(explanation, top):
        value = float(explanation.x[one.node, one.column])
        features.add_row(str(one.node), str(one.column), f"{value:.3g}", f"{one.score:+.4g}")
    console.print(edges)
    console.print(features)


def explanation_row(
    explanation: Explanation,
    dataset: str,
    method: str,
    near: str,
    node: int,
    samples: int,
    seed: int,
    model_seed: int,
    top: int,
) -> dict[str, Any]:
    """An explanation as a row of JSON: the keys of a score, and its strongest edges and features."""
    score = explanation.unfaithfulness
    return {
        "dataset": dataset,
        "method": method,
        "neighborhood": near,
        "node": node,
        "unfaithfulness": score.value,
        "stderr": score.stderr,
        "relative": score.relative,
        "seconds_per_node": explanation.seconds,
        "num_samples": score.num_samples,
        "seed": seed,
        "fit_samples": samples,
        "model_seed": model_seed,
        "class": int(explanation.target[node]),
        "edges": [edge._asdict() for edge in top_edges(explanation, top)],
        "features": [feature._asdict() for feature in top_features(explanation, top)],
    }


def write_json(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as a JSON list."""
    # JSON has no infinity; a relative Delta without bound is null.
    plain = [
        {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        for row in rows
    ]
    write_file(path, (json.dumps(plain, indent=2, allow_nan=False) + "\n").encode())
