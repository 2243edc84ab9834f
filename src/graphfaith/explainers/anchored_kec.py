"""AnchoredKEC: a k-hop explanation anchored to the gradients of F, with an estimate of its own error."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from .._base.checks import check_count, check_real
from .._base.errors import FewSamplesWarning, InputError, ModelError
from .._base.stages import stage, time_items
from ..explanation.masks import of_mask
from ..graph.graph import Int64
from ..model.call import Edges
from ..model.target import Target
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations
from ..surrogate.attention import find_attention
from ..surrogate.difference import AnchoredModel, DifferenceModel
from ..surrogate.estimate import Unfaithfulness, estimate_unfaithfulness, rounding_square
from ..surrogate.evidence import Evidence
from ..surrogate.fits import Fits, fit_graph
from ..surrogate.hinges import LINES, LOOKS, MOST, TURNS, find_hinges
from ..surrogate.moves import OfX
from ..surrogate.readings import (
    Reading,
    ReadModel,
    check_reading,
    estimate_scores,
    keep_slope,
    read_model,
    reading_bytes,
)
from ..surrogate.sensitivity import RANK, Sensitivity, gradients_at, slopes_and_changes, slopes_of_attributes
from ..surrogate.terms import ALL_BLOCKS, BLOCKS, SLOPES, Block, Chosen, Fit, Terms
from ..surrogate.typed_walks import most_groups, row_bytes, term_bytes
from ..surrogate.walks import Normalization, walk_bytes
from .base import FittedExplainer, Samples

_EVERY = 12  # one in this many samples is used for the gradient of F, and not for the regression
_WORTH = 0.9  # p has hinges if they lower the leave-one-out error to this share at most: there are many of them
_FEWEST = 100  # the number of samples that "auto" starts with; from fewer, the estimate is too good


@lru_cache(maxsize=16)
def split_samples(count: int) -> tuple[Int64, Int64]:
    """Return the samples at which the gradient of F is computed, one in twelve, and those of the regression.

    >>> [part.tolist() for part in split_samples(14)]
    [[0, 12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13]]
    """
    # Both are contiguous for every count, so that the core is compiled once for all of them.
    samples, asked = np.arange(count), np.arange(0, count, _EVERY)
    return asked, np.delete(samples, asked) if count > 1 else samples


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
    is used as p instead. Where a few edges are removed, R(A, k), p also has a function of the removed edges
    (:class:`~graphfaith.surrogate.kriging.Kriging`), and samples lean towards edges that F depends on.
    :class:`~graphfaith.surrogate.difference.AnchoredModel` has the full equation of p.

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
        blocks: the terms of p. The default is all but "hinges"; fewer blocks show what each of them contributes.
            ``(*BLOCKS, "hinges")`` lets p follow kinks of F where features move, at two to three times KEC's time.
        reading: what the scores are: "share", the additive function closest to F's change; "slope", the gradient of p;
            or "effect", what p foretells for taking away one entry alone. ``explanation.reading(...)`` gives another.
        pairs: how many pairs of entries there may be at most beside the shares.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explanation = gf.explain(model, ring, 1, method="anchored-kec", neighborhood="B(A,0.5)")
    >>> explanation.method, explanation.unfaithfulness.relative < 1, explanation.estimate.neighborhood
    ('AnchoredKEC', True, 'B(A,0.5)')
    """

    method = "AnchoredKEC"
    fits_soon = True
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
            if block not in ALL_BLOCKS:
                raise InputError(f"unknown block {block!r}: known are {', '.join(ALL_BLOCKS)}")
        if not blocks:
            raise InputError(f"p needs at least one block: {', '.join(ALL_BLOCKS)}")
        self.blocks: tuple[Block, ...] = (blocks,) if isinstance(blocks, str) else tuple(blocks)
        self.reading = check_reading(reading)
        self.pairs = check_count(pairs, "pairs", least=0)
        self._warned = False

    def check_call(self, model: torch.nn.Module, x: Any, edge_index: Any) -> None:
        """Check as every method does, and warn once if the estimate that comes along is one of too few samples."""
        super().check_call(model, x, edge_index)
        if self.num_samples != "auto" and self.num_samples < _FEWEST and not self._warned:
            self._warned = True
            warnings.warn(
                f"an estimate from {self.num_samples} samples flatters the explanation: fit on at least {_FEWEST}, or "
                "on num_samples='auto', or believe general_unfaithfulness alone",
                FewSamplesWarning,
                stacklevel=2,
            )

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
        size = self._chunk_size(target, count)
        p = self._fit_in_core(target, count) if size >= count else None
        if p is None:
            p = self._fit_terms(target, count, size, None)
        if p.phi_e is None and target.computation_graph.attributes is not None:
            with suppress(ModelError):  # If the gradient is not finite, edge attributes have no scores.
                p.phi_e = target.attribute_gradients()
        return p

    def fit_given(self, target: Target, change: Tensor) -> AnchoredModel:
        """Return the p that is fitted on ``num_samples`` samples, at which F's change, [S], is known."""
        count = self.count_samples()
        return self._fit_terms(target, count, self._chunk_size(target, count), change)

    def _fit_terms(self, target: Target, count: int, size: int, change: Tensor | None) -> AnchoredModel:
        """Return the p of any neighbourhood; F's ``change`` at all samples, [S], is found if it is not known."""
        asked, rest = split_samples(count)
        graph, near, done = target.computation_graph, self.neighborhood, 0
        strength = self._strength(target)
        near = near if strength is None else near.lean(strength) or near
        with stage("sampling"):
            first = near.numbered(graph, asked, self.seed)
        with stage("sensitivity"):
            moves = near.perturbs_features or near.perturbs_edges
            if moves:
                slopes = gradients_at(target, first)
                sensitivity = Sensitivity.of(target, slopes[1:], first)
                hinges = find_hinges(target, first, slopes) if self._is_hinged else None
                del slopes
            else:
                sensitivity, hinges = Sensitivity.still(target), None
            terms = Terms(
                target,
                sensitivity,
                self.kinds_for(target),
                drops=near.drops_edges,
                strength=strength,
                attentive=self._is_attentive,
                slopes=slopes_of_attributes(target, first),
                drops_attributes=near.drops_attributes,
                walking="walks" in self.blocks,
                moved=near.perturbs_features,
                hinges=hinges,
            )
            del first  # This frees as much memory as a chunk needs.
        for chunk in time_items(self._chunks_of(target, near, rest, size), "sampling"):
            numbers, done = rest[done : done + len(chunk)], done + len(chunk)
            terms.add(chunk, None if change is None else change[torch.from_numpy(numbers)])
        with stage("solve"):
            return self._solve(terms, count, rest, strength)

    def _fit_in_core(self, target: Target, count: int) -> AnchoredModel | None:
        """Return the p that the compiled core fits where only edges move, each by itself; None if it cannot."""
        near, graph = self.neighborhood, target.computation_graph
        if near.perturbs_features or near.perturbs_attributes or not near.by_itself:
            return None
        if self.blocks != BLOCKS or graph.kinds is not None:
            return None
        asked, rest = split_samples(count)
        with stage("sampling"):
            samples = near.sample(graph, count, self.seed)
            weight = samples.weight_with_own
        with stage("sensitivity"):
            (own, mean, of_a), change = slopes_and_changes(target, weight, asked, rest)
        if change is None:
            with stage("F"):
                change = target.changes(samples[torch.from_numpy(rest)])
        with stage("solve"):
            noise, kinds = rounding_square(target.scale, graph.x.dtype), self.kinds_for(target)
            given = weight, (asked, rest), change, (mean[: graph.num_visible], of_a), noise
            fits = fit_graph(graph, target.num_hops, kinds, *given, drops=near.drops_edges)
        if fits is None or not math.isfinite(float(own.sum())):
            return None
        with stage("gradient"):
            p = fits.model(0, graph, slice(0, graph.num_edges), own.double().numpy())
            self.complete(p, fits, 0, count, change, noise)
            return p

    def complete(self, p: AnchoredModel, fits: Fits, i: int, count: int, change: Tensor, noise: float) -> None:
        """Give the p that is number i of ``fits`` its estimate, and what it was made from: ``count`` samples."""
        left, fitted = torch.from_numpy(fits.left_out[i].copy()), torch.from_numpy(fits.fitted[i].copy())
        near, numbers = self.neighborhood, torch.from_numpy(split_samples(count)[1])
        p.evidence = Evidence(numbers, self.seed, str(near), change, left, fitted, noise)
        p.estimate = estimate_unfaithfulness(left, change, noise, near, self.seed)
        p.in_sample_error, p.fit_samples, p.chosen = float((fitted - change).square().mean()), count, "anchored"
        if self.reading == "slope":
            rest = torch.from_numpy(fits.rests[i].copy())
            keep_slope(p, rest, near, seed=self.seed, pairs=self.pairs, of=self._of())

    def _strength(self, target: Target) -> Tensor | None:
        """Return |dF/dA| times A, [e], if samples have to lean towards what F depends on; None if they need not."""
        if self.neighborhood.lean(target.computation_graph.weight) is None:
            return None
        with suppress(ModelError):  # If the gradient is not finite, nothing is known of the edges.
            return (target.gradient()[1].double() * target.computation_graph.weight.double()).abs()
        return torch.ones(target.computation_graph.num_edges, dtype=torch.float64)

    def kinds_for(self, target: Target) -> tuple[Normalization, ...]:
        """Return the normalisations to try."""
        if self.normalization != "auto":
            return (self.normalization,)
        return ("symmetric",) if target.call.is_convolutional else get_args(Normalization)

    @property
    def _is_attentive(self) -> bool:
        """Whether p has terms of attention, if F has attention."""
        return self.neighborhood.perturbs_features and "attention" in self.blocks

    @property
    def _is_hinged(self) -> bool:
        """Whether p has hinges, if F has kinks."""
        return self.neighborhood.perturbs_features and "hinges" in self.blocks

    def _chunk_size(self, target: Target, count: int) -> int:
        """Return how many samples a chunk may have, so that it fits in memory."""
        graph, kinds = target.computation_graph, len(self.kinds_for(target))
        per_sample = self.neighborhood.sample_bytes(graph, target.unit_width(drops=self.neighborhood.drops_edges))
        # The terms of a sample, the gradients and their directions, the walks, and what the search for the gradients
        # leaves behind, which was measured.
        moved = graph.num_edges + (graph.x.numel() if self.neighborhood.perturbs_features else 0)
        points = count // _EVERY + 1
        numbers = (100 + 70 * kinds) * count + 4 * graph.x.numel() + (4 + points + min(RANK, points)) * moved
        fixed = 8 * (numbers + 48 * graph.num_edges) + walk_bytes(graph, kinds)
        attention = find_attention(target) if self._is_attentive else None
        if attention is not None:
            more, each = attention.bytes_of(graph, count, SLOPES)
            fixed, per_sample = fixed + more, per_sample + each
        if graph.kinds is not None and "walks" in self.blocks:
            groups = most_groups(graph, target.num_hops)
            fixed, per_sample = fixed + term_bytes(graph, groups, count * kinds), per_sample + row_bytes(graph, groups)
        if self._is_hinged:
            # The gradients on the lines, once more in one piece, and the directions that are kept.
            fixed += 8 * (2 * (1 + LINES + TURNS * LOOKS) + MOST) * moved
        room = target.room(fixed, per_sample, f"{self.method} on {count} samples")
        if self.reading == "share":
            kept = 8 * (4 * graph.x.numel() + (4 + min(RANK, points)) * moved)  # of p and its scores
            target.room(kept + reading_bytes(self.neighborhood, graph), 1, f"reading p of {self.method}")
        return max(1, room // per_sample)

    def _chunks_of(self, target: Target, near: Neighborhood, samples: np.ndarray, size: int) -> Iterator[Perturbations]:
        """Yield the samples with the given numbers, a chunk at a time."""
        for start in range(0, len(samples), size):
            yield near.numbered(target.computation_graph, samples[start : start + size], self.seed)

    def _solve(self, terms: Terms, count: int, rest: np.ndarray, strength: Tensor | None) -> AnchoredModel:
        """Return the candidate with the least leave-one-out error: the anchored model, the gradient alone, or 0."""
        change = terms.numbers("change")
        fits = {kind: Fit(terms.blocks(kind, self.blocks), change) for kind in terms.kinds}
        kind = min(fits, key=lambda name: fits[name].error)
        fit, attended, walked, hinged = fits[kind], None, None, None
        for name in terms.kinds if terms.walks is not None else ():
            numbers, columns = terms.walk(name)
            more = Fit({**terms.blocks(name, self.blocks), "walks": (numbers, 0.0)}, change)
            if more.error < fit.error:
                fit, kind, walked = more, name, columns
        if terms.attention is not None:
            numbers, columns = terms.attend(kind)
            more = Fit({**terms.blocks(kind, self.blocks), "attention": (numbers, 0.0)}, change)
            if more.error < fit.error:
                fit, attended = more, columns
        if terms.hinges is not None:
            of_hinges, factor = terms.hinge(kind)
            known = terms.blocks(kind, self.blocks)
            if attended is not None:
                known["attention"] = (terms.numbers("attention") @ attended, 0.0)
            if walked is not None:
                known["walks"] = (terms.numbers(f"walks {kind}") @ walked, 0.0)
            more = Fit({**known, "hinges": (of_hinges, 0.0)}, change)
            if more.error < _WORTH * fit.error:
                fit, hinged = more, factor
        kriged = None
        if terms.strength is not None and "kriging" in self.blocks:
            kriged = fit.krige(terms.graph, terms.numbers("kriging"), terms.strength)
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
        p = terms.model(fit, kind, attended, walked, hinged) if chosen == "anchored" else terms.simple(chosen, kind)
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
        return read_model(p, self.neighborhood, self.reading, seed=self.seed, pairs=self.pairs, of=self._of())

    def _of(self) -> OfX:
        """Return what a mask of nodes has scores of."""
        return of_mask(getattr(getattr(self, "_explainer_config", None), "node_mask_type", None))

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
        return {**super().details(p), **kept, "reading": self.reading, "estimate": self._estimate(p)}

    def _estimate(self, p: AnchoredModel) -> Unfaithfulness | None:
        """Return the estimate of what is shown: scores that no mask was asked for do not count."""
        read, near = self.read(p), self.neighborhood
        config = getattr(self, "_explainer_config", None)
        if config is None:
            return read.estimate
        hidden_x = near.perturbs_features and config.node_mask_type is None
        hidden_a = near.perturbs_edges and config.edge_mask_type is None
        if not hidden_x and not hidden_a:
            return read.estimate
        x, a = read.scores
        x = torch.zeros_like(x) if hidden_x else x
        return estimate_scores(p, near, x, a * p.graph.is_loop if hidden_a else a)
