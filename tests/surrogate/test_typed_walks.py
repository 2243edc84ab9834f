"""Typed walks: their rows, and KEC with them, against dense matrices."""

from __future__ import annotations

import itertools

import pytest
import torch

import graphfaith as gf
from graphfaith.model.joint import join
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import as_neighborhood
from graphfaith.surrogate.typed_walks import find_walks, group_walks, typed_rows
from typed_toys import TYPES, graph, make

NODES = (5, 8)
KINDS = ("symmetric", "row", "none")


def target_at(index, name="sage"):
    joint = join(make(name, torch.float64), *graph(torch.float64), {}, "node")
    return Target(joint.model, joint.graph, None, joint.index(index), inputs=joint.arguments)


def matrices(part, weight):
    """A_r of each edge type as dense matrices."""
    found = torch.zeros(len(TYPES), part.num_nodes, part.num_nodes, dtype=torch.float64)
    for entry in part.felt.nonzero().view(-1).tolist():
        source, sink = part.edge_index[:, entry].tolist()
        found[int(part.edge_kind[entry]), sink, source] += weight[entry]
    return found


def inverse(sums, power):
    return torch.where(sums > 0, sums.clamp(min=1e-300) ** power, 0.0)


def normalized(matrix, kind):
    if kind == "symmetric":
        return (1 + matrix.sum(1)).rsqrt()[:, None] * matrix * (1 + matrix.sum(0)).rsqrt()
    return inverse(matrix.sum(1), -1.0)[:, None] * matrix if kind == "row" else matrix


def dense_row(part, weight, group, kind, steps):
    e = torch.zeros(part.num_nodes, dtype=torch.float64)
    e[part.seeds] = part.e
    parts, unit = matrices(part, weight), torch.eye(part.num_nodes, dtype=torch.float64)
    products = []
    for walk in group:
        product = unit
        for relation in walk:
            product = product @ (normalized(parts[relation], kind) if steps else parts[relation])
        products.append(product)
    total = sum(products)
    return e @ (total if steps or group == ((),) else normalized(total, kind))


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [NODES[0], torch.tensor(NODES)])
def test_rows_are_those_of_dense_matrices(index, kind, steps):
    target = target_at(index)
    part = target.computation_graph
    groups = (*group_walks(part, 2, target.gradient), ((0, 1), (0, 1)))
    weight = as_neighborhood("B(A,0.5)").sample(part, 3).weight_with_own
    rows = typed_rows(part, weight, groups, kind, steps=steps)
    for (g, group), (s, values) in itertools.product(enumerate(groups), enumerate(weight)):
        assert torch.allclose(rows[g, s], dense_row(part, values, group, kind, steps), atol=1e-12)


def test_every_typed_walk_is_found():
    part = target_at(NODES[0]).computation_graph
    parts = matrices(part, part.weight)
    wanted = {()}
    for walk in itertools.chain(itertools.product(range(5), repeat=1), itertools.product(range(5), repeat=2)):
        product = torch.eye(part.num_nodes, dtype=torch.float64)[part.seeds]
        for relation in walk:
            product = product @ parts[relation]
        if product.any():
            wanted.add(walk)
    assert set(find_walks(part, 2)) == wanted


def test_too_many_walks_are_added_up_by_length_and_end():
    target = target_at(NODES[0])
    part = target.computation_graph
    every = find_walks(part, 2)
    groups = group_walks(part, 2, target.gradient, most=len(every) - 1)
    assert len(groups) < len(every)
    assert sorted(walk for group in groups for walk in group) == sorted(every)
    for group in groups:
        assert len({(len(walk), TYPES[walk[-1]][0] if walk else "") for walk in group}) == 1


@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)", "U(X,0.2r)", "U(X,0.2r)xU(A,0.5)"])
@pytest.mark.parametrize("kind", KINDS)
def test_kec_is_the_dense_typed_reference(near, kind):
    target = target_at(NODES[0], "weighted")
    part, samples = target.computation_graph, as_neighborhood(near).sample(target.computation_graph, 60)
    p = gf.KEC(near, num_samples=60, normalization=kind, threshold=1e-6).fit(target)
    own = part.weight.double().requires_grad_()
    x = part.x.double().clone().requires_grad_()
    groups = [(walk,) for walk in find_walks(part, 2)]
    columns = [
        slice(None) if not g[0] else target.graph.kinds.columns(target.graph.kinds.ends(g[0][-1])[0]) for g in groups
    ]

    def features(x, weight):
        rows = [dense_row(part, weight, group, kind, False) for group in groups]
        return torch.cat([row @ x[:, own] for row, own in zip(rows, columns, strict=True)])

    moved_x = itertools.repeat(x) if samples.x is None else samples.x
    moved_a = itertools.repeat(own) if samples.weight is None else samples.weight
    after = [features(a, w) for a, w, _ in zip(moved_x, moved_a, range(60), strict=False)]
    phi = (features(x, own) - torch.stack(after)).detach()
    u, s, v = torch.linalg.svd(phi, full_matrices=False)
    kept = s > 1e-6
    weights = v[kept].T @ ((u[:, kept].T @ target.changes(samples)) / s[kept])
    slopes = torch.autograd.grad(features(x, own) @ weights, (x, own), allow_unused=True)
    scores = p.gradient()
    visible = torch.arange(part.num_nodes) < part.num_visible
    assert torch.allclose(scores[0][visible], slopes[0][visible], atol=1e-6)
    assert torch.allclose(scores[1], torch.where(part.felt, slopes[1], 0.0), atol=1e-6)
    assert torch.allclose(p.change(samples), phi @ weights, atol=1e-6)


@pytest.mark.parametrize("near", ["U(A,0.5)", "U(X,0.2r)xU(A,0.5)"])
def test_the_gradient_of_an_anchored_model_is_that_of_its_change(near):
    target = target_at(NODES[0], "weighted")
    part = target.computation_graph
    p = gf.AnchoredKEC(near, num_samples=150).fit(target)
    assert p.walks is not None
    of_x, of_a = p.gradient()
    step = 1e-6
    for entry in part.felt.nonzero().view(-1)[:5].tolist():
        eps = torch.zeros(1, part.num_edges, dtype=torch.float64)
        eps[0, entry] = step
        assert float(p.change(gf.Perturbations(part, None, eps))) / step == pytest.approx(float(of_a[entry]), abs=1e-4)
    eps = torch.zeros(1, *part.x.shape, dtype=torch.float64)
    eps[0, 1, :] = step * (part.x[1] != 0)
    change = float(p.change(gf.Perturbations(part, eps, None))) / step
    assert change == pytest.approx(float((of_x[1] * (part.x[1] != 0)).sum()), abs=1e-4)
