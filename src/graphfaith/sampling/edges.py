"""Neighbourhoods of edges: weights that move, edges that are dropped, and a few edges that are removed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._base.checks import check_count
from .._base.errors import InputError
from ..graph.computation_graph import ComputationGraph
from .draw import UInt64, below, keys, moves, uniform
from .neighborhood import Moments, Neighborhood, check_sigma, edge_keys, register_neighborhood, say_share
from .perturbations import Perturbations


@register_neighborhood
@dataclass(frozen=True)
class UniformEdges(Neighborhood):
    """U(A, sigma): each weight, self-loops included, moves by U[-sigma, sigma], clipped so that it stays >= 0.

    >>> import graphfaith as gf
    >>> near = gf.UniformEdges(0.5)
    >>> str(near), near == gf.parse_neighborhood("U(A,0.5)")
    ('U(A,0.5)', True)
    """

    sigma: float
    notation = "U(A,{sigma})"
    perturbs_edges = True

    def __post_init__(self) -> None:
        """Check sigma."""
        check_sigma(self.sigma, math.inf, "UniformEdges")

    @property
    def words(self) -> str:
        """What happens to the edges, in words."""
        return f"when every edge weight may move by up to {say_share(self.sigma)}"

    def check(self, graph: ComputationGraph) -> None:
        """A weight that has moved has to be a number."""
        if self.sigma > torch.finfo(graph.weight.dtype).max / 2:
            raise InputError(f"{self}: sigma is too large for weights in {graph.weight.dtype}; use a smaller sigma")

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """Return eps = min(sigma (2 u - 1), A), so that A - eps >= 0."""
        return self._draw(graph, samples, seed, with_values=False)[0]

    def numbered(self, graph: ComputationGraph, samples: np.ndarray, seed: int = 0) -> Perturbations:
        """Draw the samples of these numbers, and the entries of A in them at the same time."""
        kind = type(self)
        if kind.edges is not UniformEdges.edges or kind.features is not UniformEdges.features:
            return super().numbered(graph, samples, seed)  # A subclass draws in another way.
        self.check(graph)
        eps, weight = self._draw(graph, samples, seed)
        drawn = Perturbations(graph, None, eps)
        drawn.remember(weight)
        return drawn

    def _draw(
        self, graph: ComputationGraph, samples: np.ndarray, seed: int, *, with_values: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return eps, [S, e], and A and then A - eps, [1 + S, e], if wanted; both are stored by entries."""
        edges, nodes = graph.edge_id.numpy()[: graph.num_plain], graph.nodes.numpy()
        weight, felt = graph.weight.double().numpy(), graph.felt.numpy()
        given = np.ascontiguousarray(samples), edges, nodes, float(self.sigma), weight, felt
        both = moves(seed, *given, with_values=with_values)
        return torch.from_numpy(both[0]).T, torch.from_numpy(both[1]).T

    def is_symmetric(self, graph: ComputationGraph) -> bool:
        """Return whether nothing is clipped."""
        return bool((graph.weight[graph.felt] >= self.sigma).all())

    def edge_moments(self, graph: ComputationGraph) -> Moments:
        """Return the moments of min(U[-sigma, sigma], A), by integration."""
        width, weight = float(self.sigma), graph.weight.double()
        top = weight.clamp(max=width)
        # The part of the draws that is clipped, (sigma - top) / (2 sigma), lies at the top.
        clipped = (width - top) / (2 * width)
        mean = (top.square() - width**2) / (4 * width) + clipped * top
        square = (top**3 + width**3) / (6 * width) + clipped * top.square()
        mean, spread = mean * graph.felt, (square - mean.square()).clamp(min=0) * graph.felt
        return Moments(mean, spread, mean)


@register_neighborhood
@dataclass(frozen=True)
class BernoulliEdges(Neighborhood):
    """B(A, sigma): each edge, self-loops included, is dropped with probability sigma.

    If ``paired``, written B(A,0.5,paired), the two entries of an undirected edge are dropped together.

    >>> import graphfaith as gf
    >>> str(gf.BernoulliEdges(0.2)), gf.BernoulliEdges(0.2).words
    ('B(A,0.2)', 'when every edge is dropped with probability 0.2')
    """

    sigma: float
    paired: bool = False
    notation = "B(A,{sigma}{paired})"
    example = "B(A,0.5)"
    perturbs_edges = True
    drops_edges = True

    def __post_init__(self) -> None:
        """Check sigma."""
        check_sigma(self.sigma, 1.0, "BernoulliEdges")
        check_flag(self.paired, "paired")

    @property
    def words(self) -> str:
        """What happens to the edges, in words."""
        return f"when every edge is dropped with probability {say_share(self.sigma)}"

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """Return eps = A where u < sigma, 0 elsewhere."""
        columns = pair_keys(graph, seed) if self.paired else edge_keys(graph, seed)
        dropped = below(keys(seed, "sample", samples), columns, float(self.sigma))
        return torch.from_numpy(dropped) * (graph.weight.double() * graph.felt)

    def units(self, graph: ComputationGraph) -> Tensor | None:
        """Return the undirected edge of each entry, if they are ``paired``."""
        return number_pairs(graph) if self.paired else None

    def is_symmetric(self, graph: ComputationGraph) -> bool:  # noqa: ARG002
        """Return whether an edge is as often dropped as not."""
        return self.sigma == 0.5

    def edge_moments(self, graph: ComputationGraph) -> Moments:
        """Return the moments of A times a truth value, v = sigma (1 - sigma) A^2."""
        weight, share = graph.weight.double() * graph.felt, float(self.sigma)
        return Moments(share * weight, share * (1 - share) * weight.square(), share * weight)


@register_neighborhood
@dataclass(frozen=True)
class RemovedEdges(Neighborhood):
    """R(A, k): between 1 and k edges are removed; their number is uniform, and so are the edges. Self-loops stay.

    This is what a person means who asks what a few edges are good for: in B(A,0.5) half of the graph is gone. Unless
    ``paired``, written R(A,5,paired), the two entries of an undirected edge count as two edges.

    >>> import graphfaith as gf
    >>> str(gf.RemovedEdges(5)), str(gf.RemovedEdges(5, paired=True))
    ('R(A,5)', 'R(A,5,paired)')
    """

    most: int
    paired: bool = False
    notation = "R(A,{most}{paired})"
    example = "R(A,5)"
    perturbs_edges = True
    drops_edges = True
    by_itself = False  # how likely an edge is removed depends on the number of edges in reach

    def __post_init__(self) -> None:
        """Check the number of edges; the text form gives it as a float."""
        most: float = self.most
        if isinstance(most, float) and most.is_integer():
            most = int(most)
        object.__setattr__(self, "most", check_count(most, "RemovedEdges: the largest number of edges"))  # type: ignore[arg-type]
        check_flag(self.paired, "paired")

    @property
    def words(self) -> str:
        """What happens to the edges, in words."""
        return "when one edge is taken away" if self.most == 1 else f"when up to {self.most} edges are taken away"

    def units(self, graph: ComputationGraph) -> Tensor | None:
        """Return the undirected edge of each entry, if they are ``paired``."""
        return number_pairs(graph) if self.paired else None

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """Return eps = A at the removed edges, 0 elsewhere: of each sample those with the smallest draws."""
        entries, columns, unit = self._columns(graph, seed)
        rows = keys(seed, "sample", samples)
        most = min(self.most, len(columns))
        gone = _remove_smallest(uniform(rows, columns), draw_sizes(rows, seed, most))
        return _lay_out(graph, entries, gone[:, unit])

    def lean(self, strength: Tensor) -> Neighborhood:
        """Return a neighbourhood in which most samples remove edges that F depends on."""
        return LeaningEdges(self.most, self.paired, strength)

    def _columns(self, graph: ComputationGraph, seed: int) -> tuple[Tensor, UInt64, np.ndarray]:
        """Return the entries that may be removed, the keys of the edges they belong to, and the edge of each entry."""
        entries = self._entries(graph)
        columns = (pair_keys(graph, seed) if self.paired else edge_keys(graph, seed))[entries.numpy()]
        distinct, unit = np.unique(columns, return_inverse=True)
        return entries, distinct, unit

    def edge_moments(self, graph: ComputationGraph) -> Moments:
        """Return the moments of A times a truth value: any two of n edges are removed with equal probability."""
        entries, weight = self._entries(graph), torch.zeros(graph.num_edges, dtype=torch.float64)
        weight[entries] = graph.weight.double()[entries]
        units = self.units(graph)
        count = len(entries) if units is None else len(torch.unique(units[entries]))
        most = min(self.most, count)
        # E K and E K (K - 1) of a number K that is uniform in 1 .. most, divided by the numbers of edges and of pairs.
        single = (most + 1) / 2 / max(count, 1)
        both = (most + 1) * max(most - 1, 0) / 3 / max(count * (count - 1), 1)  # There may be no edge at all.
        return Moments(single * weight, (single - both) * weight.square(), math.sqrt(both) * weight)

    def _entries(self, graph: ComputationGraph) -> Tensor:
        """Return the places of the entries of A that may be removed."""
        return (graph.felt & ~graph.is_loop & (graph.weight != 0)).nonzero().view(-1)


_ALONE, _LEANING = 8, 0.6  # one in so many samples removes a single edge, and this share of the others several
_STRONG = 1e-4  # an edge whose strength is a smaller share of the largest one is not asked about alone


@dataclass(frozen=True, eq=False)
class LeaningEdges(RemovedEdges):
    """Where a p for R(A, k) is fitted: some samples are of R(A, k), the others remove edges that matter.

    In a large graph few samples of R(A, k) remove an edge that F depends on. One sample in eight removes a single
    edge, the strongest first, and three fifths of the others remove up to 2 k edges (up to k, if there are few), each
    drawn with a probability proportional to its ``strength``.
    """

    strength: Tensor | None = None  # [e]
    notation = ""

    def leans(self, samples: np.ndarray, seed: int) -> np.ndarray:
        """Return which samples are not of R(A, k), [S]."""
        drawn = uniform(keys(seed, "sample", samples), keys(seed, "lean", np.zeros(1, dtype=np.int64)))
        leaning: np.ndarray = (drawn[:, 0] < _LEANING) | (samples % _ALONE == 1)
        return leaning

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """Return eps = A at the removed edges, 0 elsewhere."""
        eps, leaning = super().edges(graph, samples, seed), self.leans(samples, seed)
        entries, columns, unit = self._columns(graph, seed)
        if self.strength is None or not leaning.any() or not len(columns):
            return eps
        strength = self._strength_of(entries, unit)
        numbers = samples[leaning]
        rows = keys(seed, "sample", numbers)
        # The smallest of exponential draws, each divided by its weight, are a weighted draw without replacement.
        drawn = -np.log(uniform(rows, columns)) / strength
        most = min(2 * self.most, max(self.most, len(columns) // 4), len(columns))
        gone = _remove_smallest(drawn, draw_sizes(rows, seed, most))
        ranked = np.argsort(-strength, kind="stable")
        rank = np.where(numbers % _ALONE == 1, numbers // _ALONE, len(ranked))
        alone = (rank < np.count_nonzero(strength > _STRONG * strength.max())).nonzero()[0]
        gone[alone] = False
        gone[alone, ranked[rank[alone]]] = True
        eps[torch.from_numpy(leaning)] = _lay_out(graph, entries, gone[:, unit])
        return eps

    def _strength_of(self, entries: Tensor, unit: np.ndarray) -> np.ndarray:
        """Return the strength of each edge that may be removed, as a share of the sum, but never 0."""
        assert self.strength is not None
        weights = self.strength.double().abs().numpy()[entries.numpy()]
        strength: np.ndarray = np.bincount(unit, weights=weights).astype(np.float64)
        total = float(strength.sum())
        return strength / total + 1e-12 if total > 0 and math.isfinite(total) else np.ones_like(strength)

    def __str__(self) -> str:
        """Return the text form of the neighbourhood that it stands in for."""
        return str(RemovedEdges(self.most, self.paired))


def draw_sizes(rows: UInt64, seed: int, most: int) -> np.ndarray:
    """Draw how many edges each sample removes, uniformly from 1 to ``most``, [S]."""
    drawn = uniform(rows, keys(seed, "size", np.zeros(1, dtype=np.int64)))[:, 0]
    return np.floor(drawn * most).astype(np.int64) + 1


def _remove_smallest(drawn: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return which columns have the smallest numbers, as many in each row as ``sizes`` says, [S, columns]."""
    gone, most = np.zeros(drawn.shape, dtype=bool), min(int(sizes.max(initial=0)), drawn.shape[1])
    if most:
        nearest = np.argpartition(drawn, most - 1, axis=1)[:, :most]
        order = np.take_along_axis(drawn, nearest, axis=1).argsort(axis=1, kind="stable")
        chosen = np.take_along_axis(nearest, order, axis=1)
        np.put_along_axis(gone, chosen, np.arange(most) < sizes[:, None], axis=1)
    return gone


def _lay_out(graph: ComputationGraph, entries: Tensor, gone: np.ndarray) -> Tensor:
    """Return eps of all entries of A, [S, e], from the truth values of those that may be removed."""
    eps = torch.zeros(len(gone), graph.num_edges, dtype=torch.float64)
    eps[:, entries] = torch.from_numpy(gone) * graph.weight.double()[entries]
    return eps


def check_flag(value: bool, name: str) -> None:
    """Raise an :class:`InputError` unless a flag is true or false."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be True or False (got {value!r})")


def pair_keys(graph: ComputationGraph, seed: int) -> UInt64:
    """Return keys of the entries of A, [e], that are equal for entries between the same two nodes."""
    ends = graph.ends[:, : graph.num_plain].numpy()
    pairs = keys(seed, "pair", ends.min(axis=0), ends.max(axis=0)) if graph.num_plain else np.empty(0, dtype=np.uint64)
    return np.concatenate((pairs, keys(seed, "loop", graph.nodes.numpy())))


def number_pairs(graph: ComputationGraph) -> Tensor:
    """Return the number of the undirected edge, or of the self-loop, that each entry of A belongs to, [e].

    >>> from graphfaith.graph import Graph
    >>> x, both = torch.ones(3, 1), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> number_pairs(ComputationGraph.around(Graph.of(x, both), 0, num_hops=2)).tolist()
    [0, 0, 1, 1, 2, 3, 4]
    """
    ends = graph.ends[:, : graph.num_plain].numpy()
    codes = ends.min(axis=0) * graph.size[0] + ends.max(axis=0)
    _, first, unit = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty_like(first)
    rank[first.argsort()] = np.arange(len(first))  # in the order of the entries
    return torch.from_numpy(np.concatenate((rank[unit], len(first) + np.arange(graph.num_nodes))))
