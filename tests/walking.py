"""What the tests of walks and of propagation share: computation graphs, and values of the entries of A."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st

from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.graph.graph import Graph

KINDS = ["symmetric", "row", "none"]
HOPS = st.integers(1, 4)
several = st.lists(st.integers(0, 8), min_size=1, max_size=4)


def part_of(case, seeds, hops, whole=False):
    graph = Graph.of(case.x, case.edge_index, case.edge_weight)
    make = ComputationGraph.whole if whole else ComputationGraph.around
    return make(graph, [seed % len(case.x) for seed in seeds], hops)


def some_values(part, count, zeros, seed=0):
    """Entries of A, [e, S]; perhaps all in-edges of a node weigh nothing."""
    values = np.random.default_rng(seed).uniform(0.1, 2.0, size=(part.num_edges, count))
    if zeros:
        values[part.edge_index[1].numpy() == part.num_nodes - 1] = 0
        values[np.random.default_rng(seed + 1).random(values.shape) < 0.4] = 0
    return torch.from_numpy(values)


def e_of(part):
    e = np.zeros(part.num_nodes)
    for seed, often in zip(part.seeds.tolist(), part.e.tolist(), strict=True):
        e[seed] += often
    return e
