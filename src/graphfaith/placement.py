"""Where F is computed: the smallest part of the graph on which the model gives what it gives on all of it."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterator

import torch
from torch import Tensor

from .call import Call, Edges
from .computation_graph import ComputationGraph
from .errors import GraphfaithError, ModelError, ReachWarning, said
from .layers import Degrees, degrees_read, message_passing_layers
from .readout import Readout, is_pairs
from .whole import Whole

_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}
_SEARCHED = 16  # hops that are tried beyond a reach that is too short, to say which would be right
_PROBES = 4
_SMOOTH = ("add", "sum", "mean")  # aggregations through which every neighbour is felt

# The reach of a model is tried with other features once, and a reach that is too long is said once.
_PROBED: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
_WARNED: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()


class Placement:
    """The search for the part of the graph that F is computed on.

    F there has to be F on the whole graph, for the features as they are and, once a model, for random ones: with
    constant features a reach that is too short shows in derivatives alone.
    """

    def __init__(self, whole: Whole, readout: Readout, num_hops: int, edges: Edges, name: str) -> None:
        self.whole, self.readout, self.num_hops, self.edges, self.name = whole, readout, num_hops, edges, name
        self.model, self.graph = whole.model, whole.graph
        self._probe: tuple[Tensor, Tensor] | None = None
        self._failure: Exception | None = None

    def find(self) -> Call:
        """The model's call on the computation graph, or on the whole graph if it looks at all of it."""
        facts: dict[str, bool] = self.whole.remembered("facts", dict)
        if not (self.readout.reads_whole_graph or facts.get("looks at all")):
            call = self._local()
            if call is not None:
                return call
        for loop_weight in self._loop_weights():
            part = ComputationGraph.whole(self.graph, self.readout.seeds, self.num_hops, loop_weight=loop_weight)
            call = self._call(part, loop_weight)
            if call is not None and self._fits(call):
                return call
        if self.edges == "auto" and not self.whole.weighted:
            # Some models do otherwise without weights than with weights of 1.
            self.edges = "mask"
            return self.find()
        if self._failure is not None:
            raise ModelError(f"the model cannot be run with all edges given one by one: {said(self._failure)}")
        raise ModelError(
            f"the model's output at {self.name} changes from one call to the next, or depends on the order of edges: "
            "it cannot be explained"
        )

    def _local(self) -> Call | None:
        call = self._try(self.num_hops)
        if call is None:
            self.whole.forget()
            self._probe = None
            call = self._try(self.num_hops)
        if call is not None:
            return call
        if self._looks_at_all():
            self.whole.remembered("facts", dict)["looks at all"] = True  # for the next node
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
        """Whether the output depends on what no message can bring: a copy of the graph beside it, not connected."""
        if self.whole.task.level == "graph":
            return True
        (x, edge_index), kwargs = self.whole.arguments()
        other = torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).to(x.dtype)
        sizes = (self.graph.num_nodes, self.graph.num_edges)
        twice = {
            name: torch.cat([value, value])
            if isinstance(value, Tensor) and value.dim() and value.size(0) in sizes and not is_pairs(value)
            else value
            for name, value in kwargs.items()
        }
        try:
            edges = torch.cat([edge_index, edge_index + self.graph.num_nodes], dim=1)
            found = self.model(torch.cat([x, other]), edges, **twice)[self.readout.rows]
        except Exception:  # a model that has something for every node cannot be given more of them
            return True
        expected = self.whole.output()
        return not _close(found, expected[self.readout.rows], largest(expected))

    def _try(self, num_hops: int) -> Call | None:
        for call in self._calls(num_hops):
            if not self._fits(call):
                continue
            outside = call.part.num_nodes < self.graph.num_nodes
            if _PROBED.get(self.model) == num_hops or not outside:
                return call
            if self._fits_with_other_features(call):
                _PROBED[self.model] = num_hops
                return call
        return None

    def _calls(self, num_hops: int) -> Iterator[Call]:
        """The model on computation graphs of so many hops, the most likely first."""
        own = degrees_read(self.model)
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
                call = self._call(part, loop_weight)
                if call is not None:
                    yield call

    def _loop_weights(self) -> tuple[float | None, ...]:
        layers = message_passing_layers(self.model)
        added = [getattr(layer, "add_self_loops", False) for layer in layers]
        # GCNConv(improved=True) gives its loops a 2, but without weights a 1 as to any other edge.
        improved = self.whole.weighted and any(getattr(layer, "improved", False) for layer in layers)
        # A model whose layers disagree about self-loops is explained without implied ones.
        return (2.0 if improved else 1.0, None) if added and all(added) else (None,)

    def _call(self, part: ComputationGraph, loop_weight: float | None) -> Call | None:
        """The model on ``part``; None if it cannot be run there, as when it has a parameter for every node."""
        try:
            return Call(self.model, self.whole.task, self.readout, part, loop_weight, self.edges)
        except GraphfaithError:
            raise
        except Exception as error:  # whatever the user's own forward may raise
            self._failure = error
            return None

    def _fits(self, call: Call) -> bool:
        """Whether the model gives on a part what it gives on the whole graph."""
        return self._same(call.output, self.whole.output(), call)

    def _same(self, found: Tensor, expected: Tensor, call: Call) -> bool:
        return _close(found[call.rows], expected[self.readout.rows], largest(expected))

    def _fits_with_other_features(self, call: Call) -> bool:
        """The same with random features; a model that has no use for those is taken at its word."""
        try:
            if self._probe is None:
                x = self.graph.x
                generator = torch.Generator().manual_seed(0)
                drawn = torch.randn(x.shape, generator=generator, dtype=torch.float32).to(x.dtype)
                self._probe = drawn, self.whole.output_with(drawn)
            drawn, expected = self._probe
            found = call(drawn[call.part.nodes], call.part.weight)
        except Exception:  # features that are ids of something, for one
            return True
        return not bool(torch.isfinite(expected).all()) or self._same(found, expected, call)

    def check_reach(self, call: Call) -> None:
        """Warn, once a model, if features of the outermost hop cannot matter: the reach is shorter than thought."""
        part, model = call.part, self.model
        ring = part.hop[: part.num_visible]
        # A layer may divide what a node sends by its in-degree, and so by nothing if none goes in.
        heard = torch.zeros(part.num_nodes, dtype=torch.bool)
        heard[part.edge_index[1][part.felt]] = True
        outermost = (ring == self.num_hops) & (heard[: part.num_visible] | (degrees_read(model) == "none"))
        smooth = all(getattr(layer, "aggr", "") in _SMOOTH for layer in message_passing_layers(model))
        if _WARNED.get(model) == self.num_hops or not smooth or not bool(outermost.any()):
            return
        _WARNED[model] = self.num_hops
        generator = torch.Generator().manual_seed(0)
        felt = 0
        for _ in range(_PROBES):  # a feature that is 0 or a unit that is dead may hide a path; random ones do not
            try:
                felt = max(felt, _reach(call, ring, generator))
            except Exception:  # features that are ids of something, for one
                return
        if 0 < felt < self.num_hops:
            warnings.warn(
                f"messages of {type(model).__name__} seem to go {felt} hops, not {self.num_hops}: pass "
                f"num_hops={felt} for a smaller computation graph and a better fit",
                ReachWarning,
                stacklevel=4,
            )


def _reach(call: Call, ring: Tensor, generator: torch.Generator) -> int:
    """The furthest hop whose features the explained rows depend on, at random features."""
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


def _close(found: Tensor, expected: Tensor, scale: float) -> bool:
    """Whether two outputs differ by no more than rounding, if the largest output there is has this scale."""
    tolerance = _TOLERANCE.get(found.dtype, 1e-2)
    return torch.allclose(found, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def largest(values: Tensor) -> float:
    """The largest finite magnitude."""
    return float(values.detach().nan_to_num(0.0, 0.0, 0.0).abs().max())
