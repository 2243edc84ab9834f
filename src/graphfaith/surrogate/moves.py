"""The units that a neighbourhood moves, as the columns of a matrix: entries of A, undirected edges, features, nodes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .._base import core
from ..graph.computation_graph import ComputationGraph
from ..sampling.neighborhood import Moments, Neighborhood
from ..sampling.perturbations import Perturbations

OfX = Literal["feature", "node", "column"]

_FEWEST, _MOST, _ENTRIES = 64, 1024, 2**22  # samples from which unknown moments are estimated, and entries in them
LEAST = 1e-9  # The spread of a unit is at least this share of its second moment, also if it always moves.


class Moves:
    r"""How the units of a neighbourhood move: their numbers, their moments, and the scores of their entries.

    A unit is an entry of A, an undirected edge whose entries move together, or a feature. The move of a unit is the sum
    of the perturbations of its entries, so that a score of the unit is the score of each of its entries. If scores of
    whole nodes or columns of X are asked for, these are units: the move of one is the part of its features that is
    taken away, :math:`\sum_c x_c \epsilon_c / \sum_c x_c^2`, and its score the change of F if all are.

    Moments that the neighbourhood does not know are estimated from a few samples.

    Args:
        graph: the computation graph.
        near: the neighbourhood.
        of: what the units of X are.
    """

    def __init__(self, graph: ComputationGraph, near: Neighborhood, of: OfX = "feature") -> None:
        self.graph, self.near, self.of_x = graph, near, of
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        self._centre: dict[str, Tensor] = {}  # twice the mean of eps_A and of eps_X
        self.edge_unit: Tensor | None = None  # [e] the unit of each entry of A, or -1
        self.edge_moments: Moments | None = None  # of the entries of A, if the neighbourhood knows them
        self.num_edge_units = 0
        self.feature_place: Tensor | None = None  # [q] the features that belong to units, as places in X
        if near.perturbs_edges:
            self.edge_moments = near.edge_moments(graph)
            moments = self.edge_moments or _estimate_moments(near, graph, "edges")
            parts.append(self._number_edges(near.units(graph), moments))
            self._centre["edges"] = 2 * moments.mean
        if near.perturbs_features:
            moments = near.feature_moments(graph) or _estimate_moments(near, graph, "features")
            parts.append(self._number_features(moments))
            self._centre["features"] = 2 * moments.mean.view_as(graph.x).to(graph.x.dtype)
        parts = parts or [(torch.zeros(0, dtype=torch.float64),) * 3]  # Edge attributes are no units.
        self.mean, spread, self.common = (torch.cat(kind) for kind in zip(*parts, strict=True))
        self.spread = torch.maximum(spread, LEAST * (spread + self.common.square()))

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self.mean)

    def _number_edges(self, units: Tensor | None, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """Number the units of edges, and return their moments."""
        moved = moments.spread + moments.common.square() > 0
        self.edge_unit = torch.full((self.graph.num_edges,), -1)
        entries = moved.nonzero().view(-1)
        if units is None:  # Every entry is a unit of its own.
            self.edge_unit[entries] = torch.arange(len(entries))
            self.num_edge_units = len(entries)
            mean, deviation, common = (part[entries] for part in (moments.mean, moments.spread.sqrt(), moments.common))
            return mean, deviation.square(), common
        _, unit = torch.unique(units[entries], return_inverse=True)
        self.edge_unit[entries] = unit
        self.num_edge_units = int(unit.max()) + 1 if len(unit) else 0
        mean, deviation, common = (
            torch.zeros(self.num_edge_units, dtype=torch.float64).index_add_(0, unit, part[entries])
            for part in (moments.mean, moments.spread.sqrt(), moments.common)
        )
        return mean, deviation.square(), common

    def _number_features(self, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """Number the units of features, and return their moments."""
        x, moved = self.graph.x.double().flatten(), moments.spread + moments.common.square() > 0
        if self.of_x == "feature":
            self.feature_place = moved.nonzero().view(-1)
            self._owner = torch.arange(len(self.feature_place))  # [q] the unit of each place, less those of edges
            self._full = self._part = torch.ones(len(self.feature_place), dtype=torch.float64)
        else:
            self.feature_place = (moved & (x != 0)).nonzero().view(-1)
            width = self.graph.x.size(1)
            owner = self.feature_place // width if self.of_x == "node" else self.feature_place % width
            self.owners, self._owner = torch.unique(owner, return_inverse=True)
            self._full = x[self.feature_place]  # [q] what is taken away of each place if the unit moves by 1
            square = torch.zeros(len(self.owners), dtype=torch.float64)
            square.index_add_(0, self._owner, self._full.square())
            self._part = self._full / square[self._owner]  # [q] how much a place adds to the move of its unit
        place, part = self.feature_place, self._part
        mean, common = (self._total(kind[place] * part) for kind in (moments.mean, moments.common))
        return mean, self._total(moments.spread[place] * part.square()), common

    def _total(self, values: Tensor) -> Tensor:
        """Return the sums over the features of each unit, [..., q] -> [..., u]."""
        if self.of_x == "feature":
            return values
        sums = torch.zeros(*values.shape[:-1], len(self.owners), dtype=torch.float64)
        return sums.index_add_(-1, self._owner, values)

    def alike(self, scores: Tensor) -> Tensor:
        """Return the group of each unit, [u]: units of a group cannot be told apart, because F sees only their sum.

        These are entries of A whose message reaches nothing that F is read from, so that they only add to the degree of
        the node that they lead to; and whose ``scores``, [u], by the slope of p, are equal.
        """
        groups = torch.arange(len(self))
        if self.edge_unit is None:
            return groups
        part, sinks = self.graph, self.degree_sinks()
        alone = torch.bincount(self.edge_unit[self.edge_unit >= 0], minlength=len(self)) == 1
        outer = ((sinks >= 0) & (self.edge_unit >= 0)).nonzero().view(-1)
        outer = outer[alone[self.edge_unit[outer]]]
        units = self.edge_unit[outer]
        first = core.group_alike(
            sinks[outer].numpy(),
            part.weight[outer].double().numpy(),
            scores.double()[units].numpy(),
            part.edge_index[1, outer].numpy(),
            part.num_nodes,
        )
        groups[units] = units[torch.from_numpy(first)]
        return groups

    def degree_sinks(self) -> Tensor:
        """Return the sinks of entries of A that only add to a degree, as ids in the whole graph; -1 for others, [e]."""
        part = self.graph
        return torch.where(~part.carries_message & ~part.is_loop, part.ends[1], -1)

    def of(self, samples: Perturbations) -> Tensor:
        """Return the moves of the units in each sample, [S, u], in double precision."""
        parts = []
        if self.edge_unit is not None:
            assert samples.edges is not None
            entries = (self.edge_unit >= 0).nonzero().view(-1)
            unit = self.edge_unit[entries]
            if len(entries) == self.num_edge_units:  # No unit has two entries.
                order = torch.empty_like(entries)
                order[unit] = entries
                # Perturbations of edges are often stored by entries, and rows are gathered faster than columns.
                by_entry = not samples.edges.is_contiguous()
                parts.append(samples.edges.T[order].T if by_entry else samples.edges[:, order])
            else:
                total = torch.zeros(len(samples), self.num_edge_units, dtype=torch.float64)
                parts.append(total.index_add_(1, unit, samples.edges[:, entries]))
        if self.feature_place is not None:
            assert samples.features is not None
            moved, count = samples.features.flatten(1), len(self.feature_place)
            # If all features of the first nodes move, these are the first columns, which are taken sooner than chosen.
            first = count and int(self.feature_place[-1]) == count - 1
            moved = (moved[:, :count] if first else moved[:, self.feature_place]).double()
            parts.append(moved if self.of_x == "feature" else self._total(moved * self._part))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def perturbations(self, moves: Tensor) -> Perturbations:
        """Return samples with these moves of the units, [S, u]; the entries of a unit move by equal shares of A."""
        edges = features = None
        if self.edge_unit is not None:
            edges = torch.zeros(len(moves), self.graph.num_edges, dtype=torch.float64)
            entries = (self.edge_unit >= 0).nonzero().view(-1)
            unit, weight = self.edge_unit[entries], self.graph.weight.double()[entries]
            moved = moves[:, unit]
            # A removed entry is the entry itself: rounding would leave a weight of 1e-16, and perhaps a negative one.
            edges[:, entries] = torch.where(moved == self.sizes()[unit], weight, moved * self._part_of_unit()[entries])
        if self.feature_place is not None:
            features = torch.zeros(len(moves), self.graph.x.numel(), dtype=self.graph.x.dtype)
            moved = moves[:, self.num_edge_units :][:, self._owner] * self._full
            features[:, self.feature_place] = moved.to(features.dtype)
            features = features.view(len(moves), *self.graph.x.shape)
        return Perturbations(self.graph, features, edges)

    def solve(self, right: Tensor) -> Tensor:
        """Return (diag(v) + m m^T)^-1 times a vector, [u], by the formula of Sherman and Morrison."""
        plain, common = right / self.spread, self.common / self.spread
        return plain - common * (self.common @ plain) / (1 + self.common @ common)

    def mirror(self, samples: Perturbations) -> Perturbations:
        """Return samples, and then their mirror images 2 E eps - eps, as likely if the neighbourhood is symmetric."""
        edges, features = samples.edges, samples.features
        return Perturbations(
            self.graph,
            None if features is None else torch.cat([features, self._centre["features"] - features]),
            # By entries, because p reads the values of an entry in all samples.
            None if edges is None else torch.cat([edges.T, (self._centre["edges"] - edges).T], dim=1).T,
        )

    def _part_of_unit(self) -> Tensor:
        """Return the share of its unit that each entry of A has, [e]."""
        assert self.edge_unit is not None
        entries = (self.edge_unit >= 0).nonzero().view(-1)
        weight = self.graph.weight.double().abs()
        total = torch.zeros(self.num_edge_units, dtype=torch.float64)
        total.index_add_(0, self.edge_unit[entries], weight[entries])
        counts = torch.bincount(self.edge_unit[entries], minlength=self.num_edge_units).double()
        shares = torch.zeros_like(weight)
        unit = self.edge_unit[entries]
        shares[entries] = torch.where(total[unit] > 0, weight[entries] / total[unit], 1 / counts[unit])
        return shares

    def sizes(self) -> Tensor:
        """Return the move that removes each unit: its weight, the value of the feature, or 1 for a node, [u]."""
        parts = []
        if self.edge_unit is not None:
            entries = (self.edge_unit >= 0).nonzero().view(-1)
            total = torch.zeros(self.num_edge_units, dtype=torch.float64)
            parts.append(total.index_add_(0, self.edge_unit[entries], self.graph.weight.double()[entries]))
        if self.feature_place is not None:
            own = self.of_x == "feature"
            parts.append(
                self.graph.x.double().flatten()[self.feature_place]
                if own
                else torch.ones(len(self.owners), dtype=torch.float64)
            )
        return torch.cat(parts)

    def gather(self, phi_x: Tensor, phi_a: Tensor) -> Tensor:
        """Return the scores of the units, [u]: the mean over their entries, by their shares of the unit.

        That of a node is sum_c x_c score_c, the change of F if all of its features are taken away.
        """
        parts = []
        if self.edge_unit is not None:
            entries = (self.edge_unit >= 0).nonzero().view(-1)
            weighed = phi_a.double()[entries] * self._part_of_unit()[entries]
            total = torch.zeros(self.num_edge_units, dtype=torch.float64)
            parts.append(total.index_add_(0, self.edge_unit[entries], weighed))
        if self.feature_place is not None:
            parts.append(self._total(phi_x.double().flatten()[self.feature_place] * self._full))
        return torch.cat(parts)

    def spread_out(self, scores: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return scores of the units as scores of features, [n, d], and of entries of A, [e]; None if these stay."""
        phi_x = phi_a = None
        if self.edge_unit is not None:
            padded = torch.cat([scores[: self.num_edge_units], scores.new_zeros(1)])
            phi_a = padded[self.edge_unit]  # -1 is the last one, which is 0
        if self.feature_place is not None:
            phi_x = torch.zeros(self.graph.x.numel(), dtype=torch.float64)
            phi_x[self.feature_place] = scores[self.num_edge_units :][self._owner] * self._part
            phi_x = phi_x.view(self.graph.x.shape)
        return phi_x, phi_a


def spread_over_features(graph: ComputationGraph, scores: Tensor, of: OfX) -> Tensor:
    r"""Return scores of nodes, [n, 1], or of columns, [1, d], as scores of features, :math:`s\, x / |x|^2`, [n, d].

    Then F changes by a node's score if all of its features are taken away, and by half of it if half of them are.
    """
    x = graph.x.double().clone()
    x[graph.num_visible :] = 0
    square = x.square().sum(dim=1 if of == "node" else 0, keepdim=True)
    return scores.double() * x / torch.where(square > 0, square, 1.0)


def _estimate_moments(near: Neighborhood, graph: ComputationGraph, of: Literal["edges", "features"]) -> Moments:
    """Return the moments of entries in a few samples, as if entries were independent."""
    entries = graph.num_edges if of == "edges" else graph.x.numel()
    samples = near.sample(graph, min(_MOST, max(_FEWEST, _ENTRIES // max(entries, 1))))
    moved: Tensor = getattr(samples, of).flatten(1).double()
    mean = moved.mean(dim=0)
    return Moments(mean, moved.var(dim=0, correction=0), mean)
