"""The compiled core: every function against a plain one of numpy.

Draws, tables and walks are in test_core_walks.py, and what is AnchoredKEC's in test_core_anchored.py. Searches of the
graph, propagation and whole fits have their tests where they are used.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphfaith._base import core


def random_matrix(seed, rows, columns, rank=None, zeros=0.0):
    random = np.random.default_rng(seed)
    rank = min(rows, columns) if rank is None else rank
    matrix = random.normal(size=(rows, rank)) @ random.normal(size=(rank, columns))
    matrix[random.random(size=matrix.shape) < zeros] = 0
    return matrix


def sparse(x):
    return core.sparse_of(np.ascontiguousarray(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_is_that_of_scipy(dtype):
    x = random_matrix(0, 7, 11, zeros=0.7).astype(dtype)
    x[3] = 0
    start, columns, numbers, width = sparse(x)
    right = scipy.sparse.csr_matrix(x)
    assert start.tolist() == right.indptr.tolist()
    assert columns.tolist() == right.indices.tolist()
    assert numbers.tolist() == right.data.astype(np.float64).tolist()
    assert width == 11


@given(
    seed=st.integers(0, 99),
    rows=st.integers(1, 12),
    columns=st.integers(1, 12),
    rank=st.integers(0, 6),
    again=st.booleans(),
)
def test_coordinates_have_the_products_of_the_rows(seed, rows, columns, rank, again):
    x = random_matrix(seed, rows, columns, min(rank, rows, columns))
    if again:
        x[-1] = x[0]
    factor, independent = core.coordinates_of(sparse(x), np.arange(rows))
    np.testing.assert_allclose(factor @ factor.T, x @ x.T, atol=1e-9 * max(1.0, np.abs(x @ x.T).max()))
    assert factor.shape == (rows, len(independent))
    # Each row has as many coordinates as there are independent rows up to it, so that near nodes have few.
    for i in range(rows):
        assert not factor[i, np.searchsorted(independent, i, side="right") :].any()
    assert (factor[independent, np.arange(len(independent))] > 0).all()
    for i in set(range(rows)) - set(independent.tolist()):
        # What is left of a dependent row, by least squares, is next to nothing.
        left = x[i] - np.linalg.lstsq(x[:i].T, x[i], rcond=None)[0] @ x[:i] if i else x[i]
        assert np.linalg.norm(left) <= 1e-5 * np.linalg.norm(x[i])
    if rank == min(rows, columns) and not again:
        assert len(independent) == rank


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e-160])
def test_coordinates_of_huge_and_tiny_features(scale):
    x = random_matrix(1, 4, 6)
    right, independent = core.coordinates_of(sparse(x), np.arange(4))
    found, same = core.coordinates_of(sparse(scale * x), np.arange(4))
    assert same.tolist() == independent.tolist()
    np.testing.assert_allclose(found / scale, right, rtol=1e-9, atol=1e-9)


def test_coordinates_of_some_rows_in_any_order():
    x = random_matrix(1, 9, 30)
    chosen = np.array([7, 2, 5])
    factor, independent = core.coordinates_of(sparse(x), chosen)
    np.testing.assert_allclose(factor @ factor.T, x[chosen] @ x[chosen].T, rtol=1e-12)
    assert independent.tolist() == [0, 1, 2]


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 70, 100])
@pytest.mark.parametrize("zeros", [0.0, 0.93])
def test_coordinates_of_many_rows(rows, zeros):
    x = random_matrix(rows, rows, 80, zeros=zeros)
    x[rows // 2 :: 7] = 2 * x[0]  # They depend on the first row, and are in several panels.
    factor, independent = core.coordinates_of(sparse(x), np.arange(rows))
    right, at = np.zeros((rows, 0)), []
    for i in range(rows):  # plain Cholesky of X X^T, one column after another
        left = x[i:] @ x[i] - right[i:] @ right[i]
        if len(at) < 80 and left[0] > 1e-12 * (x[i] @ x[i]):
            column = np.concatenate((np.zeros(i), left / np.sqrt(left[0])))
            right, at = np.column_stack((right, column)), [*at, i]
    assert independent.tolist() == at
    np.testing.assert_allclose(factor, right, atol=1e-9 * np.abs(x).max())


def test_products_of_rows_in_both_ways():
    x, nodes = random_matrix(3, 12, 20, zeros=0.8), np.array([5, 1, 9, 1, 7, 0])
    right, given = np.triu(x[nodes] @ x[nodes].T), sparse(x)
    size = int((x[nodes] != 0).sum())
    lists = core.link_columns(given, nodes, size)
    for column in range(20):
        at, rows = lists[0][column], []
        while at >= 0:
            rows.append(int(lists[2][at]))
            assert given[2][lists[3][at]] == x[nodes[rows[-1]], column]
            at = lists[1][at]
        assert rows == np.flatnonzero(x[nodes, column]).tolist()
    for first, last in ((0, 4), (4, 6)):
        one, other = np.full((4, 6), 7.0), np.full((4, 6), 7.0)
        core.write_products(given, nodes, 1.0, first, last, np.zeros(20), one)
        core.write_products_by_lists(given, nodes, 1.0, first, last, lists, other)
        for i in range(first, last):
            assert one[i - first, i:].tolist() == other[i - first, i:].tolist()
            np.testing.assert_allclose(one[i - first, i:], right[i, i:], rtol=1e-12)


@pytest.mark.parametrize(("rows", "inner", "columns"), [(5, 7, 3), (1, 1, 1), (4, 0, 3), (0, 3, 2)])
def test_products_and_sums(rows, inner, columns):
    random = np.random.default_rng(rows)
    left, right = random.normal(size=(rows, inner)), random.normal(size=(inner, columns))
    by_row, vector = random.normal(size=rows), random.normal(size=inner)
    for found, plain in [
        (core.multiply(left, right), left @ right),
        (core.multiply_transposed(right, np.ascontiguousarray(left.T)), right.T @ left.T),
        (core.multiply_by_rows(left, np.ascontiguousarray(right.T)), left @ right),
        (core.multiply_vector(left, vector), left @ vector),
        (core.multiply_rows(by_row, left), by_row @ left),
        (core.transpose(left), left.T),
        (core.sum_of_products(vector, vector), vector @ vector),
        (core.sum_of(left), left.sum()),
    ]:
        np.testing.assert_allclose(found, plain, rtol=1e-13, atol=1e-14)


def test_vectors_are_written_and_added():
    random = np.random.default_rng(0)
    into, term = random.normal(size=(2, 9))
    right = into + 2.5 * term
    core.add_multiple(into, 2.5, term)
    np.testing.assert_allclose(into, right, rtol=1e-15)
    assert core.mean_of(into) == pytest.approx(into.mean(), rel=1e-14)
    core.write_to(into, term)
    np.testing.assert_array_equal(into, term)
    core.fill(into, 3.0)
    np.testing.assert_array_equal(into, np.full(9, 3.0))


@pytest.mark.parametrize("last", [2, 3, 6, 7, 11])
def test_products_are_subtracted(last):
    random = np.random.default_rng(last)
    rows, own = random.normal(size=(12, 15)), random.normal(size=15)
    right = own.copy()
    right[4:] -= rows[2:last, 4] @ rows[2:last, 4:]
    core.subtract_products(own, rows, 2, last, 4)
    np.testing.assert_allclose(own, right, atol=1e-13)
    panel = random.normal(size=(6, 15))
    right = panel.copy()
    right[2:5, 5:] -= rows[:last, 5:8].T @ rows[:last, 5:]
    core.subtract_panel(panel, 2, rows, 5, 8, last)
    np.testing.assert_allclose(panel, right, atol=1e-13)


def plain_truncated(phi, change, threshold, relative):
    u, sigma, vt = np.linalg.svd(phi, full_matrices=False)
    top = sigma[0] if len(sigma) else 0.0
    kept = sigma > max(threshold * top if relative else threshold, len(sigma) * np.finfo(float).eps * top)
    return vt[kept].T @ ((u[:, kept].T @ change) / sigma[kept]), int(kept.sum())


@given(
    seed=st.integers(0, 99),
    samples=st.integers(1, 30),
    width=st.integers(1, 30),
    least=st.sampled_from([1.0, 1e-2, 3e-4, 1e-5, 1e-9]),
    threshold=st.sampled_from([1.1e-4, 1.7e-2, 1.3e-6]),
    relative=st.booleans(),
)
def test_the_system_is_solved_as_by_singular_values(seed, samples, width, least, threshold, relative):
    random, count = np.random.default_rng(seed), min(samples, width)
    u, _ = np.linalg.qr(random.normal(size=(samples, count)))
    v, _ = np.linalg.qr(random.normal(size=(width, count)))
    phi, change = np.ascontiguousarray((u * np.geomspace(1.0, least, count)) @ v.T), random.normal(size=samples)
    weights, sound = core.solve_kept(np.ascontiguousarray(phi.T), change, threshold, relative, False)
    right, kept = plain_truncated(phi, change, threshold, relative)
    assert sound <= (kept == count or threshold > 1e-5)
    if least > 2 * max(threshold * np.sqrt(count), 1e-4) or threshold > 1e-5 * np.sqrt(count):
        assert sound
    if sound:
        np.testing.assert_allclose(phi @ weights, phi @ right, atol=1e-9)
        np.testing.assert_allclose(weights, right, atol=2e-10 * max(1.0, np.abs(right).max()))


def test_a_system_without_unknowns_or_with_wrong_numbers():
    weights, sound = core.solve_kept(np.zeros((0, 5)), np.ones(5), 1e-4, False, False)
    assert (len(weights), sound) == (0, True)
    weights, sound = core.solve_kept(np.zeros((3, 5)), np.ones(5), 1e-4, False, False)
    assert (weights.tolist(), sound) == ([0.0, 0.0, 0.0], True)
    for phi in (np.full((3, 5), np.nan), np.full((3, 5), 1e200)):
        assert not core.solve_kept(phi, np.ones(5), 1e-4, False, False)[1]
    for change in (np.full(5, 1e200), np.full(5, np.nan)):
        assert not core.solve_kept(random_matrix(0, 3, 5), change, 1e-4, False, False)[1]


@pytest.mark.parametrize(("samples", "width"), [(40, 20), (20, 40), (200, 190), (190, 200)])
def test_left_out_directions_are_as_exact_as_those_of_singular_values(samples, width):
    random, count = np.random.default_rng(samples), min(samples, width)
    u, _ = np.linalg.qr(random.normal(size=(samples, count)))
    v, _ = np.linalg.qr(random.normal(size=(width, count)))
    sizes = np.append(np.geomspace(1.0, 3e-4, count - 3), [1.5e-4, 8e-5, 1e-7])
    phi, change = (u * sizes) @ v.T, random.normal(size=samples)
    weights, sound = core.solve_kept(np.ascontiguousarray(phi.T), change, 1e-4, False, False)
    right, kept = plain_truncated(phi, change, 1e-4, False)
    assert (sound, kept) == (True, count - 2)
    # By products alone, without the correction, it would be a thousand times less exact.
    np.testing.assert_allclose(weights, right, atol=3e-12 * np.abs(right).max())


@pytest.mark.parametrize("count", [1, 63, 64, 65, 130])
def test_products_of_all_rows(count):
    side = random_matrix(count, count, 7)
    np.testing.assert_allclose(core.products_of_rows(side), np.triu(side @ side.T), atol=1e-12)


def test_a_system_that_lacks_coordinates_needs_a_threshold_above_them():
    phi, change = 1e3 * random_matrix(4, 3, 9), np.ones(9)
    assert core.solve_kept(phi, change, 1e-4, False, False)[1]
    assert not core.solve_kept(phi, change, 1e-4, False, True)[1]
    assert core.solve_kept(phi, change, 1e-4, True, True)[1]


def test_solutions_are_expanded():
    x = random_matrix(2, 5, 8)
    x[3] = 2 * x[1]
    factor, independent = core.coordinates_of(sparse(x), np.arange(5))
    widths = np.array([2, 4])
    solution = np.random.default_rng(0).normal(size=6)
    beta, y = core.expand(solution, factor, independent, widths, 6)
    assert beta.shape == y.shape == (6, 2)
    for k, part in enumerate((solution[:2], solution[2:])):
        weights = x.T @ beta[:5, k]
        np.testing.assert_allclose(y[:5, k], x @ weights, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(factor[:, : len(part)] @ part, x @ weights, rtol=1e-10, atol=1e-12)
        assert np.linalg.norm(weights) == pytest.approx(np.linalg.norm(part))
    assert not beta[3].any()
    assert not y[5].any()


@pytest.mark.parametrize("size", [1, 2, 17, 32, 33, 100])
def test_factor_and_solution(size):
    a = random_matrix(size, size, size + 3)
    matrix, right = a @ a.T, np.arange(1.0, size + 1)
    factor = matrix.copy()
    assert core.factorise(factor)
    np.testing.assert_allclose(np.triu(factor), np.linalg.cholesky(matrix).T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(core.solve_factorised(factor, right), np.linalg.solve(matrix, right), rtol=1e-7)
    assert not core.factorise(matrix - 1.01 * np.linalg.eigvalsh(matrix)[0] * np.eye(size))


def test_vectors():
    into, one, other = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 7.0])
    core.multiply_add(into, one, other)
    assert into.tolist() == [16.0, 30.0]
    core.add_to(into, one)
    assert into.tolist() == [19.0, 34.0]
    core.write_product(into, one, other)
    assert into.tolist() == [15.0, 28.0]
    assert core.scales(np.array([4.0, 0.0, -1.0]), core.SYMMETRIC).tolist() == [0.5, 0.0, 0.0]
    assert core.scales(np.array([4.0, 0.0, -1.0]), core.ROW).tolist() == [0.25, 0.0, 0.0]


def test_an_array_grows_without_losing_anything():
    small = np.arange(5)
    assert core.grow(small, 4) is small or core.grow(small, 4).tolist() == small.tolist()
    grown = core.grow(small, 6)
    assert len(grown) >= 6
    assert grown[:5].tolist() == small.tolist()


def test_spans():
    hop, independent = np.array([0, 1, 1, 2, 3]), np.array([0, 2, 3])
    near, widths = core.spans_of(hop, independent, 2)
    assert (near.tolist(), widths.tolist()) == ([3, 4], [2, 3])
    near, widths = core.spans_of(np.array([2, 0, 1, 3]), np.array([1, 3]), 2)  # in the order of the whole graph
    assert (near.tolist(), widths.tolist()) == ([3, 3], [1, 1])


def test_features_are_changes_of_rows_times_x():
    random = np.random.default_rng(3)
    rows, factor = random.normal(size=(2, 70, 6)), random.normal(size=(70, 65))
    independent = np.sort(random.permutation(np.arange(1, 70))[:65])
    factor[np.arange(70)[:, None] < independent] = 0
    phi = core.features_of(rows, factor, independent, np.array([42, 70]), np.array([40, 65]))
    moved = rows[:, :, :1] - rows[:, :, 1:]
    right = np.concatenate([moved[0, :42].T @ factor[:42, :40], moved[1].T @ factor], axis=1)
    np.testing.assert_allclose(phi, right.T, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (3, 7), (2, 5)])
def test_normalised_matrices(dtype, rows, columns):
    rng, count, size = np.random.default_rng(0), 7, 5
    source, sink = rng.integers(0, count, 20), rng.integers(0, count, 20)  # some entries are there twice
    values = rng.random((20, size)).astype(dtype)
    values[sink == 1] = 0  # a node without weight
    found = np.full((size, rows, columns), np.nan, dtype=dtype)
    core.normalised_matrices(values, source, sink, count, found)
    for s in range(size):
        matrix = np.zeros((count, count))
        np.add.at(matrix, (sink, source), values[:, s].astype(np.float64))
        degree = matrix.sum(axis=1)
        side = np.where(degree > 0, degree, np.inf) ** -0.5
        twin = (side[:, None] * matrix * side)[:rows, :columns]
        np.testing.assert_allclose(found[s], twin, rtol=1e-5 if dtype == np.float32 else 1e-13, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (3, 7), (2, 5)])
def test_slopes_of_entries_are_those_of_autograd(dtype, rows, columns):
    rng, count, size = np.random.default_rng(1), 7, 5
    source, sink = rng.integers(0, count, 20), rng.integers(0, count, 20)  # some entries are there twice
    values, slopes = rng.random((20, size)).astype(dtype), rng.normal(size=(size, rows, columns)).astype(dtype)
    values[sink == 1] = 0  # a node without weight, whose scale is taken as constant
    found = np.full((20, size), np.nan, dtype=dtype)
    core.slopes_of_entries(values, source, sink, count, slopes, found)
    entries = torch.from_numpy(values).double().requires_grad_()
    degree = torch.zeros(count, size, dtype=torch.float64).index_add(0, torch.from_numpy(sink), entries)
    side = torch.where(degree > 0, degree, torch.inf).rsqrt()
    matrices = torch.zeros(count, count, size, dtype=torch.float64).index_put(
        (torch.from_numpy(sink), torch.from_numpy(source)), entries * side[sink] * side[source], accumulate=True
    )
    total = (matrices[:rows, :columns] * torch.from_numpy(slopes).double().permute(1, 2, 0)).sum()
    (twin,) = torch.autograd.grad(total, entries)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, twin.nan_to_num(0.0).numpy(), rtol=tolerance, atol=tolerance)


def test_keys_are_mixed_as_by_splitmix():
    def finalise(word):
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
        return word ^ (word >> 31)

    golden, state, counters = 0x9E3779B97F4A7C15, 2**63 + 12345, np.array([0, 1, 17, 2**62, -1])
    keys = np.empty(5, dtype=np.uint64)
    core.draw_keys(np.uint64(state), counters, keys)
    twin = [finalise((state + golden) % 2**64 ^ finalise((int(c) + golden) % 2**64)) for c in counters]
    assert keys.tolist() == twin
