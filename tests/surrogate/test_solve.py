import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphfaith import InputError
from graphfaith.surrogate import solve
from graphfaith.surrogate.solve import PENALTIES, ridge, truncated_svd, truncated_svd_dual


def problem(samples, parameters, rank=None, seed=0, noise=1.0, dtype=torch.float64):
    """Features [S, P], of that rank if one is given, and a change [S] that they do not quite explain."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*size):
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    phi = normal(samples, parameters) if rank is None else normal(samples, rank) @ normal(rank, parameters)
    return phi.to(dtype), (phi @ normal(parameters) + noise * normal(samples)).to(dtype)


def with_singular_values(values, samples, parameters, seed=0):
    generator = np.random.default_rng(seed)
    u = np.linalg.qr(generator.normal(size=(samples, len(values))))[0]
    v = np.linalg.qr(generator.normal(size=(parameters, len(values))))[0]
    return torch.from_numpy(u * np.array(values) @ v.T), torch.from_numpy(generator.normal(size=samples))


def mean_square(phi, weights, change):
    return (phi.double() @ weights - change.double()).square().mean().item()


SHAPES = [(50, 6, None), (6, 50, None), (8, 8, None), (1, 1, None), (1, 5, None), (5, 1, None)]
DEFICIENT = [(40, 10, 4), (10, 40, 4), (12, 12, 1), (30, 9, 8)]


# The optimum


@pytest.mark.parametrize(("samples", "parameters", "rank"), SHAPES + DEFICIENT)
def test_pseudo_inverse(samples, parameters, rank):
    phi, change = problem(samples, parameters, rank)
    found = truncated_svd(phi, change, threshold=1e-9)
    expected = np.linalg.pinv(phi.numpy(), rcond=1e-10) @ change.numpy()
    np.testing.assert_allclose(found.weights, expected, rtol=1e-9, atol=1e-9)
    assert found.weights.dtype == torch.float64
    assert found.rank == (min(samples, parameters) if rank is None else rank)
    assert found.error == pytest.approx(mean_square(phi, found.weights, change), abs=1e-12)


@pytest.mark.parametrize(("samples", "parameters", "rank"), SHAPES + DEFICIENT)
def test_scipy(samples, parameters, rank):
    phi, change = problem(samples, parameters, rank, seed=3)
    expected, *_ = scipy.linalg.lstsq(phi.numpy(), change.numpy(), cond=1e-10)
    found = truncated_svd(phi, change, threshold=1e-10, relative=True)
    np.testing.assert_allclose(found.weights, expected, rtol=1e-9, atol=1e-9)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(0, 10**6))
def test_no_other_weights_do_better(samples, parameters, rank, seed):
    phi, change = problem(samples, parameters, min(rank, samples, parameters), seed)
    found = truncated_svd(phi, change, threshold=0)
    residual = phi @ found.weights - change
    scale = phi.abs().max() * (change.abs().max() + 1) * samples
    assert (phi.T @ residual).abs().max() < 1e-9 * scale
    generator = torch.Generator().manual_seed(seed)
    for size in (1e-3, 1.0):
        other = found.weights + size * torch.randn(parameters, generator=generator, dtype=torch.float64)
        assert mean_square(phi, other, change) >= found.error * (1 - 1e-9) - 1e-12


@given(st.integers(1, 10), st.integers(2, 12), st.integers(0, 10**6))
def test_of_equal_ones_it_is_the_shortest(samples, parameters, seed):
    rank = min(samples, parameters - 1)
    phi, change = problem(samples, parameters, rank, seed)
    found = truncated_svd(phi, change, threshold=1e-10, relative=True)
    free = scipy.linalg.null_space(phi.numpy(), rcond=1e-10)
    assert free.shape[1] >= parameters - rank
    assert np.abs(free.T @ found.weights.numpy()).max() < 1e-7 * (1 + found.weights.abs().max().item())


def test_a_planted_answer_is_recovered():
    phi, _ = problem(60, 8, noise=0)
    planted = torch.linspace(-2, 3, 8, dtype=torch.float64)
    found = truncated_svd(phi, phi @ planted)
    np.testing.assert_allclose(found.weights, planted, rtol=0, atol=1e-12)
    assert found.error < 1e-24


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_it_is_solved_in_double_precision(dtype):
    phi, change = (10 * part for part in problem(40, 5))
    phi, change = phi.to(dtype), change.to(dtype)
    found = truncated_svd(phi, change)
    expected = np.linalg.pinv(phi.double().numpy()) @ change.double().numpy()
    assert found.weights.dtype == torch.float64
    np.testing.assert_allclose(found.weights, expected, rtol=0, atol=1e-12)
    assert found.error == pytest.approx(mean_square(phi, found.weights, change), rel=1e-12)


def test_the_arguments_are_left_alone():
    phi, change = problem(20, 4)
    copies = phi.clone(), change.clone()
    truncated_svd(phi, change)
    truncated_svd_dual(phi @ phi.T, change)
    assert torch.equal(phi, copies[0])
    assert torch.equal(change, copies[1])


# What is left out


@pytest.mark.parametrize(("threshold", "rank"), [(0, 5), (1e-7, 5), (1e-3, 4), (0.2, 3), (5.0, 2), (50.0, 1), (1e3, 0)])
def test_absolute_threshold(threshold, rank):
    values = [100.0, 10.0, 1.0, 1e-2, 1e-6]
    phi, change = with_singular_values(values, 20, 7)
    for found, weights in both_ways(phi, change, threshold, relative=False):
        assert found.rank == rank
        expected = np.linalg.pinv(phi.numpy(), rcond=max(threshold / 100, 1e-12)) @ change.numpy()
        tolerance = 1e-6 * max(1.0, np.abs(expected).max())
        if rank < 5:
            np.testing.assert_allclose(weights, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("threshold", "rank"), [(0, 4), (1e-4, 4), (2e-3, 3), (0.05, 2), (0.5, 1), (1.0, 0)])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_relative_threshold(threshold, rank, scale):
    phi, change = with_singular_values([scale, 0.1 * scale, 1e-2 * scale, 1e-3 * scale], 15, 6)
    for found, weights in both_ways(phi, change, threshold, relative=True):
        assert found.rank == rank
        expected = np.linalg.pinv(phi.numpy(), rcond=max(threshold, 1e-12)) @ change.numpy() if rank else np.zeros(6)
        np.testing.assert_allclose(weights, expected, rtol=1e-6, atol=1e-8 / scale)


def both_ways(phi, change, threshold, relative):
    primal = truncated_svd(phi, change, threshold, relative=relative)
    dual = truncated_svd_dual(phi @ phi.T, change, threshold, relative=relative)
    # What is under the rounding of the Gram matrix cannot be told from zero there.
    sigma = torch.linalg.svdvals(phi)
    told_apart = float(sigma[: primal.rank].min()) > 1e-6 * float(sigma[0]) if primal.rank else True
    yield primal, primal.weights
    if told_apart:
        yield dual, phi.T @ dual.weights


def test_the_default_threshold_is_the_papers():
    phi, change = with_singular_values([1.0, 2e-4, 5e-5], 10, 5)
    assert truncated_svd(phi, change).rank == 2
    assert truncated_svd_dual(phi @ phi.T, change).rank == 2


def test_a_singular_value_at_the_threshold_is_left_out():
    phi = torch.diag(torch.tensor([2.0, 0.5], dtype=torch.float64))
    change = torch.ones(2, dtype=torch.float64)
    assert truncated_svd(phi, change, threshold=0.5).weights.tolist() == [0.5, 0.0]
    assert truncated_svd(phi, change, threshold=0.25, relative=True).weights.tolist() == [0.5, 0.0]
    assert truncated_svd(phi, change, threshold=0.499).rank == 2


def test_rounding_is_not_taken_for_a_parameter():
    phi, change = problem(50, 10, rank=3, seed=8)
    for found in (truncated_svd(phi, change, 0), truncated_svd_dual(phi @ phi.T, change, 0)):
        assert found.rank == 3
        assert found.weights.abs().max() < 1e3


def test_nothing_to_learn_from():
    for phi in (torch.zeros(4, 3), torch.zeros(4, 0)):
        found = truncated_svd(phi, torch.tensor([1.0, 2.0, 3.0, 4.0]), threshold=0)
        assert found.rank == 0
        assert found.weights.tolist() == [0.0] * phi.size(1)
        assert found.error == pytest.approx(7.5)
    dual = truncated_svd_dual(torch.zeros(4, 4), torch.ones(4), threshold=0)
    assert dual.rank == 0
    assert dual.weights.abs().max() == 0
    assert dual.error == 1


# By the Gram matrix


@pytest.mark.parametrize(("samples", "parameters", "rank"), SHAPES + DEFICIENT)
@pytest.mark.parametrize("relative", [True, False])
def test_dual_equals_primal(samples, parameters, rank, relative):
    phi, change = problem(samples, parameters, rank, seed=5)
    primal = truncated_svd(phi, change, 1e-4, relative=relative)
    dual = truncated_svd_dual(phi @ phi.T, change, 1e-4, relative=relative)
    assert dual.rank == primal.rank
    assert dual.weights.shape == (samples,)
    np.testing.assert_allclose(phi.T @ dual.weights, primal.weights, rtol=0, atol=1e-8)
    assert dual.error == pytest.approx(primal.error, abs=1e-10)


def test_dual_survives_eigenvalues_below_zero():
    phi, change = problem(30, 3, seed=2)
    gram = phi @ phi.T - 1e-13 * torch.eye(30, dtype=torch.float64)
    found = truncated_svd_dual(gram, change)
    assert found.rank == 3
    np.testing.assert_allclose(phi.T @ found.weights, truncated_svd(phi, change).weights, rtol=0, atol=1e-8)


# What is refused


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_named(value):
    for function in (truncated_svd, truncated_svd_dual):
        phi, change = problem(6, 6)
        phi[4, 2] = value
        with pytest.raises(InputError, match=r"features.*not finite.*sample 4"):
            function(phi, change)
        phi, change = problem(6, 6)
        change[3] = value
        with pytest.raises(InputError, match=r"change.*not finite.*sample 3"):
            function(phi, change)


@pytest.mark.parametrize(
    ("phi", "change"),
    [((5, 3), (4,)), ((5, 3), (3,)), ((5, 3), (5, 1)), ((5,), (5,)), ((2, 5, 3), (2,)), ((5, 3), ()), ((), ())],
)
def test_shapes_are_named(phi, change):
    for function in (truncated_svd, truncated_svd_dual):
        with pytest.raises(InputError) as caught:
            function(torch.ones(phi), torch.ones(change))
        assert f"{list(phi)}, {list(change)}" in str(caught.value)


def test_a_gram_matrix_is_square():
    with pytest.raises(InputError, match=r"\[5, 3\]"):
        truncated_svd_dual(torch.ones(5, 3), torch.ones(5))


def test_no_samples():
    for phi in (torch.ones(0, 3), torch.ones(0, 0)):
        with pytest.raises(InputError, match="no samples"):
            truncated_svd(phi, torch.ones(0))


@pytest.mark.parametrize("threshold", [-1e-9, -1, math.nan, -math.inf])
def test_the_threshold_is_checked(threshold):
    phi, change = problem(4, 4)
    for function in (truncated_svd, truncated_svd_dual):
        with pytest.raises(InputError, match=f"threshold.*{threshold}"):
            function(phi, change, threshold)


def test_the_other_driver(monkeypatch):
    phi, change = problem(12, 5)
    expected = truncated_svd(phi, change)

    def give_up(*arguments, **options):
        raise RuntimeError("did not converge")

    monkeypatch.setattr(solve.torch.linalg, "svd", give_up)
    found = truncated_svd(phi, change)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=0, atol=1e-12)
    assert found.rank == expected.rank


# Three ways to one answer


@pytest.fixture
def way(monkeypatch):
    """Which way the last answer was found: "cholesky", "reflections" or "svd", and "reflections, svd" of a factor."""
    taken = []
    for name in ("_by_cholesky", "_by_reflections", "_svd"):
        usual = getattr(solve, name)

        def spied(*arguments, name=name, usual=usual):
            found = usual(*arguments)
            if found is not None:
                taken.append(name.removeprefix("_").removeprefix("by_"))
            return found

        monkeypatch.setattr(solve, name, spied)

    def last():
        found = ", ".join(sorted(taken))
        taken.clear()
        return found

    return last


def by_decomposition(phi, change, threshold, relative):
    """The answer, its rank and the right singular vectors that were kept, [P, rank], by numpy."""
    u, sigma, vt = np.linalg.svd(phi.numpy(), full_matrices=False)
    largest = sigma[0] if len(sigma) else 0.0
    keep = sigma > max(threshold * largest if relative else threshold, 1e-14 * largest)
    return vt[keep].T @ (u[:, keep].T @ change.numpy() / sigma[keep]), int(keep.sum()), vt[keep].T


def spread(count, condition):
    return np.geomspace(2.0, 2.0 / condition, count).tolist()


TALL, WIDE, SQUARE = (30, 6), (6, 30), (8, 8)
PROBLEMS = {
    "tall": (spread(6, 50), TALL, 1e-4, "cholesky"),
    "wide": (spread(6, 50), WIDE, 1e-4, "cholesky"),
    "square": (spread(8, 50), SQUARE, 1e-4, "cholesky"),
    "wider than a block": (spread(150, 5), (150, 170), 1e-4, "cholesky"),
    "taller by one": (spread(6, 50), (7, 6), 1e-4, "cholesky"),
    "tall, nearly singular": (spread(6, 1e5), TALL, 1e-7, "reflections"),
    "wide, nearly singular": (spread(6, 1e5), WIDE, 1e-7, "svd"),
    "square, nearly singular": (spread(8, 1e5), SQUARE, 1e-7, "svd"),
    "taller by one, nearly singular": (spread(6, 1e5), (7, 6), 1e-7, "reflections"),
    "tall, deficient": (spread(4, 5), TALL, 1e-4, "reflections, svd"),
    "wide, deficient": (spread(4, 5), WIDE, 1e-4, "svd"),
    "square, deficient": (spread(4, 5), SQUARE, 1e-4, "svd"),
    "tall, just above": ([2.0, 1.0, 0.01 * (1 + 1e-6)], (30, 3), 0.01, "reflections, svd"),
    "tall, just below": ([2.0, 1.0, 0.01 * (1 - 1e-6)], (30, 3), 0.01, "reflections, svd"),
    "wide, just above": ([2.0, 1.0, 0.01 * (1 + 1e-6)], (3, 30), 0.01, "svd"),
    "wide, just below": ([2.0, 1.0, 0.01 * (1 - 1e-6)], (3, 30), 0.01, "svd"),
    "tall, well above": ([2.0, 1.0, 0.02], (30, 3), 0.01, "cholesky"),
    "wide, well above": ([2.0, 1.0, 0.02], (3, 30), 0.01, "cholesky"),
}


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_way_gives_the_truncated_decomposition(way, name, relative):
    values, shape, threshold, expected_way = PROBLEMS[name]
    phi, change = with_singular_values(values, *shape)
    threshold = threshold / values[0] if relative else threshold
    expected, rank, _ = by_decomposition(phi, change, threshold, relative)
    found = truncated_svd(phi, change, threshold, relative=relative)
    assert way() == expected_way
    assert found.rank == rank == len(values) - ("below" in name)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found.weights, expected, rtol=0, atol=1e-9 * scale)
    cut = threshold if relative else threshold / values[0]
    np.testing.assert_allclose(
        found.weights, np.linalg.pinv(phi.numpy(), rcond=cut) @ change.numpy(), atol=1e-9 * scale
    )
    by_scipy = scipy.linalg.lstsq(phi.numpy(), change.numpy(), cond=cut)[0]
    np.testing.assert_allclose(found.weights, by_scipy, rtol=0, atol=1e-9 * scale)
    np.testing.assert_allclose(found.residual, phi.numpy() @ expected - change.numpy(), rtol=0, atol=1e-9)
    assert found.error == pytest.approx(mean_square(phi, torch.from_numpy(expected), change), abs=1e-10)


@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1e8, 1e200])
def test_products_that_are_too_small_or_too_large_are_left_alone(shape, scale):
    phi, change = with_singular_values(spread(6, 50), *shape)
    expected, rank, _ = by_decomposition(phi, change, 1e-4, True)
    found = truncated_svd(phi * scale, change, 1e-4, relative=True)
    assert found.rank == rank == 6
    np.testing.assert_allclose(found.weights * scale, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("threshold", [0, 1e-4])
@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("shape", [TALL, WIDE, SQUARE, (1, 5), (5, 1), (1, 1)])
def test_zeros_have_no_rank(shape, relative, threshold):
    change = torch.arange(1.0, shape[0] + 1, dtype=torch.float64)
    found = truncated_svd(torch.zeros(shape), change, threshold, relative=relative)
    assert found.rank == 0
    assert found.weights.tolist() == [0.0] * shape[1]
    assert found.residual.tolist() == (-change).tolist()
    assert found.left_out == pytest.approx(found.error)


@pytest.mark.parametrize("samples", [1, 7])
def test_no_column(samples):
    change = torch.arange(1.0, samples + 1, dtype=torch.float64)
    found = truncated_svd(torch.zeros(samples, 0), change)
    assert (found.rank, found.weights.shape) == (0, (0,))
    assert found.error == found.left_out == pytest.approx(float(change.square().mean()))


def test_one_sample_and_one_column():
    row, column = torch.tensor([[3.0, 0.0, 4.0]]), torch.tensor([[3.0], [4.0]])
    found = truncated_svd(row, torch.tensor([10.0]))
    assert found.rank == 1
    np.testing.assert_allclose(found.weights, [1.2, 0.0, 1.6], rtol=1e-14)
    assert found.left_out == math.inf
    found = truncated_svd(column, torch.tensor([1.0, 3.0]))
    assert found.rank == 1
    np.testing.assert_allclose(found.weights, [15 / 25], rtol=1e-14)
    assert found.left_out == pytest.approx(((1 - 3 * 3 / 4) ** 2 + (3 - 4 / 3) ** 2) / 2)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if "wide" not in name or "deficient" in name])
def test_left_out_is_the_error_on_a_sample_that_was_left_out(way, name):
    values, shape, threshold, expected_way = PROBLEMS[name]
    phi, change = with_singular_values(values, *shape)
    found = truncated_svd(phi, change, threshold)
    assert way() == expected_way
    kept = phi.numpy() @ by_decomposition(phi, change, threshold, False)[2]  # what is left out stays so
    if found.rank == len(phi):
        assert found.left_out == math.inf
        return
    errors = []
    for left in range(len(phi)):
        rest = np.arange(len(phi)) != left
        weights = np.linalg.lstsq(kept[rest], change.numpy()[rest], rcond=None)[0]
        errors.append((kept[left] @ weights - change[left].item()) ** 2)
    assert found.left_out == pytest.approx(np.mean(errors), rel=1e-7)
    assert found.left_out > found.error


@pytest.mark.parametrize("name", ["wide", "wide, nearly singular", "square", "square, nearly singular"])
def test_a_fit_that_passes_through_every_sample_has_learnt_nothing(name):
    values, shape, threshold, _ = PROBLEMS[name]
    assert truncated_svd(*with_singular_values(values, *shape), threshold).left_out == math.inf


# NIST's Longley problem, a hard one: https://www.itl.nist.gov/div898/strd/lls/data/Longley.shtml

LONGLEY = np.array(
    [
        [60323, 83.0, 234289, 2356, 1590, 107608, 1947],
        [61122, 88.5, 259426, 2325, 1456, 108632, 1948],
        [60171, 88.2, 258054, 3682, 1616, 109773, 1949],
        [61187, 89.5, 284599, 3351, 1650, 110929, 1950],
        [63221, 96.2, 328975, 2099, 3099, 112075, 1951],
        [63639, 98.1, 346999, 1932, 3594, 113270, 1952],
        [64989, 99.0, 365385, 1870, 3547, 115094, 1953],
        [63761, 100.0, 363112, 3578, 3350, 116219, 1954],
        [66019, 101.2, 397469, 2904, 3048, 117388, 1955],
        [67857, 104.6, 419180, 2822, 2857, 118734, 1956],
        [68169, 108.4, 442769, 2936, 2798, 120445, 1957],
        [66513, 110.8, 444546, 4681, 2637, 121950, 1958],
        [68655, 112.6, 482704, 3813, 2552, 123366, 1959],
        [69564, 114.2, 502601, 3931, 2514, 125368, 1960],
        [69331, 115.7, 518173, 4806, 2572, 127852, 1961],
        [70551, 116.9, 554894, 4007, 2827, 130081, 1962],
    ]
)
CERTIFIED = [
    -3482258.63459582,
    15.0618722713733,
    -0.358191792925910e-01,
    -2.02022980381683,
    -1.03322686717359,
    -0.511041056535807e-01,
    1829.15146461355,
]
CERTIFIED_SUM_OF_SQUARES = 836424.055505915


def test_longley():
    phi = torch.from_numpy(np.hstack([np.ones((16, 1)), LONGLEY[:, 1:]]))
    found = truncated_svd(phi, torch.from_numpy(LONGLEY[:, 0]), threshold=0)
    assert found.rank == 7
    np.testing.assert_allclose(found.weights, CERTIFIED, rtol=1e-7)
    assert found.error * 16 == pytest.approx(CERTIFIED_SUM_OF_SQUARES, rel=1e-8)


# Ridge ----------------------------------------------------------------------------------------------------------------


def by_hand(phi, change, penalty):
    """Leave-one-out residuals of a ridge regression, one fit a sample."""
    count, left = len(phi), []
    for sample in range(count):
        others = torch.arange(count) != sample
        normal = phi[others].T @ phi[others] + count * penalty * torch.eye(phi.size(1), dtype=torch.float64)
        weights = torch.linalg.solve(normal, phi[others].T @ change[others])
        left.append(float(phi[sample] @ weights - change[sample]))
    return np.array(left)


@pytest.mark.parametrize(("samples", "parameters", "rank"), [(30, 5, 5), (12, 40, 12), (20, 8, 3), (5, 1, 1)])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_ridge_takes_the_largest_penalty_that_is_nearly_the_best(samples, parameters, rank, noise):
    phi, change = problem(samples, parameters, rank, noise=noise)
    phi = phi / phi.square().sum(dim=1).mean().sqrt()
    found = ridge(phi, change)
    left = {penalty: by_hand(phi, change, penalty) for penalty in PENALTIES}
    errors = {penalty: np.mean(residual**2) for penalty, residual in left.items()}
    near = [penalty for penalty, error in errors.items() if error <= 1.1 * min(errors.values())]
    assert found.penalty == max(near)
    np.testing.assert_allclose(found.left_out_residual, left[found.penalty], rtol=1e-5, atol=1e-9)
    assert found.left_out == pytest.approx(errors[found.penalty], rel=1e-5, abs=1e-15)
    normal = phi.T @ phi + samples * found.penalty * torch.eye(parameters, dtype=torch.float64)
    torch.testing.assert_close(found.weights, torch.linalg.solve(normal, phi.T @ change), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(found.residual, phi @ found.weights - change)
    assert found.error == pytest.approx(float((phi @ found.weights - change).square().mean()))


def test_ridge_is_not_fooled_by_a_fit_through_every_sample():
    """Five times as many random columns as samples foresee nothing, though they can be made to pass through all."""
    generator = torch.Generator().manual_seed(0)
    phi = torch.randn(40, 200, generator=generator, dtype=torch.float64) / 200**0.5
    change = torch.randn(40, generator=generator, dtype=torch.float64)
    found = ridge(phi, change)
    assert found.left_out > 0.8 * float(change.square().mean())
    assert float((phi @ found.weights).square().mean()) < 0.1 * float(change.square().mean())


@pytest.mark.parametrize("parameters", [0, 3])
def test_ridge_of_nothing(parameters):
    found = ridge(torch.zeros(6, parameters), torch.arange(6.0))
    assert not found.weights.any()
    assert found.left_out_residual.tolist() == [0.0, -1.0, -2.0, -3.0, -4.0, -5.0]


def test_ridge_names_what_is_not_finite():
    with pytest.raises(InputError, match="change to be fitted are not finite"):
        ridge(torch.ones(3, 1), torch.tensor([0.0, float("nan"), 1.0]))
