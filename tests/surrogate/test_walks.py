"""Rows e^T N(A^k) and their derivatives, against dense powers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.graph.graph import Graph
from graphfaith.surrogate.walks import khop_gradient, khop_rows
from reference import cases, make_case
from walking import HOPS, KINDS, e_of, part_of, several, some_values


def dense_rows(part, values, hops, kind):
    """e^T N(A^k) of one set of values by powers of a matrix, [M, n]."""
    matrix = np.zeros((part.num_nodes, part.num_nodes))
    for (source, sink), value in zip(part.edge_index.T.tolist(), values.tolist(), strict=True):
        matrix[sink, source] += value
    rows = []
    for k in range(1, hops + 1):
        power = np.linalg.matrix_power(matrix, k)
        total = power.sum(axis=1)
        if kind == "symmetric":
            scale = np.array([t**-0.5 if t > 0 else 0.0 for t in total])
            power = scale[:, None] * power * scale
        elif kind == "row":
            power = np.array([1 / t if t > 0 else 0.0 for t in total])[:, None] * power
        rows.append(e_of(part) @ power)
    return np.stack(rows)


@pytest.mark.parametrize("kind", KINDS)
@given(case=cases, seeds=several, hops=HOPS, zeros=st.booleans(), whole=st.booleans())
def test_rows_are_those_of_dense_powers(kind, case, seeds, hops, zeros, whole):
    part = part_of(case, seeds, hops, whole)
    values = some_values(part, 3, zeros)
    before = values.clone()
    found = khop_rows(part, values.T, hops, kind)
    assert found.shape == (hops, 3, part.num_nodes)
    for s in range(3):
        np.testing.assert_allclose(found[:, s], dense_rows(part, values[:, s], hops, kind), rtol=1e-12, atol=1e-14)
    assert torch.equal(values, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zeros", [False, True])
def test_a_node_named_twice_counts_twice(kind, zeros):
    case = make_case(seed=2, nodes=9, edges=40)
    once, twice, both = (part_of(case, seeds, 3, whole=True) for seeds in ([4], [4, 4], [4, 7, 4]))
    values = some_values(once, 2, zeros)
    rows = [khop_rows(part, values.T, 3, kind) for part in (once, twice, both)]
    torch.testing.assert_close(rows[1], 2 * rows[0])
    other = khop_rows(part_of(case, [7], 3, whole=True), values.T, 3, kind)
    torch.testing.assert_close(rows[2], 2 * rows[0] + other)
    assert not torch.allclose(rows[2], rows[0] + other)
    y = torch.from_numpy(np.random.default_rng(1).normal(size=(once.num_nodes, 3)))
    gradients = [khop_gradient(part, values[:, 0], y, kind).numpy() for part in (once, twice)]
    np.testing.assert_allclose(gradients[1], 2 * gradients[0], rtol=1e-12, atol=1e-14)
    assert np.abs(gradients[0]).max() > 0


def by_autograd(part, weight, y, kind):
    """The derivative of sum_k e^T N(A^k) y_k through dense powers."""
    n, hops = y.shape
    weight = torch.from_numpy(weight).requires_grad_()
    source, sink = part.edge_index
    matrix = torch.zeros(n * n, dtype=torch.float64).index_add(0, sink * n + source, weight).view(n, n)
    power, p = torch.eye(n, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for k in range(hops):
        power = power @ matrix
        core = power
        if kind == "symmetric":
            scale = power.sum(dim=1).rsqrt()
            core = scale[:, None] * power * scale
        elif kind == "row":
            core = power / power.sum(dim=1, keepdim=True)
        p = p + torch.from_numpy(e_of(part)) @ core @ torch.from_numpy(y[:, k])
    return torch.autograd.grad(p, weight)[0].numpy()


@pytest.mark.parametrize("kind", KINDS)
@given(case=cases, seeds=several, hops=HOPS, whole=st.booleans())
def test_gradient_is_that_of_dense_powers(kind, case, seeds, hops, whole):
    part = part_of(case, seeds, hops, whole)
    weight = some_values(part, 1, zeros=False)[:, 0].numpy()
    y = np.random.default_rng(3).normal(size=(part.num_nodes, hops))
    expected = by_autograd(part, weight, y, kind)
    found = khop_gradient(part, torch.from_numpy(weight), torch.from_numpy(y), kind)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_by_small_steps(kind):
    part = part_of(make_case(seed=3, nodes=9, edges=30), [1, 1, 5], 3)
    weight = some_values(part, 1, zeros=False)[:, 0]
    y = np.random.default_rng(4).normal(size=(part.num_nodes, 3))
    found = khop_gradient(part, weight, torch.from_numpy(y), kind).numpy()
    step = 1e-6 * torch.eye(part.num_edges, dtype=torch.float64)
    moved = [khop_rows(part, weight + sign * step, 3, kind) for sign in (1, -1)]  # [M, e, n]
    p = [np.einsum("ken,nk->e", rows.numpy(), y) for rows in moved]
    np.testing.assert_allclose(found, (p[0] - p[1]) / 2e-6, rtol=1e-6, atol=1e-7 * np.abs(found).max())


@pytest.mark.parametrize("kind", KINDS)
def test_without_edges_there_are_loops(kind):
    x, none = torch.ones(2, 1).double(), torch.empty(2, 0, dtype=torch.int64)
    part = ComputationGraph.around(Graph.of(x, none), 1, 2)
    found = khop_rows(part, torch.full((1, part.num_edges), 3.0, dtype=torch.float64), 2, kind)
    assert found[:, 0, 0].tolist() == ([3.0, 9.0] if kind == "none" else pytest.approx([1.0, 1.0]))
    nothing = khop_rows(part, torch.zeros(1, part.num_edges, dtype=torch.float64), 2, kind)
    assert nothing.abs().max() == 0
