"""Samples of perturbations (eps_X, eps_A), and the perturbed graphs (X - eps_X, A - eps_A) that they make."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..graph.computation_graph import ComputationGraph


@dataclass(frozen=True)
class Perturbations:
    """S samples of (eps_X, eps_A, eps_E) on a computation graph; None stands for a part that is not perturbed.

    >>> from graphfaith.graph import Graph
    >>> x, edge_index = torch.ones(2, 1), torch.tensor([[1], [0]])
    >>> part = ComputationGraph.around(Graph.of(x, edge_index), 0, num_hops=1)
    >>> samples = Perturbations(part, None, torch.full((5, part.num_edges), 0.25, dtype=torch.float64))
    >>> len(samples), samples.x, samples.weight[0].tolist()
    (5, None, [0.75, 0.75, 0.75])
    """

    graph: ComputationGraph
    features: Tensor | None  # [S, n, d]
    edges: Tensor | None  # [S, e], in double precision
    attributes: Tensor | None = None  # [S, e, c], of edges

    def __len__(self) -> int:
        """Return how many samples there are."""
        part = self.edges if self.edges is not None else self.features
        part = part if part is not None else self.attributes
        return 0 if part is None else len(part)

    def __getitem__(self, samples: slice | Tensor) -> Perturbations:
        """Return some of the samples."""
        features = None if self.features is None else self.features[samples]
        edges = None if self.edges is None else self.edges[samples]
        return Perturbations(self.graph, features, edges, None if self.attributes is None else self.attributes[samples])

    def copy(self) -> Perturbations:
        """Return samples with memory of their own: a slice keeps all samples that it was taken from."""
        features = None if self.features is None else self.features.clone()
        return Perturbations(self.graph, features, None if self.edges is None else self.edges.clone())

    def remember(self, weight_with_own: Tensor) -> None:
        """Take over A and then A - eps_A, [1 + S, e], which the draw has computed already."""
        vars(self)["weight_with_own"] = weight_with_own

    @property
    def x(self) -> Tensor | None:
        """X - eps_X, [S, n, d]; None if the features are not perturbed."""
        return None if self.features is None else self.graph.x - self.features

    @property
    def weight(self) -> Tensor | None:
        """A - eps_A, [S, e], in double precision; None if the edges are not perturbed."""
        return None if self.edges is None else self.graph.weight.double() - self.edges

    @property
    def attributes_with_own(self) -> Tensor | None:
        """E and then E - eps_E, [1 + S, e, c]; None if the edge attributes are not perturbed."""
        if self.attributes is None:
            return None
        own = self.graph.attributes
        assert own is not None
        return torch.cat([own.unsqueeze(0), own - self.attributes])

    @cached_property
    def x_with_own(self) -> Tensor | None:
        """X and then X - eps_X, [1 + S, n, d]; None if the features are not perturbed."""
        if self.features is None:
            return None
        both = torch.empty(len(self) + 1, *self.graph.x.shape, dtype=self.graph.x.dtype)
        both[0] = self.graph.x
        torch.sub(self.graph.x, self.features, out=both[1:])
        return both

    @cached_property
    def weight_with_own(self) -> Tensor:
        """A and then A - eps_A, [1 + S, e], in double precision; A alone, [1, e], if the edges are not perturbed.

        In memory the values of one entry of A in all samples are neighbours, because entries are gathered by rows.
        """
        own, eps = self.graph.weight.double(), self.edges
        both = torch.empty(len(own), 1 if eps is None else len(eps) + 1, dtype=own.dtype)
        both[:, 0] = own
        if eps is not None:
            torch.sub(own.unsqueeze(1), eps.T, out=both[:, 1:])
        return both.T
