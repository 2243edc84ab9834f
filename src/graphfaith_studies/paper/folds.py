"""Put the tables of a page behind folds, which say in one line what is inside."""

from __future__ import annotations

import re

_TABLE = re.compile(
    r"(?:^(?P<line>[^|\n#<*].{0,100}):\n\n)?"  # a short line above a table is its name
    r"(?P<table>^\|(?P<first>[^|\n]*)\|.*\n\|[-:| ]+\|\n(?P<rows>(?:\|.*(?:\n|\Z))+))"
    r"(?P<below>\n(?:On the samples of the fit alone|SubgraphX, which the paper).*(?:\n|\Z))?",
    flags=re.M,
)
_LOWEST = re.compile(r"^\| ([^|]+?) \| \*\*(.+?)\*\* \|", flags=re.M)


def fold_tables(text: str) -> str:
    r"""Return Markdown with every table behind a fold, together with what stands below it about its cells.

    >>> print(fold_tables("Ours:\n\n| Cora, B(A,0.5) | held-out |\n|:--|--:|\n| KEC | 2 |\n| SM | **1** |\n"))
    <details markdown>
    <summary>Ours: lowest is SM, 1 (2 rows)</summary>
    <BLANKLINE>
    | Cora, B(A,0.5) | held-out |
    |:--|--:|
    | KEC | 2 |
    | SM | **1** |
    <BLANKLINE>
    </details>
    """

    def folded(found: re.Match[str]) -> str:
        rows, lowest = found["rows"].splitlines(), _LOWEST.search(found["rows"])
        name = found["line"] or _name(found["first"].strip(), text[: found.start()])
        best = f": lowest is {lowest[1]}, {lowest[2]}" if lowest else ""
        count = f"{len(rows)} row{'s' if len(rows) != 1 else ''}"
        inside = found["table"].rstrip("\n") + ("\n" + found["below"].rstrip("\n") if found["below"] else "")
        summary = f"<summary>{name[:1].upper()}{name[1:]}{best} ({count})</summary>"
        return f"<details markdown>\n{summary}\n\n{inside}\n\n</details>\n"

    return _TABLE.sub(folded, text)


def _name(first: str, above: str) -> str:
    """What a table is called: its first cell if that names one, or else the heading above it."""
    headings = re.findall(r"^#+ (.*)$|^\*\*(Proposition \d|Machine)\b", above, flags=re.M)
    if "," in first or " is " in first or not headings:
        return first
    return str(headings[-1][0] or headings[-1][1])
