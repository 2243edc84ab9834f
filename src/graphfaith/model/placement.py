"""Where F is computed: the smallest part of the graph on which the model gives what it gives on the whole graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .._base.errors import GraphfaithError, MemoryLimitError, ModelError, ReachWarning, describe_error
from .._base.memory import format_size
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import NO_LIMIT
from .call import Call, Edges
from .layers import Degrees, find_sender_degrees, message_passing_layers
from .probe import Probe, draw_points, run_at, sees_copy
from .readout import Readout
from .record import drop_kept, key_of
from .steadiness import check_steady
from .whole import Whole, is_close, largest

_SEARCHED = 16  # hops that are tried beyond a reach that is too short, to tell the user which reach would be right
_PROBES = 4
_WIDER = 2  # hops by which the part that stands for a large graph is wider than the one that it is compared with
_MOST = 1 << 15  # nodes and edges that it may have, so that a proof takes no more on a graph that has hubs
_EACH = (0, 32, 16, 8, 4)  # edges that a node keeps on the thinner graphs that proofs are made on; 0 is all of them
_WITNESSES = 8  # other nodes at which a proof is tried
_SMOOTH = ("add", "sum", "mean")  # aggregations through which every neighbour has an effect


class Placement:
    """The search for the part of the graph that F is computed on.

    On that part the model has to give what it gives on the whole graph: with the features and weights of the graph and,
    once for each model, with others (:class:`~graphfaith.model.probe.Probe`).

    Once parts of a kind have held for a model, the comparison at another node may be left to whoever runs the model on
    the part anyhow: then the model is not run there only to be compared (``is_proven`` is False).

    On a ``large`` graph, where running the model would take more memory than an explanation, a part two hops wider
    stands for the whole graph, and one proof serves all nodes. Two hops more may be most of a graph that has hubs. If
    they have more than 2^15 nodes and edges, the proof is made at another node; and if they have more there too, on a
    thinner graph, on which a node keeps few of its edges: a part that is enough on every graph is enough on that one.

    ``most`` is how many nodes and edges the model may be run on within ``limit`` bytes, and ``check_size`` is called
    before it is run on some, and may refuse.
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
        most: int,
        limit: int | None,
        check_size: Callable[[int, int], None],
    ) -> None:
        self.whole, self.readout, self.num_hops, self.edges, self.name = whole, readout, num_hops, edges, name
        self.large, self._most, self._limit, self._check_size = large, most, limit, check_size
        self.model, self.record, self.graph = whole.model, whole.record, whole.graph
        self._key = key_of(whole.kwargs)
        self._wholes: dict[tuple[Edges, float | None], Call | None] = {}
        self._failure: Exception | None = None
        self._is_undecided = False  # whether no proof could be made on a part of a large graph
        self._later = False
        self.is_proven = True  # whether the output on the part that was found is known to be that on the whole graph

    def scale(self, call: Call) -> float:
        """Return the largest magnitude of the output on the whole graph, or on the part if the graph is large."""
        return largest(call.output) if self.large else self.whole.scale()

    def find(self, *, later: bool = False) -> Call:
        """Return the model's call on the computation graph, or on the whole graph if it looks at all of it.

        ``later`` allows to leave the comparison at this node to the caller, if it is all that is left to be proven.
        """
        self._later = later
        try:
            return self._find()
        finally:
            self._wholes.clear()  # calls on the whole graph take memory, and are of no use later

    def _find(self) -> Call:
        if not (self.readout.reads_whole_graph or self.whole.facts.looks_at_all):
            call = self._find_local()
            if call is not None:
                return call
        if self.large:
            self._give_up_parts()
        for call in self._whole_calls():
            return call
        if self.edges == "auto" and not self.whole.weighted:
            # Some models compute something else without weights than with weights of 1.
            self.edges = "mask" if self.readout.kind == "edge" else "removal"
            return self._find()
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
            self._give_up_parts()
            call = self._try(self.num_hops)
        if call is None and self._is_outdated():
            call = self._try(self.num_hops)
        if call is not None:
            return call
        if next(self._whole_calls(), None) is None:
            return None  # it is not a matter of the part
        if self._looks_at_all():
            self.whole.facts.looks_at_all = True  # for the next node
            return None
        for hops in range(self.num_hops + 1, self.num_hops + 1 + _SEARCHED):
            for call in self._calls(hops):
                if self._fits(call) and self._loops_are_own(call) and self._probe(call).fits:
                    raise ModelError(
                        f"messages of {type(self.model).__name__} go further than {self.num_hops} hops: its output at "
                        f"{self.name} is the same as on the whole graph from {hops} hops on. Pass num_hops={hops}"
                    )
        return None

    def _give_up_parts(self) -> None:
        """Run the model on the whole graph from now on, although that is large, if there is memory for it."""
        name = type(self.model).__name__
        self.graph.check_whole(
            f"no part of at most {_MOST} nodes and edges shows whether {name} needs more of the graph at {self.name}"
            if self._is_undecided
            else f"{name} gives something else on a part of the graph at {self.name}"
        )
        self._check_size(self.graph.num_nodes, self.graph.num_edges)
        self.large = False

    def _is_outdated(self) -> bool:
        """Return whether the output on the whole graph has changed by a write that has left no trace."""
        kept = self.whole.output()
        self.whole.forget()
        self._wholes.clear()
        return not torch.equal(self.whole.output(), kept)

    def _looks_at_all(self) -> bool:
        """Return whether no number of hops is enough: the output depends on more than messages can bring.

        That is so if it depends on an unconnected copy, of the graph or of the part (where a threshold that all nodes
        reach together is passed by the copy), or if the part is not enough although nothing outside of it has an
        effect: then it is the number or the order of nodes and edges that matters.
        """
        if self.whole.task.level == "graph" or sees_copy(next(self._whole_calls())):
            return True
        calls = list(self._calls(self.num_hops))
        return any(map(sees_copy, calls)) or not any(self._probe(call).depends for call in calls)

    def _try(self, num_hops: int) -> Call | None:
        for call in self._calls(num_hops):
            how = (self._key, num_hops, self.edges, call.degrees, call.loop_weight)
            if self._may_wait(call.part, call.loop_weight, call.degrees):
                self.is_proven = False
                return call
            if self.large:
                if self.whole.facts.proved == how or self._prove(call, how):
                    return call
                continue
            if not self._fits(call) or not self._loops_are_own(call):
                continue
            if self._is_everything(call):  # then the comparison says nothing of what is outside
                return call
            if how not in self.record.probed:
                probe = self._probe(call)
                if not probe.fits:
                    continue
                if not probe.is_telling:  # a node without neighbours, for example, says nothing of other nodes
                    return call
                self.record.probed.add(how)
            self.whole.facts.proved = how
            return call
        return None

    def _prove(self, call: Call, how: tuple[Any, ...]) -> bool:
        """Return whether parts like that of ``call`` are enough on a large graph; see the class's docstring.

        What is beyond the explained node decides if it can be looked at, even if it tells nothing of other nodes.
        """
        for each in _EACH:
            for there in self._witnesses(call):
                is_own = there is self and not each
                try:
                    found = there._compare(call, each, is_own)
                except MemoryLimitError:
                    continue
                if found is None:
                    return False
                part, beyond = found
                if _lacks_nothing(part.part, beyond.part):  # then the comparison says nothing of what is outside
                    if is_own:
                        return True
                    continue
                if how not in self.record.probed:
                    probe = Probe(part, beyond)
                    if not probe.fits:
                        return False
                    if not probe.is_telling:  # a node without neighbours, for example, says nothing of other nodes
                        if is_own:
                            return True
                        continue
                    self.record.probed.add(how)
                self.whole.facts.proved = how
                return True
        self._is_undecided = True
        return False

    def _witnesses(self, call: Call) -> Iterator[Placement]:
        """Yield what a proof may be made at: the explained nodes, and some others of their computation graph."""
        yield self
        others = call.part.nodes[len(call.part.seeds) : call.part.num_visible]
        for node in others[:: max(1, len(others) // _WITNESSES)][:_WITNESSES].tolist():
            rows = torch.tensor([node])
            readout = Readout(self.whole.task, self.graph, self.readout.kwargs, self.graph.num_nodes, node, rows)
            where = self.whole, readout, self.num_hops, self.edges, f"node {node}"
            yield Placement(*where, large=True, most=self._most, limit=self._limit, check_size=self._check_size)

    def _compare(self, like: Call, each: int, is_own: bool) -> tuple[Call, Call] | None:
        """Return the model's calls on a part and on a wider one, None if they differ by more than rounding.

        The part is that of ``like`` itself, or one like it around these nodes on a graph that is thinner.
        """
        hops, loop_weight = like.part.num_hops, like.loop_weight
        wider = self._around(hops + _WIDER, "out", loop_weight, min(_MOST, self._most), each)
        call: Call | None = like
        if not is_own:
            part = self._around(hops, like.degrees, loop_weight, self._most, each)
            call = self._call(part, loop_weight, like.degrees)
        beyond = self._call(wider, loop_weight)
        if (
            call is None
            or beyond is None
            or not is_close(call.output[call.rows], beyond.output[beyond.rows], largest(beyond.output))
            or not self._is_as_called(beyond, each)
            or sees_copy(beyond)  # a part of the nodes does not show what a model reads from all nodes alike
            or not self._loops_are_own(call, each)
        ):
            return None
        return call, beyond

    def _calls(self, num_hops: int) -> Iterator[Call]:
        """Yield the model's calls on computation graphs of so many hops, the most likely one first."""
        own = find_sender_degrees(self.model)
        options: tuple[Degrees, ...] = (own,) if own == "out" else (own, "out")
        for degrees in options:
            for loop_weight in self._loop_weights:
                try:
                    part = self._around(num_hops, degrees, loop_weight, self._most)
                except MemoryLimitError as error:
                    assert self._limit is not None
                    raise MemoryLimitError(
                        f"running the model once at {self.name} needs more than max_memory = "
                        f"{format_size(self._limit)}, because {error}: raise max_memory, or use fewer hops"
                    ) from None
                call = self._call(part, loop_weight, degrees)
                if call is not None:
                    yield call

    def _around(
        self, num_hops: int, degrees: Degrees | None, loop_weight: float | None, most: int = NO_LIMIT, each: int = 0
    ) -> ComputationGraph:
        """Return the computation graph of so many hops, cut out for a kind of degrees; all of the graph for None.

        It has at most ``most`` nodes and edges, and ``each`` at a node; see :meth:`Graph.find_part`.
        """
        seeds = self.readout.seeds
        if degrees is None:
            return ComputationGraph.whole(self.graph, seeds, num_hops, loop_weight=loop_weight)
        kind = {"degrees": degrees == "in", "out_degrees": degrees == "out"}
        return ComputationGraph.around(
            self.graph, seeds, num_hops, loop_weight=loop_weight, most=most, each=each, **kind
        )

    def _whole_calls(self) -> Iterator[Call]:
        """Yield the model's calls on the whole graph that give what the model gives there, the likeliest first."""
        for loop_weight in self._loop_weights:
            call = self._whole_call(loop_weight)
            if call is not None and self._fits(call) and self._loops_are_own(call):
                yield call

    def _whole_call(self, loop_weight: float | None) -> Call | None:
        way = self.edges, loop_weight
        if way not in self._wholes:
            self._wholes[way] = self._call(self._around(self.num_hops, None, loop_weight), loop_weight)
        return self._wholes[way]

    @cached_property
    def _loop_weights(self) -> tuple[float | None, ...]:
        if self.graph.kinds is not None:
            # A node has one entry for its loop, but its layers may add one for each relation. These stay with them.
            return (None,)
        layers = message_passing_layers(self.model)
        added = [getattr(layer, "add_self_loops", False) for layer in layers]
        # GCNConv(improved=True) gives its loops a weight of 2, but a weight of 1 if it is called without weights.
        improved = self.whole.weighted and any(getattr(layer, "improved", False) for layer in layers)
        # A model whose layers disagree about self-loops is explained without implied ones.
        return (2.0 if improved else 1.0, None) if added and all(added) else (None,)

    def _may_wait(self, part: ComputationGraph, loop_weight: float | None, degrees: Degrees | None) -> bool:
        """Return whether the comparison of a part may wait: parts of its kind have held in every other way."""
        if not self._later or self.large or loop_weight is None or degrees is None:
            return False
        return (
            self._key in self.record.steady
            and (self._key, part.num_hops, self.edges, degrees, loop_weight) in self.record.probed
            and self.record.own_loops.get((self._key, loop_weight), False)
        )

    def holds(self, call: Call) -> bool:
        """Make the comparison that was left for later; from now on, none is."""
        self._later, self.is_proven = False, True
        try:
            return self._fits(call)
        except GraphfaithError:
            raise
        except Exception:  # the user's own forward may raise anything; the search says what
            return False

    def _call(self, part: ComputationGraph, loop_weight: float | None, degrees: Degrees | None = None) -> Call | None:
        """Return the model's call on ``part``, or None if it fails there because it has a parameter for every node."""
        self._check_size(part.num_nodes, part.num_plain)  # a loop for each node is counted there
        is_known = self._key in self.record.steady
        if not is_known:
            drop_kept(self.model)  # it may have the size of another part
        try:
            call = Call(self.model, self.record, self.whole.task, self.readout, part, loop_weight, self.edges)
            call.degrees = degrees
            if self._may_wait(part, loop_weight, degrees):
                return call
            _ = call.output  # runs the model, which may fail
            if not is_known:
                check_steady(call)
                self.record.steady.add(self._key)
            return call
        except GraphfaithError:
            raise
        except Exception as error:  # the user's own forward may raise anything
            self._failure = error
            return None

    def _fits(self, call: Call) -> bool:
        """Return whether the model gives on a part what it gives on the whole graph."""
        expected = self.whole.output()[self.readout.rows]
        return is_close(call.output[call.rows], expected, self.whole.scale())

    def _is_as_called(self, call: Call, each: int) -> bool:
        """Return whether loops and weights of 1 that are given are the same to the model as none, if none are given."""
        plain: Call | None = call
        if call.loop_weight is not None:
            plain = self._call(self._around(call.part.num_hops, "out", None, each=each), None)
        if plain is None:
            return False
        edge_index, kwargs = plain.inputs(plain.part.weight)
        if not self.whole.weighted and plain.route == "weight":
            del kwargs["edge_weight"]
        output = plain.ask(plain.part.x, edge_index, kwargs)
        return is_close(output[plain.rows], call.output[call.rows], largest(call.output))

    def _loops_are_own(self, call: Call, each: int = 0) -> bool:
        """Return whether self-loops that are given with the edges are to the model what those of its layers are.

        A mean over all weights, for example, is another one with the loops, which shows when the weights are not 1. A
        branch shows only where it is taken.
        """
        if call.loop_weight is None or call.route != "weight":
            return True
        way = self._key, call.loop_weight
        if way in self.record.own_loops:
            return self.record.own_loops[way]
        part = self._around(call.part.num_hops, call.degrees, None, each=each)
        plain = self._call(part, None, call.degrees)
        if plain is None or not is_close(plain.output[plain.rows], call.output[call.rows], largest(call.output)):
            return True
        same, found = True, []
        for x, weight in draw_points(call, seed=0):
            weight = torch.where(call.part.edge_id < 0, call.part.weight, weight)
            given, left = run_at(call, x, weight), run_at(plain, x, weight)
            if given is not None and left is not None:
                same &= is_close(given[call.rows], left[plain.rows], largest(left))
                found.append(given[call.rows])
        # A node without neighbours says nothing of other nodes: its output is the same without any edge.
        if not same or (found and not is_close(found[0], found[-1], largest(found[0]))):
            self.record.own_loops[way] = same
        return same

    def _is_everything(self, call: Call) -> bool:
        """Return whether the part lacks nothing of the whole graph."""
        if call.part.num_nodes < self.graph.num_nodes:
            return False
        return int(((call.part.edge_id >= 0) & call.part.felt).sum()) == self.graph.num_edges

    def _probe(self, call: Call) -> Probe:
        """Return the comparison of the part with the whole graph, at other features and weights."""
        whole = self._whole_call(call.loop_weight)
        # What fits on a part with these loops has been run with them, so that it can be run beyond the part, too.
        return Probe(call, call if whole is None else whole)

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
            gain = "a better fit" if call.degrees is None else "a smaller computation graph and a better fit"
            warnings.warn(
                f"messages of {type(model).__name__} seem to go {felt} hops, not {self.num_hops}: pass "
                f"num_hops={felt} for {gain}",
                ReachWarning,
                stacklevel=5,
            )


def _lacks_nothing(part: ComputationGraph, wider: ComputationGraph) -> bool:
    """Return whether a part has all that a wider one has."""
    return wider.num_visible == part.num_visible and wider.num_plain == part.num_plain


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
