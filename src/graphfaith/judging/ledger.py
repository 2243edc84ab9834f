"""The numbers of a judgement by method, figure of merit, training and node, and how they are pooled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._base.errors import describe_error
from ..metric.fidelity import characterize
from ..metric.measured import Measured, effective_count
from ..metric.pooling import means_over_trainings, pool_widened
from .measures import MEASURES
from .verdict import Row, Verdict

Table = NDArray[np.float64]
Key = tuple[str, str, str]  # method, figure of merit, neighbourhood


@dataclass(eq=False)
class Ledger:
    """Numbers of ``trainings`` x ``nodes`` for each method and figure of merit, with what went wrong."""

    trainings: int
    nodes: list[int]
    methods: list[str]
    values: dict[Key, Table] = field(default_factory=dict)
    errors: dict[Key, Table] = field(default_factory=dict)
    failures: dict[str, dict[int, str]] = field(default_factory=dict)
    scenes: dict[int, list[Any]] = field(default_factory=dict)

    def note(self, method: str, training: int, node: int, found: Sequence[Measured]) -> None:
        """Note numbers of one method at one node."""
        place = training, self.nodes.index(node)
        for one in found:
            key = method, one.measure, one.neighborhood
            for tables, number in ((self.values, one.value), (self.errors, one.stderr)):
                table = tables.setdefault(key, np.full((self.trainings, len(self.nodes)), np.nan))
                table[place] = number

    def fail(self, method: str, node: int, error: BaseException) -> None:
        """Note that a method failed at a node, and forget what it has there."""
        self.failures.setdefault(method, {}).setdefault(node, describe_error(error))

    def has_failed(self, method: str, node: int) -> bool:
        """Return whether a method failed at a node."""
        return node in self.failures.get(method, {})

    def _nobody_is_left(self) -> bool:
        """Return whether every method failed at every node."""
        return all(self.has_failed(method, node) for method in self.methods for node in self.nodes)

    def verdict(self, measures: Sequence[str], dataset: str, seed: int, *, regression: bool) -> Verdict:
        """Return the rows of the figures of merit that were asked for, with ranks."""
        for method, nodes in self.failures.items():
            places = [self.nodes.index(node) for node in nodes]
            for tables in (self.values, self.errors):
                for key, table in tables.items():
                    if key[0] == method:
                        table[:, places] = np.nan
        self._derive(regression=regression)
        rows: list[Row] = []
        for measure in measures:
            nears = dict.fromkeys(near for _, name, near in self.values if name == measure)
            if not nears and self._nobody_is_left():  # There is no law to name, but there are reasons.
                nears = {"": None}
            for near in nears:
                rows += _rank([self._row((method, measure, near), dataset, seed) for method in self.methods])
        return Verdict(rows)

    def _derive(self, *, regression: bool) -> None:
        """Add the figures of merit that are functions of means of others, as tables whose mean they are."""
        for key in list(self.values):
            method, measure, near = key
            zero = self.values.get((method, "delta-zero", near))
            if measure == "delta" and zero is not None:
                self._set((method, "relative-delta", near), _ratio(self.values[key], zero))
            if measure == "fidelity+":
                self._set(*self._characterization(method, near, regression=regression))

    def _characterization(self, method: str, near: str, *, regression: bool) -> tuple[Key, Table]:
        """Return the harmonic mean of pooled fidelity+ and 1 - fidelity-; for regression, of shares of all change."""
        outside = near.replace(" inside ", " outside ")
        plus, minus = self.values[method, "fidelity+", near], self.values[method, "fidelity-", outside]
        if regression:
            everything = self.values[method, "everything", near.partition(" ")[0]]
            plus, minus = _ratio(plus, everything), _ratio(minus, everything)
        means = [float(np.nanmean(table)) if not np.isnan(table).all() else math.nan for table in (plus, minus)]
        value, by_plus, by_minus = characterize(*means)
        table = value + by_plus * (plus - means[0]) + by_minus * (minus - means[1])
        return (method, "characterization", near.replace(" inside ", " of ")), table

    def _set(self, key: Key, table: Table) -> None:
        self.values[key] = table
        self.errors.setdefault(key, np.full(table.shape, np.nan))

    def _row(self, key: Key, dataset: str, seed: int) -> Row:
        method, measure, near = key
        empty = np.full((self.trainings, len(self.nodes)), np.nan)
        table, failed = self.values.get(key, empty), self.failures.get(method, {})
        known = ~np.isnan(table)
        nodes = [node for node, some in zip(self.nodes, np.atleast_1d(known.any(axis=0)), strict=True) if some]
        value, error = pool_widened(table) if nodes else (math.nan, None)
        if error is None:  # a single number, whose error over samples is all that is known
            error = float(self.errors[key][known][0]) if nodes else math.nan
        means = means_over_trainings(table)
        effective = effective_count(means[~np.isnan(means)])
        better = MEASURES[measure].better
        return Row(
            dataset, method, measure, near, value, error, nodes, seed, better, None, self.trainings, dict(failed),
            effective, table,
        )  # fmt: skip


def _ratio(above: Table, below: Table) -> Table:
    """Return numbers whose mean is the ratio of two means, and whose spread is that of the linearised ratio."""
    both = ~np.isnan(above) & ~np.isnan(below)
    scale = float(below[both].mean()) if both.any() else math.nan
    if not scale > 0:
        return np.full(above.shape, np.nan)
    ratio = float(above[both].mean()) / scale
    table: Table = np.where(both, ratio + (above - ratio * below) / scale, np.nan)
    return table


def _rank(rows: list[Row]) -> list[Row]:
    """Return the rows of one column with their ranks, 1 for the best; equal values have equal ranks."""
    sign = -1 if rows and rows[0].better == "higher" else 1
    known = sorted(sign * row.value for row in rows if not math.isnan(row.value))
    return [row if math.isnan(row.value) else replace(row, rank=1 + known.index(sign * row.value)) for row in rows]
