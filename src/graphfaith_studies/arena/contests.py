"""The contests of the arena: a data set, a family of models, the predictions to explain, and the truth, if any."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.utils import k_hop_subgraph

from graphfaith._base.selection import parse_nodes
from graphfaith.cli.score import PAPER_NODES
from graphfaith.data import HETEROPHILOUS_DATASETS, ba_2motifs, crippen, load_dataset
from graphfaith.data.models import accuracy_on_test, load_trained
from graphfaith.metric.truth import Truth

from ..showcase.motifs import train_motif_classifier
from .molecules import effects_of_atoms, explained_variance, train_molecule_net
from .networks import FAMILIES, train_network

MOST_NODES = 120  # within three hops of a node of the heterophilous graphs; a hub has thousands of features to move
CONSTANT = ("U(A,0.2)", "U(A,0.5)", "B(A,0.2)", "B(A,0.5)")
MOVING = ("U(A,0.5)", "B(A,0.5)", "U(X,0.2r)", "U(X,0.5r)xU(A,0.5)")
# Atoms are told apart by one feature each, which is there or not.
OF_ATOMS = ("B(X,0.5)", "U(A,0.5)", "B(A,0.5)", "B(X,0.5)xB(A,0.5)")


@dataclass(frozen=True)
class Contest:
    """What explainers are judged on: a data set and a family of models."""

    dataset: str
    family: str
    neighborhoods: tuple[str, ...] = MOVING
    level: str = "node"
    mode: str | None = None

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"{self.dataset} {self.family}"

    @property
    def moves_features(self) -> bool:
        """Whether features move in any neighbourhood; those of trees and motifs are all equal."""
        return any("X" in near for near in self.neighborhoods)


@dataclass(frozen=True, eq=False)
class Ground:
    """A contest made ready: trained models, the graph, the rows to explain, and what is known of them.

    ``truth`` is what the data says, and ``own`` what each model itself loses without each atom. ``quality`` is the test
    accuracy of each model, or R^2 of a regression.
    """

    models: tuple[nn.Module, ...]
    data: Data
    rows: tuple[int, ...]
    quality: tuple[float, ...]
    truth: Truth | None = None
    own: tuple[Truth, ...] = field(default=())


CONTESTS: tuple[Contest, ...] = (
    Contest("tree-cycles", "GCN", CONSTANT),
    Contest("tree-grid", "GCN", CONSTANT),
    Contest("ba-2motifs", "GraphConv", CONSTANT, "graph"),
    Contest("crippen", "GINE", OF_ATOMS, "graph", "regression"),
    # Small graphs come first, so that a run that is stopped has many contests.
    *(Contest(dataset, family) for dataset in reversed(HETEROPHILOUS_DATASETS[:3]) for family in FAMILIES),
    *(Contest(dataset, family) for dataset in reversed(HETEROPHILOUS_DATASETS[3:]) for family in FAMILIES),
)


def contest_named(name: str) -> Contest:
    """Return the contest of a name."""
    return next(contest for contest in CONTESTS if contest.name == name)


def refusal_of(method: str, contest: Contest) -> str:
    """Return why a method cannot be asked in a contest; an empty text if it can."""
    if method == "pyg-attention" and contest.family != "GAT":
        return "the model has no attention that PyG's AttentionExplainer reads"
    if method == "pyg-graphmask" and contest.family == "GINE":
        return "PyG's GraphMaskExplainer needs layers that know the number of their channels, which GINEConv does not"
    if method == "subgraphx" and contest.level != "node":
        return "SubgraphX here explains nodes alone"
    return ""


@dataclass(frozen=True, eq=False)
class Trained:
    """A model of a contest, trained with one seed, and its test accuracy, or R^2 of a regression."""

    model: nn.Module
    quality: float


@lru_cache(maxsize=64)  # all of a run: they are small, and each has several units of work
def train_model(contest: Contest, seed: int) -> Trained:
    """Train the model of a contest, by the recipe of all contests of its kind."""
    if contest.dataset == "crippen":
        parts = crippen()
        model: nn.Module = train_molecule_net(parts.train, seed=seed)
        return Trained(model, explained_variance(model, parts.test))
    if contest.dataset == "ba-2motifs":
        motifs = train_motif_classifier(ba_2motifs(400), seed=seed)
        return Trained(motifs.model, motifs.test_accuracy)
    if contest.dataset not in HETEROPHILOUS_DATASETS:
        fit = load_trained(contest.dataset, seed=seed)
        return Trained(fit.model, fit.test_accuracy)
    data = load_dataset(contest.dataset)
    model, _ = train_network(contest.family, data, seed)
    return Trained(model, accuracy_on_test(model, data))


def ground_of(contest: Contest, seeds: tuple[int, ...], count: int) -> Ground:
    """Return the models of a contest, trained with these seeds, and ``count`` predictions at even distances."""
    fits = [train_model(contest, seed) for seed in seeds]
    models, quality = tuple(fit.model for fit in fits), tuple(fit.quality for fit in fits)
    if contest.dataset == "crippen":
        return _molecules(models, quality, count)
    if contest.dataset == "ba-2motifs":
        # Each training has a split of its own, so that the graphs to explain are new ones.
        batch = Batch.from_data_list(ba_2motifs(count, seed=1))
        return Ground(models, batch, tuple(range(count)), quality, Truth(edges=batch.motif_edge))
    data = load_dataset(contest.dataset)
    if contest.dataset in HETEROPHILOUS_DATASETS:
        return Ground(models, data, spread(_nodes_in_reach(data, 40 * count), count), quality)
    nodes = spread(list(parse_nodes(PAPER_NODES[contest.dataset])), count)
    return Ground(models, data, nodes, quality, Truth(edges=data.edge_label))


@lru_cache
def baseline_of(contest: Contest) -> tuple[float, float]:
    """Return the quality of a model that has learnt nothing, and the error of a test accuracy of that size.

    It is the share of the largest class among test nodes, or of either class of BA-2Motifs; R^2 of the mean is 0.
    """
    if contest.dataset == "crippen":
        return 0.0, 0.0
    if contest.dataset == "ba-2motifs":
        return 0.5, math.sqrt(0.25 / 40)
    data = load_dataset(contest.dataset)
    counts = data.y[data.test_mask].bincount()
    share, total = float(counts.max() / counts.sum()), int(counts.sum())
    return share, math.sqrt(share * (1 - share) / total)


def _nodes_in_reach(data: Data, most: int) -> list[int]:
    """Return the test nodes with few others within three hops, the first ``most`` of them."""
    found: list[int] = []
    for node in data.test_mask.nonzero().view(-1).tolist():
        if len(k_hop_subgraph(node, 3, data.edge_index, num_nodes=data.num_nodes)[0]) <= MOST_NODES:
            found.append(node)
        if len(found) == most:
            break
    return found


def spread(values: Sequence[int], count: int) -> tuple[int, ...]:
    """Return ``count`` of the values at even distances, or all of them if there are fewer.

    >>> spread(range(10), 4)
    (0, 3, 6, 9)
    """
    places = np.linspace(0, len(values) - 1, min(count, len(values))).round().astype(int)
    return tuple(int(values[place]) for place in places)


def _molecules(models: tuple[nn.Module, ...], quality: tuple[float, ...], count: int) -> Ground:
    test = crippen().test
    chosen = [test[place] for place in spread(range(len(test)), count)]
    batch = Batch.from_data_list(chosen)
    own = tuple(Truth(nodes=torch.cat([effects_of_atoms(model, one) for one in chosen])) for model in models)
    data = Data(x=batch.x, edge_index=batch.edge_index, edge_attr=batch.edge_attr, batch=batch.batch)
    return Ground(models, data, tuple(range(count)), quality, Truth(nodes=batch.atom_truth), own)
