"""AnchoredKEC: a k-hop explanation anchored to the gradients of F, with an estimate of its own error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch_geometric.explain import Explanation

from .._base.checks import check_count, check_real
from .._base.errors import FewSamplesWarning, InputError, ModelError
from .._base.stages import stage, time_items
from ..explanation.masks import of_mask
from ..graph.computation_graph import ComputationGraph
from ..model.call import Edges
from ..model.target import Target
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations
from ..surrogate.difference import AnchoredModel, DifferenceModel, carry, curvature_of, energy
from ..surrogate.estimate import estimate_unfaithfulness, rounding_square
from ..surrogate.evidence import Evidence
from ..surrogate.kriging import Kriged, krige, strongest
from ..surrogate.propagation import MOMENTS, Propagation
from ..surrogate.readings import Reading, ReadModel, check_reading, read_model, reading_bytes
from ..surrogate.sensitivity import RANK, Sensitivity, gradients_at
from ..surrogate.solve import ridge
from ..surrogate.walks import Float64, Normalization, walk_bytes
from .base import FittedExplainer, Samples

Block = Literal["khop", "degrees", "saliency", "mean", "energy", "curvature", "kriging"]
BLOCKS: tuple[Block, ...] = get_args(Block)
Chosen = Literal["anchored", "saliency", "zero"]

_EVERY = 12  # one in this many samples is used for the gradient of F, and not for the regression
_FEWEST = 100  # the number of samples that "auto" starts with; from fewer, the estimate is too good
_ROUNDING = 1e-11  # the largest relative rounding error of a term
_FAINT = 1e-3  # terms smaller than this share of F's change are not scaled up to the size of the others
_FIRM = 100.0  # the penalty of all terms except "khop" and "degrees" is smaller by this factor


class AnchoredKEC(FittedExplainer):
    r"""Explain F by the sum of a k-hop model, a linear model and a curvature that approximates F's change best.

    .. math:: p(X, A) = \sum_k e^\top N(A)^k X U w_k + \sum_{k, j} v_{kj}\, e^\top N(A)^k c^j
              + (a_0 \nabla F + a_1 E \nabla F) \cdot (X, A) - q(X, A)

    The gradient of F is computed at one in twelve samples. These gradients give the mean gradient
    :math:`E \nabla F`, the columns U of X that F depends on most, and the directions of the curvature
    (:class:`~graphfaith.surrogate.sensitivity.Sensitivity`). About thirty unknowns remain, however large the graph is:
    the w_k, the v_kj of the in-weights c = N(A) 1, a_0, a_1 and the scales of the curvature q. They are fitted to F's
    values at the other samples by ridge regression, whose penalty is chosen by leave-one-out error
    (:func:`~graphfaith.surrogate.solve.ridge`). If the gradient alone, or p = 0, has a smaller leave-one-out error, it
    is used as p instead. :class:`~graphfaith.surrogate.difference.AnchoredModel` has the full equation of p.

    An explanation has the fields ``estimate``, the leave-one-out estimate of Delta(p) and relative Delta with their
    standard errors, ``fit_samples``, the number of samples that were drawn, and ``chosen``, the chosen p: "anchored",
    "saliency" or "zero".

    Args:
        neighborhood: where p has to approximate F, e.g. ``UniformEdges(0.5)`` or ``"U(A,0.5)"``.
        num_samples: how many perturbed graphs to draw. "auto" starts with 100 and doubles them until the estimate of
            relative Delta changes by at most ``tolerance`` and its standard error is at most ``tolerance``, or until
            ``max_samples`` are reached.
        seed: the seed of the samples.
        normalization: the definition of N: "symmetric", "row", "none" or "auto". "auto" is "symmetric" for a network of
            ``GCNConv``; for other models it is the one of the three with the least leave-one-out error.
        tolerance: see ``num_samples="auto"``.
        max_samples: see ``num_samples="auto"``.
        blocks: the terms of p. The default is all; fewer blocks show what each of them contributes.
        reading: what the scores are: "share", the additive function closest to F's change; "slope", the gradient of p;
            or "effect", what p foretells for taking away one entry alone. ``explanation.reading(...)`` gives another.
        pairs: how many pairs of entries there may be at most beside the shares.
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
        reading: Reading = "share",
        pairs: int = 10,
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
        self.reading = check_reading(reading)
        self.pairs = check_count(pairs, "pairs", least=0)
        self._warned = False

    def forward(self, *args: Any, **kwargs: Any) -> Explanation:
        """Explain as every method does, and warn once if the estimate that comes along is one of too few samples."""
        if self.num_samples != "auto" and self.num_samples < _FEWEST and not self._warned:
            self._warned = True
            warnings.warn(
                f"an estimate from {self.num_samples} samples flatters the explanation: fit on at least {_FEWEST}, or "
                "on num_samples='auto', or believe general_unfaithfulness alone",
                FewSamplesWarning,
                stacklevel=2,
            )
        return super().forward(*args, **kwargs)

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
        """Return the p that is fitted on ``count`` samples."""
        samples = np.arange(count)
        asked, rest = samples[::_EVERY], np.delete(samples, samples[::_EVERY]) if count > 1 else samples
        graph, near, size = target.computation_graph, self.neighborhood, self._chunk_size(target, count)
        strength = self._strength(target)
        near = near if strength is None else near.lean(strength) or near
        with stage("sampling"):
            first = near.numbered(graph, asked, self.seed)
        with stage("sensitivity"):
            sensitivity = Sensitivity.of(target, gradients_at(target, first), first)
            terms = _Terms(target, sensitivity, self._kinds(target), drops=near.drops_edges, strength=strength)
            del first  # This frees as much memory as a chunk needs.
        for chunk in time_items(self._chunks_of(target, near, rest, size), "sampling"):
            terms.add(chunk)
        with stage("solve"):
            return self._solve(terms, count, rest, strength)

    def _strength(self, target: Target) -> Tensor | None:
        """Return |dF/dA| times A, [e], if samples have to lean towards what F depends on; None if they need not."""
        if self.neighborhood.lean(target.computation_graph.weight) is None:
            return None
        with suppress(ModelError):  # If the gradient is not finite, nothing is known of the edges.
            return (target.gradient()[1].double() * target.computation_graph.weight.double()).abs()
        return torch.ones(target.computation_graph.num_edges, dtype=torch.float64)

    def _kinds(self, target: Target) -> tuple[Normalization, ...]:
        """Return the normalisations to try."""
        if self.normalization != "auto":
            return (self.normalization,)
        return ("symmetric",) if target.call.is_convolutional else get_args(Normalization)

    def _chunk_size(self, target: Target, count: int) -> int:
        """Return how many samples a chunk may have, so that it fits in memory."""
        graph, kinds = target.computation_graph, len(self._kinds(target))
        per_sample = self.neighborhood.sample_bytes(graph, target.unit_width(drops=self.neighborhood.drops_edges))
        # The terms of a sample, the gradients and their directions, the walks, and what the search for the gradients
        # leaves behind, which was measured.
        moved = graph.num_edges + (graph.x.numel() if self.neighborhood.perturbs_features else 0)
        points = count // _EVERY + 1
        numbers = (100 + 70 * kinds) * count + 4 * graph.x.numel() + (4 + points + min(RANK, points)) * moved
        fixed = 8 * (numbers + 48 * graph.num_edges) + walk_bytes(graph, kinds)
        room = target.room(fixed, per_sample, f"{self.method} on {count} samples")
        if self.reading == "share":
            kept = 8 * (4 * graph.x.numel() + (4 + min(RANK, points)) * moved)  # of p and its scores
            target.room(kept + reading_bytes(self.neighborhood, graph), 1, f"reading p of {self.method}")
        return max(1, room // per_sample)

    def _chunks_of(self, target: Target, near: Neighborhood, samples: np.ndarray, size: int) -> Iterator[Perturbations]:
        """Yield the samples with the given numbers, a chunk at a time."""
        for start in range(0, len(samples), size):
            yield near.numbered(target.computation_graph, samples[start : start + size], self.seed)

    def _solve(self, terms: _Terms, count: int, rest: np.ndarray, strength: Tensor | None) -> AnchoredModel:
        """Return the candidate with the least leave-one-out error: the anchored model, the gradient alone, or 0."""
        change = terms.numbers("change")
        fits = {kind: _Fit(terms.blocks(kind, self.blocks), change) for kind in terms.kinds}
        kind = min(fits, key=lambda name: fits[name].error)
        fit = fits[kind]
        kriged = None
        if strength is not None and "kriging" in self.blocks:
            kriged = fit.krige(terms.graph, terms.numbers("kriging"), strength)
        anchored = fit if kriged is None else kriged
        left: dict[Chosen, Tensor] = {
            "zero": -change,
            "saliency": terms.numbers("saliency")[:, 0] - change,
            "anchored": anchored.left_out_residual,
        }
        near, numbers = str(self.neighborhood), torch.from_numpy(rest)
        errors = {name: float(residual.square().mean()) for name, residual in left.items()}
        noise = rounding_square(terms.target.scale, terms.graph.x.dtype)
        chosen = min(errors, key=errors.__getitem__)  # Of equal errors, min takes the first, which is the simplest p.
        # If F does not change, the gradient is as good as 0, but it also shows what a change of X would do if only A is
        # perturbed. Therefore it is preferred.
        if errors["zero"] <= noise:
            chosen = "saliency" if errors["saliency"] <= noise else "zero"
        p = terms.model(fit, kind) if chosen == "anchored" else terms.simple(chosen, kind)
        if kriged is not None and chosen == "anchored":
            p.kriging = kriged.kriging
        terms.anchor(p)
        fitted = change + (anchored.residual if chosen == "anchored" else left[chosen])
        evidence = Evidence(numbers, self.seed, near, change, left[chosen], fitted, noise, strength)
        seen = evidence.fair(self.neighborhood)
        seen = seen if len(seen.change) else evidence
        p.estimate = estimate_unfaithfulness(seen.left_out, seen.change, noise, self.neighborhood, self.seed)
        p.in_sample_error = float(anchored.residual.square().mean()) if chosen == "anchored" else errors[chosen]
        p.fit_samples, p.chosen = count, chosen
        p.evidence = evidence
        return p

    def read(self, p: AnchoredModel) -> ReadModel:
        """Return the chosen reading of p."""
        of = of_mask(getattr(getattr(self, "_explainer_config", None), "node_mask_type", None))
        return read_model(p, self.neighborhood, self.reading, seed=self.seed, pairs=self.pairs, of=of)

    def scores(self, p: DifferenceModel) -> tuple[Tensor | None, Tensor]:
        """Return the scores of the chosen reading of p."""
        assert isinstance(p, AnchoredModel)
        return self.read(p).scores

    def errors(self, p: DifferenceModel) -> tuple[Tensor | None, Tensor | None]:
        """Return the standard errors of the shares."""
        assert isinstance(p, AnchoredModel)
        return self.read(p).errors

    def details(self, p: DifferenceModel) -> dict[str, Any]:
        """Return the normalisation, the estimate, the number of samples and the chosen candidate of a fit."""
        assert isinstance(p, AnchoredModel)
        names = ("normalization", "fit_samples", "chosen")
        kept = {name: getattr(p, name, None) for name in names}
        return {**super().details(p), **kept, "reading": self.reading, "estimate": self.read(p).estimate}


class _Terms:
    """The terms of p and F's change at the samples, for each normalisation N that is tried."""

    def __init__(
        self,
        target: Target,
        sensitivity: Sensitivity,
        kinds: Sequence[Normalization],
        *,
        drops: bool,
        strength: Tensor | None,
    ) -> None:
        self.target, self.graph, self.sensitivity, self.kinds = target, target.computation_graph, sensitivity, kinds
        self._drops, self._strongest = drops, None if strength is None else strongest(strength)
        self._propagation = Propagation(self.graph, target.num_hops)
        self._columns = self.graph.x.double() @ sensitivity.columns  # [n, u]
        self._parts: dict[str, list[Tensor]] = {}  # the terms by name, a part for each chunk
        self._moves = False, False  # X, A
        self._rows: dict[Normalization, Tensor] = {}
        self._rounding: dict[str, float] = {}  # the largest rounding error of a term

    def add(self, chunk: Perturbations) -> None:
        """Compute the terms and F's change at a chunk of samples."""
        eps, self._moves = chunk.features, (chunk.features is not None, chunk.edges is not None)
        with stage("features"):
            for kind in self.kinds:
                self._propagate(kind, chunk.weight_with_own, chunk)
            predicted = self.sensitivity.foreseen(chunk)
            energies = [energy(part).unsqueeze(1) for part in (eps, chunk.edges) if part is not None]
            self._store("saliency", predicted[:, :1])
            self._store("mean", predicted[:, 1:2])
            self._store("energy", energies[0] if len(energies) == 1 else torch.cat(energies, dim=1))
            self._store("curvature", curvature_of(predicted[:, 2:], self.sensitivity.bend).unsqueeze(1))
            if self._strongest is not None and chunk.edges is not None:
                self._store("kriging", chunk.edges[:, self._strongest])
        with stage("F"):
            self._store("change", self.target.changes(chunk))

    def _store(self, name: str, part: Tensor) -> None:
        """Store the values of a term at a chunk of samples."""
        self._parts.setdefault(name, []).append(part)

    def _propagate(self, kind: Normalization, weight: Tensor, chunk: Perturbations) -> None:
        """Compute the k-hop terms and the degree terms at a chunk; ``weight`` also has the unperturbed graph, first."""
        walks = self._propagation.of(weight.T, kind)
        if kind not in self._rows:
            self._rows[kind] = walks.rows[..., 0].clone()
            size = float(torch.linalg.vector_norm(self._rows[kind] @ self._columns))
            self._rounding[f"khop {kind}"] = _ROUNDING * size if chunk.features is None else 0.0
            self._rounding[f"degrees {kind}"] = _ROUNDING * float(walks.moments[..., 0].abs().max())
        parts: Tensor | None = None
        if chunk.edges is not None:
            lost = walks.change()
            self._store(f"degrees {kind}", lost.moments.flatten(0, 1).T)
            # These are the changes of e^T N(A)^k X U, [S, M, u], where U are the main columns.
            parts = torch.matmul(lost.rows.transpose(1, 2), self._columns).transpose(0, 1)
        if chunk.features is not None:
            after = walks.rows if chunk.edges is None else walks.rows[..., 1:]
            moved = carry(self._propagation, after, chunk.features)
            moved = (moved @ self.sensitivity.columns.to(moved.dtype)).double()
            if parts is not None:
                moved[:, 1:] += parts
            parts = moved
        assert parts is not None
        self._store(f"khop {kind}", parts.flatten(1))

    def numbers(self, name: str) -> Tensor:
        """Return the values of a term, or F's change, at all samples."""
        parts = self._parts[name]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def blocks(self, kind: Normalization, wanted: Sequence[Block]) -> dict[Block, tuple[Tensor, float]]:
        """Return the values, [S, .], and the rounding error of each wanted term that the neighbourhood changes."""
        terms: dict[Block, tuple[Tensor, float]] = {}
        for name in wanted:
            key = f"{name} {kind}" if name in ("khop", "degrees") else name
            if key in self._parts and name != "kriging":
                terms[name] = self.numbers(key), self._rounding.get(key, 0.0)
        return terms

    def model(self, fit: _Fit, kind: Normalization) -> AnchoredModel:
        """Return the p with the weights of ``fit``."""
        known, hops = self.sensitivity, self.target.num_hops
        first = 0 if self._moves[0] else 1  # e^T X only changes if features are perturbed.
        solved = np.zeros((hops + 1, known.columns.size(1)))
        solved[first:] = fit.weights("khop", (hops + 1 - first, known.columns.size(1)))
        local, mean, curvature = (float(fit.weights(name, (1,))[0]) for name in ("saliency", "mean", "curvature"))
        stiffness = np.zeros(2)
        stiffness[[*self._moves]] = fit.weights("energy", (sum(self._moves),))
        phi_x, phi_a = known.gradient(local, mean)
        if self._drops:
            # The neighbourhood drops whole entries, eps = A or 0, so that eps^2 = A eps. The energy of A is therefore a
            # linear term, and belongs to the scores.
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
        """Return the p that consists of the gradient of F alone, or is 0."""
        hops, part = self.target.num_hops, self.graph
        phi = torch.zeros_like(part.x), torch.zeros_like(part.weight)
        if chosen == "saliency":
            with suppress(ModelError):  # If the gradient is not finite, the fit has used 0 for it, so p does too.
                phi = self.target.gradient()
        zeros = (
            torch.zeros(*shape, dtype=torch.float64)
            for shape in ((hops + 1, part.x.size(1)), (hops, len(MOMENTS)), (2,), (0, 0))
        )
        weights, degrees, stiffness, bend = zeros
        return AnchoredModel(part, weights, degrees, *phi, stiffness, None, None, bend, kind)

    def anchor(self, p: AnchoredModel) -> None:
        """Give p the derivative of F at the graph as it is, for X or A where the neighbourhood leaves it still.

        No sample shows how F depends on what never moves, so the terms that were fitted foresee it badly. Phi_X (or
        Phi_A) takes up the difference, which changes p nowhere in the neighbourhood.
        """
        if all(self._moves):
            return
        try:
            own = self.target.gradient()
        except ModelError:  # If the gradient is not finite, the fitted terms are all there is.
            return
        if not self._moves[0]:
            p.phi_x = (p.phi_x.double() + own[0].double() - p.gradient_x()).to(p.phi_x.dtype)
        if not self._moves[1]:
            p.phi_a = (p.phi_a.double() + own[1].double() - p.gradient_a()).to(p.phi_a.dtype)


class _Fit:
    """A ridge regression on blocks of terms, each scaled so that one penalty suits all of them."""

    def __init__(self, blocks: dict[Block, tuple[Tensor, float]], change: Tensor) -> None:
        parts = [block.numpy() for block, _ in blocks.values()]
        terms = np.concatenate(parts, axis=1) if parts else np.zeros((len(change), 0))
        with np.errstate(over="ignore"):  # A term whose square is infinite gets the scale 0, so that it is left out.
            squares = (terms * terms).sum(axis=0) / len(terms)
        typical = float(change @ change) / len(change)
        self._places: dict[Block, slice] = {}
        size, stop = squares.copy(), 0
        for name, (block, rounding) in blocks.items():
            columns = slice(stop, stop := stop + block.size(1))
            # The columns of the k-hop model share one scale. Every column of the other terms has its own scale.
            if name == "khop":
                size[columns] = squares[columns].sum()
            elif name == "degrees":
                size[columns] *= block.size(1)
            else:
                # A prediction that is tiny compared with F's change must not be scaled up to the size of the others.
                least = 0.0 if name == "energy" else _FAINT**2 * typical
                size[columns] = np.maximum(squares[columns], least) / _FIRM
            # A term that changes only by rounding is left out.
            size[columns][size[columns] <= rounding * rounding] = np.inf
            self._places[name] = columns
        self._scale = 1 / np.sqrt(size)
        with np.errstate(invalid="ignore"):  # ridge refuses a term that is infinite itself
            scaled = terms * self._scale
        self._scaled, self._change = torch.from_numpy(scaled), change
        solution = ridge(self._scaled, change)
        self.error, self._weights = solution.left_out, solution.weights
        self.residual, self.left_out_residual = solution.residual, solution.left_out_residual

    def krige(self, graph: ComputationGraph, seen: Tensor, strength: Tensor) -> Kriged | None:
        """Fit the terms again, together with a function of the removed edges; None if there is nothing to fit."""
        kriged = krige(self._scaled, self._change, graph, seen, strength)
        if kriged is not None:
            self._weights = kriged.weights
        return kriged

    def weights(self, name: Block, shape: tuple[int, ...]) -> Float64:
        """Return the weights of a block, or zeros if the fit does not have it."""
        if name not in self._places:
            return np.zeros(shape)
        columns = self._places[name]
        weights: Float64 = self._weights.numpy()[columns] * self._scale[columns]
        return weights.reshape(shape)
