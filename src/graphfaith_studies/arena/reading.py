"""What is read of a row of the arena: names, values, ranks, and who won."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..paper.experiment import Row
from ..paper.markdown import format_with_error

ANCHORED, KEC, RANDOM, ZERO = "anchored-kec", "kec", "random", "zero"


def name_of(row: Row) -> str:
    """Return the name of the contest of a row."""
    return f"{row['dataset']} {row['model']}"


def value_in(row: Row, method: str) -> float:
    """Return the value of a method, NaN if it has none."""
    value = row["values"].get(method, [None])[0]
    return math.nan if value is None else float(value)


def error_in(row: Row, method: str) -> float:
    """Return the error of the value of a method, NaN if it has none."""
    error = row["values"].get(method, [None, None])[1]
    return math.nan if error is None else float(error)


def cell_of(row: Row, method: str) -> str:
    """Return the value of a method with its error."""
    return format_with_error(value_in(row, method), error_in(row, method))


def bold(text: str, yes: bool) -> str:
    """Return a text, in bold or not."""
    return f"**{text}**" if yes else text


def partial_in(row: Row) -> list[str]:
    """Return the methods of a row that lack predictions which others have."""
    found: list[str] = row["partial"]
    return found


def ranks_in(row: Row, methods: Sequence[str] | None = None) -> dict[str, float]:
    """Return the rank of each method with a number, 1 for the best; equal numbers share a rank."""
    sign = 1 if row["better"] == "lower" else -1
    full = [name for name in methods or row["values"] if name not in partial_in(row)]
    known = {name: sign * value_in(row, name) for name in full if not math.isnan(value_in(row, name))}
    return {
        m: 1
        + sum(other < value for other in known.values())
        + (sum(other == value for other in known.values()) - 1) / 2
        for m, value in known.items()
    }


def won_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of Delta that have a winner."""
    return [row for row in rows if row["measure"] == "delta" and "winner" in row]
