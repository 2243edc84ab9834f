import numpy as np
import pytest
from scipy import stats

from graphfaith import InputError
from graphfaith.sampling import draw
from graphfaith.sampling.draw import (
    below,
    bits,
    check_seed,
    joined_keys,
    keys,
    moves,
    symmetric32,
    uniform,
)


def uniform32(rows, columns):
    return (symmetric32(rows, columns, 1.0) + 1) / 2


SEEDS = [0, 1, 2, 3, 255, 256, 2**31, 2**32, 2**32 + 1, 2**63, 2**64 - 1]


def sample_keys(count, seed=0):
    return keys(seed, "sample", np.arange(count))


def edge_keys(count, seed=0):
    return keys(seed, "edge", np.arange(count))


def feature_keys(count, seed=0):
    """Return row keys of features, for ``count`` pairs of a sample and a node."""
    places = np.arange(count)
    return keys(seed, "feature", places // 40, places % 40)


def column_keys(count, seed=0):
    return keys(seed, "column", np.arange(count))


def features(rows=200, columns=500, seed=0):
    """Draw features in (-1, 1)."""
    return symmetric32(feature_keys(rows, seed), column_keys(columns, seed), 1.0).astype(np.float64)


def words(rows, columns):
    """Return the 23 bits from which features are computed."""
    drawn = symmetric32(rows, columns, 2.0**22).astype(np.float64) + (2.0**22 - 0.5)  # exact
    assert (drawn == np.floor(drawn)).all()
    return drawn.astype(np.uint32)


def table(rows=200, columns=500, seed=0):
    return uniform(sample_keys(rows, seed), edge_keys(columns, seed))


def assert_uncorrelated(variables):
    """Check that no two rows of ``variables`` [k, n] correlate, and that all correlations together are random."""
    k, n = variables.shape
    r = np.corrcoef(variables)[np.triu_indices(k, 1)]
    assert np.abs(r).max() < 5.5 / np.sqrt(n)
    assert stats.chi2(len(r)).sf(n * np.square(r).sum()) > 1e-4


def assert_uniform(values, bins=256):
    values = np.ravel(values)
    assert stats.kstest(values, "uniform").pvalue > 1e-4
    counts = np.histogram(values, bins=bins, range=(0, 1))[0]
    assert counts.sum() == values.size
    assert stats.chisquare(counts).pvalue > 1e-4


# A seed must always give the same numbers, so these must never change.

GOLDEN_KEYS = {
    "edge": [8253192852835581811, 10564849494040471737, 7303703402530221468],
    "feature": [[615485338360319587, 15595131319741316038], [12656799507718903492, 11485026786224811527]],
    "loop": [7262707842837735788],
}
GOLDEN_BITS = [[2279074494, 614216796, 3111899678, 2705916398], [3632237321, 1345079850, 3518026295, 36455825]]
GOLDEN_BITS_12345 = [[557374347, 2482050577]]
GOLDEN_WORDS = [[2081810, 1861729, 7439437, 2448298], [4274244, 6050715, 3406235, 3286290]]


def test_keys_are_pinned():
    assert keys(0, "edge", np.arange(3)).tolist() == GOLDEN_KEYS["edge"]
    assert keys(7, "feature", np.array([[4], [5]]), np.array([[0, 9]])).tolist() == GOLDEN_KEYS["feature"]
    assert keys(2**64 - 1, "loop", np.array([2**40])).tolist() == GOLDEN_KEYS["loop"]


def test_bits_are_pinned():
    assert bits(sample_keys(2), edge_keys(4)).tolist() == GOLDEN_BITS
    assert bits(sample_keys(1, seed=12345), edge_keys(2, seed=12345)).tolist() == GOLDEN_BITS_12345


def test_uniform_is_pinned_to_the_bits():
    expected = (np.array(GOLDEN_BITS) + 0.5) / 2**32
    assert uniform(sample_keys(2), edge_keys(4)).tolist() == expected.tolist()


def test_single_precision_draws_are_pinned():
    assert words(sample_keys(2), edge_keys(4)).tolist() == GOLDEN_WORDS
    single = symmetric32(sample_keys(2), edge_keys(4), 0.5)
    assert single.dtype == np.float32
    assert single.tolist() == (0.5 * ((np.array(GOLDEN_WORDS) + 0.5) / 2**22 - 1)).tolist()


def test_single_precision_draws_are_what_whole_numbers_make_them():
    rows, columns = feature_keys(5), column_keys(7)
    low, mask = 2**32 - 1, 2**32
    expected = []
    for row in rows.tolist():
        for column in columns.tolist():
            word = ((row & low | 1) * (column & low) + (row >> 32)) % mask
            expected.append((word ^ word >> 16) * (column >> 32 | 1) % mask >> 9)
    assert words(rows, columns).ravel().tolist() == expected


# Each draw is uniform


@pytest.mark.parametrize("seed", SEEDS)
def test_draws_are_uniform(seed):
    assert_uniform(table(seed=seed))


@pytest.mark.parametrize("seed", [0, 2**40])
def test_single_precision_draws_are_uniform(seed):
    rows = keys(seed, "feature", np.arange(20)[:, None], np.arange(30)[None, :]).reshape(-1)
    assert_uniform(uniform32(rows, keys(seed, "column", np.arange(200))))


@pytest.mark.parametrize("axis", [0, 1])
def test_single_precision_draws_of_every_row_and_every_column_are_uniform(axis):
    lines = (features(400, 400) + 1) / 2
    pvalues = [stats.kstest(line, "uniform").pvalue for line in (lines if axis == 0 else lines.T)]
    assert min(pvalues) > 1e-3 / len(pvalues)
    assert stats.kstest(pvalues, "uniform").pvalue > 1e-4


def test_every_bit_of_single_precision_draws_is_fair():
    drawn = words(feature_keys(300), column_keys(1000))
    assert drawn.max() < 1 << 23
    for place in range(23):
        ones = (drawn >> np.uint32(place)) & np.uint32(1)
        assert stats.binomtest(int(ones.sum()), ones.size).pvalue > 1e-5, place
        for axis in (0, 1):
            sums = ones.sum(axis=axis)  # the number of ones in 300 or 1000 fair bits
            spread = np.square(2 * sums.astype(np.float64) - ones.shape[axis]).sum() / ones.shape[axis]
            assert stats.chi2(len(sums)).sf(spread) > 1e-5, (place, axis)


@pytest.mark.parametrize("axis", [0, 1])
def test_every_row_and_every_column_is_uniform(axis):
    lines = table(400, 400) if axis == 0 else table(400, 400).T
    pvalues = [stats.kstest(line, "uniform").pvalue for line in lines]
    assert min(pvalues) > 1e-3 / len(pvalues)
    assert stats.kstest(pvalues, "uniform").pvalue > 1e-4


def test_every_bit_is_fair():
    drawn = bits(sample_keys(300), edge_keys(1000))
    for place in range(32):
        ones = int(((drawn >> np.uint32(place)) & np.uint32(1)).sum())
        assert stats.binomtest(ones, drawn.size).pvalue > 1e-5, place


ENDS = np.array([0, 1, 255, 256, 2**31 - 1, 2**31, 2**32 - 257, 2**32 - 2, 2**32 - 1], dtype=np.uint32)


def test_draws_lie_inside_the_open_interval_and_are_symmetric(monkeypatch):
    monkeypatch.setattr(draw, "bits", lambda rows, columns: ENDS[None].copy())
    low = uniform(None, None)
    monkeypatch.setattr(draw, "bits", lambda rows, columns: ~ENDS[None])
    high = uniform(None, None)
    assert low.min() > 0
    assert low.max() < 1
    assert (low + high == 1).all()
    assert (np.diff(low[0]) >= 0).all()


def rows_that_draw(wanted):
    """Return row keys whose 32 bits are ``wanted`` in the column with key 0.

    Its key makes the first factor 0 and the second factor 1.
    """
    return (wanted ^ (wanted >> np.uint32(16))).astype(np.uint64) << np.uint64(32)


@pytest.mark.parametrize("scale", [1.0, 0.1, 1 / 3, 7.0, 0.2 * 255, 1 + 2.0**-24, 2 - 2.0**-24, 1e30, 1e-30])
def test_single_precision_draws_lie_inside_the_open_interval_and_are_symmetric(scale):
    column = np.zeros(1, dtype=np.uint64)
    low = symmetric32(rows_that_draw(ENDS), column, scale)[:, 0]
    high = symmetric32(rows_that_draw(~ENDS), column, scale)[:, 0]
    assert (np.abs(low.astype(np.float64)) < scale).all()
    assert (np.abs(low) < np.float32(scale)).all()
    assert (low == -high).all()
    assert (np.diff(low) >= 0).all()
    furthest = np.float32(2**22 - 0.5) * np.float32(scale * 2.0**-22)
    assert low[[0, -1]].tolist() == [-furthest, furthest]
    assert furthest == pytest.approx((2**22 - 0.5) * 2.0**-22 * scale, rel=2.0**-22)


def test_single_precision_draws_next_to_zero():
    middle = np.array([2**31 - 1, 2**31], dtype=np.uint32)
    drawn = symmetric32(rows_that_draw(middle), np.zeros(1, dtype=np.uint64), 1.0)
    assert drawn.tolist() == [[-(2.0**-23)], [2.0**-23]]


def test_means_and_variances():
    drawn = table(500, 1000)
    assert abs(drawn.mean() - 1 / 2) < 4 * np.sqrt(1 / 12 / drawn.size)
    assert abs(drawn.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / drawn.size)


# Different draws are independent


def test_rows_are_uncorrelated():
    assert_uncorrelated(table(150, 3000))


def test_columns_are_uncorrelated():
    assert_uncorrelated(table(3000, 150).T)


def test_seeds_are_uncorrelated():
    assert_uncorrelated(np.stack([table(30, 200, seed).ravel() for seed in [*SEEDS, *range(10, 60)]]))


def test_seeds_are_uncorrelated_when_shifted():
    """The draws of seed s + 1 are not those of seed s shifted by one sample or one edge."""
    first, second = table(101, 101, seed=4), table(101, 101, seed=5)
    shifted = [first[1:, 1:], second[1:, 1:], second[:-1, 1:], second[1:, :-1], second[:-1, :-1], second[1:, 1:].T]
    assert_uncorrelated(np.stack([part.ravel() for part in shifted]))


def test_streams_are_uncorrelated():
    streams = ["sample", "edge", "loop", "feature", "column"]
    columns = edge_keys(500)
    drawn = [uniform(keys(0, stream, np.arange(40)), columns).ravel() for stream in streams]
    drawn += [uniform(sample_keys(40), keys(0, stream, np.arange(500))).ravel() for stream in ("loop", "column")]
    assert_uncorrelated(np.stack(drawn))


def test_features_are_uncorrelated_over_samples_and_nodes():
    rows = keys(0, "feature", np.arange(12)[:, None], np.arange(12)[None, :]).reshape(-1)
    assert_uncorrelated(uniform32(rows, keys(0, "column", np.arange(4000))).astype(np.float64))


# The bits of a feature begin as a(row) b(column) + c(row), so these tests look for traces of such products.


def test_rows_of_features_are_uncorrelated():
    assert_uncorrelated(features(150, 3000))


def test_columns_of_features_are_uncorrelated():
    assert_uncorrelated(features(3000, 150).T)


def test_seeds_of_features_are_uncorrelated():
    assert_uncorrelated(np.stack([features(30, 200, seed).ravel() for seed in [*SEEDS, *range(10, 60)]]))


def test_sizes_of_features_are_uncorrelated():
    drawn = np.square(features(2000, 150))
    assert_uncorrelated(drawn[:150])
    assert_uncorrelated(drawn.T)


def test_products_of_neighbours_are_uncorrelated():
    drawn = features(600, 600)
    beside, above = drawn[:, ::2] * drawn[:, 1::2], drawn[::2] * drawn[1::2]
    for products in (beside, above):
        assert_uncorrelated(products)
        assert_uncorrelated(products.T)


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_minors_of_features_vanish_on_average(seed):
    drawn = features(1000, 1000, seed)
    down, up = drawn[::2, ::2] * drawn[1::2, 1::2], drawn[1::2, ::2] * drawn[::2, 1::2]
    for of in (np.positive, np.square, np.sign):
        assert_uncorrelated(np.stack([of(down).ravel(), of(up).ravel()]))


def test_four_features_of_two_rows_and_two_columns_are_jointly_uniform():
    drawn = words(feature_keys(800), column_keys(800)) >> np.uint32(20)
    a, b, c, d = drawn[::2, ::2], drawn[1::2, ::2], drawn[::2, 1::2], drawn[1::2, 1::2]
    counts = np.bincount((((a * 8 + b) * 8 + c) * 8 + d).ravel(), minlength=8**4)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_a_feature_is_no_sum_of_its_row_and_column():
    drawn = words(feature_keys(300), column_keys(300))
    a, b, c, d = drawn[::2, ::2], drawn[1::2, ::2], drawn[::2, 1::2], drawn[1::2, 1::2]
    assert_uniform(((a - b - c + d) % np.uint32(1 << 23) + 0.5) / 2.0**23)
    assert_uniform(((a ^ b ^ c ^ d) + 0.5) / 2.0**23)


def test_rows_of_features_that_share_half_a_key_are_uncorrelated():
    """Two rows share half a key by chance only among many thousands of rows, so the keys are made here."""
    half = np.uint64(32)
    low, high = feature_keys(60), feature_keys(60, seed=1)
    columns = column_keys(3000)
    for rows in ((high >> half << half) | (low[0] & np.uint64(2**32 - 1)), (low >> half) | (high[0] >> half << half)):
        assert_uncorrelated(symmetric32(rows, columns, 1.0).astype(np.float64))


@pytest.mark.parametrize("step", [(0, 1), (1, 0), (1, 1)])
def test_neighbouring_features_are_jointly_uniform(step):
    drawn = features(300, 300)
    after = drawn[step[0] :, step[1] :]
    before = drawn[: after.shape[0], : after.shape[1]]
    counts = np.histogram2d(before.ravel(), after.ravel(), bins=16, range=[(-1, 1), (-1, 1)])[0]
    assert stats.chisquare(counts.ravel()).pvalue > 1e-4


@pytest.mark.parametrize("step", [(0, 1), (1, 0), (1, 1)])
def test_neighbours_are_jointly_uniform(step):
    drawn = table(300, 300)
    after = drawn[step[0] :, step[1] :]
    before = drawn[: after.shape[0], : after.shape[1]]
    counts = np.histogram2d(before.ravel(), after.ravel(), bins=16, range=[(0, 1), (0, 1)])[0]
    assert stats.chisquare(counts.ravel()).pvalue > 1e-4


def test_a_draw_is_no_sum_of_its_row_and_column():
    drawn = bits(sample_keys(300), edge_keys(300))
    a, b, c, d = drawn[::2, ::2], drawn[1::2, ::2], drawn[::2, 1::2], drawn[1::2, 1::2]
    assert_uniform((a - b - c + d) / 2.0**32)
    assert_uniform((a ^ b ^ c ^ d) / 2.0**32)


# A draw depends only on its keys


def test_a_draw_depends_only_on_its_keys():
    rows, columns = sample_keys(40), edge_keys(30)
    whole = uniform(rows, columns)
    some_rows, some_columns = np.array([39, 0, 17, 17]), np.array([5, 29, 1])
    assert np.array_equal(uniform(rows[some_rows], columns[some_columns]), whole[np.ix_(some_rows, some_columns)])
    assert uniform(rows[12:13], columns[8:9]).item() == whole[12, 8]


def test_a_feature_depends_only_on_its_keys():
    rows, columns = feature_keys(40), column_keys(30)
    whole = symmetric32(rows, columns, 0.3)
    some_rows, some_columns = np.array([39, 0, 17, 17]), np.array([5, 29, 1])
    drawn = symmetric32(rows[some_rows], columns[some_columns], 0.3)
    assert np.array_equal(drawn, whole[np.ix_(some_rows, some_columns)])
    assert symmetric32(rows[12:13], columns[8:9], 0.3).item() == whole[12, 8]
    assert np.array_equal(symmetric32(rows[::-1], columns[::-1], 0.3), whole[::-1, ::-1])


def test_column_after_column_is_the_same():
    rows, columns = sample_keys(37), edge_keys(23)
    drawn = uniform(rows, columns)
    assert drawn.flags.c_contiguous
    dropped = below(rows, columns, 0.3)
    assert np.array_equal(dropped, drawn < 0.3)
    assert dropped.shape == (37, 23)
    assert dropped.flags.f_contiguous


@pytest.mark.parametrize("scale", [0.3, 1.0, 1e-315])
def test_moves_are_draws_up_to_the_entry_where_it_is_felt(scale):
    samples, edges, nodes = np.arange(3, 40), np.array([5, 0, 17]), np.array([4, 9])
    rows = keys(7, "sample", samples)
    columns = np.concatenate([keys(7, "edge", edges), keys(7, "loop", nodes)])
    weight, felt = scale * np.array([1.0, 0.1, 0.0, 2.0, 1.0]), np.array([True, True, True, True, False])
    eps, values = moves(7, samples, edges, nodes, scale, weight, felt)
    drawn = (scale * (2 * uniform(rows, columns) - 1)).T
    assert np.array_equal(eps, np.where(felt[:, None], np.minimum(drawn, weight[:, None]), 0.0))
    assert np.array_equal(values[:, 0], weight)
    assert np.array_equal(values[:, 1:], weight[:, None] - eps)
    assert (values >= 0).all()


def test_a_key_depends_only_on_its_counters():
    whole = keys(3, "feature", np.arange(20)[:, None], np.arange(15)[None, :])
    assert whole.shape == (20, 15)
    assert keys(3, "feature", np.array([[11]]), np.array([[4]])).item() == whole[11, 4]
    assert np.array_equal(keys(3, "feature", np.array([4], dtype=np.int32), np.array([7])), whole[4, 7:8])


def test_seed_stream_counter_and_their_order_matter():
    a, b = np.array([1]), np.array([2])
    made = [
        keys(0, "edge", a),
        keys(0, "edge", b),
        keys(1, "edge", a),
        keys(2, "edge", a),
        keys(0, "loop", a),
        keys(0, "edge", a, b),
        keys(0, "edge", b, a),
        keys(1, "edge", b, a),
        keys(0, "edge", a, a),
        keys(0, "edge"),
    ]
    assert len({key.item() for key in made}) == len(made)


def test_keys_do_not_collide():
    made = [keys(seed, stream, np.arange(20000)) for seed in (0, 1, 2) for stream in ("edge", "loop", "sample")]
    assert len(np.unique(np.concatenate(made))) == 9 * 20000


@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (5, 0), (0, 0)])
def test_nothing_to_draw(rows, columns):
    for function in (bits, uniform, uniform32):
        assert function(sample_keys(rows), edge_keys(columns)).shape == (rows, columns)


# Seeds


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1, np.int64(5), np.uint64(2**64 - 1), np.int8(3)])
def test_good_seeds(seed):
    assert check_seed(seed) == int(seed)
    assert type(check_seed(seed)) is int
    assert np.array_equal(keys(seed, "edge", np.arange(3)), keys(int(seed), "edge", np.arange(3)))


@pytest.mark.parametrize(
    "seed", [-1, 2**64, 1.0, 0.5, True, False, "1", None, float("nan"), np.float64(1), np.int64(-3)]
)
def test_bad_seeds_are_named(seed):
    with pytest.raises(InputError, match="seed") as caught:
        check_seed(seed)
    assert repr(seed) in str(caught.value)
    with pytest.raises(InputError, match="seed"):
        keys(seed, "edge", np.arange(3))


# Faster functions that return the same numbers


@pytest.mark.parametrize(("edges", "loops"), [(5, 3), (0, 3), (5, 0), (0, 0)])
def test_joined_keys(edges, loops):
    some, others = np.arange(edges) * 7, np.arange(loops) + 2**40
    expected = [*keys(3, "edge", some).tolist(), *keys(3, "loop", others).tolist()]
    assert joined_keys(3, edge=some, loop=others).tolist() == expected
