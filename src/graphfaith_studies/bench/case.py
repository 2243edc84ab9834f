"""A model, its graph and the nodes to explain: what contenders are timed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, Explanation

from graphfaith.compare import MODEL_CONFIG
from graphfaith.data.models import CitationGCN, train, trained
from graphfaith.explainers.many import explain_nodes
from graphfaith.model.target import Target

from .lattice import CLASSES, lattice

MILLION, TEN_THOUSAND = 10**6, 10**4
_NODES = {"ba-shapes": range(400, 700, 6), "cora": range(0, 1000, 20), "citeseer": range(0, 1000, 20)}


@dataclass
class Case:
    """A model on a graph. With ``labels``, the class of every node, explanations are of type "phenomenon".

    PyG's type "model" runs the model on the whole graph by itself for every explanation, which says nothing of an
    explainer; for the large graph the classes are therefore given.
    """

    name: str
    model: torch.nn.Module
    data: Data
    nodes: Sequence[int]
    labels: Tensor | None = None
    _parts: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def explainer(self, algorithm: Any) -> Explainer:
        """PyG's Explainer with an algorithm, which scores every edge and every feature."""
        return Explainer(
            self.model,
            algorithm=algorithm,
            explanation_type="model" if self.labels is None else "phenomenon",
            node_mask_type="attributes",
            edge_mask_type="object",
            model_config=MODEL_CONFIG,
        )

    def explanations(
        self, algorithm: Any, nodes: Sequence[int] | None, *, together: bool | None = False
    ) -> Iterator[Explanation]:
        """Explanations of nodes of the whole graph (None is all), one by one unless ``together`` says otherwise."""
        data, explainer = self.data, self.explainer(algorithm)
        return explain_nodes(
            explainer, data.x, data.edge_index, nodes, target=self.labels, progress=False, together=together
        )

    def target(self, node: int) -> Target:
        """F at a node."""
        label = None if self.labels is None else int(self.labels[node])
        return Target(self.model, self.data.x, self.data.edge_index, node, label)

    def part(self, node: int) -> tuple[Tensor, Tensor]:
        """Features and edges of a node's computation graph, in which it is node 0; made once."""
        if node not in self._parts:
            graph = self.target(node).computation_graph
            self._parts[node] = (graph.x, graph.edge_index)
        return self._parts[node]


def loaded(name: str, count: int) -> Case:
    """The paper's model and data set of that name, with ``count`` of its nodes."""
    fit = trained(name)
    return Case(name, fit.model, fit.data, spread(_NODES[name], count))


def generated(num_nodes: int, nodes: Sequence[int], model: torch.nn.Module | None = None) -> Case:
    """A lattice of that size, with the classes given; ``model`` is made but not trained if None."""
    data = lattice(num_nodes)
    if model is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = CitationGCN(data.num_features, CLASSES).eval()
    return Case(f"lattice-{num_nodes}", model, data, nodes, data.y)


def lattice_model() -> torch.nn.Module:
    """The two-layer GCN, trained on a lattice of ten thousand nodes, for lattices of any size."""
    case = generated(TEN_THOUSAND, [])
    train(case.model, case.data, epochs=30)
    return case.model


def spread(items: Sequence[int], count: int) -> list[int]:
    """At most ``count`` of ``items``, evenly spaced.

    >>> spread(range(0, 100, 10), 3)
    [0, 30, 60]
    """
    count = min(count, len(items))
    return [items[place * len(items) // count] for place in range(count)]
