"""Whether a part of the graph is enough: the model on it and beyond it, at other features and entries of A.

With constant features, or on a graph without weights, much cannot be seen in the output on the graph as it is: a reach
that is too short, or a mean over the weights of all edges. So both are drawn at random. What is inside the part is
drawn a few times, also with edges that are gone: the largest degree of all nodes, for example, is a number of the part
as long as the node that has it keeps its edges. What is outside varies, up to numbers far larger than those inside and
of both signs, because a limit that all nodes share, or a branch on a sum over all nodes, shows in nothing less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph
from .call import Call
from .copies import lacks_edges, left_entries, output_without_some, removable_entries
from .readout import is_pairs
from .whole import is_close, largest

_FAR, _HEAVY = 1000.0, 100.0  # times what is inside; a model that no message from there reaches does not feel it


@dataclass(frozen=True)
class Draw:
    """A distribution of features and of entries of A.

    Features are X = ``feature`` z, where z is normally distributed, or its magnitude is unless ``signed``. Entries are
    A = ``weight`` u, where u is uniform in [0, 1] and the unit is the mean of the part's own entries.
    """

    feature: float
    weight: float
    signed: bool = False

    def on(self, part: ComputationGraph, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return features [n, d] and entries of A [e]; entries that F does not read are left as they are."""
        z = torch.randn(part.x.shape, generator=generator)
        u = torch.rand(part.weight.shape, generator=generator)
        most, unit = 0.01 * torch.finfo(part.x.dtype).max, float(part.weight.mean()) or 1.0
        x = (self.feature * (z if self.signed else z.abs())).double().clamp(-most, most).to(part.x.dtype)
        return x, torch.where(part.felt, (self.weight * unit * u).to(part.weight.dtype), part.weight)


ORDINARY = Draw(1.0, 2.0, signed=True)


def draw_around(part: ComputationGraph, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Return features and entries of A that are ordinary, that are large, and that are largely negative or 0."""
    generator, far = torch.Generator().manual_seed(seed), _FAR * max(1.0, largest(part.x))
    return [draw.on(part, generator) for draw in (ORDINARY, Draw(far, _HEAVY), Draw(-far, 0.0))]


def draw_gaps(call: Call, weight: Tensor) -> list[Tensor]:
    """Return ``weight`` [e] without half of its entries and without any, as far as they can be taken away."""
    some = torch.rand(weight.shape, generator=torch.Generator().manual_seed(4)) < 0.5
    read = removable_entries(call) if call.route == "removal" else call.part.felt
    return [torch.where(read & gone, 0.0, weight) for gone in (some, torch.ones_like(some))]


def draw_points(call: Call, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Return features and entries of A like those of :func:`draw_around`, also with gaps."""
    (x, weight), (large, heavy), (negative, _) = draw_around(call.part, seed)
    return [(x, weight), (large, heavy), (negative, weight), *((x, gaps) for gaps in draw_gaps(call, weight))]


class Probe:
    """A comparison of the model on a part, ``call``, with the model on a graph that holds it, ``beyond``.

    Both have to take A in the same way. ``fits`` says whether the output on the part is that beyond it at every point,
    ``depends`` whether something outside of the part has an effect on the output beyond it, and ``is_telling`` whether
    the output depends on the features and on the entries of A inside. If it does not, nothing has been shown.
    """

    def __init__(self, call: Call, beyond: Call) -> None:
        self._call, self._beyond = call, beyond
        self._nodes, self._entries = _places_in(call.part, beyond.part)
        self.fits, self.depends = True, False
        self._outside = draw_around(beyond.part, seed=2)
        own = self._compare(call.part.x, call.part.weight, self._outside[1:], beyond.output[beyond.rows])
        self.is_telling = self._tells(ORDINARY, own)
        if not self.is_telling:
            # A softmax of numbers that are far larger than the graph's own is 0 or 1, whatever the weights are.
            self.is_telling = self._tells(Draw(_typical(call.part.x), ORDINARY.weight, signed=True), own)

    def _tells(self, draw: Draw, own: Tensor | None) -> bool:
        """Compare at features and entries of A that are drawn, and return whether the output depends on both.

        ``own`` is the output at those of the graph.
        """
        part = self._call.part
        x, weight = draw.on(part, torch.Generator().manual_seed(0))
        moved = self._compare(x, part.weight, [])
        if moved is None:  # features may be ids that the model looks up, so that only its own are of use
            x, moved = part.x, own
        both = self._compare(x, weight, self._outside)
        for gaps in draw_gaps(self._call, weight):
            self._compare(x, gaps, self._outside)
        return (
            own is not None
            and moved is not None
            and both is not None
            and (moved is own or not is_close(moved, own, largest(own)))
            and not is_close(both, moved, largest(moved))
        )

    def _compare(
        self, x: Tensor, weight: Tensor, outside: list[tuple[Tensor, Tensor]], first: Tensor | None = None
    ) -> Tensor | None:
        """Compare at one point inside and several outside; return the explained rows, None if they are no numbers.

        ``first`` are the rows beyond the part with what is outside as it is, if they are known.
        """
        call, beyond = self._call, self._beyond
        output = run_at(call, x, weight)
        if output is None or not bool(torch.isfinite(output[call.rows]).all()):
            return None
        rows, scale = output[call.rows], largest(output)
        visible, felt = call.part.num_visible, call.part.felt
        for far_x, far_weight in outside:
            around_x, around_weight = far_x.clone(), far_weight.clone()
            around_x[self._nodes[:visible]] = x[:visible]
            around_weight[self._entries[felt]] = weight[felt]
            found = run_at(beyond, around_x, around_weight, plain=True)
            if found is None:
                continue
            found = found[beyond.rows]
            first = found if first is None else first
            self.fits &= is_close(found, rows, scale)
            self.depends |= not is_close(found, first, scale)
        return rows


def _typical(x: Tensor) -> float:
    """Return the root of the mean square of features; 1 if they are all 0, or are no finite numbers."""
    size = float(x.double().square().mean().sqrt()) if x.numel() else 0.0
    return size if 0 < size < float("inf") else 1.0


def _places_in(part: ComputationGraph, beyond: ComputationGraph) -> tuple[Tensor, Tensor]:
    """Return where the nodes and the entries of A of a part are in a graph that holds it."""
    order = beyond.nodes.argsort()
    nodes = order[torch.searchsorted(beyond.nodes[order], part.nodes)]
    # Both have their edges in the order of the whole graph, and then a self-loop for each node.
    edges = torch.searchsorted(beyond.edge_id[: beyond.num_plain], part.edge_id[: part.num_plain])
    return nodes, torch.cat([edges, beyond.num_plain + nodes])


def sees_copy(call: Call) -> bool:
    """Return whether the output changes if an unconnected copy of the graph stands beside it, with other X and A.

    No message comes from there, so that such a model reads features or weights of all nodes alike. The graph itself is
    tried as it is and at other points, because what is done with weights may have no effect on weights of 1, and with
    gaps, because what is done with the number of edges may have none if the copy has as many. The copy comes after the
    graph and before it, where it takes the place of the first node.
    """
    part = call.part
    try:
        _run_beside(call, part.x, part.weight, part.x, part.weight)
    except Exception:  # a model that has a parameter for every node cannot be given more of them
        return True
    x, weight = ORDINARY.on(part, torch.Generator().manual_seed(0))
    drawn = weight if call.route == "weight" else part.weight
    points = [(part.x, part.weight), (x, drawn), *((x, gaps) for gaps in draw_gaps(call, drawn))]
    for x, weight in points:
        expected = run_at(call, x, weight)
        if expected is None:
            continue
        for first in (True, False) if call.task.level == "node" else (True,):
            rows = call.rows if first else call.rows + part.num_nodes
            for beside_x, beside_weight in draw_around(part, seed=1):
                point, beside = (x, weight), (beside_x, beside_weight)
                try:
                    output = _run_beside(call, *point, *beside) if first else _run_beside(call, *beside, *point)
                except Exception:  # the user's own forward may raise anything
                    continue
                if not is_close(output[rows], expected[call.rows], largest(expected)):
                    return True
    return False


def _run_beside(call: Call, x: Tensor, weight: Tensor, beside_x: Tensor, beside_weight: Tensor) -> Tensor:
    """Return the output on two copies of the graph that no edge connects."""
    count = call.part.num_nodes
    (edge_index, kwargs), (other, beside) = _inputs(call, weight), _inputs(call, beside_weight)
    sizes = (count, edge_index.size(1))
    arguments = {name: _join(value, beside[name], sizes) for name, value in kwargs.items()}
    return call.ask(torch.cat([x, beside_x]), torch.cat([edge_index, other + count], dim=1), arguments)


def _inputs(call: Call, weight: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Return the ``edge_index`` and the keyword arguments of the model, without the edges that are removed."""
    if call.route != "removal":
        return call.inputs(weight)
    places = left_entries(call, weight).nonzero().view(-1)
    return call.edges_at(places), call.arguments_at(places)[0]


def _join(value: Any, beside: Any, sizes: tuple[int, int]) -> Any:
    """Return an argument of the model for two graphs, if it has an entry for every node or every edge."""
    counted = isinstance(value, Tensor) and value.dim() and value.size(0) in sizes and not is_pairs(value)
    return torch.cat([value, beside]) if counted else value


def run_at(call: Call, x: Tensor, weight: Tensor, *, plain: bool = False) -> Tensor | None:
    """Return the model's output at a point that was made for a comparison, None if the model cannot be run there."""
    try:
        return output_without_some(call, x, weight) if lacks_edges(call, weight) else call(x, weight, plain=plain)
    except Exception:  # the user's own forward may raise anything
        return None
