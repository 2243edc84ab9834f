"""What the tests of readings share: difference models that are known in closed form, and small undirected graphs."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from graphfaith.graph import Graph
from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.sampling.perturbations import Perturbations

HOUSE = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)]  # a triangle with a tail


def both_ways(pairs) -> Tensor:
    there = torch.tensor(pairs).T
    return torch.cat([there, there.flip(0)], dim=1)


def part_of(
    x: Tensor, edge_index: Tensor, node: int = 0, num_hops: int = 2, edge_weight: Tensor | None = None
) -> ComputationGraph:
    """The computation graph of a node; x and edge_index live until it is made."""
    return ComputationGraph.around(Graph.of(x, edge_index, edge_weight), node, num_hops=num_hops)


class Polynomial:
    """p whose change is sum phi_u eps_u + sum psi_uw eps_u eps_w over entries of A, with what else a test adds."""

    def __init__(self, graph: ComputationGraph, phi: Tensor, products=(), offset: float = 0.0) -> None:
        self.graph, self.phi, self.products, self.offset = graph, phi, list(products), offset

    def change(self, perturbations: Perturbations) -> Tensor:
        eps = perturbations.edges
        change = eps @ self.phi + self.offset * (eps != 0).any(dim=1)
        for u, w, psi in self.products:
            change = change + psi * eps[:, u] * eps[:, w]
        return change

    def gradient(self) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(self.graph.x), self.phi.clone()


def every_removal(graph: ComputationGraph, unit: Tensor) -> Perturbations:
    """All subsets of the units of A, each of which is removed or there, [2^u samples]."""
    count = int(unit.max()) + 1
    gone = torch.tensor(list(product((0.0, 1.0), repeat=count)), dtype=torch.float64)
    padded = torch.cat([gone, torch.zeros(len(gone), 1, dtype=torch.float64)], dim=1)
    return Perturbations(graph, None, padded[:, unit] * graph.weight.double())


def closest(matrix: Tensor, change: Tensor, weight: Tensor | None = None) -> Tensor:
    """The additive function through the origin that is closest to ``change``, by plain least squares."""
    root = torch.ones(len(matrix), dtype=torch.float64) if weight is None else weight.sqrt()
    return torch.linalg.lstsq(matrix * root[:, None], change * root, driver="gelsd").solution
