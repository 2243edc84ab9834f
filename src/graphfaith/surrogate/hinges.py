"""Hinges: where F has kinks along lines through the graph, found from values and gradients of F alone.

A network with ReLU is linear between the places at which a unit switches. No polynomial of low degree follows such a
kink, but one can be found: along a line F's slope jumps there, and the jump of F's gradient is the direction in which
the unit looks. The two tangents beside the kink meet where it is.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base.errors import ModelError
from ..graph.graph import Int64
from ..model.target import Target
from ..sampling.perturbations import Perturbations
from .sensitivity import gradients_of, products_along
from .walks import Float64

LINES = 17  # lines at most, each from the graph to a sample whose gradient is known anyway
TURNS, LOOKS = 2, 16  # so many times F is differentiated at so many more points
MOST = 32  # hinges at most: those at which F's slope jumps most
_NEARLY = 0.05  # how far outside of its interval two tangents may meet, as a share of it
_FAINT = 1e-3  # a jump of the slope below this share of the mean slope is none
_CLOSE = 1e-3  # a kink that is this close to the graph, as a share of its line, is at the graph: F has no slope there
_SAME = 0.97  # the cosine of two directions of the same unit


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


def find_hinges(target: Target, samples: Perturbations, gradients: tuple[Tensor, Tensor, Tensor]) -> Hinges | None:
    """Return the hinges that F shows on lines from the graph to samples; None if there are none.

    ``gradients`` are those of :func:`~graphfaith.surrogate.sensitivity.gradients_at` at the samples. Two points of a
    line make an interval. If their gradients differ, F's slope jumps in between, and if it jumps once, it does so where
    the tangents at both points meet, by the difference of the gradients. Where they meet is looked at next: F is there
    what the tangents say, and its gradient that of one of the points, or there are more kinks than one, and both parts
    are intervals of their own. The few looks that there are go where a single kink would be farthest from the straight
    line between the points, because most is at stake there. An interval with several kinks that is not looked into has
    one hinge, which stands for all of them.
    """
    if samples.features is None or not len(samples):
        return None
    lines = _Lines(target, samples, gradients)
    faint = _FAINT * float(np.abs(lines.slopes[0]).mean())
    cells = _Cells.whole(len(samples[:LINES]))
    with suppress(ModelError):  # If F is not finite at a point, what was found before is all.
        for _ in range(TURNS):
            meet, jump = cells.meet(lines)
            inside = (np.abs(jump) > faint) & (meet > cells.start) & (meet < cells.stop)
            split = np.where(inside, meet, (cells.start + cells.stop) / 2)
            height = np.abs(jump) * (split - cells.start) * (cells.stop - split) / (cells.stop - cells.start)
            height[~(np.abs(jump) > faint)] = 0  # and where a jump is not a number
            wanted = np.argsort(-height, kind="stable")[:LOOKS]
            wanted = wanted[height[wanted] > 0]
            if not len(wanted):
                break
            points = lines.look(cells.line[wanted], split[wanted])
            cells = cells.split(wanted, split[wanted], points)
    return _hinges_of(lines, cells, faint)


class _Lines:
    """F and its gradients at points (X, A) - t eps of lines, each of which has the direction of a sample."""

    def __init__(self, target: Target, samples: Perturbations, gradients: tuple[Tensor, Tensor, Tensor]) -> None:
        lines = samples[:LINES]
        assert lines.features is not None
        self._target, self._x, self._a = target, lines.features, lines.edges
        first = slice(0, 1 + len(lines))
        self.values = gradients[0][first].double().numpy()  # [P]
        self._of_x = [gradients[1][first]]
        self._of_a = [] if self._a is None else [gradients[2][first]]
        self.slopes = self._slopes(gradients[1][first], gradients[2][first])  # [P, L] dF/dt of each line

    def _slopes(self, of_x: Tensor, of_a: Tensor) -> Float64:
        slopes = products_along(of_x, self._x)
        if self._a is not None:
            slopes += products_along(of_a.double(), self._a)
        return -slopes.numpy()

    def look(self, line: Int64, place: Float64) -> Int64:
        """Differentiate F at some places, one on each of the lines, and return the numbers of these points."""
        graph, of = self._target.computation_graph, torch.from_numpy(line)
        t = torch.from_numpy(place)
        x = graph.x - t.to(graph.x.dtype).view(-1, 1, 1) * self._x[of]
        weight = None if self._a is None else graph.weight.double() - t.unsqueeze(1) * self._a[of]
        value, of_x, of_a = gradients_of(self._target, x, weight)
        first = len(self.values)
        self.values = np.concatenate([self.values, value.double().numpy()])
        self.slopes = np.concatenate([self.slopes, self._slopes(of_x, of_a)])
        self._of_x.append(of_x)
        if self._a is not None:
            self._of_a.append(of_a)
        return np.arange(first, len(self.values))

    @property
    def gradients(self) -> tuple[Tensor, Tensor | None]:
        """F's gradients at all points, [P, n, d] and, if A moves along the lines, [P, e]."""
        return torch.cat(self._of_x), None if self._a is None else torch.cat(self._of_a).double()


@dataclass(frozen=True)
class _Cells:
    """Intervals of lines between two points at which F's gradient is known."""

    line: Int64  # [c]
    start: Float64  # [c] t
    stop: Float64  # [c] t
    before: Int64  # [c] the point at which an interval starts
    after: Int64  # [c] the point at which it stops

    @classmethod
    def whole(cls, count: int) -> _Cells:
        """Return one interval for each line, from the graph to the sample."""
        line = np.arange(count)
        return cls(line, np.zeros(count), np.ones(count), np.zeros(count, np.int64), 1 + line)

    def meet(self, lines: _Lines) -> tuple[Float64, Float64]:
        """Return where the tangents at both points meet, [c], and by how much F's slope changes, [c]."""
        first, last = lines.slopes[self.before, self.line], lines.slopes[self.after, self.line]
        jump = last - first
        gap = lines.values[self.before] - lines.values[self.after] - first * self.start + last * self.stop
        with np.errstate(divide="ignore", invalid="ignore"):
            return gap / jump, jump

    def split(self, which: Int64, at: Float64, points: Int64) -> _Cells:
        """Return the intervals with some of them split."""
        names = ("line", "start", "stop", "before", "after")
        left, right = ({name: getattr(self, name)[which] for name in names} for _ in range(2))
        left["stop"], left["after"], right["start"], right["before"] = at, points, at, points
        kept = {name: np.delete(getattr(self, name), which) for name in names}
        return _Cells(**{name: np.concatenate([kept[name], left[name], right[name]]) for name in names})


def _hinges_of(lines: _Lines, cells: _Cells, faint: float) -> Hinges | None:
    """Return a hinge for each interval in which F's slope jumps, those of the largest jumps if there are many."""
    place, jump = cells.meet(lines)
    slack = _NEARLY * (cells.stop - cells.start)
    found = (np.abs(jump) > faint) & (place > np.maximum(cells.start - slack, _CLOSE)) & (place <= cells.stop + slack)
    order = np.argsort(-np.abs(jump), kind="stable")
    order = order[found[order]]
    if not len(order):
        return None
    of_x, of_a = lines.gradients
    before, after = torch.from_numpy(cells.before[order]), torch.from_numpy(cells.after[order])
    # Along a line eps grows as t does, so that d . eps changes F by minus the jump of the slope.
    pull, side = -jump[order], np.sign(jump[order])
    along_x = of_x[after] - of_x[before]
    kept = _tell_apart(along_x, side)[:MOST]
    zeros = torch.zeros(len(kept), dtype=torch.float64)
    return Hinges(
        along_x[kept],
        None if of_a is None else (of_a[after] - of_a[before])[kept],
        torch.from_numpy((place[order] * pull)[kept]),
        torch.from_numpy(side[kept]),
        zeros + 1,
        zeros,
    )


def _tell_apart(along: Tensor, side: Float64) -> Int64:
    """Return the places of directions, [c, n, d], that are of different units; of the same one the first is taken.

    A line may cross a kink from either side: then d and y have the other sign, and the hinge is the same function.
    """
    flat = along.flatten(1)
    gram = (flat @ flat.T).double().numpy()
    size = np.sqrt(gram.diagonal())
    alike: NDArray[np.bool_] = (np.abs(gram) >= _SAME * size * size[:, None]) & (side == side[:, None])
    kept: list[int] = []
    for place in range(len(side)):
        if size[place] > 0 and not alike[place, kept].any():
            kept.append(place)
    return np.array(kept, dtype=np.int64)
