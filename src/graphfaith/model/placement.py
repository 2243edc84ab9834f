"""Where F is computed: the smallest part of the graph on which the model gives what it gives on the whole graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from .._base.errors import GraphfaithError, ModelError, ReachWarning, describe_error
from ..graph.computation_graph import ComputationGraph
from .call import Call, Edges
from .layers import Degrees, find_sender_degrees, message_passing_layers
from .readout import Readout, is_pairs
from .record import key_of
from .whole import Whole, largest

_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}
_SEARCHED = 16  # hops that are tried beyond a reach that is too short, to tell the user which reach would be right
_PROBES = 4
_SMOOTH = ("add", "sum", "mean")  # aggregations through which every neighbour has an effect


class Placement:
    """The search for the part of the graph that F is computed on.

    On that part the model has to give what it gives on the whole graph: with the features of the graph and, once for
    each model, with random features, because with constant features a reach that is too short shows in derivatives
    alone.

    On a ``large`` graph, where running the model would take more memory than an explanation, a part two hops wider
    stands for the whole graph, and one proof serves all nodes. ``check_size`` is called before the model is run on so
    many nodes and edges, and may refuse.
    """

    def __init__(
        self,
        whole: Whole,
        readout: Readout,
        num_hops: int,
        edges: Edges,
        name: str,
        *,
        large: bool,
        check_size: Callable[[int, int], None],
    ) -> None:
        self.whole, self.readout, self.num_hops, self.edges, self.name = whole, readout, num_hops, edges, name
        self.large, self._check_size = large, check_size
        self.model, self.record, self.graph = whole.model, whole.record, whole.graph
        self._probe: tuple[Tensor, Tensor] | None = None
        self._failure: Exception | None = None

    def scale(self, call: Call) -> float:
        """Return the largest magnitude of the output on the whole graph, or on the part if the graph is large."""
        return largest(call.output) if self.large else self.whole.scale()

    def find(self) -> Call:
        """Return the model's call on the computation graph, or on the whole graph if it looks at all of it."""
        if not (self.readout.reads_whole_graph or self.whole.facts.looks_at_all):
            call = self._find_local()
            if call is not None:
                return call
        if self.large:
            self._check_size(self.graph.num_nodes, self.graph.num_edges)
            self.large = False
        for loop_weight in self._loop_weights():
            part = ComputationGraph.whole(self.graph, self.readout.seeds, self.num_hops, loop_weight=loop_weight)
            call = self._call(part, loop_weight)
            if call is not None and self._fits(call):
                return call
        if self.edges == "auto" and not self.whole.weighted:
            # Some models compute something else without weights than with weights of 1.
            self.edges = "mask" if self.readout.kind == "edge" else "removal"
            return self.find()
        if self._failure is not None:
            raise ModelError(
                f"the model cannot be run with all edges given one by one: {describe_error(self._failure)}"
            )
        raise ModelError(
            f"the model's output at {self.name} changes from one call to the next, or depends on the order of edges: "
            "it cannot be explained"
        )

    def _find_local(self) -> Call | None:
        call = self._try(self.num_hops)
        if call is None and self.large:
            self._check_size(self.graph.num_nodes, self.graph.num_edges)
            self.large, self._probe = False, None
            call = self._try(self.num_hops)
        if call is None:
            self.whole.forget()
            self._probe = None
            call = self._try(self.num_hops)
        if call is not None:
            return call
        if self._looks_at_all():
            self.whole.facts.looks_at_all = True  # for the next node
            return None
        for hops in range(self.num_hops + 1, self.num_hops + 1 + _SEARCHED):
            for call in self._calls(hops):
                if self._fits(call) and self._fits_with_other_features(call):
                    raise ModelError(
                        f"messages of {type(self.model).__name__} go further than {self.num_hops} hops: its output at "
                        f"{self.name} is the same as on the whole graph from {hops} hops on. Pass num_hops={hops}"
                    )
        return None

    def _looks_at_all(self) -> bool:
        """Return whether the output depends on what no message can bring, such as an unconnected copy of the graph."""
        if self.whole.task.level == "graph":
            return True
        (x, edge_index), kwargs = self.whole.arguments()
        rows, expected = self.readout.rows, self.whole.output()
        return self._sees_copy(x, edge_index, kwargs, rows, expected[rows], largest(expected))

    def _sees_copy(
        self, x: Tensor, edge_index: Tensor, kwargs: dict[str, Any], rows: Tensor, expected: Tensor, scale: float
    ) -> bool:
        """Return whether rows of the output change if a copy of the graph with random features stands beside it."""
        other = torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).to(x.dtype)
        sizes = (len(x), edge_index.size(1))
        twice = {
            name: torch.cat([value, value])
            if isinstance(value, Tensor) and value.dim() and value.size(0) in sizes and not is_pairs(value)
            else value
            for name, value in kwargs.items()
        }
        try:
            edges = torch.cat([edge_index, edge_index + len(x)], dim=1)
            output = self.model(torch.cat([x, other]), edges, **twice)[rows]
        except Exception:  # a model that has a parameter for every node cannot be given more of them
            return True
        return not is_close(output, expected, scale)

    def _try(self, num_hops: int) -> Call | None:
        for call in self._calls(num_hops):
            how = (num_hops, self.edges, call.degrees, call.loop_weight)
            if self.large and self.whole.facts.proved == how:
                return call
            if not self._fits(call):
                continue
            # If the part holds every node, the comparison says nothing of nodes outside.
            if self._count_outside(call) == 0:
                return call
            key = key_of(self.whole.kwargs)
            if self.record.probed.get(key) != num_hops:
                if not self._fits_with_other_features(call):
                    continue
                self.record.probed[key] = num_hops
            self.whole.facts.proved = how
            return call
        return None

    def _calls(self, num_hops: int) -> Iterator[Call]:
        """Yield the model's calls on computation graphs of so many hops, the most likely one first."""
        own = find_sender_degrees(self.model)
        options: tuple[Degrees, ...] = (own,) if own == "out" else (own, "out")
        for degrees in options:
            for loop_weight in self._loop_weights():
                part = ComputationGraph.around(
                    self.graph,
                    self.readout.seeds,
                    num_hops,
                    degrees=degrees == "in",
                    out_degrees=degrees == "out",
                    loop_weight=loop_weight,
                )
                call = self._call(part, loop_weight, degrees)
                if call is not None:
                    yield call

    def _loop_weights(self) -> tuple[float | None, ...]:
        layers = message_passing_layers(self.model)
        added = [getattr(layer, "add_self_loops", False) for layer in layers]
        # GCNConv(improved=True) gives its loops a weight of 2, but a weight of 1 if it is called without weights.
        improved = self.whole.weighted and any(getattr(layer, "improved", False) for layer in layers)
        # A model whose layers disagree about self-loops is explained without implied ones.
        return (2.0 if improved else 1.0, None) if added and all(added) else (None,)

    def _call(self, part: ComputationGraph, loop_weight: float | None, degrees: Degrees | None = None) -> Call | None:
        """Return the model's call on ``part``, or None if it fails there because it has a parameter for every node."""
        self._check_size(part.num_nodes, part.num_edges)
        try:
            call = Call(self.model, self.record, self.whole.task, self.readout, part, loop_weight, self.edges)
            call.degrees = degrees
            _ = call.output  # runs the model, which may fail
            return call
        except GraphfaithError:
            raise
        except Exception as error:  # the user's own forward may raise anything
            self._failure = error
            return None

    def _fits(self, call: Call) -> bool:
        """Return whether the model gives on a part what it gives on the whole graph."""
        if self.large:
            return self._same_as_wider(call, call.part.x, call.output)
        expected = self.whole.output()[self.readout.rows]
        return is_close(call.output[call.rows], expected, self.whole.scale())

    def _count_outside(self, call: Call) -> int:
        """Return how many nodes the part lacks of those in the graph that it is compared with."""
        if not self.large:
            return self.graph.num_nodes - call.part.num_nodes
        return self._wider(call).num_visible - call.part.num_visible

    def _wider(self, call: Call) -> ComputationGraph:
        seeds, hops = self.readout.seeds, call.part.num_hops + 2
        return ComputationGraph.around(self.graph, seeds, hops, out_degrees=True, loop_weight=call.loop_weight)

    def _same_as_wider(self, call: Call, x: Tensor, output: Tensor) -> bool:
        """Return whether ``output`` is that of a part two hops wider, whose additional nodes have random features."""
        wider = self._wider(call)
        beyond = self._call(wider, call.loop_weight)
        if beyond is None:
            return False
        own = wider.x.clone()
        if x is not call.part.x:
            own = torch.randn(own.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float32).to(own.dtype)
        order = wider.nodes.argsort()
        places = order[torch.searchsorted(wider.nodes[order], call.part.nodes)]
        own[places] = x
        expected = beyond(own, wider.weight)
        scale = largest(expected)
        if not is_close(output[call.rows], expected[beyond.rows], scale):
            return False
        # A part of the nodes does not show what a model reads from all nodes alike.
        return x is not call.part.x or not beyond.sees(
            lambda edges, kwargs: self._sees_copy(own, edges, kwargs, beyond.rows, expected[beyond.rows], scale)
        )

    def _fits_with_other_features(self, call: Call) -> bool:
        """Return whether :meth:`_fits` also holds for random features; a model that fails on those is trusted."""
        generator = torch.Generator().manual_seed(0)
        try:
            if self.large:
                x = torch.randn(call.part.x.shape, generator=generator).to(call.part.x.dtype)
                return self._same_as_wider(call, x, call(x, call.part.weight))
            if self._probe is None:
                x = self.graph.x
                drawn = torch.randn(x.shape, generator=generator, dtype=torch.float32).to(x.dtype)
                self._probe = drawn, self.whole.output_with(drawn)
            drawn, expected = self._probe
            output = call(drawn[call.part.nodes], call.part.weight)
        except Exception:  # features may be ids that the model looks up, for example
            return True
        if not bool(torch.isfinite(expected).all()):
            return True
        return is_close(output[call.rows], expected[self.readout.rows], largest(expected))

    def check_reach(self, call: Call) -> None:
        """Warn, once for each model, if features of the outermost hop cannot matter: the reach is too long."""
        part, model = call.part, self.model
        if self.record.warned == self.num_hops:
            return
        ring = part.hop[: part.num_visible]
        # A layer may divide what a node sends by its in-degree, and so by zero if no edge leads to the node.
        heard = torch.zeros(part.num_nodes, dtype=torch.bool)
        heard[part.edge_index[1][part.felt]] = True
        outermost = (ring == self.num_hops) & (heard[: part.num_visible] | (find_sender_degrees(model) == "none"))
        smooth = all(getattr(layer, "aggr", "") in _SMOOTH for layer in message_passing_layers(model))
        if not smooth or not bool(outermost.any()):
            return
        self.record.warned = self.num_hops
        generator = torch.Generator().manual_seed(0)
        felt = 0
        for _ in range(_PROBES):  # a feature that is 0 or a dead unit may hide a path; random features do not
            try:
                felt = max(felt, _measure_reach(call, ring, generator))
            except Exception:  # features may be ids that the model looks up, for example
                return
        if 0 < felt < self.num_hops:
            warnings.warn(
                f"messages of {type(model).__name__} seem to go {felt} hops, not {self.num_hops}: pass "
                f"num_hops={felt} for a smaller computation graph and a better fit",
                ReachWarning,
                stacklevel=5,
            )


def _measure_reach(call: Call, ring: Tensor, generator: torch.Generator) -> int:
    """Return the furthest hop whose features the explained rows depend on, at random features."""
    part = call.part
    with torch.enable_grad():
        x = torch.randn(part.x.shape, generator=generator).to(part.x.dtype).requires_grad_()
        out = call(x, torch.ones_like(part.weight))[call.rows]
        out = (out * torch.randn(out.shape, generator=generator).to(out.dtype)).sum()
        gradient = torch.autograd.grad(out, x, allow_unused=True)[0] if out.requires_grad else None
    if gradient is None:
        return 0
    seen = (gradient[: part.num_visible] != 0).any(dim=1)
    return int(max([0, *ring[seen].tolist()]))


def is_close(output: Tensor, expected: Tensor, scale: float) -> bool:
    """Return whether two outputs differ by no more than rounding, if the largest output there is has this scale."""
    tolerance = _TOLERANCE.get(output.dtype, 1e-2)
    if output.shape == expected.shape and bool(((output - expected).abs() <= tolerance * scale).all()):
        return True  # nearly always; allclose takes several times as long
    return torch.allclose(output, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
