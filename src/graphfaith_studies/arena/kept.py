"""How much masks keep: what the p of a mask reads of the features that move, and what is left at an equal size.

The p of a mask or subgraph is F on the masked graph, X_s - eps_X and A_s - eps_A (Case II of the paper): the mask says
where p starts from, and every perturbation of what still reaches the prediction goes through the model. Beside the
masks of the arena stand rows that explain nothing: a mask that keeps everything, one of 1/2 everywhere, one that is
drawn, and one that keeps no feature. At an equal size each explanation moves its top entries alone. What a p may do
that runs the model, but reads no more than 18 numbers of the features, is a row too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphfaith._base.threads import one_thread
from graphfaith.data import HETEROPHILOUS_DATASETS, load_dataset
from graphfaith.explainers.anchored_kec import split_samples
from graphfaith.facade.subject import Subject, neighborhood_on, prepare
from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.judging.entrants import Entrant, Random, make_entrants
from graphfaith.judging.peers import PEERS
from graphfaith.judging.scene import Scene
from graphfaith.metric.attribution import Attribution
from graphfaith.metric.pooling import pool_widened
from graphfaith.metric.unfaithfulness import sample_chunks
from graphfaith.model.inference import find_task
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import Neighborhood
from graphfaith.sampling.perturbations import Perturbations
from graphfaith.sampling.restricted import order_scores, ties_of_edges, ties_of_features
from graphfaith.surrogate.difference import SubgraphModel
from graphfaith.surrogate.sensitivity import gradients_at, project

from ..paper.experiment import Experiment, Row, Size, Unit
from .arena import NODES, TEST_SAMPLES
from .contests import CONTESTS, Contest, contest_named, ground_of, refusal_of
from .kept_text import SIZES, SPAN, format_kept

# The masks that have the lowest or the second lowest Delta in some column of the arena where features move.
MASKS = ("gnnexplainer", "gnnexplainer-soft", "subgraphx", "pyg-gnnexplainer", "pyg-attention")
OWN = ("anchored-kec", "saliency")

BOUNDED = 100  # samples of these; Delta itself is measured on those of the arena
_MOST = 0.9  # of a mask's sum

Table = NDArray[np.float64]
Left = dict[Any, float]  # mean squares by the name of a method, or by name and size


class Kept(Experiment):
    """What masks keep where features move, and how far each explanation comes at the same size."""

    name = "kept"
    title = "How much masks keep"

    def check(self) -> None:
        """Load the data, so that what is missing is said before any work."""
        for dataset in HETEROPHILOUS_DATASETS:
            load_dataset(dataset)

    def units(self, size: Size) -> list[Unit]:
        """Return a unit for each training of the arena's contests on heterophilous graphs."""
        seeds = range(size.trainings if size.name == "full" else 1)
        return [Unit(c.dataset, seed, part=c.family, cost=10.0) for seed in seeds for c in _contests()]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Return, for each neighbourhood and method, what is kept and what is left at each prediction."""
        contest = contest_named(f"{unit.dataset} {unit.part}")
        ground = ground_of(contest, (unit.model_seed,), NODES if size.name == "full" else 1)
        data = prepare(ground.models[0], ground.data)
        task = find_task(ground.models[0], data, contest.level, contest.mode, None)
        subject = Subject(ground.models[0], data, task, together=ground.rows)
        nears = [neighborhood_on(data, near) for near in _moving(contest)]
        names = [name for name in (*OWN, *MASKS) if not refusal_of(name, contest)]
        entrants = [*make_entrants(names, PEERS), Random()]
        scene = Scene(subject, ground.rows, nears[0])
        samples = size.samples(TEST_SAMPLES), size.samples(BOUNDED)
        found: dict[str, list[Any]] = {str(near): [] for near in nears}
        for index in ground.rows:
            masks: dict[str, Attribution] = {}  # They do not depend on the neighbourhood.
            for near in nears:
                found[str(near)].append(_measure_at(scene.at(near), entrants, masks, index, samples))
        return found

    def make_rows(self, results: Mapping[Unit, Any], size: Size) -> list[Row]:
        """Return a row for each contest, neighbourhood and method, pooled over trainings and predictions."""
        rows: list[Row] = []
        for contest in _contests():
            trainings = [
                found
                for unit, found in sorted(results.items(), key=lambda item: item[0].model_seed)
                if (unit.dataset, unit.part) == (contest.dataset, contest.family)
            ]
            for near in _moving(contest) if trainings else ():
                cells = [training[near] for training in trainings]
                about = {"dataset": contest.dataset, "model": contest.family, "neighborhood": near, "size": size.name}
                rows += [{**about, "method": method, **_pooled(cells, method)} for method in cells[0][0]["methods"]]
        return rows

    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return the rows as tables."""
        return format_kept(rows)


def _contests() -> list[Contest]:
    return [contest for contest in CONTESTS if contest.dataset in HETEROPHILOUS_DATASETS]


def _moving(contest: Contest) -> list[str]:
    return [near for near in contest.neighborhoods if "X" in near]


class GradientSpan:
    """F(X - P eps_X, A - eps_A), with P the projection on the span of the gradients that AnchoredKEC asks for.

    It runs the model, as the p of a mask does, but sees no more of the features than 18 numbers. Nothing is fitted.
    """

    def __init__(self, target: Target, near: Neighborhood, num_samples: int = 200) -> None:
        self.target = target
        asked = near.numbered(target.computation_graph, split_samples(num_samples)[0], 0)
        _, of_x, _ = gradients_at(target, asked)
        _, sizes, directions = torch.linalg.svd(of_x.flatten(1).double(), full_matrices=False)
        self.directions = directions[sizes > 1e-6 * sizes[0]]

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return the change of F along the span for each sample, [S]."""
        eps = perturbations.features
        assert eps is not None
        within = project(eps.flatten(1), self.directions) @ self.directions.to(eps.dtype)
        return self.target.changes(Perturbations(perturbations.graph, within.view_as(eps), perturbations.edges))


@dataclass
class _Asked:
    """Sums of squares over samples of what a p, or F on a few entries, leaves of F's change."""

    total: float = 0.0
    count: int = 0

    def add(self, foretold: Tensor, changes: Tensor) -> None:
        self.total += float((foretold.double() - changes).square().sum())
        self.count += len(changes)

    @property
    def mean(self) -> float:
        return self.total / self.count


def _measure_at(
    scene: Scene,
    entrants: Sequence[Entrant],
    masks: dict[str, Attribution],
    index: int,
    samples: tuple[int, int],
) -> dict[str, Any]:
    """Return what the methods keep and leave at one prediction, in the neighbourhood of the scene."""
    target, near = scene.target(index), scene.near
    found: dict[str, Attribution] = {}
    for entrant in entrants:
        if entrant.name not in masks or entrant.is_fitted:
            masks[entrant.name] = entrant.explain(scene, index, 0)
        found[entrant.name] = masks[entrant.name]
    models: dict[str, Any] = {name: one.p or one.linear for name, one in found.items()}
    models |= {**sceptics_of(target, found["random"]), SPAN: GradientSpan(target, near)}
    tops = {(name, size): top_of(one, size) for name, one in found.items() for size in SIZES}
    with one_thread(target.call.is_small):
        zero, left, masked, bounded, own = _ask(target, near, models, tops, samples)
    methods: dict[str, dict[str, float]] = {}
    for name, p in models.items():
        methods[name] = {"delta": left[name]}
        if isinstance(p, SubgraphModel):
            methods[name] |= {"masked": masked[name], **kept_by(p)}
        if name in found:
            methods[name] |= {f"top {size:g}": bounded[name, size] for size in SIZES}
            methods[name] |= {f"p at {size:g}": own[name, size] for size in SIZES}
    return {"zero": zero[0], "bounded zero": zero[1], "methods": methods}


def _ask(
    target: Target,
    near: Neighborhood,
    models: Mapping[str, Any],
    tops: Mapping[tuple[str, float], tuple[Tensor, Tensor]],
    samples: tuple[int, int],
) -> tuple[tuple[float, float], Left, Left, Left, Left]:
    """Return what is left of F's changes, as mean squares.

    These are Delta(0) on all and on the first samples; Delta of each p, and of each mask that holds for perturbations
    too; and what F, and p, leave where the top entries alone move.
    """
    zero = _Asked(), _Asked()
    left, masked, bounded, own = ({key: _Asked() for key in keys} for keys in (models, models, tops, tops))
    done = 0
    for chunk in sample_chunks(target, near, samples[0], 1):
        changes, few = target.changes(chunk), max(0, min(len(chunk), samples[1] - done))
        done += len(chunk)
        zero[0].add(torch.zeros_like(changes), changes)
        for name, p in models.items():
            left[name].add(p.change(chunk), changes)
            if isinstance(p, SubgraphModel):
                masked[name].add(p.change(move_only(chunk, p.node_mask, p.edge_mask)), changes)
        if not few:
            continue
        first, of_first = chunk[:few], changes[:few]
        zero[1].add(torch.zeros_like(of_first), of_first)
        for key, top in tops.items():
            some = move_only(first, *top)
            bounded[key].add(target.changes(some), of_first)
            own[key].add(models[key[0]].change(some), of_first)
    means = [{key: one.mean for key, one in asked.items() if one.count} for asked in (left, masked, bounded, own)]
    return (zero[0].mean, zero[1].mean), means[0], means[1], means[2], means[3]


def sceptics_of(target: Target, drawn: Attribution) -> dict[str, SubgraphModel]:
    """Return masks that look at nothing: all, a half of each, a drawn half of the entries, and no feature at all."""
    graph = target.computation_graph
    x, edges = torch.ones_like(graph.x), torch.ones_like(graph.weight)
    given = _edges_of(graph)
    assert drawn.features is not None
    assert drawn.edges is not None
    some_x, some_edges = (drawn.features > 0).to(x.dtype), torch.where(given, (drawn.edges > 0).to(edges.dtype), edges)
    return {
        "everything": SubgraphModel(target, x, edges),
        "a half of each": SubgraphModel(target, x / 2, torch.where(given, edges / 2, edges)),
        "a drawn half": SubgraphModel(target, some_x, some_edges),
        "no feature": SubgraphModel(target, 0 * x, edges),
    }


def _edges_of(graph: ComputationGraph) -> Tensor:
    """Return which entries of A are edges that F reads, [e]; loops that layers add are in every explanation."""
    return (graph.edge_id >= 0) & graph.felt


def kept_by(p: SubgraphModel) -> dict[str, float]:
    """Return how much of the graph a mask keeps, and what its p reads of the features that move, as shares.

    ``edges`` and ``features`` are the mean of the mask over edges and over features; ``most edges`` and
    ``most features`` how many of them have nine tenths of the mask's sum. ``read`` is the share of the features from
    which there is a way to the prediction in A_s: p is F on these with all of their perturbations.
    """
    graph = p.graph
    given, seen = _edges_of(graph), graph.num_visible
    edges = torch.ones(graph.num_edges) if p.edge_mask is None else p.edge_mask
    features = torch.ones_like(graph.x) if p.node_mask is None else p.node_mask.expand_as(graph.x)
    reached = torch.zeros(graph.num_nodes, dtype=torch.bool)
    reached[graph.seeds] = True
    source, sink = graph.edge_index[:, p.weight > 0]
    for _ in range(p.target.num_hops):
        reached[source[reached[sink]]] = True
    of_edges, of_features = edges[given].double(), features[:seen].double().flatten()
    return {
        "edges": _mean(of_edges),
        "features": _mean(of_features),
        "most edges": _share_of_most(of_edges),
        "most features": _share_of_most(of_features),
        "read": _mean(reached[:seen].double()),
    }


def _mean(values: Tensor) -> float:
    return float(values.mean()) if len(values) else 1.0


def _share_of_most(mask: Tensor) -> float:
    """Return which share of a mask's entries, the largest first, has nine tenths of its sum; of none it is 0."""
    if not len(mask) or not float(mask.sum()):
        return 0.0
    sums = mask.sort(descending=True).values.cumsum(0)
    return (int((sums < (_MOST - 1e-9) * sums[-1]).sum()) + 1) / len(mask)


def top_of(one: Attribution, size: float) -> tuple[Tensor, Tensor]:
    """Return which features, [n, d], and entries of A, [e], an explanation of a given size moves.

    They are those of the largest \\|score\\|, in a drawn order where scores are equal. A method that scores no features
    has those of the explained node first, and then those of nodes by the largest score of an edge at them.
    """
    graph = one.graph
    given, scores = _edges_of(graph), torch.zeros(graph.num_edges, dtype=torch.float64)
    if one.edges is not None:
        scores = one.edges.abs() * given
    features = one.features
    if features is None:
        of_nodes = torch.zeros(graph.num_nodes, dtype=torch.float64)
        for ends in graph.edge_index:
            of_nodes.scatter_reduce_(0, ends, scores, "amax")
        of_nodes[graph.seeds] = math.inf
        features = of_nodes.unsqueeze(1)
    entries = _first(scores, given, ties_of_edges(graph), size) | ~given
    seen = torch.zeros_like(graph.x, dtype=torch.bool)
    seen[: graph.num_visible] = True
    flat = features.expand(graph.x.shape).flatten()
    return _first(flat, seen.flatten(), ties_of_features(graph), size).view_as(seen), entries


def _first(scores: Tensor, among: Tensor, ties: NDArray[np.uint64], size: float) -> Tensor:
    """Return the first of the entries ``among`` all by \\|score\\|: a share of them, but at least one."""
    places, chosen = among.nonzero().view(-1), torch.zeros_like(among)
    order = order_scores(scores[places], "magnitude", ties[places.numpy()])
    chosen[places[order[: max(1, round(size * len(places)))]]] = True
    return chosen


def move_only(chunk: Perturbations, features: Tensor | None, entries: Tensor | None) -> Perturbations:
    """Return samples in which features and entries of A move by so much of what they did; None is by all of it."""
    x, a = chunk.features, chunk.edges
    x = x if x is None or features is None else x * features.to(x.dtype)
    return Perturbations(chunk.graph, x, a if a is None or entries is None else a * entries.to(a.dtype))


def _pooled(trainings: Sequence[Sequence[Mapping[str, Any]]], method: str) -> dict[str, Any]:
    """Return a method's numbers over trainings and predictions; what is left is a share of F's change."""
    whole, few = (_table(trainings, lambda one, key=key: one[key]) for key in ("zero", "bounded zero"))
    found: dict[str, Any] = {}
    for key in trainings[0][0]["methods"][method]:
        table = _table(trainings, lambda one, key=key: one["methods"][method][key])
        if key == "delta":
            found |= {"delta": _short(float(table.mean())), "share": _ratio(table, whole)}
        elif key == "masked":
            found["masked"] = _ratio(table, whole)
        elif key.startswith(("top", "p at")):
            found[key] = _ratio(table, few)
        else:
            found[key] = _short(float(table.mean()))
    return found


def _table(trainings: Sequence[Sequence[Mapping[str, Any]]], read: Any) -> Table:
    return np.array([[read(one) for one in training] for training in trainings], dtype=np.float64)


def _ratio(above: Table, below: Table) -> list[float | None]:
    """Return the ratio of two means, and its error, linearised."""
    scale = float(below.mean())
    ratio = float(above.mean()) / scale
    _, error = pool_widened((above - ratio * below) / scale)
    return [_short(ratio), None if error is None else _short(error)]


def _short(value: float) -> float:
    return float(f"{value:.4g}")
