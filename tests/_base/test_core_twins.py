"""Parts of the compiled core that others of its functions call, or that do a whole step: each against a plain twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_twins import KINDS, normal, plain_normalised, plain_rows, random_entries, random_graph
from graphfaith._base import core

NONE = np.zeros(0, np.int64)


# Parts of a graph ---------------------------------------------------------------------------------------------------


def plain_part(seeds, ends, reach, depth, leaving):
    """The nodes, hops, number of nodes up to ``depth``, edges, their ends, and the smallest node beyond; in sets."""
    source, sink = ends.tolist()
    hop = dict.fromkeys(seeds, 0)
    for distance in range(1, reach + 1):
        before = {node for node, at in hop.items() if at == distance - 1}
        hop |= {a: distance for a, b in zip(source, sink, strict=True) if b in before and a not in hop}
    nodes = [*seeds, *sorted(set(hop) - set(seeds), key=lambda node: (hop[node], node))]
    inner = {node for node in nodes if hop[node] <= depth}
    kept = [
        j for j, (a, b) in enumerate(zip(source, sink, strict=True))
        if b in inner or (leaving and a in inner and b not in hop)
    ]  # fmt: skip
    beyond = {node for j in kept for node in (source[j], sink[j]) if node not in hop}
    place = {node: i for i, node in enumerate(nodes)}
    places = [[place.get(side[j], len(nodes)) for j in kept] for side in (source, sink)]
    return nodes, [hop[node] for node in nodes], len(inner), kept, places, min(beyond, default=-1)


def random_ends(seed, nodes, edges):
    """The ends of the edges of a graph, and its edges by their sinks and by their sources, as an index has them."""
    ends = np.random.default_rng(seed).integers(0, nodes, (2, edges))
    sides = []
    for side in (ends[1], ends[0]):
        start = np.concatenate([[0], np.cumsum(np.bincount(side, minlength=nodes))])
        sides.append((np.argsort(side, kind="stable"), start))
    return ends, sides[0], sides[1]


@given(
    seed=st.integers(0, 999),
    nodes=st.integers(1, 12),
    edges=st.integers(0, 30),
    reach=st.integers(0, 4),
    less=st.booleans(),
    leaving=st.booleans(),
    several=st.integers(1, 3),
)
def test_a_part_is_found_as_by_sets(seed, nodes, edges, reach, less, leaving, several):
    ends, into, out_of = random_ends(seed, nodes, edges)
    seeds = np.random.default_rng(seed).permutation(nodes)[:several]
    depth = reach - 1 if less and not leaving and reach else reach
    limit = (np.int64(10**9), np.int64(0))
    found = core.find_part(seeds, into, out_of, (ends[0], ends[1]), np.array([-1]), reach, depth, leaving, *limit)
    right = plain_part(seeds.tolist(), ends, reach, depth, leaving)
    assert [part.tolist() if isinstance(part, np.ndarray) else part for part in found] == list(right)
    size = len(right[0]) + len(right[3])
    for most in range(size + 2):
        limit = (np.int64(most), np.int64(0))
        less_of = core.find_part(seeds, into, out_of, (ends[0], ends[1]), np.array([-1]), reach, depth, leaving, *limit)
        assert len(less_of[0]) == (len(right[0]) if most >= size else 0)


@given(
    seed=st.integers(0, 999), reach=st.integers(1, 3), adds=st.booleans(), has_loops=st.booleans(), by_ids=st.booleans()
)
def test_parts_are_found_as_one_after_the_other(seed, reach, adds, has_loops, by_ids):
    random = np.random.default_rng(seed)
    ends, into, _ = random_ends(seed, 12, 25)
    ids = random.permutation(25) + 100 if by_ids else np.array([-1])
    loop_slot = np.where(random.random(12) < 0.5, random.integers(0, 25, 12), -1) if has_loops else NONE
    known_edges, known_nodes = random.permutation(25)[:15], random.permutation(12)[:8]
    named = ids[known_edges] if by_ids else known_edges
    tables = core.table_of(named, 20), core.table_of(known_nodes, 20)
    blank, seeds, graph = 99, random.permutation(12)[:5], (into, (NONE, NONE), (ends[0], ends[1]), ids, loop_slot)
    rows, limits = (*tables, 15, blank), (np.array([10**9, 10**9]), np.int64(10**9))
    found = core.find_parts(seeds, graph, reach, reach - 1, adds, rows, *limits)
    node_start, entry_start, visible, inner, nodes, hops, slots, places, row = found
    for i, seed_node in enumerate(seeds.tolist()):
        right, hop, count, kept, (sources, sinks), beyond = plain_part([seed_node], ends, reach, reach - 1, False)
        if by_ids:
            order = sorted(range(len(kept)), key=lambda j: ids[kept[j]])
            kept, sources, sinks = ([one[j] for j in order] for one in (kept, sources, sinks))
        own, part = slice(*node_start[i : i + 2]), slice(*entry_start[i : i + 2])
        assert (visible[i], inner[i]) == (len(right), count)
        last = [beyond] if beyond >= 0 else []
        assert nodes[own].tolist() == right + last
        assert hops[own].tolist() == hop + [reach + 1] * len(last)
        loops = [int(loop_slot[node]) if has_loops else -1 for node in right + last]
        assert slots[part].tolist() == kept + loops
        every = list(range(len(right + last)))
        assert places[:, part].tolist() == [sources + every, sinks + every]
        edge_rows = {edge: j for j, edge in enumerate(known_edges.tolist())}
        node_rows = {node: 15 + j for j, node in enumerate(known_nodes.tolist())}
        of_loops = [
            node_rows.get(node, blank) if j < count and (adds or loops[j] >= 0) else blank
            for j, node in enumerate(right + last)
        ]
        assert row[part].tolist() == [edge_rows.get(edge, blank) for edge in kept] + of_loops
    few = core.find_parts(seeds, graph, reach, reach - 1, adds, rows, np.array([1, 10**9]), np.int64(10**9))
    assert len(few[2]) == 1, "it ends with the part after which there are more nodes than the limit"
    sizes = np.array([len(plain_part([one], ends, reach, reach - 1, False)[0]) for one in seeds])
    edges_of = np.array([len(plain_part([one], ends, reach, reach - 1, False)[3]) for one in seeds])
    largest = int((sizes + edges_of)[0])
    until = next((j for j, size in enumerate(sizes + edges_of) if size > largest), len(seeds))
    assert len(core.find_parts(seeds, graph, reach, reach - 1, adds, rows, limits[0], np.int64(largest))[2]) == until


# Propagation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_factors_are_those_of_a_normalised_matrix(kind, hops):
    source, sink, hop, _ = random_graph(hops, 7, 15)
    values = random_entries(0, 15, 12)
    factors, inverse = core.factors_of(values, source, sink, hop, hops, kind)
    for s in range(12):
        degree = np.bincount(sink, values[:, s], 7)
        less = np.divide(1, degree, out=np.zeros(7), where=degree > 0)
        root = {core.SYMMETRIC: np.sqrt(less), core.ROW: less, core.NONE: np.ones(7)}[kind]
        right = root[sink] * (root[source] if kind == core.SYMMETRIC else 1) * (hop[sink] < hops)
        np.testing.assert_allclose(factors[:, s], right, rtol=1e-13)
        np.testing.assert_allclose(inverse[:, s], less if kind != core.NONE else 0, rtol=1e-13)


def plain_value(values, source, sink, e, y, v, kind):
    rows, moments = plain_rows(values, source, sink, e, y.shape[1], kind)
    return np.einsum("kns,nk->s", rows, y) + np.einsum("kjs,kj->s", moments, v)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("samples", [0, 1, 129])
def test_moves_in_a_table_change_the_value_as_their_entries_do(kind, samples):
    source, sink, hop, e = random_graph(3, 7, 15)
    base, y, v = random_entries(1, 15, 2)[:, 1], normal(1, 7, 3), normal(2, 3, 2)
    table, places = np.zeros((20, samples)), np.random.default_rng(4).permutation(20)[:15]
    table[places] = base[:, None] * np.random.default_rng(5).uniform(0, 1, (15, samples))
    moves = table[places]
    spent = np.stack([moves[sink == node].sum(axis=0) for node in range(7)])
    for sign in (-1.0, 1.0):
        found = core.value_of_moves(table, places, spent, source, sink, hop, e, y, v, kind, base, sign)
        right = plain_value(base[:, None] + sign * moves, source, sink, e, y, v, kind)
        np.testing.assert_allclose(found, right, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_gradient_of_propagation_is_that_of_differences(kind, hops):
    source, sink, hop, e = random_graph(hops, 6, 12)
    values = np.random.default_rng(hops).uniform(0.5, 2.0, (12, 5))
    y, v = normal(1, 6, hops), normal(2, hops, 2)
    found = core.gradient_of_propagation(values, source, sink, hop, e, y, v, kind)
    right, step = np.zeros(12), 1e-6
    for j in range(12):
        higher, lower = values.copy(), values.copy()
        higher[j] += step
        lower[j] -= step
        change = [plain_value(one, source, sink, e, y, v, kind) for one in (higher, lower)]
        right[j] = np.mean(change[0] - change[1]) / (2 * step)
    np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-7 * np.abs(right).max())
    assert np.abs(right).max() > 0.01


def test_what_is_normalised_here_is_what_the_core_normalises():
    source, sink, hop, _ = random_graph(1, 7, 15)
    values = random_entries(0, 15, 3)
    for kind in KINDS:
        factors, _ = core.factors_of(values, source, sink, hop, 9, kind)
        matrix = np.zeros((7, 7))
        reached = hop[sink] < 9
        np.add.at(matrix, (sink[reached], source[reached]), (factors * values)[reached, 1])
        seen = np.unique(sink[reached])
        np.testing.assert_allclose(
            matrix[seen], plain_normalised(values[:, 1], source, sink, 7, kind)[seen], rtol=1e-12
        )


# Systems ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [0, 1, 4, 6, 9])
def test_multiples_of_a_vector_are_added(rows):
    into, numbers, term = normal(0, rows + 2, 5), normal(1, rows, 3), normal(2, 5)
    right = into.copy()
    right[:rows] += np.outer(numbers[:, 1], term)
    core.add_multiples(into, numbers, 1, term)
    np.testing.assert_allclose(into, right, rtol=1e-13)


def test_a_product_is_written_where_it_is_asked_for():
    left, right, product = normal(0, 4, 3), normal(1, 3, 5), np.full((4, 5), np.nan)
    core.multiply_into(left, right, product)
    np.testing.assert_allclose(product, left @ right, rtol=1e-13)


@pytest.mark.parametrize(("samples", "width"), [(30, 12), (12, 30)])
@pytest.mark.parametrize("relative", [False, True])
def test_left_out_singular_values_are_those_of_a_decomposition(samples, width, relative):
    count = min(samples, width)
    u, _ = np.linalg.qr(normal(0, samples, count))
    v, _ = np.linalg.qr(normal(1, width, count))
    sigma = np.append(np.geomspace(3.0, 1e-2, count - 3), [2e-3, 5e-4, 1e-6])
    phi, change = np.ascontiguousarray(v @ (sigma * u).T), normal(2, samples)
    threshold = 1e-3 if relative else 3e-3  # of which the first is of the largest, 3: the last three are left out
    gram = np.triu(phi @ phi.T if samples > width else phi.T @ phi)
    weights, sound = core.solve_truncated(phi, gram, change, threshold, relative)
    assert sound
    kept = sigma > threshold * (sigma[0] if relative else 1)
    assert kept.sum() == count - 3
    right = v[:, kept] @ ((u[:, kept].T @ change) / sigma[kept])
    np.testing.assert_allclose(weights, right, atol=1e-10 * np.abs(right).max())
    gram = np.triu(phi @ phi.T if samples > width else phi.T @ phi)
    assert not core.solve_truncated(phi, gram, change, 1e-7, relative)[1], "rounding does not allow it"


def sparse_of(x):
    start = np.concatenate([[0], np.cumsum((x != 0).sum(axis=1))])
    return start, np.nonzero(x)[1], x[x != 0], x.shape[1]


@given(seed=st.integers(0, 999), most=st.integers(1, 8), whole=st.booleans())
def test_the_strongest_columns_have_the_largest_sums(seed, most, whole):
    random = np.random.default_rng(seed)
    x = np.where(random.random((9, 6)) < 0.4, random.integers(1, 3, (9, 6)), 0).astype(float)
    node_start, visible = np.array([0, 3, 7, 10]), np.array([2, 4, 3])
    nodes, wanted = random.integers(0, 9, 10), np.array([0, 2])
    rows, beta = random.normal(size=(10, 2)), random.normal(size=(10, 2))
    gradient = random.normal(size=(10, 6)) if whole else np.zeros((0, 6))
    count, column, score = np.zeros(3, np.int64), np.full((3, most), -1), np.zeros((3, most))
    core.find_strongest_columns(
        wanted, node_start, visible, nodes, sparse_of(x), (gradient, rows, beta), (count, column, score)
    )
    for i in wanted:
        own = slice(node_start[i], node_start[i] + visible[i])
        seen = x[nodes[own]]
        slopes = gradient[own] if whole else rows[own] @ (seen.T @ beta[own]).T
        total = (seen * slopes).sum(axis=0)
        there = np.flatnonzero((seen != 0).any(axis=0))
        order = there[np.argsort(-np.abs(total[there]), kind="stable")][:most]
        assert count[i] == len(order)
        np.testing.assert_allclose(score[i, : count[i]], total[order], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(total[column[i, : count[i]]], total[order], rtol=1e-9, atol=1e-12)
    assert (count[1], column[1].max()) == (0, -1), "it was not asked for"
