"""AnchoredKEC: a k-hop explanation anchored to F's own gradients, whose fit judges itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from .._base.checks import check_count, check_real
from .._base.errors import InputError, ModelError
from .._base.stages import stage, timed
from ..model.call import Edges
from ..model.target import Target
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations
from ..surrogate.difference import AnchoredModel, DifferenceModel, bending, carry, energy
from ..surrogate.estimate import estimate_unfaithfulness
from ..surrogate.propagation import MOMENTS, Propagation
from ..surrogate.sensitivity import Sensitivity, gradients_at
from ..surrogate.solve import ridge
from ..surrogate.walks import Float64, Normalization
from .base import FittedExplainer, Samples

Block = Literal["khop", "degrees", "saliency", "mean", "energy", "curvature"]
BLOCKS: tuple[Block, ...] = get_args(Block)
Chosen = Literal["anchored", "saliency", "zero"]

_EVERY = 12  # of so many samples one is asked for the gradient of F, and has no other part in the fit
_FEWEST = 100  # samples that "auto" begins with
_ROUNDING = 1e-11  # the share of a number by which it may differ from an equal one
_FAINT = 1e-3  # the share of F's change that a forecast has to reach to be taken in its own units
_FIRM = 100.0  # how much less what gradients foresee is shrunk than the rest


class AnchoredKEC(FittedExplainer):
    r"""Explain F by a k-hop model, a linear model and a curvature that together follow F's change best.

    .. math:: p(X, A) = \sum_k e^\top N(A)^k X U w_k + \sum_{k, j} v_{kj}\, e^\top N(A)^k c^j
              + (a_0 \nabla F + a_1 E \nabla F) \cdot (X, A) - q(X, A)

    One in twelve samples is asked for F's gradient. From these come the mean gradient :math:`E \nabla F`, the
    columns U of X that F looks at, and the directions along which F bends
    (:class:`~graphfaith.surrogate.sensitivity.Sensitivity`). That leaves some thirty unknowns, whatever the graph: w_k,
    v_kj of the in-weights c = N(A) 1, a_0, a_1 and the scales of the curvature q. They are fitted to F's values at
    the other samples by ridge regression, whose penalty has the least leave-one-out error
    (:func:`~graphfaith.surrogate.solve.ridge`). If the gradient alone, or p = 0, has a smaller one, that is the p. The
    form of p is in :class:`~graphfaith.surrogate.difference.AnchoredModel`.

    An explanation carries ``estimate``, the leave-one-out estimate of Delta(p) and relative Delta with their errors,
    ``fit_samples``, how many samples were drawn, and ``chosen``: "anchored", "saliency" or "zero".

    Args:
        neighborhood: where p has to follow F, e.g. ``UniformEdges(0.5)`` or ``"U(A,0.5)"``.
        num_samples: how many perturbed graphs to draw. "auto" doubles 100 until the estimate of relative Delta moves
            by no more than ``tolerance``, and its standard error is no larger, or there are ``max_samples``.
        seed: names the samples.
        normalization: what N is: "symmetric", "row", "none", or "auto": "symmetric" for a network of ``GCNConv``, for
            others whichever of the three has the least leave-one-out error.
        tolerance: of "auto".
        max_samples: of "auto".
        blocks: the terms of p; all of them, unless one wants to see what each of them contributes.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.
    """

    method = "AnchoredKEC"
    chooses_samples = True

    def __init__(
        self,
        neighborhood: Neighborhood | str,
        *,
        num_samples: Samples = 200,
        seed: int = 0,
        normalization: Normalization | Literal["auto"] = "auto",
        tolerance: float = 0.01,
        max_samples: int = 3200,
        blocks: Block | Sequence[Block] = BLOCKS,
        num_hops: int | None = None,
        edges: Edges = "auto",
        max_memory: int | str | None = None,
    ) -> None:
        super().__init__(
            neighborhood, num_samples=num_samples, seed=seed, num_hops=num_hops, edges=edges, max_memory=max_memory
        )
        self.tolerance = check_real(tolerance, "tolerance", above=0.0)
        self.max_samples = check_count(max_samples, "max_samples")
        if normalization not in (*get_args(Normalization), "auto"):
            known = ", ".join(get_args(Normalization))
            raise InputError(f"normalization must be one of {known}, auto (got {normalization!r})")
        self.normalization: Normalization | Literal["auto"] = normalization
        for block in (blocks,) if isinstance(blocks, str) else blocks:
            if block not in BLOCKS:
                raise InputError(f"unknown block {block!r}: known are {', '.join(BLOCKS)}")
        if not blocks:
            raise InputError(f"p needs at least one block: {', '.join(BLOCKS)}")
        self.blocks: tuple[Block, ...] = (blocks,) if isinstance(blocks, str) else tuple(blocks)

    def fit(self, target: Target) -> AnchoredModel:
        """Return the p with the least leave-one-out error."""
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
        samples = np.arange(count)
        asked, rest = samples[::_EVERY], np.delete(samples, samples[::_EVERY]) if count > 1 else samples
        graph, near, size = target.computation_graph, self.neighborhood, self._chunk_size(target, count)
        with stage("sampling"):
            first = near.numbered(graph, asked, self.seed)
        with stage("sensitivity"):
            sensitivity = Sensitivity.of(target, gradients_at(target, first), first)
            terms = _Terms(target, sensitivity, self._kinds(target), drops=near.drops_edges)
            del first  # it is as large as a chunk
        for chunk in timed(self._chunks_of(target, rest, size), "sampling"):
            terms.add(chunk)
        with stage("solve"):
            return self._solve(terms, count)

    def _kinds(self, target: Target) -> tuple[Normalization, ...]:
        if self.normalization != "auto":
            return (self.normalization,)
        return ("symmetric",) if target.call.is_convolutional else get_args(Normalization)

    def _chunk_size(self, target: Target, count: int) -> int:
        graph = target.computation_graph
        per_sample = self.neighborhood.sample_bytes(graph, target.unit_width())
        room = target.room(8 * (64 * count + 4 * graph.x.numel()), per_sample, f"{self.method} on {count} samples")
        return max(1, room // per_sample)

    def _chunks_of(self, target: Target, samples: np.ndarray, size: int) -> Iterator[Perturbations]:
        """Yield the samples of these numbers, a chunk at a time."""
        for start in range(0, len(samples), size):
            yield self.neighborhood.numbered(target.computation_graph, samples[start : start + size], self.seed)

    def _solve(self, terms: _Terms, count: int) -> AnchoredModel:
        change = terms.numbers("change")
        fits = {kind: _Fit(terms.blocks(kind, self.blocks), change) for kind in terms.kinds}
        kind = min(fits, key=lambda one: fits[one].error)
        fit = fits[kind]
        left: dict[Chosen, Tensor] = {
            "zero": -change,
            "saliency": terms.numbers("saliency")[:, 0] - change,
            "anchored": fit.solution.left_out_residual,
        }
        errors = {name: float(residual @ residual) / len(change) for name, residual in left.items()}
        noise = (4 * torch.finfo(terms.graph.x.dtype).eps * terms.target.scale) ** 2
        chosen = min(errors, key=errors.__getitem__)  # the simplest of equally good ones
        if errors["zero"] <= noise:  # nothing happens to F; its gradient says as much, and what X would do
            chosen = "saliency" if errors["saliency"] <= noise else "zero"
        p = terms.model(fit, kind) if chosen == "anchored" else terms.simple(chosen, kind)
        p.estimate = estimate_unfaithfulness(left[chosen], change, noise, str(self.neighborhood), self.seed)
        p.in_sample_error = fit.solution.error if chosen == "anchored" else errors[chosen]
        p.fit_samples, p.chosen = count, chosen
        return p

    def details(self, p: DifferenceModel) -> dict[str, Any]:
        """Return what the fit says of itself."""
        names = ("normalization", "estimate", "fit_samples", "chosen")
        return {**super().details(p), **{name: getattr(p, name, None) for name in names}}


class _Terms:
    """The terms of p at the samples, for each N that is tried, and F's change there."""

    def __init__(
        self, target: Target, sensitivity: Sensitivity, kinds: Sequence[Normalization], *, drops: bool
    ) -> None:
        self.target, self.graph, self.sensitivity, self.kinds = target, target.computation_graph, sensitivity, kinds
        self._drops = drops
        self._propagation = Propagation(self.graph, target.num_hops)
        self._columns = self.graph.x.double() @ sensitivity.columns  # [n, u]
        self._parts: dict[str, list[Tensor]] = {}  # the terms by name, a part for each chunk
        self._moves = False, False  # X, A
        self._rows: dict[Normalization, Tensor] = {}
        self._rounding: dict[str, float] = {}  # how far the difference of two equal numbers may be from 0

    def add(self, chunk: Perturbations) -> None:
        """Compute the terms at a chunk of samples."""
        eps, self._moves = chunk.features, (chunk.features is not None, chunk.edges is not None)
        with stage("features"):
            for kind in self.kinds:
                self._propagate(kind, chunk.weight_with_own, chunk)
            foreseen = self.sensitivity.foreseen(chunk)
            energies = [energy(part).unsqueeze(1) for part in (eps, chunk.edges) if part is not None]
            self._keep("saliency", foreseen[:, :1])
            self._keep("mean", foreseen[:, 1:2])
            self._keep("energy", energies[0] if len(energies) == 1 else torch.cat(energies, dim=1))
            self._keep("curvature", bending(foreseen[:, 2:], self.sensitivity.bend).unsqueeze(1))
        with stage("F"):
            self._keep("change", self.target.changes(chunk))

    def _keep(self, name: str, part: Tensor) -> None:
        self._parts.setdefault(name, []).append(part)

    def _propagate(self, kind: Normalization, weight: Tensor, chunk: Perturbations) -> None:
        walks = self._propagation.of(weight.T, kind)
        if kind not in self._rows:
            self._rows[kind] = walks.rows[..., 0].clone()
            size = float(torch.linalg.vector_norm(self._rows[kind] @ self._columns))
            self._rounding[f"khop {kind}"] = _ROUNDING * size if chunk.features is None else 0.0
            self._rounding[f"degrees {kind}"] = _ROUNDING * float(walks.moments[..., 0].abs().max())
        parts: Tensor | None = None
        if chunk.edges is not None:
            lost = walks.change()
            self._keep(f"degrees {kind}", lost.moments.flatten(0, 1).T)
            # The features of a node at the end of a walk, in the columns that matter: [S, M, u].
            parts = torch.matmul(lost.rows.transpose(1, 2), self._columns).transpose(0, 1)
        if chunk.features is not None:
            after = walks.rows if chunk.edges is None else walks.rows[..., 1:]
            moved = carry(self._propagation, after, chunk.features)
            moved = (moved @ self.sensitivity.columns.to(moved.dtype)).double()
            if parts is not None:
                moved[:, 1:] += parts
            parts = moved
        assert parts is not None
        self._keep(f"khop {kind}", parts.flatten(1))

    def numbers(self, name: str) -> Tensor:
        """Return a term, or F's change, at all samples."""
        parts = self._parts[name]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def blocks(self, kind: Normalization, wanted: Sequence[Block]) -> dict[Block, tuple[Tensor, float]]:
        """Return the wanted terms that the neighbourhood moves, [S, .] each, with the size of their rounding."""
        terms: dict[Block, tuple[Tensor, float]] = {}
        for name in wanted:
            key = f"{name} {kind}" if name in ("khop", "degrees") else name
            if key in self._parts:
                terms[name] = self.numbers(key), self._rounding.get(key, 0.0)
        return terms

    def model(self, fit: _Fit, kind: Normalization) -> AnchoredModel:
        """Return the p with the weights of ``fit``."""
        known, hops = self.sensitivity, self.target.num_hops
        first = 0 if self._moves[0] else 1  # e^T X does not change unless features move
        solved = np.zeros((hops + 1, known.columns.size(1)))
        solved[first:] = fit.weights("khop", (hops + 1 - first, known.columns.size(1)))
        local, mean, curvature = (float(fit.weights(name, (1,))[0]) for name in ("saliency", "mean", "curvature"))
        stiffness = np.zeros(2)
        stiffness[[*self._moves]] = fit.weights("energy", (sum(self._moves),))
        phi_x, phi_a = known.gradient(local, mean)
        if self._drops:
            # An entry is dropped as a whole, so that eps^2 = A eps. The term is linear, and belongs to the scores.
            phi_a = phi_a.double() + float(stiffness[1]) * self.graph.weight.double() * self.graph.felt
            stiffness[1] = 0
        p = AnchoredModel(
            self.graph,
            torch.from_numpy(solved) @ known.columns.T,
            torch.from_numpy(fit.weights("degrees", (hops, len(MOMENTS)))),
            phi_x,
            phi_a,
            torch.from_numpy(stiffness),
            *known.directions,
            curvature * known.bend,
            kind,
        )
        p.remember(self._propagation, self._rows[kind])
        return p

    def simple(self, chosen: Chosen, kind: Normalization) -> AnchoredModel:
        """Return the p that is the gradient alone, or 0."""
        hops, part = self.target.num_hops, self.graph
        phi = torch.zeros_like(part.x), torch.zeros_like(part.weight)
        if chosen == "saliency":
            with suppress(ModelError):  # a gradient that is not finite counted as 0 in the fit
                phi = self.target.gradient()
        nothing = (
            torch.zeros(*shape, dtype=torch.float64)
            for shape in ((hops + 1, part.x.size(1)), (hops, len(MOMENTS)), (2,), (0, 0))
        )
        weights, degrees, stiffness, bend = nothing
        return AnchoredModel(part, weights, degrees, *phi, stiffness, None, None, bend, kind)


class _Fit:
    """A ridge regression on blocks, each scaled so that one penalty serves."""

    def __init__(self, blocks: dict[Block, tuple[Tensor, float]], change: Tensor) -> None:
        parts = [block.numpy() for block, _ in blocks.values()]
        terms = np.concatenate(parts, axis=1) if parts else np.zeros((len(change), 0))
        squares = (terms * terms).sum(axis=0) / len(terms)
        typical = float(change @ change) / len(change)
        self._places: dict[Block, slice] = {}
        size, stop = squares.copy(), 0
        for name, (block, rounding) in blocks.items():
            own = slice(stop, stop := stop + block.size(1))
            # The columns of a k-hop model share one scale, as in its norm. Other terms have a scale each.
            if name == "khop":
                size[own] = squares[own].sum()
            elif name == "degrees":
                size[own] *= block.size(1)
            else:
                # A forecast that is tiny beside the change must not be scaled up until it is as large.
                least = 0.0 if name == "energy" else _FAINT**2 * typical
                size[own] = np.maximum(squares[own], least) / _FIRM
            size[own][size[own] <= rounding**2] = np.inf  # this term moves by rounding alone
            self._places[name] = own
        self._scale = 1 / np.sqrt(size)
        self.solution = ridge(torch.from_numpy(terms * self._scale), change)
        self.error = self.solution.left_out

    def weights(self, name: Block, shape: tuple[int, ...]) -> Float64:
        """Return the weights of a block, or zeros if the fit does not have it."""
        if name not in self._places:
            return np.zeros(shape)
        own = self._places[name]
        weights: Float64 = self.solution.weights.numpy()[own] * self._scale[own]
        return weights.reshape(shape)
