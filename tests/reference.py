"""The paper's definitions in their plainest form, for comparison with graphfaith: explicit powers of a dense A,
one forward pass of the whole graph a sample, and numpy's pseudo-inverse. Nothing here is imported from the library
but the draws themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.nn import GCNConv


class TwoLayerGCN(torch.nn.Module):
    def __init__(self, features: int, classes: int = 3, layers: int = 2, hidden: int = 5) -> None:
        super().__init__()
        sizes = [features, *[hidden] * (layers - 1), classes]
        self.convs = torch.nn.ModuleList(GCNConv(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        for conv in self.convs[:-1]:
            x = torch.tanh(conv(x, edge_index, edge_weight))
        return self.convs[-1](x, edge_index, edge_weight)


@dataclass
class Case:
    model: torch.nn.Module
    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None
    node: int
    label: int
    layers: int

    @property
    def kwargs(self) -> dict[str, Tensor]:
        return {} if self.edge_weight is None else {"edge_weight": self.edge_weight}


def make_case(
    seed: int = 0,
    nodes: int = 8,
    edges: int = 20,
    features: int = 4,
    layers: int = 2,
    weighted: bool = True,
    loops: bool = True,
    isolated: bool = False,
    zeros: bool = False,
    dtype: torch.dtype = torch.float64,
) -> Case:
    """A random directed graph, perhaps with parallel edges and self-loops, and a random GCN on it."""
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, nodes, (2, edges), generator=generator)
    is_loop = edge_index[0] == edge_index[1]
    edge_index = edge_index[:, ~is_loop]
    if loops:
        chosen = torch.randperm(nodes, generator=generator)[: nodes // 2]
        edge_index = torch.cat([edge_index, chosen.expand(2, -1)], dim=1)
        edge_index = edge_index[:, torch.randperm(edge_index.size(1), generator=generator)]
    node = int(torch.randint(0, nodes, (1,), generator=generator))
    if isolated:
        edge_index = edge_index[:, (edge_index != node).all(dim=0)]
    weight = None
    if weighted:
        weight = torch.rand(edge_index.size(1), generator=generator, dtype=dtype) * 1.5 + 0.1
        if zeros:
            weight[torch.rand(len(weight), generator=generator) < 0.4] = 0
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = TwoLayerGCN(features, layers=layers).to(dtype)
    x = torch.randn(nodes, features, generator=generator, dtype=dtype)
    return Case(model.eval(), x, edge_index, weight, node, 1, layers)


cases = st.builds(
    make_case,
    seed=st.integers(0, 10**6),
    nodes=st.integers(1, 9),
    edges=st.integers(0, 25),
    features=st.integers(1, 6),
    layers=st.integers(1, 3),
    weighted=st.booleans(),
    loops=st.booleans(),
    isolated=st.booleans(),
)


class DenseReference:
    """F, p, the optimal W and Delta for one case, on dense matrices over all nodes of the graph."""

    def __init__(self, case: Case, seeds: Sequence[int] = (), normalization: str = "symmetric") -> None:
        self.case, self.normalization = case, normalization
        self.seeds = list(seeds) or [case.node]  # the nodes F is read from, as often as they are named
        nodes, edges = len(case.x), case.edge_index.size(1)
        given = {int(s): e for e, (s, t) in enumerate(case.edge_index.T.tolist()) if s == t}
        weight = torch.ones(edges, dtype=case.x.dtype) if case.edge_weight is None else case.edge_weight
        # All entries of A: the edges that are no loops, then a loop for every node.
        self.plain = [e for e in range(edges) if case.edge_index[0, e] != case.edge_index[1, e]]
        loop_weight = [float(weight[given[v]]) if v in given else 1.0 for v in range(nodes)]
        self.source = [int(case.edge_index[0, e]) for e in self.plain] + list(range(nodes))
        self.sink = [int(case.edge_index[1, e]) for e in self.plain] + list(range(nodes))
        self.weight = np.array([float(weight[e]) for e in self.plain] + loop_weight)
        reached = np.zeros(nodes, dtype=bool)
        reached[self.seeds] = True
        for _ in range(case.layers):
            step = reached.copy()
            for s, t in zip(self.source, self.sink, strict=True):
                if reached[t]:
                    step[s] = True
            reached = step
        # The entries F depends on: those into nodes within as many hops as there are layers. The k-hop model is
        # defined on them, with a self-loop of weight 1 at every node further out.
        self.felt = np.array([reached[t] for t in self.sink])
        self.reached = reached
        self.value = self.forward(self.weight, case.x)

    def entry(self, edge_id: int, node: int) -> int:
        """Place of an edge, or of the loop of ``node`` if ``edge_id`` is -1 or a loop."""
        loop = edge_id < 0 or self.case.edge_index[0, edge_id] == self.case.edge_index[1, edge_id]
        return len(self.plain) + node if loop else self.plain.index(edge_id)

    def forward(self, weight: np.ndarray, x: Tensor) -> float:
        edges = torch.tensor([self.source, self.sink])
        with torch.no_grad():
            out = self.case.model(x, edges, torch.as_tensor(weight, dtype=x.dtype))
        return float(out[self.seeds, self.case.label].sum())

    def dense(self, weight: np.ndarray) -> np.ndarray:
        matrix = np.zeros((len(self.case.x),) * 2)
        for s, t, w, felt in zip(self.source, self.sink, weight, self.felt, strict=True):
            if felt or s == t:
                matrix[t, s] += w if felt else 1.0
        return matrix

    def khop(self, weight: np.ndarray, x: np.ndarray) -> np.ndarray:
        """e^T N(A^k) X for k = 1 .. M, stacked."""
        rows = []
        for k in range(1, self.case.layers + 1):
            power = np.linalg.matrix_power(self.dense(weight), k)
            degree = power.sum(axis=1)
            if self.normalization == "symmetric":
                inverse = np.array([d**-0.5 if d > 0 else 0.0 for d in degree])
                power = inverse[:, None] * power * inverse[None, :]
            elif self.normalization == "row":
                power = np.array([1 / d if d > 0 else 0.0 for d in degree])[:, None] * power
            rows.append(power[self.seeds].sum(axis=0) @ x)
        return np.concatenate(rows)

    def perturbed(self, sample) -> tuple[list[np.ndarray], list[Tensor]]:
        """Weights and features of the whole graph for each sample of a library ``Perturbations``."""
        graph = sample.graph
        weights, xs = [], []
        for s in range(len(sample)):
            weight, x = self.weight.copy(), self.case.x.clone()
            if sample.edges is not None:
                for place in range(graph.num_edges):
                    sink = int(graph.nodes[graph.edge_index[1, place]])
                    weight[self.entry(int(graph.edge_id[place]), sink)] -= float(sample.edges[s, place])
            if sample.features is not None:
                x[graph.nodes] -= sample.features[s]
            weights.append(weight)
            xs.append(x)
        return weights, xs

    def features_and_changes(self, sample) -> tuple[np.ndarray, np.ndarray]:
        before = self.khop(self.weight, self.case.x.numpy())
        weights, xs = self.perturbed(sample)
        phi = np.stack([before - self.khop(w, x.numpy()) for w, x in zip(weights, xs, strict=True)])
        delta = np.array([self.value - self.forward(w, x) for w, x in zip(weights, xs, strict=True)])
        return phi, delta

    def solve(self, phi: np.ndarray, delta: np.ndarray, threshold: float = 1e-4) -> np.ndarray:
        u, s, vt = np.linalg.svd(phi, full_matrices=False)
        keep = s > threshold
        return vt[keep].T @ ((u[:, keep].T @ delta) / s[keep])

    def gradient(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of p with respect to X and to the entries of A, by autograd through the dense powers."""
        x = self.case.x.clone().requires_grad_()
        weight = torch.from_numpy(self.weight).requires_grad_()
        felt, n = torch.from_numpy(self.felt), len(x)
        loop = torch.tensor(self.source) == torch.tensor(self.sink)
        entries = torch.where(felt, weight, loop.double())
        place = torch.tensor(self.sink) * n + torch.tensor(self.source)
        dense = torch.zeros(n * n, dtype=torch.float64).index_add(0, place, entries).view(n, n)
        power, p = torch.eye(n, dtype=torch.float64), 0.0
        for w in torch.from_numpy(weights).view(self.case.layers, -1):
            power = power @ dense
            core = power
            if self.normalization == "symmetric":
                inverse = power.sum(dim=1).rsqrt()
                core = inverse[:, None] * power * inverse
            elif self.normalization == "row":
                core = power / power.sum(dim=1, keepdim=True)
            p = p + core[self.seeds].sum(dim=0) @ x @ w
        dx, da = torch.autograd.grad(p, (x, weight))
        return dx.numpy(), da.numpy()
