"""The table of a run: what was tried, how many, and what came out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FAILED = "FAILED"  # the outcome of a row begins with this word if anything in it is wrong
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"  # what stands between them in a page is rewritten
SHOWN = 4  # failures that are named in a row; all of them are printed while the part runs


class Row(NamedTuple):
    """One line of the table; any tuple of three texts will do."""

    tried: str
    count: str
    outcome: str


class Outcome(NamedTuple):
    """What came out of one try: its kind, whether that is wrong, and what there is to know about it."""

    kind: str
    failed: bool = False
    detail: str = ""


def has_failed(row: Sequence[str]) -> bool:
    """Return whether the outcome of a row says that something is wrong."""
    return row[2].startswith(FAILED)


def count_of(done: int, promised: int) -> str:
    """Return how many were tried; fewer than promised is marked.

    >>> count_of(1500, 1500), count_of(12, 1500)
    ('1,500', '12 of 1,500 (time ran out)')
    """
    return f"{done:,}" if done >= promised else f"{done:,} of {promised:,} (time ran out)"


def summarise(
    tried: str, promised: int, outcomes: Mapping[Any, Outcome], never: Iterable[str] = (), *, order: Iterable[str] = ()
) -> Row:
    """Return the row of many outcomes, each under the name by which it can be tried again.

    ``never`` are the kinds of failure that are looked for: those that did not happen are named with a 0. ``order`` are
    the kinds of outcome that come first.

    >>> summarise("graphs", 3, {1: Outcome("explained"), 2: Outcome("NaN", True), 3: Outcome("refused")}, ["crash"])
    Row(tried='graphs', count='3', outcome='FAILED: NaN 1 (2); explained 1, refused 1; crash 0')
    """
    right = Counter(outcome.kind for outcome in outcomes.values() if not outcome.failed)
    wrong: dict[str, list[str]] = {}
    for name, outcome in outcomes.items():
        if outcome.failed:
            wrong.setdefault(outcome.kind, []).append(str(name))
    parts = []
    if wrong:
        named = (f"{kind} {len(names):,} ({_list_some(names)})" for kind, names in wrong.items())
        parts.append(f"{FAILED}: {', '.join(named)}")
    first = {kind: right.get(kind, 0) for kind in order}
    counted = first | {kind: count for kind, count in right.most_common() if kind not in first}
    parts.append(", ".join(f"{kind} {count:,}" for kind, count in counted.items()))
    parts.append(", ".join(f"{kind} 0" for kind in never if kind not in wrong))
    return Row(tried, count_of(len(outcomes), promised), "; ".join(part for part in parts if part))


def _list_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as a table in Markdown."""
    lines = ["| tried | how many | what came out |", "|---|---:|---|"]
    lines += ["| " + " | ".join(_escape(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _escape(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|")


def renew(page: Path, rows: Sequence[Sequence[str]], part: str, about: str) -> None:
    """Put the rows of one part in place of those of the same name in a page, and say below which run that was.

    What other runs have made stays. A row that the page has not comes last.
    """
    old = page.read_text().partition(BEGIN)[2].partition(END)[0].strip()
    table, _, after = old.partition("\n\n")
    lines = table.splitlines()
    for row in rows:
        new = format_table([row]).splitlines()[-1]
        same = [i for i, line in enumerate(lines) if line.startswith(f"| {_escape(row[0])} |")]
        lines[same[0] if same else len(lines) :] = [new, *lines[same[0] + 1 :]] if same else [new]
    begins = f"The rows of {part}: "
    others = [one for one in after.split("\n\n") if one.strip() and not one.startswith(begins)]
    write_into(page, "\n\n".join(["\n".join(lines), *others, begins + about]))


def write_into(page: Path, text: str) -> None:
    """Put a text between the two markers of a page, and leave the rest of the page as it is."""
    draft = page.with_name(f".{page.name}.tmp")
    draft.write_text(put_between(page.read_text(), text))
    os.replace(draft, page)


def put_between(content: str, text: str) -> str:
    """Return a page with a text between its two markers."""
    if content.count(BEGIN) != 1 or content.count(END) != 1 or content.index(BEGIN) > content.index(END):
        raise SystemExit(f"a page must have one line {BEGIN} and, below it, one line {END}")
    before, rest = content.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{text.strip()}\n\n{END}{after}"
