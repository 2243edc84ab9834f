"""KEC explains many nodes together, from one set of perturbed graphs.

A perturbation is a function of (seed, sample, edge), so an edge is perturbed in the same way for all nodes. One forward
pass of the model on a perturbed graph therefore gives F for *every* node, and the walks of several nodes are summed at
once. Each node still has its own small system of equations and its own scores. The results are equal to those of one
node at a time, up to the rounding of the model's arithmetic.

The nodes are divided into blocks, so that the joint computation graph of a block, perturbed ``num_samples`` times, fits
in memory. On a graph as small as Cora there is one block, and its joint computation graph is the whole graph.
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
from .._base.stages import stage, time_items
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

AT_LEAST = 16  # nodes; with fewer nodes, the time saved does not justify the wait for the first explanation
_TOGETHER = 2000  # entries of A whose walks are summed at once; with 200 samples they fit in a processor's cache


def reason_against(algorithm: Any, level: str) -> str | None:
    """Return why ``algorithm`` has to explain nodes one at a time; None if it can explain them together."""
    used = ("fit", "solve", "scores", "chunks", "target", "kinds", "explanation", "details", "forward")
    if not isinstance(algorithm, KEC) or any(getattr(type(algorithm), name) is not getattr(KEC, name) for name in used):
        return f"{type(algorithm).__name__} is fitted to one node at a time"
    if algorithm.neighborhood.perturbs_features:
        return f"{algorithm.neighborhood} moves features, and perturbed features of all nodes would not fit in memory"
    if not algorithm.neighborhood.by_itself:
        return f"a sample of {algorithm.neighborhood} depends on the edges in reach of a node"
    if level != "node":
        return f"rows of the output are {level}s, not nodes"
    return None


class NodeTarget(NamedTuple):
    """The attributes of a target that an explanation reads, for one node of a block."""

    computation_graph: ComputationGraph
    route: Route
    num_hops: int


class NodeFit(NamedTuple):
    """A node's optimum, and its scores if they were computed together with those of other nodes."""

    part: ComputationGraph
    p: KHopModel
    scores: tuple[Tensor | None, Tensor] | None


class Sweep:
    """KEC's explanations of many nodes of one graph.

    ``first`` is the target of one of the nodes, with which the reach of the model was checked. The arguments after it
    are those of :meth:`FaithfulExplainer.target`.
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

        It is None if the model's output at the node on the node's computation graph differs from that on the whole
        graph. The caller must explain such a node alone.
        """
        size = self._block_size(nodes)
        for start in range(0, len(nodes), size):
            yield from self._explain_block(nodes[start : start + size])

    def _block_size(self, nodes: Sequence[int]) -> int:
        """Return how many nodes a block may have, so that the entries of A in all samples fit in memory."""
        graph, room = self.first.graph, CHUNK_BYTES
        if self.algorithm.max_memory is not None:
            room = min(room, self.algorithm.max_memory // 4)
        entries = room // (8 * (self.algorithm.count_samples() + 1))
        if graph.num_nodes + graph.num_edges <= entries:
            return len(nodes)
        chosen = nodes[:: max(1, len(nodes) // 16)]
        return max(1, entries * len(chosen) // sum(self._around(node).num_edges for node in chosen))

    def _around(self, node: int) -> ComputationGraph:
        """Return the computation graph of a node."""
        call, graph = self.first.call, self.first.graph
        return ComputationGraph.around(
            graph,
            node,
            self.first.num_hops,
            degrees=call.degrees == "in",
            out_degrees=call.degrees == "out",
            loop_weight=call.loop_weight,
        )

    def _explain_block(self, nodes: Sequence[int]) -> Iterator[Explanation | None]:
        """Yield the explanations of a block of nodes; if memory does not suffice, the block is halved."""
        try:
            with torch.inference_mode(False), evaluating(self.first.model), one_thread():
                block = Block(self.algorithm, self._target(nodes), nodes)
        except MemoryLimitError:
            if len(nodes) == 1:
                raise
            half = len(nodes) // 2
            yield from self._explain_block(nodes[:half])
            yield from self._explain_block(nodes[half:])
            return
        if block.joint.call.degrees not in (None, self.first.call.degrees):
            # The joint graph was cut out for other degrees than the graphs of single nodes, so it may not contain them.
            yield from (None for _ in nodes)
            return
        batch: list[ComputationGraph] = []
        for place, node in enumerate(nodes):
            with stage("subgraph"):
                batch.append(self._around(node))
            if sum(part.num_edges for part in batch) >= _TOGETHER or place == len(nodes) - 1:
                first = place + 1 - len(batch)
                with torch.inference_mode(False), evaluating(self.first.model) as record, one_thread():
                    is_current = record is block.joint.record
                    if is_current:
                        explanations = self._explain_batch(block, dict(enumerate(batch, first)), nodes)
                if not is_current:
                    # The model has changed since the block was evaluated: the rest is explained node by node.
                    yield from (None for _ in nodes[first:])
                    return
                yield from explanations
                batch = []

    def _explain_batch(
        self, block: Block, parts: dict[int, ComputationGraph], nodes: Sequence[int]
    ) -> list[Explanation | None]:
        """Return the explanations of some nodes of a block; ``parts`` maps their places in it to computation graphs."""
        with stage("subgraph"), torch.no_grad():
            rows = self._run_on_parts(parts, nodes)
            proven = {place: parts[place] for place, row in rows.items() if block.joint.is_right_at(place, row)}
        fits = dict(zip(proven, block.fit(proven) if proven else [], strict=True))
        return [self._explanation(fits[place]) if place in fits else None for place in parts]

    def _run_on_parts(self, parts: dict[int, ComputationGraph], nodes: Sequence[int]) -> dict[int, Tensor]:
        """Return the model's output at each node on the node's computation graph, without nodes where it raises."""
        like, rows = self.first, {}
        kwargs = like.readout.kwargs
        if (
            like.route == "weight"
            and like.call.loop_weight is not None
            and not any(map(torch.is_tensor, kwargs.values()))
        ):
            # Unconnected parts form one graph, so that one call of the model is enough.
            walks = Walks.beside(list(parts.values()))
            ends = torch.from_numpy(np.stack([walks.source, walks.sink]))
            x, weight = (torch.cat([getattr(part, name) for part in parts.values()]) for name in ("x", "weight"))
            edges = ends if like.graph.flow == "source_to_target" else ends.flip(0)
            # The user's forward may raise any exception. In that case the parts are tried one by one.
            with suppress(Exception):
                out = like.model(x, edges, edge_weight=weight, **kwargs)[torch.from_numpy(walks.seeds)]
                return {place: out[at : at + 1] for at, place in enumerate(parts)}
        for place, part in parts.items():
            row = torch.tensor([nodes[place]])
            readout = Readout(like.task, like.graph, kwargs, like.graph.num_nodes, nodes[place], row)
            with suppress(Exception):
                call = Call(like.model, like.record, like.task, readout, part, like.call.loop_weight, like.route)
                rows[place] = call.output[call.rows]
        return rows

    def _target(self, nodes: Sequence[int]) -> Target:
        x, edge_index, labels, kwargs = self._arguments
        with stage("subgraph"):
            return self.algorithm.target(self.first.model, x, edge_index, torch.tensor(nodes), labels, kwargs)

    def _explanation(self, fit: NodeFit) -> Explanation:
        target = NodeTarget(fit.part, self.first.route, self.first.num_hops)
        return self.algorithm.explanation(target, fit.p, fit.scores)


class Block:
    """A block of nodes: the perturbed entries of A of their joint computation graph, and F's changes at every node.

    ``joint`` is the target of all ``nodes``, in the same order.
    """

    def __init__(self, algorithm: KEC, joint: Target, nodes: Sequence[int]) -> None:
        self.algorithm, self.joint, self.num_hops, part = algorithm, joint, joint.num_hops, joint.computation_graph
        count, near = algorithm.count_samples(), algorithm.neighborhood
        held = 8 * (count + 1) * (part.num_edges + 1 + len(nodes))
        width = joint.unit_width(drops=near.drops_edges)
        room = joint.room(held, near.sample_bytes(part, width), f"{algorithm.method} on {count} samples")
        # The first column is the unperturbed graph, the others are the samples. The last row has ones, for the loops
        # that F does not depend on.
        self.values = torch.ones(part.num_edges + 1, count + 1, dtype=torch.float64)
        self.values[:-1, 0] = part.weight.double()
        changes, stop = [], 1
        for chunk in time_items(near.chunks(part, count, algorithm.seed, width=width, room=room), "sampling"):
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

    def fit(self, graphs: Mapping[int, ComputationGraph]) -> list[NodeFit]:
        """Return the optimum for some nodes; ``graphs`` maps their places in the block to computation graphs."""
        parts = list(graphs.values())
        with stage("features"):
            walks = Walks.beside(parts)
            places = np.concatenate([self._places_of_entries(part) for part in parts])
            values = self.values.index_select(0, torch.from_numpy(places))
            rows = {kind: walks.rows(values, self.num_hops, kind) for kind in self.algorithm.kinds}  # [M, nodes, S + 1]
            moved = {kind: row[..., :1] - row[..., 1:] for kind, row in rows.items()}
        models, start = [], 0
        for place, part in graphs.items():
            nodes = slice(start, start + part.num_nodes)
            with stage("features"):
                frame = Coordinates(part, self.num_hops, moved=False)
                features = {kind: frame.of_rows(row[:, nodes]) for kind, row in moved.items()}
            with stage("solve"):
                before = {kind: row[:, nodes, :1].transpose(1, 2).clone() for kind, row in rows.items()}
                models.append(self.algorithm.solve(frame, before, features, self.changes[place]))
            start += part.num_nodes
        if len(self.algorithm.kinds) > 1:
            return [NodeFit(part, p, None) for part, p in zip(parts, models, strict=True)]
        with stage("gradient"):
            scores = list(_compute_scores(walks, parts, models, self.algorithm.kinds[0]))
        return [NodeFit(*fit) for fit in zip(parts, models, scores, strict=True)]

    def _places_of_nodes(self, part: ComputationGraph) -> Int64:
        """Return places of a part's nodes in the joint graph; a node that is not in it gets an arbitrary place."""
        places: Int64 = self._order[np.searchsorted(self._nodes, part.nodes.numpy()).clip(max=len(self._order) - 1)]
        return places

    def _places_of_entries(self, part: ComputationGraph) -> Int64:
        """Return the rows of the joint graph's values that hold the entries of A of a part."""
        edges = np.searchsorted(self._plain, part.edge_id.numpy()[: part.num_plain])
        nodes = self._places_of_nodes(part)
        felt = part.felt.numpy()[part.num_plain :]
        loops = np.where(felt, len(self._plain) + nodes, len(self.values) - 1)
        return np.concatenate([edges, loops])


def _compute_scores(
    walks: Walks, parts: Sequence[ComputationGraph], models: Sequence[KHopModel], kind: Normalization
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the gradient of each model; the gradients with respect to A are computed for all models at once."""
    weight = torch.cat([part.weight.double() for part in parts]).numpy()
    products = torch.cat([p.products for p in models])
    da = torch.from_numpy(walks.gradient(weight, products.numpy(), kind))
    da[~torch.cat([part.felt for part in parts])] = 0
    for p, edges in zip(models, torch.split(da, [part.num_edges for part in parts]), strict=True):
        yield p.rows[:, 0].T @ p.weights, edges
