"""The numbers of a judgement by method, figure of merit, training and node, and how they are pooled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .._base.errors import describe_error
from ..metric.fidelity import characterize
from ..metric.measured import Measured, effective_count
from ..metric.pooling import means_over_trainings, pool_widened
from .measures import MEASURES, Group
from .verdict import Row, Verdict

Table = NDArray[np.float64]
Key = tuple[str, str, str]  # method, figure of merit, neighbourhood


SIGNS = "sign-agreement"
UNSIGNED = "its scores are never negative: they have no sign that could be right"


@dataclass(frozen=True)
class Failure:
    """What went wrong with a method at a node in one training.

    It is about the figures of merit of ``groups`` in ``neighborhood``; about all of them where these are empty.
    """

    training: int
    node: int
    text: str
    groups: tuple[Group, ...] = ()
    neighborhood: str = ""

    def concerns(self, measure: str, neighborhood: str) -> bool:
        """Return whether a figure of merit in a neighbourhood has no number because of this."""
        if self.groups and MEASURES[measure].group not in self.groups:
            return False
        return self.neighborhood in ("", neighborhood)


@dataclass(eq=False)
class Ledger:
    """Numbers of ``trainings`` x ``nodes`` for each method and figure of merit, with what went wrong.

    What was measured stays, whatever fails later: a number that is missing is NaN, and its row says why.
    """

    trainings: int
    nodes: list[int]
    methods: list[str]
    values: dict[Key, Table] = field(default_factory=dict)
    errors: dict[Key, Table] = field(default_factory=dict)
    failures: dict[str, list[Failure]] = field(default_factory=dict)
    out: set[tuple[str, int, int]] = field(default_factory=set)  # method, training and node without any scores
    scenes: dict[int, list[Any]] = field(default_factory=dict)
    signs: dict[str, set[bool]] = field(default_factory=dict)  # whether scores above and below 0 were seen

    def note(self, method: str, training: int, node: int, found: Sequence[Measured]) -> None:
        """Note numbers of one method at one node."""
        place = training, self.nodes.index(node)
        for one in found:
            key = method, one.measure, one.neighborhood
            for tables, number in ((self.values, one.value), (self.errors, one.stderr)):
                table = tables.setdefault(key, np.full((self.trainings, len(self.nodes)), np.nan))
                table[place] = number

    def note_signs(self, method: str, scores: Tensor) -> None:
        """Note which signs the scores of a method have."""
        self.signs.setdefault(method, set()).update((scores > 0)[scores != 0].tolist())

    def fail(
        self,
        method: str,
        training: int,
        node: int,
        error: BaseException,
        groups: tuple[Group, ...] = (),
        neighborhood: str = "",
    ) -> None:
        """Note that a method failed at a node in one training; see :class:`Failure`."""
        failure = Failure(training, node, describe_error(error), groups, neighborhood)
        self.failures.setdefault(method, []).append(failure)
        if not groups:
            self.out.add((method, training, node))

    def is_out(self, method: str, training: int, node: int) -> bool:
        """Return whether there are no scores of a method at a node in one training."""
        return (method, training, node) in self.out

    def verdict(self, measures: Sequence[str], dataset: str, seed: int, *, regression: bool) -> Verdict:
        """Return the rows of the figures of merit that were asked for, with ranks."""
        self._derive(regression=regression)
        rows: list[Row] = []
        for measure in measures:
            nears = dict.fromkeys(near for _, name, near in self.values if name == measure)
            if not nears and any(self._errors(method, measure, "") for method in self.methods):
                nears = {"": None}  # There is no law to name, but there are reasons.
            for near in nears:
                rows += _rank([self._row((method, measure, near), dataset, seed) for method in self.methods])
        return Verdict(rows)

    def _errors(self, method: str, measure: str, neighborhood: str) -> dict[int, str]:
        """Return why numbers are missing, by node: the first reason of each."""
        found: dict[int, str] = {}
        for one in sorted(self.failures.get(method, []), key=lambda one: one.training):
            if one.concerns(measure, neighborhood):
                found.setdefault(one.node, one.text)
        return found

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
        table, remark = self.values.get(key, empty), ""
        if measure == SIGNS and self.signs.get(method) == {True}:
            table, remark = empty, UNSIGNED
        known = ~np.isnan(table)
        nodes = [node for node, some in zip(self.nodes, np.atleast_1d(known.any(axis=0)), strict=True) if some]
        value, error = pool_widened(table) if nodes else (math.nan, None)
        if error is None:  # a single number, whose error over samples is all that is known
            error = float(self.errors[key][known][0]) if nodes else math.nan
        means = means_over_trainings(table)
        effective = effective_count(means[~np.isnan(means)])
        better = MEASURES[measure].better
        return Row(
            dataset, method, measure, near, value, error, nodes, seed, better, None, self.trainings,
            self._errors(*key), effective, remark, table,
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
    """Return the rows of one column with their ranks, 1 for the best; equal values have equal ranks.

    A mean over the predictions that a method could do is not beside means over all: it has a remark, and no rank.
    """
    sign = -1 if rows and rows[0].better == "higher" else 1
    done = [~np.isnan(row.table) for row in rows]
    most = int(np.logical_or.reduce(done).sum()) if rows else 0
    counts = [int(one.sum()) for one in done]
    known = sorted(sign * row.value for row, count in zip(rows, counts, strict=True) if count == most)
    found = []
    for row, count in zip(rows, counts, strict=True):
        if count < most and count:
            found.append(replace(row, remark=f"of {count} of {most} predictions, and so not ranked"))
        else:
            found.append(row if not count else replace(row, rank=1 + known.index(sign * row.value)))
    return found
