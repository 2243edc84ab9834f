"""Rows e^T N(A)^k, moments of the in-weights, and their derivatives, against dense powers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphfaith.surrogate.propagation import Propagation
from reference import cases, make_case
from walking import HOPS, KINDS, e_of, part_of, several, some_values


def dense(part, values, kind):
    """N(A) for one set of values, differentiable in them."""
    n, (source, sink) = part.num_nodes, part.edge_index
    matrix = torch.zeros(n * n, dtype=torch.float64).index_add(0, sink * n + source, values).view(n, n)
    total = matrix.sum(dim=1)
    inverse = torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0)
    if kind == "symmetric":
        return inverse.sqrt()[:, None] * matrix * inverse.sqrt()
    return inverse[:, None] * matrix if kind == "row" else matrix


def dense_rows(part, values, hops, kind):
    """e^T N^k for k = 0 .. M, [M + 1, n], and e^T N^k c^j for k < M and j = 2, 3, [M, 2]."""
    core = dense(part, values, kind)
    rows = [torch.from_numpy(e_of(part))]
    for _ in range(hops):
        rows.append(rows[-1] @ core)
    c = core.sum(dim=1)
    moments = torch.stack([torch.stack([row @ c**j for j in (2, 3)]) for row in rows[:-1]])
    return torch.stack(rows), moments


@pytest.mark.parametrize("kind", KINDS)
@given(case=cases, seeds=several, hops=HOPS, zeros=st.booleans(), whole=st.booleans())
def test_rows_and_moments_are_those_of_a_dense_matrix(kind, case, seeds, hops, zeros, whole):
    part = part_of(case, seeds, hops, whole)
    values = some_values(part, 3, zeros)
    found = Propagation(part, hops).of(values, kind)
    for sample in range(3):
        rows, moments = dense_rows(part, values[:, sample], hops, kind)
        torch.testing.assert_close(found.rows[..., sample], rows[1:], rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(found.moments[..., sample], moments, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(case=cases, seeds=several, hops=HOPS, whole=st.booleans())
def test_gradient_is_that_of_dense_powers(kind, case, seeds, hops, whole):
    part = part_of(case, seeds, hops, whole)
    weight = some_values(part, 1, zeros=False)[:, 0].requires_grad_()
    generator = np.random.default_rng(3)
    y, v = generator.normal(size=(part.num_nodes, hops)), generator.normal(size=(hops, 2))
    rows, moments = dense_rows(part, weight, hops, kind)
    p = (rows[1:] * torch.from_numpy(y.T)).sum() + (moments * torch.from_numpy(v)).sum()
    (expected,) = torch.autograd.grad(p, weight)
    y, v = torch.from_numpy(y), torch.from_numpy(v)
    found = Propagation(part, hops).gradient(weight.detach().unsqueeze(1), y, v, kind)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * max(1.0, float(expected.abs().max())))


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_without_weight_has_no_gradient_and_no_row(kind):
    part = part_of(make_case(seed=3, nodes=9, edges=30), [1], 2)
    weight = some_values(part, 1, zeros=False)
    weight[part.edge_index[1] == 0] = 0
    propagation = Propagation(part, 2)
    found = propagation.of(weight, kind)
    assert not found.rows.any()  # nothing comes to the node that F is read from
    slope = propagation.gradient(weight, torch.ones(part.num_nodes, 2), torch.ones(2, 2), kind)
    assert torch.isfinite(slope).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 300])
@given(case=cases, seeds=several, hops=HOPS, zeros=st.booleans(), whole=st.booleans())
def test_values_are_weighted_rows_and_moments(kind, count, case, seeds, hops, zeros, whole):
    part = part_of(case, seeds, hops, whole)
    values, generator = some_values(part, count, zeros), torch.Generator().manual_seed(4)
    y, v = (torch.randn(*shape, generator=generator).double() for shape in ((part.num_nodes, hops), (hops, 2)))
    propagation = Propagation(part, hops)
    rows, moments = propagation.of(values, kind)
    expected = torch.einsum("kns,nk->s", rows, y) + torch.einsum("kjs,kj->s", moments, v)
    found = propagation.value(values, y, v, kind)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11 * max(1.0, float(expected.abs().max())))
    mean = propagation.gradient(values, y, v, kind)
    single = [propagation.gradient(values[:, s : s + 1], y, v, kind) for s in range(min(count, 3))]
    if count < 4:
        torch.testing.assert_close(mean, sum(single) / count)


def test_change_is_what_the_first_lost():
    part = part_of(make_case(seed=3), [2], 2)
    found = Propagation(part, 2).of(some_values(part, 4, zeros=False), "symmetric")
    lost = found.change()
    torch.testing.assert_close(lost.rows[..., 1], found.rows[..., 0] - found.rows[..., 2])
    torch.testing.assert_close(lost.moments[..., 2], found.moments[..., 0] - found.moments[..., 3])
