"""The verdict: a row for each method, figure of merit and law, pooled over rows of the output and trainings."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._base.errors import InputError, UnsupportedError
from .._base.files import check_output, write_file
from ..metric.measured import Better, widening
from ..metric.pooling import means_over_trainings, pool_widened
from ..view.judgement import judgement_page
from .measures import MEASURES

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

COLUMNS = 6  # figures of merit side by side in a table
WIDEST = 1.2  # An error that is widened by more is marked: the expansion behind it is one for small corrections.
CLEAR = 2.0  # errors by which a difference is in bold
_UNSURE, _PARTIAL = "°", "*"


@dataclass(frozen=True, eq=False)
class Row:
    """A figure of merit of one method in one neighbourhood, pooled over nodes and trainings.

    ``value`` is NaN if it is not defined, or if the method failed at every node; ``errors`` has the reason by node.
    ``remark`` says why a row is without a value though nothing failed, or without a rank.
    ``nodes`` are those that count, and ``effective_nodes`` of how many the spread over them is made
    (:func:`~graphfaith.metric.measured.effective_count`): from few, the error may be too small. ``rank`` is 1 for
    the best of the same column. ``table`` has the numbers whose mean the value is, [trainings, nodes], NaN where there
    is none: for a ratio these are its linearised parts.

    >>> row = Row("cora", "kec", "sparsity", "", 0.875, 0.01, [0, 50], 0, "higher", rank=1)
    >>> row.method, row.value, row.better, row.rank
    ('kec', 0.875, 'higher', 1)
    """

    dataset: str
    method: str
    measure: str
    neighborhood: str
    value: float
    stderr: float
    nodes: list[int]
    seed: int
    better: Better
    rank: int | None = None
    trainings: int = 1
    errors: dict[int, str] = field(default_factory=dict)
    effective_nodes: float = math.nan
    remark: str = ""
    table: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)), repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain values; numbers that are not finite are None."""
        row = {name: value for name, value in asdict(self).items() if name != "table"}
        row["by_node"] = [_finite(float(value)) for value in means_over_trainings(self.table)]
        row["errors"] = {str(node): text for node, text in self.errors.items()}
        return {name: _finite(value) if isinstance(value, float) else value for name, value in row.items()}


@dataclass(frozen=True)
class Difference:
    """A figure of merit of one method less that of another on the same nodes, with the error of the difference.

    >>> Difference("kec", "linear", "delta", "U(A,0.5)", -0.5, 0.25, 20).sigmas
    -2.0
    """

    first: str
    second: str
    measure: str
    neighborhood: str
    value: float
    stderr: float
    nodes: int

    @property
    def sigmas(self) -> float:
        """The difference in units of its error."""
        return self.value / self.stderr if self.stderr else math.inf if self.value else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the value, its error and the number of nodes as plain values."""
        return {"value": _finite(self.value), "stderr": _finite(self.stderr), "nodes": self.nodes}


class Verdict(list[Row]):
    """The rows of a judgement: a list that prints as tables, and goes to JSON, to pandas and to a page.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> verdict = gf.judge(model, ring, ["saliency"], [0, 1], ["sparsity"])
    >>> verdict.row("random", "sparsity").measure, verdict.methods
    ('sparsity', ['saliency', 'random', 'zero'])
    """

    @property
    def methods(self) -> list[str]:
        """The names of the methods, in their order."""
        return list(dict.fromkeys(row.method for row in self))

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The pairs of a figure of merit and a neighbourhood, in their order."""
        return list(dict.fromkeys((row.measure, row.neighborhood) for row in self))

    def row(self, method: str, measure: str, neighborhood: str | None = None) -> Row:
        """Return the row of a method and a figure of merit; the neighbourhood may be left out if there is one."""
        found = [row for row in self if row.method == method and row.measure == measure]
        found = [row for row in found if neighborhood is None or row.neighborhood == neighborhood]
        if len(found) != 1:
            known = ", ".join(sorted({f"{m} in {n}" if n else m for m, n in self.columns}))
            count = "no row" if not found else f"{len(found)} rows"
            raise InputError(f"there is {count} of {method}, {measure}, {neighborhood}: columns are {known}")
        return found[0]

    def difference(self, first: str, second: str, measure: str, neighborhood: str | None = None) -> Difference:
        """Compare two methods on the nodes where both have a number: the mean of the differences, with its own error.

        Both were asked about the same nodes and, where samples are drawn, with the same draws, so that the error is
        smaller than that of two separate means.
        """
        return _differ(*(self.row(method, measure, neighborhood) for method in (first, second)))

    def against(self, method: str) -> Differences:
        """Return every method less this one, by every figure of merit, paired as in :meth:`difference`."""
        at = {(row.method, row.measure, row.neighborhood): row for row in self}
        if method not in self.methods:
            raise InputError(f"there is no method {method!r}: known are {', '.join(self.methods)}")
        pairs = [(row, at.get((method, row.measure, row.neighborhood))) for row in self if row.method != method]
        return Differences(_differ(row, other) for row, other in pairs if other is not None)

    def as_json(self) -> list[dict[str, Any]]:
        """Return the rows as plain values; ``less`` has each row less every other one of its column, paired."""
        columns: dict[tuple[str, str], list[Row]] = {}
        for row in self:
            columns.setdefault((row.measure, row.neighborhood), []).append(row)
        return [
            row.as_json()
            | {
                "less": {
                    other.method: _differ(row, other).as_json()
                    for other in columns[row.measure, row.neighborhood]
                    if other is not row
                }
            }
            for row in self
        ]

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the rows as a JSON list."""
        target = check_output(path, (".json",))
        write_file(target, (json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n").encode())

    def to_pandas(self) -> Any:
        """Return the rows as a ``pandas.DataFrame``."""
        try:
            import pandas
        except ImportError as error:
            raise UnsupportedError("a data frame needs pandas: pip install pandas") from error
        return pandas.DataFrame([row.as_json() for row in self])

    def page(self, path: str | os.PathLike[str] | None = None, *, title: str = "", against: str | None = None) -> str:
        """Return a page with ranks, paired differences and bars, and write it to ``path`` (.html) if one is given.

        Differences are to the method ``against``, the first one if None.
        """
        words = {name: measure.words for name, measure in MEASURES.items()}
        if against is not None and against not in self.methods:
            raise InputError(f"there is no method {against!r}: known are {', '.join(self.methods)}")
        return judgement_page(self.as_json(), words, path, title=title, against=against or next(iter(self.methods), ""))

    def __str__(self) -> str:
        """Return the tables as text."""
        return _print(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield tables of methods by figures of merit, the best of each in bold, then the errors."""
        from rich.text import Text

        by_place = {(row.method, row.measure, row.neighborhood): row for row in self}
        yield from _tables(
            self.methods,
            self.columns,
            lambda *place: (_cell(by_place.get(place)), getattr(by_place.get(place), "rank", None) == 1),
        )
        if any(map(_is_unsure, self)):
            yield Text(f"{_UNSURE} of few nodes, or a few have most of the mean: the error may be too small")
        if any(map(_is_partial, self)):
            yield Text(f"{_PARTIAL} of fewer predictions than others have, so that it has no rank: use differences")
        for method in self.methods:
            rows = [row for row in self if row.method == method]
            for text in sorted({text for row in rows for text in row.errors.values()}):
                yield Text(f"{method}: {text}")
            for row in rows:
                if row.remark and not row.nodes:
                    yield Text(f"{method}, {row.measure}: {row.remark}")


class Differences(list[Difference]):
    """Methods less one of them, by figure of merit: a list that prints as tables."""

    def __str__(self) -> str:
        """Return the tables as text."""
        return _print(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield tables of methods by figures of merit; what is better by more than two errors is in bold."""
        from rich.text import Text

        if not self:
            return
        yield Text(f"Each method less {self[0].second}, on the predictions of both (± the error of the difference):")
        at = {(one.first, one.measure, one.neighborhood): one for one in self}
        methods = list(dict.fromkeys(one.first for one in self))
        columns = list(dict.fromkeys((one.measure, one.neighborhood) for one in self))
        yield from _tables(methods, columns, lambda *place: _difference_cell(at.get(place)))


def _print(table: Verdict | Differences) -> str:
    from rich.console import Console  # not at the top: whoever only computes should not wait for rich

    console = Console(width=150, color_system=None, highlight=False)
    with console.capture() as text:
        console.print(table)
    return text.get().strip("\n")


def _tables(
    methods: Sequence[str], columns: Sequence[tuple[str, str]], cell: Callable[[str, str, str], tuple[str, bool]]
) -> Iterator[Any]:
    """Yield tables of methods by figures of merit; ``cell`` has a text, and whether it is bold."""
    from rich.table import Table
    from rich.text import Text

    for start in range(0, len(columns), COLUMNS):
        table = Table()
        table.add_column("method")
        some = columns[start : start + COLUMNS]
        for measure, near in some:
            sign = "↑" if MEASURES[measure].better == "higher" else "↓"
            table.add_column(Text(f"{measure} {sign}\n{near}"), justify="right")
        for method in methods:
            cells = [cell(method, *column) for column in some]
            table.add_row(Text(method), *[Text(text, "bold" if bold else "") for text, bold in cells])
        yield ""
        yield table


def _differ(first: Row, second: Row) -> Difference:
    """Return one row less another, on the nodes where both have a number."""
    both = first.table - second.table
    count = int((~np.isnan(both)).any(axis=0).sum()) if both.size else 0
    value, error = pool_widened(both) if count else (math.nan, math.nan)
    if error is None:  # There is a single number, and only the errors over its samples are known.
        error = math.hypot(first.stderr, second.stderr)
    return Difference(first.method, second.method, first.measure, first.neighborhood, value, error, count)


def _difference_cell(one: Difference | None) -> tuple[str, bool]:
    if one is None or not one.nodes:
        return "-", False
    sign = 1 if MEASURES[one.measure].better == "higher" else -1
    error = "" if math.isnan(one.stderr) else f" ± {one.stderr:.1g}"
    return f"{one.value:+.3g}{error}", sign * one.value > 0 and abs(one.sigmas) > CLEAR


def _cell(row: Row | None) -> str:
    if row is None or math.isnan(row.value):
        return "failed" if row is not None and row.errors and not row.nodes else "-"
    error = "" if math.isnan(row.stderr) else f" ± {row.stderr:.1g}"
    marks = _PARTIAL * _is_partial(row) + _UNSURE * _is_unsure(row)
    return f"{row.value:.3g}{error}{marks}"


def _is_partial(row: Row) -> bool:
    """Return whether a row lacks predictions that others of its column have."""
    return bool(row.remark and row.nodes)


def _is_unsure(row: Row) -> bool:
    """Return whether nodes are so few, or so skewed, that their error may be too small."""
    means = means_over_trainings(row.table)
    return row.stderr > 0 and len(row.nodes) > 1 and widening(means[~np.isnan(means)]) > WIDEST


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
