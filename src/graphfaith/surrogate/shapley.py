"""Shapley values of a game from its values at pairs of coalitions, with a control variate that was fitted to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from ..sampling.coalitions import Bools, Coalitions, Ints, Reals
from .solve import ridge

Control = Literal["none", "sizes", "additive", "p", "p and additive"]

_FIRM = 10.0  # The penalty of p and of the sizes is smaller than that of single players by the square of this factor.
_EPS = 1e-12  # the share of the largest eigenvalue below which one is rounding
_ROWS = 512  # An additive function of more players than this is fitted to at most so many pairs.


@dataclass(frozen=True)
class Foretold:
    """What a p that has not seen a fold foretells: v(z) - v(1 - z) of each pair, and its own Shapley values.

    ``fresh`` is the difference at pairs that p was fitted to, each left out of that fit: it says how far p can be
    trusted, while the control variate itself has to be one function at all pairs, or the result would be biased.
    """

    difference: Reals  # [J]
    fresh: Reals  # [J]
    values: Reals  # [n] less their mean
    variance: Reals  # [n] of these values, if they were estimated


@dataclass(frozen=True)
class Divided:
    """Shapley values less their mean, the variance of each, and the control variate that served most folds."""

    values: Reals  # [n] they sum to 0
    variance: Reals  # [n]
    control: Control


def values_of_table(present: Bools, value: Reals) -> Reals:
    r"""Return the Shapley values of a game from its values at all 2^n coalitions, [n].

    .. math:: \phi_i = \sum_{S \not\ni i} \frac{|S|!\,(n - |S| - 1)!}{n!}\, (v(S \cup i) - v(S))

    >>> from graphfaith.sampling.coalitions import list_coalitions
    >>> values_of_table(list_coalitions(2), np.array([0.0, 1.0, 2.0, 5.0])).tolist()
    [2.0, 3.0]
    """
    count, size = present.shape[1], present.sum(axis=1)
    weight = np.array([1 / (count * math.comb(count - 1, s)) for s in range(count)])
    joined, apart = np.append(0.0, weight)[size], np.append(weight, 0.0)[size]
    return np.asarray(np.where(present, joined[:, None], -apart[:, None]).T @ value)


def divide(
    pairs: Coalitions, difference: Reals, group: Ints, foretold: Callable[[int], Foretold] | None = None
) -> Divided:
    r"""Estimate Shapley values from v(z) - v(1 - z) at pairs of coalitions, ``difference`` [J], without bias.

    For each fold a control variate g is fitted to the other folds, and

    .. math:: \hat\phi = \phi(g) + \sum_h P_h\, \frac{1}{N_h} \Big[\sum_{s \in O_h} c_s\,(v - g)_s
              + (N_h - |O_h|)\, \mathrm{mean}_{s \in f_h}\, c_s\,(v - g)_s\Big]

    with the factors c_s of :class:`~graphfaith.sampling.coalitions.Coalitions`, the pairs of the fold f_h and of the
    others O_h in stratum h, and N_h, the number of pairs that there are. Given the others, f is a random draw from the
    rest, so that the expectation is the Shapley value, whatever g is. The result is the mean over folds.

    g is 0, a function of the size, that and an additive function of the players, that and what ``foretold(fold)`` says,
    or all of these: the one with the least leave-one-out error in the other folds, where a pair counts as much as it
    does in the result. Players of one ``group``, [n], cannot be told apart by v; they get their mean.
    """
    frame = _Frame(pairs, group)
    values, residual, noise = np.zeros(pairs.num_players), difference.copy(), np.zeros(pairs.num_players)
    weight = frame.weight_of_pair[:, None] * frame.factors
    exact = pairs.enumerated
    values += (weight[exact] * difference[exact, None]).sum(axis=0)
    chosen: list[Control] = []
    folds = np.unique(pairs.fold[~exact])
    shares: dict[int, tuple[Reals, Reals]] = {}
    for fold in folds.tolist():
        mine = pairs.fold == fold
        told = None if foretold is None else foretold(fold)
        control = frame.fit(difference, ~mine, told)
        chosen.append(control.kind)
        rest = difference - control.difference
        residual[mine] = rest[mine]
        part = control.values - (weight[exact] * control.difference[exact, None]).sum(axis=0)
        values += (part + frame.mean_over(rest, mine)) / len(folds)
        if told is not None:  # folds that share a p share the noise of its values
            total = shares.setdefault(id(told), (told.variance, np.zeros(1)))[1]
            total += control.trust / len(folds)
    for variance, trust in shares.values():
        noise += variance * trust**2
    noise += frame.variance(residual)
    common = max(set(chosen), key=chosen.count) if chosen else "none"
    return Divided(frame.average(values), noise, common)


@dataclass(frozen=True)
class _ControlVariate:
    """g: its difference at all pairs, [J], its Shapley values less their mean, [n], and its factor of p."""

    kind: Control
    difference: Reals
    values: Reals
    trust: float


class _Frame:
    """The pairs as a regression sees them: weights, and columns for sizes, for p and for groups of players."""

    def __init__(self, pairs: Coalitions, group: Ints) -> None:
        self.pairs = pairs
        count, size = pairs.num_players, pairs.size
        self.group = np.unique(group, return_inverse=True)[1]
        self._many = np.bincount(self.group)
        centred = pairs.centred
        self.factors = self.average_each(pairs.factor[:, None] * centred)  # [J, n]
        self.weight_of_pair: Reals = (pairs.share / pairs.drawn)[pairs.stratum]
        # The error of the result is the sum of the squares of what g leaves, each times the square of this weight.
        self._weight = np.sqrt(self.weight_of_pair) * np.linalg.norm(self.factors, axis=1)
        level = size / count - 0.5
        self._sizes = np.stack([level, level**3], axis=1)
        # A group of m alike players is one column; its scale makes the penalty that of m players with one coefficient.
        # The coefficients of the columns times ``_slopes`` are those of single players.
        self._slopes = np.zeros((count, len(self._many)))
        self._slopes[np.arange(count), self.group] = 1 / np.sqrt(self._many[self.group])
        self._players = centred if len(self._many) == count else centred @ self._slopes
        if self._players.shape[1] > len(pairs):  # A regression sees only products of rows, so the columns are turned.
            values, vectors = np.linalg.eigh(self._players @ self._players.T)
            kept = values > _EPS * values[-1]
            turn = self._players.T @ (vectors[:, kept] / np.sqrt(values[kept]))
            self._slopes, self._players = self._slopes @ turn, vectors[:, kept] * np.sqrt(values[kept])

    def average_each(self, rows: Reals) -> Reals:
        """Return rows [J, n] with the mean over each group in place of its players."""
        if len(self._many) == rows.shape[1]:
            return rows
        total = np.zeros((len(rows), len(self._many)))
        np.add.at(total.T, self.group, rows.T)
        return np.asarray((total / self._many)[:, self.group])

    def average(self, values: Reals) -> Reals:
        """Return values [n] with the mean over each group in place of its players."""
        return np.asarray(self.average_each(values[None])[0])

    def fit(self, difference: Reals, others: Bools, told: Foretold | None) -> _ControlVariate:
        """Return the control variate with the least leave-one-out error among ``others``."""
        kinds: tuple[Control, ...] = ("sizes", "additive")
        if told is not None:
            kinds = (*kinds, "p", "p and additive")
        # Neither scales nor weights may depend on the fold that is left out, or the result would not be unbiased.
        weight = self._weight / (_root_mean_square(self._weight[others]) or 1.0)
        target = weight * difference
        nothing, least = np.zeros_like(difference), float(np.square(target[others]).mean())
        best = _ControlVariate("none", nothing, np.zeros(len(self.group)), 0.0)
        for kind in kinds if int(others.sum()) > 2 else ():
            columns = self._columns(kind, told, fresh=True)
            scales = {name: self._scale(name, weight[others, None] * part[others]) for name, part in columns.items()}
            design = np.concatenate([weight[:, None] * part * scales[name] for name, part in columns.items()], axis=1)
            rows = self._choose_rows(others, design.shape[1])
            solved = ridge(torch.from_numpy(design[rows]), torch.from_numpy(target[rows]))
            if solved.left_out < least:
                least = solved.left_out
                weights = solved.weights.numpy() * np.concatenate(list(scales.values()))
                best = self._control(kind, self._columns(kind, told), weights, told)
        return best

    def _choose_rows(self, others: Bools, unknowns: int) -> Ints:
        """Return the pairs to fit to: all ``others``, unless that needs a system of more than ``_ROWS`` unknowns."""
        rows = np.flatnonzero(others)
        if min(len(rows), unknowns) <= _ROWS:
            return rows
        return np.asarray(rows[np.linspace(0, len(rows) - 1, _ROWS).astype(int)])

    def _columns(self, kind: Control, told: Foretold | None, *, fresh: bool = False) -> Mapping[str, Reals]:
        """Return the columns of a regression; with ``fresh``, p as it was when it had not seen the pairs."""
        columns = {"sizes": self._sizes}
        if kind in ("p", "p and additive"):
            assert told is not None
            columns["p"] = (told.fresh if fresh else told.difference)[:, None]
            columns["slope"] = 2 * (self.pairs.centred @ told.values)[:, None]
        if kind in ("additive", "p and additive"):
            columns["players"] = self._players
        return columns

    def _scale(self, name: str, rows: Reals) -> Reals:
        """Return the scales of columns with these weighted rows, so that one penalty suits all columns."""
        size = np.square(rows).mean(axis=0)
        if name == "players":
            return np.full(rows.shape[1], 1 / math.sqrt(size.sum()) if size.sum() > 0 else 0.0)
        return np.asarray(_FIRM / np.sqrt(np.where(size > 0, size, np.inf)))

    def _control(
        self, kind: Control, columns: Mapping[str, Reals], weights: Reals, told: Foretold | None
    ) -> _ControlVariate:
        """Return g with these weights of the columns. A function of the size alone has no Shapley values."""
        values, difference = np.zeros(len(self.group)), np.zeros(len(self.pairs))
        trust, start = 0.0, 0
        for name, part in columns.items():
            own = weights[start : start + part.shape[1]]
            start += part.shape[1]
            difference += part @ own
            if name == "players":
                slope = self._slopes @ own
                values += (slope - slope.mean()) / 2  # z and 1 - z differ by twice z - 1/2
            elif name != "sizes":
                assert told is not None
                values += float(own[0]) * told.values
                # The slope is an additive function with these coefficients, whose values they are; p's are estimated.
                trust += float(own[0]) if name == "p" else 0.0
        return _ControlVariate(kind, difference, values, trust)

    def mean_over(self, rest: Reals, mine: Bools) -> Reals:
        """Return the estimate of the sampled strata's part of the values of v - g, from its differences ``rest``."""
        pairs, total = self.pairs, np.zeros(len(self.group))
        strata = np.arange(len(pairs.share))
        own = np.bincount(pairs.stratum[mine], minlength=len(strata))
        seen = pairs.drawn - own
        # The weight of a pair of the fold and of another pair, in each stratum.
        finite = np.isfinite(pairs.population)
        many = np.where(finite, pairs.population, 1.0)
        of_mine = pairs.share * np.where(finite, (many - seen) / many, 1.0) / np.maximum(own, 1)
        of_others = np.where(finite, pairs.share / many, 0.0)
        weight = np.where(mine, of_mine[pairs.stratum], of_others[pairs.stratum]) * ~pairs.enumerated
        total += (weight * rest) @ self.factors
        return total

    def variance(self, residual: Reals) -> Reals:
        """Return sum_h P_h^2 (1 - m_h / N_h) s_h^2 / m_h for each player, where s_h^2 is the variance of m_h pairs."""
        pairs = self.pairs
        terms, kept = self.factors * residual[:, None], ~pairs.enumerated
        shape = len(pairs.share), terms.shape[1]
        total = np.zeros(shape)
        np.add.at(total, pairs.stratum[kept], terms[kept])
        mean = total / pairs.drawn[:, None]
        square = np.zeros(shape)
        np.add.at(square, pairs.stratum[kept], np.square(terms[kept] - mean[pairs.stratum[kept]]))
        scale = np.square(pairs.share) * (1 - pairs.drawn / pairs.population) / pairs.drawn
        scale = scale / np.maximum(pairs.drawn - 1, 1)
        return np.asarray(scale @ square)


def _root_mean_square(numbers: Reals) -> float:
    return math.sqrt(float(np.square(numbers).mean())) if len(numbers) else 0.0
