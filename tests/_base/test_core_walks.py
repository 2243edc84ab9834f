"""The compiled core's draws, tables and walks, each against a plain function of numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphfaith._base import core

UNIT = 2.0**-32


def keys(seed, count):
    return np.random.default_rng(seed).integers(0, 2**64, size=count, dtype=np.uint64)


def mix(row, column):
    """Return the bits of all pairs of keys, [rows, columns], by whole arrays of numpy."""
    row, column = row[:, None], column[None, :]
    low, high = (column & np.uint64(0xFFFFFFFF)).astype(np.uint32), (column >> np.uint64(32)).astype(np.uint32)
    left, right = (row & np.uint64(0xFFFFFFFF)).astype(np.uint32), (row >> np.uint64(32)).astype(np.uint32)
    word = (left ^ low) * np.uint32(0xCC9E2D51)
    word = (word ^ (word >> np.uint32(15))) + right
    word = word * np.uint32(0x85EBCA6B)
    word = (word ^ (word >> np.uint32(13))) + high
    word = word * np.uint32(0xC2B2AE35)
    return word ^ (word >> np.uint32(16))


def test_draws_are_of_mixed_keys():
    rows, columns = keys(0, 5), keys(1, 7)
    right = mix(rows, columns)
    bits = np.empty((5, 7), np.uint32)
    core.draw_bits(rows, columns, bits)
    assert bits.tolist() == right.tolist()
    moved = np.empty((7, 5))
    core.draw_symmetric(rows, columns, UNIT, 0.5, moved)
    np.testing.assert_array_equal(moved, ((right.astype(float) - (2.0**31 - 0.5)) * UNIT * 0.5).T)
    bound, below = np.uint32(2**31), np.empty((7, 5), bool)
    core.draw_below(rows, columns, bound, below)
    np.testing.assert_array_equal(below, (right < bound).T)
    assert 0 < below.mean() < 1
    row, column, at = np.array([4, 0, 2]), np.array([6, 1, 1]), np.empty((2, 3), bool)
    core.draw_below_at(np.stack([rows, rows[::-1]]), columns, row, column, bound, at)
    np.testing.assert_array_equal(at, [right[row, column] < bound, right[::-1][row, column] < bound])


def test_features_are_drawn_with_a_round_less():
    rows, columns, out = keys(2, 4), keys(3, 6), np.empty((4, 6), np.float32)
    unit = np.float32(2.0**-23)
    core.draw_features(rows, columns, unit, out)
    row, column = rows[:, None], columns[None, :]
    first, second = row.astype(np.uint32) | np.uint32(1), (row >> np.uint64(32)).astype(np.uint32)
    word = first * column.astype(np.uint32) + second
    word = (word ^ (word >> np.uint32(16))) * ((column >> np.uint64(32)).astype(np.uint32) | np.uint32(1))
    right = ((word >> np.uint32(9)).astype(np.float32) - np.float32(2.0**22 - 0.5)) * unit
    np.testing.assert_array_equal(out, right)


@pytest.mark.parametrize("wanted", [False, True])
def test_moves_stay_below_the_entries_and_at_those_that_f_reads(wanted):
    states, samples, edges, nodes = keys(4, 3), np.arange(6), np.array([3, 8]), np.array([5, 0, 9])
    weight, felt = np.array([1.0, 0.01, 1.0, 0.0, 1.0]), np.array([True, True, False, True, True])
    eps, values = np.empty((5, 6)), np.empty((5, 7 if wanted else 0))
    core.draw_moves(states, samples, edges, nodes, UNIT, 0.5, weight, felt, eps, values)
    rows, columns = np.empty(6, np.uint64), np.empty(5, np.uint64)
    core.draw_keys(states[0], samples, rows)  # It has a twin elsewhere.
    core.draw_keys(states[1], edges, columns[:2])
    core.draw_keys(states[2], nodes, columns[2:])
    draws = ((mix(rows, columns).astype(float) - (2.0**31 - 0.5)) * UNIT * 0.5).T
    right = np.where(felt[:, None], np.minimum(draws, weight[:, None]), 0.0)
    np.testing.assert_array_equal(eps, right)
    if wanted:
        np.testing.assert_array_equal(values, np.column_stack([weight, weight[:, None] - right]))


def test_tables_are_dictionaries():
    numbers = np.random.default_rng(0).choice(10**9, size=100, replace=False)
    table = core.make_table(len(numbers))
    for place, number in enumerate(numbers):
        core.put(table, number, place)
    right = {int(number): place for place, number in enumerate(numbers)}
    asked = np.concatenate([numbers[::-1], np.arange(-50, 50)])
    expected = [right.get(int(number), -1) for number in asked]
    assert core.look_up(table, asked).tolist() == expected
    assert core.look_up(core.table_of(numbers, len(numbers)), asked).tolist() == expected
    assert [int(table[1][core.find_entry(table, number)]) for number in numbers] == list(range(100))


def test_sorted_numbers_are_counted():
    numbers = np.array([0, 2, 2, 5])
    for most in range(-1, 7):
        assert core.count_up_to(numbers, most) == np.searchsorted(numbers, most, side="right")


def test_the_first_edges_of_a_node():
    start, slots = np.array([0, 3, 5]), np.array([1, 4, 6, 0, 2])
    for node in range(2):
        own = slots[start[node] : start[node + 1]]
        for each in (1, 2, 3):
            found = [core.is_among_first(slot, slots, start, node, each) for slot in own]
            assert found == [slot in own[:each] for slot in own]


def test_vectors_of_products_and_shifts():
    a, b, into = (np.random.default_rng(seed).normal(size=5) for seed in range(3))
    found = into.copy()
    core.add_products(found, 2.0, a, b)
    np.testing.assert_allclose(found, into + 2 * a * b, rtol=1e-15, atol=1e-15)
    found = into.copy()
    core.add_shifted(found, 3.0, -1.0, a)
    np.testing.assert_allclose(found, into + (3 - a), rtol=1e-15, atol=1e-15)
    core.write_shifted(found, 3.0, -1.0, a, b)
    np.testing.assert_array_equal(found, (3 - a) * b)
    matrix = np.random.default_rng(3).normal(size=(3, 4))
    np.testing.assert_allclose(core.sum_squares(matrix), (matrix**2).sum(), rtol=1e-14)


# A path 4 -> 3 -> 2 -> 1 -> 0 with a shortcut 2 -> 0, loops, and the last node further away than F sees.
SOURCE, SINK = np.array([1, 2, 2, 3, 4, 0, 1, 2, 3, 4]), np.array([0, 0, 1, 2, 3, 0, 1, 2, 3, 4])
HOP, HOPS = np.array([0, 1, 1, 2, 3]), 2
KINDS = (core.SYMMETRIC, core.ROW, core.NONE)


def dense_rows(entries, start, kind):
    """Return e^T N(A^k) for k = 1 .. M, [M, n], by powers of the whole matrix."""
    matrix = torch.zeros(5, 5, dtype=torch.float64).index_put(
        (torch.from_numpy(SINK), torch.from_numpy(SOURCE)), entries
    )
    power, found = torch.eye(5, dtype=torch.float64), []
    for _ in range(HOPS):
        power = power @ matrix
        degree = power.sum(dim=1)
        if kind == core.SYMMETRIC:
            found.append(torch.from_numpy(start) @ (power / degree.sqrt()[:, None] / degree.sqrt()[None, :]))
        else:
            found.append(torch.from_numpy(start) @ (power / degree[:, None] if kind == core.ROW else power))
    return torch.stack(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("seeds", "e"), [([0], [1.0]), ([0, 1], [1.0, 2.0])])
def test_rows_of_walks_are_those_of_dense_powers(kind, seeds, e):
    values = np.random.default_rng(0).uniform(0.2, 1.0, size=(len(SOURCE), 3))
    places = np.random.default_rng(1).permutation(len(SOURCE))
    hop = HOP if len(seeds) == 1 else np.array([0, 0, 1, 2, 3])
    given = np.array(seeds), np.array(e)
    rows = core.rows_of_walks(values, places, SOURCE, SINK, hop, *given, HOPS, kind)
    start = np.zeros(5)
    start[seeds] = e
    for s in range(3):
        right = dense_rows(torch.from_numpy(values[places, s]), start, kind).numpy()
        np.testing.assert_allclose(rows[:, :, s], right, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_walks_is_that_of_autograd(kind):
    random = np.random.default_rng(2)
    weight, y = random.uniform(0.2, 1.0, size=len(SOURCE)), random.normal(size=(5, HOPS))
    found = core.gradient_of_walks(weight, SOURCE, SINK, np.array([0]), np.ones(1), y, kind)
    entries = torch.from_numpy(weight).requires_grad_()
    value = (dense_rows(entries, np.eye(5)[0], kind) * torch.from_numpy(y.T.copy())).sum()
    np.testing.assert_allclose(found, torch.autograd.grad(value, entries)[0].numpy(), rtol=1e-10, atol=1e-13)
