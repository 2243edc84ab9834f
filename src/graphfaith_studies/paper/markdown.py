"""Numbers and tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence


def number(value: float | None, digits: int = 3) -> str:
    """A number with so many digits; a dash if there is none.

    >>> number(0.000725841), number(12345.6), number(None), number(1.5, 2), number(134.0, 2)
    ('7.26e-04', '1.23e+04', '–', '1.5', '134')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    return f"{value:.{digits - 1}e}"


def published_number(value: float | None) -> str:
    """A number that was printed somewhere, with no digits that were not there.

    >>> published_number(0.03), published_number(3.8e-4), published_number(None)
    ('0.03', '3.8e-04', '–')
    """
    if value is None:
        return "–"
    return f"{value:g}" if value >= 1e-3 else f"{value:.2e}".replace("0e", "e")


def with_error(value: float | None, error: float | None) -> str:
    """A number and its error bar.

    >>> with_error(0.1666, 0.029), with_error(None, None)
    ('0.167 ± 0.029', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    return number(value) if error is None or not math.isfinite(error) else f"{number(value)} ± {number(error, 2)}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is aligned left, the others right.

    >>> print(table(["a", "b"], [["x", "1"]]))
    | a | b |
    |:--|--:|
    | x | 1 |
    """
    lines = ["| " + " | ".join(header) + " |", "|:--|" + "--:|" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
