"""The computation graphs of many nodes, against each alone."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.graph.graph import Graph
from graphfaith.graph.parts import Parts
from reference import cases


def assert_equal(one, other):
    for each in fields(ComputationGraph):
        mine, right = getattr(one, each.name), getattr(other, each.name)
        if isinstance(right, torch.Tensor):
            assert mine.dtype == right.dtype, each.name
            assert torch.equal(mine, right), each.name
        else:
            assert mine == right, each.name


@pytest.mark.parametrize("degrees", [None, "in", "out"])
@pytest.mark.parametrize("loop_weight", [None, 1.0, 2.0])
@given(case=cases, hops=st.integers(1, 3), data=st.data())
def test_parts_are_what_each_is_alone(degrees, loop_weight, case, hops, data):
    graph = Graph(case.x, case.edge_index, case.edge_weight)
    nodes = data.draw(st.lists(st.integers(0, len(case.x) - 1), min_size=1, max_size=6))
    options = {"degrees": degrees == "in", "out_degrees": degrees == "out", "loop_weight": loop_weight}
    parts = Parts.around(graph, nodes, hops, **options)
    assert len(parts) == len(nodes)
    for i, node in enumerate(nodes):
        alone = ComputationGraph.around(graph, node, hops, **options)
        assert_equal(parts.graph(i), alone)
        own, entries = parts.slices(i)
        assert parts.nodes[own].tolist() == alone.nodes.tolist()
        assert parts.edge_id[entries].tolist() == alone.edge_id.tolist()
        assert parts.ends[:, entries].tolist() == alone.edge_index.tolist()
        # By default a table has the edges, the self-loops, and a row for what F does not read.
        right = np.where(alone.is_loop, graph.num_edges + alone.nodes[alone.edge_index[1]], alone.edge_id)
        right[~alone.felt.numpy()] = graph.num_edges + graph.num_nodes
        assert parts.row[entries].tolist() == right.tolist()


def test_rows_of_another_table():
    x, path = torch.eye(4), torch.tensor([[3, 2, 1], [2, 1, 0]])
    rows = np.array([10, 11, 12]), np.array([20, 21, 22, 23]), 99
    parts = Parts.around(Graph.of(x, path), [1, 0], 1, rows=rows)
    assert parts.row.tolist() == [10, 11, 21, 22, 99, 11, 12, 20, 21, 99]
