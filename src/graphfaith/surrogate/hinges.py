"""Hinges: where F has kinks along lines through the graph, found from values and gradients of F alone.

A network with ReLU is linear between the places at which a unit switches. No polynomial of low degree follows such a
kink, but one can be found: along a line F's slope jumps there, and the jump of F's gradient is the direction in which
the unit looks.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from .._base.errors import ModelError
from ..model.target import Target
from ..sampling.perturbations import Perturbations
from .sensitivity import products_along

LINES = 12  # lines through the graph, each in the direction of a sample
POINTS = 24  # points on a line at which F is evaluated
_TURNS = 3  # the lines are looked at in so many groups; kinks of the first are known in the next
_REACH = 1.2  # a line goes this many times as far as its sample, both ways
_MOST = 32  # kinks of a group at which F is differentiated: the sharpest
_BESIDE = 0.2  # how far beside a kink, in distances of points
_NEARLY = 0.05  # how far outside of its two points a kink may seem to be
_FAINT = 1e-3  # a jump of the slope below this share of the mean slope is none
_SAME = 0.98  # the cosine of two directions of the same unit
_LEAST, _LARGEST = 0.3, 3.0  # the jump of the gradient along a line, as a share of that of the slope


@dataclass(frozen=True)
class Hinges:
    r"""A sum of hinges, each of which is flat at the graph (X, A).

    .. math:: h(X - \epsilon_X, A - \epsilon_A) = \sum_j w_j \left( \sigma_j \max(0, \sigma_j (y_j - m_j)) -
              [\sigma_j y_j > 0] (y_j - m_j) \right), \qquad m_j = d_j \cdot \epsilon

    :math:`d_j` is the jump of F's gradient at a kink, and :math:`y_j` how far the graph is from it along :math:`d_j`.
    The second part takes away the slope at the graph, which the other terms of p have.
    """

    along_x: Tensor  # [J, n, d] d_j for X
    along_a: Tensor | None  # [J, e] d_j for A, if A moves
    level: Tensor  # [J] y_j
    side: Tensor  # [J] sigma_j: 1 if F bends upwards, -1 if downwards
    weights: Tensor  # [J] w_j
    switched: Tensor  # [J] at how many more samples of a fit the hinge is on than at the graph, as a share

    def __len__(self) -> int:
        return len(self.level)

    def terms(self, perturbations: Perturbations) -> tuple[Tensor, Tensor]:
        """Return the change of each hinge at each sample, [S, J], and by how much its slope has changed: 1, 0 or -1."""
        moved = torch.zeros(len(perturbations), len(self), dtype=torch.float64)
        if perturbations.features is not None:
            moved += products_along(perturbations.features, self.along_x)
        if perturbations.edges is not None and self.along_a is not None:
            moved += products_along(perturbations.edges, self.along_a)
        side, level = self.side, self.level
        on = (side * level > 0).double()
        after = level - moved
        lost = side * (side * level).clamp(min=0) - side * (side * after).clamp(min=0) - on * moved
        return lost, (side * after > 0).double() - on

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return h(X, A) - h(X - eps_X, A - eps_A) for each sample, [S]."""
        return self.terms(perturbations)[0] @ self.weights

    def mean_gradient(self) -> tuple[Tensor, Tensor | None]:
        """Return the mean derivatives of h at the samples of the fit, [n, d] and [e]."""
        pull = self.weights * self.switched
        of_x = (pull @ self.along_x.double().flatten(1)).view(self.along_x.shape[1:])
        return of_x, None if self.along_a is None else pull @ self.along_a


def find_hinges(target: Target, samples: Perturbations) -> Hinges | None:
    """Return the hinges that F shows on lines through the graph in the directions of samples; None if there are none.

    Only X moves along the lines. If the samples move A too, a hinge has a direction in A, which is the jump of F's
    gradient for A. Of a unit that several lines meet, the sharpest kink is taken.
    """
    lines = samples.features
    if lines is None or not len(lines):
        return None
    found: Hinges | None = None
    lines = lines[:LINES]
    size = -(-len(lines) // _TURNS)
    with suppress(ModelError):  # If F is not finite on a line, what was found before is all.
        for start in range(0, len(lines), size):
            found = _add_kinks(target, lines[start : start + size], found, of_a=samples.edges is not None)
    return found


def _add_kinks(target: Target, lines: Tensor, known: Hinges | None, *, of_a: bool) -> Hinges | None:
    """Return the known hinges and those of other kinks on some lines, [L, n, d]."""
    place, jump, which = _find_kinks(target, lines, known)
    if not len(place):
        return known
    graph, step = target.computation_graph, 2 * _REACH / (POINTS - 1)
    sides = []
    for beside in (-_BESIDE * step, _BESIDE * step):
        parts = []
        for start in range(0, len(place), POINTS):
            at = slice(start, start + POINTS)
            moved = (place[at] + beside).to(lines.dtype)[:, None, None] * lines[which[at]]
            parts.append(target.gradients(graph.x - moved, graph.weight.expand(len(moved), -1)))
        sides.append([torch.cat(part) for part in zip(*parts, strict=True)])
    rise, along_x, along_a = (after - before for before, after in zip(*sides, strict=True))
    along = [[one.flatten() @ lines[k].flatten() for one, k in zip(side[1], which, strict=True)] for side in sides]
    first, last = (torch.stack(one).double() for one in along)
    pull = last - first
    # A kink is where it was thought to be if the gradient's jump is that of the slope; NaN is not.
    share = -pull / jump
    # Between the two points F is the one straight line and then the other, whatever it does farther away.
    far = _BESIDE * step
    nearer = (rise.double() + far * (first + last)) / pull
    place = torch.where(nearer.abs() <= far, place + nearer, place)
    good = (share > _LEAST) & (share < _LARGEST) & torch.isfinite(along_a.double().sum(dim=1))
    zeros = torch.zeros(int(good.sum()), dtype=torch.float64)
    new = Hinges(
        along_x[good],
        along_a[good].double() if of_a else None,
        (place * pull)[good],
        -torch.sign(pull[good]),
        zeros + 1,
        zeros,
    )
    both = new if known is None else _join(known, new)
    kept = _tell_apart(both)
    return _select(both, kept) if len(kept) else None


def _find_kinks(target: Target, lines: Tensor, known: Hinges | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return where on the lines F has kinks that are not known, [k], the jumps of the slope there, and the lines.

    A kink lies between two points if the straight lines through the points before and after it meet there.
    """
    graph = target.computation_graph
    t = torch.linspace(-_REACH, _REACH, POINTS, dtype=torch.float64)
    step, values = float(t[1] - t[0]), []
    for line in lines:
        moved = t.to(lines.dtype)[:, None, None] * line
        value = target.evaluate(graph.x - moved).double()
        if known is not None:  # h, but for its value at the graph, is minus its change.
            value = value + known.terms(Perturbations(graph, moved, None))[0].sum(dim=1)
        values.append(value)
    value = torch.stack(values)
    slope = value.diff(dim=1) / step
    before, after = slope[:, :-2], slope[:, 2:]
    jump = after - before
    share = (value[:, 2:-1] - value[:, 1:-2] - after * step) / (-jump * step)
    size = jump.abs() * ((share > -_NEARLY) & (share < 1 + _NEARLY))
    beside = torch.nn.functional.pad(size, (1, 1))
    size = size * (size >= beside[:, :-2]) * (size >= beside[:, 2:])
    order = torch.argsort(-size.flatten(), stable=True)[:_MOST]
    order = order[size.flatten()[order] > _FAINT * float(slope.abs().mean())]
    cell, which = order % size.size(1), order // size.size(1)
    return t[1 + cell] + step * share.flatten()[order], jump.flatten()[order], which


def _join(one: Hinges, other: Hinges) -> Hinges:
    """Return the hinges of both."""
    of_a = None
    if one.along_a is not None and other.along_a is not None:
        of_a = torch.cat([one.along_a, other.along_a])
    names = ("level", "side", "weights", "switched")
    rest = (torch.cat([getattr(one, name), getattr(other, name)]) for name in names)
    return Hinges(torch.cat([one.along_x, other.along_x]), of_a, *rest)


def _select(hinges: Hinges, places: Tensor) -> Hinges:
    """Return some of the hinges."""
    of_a = None if hinges.along_a is None else hinges.along_a[places]
    rest = (getattr(hinges, name)[places] for name in ("level", "side", "weights", "switched"))
    return Hinges(hinges.along_x[places], of_a, *rest)


def _tell_apart(hinges: Hinges) -> Tensor:
    """Return the places of hinges that are of different units; of those of the same one the first is taken.

    A line may cross a kink from either side: then d and y have the other sign, and the hinge is the same function.
    """
    flat = hinges.along_x.flatten(1)
    gram = (flat @ flat.T).double()
    size = gram.diagonal().sqrt()
    alike = (gram.abs() >= _SAME * size * size.unsqueeze(1)) & (hinges.side == hinges.side.unsqueeze(1))
    kept: list[int] = []
    for place in range(len(hinges)):
        if not bool(alike[place, kept].any()) and float(size[place]) > 0:
            kept.append(place)
    return torch.tensor(kept, dtype=torch.int64)
