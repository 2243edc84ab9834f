r"""Sums over typed walks: the rows e^T N(A_r1 ... A_rk), through which a typed k-hop model depends on A.

A_r is the part of A with the edges of type r. A walk of the type r1, ..., rk goes along an edge of type r1 into the
explained node, before that along one of type r2, and so on; its end is of one type of nodes. For P = A_r1 ... A_rk,

- "symmetric" is :math:`N(P) = D_l^{-1/2} P D_r^{-1/2}` with the row sums :math:`D_l = \mathrm{diag}(1 + P 1)` and the
  column sums :math:`D_r = \mathrm{diag}(1 + P^\top 1)`, because P need not be square. The 1 is the self-loop that A of
  the paper has and A_r has not: without it, N of a node with one edge would not depend on the edge;
- "row" is :math:`\mathrm{diag}(P 1)^{-1} P`, a mean over walks, and "none" is P.

With ``steps``, each step is normalised by itself, N(A_r1) ... N(A_rk), as layers do. Sums are over the computation
graph. P is never computed: each row is a chain of k sparse products. Types that F feels little are added up as walks
grow, so that there are never many: their P is then the sum, and what is added to such a walk is added to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .._base.errors import ModelError
from ..graph.computation_graph import ComputationGraph
from ..sampling.perturbations import Perturbations
from .sensitivity import RANK, main_columns
from .walks import Normalization

# The sum of some types of walks: each is a group of walks that are one step shorter, by its place, and the type of the
# edge that is added at the end. The group () is the empty walk.
Group = tuple[tuple[int, int], ...]
Groups = Sequence[Group]

MOST = 32  # groups of walks of KEC
MOST_TERMS = 24  # of AnchoredKEC, which has other terms as well
_HELD = 2**22  # numbers of an entry of A in some samples that are held at a time


class Chains:
    """Chains of sparse products on a computation graph, for S sets of values of the entries of A, [e, S].

    The row of a group is computed from those that it continues, so that as many products with a part of A are needed
    as there are groups and edge types, however many types of walks are added up.
    """

    def __init__(self, graph: ComputationGraph, groups: Groups, values: Tensor) -> None:
        self.groups, self.values, (self.source, self.sink) = groups, values, graph.edge_index
        kind = torch.where(graph.felt, graph.edge_kind, -1)
        count = 0 if graph.kinds is None else len(graph.kinds.edge_types)
        self._entries = [(kind == place).nonzero().view(-1) for place in range(count)]
        self._ones = torch.ones(graph.num_nodes, 1, dtype=values.dtype)
        self._steps: dict[tuple[int, Normalization], Tensor] = {}

    def back(self, vector: Tensor, relation: int, values: Tensor | None = None) -> Tensor:
        """Return A_r^T v, [n, S]: what a row is one step further away from the explained node.

        ``values`` are those of the entries of type r, if they are not A's.
        """
        entries = self._entries[relation]
        taken = self.values[entries] if values is None else values
        if vector.size(1) == 1:  # Most rows are 0 at most nodes, at first.
            reached = vector[self.sink[entries], 0] != 0
            entries, taken = entries[reached], taken[reached]
        sent = taken * vector[self.sink[entries]]
        return vector.new_zeros(len(vector), sent.size(1)).index_add(0, self.source[entries], sent)

    def forth(self, vector: Tensor, relation: int) -> Tensor:
        """Return A_r v, [n, S]."""
        entries = self._entries[relation]
        sent = self.values[entries] * vector[self.source[entries]]
        return vector.new_zeros(len(vector), sent.size(1)).index_add(0, self.sink[entries], sent)

    def rows(self, first: Tensor, normalization: Normalization = "none", last: int | None = None) -> list[Tensor]:
        """Return (v^T P)^T for every group, [n, S], with each step normalised by itself.

        With ``last``, the groups that this one continues are enough; others may be of any value.
        """
        wanted = range(len(self.groups)) if last is None else sorted(self._behind(last))
        found = [first] * len(self.groups)
        for place in wanted:
            by_relation: dict[int, list[Tensor]] = {}
            for parent, relation in self.groups[place]:
                by_relation.setdefault(relation, []).append(found[parent])
            parts = [
                self.back(_total(rows), relation, self._step(relation, normalization))
                for relation, rows in by_relation.items()
            ]
            if parts:
                found[place] = _total(parts)
        return found

    def _behind(self, place: int) -> set[int]:
        """Return a group and those that it continues, directly or not."""
        found, open_ = {place}, [place]
        while open_:
            new = {parent for parent, _ in self.groups[open_.pop()]} - found
            found |= new
            open_ += new
        return found

    def row_sums(self, place: int) -> Tensor:
        """Return P 1 for one group, [n, S]."""
        ahead: dict[int, Tensor] = {place: self._ones}
        while True:
            last = max(ahead)  # A group continues earlier ones only.
            vector = ahead.pop(last)
            if not self.groups[last]:
                return vector
            by_relation = {relation: self.forth(vector, relation) for relation in {r for _, r in self.groups[last]}}
            for parent, relation in self.groups[last]:
                moved = by_relation[relation]
                ahead[parent] = ahead[parent] + moved if parent in ahead else moved

    def _step(self, relation: int, kind: Normalization) -> Tensor | None:
        """Return the values of N(A_r) at the entries of type r, [e_r, S]; None if they are A's."""
        if kind == "none":
            return None
        key = relation, kind
        if key not in self._steps:
            entries = self._entries[relation]
            values = self.values[entries] * _divisor(self.forth(self._ones, relation), kind)[self.sink[entries]]
            if kind == "symmetric":
                sums = self.back(self._ones, relation)
                values = values * _divisor(sums, kind)[self.source[entries]]
            self._steps[key] = values
        return self._steps[key]

    def product_rows(self, e: Tensor, kind: Normalization) -> list[Tensor]:
        """Return (e^T N(P))^T for the P of each group, [n, S]."""
        seeds = e.unsqueeze(1)
        alone = int((e != 0).sum()) == 1
        found = self.rows(seeds) if alone or kind == "none" else [seeds] * len(self.groups)
        if kind == "none":
            return found
        columns = self.rows(self._ones) if kind == "symmetric" else []
        for place, group in enumerate(self.groups):
            if not group:
                continue
            if alone:  # The sum of the only row that is read is that of its entries.
                row = found[place] * _divisor(found[place].sum(dim=0) / e.sum(), kind)
            else:
                left = seeds * _divisor(self.row_sums(place), kind)
                row = self.rows(left, last=place)[place]
            found[place] = row * _divisor(columns[place], kind) if columns else row
        return found


def _seeds(graph: ComputationGraph) -> Tensor:
    """Return the vector e, [n]."""
    return torch.zeros(graph.num_nodes, dtype=torch.float64).index_add(0, graph.seeds, graph.e)


def _total(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _divisor(sums: Tensor, kind: Normalization) -> Tensor:
    """Return what N multiplies rows or columns of these sums with; a node without walks has a zero row."""
    if kind == "symmetric":
        return (1 + sums).rsqrt()
    there = sums > 0
    return torch.where(there, torch.where(there, sums, 1.0).reciprocal(), 0.0)


def find_walks(graph: ComputationGraph, num_hops: int, most: int = MOST) -> tuple[Group, ...] | None:
    """Return the types of walks of at most so many steps into the explained nodes, a group each, the empty one first.

    None if there are more than ``most``, which is seen without finding them all.
    """
    assert graph.kinds is not None
    chains = Chains(graph, (), torch.ones(graph.num_edges, 1, dtype=torch.float64))
    found: list[Group] = [()]
    last = {0: _seeds(graph).unsqueeze(1)}
    for _ in range(num_hops):
        longer: dict[int, Tensor] = {}
        for parent, row in last.items():
            for relation in range(len(graph.kinds.edge_types)):
                moved = chains.back(row, relation)
                if not bool(moved.any()):
                    continue
                if len(found) == most:
                    return None
                longer[len(found)] = moved
                found.append(((parent, relation),))
        last = longer
    return tuple(found)


def group_walks(
    graph: ComputationGraph, num_hops: int, gradient: Callable[[], tuple[Tensor, Tensor]], most: int = MOST
) -> tuple[Group, ...]:
    """Return the walks to use, each by itself if there are at most ``most``.

    Otherwise they are added up step by step. Each number of steps has an equal share of ``most``; of the walks that
    continue those of one step less, the share that F feels most stay by themselves, and the others are added up, those
    that end at one type of nodes together. How much F feels a walk is the sum over it of the products of |dF/dA| A
    along it. ``gradient`` returns the derivatives of F for X and A.
    """
    few = find_walks(graph, num_hops, most)
    if few is not None:
        return few
    assert graph.kinds is not None
    strength = graph.weight.double().abs()
    with suppress(ModelError):  # If the gradient is not finite, all edges count alike.
        strength = strength * gradient()[1].double().abs()
    # Whether there is a walk, and how much F feels it.
    chains = Chains(graph, (), torch.stack([torch.ones_like(strength), strength], dim=1))
    found: list[Group] = [()]
    last = {0: _seeds(graph).unsqueeze(1).expand(-1, 2)}
    for step in range(num_hops):
        felt: dict[tuple[int, int], float] = {}
        for parent, row in last.items():
            for relation in range(len(graph.kinds.edge_types)):
                moved = chains.back(row, relation)  # It is not kept, because there are many.
                if bool(moved[:, 0].any()):
                    felt[parent, relation] = float(moved[:, 1].abs().sum())
        longer = _merge(graph, felt, (most - len(found)) // (num_hops - step))
        last = {
            len(found) + i: _total([chains.back(last[parent], relation) for parent, relation in group])
            for i, group in enumerate(longer)
        }
        found += longer
    return tuple(found)


def _merge(graph: ComputationGraph, felt: dict[tuple[int, int], float], most: int) -> list[Group]:
    """Return walks of one length in at most ``most`` groups, or as many as there are types of ends, if those are more.

    The strongest are by themselves, and the others in one group for each type of their ends.
    """
    ends = {walk: _end(graph, (walk,)) for walk in felt}
    count = len(felt) if len(felt) <= most else max(0, most - len(set(ends.values())))
    alone = set(sorted(felt, key=lambda walk: -felt[walk])[:count])
    rest: dict[int, list[tuple[int, int]]] = {}
    for walk, end in ends.items():
        if walk not in alone:
            rest.setdefault(end, []).append(walk)
    return [(walk,) for walk in felt if walk in alone] + [tuple(walks) for walks in rest.values()]


def _end(graph: ComputationGraph, group: Group) -> int:
    """Return the type of the nodes that a group's walks end at; -1 for the empty walk, which may end at any type."""
    assert graph.kinds is not None
    return graph.kinds.ends(group[0][1])[0] if group else -1


def columns_of(graph: ComputationGraph, group: Group) -> slice:
    """Return the columns of X that the ends of a group's walks have."""
    assert graph.kinds is not None
    end = _end(graph, group)
    return slice(0, graph.x.size(1)) if end < 0 else graph.kinds.columns(end)


def row_bytes(graph: ComputationGraph, groups: int) -> int:
    """Estimate what the rows of so many groups of walks take for one sample, beside the sample itself.

    They are computed, normalised by their column sums and stacked, and products with a part of A go along its entries.
    """
    return 8 * (4 * groups * graph.num_nodes + 4 * graph.num_edges)


def most_groups(graph: ComputationGraph, num_hops: int) -> int:
    """Return the most groups of walks that AnchoredKEC has terms of, without F's gradient."""
    few = find_walks(graph, num_hops, MOST_TERMS)
    assert graph.kinds is not None
    return len(few) if few is not None else max(MOST_TERMS, 1 + num_hops * len(graph.kinds.node_types))


def term_bytes(graph: ComputationGraph, groups: int, count: int) -> int:
    """Estimate what the terms of so many groups take at so many samples, beside their rows."""
    return 8 * groups * (RANK + 1) * (graph.num_nodes + count)


def typed_rows(
    graph: ComputationGraph, weight: Tensor, groups: Groups, kind: Normalization, *, steps: bool = False
) -> Tensor:
    """Return e^T N(P) of each group for S sets of values of A's entries, [S, e] -> [G, S, n]; autograd follows.

    >>> from graphfaith.graph.joint import JointGraph
    >>> edges = {("word", "in", "paper"): torch.tensor([[0, 1, 1], [0, 0, 1]])}
    >>> graph = JointGraph({"paper": torch.ones(2, 1), "word": torch.eye(2)}, edges)
    >>> part = ComputationGraph.around(graph, 0, num_hops=1, degrees=False, loop_weight=None)
    >>> rows = typed_rows(part, torch.ones(1, part.num_edges), ((), ((0, 0),)), "row")
    >>> part.nodes.tolist(), rows[1, 0].tolist()
    ([0, 2, 3], [0.0, 0.5, 0.5])
    """
    e, values = _seeds(graph), weight.double().T.contiguous()
    chains = Chains(graph, groups, values)
    rows = chains.rows(e.unsqueeze(1), kind) if steps else chains.product_rows(e, kind)
    return torch.stack([row.expand(-1, values.size(1)) for row in rows]).transpose(1, 2)


@dataclass(frozen=True)
class WalkSum:
    r"""The function :math:`g(X, A) = \sum_P e^\top N(P) (X w_P + b_P 1)` of typed walks."""

    graph: ComputationGraph
    groups: tuple[Group, ...]
    weights: Tensor  # [G, d] w_P
    constants: Tensor  # [G] b_P
    normalization: Normalization
    steps: bool

    def rows(self, weight: Tensor) -> Tensor:
        """Return e^T N(P) for S sets of values of A's entries, [S, e] -> [G, S, n]."""
        return typed_rows(self.graph, weight, self.groups, self.normalization, steps=self.steps)

    @cached_property
    def own_rows(self) -> Tensor:
        """The rows e^T N(P) of the unperturbed graph, [G, n]."""
        return self.rows(self.graph.weight.double().unsqueeze(0))[:, 0]

    @cached_property
    def products(self) -> Tensor:
        """The vectors X w_P + b_P, [G, n]."""
        return self.weights @ self.graph.x.double().T + self.constants.unsqueeze(1)

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return g(X, A) - g(X - eps_X, A - eps_A) for each sample, [S]."""
        size = max(1, _HELD // max(1, self.graph.num_edges, self.graph.num_nodes * len(self.groups)))
        count = len(perturbations)
        parts = [self._change(perturbations[start : start + size]) for start in range(0, count, size)]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)

    def _change(self, samples: Perturbations) -> Tensor:
        rows = self.own_rows.unsqueeze(1)
        change = torch.zeros(len(samples), dtype=torch.float64)
        if samples.weight is not None:
            rows = self.rows(samples.weight)
            change += torch.einsum("gsn,gn->s", self.own_rows.unsqueeze(1) - rows, self.products)
        if samples.features is not None:
            for row, weights in zip(rows, self.weights, strict=True):
                moved = (samples.features @ weights.to(samples.features.dtype)).double()  # [S, n]
                change += (row * moved).sum(dim=1)
        return change

    def gradient_x(self) -> Tensor:
        """Return the derivative with respect to X, [n, d]: sum_P N(P)^T e w_P^T."""
        return self.own_rows.T @ self.weights

    def gradient_a(self, weight: Tensor | None = None) -> Tensor:
        """Return the derivative with respect to A, [e], or its mean at samples with entries ``weight``, [S, e]."""
        values = (self.graph.weight.double().unsqueeze(0) if weight is None else weight).detach()
        total = torch.zeros(self.graph.num_edges, dtype=torch.float64)
        largest = max(self.graph.num_edges, self.graph.num_nodes)
        size = max(1, _HELD // max(1, largest * len(self.groups)))
        with torch.inference_mode(False), torch.enable_grad():
            for start in range(0, len(values), size):
                part = values[start : start + size].clone().requires_grad_()
                value = torch.einsum("gsn,gn->", self.rows(part), self.products)
                slope = torch.autograd.grad(value, part, allow_unused=True)[0] if value.requires_grad else None
                total += 0 if slope is None else slope.sum(dim=0)
        return total / len(values)


class TypedKHopModel:
    r"""The k-hop model of a heterogeneous graph, :math:`p(X, A) = \sum_P e^\top N(P) X w_P` over typed walks.

    P = A_r1 ... A_rk goes through all types of walks of k = 0 to M steps that end at the explained nodes, and
    ``weights``, [G, d], has one w for each. The empty walk, of the explained node's own features, is there because A
    has no self-loops here. What N is, see :mod:`graphfaith.surrogate.typed_walks`.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        groups: tuple[Group, ...],
        weights: Tensor,
        in_sample_error: float | None = None,
        normalization: Normalization = "symmetric",
    ) -> None:
        self.graph, self.groups, self.weights = graph, groups, weights.double()
        self.in_sample_error = in_sample_error
        self.normalization: Normalization = normalization

    @cached_property
    def _sum(self) -> WalkSum:
        constants = torch.zeros(len(self.groups), dtype=torch.float64)
        return WalkSum(self.graph, self.groups, self.weights, constants, self.normalization, False)

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return p(X, A) - p(X - eps_X, A - eps_A) for each sample, [S]."""
        return self._sum.change(perturbations)

    def gradient(self) -> tuple[Tensor, Tensor]:
        """Return the derivatives of p at the unperturbed graph with respect to X, [n, d], and A, [e]."""
        da = self._sum.gradient_a()
        da[~self.graph.felt] = 0
        dx = self._sum.gradient_x()
        dx[self.graph.num_visible :] = 0
        return dx, da


class TypedCoordinates:
    """Orthonormal coordinates of the features that typed walks end at, as few as there are nodes if only edges move."""

    def __init__(self, graph: ComputationGraph, groups: Groups, *, moved: bool) -> None:
        self.graph, self.columns = graph, [columns_of(graph, group) for group in groups]
        self.x, self._turns, made = [], [], dict[tuple[int, int], tuple[Tensor, Tensor | None]]()
        for columns in self.columns:
            key = columns.start, columns.stop
            if key not in made:
                x = graph.x[:, columns].double()
                made[key] = x, None
                if not moved and x.size(1) > len(x):
                    q, r = torch.linalg.qr(x.T)
                    made[key] = r.T.contiguous(), q
            self.x.append(made[key][0])
            self._turns.append(made[key][1])

    @property
    def size(self) -> int:
        """How many unknowns there are."""
        return sum(x.size(1) for x in self.x)

    def features(self, own: Tensor, rows: Tensor, samples: Perturbations) -> Tensor:
        """Return e^T [N(P) X - N(P') (X - eps_X)] of all groups side by side, [S, u].

        ``own`` are the rows of the unperturbed graph, [G, n], and ``rows`` those of the samples, [G, S, n], or
        [G, 1, n] if edges stay.
        """
        parts = []
        for before, after, columns, x in zip(own, rows, self.columns, self.x, strict=True):
            part = torch.zeros(len(samples), x.size(1), dtype=torch.float64)
            if samples.edges is not None:
                part += (before - after) @ x
            if samples.features is not None:
                eps = samples.features[:, :, columns]
                part += torch.matmul(after.to(eps.dtype).unsqueeze(1), eps)[:, 0].double()
            parts.append(part)
        return torch.cat(parts, dim=1)

    def weights(self, solution: Tensor) -> Tensor:
        """Return the w of each group, [G, d], for a solution in these coordinates."""
        found = torch.zeros(len(self.columns), self.graph.x.size(1), dtype=torch.float64)
        split = torch.split(solution, [x.size(1) for x in self.x])
        for row, part, columns, turn in zip(found, split, self.columns, self._turns, strict=True):
            row[columns] = part if turn is None else turn @ part
        return found


class WalkTerms:
    """The terms of typed walks that are fitted to F: e^T N(P) X U and e^T N(P) 1, each step normalised by itself.

    U are the directions of the features at the walks' ends that F depends on most, by ``slope``, its gradient for X.
    The empty walk has terms only if features are ``moved``: edges do not change it.
    """

    def __init__(self, graph: ComputationGraph, groups: Groups, slope: Tensor, *, moved: bool = True) -> None:
        self.graph, self.groups = graph, tuple(groups)
        self._columns = [columns_of(graph, group) for group in groups]
        of_node = graph.node_kind[: graph.num_visible]
        self._bases, self._ends = [], []
        for group, columns in zip(groups, self._columns, strict=True):
            end = _end(graph, group)
            seen = slope[: graph.num_visible] if end < 0 else slope[: graph.num_visible][of_node == end]
            basis = main_columns(seen[:, columns]) if group or moved else seen.new_zeros(columns.stop, 0).double()
            self._bases.append(basis)
            x = graph.x[:, columns].double() @ basis
            # The number of walks, if it is not always one, which is that of the empty walk.
            self._ends.append(torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1) if group else x)

    def numbers(self, samples: Perturbations, kind: Normalization) -> Tensor:
        """Return the changes of all terms, [S, u]."""
        rows = typed_rows(self.graph, samples.weight_with_own, self.groups, kind, steps=True)
        parts = []
        for row, ends, columns, basis in zip(rows, self._ends, self._columns, self._bases, strict=True):
            part = torch.zeros(len(samples), ends.size(1), dtype=torch.float64)
            if samples.edges is not None:
                part += (row[:1] - row[1:]) @ ends
            if samples.features is not None:
                eps = samples.features[:, :, columns]
                moved = row[1:] if samples.edges is not None else row[:1].expand(len(samples), -1)
                carried = torch.matmul(moved.to(eps.dtype).unsqueeze(1), eps)[:, 0].double()
                part[:, : basis.size(1)] += carried @ basis
            parts.append(part)
        return torch.cat(parts, dim=1)

    def fitted(self, solution: Tensor, kind: Normalization) -> WalkSum:
        """Return the function with these coefficients of the terms, [u]."""
        weights = torch.zeros(len(self.groups), self.graph.x.size(1), dtype=torch.float64)
        constants = torch.zeros(len(self.groups), dtype=torch.float64)
        split = torch.split(solution, [ends.size(1) for ends in self._ends])
        for i, (part, columns, basis) in enumerate(zip(split, self._columns, self._bases, strict=True)):
            weights[i, columns] = basis @ part[: basis.size(1)]
            constants[i] = part[basis.size(1) :].sum()
        return WalkSum(self.graph, self.groups, weights, constants, kind, True)
