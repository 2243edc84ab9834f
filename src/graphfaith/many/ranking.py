"""What many explanations have in common: the features or edges with the largest scores, on average over nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._base.errors import InputError
from ..explainers.records import Float64
from ..graph.graph import Int64

_PENDING = 2**21  # scores that are kept at least before they are added up
_SHOWN = 10  # rows of each group that a printed ranking has
_CLASS_NAME = "class_name"


class Sums:
    """Sums of scores by group and key, from scores that come a batch at a time; a node has each key once at most."""

    def __init__(self, width: int) -> None:
        self.keys: Int64 = np.zeros((0, 1 + width), np.int64)  # the group, and then the key
        self.sums: Float64 = np.zeros((0, 4))  # how many scores there are, of their sizes, of them, of their squares
        self.explained: dict[int, int] = {}  # how many nodes each group has
        self._pending: list[tuple[Int64, Float64]] = []
        self._waiting = 0  # scores in it

    def count(self, groups: Int64) -> None:
        """Count explained nodes, which are in these groups."""
        for group, count in zip(*np.unique(groups, return_counts=True), strict=True):
            self.explained[int(group)] = self.explained.get(int(group), 0) + int(count)

    def add(self, keys: Int64, scores: Float64) -> None:
        """Add scores, whose group and key are the rows of ``keys``."""
        self._pending.append(
            (keys, np.stack([np.ones_like(scores), np.abs(scores), scores, np.square(scores)], axis=1))
        )
        self._waiting += len(keys)
        # As many as there are sums already: each score is then sorted a few times, however many there are.
        if self._waiting > max(_PENDING, len(self.keys)):
            self.merge()

    def merge(self) -> None:
        """Add up all scores of the same group and key."""
        keys = np.concatenate([self.keys, *(keys for keys, _ in self._pending)])
        sums = np.concatenate([self.sums, *(sums for _, sums in self._pending)])
        self._pending, self._waiting = [], 0
        if len(keys):
            order = np.lexsort(keys.T[::-1])
            keys, sums = keys[order], sums[order]
            first = np.flatnonzero(np.concatenate(([True], (np.diff(keys, axis=0) != 0).any(axis=1))))
            self.keys, self.sums = keys[first], np.add.reduceat(sums, first)

    def rank(self, top: int) -> dict[str, NDArray[Any]]:
        """Return the keys of each group with the largest mean size, the largest first, and their means with errors."""
        self.merge()
        group = self.keys[:, 0]
        groups, own = np.unique(group, return_inverse=True)
        count = np.array([self.explained[one] for one in groups.tolist()], dtype=np.float64)[own]
        means = self.sums[:, 1:3] / count[:, None]
        # All other nodes of the group have a score of 0. One node has no spread.
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = (self.sums[:, 3:] - count[:, None] * np.square(means)) / (count[:, None] - 1)
            errors = np.sqrt(np.maximum(variance, 0) / count[:, None])
        order = np.lexsort((*self.keys.T[:0:-1], -means[:, 0], group))
        there = np.unique(group[order], return_counts=True)[1]
        rank = np.arange(len(order)) - np.repeat(np.cumsum(there) - there, there)
        order, rank = order[rank < top], rank[rank < top]
        return {
            "group": group[order],
            "rank": rank + 1,
            "keys": self.keys[order, 1:],
            "mean_size": means[order, 0],
            "mean_size_stderr": errors[order, 0],
            "mean": means[order, 1],
            "mean_stderr": errors[order, 1],
            "holding": self.sums[order, 0].astype(np.int64),
            "explained": count[order].astype(np.int64),
        }


@dataclass(frozen=True, eq=False)
class Ranking:
    """The features or edges with the largest mean \\|score\\|, as columns of a table; groups are one after the other.

    ``mean_size`` is the mean of \\|score\\| over the ``explained`` nodes of a group, and ``mean`` that of the score.
    Standard errors are over nodes, as if these were drawn independently of each other. A score that a run has not kept
    counts as 0, so that ``mean_size`` is at most too small; ``holding`` is how many of the explanations have kept one.
    """

    by: str | None
    columns: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.columns["rank"])

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, each with its plain values by name."""
        values = [column.tolist() for column in self.columns.values()]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*values, strict=True)]

    def to_pandas(self) -> Any:
        """Return the table as a ``pandas.DataFrame``."""
        try:
            import pandas
        except ImportError:
            raise InputError("this table needs pandas: pip install pandas") from None
        return pandas.DataFrame(self.columns)

    def __str__(self) -> str:
        """Return the first rows of each group as text."""
        lines, last = [], object()
        for row in self.rows():
            if self.by is not None and row[self.by] != last:
                last = row[self.by]
                named = f", {row[_CLASS_NAME]}" if row.get(_CLASS_NAME) else ""
                lines.append(f"{self.by} {last}{named} ({row['explained']} nodes)")
            if row["rank"] <= _SHOWN:
                known = (row[name] for name in ("name", "feature") if name in row)
                what = next(known, None)
                what = f"{row['source']} -> {row['target']}" if what is None else what
                size = f"{row['mean_size']:.3g} ± {row['mean_size_stderr']:.1g}"
                lines.append(f"{row['rank']:4}. {what}: {size} (signed {row['mean']:+.3g} ± {row['mean_stderr']:.1g})")
        return "\n".join(lines)


def rank(
    sums: Sums,
    by: str | None,
    names: Sequence[str],
    top: int,
    labels: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
) -> Ranking:
    """Return the ranking of sums, whose keys are columns of these ``names``.

    ``labels`` are the names of features, and ``classes`` those of classes, if groups are classes; -1 is none of them.
    """
    found = sums.rank(top)
    keys = found.pop("keys")
    group = found.pop("group")
    columns: dict[str, NDArray[Any]] = {} if by is None else {by: group}
    columns |= {"rank": found.pop("rank"), **{name: keys[:, i] for i, name in enumerate(names)}}
    if by == "class" and classes is not None:
        columns[_CLASS_NAME] = _named(group, classes, "classes")
    if labels is not None:
        columns["name"] = _named(keys[:, 0], labels, "names")
    return Ranking(by, columns | found)


def _named(numbers: Int64, names: Sequence[str], what: str) -> NDArray[Any]:
    """Return the name that each number has; a number below 0 has none."""
    least = int(numbers.max(initial=-1)) + 1
    if isinstance(names, str) or len(names) < least:
        given = "a text" if isinstance(names, str) else len(names)
        raise InputError(f"{what} must be a list of at least {least} names, one for each number (got {given})")
    return np.array([str(names[i]) if i >= 0 else "" for i in numbers.tolist()], dtype=object)
