"""Numbers and tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence


def format_number(value: float | None, digits: int = 3) -> str:
    """Return a number with the given significant digits, or a dash if it is None or not finite.

    >>> format_number(0.000725841), format_number(12345.6), format_number(None)
    ('7.26e-04', '1.23e+04', '–')
    >>> format_number(1.5, 2), format_number(134.0, 2)
    ('1.5', '134')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    return f"{value:.{digits - 1}e}"


def format_published(value: float | None) -> str:
    """Return a published number with only the digits that were printed.

    >>> format_published(0.03), format_published(3.8e-4), format_published(None)
    ('0.03', '3.8e-04', '–')
    """
    if value is None:
        return "–"
    return f"{value:g}" if value >= 1e-3 else f"{value:.2e}".replace("0e", "e")


def format_with_error(value: float | None, error: float | None) -> str:
    """Return a number and its error bar.

    >>> format_with_error(0.1666, 0.029), format_with_error(None, None)
    ('0.167 ± 0.029', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if error is None or not math.isfinite(error):
        return format_number(value)
    return f"{format_number(value)} ± {format_number(error, 2)}"


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first column is aligned left and the others right.

    >>> print(format_table(["a", "b"], [["x", "1"]]))
    | a | b |
    |:--|--:|
    | x | 1 |
    """
    lines = ["| " + " | ".join(header) + " |", "|:--|" + "--:|" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
