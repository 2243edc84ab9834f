"""The arithmetic and the bytes that a figure cannot do without, counted from the sizes of computation graphs.

What is counted is the least that the equations ask for: every input is read once, every result is written once, all
that lies between stays in the caches, and no call costs anything. Rows of X are taken to be linearly independent as far
as their number allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from torch_geometric.nn import GCNConv

from graphfaith.graph.parts import Parts
from graphfaith.surrogate import readings
from graphfaith.surrogate.sensitivity import RANK

from .case import Case
from .contenders import EDGES
from .rates import Rates

_DRAW = 11  # operations of a random number: a dozen on 32 bits, of which two are done at a time, and five on doubles
_DRAW_SINGLE = 5  # the same for a feature, in single precision
_EVERY = 12  # AnchoredKEC takes the gradient of F at one in this many samples
_STEPS = 3  # how often what the shares leave is projected on the units
_LEADING, _PAIRS, _LONG = 32, 10, 3  # units that pairs are looked for among, pairs, and how many more are compared


@dataclass(frozen=True)
class Work:
    """Numbers of bytes and of operations.

    >>> Work(moved=8, product=2) + Work(product=4) * 0.5
    Work(moved=8.0, looped=0.0, product=4.0, product_single=0.0)
    """

    moved: float = 0.0  # bytes that are read from memory or written to it
    looped: float = 0.0  # operations along vectors, in double precision; two in single precision count as one
    product: float = 0.0  # operations of matrix products and factorisations
    product_single: float = 0.0  # the same in single precision

    def __add__(self, other: Work) -> Work:
        """Return both works together."""
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, count: float) -> Work:
        """Return the work of doing this so many times."""
        return Work(*(count * a for a in astuple(self)))

    def seconds(self, rates: Rates) -> float:
        """Return the least time: max(bytes / rate, sum of operations / rate), since the two may overlap."""
        computed = (
            self.looped / rates.looped + self.product / rates.product + self.product_single / rates.product_single
        )
        return max(self.moved / rates.moved, computed)


@dataclass(frozen=True)
class Shape:
    """The sizes of a computation graph, or of a whole graph, that the work depends on."""

    nodes: tuple[int, ...]  # nodes up to hop 0 .. M whose features F sees
    into: tuple[int, ...]  # entries of A into nodes up to hop 0 .. M
    entries: int
    nonzeros: int  # numbers of X that are not 0
    widths: tuple[int, ...]  # features of X and of the output of each layer

    @property
    def num_hops(self) -> int:
        """The number of hops, M."""
        return len(self.nodes) - 1

    @property
    def spans(self) -> tuple[int, ...]:
        """The numbers of unknowns of the k-hop model for k = 1 .. M: the ranks of the rows of X in reach."""
        return tuple(min(count, self.widths[0]) for count in self.nodes[1:])


def shapes_of(case: Case, nodes: Sequence[int]) -> list[Shape]:
    """Return the shapes of the computation graphs of some nodes."""
    first = case.target(nodes[0])
    hops, degrees = first.num_hops, first.call.degrees
    parts = Parts.around(
        first.graph,
        nodes,
        hops,
        degrees=degrees == "in",
        out_degrees=degrees == "out",
        loop_weight=first.call.loop_weight,
    )
    nonzeros, widths, shapes = _nonzeros(case), _widths(case), []
    for i in range(len(parts)):
        own, entries = parts.slices(i)
        hop = parts.hop[own]
        into, seen = hop[parts.ends[1, entries]], parts.num_visible[i]
        shapes.append(
            Shape(
                tuple(int((hop[:seen] <= k).sum()) for k in range(hops + 1)),
                tuple(int((into <= k).sum()) for k in range(hops + 1)),
                len(into),
                int(nonzeros[parts.nodes[own][:seen]].sum()),
                widths,
            )
        )
    return shapes


def shape_of_all(case: Case) -> Shape:
    """Return the shape of the whole graph, in which F is read from every node."""
    count, hops = int(case.data.num_nodes), case.target(0).num_hops
    entries = int(case.data.num_edges) + count
    return Shape((count,) * (hops + 1), (entries,) * (hops + 1), entries, int(_nonzeros(case).sum()), _widths(case))


def work_of_model(shape: Shape, samples: int, *, features: bool = False) -> Work:
    """Return the work of F, a GCN, on samples whose edges, or whose ``features``, are perturbed.

    Layer l is needed at nodes up to hop M - l. Where only edges move, all samples share X W of the first layer.
    """
    hops, widths = shape.num_hops, shape.widths
    single = 2.0 * shape.nodes[hops] * widths[0] * widths[1] * (samples if features else 1)
    looped = 3.0 * shape.entries * (1 if features else samples)  # the normalised entries of A
    for layer in range(1, hops + 1):
        looped += samples * shape.into[hops - layer] * widths[layer]  # multiply and add, in single precision
        if layer > 1:
            single += 2.0 * samples * shape.nodes[hops - layer + 1] * widths[layer - 1] * widths[layer]
    return Work(looped=looped, product_single=single)


def work_of_draws(shape: Shape, samples: int, *, features: bool = False) -> Work:
    """Return the work of drawing the samples."""
    if features:
        return Work(looped=_DRAW_SINGLE * float(samples) * shape.nodes[-1] * shape.widths[0])
    return Work(looped=_DRAW * float(samples) * shape.entries)


def work_of_fit(shape: Shape, samples: int) -> Work:
    """Return the work of KEC's walks, features, normal equations, solution and gradient where edges move."""
    hops, points = shape.num_hops, samples + 1.0
    looped = points * shape.entries * (2 * hops - 1)  # A^k 1
    product = 0.0
    for k, (count, span) in enumerate(zip(shape.nodes[1:], shape.spans, strict=True), start=1):
        looped += points * (2 * shape.into[k - 1] * (k > 1) + 4 * count)  # e^T A^k, and both sides of N
        looped += samples * count  # the difference to the graph as it is
        product += 2.0 * samples * (count * span - span**2 / 2)  # times the triangular coordinates of X
        looped += shape.entries * (2 + 8 * k)  # the gradient of p
    size, rows, rank = sum(shape.spans), shape.nodes[-1], shape.spans[-1]
    looped += float(shape.nonzeros) * rows + 6.0 * samples * size  # X X^T; phi^T dF, the solution, what is left
    product += rank**3 / 3 + (rows - rank) * float(rank) ** 2
    few, many = min(size, samples), max(size, samples)
    return Work(looped=looped, product=product + float(few) ** 2 * many + few**3 / 3)


def work_of_feature_fit(shape: Shape, samples: int) -> Work:
    """Return the work of KEC's features, normal equations and solution where features move."""
    width = shape.num_hops * shape.widths[0]
    few, many = min(width, samples), max(width, samples)
    single = 2.0 * samples * shape.widths[0] * sum(shape.nodes[1:])
    return Work(looped=6.0 * samples * width, product=float(few) ** 2 * many + few**3 / 3, product_single=single)


def work_of_anchored_fit(shape: Shape, samples: int) -> Work:
    """Return the work of AnchoredKEC's gradients of F, terms of p, regression and gradient of p where edges move.

    A pass backwards takes twice the operations of F.
    """
    hops, points, asked = shape.num_hops, samples + 1.0, -(-samples // _EVERY)
    columns = min(RANK, *shape.widths[:1])
    looped = 6.0 * points * shape.entries  # N(A), and N(A) 1
    product = 2.0 * samples * shape.entries * (2 + RANK) + 2.0 * float(asked) ** 2 * shape.entries
    for k, count in enumerate(shape.nodes[1:], start=1):
        looped += points * (2 * shape.into[k - 1] + count) + shape.entries * (2 + 8 * k)
        product += 2.0 * samples * count * columns
    size = hops * (columns + 2) + 4
    backwards = work_of_model(shape, asked) * 2
    return backwards + Work(looped=looped, product=product + float(size) ** 2 * samples + size**3 / 3)


def work_of_shares(shape: Shape, samples: int) -> Work:
    """Return the work of reading shares, their errors and pairs off AnchoredKEC's p where edges move uniformly.

    Every entry is a unit. Half of the points are mirror images, which are not drawn.
    """
    hops, entries, into = shape.num_hops, shape.entries, shape.into[-1]
    slopes, drawn = readings.count_slopes(entries), readings.count_samples(EDGES, entries, entries)
    asked = samples - -(-samples // _EVERY)
    looped = slopes * (9.0 * entries + 6.0 * hops * into)  # the mean gradient of p
    looped += 2 * drawn * (2.0 * entries + 4.0 * into)  # N(A), and N(A) 1
    for k in range(1, hops + 1):
        looped += 2 * drawn * (2.0 * shape.into[k - 1] + 5.0 * shape.nodes[k])  # the sum over walks, step by step
    looped += drawn * entries * (2.0 + 7.0 * _STEPS) + 7.0 * asked * entries  # projections on units
    product = 2.0 * drawn * entries * (2 + RANK)  # along the directions of the curvature
    leading, compared = min(_LEADING, entries), min(_LONG * _PAIRS, entries**2)
    product += 2.0 * drawn * (leading**2 / 2 + compared**2 / 2)
    product += 2.0 * asked * entries * (1 + _PAIRS)
    return Work(looped=looped, product=product)


def work_of_share_draws(shape: Shape) -> Work:
    """Return the work of drawing the samples that shares are read in."""
    points = readings.count_slopes(shape.entries) // 2
    return work_of_draws(shape, points + readings.count_samples(EDGES, shape.entries, shape.entries))


def work_of_masks(shape: Shape) -> Work:
    """Return the work of reading one computation graph, and of writing its scores for edges and features."""
    numbers = float(shape.nodes[-1]) * shape.widths[0]
    return Work(
        moved=8 * numbers + 40.0 * shape.entries,
        looped=2.0 * shape.num_hops * shape.nonzeros,
        product=2.0 * shape.num_hops * numbers,
    )


def work_of_records(shape: Shape) -> Work:
    """Return the work of writing the records of one node: four numbers for an entry of A, and two for a node."""
    return Work(moved=32.0 * shape.entries + 16.0 * shape.nodes[-1])


def shared_work(case: Case, samples: int, *, shares: bool = False) -> Work:
    """Return what is done once for all nodes of a graph: draws, F, and a table of perturbed entries of A.

    With ``shares`` the samples that they are read in are drawn too.
    """
    shape = shape_of_all(case)
    more = readings.SLOPES + readings.SAMPLES if shares else 0
    drawn = work_of_draws(shape, more) + Work(moved=8.0 * more * shape.entries)
    table = Work(moved=2 * 8.0 * (samples + 1) * shape.entries + 4.0 * shape.nodes[-1] * shape.widths[0])
    return work_of_draws(shape, samples) + work_of_model(shape, samples) + table + drawn


def _nonzeros(case: Case) -> np.ndarray:
    count: np.ndarray = (case.data.x != 0).sum(dim=1).numpy()
    return count


def _widths(case: Case) -> tuple[int, ...]:
    layers = [layer for layer in case.model.modules() if isinstance(layer, GCNConv)]
    return (layers[0].in_channels, *(layer.out_channels for layer in layers))
