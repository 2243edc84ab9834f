"""A model, its graph and the nodes to explain: what contenders are timed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import Explanation

from graphfaith.data.models import CitationGCN, load_trained, train
from graphfaith.explainers import explain_all, explain_nodes
from graphfaith.explainers.records import Records
from graphfaith.facade import Subject

from .copies import linked_copies
from .lattice import CLASSES, lattice

MILLION, TEN_THOUSAND = 10**6, 10**4
_NODES = {"ba-shapes": range(400, 700, 6), "cora": range(0, 1000, 20), "citeseer": range(0, 1000, 20)}


@dataclass(frozen=True, eq=False)
class Case(Subject):
    """A model on a graph, and some of its nodes. With ``labels`` explanations are of type "phenomenon".

    For explanations of type "model" PyG runs the model on the whole graph for every node, which says nothing of an
    explainer. Therefore the labels of the large graph are given.
    """

    name: str = ""
    nodes: Sequence[int] = ()
    _parts: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def explanations(
        self, algorithm: Any, nodes: Sequence[int] | None, *, together: bool | None = False
    ) -> Iterator[Explanation]:
        """Explain nodes of the whole graph (None is all), one by one unless ``together`` says otherwise."""
        data, explainer = self.data, self.explainer_with(algorithm)
        return explain_nodes(
            explainer, data.x, data.edge_index, nodes, target=self.labels, progress=False, together=together
        )

    def records(self, algorithm: Any, nodes: Sequence[int] | None = None) -> Records:
        """Explain nodes of the whole graph (None is all) and return their scores as arrays."""
        data, explainer = self.data, self.explainer_with(algorithm)
        return explain_all(explainer, data.x, data.edge_index, nodes, target=self.labels, progress=False)

    def part(self, node: int) -> tuple[Tensor, Tensor]:
        """Return features and edges of a node's computation graph, in which it is node 0; they are found once."""
        if node not in self._parts:
            graph = self.target(node).computation_graph
            self._parts[node] = (graph.x, graph.edge_index)
        return self._parts[node]


def load_case(name: str, count: int) -> Case:
    """Return the paper's model and data set of that name, with ``count`` of its nodes."""
    fit = load_trained(name)
    return Case(fit.model, fit.data, name=name, nodes=spread(_NODES[name], count))


def generate_case(num_nodes: int, nodes: Sequence[int], model: torch.nn.Module | None = None) -> Case:
    """Return a lattice of that size, with the labels given; ``model`` is made but not trained if None."""
    data = lattice(num_nodes)
    if model is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = CitationGCN(data.num_features, CLASSES).eval()
    return Case(model, data, labels=data.y, name=f"lattice-{num_nodes}", nodes=nodes)


def copy_case(case: Case, num_nodes: int) -> Case:
    """Return linked copies of a graph, about ``num_nodes`` nodes in all, with the same model and no nodes chosen."""
    count = max(1, round(num_nodes / int(case.data.num_nodes)))
    return Case(case.model, linked_copies(case.data, count), name=f"{case.name}-{count}-times")


def train_lattice_model() -> torch.nn.Module:
    """Train the two-layer GCN on a lattice of ten thousand nodes, for lattices of any size."""
    case = generate_case(TEN_THOUSAND, [])
    train(case.model, case.data, epochs=30)
    return case.model


def spread(items: Sequence[int], count: int) -> list[int]:
    """Return at most ``count`` of ``items``, evenly spaced.

    >>> spread(range(0, 100, 10), 3)
    [0, 30, 60]
    """
    count = min(count, len(items))
    return [items[place * len(items) // count] for place in range(count)]
