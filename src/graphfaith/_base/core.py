"""The compiled core: what KEC does on one computation graph after another, as pure functions on arrays.

A computation graph of a citation network has a dozen nodes, on which a call of torch or numpy costs far more than its
arithmetic. These functions are compiled by numba when they are first called; the result is kept on disk, so that the
next process does not wait. They release Python's lock, so that several threads explain nodes at the same time. Each of
them has a plain twin in the tests, which it has to equal. They are one module, because numba compiles the functions
that one of them calls into it, and keeps its machine code until this file changes.

Numbers of samples run along the last, contiguous dimension: column 0 of ``values`` has the entries of A of the graph as
it is, column 1 + s those of sample s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

SYMMETRIC, ROW, NONE = 0, 1, 2  # the normalisations N(A^k) = D^-1/2 A^k D^-1/2, D^-1 A^k and A^k, with D = diag(A^k 1)
_FAR = 1e-5  # the least ratio of the smallest to the largest singular value for which Cholesky is used
_BLOCK = 128  # samples that are propagated at once
_DEPENDENT = 1e-12  # the share of the square of a row of X that is left of it, if it depends on rows before it
FINE = 3e-6  # the least ratio of a singular value to the largest one that can be told with these coordinates


def compiled(function: Callable[..., Any]) -> Any:
    """Return a function that numba compiles when it is first called, and whose machine code is kept on disk.

    Where there is no folder to keep it in (``NUMBA_CACHE_DIR`` names one), every process compiles anew.
    """
    try:
        return njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # This is how numba says that it may write neither beside the package nor at the user's.
        return njit(nogil=True, error_model="numpy")(function)


@compiled
def finalise(word):
    """Return the bits of a 64-bit word mixed by the finaliser of SplitMix64."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled
def draw_keys(state, counters, out):
    """Write the keys of the ``counters``, [n], that follow on the ``state`` of a stream into ``out``."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    for i in range(len(counters)):
        out[i] = finalise((state + golden) ^ finalise(np.uint64(counters[i]) + golden))


@compiled
def mix(row, column):
    """Return 32 random bits of a row key and a column key, by three rounds of a multiplication and a shifted xor."""
    low, high = np.uint32(column), np.uint32(column >> np.uint64(32))
    word = np.uint32((np.uint32(row) ^ low) * np.uint32(0xCC9E2D51))
    word = np.uint32((word ^ (word >> np.uint32(15))) + np.uint32(row >> np.uint64(32)))
    word = np.uint32(word * np.uint32(0x85EBCA6B))
    word = np.uint32((word ^ (word >> np.uint32(13))) + high)
    word = np.uint32(word * np.uint32(0xC2B2AE35))
    return np.uint32(word ^ (word >> np.uint32(16)))


@compiled
def draw_bits(rows, columns, out):
    """Write the :func:`mix` of every row key with every column key into ``out``, [rows, columns]."""
    for i in range(len(rows)):
        row, own = rows[i], out[i]
        for j in range(len(columns)):
            own[j] = mix(row, columns[j])


@compiled
def draw_symmetric(rows, columns, unit, scale, out):
    """Write (bits - 2^31 + 1/2) ``unit`` ``scale`` of every pair of keys into ``out``, [columns, rows].

    The bits are those of :func:`draw_bits`. The difference is exact, because it needs 33 bits.
    """
    for j in range(len(columns)):
        column, own = columns[j], out[j]
        for i in range(len(rows)):
            own[i] = (np.float64(mix(rows[i], column)) - (2.0**31 - 0.5)) * unit * scale


@compiled
def draw_below(rows, columns, bound, out):
    """Write whether the bits of every pair of keys are less than ``bound`` into ``out``, [columns, rows]."""
    for j in range(len(columns)):
        column, own = columns[j], out[j]
        for i in range(len(rows)):
            own[i] = mix(rows[i], column) < bound


@compiled
def draw_features(rows, columns, unit, out):
    """Write ``unit`` times the upper 23 of 32 random bits, less their mean, into ``out``, in single precision.

    These bits take one round less than :func:`mix`. The product with an odd number takes every value as the other
    factor varies.
    """
    for i in range(len(rows)):
        first, second, own = np.uint32(rows[i]) | np.uint32(1), np.uint32(rows[i] >> np.uint64(32)), out[i]
        for j in range(len(columns)):
            word = np.uint32(np.uint32(first * np.uint32(columns[j])) + second)
            factor = np.uint32(columns[j] >> np.uint64(32)) | np.uint32(1)
            word = np.uint32((word ^ (word >> np.uint32(16))) * factor)
            # The signed number is converted faster than the unsigned one, and the difference is exact.
            own[j] = (np.float32(np.int32(word >> np.uint32(9))) - np.float32(2.0**22 - 0.5)) * unit


@compiled
def grow(array, size):
    """Return an array of at least ``size`` numbers that begins with those of ``array``."""
    if size <= len(array):
        return array
    larger = np.empty(max(size, 2 * len(array)), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@compiled
def count_up_to(numbers, most):
    """Return how many of some sorted numbers are at most ``most``."""
    count = 0
    while count < len(numbers) and numbers[count] <= most:
        count += 1
    return count


@compiled
def find_part(seeds, into, out_of, source, sink, reach, depth, place):
    """Return the nodes up to ``reach`` hops before ``seeds``, and the edges into those up to hop ``depth``.

    ``into`` has the ids of edges sorted by their sink, and where those of each node begin; ``out_of`` the same by their
    source, or two empty arrays. If it is given, ``depth`` is ``reach``, and edges out of the nodes are found too.
    ``place``, [N], is scratch memory that is 0 everywhere, before and after.

    The result has the nodes by hop and id, their hops, how many of them are up to hop ``depth``, the ids of the edges
    in ascending order, and their ends as positions among the nodes, [2, e]. The position after the last node stands for
    all nodes that are further away, of which the smallest id is the last result; it is -1 if there are none.
    """
    in_ids, in_start = into
    out_ids, out_start = out_of
    nodes, hops = np.empty(max(64, 2 * len(seeds)), np.int64), np.empty(max(64, 2 * len(seeds)), np.int64)
    edges = np.empty(256, np.int64)
    count, found, first = len(seeds), 0, 0
    nodes[:count], hops[:count] = seeds, 0
    for i in range(count):
        place[nodes[i]] = i + 1
    for hop in range(1, depth + 2):
        last, begin = count, found
        for i in range(first, last):
            node = nodes[i]
            start, stop = in_start[node], in_start[node + 1]
            edges = grow(edges, found + stop - start)
            for j in range(start, stop):
                edges[found] = in_ids[j]
                found += 1
        if hop > reach:
            break
        for j in range(begin, found):
            node = source[edges[j]]
            if not place[node]:
                nodes, hops = grow(nodes, count + 1), grow(hops, count + 1)
                nodes[count], hops[count] = node, hop
                count += 1
                place[node] = count
        first = last
        if count == last:
            break
        nodes[last:count].sort()
        for i in range(last, count):
            place[nodes[i]] = i + 1
    nodes, hops = nodes[:count].copy(), hops[:count].copy()
    inner = count_up_to(hops, depth)
    if len(out_start):
        for i in range(inner):
            node = nodes[i]
            start, stop = out_start[node], out_start[node + 1]
            edges = grow(edges, found + stop - start)
            for j in range(start, stop):
                if not place[sink[out_ids[j]]]:  # Edges between nodes that were found are known already.
                    edges[found] = out_ids[j]
                    found += 1
    edges = edges[:found].copy()
    edges.sort()
    ends, beyond = np.empty((2, found), np.int64), np.int64(-1)
    for j in range(found):
        for side in range(2):
            node = source[edges[j]] if side == 0 else sink[edges[j]]
            ends[side, j] = place[node] - 1
            if not place[node]:
                ends[side, j] = count
                beyond = node if beyond < 0 else min(beyond, node)
    for i in range(count):
        place[nodes[i]] = 0
    return nodes, hops, inner, edges, ends, beyond


@compiled
def find_parts(seeds, graph, reach, depth, adds_loops, rows_of_edges, rows_of_nodes, blank, most, place):
    """Return the computation graphs of many nodes, one after the other; each is what :func:`find_part` finds.

    It ends with the part after which there are more nodes or entries than the two numbers in ``most``.

    ``graph`` has the edges by their sink and by their source, sources, sinks, and the id of each node's self-loop, or
    -1. The entries of a part are its edges and a self-loop for every node. ``rows_of_edges`` and ``rows_of_nodes`` say
    in which row of a table the values of an edge and of a self-loop are; a self-loop that F does not read, because its
    node is more than ``depth`` hops away or because there is none and layers add none, is in row ``blank``.

    The results are where the nodes and the entries of each part begin, the number of its nodes that are not further
    away than ``reach`` and than ``depth``, its nodes and their hops, and for the entries the ids of edges, their ends
    as positions among the part's nodes, and their rows.
    """
    into, out_of, source, sink, loop_edge = graph
    count = len(seeds)
    node_start, entry_start = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    visible, inner = np.empty(count, np.int64), np.empty(count, np.int64)
    nodes, hops = np.empty(1024, np.int64), np.empty(1024, np.int64)
    ids, rows = np.empty(4096, np.int64), np.empty(4096, np.int64)
    sources, sinks = np.empty(4096, np.int64), np.empty(4096, np.int64)
    for i in range(count):
        found, hop, inner[i], edges, ends, beyond = find_part(
            seeds[i : i + 1], into, out_of, source, sink, reach, depth, place
        )
        visible[i], a, c = len(found), node_start[i], entry_start[i]
        b = a + len(found) + (1 if beyond >= 0 else 0)
        plain, d = c + len(edges), c + len(edges) + b - a
        nodes, hops, ids, rows = grow(nodes, b), grow(hops, b), grow(ids, d), grow(rows, d)
        sources, sinks = grow(sources, d), grow(sinks, d)
        nodes[a : a + len(found)], hops[a : a + len(found)] = found, hop
        if beyond >= 0:
            nodes[b - 1], hops[b - 1] = beyond, reach + 1
        ids[c:plain], sources[c:plain], sinks[c:plain] = edges, ends[0], ends[1]
        for j in range(len(edges)):
            rows[c + j] = rows_of_edges[edges[j]]
        for j in range(b - a):
            node = nodes[a + j]
            ids[plain + j] = loop_edge[node]
            sources[plain + j] = sinks[plain + j] = j
            is_read = j < inner[i] and (adds_loops or loop_edge[node] >= 0)
            rows[plain + j] = rows_of_nodes[node] if is_read else blank
        node_start[i + 1], entry_start[i + 1] = b, d
        if b >= most[0] or d >= most[1]:
            count = i + 1
            break
    node_start, entry_start, visible, inner = (
        node_start[: count + 1].copy(),
        entry_start[: count + 1].copy(),
        visible[:count].copy(),
        inner[:count].copy(),
    )
    a, c = node_start[count], entry_start[count]
    ends = np.empty((2, c), np.int64)
    ends[0], ends[1] = sources[:c], sinks[:c]
    return (
        node_start,
        entry_start,
        visible,
        inner,
        nodes[:a].copy(),
        hops[:a].copy(),
        ids[:c].copy(),
        ends,
        rows[:c].copy(),
    )


@compiled
def sparse_of(x):
    """Return the numbers of X that are not 0: where each row begins, their columns, they, and the number of columns."""
    start = np.zeros(len(x) + 1, np.int64)
    for i in range(len(x)):
        count = 0
        for c in range(x.shape[1]):
            count += x[i, c] != 0
        start[i + 1] = start[i] + count
    columns, numbers, at = np.empty(start[-1], np.int64), np.empty(start[-1]), 0
    for i in range(len(x)):
        for c in range(x.shape[1]):
            if x[i, c] != 0:
                columns[at], numbers[at] = c, x[i, c]
                at += 1
    return start, columns, numbers, x.shape[1]


@compiled
def scales(total, kind):
    """Return D^-1/2, or D^-1 if each row is normalised, and 0 where D is not positive; written over ``total``."""
    for i in range(len(total)):  # without a branch around the division, so that several are done at once
        own = total[i] if total[i] > 0 else 1.0
        scale = 1 / np.sqrt(own) if kind == SYMMETRIC else 1 / own
        total[i] = scale if total[i] > 0 else 0.0
    return total


@compiled
def multiply_add(into, term, factor):
    """Add the products of two vectors to ``into``."""
    for s in range(len(into)):
        into[s] += term[s] * factor[s]


@compiled
def add_to(into, term):
    """Add a vector to ``into``."""
    for s in range(len(into)):
        into[s] += term[s]


@compiled
def write_product(into, term, factor):
    """Write the products of two vectors into ``into``."""
    for s in range(len(into)):
        into[s] = term[s] * factor[s]


@compiled
def rows_of_walks(values, places, source, sink, hop, seeds, e, num_hops, kind):
    """Return e^T N(A^k), [M, n, S], for k = 1 .. M and S sets of values of the entries of A.

    Entry j has row ``places[j]`` of ``values``, [., S]. Before its last step, a walk of k steps is at most k - 1 hops
    away from a seed, so step k needs only the entries whose sink is within k - 1 hops. With one seed L in
    N(A^k) = L A^k R is a number, and each row is one product with the previous one; with several, each k has walks of
    its own, whose first step is scaled. The entries from the last node, which may stand for all that are further away,
    are added up once for every node that they lead to.
    """
    count, size = len(hop), values.shape[1]
    rows = np.zeros((num_hops, count, size))
    total, added, outer = np.zeros((count, size)), np.zeros((count, size)), np.zeros((count, size))
    walks, step, sides = np.zeros((count, size)), np.zeros((count, size)), np.empty((count, size))
    again = len(seeds) > 1 and kind != NONE
    for j in range(len(source) if kind != NONE else 0):
        add_to(outer[sink[j]] if source[j] == count - 1 else total[sink[j]], values[places[j]])
    total += outer
    for k in range(num_hops):
        if k > 0 and kind != NONE:
            for i in range(count):
                write_product(added[i], outer[i], total[count - 1])
            for j in range(len(source)):
                if source[j] != count - 1:
                    multiply_add(added[sink[j]], values[places[j]], total[source[j]])
            total, added = added, total
        for i in range(count if kind != NONE else 0):
            if hop[i] <= k + 1:
                sides[i] = total[i]
                scales(sides[i], kind)
        if k == 0 or again:
            walks[:] = 0
            for i in range(len(seeds)):
                walks[seeds[i]] = e[i]
                if again:
                    walks[seeds[i]] *= sides[seeds[i]]
        for taken in range(0 if again else k, k + 1):
            step[:] = 0
            for j in range(len(source)):
                if hop[sink[j]] <= taken:
                    multiply_add(step[source[j]], values[places[j]], walks[sink[j]])
            walks, step = step, walks
        for i in range(count):
            if hop[i] > k + 1:
                continue
            row, walk = rows[k, i], walks[i]
            if kind == NONE or (kind == ROW and again):
                row[:] = walk
            elif kind == ROW:
                write_product(row, walk, sides[seeds[0]])
            else:
                write_product(row, walk, sides[i])
                if not again:
                    write_product(row, row, sides[seeds[0]])
    return rows


@compiled
def factors_of(values, source, sink, hop, num_hops, kind):
    """Return what the entries of A are multiplied with in N(A), [e, S], and 1 / (A 1), [n, S].

    The factor is 0 if the sink is not within M - 1 hops, so that no message along the entry arrives. N is normalised
    once, so that its powers are those of a chain of convolutions.
    """
    count, size = len(hop), values.shape[1]
    inverse, scale, factors = np.zeros((count, size)), np.ones((count, size)), np.zeros((len(source), size))
    if kind != NONE:
        for j in range(len(source)):
            add_to(inverse[sink[j]], values[j])
        for i in range(count):
            scale[i] = inverse[i]
            scales(scale[i], kind)
            scales(inverse[i], ROW)
    for j in range(len(source)):
        if hop[sink[j]] < num_hops:
            if kind == SYMMETRIC:
                write_product(factors[j], scale[sink[j]], scale[source[j]])
            else:
                factors[j] = scale[sink[j]]
    return factors, inverse


@compiled
def value_of_propagation(values, source, sink, hop, e, y, v, kind):
    """Return sum_k e^T N^k y_k + sum_(k < M) sum_j v_kj e^T N^k c^j, with c = N 1, for S sets of values, [e, S] -> [S].

    ``y`` has the y_k for k = 1 .. M, [n, M], ``v`` the weights of the powers j = 2 and 3 for k = 0 .. M - 1, [M, 2],
    and ``e`` how often F is read from each node, [n]. The sum is e^T z_0, where z_k = v_k2 c^2 + v_k3 c^3 +
    N (y_(k+1) + z_(k+1)).
    """
    count, hops = y.shape
    total = np.zeros(values.shape[1])
    for first in range(0, len(total), _BLOCK):  # so many samples that all vectors stay in the processor's cache
        some = np.ascontiguousarray(values[:, first : first + _BLOCK])
        size = some.shape[1]
        entries, _ = factors_of(some, source, sink, hop, hops, kind)
        c, z, into = np.zeros((count, size)), np.zeros((count, size)), np.zeros((count, size))
        for j in range(len(source)):
            if hop[sink[j]] < hops:
                write_product(entries[j], entries[j], some[j])
                add_to(c[sink[j]], entries[j])
        for k in range(hops - 1, -1, -1):
            for i in range(count):
                own, power, last = into[i], c[i], z[i]
                for s in range(size):
                    own[s] = power[s] * power[s] * (v[k, 0] + v[k, 1] * power[s])
                    last[s] += y[i, k]
            for j in range(len(source)):
                if hop[sink[j]] <= k:
                    multiply_add(into[sink[j]], entries[j], z[source[j]])
            z, into = into, z
        for i in range(count):
            if e[i] != 0:
                total[first : first + size] += e[i] * z[i]
    return total


@compiled
def gradient_of_propagation(values, source, sink, hop, e, y, v, kind):
    """Return the mean over S sets of values, [e, S], of the derivative of :func:`value_of_propagation`, [e].

    Let l_k = (N^T)^k e and R_k = y_(k+1) + v_(k+1) c^j + N R_(k+1). The derivative with respect to N is
    sum_k l_k R_k^T + q 1^T with q = sum_k l_k sum_j j v_kj c^(j-1), and the chain rule through D gives that to A.
    """
    count, hops, size = len(hop), y.shape[1], values.shape[1]
    factors, inverse = factors_of(values, source, sink, hop, hops, kind)
    entries = values * factors
    c = np.zeros((count, size))
    for j in range(len(source)):
        add_to(c[sink[j]], entries[j])
    walks = np.zeros((hops, count, size))
    for i in range(count):
        walks[0, i] = e[i]
    for k in range(1, hops):
        for j in range(len(source)):
            if hop[sink[j]] < k:
                multiply_add(walks[k, source[j]], entries[j], walks[k - 1, sink[j]])
    slope, ends, before = np.zeros((len(source), size)), np.zeros((count, size)), np.zeros((count, size))
    q = np.zeros((count, size))
    for k in range(hops - 1, -1, -1):
        for i in range(count):
            own, power, walk, total = ends[i], c[i], walks[k, i], q[i]
            for s in range(size):
                own[s] = y[i, k]
                if k + 1 < hops:
                    own[s] += power[s] * power[s] * (v[k + 1, 0] + v[k + 1, 1] * power[s])
                total[s] += walk[s] * power[s] * (2 * v[k, 0] + 3 * v[k, 1] * power[s])
        for j in range(len(source)):
            if hop[sink[j]] < hops:
                multiply_add(ends[sink[j]], entries[j], before[source[j]])
        for j in range(len(source)):
            if hop[sink[j]] < hops:
                multiply_add(slope[j], walks[k, sink[j]], ends[source[j]])
        ends, before = before, ends
    parts = np.zeros((count, size))  # what an entry of A changes through D
    for j in range(len(source)):
        if hop[sink[j]] < hops:
            add_to(slope[j], q[sink[j]])
            if kind != NONE:
                multiply_add(parts[sink[j]], slope[j], entries[j])
            if kind == SYMMETRIC:
                multiply_add(parts[source[j]], slope[j], entries[j])
    gradient, half = np.zeros(len(source)), 0.5 if kind == SYMMETRIC else 1.0
    for j in range(len(source)):
        own, factor, part, less = slope[j], factors[j], parts[sink[j]], inverse[sink[j]]
        for s in range(size):
            gradient[j] += own[s] * factor[s] - half * part[s] * less[s]
    return gradient / size


@compiled
def coordinates_of(x, nodes):
    """Return coordinates of some rows of X, and which rows are independent of those before them.

    X is sparse: ``x`` has where each row begins, the columns, the numbers, and how many columns there are. With
    X = L Q^T, L lower
    triangular and Q orthonormal, L is Cholesky's factor of X X^T. It is returned without the columns of rows that
    depend on rows before them, [n, r], together with the places of the r others.
    """
    start, columns, numbers, width = x
    count = len(nodes)
    most, dense = min(count, width), np.zeros(width)
    largest = 0.0  # Numbers are divided by the largest one, so that no square is too large or too small.
    for i in range(count):
        for c in range(start[nodes[i]], start[nodes[i] + 1]):
            largest = max(largest, abs(numbers[c]))
    unit = 1 / largest if largest > 0 else 0.0
    upper = np.zeros((most, count))  # upper[r, i] is entry r of row i, so that loops are long
    independent, rank = np.empty(most, np.int64), 0
    packed, own = np.zeros((most, most)), np.empty(most)  # packed[r] has the entries r of the independent rows
    for i in range(count):
        a, b, left = start[nodes[i]], start[nodes[i] + 1], 0.0
        for c in range(a, b):
            dense[columns[c]] = numbers[c] * unit
            left += dense[columns[c]] * dense[columns[c]]
        bound = _DEPENDENT * left
        for r in range(rank):
            j, total = nodes[independent[r]], 0.0
            for c in range(start[j], start[j + 1]):
                total += numbers[c] * unit * dense[columns[c]]
            own[r] = total
        for r in range(rank):
            row = packed[r]
            own[r] /= row[r]
            share = own[r]
            for c in range(r + 1, rank):
                own[c] -= share * row[c]
            left -= share * share
            upper[r, i] = share
        if rank < most and left > bound:
            for r in range(rank):
                packed[r, rank] = own[r]
            packed[rank, rank] = upper[rank, i] = np.sqrt(left)
            independent[rank] = i
            rank += 1
        for c in range(a, b):
            dense[columns[c]] = 0
    return np.ascontiguousarray(upper[:rank].T) * largest, independent[:rank].copy()


@compiled
def features_of(rows, factor, near, widths):
    """Return the features of the fit, [S, P]: (e^T N(A^k) - e^T N((A - eps)^k)) X for all k, in coordinates of X.

    ``rows``, [M, n, 1 + S], has the graph as it is first. X = ``factor`` Q^T, with orthonormal columns in Q; of the
    factor, [n, r], walks of k steps need the first ``near[k]`` rows and ``widths[k]`` columns.
    """
    size, first = rows.shape[2] - 1, 0
    phi = np.empty((size, widths.sum()))
    for k in range(len(near)):
        moved = np.empty((near[k], size))
        for i in range(near[k]):
            row = rows[k, i]
            for s in range(size):
                moved[i, s] = row[0] - row[1 + s]
        phi[:, first : first + widths[k]] = np.dot(moved.T, np.ascontiguousarray(factor[: near[k], : widths[k]]))
        first += widths[k]
    return phi


@compiled
def factorise(matrix):
    """Write R, R^T R = ``matrix``, on and above the diagonal of a symmetric matrix; return whether it is positive."""
    count = len(matrix)
    for i in range(count):
        own = matrix[i]
        if not own[i] > 0:
            return False
        own[i:] /= np.sqrt(own[i])
        for j in range(i + 1, count):
            row, share = matrix[j], own[j]
            for c in range(j, count):
                row[c] -= share * own[c]
    return True


@compiled
def solve_factorised(factor, right):
    """Return (R^T R)^-1 times a vector, for the R of :func:`factorise`."""
    solved, count = right.copy(), len(right)
    for i in range(count):
        row = factor[i]
        solved[i] /= row[i]
        for c in range(i + 1, count):
            solved[c] -= solved[i] * row[c]
    for i in range(count - 1, -1, -1):
        row, total = factor[i], solved[i]
        for c in range(i + 1, count):
            total -= row[c] * solved[c]
        solved[i] = total / row[i]
    return solved


@compiled
def solve_kept(phi, change, threshold, relative, few):
    """Return the W of smallest norm that minimises |phi W - change|^2, and whether it may be believed.

    It may if no singular value of phi is at most ``threshold``, times the largest one if ``relative``, so that all of
    them are kept: if phi^T phi - t^2 I is positive, where t is the threshold, or what rounding allows if that is more.
    Then W = (phi^T phi)^-1 phi^T change, or phi^T (phi phi^T)^-1 change if there are fewer samples than parameters.
    If coordinates were left out of phi (``few``), the threshold also has to be so large that they would be too.
    """
    tall = phi.shape[0] > phi.shape[1]
    weights = np.zeros(phi.shape[1])
    if not phi.shape[1]:  # All features are 0.
        return weights, True
    gram, largest = np.dot(phi.T, phi) if tall else np.dot(phi, phi.T), 0.0
    for i in range(len(gram)):
        largest += gram[i, i]
    largest = np.sqrt(largest)
    bound = threshold * largest if relative else threshold
    if not (np.isfinite(largest) and np.isfinite(np.dot(change, change))) or (few and bound < FINE * largest):
        return weights, False
    shifted, smallest = gram.copy(), max(bound, _FAR * largest)
    for i in range(len(gram)):
        shifted[i, i] -= smallest * smallest
    if not (factorise(shifted) and factorise(gram)):
        return weights, False
    left = change
    for _ in range(2):  # The second time for what the first has lost to rounding.
        solved = solve_factorised(gram, np.dot(phi.T, left) if tall else left)
        add_to(weights, solved if tall else np.dot(phi.T, solved))
        left = change - np.dot(phi, weights)
    return weights, True


@compiled
def expand(solution, factor, independent, widths, count):
    """Return beta, [n, M], with w_k = X^T beta_k, and the products X w_k, [n, M], for a solution in coordinates.

    X = L Q^T with the ``factor`` L, so that w_k = Q c_k = X^T L^-T c_k, where c_k is a part of the solution.
    """
    hops, first = len(widths), 0
    beta, y = np.zeros((count, hops)), np.zeros((count, hops))
    for k in range(hops):
        part = solution[first : first + widths[k]].copy()
        y[: len(factor), k] = np.dot(np.ascontiguousarray(factor[:, : widths[k]]), part)
        for r in range(widths[k] - 1, -1, -1):
            own = factor[independent[r]]
            part[r] /= own[r]
            for c in range(r):
                part[c] -= own[c] * part[r]
            beta[independent[r], k] = part[r]
        first += widths[k]
    return beta, y


@compiled
def gradient_of_walks(weight, source, sink, seeds, e, y, kind):
    """Return the derivative of sum_k e^T N(A^k) y_k with respect to the entries of A, [e], for y, [n, M].

    L_k and R_k in N(A^k) = L_k A^k R_k are functions of D_k = A^k 1. Both A^k and D_k are chains of k products, so an
    entry of A contributes one term for each position in a chain. The derivatives of D^-1/2 and D^-1 with respect to D
    are -D^-3/2 / 2 and -D^-2.
    """
    count, hops = y.shape
    entries = len(weight)
    totals, walks, ends = np.ones((hops + 1, count)), np.zeros((hops + 1, count)), np.zeros((hops + 1, count))
    gradient, slope, before = np.zeros(entries), np.zeros(count), np.zeros(count)
    for k in range(hops):
        totals[k + 1] = 0
        for j in range(entries):
            totals[k + 1, sink[j]] += weight[j] * totals[k, source[j]]
    start = np.zeros(count)
    for i in range(len(seeds)):
        start[seeds[i]] = e[i]
    for k in range(1, hops + 1):
        left, right = np.ones(count), np.ones(count)
        if kind != NONE:
            left = scales(totals[k].copy(), kind)
        if kind == SYMMETRIC:
            right = left
        for i in range(count):
            walks[0, i], ends[0, i] = start[i] * left[i], right[i] * y[i, k - 1]
        for step in range(k):
            walks[step + 1], ends[step + 1] = 0, 0
            for j in range(entries):
                walks[step + 1, source[j]] += weight[j] * walks[step, sink[j]]
                ends[step + 1, sink[j]] += weight[j] * ends[step, source[j]]
        for i in range(count):
            slope[i] = 0
            if kind == SYMMETRIC:
                slope[i] = -0.5 * left[i] ** 3 * (start[i] * ends[k, i] + walks[k, i] * y[i, k - 1])
            elif kind == ROW:
                slope[i] = -(left[i] ** 2) * start[i] * ends[k, i]
        for step in range(k, 0, -1):
            for j in range(entries):
                gradient[j] += walks[step - 1, sink[j]] * ends[k - step, source[j]]
                gradient[j] += slope[sink[j]] * totals[step - 1, source[j]]
            if step > 1:
                before[:] = 0
                for j in range(entries):
                    before[source[j]] += weight[j] * slope[sink[j]]
                slope, before = before, slope
    return gradient


@compiled
def spans_of(hop, independent, num_hops):
    """Return how many nodes, the first ones, walks of k steps may reach, and how many of their rows are independent."""
    near, widths = np.zeros(num_hops, np.int64), np.zeros(num_hops, np.int64)
    for k in range(num_hops):
        for i in range(len(hop)):  # Nodes need not be sorted by their hop.
            if hop[i] <= k + 1:
                near[k] = i + 1
        widths[k] = count_up_to(independent, near[k] - 1)
    return near, widths


@compiled
def fit_parts(wanted, parts, values, x, changes, num_hops, kind, threshold, relative, found):
    """Fit the computation graphs of these numbers, and write the results into ``found``.

    ``parts`` has where the nodes and entries of each begin, how many of the nodes have features that F sees, the rows
    of X and hops of the nodes, ends of the entries and the rows of ``values``, [., 1 + S], that they have. ``found``
    has, one part after the other, the rows e^T N(A^k), beta and X w_k, all [n, M], the gradient of p with respect to A,
    [e], the mean square of what is left of ``changes``, [., S], and whether the solution may be believed.
    """
    node_start, entry_start, visible, nodes, hops, ends, places = parts
    rows, betas, products, scores, errors, sound = found
    seeds, e = np.zeros(1, np.int64), np.ones(1)
    for i in wanted:
        a, b, c, d = node_start[i], node_start[i + 1], entry_start[i], entry_start[i + 1]
        source, sink, hop, place = ends[0, c:d], ends[1, c:d], hops[a:b], places[c:d]
        factor, independent = coordinates_of(x, nodes[a : a + visible[i]])
        near, widths = spans_of(hop, independent, num_hops)
        walks = rows_of_walks(values, place, source, sink, hop, seeds, e, num_hops, kind)
        phi, change = features_of(walks, factor, near, widths), changes[i]
        few = len(independent) < len(factor)
        solution, sound[i] = solve_kept(phi, change, threshold, relative, few)
        if sound[i]:
            weight, left = np.empty(d - c), np.dot(phi, solution)
            for j in range(d - c):
                weight[j] = values[place[j], 0]
            for j in range(len(left)):
                errors[i] += (left[j] - change[j]) ** 2 / len(left)
            betas[a:b], products[a:b] = expand(solution, factor, independent, widths, b - a)
            scores[c:d] = gradient_of_walks(weight, source, sink, seeds, e, products[a:b], kind)
            rows[a:b] = walks[:, :, 0].T


@compiled
def normalised_matrices(values, source, sink, count, matrices):
    """Write the first rows and columns of N(A) = D^-1/2 A D^-1/2, D = diag(A 1), into ``matrices``, [S, rows, columns].

    ``values``, [e, S], are S sets of entries of A on ``count`` nodes; N(A) is computed in their precision. A node
    without weight has rows and columns of 0.
    """
    size, (_, rows, columns) = values.shape[1], matrices.shape
    side, entry = np.zeros((count, size), values.dtype), np.empty(size, values.dtype)
    for j in range(len(source)):
        add_to(side[sink[j]], values[j])
    for i in range(count):
        for s in range(size):
            # The root is taken in the precision of the values. The quotient is rounded to it when it is stored.
            side[i, s] = 1 / np.sqrt(side[i, s]) if side[i, s] > 0 else 0.0
    matrices[:] = 0
    for j in range(len(source)):
        if sink[j] < rows and source[j] < columns:
            # The factors are multiplied in this order, in which PyG multiplies them.
            write_product(entry, values[j], side[sink[j]])
            write_product(entry, entry, side[source[j]])
            for s in range(size):
                matrices[s, sink[j], source[j]] += entry[s]
