"""The page of answers: for each alarm of the operator's page, what was attacked, and whether the page was right.

It is for those who judge the monitor. An operator has no such page.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from graphfaith._base.files import write_file

from .findings import Finding
from .page import PAGE, render_page, render_table
from .tables import Table
from .words import say_time

ANSWERS: Final = "answers.html"
_WHEN: Final = {"during": "during", "after": "soon after", "elsewhere": "no attack near"}


def write_answers(
    folder: Path,
    title: str,
    found: Sequence[Finding],
    study: dict[str, Any],
    tables: Sequence[tuple[str, Table]],
    remarks: Sequence[str] = (),
) -> Path:
    """Write the page, with the tables of the run and remarks on them, and return its path."""
    known = bool(study["marks"]["truth"])
    rows = [
        [f"<a href='{PAGE}#alarm-{finding.number}'>{finding.number}</a>", *map(html.escape, _answer(finding, known))]
        for finding in found
    ]
    heads = ["alarm", "begins", "accused", "when", "attacked", "the page says", "attacked?", "the plant says"]
    body = [
        f"<header><h1>{html.escape(title)}: answers</h1><p>What was attacked, beside what the "
        f"<a href='{PAGE}'>operator's page</a> suggests. \"The plant says\" is what comes out when the simulated plant "
        "runs again with the suggested tag as it would have been without the attack.</p>"
        f"{''.join(f'<p><strong>{html.escape(remark)}</strong></p>' for remark in remarks)}</header>",
        render_table(heads, rows, escaped=True),
        _render_missed(found, study),
    ]
    body += [f"<h2>{html.escape(name)}</h2>{render_table(*table, kind='numbers')}" for name, table in tables]
    path = folder / ANSWERS
    write_file(path, render_page(f"{title}: answers", "\n".join(body)).encode())
    return path


def _answer(finding: Finding, known: bool) -> list[str]:
    event = finding.row["event"]
    attacked = event["attacked"]
    when = _WHEN[event["when"]]
    if event["attacks"]:
        when += " attack " + ", ".join(map(str, event["attacks"]))
    right, plant = "–", "–"
    if finding.cause is not None:
        if known and attacked:
            right = "yes" if finding.cause in attacked else "no"
        verdict = finding.row["verdicts"][finding.cause]["plant"]
        if verdict is not None:
            plant = "the alarm would not be" if verdict else "the alarm would still be"
    names = ", ".join(attacked) or ("not recorded" if event["attacks"] else "–")
    return [say_time(finding.begins), finding.accused, when, names, finding.verdict_words, right, plant]


def _render_missed(found: Sequence[Finding], study: dict[str, Any]) -> str:
    seen = {number for finding in found for number in finding.row["event"]["attacks"]}
    rows = [
        [str(row["attack"]), ", ".join(row["attacked"]) or "not recorded"]
        for row in study["attacks"]
        if row["attack"] not in seen
    ]
    return f"<h2>Attacks without an alarm</h2>{render_table(['attack', 'attacked'], rows)}" if rows else ""
