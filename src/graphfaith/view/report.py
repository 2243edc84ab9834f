"""Results as a person reads them and as JSON: tables of scores, and one explanation with its strongest parts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor
from torch_geometric.explain import Explanation

from .._base.files import write_file
from ..explanation.scores import explained_nodes, names_of, task_level
from ..explanation.signed import top_edges, top_features
from .labels import shorten


def print_explanation(console: Console, explanation: Explanation, label: str, top: int) -> None:
    """Print what an explanation of the graph called ``label`` says: its score, its strongest edges and features."""
    found = _explained(explanation)
    answer = f", class {found['class']}" if found["class"] is not None else ""
    # A classifier's output is a number nobody knows the scale of; a regression's is what is explained.
    if not answer and found["output"] is not None:
        answer = f", output {found['output']:.4g}"
    title = Text(f"\n{explanation.method}", style="bold")
    title.append(f": {_line(label)} {found['level']} {found['index']}{_names(explanation)}{answer}", style="not bold")
    console.print(title)
    what = "A weighs the edges" if found["route"] == "weight" else "A multiplies the messages"
    hops = f"{found['num_hops']} hop{'s' if found['num_hops'] != 1 else ''}"
    console.print(f"{what}; messages go {hops} far", highlight=False)
    console.print(str(explanation.unfaithfulness), highlight=False, soft_wrap=True)
    if explanation.get("estimate") is not None:
        console.print(_own_estimate(explanation), highlight=False, soft_wrap=True)
    elif explanation.get("in_sample_error") is not None:
        console.print(f"Delta(p) on the samples it was fitted to: {explanation.in_sample_error:.3g}", highlight=False)
    edges = Table(title="strongest edges", title_justify="left")
    edges.add_column("edge")
    edges.add_column("score", justify="right")
    for edge in top_edges(explanation, top):
        source, sink = (_line(name) for name in edge.names)
        name = f"{source} (itself)" if edge.source == edge.sink else f"{source} -> {sink}"
        edges.add_row(Text(name), f"{edge.score:+.4g}")
    features = Table(title="strongest features", title_justify="left")
    features.add_column("node")
    features.add_column("feature")
    features.add_column("value", justify="right")
    features.add_column("score", justify="right")
    for one in top_features(explanation, top):
        value = float(explanation.x[one.node, one.column])
        node, feature = (Text(_line(name)) for name in one.names)
        features.add_row(node, feature, f"{value:.3g}", f"{one.score:+.4g}")
    console.print(edges)
    console.print(features)


def _own_estimate(explanation: Explanation) -> str:
    """What an explanation says of itself, and of how it was fitted."""
    own = explanation.estimate
    share = f"{100 * own.relative:.3g} % ± {100 * own.relative_stderr:.1g} %"
    simple = {"saliency": "; p is the gradient alone", "zero": "; p = 0, for nothing followed F any better"}
    return f"by its own estimate {share}, from {explanation.fit_samples} samples{simple.get(explanation.chosen, '')}"


def explanation_row(explanation: Explanation, top: int, **settings: Any) -> dict[str, Any]:
    """An explanation as a row of JSON: ``settings``, its score, what it explains, its strongest edges and features."""
    score, found = explanation.unfaithfulness, _explained(explanation)
    return {
        **settings,
        **({"node": found["index"]} if found["level"] == "node" else {}),
        "unfaithfulness": score.value,
        "stderr": score.stderr,
        "relative": score.relative,
        "seconds_per_node": explanation.seconds,
        "num_samples": score.num_samples,
        **_estimate_row(explanation),
        **found,
        "edges": [edge._asdict() for edge in top_edges(explanation, top)],
        "features": [feature._asdict() for feature in top_features(explanation, top)],
    }


def _estimate_row(explanation: Explanation) -> dict[str, Any]:
    own = explanation.get("estimate")
    if own is None:
        return {}
    names = {
        "unfaithfulness": "value",
        "stderr": "stderr",
        "relative": "relative",
        "relative_stderr": "relative_stderr",
    }
    found = {name: getattr(own, field) for name, field in names.items()}
    estimate = {name: value if math.isfinite(value) else None for name, value in found.items()}
    return {"estimate": estimate, "fit_samples": explanation.fit_samples, "chosen": explanation.chosen}


def _explained(explanation: Explanation) -> dict[str, Any]:
    """Which row of the output is explained, its class if it has one, and how the model was taken."""
    index, mode = int(explanation.index), explanation._model_config.mode.value
    output: Tensor = explanation.prediction
    if output.dim() < (2 if mode == "multiclass_classification" else 1):
        output = output.unsqueeze(0)  # that of one graph may come without a row for it
    row, label = output[index], None
    if mode == "multiclass_classification":
        label = int(row.argmax()) if row.dim() == 1 else None
        value = float(row.max()) if row.dim() == 1 else None
    else:
        label = int(explanation.target[index]) if mode == "binary_classification" else None
        value = float(row.sum())
    return {
        "level": task_level(explanation),
        "index": index,
        "class": label,
        "output": value,
        "route": explanation.edge_route,
        "num_hops": int(explanation.num_hops),
    }


def _names(explanation: Explanation) -> str:
    """The ends of an explained pair, and names if there are any."""
    names, ends = names_of(explanation, "node_names"), explained_nodes(explanation).tolist()
    if not ends or (names is None and len(ends) == 1):
        return ""
    return f" ({' -> '.join(_line(str(end if names is None else names[end])) for end in ends)})"


def _line(name: str) -> str:
    """A name as one short line: one from a file may hold anything, also what a terminal obeys."""
    return shorten(name, 40)


def finite_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as JSON can have them: it has no infinity, so a relative Delta without bound is null."""
    return [
        {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        for row in rows
    ]


def write_json(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as a JSON list."""
    write_file(path, (json.dumps(finite_rows(rows), indent=2, allow_nan=False) + "\n").encode())
