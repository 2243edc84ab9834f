"""KEC and AnchoredKEC explain many nodes together, from one set of perturbed graphs.

A perturbation is a function of (seed, sample, edge), so an edge is perturbed in the same way for all nodes. One forward
pass of the model on a perturbed graph therefore gives F for *every* node. What each node has of its own, its
computation graph, its walks, its small system of equations and its scores, is found by the compiled core, several nodes
at a time on several threads. The results are equal to those of one node at a time, up to the rounding of the model's
arithmetic.

The nodes are divided into blocks, so that the joint computation graph of a block, perturbed ``num_samples`` times, fits
in memory. On a graph as small as Cora there is one block, and its joint computation graph is the whole graph. The
results of a block come in batches of arrays, from which an explanation is made when it is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.explain import Explanation

from .._base import core
from .._base.errors import MemoryLimitError
from .._base.memory import CHUNK_BYTES
from .._base.shares import Shares
from .._base.stages import stage, time_items
from .._base.threads import one_thread
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import NO_LIMIT, Graph, Int64
from ..graph.packed import Column
from ..graph.parts import Parts, Rows
from ..model.call import Call
from ..model.readout import Readout
from ..model.record import Route, evaluating
from ..model.repeated import RepeatedRows
from ..model.target import Target
from ..surrogate.difference import DifferenceModel, KHopModel
from ..surrogate.frame import as_array, is_small, model_of
from ..surrogate.terms import BLOCKS
from ..surrogate.walks import CODES, Float64, Normalization
from . import KEC, AnchoredKEC
from .columns import StrongestColumns
from .records import ESTIMATES

AT_LEAST = 16  # nodes; with fewer nodes, the time saved does not justify the wait for the first explanation
# Times as many where features move: what fewer nodes share takes longer than what they save (benchmarks/together.py).
WITH_FEATURES = 3
_FIRST = 16  # nodes in the first batch, so that the first explanation does not wait for the others
NODES = 2**62  # nodes that are explained in a batch: as many as there are
_ENTRIES = 2**20  # entries of A in a batch
_NUMBERS = 2**24  # features in a batch
_HUGE = 2**31  # bytes; a block whose table of perturbed entries takes more is halved
_ROOM = 2**30  # bytes that all threads may take for walks


# What a sweep does in another way than the methods of an algorithm: one that overrides them is fitted to single nodes.
_OF_BOTH = ("fit", "scores", "errors", "chunks", "target", "_fit", "count_samples", "explanation", "details", "forward")
_OF_KEC = ("solve", "kinds", "_fit_in_core", "_solve_one", "fit_given", "is_compiled")
_OF_ANCHORED = (
    "read",
    "kinds_for",
    "complete",
    "_fit_in_core",
    "_fit_terms",
    "fit_given",
    "_solve",
    "_strength",
    "_chunk_size",
    "_chunks_of",
    "_estimate",
)


def reason_against(algorithm: Any, level: str) -> str | None:
    """Return why ``algorithm`` has to explain nodes one at a time; None if it can explain them together."""
    for known, own in ((KEC, _OF_KEC), (AnchoredKEC, _OF_ANCHORED)):
        used = (*_OF_BOTH, *own)
        if isinstance(algorithm, known) and all(getattr(type(algorithm), n) is getattr(known, n) for n in used):
            break
    else:
        return f"{type(algorithm).__name__} is fitted to one node at a time"
    if not algorithm.neighborhood.by_itself:
        return f"a sample of {algorithm.neighborhood} depends on the edges in reach of a node"
    if level != "node":
        return f"rows of the output are {level}s, not nodes"
    if isinstance(algorithm, AnchoredKEC):
        if algorithm.num_samples == "auto":
            return 'num_samples="auto" is found for one node at a time'
        if algorithm.reading == "effect":
            return "effects are foretold for one entry of A at a time"
        if tuple(algorithm.blocks) != BLOCKS:
            return "only the whole p is fitted to many nodes at once"
    return None


class NodeTarget(NamedTuple):
    """The attributes of a target that an explanation reads, for one node of a block."""

    computation_graph: ComputationGraph
    route: Route
    num_hops: int
    device: torch.device
    baseline: Tensor | None = None  # Categories are explained node by node.


@dataclass(frozen=True)
class Batch:
    """The fits of some nodes: their computation graphs, and what the core has found on each, one after the other."""

    parts: Parts
    kind: Normalization
    proven: NDArray[np.bool_]  # [b] whether the model's output on the part is that on the whole graph
    rows: Float64  # [n, M] e^T N(A^k)
    beta: Float64  # [n, M] with w_k = X^T beta_k
    products: Float64  # [n, M] X w_k
    scores: Float64  # [e] the gradient of p with respect to A
    errors: Float64  # [b] Delta(p) on the samples of the fit
    others: dict[int, KHopModel]  # the optimum of parts that the core does not solve
    block: Block | None  # None if nothing is known of the nodes
    first: int  # the number of the first node in the block

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.parts)

    @classmethod
    def unproven(cls, parts: Parts, algorithm: Any) -> Batch:
        """Return a batch of which nothing is known, so that its nodes are explained alone."""
        nodes, entries, nothing = np.zeros((len(parts.nodes), 0)), np.zeros(len(parts.row)), np.zeros(len(parts))
        kind: Normalization = "symmetric" if algorithm.normalization == "auto" else algorithm.normalization
        return cls(parts, kind, nothing.astype(bool), nodes, nodes, nodes, entries, nothing, {}, None, 0)

    def runs(self) -> Iterator[slice]:
        """Yield the longest runs of nodes that are all proven or all not."""
        edges = (0, *(np.flatnonzero(np.diff(self.proven)) + 1).tolist(), len(self))
        yield from (slice(a, b) for a, b in pairwise(edges))

    def records(self, chosen: slice, with_nodes: bool, top_features: int = 0) -> dict[str, NDArray[Any]]:
        """Return pieces of the arrays of :class:`~graphfaith.explainers.records.Records` for a run of proven nodes."""
        parts, block = self.parts, self.block
        assert block is not None
        node_start, entry_start = (
            start[chosen.start : chosen.stop + 1] for start in (parts.node_start, parts.entry_start)
        )
        nodes, entries = slice(node_start[0], node_start[-1]), slice(entry_start[0], entry_start[-1])
        scores = self.scores[entries].copy()
        for i, p in self.others.items():
            if chosen.start <= i < chosen.stop:
                own = parts.slices(i)[1]
                scores[own.start - entries.start : own.stop - entries.start] = p.gradient()[1].numpy()
        of_nodes = np.repeat(np.arange(chosen.start, chosen.stop), np.diff(node_start))
        place = np.arange(nodes.start, nodes.stop) - parts.node_start[of_nodes]
        visible = (place < parts.num_visible[of_nodes]) & with_nodes
        felt, of_entries = parts.felt[entries], parts.part_of_entry[entries]
        source, sink = parts.whole_ends[:, entries]
        unknown = np.full(chosen.stop - chosen.start, np.nan)
        own = slice(self.first + chosen.start, self.first + chosen.stop)
        return {
            "value": block.own_values[own],
            "label": block.labels[own],
            "edge_start": np.bincount(of_entries[felt] - chosen.start, minlength=len(unknown)),
            "source": source[felt],
            "sink": sink[felt],
            "edge_id": parts.edge_id[entries][felt],
            "score": scores[felt],
            "score_stderr": np.full(int(felt.sum()), np.nan),
            "node_start": np.bincount(of_nodes[visible] - chosen.start, minlength=len(unknown)),
            "node": parts.nodes[nodes][visible],
            "node_score": (self.rows[nodes] * self.products[nodes]).sum(axis=1)[visible],
            "in_sample_error": self.errors[chosen],
            "samples": np.full(len(unknown), float(block.algorithm.count_samples())),
            **dict.fromkeys(ESTIMATES, unknown),
            **self._columns(block, chosen, top_features),
        }

    def _columns(self, block: Block, chosen: slice, most: int) -> dict[str, NDArray[Any]]:
        """Return pieces of the arrays of records that are about the strongest columns of X."""
        parts, found = self.parts, StrongestColumns.none(len(self), most)
        if most:
            wanted = np.array([i for i in range(chosen.start, chosen.stop) if i not in self.others], dtype=np.int64)
            if len(wanted):
                given = parts.node_start, parts.num_visible, block.rows.of_nodes(parts.nodes), block.features
                core.find_strongest_columns(wanted, *given, self.slopes, tuple(found[:3]))
            for i, p in self.others.items():
                if chosen.start <= i < chosen.stop:
                    alone = StrongestColumns.of_one(p.graph, p.gradient_x(), None, most, as_mask=False)
                    for every, one in zip(found, alone, strict=True):
                        every[i] = one[0]
        return found.rows(chosen).records(parts.whole.features(parts.nodes[parts.node_start[chosen]]))

    @property
    def slopes(self) -> tuple[Float64, Float64, Float64]:
        """The gradient of p with respect to X, [n, d], or nothing and then its rows e^T N(A^k) and beta, [n, M]."""
        return np.zeros((0, 0)), self.rows, self.beta

    def fit(self, i: int) -> tuple[ComputationGraph, DifferenceModel, tuple[Tensor, Tensor] | None] | None:
        """Return the computation graph, p and its scores, if they are known, of node number i; None if not proven."""
        if not self.proven[i]:
            return None
        if i in self.others:
            return self.others[i].graph, self.others[i], None
        part = self.parts.graph(i)
        nodes, entries = self.parts.slices(i)
        p = model_of(
            part,
            torch.from_numpy(self.rows[nodes].T.copy()).unsqueeze(1),
            self.beta[nodes],
            float(self.errors[i]),
            self.kind,
        )
        edges = torch.from_numpy(self.scores[entries].copy())
        edges[~part.felt] = 0
        return part, p, (p.gradient_x(), edges)


class Sweep:
    """KEC's explanations of many nodes of one graph.

    ``first`` is the target of one of the nodes, with which the reach of the model was checked. The arguments after it
    are those of :meth:`FaithfulExplainer.target`.
    """

    def __init__(
        self,
        algorithm: KEC,
        first: Target,
        x: Tensor | Graph,
        edge_index: Tensor | None,
        labels: Tensor | Column | None,
        kwargs: dict[str, Any],
        kind: type[Block] | None = None,
    ) -> None:
        self.algorithm, self.first = algorithm, first
        self.kind = Block if kind is None else kind
        self._arguments = x, edge_index, labels, kwargs
        self.num_threads = torch.get_num_threads()  # as many nodes are fitted at a time

    def explanations(self, nodes: Sequence[int]) -> Iterator[Explanation | None]:
        """Yield the explanation of each of ``nodes``, without the fields that PyG adds.

        It is None if the model's output at the node on the node's computation graph differs from that on the whole
        graph. The caller must explain such a node alone.
        """
        for batch in self.batches(nodes):
            for i in range(len(batch)):
                fit = batch.fit(i)
                yield None if fit is None else self._explanation(*fit)

    def batches(self, nodes: Sequence[int], *, ahead: bool = False) -> Iterator[Batch]:
        """Yield the fits of ``nodes``, a batch at a time, in their order.

        If ``ahead``, the next batch has begun when one is yielded, so that all threads have something to do. The model
        must not change in between. Otherwise nothing is computed before it is asked for, and the first batch is small.
        """
        size, helpers = self._block_size(nodes), self.num_threads - 1
        with ThreadPoolExecutor(helpers) if helpers else nullcontext() as pool:
            begun: deque[Callable[[], Batch]] = deque()
            for start in range(0, len(nodes), size):
                for batch in self._fit_block(nodes[start : start + size], pool, 0 if ahead else _FIRST):
                    begun.append(batch)
                    if len(begun) > ahead:
                        yield begun.popleft()()
            for batch in begun:
                yield batch()

    def _block_size(self, nodes: Sequence[int]) -> int:
        """Return how many nodes a block may have, so that its entries of A in all samples fit in memory."""
        graph, room = self.first.graph, self.kind.rooms * CHUNK_BYTES
        if self.algorithm.max_memory is not None:
            room = min(room, self.algorithm.max_memory // 4)
        entries = room // (8 * self.kind.count_columns(self.algorithm))
        rows = graph.num_nodes
        if self.algorithm.neighborhood.perturbs_features:  # One sample of all features must fit, in several copies.
            rows = room // (6 * max(4, self.first.computation_graph.x.element_size()) * graph.num_features)
        if graph.num_nodes + graph.num_edges <= entries and graph.num_nodes <= rows:
            return len(nodes)
        chosen = nodes[:: max(1, len(nodes) // 16)]
        # A node that alone exceeds max_memory is refused later, and tells nothing of the others.
        while not len(parts := self._parts(chosen, largest=self.first.most_entries)):
            chosen = chosen[1:]
            if not len(chosen):
                return 1
        most = entries * len(parts) // int(parts.entry_start[-1])
        if graph.num_nodes > rows:
            most = min(most, rows * len(parts) // int(parts.node_start[-1]))
        return self._grow_block(nodes, max(1, most), entries, rows)

    def _grow_block(self, nodes: Sequence[int], size: int, entries: int, rows: int) -> int:
        """Return how many nodes a block may have if its joint computation graph fits: ``size``, or more.

        Nodes that follow on each other often have neighbours in common, so that their joint graph is far smaller than
        all of their computation graphs. It is looked at in three places, and a walk that finds too much ends at once.
        """
        call, graph, hops = self.first.call, self.first.graph, self.first.num_hops
        depth = hops if call.degrees is not None else hops - 1

        def fits(count: int) -> bool:
            last = len(nodes) - count
            for start in sorted({0, last // 2, last}):
                seeds = np.unique(np.fromiter(nodes[start : start + count], dtype=np.int64))
                try:
                    part = graph.find_part(seeds, hops, depth, out_degrees=call.degrees == "out", most=entries)
                except MemoryLimitError:
                    return False
                # A part also has a self-loop for every node, and one node that stands for those further away.
                many = len(part.nodes) + 1
                if many > rows or many + len(part.edges) > entries:
                    return False
            return True

        growing = True
        while growing and size < len(nodes):
            tried = (min(part * size // 4, len(nodes)) for part in (8, 6, 5))
            larger = next((count for count in tried if count > size and fits(count)), size)
            growing, size = larger > size, larger
        return size

    def _parts(self, nodes: Sequence[int], block: Block | None = None, largest: int = NO_LIMIT) -> Parts:
        """Return the computation graphs of nodes, of as many as a batch takes.

        With a block, they also say where the values of their entries are in it. There is none that has more than
        ``largest`` nodes and edges, and none after it.
        """
        call, graph = self.first.call, self.first.graph
        most, entries, numbers = self.kind.limit_batch(self.algorithm, self.first)
        if self.algorithm.max_memory is not None:
            room = self.algorithm.max_memory // 16
            entries, numbers = min(entries, room // 64), min(numbers, room // 8)
        return Parts.around(
            graph,
            nodes[:most],
            self.first.num_hops,
            degrees=call.degrees == "in",
            out_degrees=call.degrees == "out",
            loop_weight=call.loop_weight,
            rows=None if block is None else block.rows,
            most=(max(1, numbers // graph.num_features), max(1, entries)),
            largest=largest,
        )

    def _fit_block(
        self, nodes: Sequence[int], pool: ThreadPoolExecutor | None, first: int
    ) -> Iterator[Callable[[], Batch]]:
        """Begin the batches of a block of nodes, the first of them with at most ``first`` nodes if that is not 0.

        Each is finished by a call of what is yielded. If memory does not suffice, the block is halved.
        """
        try:
            with torch.inference_mode(False), evaluating(self.first.model), one_thread():
                target, block = self._target(nodes), None
                if not self._is_huge(target):
                    block = self.kind(self.algorithm, target, nodes)
                elif len(nodes) > 1:
                    raise MemoryLimitError(f"the computation graphs of {len(nodes)} nodes do not fit in one table")
        except MemoryLimitError:
            if len(nodes) == 1:
                raise
            half = len(nodes) // 2
            yield from self._fit_block(nodes[:half], pool, first)
            yield from self._fit_block(nodes[half:], pool, first)
            return
        if block is None:
            # Such a node is explained alone, a chunk of samples at a time. Nothing is yielded while this thread holds
            # the model: the batch before may need it to be finished, in other threads.
            yield lambda: Batch.unproven(self._parts(nodes), self.algorithm)
            return
        start = 0
        while start < len(nodes):
            count, batch = self._fit_batch(block, nodes, start, first if start == 0 and first else len(nodes), pool)
            yield batch
            start += count

    def _is_huge(self, target: Target) -> bool:
        """Return whether the table of a block would be huge, because a hub in it reaches most of a large graph."""
        return 8 * self.kind.count_columns(self.algorithm) * target.computation_graph.num_edges > _HUGE

    def _fit_batch(
        self, block: Block, nodes: Sequence[int], start: int, count: int, pool: ThreadPoolExecutor | None
    ) -> tuple[int, Callable[[], Batch]]:
        """Begin the fits of at most ``count`` nodes of a block, from number ``start`` on: as many as a batch takes.

        Return how many they are, and a function that finishes them.
        """
        with torch.inference_mode(False), evaluating(self.first.model) as record, one_thread():
            with stage("subgraph"), torch.no_grad():
                parts = self._parts(nodes[start : start + count], block)
                proven = np.zeros(len(parts), dtype=bool)
                # If the joint graph was cut out for other degrees than the graphs of single nodes, it may not contain
                # them. If the model has changed since the block was evaluated, nothing is known of it.
                if block.joint.call.degrees in (None, self.first.call.degrees) and record is block.joint.record:
                    if self.kind.proves_parts:
                        proven[:] = True
                    else:
                        self._run_on_parts(parts, nodes[start : start + len(parts)], block, start, proven)
                proven &= self._fits_in_memory(parts)
            return len(parts), block.fit(parts, start, proven, pool, self.num_threads)

    def _fits_in_memory(self, parts: Parts) -> NDArray[np.bool_]:
        """Return which parts all threads may fit at the same time; others are explained alone, a chunk at a time."""
        sizes = np.diff(parts.node_start), np.diff(parts.entry_start)
        width = parts.whole.num_features
        needed = self.kind.count_bytes(self.algorithm, *sizes, self.first.num_hops, width) * self.num_threads
        fits: NDArray[np.bool_] = needed <= (
            _ROOM if self.algorithm.max_memory is None else self.algorithm.max_memory // 2
        )
        return fits

    def _run_on_parts(
        self, parts: Parts, nodes: Sequence[int], block: Block, start: int, proven: NDArray[np.bool_]
    ) -> None:
        """Run the model on each node's computation graph, and write into ``proven`` where its output is the right one.

        Nodes have the numbers from ``start`` on in the block. It is not proven where the model raises.
        """
        like, joint = self.first, block.joint
        kwargs = like.readout.kwargs
        if (
            like.route == "weight"
            and like.call.loop_weight is not None
            and not any(map(torch.is_tensor, kwargs.values()))
        ):
            # Unconnected parts form one graph, so that one call of the model is enough.
            ends = torch.from_numpy(parts.ends + np.repeat(parts.node_start[:-1], np.diff(parts.entry_start)))
            weight = block.values[:, 0][torch.from_numpy(parts.row)].to(joint.computation_graph.weight.dtype)
            edges = ends if like.graph.flow == "source_to_target" else ends.flip(0)
            # The user's forward may raise any exception. In that case the features are written out, which some code
            # needs, and then the parts are tried one by one.
            for x in _features(like.graph, parts.nodes):
                with suppress(Exception):
                    out = like.call.ask(x, edges, {"edge_weight": weight, **kwargs})
                    out = out[torch.from_numpy(parts.node_start[:-1])]
                    proven[:] = joint.is_right_at(start, out).numpy()
                    return
        for i, node in enumerate(nodes):
            row = torch.tensor([node])
            readout = Readout(like.task, like.graph, kwargs, like.graph.num_nodes, node, row)
            with suppress(Exception):
                part, loop_weight = parts.graph(i), like.call.loop_weight
                call = Call(like.model, like.record, like.task, readout, part, loop_weight, like.route)
                proven[i] = bool(joint.is_right_at(start + i, call.output[call.rows]).all())

    def _target(self, nodes: Sequence[int]) -> Target:
        x, edge_index, labels, kwargs = self._arguments
        with stage("subgraph"):
            return self.algorithm.target(self.first.model, x, edge_index, torch.tensor(nodes), labels, kwargs)

    def _explanation(
        self, part: ComputationGraph, p: DifferenceModel, scores: tuple[Tensor, Tensor] | None
    ) -> Explanation:
        target = NodeTarget(part, self.first.route, self.first.num_hops, self.first.device)
        return self.algorithm.explanation(target, p, scores)


class Block:
    """A block of nodes: the perturbed entries of A of their joint computation graph, and F's changes at every node.

    ``joint`` is the target of all ``nodes``, in the same order.
    """

    rooms = 1  # times CHUNK_BYTES is for the entries of A in all samples
    proves_parts = False  # whether ``fit`` itself compares the model's output on a part with that on the whole graph

    @staticmethod
    def count_columns(algorithm: Any) -> int:
        """Return how many numbers of an entry of A a block holds."""
        return int(algorithm.count_samples()) + 1 if algorithm.neighborhood.perturbs_edges else 1

    @staticmethod
    def limit_batch(algorithm: Any, first: Target) -> tuple[int, int, int]:  # noqa: ARG004
        """Return how many nodes, entries of A and features a batch may have."""
        return NODES, _ENTRIES, _NUMBERS

    @staticmethod
    def count_bytes(algorithm: Any, nodes: Int64, entries: Int64, num_hops: int, width: int) -> Int64:  # noqa: ARG004
        """Return what it takes to fit each of some parts with so many features a node."""
        taken: Int64 = 8 * (algorithm.count_samples() + 1) * (3 * num_hops + 7) * nodes
        return taken

    def __init__(self, algorithm: KEC, joint: Target, nodes: Sequence[int]) -> None:
        self.algorithm, self.joint, self.num_hops, part = algorithm, joint, joint.num_hops, joint.computation_graph
        count, near = algorithm.count_samples(), algorithm.neighborhood
        held = 8 * (self.count_columns(algorithm) * (part.num_edges + 1) + (count + 1) * len(nodes))
        width = joint.unit_width(drops=near.drops_edges)
        room = joint.room(held, near.sample_bytes(part, width), f"{algorithm.method} on {count} samples")
        # The first column is the unperturbed graph, the others, if edges move, are the samples. The last row has ones,
        # for the loops that F does not depend on.
        columns = count + 1 if near.perturbs_edges else 1
        self.values = torch.ones(part.num_edges + 1, columns, dtype=torch.float64)
        self.values[:-1, 0] = part.weight.double()
        changes, stop = [], 1
        for chunk in time_items(near.chunks(part, count, algorithm.seed, width=width, room=room), "sampling"):
            start, stop = stop, stop + len(chunk)
            weight = chunk.weight
            if weight is not None:
                self.values[:-1, start:stop] = weight.T
            with stage("F"):
                changes.append(joint.changes_by_row(chunk))
        self.changes = torch.cat(changes).T.contiguous()  # [nodes, S]
        self.rows = Rows(part.edge_id[: part.num_plain].numpy(), part.nodes.numpy())
        values = joint.task.values(joint.own_rows.detach(), joint.labels)
        self.own_values: Float64 = values.double().numpy()  # [nodes] F
        self.labels: Int64 = np.full(len(nodes), -1)  # [nodes] the explained class; -1 if there is none, or several
        if joint.labels is not None:
            each = joint.labels.reshape(len(nodes), -1)
            self.labels = torch.where((each == each[:, :1]).all(dim=1), each[:, 0], -1).numpy()

    @cached_property
    def features(self) -> tuple[Int64, Int64, Float64, int]:
        """X of the joint computation graph, without zeros."""
        found: tuple[Int64, Int64, Float64, int] = core.sparse_of(as_array(self.joint.computation_graph.x.detach()))
        return found

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
        algorithm, hops, kind = self.algorithm, self.num_hops, self.algorithm.kinds[0]
        values, changes = self.values.numpy(), self.changes.numpy()[first : first + len(parts)]
        wanted = np.flatnonzero(proven & is_small(parts.num_visible, parts.whole.num_features))
        wanted = wanted if algorithm.is_compiled else wanted[:0]
        nodes, entries, count = int(parts.node_start[-1]), int(parts.entry_start[-1]), len(parts)
        rows, beta, products = (np.zeros((nodes, hops)) for _ in range(3))
        scores, errors, sound = np.zeros(entries), np.zeros(count), np.zeros(count, dtype=bool)
        found = rows, beta, products, scores, errors, sound
        with stage("features"):
            x = self.features
            # Nodes that are not in the joint graph have no features that F sees, so that none are read.
            row = self.rows.of_nodes(parts.nodes)
        given = parts.node_start, parts.entry_start, parts.num_visible, row, parts.hop, parts.ends, parts.row
        options = hops, CODES[kind], float(algorithm.threshold), bool(algorithm.relative)
        others: dict[int, KHopModel] = {}

        def fit_one(i: int) -> None:
            weight = self.values[torch.from_numpy(parts.row[parts.slices(i)[1]])].T
            others[i] = p = algorithm.fit_given(parts.graph(i), hops, weight, self.changes[first + i])
            own, errors[i] = parts.slices(i)[0], p.in_sample_error
            rows[own], products[own] = p.rows[:, 0].T.numpy(), p.products.numpy()

        shares = Shares(
            lambda some: core.fit_parts(some, given, values, x, changes, *options, found),
            cut(wanted, np.diff(parts.entry_start)[wanted], 8 * num_threads if pool else 1),
            pool,
            num_threads - 1,
        )

        def finish() -> Batch:
            with stage("solve"), torch.inference_mode(False), one_thread():
                shares.finish()
                Shares(fit_one, np.flatnonzero(proven & ~sound).tolist(), pool, num_threads - 1).finish()
            return Batch(parts, kind, proven, rows, beta, products, scores, errors, others, self, first)

        return finish


def _features(graph: Graph, nodes: Int64) -> Iterator[Tensor]:
    """Yield the features of nodes, of which many come several times: first in short, then written out."""
    distinct, row = np.unique(nodes, return_inverse=True)
    yield RepeatedRows.of(graph.features(distinct), torch.from_numpy(row))
    yield graph.features(nodes)


def cut(items: Int64, sizes: Int64, count: int) -> list[Int64]:
    """Cut a list of items into at most ``count`` pieces of about the same total size."""
    if count <= 1 or not len(items):
        return [items] if len(items) else []
    total = np.cumsum(sizes)
    cuts = np.searchsorted(total, total[-1] * np.arange(1, count) / count)
    return [piece for piece in np.split(items, cuts) if len(piece)]
