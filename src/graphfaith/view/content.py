"""The content of a page: everything that it shows, as plain values of JSON. The page stores nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from .._base.errors import InputError
from ..explanation.scores import explained_nodes
from ..explanation.trust import Trust
from ..explanation.typed import as_shown
from ..graph.form import flatten_features
from ..sampling.neighborhood import describe_neighborhood
from ..surrogate.estimate import KINDS
from .foretelling import foretelling_of
from .labels import shorten
from .layout import Layout, describe_carried, lay_out, share_of_drawn, tell_trust
from .naming import name_nodes, order_labels
from .panel import Panel

MOST_EDGES = 2000  # in a panel; a browser does not move more of them smoothly, and nobody can tell more apart
FIRST_EDGES = 400  # drawn in a panel before the reader moves the slider, if nothing is folded; as in page.js
MOST_PANELS = 12
TOP = 100  # rows of a table
LONGEST_LABEL, LONGEST_NAME, LONGEST_FEATURE, LONGEST_TEXT = 18, 160, 80, 400
_DIGITS = 6
_MOST_ENDS = 2  # Values of features are listed for so many explained nodes.


def page_data(
    explanations: Any, *, title: str | None = None, star_means: str = "marked", max_features: int = 50, **options: Any
) -> dict[str, Any]:
    """Return what a page shows, as plain values; ``options`` are those of `lay_out`."""
    if isinstance(explanations, list | tuple) and len(explanations) > MOST_PANELS:
        raise InputError(f"a page has at most {MOST_PANELS} panels (got {len(explanations)})")
    layout = lay_out(explanations, max_features=max_features, **options)
    shown = [*map(as_shown, explanations)] if isinstance(explanations, list | tuple) else [as_shown(explanations)]
    names = [shorten(name, LONGEST_NAME) or "(no name)" for name in layout.names]
    explained = sorted({at for panel in layout.panels for at in panel.explained})
    places = _strongest_edges(layout)
    features = _features(layout, shown)
    columns = [feature["column"] for feature in features]
    edges = _count(len(places), len(layout.edges), "edge")
    nodes = _count(len(names), max(layout.num_scored, len(names)), "node")
    cut = len(places) < len(layout.edges) or bool(layout.cut)
    head = _head(layout.panels)
    # An answer that stands above all panels is not told again in each.
    is_told = len(layout.panels) > 1 and bool(head["headline"])
    return {
        "title": shorten(title, LONGEST_NAME) if title else _title([names[at] for at in explained]),
        "about": f"{nodes} and {edges} stored in this page" + (", the strongest" if cut else ""),
        "cut": cut,
        "ids": layout.nodes.tolist(),
        "names": names,
        "labels": [shorten(name, LONGEST_LABEL) or "(no name)" for name in name_nodes(layout)],
        "positions": [[_round(x), _round(y)] for x, y in layout.positions.tolist()],
        "relevance": [_round(value) for value in layout.relevance.tolist()],
        "edges": layout.edges[places].tolist(),
        "directed": layout.directed,
        "explained": explained,
        "fixed": layout.fixed,
        "stars": list(layout.stars),
        "star_means": shorten(star_means, LONGEST_TEXT),
        "top": TOP,
        "features": features,
        **head,
        "level": layout.level,
        "rings": [_short(radius) for radius in layout.rings],
        "folds": _folds(layout),
        "label_order": order_labels(layout),
        "kinds": _kinds(layout, places),
        "types": _types(layout),
        "type_of": list(layout.type_of),
        "agreement": [[None if number is None else round(number, 3) for number in row] for row in layout.agreement],
        "panels": [
            {
                **_panel(panel, places, layout),
                "headline": panel.headline.reasons if is_told else panel.headline.text,
                **foretelling_of(explanation, panel.faithfulness, layout, places, columns),
            }
            for panel, explanation in zip(layout.panels, shown, strict=True)
        ],
    }


def _head(panels: Sequence[Panel]) -> dict[str, str]:
    """Return what stands above all panels: of one, its headline; of several, the answer if it is the same in all."""
    # A method that is fitted in no neighbourhood has that of its measurement, and one without any says nothing of it.
    near = {describe_neighborhood(panel.neighborhood) for panel in panels if panel.neighborhood}
    if len(panels) == 1:
        return _say_head(panels[0].headline.text, near.pop() if near else "")
    answers = {str(panel.headline.answer or "") for panel in panels}
    answer = answers.pop() if len(answers) == 1 else ""
    return _say_head(f"{answer}." if answer else "", near.pop() if len(near) == 1 else "")


def _say_head(text: str, near: str) -> dict[str, str]:
    return {"headline": text, "near_words": f"What speaks for and against it {near}." if near else ""}


def _folds(layout: Layout) -> list[dict[str, Any]]:
    return [
        {
            "parent": fold.parent,
            "members": list(fold.members),
            "count": fold.count,
            "position": [_short(fold.position[0]), _short(fold.position[1])],
            "text": shorten(fold.text, LONGEST_TEXT),
            "sums": [None if total is None else _short(total) for total in fold.sums],
        }
        for fold in layout.folds
    ]


def _kinds(layout: Layout, places: Any) -> dict[str, Any] | None:
    if layout.kinds is None and layout.orders is None:
        return None
    kinds = layout.kinds
    return {
        "nodes": None if kinds is None else [None if kind is None else shorten(kind, 3) for kind in kinds],
        "orders": None if layout.orders is None else [layout.orders[place] for place in places.tolist()],
    }


def _types(layout: Layout) -> list[dict[str, Any]]:
    """Return the types of nodes of a heterogeneous graph, with their shapes; the style sheet has their colours."""
    names = ((shorten(one.name, LONGEST_NAME), one.shape) for one in layout.types)
    return [{"name": name, "shape": shape, "place": place} for place, (name, shape) in enumerate(names)]


def _trust(trust: Trust | None) -> dict[str, Any] | None:
    if trust is None:
        return None
    return {
        "rows": [
            {
                "key": row.key,
                "name": row.name,
                "relative": None if row.relative is None else _short(row.relative),
                "stderr": None if row.stderr is None else _short(row.stderr),
                "text": row.text,
                "explained": row.explained,
            }
            for row in trust.rows
        ],
        "estimate": trust.is_estimate,
        "text": shorten(trust.text, LONGEST_TEXT),
    }


def _count(shown: int, known: int, what: str) -> str:
    """Return in words how many are shown, and of how many.

    >>> _count(1, 1, "node"), _count(300, 512, "node")
    ('1 node', '300 of 512 nodes')
    """
    return f"{shown} of {known} {what}s" if shown < known else f"{shown} {what}" + "s" * (shown != 1)


def _strongest_edges(layout: Layout) -> Any:
    """Return the places of the edges to show, ascending."""
    strength = np.abs(np.stack([panel.edges for panel in layout.panels])).max(0)
    return np.sort(np.argsort(-strength, kind="stable")[:MOST_EDGES])


def _drawn_at_first(panel: Panel, places: Any, layout: Layout) -> Any:
    """Return the places of the edges that a panel draws before the reader opens or moves anything."""
    drawn = places[layout.visible_edges[places]]
    if layout.folds or len(drawn) <= FIRST_EDGES:
        return drawn
    # The slider has steps of one per cent, and is set to the first step that has all of the first edges.
    percent = -(-100 * FIRST_EDGES // len(drawn))
    most = int(percent * len(drawn) / 100 + 0.5)
    return drawn[np.argsort(-np.abs(panel.edges[drawn]), kind="stable")[:most]]


def _title(names: Sequence[str]) -> str:
    if not names:
        return "What the model looked at"
    named = [f"node {name}" if name.isdecimal() else name for name in names[:2]]
    return f"What the model looked at for {' and '.join(named)}" + (" and others" if len(names) > 2 else "")


def _panel(panel: Panel, edges: Any, layout: Layout) -> dict[str, Any]:
    notes = {kind: shorten(panel.note(kind), LONGEST_TEXT) for kind in KINDS}
    painted = {kind: panel.is_drawn(kind) for kind in KINDS}
    # A score that nobody has tried would look as good in the picture as one that was measured. Tables have it.
    said = {kind: note if painted[kind] else f"{note}, not drawn" for kind, note in notes.items()}
    shown = (("edges", panel.edge_scale, said["edges"]), ("nodes", panel.node_scale, said["features"]))
    scale = [f"{kind} ±{size:.3g}{f' ({note})' if note else ''}" for kind, size, note in shown if size]
    drawn = _drawn_at_first(panel, edges, layout)
    share = share_of_drawn(panel, layout, drawn)
    return {
        "title": shorten(panel.title, LONGEST_NAME) or "Explanation",
        "scale": (f"Largest scores: {', '.join(scale)}." if scale else "All scores are zero.")
        + _sentence(panel.route)
        + _sentence(panel.attributes),
        "explained": list(panel.explained),
        "nodes": _list(panel.nodes),
        "node_scale": panel.node_scale,
        "edges": _list(panel.edges[edges]),
        "loops": _list(panel.loops),
        "edge_scale": panel.edge_scale,
        "notes": notes,
        "painted": painted,
        "carried_text": describe_carried(panel, share, drawn),
        "trust": _trust(tell_trust(panel, layout, share)),
    }


def _sentence(text: str) -> str:
    return f" {text[0].upper()}{text[1:]}." if text else ""


def _features(layout: Layout, explanations: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the features that any panel lists, strongest first, with their scores in every panel that has some."""
    names: dict[int, str] = {}
    strength: dict[int, float] = {}
    for panel in layout.panels:
        for column, (name, value) in zip(panel.feature_columns, panel.features, strict=True):
            names[column] = shorten(name, LONGEST_FEATURE) or "(no name)"
            strength[column] = max(strength.get(column, 0.0), abs(value))
    order = sorted(names, key=lambda column: (-strength[column], column))[:TOP]
    scores = [panel.feature_scores for panel in layout.panels]
    rows = _explained_rows(explanations)
    return [
        {
            "name": names[column],
            "column": column,
            "absent": rows is not None and column < rows.size(1) and not bool(rows[:, column].any()),
            "x": _values_of(rows, column),
            "values": [
                None if panel is None or column >= len(panel) else _short(float(panel[column])) for panel in scores
            ],
        }
        for column in order
    ]


def _values_of(rows: Tensor | None, column: int) -> list[float]:
    """Return the feature at what is explained, a node or both ends of a link; [] where it is unknown, or too many."""
    known = rows is not None and column < rows.size(1) and len(rows) <= _MOST_ENDS
    return [_short(float(value)) for value in rows[:, column]] if rows is not None and known else []


def _explained_rows(explanations: Sequence[Any]) -> Tensor | None:
    """Return the features of what is explained, a node or both ends of a link, if they are known."""
    nodes = sorted({node for explanation in explanations for node in explained_nodes(explanation).tolist()})
    x: Tensor | None = next((one.get("x") for one in explanations if isinstance(one.get("x"), Tensor)), None)
    if not nodes or x is None:
        return None
    return flatten_features(x)[nodes].detach().cpu()


def _list(values: Any) -> list[float]:
    return [_short(value) for value in values.tolist()]


def _round(value: float) -> float:
    """Round a place or a size to what a screen can show: a panel is two wide, and has fewer than 20,000 pixels."""
    return round(value, 4)


def _short(value: float) -> float:
    """Round a number to the digits that a picture needs."""
    return float(f"{value:.{_DIGITS}g}")
