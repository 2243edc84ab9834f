"""Readings of a difference model: what p knows of F, as one number for each edge or feature, and for pairs of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from .._base.errors import InputError, UnsupportedError, show
from ..graph.computation_graph import ComputationGraph
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations
from .additive import Additive, Draws, project
from .difference import AnchoredModel, DifferenceModel, LinearModel
from .estimate import Unfaithfulness, estimate_unfaithfulness
from .evidence import Evidence
from .fits import read_shares
from .frame import describe_graph
from .moves import Moves, OfX, spread_over_features
from .pairs import Paired, find_pairs

Reading = Literal["slope", "share", "effect"]
READINGS: tuple[Reading, ...] = get_args(Reading)

_MOST_EFFECTS = 4 * 10**9  # entries that p would be asked about, one unit after the other; this takes minutes
_MOST_ALONE = 2**25  # entries that p is asked about, one unit after the other, for a guess at the shares
_TRIFLE = 1e-5  # of F's change, in mean squares: pairs that explain less are not shown
_STREAM = 0x5EED0FA11  # Samples of p come from the stream of another seed than those of the fit and of the score.
SAMPLES = 1024  # of p, each of them with its mirror image if the neighbourhood is symmetric
SLOPES, _MOST_SLOPES = 64, 2**18  # samples at which the slope of p is taken, and entries in them at most
_RARE = 4  # times as many, where few of many edges are removed, so that few samples show the same edge
_FEWEST_OF_ALL = 64  # of features, which are many and where p is a polynomial, and of very large graphs
_ENTRIES, _MOST_ENTRIES = 2**17, 2**22  # perturbed entries in all samples: how many are enough, and how many too many
HELD = 3 * 2**19  # the most numbers in a table of moves, of which five are held at once
_AT_ONCE_IN_CORE = 2**23  # perturbed entries in all samples, up to which the core reads the shares
_AT_ONCE = 2**18  # perturbed entries that p is asked about at once


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


def read_model(
    p: DifferenceModel, near: Neighborhood, name: Reading, *, seed: int = 0, pairs: int = 10, of: OfX = "feature"
) -> ReadModel:
    """Return a reading of p in a neighbourhood.

    The scores of what the neighbourhood leaves still are the slope of p in every reading. ``of`` says whether features
    of X have scores, or whole nodes or columns. What was read before is kept with p, because scores, errors and
    estimates are asked for one after the other.
    """
    kept: dict[tuple[str, str, int, int, OfX], ReadModel] = vars(p).setdefault("_read", {})
    key = name, str(near), seed, pairs, of
    if key not in kept:
        kept[key] = _read_model(p, near, name, seed, pairs, of)
    return kept[key]


def _read_model(p: DifferenceModel, near: Neighborhood, name: Reading, seed: int, pairs: int, of: OfX) -> ReadModel:
    if near.perturbs_attributes:
        return _read_beside_attributes(p, near, name, seed, pairs, of)
    if name == "share":
        return _read_share(p, near, readings_of(p, near, seed=seed, pairs=pairs, of=of))
    x, a = p.gradient()
    if name == "effect":
        found = effects(p, near, graph_of(p), of)
        x, a = (old if new is None else new for old, new in zip((x, a), found, strict=True))
    return ReadModel((x, a), (None, None), estimate_scores(p, near, _as_shown(graph_of(p), x, of), a))


def _read_beside_attributes(
    p: DifferenceModel, near: Neighborhood, name: Reading, seed: int, pairs: int, of: OfX
) -> ReadModel:
    """Return a reading in a neighbourhood that moves edge attributes, whose scores are always the slope of p.

    Features and edges are read as in the factor that moves them, and their error bars are not known.
    """
    rest: Neighborhood | None = getattr(near, "rest", None)
    x, a = p.gradient() if rest is None else _read_model(p, rest, name, seed, pairs, of).scores
    return ReadModel((x, a), (None, None), estimate_scores(p, near, _as_shown(graph_of(p), x, of), a))


def estimate_scores(p: DifferenceModel, near: Neighborhood, phi_x: Tensor, phi_a: Tensor) -> Unfaithfulness | None:
    """Return the estimate of Delta(p) with that of scores, added up; None if p has not kept what it is made from."""
    (record, evidence), graph = _record_of(p, near), graph_of(p)
    if record is None or evidence is None:
        return record
    scores = LinearModel(graph, phi_x, phi_a, phi_e=getattr(p, "phi_e", None))
    chunks = evidence.chunks(graph, near, _chunk_size(near, graph))
    rest = torch.cat([scores.change(chunk) for chunk in chunks]) - evidence.fitted + evidence.left_out
    return replace(record, scores=estimate_unfaithfulness(rest, evidence.change, evidence.noise, near, evidence.seed))


def _as_shown(graph: ComputationGraph, phi_x: Tensor, of: OfX) -> Tensor:
    """Return scores of features as far as they are shown, if a picture has one score for each node or column."""
    if of == "feature":
        return phi_x
    seen = phi_x.double() * graph.x.double()
    seen[graph.num_visible :] = 0
    return spread_over_features(graph, seen.sum(dim=1 if of == "node" else 0, keepdim=True), of)


def _read_share(p: DifferenceModel, near: Neighborhood, readings: Readings) -> ReadModel:
    """Return the shares, with the estimates of what they leave, and of what scores and pairs leave."""
    additive = readings.additive
    found = additive.moves.spread_out(additive.scores)
    errors = (None, None) if additive.stderr is None else additive.moves.spread_out(additive.stderr)
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
    record, evidence = getattr(p, "estimate", None), evidence_of(p)
    if evidence is not None:
        fair = evidence.fair(near)
        evidence = fair if len(fair.change) else evidence
        evidence = evidence if evidence.neighborhood == str(near) and len(evidence.change) else None
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


def readings_of(
    p: DifferenceModel, near: Neighborhood, *, seed: int = 0, pairs: int = 10, of: OfX = "feature"
) -> Readings:
    """Return the additive function and the pairs closest to F's change in a neighbourhood; F is not asked.

    ``pairs`` is how many pairs there may be at most. What was found before is kept with p.
    """
    kept: dict[tuple[str, int, int, OfX], Readings] = vars(p).setdefault("_readings", {})
    key = str(near), seed, pairs, of
    if key not in kept:
        kept[key] = _find_readings(p, near, seed, pairs, of)
    return kept[key]


def _find_readings(p: DifferenceModel, near: Neighborhood, seed: int, pairs: int, of: OfX) -> Readings:
    graph, (_, evidence) = graph_of(p), _record_of(p, near)
    moves = Moves(graph, near, of)
    count = count_samples(near, _count_entries(near, graph), len(moves))
    read = _read_in_core(p, moves, count, seed, evidence)
    if read is not None:
        return _add_pairs(p, *read[:2], seed, pairs, read[2])
    guess, draws = _guess(p, moves, seed), draw_changes(p, moves, count, seed)
    seen = left = None
    if evidence is not None and len(evidence.change) * len(moves) <= HELD:
        seen, left = torch.cat(list(_moves_at(evidence, moves))), -evidence.left_out
    wary = isinstance(p, AnchoredModel) and p.kriging is not None
    additive = project(moves, draws, guess, seen, left, wary=wary) if count else Additive(moves, guess)
    return _add_pairs(p, additive, draws, seed, pairs if count else 0, seen)


def _read_in_core(
    p: DifferenceModel, moves: Moves, count: int, seed: int, evidence: Evidence | None
) -> tuple[Additive, Draws, Tensor | None] | None:
    """Return the shares and the samples that they were found in, by the compiled core; None if that does not have it.

    The last result are the moves of the units at the samples of the fit, unless they are too many to be held.
    It does where edges move, each by itself, for an anchored model of one node that knows its samples.
    """
    graph, near = moves.graph, moves.near
    fits = isinstance(p, AnchoredModel) and p.kriging is None and p.walks is None
    fits = fits and near.by_itself and not near.perturbs_features
    if not fits or evidence is None or not count or graph.num_edges * count > _AT_ONCE_IN_CORE:
        return None
    assert isinstance(p, AnchoredModel)
    described, moments = describe_graph(graph), moves.edge_moments
    if described is None or moments is None or not len(moves):
        return None
    mirrors, slopes = near.is_symmetric(graph), count_slopes(_count_entries(near, graph))
    slopes = 0 if slopes < 2 else slopes // 2 if mirrors else slopes
    tables = [np.zeros((graph.num_edges, 0))] * 2
    for i, (size, stream) in enumerate(((slopes, seed_of_slopes(seed)), (count, seed_of_draws(seed)))):
        eps = near.edges(graph, np.arange(size), stream) if size else None
        tables[i] = tables[i] if eps is None else np.ascontiguousarray(eps.T.numpy())
    samples = evidence.perturbations(graph, near)
    values = samples.weight_with_own.T.contiguous().numpy()
    found = read_shares(
        p, described, values, moves, moments, evidence, tables, np.array([[slopes, count, int(mirrors)]]), HELD
    )
    eps = torch.from_numpy(tables[1]).T
    changes = torch.from_numpy(found.changes[0])
    draws = Draws(moves.of(Perturbations(graph, None, eps)), changes[0], changes[1] if mirrors else None)
    seen = moves.of(samples) if len(evidence.change) * len(moves) <= HELD else None
    return found.additive(0, slice(0, graph.num_edges), moves), draws, seen


def keep_slope(
    p: DifferenceModel, rest: Tensor, near: Neighborhood, *, seed: int, pairs: int, of: OfX = "feature"
) -> None:
    """Keep the slope of p as a reading where only edges move; ``rest``, [S], is what it leaves of F's change."""
    record, evidence = _record_of(p, near)
    assert record is not None
    assert evidence is not None
    scores = estimate_unfaithfulness(rest, evidence.change, evidence.noise, near, evidence.seed)
    kept = vars(p).setdefault("_read", {})
    kept["slope", str(near), seed, pairs, of] = ReadModel(p.gradient(), (None, None), replace(record, scores=scores))


def keep_shares(
    p: DifferenceModel, additive: Additive, draws: Draws, *, seed: int, pairs: int, of: OfX = "feature"
) -> None:
    """Keep shares with p that were found already, in ``draws``, and find the pairs beside them."""
    kept = vars(p).setdefault("_readings", {})
    kept[str(additive.moves.near), seed, pairs, of] = _add_pairs(p, additive, draws, seed, pairs, None)


def _add_pairs(
    p: DifferenceModel, additive: Additive, draws: Draws, seed: int, pairs: int, seen: Tensor | None
) -> Readings:
    """Return shares and as many pairs as pay; ``seen`` are the moves at the samples of the fit, if they are known."""
    moves, near = additive.moves, additive.moves.near
    _, evidence = _record_of(p, near)
    functions = find_pairs(additive, draws, pairs)
    if evidence is None:
        # A pair has to pay at samples it was not found in.
        others, own, _ = draw_changes(p, moves, len(draws.change), seed + 1)
        # How far p is from F is not known, and neither is the error of its shares.
        additive = replace(additive, stderr=None, excess=math.inf)
        return Readings(additive, functions.with_pairs(_least(functions.of(others) - own, own)))
    if seen is None and len(evidence.change) * len(moves) <= HELD:
        seen = torch.cat(list(_moves_at(evidence, moves)))
    values = [functions.of(table) for table in (_moves_at(evidence, moves) if seen is None else [seen])]
    # What a function leaves of p, which knows the sample, and what p leaves of F when it does not know it.
    rests = torch.cat(values, dim=1) - evidence.fitted + evidence.left_out
    best = _least(rests, evidence.change)
    return Readings(additive, functions.with_pairs(best), (rests[0], rests[best]))


def _moves_at(evidence: Evidence, moves: Moves) -> Iterator[Tensor]:
    """Yield the moves of the units at the samples of a fit, some samples at a time, [S, u]."""
    for chunk in evidence.chunks(moves.graph, moves.near, _chunk_size(moves.near, moves.graph)):
        yield moves.of(chunk)


def _least(rests: Tensor, change: Tensor) -> int:
    """Return how many pairs pay: the fewest that leave as little as any number does, but for a trifle.

    ``rests``, [k + 1, S], is what each number of pairs leaves.
    """
    left = (rests * rests).sum(dim=1).tolist()
    return next(i for i, one in enumerate(left) if one <= min(left) + _TRIFLE * float(change @ change))


def _guess(p: DifferenceModel, moves: Moves, seed: int) -> Tensor:
    """Return a first guess at the scores, [u]: the slope of p, for an :class:`AnchoredModel` on average.

    Where few of many edges are removed, it is the effect of each edge alone.
    """
    near, graph = moves.near, moves.graph
    if not near.by_itself and len(moves) * _count_entries(near, graph) <= _MOST_ALONE:
        return _effects(p, moves)
    if not isinstance(p, AnchoredModel):
        return moves.gather(*p.gradient())
    mean = moves.perturbations(moves.mean.unsqueeze(0))
    mean_x, mean_a = (None if part is None else part[0].double() for part in (mean.features, mean.edges))
    weight, count = None, count_slopes(_count_entries(near, graph))
    if near.perturbs_edges and count > 1:
        # These samples are not those that the shares are found in, and not those of the fit.
        mirrors = near.is_symmetric(graph)
        samples = near.sample(graph, count // 2 if mirrors else count, seed_of_slopes(seed))
        weight = (moves.mirror(samples) if mirrors else samples).weight
    return moves.gather(*p.mean_gradient(mean_x, mean_a, weight))


def seed_of_slopes(seed: int) -> int:
    """Return the seed of the samples at which the slope of p is taken."""
    return (seed + _STREAM - 1) % (1 << 64)


def seed_of_draws(seed: int) -> int:
    """Return the seed of the samples in which shares and pairs are found."""
    return (seed + _STREAM) % (1 << 64)


def count_slopes(entries: int) -> int:
    """Return at how many samples the slope of p is taken, mirror images included; it is one graph if less than 2."""
    return min(SLOPES, _MOST_SLOPES // entries)


def count_samples(near: Neighborhood, entries: int, units: int) -> int:
    """Return how many samples to draw for p: a thousand of a small graph, fewer of a large one, and 0 of a huge one.

    ``entries`` is how many entries of A and X the neighbourhood may move.

    The error that sampling adds is about units / samples of what an additive function leaves, before it is shrunk. If
    there are too many units to hold a table of their moves, the slope of p is the best guess.
    """
    fewest = _FEWEST_OF_ALL if near.perturbs_features else SAMPLES
    rare = 1 if near.by_itself else _RARE
    count = min(max(rare * _ENTRIES // entries, fewest), rare * SAMPLES, max(_MOST_ENTRIES // entries, _FEWEST_OF_ALL))
    count = min(count, HELD // max(units, 1))
    return count if count >= _FEWEST_OF_ALL else 0


def reading_bytes(near: Neighborhood, graph: ComputationGraph) -> int:
    """Return about how much memory it takes to read shares and pairs off a p."""
    entries = _count_entries(near, graph)
    samples = count_samples(near, entries, entries)
    return 8 * (5 * samples * entries + 16 * min(samples, _chunk_size(near, graph)) * entries + 4 * entries)


def draw_changes(p: DifferenceModel, moves: Moves, count: int, seed: int) -> Draws:
    """Return the moves of the units in so many samples of a neighbourhood, and the changes of p there.

    In a symmetric neighbourhood p is also asked about their mirror images.
    """
    graph, near, own = moves.graph, moves.near, seed_of_draws(seed)
    mirrors = near.is_symmetric(graph)
    matrix = torch.empty(len(moves), count, dtype=torch.float64).T  # by units, of which pairs read a few
    changes = torch.empty(1 + mirrors, count, dtype=torch.float64)
    size = max(1, _chunk_size(near, graph) // len(changes))
    for start in range(0, count, size):
        chunk = near.sample(graph, min(size, count - start), own, start)
        matrix[start : start + size] = moves.of(chunk)
        samples = moves.mirror(chunk) if mirrors else chunk
        changes[:, start : start + size] = p.change(samples).view(len(changes), -1)
    return Draws(matrix, *changes)


def _count_entries(near: Neighborhood, graph: ComputationGraph) -> int:
    """Return how many entries of A and X a neighbourhood may move, at least 1."""
    edges = int(graph.felt.sum()) if near.perturbs_edges else 0
    return max(1, edges + (graph.x.numel() if near.perturbs_features else 0))


def _chunk_size(near: Neighborhood, graph: ComputationGraph) -> int:
    """Return how many samples are drawn at once."""
    return max(1, _AT_ONCE // _count_entries(near, graph))


def effects(
    p: DifferenceModel, near: Neighborhood, graph: ComputationGraph, of: OfX = "feature"
) -> tuple[Tensor | None, Tensor | None]:
    """Return what p foretells for taking away each feature and each entry of A alone, divided by its size.

    So a score times the value that is taken away is the foretold change of F. Entries that move together are taken away
    together. What the neighbourhood leaves still has no effect here (None).
    """
    moves = Moves(graph, near, of)
    entries = _count_entries(near, graph)
    if len(moves) * entries > _MOST_EFFECTS:
        raise UnsupportedError(
            f"the effects of {len(moves):,} edges or features would take p as many times on {entries:,} entries: ask "
            "what_if about some of them"
        )
    return moves.spread_out(_effects(p, moves))


def _effects(p: DifferenceModel, moves: Moves) -> Tensor:
    """Return what p foretells for taking away each unit alone, divided by its size, [u]."""
    step, sizes, found = _chunk_size(moves.near, moves.graph), moves.sizes(), []
    for start in range(0, len(moves), step):
        stop = min(start + step, len(moves))
        single = torch.zeros(stop - start, len(moves), dtype=torch.float64)
        single[torch.arange(stop - start), torch.arange(start, stop)] = sizes[start:stop]
        found.append(p.change(moves.perturbations(single)))
    change = torch.cat(found) if found else sizes
    return torch.where(sizes != 0, change / torch.where(sizes != 0, sizes, 1.0), 0.0)
