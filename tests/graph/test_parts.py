"""The computation graphs of many nodes, against each alone."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphfaith._base import core
from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.graph.graph import Graph
from graphfaith.graph.parts import Parts, Rows
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
    rows = Rows(np.arange(graph.num_edges), np.arange(graph.num_nodes))
    parts = Parts.around(graph, nodes, hops, rows=rows, **options)
    assert len(parts) == len(nodes)
    for i, node in enumerate(nodes):
        alone = ComputationGraph.around(graph, node, hops, **options)
        assert_equal(parts.graph(i), alone)
        own, entries = parts.slices(i)
        assert parts.nodes[own].tolist() == alone.nodes.tolist()
        assert parts.edge_id[entries].tolist() == alone.edge_id.tolist()
        assert parts.ends[:, entries].tolist() == alone.edge_index.tolist()
        # This table has the edges, the self-loops, and a row for what F does not read.
        right = np.where(alone.is_loop, graph.num_edges + alone.nodes[alone.edge_index[1]], alone.edge_id)
        right[~alone.felt.numpy()] = graph.num_edges + graph.num_nodes
        assert parts.row[entries].tolist() == right.tolist()


def test_rows_of_another_table():
    x, path = torch.eye(4), torch.tensor([[3, 2, 1], [2, 1, 0]])
    parts = Parts.around(Graph.of(x, path), [1, 0], 1, rows=Rows(np.array([2, 0, 1]), np.array([3, 1, 0, 2])))
    assert parts.row.tolist() == [1, 2, 4, 6, 7, 2, 0, 5, 4, 7]
    # What a table lacks is in its last row, and without a table no row is known.
    parts = Parts.around(Graph.of(x, path), [1, 0], 1, rows=Rows(np.array([1]), np.array([1])))
    assert parts.row.tolist() == [2, 0, 1, 2, 2, 0, 2, 2, 1, 2]
    assert set(Parts.around(Graph.of(x, path), [1, 0], 1).row.tolist()) == {-1}


@given(numbers=st.lists(st.integers(0, 2**62), unique=True, max_size=200), others=st.lists(st.integers(0, 2**62)))
def test_a_table_has_the_places_of_its_numbers(numbers, others):
    table = core.table_of(np.array(numbers, dtype=np.int64), len(numbers))
    asked = np.array([*others, *numbers], dtype=np.int64)
    places = {number: place for place, number in enumerate(numbers)}
    assert core.look_up(table, asked).tolist() == [places.get(number, -1) for number in asked.tolist()]
