"""The page: explanations side by side in one file that a browser opens without any server.

A page consists of HTML, two style sheets, one script, and its content as JSON. Its Content-Security-Policy names the
hashes of the styles and the script and forbids everything else. So a label is always text, whatever it contains, and
nothing is fetched from anywhere. The page stores only what it shows, so that its size does not grow with the graph.

What the model answered stands in the HTML itself, and is painted before the script is read, with the few rules of style
that it needs. What the script fills is in a template until then. All of a page is ASCII, which a browser decodes and
reads faster than anything else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from .._base.files import check_output, write_file
from .content import page_data
from .labels import shorten

_SCRIPTS = (
    "parts.js", "sharing.js", "folds.js", "panels.js", "labels.js", "trust.js", "pairs.js", "whatif.js", "compare.js",
    "tables.js", "moving.js", "pointing.js", "choosing.js", "page.js",
)  # fmt: skip
_COMMENTS = re.compile(r"^ *//.*\n|^ +", re.MULTILINE)  # whole lines, and what lines are indented by
_READ, _NAME = 10, 40  # edges that are listed where no script runs, and letters of a name there
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
    text = Template(asset("page.html")).substitute(
        policy=policy(connect=scripts),
        title=_as_html(data["title"]),
        headline=_as_html(data.get("headline", "")),
        near=_as_html(data.get("near_words", "")),
        about=_as_html(data.get("about", "")),
        first=asset("first.css"),
        style=asset("page.css"),
        start=_start(),
        code=_code(scripts),
        legend=asset("legend.html").strip(),
        controls=controls,
        reading=_say_without_script(data),
        footer="Made by graphfaith." + ("" if scripts else " This file is complete: it needs no server."),
        data=as_script(data),
    )
    return Page(text)


def _say_without_script(data: dict[str, Any]) -> str:
    """Return what a browser without scripts can read: of each panel its words, its number and its strongest edges."""
    parts = []
    for panel in data.get("panels", ()):
        known, paints = panel["trust"], panel["painted"]["edges"]
        said = [panel["headline"] if len(data["panels"]) > 1 else "", known["text"] if known else "Not measured."]
        parts.append(f"<h2>{_as_html(panel['title'])}</h2>" + "".join(f"<p>{_as_html(one)}</p>" for one in said if one))
        order = sorted(range(len(panel["edges"])), key=lambda i: -abs(panel["edges"][i]))[:_READ] if paints else []
        rows = [(data["edges"][i], panel["edges"][i] * panel["edge_scale"]) for i in order if panel["edges"][i]]
        arrow = " → " if data["directed"] else " – "
        named = ((arrow.join(shorten(data["names"][end], _NAME) for end in ends), score) for ends, score in rows)
        items = "".join(f"<li>{_as_html(f'{name}: {score:+.3g}')}</li>" for name, score in named)
        parts.append(f"<p>Its strongest edges:</p><ol>{items}</ol>" if items else "")
    return "".join(parts)


def policy(connect: Sequence[str] = ()) -> str:
    """Return a Content-Security-Policy that allows the page's style and script, and nothing else.

    With ``connect``, the scripts of a server, these scripts are allowed too, and may send requests to that server.
    """
    allowed = {
        "default-src": "'none'",
        "style-src": f"{hash_of(asset('first.css'))} {hash_of(asset('page.css'))}",
        "script-src": f"{hash_of(_start())} {hash_of(_code(connect))}",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        **({"connect-src": "'self'"} if connect else {}),
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def _start() -> str:
    return _COMMENTS.sub("", asset("start.js"))


def _code(more: Sequence[str]) -> str:
    """Return all scripts as one without their comments, in a function, so that nothing else sees their names."""
    text = "\n".join(asset(name) for name in (*_SCRIPTS, *more))
    return '(() => {\n"use strict";\n' + _COMMENTS.sub("", text) + "})();"


def _as_html(text: str) -> str:
    """Return HTML that is this text.

    >>> _as_html("<b> ± é")
    '&lt;b&gt; &#177; &#233;'
    """
    return html.escape(text).encode("ascii", "xmlcharrefreplace").decode()


def as_script(data: Any) -> str:
    """Return JSON that cannot end the HTML element it stands in.

    >>> as_script("</script> é")
    '"\\\\u003c/script\\\\u003e \\\\u00e9"'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def asset(name: str) -> str:
    """Return the text of a file that pages are made of."""
    return resources.files("graphfaith.view").joinpath("assets", name).read_text(encoding="utf-8")


def hash_of(text: str) -> str:
    """Return the hash of a style sheet or script, as a Content-Security-Policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
