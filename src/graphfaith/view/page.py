"""The page: explanations side by side in one file that a browser opens without any server.

A page consists of HTML, one style sheet, one script, and the layout as JSON. Its Content-Security-Policy names the
hashes of the style and the script and forbids everything else. So a label is always text, whatever it contains, and
nothing is fetched from anywhere. The page stores only what it shows, so that its size does not grow with the graph.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Sequence
from functools import cache
from importlib import resources
from string import Template
from typing import Any

import numpy as np
from torch import Tensor

from .._base.errors import InputError
from .._base.files import check_output, write_file
from ..explanation.scores import explained_nodes
from ..explanation.trust import Trust
from ..surrogate.estimate import KINDS
from .elements import element_colour
from .foretelling import foretelling_of
from .labels import shorten
from .layout import Layout, Panel, describe_carried, lay_out, name_nodes, order_labels

MOST_EDGES = 2000  # in a panel; a browser does not move more of them smoothly, and nobody can tell more apart
FIRST_EDGES = 400  # drawn in a panel before the reader moves the slider, if nothing is folded; as in page.js
MOST_PANELS = 12
TOP = 100  # rows of a table
LONGEST_LABEL, LONGEST_NAME, LONGEST_FEATURE = 18, 200, 80
_SCRIPTS = (  # Each needs the ones before it.
    "parts.js", "sharing.js", "folds.js", "panels.js", "labels.js", "trust.js", "pairs.js", "whatif.js", "compare.js",
    "tables.js", "page.js",
)  # fmt: skip
_DIGITS = 6
_HEIGHT = 680  # of a frame in a notebook, in pixels


class Page(str):
    """The text of a page; a notebook shows it in a frame that can reach neither the notebook nor the network."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return frame(self)

    def __repr__(self) -> str:
        return f"<a page of {len(self.encode()):,} bytes: write it to a file or show it in a notebook>"


def page(
    explanations: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    titles: Sequence[str] | None = None,
    title: str | None = None,
    max_nodes: int = 300,
    max_features: int = 50,
    directed: bool | None = None,
    positions: Any = None,
    stars: Sequence[int] = (),
    star_means: str = "marked",
    fold: bool = True,
) -> Page:
    """Make a page of one explanation, or of several of the same graph; write it to ``path`` (.html) if one is given.

    Panels move together, a node or edge that is chosen in one panel is chosen in all, and tables have the numbers. The
    page says how faithful an explanation is if its scores were measured (:func:`~graphfaith.general_unfaithfulness`),
    or if its method estimates that itself, which is marked. The file is complete: a browser opens it without a server.

    Args:
        explanations: a PyG ``Explanation`` or a list of them; each becomes a panel, all with the same layout.
        path: where to write the page, as .html. An existing file is replaced only by a complete new one.
        titles: one for each panel; by default the name of the method.
        title: of the page; by default it names what is explained.
        max_nodes: the most nodes to show; they are those with the largest \\|score\\|.
        max_features: the most features to list of an explanation.
        directed: draw arrows; by default only if some edge has no opposite (:func:`figure`).
        positions: x and y of every node, [N, 2], instead of a computed layout; then all nodes are shown.
        stars: nodes that get a star, whose meaning the legend gives as ``star_means``.
        fold: fold away what says little of a large graph, into marks that open on a click.

    >>> import torch
    >>> from torch_geometric.explain import Explanation
    >>> path_graph = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> explanation = Explanation(edge_index=path_graph, edge_mask=torch.tensor([0.5, 0.5, -2.0, 0.0]), index=1)
    >>> print(page(explanation)[:15])
    <!DOCTYPE html>
    """
    target = None if path is None else check_output(path, (".html",))
    data = page_data(
        explanations,
        title=title,
        star_means=star_means,
        titles=titles,
        max_nodes=max_nodes,
        max_features=max_features,
        directed=directed,
        positions=positions,
        stars=stars,
        fold=fold,
    )
    text = render_page(data)
    if target is not None:
        write_file(target, text.encode())
    return text


def frame(text: str) -> str:
    """Return a page in a frame for a notebook; a sandbox keeps its script from the notebook and the network."""
    style = f"width:100%;height:{_HEIGHT}px;border:1px solid #8888;border-radius:6px;resize:vertical"
    return f'<iframe title="Explanation" sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(text)}"></iframe>'


def render_page(data: dict[str, Any], *, controls: str = "", scripts: Sequence[str] = ()) -> Page:
    """Return the page that shows the data of :func:`page_data`.

    With more ``scripts`` than the page's own (names of assets) it may also send requests to the server that it came
    from, and contains that server's ``controls``, a piece of HTML.
    """
    script = _script(scripts)
    text = Template(asset("page.html")).substitute(
        policy=policy(connect=scripts),
        title=html.escape(data["title"]),
        style=asset("page.css"),
        script=script,
        legend=asset("legend.html").strip(),
        controls=controls,
        footer="Made by graphfaith." + ("" if scripts else " This file is complete: it needs no server."),
        data=as_script(data),
    )
    return Page(text)


def policy(connect: Sequence[str] = ()) -> str:
    """Return a Content-Security-Policy that allows the page's style and script, and nothing else.

    With ``connect``, the scripts of a server, these scripts are allowed too, and may send requests to that server.
    """
    allowed = {
        "default-src": "'none'",
        "style-src": hash_of(asset("page.css")),
        "script-src": hash_of(_script(connect)),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        **({"connect-src": "'self'"} if connect else {}),
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def _script(more: Sequence[str]) -> str:
    """Return all scripts as one, in a function, so that nothing else on the page sees their names."""
    return '(() => {\n"use strict";\n' + "\n".join(asset(name) for name in (*_SCRIPTS, *more)) + "})();"


def as_script(data: Any) -> str:
    """Return JSON that cannot end the HTML element it stands in.

    >>> as_script("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = text.encode("utf-8", "replace").decode()  # Half of a surrogate pair cannot be encoded.
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def page_data(
    explanations: Any, *, title: str | None = None, star_means: str = "marked", max_features: int = 50, **options: Any
) -> dict[str, Any]:
    """Return what a page shows, as plain values; ``options`` are those of `lay_out`."""
    if isinstance(explanations, list | tuple) and len(explanations) > MOST_PANELS:
        raise InputError(f"a page has at most {MOST_PANELS} panels (got {len(explanations)})")
    layout = lay_out(explanations, max_features=max_features, **options)
    shown = list(explanations) if isinstance(explanations, list | tuple) else [explanations]
    names = [shorten(name, LONGEST_NAME) or "(no name)" for name in layout.names]
    explained = sorted({at for panel in layout.panels for at in panel.explained})
    places = _strongest_edges(layout)
    edges = _count(len(places), len(layout.edges), "edge")
    nodes = _count(len(names), max(layout.num_scored, len(names)), "node")
    cut = len(places) < len(layout.edges) or bool(layout.cut)
    return {
        "title": shorten(title, LONGEST_NAME) if title else _title([names[at] for at in explained]),
        "about": f"{nodes} and {edges} shown" + (", the strongest" if cut else ""),
        "cut": cut,
        "ids": layout.nodes.tolist(),
        "names": names,
        "labels": [shorten(name, LONGEST_LABEL) or "(no name)" for name in name_nodes(layout)],
        "positions": [[_short(x), _short(y)] for x, y in layout.positions.tolist()],
        "relevance": _list(layout.relevance),
        "edges": layout.edges[places].tolist(),
        "directed": layout.directed,
        "explained": explained,
        "fixed": layout.fixed,
        "stars": list(layout.stars),
        "star_means": shorten(star_means, LONGEST_NAME),
        "top": TOP,
        "features": _features(layout, shown),
        "headline": _head(layout.panels),
        "level": layout.level,
        "hops": layout.hops.tolist(),
        "rings": [_short(radius) for radius in layout.rings],
        "folds": _folds(layout, places),
        "carried": [None if panel.carried is None else _short(panel.carried) for panel in layout.panels],
        "label_order": order_labels(layout),
        "kinds": _kinds(layout, places),
        "agreement": [[None if number is None else round(number, 3) for number in row] for row in layout.agreement],
        "panels": [
            {**_panel(panel, places, layout), **foretelling_of(explanation, panel.faithfulness, layout, places)}
            for panel, explanation in zip(layout.panels, shown, strict=True)
        ],
    }


def _head(panels: Sequence[Panel]) -> dict[str, str]:
    """Return what stands above all panels: of one, its headline; of several, the answer if it is the same in all."""
    if len(panels) == 1:
        return _headline(panels[0])
    answers, near = {str(panel.headline.answer or "") for panel in panels}, {panel.headline.near for panel in panels}
    answer = answers.pop() if len(answers) == 1 else ""
    return {"text": f"{answer}." if answer else "", "near": near.pop() if len(near) == 1 else ""}


def _headline(panel: Panel) -> dict[str, str]:
    return {"text": panel.headline.text, "near": panel.headline.near}


def _folds(layout: Layout, places: Any) -> list[dict[str, Any]]:
    """Return the folds, with the numbers of their edges among those that the page has."""
    number = {place: i for i, place in enumerate(places.tolist())}
    return [
        {
            "parent": fold.parent,
            "members": list(fold.members),
            "edges": [number[edge] for edge in fold.edges if edge in number],
            "position": [_short(fold.position[0]), _short(fold.position[1])],
            "text": shorten(fold.text, LONGEST_NAME),
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
        "node_colours": None if kinds is None else [element_colour(kind) for kind in kinds],
        "orders": None if layout.orders is None else [layout.orders[place] for place in places.tolist()],
    }


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
        "text": shorten(trust.text, 2 * LONGEST_NAME),
        "near": shorten(trust.neighborhood, LONGEST_NAME),
        "near_words": shorten(trust.near, LONGEST_NAME),
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
        return "An explanation"
    named = [f"node {name}" if name.isdecimal() else name for name in names[:2]]
    return f"What the model looked at for {' and '.join(named)}" + (" and others" if len(names) > 2 else "")


def _panel(panel: Panel, edges: Any, layout: Layout) -> dict[str, Any]:
    faithfulness = panel.faithfulness
    relative, error = (None, None) if faithfulness is None else (faithfulness.relative, faithfulness.relative_stderr)
    notes = {kind: shorten(panel.note(kind), LONGEST_NAME) for kind in KINDS}
    shown = (("edges", panel.edge_scale, notes["edges"]), ("nodes", panel.node_scale, notes["features"]))
    scale = [f"{kind} ±{size:.3g}{f' ({note})' if note else ''}" for kind, size, note in shown if size]
    return {
        "title": shorten(panel.title, LONGEST_NAME) or "Explanation",
        "scale": (f"Scale: {', '.join(scale)}." if scale else "All scores are zero.") + _sentence(panel.route),
        "explained": list(panel.explained),
        "nodes": _list(panel.nodes),
        "node_scale": panel.node_scale,
        "edges": _list(panel.edges[edges]),
        "loops": _list(panel.loops),
        "edge_scale": panel.edge_scale,
        "near": shorten(panel.neighborhood, LONGEST_NAME),
        "share": shorten(panel.share, LONGEST_NAME),
        "faithfulness": "" if faithfulness is None else shorten(str(faithfulness), LONGEST_NAME),
        "more": "" if faithfulness is None else shorten(faithfulness.beyond, LONGEST_NAME),
        "estimate": faithfulness is not None and faithfulness.is_estimate,
        "relative": None if relative is None else _short(relative),
        "relative_stderr": None if error is None else _short(error),
        "notes": notes,
        "headline": _headline(panel),
        "carried_text": describe_carried(panel, layout, _drawn_at_first(panel, edges, layout)),
        "trust": _trust(panel.trust),
    }


def _sentence(text: str) -> str:
    return f" {text}." if text else ""


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
    row = _explained_row(explanations)
    return [
        {
            "name": names[column],
            "column": column,
            "value": None if row is None or column >= len(row) else _short(float(row[column])),
            "values": [
                None if panel is None or column >= len(panel) else _short(float(panel[column])) for panel in scores
            ],
        }
        for column in order
    ]


def _explained_row(explanations: Sequence[Any]) -> Tensor | None:
    """Return the features of the explained node, if all panels explain the same one and its features are known."""
    nodes = {node for explanation in explanations for node in explained_nodes(explanation).tolist()}
    x: Tensor | None = next((one.get("x") for one in explanations if isinstance(one.get("x"), Tensor)), None)
    if len(nodes) != 1 or x is None or x.dim() != 2:
        return None
    return x[nodes.pop()].detach().cpu()


def _list(values: Any) -> list[float]:
    return [_short(value) for value in values.tolist()]


def _short(value: float) -> float:
    """Round a number to the digits that a picture needs."""
    return float(f"{value:.{_DIGITS}g}")


@cache
def asset(name: str) -> str:
    """Return the text of a file that pages are made of."""
    return resources.files("graphfaith.view").joinpath("assets", name).read_text(encoding="utf-8")


def hash_of(text: str) -> str:
    """Return the hash of a style sheet or script, as a Content-Security-Policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
