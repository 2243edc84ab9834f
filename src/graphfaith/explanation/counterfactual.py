"""The smallest change that flips the answer: few edges or features without which the model says something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import get_args

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation

from .._base.checks import check_count, check_real
from .._base.errors import InputError, UnsupportedError, show
from .._base.progress import waiting
from .._base.threads import one_thread
from ..model.target import Target
from ..surrogate.difference import DifferenceModel, SubgraphModel
from .goal import Goal
from .masks import target_of
from .origin import explainer_of
from .reading import check_unchanged
from .removals import Kind, Removals, Units

EVALUATIONS = 1000
_MOST = 10  # All subsets of what is found are tried, and ten units have a thousand.
_FIRST = 16  # the single units that are tried first
_BATCH = 64  # sets that are tried between two looks at how well they are foretold
_POOL = 256  # single units of which larger sets are made
_PARENTS = 64  # sets that are made larger, from three units on
_RANKED = 2000  # sets of one size that p is asked about
_SURE = 3.0  # A set is not tried if it is foretold to stay so many errors of the prophecy away from a flip.


@dataclass(frozen=True)
class Counterfactual:
    """What :func:`counterfactual` has found, each of it confirmed by the model.

    ``edges`` are the pairs (source, sink) and ``features`` the pairs (node, column) without which the answer is
    another one, and ``names`` says them in words. ``before`` and ``after`` are the classes, or the outputs of a
    regression; ``after`` is None if nothing was ``found``. ``evaluations`` is how many graphs the model was asked
    about. No proper subset of what was found changes the answer; ``is_smallest`` says that every smaller set was
    tried. ``silenced`` says that edges stayed in the graph without their messages, because F was explained with
    edges="mask".
    """

    found: bool
    edges: list[tuple[int, int]]
    features: list[tuple[int, int]]
    names: list[str]
    before: float
    after: float | None
    evaluations: int
    most: int
    of: Kind = "edges"
    is_smallest: bool = False
    silenced: bool = False

    def __str__(self) -> str:
        """Return the answer in words.

        >>> print(Counterfactual(True, [(1, 7), (3, 42)], [], ["1–7", "3–42"], 4, 2, 213, 5))
        class 4 becomes 2 without 1–7 and 3–42 (213 graphs tried)
        >>> print(Counterfactual(False, [], [], [], 4, None, 400, 5))
        none found up to 5 edges, of 400 tried
        """
        if not self.found or self.after is None:
            noun = self.of if self.most > 1 else self.of.removesuffix("s")
            return f"none found up to {self.most} {noun}, of {self.evaluations} tried"
        *others, last = self.names
        gone = f"{', '.join(others)} and {last}" if others else last
        is_class = isinstance(self.before, int)
        change = (
            f"class {self.before} becomes {self.after}" if is_class else f"{self.before:.4g} becomes {self.after:.4g}"
        )
        missing = f"if {gone} {'are' if others else 'is'} silent" if self.silenced else f"without {gone}"
        return f"{change} {missing} ({self.evaluations} graph{'s' if self.evaluations != 1 else ''} tried)"


def counterfactual(
    explanation: Explanation,
    max_edges: int = 5,
    *,
    of: Kind = "edges",
    past: float | None = None,
    evaluations: int = EVALUATIONS,
    explainer: Explainer | None = None,
) -> Counterfactual:
    """Return the smallest set of edges or features found whose removal changes the predicted class.

    p says which sets are worth a try, and the model is asked about them. Every set that was tried corrects what p
    foretells of larger ones. With g(S) the change of the output without the set S, q(S) what p foretells of it,
    r = g - q and d(a, e) = r({a, e}) - r({a}) - r({e}) where that was tried, else 0,
    g(S + e) is foretold as q(S + e) + r(S) + r({e}) + sum_{a in S} d(a, e).

    Args:
        explanation: one of a single row of the output, whose method has a p: AnchoredKEC, KEC, Linear, Saliency.
        max_edges: the size of the largest set, in edges or features. An undirected edge counts as one; self-loops stay.
            An edge is removed as by :func:`~.what_if.what_if`: its entry of A becomes 0.
        of: "edges", or "features": those that are not zero are set to zero.
        past: for a regression, the value that the output has to pass.
        evaluations: how many graphs the model is asked about at most.
        explainer: the explainer to ask, if the explanation does not know the one that made it.
    """
    most = check_count(max_edges, "max_edges", most=_MOST)
    budget = check_count(evaluations, "evaluations")
    if of not in get_args(Kind):
        raise InputError(f"of must be one of {', '.join(get_args(Kind))} (got {show(of)})")
    check_unchanged(explanation)
    p = explanation.get("difference_model")
    if p is None or isinstance(p, SubgraphModel):
        raise UnsupportedError(
            "a counterfactual needs the p of a method such as AnchoredKEC, KEC or Saliency; "
            f"{explanation.get('method') or 'this explanation'} has masks alone"
        )
    if past is not None:
        past = check_real(past, "past", least=-float("inf"))
    target = target_of(explainer or explainer_of(explanation, "a counterfactual"), explanation)
    goal = Goal(target, past)
    removals = Removals(explanation, target.computation_graph, of, by_degree=target.call.is_convolutional)
    words = waiting(f"looking for up to {most} {of} that flip the answer")
    with words, torch.inference_mode(False), one_thread(target.call.is_small):
        return _Search(target, removals, goal, [(*goal.column(target), p)], budget).run(most)


Foretold = tuple[int, float, DifferenceModel]  # which number of the output a p foretells, its sign there, and p


class _Level:
    """The sets of one size: what was tried of them, and what is still to be tried, best first."""

    def __init__(self) -> None:
        self.queue: list[Units] | None = None
        self.foretold: list[float] = []
        self.left_out = False  # whether there are sets that never came into the queue
        self.errors: list[float] = []

    @property
    def is_complete(self) -> bool:
        """Whether every set of this size was tried."""
        return self.queue is not None and not self.queue and not self.left_out


class _Search:
    """A search from small sets to large ones, best first, within so many evaluations of F."""

    def __init__(self, target: Target, removals: Removals, goal: Goal, models: Sequence[Foretold], budget: int) -> None:
        self.target, self.removals, self.goal, self.models = target, removals, goal, models
        self.budget, self.asked = budget, 0
        self.numbers: dict[Units, Tensor] = {}  # [C] the model's answer without each set that was tried
        self.seen: dict[Units, Tensor] = {}  # [C] how it differs from the one on the whole graph
        self.foreseen: dict[Units, Tensor] = {}  # [C] the same as p foretells it
        self.levels: dict[int, _Level] = {}
        self.pool: list[int] = []
        graph = target.computation_graph
        per_sample = removals.near.sample_bytes(graph, target.unit_width(drops=removals.of == "edges"))
        room = target.room(0, per_sample, "a counterfactual")
        self.chunk = max(1, min(1024, room // per_sample))

    def run(self, most: int) -> Counterfactual:
        """Return the smallest set that was found."""
        best: Units | None = None
        size, last = 0, min(most, len(self.removals))
        while best is None and size < last and self._spare(size + 1) > 0:
            size += 1
            spare = self._spare(size)
            best = self._try(size, max(spare // 2, 1) if size == 1 < last else spare // (last - size + 1))
        if best is not None:  # What is left of the budget is spent on smaller sets that were not tried yet.
            for smaller in range(2, len(best)):
                better = self._try(smaller, self._spare(len(best)))
                if better is not None:
                    best = better
                    break
            best = self._smallest_within(best)
        return self._result(best, most)

    def _spare(self, size: int) -> int:
        """Return how many graphs may be tried, so that the subsets of a set of this size can be tried after them."""
        return self.budget - self.asked - ((1 << size) - 2)

    def _try(self, size: int, budget: int) -> Units | None:
        """Try sets of one size, as long as the budget lasts; return the one that goes furthest past the flip."""
        level = self.levels.setdefault(size, _Level())
        if level.queue is None:
            self._fill(level, size)
        assert level.queue is not None
        while level.queue and budget > 0:
            count = min(_BATCH if size > 1 or level.errors else _FIRST, budget, len(level.queue))
            # To have tried all sets of this size is worth more than the evaluations that it saves not to.
            can_try_all = len(level.queue) <= budget and not level.left_out
            if size > 1 and level.errors and not can_try_all and level.foretold[0] > self._doubt(level):
                break
            sets, level.queue = level.queue[:count], level.queue[count:]
            foretold, level.foretold = level.foretold[:count], level.foretold[count:]
            budget -= count
            numbers = self._ask(sets)
            margins = self.goal.margins(numbers).amin(dim=1)
            level.errors += [a - b for a, b in zip(margins.tolist(), foretold, strict=True)]
            reached = self.goal.reached(numbers).nonzero().view(-1).tolist()
            if reached:
                best: Units = sets[min(reached, key=lambda row: (float(margins[row]), sets[row]))]
                return best
        return None

    def _doubt(self, level: _Level) -> float:
        """Return how far from a flip a set may be foretold to be, and still be tried."""
        errors = torch.tensor(level.errors, dtype=torch.float64)
        return _SURE * float(errors.square().mean().sqrt())

    def _fill(self, level: _Level, size: int) -> None:
        """Put the sets of one size into the queue, those first that are foretold to come closest to a flip."""
        if size == 1:
            candidates: list[Units] = [(unit,) for unit in range(len(self.removals)) if self.removals.before[unit] < 0]
            changes = self._foresee(candidates)
        else:
            if size == 2:
                self._choose_pool()
            level.left_out = not self.levels[size - 1].is_complete
            candidates, changes = self._enlarge(level, size)
        margins = self.goal.margins(self.goal.own + changes).amin(dim=1)
        order = torch.argsort(margins, stable=True).tolist()
        level.queue = [candidates[i] for i in order]
        level.foretold = [float(margins[i]) for i in order]

    def _choose_pool(self) -> None:
        """Choose the single units of which larger sets are made; those that are alike need not be tried again."""
        for unit, before in enumerate(self.removals.before):
            if before >= 0 and (before,) in self.seen:
                self.seen[unit,], self.foreseen[unit,] = self.seen[before,], self.foreseen[before,]
        self.pool = sorted(unit for (unit,) in self._closest([s for s in self.seen if len(s) == 1], _POOL))

    def _closest(self, sets: Sequence[Units], count: int) -> list[Units]:
        """Return the sets that were tried and came closest to a flip."""
        if not sets:
            return []
        changes = torch.stack([self.seen[units] for units in sets])
        margins = self.goal.margins(self.goal.own + changes).amin(dim=1)
        return [sets[i] for i in torch.argsort(margins, stable=True).tolist()[:count]]

    def _enlarge(self, level: _Level, size: int) -> tuple[list[Units], Tensor]:
        """Return sets with one unit more than those that came closest to a flip, and their foretold changes."""
        pool, known = self.pool, set(self.pool)
        smaller = [s for s in self.seen if len(s) == size - 1 and known.issuperset(s) and self._is_first(s)]
        parents = self._closest(smaller, _POOL if size == 2 else _PARENTS)
        level.left_out |= len(parents) < len(smaller)
        level.left_out |= len(pool) < sum(len(units) == 1 for units in self.seen)
        if not parents:
            return [], torch.zeros(0, len(self.goal.own), dtype=torch.float64)
        # Without p at first, which takes longer: g(S) + g(e), and what a in S and e do together where that is known.
        own, pairs = self._changes([(unit,) for unit in pool], missed=False), self._interactions(size, missed=False)
        changes = self._changes(parents, missed=False).unsqueeze(1) + own + self._within(parents, pairs)
        margins = self.goal.margins(self.goal.own + changes).amin(dim=2)
        found: dict[Units, tuple[int, int]] = {}
        for place in torch.argsort(margins.flatten(), stable=True).tolist():
            row, column = divmod(place, len(pool))
            units = tuple(sorted({*parents[row], pool[column]}))
            if len(units) < size or units in found or units in self.seen or not self._is_first(units):
                continue
            if len(found) == _RANKED:
                level.left_out = True
                break
            found[units] = row, column
        if not found:
            return [], own[:0]
        rows, columns = torch.tensor(list(found.values())).T
        own, pairs = self._changes([(unit,) for unit in pool], missed=True), self._interactions(size, missed=True)
        missed = self._changes(parents, missed=True)[rows] + own[columns] + self._within(parents, pairs)[rows, columns]
        return list(found), self._foresee(list(found)) + missed

    def _is_first(self, units: Units) -> bool:
        """Return whether a set has the first ones of units that are alike; other sets would be the same graph again."""
        return all(self.removals.before[unit] < 0 or self.removals.before[unit] in units for unit in units)

    def _changes(self, sets: Sequence[Units], *, missed: bool) -> Tensor:
        """Return the changes of the numbers without sets that were tried, [S, C], or what p misses of them."""
        changes = torch.stack([self.seen[units] for units in sets])
        return changes - self._foresee(sets) if missed else changes

    def _interactions(self, size: int, *, missed: bool) -> Tensor:
        """Return what two units of the pool do together more than apart, where that was tried, [n, n, C], else 0."""
        count, place = len(self.pool), {unit: i for i, unit in enumerate(self.pool)}
        pairs = [s for s in self.seen if len(s) == 2 and s[0] in place and s[1] in place] if size > 2 else []
        together = torch.zeros(count, count, len(self.goal.own), dtype=torch.float64)
        if pairs:
            first, second = ([(units[i],) for units in pairs] for i in (0, 1))
            change = self._changes(pairs, missed=missed)
            change -= self._changes(first, missed=missed) + self._changes(second, missed=missed)
            a, b = (torch.tensor([place[unit] for (unit,) in units]) for units in (first, second))
            together[a, b] = together[b, a] = change
        return together

    def _within(self, parents: Sequence[Units], pairs: Tensor) -> Tensor:
        """Return the sum of the interactions of a unit with those of a set, [sets, n, C]."""
        place = {unit: i for i, unit in enumerate(self.pool)}
        members = torch.tensor([[place[unit] for unit in units] for units in parents])
        return pairs[members].sum(dim=1)

    def _foresee(self, sets: Sequence[Units]) -> Tensor:
        """Return what p foretells of the change of the numbers without each set, [S, C]."""
        new = [units for units in sets if units not in self.foreseen]
        for start in range(0, len(new), self.chunk):
            some = new[start : start + self.chunk]
            perturbations = self.removals.without(some)
            changes = torch.zeros(len(some), len(self.goal.own), dtype=torch.float64)
            for column, sign, p in self.models:
                changes[:, column] = -sign * p.change(perturbations).double()
            self.foreseen.update(zip(some, changes, strict=True))
        return torch.stack([self.foreseen[units] for units in sets])

    def _ask(self, sets: Sequence[Units]) -> Tensor:
        """Return the numbers that the model gives without each set, [S, C]."""
        found = []
        for start in range(0, len(sets), self.chunk):
            some = sets[start : start + self.chunk]
            numbers = self.goal.read(self.target.outputs(self.removals.without(some)))
            self.seen.update(zip(some, numbers[1:] - numbers[0], strict=True))
            self.numbers.update(zip(some, numbers[1:], strict=True))
            found.append(numbers[1:])
        self.asked += len(sets)
        return torch.cat(found)

    def _smallest_within(self, best: Units) -> Units:
        """Return the smallest subset of what was found that flips the answer, too."""
        subsets = [units for size in range(1, len(best)) for units in combinations(best, size)]
        new = [units for units in subsets if units not in self.numbers]
        if new:
            self._ask(new)
        for units in subsets:
            if bool(self.goal.reached(self.numbers[units].unsqueeze(0))):
                return units
        return best

    def _place(self, unit: int) -> tuple[int, int]:
        """Return the two numbers that say which edge or feature a unit is."""
        first, second = self.removals.labels.place(unit)
        return first, second

    def _result(self, best: Units | None, most: int) -> Counterfactual:
        """Return what was found, in the words of the whole graph."""
        units = sorted(best or (), key=self.removals.labels.place)
        places, of = [self._place(unit) for unit in units], self.removals.of
        return Counterfactual(
            found=best is not None,
            edges=places if of == "edges" else [],
            features=places if of == "features" else [],
            names=[self.removals.labels.name(unit) for unit in units],
            before=self.goal.before,
            after=None if best is None else self.goal.answer(self.numbers[best]),
            evaluations=self.asked,
            most=most,
            of=of,
            silenced=of == "edges" and self.target.route == "mask",
            is_smallest=best is not None and all(self.levels[size].is_complete for size in range(1, len(best))),
        )
