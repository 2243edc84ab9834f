"""AnchoredKEC: a k-hop explanation anchored to F's own gradients, whose fit judges itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from ..checks import check_count, check_real, check_seed
from ..difference import AnchoredModel, DifferenceModel, bending, carried, energy
from ..errors import InputError
from ..estimate import estimated
from ..neighborhood import Neighborhood, Perturbations, as_neighborhood
from ..propagation import MOMENTS, Propagation
from ..sensitivity import Sensitivity
from ..solve import Ridge, ridge
from ..stages import stage, timed
from ..target import Target
from ..walks import Normalization
from .base import FaithfulExplainer
from .kec import _with_first

Block = Literal["khop", "degrees", "saliency", "mean", "energy", "curvature"]
BLOCKS: tuple[Block, ...] = get_args(Block)

_EVERY = 8  # of so many samples one is asked for F's gradient, and has no other part in the fit
_FEWEST = 100  # samples that "auto" begins with
_FIRM = 100.0  # how much less what gradients foresee is shrunk than the rest


class AnchoredKEC(FaithfulExplainer):
    r"""Explain F by a k-hop model, a linear model and a curvature that together follow F's change best.

    .. math:: p(X, A) = \sum_k e^\top N(A)^k X U w_k + \sum_{k, j} v_{kj}\, e^\top N(A)^k c^j
              + (a_0 \nabla F + a_1 E \nabla F) \cdot (X, A) - q(X, A)

    An eighth of the samples is asked for F's gradient. From these come the mean gradient :math:`E \nabla F`, the
    columns U of X that F looks at, and the directions along which F bends
    (:class:`~graphfaith.sensitivity.Sensitivity`). That leaves some thirty unknowns, whatever the graph: w_k, v_kj of
    the in-weights c = N(A) 1, a_0, a_1 and the scales of the curvature q. They are fitted to F's values at the other
    samples by ridge regression, whose penalty has the least leave-one-out error
    (:func:`~graphfaith.solve.ridge`). If the gradient alone, or p = 0, has a smaller one, that is the p. The form of p
    is in :class:`~graphfaith.difference.AnchoredModel`.

    An explanation carries ``estimate``, the leave-one-out estimate of Delta(p) and relative Delta with their errors,
    ``fit_samples``, how many samples were drawn, and ``fallback``: "saliency", "zero", or None.

    Args:
        neighborhood: where p has to follow F, e.g. ``UniformEdges(0.5)`` or ``"U(A,0.5)"``.
        num_samples: how many perturbed graphs to draw. "auto" doubles 100 until the estimate of relative Delta moves
            by no more than ``tolerance``, and its standard error is no larger, or there are ``max_samples``.
        num_hops: M, the reach of the model; counted from its message-passing layers if None.
        seed: names the samples.
        normalization: what N is: "symmetric", "row", "none", or "auto": "symmetric" for a network of ``GCNConv``, for
            others whichever of the three has the least leave-one-out error.
        tolerance: of "auto".
        max_samples: of "auto".
        blocks: the terms of p; all of them unless one wants to see what each is good for.

    ``edges`` and ``max_memory`` are those of every method here (:class:`FaithfulExplainer`).
    """

    method = "AnchoredKEC"
    proves = True

    def __init__(
        self,
        neighborhood: Neighborhood | str,
        num_samples: int | Literal["auto"] = 200,
        num_hops: int | None = None,
        seed: int = 0,
        *,
        normalization: Normalization | Literal["auto"] = "auto",
        tolerance: float = 0.01,
        max_samples: int = 3200,
        blocks: Sequence[Block] = BLOCKS,
        **options: Any,
    ) -> None:
        super().__init__(num_hops, **options)
        self.neighborhood, self.seed = as_neighborhood(neighborhood), check_seed(seed)
        self.num_samples = num_samples if num_samples == "auto" else check_count(num_samples, "num_samples")
        self.tolerance = check_real(tolerance, "tolerance", above=0.0)
        self.max_samples = check_count(max_samples, "max_samples")
        if normalization not in (*get_args(Normalization), "auto"):
            known = ", ".join(get_args(Normalization))
            raise InputError(f"normalization must be one of {known}, auto (got {normalization!r})")
        self.normalization: Normalization | Literal["auto"] = normalization
        for block in blocks:
            if block not in BLOCKS:
                raise InputError(f"unknown block {block!r}: known are {', '.join(BLOCKS)}")
        self.blocks = tuple(blocks)

    def fit(self, target: Target) -> AnchoredModel:
        """The p with the least leave-one-out error."""
        if self.num_samples != "auto":
            return self._fit(target, self.num_samples)
        count = min(_FEWEST, self.max_samples)
        p, stable = self._fit(target, count), False
        while not stable and count < self.max_samples:
            count, before = min(2 * count, self.max_samples), p.estimate
            p = self._fit(target, count)
            assert p.estimate is not None
            assert before is not None
            moved = abs(p.estimate.relative - before.relative)
            stable = moved <= self.tolerance and p.estimate.relative_stderr <= self.tolerance
        return p

    def _fit(self, target: Target, count: int) -> AnchoredModel:
        samples, asked = np.arange(count), np.arange(0, count, _EVERY)
        with stage("sensitivity"):
            sensitivity = Sensitivity.of(target, self.neighborhood, asked, self.seed)
        rest = np.delete(samples, asked) if count > 1 else samples
        terms = _Terms(target, sensitivity, self._kinds(target))
        for chunk in timed(self._chunks(target, rest), "sampling"):
            terms.add(chunk)
        with stage("solve"):
            return self._solve(terms, count)

    def _kinds(self, target: Target) -> tuple[Normalization, ...]:
        if self.normalization != "auto":
            return (self.normalization,)
        return ("symmetric",) if target.call.may_batch else get_args(Normalization)

    def _chunks(self, target: Target, samples: np.ndarray) -> Iterator[Perturbations]:
        graph, near, width = target.computation_graph, self.neighborhood, target.unit_width()
        fixed = 8 * (len(samples) * 64 + 4 * graph.x.numel())
        per_sample = near.sample_bytes(graph, width)
        size = max(1, target.room(fixed, per_sample, f"{self.method} on {len(samples)} samples") // per_sample)
        for start in range(0, len(samples), size):
            yield near.numbered(graph, samples[start : start + size], self.seed, passing=True)

    def _solve(self, terms: _Terms, count: int) -> AnchoredModel:
        change = terms.numbers("change")
        fits = {kind: _Fit(terms.blocks(kind, self.blocks), change) for kind in terms.kinds}
        kind = min(fits, key=lambda one: fits[one].error)
        best, scale = fits[kind], terms.target.scale
        noise = (4 * torch.finfo(terms.graph.x.dtype).eps * scale) ** 2
        left, fallback = best.solution.left_out, None
        simple = {"saliency": terms.numbers("saliency")[:, 0] - change, "zero": -change}
        for name, residual in simple.items():
            if float(residual.square().mean()) <= min(best.error, float(left.square().mean())):
                left, fallback = residual, name
        p = terms.model(best, kind) if fallback is None else terms.simple(fallback, kind)
        p.estimate = estimated(left, change, noise, str(self.neighborhood), self.seed)
        p.in_sample_error = float((best.solution.residual if fallback is None else left).square().mean())
        p.fit_samples, p.fallback = count, fallback
        return p

    def details(self, p: DifferenceModel) -> dict[str, Any]:
        """What the fit says of itself."""
        names = ("in_sample_error", "normalization", "estimate", "fit_samples", "fallback")
        return {"neighborhood": str(self.neighborhood), **{name: getattr(p, name, None) for name in names}}


class _Terms:
    """The terms of p at the samples, for each N that is tried, and F's change there."""

    def __init__(self, target: Target, sensitivity: Sensitivity, kinds: Sequence[Normalization]) -> None:
        self.target, self.graph, self.sensitivity, self.kinds = target, target.computation_graph, sensitivity, kinds
        self._propagation = Propagation(self.graph, target.num_hops)
        self._columns = self.graph.x.double() @ sensitivity.columns  # [n, u]
        self._own = self.graph.weight.double()
        self._found: dict[str, list[Tensor]] = {}
        self._moves = False, False  # X, A

    def add(self, chunk: Perturbations) -> None:
        """Take a chunk of samples, whose features are written over."""
        eps, self._moves = chunk.features, (chunk.features is not None, chunk.edges is not None)
        with stage("features"):
            weight = _with_first(self._own, chunk.edges)  # [S + 1, e]
            for kind in self.kinds:
                self._propagate(kind, weight, chunk)
            foreseen, on_average, z = self.sensitivity.along(chunk)
            energies = [energy(part) for part in (eps, chunk.edges) if part is not None]
            self._keep("saliency", foreseen.unsqueeze(1))
            self._keep("mean", on_average.unsqueeze(1))
            self._keep("energy", torch.stack(energies, dim=1))
            self._keep("curvature", bending(z, self.sensitivity.bend).unsqueeze(1))
        with stage("F"):
            if eps is None:
                value, outputs = self.target.with_own(weight)
            else:
                self.target.prove()
                value, moved = self.target.value, torch.sub(self.graph.x, eps, out=eps)
                outputs = self.target.evaluate(moved, None if chunk.edges is None else weight[1:])
            self._keep("change", value - outputs.double())

    def _keep(self, name: str, part: Tensor) -> None:
        self._found.setdefault(name, []).append(part)

    def _propagate(self, kind: Normalization, weight: Tensor, chunk: Perturbations) -> None:
        found = self._propagation.of(weight.T, kind)
        parts: Tensor | None = None
        if chunk.edges is not None:
            lost = found.change()
            self._keep(f"degrees {kind}", lost.moments.flatten(0, 1).T)
            # The features of a node at the end of a walk, in the columns that matter: [S, M, u].
            parts = torch.matmul(lost.rows.transpose(1, 2), self._columns).transpose(0, 1)
        if chunk.features is not None:
            after = found.rows if chunk.edges is None else found.rows[..., 1:]
            moved = carried(self._propagation, after, chunk.features)
            moved = (moved @ self.sensitivity.columns.to(moved.dtype)).double()
            if parts is not None:
                moved[:, 1:] += parts
            parts = moved
        assert parts is not None
        self._keep(f"khop {kind}", parts.flatten(1))

    def numbers(self, name: str) -> Tensor:
        """A term, or F's change, at all samples."""
        return torch.cat(self._found[name])

    def blocks(self, kind: Normalization, wanted: Sequence[Block]) -> dict[Block, Tensor]:
        """The terms that are wanted and that the neighbourhood moves, [S, .] each."""
        found: dict[Block, Tensor] = {}
        for name in wanted:
            key = f"{name} {kind}" if name in ("khop", "degrees") else name
            if key in self._found:
                found[name] = self.numbers(key)
        return found

    def model(self, fit: _Fit, kind: Normalization) -> AnchoredModel:
        """The p with the weights of ``fit``."""
        known, hops, (moves_x, moves_a) = self.sensitivity, self.target.num_hops, self._moves
        columns = known.columns
        weights = torch.zeros(hops + 1, len(columns), dtype=torch.float64)
        solved = fit.weights("khop").view(-1, columns.size(1))
        weights[hops + 1 - len(solved) :] = solved @ columns.T
        local, mean = (float(fit.weights(name).sum()) for name in ("saliency", "mean"))
        stiffness = torch.zeros(2, dtype=torch.float64)
        energies = fit.weights("energy")
        stiffness[torch.tensor(self._moves)] = energies if len(energies) else 0.0
        return AnchoredModel(
            self.graph,
            weights,
            _filled(fit.weights("degrees"), (hops, len(MOMENTS))),
            *(local * own + mean * usual for own, usual in zip(known.own, known.mean, strict=True)),
            stiffness,
            *known.directions,
            float(fit.weights("curvature").sum()) * known.bend,
            kind,
        )

    def simple(self, fallback: Literal["saliency", "zero"], kind: Normalization) -> AnchoredModel:
        """The gradient alone, or nothing."""
        hops, part = self.target.num_hops, self.graph
        phi = (
            self.target.gradient()
            if fallback == "saliency"
            else (torch.zeros_like(part.x), torch.zeros_like(part.weight))
        )
        nothing = (
            torch.zeros(*shape, dtype=torch.float64)
            for shape in ((hops + 1, part.x.size(1)), (hops, len(MOMENTS)), (2,), (0, 0))
        )
        weights, degrees, stiffness, bend = nothing
        return AnchoredModel(part, weights, degrees, *phi, stiffness, None, None, bend, kind)


class _Fit:
    """A ridge regression on blocks, each scaled so that one penalty serves."""

    def __init__(self, blocks: dict[Block, Tensor], change: Tensor) -> None:
        self._scaled: dict[Block, tuple[Tensor, int]] = {}
        parts = []
        for name, block in blocks.items():
            squares = block.square().mean(dim=0)
            # The columns of a k-hop model share a scale, as they do in its norm; other numbers have one each.
            scale = squares.sum().expand_as(squares) if name == "khop" else squares * _width(name, block)
            scale = torch.where(scale > 0, scale.rsqrt(), 0.0)
            parts.append(block * scale)
            self._scaled[name] = scale, block.size(1)
        self.solution: Ridge = ridge(torch.cat(parts, dim=1), change)
        self.error = float(self.solution.left_out.square().mean())

    def weights(self, name: Block) -> Tensor:
        at = 0
        for other, (scale, width) in self._scaled.items():
            if other == name:
                return self.solution.weights[at : at + width] * scale
            at += width
        return torch.zeros(0, dtype=torch.float64)


def _width(name: Block, block: Tensor) -> float:
    return block.size(1) if name == "degrees" else 1 / _FIRM


def _filled(found: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Weights in their shape, or zeros if there are none."""
    return found.view(shape) if len(found) else torch.zeros(shape, dtype=torch.float64)
