"""Readings of a difference model: what p knows of F, as one number for each edge or feature, and for pairs of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from .._base.errors import InputError, show
from .._base.memory import CHUNK_BYTES
from ..graph.computation_graph import ComputationGraph
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations
from .additive import Additive, project
from .difference import AnchoredModel, DifferenceModel, LinearModel
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

    ``paired`` has as many pairs as lower the error at F's own samples, each of which was left out of the fit of p; if p
    has not kept these, at samples of p that the pairs were not found in.
    """

    additive: Additive
    paired: Paired
    rests: tuple[Tensor, Tensor] | None = None  # [S] what both leave of F at the samples of the fit, if these are known


class ReadModel(NamedTuple):
    """One reading of p: its scores, their standard errors as far as known, and the estimate of Delta with theirs."""

    scores: tuple[Tensor, Tensor]  # of features, [n, d], and of entries of A, [e]
    errors: tuple[Tensor | None, Tensor | None]
    estimate: Unfaithfulness | None


def check_reading(name: str) -> Reading:
    """Return the name of a reading; raise an :class:`InputError` if there is none of that name."""
    if name not in READINGS:
        raise InputError(f"reading must be one of {', '.join(READINGS)} (got {show(name)})")
    return name


def read_model(p: DifferenceModel, near: Neighborhood, name: Reading, *, seed: int = 0, pairs: int = 10) -> ReadModel:
    """Return a reading of p in a neighbourhood.

    The scores of what the neighbourhood leaves still are the slope of p in every reading. What was read before is kept
    with p, because scores, errors and estimates are asked for one after the other.
    """
    kept: dict[tuple[str, str, int, int], ReadModel] = vars(p).setdefault("_read", {})
    key = name, str(near), seed, pairs
    if key not in kept:
        kept[key] = _read_model(p, near, name, seed, pairs)
    return kept[key]


def _read_model(p: DifferenceModel, near: Neighborhood, name: Reading, seed: int, pairs: int) -> ReadModel:
    if name == "share":
        return _read_share(p, near, readings_of(p, near, seed=seed, pairs=pairs))
    x, a = p.gradient()
    if name == "effect":
        x, a = (old if new is None else new for old, new in zip((x, a), effects(p, near, graph_of(p)), strict=True))
    record, evidence = _record_of(p, near)
    if record is not None and evidence is not None:
        there = evidence.perturbations(graph_of(p), near)
        rest = LinearModel(graph_of(p), x, a).change(there) - evidence.fitted + evidence.left_out
        shown = estimate_unfaithfulness(rest, evidence.change, evidence.noise, near, evidence.seed)
        record = replace(record, scores=shown)
    return ReadModel((x, a), (None, None), record)


def _read_share(p: DifferenceModel, near: Neighborhood, readings: Readings) -> ReadModel:
    """Return the shares, with the estimates of what they leave, and of what scores and pairs leave."""
    additive = readings.additive
    found, errors = (additive.moves.spread_out(part) for part in (additive.scores, additive.stderr))
    x, a = (old if new is None else new for old, new in zip(p.gradient(), found, strict=True))
    record, evidence = _record_of(p, near)
    if record is not None and evidence is not None and readings.rests is not None:
        share, paired = (
            estimate_unfaithfulness(rest, evidence.change, evidence.noise, near, evidence.seed)
            for rest in readings.rests
        )
        record = add_readings(record, readings, share, paired, share)
    return ReadModel((x, a), errors, record)


def _record_of(p: DifferenceModel, near: Neighborhood) -> tuple[Unfaithfulness | None, Evidence | None]:
    """Return the estimate of Delta(p) and the samples it was made from, as far as p has them."""
    record, evidence = getattr(p, "estimate", None), _fair_evidence(p, near)
    if evidence is not None and (evidence.neighborhood != str(near) or not evidence.change.numel()):
        evidence = None
    return record if isinstance(record, Unfaithfulness) else None, evidence


def add_readings(
    record: Unfaithfulness,
    readings: Readings,
    shown: Unfaithfulness,
    paired: Unfaithfulness,
    share: Unfaithfulness,
) -> Unfaithfulness:
    """Return the record of p with those of the scores that are shown and of the pairs, and with a floor.

    The floor is the share of F's change that every additive function leaves: that of the shares, less their error. It
    is not known (None) if that error is most of what the shares leave.
    """
    excess = readings.additive.excess / share.delta_zero if share.delta_zero else math.inf
    floor = share.relative - excess if 2 * excess <= share.relative else None
    count = len(readings.paired)
    return replace(record, scores=shown, pairs=paired if count else None, num_pairs=count, floor=floor)


def graph_of(p: DifferenceModel) -> ComputationGraph:
    """Return the computation graph of p."""
    graph: ComputationGraph = p.graph  # type: ignore[attr-defined]
    return graph


def evidence_of(p: DifferenceModel) -> Evidence | None:
    """Return what the fit of p has seen of F, if it has kept that."""
    evidence = getattr(p, "evidence", None)
    return evidence if isinstance(evidence, Evidence) else None


def _fair_evidence(p: DifferenceModel, near: Neighborhood) -> Evidence | None:
    """Return what the fit of p has seen of F at samples that are drawn as in the neighbourhood."""
    evidence = evidence_of(p)
    return None if evidence is None else evidence.fair(near)


def readings_of(p: DifferenceModel, near: Neighborhood, *, seed: int = 0, pairs: int = 10) -> Readings:
    """Return the additive function and the pairs closest to F's change in a neighbourhood; F is not asked.

    ``pairs`` is how many pairs there may be at most. What was found before is kept with p.
    """
    kept: dict[tuple[str, int, int], Readings] = vars(p).setdefault("_readings", {})
    key = str(near), seed, pairs
    if key not in kept:
        kept[key] = _find_readings(p, near, seed, pairs)
    return kept[key]


def _find_readings(p: DifferenceModel, near: Neighborhood, seed: int, pairs: int) -> Readings:
    graph, evidence = graph_of(p), _fair_evidence(p, near)
    samples, change = draw_changes(p, near, graph, seed)
    moves = Moves(graph, near, samples)
    matrix = moves.of(samples)
    guess = moves.gather(*_guess(p, moves))
    if evidence is None or str(near) != evidence.neighborhood:
        additive = project(moves, matrix, change, guess)
        functions = find_pairs(additive, matrix, change, pairs)
        others, own = draw_changes(p, near, graph, seed + 1)  # A pair has to pay at samples it was not found in.
        seen = moves.of(others)
        return Readings(additive, functions[_least([function.of(seen) - own for function in functions])])
    seen = moves.of(evidence.perturbations(graph, near))
    additive = project(moves, matrix, change, guess, seen, -evidence.left_out)
    functions = find_pairs(additive, matrix, change, pairs)
    # What a function leaves of p, which knows the sample, and what p leaves of F when it does not know it.
    rests = [function.of(seen) - evidence.fitted + evidence.left_out for function in functions]
    best = _least(rests)
    return Readings(additive, functions[best], (rests[0], rests[best]))


def _least(rests: Sequence[Tensor]) -> int:
    """Return the place of the smallest of several vectors; of equal ones the first, which has the fewest pairs."""
    return min(range(len(rests)), key=lambda i: float(rests[i] @ rests[i]))


def _guess(p: DifferenceModel, moves: Moves) -> tuple[Tensor, Tensor]:
    """Return a first guess at the scores: the slope of p, for an :class:`AnchoredModel` at the mean perturbation."""
    if isinstance(p, AnchoredModel):
        return p.mean_gradient(*moves.spread_out(moves.mean))
    return p.gradient()


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
