"""What the tests of the compiled core share: graphs, values of the entries of A, and plain twins of numpy."""

from __future__ import annotations

import numpy as np

from graphfaith._base import core

KINDS = [core.SYMMETRIC, core.ROW, core.NONE]
FAR = 99  # the hop of a node that no walk reaches


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def random_graph(seed, nodes, entries):
    """Ends of the entries of A, some of them twice, how far a walk from node 0 has to go to each node, and e."""
    random = np.random.default_rng(seed)
    source, sink = random.integers(0, nodes, entries), random.integers(0, nodes, entries)
    hop, e = np.full(nodes, FAR), np.zeros(nodes)
    hop[0], e[0] = 0, 1.5
    for distance in range(1, nodes):
        reached = source[hop[sink] == distance - 1]
        hop[reached] = np.minimum(hop[reached], distance)
    return source, sink, hop, e


def random_entries(seed, entries, samples):
    """Entries of A, [e, S], of which some are 0, in every tenth sample all of them."""
    random = np.random.default_rng(seed)
    values = random.uniform(0.1, 2.0, size=(entries, samples))
    values[random.random(values.shape) < 0.2] = 0
    values[:, ::10] = 0
    return values


def plain_normalised(values, source, sink, nodes, kind):
    """N(A), [n, n]."""
    matrix = np.zeros((nodes, nodes))
    np.add.at(matrix, (sink, source), values)
    degree = matrix.sum(axis=1)
    inverse = np.divide(1, degree, out=np.zeros(nodes), where=degree > 0)
    left = {core.SYMMETRIC: np.sqrt(inverse), core.ROW: inverse, core.NONE: np.ones(nodes)}[kind]
    return left[:, None] * matrix * (left if kind == core.SYMMETRIC else 1)


def plain_rows(values, source, sink, e, hops, kind):
    """e^T N^k for k = 1 .. M, [M, n, S], and e^T N^k c^j for k < M and j = 2, 3, [M, 2, S]."""
    rows, moments = np.zeros((hops, len(e), values.shape[1])), np.zeros((hops, 2, values.shape[1]))
    for s in range(values.shape[1]):
        matrix = plain_normalised(values[:, s], source, sink, len(e), kind)
        c = matrix.sum(axis=1)
        for k in range(hops):
            moments[k, :, s] = e @ np.linalg.matrix_power(matrix, k) @ np.stack((c**2, c**3), axis=1)
            rows[k, :, s] = e @ np.linalg.matrix_power(matrix, k + 1)
    return rows, moments
