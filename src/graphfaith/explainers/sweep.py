"""Many nodes explained together: one set of perturbed graphs serves them all.

A perturbation is a function of (seed, sample, edge), so all nodes see an edge perturbed in the same way. One forward of
the model on a perturbed graph therefore gives F for *every* node of it, and the walks of several nodes are summed at
once. Each node still has a small system of equations and scores of its own. The answers are those of one node at a
time, up to the rounding of the model's arithmetic.

Nodes are taken in blocks whose joint computation graph, perturbed ``num_samples`` times, fits in memory. On a graph as
small as Cora there is one block, and its joint graph is the whole one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.explain import Explanation

from .._base.errors import MemoryLimitError
from .._base.memory import CHUNK_BYTES
from .._base.stages import stage, timed
from .._base.threads import one_thread
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Int64
from ..model.call import Call
from ..model.readout import Readout
from ..model.record import Route, evaluating
from ..model.target import Target
from ..surrogate.coordinates import Coordinates
from ..surrogate.difference import KHopModel
from ..surrogate.walks import Normalization, Walks
from . import KEC

AT_LEAST = 16  # nodes; for fewer nodes the work they share is not worth the wait for the first one
_TOGETHER = 2000  # entries of A whose walks are summed at once; with 200 samples they fit in a processor's cache


def why_not(algorithm: Any, level: str) -> str | None:
    """Return why ``algorithm`` has to explain nodes one at a time; None if it can explain them together."""
    own = ("fit", "solve", "scores", "chunks", "target", "kinds", "explanation", "details", "forward")
    if not isinstance(algorithm, KEC) or any(getattr(type(algorithm), name) is not getattr(KEC, name) for name in own):
        return f"{type(algorithm).__name__} is fitted to one node at a time"
    if algorithm.neighborhood.perturbs_features:
        return f"{algorithm.neighborhood} moves features, of which perturbed copies would have to be held for all nodes"
    if level != "node":
        return f"rows of the output are {level}s, not nodes"
    return None


class Own(NamedTuple):
    """What an explanation has to know of its target, for one node of many."""

    computation_graph: ComputationGraph
    route: Route
    num_hops: int


class Fit(NamedTuple):
    """A node's optimum, and its scores if they were computed together with those of other nodes."""

    part: ComputationGraph
    p: KHopModel
    scores: tuple[Tensor | None, Tensor] | None


class Sweep:
    """KEC's explanations of many nodes of one graph.

    ``first`` is the target of one of them, by which the model's reach was checked; the arguments after it are those of
    :meth:`FaithfulExplainer.target`.
    """

    def __init__(
        self,
        algorithm: KEC,
        first: Target,
        x: Tensor,
        edge_index: Tensor,
        labels: Tensor | None,
        kwargs: dict[str, Any],
    ) -> None:
        self.algorithm, self.first = algorithm, first
        self._arguments = x, edge_index, labels, kwargs

    def explanations(self, nodes: Sequence[int]) -> Iterator[Explanation | None]:
        """Yield the explanation of each of ``nodes``, without the fields that PyG adds.

        It is None for a node at which the model does not give on the node's computation graph what it gives on the
        whole graph: the caller must explain such a node alone.
        """
        size = self._block_size(nodes)
        for start in range(0, len(nodes), size):
            yield from self._of_block(nodes[start : start + size])

    def _block_size(self, nodes: Sequence[int]) -> int:
        """Return how many nodes to take together so that the entries of A in all samples fit in memory."""
        graph, room = self.first.graph, CHUNK_BYTES
        if self.algorithm.max_memory is not None:
            room = min(room, self.algorithm.max_memory // 4)
        entries = room // (8 * (self.algorithm.count_samples() + 1))
        if graph.num_nodes + graph.num_edges <= entries:
            return len(nodes)
        some = nodes[:: max(1, len(nodes) // 16)]
        return max(1, entries * len(some) // sum(self._around(node).num_edges for node in some))

    def _around(self, node: int) -> ComputationGraph:
        call, graph = self.first.call, self.first.graph
        return ComputationGraph.around(
            graph,
            node,
            self.first.num_hops,
            degrees=call.degrees == "in",
            out_degrees=call.degrees == "out",
            loop_weight=call.loop_weight,
        )

    def _of_block(self, nodes: Sequence[int]) -> Iterator[Explanation | None]:
        try:
            with torch.inference_mode(False), evaluating(self.first.model), one_thread():
                block = Block(self.algorithm, self._target(nodes), nodes)
        except MemoryLimitError:
            if len(nodes) == 1:
                raise
            half = len(nodes) // 2
            yield from self._of_block(nodes[:half])
            yield from self._of_block(nodes[half:])
            return
        if block.joint.call.degrees not in (None, self.first.call.degrees):
            yield from (None for _ in nodes)  # the joint graph was cut out in another way than those of single nodes
            return
        batch: list[ComputationGraph] = []
        for place, node in enumerate(nodes):
            with stage("subgraph"):
                batch.append(self._around(node))
            if sum(part.num_edges for part in batch) >= _TOGETHER or place == len(nodes) - 1:
                first = place + 1 - len(batch)
                with torch.inference_mode(False), evaluating(self.first.model), one_thread():
                    explanations = self._explain(block, dict(enumerate(batch, first)), nodes)
                yield from explanations
                batch = []

    def _explain(
        self, block: Block, parts: dict[int, ComputationGraph], nodes: Sequence[int]
    ) -> list[Explanation | None]:
        """Return explanations of some nodes of a block, given their computation graphs by their place in it."""
        with stage("subgraph"), torch.no_grad():
            rows = self._rows_of(parts, nodes)
            proven = {place: parts[place] for place, row in rows.items() if block.joint.is_right_at(place, row)}
        fits = dict(zip(proven, block.fit(proven) if proven else [], strict=True))
        return [self._explanation(fits[place]) if place in fits else None for place in parts]

    def _rows_of(self, parts: dict[int, ComputationGraph], nodes: Sequence[int]) -> dict[int, Tensor]:
        """Return the model's output at each node on its own computation graph, where it can be run there."""
        like, rows = self.first, {}
        kwargs = like.readout.kwargs
        if (
            like.route == "weight"
            and like.call.loop_weight is not None
            and not any(map(torch.is_tensor, kwargs.values()))
        ):
            # The parts, side by side and not connected, form one graph.
            walks = Walks.beside(list(parts.values()))
            ends = torch.from_numpy(np.stack([walks.source, walks.sink]))
            x, weight = (torch.cat([getattr(part, name) for part in parts.values()]) for name in ("x", "weight"))
            edges = ends if like.graph.flow == "source_to_target" else ends.flip(0)
            with suppress(Exception):  # whatever the user's own forward may raise
                out = like.model(x, edges, edge_weight=weight, **kwargs)[torch.from_numpy(walks.seeds)]
                return {place: out[at : at + 1] for at, place in enumerate(parts)}
        for place, part in parts.items():
            own = torch.tensor([nodes[place]])
            readout = Readout(like.task, like.graph, kwargs, like.graph.num_nodes, nodes[place], own)
            with suppress(Exception):
                call = Call(like.model, like.record, like.task, readout, part, like.call.loop_weight, like.route)
                rows[place] = call.output[call.rows]
        return rows

    def _target(self, nodes: Sequence[int]) -> Target:
        x, edge_index, labels, kwargs = self._arguments
        with stage("subgraph"):
            return self.algorithm.target(self.first.model, x, edge_index, torch.tensor(nodes), labels, kwargs)

    def _explanation(self, fit: Fit) -> Explanation:
        own = Own(fit.part, self.first.route, self.first.num_hops)
        return self.algorithm.explanation(own, fit.p, fit.scores)


class Block:
    """Nodes with a joint computation graph: its perturbed entries of A, and F's changes at every node.

    ``joint`` is the target of all ``nodes``, in their order.
    """

    def __init__(self, algorithm: KEC, joint: Target, nodes: Sequence[int]) -> None:
        self.algorithm, self.joint, self.num_hops, part = algorithm, joint, joint.num_hops, joint.computation_graph
        count, near = algorithm.count_samples(), algorithm.neighborhood
        held = 8 * (count + 1) * (part.num_edges + 1 + len(nodes))
        room = joint.room(held, near.sample_bytes(part, joint.unit_width()), f"{algorithm.method} on {count} samples")
        # One column for the unperturbed graph, one for each sample; a row of ones for the loops that F does not read.
        self.values = torch.ones(part.num_edges + 1, count + 1, dtype=torch.float64)
        self.values[:-1, 0] = part.weight.double()
        changes, stop = [], 1
        for chunk in timed(near.chunks(part, count, algorithm.seed, width=joint.unit_width(), room=room), "sampling"):
            weight = chunk.weight
            assert weight is not None
            start, stop = stop, stop + len(chunk)
            self.values[:-1, start:stop] = weight.T
            with stage("F"):
                changes.append(joint.changes_by_row(chunk))
        self.changes = torch.cat(changes).T.contiguous()  # [nodes, S]
        self._plain = part.edge_id[: part.num_plain].numpy()
        self._order = np.argsort(part.nodes.numpy())
        self._nodes = part.nodes.numpy()[self._order]

    def fit(self, of: Mapping[int, ComputationGraph]) -> list[Fit]:
        """Return the optimum for some nodes, given their computation graphs by their place in the block."""
        parts = list(of.values())
        with stage("features"):
            walks = Walks.beside(parts)
            values = self.values.index_select(0, torch.from_numpy(np.concatenate([*map(self._places, parts)])))
            rows = {kind: walks.rows(values, self.num_hops, kind) for kind in self.algorithm.kinds}  # [M, nodes, S + 1]
            moved = {kind: row[..., :1] - row[..., 1:] for kind, row in rows.items()}
        models, at = [], 0
        for place, part in of.items():
            own = slice(at, at + part.num_nodes)
            with stage("features"):
                frame = Coordinates(part, self.num_hops, moved=False)
                features = {kind: frame.of_rows(row[:, own]) for kind, row in moved.items()}
            with stage("solve"):
                before = {kind: row[:, own, :1].transpose(1, 2).clone() for kind, row in rows.items()}
                models.append(self.algorithm.solve(frame, before, features, self.changes[place]))
            at += part.num_nodes
        if len(self.algorithm.kinds) > 1:
            return [Fit(part, p, None) for part, p in zip(parts, models, strict=True)]
        with stage("gradient"):
            scores = list(_find_scores(walks, parts, models, self.algorithm.kinds[0]))
        return [Fit(*fit) for fit in zip(parts, models, scores, strict=True)]

    def _at(self, part: ComputationGraph) -> Int64:
        """Return the places of a part's nodes in the joint graph, which may lack the outermost node."""
        places: Int64 = self._order[np.searchsorted(self._nodes, part.nodes.numpy()).clip(max=len(self._order) - 1)]
        return places

    def _places(self, part: ComputationGraph) -> Int64:
        """Return the rows of the joint graph's values that hold the entries of A of a part."""
        edges = np.searchsorted(self._plain, part.edge_id.numpy()[: part.num_plain])
        nodes = self._at(part)
        felt = part.felt.numpy()[part.num_plain :]
        loops = np.where(felt, len(self._plain) + nodes, len(self.values) - 1)
        return np.concatenate([edges, loops])


def _find_scores(
    walks: Walks, parts: Sequence[ComputationGraph], models: Sequence[KHopModel], kind: Normalization
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the gradient of each model; those with respect to A are found for all models at once."""
    weight = torch.cat([part.weight.double() for part in parts]).numpy()
    products = torch.cat([p.products for p in models])
    da = torch.from_numpy(walks.gradient(weight, products.numpy(), kind))
    da[~torch.cat([part.felt for part in parts])] = 0
    for p, own in zip(models, torch.split(da, [part.num_edges for part in parts]), strict=True):
        yield p.rows[:, 0].T @ p.weights, own
