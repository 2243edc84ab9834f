"""Shapley values of games whose values are known: sums of unanimity games, in which a set shares what it earns."""

from __future__ import annotations

import numpy as np
import pytest

from graphfaith.sampling.coalitions import draw_coalitions, list_coalitions
from graphfaith.sampling.draw import keys
from graphfaith.surrogate.shapley import Foretold, divide, values_of_table


def make_game(count, seed=0, sets=40):
    """Return v and its Shapley values: a set T of players that are all there earns c_T, which they share equally."""
    rng = np.random.default_rng(seed)
    members = [rng.choice(count, size=int(rng.integers(1, 5)), replace=False) for _ in range(sets)]
    earned = rng.normal(size=sets)
    values = np.zeros(count)
    for chosen, amount in zip(members, earned, strict=True):
        values[chosen] += amount / len(chosen)
    return lambda z: sum(c * z[:, t].all(axis=1) for t, c in zip(members, earned, strict=True)), values


def estimate(game, count, number, seed, told=None):
    pairs = draw_coalitions(keys(seed, "player", np.arange(count)), number, seed, "pair")
    difference = game(pairs.present) - game(~pairs.present)
    foretold = None if told is None else (lambda fold: told(pairs, fold))
    return pairs, divide(pairs, difference, np.arange(count), foretold)


def test_a_table_of_all_coalitions_gives_the_values():
    game, values = make_game(9)
    present = list_coalitions(9)
    assert np.allclose(values_of_table(present, game(present).astype(float)), values)


@pytest.mark.parametrize(("count", "number"), [(5, 15), (6, 31), (9, 255)])
def test_all_pairs_give_the_values(count, number):
    game, values = make_game(count)
    pairs, found = estimate(game, count, number, 0)
    assert pairs.enumerated.all()
    assert len(pairs) == number
    assert np.allclose(found.values, values - values.mean())
    assert not found.variance.any()


@pytest.mark.parametrize(("count", "number"), [(10, 60), (12, 9), (13, 100), (30, 50)])
def test_estimates_are_unbiased_and_calibrated(count, number):
    game, values = make_game(count)
    runs = 60
    found = [estimate(game, count, number, seed)[1] for seed in range(runs)]
    errors = np.array([one.values for one in found]) - (values - values.mean())
    deviation = errors.std(axis=0, ddof=1) / np.sqrt(runs)
    assert np.square(errors.mean(axis=0) / deviation).mean() < 2.2
    assert 0.65 < np.square(errors).mean() / np.mean([one.variance for one in found]) < 1.5
    assert np.allclose([one.values.sum() for one in found], 0)


def test_strata_and_folds_are_as_described():
    for count, number in ((7, 40), (10, 60), (16, 190), (17, 190), (40, 30), (500, 190)):
        pairs = draw_coalitions(keys(0, "player", np.arange(count)), number, 0, "pair")
        assert len(pairs) <= number
        assert pairs.share.sum() == pytest.approx(1)
        assert (np.bincount(pairs.stratum) == pairs.drawn).all()
        for stratum in range(len(pairs.drawn)):
            folds = pairs.fold[pairs.stratum == stratum]
            assert (folds < 0).all() or set(folds) == set(range(pairs.num_folds))
        if count <= 16:  # no pair twice
            assert len({row.tobytes() for row in np.concatenate((pairs.present, ~pairs.present))}) == 2 * len(pairs)


def test_a_good_p_helps_and_a_bad_one_does_not_hurt():
    count, number = 20, 90
    game, values = make_game(count)
    other, _ = make_game(count, seed=7)
    centred = values - values.mean()

    def near(pairs, fold):  # what p leaves is small, and its values are known
        rest = 0.02 * (other(pairs.present) - other(~pairs.present))
        own = make_game(count, seed=7)[1]
        told = game(pairs.present) - game(~pairs.present) + rest
        return Foretold(told, told, centred + 0.02 * (own - own.mean()), np.zeros(count))

    def bad(pairs, fold):
        noise = np.random.default_rng(fold).normal(size=(len(pairs) + count))
        told, values = 10 * noise[: len(pairs)], noise[len(pairs) :]
        return Foretold(told, told, values - values.mean(), np.zeros(count))

    errors = {}
    for name, told in (("none", None), ("near", near), ("bad", bad)):
        found = [estimate(game, count, number, seed, told)[1] for seed in range(12)]
        errors[name] = np.mean([np.square(one.values - centred).sum() for one in found])
    assert errors["near"] < 0.02 * errors["none"]
    assert errors["bad"] < 1.3 * errors["none"]


def test_players_of_a_group_get_their_mean():
    count = 30
    group = np.repeat(np.arange(10), 3)
    weight = np.arange(10.0)

    def game(z):
        number = z.reshape(len(z), 10, 3).sum(axis=2)
        return np.sqrt(number @ weight)

    pairs = draw_coalitions(keys(0, "player", np.arange(count)), 60, 0, "pair")
    difference = game(pairs.present) - game(~pairs.present)
    together, apart = (divide(pairs, difference, chosen) for chosen in (group, np.arange(count)))
    assert np.allclose(together.values.reshape(10, 3), together.values.reshape(10, 3)[:, :1])
    assert together.variance.sum() < 0.6 * apart.variance.sum()
    alike = divide(pairs, pairs.size * 2.0 - count, np.zeros(count, dtype=np.int64))
    assert np.abs(alike.values).max() < 1e-12
    assert alike.variance.max() < 1e-12
