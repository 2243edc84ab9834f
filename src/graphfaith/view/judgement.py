"""The page of a judgement: for each figure of merit the methods as bars with their errors, and a table of all ranks.

It is plain HTML with one style sheet, without any script, so that it can be read wherever HTML can. Its
Content-Security-Policy names the hash of the style sheet and forbids everything else.
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Callable, Mapping, Sequence
from string import Template
from typing import Any

from .._base.files import check_output, write_file
from .labels import shorten
from .page import Page, asset, hash_of

_WIDTH, _HEIGHT, _LEFT, _BAR = 640, 20, 190, 330  # of the bars, in the units of the picture
_LONGEST = 80


def judgement_page(
    rows: Sequence[Mapping[str, Any]],
    words: Mapping[str, str],
    path: str | os.PathLike[str] | None = None,
    *,
    title: str = "",
    against: str = "",
) -> Page:
    """Return the page of the rows of a judgement, as plain values; write it to ``path`` (.html) if one is given.

    ``words`` says what each figure of merit is, and ``against`` which method the others are compared with.
    """
    target = None if path is None else check_output(path, (".html",))
    columns = list(dict.fromkeys((row["measure"], row["neighborhood"]) for row in rows))
    named = shorten(title, _LONGEST) or _title_of(rows)
    style = asset("judgement.css")
    policy = f"default-src 'none'; style-src {hash_of(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    text = Page(
        Template(asset("judgement.html")).substitute(
            policy=html.escape(policy, quote=True),
            title=html.escape(named),
            style=style,
            about=html.escape(_about(rows)),
            ranks=_ranks(rows, columns),
            differences=_differences(rows, columns, against),
            bars="\n".join(_bars(rows, column, words.get(column[0], "")) for column in columns),
            errors=_errors(rows),
        )
    )
    if target is not None:
        write_file(target, text.encode())
    return text


def _title_of(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(str(row["dataset"]) for row in rows if row["dataset"]))
    return f"Explainers judged: {', '.join(names)}" if names else "Explainers judged"


def _about(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "There are no rows."
    nodes, trainings = max(len(row["nodes"]) for row in rows), rows[0]["trainings"]
    of = f", {trainings} trainings" if trainings > 1 else ""
    return (
        f"{nodes} prediction{'s' if nodes != 1 else ''}{of}, seed {rows[0]['seed']}. Bars are means, and lines on them "
        "are one standard error to either side."
    )


def _ranks(rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, str]]) -> str:
    """Return the table of ranks: methods by figures of merit."""
    at = {(row["method"], row["measure"], row["neighborhood"]): row for row in rows}
    methods = list(dict.fromkeys(str(row["method"]) for row in rows))
    return _table(methods, columns, lambda *place: _rank_cell(at.get(place)))


def _table(methods: Sequence[str], columns: Sequence[tuple[str, str]], cell: Callable[[str, str, str], str]) -> str:
    """Return a table of methods by figures of merit."""
    head = "".join(f'<th scope="col"><span>{_text(m)}</span><small>{_text(n)}</small></th>' for m, n in columns)
    lines = [
        f'<tr><th scope="row">{_text(method)}</th>{"".join(cell(method, *column) for column in columns)}</tr>'
        for method in methods
    ]
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _differences(rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, str]], against: str) -> str:
    """Return the table of each method less one of them, on the predictions that both have."""
    at = {(row["method"], row["measure"], row["neighborhood"]): row for row in rows}
    methods = [name for name in dict.fromkeys(str(row["method"]) for row in rows) if name != against]
    if not methods:
        return ""
    table = _table(methods, columns, lambda *place: _difference_cell(at.get(place), against))
    return (
        f'<section><h2>Each method less {_text(against)}</h2><p class="faint">Means of the differences at the '
        "predictions that both have, with the error of the difference; in bold what is better by more than two of "
        f'these.</p><div class="wide">{table}</div></section>'
    )


def _difference_cell(row: Mapping[str, Any] | None, against: str) -> str:
    less = None if row is None else row["less"].get(against)
    if row is None or less is None or less["value"] is None:
        return '<td class="none">–</td>'
    value, error = less["value"], less["stderr"]
    gain = value if row["better"] == "higher" else -value
    best = ' class="best"' if error is not None and gain > 2 * error else ""
    said = "" if error is None else f"<small>± {error:.1g}</small>"
    return f"<td{best}>{value:+.3g}{said}</td>"


def _rank_cell(row: Mapping[str, Any] | None) -> str:
    if row is None or row["value"] is None:
        failed = row is not None and row["errors"] and not row["nodes"]
        return f'<td class="none">{"failed" if failed else "–"}</td>'
    best = ' class="best"' if row["rank"] == 1 else ""
    # A row of fewer predictions than others have is not beside them.
    return f"<td{best}>{row['rank'] or '*'}<small>{_number(row['value'])}</small></td>"


def _bars(rows: Sequence[Mapping[str, Any]], column: tuple[str, str], words: str) -> str:
    """Return one figure of merit as bars, the best method first."""
    measure, near = column
    own = [row for row in rows if (row["measure"], row["neighborhood"]) == column and row["value"] is not None]
    own.sort(key=lambda row: row["rank"] or math.inf)
    where = f' <span class="faint">{_text(near)}</span>' if near else ""
    better = own[0]["better"] if own else ""
    said = f"{words}; {better} is better" if better else words
    head = f'<h2>{_text(measure)}{where}</h2><p class="faint">{_text(said, 200)}.</p>'
    if not own:
        return f'<section>{head}<p class="faint">It is not defined for any method.</p></section>'
    ends = [row["value"] + sign * (row["stderr"] or 0.0) for row in own for sign in (-1, 1)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    scale = _BAR / (high - low) if high > low else 0.0
    lines = [_bar(row, place, low, scale) for place, row in enumerate(own)]
    height, zero = _HEIGHT * len(own) + 4, _LEFT - low * scale
    said = ", ".join(f"{row['method']} {_number(row['value'])}" for row in own)
    return (
        f'<section>{head}<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_text(said)}">'
        f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{height}"/>{"".join(lines)}</svg></section>'
    )


def _bar(row: Mapping[str, Any], place: int, low: float, scale: float) -> str:
    """Return the bar of one method: its name, the bar, its error and the number."""
    value, error = row["value"], row["stderr"]
    top, middle = place * _HEIGHT + 4, place * _HEIGHT + _HEIGHT / 2 + 2
    zero, end = _LEFT - low * scale, _LEFT + (value - low) * scale
    kind = "plain" if row["method"] in ("random", "zero") else "bar"
    name = _text(str(row["method"]), 26) + ("" if row["rank"] else " *")
    parts = [
        f'<text class="name" x="{_LEFT - 8}" y="{middle + 4:.1f}">{name}</text>',
        f'<rect class="{kind}" x="{min(zero, end):.1f}" y="{top}" width="{max(abs(end - zero), 0.8):.1f}" '
        f'height="{_HEIGHT - 6}"/>',
    ]
    if error is not None:
        parts.append(
            f'<line class="error" x1="{end - error * scale:.1f}" x2="{end + error * scale:.1f}" y1="{middle:.1f}" '
            f'y2="{middle:.1f}"/>'
        )
    said = f"{_number(value)}" + (f" ± {error:.1g}" if error is not None else "")
    parts.append(f'<text class="value" x="{_LEFT + _BAR + 8}" y="{middle + 4:.1f}">{said}</text>')
    return "".join(parts)


def _errors(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what went wrong, by method and reason, with the nodes."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for node, text in row["errors"].items():
            nodes = found.setdefault((str(row["method"]), str(text)), [])
            if str(node) not in nodes:
                nodes.append(str(node))
    items = [
        f"<li><b>{_text(method)}</b> at {len(nodes)} ({_text(', '.join(nodes[:5]))}{', …' if len(nodes) > 5 else ''}): "
        f"{_text(text, 300)}</li>"
        for (method, text), nodes in found.items()
    ]
    left = [
        f"<li><b>{_text(str(row['method']))}</b>, {_text(str(row['measure']))} {_text(str(row['neighborhood']))}: "
        f"{_text(str(row['remark']), 300)}</li>"
        for row in rows
        if row["remark"]
    ]
    section = f"<section><h2>What has no rank</h2><ul>{''.join(left)}</ul></section>" if left else ""
    if not items:
        return section
    return f"{section}<section><h2>What failed</h2><ul>{''.join(items)}</ul></section>"


def _text(text: str, longest: int = _LONGEST) -> str:
    return html.escape(shorten(text, longest))


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "–"
