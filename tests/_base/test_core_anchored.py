"""The part of the compiled core that is AnchoredKEC's: every function against a plain one of numpy.

It is apart from test_core.py, because both together would be too long to read. The two functions that do a whole
computation graph, ``anchor_parts`` and ``read_parts``, are in tests/surrogate/test_fits.py, against the library's own
path through torch.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_twins import KINDS, normal, plain_rows, random_entries, random_graph
from graphfaith._base import core

BLOCKS = (4, 1.6)


def with_signs_of(found, right):
    """``right`` with the signs that the columns of ``found`` have: directions are known but for their sign."""
    assert found.shape == right.shape
    return right * np.sign((found * right).sum(axis=0))


# Propagation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("samples", [0, 1, 127, 129, 300])  # There are 128 samples in a block.
@pytest.mark.parametrize("hops", [1, 3])
def test_propagation_is_that_of_dense_powers(kind, samples, hops):
    source, sink, hop, e = random_graph(hops, 7, 15)
    values = random_entries(0, 15, samples)
    y, v = normal(1, 7, hops), normal(2, hops, 2)
    rows, moments = plain_rows(values, source, sink, e, hops, kind)
    found = core.propagate(values, source, sink, hop, e, hops, kind)
    np.testing.assert_allclose(found[0], rows, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found[1], moments, rtol=1e-12, atol=1e-13)
    right = np.einsum("kns,nk->s", rows, y) + np.einsum("kjs,kj->s", moments, v)
    for base, sign in ((np.zeros(15), 1.0), (normal(4, 15), -1.0)):
        value = core.value_of_propagation(sign * (values - base[:, None]), source, sink, hop, e, y, v, kind, base, sign)
        np.testing.assert_allclose(value, right, rtol=1e-11, atol=1e-12 * max(1.0, np.abs(right).max(initial=0)))


@pytest.mark.parametrize("kind", KINDS)
def test_propagation_is_read_from_several_nodes(kind):
    source, sink, hop, e = random_graph(5, 6, 14)
    hop[:], e[:] = 0, normal(3, 6)
    values, y, v = random_entries(1, 14, 5), normal(1, 6, 2), normal(2, 2, 2)
    rows, moments = plain_rows(values, source, sink, e, 2, kind)
    found = core.propagate(values, source, sink, hop, e, 2, kind)
    np.testing.assert_allclose(found[0], rows, atol=1e-12)
    np.testing.assert_allclose(found[1], moments, atol=1e-11)
    right = np.einsum("kns,nk->s", rows, y) + np.einsum("kjs,kj->s", moments, v)
    np.testing.assert_allclose(
        core.value_of_propagation(values, source, sink, hop, e, y, v, kind, np.zeros(14), 1.0),
        right,
        rtol=1e-10,
        atol=1e-11,
    )


def test_vectors_of_propagation():
    c, last, into = np.array([2.0, -1.0, 0.5]), np.array([1.0, 2.0, 3.0]), np.full(3, np.nan)
    core.add_powers(into, last, c, 3.0, -5.0, 0.25)
    assert into.tolist() == (3.0 * c**2 - 5.0 * c**3).tolist()
    assert last.tolist() == [1.25, 2.25, 3.25]
    core.subtract_from(into, 4.0, c)
    assert into.tolist() == (4.0 - c).tolist()
    core.subtract_from(into, 4.0, into)  # in place, as the mirror image of a sample is made
    assert into.tolist() == c.tolist()


@pytest.mark.parametrize("size", [0, 1, 7, 100])
def test_sums_over_samples(size):
    row, centred = normal(0, size), normal(1, size)
    total, square = core.sum_products(row, 0.3, centred)
    assert total == pytest.approx((centred * (row - 0.3)).sum(), abs=1e-12)
    assert square == pytest.approx(((centred * (row - 0.3)) ** 2).sum(), abs=1e-12)
    if size:
        assert core.mean_square(row) == pytest.approx((row**2).mean())
    if size > 1:
        assert core.variance_of(row) == pytest.approx(row.var(ddof=1))


@pytest.mark.parametrize("width", [0, 1, 3])
def test_product_of_sparse_rows(width):
    x = np.where(np.random.default_rng(0).random((9, 6)) < 0.6, 0.0, normal(1, 9, 6))
    nodes, columns = np.array([4, 0, 8, 2, 4]), normal(2, 6, width)
    right = x[nodes] @ columns
    for visible in (5, 3, 0):
        right[visible:] = 0
        np.testing.assert_allclose(core.multiply_sparse(core.sparse_of(x), nodes, visible, columns), right, atol=1e-14)


# Directions, curvature and columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("vectors", "rank"), [(6, 6), (6, 2), (12, 9), (1, 1), (5, 0)])
@pytest.mark.parametrize("most", [0, 3, 8])
def test_largest_directions_are_singular_vectors(vectors, rank, most):
    g = normal(vectors, vectors, rank) @ normal(rank, rank, 11) if rank else np.zeros((vectors, 11))
    mix, root = core.largest_directions(g @ g.T, most, 1e-6, 0.0)
    u, sigma, vt = np.linalg.svd(g)
    kept = min(most, int((sigma**2 > 1e-6 * sigma[0] ** 2).sum()))
    np.testing.assert_allclose(root, sigma[:kept], rtol=1e-6)
    np.testing.assert_allclose(mix, with_signs_of(mix, u[:, :kept] / sigma[:kept]), rtol=1e-6, atol=1e-6)
    directions = g.T @ mix
    np.testing.assert_allclose(directions, with_signs_of(directions, vt[:kept].T), atol=1e-6)


def test_there_are_no_directions_of_nothing_and_of_what_is_not_finite():
    for gram in (np.zeros((0, 0)), np.full((3, 3), np.inf), np.full((3, 3), np.nan), np.zeros((3, 3))):
        mix, root = core.largest_directions(gram, 8, 1e-6, 0.0)
        assert (mix.shape, root.shape) == ((len(gram), 0), (0,))


def test_directions_below_the_cut_are_left_out():
    gram = np.diag([1.0, 2e-6, 3.0, 5e-7])
    assert core.largest_directions(gram, 8, 1e-7, 1e-6)[1].tolist() == np.sqrt([3.0, 1.0, 2e-6]).tolist()  # the floor
    assert core.largest_directions(gram, 8, 1e-6, 0.0)[1].tolist() == [np.sqrt(3.0), 1.0]
    assert core.largest_directions(gram, 8, 1e-7, 0.0)[1].tolist() == np.sqrt([3.0, 1.0, 2e-6, 5e-7]).tolist()


@pytest.mark.parametrize(("samples", "entries", "most"), [(17, 12, 8), (5, 12, 8), (1, 4, 8), (17, 3, 8), (9, 20, 2)])
def test_curvature_is_that_of_a_ridge_regression(samples, entries, most):
    g, eps = normal(samples, samples, entries), normal(entries, samples, entries)
    mix, bend = core.fit_curvature(g @ g.T, eps @ g.T, most, 1e-6, 0.1, 0.0)
    u, sigma, vt = np.linalg.svd(g, full_matrices=False)
    u, sigma, v = u[:, :most], sigma[:most], vt[:most].T
    np.testing.assert_allclose(mix, with_signs_of(mix, u / sigma), atol=1e-8)
    v = with_signs_of(g.T @ mix, v)
    # The gradients in these directions, V^T g, are b + B z with z = V^T eps; a penalty is as if there were samples of
    # it alone, whose gradients are 0.
    design = np.column_stack((np.ones(samples), eps @ v))
    penalty = np.diag(np.sqrt(0.1 * (design**2).sum(axis=0)))
    fitted = np.linalg.lstsq(np.vstack((design, penalty)), np.vstack((g @ v, np.zeros((len(penalty), len(v.T))))))[0]
    np.testing.assert_allclose(bend, (fitted[1:] + fitted[1:].T) / 2, rtol=1e-8, atol=1e-9)


def test_there_is_no_curvature_without_samples_or_gradients_or_with_products_that_are_not_finite():
    gram, meet = (lambda g: (g @ g.T, normal(1, 4, 6) @ g.T))(normal(0, 4, 6))
    mix, bend = core.fit_curvature(np.zeros((0, 0)), np.zeros((0, 0)), 8, 1e-6, 0.1, 0.0)
    assert (mix.shape, bend.shape) == ((0, 0), (0, 0))
    for products in ((0 * gram, 0 * meet), (np.inf * gram, meet), (gram, np.inf * meet), (gram, 1e200 * meet)):
        mix, bend = core.fit_curvature(*products, 8, 1e-6, 0.1, 0.0)
        assert (mix.shape, bend.shape) == ((4, 0), (0, 0))
    mix, bend = core.fit_curvature(gram, 0 * meet, 8, 1e-6, 0.1, 0.0)  # Gradients that do not follow the perturbations.
    assert mix.shape == (4, 4)
    assert not bend.any()


@pytest.mark.parametrize(("count", "width", "rank"), [(5, 20, 5), (50, 20, 20), (50, 11, 3), (1, 9, 1), (40, 30, 6)])
def test_main_columns_are_singular_vectors_of_the_largest_rows(count, width, rank):
    gradient = normal(count, count, rank) @ (normal(width, rank, width) * np.geomspace(1, 0.1, rank)[:, None])
    found = core.main_columns(gradient, 8, 32, 1e-6)
    largest = gradient[np.argsort(-np.linalg.norm(gradient, axis=1), kind="stable")[:32]]
    _, sigma, vt = np.linalg.svd(largest)
    right = vt[: min(8, int((sigma**2 > 1e-6 * sigma[0] ** 2).sum()))].T
    np.testing.assert_allclose(found, with_signs_of(found, right), atol=1e-7)
    for scale in (1e200, 1e-200):  # Only directions matter.
        again = core.main_columns(gradient * scale, 8, 32, 1e-6)
        np.testing.assert_allclose(again, with_signs_of(again, right), atol=1e-7)


def test_main_columns_of_few_columns_and_of_no_gradient():
    assert core.main_columns(normal(0, 5, 8), 8, 32, 1e-6).tolist() == np.eye(8).tolist()
    assert core.main_columns(np.zeros((5, 3)), 8, 32, 1e-6).tolist() == np.eye(3).tolist()
    assert core.main_columns(np.zeros((5, 9)), 8, 32, 1e-6).shape == (9, 0)
    assert core.main_columns(np.zeros((0, 9)), 8, 32, 1e-6).shape == (9, 0)


# Terms and the regression on them -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "rank"), [(3, 4), (0, 2), (2, 0), (0, 0)])
def test_terms_are_changes_of_dense_powers(kind, width, rank):
    source, sink, hop, e = random_graph(1, 6, 13)
    local = random_entries(2, 13, 8)
    local[:, 0] = normal(3, 13) ** 2 + 0.1
    eps = local[:, :1] - local[:, 1:]
    y, along, bend = normal(4, 6, width), normal(5, 13, 2 + rank), normal(6, rank, rank)
    terms, kinds, rounding = core.terms_of(local, eps, source, sink, hop, e, 2, kind, y, along, bend, 1e-11)
    rows, moments = plain_rows(local, source, sink, e, 2, kind)
    lost, fewer = rows[..., :1] - rows[..., 1:], moments[..., :1] - moments[..., 1:]
    z = eps.T @ along[:, 2:]
    right = np.column_stack(
        (
            *(lost[k].T @ y for k in range(2)),
            *(fewer[k, j] for k in range(2) for j in range(2)),
            eps.T @ along[:, :2],
            (eps**2).sum(axis=0),
            0.5 * ((z @ bend) * z).sum(axis=1),
        )
    )
    np.testing.assert_allclose(terms, right, rtol=1e-10, atol=1e-12)
    last = [core.FORESEEN, core.FORESEEN, core.ENERGY, core.FORESEEN]
    assert kinds.tolist() == [core.KHOP] * 2 * width + [core.DEGREES] * 4 + last
    np.testing.assert_allclose(rounding[: 2 * width], 1e-11 * np.linalg.norm(rows[:, :, 0] @ y), rtol=1e-10)
    np.testing.assert_allclose(rounding[2 * width : -4], 1e-11 * np.abs(moments[:, :, 0]).max(), rtol=1e-10)
    assert not rounding[-4:].any()


def plain_scales(terms, change, kinds, rounding, faint, firm):
    squares = (terms**2).mean(axis=0)
    size = np.where(kinds == core.KHOP, squares[kinds == core.KHOP].sum(), squares)
    size = np.where(kinds == core.DEGREES, squares * (kinds == core.DEGREES).sum(), size)
    least = np.where(kinds == core.FORESEEN, faint**2 * (change**2).mean(), 0)
    firmly = (kinds == core.FORESEEN) | (kinds == core.ENERGY)
    size = np.where(firmly, np.maximum(squares, least) / firm, size)
    return np.where(size > rounding**2, 1 / np.sqrt(np.where(size > 0, size, 1)), 0)


@pytest.mark.parametrize("faint", [1e-3, 10.0])
@pytest.mark.parametrize("rounding", [0.0, 0.5, 3.0])
def test_scales_of_terms(faint, rounding):
    kinds = np.array([core.KHOP] * 3 + [core.DEGREES] * 4 + [core.FORESEEN] * 3 + [core.ENERGY] * 2)
    terms, change = normal(0, 20, 12) * np.geomspace(0.1, 4, 12), normal(1, 20)
    terms[:, [1, 4, 8, 11]] = 0
    least = np.full(12, rounding)
    found = core.scales_of_terms(terms, change, kinds, least, faint, 100.0)
    np.testing.assert_allclose(found, plain_scales(terms, change, kinds, least, faint, 100.0), rtol=1e-13)
    assert found[11] == 0  # a term that never moves


def test_scales_of_no_terms():
    nothing = np.zeros(0)
    assert core.scales_of_terms(np.zeros((3, 0)), np.ones(3), nothing.astype(np.int64), nothing, 1e-3, 100.0).size == 0


def plain_ridge(phi, change, penalties, nearly):
    """Ridge regressions, of which each leaves out one sample, for every penalty."""

    def solve(some, penalty):
        a, b = phi[some], change[some]
        return np.linalg.solve(a.T @ a + len(phi) * penalty * np.eye(phi.shape[1]), a.T @ b)

    samples, left = np.arange(len(phi)), np.empty((len(penalties), len(phi)))
    for k, penalty in enumerate(penalties):
        for s in samples:
            left[k, s] = phi[s] @ solve(samples != s, penalty) - change[s]
    errors = (left**2).sum(axis=1)
    best = max(k for k in range(len(penalties)) if errors[k] <= nearly * errors.min())
    weights = solve(samples >= 0, penalties[best])
    return weights, best, phi @ weights - change, left[best]


@pytest.mark.parametrize(("samples", "width"), [(20, 6), (9, 9), (12, 1), (1, 1)])
@pytest.mark.parametrize("noise", [0.0, 0.3, 30.0])
def test_ridge_leaves_out_every_sample(samples, width, noise):
    phi = normal(samples, samples, width) * np.geomspace(1, 0.03, width)
    change = phi @ normal(1, width) + noise * normal(2, samples)
    penalties = 10.0 ** np.arange(-6, 3)
    found, right = core.fit_ridge(phi, change, penalties, 1.1), plain_ridge(phi, change, penalties, 1.1)
    assert found[1] == right[1]
    for one, other in zip(found, right, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8 * np.abs(change).max())


def test_ridge_on_terms_that_are_0_and_on_none():
    phi, change, penalties = np.column_stack((normal(0, 8), np.zeros(8))), normal(1, 8), np.array([1e-8, 1e-2])
    found, right = core.fit_ridge(phi, change, penalties, 1.1), plain_ridge(phi, change, penalties, 1.1)
    for one, other in zip(found, right, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    weights, best, residual, left = core.fit_ridge(np.zeros((8, 0)), change, penalties, 1.1)
    assert (len(weights), best) == (0, 1)
    assert residual.tolist() == left.tolist() == (-change).tolist()


# Shares -------------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 999), count=st.integers(0, 25))
def test_alike_items_have_the_first_of_them(seed, count):
    random = np.random.default_rng(seed)
    sinks, weights = random.integers(0, 3, count) * 1000, random.integers(1, 3, count) / 2
    scores = random.integers(-1, 3, count) * (1 + 1e-8 * random.random(count))
    first = core.group_alike(sinks, weights, scores, sinks // 1000, 3)
    for i in range(count):
        same = [
            j
            for j in range(i + 1)
            if sinks[j] == sinks[i] and weights[j] == weights[i] and round(scores[j]) == round(scores[i])
        ]
        assert first[i] == same[0]


def test_items_at_the_same_position_need_not_have_the_same_sink():
    sinks, ones = np.array([5, 7, 5, 7]), np.ones(4)  # A position may stand for all nodes that are further away.
    assert core.group_alike(sinks, ones, ones, np.zeros(4, np.int64), 1).tolist() == [0, 1, 0, 1]


@given(seed=st.integers(0, 999), count=st.integers(0, 20))
def test_sizes_that_are_equal_but_for_rounding_keep_their_order(seed, count):
    random = np.random.default_rng(seed)
    level = random.integers(0, 5, count)
    sizes = level / 7 * (1 + 1e-12 * random.random(count))
    assert core.order_by_size(sizes).tolist() == sorted(range(count), key=lambda i: (-level[i], i))


def plain_shrink(along, noise, order, smallest, growth, wary):
    factor, doubt = np.zeros(len(along)), np.zeros(len(along))
    start, size = 0, smallest
    while start < len(order):
        block = order[start : start + int(size)]
        signal, total = (along[block] ** 2).sum(), noise[block].sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = signal / total if signal > 0 else 0.0
        chance = np.sqrt(2 / len(block))
        excess = max(0.0, ratio - 1) + chance
        if ratio > 1 + chance:
            factor[block] = 1 - (1 + chance if wary else 1) / ratio
            doubt[block] = 1 / (1 + 1 / excess)
        else:
            doubt[block] = excess
        start, size = start + int(size), size * growth
    return factor, doubt


@pytest.mark.parametrize("wary", [False, True])
@given(seed=st.integers(0, 999), count=st.integers(0, 40), size=st.sampled_from([0.1, 1.5, 30.0]))
def test_blocks_are_shrunk(wary, seed, count, size):
    random = np.random.default_rng(seed)
    along, noise = size * random.normal(size=count), random.random(count)
    noise[: count // 3], along[: count // 5] = 0, 0
    order = np.arange(count) if seed % 2 else random.permutation(count)
    found = core.shrink_blocks(along, noise, order, *BLOCKS, float(wary))
    for one, other in zip(found, plain_shrink(along, noise, order, *BLOCKS, wary), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def random_moments(seed, units):
    random = np.random.default_rng(seed)
    return random.normal(size=units), random.uniform(0.2, 2, units), random.normal(size=units)


@pytest.mark.parametrize("units", [0, 1, 9])
def test_normal_equations_of_moments(units):
    (_, spread, common), right = random_moments(units, units), normal(0, units)
    solved = np.linalg.solve(np.diag(spread) + np.outer(common, common), right)
    np.testing.assert_allclose(core.solve_moments(spread, common, right), solved, rtol=1e-11)


def plain_rest(matrix, moments, centred, mean, order, alike, wary):
    average, spread, common = moments
    count = len(centred)
    white = (matrix - average[:, None]) / np.sqrt(spread)[:, None]
    along = white @ centred / count
    noise = np.maximum(white**2 @ centred**2 / count - along**2, 0) / max(count - 1, 1)
    same = alike[:, None] == alike  # [u, u]
    along, noise = same @ along / same.sum(axis=1), same @ noise / same.sum(axis=1) ** 2
    factor, doubt = plain_shrink(along, noise, order, *BLOCKS, wary)
    right = np.sqrt(spread) * factor * along + average * mean
    return np.linalg.solve(np.diag(spread) + np.outer(common, common), right), noise / spread, doubt


def random_shares(seed, units, samples):
    """Moves of units in samples, their moments, and which units are alike."""
    random = np.random.default_rng(seed)
    moments = random_moments(seed, units)
    matrix = moments[0][:, None] + np.sqrt(moments[1])[:, None] * random.normal(size=(units, samples))
    alike = np.arange(units)
    alike[units // 2 :: 3] = units // 2
    return random, matrix, moments, alike


@pytest.mark.parametrize("wary", [False, True])
@pytest.mark.parametrize(("units", "samples"), [(1, 5), (7, 40), (30, 200), (30, 6), (3, 1)])
def test_what_is_left_is_projected(wary, units, samples):
    random, matrix, moments, alike = random_shares(samples, units, samples)
    left, order = normal(0, units) @ matrix + random.normal(size=samples), random.permutation(units)
    given = matrix, moments, left - left.mean(), left.mean(), order, alike
    found, right = core.project_rest(*given, BLOCKS, float(wary)), plain_rest(*given, wary)
    for one, other in zip(found, right, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def plain_shares(matrix, change, mirrored, moments, guess, alike, seen, left, steps, many, wary):
    average, spread, common = moments
    units, count = matrix.shape
    foreseen = guess @ matrix
    scores = guess * (foreseen @ change / (foreseen @ foreseen) if foreseen.any() else 0.0)
    order = np.argsort(-np.abs(guess) * np.sqrt(spread), kind="stable")
    doubt, variance_of_mean = np.zeros(units), 0.0
    for _ in range(steps if units <= count else 1):
        rest = change - scores @ matrix
        odd, even = rest - rest.mean(), rest
        if len(mirrored):
            other = mirrored - scores @ (2 * average[:, None] - matrix)
            odd, even = (rest - other) / 2, (rest + other) / 2
        step, noise, found = plain_rest(matrix, moments, odd, even.mean(), order, alike, False)
        doubt, variance_of_mean = np.maximum(doubt, found), even.var(ddof=1) / count
        scores = scores + (step if units <= many * count else 0)
    variance = doubt * noise
    if len(left) > 1:
        mean, of_left = left.mean(), left.var(ddof=1) / len(left)
        trusted = max(0, 1 - (1 + np.sqrt(2)) * of_left / mean**2) if wary else 1
        step, more, found = plain_rest(seen, moments, left - mean, trusted * mean, order, alike, wary)
        variance, variance_of_mean = variance + found * more, variance_of_mean + of_left
        scores = scores + (step if units <= many * len(left) else 0)
    along = np.linalg.solve(np.diag(spread) + np.outer(common, common), average)
    excess = spread @ variance + variance_of_mean * (average @ along)
    return scores, np.sqrt(variance + variance_of_mean * along**2), excess


@pytest.mark.parametrize("wary", [False, True])
@pytest.mark.parametrize("has_mirrors", [False, True])
@pytest.mark.parametrize("num_seen", [0, 1, 2, 60])
@pytest.mark.parametrize(("units", "samples"), [(1, 6), (12, 80), (30, 20), (30, 6)])
@pytest.mark.parametrize("offset", [0.0, 1.0])  # of what p leaves of F, whose mean is shrunk if the fit is wary
def test_shares_are_those_of_dense_equations(wary, has_mirrors, num_seen, units, samples, offset):
    random, matrix, moments, alike = random_shares(units + samples, units, samples)
    true, average = random.normal(size=units), moments[0][:, None]
    images = 2 * average - matrix if has_mirrors else matrix[:, :0]

    def bent(moves):
        return true @ moves + 0.3 * moves[0] * moves[-1] + 0.2

    seen, guess = average + random.normal(size=(units, num_seen)), true + random.normal(size=units)
    guess[alike != np.arange(units)] = guess[units // 2]
    left = 0.2 * random.normal(size=units) @ seen + random.normal(size=num_seen) + offset
    given = matrix, bent(matrix), bent(images), moments, guess, alike, seen, left, 3, 4
    found = core.project_shares(*given[:5], guess @ matrix, *given[5:], BLOCKS, float(wary))
    for one, other in zip(found, plain_shares(*given, wary), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 64, 100])
def test_falling_sizes_stay_in_order_where_they_are_equal(count):
    sizes = np.random.default_rng(count).integers(0, 9, count).astype(float)
    np.testing.assert_array_equal(core.sort_falling(sizes), np.argsort(-sizes, kind="stable"))
    numbers = np.random.default_rng(count).permutation(3 * count)[:count]
    np.testing.assert_array_equal(core.sort_rising(numbers), np.argsort(numbers))


def test_eigenvectors_are_columns():
    half = np.random.default_rng(0).normal(size=(6, 6))
    values, vectors = core.find_eigenvectors(half @ half.T)
    np.testing.assert_allclose(vectors * values @ vectors.T, half @ half.T, atol=1e-13)
    assert np.all(np.diff(values) >= 0)


def test_shares_of_a_guess_of_0():
    _, matrix, moments, alike = random_shares(3, 5, 50)
    given = matrix, normal(0, 5) @ matrix, np.zeros(0), moments, np.zeros(5), alike, matrix[:, :0], np.zeros(0), 3, 4
    found = core.project_shares(*given[:5], np.zeros(50), *given[5:], BLOCKS, 0.0)
    for one, other in zip(found, plain_shares(*given, False), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
