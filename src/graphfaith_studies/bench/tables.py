"""The sections of the results, printed on a terminal or written as Markdown, also into a page between its marks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from graphfaith._base.errors import InputError

from .sections import Section

_MARKED = re.compile(r"<!-- bench: ([a-z-]+) -->\n(.*?)<!-- end -->", re.DOTALL)


def print_sections(console: Console, sections: Sequence[Section]) -> None:
    """Print the sections as tables and lines."""
    for section in sections:
        console.print()
        for line in section.text:
            console.print(line, highlight=False, markup=False)
        if section.columns:
            table = Table(title=section.title, title_justify="left")
            for place, column in enumerate(section.columns):
                table.add_column(column, justify="right" if place else "left")
            for row in section.rows:
                table.add_row(*row)
            console.print(table)


def to_markdown(section: Section) -> str:
    """Return a section as Markdown: a table, or a list of its sentences.

    >>> print(to_markdown(Section("times", columns=("method", "ms"), rows=(("kec", "3"),))), end="")
    | method | ms |
    |---|---|
    | kec | 3 |
    """
    if not section.columns:
        return "".join(f"- {line}\n" for line in section.text)
    rule = "|".join("---" for _ in section.columns)
    head, *rows = (
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n"
        for line in (section.columns, *section.rows)
    )
    return "".join((head, f"|{rule}|\n", *rows))


def mark(section: Section) -> str:
    """Return a section as Markdown between the marks by which a page says where it belongs."""
    return f"<!-- bench: {section.name} -->\n{to_markdown(section)}<!-- end -->"


def marked_in(page: str) -> list[str]:
    """Return the names of the sections that a page has marks for."""
    return [found[1] for found in _MARKED.finditer(page)]


def fill_page(page: str, sections: Sequence[Section]) -> str:
    """Return a page with what stands between its marks replaced by the sections of these names.

    All of it has to be of one run. Therefore it is an error if the run has not measured a section of the page.
    """
    by_name = {section.name: section for section in sections}
    missing = [name for name in marked_in(page) if name not in by_name]
    if missing:
        raise InputError(f"the run has not measured {', '.join(missing)}: make it by graphfaith bench --all")
    return _MARKED.sub(lambda found: mark(by_name[found[1]]), page)
