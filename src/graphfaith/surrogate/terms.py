"""The terms of an anchored p at the samples of a fit, and the regression of F's change on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from .._base import core
from .._base.errors import ModelError
from .._base.stages import stage
from ..graph.computation_graph import ComputationGraph
from ..model.target import Target
from ..sampling.perturbations import Perturbations
from .attention import Attention, find_attention, main_terms
from .difference import AnchoredModel, carry, curvature_of, energy
from .hinges import Hinges
from .kriging import Kriged, krige, strongest
from .propagation import MOMENTS, Propagation
from .sensitivity import Sensitivity, products_along, project
from .solve import ridge
from .typed_walks import MOST_TERMS, WalkTerms, group_walks
from .walks import Float64, Normalization

Block = Literal[
    "khop",
    "degrees",
    "saliency",
    "mean",
    "energy",
    "curvature",
    "kriging",
    "attention",
    "attributes",
    "walks",
    "hinges",
]
ALL_BLOCKS: tuple[Block, ...] = get_args(Block)
BLOCKS: tuple[Block, ...] = tuple(block for block in ALL_BLOCKS if block != "hinges")  # those that p has unless asked
Chosen = Literal["anchored", "saliency", "zero"]

ROUNDING = 1e-11  # the largest relative rounding error of a term
FAINT = 1e-3  # terms smaller than this share of F's change are not scaled up to the size of the others
KINDS = {
    "khop": core.KHOP,
    "degrees": core.DEGREES,
    "saliency": core.FORESEEN,
    "mean": core.FORESEEN,
    "energy": core.ENERGY,
    "curvature": core.FORESEEN,
    "attention": core.KHOP,
    "attributes": core.FORESEEN,
    "walks": core.KHOP,
    "hinges": core.KHOP,
}
FIRM = 100.0  # the penalty of all terms except "khop" and "degrees" is smaller by this factor
SLOPES = 32  # samples at which the slope of attention is taken
_WALKED = 48  # of their terms, the directions in which they change most


class Terms:
    """The terms of p and F's change at the samples, for each normalisation N that is tried."""

    def __init__(
        self,
        target: Target,
        sensitivity: Sensitivity,
        kinds: Sequence[Normalization],
        *,
        drops: bool,
        strength: Tensor | None,
        attentive: bool = False,
        slopes: Tensor | None = None,
        drops_attributes: bool = False,
        walking: bool = True,
        moved: bool = False,
        hinges: Hinges | None = None,
    ) -> None:
        self.hinges = hinges
        self._drops_attributes = drops_attributes
        self._slopes = slopes  # [2, e, c] F's gradient for edge attributes, and its mean, if they move
        self.target, self.graph, self.sensitivity, self.kinds = target, target.computation_graph, sensitivity, kinds
        self._drops = drops
        # The gradient at the unperturbed graph says little of edges that matter only when others are gone. Their mean
        # strength over the samples does, unless no gradient is finite.
        known = strength if strength is None or not sensitivity.strength.any() else sensitivity.strength
        self.strength, self._strongest = known, None if known is None else strongest(known)
        self.attention = find_attention(target) if attentive else None
        self.walks = self._find_walks(moved=moved) if self.graph.kinds is not None and walking else None
        self._samples: list[Perturbations] = []  # the first ones, at which the slope of attention is taken
        self._propagation = Propagation(self.graph, target.num_hops)
        self._columns = self.graph.x.double() @ sensitivity.columns  # [n, u]
        self._parts: dict[str, list[Tensor]] = {}  # the terms by name, a part for each chunk
        self._moves = False, False  # X, A
        self._rows: dict[Normalization, Tensor] = {}
        self._rounding: dict[str, float] = {}  # the largest rounding error of a term

    def _find_walks(self, *, moved: bool) -> WalkTerms:
        """Return the terms of typed walks; ``moved`` says whether features move."""
        groups = group_walks(self.graph, self.target.num_hops, self.target.gradient, MOST_TERMS)
        along = self.sensitivity.along_x
        slope = along[1 if len(along) > 1 else 0]
        return WalkTerms(self.graph, groups, slope, moved=moved)

    def add(self, chunk: Perturbations, change: Tensor | None = None) -> None:
        """Compute the terms at a chunk of samples, and F's ``change`` there, [S], if it is not known."""
        eps, self._moves = chunk.features, (chunk.features is not None, chunk.edges is not None)
        with stage("features"):
            moved, moved_on = self._project(eps)
            for kind in self.kinds:
                self._propagate(kind, chunk.weight_with_own, chunk, moved)
                if self.walks is not None:
                    self._store(f"walks {kind}", self.walks.numbers(chunk, kind))
            predicted = self.sensitivity.foreseen(chunk)
            energies = [energy(part).unsqueeze(1) for part in (eps, chunk.edges) if part is not None]
            if self._slopes is not None and chunk.attributes is not None:
                foreseen = products_along(chunk.attributes, self._slopes)
                self._store("attributes", torch.cat([foreseen, energy(chunk.attributes).unsqueeze(1)], dim=1))
                predicted[:, :2] += foreseen
            self._store("saliency", predicted[:, :1])
            self._store("mean", predicted[:, 1:2])
            if energies:
                self._store("energy", energies[0] if len(energies) == 1 else torch.cat(energies, dim=1))
                self._store("curvature", curvature_of(predicted[:, 2:], self.sensitivity.bend).unsqueeze(1))
            if self.attention is not None:
                self._store("attention", self.attention.terms(chunk, moved_on))
                left = SLOPES - sum(map(len, self._samples))  # They are the same ones whatever the size of a chunk.
                self._samples += [chunk[:left].copy()] if left > 0 else []  # A slice would keep the whole chunk.
            if self.hinges is not None:
                lost, switched = self.hinges.terms(chunk)
                self._store("hinges", lost)
                self._store("switched", switched)
            if self._strongest is not None and chunk.edges is not None:
                self._store("kriging", chunk.edges[:, self._strongest])
        with stage("F"):
            self._store("change", self.target.changes(chunk) if change is None else change)

    def _project(self, eps: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Return eps_X U, [S, n, u], and eps_X times the first weights of attention, from one pass over eps_X."""
        if eps is None:
            return None, None
        columns = self.sensitivity.columns
        if self.attention is None:
            return project(eps, columns.T), None
        moved = project(eps, torch.cat([columns.T, self.attention.first_weights]))
        return moved[..., : columns.size(1)], moved[..., columns.size(1) :]

    def _store(self, name: str, part: Tensor) -> None:
        """Store the values of a term at a chunk of samples."""
        self._parts.setdefault(name, []).append(part)

    def _propagate(self, kind: Normalization, weight: Tensor, chunk: Perturbations, moved: Tensor | None) -> None:
        """Compute the k-hop terms and the degree terms at a chunk; ``weight`` also has the unperturbed graph, first.

        ``moved`` is eps_X U, [S, n, u], if features move.
        """
        walks = self._propagation.of(weight.T, kind)
        if kind not in self._rows:
            self._rows[kind] = walks.rows[..., 0].clone()
            size = float(torch.linalg.vector_norm(self._rows[kind] @ self._columns))
            self._rounding[f"khop {kind}"] = ROUNDING * size if chunk.features is None else 0.0
            self._rounding[f"degrees {kind}"] = ROUNDING * float(walks.moments[..., 0].abs().max())
        parts: Tensor | None = None
        if chunk.edges is not None:
            lost = walks.change()
            self._store(f"degrees {kind}", lost.moments.flatten(0, 1).T)
            # These are the changes of e^T N(A)^k X U, [S, M, u], where U are the main columns.
            parts = torch.matmul(lost.rows.transpose(1, 2), self._columns).transpose(0, 1)
        if moved is not None:
            after = walks.rows if chunk.edges is None else walks.rows[..., 1:]
            carried = carry(self._propagation, after, moved)
            if parts is not None:
                carried[:, 1:] += parts
            parts = carried
        if parts is not None:
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
            if key in self._parts and name not in ("kriging", "attention", "hinges"):
                terms[name] = self.numbers(key), self._rounding.get(key, 0.0)
        return terms

    def attend(self, kind: Normalization) -> tuple[Tensor, Tensor]:
        """Return the main terms of attention at all samples, [S, t], and their directions, [u, t].

        They share the scale of the k-hop terms, whose unit is another one, and have the smaller penalty of the rest.
        """
        numbers = self.numbers("attention")
        columns = main_terms(numbers)
        columns = columns * self._firmness(numbers @ columns, kind)
        return numbers @ columns, columns

    def _firmness(self, numbers: Tensor, kind: Normalization) -> float:
        """Return the factor that gives terms the scale of the k-hop terms, and the smaller penalty of the rest."""
        own, others = (float(part.square().sum()) for part in (numbers, self.numbers(f"khop {kind}")))
        return math.sqrt(FIRM * others / own) if own > 0 and others > 0 else 1.0

    def hinge(self, kind: Normalization) -> tuple[Tensor, float]:
        """Return the terms of hinges at all samples, [S, J], and the factor that they are multiplied by."""
        numbers = self.numbers("hinges")
        factor = self._firmness(numbers, kind)
        return factor * numbers, factor

    def _attention(self, columns: Tensor, weights: Float64) -> Attention:
        """Return what was fitted of attention, with its mean slope at some samples."""
        assert self.attention is not None
        fitted = replace(self.attention, columns=columns, weights=torch.from_numpy(weights))
        shares = [len(part) / sum(map(len, self._samples)) for part in self._samples]
        slopes = [fitted.mean_gradient(part) for part in self._samples]
        of_x = sum((share * slope for share, (slope, _) in zip(shares, slopes, strict=True)), torch.zeros(()))
        of_a = sum((share * slope for share, (_, slope) in zip(shares, slopes, strict=True)), torch.zeros(()))
        return replace(fitted, mean_x=of_x.to(self.graph.x.dtype), mean_a=of_a)

    def walk(self, kind: Normalization) -> tuple[Tensor, Tensor]:
        """Return the main terms of typed walks at all samples, [S, t], and their directions, [u, t]."""
        numbers = self.numbers(f"walks {kind}")
        columns = main_terms(numbers, _WALKED)
        return numbers @ columns, columns

    def model(
        self,
        fit: Fit,
        kind: Normalization,
        attended: Tensor | None = None,
        walked: Tensor | None = None,
        hinged: float | None = None,
    ) -> AnchoredModel:
        """Return the p with the weights of ``fit``.

        ``attended`` and ``walked`` are the directions of attention and of typed walks that it has, and ``hinged`` is
        the factor of its hinges.
        """
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
        if self._slopes is not None:
            own, average, p.stiffness_e = fit.weights("attributes", (3,)).tolist()
            p.phi_e = (local + own) * self._slopes[0] + (mean + average) * self._slopes[1]
            if self._drops_attributes and self.graph.attributes is not None:  # as for entries of A above
                p.phi_e += p.stiffness_e * self.graph.attributes.double()
                p.stiffness_e = 0.0
        if attended is not None:
            p.attention = self._attention(attended, fit.weights("attention", (attended.size(1),)))
        if walked is not None and self.walks is not None:
            solution = walked @ torch.from_numpy(fit.weights("walks", (walked.size(1),)))
            p.walks = self.walks.fitted(solution, kind)
        if hinged is not None and self.hinges is not None:
            weights = hinged * torch.from_numpy(fit.weights("hinges", (len(self.hinges),)))
            p.hinges = replace(self.hinges, weights=weights, switched=self.numbers("switched").mean(dim=0))
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
        slope = None if self._slopes is None else self._slopes[0] * (chosen == "saliency")
        return AnchoredModel(part, weights, degrees, *phi, stiffness, None, None, bend, kind, phi_e=slope)

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


class Fit:
    """A ridge regression on blocks of terms, each scaled so that one penalty suits all of them."""

    def __init__(self, blocks: dict[Block, tuple[Tensor, float]], change: Tensor) -> None:
        parts = [block.numpy() for block, _ in blocks.values()]
        terms = np.concatenate(parts, axis=1) if parts else np.zeros((len(change), 0))
        self._places: dict[Block, slice] = {}
        kinds, roundings, stop = np.empty(terms.shape[1], dtype=np.int64), np.empty(terms.shape[1]), 0
        for name, (block, rounding) in blocks.items():
            self._places[name] = columns = slice(stop, stop := stop + block.size(1))
            kinds[columns], roundings[columns] = KINDS[name], rounding
        self._scale = core.scales_of_terms(terms, change.numpy(), kinds, roundings, FAINT, FIRM)
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
