"""Where F is computed: the smallest part of the graph on which the model gives what it gives on all of it."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from .._base.errors import GraphfaithError, ModelError, ReachWarning, said
from ..graph.computation_graph import ComputationGraph
from .batching import batching_of
from .call import Call, Edges
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

    On a ``large`` graph, on which to run the model would take more memory than an explanation, a part two hops wider
    stands for the whole graph, and one proof for a model and a graph has to do. ``check_size`` is asked before the
    model is run on so many nodes and edges, and may refuse. ``later`` leaves the proof to who runs the model on the
    part anyway (``proven`` is then False), if it has succeeded for another node.
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
        later: bool = False,
    ) -> None:
        self.whole, self.readout, self.num_hops, self.edges, self.name = whole, readout, num_hops, edges, name
        self.large, self.later, self._check_size = large, later and not large, check_size
        self.proven = True
        self.model, self.graph = whole.model, whole.graph
        self._probe: tuple[Tensor, Tensor] | None = None
        self._failure: Exception | None = None
        self._remember()

    def _remember(self) -> None:
        # What has been found out about the model on this graph, while neither is written to.
        self.facts: dict[str, Any] = self.whole.remembered("facts", dict)
        self._output: Tensor | None = None

    @property
    def expected(self) -> Tensor:
        """The model's output on the whole graph."""
        if self._output is None:
            self._output = self.whole.output()
        return self._output

    def scale(self, call: Call) -> float:
        """The largest output there is: on the whole graph, or if that is too large on the part of ``call``."""
        if self.large:
            return largest(call.output)
        if "scale" not in self.facts:
            self.facts["scale"] = largest(self.expected)
        scale: float = self.facts["scale"]
        return scale

    def find(self) -> Call:
        """The model's call on the computation graph, or on the whole graph if it looks at all of it."""
        if not (self.readout.reads_whole_graph or self.facts.get("looks at all")):
            call = self._local()
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
        if call is None and self.large:
            self._check_size(self.graph.num_nodes, self.graph.num_edges)
            self.large, self._probe = False, None
            call = self._try(self.num_hops)
        if call is None:
            self.whole.forget()
            self._remember()
            self._probe = None
            call = self._try(self.num_hops)
        if call is not None:
            return call
        if self._looks_at_all():
            self.facts["looks at all"] = True  # for the next node
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
        expected = self.expected
        return self._sees_copy(x, edge_index, kwargs, self.readout.rows, expected[self.readout.rows], largest(expected))

    def _sees_copy(
        self, x: Tensor, edge_index: Tensor, kwargs: dict[str, Any], rows: Tensor, expected: Tensor, scale: float
    ) -> bool:
        """Whether rows of the output on some graph are other ones if there is a copy of it with random features."""
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
            found = self.model(torch.cat([x, other]), edges, **twice)[rows]
        except Exception:  # a model that has something for every node cannot be given more of them
            return True
        return not _close(found, expected, scale)

    def _try(self, num_hops: int) -> Call | None:
        for call in self._calls(num_hops):
            how = (num_hops, self.edges, call.degrees, call.loop_weight)
            if (self.large and self.facts.get("proved") == how) or self._puts_off(call):
                self.proven = self.large
                return call
            if not self._fits(call):
                continue
            # Where nothing is outside, nothing has been shown of what is.
            if self._outside(call) == 0:
                return call
            if _PROBED.get(self.model) != num_hops:
                if not self._fits_with_other_features(call):
                    continue
                _PROBED[self.model] = num_hops
            self.facts["proved"] = how
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
                call = self._call(part, loop_weight, degrees)
                if call is not None:
                    yield call

    def _loop_weights(self) -> tuple[float | None, ...]:
        layers = message_passing_layers(self.model)
        added = [getattr(layer, "add_self_loops", False) for layer in layers]
        # GCNConv(improved=True) gives its loops a 2, but without weights a 1 as to any other edge.
        improved = self.whole.weighted and any(getattr(layer, "improved", False) for layer in layers)
        # A model whose layers disagree about self-loops is explained without implied ones.
        return (2.0 if improved else 1.0, None) if added and all(added) else (None,)

    def _puts_off(self, call: Call) -> bool:
        """Whether the proof is left to who runs the model: another has succeeded, or the part is all there is."""
        if not self.later or call.degrees is None or batching_of(call) == "vmap":
            return False
        how = (call.part.num_hops, self.edges, call.degrees, call.loop_weight)
        return self.facts.get("proved") == how or call.part.num_nodes == self.graph.num_nodes

    def _call(self, part: ComputationGraph, loop_weight: float | None, degrees: Degrees | None = None) -> Call | None:
        """The model on ``part``; None if it cannot be run there, as when it has a parameter for every node."""
        self._check_size(part.num_nodes, part.num_edges)
        try:
            call = Call(self.model, self.whole.task, self.readout, part, loop_weight, self.edges)
            call.degrees = degrees
            if not self._puts_off(call):
                _ = call.output  # which may fail
            return call
        except GraphfaithError:
            raise
        except Exception as error:  # whatever the user's own forward may raise
            self._failure = error
            return None

    def _fits(self, call: Call) -> bool:
        """Whether the model gives on a part what it gives on the whole graph."""
        if self.large:
            return self._same_as_wider(call, call.part.x, call.output)
        return self._same(call.output, self.expected, call)

    def same(self, found: Tensor, expected: Tensor, scale: float) -> bool:
        """Whether two outputs differ by no more than rounding, if the largest there is has this scale."""
        return _close(found, expected, scale)

    def _same(self, found: Tensor, expected: Tensor, call: Call) -> bool:
        scale = self.scale(call) if expected is self._output else largest(expected)
        return _close(found[call.rows], expected[self.readout.rows], scale)

    def _outside(self, call: Call) -> int:
        """How many nodes there are in what the part is compared with that are not in the part."""
        if not self.large:
            return self.graph.num_nodes - call.part.num_nodes
        return self._wider(call).num_visible - call.part.num_visible

    def _wider(self, call: Call) -> ComputationGraph:
        seeds, hops = self.readout.seeds, call.part.num_hops + 2
        return ComputationGraph.around(self.graph, seeds, hops, out_degrees=True, loop_weight=call.loop_weight)

    def _same_as_wider(self, call: Call, x: Tensor, found: Tensor) -> bool:
        """The same for a part of two hops more, on which other nodes than those of the part have random features."""
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
        if not _close(found[call.rows], expected[beyond.rows], scale):
            return False
        # What is read from all nodes alike is not seen from a part of them.
        return x is not call.part.x or not beyond.sees(
            lambda edges, kwargs: self._sees_copy(own, edges, kwargs, beyond.rows, expected[beyond.rows], scale)
        )

    def _fits_with_other_features(self, call: Call) -> bool:
        """The same with random features; a model that has no use for those is taken at its word."""
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
            found = call(drawn[call.part.nodes], call.part.weight)
        except Exception:  # features that are ids of something, for one
            return True
        return not bool(torch.isfinite(expected).all()) or self._same(found, expected, call)

    def check_reach(self, call: Call) -> None:
        """Warn, once a model, if features of the outermost hop cannot matter: the reach is shorter than thought."""
        part, model = call.part, self.model
        if _WARNED.get(model) == self.num_hops:
            return
        ring = part.hop[: part.num_visible]
        # A layer may divide what a node sends by its in-degree, and so by nothing if none goes in.
        heard = torch.zeros(part.num_nodes, dtype=torch.bool)
        heard[part.edge_index[1][part.felt]] = True
        outermost = (ring == self.num_hops) & (heard[: part.num_visible] | (degrees_read(model) == "none"))
        smooth = all(getattr(layer, "aggr", "") in _SMOOTH for layer in message_passing_layers(model))
        if not smooth or not bool(outermost.any()):
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
    if found.shape == expected.shape and bool(((found - expected).abs() <= tolerance * scale).all()):
        return True  # as nearly always; the rest takes several times as long
    return torch.allclose(found, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def largest(values: Tensor) -> float:
    """The largest finite magnitude."""
    return float(values.detach().nan_to_num(0.0, 0.0, 0.0).abs().max())
