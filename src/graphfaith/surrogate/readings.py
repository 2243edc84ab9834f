"""Readings of a difference model: what p knows of F, as one number for each edge or feature, and for pairs of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from .._base.memory import CHUNK_BYTES
from ..graph.computation_graph import ComputationGraph
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations
from .additive import Additive, project
from .difference import AnchoredModel, DifferenceModel
from .estimate import Unfaithfulness, estimate_unfaithfulness
from .evidence import Evidence
from .moves import Moves
from .pairs import Paired, find_pairs

Reading = Literal["slope", "share", "effect"]
READINGS: tuple[Reading, ...] = get_args(Reading)

_STREAM = 0x5EED0FA11  # Samples of p come from the stream of another seed than those of the fit and of the score.
_FEWEST, _MOST = 512, 1024  # samples of p; of features, which are many and where p is a polynomial, a few are enough
_FEWEST_OF_FEATURES = 64
_ENTRIES = 2**17  # perturbed entries in these samples


@dataclass(frozen=True)
class Readings:
    """The additive function that is closest to F, and the one with pairs beside it, both read off p.

    ``paired`` has as many pairs as lower the error at F's own samples, each of which was left out of the fit of p.
    """

    additive: Additive
    paired: Paired
    estimate: Unfaithfulness | None  # Delta of the additive function; None if p brought no evidence
    paired_estimate: Unfaithfulness | None

    @property
    def scores(self) -> tuple[Tensor | None, Tensor | None]:
        """The shares of features, [n, d], and of entries of A, [e]; None for what the neighbourhood leaves still."""
        return self.additive.moves.spread_out(self.additive.scores)

    @property
    def stderr(self) -> tuple[Tensor | None, Tensor | None]:
        """The standard errors of the shares."""
        return self.additive.moves.spread_out(self.additive.stderr)


def read(
    p: DifferenceModel,
    near: Neighborhood,
    graph: ComputationGraph,
    *,
    seed: int = 0,
    evidence: Evidence | None = None,
    pairs: int = 10,
    noise: float = 0.0,
) -> Readings:
    """Return the readings of p in a neighbourhood; F is not asked.

    ``evidence`` is what the fit of p has seen of F, ``pairs`` how many pairs there may be at most, and ``noise`` the
    mean square of F's rounding.
    """
    samples, change = draw_changes(p, near, graph, seed)
    moves = Moves(graph, near, samples)
    matrix = moves.of(samples)
    seen = own = left = None
    if evidence is not None:
        there = evidence.perturbations(graph, near)
        seen, own, left = moves.of(there), p.change(there), -evidence.left_out
    additive = project(moves, matrix, change, moves.gather(*_guess(p, moves)), seen, left)
    functions = find_pairs(additive, matrix, change, pairs)
    if evidence is None or seen is None or own is None:
        return Readings(additive, functions[-1], None, None)
    rests = []
    for function in functions:
        value = seen @ function.alone + (seen[:, function.first] * seen[:, function.second]) @ function.together
        # What the function leaves of p, which knows this sample, and what p leaves of F when it does not know it.
        rests.append(value - own + evidence.left_out)
    errors = [float(rest @ rest) for rest in rests]
    best = min(range(len(errors)), key=errors.__getitem__)
    records = [estimate_unfaithfulness(rests[i], evidence.change, noise, near, evidence.seed) for i in (0, best)]
    return Readings(additive, functions[best], *records)


def _guess(p: DifferenceModel, moves: Moves) -> tuple[Tensor, Tensor]:
    """Return a first guess at the scores: the slope of p, for an :class:`AnchoredModel` at the mean perturbation."""
    if isinstance(p, AnchoredModel):
        return p.mean_gradient(*moves.spread_out(moves.mean))
    return p.gradient()


def with_readings(record: Unfaithfulness, readings: Readings) -> Unfaithfulness:
    """Return the estimate of Delta(p) together with those of the scores and of the pairs."""
    if readings.estimate is None:
        return record
    return replace(
        record,
        scores=readings.estimate,
        pairs=readings.paired_estimate if len(readings.paired) else None,
        num_pairs=len(readings.paired),
        excess=readings.additive.excess,
    )


def draw_changes(
    p: DifferenceModel, near: Neighborhood, graph: ComputationGraph, seed: int
) -> tuple[Perturbations, Tensor]:
    """Return samples of a neighbourhood and the changes of p there: a thousand of a small graph, less of a large one.

    The error that sampling adds is about units / samples of what an additive function leaves, before it is shrunk.
    """
    entries = (int(graph.felt.sum()) if near.perturbs_edges else 0) + (graph.x.numel() if near.perturbs_features else 0)
    fewest = _FEWEST_OF_FEATURES if near.perturbs_features else _FEWEST
    count = int(np.clip(_ENTRIES // max(entries, 1), fewest, _MOST))
    samples = near.sample(graph, count, (seed + _STREAM) % (1 << 64))
    return samples, change_in_chunks(p, samples)


def change_in_chunks(p: DifferenceModel, samples: Perturbations) -> Tensor:
    """Return the changes of p at many samples, [S], a few at a time so that they fit in memory."""
    graph = samples.graph
    size = max(1, CHUNK_BYTES // (128 * (graph.num_edges + (0 if samples.features is None else graph.x.numel()))))
    return torch.cat([p.change(samples[start : start + size]) for start in range(0, len(samples), size)])


def effects(p: DifferenceModel, near: Neighborhood, graph: ComputationGraph) -> tuple[Tensor | None, Tensor | None]:
    """Return what p foretells for taking away each feature and each entry of A alone, divided by its size.

    So a score times the value that is taken away is the foretold change of F. Entries that move together are taken away
    together. What the neighbourhood leaves still has no effect here (None).
    """
    pilot = near.sample(graph, 2, 0)
    moves = Moves(graph, near, pilot)
    sizes, found = moves.sizes(), []
    held = 128 * (graph.num_edges + (graph.x.numel() if near.perturbs_features else 0))
    step = max(1, CHUNK_BYTES // held)
    for start in range(0, len(moves), step):
        stop = min(start + step, len(moves))
        single = torch.zeros(stop - start, len(moves), dtype=torch.float64)
        single[torch.arange(stop - start), torch.arange(start, stop)] = sizes[start:stop]
        found.append(p.change(moves.perturbations(single)))
    change = torch.cat(found) if found else sizes
    return moves.spread_out(torch.where(sizes != 0, change / torch.where(sizes != 0, sizes, 1.0), 0.0))
