"""KEC and AnchoredKEC explain many nodes together where features move: what that takes beside a block of edges.

A perturbation of a feature is a function of (seed, sample, node, column), so it is the same in every computation graph
that has the node. F of all nodes of a block comes from forward passes on their joint computation graph, some samples
at a time, and perturbed features are dropped after each. The features of the fit,
:math:`e^\\top N(A^k) \\epsilon_X` of every node, are then the product of one sparse matrix, which has the rows
:math:`e^\\top N(A^k)` of a batch of nodes, with the perturbations of all nodes in their reach, each drawn once.
AnchoredKEC is fitted to one node after the other, several at a time, from the changes of F that are known already.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base.memory import CHUNK_BYTES
from .._base.shares import Shares
from .._base.stages import stage
from .._base.threads import one_thread
from ..explanation.masks import of_mask
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Int64
from ..graph.parts import Parts
from ..model.side_by_side import put_alone
from ..model.target import Target
from ..surrogate.coordinates import Coordinates
from ..surrogate.difference import AnchoredModel, KHopModel
from ..surrogate.sensitivity import RANK
from ..surrogate.walks import Normalization, khop_rows
from .anchored_kec import split_samples
from .columns import StrongestColumns
from .records import ESTIMATES, estimates_of
from .sweep import NODES, Batch, Block

_DRAWN = 2**20  # perturbed features that a thread draws at once: few enough to stay in its cache


class Reach:
    """The nodes whose features are seen by any of some computation graphs, each of them once.

    Args:
        parts: the computation graphs.
        wanted: the numbers of those that count.
    """

    def __init__(self, parts: Parts, wanted: Int64) -> None:
        starts, counts = parts.node_start[wanted], parts.num_visible[wanted]
        self.starts = np.concatenate(([0], np.cumsum(counts)))  # where the places of each graph's nodes are
        within = np.arange(self.starts[-1]) - np.repeat(self.starts[:-1], counts)
        nodes = parts.nodes[np.repeat(starts, counts) + within]
        self.nodes, self.places = np.unique(nodes, return_inverse=True)
        count = len(self.nodes)
        # Draws depend on ids in the whole graph alone, so that no edges are needed here.
        self.graph = ComputationGraph.of_part(
            parts.whole,
            self.nodes,
            np.zeros(count, np.int64),
            count,
            np.zeros(0, np.int64),
            np.zeros((2, 0), np.int64),
            0,
            parts.num_hops,
            parts.loop_weight,
        )

    def of(self, i: int) -> Int64:
        """Return the places of the visible nodes of graph number i among all nodes."""
        found: Int64 = self.places[self.starts[i] : self.starts[i + 1]]
        return found


class FeatureBlock(Block):
    """A block of nodes for KEC in a neighbourhood that moves features, alone or together with edges."""

    rooms = 2

    @staticmethod
    def limit_batch(algorithm: Any, first: Target) -> tuple[int, int, int]:
        """Return how many nodes, entries of A and features a batch may have, so that the features of its fits fit."""
        numbers = len(algorithm.kinds) * algorithm.count_samples() * first.num_hops
        room = 2 * CHUNK_BYTES if algorithm.max_memory is None else min(2 * CHUNK_BYTES, algorithm.max_memory // 8)
        size = max(4, first.computation_graph.x.element_size())
        return max(1, room // (size * numbers * first.graph.num_features)), max(1, room // (8 * numbers)), 2**22

    @staticmethod
    def count_bytes(algorithm: Any, nodes: Int64, entries: Int64, num_hops: int, width: int) -> Int64:
        """Return what it takes to fit each of some parts."""
        samples, kinds = algorithm.count_samples(), len(algorithm.kinds)
        walks = 8 * (samples if algorithm.neighborhood.perturbs_edges else 1) * (3 * num_hops + 7) * kinds
        taken: Int64 = 8 * 3 * kinds * samples * num_hops * width + (walks + 24 * width) * nodes + 64 * entries
        return taken

    def fit(
        self,
        parts: Parts,
        first: int,
        proven: NDArray[np.bool_],
        pool: ThreadPoolExecutor | None = None,
        num_threads: int = 1,
    ) -> Callable[[], Batch]:
        """Begin the fits of some nodes, from number ``first`` in the block on, if they are ``proven``.

        Return a function that finishes them. The threads of the pool and the one that calls it share the work.
        """
        algorithm, hops, kinds = self.algorithm, self.num_hops, self.algorithm.kinds
        wanted, count, width = np.flatnonzero(proven), algorithm.count_samples(), parts.whole.num_features
        nodes, nothing = len(parts.nodes), np.zeros(len(parts))
        rows, products = np.zeros((nodes, hops)), np.zeros((nodes, hops))
        others: dict[int, KHopModel] = {}
        with stage("features"):
            graphs = [parts.graph(i) for i in wanted.tolist()]
            # The first of these rows are those of the unperturbed graph, the others, if edges move, of the samples.
            walks = [
                [khop_rows(graph, self._weight(parts, i), hops, kind) for kind in kinds]
                for graph, i in zip(graphs, wanted.tolist(), strict=True)
            ]
            reach = Reach(parts, wanted)
            dtype = reach.graph.x.dtype if reach.graph.x.dtype == torch.float64 else torch.float32
            matrices = _Rows(reach, graphs, walks, dtype)
            phi = torch.empty(len(wanted), len(kinds), count, hops * width, dtype=dtype)

        def carry(samples: Int64) -> None:
            with stage("sampling"):
                eps = algorithm.neighborhood.features(reach.graph, samples, algorithm.seed)
            assert eps is not None
            with stage("features"):
                for sample, moved in zip(samples.tolist(), eps.to(dtype), strict=True):
                    phi[:, :, sample] = matrices.times(sample, moved).view(len(graphs), len(kinds), -1)

        def fit_one(number: int) -> None:
            i = int(wanted[number])
            coordinates = Coordinates(graphs[number], hops, moved=True)
            own = {kind: both[:, :1].clone() for kind, both in zip(kinds, walks[number], strict=True)}
            features = {
                kind: coordinates.add_to(moved, both) if both.size(1) > 1 else moved
                for kind, both, moved in zip(kinds, walks[number], phi[number], strict=True)
            }
            others[i] = p = algorithm.solve(coordinates, own, features, self.changes[first + i])
            at = parts.slices(i)[0]
            rows[at], products[at] = p.rows[:, 0].T.numpy(), p.products.numpy()
            nothing[i] = 0.0 if p.in_sample_error is None else p.in_sample_error

        size = max(1, _DRAWN // max(1, reach.graph.x.numel()))
        pieces = [np.arange(start, min(count, start + size)) for start in range(0, count if graphs else 0, size)]
        begun = Shares(carry, pieces, pool, num_threads - 1)

        def finish() -> Batch:
            with torch.inference_mode(False), one_thread():
                begun.finish()
                with stage("solve"):
                    Shares(fit_one, range(len(graphs)), pool, num_threads - 1).finish()
            scores = np.zeros(len(parts.row))
            return Batch(parts, kinds[0], proven, rows, rows, products, scores, nothing, others, self, first)

        return finish

    def _weight(self, parts: Parts, i: int) -> Tensor:
        """Return the entries of A of part number i, as they are and, if edges move, in all samples, [1 + S, e]."""
        return self.values[torch.from_numpy(parts.row[parts.slices(i)[1]])].T


@dataclass(frozen=True)
class AnchoredFeatureBatch(Batch):
    """The fits of some nodes by AnchoredKEC where features move."""

    models: dict[int, AnchoredModel]

    def records(self, chosen: slice, with_nodes: bool, top_features: int = 0) -> dict[str, NDArray[Any]]:
        """Return pieces of the arrays of :class:`~graphfaith.explainers.records.Records` for a run of proven nodes."""
        found, algorithm = super().records(chosen, with_nodes, top_features), self._algorithm
        models = [self.models[i] for i in range(chosen.start, chosen.stop)]
        known = [estimates_of(algorithm.details(p)["estimate"]) for p in models]
        found |= {name: np.array([one[name] for one in known]) for name in ESTIMATES}
        errors = [algorithm.errors(p)[1] for p in models]
        felt = [p.graph.felt.numpy() for p in models]
        found["score_stderr"] = np.concatenate(
            [
                np.full(int(own.sum()), np.nan) if error is None else error.detach().double().numpy()[own]
                for own, error in zip(felt, errors, strict=True)
            ]
        )
        return found

    def _columns(self, block: Block, chosen: slice, most: int) -> dict[str, NDArray[Any]]:  # noqa: ARG002
        """Return pieces of the arrays of records that are about the strongest columns of X."""
        algorithm, found = self._algorithm, StrongestColumns.none(len(self), most)
        # Errors of single features say nothing of their sum.
        has_errors = of_mask(algorithm.explainer_config.node_mask_type) == "column"
        for i in range(chosen.start, chosen.stop) if most else ():
            p = self.models[i]
            errors = algorithm.errors(p)[0] if has_errors else None
            alone = StrongestColumns.of_one(p.graph, algorithm.scores(p)[0], errors, most, as_mask=False)
            for every, one in zip(found, alone, strict=True):
                every[i] = one[0]
        own = self.parts.nodes[self.parts.node_start[chosen]]
        return found.rows(chosen).records(self.parts.whole.features(own))

    @property
    def _algorithm(self) -> Any:
        assert self.block is not None
        return self.block.algorithm

    def fit(self, i: int) -> tuple[ComputationGraph, AnchoredModel, None] | None:
        """Return the computation graph and p of node number i; None if it is not proven."""
        return (self.models[i].graph, self.models[i], None) if self.proven[i] else None


class AnchoredFeatureBlock(Block):
    """A block of nodes for AnchoredKEC in a neighbourhood that moves features: F's changes are those of the block."""

    rooms = 2

    @staticmethod
    def limit_batch(algorithm: Any, first: Target) -> tuple[int, int, int]:  # noqa: ARG004
        """Return how many nodes, entries of A and features a batch may have, so that every p has room."""
        room = 2 * CHUNK_BYTES if algorithm.max_memory is None else min(2 * CHUNK_BYTES, algorithm.max_memory // 8)
        return NODES, max(1, room // (64 * RANK)), max(1, room // (8 * (RANK + 8)))

    @staticmethod
    def count_bytes(algorithm: Any, nodes: Int64, entries: Int64, num_hops: int, width: int) -> Int64:  # noqa: ARG004
        """Return what it takes to fit each of some parts: gradients at some samples, and a chunk of samples."""
        points = len(split_samples(algorithm.count_samples())[0]) + 1
        chunk = CHUNK_BYTES if algorithm.max_memory is None else min(CHUNK_BYTES, algorithm.max_memory // 8)
        taken: Int64 = 8 * (4 * points + RANK + 8) * (width * nodes + entries) + chunk
        return taken

    def fit(
        self,
        parts: Parts,
        first: int,
        proven: NDArray[np.bool_],
        pool: ThreadPoolExecutor | None = None,
        num_threads: int = 1,
    ) -> Callable[[], AnchoredFeatureBatch]:
        """Begin the fits of some nodes, from number ``first`` in the block on; return a function that finishes them."""
        algorithm: Any = self.algorithm
        wanted, count = np.flatnonzero(proven).tolist(), len(parts)
        models: dict[int, AnchoredModel] = {}
        scores, errors = np.zeros(len(parts.row)), np.zeros(count)
        seen = np.zeros((len(parts.nodes), 1))
        with stage("subgraph"):
            targets = {i: put_alone(self.joint, parts, i, first + i) for i in wanted}

        def fit_one(i: int) -> None:
            models[i] = p = algorithm.fit_given(targets.pop(i), self.changes[first + i])
            nodes, entries = parts.slices(i)
            with stage("gradient"):
                of_x, of_a = algorithm.scores(p)
            scores[entries], errors[i] = of_a.detach().double().numpy(), p.in_sample_error
            seen[nodes, 0] = (p.graph.x.double() * of_x.double()).sum(dim=1).numpy()

        begun = Shares(fit_one, wanted, pool, num_threads - 1)

        def finish() -> AnchoredFeatureBatch:
            with torch.inference_mode(False), one_thread():
                begun.finish()
            kind: Normalization = "symmetric"
            of_kec = parts, kind, proven, seen, seen, np.ones_like(seen), scores, errors
            return AnchoredFeatureBatch(*of_kec, {}, self, first, models)

        return finish


class _Rows:
    """The rows e^T N(A^k) of several computation graphs as one sparse matrix, which may differ between samples.

    ``walks`` has the rows of each graph and normalisation, [M, 1 + S, n], or [M, 1, n] if edges stay.
    """

    def __init__(
        self, reach: Reach, graphs: list[ComputationGraph], walks: list[list[Tensor]], dtype: torch.dtype
    ) -> None:
        self.width, ends, counts, parts = len(reach.nodes), [], [0], []
        for i, (graph, of_kinds) in enumerate(zip(graphs, walks, strict=True)):
            places, hop = reach.of(i), graph.hop[: graph.num_visible].numpy()
            for rows in of_kinds:
                for k, row in enumerate(rows, 1):
                    near = np.flatnonzero(hop <= k)  # Walks of k steps lead no further.
                    ends.append(places[near])
                    counts.append(len(near))
                    after = row if row.size(0) == 1 else row[1:]
                    parts.append(after[:, torch.from_numpy(near)])
        self.starts = np.cumsum(counts)
        self.ends = np.concatenate(ends) if ends else np.zeros(0, np.int64)
        self.values = torch.cat(parts, dim=1).to(dtype).numpy() if parts else np.zeros((1, 0))

    def times(self, sample: int, eps: Tensor) -> Tensor:
        """Return the rows of a sample times perturbed features [n, d], in the order of graphs, kinds and hops."""
        values = self.values[sample if len(self.values) > 1 else 0]
        matrix = scipy.sparse.csr_array((values, self.ends, self.starts), shape=(len(self.starts) - 1, self.width))
        return torch.from_numpy(matrix @ eps.numpy())
