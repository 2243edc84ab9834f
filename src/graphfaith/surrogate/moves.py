"""The units that a neighbourhood moves, as the columns of a matrix: entries of A, undirected edges, features."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph
from ..sampling.neighborhood import Moments, Neighborhood
from ..sampling.perturbations import Perturbations

_FEWEST, _MOST, _ENTRIES = 64, 1024, 2**22  # samples from which unknown moments are estimated, and entries in them
_LEAST = 1e-9  # The spread of a unit is at least this share of its second moment, also if it always moves.


class Moves:
    """How the units of a neighbourhood move: their numbers, their moments, and the scores of their entries.

    A unit is an entry of A, an undirected edge whose entries move together, or a feature. The move of a unit is the sum
    of the perturbations of its entries, so that a score of the unit is the score of each of its entries.

    Moments that the neighbourhood does not know are estimated from a few samples.
    """

    def __init__(self, graph: ComputationGraph, near: Neighborhood) -> None:
        self.graph, self.near = graph, near
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        self.edge_unit: Tensor | None = None  # [e] the unit of each entry of A, or -1
        self.feature_place: Tensor | None = None  # [u] the features that are units, as places in X
        self.num_edge_units = 0
        if near.perturbs_edges:
            moments = near.edge_moments(graph) or _estimate_moments(near, graph, "edges")
            parts.append(self._number_edges(near.units(graph), moments))
        if near.perturbs_features:
            moments = near.feature_moments(graph) or _estimate_moments(near, graph, "features")
            self.feature_place = (moments.spread + moments.common.square() > 0).nonzero().view(-1)
            parts.append(
                (
                    moments.mean[self.feature_place],
                    moments.spread[self.feature_place],
                    moments.common[self.feature_place],
                )
            )
        self.mean, spread, self.common = (torch.cat(kind) for kind in zip(*parts, strict=True))
        self.spread = torch.maximum(spread, _LEAST * (spread + self.common.square()))

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self.mean)

    def _number_edges(self, units: Tensor | None, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """Number the units of edges, and return their moments."""
        moved = moments.spread + moments.common.square() > 0
        self.edge_unit = torch.full((self.graph.num_edges,), -1)
        entries = moved.nonzero().view(-1)
        given = entries if units is None else units[entries]
        _, unit = torch.unique(given, return_inverse=True)
        self.edge_unit[entries] = unit
        self.num_edge_units = int(unit.max()) + 1 if len(unit) else 0
        mean, deviation, common = (
            torch.zeros(self.num_edge_units, dtype=torch.float64).index_add_(0, unit, part[entries])
            for part in (moments.mean, moments.spread.sqrt(), moments.common)
        )
        return mean, deviation.square(), common

    def alike(self, scores: Tensor) -> Tensor:
        """Return the group of each unit, [u]: units of a group cannot be told apart, because F sees only their sum.

        These are entries of A whose message reaches nothing that F is read from, so that they only add to the degree of
        the node that they lead to; and whose ``scores``, [u], by the slope of p, are equal.
        """
        groups = torch.arange(len(self))
        if self.edge_unit is None:
            return groups
        part = self.graph
        outer = (~part.carries_message & ~part.is_loop & (self.edge_unit >= 0)).nonzero().view(-1)
        alone = torch.bincount(self.edge_unit[self.edge_unit >= 0], minlength=len(self)) == 1
        outer = outer[alone[self.edge_unit[outer]]]
        first: dict[tuple[int, float, str], int] = {}
        units, sinks, weights = (
            self.edge_unit[outer].tolist(),
            part.ends[1, outer].tolist(),
            part.weight[outer].tolist(),
        )
        for unit, sink, weight, score in zip(units, sinks, weights, scores[units].tolist(), strict=True):
            groups[unit] = first.setdefault((sink, weight, f"{score:.6g}"), unit)
        return groups

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
                parts.append(samples.edges[:, order])
            else:
                total = torch.zeros(len(samples), self.num_edge_units, dtype=torch.float64)
                parts.append(total.index_add_(1, unit, samples.edges[:, entries]))
        if self.feature_place is not None:
            assert samples.features is not None
            parts.append(samples.features.flatten(1)[:, self.feature_place].double())
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def perturbations(self, moves: Tensor) -> Perturbations:
        """Return samples with these moves of the units, [S, u]; the entries of a unit move by equal shares of A."""
        edges = features = None
        if self.edge_unit is not None:
            edges = torch.zeros(len(moves), self.graph.num_edges, dtype=torch.float64)
            entries = (self.edge_unit >= 0).nonzero().view(-1)
            edges[:, entries] = moves[:, self.edge_unit[entries]] * self._part_of_unit()[entries]
        if self.feature_place is not None:
            features = torch.zeros(len(moves), self.graph.x.numel(), dtype=self.graph.x.dtype)
            features[:, self.feature_place] = moves[:, self.num_edge_units :].to(features.dtype)
            features = features.view(len(moves), *self.graph.x.shape)
        return Perturbations(self.graph, features, edges)

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
        """Return the move that removes each unit: its weight, or the value of the feature, [u]."""
        parts = []
        if self.edge_unit is not None:
            entries = (self.edge_unit >= 0).nonzero().view(-1)
            total = torch.zeros(self.num_edge_units, dtype=torch.float64)
            parts.append(total.index_add_(0, self.edge_unit[entries], self.graph.weight.double()[entries]))
        if self.feature_place is not None:
            parts.append(self.graph.x.double().flatten()[self.feature_place])
        return torch.cat(parts)

    def gather(self, phi_x: Tensor, phi_a: Tensor) -> Tensor:
        """Return the scores of the units, [u]: the mean over their entries, by their shares of the unit."""
        parts = []
        if self.edge_unit is not None:
            entries = (self.edge_unit >= 0).nonzero().view(-1)
            weighed = phi_a.double()[entries] * self._part_of_unit()[entries]
            total = torch.zeros(self.num_edge_units, dtype=torch.float64)
            parts.append(total.index_add_(0, self.edge_unit[entries], weighed))
        if self.feature_place is not None:
            parts.append(phi_x.double().flatten()[self.feature_place])
        return torch.cat(parts)

    def spread_out(self, scores: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return scores of the units as scores of features, [n, d], and of entries of A, [e]; None if these stay."""
        phi_x = phi_a = None
        if self.edge_unit is not None:
            padded = torch.cat([scores[: self.num_edge_units], scores.new_zeros(1)])
            phi_a = padded[self.edge_unit]  # -1 is the last one, which is 0
        if self.feature_place is not None:
            phi_x = torch.zeros(self.graph.x.numel(), dtype=torch.float64)
            phi_x[self.feature_place] = scores[self.num_edge_units :]
            phi_x = phi_x.view(self.graph.x.shape)
        return phi_x, phi_a


def _estimate_moments(near: Neighborhood, graph: ComputationGraph, of: Literal["edges", "features"]) -> Moments:
    """Return the moments of entries in a few samples, as if entries were independent."""
    entries = graph.num_edges if of == "edges" else graph.x.numel()
    samples = near.sample(graph, min(_MOST, max(_FEWEST, _ENTRIES // max(entries, 1))))
    moved: Tensor = getattr(samples, of).flatten(1).double()
    mean = moved.mean(dim=0)
    return Moments(mean, moved.var(dim=0, correction=0), mean)
