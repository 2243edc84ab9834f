"""The compiled core: what KEC and AnchoredKEC do on one computation graph after another, as functions on arrays.

A computation graph of a citation network has a dozen nodes, on which a call of torch or numpy costs far more than its
arithmetic. These functions are compiled by numba when they are first called; the result is kept on disk, so that the
next process does not wait. They release Python's lock, so that several threads explain nodes at the same time. Each of
them has a plain twin in the tests, which it has to equal. They are one module, because numba compiles the functions
that one of them calls into it, and keeps its machine code until this file changes.

Samples run along the last, contiguous dimension. Where nothing else is said, column 0 of ``values`` has the entries of
A of the graph as it is, column 1 + s those of sample s.
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
_PANEL = 32  # rows of a matrix that are factorised at once
_ROWS = 64  # rows of a matrix that are multiplied with others at once
_APART = 0.1  # the largest correction of a direction for which a first-order one is right
_SPARSE = 8  # X is sparse if not more than one number in so many is not 0
_EMPTY = 1e-14  # the share of the largest eigenvalue of a normal matrix that is rounding
_ROUNDED = 1e-24  # the share of the squares of F's change that is rounding
# Nothing calls these functions as C would, so that numba need not compile a way to do it.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
FINE = 3e-6  # the least ratio of a singular value to the largest one that can be told with these coordinates


def compiled(function: Callable[..., Any]) -> Any:
    """Return a function that numba compiles when it is first called, and whose machine code is kept on disk.

    Where there is no folder to keep it in (``NUMBA_CACHE_DIR`` names one), every process compiles anew.
    """
    return _compile(function, fastmath=False)


def summing(function: Callable[..., Any]) -> Any:
    """Return a compiled function whose sums may be added up in another order, several numbers at a time."""
    return _compile(function, fastmath={"reassoc", "nsz", "contract"})


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    try:
        return njit(cache=True, **_OPTIONS, **options)(function)
    except RuntimeError:  # This is how numba says that it may write neither beside the package nor at the user's.
        return njit(**_OPTIONS, **options)(function)


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
def draw_moves(states, samples, edges, nodes, unit, scale, weight, felt, eps, values):
    """Write eps = min(draw, A), 0 where F does not read an entry, into ``eps``, [e, S], and A, A - eps into ``values``.

    Entries of A, ``weight``, are those of ``edges`` and then the self-loops of ``nodes``, whose keys are drawn from the
    last two of the ``states`` of streams. The first one is that of ``samples``. The draws are those of
    :func:`draw_symmetric`; ``values`` is [e, 1 + S], or [e, 0] if they are not wanted.
    """
    rows, columns, plain = np.empty(len(samples), np.uint64), np.empty(len(weight), np.uint64), len(edges)
    draw_keys(states[0], samples, rows)
    draw_keys(states[1], edges, columns[:plain])
    draw_keys(states[2], nodes, columns[plain:])
    draw_symmetric(rows, columns, unit, scale, eps)
    for j in range(len(weight)):
        own, most = eps[j], weight[j]
        for s in range(len(samples)):
            own[s] = min(own[s], most) if felt[j] else 0.0
        if values.shape[1]:
            values[j, 0] = most
            for s in range(len(samples)):
                values[j, 1 + s] = most - own[s]


@compiled
def draw_below(rows, columns, bound, out):
    """Write whether the bits of every pair of keys are less than ``bound`` into ``out``, [columns, rows]."""
    for j in range(len(columns)):
        column, own = columns[j], out[j]
        for i in range(len(rows)):
            own[i] = mix(rows[i], column) < bound


@compiled
def draw_below_at(rows, columns, row, column, bound, out):
    """Write whether 32 random bits are less than ``bound`` for pairs of keys, row[i] of each sample and column[i]."""
    for s in range(len(out)):
        for i in range(len(row)):
            out[s, i] = mix(rows[s, row[i]], columns[column[i]]) < bound


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
    for i in range(len(array)):  # Loops are compiled in a fraction of the time that slices take, here and below.
        larger[i] = array[i]
    return larger


@compiled
def count_up_to(numbers, most):
    """Return how many of some sorted numbers are at most ``most``."""
    count = 0
    while count < len(numbers) and numbers[count] <= most:
        count += 1
    return count


@compiled
def sort_falling(sizes):
    """Return the order of falling sizes; equal ones stay in the order of their places. Runs of 1, 2, 4 .. are merged.

    numba compiles its own sorting for as long as all of this function's callers together.
    """
    count, run = len(sizes), 1
    order, merged = np.empty(count, np.int64), np.empty(count, np.int64)
    for i in range(count):
        order[i] = i
    while run < count:
        for first in range(0, count, 2 * run):
            middle, last = min(first + run, count), min(first + 2 * run, count)
            left, right = first, middle
            for at in range(first, last):
                if left < middle and (right == last or not sizes[order[right]] > sizes[order[left]]):
                    merged[at] = order[left]
                    left += 1
                else:
                    merged[at] = order[right]
                    right += 1
        order, merged, run = merged, order, 2 * run
    return order


@compiled
def sort_rising(numbers):
    """Return the order of rising whole numbers; see :func:`sort_falling`."""
    opposite = np.empty(len(numbers), np.int64)
    for i in range(len(numbers)):
        opposite[i] = -numbers[i]
    return sort_falling(opposite)


@compiled
def make_table(size):
    """Return an empty table of places by number, with room for ``size`` numbers: the numbers and their places.

    It takes memory for the numbers that it has, and not for all that there could be. A number is looked for from the
    entry on that its product with the golden ratio names, up to an entry that is free, whose place is -1.
    """
    length = 16
    while length < 2 * size:
        length *= 2
    return np.empty(length, np.int64), np.full(length, -1, np.int64)


@compiled
def find_entry(table, number):
    """Return the entry of a table that has a number, or would have it."""
    numbers, places = table
    last = len(numbers) - 1
    entry = np.int64((np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)) & last
    while places[entry] >= 0 and numbers[entry] != number:
        entry = (entry + 1) & last
    return entry


@compiled
def put(table, number, place):
    """Give a number a place in a table, which must have room for it."""
    entry = find_entry(table, number)
    table[0][entry], table[1][entry] = number, place


@compiled
def table_of(numbers, size):
    """Return the table of some distinct numbers, whose places are those in the list, with room for ``size``."""
    table = make_table(size)
    for i in range(len(numbers)):
        put(table, numbers[i], i)
    return table


@compiled
def look_up(table, numbers):
    """Return the places of ``numbers`` in a table; -1 where there is none."""
    found = np.empty(len(numbers), np.int64)
    for i in range(len(numbers)):
        found[i] = table[1][find_entry(table, numbers[i])]
    return found


@compiled
def is_among_first(slot, slots, start, node, each):
    """Return whether a slot, which is one of a node's in a list of slots by node, is one of its first ``each``.

    The slots of a node ascend. ``slots`` is empty if they are all numbers in their order.
    """
    first, stop = np.int64(start[node]), np.int64(start[node + 1])
    if stop - first <= each:
        return True
    if first < 0 or (len(slots) > 0 and stop > len(slots)):
        raise IndexError("it does not say where the edges of a node begin")
    return slot < first + each if len(slots) == 0 else slot <= slots[first + each - 1]


@compiled
def find_part(seeds, into, out_of, ends, ids, reach, depth, leaving, most, each):
    """Return the nodes up to ``reach`` hops before ``seeds``, and the edges into those up to hop ``depth``.

    An edge is kept in a slot: ``ends`` has the sources of all slots, and their sinks, which are read only with edges
    that leave and on a thinner graph. ``into`` has the slots of edges
    sorted by their sink, or nothing if that is their order, and where those of each node begin; ``out_of`` the same by
    their source, or two empty arrays. If ``leaving``, ``depth`` is ``reach``, and edges out of the nodes are found too.
    ``ids`` has the id of the edge in each slot, or begins with -1 if slots are ids.

    The walk stops as soon as it has found more than ``most`` nodes and edges, before there is memory for them; then
    the result has no nodes. If ``each`` is not 0, the walk is on a thinner graph, which has an edge only if it is one
    of the first ``each`` out of its source and of the first ``each`` into its sink; ``out_of`` must be given then.

    The result has the nodes by hop and id, their hops, how many of them are up to hop ``depth``, the slots of the edges
    in the order of their ids, and their ends as positions among the nodes, [2, e]. The position after the last node
    stands for all nodes that are further away, of which the smallest id is the last result; it is -1 if there are none.
    """
    in_slots, in_start = into
    out_slots, out_start = out_of
    source, sink = ends
    nodes, hops = np.empty(max(64, 2 * len(seeds)), np.int64), np.empty(max(64, 2 * len(seeds)), np.int64)
    edges, sinks = np.empty(256, np.int64), np.empty(256, np.int64)
    count, found, first, beyond = len(seeds), 0, 0, np.int64(-1)
    for i in range(count):
        nodes[i], hops[i] = seeds[i], 0
    table = table_of(seeds, max(64, 2 * count))
    stopped = count > most
    for hop in range(1, depth + 2):
        last, begin = count, found
        for i in range(first, last):
            if stopped:
                break
            start, stop = np.int64(in_start[nodes[i]]), np.int64(in_start[nodes[i] + 1])
            if start < 0 or stop < start or stop > len(source):
                raise IndexError("it does not say where the edges into a node begin")
            if each:
                stop = min(stop, start + each)
            elif count + found + stop - start > most:
                stopped = True
                break
            edges, sinks = grow(edges, found + stop - start), grow(sinks, found + stop - start)
            for j in range(start, stop):
                slot = np.int64(in_slots[j]) if len(in_slots) else j
                if each:
                    node = np.int64(source[slot])
                    if node < 0 or node > len(in_start) - 2:
                        raise IndexError("an edge comes from a node that there is not")
                    if not is_among_first(slot, out_slots, out_start, node, each):
                        continue
                edges[found] = slot
                sinks[found] = i
                found += 1
            stopped = count + found > most
        if stopped or hop > reach:
            break
        for j in range(begin, found):
            node = np.int64(source[edges[j]])
            if node < 0 or node > len(in_start) - 2:
                raise IndexError("an edge comes from a node that there is not")
            entry = find_entry(table, node)
            if table[1][entry] >= 0:
                continue
            nodes, hops = grow(nodes, count + 1), grow(hops, count + 1)
            if count + found >= most:
                stopped = True
                break
            nodes[count], hops[count] = node, hop
            table[0][entry], table[1][entry] = node, count
            count += 1
            if 2 * count > len(table[0]):
                table = table_of(nodes[:count], 2 * count)
        first = last
        if stopped or count == last:
            break
        order, found_now = sort_rising(nodes[last:count]), nodes[last:count].copy()
        for i in range(last, count):
            nodes[i] = found_now[order[i - last]]
            put(table, nodes[i], i)
    nodes, hops = nodes[:count].copy(), hops[:count].copy()
    inner = count_up_to(hops, depth)
    if leaving:
        for i in range(inner):
            if stopped:
                break
            start, stop = np.int64(out_start[nodes[i]]), np.int64(out_start[nodes[i] + 1])
            if start < 0 or stop < start or stop > len(out_slots):
                raise IndexError("it does not say where the edges out of a node begin")
            if each:
                stop = min(stop, start + each)
            for j in range(start, stop):
                slot = np.int64(out_slots[j])
                if slot < 0 or slot > len(sink) - 1:
                    raise IndexError("an edge is in a slot that there is not")
                node = np.int64(sink[slot])
                if node < 0 or node > len(in_start) - 2:
                    raise IndexError("an edge leads to a node that there is not")
                if each and not is_among_first(slot, in_slots, in_start, node, each):
                    continue
                if table[1][find_entry(table, node)] < 0:  # Edges between nodes that were found are known already.
                    if count + found >= most:
                        stopped = True
                        break
                    edges, sinks = grow(edges, found + 1), grow(sinks, found + 1)
                    edges[found], sinks[found] = slot, count
                    beyond = node if beyond < 0 else min(beyond, node)
                    found += 1
    if stopped:
        return nodes[:0].copy(), hops[:0].copy(), 0, edges[:0].copy(), np.empty((2, 0), np.int64), np.int64(-1)
    slots, places = np.empty(found, np.int64), np.empty((2, found), np.int64)
    for j in range(found):
        slots[j] = edges[j] if ids[0] < 0 else ids[edges[j]]
    order = sort_rising(slots)
    for j in range(found):
        slots[j], places[1, j] = edges[order[j]], sinks[order[j]]
        node = np.int64(source[slots[j]])
        place = table[1][find_entry(table, node)]
        if place < 0:
            place = count
            beyond = node if beyond < 0 else min(beyond, node)
        places[0, j] = place
    return nodes, hops, inner, slots, places, beyond


@compiled
def find_parts(seeds, graph, reach, depth, adds_loops, rows, most, largest):
    """Return the computation graphs of many nodes, one after the other; each is what :func:`find_part` finds.

    It ends with the part after which there are more nodes or entries than the two numbers in ``most``, and before one
    that has more than ``largest`` nodes and edges.

    ``graph`` has the edges by their sink and by their source, their ends and ids, and the slot of each node's
    self-loop, or -1; an empty array if no node has one. The entries of a part are its edges and a self-loop for every
    node. ``rows`` has a table of ids of edges and one of nodes, and how many edges the first has: an edge's place in it
    is the row that its values have in a table of values, where the self-loops of nodes follow on the edges. The last in
    ``rows`` is the row of what is in neither, and of a self-loop that F does not read, because its node is more than
    ``depth`` hops away or because there is none and layers add none.

    The results are where the nodes and the entries of each part begin, the number of its nodes that are not further
    away than ``reach`` and than ``depth``, its nodes and their hops, and for the entries the slots of edges, their ends
    as positions among the part's nodes, and their rows.
    """
    into, out_of, both_ends, edge_ids, loop_slot = graph
    edge_table, node_table, num_edges, blank = rows
    count = len(seeds)
    node_start, entry_start = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    visible, inner = np.empty(count, np.int64), np.empty(count, np.int64)
    nodes, hops = np.empty(1024, np.int64), np.empty(1024, np.int64)
    slots, places = np.empty(4096, np.int64), np.empty(4096, np.int64)
    sources, sinks = np.empty(4096, np.int64), np.empty(4096, np.int64)
    for i in range(count):
        found, hop, inner[i], edges, ends, beyond = find_part(
            seeds[i : i + 1], into, out_of, both_ends, edge_ids, reach, depth, len(out_of[1]) > 0, largest, np.int64(0)
        )
        if len(found) == 0:
            count = i
            break
        visible[i], a, c = len(found), node_start[i], entry_start[i]
        b = a + len(found) + (1 if beyond >= 0 else 0)
        plain, d = c + len(edges), c + len(edges) + b - a
        nodes, hops, slots, places = grow(nodes, b), grow(hops, b), grow(slots, d), grow(places, d)
        sources, sinks = grow(sources, d), grow(sinks, d)
        for j in range(len(found)):
            nodes[a + j], hops[a + j] = found[j], hop[j]
        if beyond >= 0:
            nodes[b - 1], hops[b - 1] = beyond, reach + 1
        for j in range(len(edges)):
            slots[c + j], sources[c + j], sinks[c + j] = edges[j], ends[0, j], ends[1, j]
            place = edge_table[1][find_entry(edge_table, edges[j] if edge_ids[0] < 0 else edge_ids[edges[j]])]
            places[c + j] = place if place >= 0 else blank
        for j in range(b - a):
            node = nodes[a + j]
            loop = np.int64(loop_slot[node]) if len(loop_slot) else np.int64(-1)
            slots[plain + j] = loop
            sources[plain + j] = sinks[plain + j] = j
            is_read = j < inner[i] and (adds_loops or loop >= 0)
            place = node_table[1][find_entry(node_table, node)] if is_read else np.int64(-1)
            places[plain + j] = num_edges + place if place >= 0 else blank
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
    for j in range(c):
        ends[0, j], ends[1, j] = sources[j], sinks[j]
    return (
        node_start,
        entry_start,
        visible,
        inner,
        nodes[:a].copy(),
        hops[:a].copy(),
        slots[:c].copy(),
        ends,
        places[:c].copy(),
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
def find_strongest_columns(wanted, node_start, visible, nodes, x, slopes, found):
    """Write the columns of X with the largest |sum_v x_vc s_vc| of some parts into ``found``, the largest first.

    ``nodes`` are the rows of X, given without zeros, of the nodes of all parts, and the sum is over those of a part
    that F sees. ``slopes`` has s, [n, d], or where that is empty what it is made of: s_v = sum_k r_vk w_k with the rows
    r, [n, M], and w_k = X^T b_k. Of equal columns the first one comes first, and columns of zeros are left out.
    """
    start, columns, numbers, width = x
    gradient, rows, beta = slopes
    count, column, score = found
    most, hops, whole = column.shape[1], rows.shape[1], len(gradient) > 0
    total, seen, weight, along = np.zeros(width), np.zeros(width, np.bool_), np.zeros(0), np.zeros(0)
    if not whole:
        weight, along = np.zeros(width * hops), np.zeros(width * hops)
    for i in wanted:
        a, held = node_start[i], 0
        for j in range(a, a + visible[i]):
            held += start[nodes[j] + 1] - start[nodes[j]]
        touched, size = np.empty(min(held, width), np.int64), 0
        for j in range(a, a + visible[i]):
            for t in range(start[nodes[j]], start[nodes[j] + 1]):
                c = columns[t]
                if not seen[c]:
                    seen[c], touched[size] = True, c
                    size += 1
                if whole:
                    total[c] += numbers[t] * gradient[j, c]
                else:
                    for k in range(hops):
                        weight[c * hops + k] += numbers[t] * beta[j, k]
                        along[c * hops + k] += numbers[t] * rows[j, k]
        rising, ordered, sizes = sort_rising(touched[:size]), np.empty(size, np.int64), np.empty(size)
        for j in range(size):
            ordered[j] = c = touched[rising[j]]
            for k in range(0 if whole else hops):
                total[c] += weight[c * hops + k] * along[c * hops + k]
                weight[c * hops + k] = along[c * hops + k] = 0.0
            sizes[j] = abs(total[c])
        order = sort_falling(sizes)
        count[i] = min(size, most)
        for k in range(count[i]):
            column[i, k], score[i, k] = ordered[order[k]], total[ordered[order[k]]]
        for j in range(size):
            total[touched[j]], seen[touched[j]] = 0.0, False


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
def fill(into, number):
    """Write a number into all places of a vector."""
    for s in range(len(into)):
        into[s] = number


@compiled
def write_to(into, term):
    """Write a vector into ``into``."""
    for s in range(len(into)):
        into[s] = term[s]


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
def add_powers(into, last, power, square, cube, shift):
    """Write ``square`` c^2 + ``cube`` c^3 into a vector, and add ``shift`` to ``last``; ``power`` is the vector c."""
    for s in range(len(into)):
        into[s] = power[s] * power[s] * (square + cube * power[s])
        last[s] += shift


@compiled
def add_products(into, number, term, factor):
    """Add a number times the products of two vectors to ``into``."""
    for s in range(len(into)):
        into[s] += number * term[s] * factor[s]


@compiled
def add_multiple(into, number, term):
    """Add a number times a vector to ``into``."""
    for s in range(len(into)):
        into[s] += number * term[s]


@compiled
def add_multiples(into, numbers, column, term):
    """Add multiples of a vector to the first rows of ``into``, as often as a column of ``numbers`` says."""
    k, count = 0, len(numbers)
    while k + 4 <= count:  # Four at a time, so that the vector is read once for all of them.
        a, b, c, d = into[k], into[k + 1], into[k + 2], into[k + 3]
        p, q, r, t = numbers[k, column], numbers[k + 1, column], numbers[k + 2, column], numbers[k + 3, column]
        for s in range(len(term)):
            a[s] += p * term[s]
            b[s] += q * term[s]
            c[s] += r * term[s]
            d[s] += t * term[s]
        k += 4
    while k < count:
        add_multiple(into[k], numbers[k, column], term)
        k += 1


@compiled
def subtract_from(into, number, term):
    """Write a number less a vector into ``into``."""
    for s in range(len(into)):
        into[s] = number - term[s]


@compiled
def add_shifted(into, number, sign, term):
    """Add a number and ``sign`` times a vector to ``into``."""
    for s in range(len(into)):
        into[s] += number + sign * term[s]


@compiled
def write_shifted(into, number, sign, term, factor):
    """Write the products of two vectors into ``into``, the first of which is a number and ``sign`` times a vector."""
    for s in range(len(into)):
        into[s] = (number + sign * term[s]) * factor[s]


@summing
def sum_products(row, middle, centred):
    """Return sum_s c_s (x_s - m) and the sum of the squares of these products."""
    total = square = 0.0
    for s in range(len(row)):
        part = centred[s] * (row[s] - middle)
        total += part
        square += part * part
    return total, square


@summing
def sum_of_products(left, right):
    """Return the product of two vectors."""
    total = 0.0
    for s in range(len(left)):
        total += left[s] * right[s]
    return total


@compiled
def multiply(left, right):
    """Return the product of two matrices.

    All products of matrices are this one and the next three, and those with vectors are loops, because numba compiles
    ``np.dot`` anew for every order in memory and number of dimensions.
    """
    product = np.empty((len(left), right.shape[1]))
    multiply_into(left, right, product)
    return product


@compiled
def multiply_into(left, right, product):
    """Write the product of two matrices into ``product``."""
    np.dot(left, right, product)


@compiled
def multiply_by_rows(left, right):
    """Return a matrix times the transpose of a matrix."""
    return np.dot(left, right.T)


@compiled
def multiply_transposed(left, right):
    """Return the transpose of a matrix, times a matrix."""
    return np.dot(left.T, right)


@compiled
def multiply_vector(matrix, vector):
    """Return a matrix times a vector."""
    product = np.empty(len(matrix))
    for i in range(len(matrix)):
        product[i] = sum_of_products(matrix[i], vector)
    return product


@compiled
def multiply_rows(vector, matrix):
    """Return a vector times a matrix."""
    product = np.zeros(matrix.shape[1])
    for i in range(len(matrix)):
        add_multiple(product, vector[i], matrix[i])
    return product


@compiled
def rows_of_walks(values, places, source, sink, hop, seeds, e, num_hops, kind):
    """Return e^T N(A^k), [M, n, S], for k = 1 .. M and S sets of values of the entries of A.

    Entry j has row ``places[j]`` of ``values``, [., S]. Before its last step, a walk of k steps is at most k - 1 hops
    away from a seed, so step k needs only the entries whose sink is within k - 1 hops. With one seed L in
    N(A^k) = L A^k R is a number, and each row is one product with the previous one; with several, each k has walks of
    its own, whose first step is scaled. The entries from the last node, which may stand for all that are further away,
    are added up once for every node that they lead to. A^k 1 is needed of nodes within k hops, for which A^(k-1) 1 is
    needed of those one hop further away; most nodes are at the border, and are left out as early as that allows.
    """
    count, size = len(hop), values.shape[1]
    rows = np.zeros((num_hops, count, size))
    total, added, outer = np.zeros((count, size)), np.zeros((count, size)), np.zeros((count, size))
    walks, step, sides = np.empty((count, size)), np.empty((count, size)), np.empty((count, size))
    again = len(seeds) > 1 and kind != NONE
    for j in range(len(source) if kind != NONE else 0):
        add_to(outer[sink[j]] if source[j] == count - 1 else total[sink[j]], values[places[j]])
    for i in range(count if kind != NONE else 0):
        add_to(total[i], outer[i])
    for k in range(num_hops):
        if k > 0 and kind != NONE:
            last = 2 * num_hops - 1 - k
            for i in range(count):
                if hop[i] <= last:
                    write_product(added[i], outer[i], total[count - 1])
            for j in range(len(source)):
                if source[j] != count - 1 and hop[sink[j]] <= last:
                    multiply_add(added[sink[j]], values[places[j]], total[source[j]])
            total, added = added, total
        for i in range(count if kind != NONE else 0):
            if hop[i] <= k + 1:
                write_to(sides[i], total[i])
                scales(sides[i], kind)
        if k == 0 or again:
            for i in range(count):
                if hop[i] <= 0:
                    fill(walks[i], 0.0)
            for i in range(len(seeds)):
                fill(walks[seeds[i]], e[i])
                if again:
                    write_product(walks[seeds[i]], walks[seeds[i]], sides[seeds[i]])
        for taken in range(0 if again else k, k + 1):
            for i in range(count):
                if hop[i] <= taken + 1:
                    fill(step[i], 0.0)
            for j in range(len(source)):
                if hop[sink[j]] <= taken:
                    multiply_add(step[source[j]], values[places[j]], walks[sink[j]])
            walks, step = step, walks
        for i in range(count):
            if hop[i] > k + 1:
                continue
            row, walk = rows[k, i], walks[i]
            if kind == NONE or (kind == ROW and again):
                write_to(row, walk)
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
            write_to(scale[i], inverse[i])
            scales(scale[i], kind)
            scales(inverse[i], np.int64(ROW))
    for j in range(len(source)):
        if hop[sink[j]] < num_hops:
            if kind == SYMMETRIC:
                write_product(factors[j], scale[sink[j]], scale[source[j]])
            else:
                write_to(factors[j], scale[sink[j]])
    return factors, inverse


@compiled
def value_of_propagation(moves, source, sink, hop, e, y, v, kind, base, sign):
    """Return sum_k e^T N^k y_k + sum_(k < M) sum_j v_kj e^T N^k c^j, with c = N 1, for S sets of values, [S].

    The entries of A are ``base``, [e], plus ``sign`` times ``moves``, [e, S]. ``y`` has the y_k for k = 1 .. M, [n, M],
    ``v`` the weights of the powers j = 2 and 3 for k = 0 .. M - 1, [M, 2], and ``e`` how often F is read from each
    node, [n]. The sum is e^T z_0, where z_k = v_k2 c^2 + v_k3 c^3 + N (y_(k+1) + z_(k+1)).
    """
    spent, places = np.zeros((len(hop), moves.shape[1])), np.empty(len(source), np.int64)
    for j in range(len(source)):
        places[j] = j
        add_to(spent[sink[j]], moves[j])
    return value_of_moves(moves, places, spent, source, sink, hop, e, y, v, kind, base, sign)


@compiled
def value_of_moves(moves, places, spent, source, sink, hop, e, y, v, kind, base, sign):
    """Do what :func:`value_of_propagation` does, given the sums of ``moves`` of the entries into each node, [n, S].

    Entry j has row ``places[j]`` of ``moves``. Most entries only count in a degree, so that only their sums are read.
    """
    count, hops = y.shape
    total, inner = np.zeros(moves.shape[1]), np.zeros(len(source), np.int64)
    known, total_of = 0, np.zeros(count)
    for j in range(len(source)):
        total_of[sink[j]] += base[j]
    for j in range(len(source)):  # Other entries only count in degrees.
        if hop[sink[j]] < hops:
            inner[known] = j
            known += 1
    inner = inner[:known]
    size = max(1, min(_BLOCK, len(total)))  # also if there are no samples, because the step of a range is never 0
    entries, scale = np.empty((known, size)), np.empty((count, size))
    c, z, into = np.empty((count, size)), np.empty((count, size)), np.empty((count, size))
    for first in range(0, len(total), size):  # so many samples that all vectors stay in the processor's cache
        last = min(first + size, len(total))
        for i in range(count):
            fill(scale[i], 0.0 if kind != NONE else 1.0)
            fill(c[i], 0.0)
            fill(z[i], 0.0)
        if kind != NONE:
            for i in range(count):
                add_shifted(scale[i, : last - first], total_of[i], sign, spent[i, first:last])
                scales(scale[i], kind)
        for r in range(known):
            j = inner[r]
            own = entries[r, : last - first]
            write_shifted(own, base[j], sign, moves[places[j], first:last], scale[sink[j]])
            if kind == SYMMETRIC:
                write_product(own, own, scale[source[j]])
            add_to(c[sink[j], : last - first], own)
        for k in range(hops - 1, -1, -1):
            for i in range(count):
                if hop[i] <= k + 1:
                    add_powers(into[i], z[i], c[i], v[k, 0], v[k, 1], y[i, k])
            for r in range(known):
                j = inner[r]
                if hop[sink[j]] <= k:
                    multiply_add(into[sink[j]], entries[r], z[source[j]])
            z, into = into, z
        for i in range(count):
            if e[i] != 0:
                for s in range(last - first):
                    total[first + s] += e[i] * z[i, s]
    return total


@compiled
def gradient_of_propagation(values, source, sink, hop, e, y, v, kind):
    """Return the mean over S sets of values, [e, S], of the derivative of :func:`value_of_propagation`, [e].

    Let l_k = (N^T)^k e and R_k = y_(k+1) + v_(k+1) c^j + N R_(k+1). The derivative with respect to N is
    sum_k l_k R_k^T + q 1^T with q = sum_k l_k sum_j j v_kj c^(j-1), and the chain rule through D gives that to A.
    """
    count, hops, size = len(hop), y.shape[1], values.shape[1]
    factors, inverse = factors_of(values, source, sink, hop, hops, kind)
    entries, c = np.empty((len(source), size)), np.zeros((count, size))
    for j in range(len(source)):
        write_product(entries[j], values[j], factors[j])
        add_to(c[sink[j]], entries[j])
    walks = np.zeros((hops, count, size))
    for i in range(count):
        fill(walks[0, i], e[i])
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
        gradient[j] /= size
    return gradient


@compiled
def subtract_products(own, rows, first, last, i):
    """Subtract from own[c], for c >= i, the sum of rows[k, i] rows[k, c] over k from ``first`` to ``last``."""
    k = first
    while k + 4 <= last:  # Four rows at a time, so that ``own`` is read and written once for all of them.
        a, b, c, d = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        p, q, r, s = a[i], b[i], c[i], d[i]
        for j in range(i, len(own)):
            own[j] -= (p * a[j] + q * b[j]) + (r * c[j] + s * d[j])
        k += 4
    while k < last:
        a, p = rows[k], rows[k, i]
        for j in range(i, len(own)):
            own[j] -= p * a[j]
        k += 1


@compiled
def subtract_panel(panel, top, rows, first, last, rank):
    """Subtract R^T R from rows ``first`` to ``last`` of a matrix, in the columns from ``first`` on.

    ``panel`` has these rows from row ``top`` on. R has the first ``rank`` of ``rows``. A product of matrices is several
    times as fast as one vector after another.
    """
    height, width = last - first, rows.shape[1] - first
    left, right = np.empty((height, rank)), np.empty((rank, width))
    for k in range(rank):
        for j in range(height):
            left[j, k] = rows[k, first + j]
        for j in range(width):
            right[k, j] = rows[k, first + j]
    product = multiply(left, right)
    for i in range(height):
        for j in range(width):
            panel[top + i, first + j] -= product[i, j]


@compiled
def write_products(x, nodes, unit, first, last, dense, out):
    """Write the products of rows ``first`` to ``last`` of some of X with those from themselves on into ``out``."""
    start, columns, numbers, _ = x
    for i in range(first, last):
        own, a, b = out[i - first], start[nodes[i]], start[nodes[i] + 1]
        for c in range(a, b):
            dense[columns[c]] = numbers[c] * unit
        for j in range(i, len(nodes)):
            total = 0.0
            for c in range(start[nodes[j]], start[nodes[j] + 1]):
                total += numbers[c] * unit * dense[columns[c]]
            own[j] = total
        for c in range(a, b):
            dense[columns[c]] = 0


@compiled
def link_columns(x, nodes, size):
    """Return lists of the ``size`` numbers in some rows of X, one for every column, in ascending order of the rows.

    They are where the list of each column begins, -1 if it has none, and for every number the next in its list, or
    -1, its row and where it is in X.
    """
    start, columns, _, width = x
    head, after = np.empty(width, np.int64), np.empty(size, np.int64)
    rows, places = np.empty(size, np.int64), np.empty(size, np.int64)
    for c in range(width):
        head[c] = -1
    at = size
    for i in range(len(nodes) - 1 if size else -1, -1, -1):
        for c in range(start[nodes[i] + 1] - 1, start[nodes[i]] - 1, -1):
            at -= 1
            after[at], rows[at], places[at] = head[columns[c]], i, c
            head[columns[c]] = at
    return head, after, rows, places


@compiled
def write_products_by_lists(x, nodes, unit, first, last, lists, out):
    """Do what :func:`write_products` does with the lists of :func:`link_columns`, of rows from ``first`` on.

    Only pairs of numbers in the same column are looked at, which are few if most of X is 0. Rows up to ``last`` are
    taken out of the lists.
    """
    start, columns, numbers, _ = x
    head, after, rows, places = lists
    for i in range(first, last):
        own = out[i - first]
        for j in range(i, len(nodes)):
            own[j] = 0
        for c in range(start[nodes[i]], start[nodes[i] + 1]):
            at, share = head[columns[c]], numbers[c] * unit
            head[columns[c]] = after[at]
            while at >= 0:
                own[rows[at]] += numbers[places[at]] * unit * share
                at = after[at]


@compiled
def coordinates_of(x, nodes):
    """Return coordinates of some rows of X, and which rows are independent of those before them.

    X is sparse: ``x`` has where each row begins, the columns, the numbers, and how many columns there are. With
    X = L Q^T, L lower triangular and Q orthonormal, L is Cholesky's factor of X X^T. It is returned without the columns
    of rows that depend on rows before them, [n, r], together with the places of the r others.
    """
    start, _, numbers, width = x
    count = len(nodes)
    # An integer that is written down here has a type of its own, for which what it is given to is compiled again.
    most, size, none = min(count, width), np.int64(0), np.int64(0)
    largest = 0.0  # Numbers are divided by the largest one, so that no square is too large or too small.
    for i in range(count):
        size += start[nodes[i] + 1] - start[nodes[i]]
        for c in range(start[nodes[i]], start[nodes[i] + 1]):
            largest = max(largest, abs(numbers[c]))
    is_sparse = size * _SPARSE <= count * width
    dense = np.zeros(0 if is_sparse else width)
    lists = link_columns(x, nodes, size if is_sparse else none)
    unit = 1 / largest if largest > 0 else 0.0
    upper = np.zeros((most, count))  # L^T, so that loops are long
    panel = np.zeros((min(_PANEL, count), count))
    independent, rank = np.empty(most, np.int64), none
    for first in range(0, count, _PANEL):
        if rank == most:  # All other rows depend on those that were found, and their coordinates are known.
            break
        last, known = min(first + _PANEL, count), rank
        if is_sparse:
            write_products_by_lists(x, nodes, unit, first, last, lists, panel)
        else:
            write_products(x, nodes, unit, first, last, dense, panel)
        bounds = np.empty(last - first)
        for i in range(first, last):
            bounds[i - first] = _DEPENDENT * panel[i - first, i]
        if known:
            subtract_panel(panel, none, upper, first, last, known)
        for i in range(first, last):
            own = panel[i - first]
            subtract_products(own, upper, known, rank, i)
            if rank < most and own[i] > bounds[i - first]:
                share = 1 / np.sqrt(own[i])
                for c in range(i, count):
                    upper[rank, c] = own[c] * share
                independent[rank] = i
                rank += 1
    factor = np.empty((count, rank))
    for i in range(count):
        for c in range(rank):
            factor[i, c] = upper[c, i] * largest
    return factor, independent[:rank].copy()


@compiled
def features_of(rows, factor, independent, near, widths):
    """Return the features of the fit, [P, S]: (e^T N(A^k) - e^T N((A - eps)^k)) X for all k, in coordinates of X.

    ``rows``, [M, n, 1 + S], has the graph as it is first. X = ``factor`` Q^T, with orthonormal columns in Q; of the
    factor, [n, r], walks of k steps need the first ``near[k]`` rows and ``widths[k]`` columns. A column is 0 above the
    row that is its number in ``independent``, so that a few columns at a time need only the rows from there on.
    """
    size, total = rows.shape[2] - 1, 0
    for k in range(len(near)):
        total += widths[k]
    phi, first = np.empty((total, size)), 0
    for k in range(len(near)):
        moved = np.empty((near[k], size))
        for i in range(near[k]):
            row, own = rows[k, i], moved[i]
            for s in range(size):
                own[s] = row[0] - row[1 + s]
        for start in range(0, widths[k], _PANEL):
            stop, top = min(start + _PANEL, widths[k]), independent[start]
            part = np.empty((stop - start, near[k] - top))
            for c in range(stop - start):
                for i in range(near[k] - top):
                    part[c, i] = factor[top + i, start + c]
            multiply_into(part, moved[top:], phi[first + start : first + stop])
        first += widths[k]
    return phi


@compiled
def factorise(matrix):
    """Write R, R^T R = ``matrix``, on and above the diagonal of a symmetric matrix; return whether it is positive.

    Nothing below the diagonal is read.
    """
    count = len(matrix)
    for first in range(0, count, _PANEL):
        last = min(first + _PANEL, count)
        if first:
            subtract_panel(matrix, first, matrix, first, last, first)
        for i in range(first, last):
            own = matrix[i]
            subtract_products(own, matrix, first, i, i)
            if not own[i] > 0:
                return False
            share = 1 / np.sqrt(own[i])
            for j in range(i, count):
                own[j] *= share
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
def transpose(matrix):
    """Return a copy of a matrix with rows and columns exchanged."""
    count, width = matrix.shape
    turned = np.empty((width, count))
    for i in range(count):
        for c in range(width):
            turned[c, i] = matrix[i, c]
    return turned


@compiled
def find_eigenvectors(matrix):
    """Return the eigenvalues of a symmetric matrix in ascending order, and its eigenvectors, as columns."""
    values, vectors = np.linalg.eigh(matrix)
    return values, np.ascontiguousarray(vectors)


@compiled
def products_of_rows(side):
    """Return the products of all rows of a matrix with each other, on and above the diagonal; below it is 0."""
    count = len(side)
    gram = np.zeros((count, count))
    for first in range(0, count, _ROWS):  # Half of the products are enough.
        last = min(first + _ROWS, count)
        product = multiply_by_rows(side[first:last], side[first:])
        for i in range(last - first):
            for c in range(i, count - first):
                gram[first + i, first + c] = product[i, c]
    return gram


@compiled
def solve_kept(phi, change, threshold, relative, few):
    """Return the W of smallest norm that minimises |phi^T W - change|^2, and whether it may be believed.

    ``phi`` is [P, S]. Singular values of at most ``threshold``, times the largest one if ``relative``, are left out.
    If all of phi phi^T - t^2 I is positive, where t is the threshold, or what rounding allows if that is more, there
    are none, and W = (phi phi^T)^-1 phi change, or phi (phi^T phi)^-1 change if there are fewer samples than
    parameters. Otherwise they are found, unless rounding does not allow that: then W is not to be believed.
    If coordinates were left out of phi (``few``), the threshold also has to be so large that they would be too.
    """
    width, count = phi.shape
    weights = np.zeros(width)
    if not width:  # All features are 0.
        return weights, True
    side = phi if count > width else transpose(phi)
    gram, largest = products_of_rows(side), 0.0
    for i in range(len(gram)):
        largest += gram[i, i]
    largest = np.sqrt(largest)
    bound = threshold * largest if relative else threshold
    if not (np.isfinite(largest) and np.isfinite(sum_of_products(change, change))) or (few and bound < FINE * largest):
        return weights, False
    shifted, smallest = gram.copy(), max(bound, _FAR * largest)
    for i in range(len(gram)):
        shifted[i, i] -= smallest * smallest
    if not factorise(shifted):
        return solve_truncated(phi, gram, change, threshold, relative)
    if not factorise(gram):
        return weights, False
    left = change.copy()
    for _ in range(2):  # The second time for what the first has lost to rounding.
        solved = solve_factorised(gram, multiply_vector(phi, left) if count > width else left)
        add_to(weights, solved if count > width else multiply_vector(phi, solved))
        foreseen = multiply_rows(weights, phi)
        for s in range(count):
            left[s] = change[s] - foreseen[s]
    return weights, True


@compiled
def solve_truncated(phi, gram, change, threshold, relative):
    """Do what :func:`solve_kept` does where singular values are left out; ``gram`` has the smaller products of phi.

    The squares of singular values are the eigenvalues of the products, in which more of small ones is lost to rounding
    than in phi. Therefore the vectors that are left out are made orthogonal to the others with respect to phi itself.
    """
    width, count = phi.shape
    weights, tall = np.zeros(width), count > width
    for i in range(len(gram)):
        for c in range(i):
            gram[i, c] = gram[c, i]
    values, vectors = find_eigenvectors(gram)
    largest = np.sqrt(max(values[-1], 0.0))
    bound = threshold * largest if relative else threshold
    if bound < _FAR * largest:
        return weights, False
    turned, out = transpose(vectors), 0
    while out < len(values) and not values[out] > bound * bound:
        out += 1
    for t in range(out):
        own = turned[t].copy()
        seen = multiply_vector(phi, multiply_rows(own, phi)) if tall else multiply_rows(multiply_vector(phi, own), phi)
        for k in range(out, len(values)):
            share = sum_of_products(turned[k], seen) / (values[k] - values[t])
            if abs(share) < _APART:  # Other directions cannot be told apart.
                add_multiple(turned[t], -share, turned[k])
    left = change.copy()
    for _ in range(2):
        right = multiply_vector(phi, left) if tall else left
        for t in range(out):
            add_multiple(right, -sum_of_products(turned[t], right), turned[t])
        solved = np.zeros(len(right))
        for k in range(out, len(values)):
            add_multiple(solved, sum_of_products(turned[k], right) / values[k], turned[k])
        for t in range(out):
            add_multiple(solved, -sum_of_products(turned[t], solved), turned[t])
        add_to(weights, solved if tall else multiply_vector(phi, solved))
        foreseen = multiply_rows(weights, phi)
        for s in range(count):
            left[s] = change[s] - foreseen[s]
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
        for i in range(len(factor)):
            for c in range(widths[k]):
                y[i, k] += factor[i, c] * part[c]
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
        fill(totals[k + 1], 0.0)
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
            fill(walks[step + 1], 0.0)
            fill(ends[step + 1], 0.0)
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
                fill(before, 0.0)
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
        phi, change = features_of(walks, factor, independent, near, widths), changes[i]
        few = len(independent) < len(factor)
        solution, sound[i] = solve_kept(phi, change, threshold, relative, few)
        if sound[i]:
            weight, left = np.empty(d - c), multiply_rows(solution, phi)
            for j in range(d - c):
                weight[j] = values[place[j], 0]
            for j in range(len(left)):
                errors[i] += (left[j] - change[j]) ** 2 / len(left)
            beta, y = expand(solution, factor, independent, widths, b - a)
            gradient = gradient_of_walks(weight, source, sink, seeds, e, y, kind)
            write_to(scores[c:d], gradient)
            for j in range(b - a):
                for k in range(num_hops):
                    betas[a + j, k], products[a + j, k], rows[a + j, k] = beta[j, k], y[j, k], walks[k, j, 0]


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
    for s in range(size):
        for i in range(rows):
            fill(matrices[s, i], 0.0)
    for j in range(len(source)):
        if sink[j] < rows and source[j] < columns:
            # The factors are multiplied in this order, in which PyG multiplies them.
            write_product(entry, values[j], side[sink[j]])
            write_product(entry, entry, side[source[j]])
            for s in range(size):
                matrices[s, sink[j], source[j]] += entry[s]


@compiled
def slopes_of_entries(values, source, sink, count, slopes, out):
    """Write the derivative for the entries of A, [e, S], given that for the :func:`normalised_matrices`, into ``out``.

    ``slopes``, [S, rows, columns], is the latter. With N_uv = A_uv s_u s_v, where s = D^-1/2, the derivative of s for D
    is -s^3 / 2, so that an entry has an effect on all entries that start or end where it ends.
    """
    size, (_, rows, columns) = values.shape[1], slopes.shape
    side, total = np.zeros((count, size), values.dtype), np.zeros((count, size), values.dtype)
    for j in range(len(source)):
        add_to(side[sink[j]], values[j])
    for i in range(count):
        for s in range(size):
            side[i, s] = 1 / np.sqrt(side[i, s]) if side[i, s] > 0 else 0.0
    for j in range(len(source)):
        own, into, out_of = out[j], sink[j], source[j]
        inside = into < rows and out_of < columns
        for s in range(size):
            own[s] = slopes[s, into, out_of] * side[into, s] * side[out_of, s] if inside else 0.0
            total[into, s] += own[s] * values[j, s]
            total[out_of, s] += own[s] * values[j, s]
    for i in range(count):
        for s in range(size):
            total[i, s] *= 0.5 * side[i, s] * side[i, s]
    for j in range(len(source)):
        own, less = out[j], total[sink[j]]
        for s in range(size):
            own[s] -= less[s]


# What follows is AnchoredKEC's: the terms of its p, the regression on them, and the shares that are read off it.


@compiled
def propagate(values, source, sink, hop, e, num_hops, kind):
    """Return e^T N^k for k = 1 .. M, [M, n, S], and e^T N^k c^j for k = 0 .. M - 1 and j = 2, 3, [M, 2, S].

    ``values``, [e, S], are S sets of values of the entries of A, and c = N 1. The arguments are those of
    :func:`value_of_propagation`.
    """
    count, total = len(hop), values.shape[1]
    rows, moments = np.zeros((num_hops, count, total)), np.zeros((num_hops, 2, total))
    for first in range(0, total, _BLOCK):  # so many samples that all vectors stay in the processor's cache
        size = min(_BLOCK, total - first)
        some = np.empty((len(source), size))
        for j in range(len(source)):
            write_to(some[j], values[j, first : first + size])
        entries, _ = factors_of(some, source, sink, hop, num_hops, kind)
        c, row, step = np.zeros((count, size)), np.zeros((count, size)), np.zeros((count, size))
        for j in range(len(source)):
            if hop[sink[j]] < num_hops:
                write_product(entries[j], entries[j], some[j])
                add_to(c[sink[j]], entries[j])
        for i in range(count):
            fill(row[i], e[i])
        for k in range(num_hops):
            square, cube = moments[k, 0, first : first + size], moments[k, 1, first : first + size]
            for i in range(count):
                own, power = row[i], c[i]
                if hop[i] <= k:
                    for s in range(size):
                        part = own[s] * power[s] * power[s]
                        square[s] += part
                        cube[s] += part * power[s]
            for i in range(count):
                fill(step[i], 0.0)
            for j in range(len(source)):
                if hop[sink[j]] <= k:
                    multiply_add(step[source[j]], entries[j], row[sink[j]])
            row, step = step, row
            for i in range(count):
                write_to(rows[k, i, first : first + size], row[i])
    return rows, moments


@summing
def sum_of(matrix):
    """Return the sum of all numbers of a matrix."""
    total = 0.0
    for i in range(len(matrix)):
        for c in range(matrix.shape[1]):
            total += matrix[i, c]
    return total


@compiled
def largest_directions(gram, most, cut, floor):
    """Return weights, [S, r], with which vectors of a Gram matrix add up to orthonormal ones, and their sizes, [r].

    These are the eigenvectors, divided by the square roots of the eigenvalues, and the latter. Of the eigenvalues, at
    most the ``most`` largest are taken, and none below the share ``cut`` of the largest or below ``floor``.
    """
    count, rank = len(gram), 0
    if count == 0 or not np.isfinite(sum_of(gram)):
        return np.zeros((count, 0)), np.zeros(0)
    values, vectors = find_eigenvectors(gram)
    while rank < min(most, count) and values[count - 1 - rank] > max(cut * values[count - 1], floor):
        rank += 1
    mix, root = np.empty((count, rank)), np.empty(rank)
    for k in range(rank):
        root[k] = np.sqrt(values[count - 1 - k])
        for i in range(count):
            mix[i, k] = vectors[i, count - 1 - k] / root[k]
    return mix, root


@compiled
def fit_curvature(gram, meet, most, cut, ridge, floor):
    """Return the weights with which S gradients add up to the directions V, [S, r], and the curvature B, [r, r].

    ``gram``, [S, S], has the products of the gradients with each other, ``meet`` those of the perturbations with the
    gradients. With z = V^T eps, gradients are fitted by b + V B z, with the penalty ``ridge`` as a share of the spread
    of each direction. A direction whose mean square in ``gram`` is at most ``floor`` is rounding. There are no
    directions if a product is infinite.
    """
    count = len(gram)
    mix, root = largest_directions(gram, most, cut, floor)
    rank = len(root)
    design, along, met = np.ones((count, rank + 1)), np.empty((count, rank)), multiply(meet, mix)
    for s in range(count):
        for k in range(rank):
            design[s, 1 + k], along[s, k] = met[s, k], mix[s, k] * root[k] * root[k]
    normal, right = multiply_transposed(design, design), multiply_transposed(along, design)
    for k in range(rank + 1):
        normal[k, k] += ridge * normal[k, k] if normal[k, k] > 0 else 1.0
    bend = np.zeros((rank, rank))
    if not np.isfinite(sum_of(normal) + sum_of(right)) or not factorise(normal):
        return np.zeros((count, 0)), np.zeros((0, 0))
    for k in range(rank):
        solved = solve_factorised(normal, right[k])
        for j in range(rank):  # half of B + B^T
            bend[j, k] += solved[1 + j] / 2
            bend[k, j] += solved[1 + j] / 2
    return mix, bend


@compiled
def main_columns(gradient, most, rows, cut):
    """Return the directions of columns in which a gradient, [n, d], is largest, [d, u]; all if d is at most ``most``.

    They are found in the ``rows`` rows of the largest norms.
    """
    count, width = gradient.shape
    if width <= most:
        every = np.zeros((width, width))
        for c in range(width):
            every[c, c] = 1.0
        return every
    size, total = np.empty(count), 0.0
    for i in range(count):
        size[i] = sum_of_products(gradient[i], gradient[i])
        total += size[i]
    largest = np.sqrt(total)
    if not 1e-100 < largest < 1e100:  # Squares may be too large or too small.
        largest = 0.0
        for i in range(count):
            for c in range(width):
                largest = max(largest, abs(gradient[i, c]))
        if largest == 0:
            return np.zeros((width, 0))
        for i in range(count):
            size[i] = 0.0
            for c in range(width):
                size[i] += (gradient[i, c] / largest) ** 2
    taken = sort_falling(size)
    chosen = np.empty((min(count, rows), width))
    for i in range(len(chosen)):
        for c in range(width):  # Only directions matter.
            chosen[i, c] = gradient[taken[i] if count > rows else i, c] / largest
    mix, _ = largest_directions(multiply_by_rows(chosen, chosen), most, cut, 0.0)
    return multiply_transposed(chosen, mix)


KHOP, DEGREES, FORESEEN, ENERGY = 0, 1, 2, 3  # kinds of terms, which are scaled in different ways


@compiled
def scales_of_terms(terms, change, kinds, rounding, faint, firm):
    """Return what terms of p, [S, P], are multiplied with, [P], so that one penalty suits all of them.

    The columns of the k-hop model share one scale; every column of the others has its own. That of a term which
    foresees F's change, and is tiny compared with it, is not scaled up to the size of the others. The penalty of all
    but the k-hop terms and those of degrees is smaller by the factor ``firm``. A term that changes by no more than its
    ``rounding``, [P], is left out: its scale is 0.
    """
    count, width = terms.shape
    squares, typical, together, degrees = np.zeros(width), 0.0, 0.0, 0
    for s in range(count):
        typical += change[s] * change[s] / count
        for c in range(width):
            squares[c] += terms[s, c] * terms[s, c]
    for c in range(width):
        squares[c] /= count
        together += squares[c] if kinds[c] == KHOP else 0.0
        degrees += kinds[c] == DEGREES
    scale = np.zeros(width)
    for c in range(width):
        if kinds[c] == KHOP:
            size = together
        elif kinds[c] == DEGREES:
            size = squares[c] * degrees
        else:
            least = faint * faint * typical if kinds[c] == FORESEEN else 0.0
            size = max(squares[c], least) / firm
        scale[c] = 1 / np.sqrt(size) if size > rounding[c] * rounding[c] else 0.0
    return scale


@compiled
def fit_ridge(phi, change, penalties, nearly):
    """Return W, [P], the place of its penalty, the residuals, [S], and the leave-one-out residuals, [S].

    W minimises |phi W - change|^2 + S lambda |W|^2, where lambda is the last of ``penalties`` whose leave-one-out error
    is at most ``nearly`` times the least, or rounding. There must not be more parameters than samples.
    """
    count, width = phi.shape
    if width == 0:
        left = np.empty(count)
        subtract_from(left, 0.0, change)
        return np.zeros(0), len(penalties) - 1, left, left.copy()
    values, vectors = find_eigenvectors(multiply_transposed(phi, phi))
    turned = multiply(phi, vectors)
    along, shrink = multiply_rows(change, turned), np.empty((width, len(penalties)))
    for c in range(width):
        if values[c] <= _EMPTY * values[width - 1]:
            along[c] = 0.0  # What is along a direction in which there are no features is rounding.
        for k in range(len(penalties)):
            shrink[c, k] = 1 / (max(values[c], 0.0) + count * penalties[k])
    shrunk, squares = np.empty((width, len(penalties))), np.empty((count, width))
    for c in range(width):
        for k in range(len(penalties)):
            shrunk[c, k] = shrink[c, k] * along[c]
        for s in range(count):
            squares[s, c] = turned[s, c] * turned[s, c]
    left, leverage = multiply(turned, shrunk), multiply(squares, shrink)
    errors = np.zeros(len(penalties))
    for s in range(count):
        for k in range(len(penalties)):
            left[s, k] -= change[s]
            errors[k] += (left[s, k] / (1 - leverage[s, k])) ** 2
    # Errors that are rounding are equally good, too.
    best, least = 0, errors[0]
    for k in range(len(penalties)):
        least = min(least, errors[k])
    bound = max(nearly * least, _ROUNDED * sum_of_products(change, change))
    for k in range(len(penalties)):
        if errors[k] <= bound:
            best = k
    residual, left_out, weights = np.empty(count), np.empty(count), np.zeros(width)
    for s in range(count):
        residual[s] = left[s, best]
        left_out[s] = residual[s] / (1 - leverage[s, best])
    for i in range(width):
        for c in range(width):
            weights[i] += vectors[i, c] * shrunk[c, best]
    return weights, best, residual, left_out


@compiled
def group_alike(sinks, weights, scores, positions, num_positions):
    """Return for each item the first one with the same sink and weight, and the same score but for a millionth.

    ``positions``, numbers below ``num_positions``, are equal for equal sinks, so that only few items are compared.
    """
    count = len(sinks)
    first, before = np.empty(count, np.int64), np.empty(count, np.int64)
    last = np.empty(num_positions, np.int64)
    for i in range(num_positions):
        last[i] = -1
    for i in range(count):
        first[i], j = i, last[positions[i]]
        while j >= 0:
            apart, size = abs(scores[j] - scores[i]), abs(scores[j]) + abs(scores[i])
            if sinks[j] == sinks[i] and weights[j] == weights[i] and apart <= 1e-6 * size:
                first[i] = j
                break
            j = before[j]
        if j < 0:  # Only the first of each group is kept for comparisons.
            before[i], last[positions[i]] = last[positions[i]], i
    return first


@compiled
def order_by_size(sizes):
    """Return the order of falling sizes; sizes that differ only by rounding are in the order of their places.

    Units that F cannot tell apart have such sizes. Their order must not depend on how their sizes were rounded.
    """
    order = sort_falling(sizes)
    start = 0
    for i in range(1, len(order) + 1):
        if i == len(order) or sizes[order[i - 1]] - sizes[order[i]] > 1e-9 * sizes[order[0]]:
            if i > start + 1:
                places = np.empty(i - start)
                for j in range(start, i):
                    places[j - start] = -order[j]
                again = sort_falling(places)
                for j in range(start, i):
                    order[j] = np.int64(-places[again[j - start]])
            start = i
    return order


@compiled
def shrink_blocks(along, noise, order, smallest, growth, wary):
    """Return by how much each coordinate is shrunk, and the share of its noise that remains in the error.

    The error of a coordinate that was measured with noise n, and is t^2 large, is n t^2 / (n + t^2) if it is shrunk by
    t^2 / (n + t^2), and t^2 if it is left at 0. How large t is in a block is itself uncertain; the error is that of a
    t^2 which is larger by one standard error. The factor is that of a t^2 which is smaller by ``wary`` of them, 1.0 or
    0.0 (not a boolean, because numba compiles for each of these anew if it is written down).
    Blocks have ``smallest`` coordinates in the given ``order`` at first, and grow by the factor ``growth``.
    """
    factor, doubt = np.zeros(len(along)), np.zeros(len(along))
    start, size = 0, float(smallest)
    while start < len(order):
        stop, signal, total = min(start + int(size), len(order)), 0.0, 0.0
        for i in range(start, stop):
            signal += along[order[i]] ** 2
            total += noise[order[i]]
        ratio = signal / total if total > 0 else (np.inf if signal > 0 else 0.0)
        chance = np.sqrt(2 / (stop - start))  # the standard error of the ratio, if there is nothing but noise
        excess = max(0.0, ratio - 1) + chance
        for i in range(start, stop):
            if ratio > 1 + chance:
                factor[order[i]] = 1 - (1 + wary * chance) / ratio
                doubt[order[i]] = 1.0 if np.isinf(excess) else excess / (1 + excess)
            else:
                doubt[order[i]] = excess
        start, size = stop, size * growth
    return factor, doubt


@compiled
def solve_moments(spread, common, right):
    """Return (diag(v) + m m^T)^-1 times a vector, [u], by the formula of Sherman and Morrison."""
    top, bottom = 0.0, 1.0
    for i in range(len(right)):
        top += common[i] * right[i] / spread[i]
        bottom += common[i] * common[i] / spread[i]
    solved = np.empty(len(right))
    for i in range(len(right)):
        solved[i] = (right[i] - common[i] * top / bottom) / spread[i]
    return solved


@compiled
def project_rest(matrix, moments, centred, mean, order, alike, blocks, wary):
    """Return the shrunk projection of what is left on the units, [u], and the variance of each score, in two factors.

    ``matrix``, [u, S], has the moves of the units. What is left is given less its mean, [S], and the ``mean``. The
    variance is given as that of a score that is not shrunk, and as the share of it that remains.
    """
    average, spread, common = moments
    units, count = matrix.shape
    along, noise = np.zeros(units), np.zeros(units)
    for i in range(units):
        total, square = sum_products(matrix[i], average[i], centred)
        along[i] = total / count / np.sqrt(spread[i])
        noise[i] = max(square / count / spread[i] - along[i] * along[i], 0.0) / max(count - 1, 1)
    # Units that cannot be told apart have the mean of all of them.
    members, sums, less = np.zeros(units), np.zeros(units), np.zeros(units)
    for i in range(units):
        members[alike[i]] += 1
        sums[alike[i]] += along[i]
        less[alike[i]] += noise[i]
    for i in range(units):
        along[i] = sums[alike[i]] / members[alike[i]]
        noise[i] = less[alike[i]] / members[alike[i]] ** 2
    factor, doubt = shrink_blocks(along, noise, order, blocks[0], blocks[1], wary)
    # These are the normal equations (diag(v) + m m^T) step = E[eps rest].
    for i in range(units):
        along[i] = np.sqrt(spread[i]) * factor[i] * along[i] + average[i] * mean
        noise[i] /= spread[i]
    return solve_moments(spread, common, along), noise, doubt


@compiled
def mean_of(numbers):
    """Return the mean of some numbers."""
    total = 0.0
    for s in range(len(numbers)):
        total += numbers[s]
    return total / len(numbers)


@compiled
def variance_of(numbers):
    """Return the variance of some numbers, at least two, around their mean."""
    mean, total = mean_of(numbers), 0.0
    for s in range(len(numbers)):
        total += (numbers[s] - mean) ** 2
    return total / (len(numbers) - 1)


@compiled
def project_shares(matrix, change, mirrored, moments, guess, foreseen, alike, seen, left, steps, many, blocks, wary):
    """Return the additive function closest to F's change, [u], the standard errors of its scores, and its excess.

    ``matrix``, [u, S], has the moves of the units in samples, ``change``, [S], the changes of p there, and ``mirrored``
    those at mirror images, or nothing. ``foreseen``, [S], is the product of the ``guess`` and the matrix. ``seen``,
    [u, S'], are the moves at the samples of the fit, where p leaves ``left`` of F, [S'], or nothing. ``moments`` are
    mean, v and m of the units. See :func:`graphfaith.surrogate.additive.project`, whose constants and last argument
    are the last four.
    """
    average, spread, common = moments
    units, count = matrix.shape
    square, product = sum_of_products(foreseen, foreseen), sum_of_products(foreseen, change)
    ratio = product / square if square > 0 else 0.0
    expected, scores, sizes = np.zeros(count), np.empty(units), np.empty(units)
    add_multiple(expected, ratio, foreseen)
    for i in range(units):
        scores[i] = guess[i] * ratio
        sizes[i] = abs(guess[i]) * np.sqrt(spread[i])
    order = order_by_size(sizes)
    variance, doubt, of_mean = np.zeros(units), np.zeros(units), 0.0
    odd, even = np.empty(count), np.empty(count)
    for again in range(steps if units <= count else 1):
        middle = sum_of_products(average, scores)
        if again:
            expected = multiply_rows(scores, matrix)
        for s in range(count):
            rest = change[s] - expected[s]
            odd[s], even[s] = rest, rest
            if len(mirrored):
                other = mirrored[s] - (2 * middle - expected[s])
                odd[s], even[s] = (rest - other) / 2, (rest + other) / 2
        of_rest = mean_of(even)
        if not len(mirrored):
            for s in range(count):
                odd[s] -= of_rest
        step, noise, found = project_rest(matrix, moments, odd, of_rest, order, alike, blocks, 0.0)
        of_mean = variance_of(even) / count
        for i in range(units):
            # A later step sees what an earlier one left of these samples, and that is less than what it left of others.
            doubt[i] = max(doubt[i], found[i])
            variance[i] = doubt[i] * noise[i]
            # A few samples of very many units say nothing of single ones: the guess is then the better one.
            if units <= many * count:
                scores[i] += step[i]
    if len(left) > 1:
        mean, of_left, trusted, rest = mean_of(left), np.array([variance_of(left) / len(left)]), 1.0, left.copy()
        if wary > 0:  # The mean is shrunk as a block of one.
            trusted = shrink_blocks(np.array([mean]), of_left, np.zeros(1, np.int64), blocks[0], blocks[1], wary)[0][0]
        for s in range(len(left)):
            rest[s] -= mean
        step, more, found = project_rest(seen, moments, rest, trusted * mean, order, alike, blocks, wary)
        of_mean += of_left[0]
        for i in range(units):
            variance[i] += found[i] * more[i]
            if units <= many * len(left):
                scores[i] += step[i]
    # The mean of what is left has an error too, which all scores have a part in, along one direction.
    along, errors = solve_moments(spread, common, average), np.empty(units)
    for i in range(units):
        errors[i] = np.sqrt(variance[i] + of_mean * along[i] * along[i])
    return scores, errors, sum_of_products(spread, variance) + of_mean * sum_of_products(average, along)


@compiled
def multiply_sparse(x, nodes, visible, columns):
    """Return the first ``visible`` of some rows of X, which is sparse, times a matrix, [d, u]; 0 for others: [n, u]."""
    start, places, numbers, _ = x
    product = np.zeros((len(nodes), columns.shape[1]))
    for i in range(visible):
        own = product[i]
        for c in range(start[nodes[i]], start[nodes[i] + 1]):
            number, column = numbers[c], columns[places[c]]
            for k in range(len(own)):
                own[k] += number * column[k]
    return product


@compiled
def terms_of(local, eps, source, sink, hop, e, num_hops, kind, y, along, bend, share):
    """Return the terms of p at S samples, [S, P], their kinds and their rounding errors, [P].

    They are the changes of e^T N^k y for k = 1 .. M and those of e^T N^k c^j, the changes that the gradient of F and
    its mean foresee, |eps|^2 and z^T B z / 2. ``local``, [e, 1 + S], has the values of the entries of A, first those of
    the graph as it is; ``along``, [e, 2 + r], the gradient, its mean and V. A rounding error is at most ``share`` of
    the largest number that it is made from.
    """
    size, width, first = eps.shape[1], y.shape[1], num_hops * y.shape[1]
    rows, moments = propagate(local, source, sink, hop, e, num_hops, kind)
    terms = np.empty((size, first + 2 * num_hops + 4))
    kinds, rounding = np.empty(terms.shape[1], np.int64), np.zeros(terms.shape[1])
    largest, highest = 0.0, 0.0
    for k in range(num_hops):
        lost = np.empty((len(hop), size))
        for i in range(len(hop)):
            row = rows[k, i]
            for s in range(size):
                lost[i, s] = row[0] - row[1 + s]
        moved, own = multiply_transposed(lost, y), np.zeros(width)
        for s in range(size):
            for c in range(width):
                terms[s, k * width + c] = moved[s, c]
        for i in range(len(hop)):
            for c in range(width):
                own[c] += rows[k, i, 0] * y[i, c]
        largest += sum_of_products(own, own)
        for j in range(2):
            highest = max(highest, abs(moments[k, j, 0]))
            for s in range(size):
                terms[s, first + 2 * k + j] = moments[k, j, 0] - moments[k, j, 1 + s]
    last, foreseen = first + 2 * num_hops, multiply_transposed(eps, along)
    for c in range(last):
        kinds[c] = KHOP if c < first else DEGREES
        rounding[c] = share * (np.sqrt(largest) if c < first else highest)
    for c in range(4):
        kinds[last + c] = ENERGY if c == 2 else FORESEEN
    energy = np.zeros(size)
    for j in range(len(eps)):
        multiply_add(energy, eps[j], eps[j])
    for s in range(size):
        own, curvature = foreseen[s], 0.0
        for k in range(len(bend)):
            for j in range(len(bend)):
                curvature += own[2 + k] * bend[k, j] * own[2 + j]
        terms[s, last], terms[s, last + 1], terms[s, last + 2] = own[0], own[1], energy[s]
        terms[s, last + 3] = 0.5 * curvature
    return terms, kinds, rounding


@compiled
def sum_squares(matrix):
    """Return the sum of the squares of all numbers of a matrix."""
    total = 0.0
    for i in range(len(matrix)):
        total += sum_of_products(matrix[i], matrix[i])
    return total


@compiled
def mean_square(numbers):
    """Return the mean of the squares of some numbers."""
    return sum_of_products(numbers, numbers) / len(numbers)


@compiled
def anchor_parts(wanted, parts, values, x, changes, samples, slopes, gradient, felt, options, constants, found):
    """Fit AnchoredKEC's p to the computation graphs of these numbers, and write the results into ``found``.

    ``parts``, ``values`` and ``changes`` are those of :func:`fit_parts`. Of the ``samples``, the gradient of F is known
    at some and the regression is made on the others: ``slopes``, [e, 1 + S'], has the gradients with respect to A at
    the graph as it is and at these samples, and ``gradient``, [n, d], the mean of those with respect to X. ``felt``
    says which entries F reads. ``options`` has the number of hops, the normalisations to try, whether entries are
    either there or removed, and the mean square of F's rounding on each part. A part is not sound, and has to be fitted
    by other means, if a number is not finite, if there are more unknowns than samples, or if the gradient alone or 0 is
    better.
    """
    node_start, entry_start, visible, nodes, hops, ends, places = parts
    asked, rest = samples
    num_hops, kinds, drops, noise = options
    rank, most, cut, ridge, share, faint, firm, penalties, nearly = constants
    (
        sound,
        chosen,
        ranks,
        singles,
        solved,
        degrees,
        columns,
        products,
        alongs,
        bends,
        scores,
        left_out,
        fitted,
        rests,
    ) = found
    for i in wanted:
        a, b, c, d = node_start[i], node_start[i + 1], entry_start[i], entry_start[i + 1]
        source, sink, hop, own = ends[0, c:d], ends[1, c:d], hops[a:b], slopes[c:d]
        local, moved = np.empty((d - c, 1 + len(rest))), np.empty((d - c, len(asked)))
        eps, change, e = np.empty((d - c, len(rest))), np.empty(len(rest)), np.zeros(b - a)
        e[0] = 1.0
        for s in range(len(rest)):
            change[s] = changes[i, rest[s]]
        for j in range(d - c):
            row = values[places[c + j]]
            local[j, 0] = row[0]
            for s in range(len(rest)):
                local[j, 1 + s] = row[1 + rest[s]]
                eps[j, s] = row[0] - row[1 + rest[s]]
            for s in range(len(asked)):
                moved[j, s] = row[0] - row[1 + asked[s]]
        of_x = gradient[a : a + visible[i]]
        if not np.isfinite(sum_of(own) + sum_of(of_x) + mean_square(change)) or mean_square(change) <= noise[i]:
            continue
        sampled, local_slope = np.empty((d - c, len(asked))), np.empty(d - c)
        for j in range(d - c):
            local_slope[j] = own[j, 0]
            for s in range(len(asked)):
                sampled[j, s] = own[j, 1 + s]
        spread, gram = sum_squares(moved) / moved.size, multiply_transposed(sampled, sampled)
        for j in range(len(gram)):
            for s in range(len(gram)):
                gram[j, s] *= spread
        mix, bend = fit_curvature(gram, multiply_transposed(moved, sampled), rank, cut, ridge, noise[i])
        size, along, turned = mix.shape[1], np.empty((d - c, 2 + mix.shape[1])), multiply(sampled, mix)
        for j in range(d - c):
            along[j, 0], along[j, 1] = local_slope[j], mean_of(sampled[j])
            for k in range(size):
                along[j, 2 + k] = turned[j, k]
        main = main_columns(of_x, rank, most, cut)
        y = multiply_sparse(x, nodes[a:b], visible[i], main)
        foreseen = multiply_rows(local_slope, eps)
        for s in range(len(rest)):
            foreseen[s] -= change[s]
        width, least = main.shape[1], min(mean_square(change), mean_square(foreseen))
        if num_hops * width + 2 * num_hops + 4 > len(rest):
            continue
        weights = np.zeros(num_hops * width + 2 * num_hops + 4)
        for kind in kinds:
            terms, groups, rounding = terms_of(local, eps, source, sink, hop, e, num_hops, kind, y, along, bend, share)
            scale = scales_of_terms(terms, change, groups, rounding, faint, firm)
            for s in range(len(terms)):
                for k in range(len(scale)):
                    terms[s, k] *= scale[k]
            if not np.isfinite(sum_squares(terms)):
                sound[i] = False
                break
            found_weights, _, residual, left = fit_ridge(terms, change, penalties, nearly)
            error = mean_square(left)
            if error < least:
                least, sound[i], chosen[i] = error, True, kind
                write_product(weights, found_weights, scale)
                for s in range(len(rest)):
                    left_out[i, s], fitted[i, s] = left[s], change[s] + residual[s]
        if not sound[i]:
            continue
        first = num_hops * width
        last, ranks[i, 0], ranks[i, 1] = first + 2 * num_hops, size, width
        for k in range(num_hops):
            for j in range(width):
                solved[i, k, j] = weights[k * width + j]
            degrees[i, k, 0], degrees[i, k, 1] = weights[first + 2 * k], weights[first + 2 * k + 1]
            for j in range(a, b):
                for u in range(width):
                    products[j, k] += y[j - a, u] * weights[k * width + u]
        for k in range(width):
            for j in range(len(main)):
                columns[i, j, k] = main[j, k]
        for k in range(size):
            for j in range(size):
                bends[i, k, j] = weights[last + 3] * bend[k, j]
        for k in range(4):
            singles[i, k] = weights[last + k]
        phi = np.empty(d - c)
        for j in range(d - c):
            phi[j] = weights[last] * along[j, 0] + weights[last + 1] * along[j, 1]
            if drops:
                # Entries are dropped whole, eps = A or 0, so that eps^2 = A eps: the energy is a linear term.
                phi[j] += weights[last + 2] * local[j, 0] * felt[c + j]
            alongs[c + j, 0] = phi[j]
            for k in range(1, 2 + size):
                alongs[c + j, k] = along[j, k]
        if drops:
            singles[i, 2] = 0.0
        one = np.empty((d - c, 1))
        for j in range(d - c):
            one[j, 0] = local[j, 0]
        slope = gradient_of_propagation(one, source, sink, hop, e, products[a:b], degrees[i], chosen[i])
        for j in range(d - c):
            scores[c + j] = slope[j] * felt[c + j] + phi[j]
        explained = multiply_rows(scores[c:d], eps)
        for s in range(len(rest)):
            rests[i, s] = explained[s] - fitted[i, s] + left_out[i, s]


@compiled
def read_parts(wanted, parts, values, samples, felt, units, tables, moments, counts, constants, given, found):
    """Read the shares off AnchoredKEC's p on the computation graphs of these numbers, and write them into ``found``.

    ``given`` is of what :func:`anchor_parts` has found. ``units`` has the unit of each entry, [e], or -1, how many
    there are in each part, and the sink of entries that only count in a degree, or -1. ``tables`` are perturbations of
    the entries, [., S], in the rows of ``values``: those at which the slope of p is taken, and those in which the
    shares are found. ``counts``, [., 3], says how many of each are used, and whether their mirror images are used too.
    ``moments`` are mean, v and m of the entries.

    The results are the shares and their standard errors, [e], their excess, and the changes of p in the samples and
    their mirror images, [., 2, S]; see :func:`project_shares`. What the shares leave at the samples of the fit is
    written over what the slope leaves.
    """
    node_start, entry_start, _, _, hops, ends, places = parts
    unit, num_units, outer = units
    at_slopes, at_draws = tables
    mean, spread, common = moments
    steps, many, blocks, least, held = constants
    chosen, ranks, singles, degrees, products, alongs, bends, left_out, fitted, rests = given
    shares, errors, excess, drawn = found
    largest = 0
    for i in wanted:
        largest = max(largest, entry_start[i + 1] - entry_start[i])
    # New memory for every part would take longer than what is done in it.
    scratch = np.empty(2 * largest * at_draws.shape[1])
    for i in wanted:
        a, b, c, d = node_start[i], node_start[i + 1], entry_start[i], entry_start[i + 1]
        source, sink, hop, place, group = ends[0, c:d], ends[1, c:d], hops[a:b], places[c:d], unit[c:d]
        size, count, m = ranks[i, 0], num_units[i], d - c
        if count == 0 or counts[i, 1] == 0:
            continue
        e, v, kind = np.zeros(b - a), degrees[i], chosen[i]
        e[0] = 1.0
        y = products[a:b]
        own, middle, bend, directions = np.empty(m), np.empty(m), np.empty((size, size)), np.empty((2 + size, m))
        for k in range(size):
            for j in range(size):
                bend[k, j] = bends[i, k, j]
        for j in range(m):
            own[j], middle[j] = values[place[j], 0], mean[place[j]]
            directions[0, j], directions[1, j] = alongs[c + j, 0], middle[j]
            for k in range(2, 2 + size):
                directions[k, j] = alongs[c + j, k]
        # Moments of units, and the share of its unit that each entry has.
        average, deviation, together = np.zeros(count), np.zeros(count), np.zeros(count)
        total, members, part = np.zeros(count), np.zeros(count), np.zeros(m)
        for j in range(m):
            if group[j] >= 0:
                average[group[j]] += middle[j]
                deviation[group[j]] += np.sqrt(spread[place[j]])
                together[group[j]] += common[place[j]]
                total[group[j]] += abs(own[j])
                members[group[j]] += 1
        for j in range(m):
            if group[j] >= 0:
                part[j] = abs(own[j]) / total[group[j]] if total[group[j]] > 0 else 1 / members[group[j]]
        for k in range(count):
            square = deviation[k] * deviation[k]
            deviation[k] = max(square, least * (square + together[k] * together[k]))
        of_units = average, deviation, together
        # The slope of p on average is the first guess.
        mirrors, size_of = counts[i, 2], counts[i, 0]
        at = np.empty((m, max(1, size_of * (1 + mirrors))))
        for j in range(m):
            at[j, 0] = own[j]
            for s in range(size_of):
                at[j, s] = own[j] - at_slopes[place[j], s]
                if mirrors:
                    at[j, size_of + s] = own[j] - (2 * middle[j] - at_slopes[place[j], s])
        slope = gradient_of_propagation(at, source, sink, hop, e, y, v, kind)
        guess, along_mean, pull = np.zeros(count), multiply_vector(directions, middle), np.zeros(2 + size)
        for k in range(size):
            for j in range(size):
                pull[2 + k] += bend[k, j] * along_mean[2 + j]
        pull[0], pull[1] = 1.0, 2 * singles[i, 2]
        bent_slope = multiply_rows(pull, directions)
        for j in range(m):
            if group[j] >= 0:
                guess[group[j]] += (slope[j] * felt[c + j] + bent_slope[j]) * part[j]
        # The changes of p in the samples and in their mirror images 2 E eps - eps. The moves of the units come first,
        # and after them those of entries that are not a unit of their own.
        taken, kappa, row, more = counts[i, 1], singles[i, 2], np.empty(m, np.int64), count
        for j in range(m):
            row[j] = group[j]
            if group[j] < 0 or members[group[j]] > 1:
                row[j] = more
                more += 1
        moves, spent = scratch[: more * taken].reshape(more, taken), np.zeros((b - a, taken))
        energy, along_eps = np.zeros(taken), np.zeros((3 + size, taken))
        for k in range(count):
            if members[k] > 1:
                fill(moves[k], 0.0)
        for j in range(m):
            eps, drawn_here, first_guess = moves[row[j]], at_draws[place[j]], 0.0
            for s in range(taken):
                eps[s] = drawn_here[s]
            add_to(spent[sink[j]], eps)
            if group[j] >= 0:
                first_guess = guess[group[j]]
                if members[group[j]] > 1:
                    add_to(moves[group[j]], eps)
            if kappa != 0:
                multiply_add(energy, eps, eps)
            # This is a product of matrices, but one of them has few rows, and the other one is at hand now.
            add_multiples(along_eps, directions, j, eps)
            add_multiple(along_eps[2 + size], first_guess, eps)
        matrix = moves[:count]
        before = value_of_propagation(own.reshape(-1, 1), source, sink, hop, e, y, v, kind, np.zeros(m), 1.0)[0]
        both, base, sign = np.empty((1 + mirrors, taken)), own, -1.0
        for mirrored in range(1 + mirrors):
            if mirrored:
                base, sign = np.empty(m), 1.0
                for j in range(m):
                    base[j] = own[j] - 2 * middle[j]
                for k in range(2 + size):
                    subtract_from(along_eps[k], 2 * along_mean[k], along_eps[k])
                for s in range(taken):
                    energy[s] += 4 * (along_eps[1, s] - along_mean[1])
            value = value_of_moves(moves, row, spent, source, sink, hop, e, y, v, kind, base, sign)
            for s in range(taken):
                value[s] = before - value[s] + along_eps[0, s] + kappa * energy[s]
            bent = multiply(bend, along_eps[2 : 2 + size])
            for k in range(size):
                add_products(value, 0.5, bent[k], along_eps[2 + k])
            for s in range(taken):
                both[mirrored, s] = drawn[i, mirrored, s] = value[s]
        # Entries that only count in a degree cannot be told apart.
        items, known = np.empty(m, np.int64), 0
        for j in range(m):
            if group[j] >= 0 and members[group[j]] == 1 and outer[c + j] >= 0:
                items[known] = j
                known += 1
        alike, sinks, positions = np.empty(count, np.int64), np.empty(known, np.int64), np.empty(known, np.int64)
        for k in range(count):
            alike[k] = k
        weights, guesses = np.empty(known), np.empty(known)
        for k in range(known):
            j = items[k]
            sinks[k], weights[k], guesses[k], positions[k] = outer[c + j], own[j], guess[group[j]], sink[j]
        first = group_alike(sinks, weights, guesses, positions, b - a)
        for j in range(known):
            alike[group[items[j]]] = group[items[first[j]]]
        few = len(samples) * count <= held
        seen, left = np.zeros((count, len(samples))), np.empty(len(samples) if few else 0)
        for s in range(len(left)):
            left[s] = -left_out[i, s]
        for j in range(m):
            if group[j] >= 0:
                for s in range(len(samples)):
                    seen[group[j], s] += own[j] - values[place[j], 1 + samples[s]]
        scores, stderr, excess[i] = project_shares(
            matrix,
            both[0],
            both[1] if mirrors else both[0][:0],
            of_units,
            guess,
            along_eps[2 + size],
            alike,
            seen,
            left,
            steps,
            many,
            blocks,
            0.0,
        )
        explained = multiply_rows(scores, seen)
        for s in range(len(samples)):
            rests[i, s] = explained[s] - fitted[i, s] + left_out[i, s]
        for j in range(m):
            if group[j] >= 0:
                shares[c + j], errors[c + j] = scores[group[j]], stderr[group[j]]
