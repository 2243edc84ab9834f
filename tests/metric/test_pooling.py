"""Means over nodes and trainings: the error bar against tables whose true error is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphfaith.metric.pooling import pool, pool_clustered, pool_ratio


def draw_tables(count, trainings, nodes, sizes, seed=0):
    """Tables of independent effects of trainings, of nodes and of both, with these standard deviations, of mean 0."""
    rng = np.random.default_rng(seed)
    shapes = ((count, trainings, 1), (count, 1, nodes), (count, trainings, nodes))
    return sum(size * rng.normal(size=shape) for size, shape in zip(sizes, shapes, strict=True))


def true_error(trainings, nodes, sizes):
    of_training, of_node, rest = (size**2 for size in sizes)
    return math.sqrt(of_training / trainings + of_node / nodes + rest / (trainings * nodes))


@pytest.mark.parametrize("sizes", [(1.0, 1.0, 1.0), (1.0, 0.0, 0.3), (0.0, 1.0, 0.3), (0.3, 2.0, 1.0)])
@pytest.mark.parametrize(("trainings", "nodes"), [(3, 60), (8, 12)])
def test_the_error_is_the_true_one(sizes, trainings, nodes):
    tables, true = draw_tables(2000, trainings, nodes, sizes), true_error(trainings, nodes, sizes)
    found = np.array([pool(table) for table in tables])
    assert found[:, 0].std() == pytest.approx(true, rel=0.06)
    assert math.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(true, rel=0.06)


def test_to_count_every_number_as_independent_would_be_far_too_sure():
    sizes = (1.0, 0.5, 1.0)
    tables, true = draw_tables(500, 3, 60, sizes), true_error(3, 60, sizes)
    naive = [table.std(ddof=1) / math.sqrt(table.size) for table in tables]
    assert max(naive) < true / 2
    assert math.sqrt(np.mean([pool(table)[1] ** 2 for table in tables])) == pytest.approx(true, rel=0.1)


def test_the_error_covers_the_mean():
    found = [pool(table) for table in draw_tables(400, 8, 12, (1.0, 1.0, 1.0))]
    assert 0.85 < np.mean([abs(mean) < 2 * error for mean, error in found]) < 0.99


def test_nodes_alone_and_trainings_alone():
    nodes = np.array([1.0, 2.0, 4.0, 9.0])
    expected = nodes.std(ddof=1) / 2
    assert pool([nodes])[1] == pytest.approx(expected)
    assert pool([[3.0]]) == (3.0, None)
    assert pool([nodes, nodes, nodes]) == pytest.approx((4.0, expected))  # Repeating nodes adds none.
    trainings = np.array([1.0, 2.0, 6.0])
    assert pool(np.repeat(trainings[:, None], 50, axis=1)) == pytest.approx((3.0, trainings.std(ddof=1) / np.sqrt(3)))


def test_the_error_has_both_parts_and_the_remainder_once():
    nodes, trainings = np.array([1.0, 2.0, 4.0, 9.0]), np.array([0.0, 3.0, 5.0])
    both = nodes.var(ddof=1) / 4 + trainings.var(ddof=1) / 3
    assert pool(nodes[None, :] + trainings[:, None])[1] == pytest.approx(both**0.5)
    noise = np.random.default_rng(0).normal(size=(400, 6, 10))  # 60 numbers of variance 1 without effects
    squares = [pool(table)[1] ** 2 for table in noise]
    assert 1 / 60 < np.mean(squares) < 1.5 / 60  # The error is never below the larger part.


def test_missing_numbers_are_left_out():
    sizes = (1.0, 1.0, 1.0)
    tables = draw_tables(1000, 6, 30, sizes)
    tables[np.random.default_rng(1).random(tables.shape) < 0.2] = np.nan
    found = np.array([pool(table) for table in tables])
    assert np.allclose(found[:, 0], np.nanmean(tables, axis=(1, 2)))
    assert math.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(found[:, 0].std(), rel=0.1)
    assert pool([[2.0, math.nan]]) == (2.0, None)
    mean, error = pool([[math.nan]])
    assert math.isnan(mean)
    assert error is None


def test_clusters_that_are_complete_are_nearly_a_table():
    table = draw_tables(1, 20, 40, (1.0, 1.0, 1.0))[0]
    clusters = [(training, node) for training in range(20) for node in range(40)]
    assert pool_clustered(table.ravel(), clusters) == pytest.approx(pool(table), rel=0.02)


def test_a_ratio_has_the_error_of_its_linearisation():
    rng, found = np.random.default_rng(0), []
    for _ in range(1000):
        scales = rng.uniform(1, 3, size=(4, 50)) + rng.normal(scale=0.1, size=(4, 1))
        found.append(pool_ratio(0.3 * scales + rng.normal(scale=0.2, size=(4, 1)), scales))
    ratios, errors = np.array(found).T
    assert ratios.mean() == pytest.approx(0.3, rel=0.05)
    assert math.sqrt((errors**2).mean()) == pytest.approx(ratios.std(), rel=0.1)
    assert pool_ratio([[1.0]], [[2.0]]) == (0.5, None)


@given(st.lists(st.lists(st.floats(0, 1e6), min_size=3, max_size=3), min_size=1, max_size=4))
def test_the_error_is_never_negative_nor_nan(values):
    mean, error = pool(values)
    assert np.isfinite([mean, error]).all()
    assert error >= 0
