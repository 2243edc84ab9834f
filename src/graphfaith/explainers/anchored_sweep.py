"""AnchoredKEC explains many nodes together: what a block of nodes needs beside KEC's.

The computation graphs of a batch of nodes stand side by side, unconnected, as one graph for the model. One backward
pass of the sum of their F therefore gives every node the gradients of its own F. The fits and the shares are found by
the compiled core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base import core
from .._base.memory import CHUNK_BYTES
from .._base.shares import Shares
from .._base.stages import stage
from ..explanation.masks import of_mask
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Int64
from ..graph.parts import Parts
from ..model.side_by_side import put_side_by_side
from ..model.target import Target
from ..sampling.perturbations import Perturbations
from ..surrogate import additive, readings
from ..surrogate.difference import AnchoredModel
from ..surrogate.estimate import MEASURABLE, rounding_square
from ..surrogate.fits import CONSTANTS, KINDS, OF_SHARES, Fits, ReadShares, select_for_shares, with_still_row
from ..surrogate.moves import Moves
from ..surrogate.sensitivity import slopes_at
from ..surrogate.walks import CODES, Float64
from .anchored_kec import AnchoredKEC, split_samples
from .records import ESTIMATES
from .sweep import Batch, Block, cut


@dataclass(frozen=True)
class AnchoredBatch(Batch):
    """The fits of some nodes by AnchoredKEC."""

    block: AnchoredBlock
    rest: Int64  # [S] the samples of the regression
    gradient: Float64  # [n, d] of F with respect to X, at the graph as it is
    noise: Float64  # [b] the mean square of F's rounding
    fits: Fits
    shares: ReadShares | None

    def records(self, chosen: slice, with_nodes: bool, top_features: int = 0) -> dict[str, NDArray[Any]]:
        """Return pieces of the arrays of :class:`~graphfaith.explainers.records.Records` for a run of proven nodes."""
        changes = self.block.changes.numpy()[self.first + chosen.start : self.first + chosen.stop, self.rest]
        found = super().records(chosen, with_nodes, top_features)
        of_scores, of_p = (_estimate_each(rests[chosen], changes) for rests in (self.fits.rests, self.fits.left_out))
        found |= zip(ESTIMATES, (*of_scores, *of_p), strict=True)
        if self.shares is not None:
            entries = slice(*self.parts.entry_start[[chosen.start, chosen.stop]])
            found["score_stderr"] = self.shares.stderr[entries][self.parts.felt[entries]]
        return found

    @property
    def slopes(self) -> tuple[Float64, Float64, Float64]:
        """The gradient of p with respect to X, which is that of F."""
        return self.gradient, self.rows, self.beta

    def fit(self, i: int) -> tuple[ComputationGraph, AnchoredModel, None] | None:
        """Return the computation graph and p of node number i; None if it is not proven."""
        if not self.proven[i]:
            return None
        algorithm, graph = self.block.anchored, self.parts.graph(i)
        nodes, entries = self.parts.slices(i)
        p = self.fits.model(i, graph, entries, self.gradient[nodes])
        change = torch.from_numpy(self.block.changes.numpy()[self.first + i][self.rest])
        algorithm.complete(p, self.fits, i, algorithm.count_samples(), change, float(self.noise[i]))
        if self.shares is not None:
            self._keep_shares(i, p, self.shares)
        return graph, p, None

    def _keep_shares(self, i: int, p: AnchoredModel, found: ReadShares) -> None:
        """Give p the shares that the core has found, so that they are not looked for again."""
        algorithm, entries = self.block.anchored, self.parts.slices(i)[1]
        config = getattr(algorithm, "_explainer_config", None)
        of = of_mask(getattr(config, "node_mask_type", None))
        moves = Moves(p.graph, algorithm.neighborhood, of)
        _, count, mirrors = found.counts[i].tolist()
        eps = torch.from_numpy(self.block.tables[1][self.parts.row[entries], :count]).T
        both = torch.from_numpy(found.changes[i, :, :count])
        draws = additive.Draws(moves.of(Perturbations(p.graph, None, eps)), both[0], both[1] if mirrors else None)
        shares = found.additive(i, entries, moves)
        readings.keep_shares(p, shares, draws, seed=algorithm.seed, pairs=algorithm.pairs, of=of)


class AnchoredBlock(Block):
    """A block of nodes for AnchoredKEC: KEC's, and the perturbations in which shares are found."""

    rooms = 4
    proves_parts = True

    def __init__(self, algorithm: AnchoredKEC, joint: Target, nodes: Sequence[int]) -> None:
        super().__init__(algorithm, joint, nodes)
        self.anchored, part, near = algorithm, joint.computation_graph, algorithm.neighborhood
        self.kinds = np.array([CODES[kind] for kind in algorithm.kinds_for(joint)])
        self.is_symmetric = near.is_symmetric(part)
        slopes, draws = (readings.SLOPES, readings.SAMPLES) if algorithm.reading == "share" else (0, 0)
        # The last row is that of the loops that F does not depend on, which never move.
        self.tables = np.zeros((part.num_edges + 1, slopes)), np.zeros((part.num_edges + 1, draws))
        seeds = readings.seed_of_slopes(algorithm.seed), readings.seed_of_draws(algorithm.seed)
        size = max(1, CHUNK_BYTES // (16 * part.num_edges))
        with stage("sampling"):
            for table, seed in zip(self.tables, seeds, strict=True):
                for start in range(0, table.shape[1], size):
                    eps = near.sample(part, min(size, table.shape[1] - start), seed, start).edges
                    assert eps is not None
                    table[:-1, start : start + size] = eps.T.numpy()
        moments = near.edge_moments(part)
        self.moments = None if moments is None else with_still_row(moments)

    @staticmethod
    def count_columns(algorithm: Any) -> int:
        """Return how many numbers of an entry of A a block holds."""
        more: int = readings.SLOPES + readings.SAMPLES if algorithm.reading == "share" else 0
        return int(algorithm.count_samples()) + 1 + more

    @staticmethod
    def limit_batch(algorithm: Any, first: Target) -> tuple[int, int]:
        """Return how many entries of A, and how many features, a batch may have, so that its gradients fit."""
        points = len(split_samples(algorithm.count_samples())[0]) + 1
        return CHUNK_BYTES // (32 * points * (first.width() + 1)), 2**21

    @staticmethod
    def count_bytes(algorithm: Any, nodes: Int64, entries: Int64, num_hops: int) -> Int64:
        """Return what it takes to fit each of some parts."""
        count, drawn = algorithm.count_samples() + 1, readings.SAMPLES if algorithm.reading == "share" else 0
        taken: Int64 = 8 * count * ((2 * num_hops + 6) * nodes + 5 * entries) + 8 * 6 * drawn * entries
        return taken

    def fit(
        self,
        parts: Parts,
        first: int,
        proven: NDArray[np.bool_],
        pool: ThreadPoolExecutor | None = None,
        num_threads: int = 1,
    ) -> Callable[[], AnchoredBatch]:
        """Begin the fits of some nodes, from number ``first`` in the block on; return a function that finishes them.

        What is proven of them is found here.
        """
        asked, rest = split_samples(self.anchored.count_samples())
        own, mean, slopes, noise = self._differentiate(parts, first, proven, asked)
        width, count = parts.whole.num_features, len(parts)
        fits = Fits.of_size(count, len(parts.nodes), len(parts.row), self.num_hops, width, len(rest))
        x, row = self.features, self.rows.of_nodes(parts.nodes)
        given = parts.node_start, parts.entry_start, parts.num_visible, row, parts.hop, parts.ends, parts.row
        values, changes = self.values.numpy(), self.changes.numpy()[first : first + len(parts)]
        options = self.num_hops, self.kinds, self.anchored.neighborhood.drops_edges, noise
        what = given, values, x, changes, (asked, rest), slopes, mean, parts.felt, options, CONSTANTS, tuple(fits)
        sizes, pieces = np.diff(parts.entry_start), 8 * num_threads if pool else 1
        work = cut(np.flatnonzero(proven), sizes[proven], pieces)
        begun = Shares(lambda some: core.anchor_parts(some, *what), work, pool, num_threads - 1)

        def finish() -> AnchoredBatch:
            shares = None
            with stage("solve"):
                begun.finish()
                sound = fits.sound
                sound &= proven & _are_measurable(changes[:, rest], fits.rests)
                if self.anchored.reading == "share":
                    arguments, shares = self._prepare_shares(parts, fits, (given, values, rest, parts.felt))
                    some = cut(np.flatnonzero(sound), sizes[sound], pieces)
                    Shares(lambda some: core.read_parts(some, *arguments), some, pool, num_threads - 1).finish()
            seen = _multiply_rows(parts, own)
            errors = np.square(fits.fitted - changes[:, rest]).mean(axis=1)
            scores, kind = fits.scores if shares is None else shares.scores, KINDS[int(self.kinds[0])]
            of_kec = parts, kind, sound, seen, seen, np.ones_like(seen), scores, errors
            return AnchoredBatch(*of_kec, {}, self, first, rest, own, noise, fits, shares)

        return finish

    def _differentiate(
        self, parts: Parts, first: int, proven: NDArray[np.bool_], asked: Int64
    ) -> tuple[Float64, Float64, Float64, Float64]:
        """Return F's gradient for X at the graph as it is, its mean at 1 + S' points, both [n, d], and those for A.

        The latter are [e, 1 + S']. Also returned is the mean square of F's rounding on each part, [b]. A part where the
        model does not give what it gives on the whole graph is not proven.
        """
        nodes, count = np.zeros((len(parts.nodes), parts.whole.num_features)), len(parts)
        nothing = nodes, nodes, np.zeros((len(parts.row), 1 + len(asked))), np.zeros(count)
        if not proven.any():
            return nothing
        labels = None if self.joint.labels is None else self.joint.labels[first : first + count]
        dtype, values = self.joint.computation_graph.weight.dtype, self.values
        row = torch.from_numpy(parts.row)
        try:
            with stage("subgraph"), torch.no_grad():
                target, order, entries = put_side_by_side(self.joint, parts, values[row, 0].to(dtype), labels)
                proven &= self.joint.is_right_at(first, target.own_rows).numpy()
            if not proven.any():
                return nothing
            with stage("sensitivity"):
                points = torch.from_numpy(np.concatenate(([0], 1 + asked)))
                weight = values[row[torch.from_numpy(entries)]][:, points].T.contiguous()
                own, average, by_entry = slopes_at(target, weight)
        except Exception:  # The user's forward may raise anything on a graph that it was not made for.
            proven[:] = False
            return nothing
        gradients, slopes = [], np.empty((len(parts.row), len(points)))
        for part in (own, average):
            back = np.empty(part.shape)
            back[order] = part.numpy()
            gradients.append(back)
        slopes[entries] = by_entry.T.numpy()
        return gradients[0], gradients[1], slopes, self._find_noise(parts, target, order)

    def _find_noise(self, parts: Parts, target: Target, order: Int64) -> Float64:
        """Return the mean square of F's rounding on each part, [b], as :class:`Target` has it for one node alone."""
        dtype = self.joint.computation_graph.x.dtype
        if not self.joint.is_large:
            return np.full(len(parts), rounding_square(self.joint.scale, dtype))
        output = target.call.output.detach()
        size = np.empty(len(order))
        size[order] = output.reshape(len(output), -1).double().nan_to_num(0.0, 0.0, 0.0).abs().amax(dim=1).numpy()
        return np.array([rounding_square(scale, dtype) for scale in np.maximum.reduceat(size, parts.node_start[:-1])])

    def _prepare_shares(self, parts: Parts, fits: Fits, given: tuple[Any, ...]) -> tuple[tuple[Any, ...], ReadShares]:
        """Return what the core needs to read shares off p, and the arrays that it writes them into.

        Parts for which that is not possible are not sound. Entries that stay keep their slope.
        """
        near, count, sound = self.anchored.neighborhood, len(parts), fits.sound
        if self.moments is None:  # They would have to be estimated for every part by itself.
            sound[:] = False
        moments = self.moments or tuple(np.zeros(len(self.values)) for _ in range(3))
        unit, num_units = _number_units(parts, near.units(self.joint.computation_graph), moments)
        felt = np.bincount(parts.part_of_entry[parts.felt], minlength=count)
        counts = np.zeros((count, 3), np.int64)
        for i in np.flatnonzero(sound).tolist():
            mirrors = self.is_symmetric or near.is_symmetric(parts.graph(i))
            slopes = readings.count_slopes(max(1, int(felt[i])))
            drawn = readings.count_samples(near, max(1, int(felt[i])), int(num_units[i]))
            counts[i] = (0 if slopes < 2 else slopes // 2 if mirrors else slopes), drawn, mirrors
        sound &= (counts[:, 1] > 0) & (num_units > 0)
        # Entries whose message reaches nothing that F is read from only add to the degree of their sink.
        hop = parts.hop[parts.node_start[parts.part_of_entry] + parts.ends[1]]
        outer = np.where((hop >= parts.num_hops) & (parts.own_node < 0), parts.whole_ends[1], -1)
        shares, stderr, excess = fits.scores.copy(), np.zeros(len(parts.row)), np.zeros(count)
        changes = np.zeros((count, 2, self.tables[1].shape[1]))
        constants = *OF_SHARES, readings.HELD
        units, found = (unit, num_units, outer), (shares, stderr, excess, changes)
        arguments = *given, units, self.tables, moments, counts, constants, select_for_shares(fits), found
        return arguments, ReadShares(shares, stderr, excess, changes, counts)


def _multiply_rows(parts: Parts, gradient: Float64) -> Float64:
    """Return sum_c x_c g_c for every node of the parts, [n, 1]."""
    found, graph = np.empty((len(parts.nodes), 1)), parts.whole
    size = max(1, CHUNK_BYTES // (8 * graph.num_features))
    for start in range(0, len(found), size):
        rows = graph.features(parts.nodes[start : start + size]).double().numpy()
        found[start : start + size, 0] = np.einsum("nc,nc->n", rows, gradient[start : start + size])
    return found


def _number_units(parts: Parts, units: Tensor | None, moments: tuple[Float64, ...]) -> tuple[Int64, Int64]:
    """Return the unit of each entry of A in its part, [e], -1 if it stays; and how many units each part has, [b].

    ``units`` has the unit of each entry of the block; without it, every entry that moves is one.
    """
    _, spread, common = moments
    moved = np.flatnonzero((spread + np.square(common) > 0)[parts.row])
    part, unit = parts.part_of_entry[moved], np.full(len(parts.row), -1)
    # In the order of the entries, a unit has the number of its first entry.
    code = moved if units is None else part * (len(units) + 1) + units.numpy()[parts.row[moved]]
    _, begin, which = np.unique(code, return_index=True, return_inverse=True)
    rank = np.empty_like(begin)
    rank[np.argsort(begin, kind="stable")] = np.arange(len(begin))
    num_units = np.bincount(part[begin], minlength=len(parts))
    before = np.concatenate(([0], np.cumsum(num_units)[:-1]))
    unit[moved] = rank[which] - before[part]
    return unit, num_units


def _are_measurable(changes: Float64, rests: Float64) -> NDArray[np.bool_]:
    """Return whether fourth powers of F's changes and of what is left of them are normal numbers, [b]."""
    largest = np.maximum(np.abs(changes).max(axis=1), np.abs(rests).max(axis=1))
    least, most = MEASURABLE
    able: NDArray[np.bool_] = (largest > least) & (largest < most)
    return able


def _estimate_each(rests: Float64, changes: Float64) -> tuple[Float64, Float64, Float64, Float64]:
    """Return Delta and Delta / Delta(0), each with its standard error, as :func:`estimate_unfaithfulness` does.

    There is one of each for each part. F changes by more than its rounding on all of them, and there are several
    samples; others are not sound.
    """
    errors, own, count = np.square(rests), np.square(changes), rests.shape[1]
    value, zero = errors.mean(axis=1), own.mean(axis=1)
    relative = value / zero
    spreads = (
        np.square(errors - centre).sum(axis=1) / (count - 1) / count
        for centre in (value[:, None], relative[:, None] * own)
    )
    stderr, relative_stderr = map(np.sqrt, spreads)
    return value, stderr, relative, relative_stderr / zero
