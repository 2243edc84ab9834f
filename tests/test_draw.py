import numpy as np
import pytest
from scipy import stats

from graphfaith import InputError, draw
from graphfaith.draw import bits, check_seed, keys, uniform, uniform32

SEEDS = [0, 1, 2, 3, 255, 256, 2**31, 2**32, 2**32 + 1, 2**63, 2**64 - 1]


def sample_keys(count, seed=0):
    return keys(seed, "sample", np.arange(count))


def edge_keys(count, seed=0):
    return keys(seed, "edge", np.arange(count))


def table(rows=200, columns=500, seed=0):
    return uniform(sample_keys(rows, seed), edge_keys(columns, seed))


def assert_uncorrelated(variables):
    """Rows of ``variables`` [k, n]: no pair stands out, and all pairs together are as small as chance makes them."""
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


# The draws are part of what a seed promises: these numbers may never change.

GOLDEN_KEYS = {
    "edge": [8253192852835581811, 10564849494040471737, 7303703402530221468],
    "feature": [[615485338360319587, 15595131319741316038], [12656799507718903492, 11485026786224811527]],
    "loop": [7262707842837735788],
}
GOLDEN_BITS = [[2279074494, 614216796, 3111899678, 2705916398], [3632237321, 1345079850, 3518026295, 36455825]]
GOLDEN_BITS_12345 = [[557374347, 2482050577]]


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
    single = uniform32(sample_keys(2), edge_keys(4))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=0, atol=2.0**-23)


# Uniform, each by itself


@pytest.mark.parametrize("seed", SEEDS)
def test_draws_are_uniform(seed):
    assert_uniform(table(seed=seed))


@pytest.mark.parametrize("seed", [0, 2**40])
def test_single_precision_draws_are_uniform(seed):
    rows = keys(seed, "feature", np.arange(20)[:, None], np.arange(30)[None, :]).reshape(-1)
    assert_uniform(uniform32(rows, keys(seed, "column", np.arange(200))))


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


def test_draws_lie_inside_the_open_interval_and_are_symmetric(monkeypatch):
    ends = np.array([[0, 1, 255, 256, 2**31 - 1, 2**31, 2**32 - 257, 2**32 - 2, 2**32 - 1]], dtype=np.uint32)
    for function in (uniform, uniform32):
        monkeypatch.setattr(draw, "bits", lambda rows, columns: ends.copy())
        low = function(None, None)
        monkeypatch.setattr(draw, "bits", lambda rows, columns: ~ends)
        high = function(None, None)
        assert low.min() > 0, function.__name__
        assert low.max() < 1, function.__name__
        assert (low + high == 1).all(), function.__name__
        assert (np.diff(low[0]) >= 0).all(), function.__name__


def test_means_and_variances():
    drawn = table(500, 1000)
    assert abs(drawn.mean() - 1 / 2) < 4 * np.sqrt(1 / 12 / drawn.size)
    assert abs(drawn.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / drawn.size)


# No relation between one and another


def test_rows_are_uncorrelated():
    assert_uncorrelated(table(150, 3000))


def test_columns_are_uncorrelated():
    assert_uncorrelated(table(3000, 150).T)


def test_seeds_are_uncorrelated():
    assert_uncorrelated(np.stack([table(30, 200, seed).ravel() for seed in [*SEEDS, *range(10, 60)]]))


def test_seeds_are_uncorrelated_when_shifted():
    """Seed s + 1 is not seed s one sample later, nor one edge later."""
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


# A draw depends on its keys and on nothing else


@pytest.mark.parametrize("block", [1, 7, 64, 1000, 1 << 30])
@pytest.mark.parametrize("function", [bits, uniform, uniform32])
def test_block_size_changes_nothing(monkeypatch, block, function):
    rows, columns = sample_keys(37), edge_keys(23)
    expected = function(rows, columns)
    monkeypatch.setattr(draw, "_BLOCK", block)
    assert np.array_equal(function(rows, columns), expected)


def test_a_draw_depends_only_on_its_keys():
    rows, columns = sample_keys(40), edge_keys(30)
    whole = uniform(rows, columns)
    some_rows, some_columns = np.array([39, 0, 17, 17]), np.array([5, 29, 1])
    assert np.array_equal(uniform(rows[some_rows], columns[some_columns]), whole[np.ix_(some_rows, some_columns)])
    assert uniform(rows[12:13], columns[8:9]).item() == whole[12, 8]


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
