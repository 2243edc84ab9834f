"""Typed walks: their rows, and KEC with them, against dense matrices."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch_geometric.nn import HeteroConv, SAGEConv

import graphfaith as gf
from graphfaith.explanation.soundness import check_model
from graphfaith.model.joint import join
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import as_neighborhood
from graphfaith.surrogate.typed_walks import (
    MOST,
    MOST_TERMS,
    Chains,
    find_walks,
    group_walks,
    row_bytes,
    typed_rows,
)
from typed_toys import TYPES, graph, make

NODES = (5, 8)
KINDS = ("symmetric", "row", "none")
SLOPE = {gf.KEC: {}, gf.AnchoredKEC: {"reading": "slope"}}


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


def types_of(groups, place):
    """The types of walks that a group adds up, each as the types of its edges."""
    if not groups[place]:
        return [()]
    return [(*before, relation) for parent, relation in groups[place] for before in types_of(groups, parent)]


def dense_row(part, weight, walks, kind, steps):
    e = torch.zeros(part.num_nodes, dtype=torch.float64)
    e[part.seeds] = part.e
    parts, unit = matrices(part, weight), torch.eye(part.num_nodes, dtype=torch.float64)
    products = []
    for walk in walks:
        product = unit
        for relation in walk:
            product = product @ (normalized(parts[relation], kind) if steps else parts[relation])
        products.append(product)
    total = sum(products)
    return e @ (total if steps or walks == [()] else normalized(total, kind))


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [NODES[0], torch.tensor(NODES)])
def test_rows_are_those_of_dense_matrices(index, kind, steps):
    target = target_at(index)
    part = target.computation_graph
    alone = group_walks(part, 2, target.gradient)
    merged = group_walks(part, 2, target.gradient, most=5)
    assert len(merged) < len(alone)
    groups = (*alone, tuple((place, 1) for place, group in enumerate(alone) if group and group[0][0] == 0))
    check_rows(part, groups, kind, steps)
    check_rows(part, merged, kind, steps)


def check_rows(part, groups, kind, steps):
    weight = as_neighborhood("B(A,0.5)").sample(part, 3).weight_with_own
    rows = typed_rows(part, weight, groups, kind, steps=steps)
    for g, (s, values) in itertools.product(range(len(groups)), enumerate(weight)):
        assert torch.allclose(rows[g, s], dense_row(part, values, types_of(groups, g), kind, steps), atol=1e-12)


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
    found = find_walks(part, 2)
    assert {walk for place in range(len(found)) for walk in types_of(found, place)} == wanted
    assert find_walks(part, 2, len(found)) == found
    assert find_walks(part, 2, len(found) - 1) is None


def test_too_many_walks_are_added_up_by_length_and_end():
    target = target_at(NODES[0])
    part = target.computation_graph
    every = find_walks(part, 2)
    groups = group_walks(part, 2, target.gradient, most=len(every) - 1)
    assert len(groups) < len(every)
    walks = [types_of(groups, place) for place in range(len(groups))]
    # Every type of walk is in one group, beside walks that do not exist and add nothing.
    added = [walk for group in walks for walk in group]
    assert len(set(added)) == len(added)
    assert {walk for place in range(len(every)) for walk in types_of(every, place)} <= set(added)
    for group in walks:
        assert len({(len(walk), TYPES[walk[-1]][0] if walk else "") for walk in group}) == 1


def many_relations(count):
    """A graph of 60 nodes of two types with so many types of edges, at the first node of a model of three layers."""
    generator = torch.Generator().manual_seed(0)
    x = {name: torch.randn(count, 4, generator=generator) for name, count in (("a", 31), ("b", 30))}
    edges = {
        ("ab"[i % 2], f"r{i}", "ab"[i // 2 % 2]): torch.randint(0, 30, (2, 60), generator=generator)
        for i in range(count)
    }
    edges = {kind: torch.unique(ends[:, ends[0] != ends[1]], dim=1) for kind, ends in edges.items()}
    torch.manual_seed(0)
    model = Deep(edges)
    with torch.no_grad():
        model(x, edges)
    return model.eval(), x, edges


class Deep(torch.nn.Module):
    def __init__(self, edges):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            HeteroConv({kind: SAGEConv((-1, -1), 3) for kind in edges}, aggr="mean") for _ in range(3)
        )

    def forward(self, x_dict, edge_index_dict):
        for conv in self.convs:
            x_dict = {name: rows.tanh() for name, rows in conv(x_dict, edge_index_dict).items()}
        return x_dict["a"]


@pytest.mark.parametrize("method", [gf.KEC, gf.AnchoredKEC])
def test_forty_relations_and_three_hops_take_no_more_than_some_groups(method, monkeypatch):
    """There are more than 5,000 types of walks: neither found one by one, nor computed, nor held."""
    model, x, edges = many_relations(40)
    joint = join(model, x, edges, {}, "node")
    target = Target(joint.model, joint.graph, None, joint.index(0), inputs=joint.arguments)
    part, products, back = target.computation_graph, [], Chains.back
    monkeypatch.setattr(Chains, "back", lambda self, *of: products.append(1) or back(self, *of))
    groups = group_walks(part, target.num_hops, target.gradient)
    assert target.num_hops == 3
    assert MOST // 2 < len(groups) <= MOST
    assert sum(len(types_of(groups, place)) for place in range(len(groups))) > 5000
    assert len(products) <= 3 * MOST * 40
    products.clear()
    typed_rows(part, part.weight.unsqueeze(0), groups, "symmetric")
    assert len(products) <= 2 * MOST * 40
    monkeypatch.undo()
    p = method("U(A,0.5)", num_samples=400).fit(target)
    assert torch.isfinite(p.gradient()[1]).all()
    samples = as_neighborhood("U(A,0.5)").sample(part, 50, seed=1)
    assert (target.changes(samples) - p.change(samples)).square().sum() < target.changes(samples).square().sum()


@pytest.mark.parametrize(("method", "most"), [(gf.KEC, MOST), (gf.AnchoredKEC, MOST_TERMS)])
def test_memory_of_typed_walks_is_counted(method, most, monkeypatch):
    model, x, edges = many_relations(12)
    joint = join(model, x, edges, {}, "node")
    given = joint.model, joint.graph, None, joint.index(0)
    target = Target(*given, inputs=joint.arguments)
    part, near = target.computation_graph, as_neighborhood("U(A,0.5)")
    asked, room = [], Target.room
    monkeypatch.setattr(Target, "room", lambda self, *needs: asked.append(needs[:2]) or room(self, *needs))
    free = method(near, num_samples=100, **SLOPE[method]).fit(target)
    plain = near.sample_bytes(part, target.unit_width(drops=False))
    fixed, each = next((fixed, each) for fixed, each in asked if each > plain)
    assert each == plain + row_bytes(part, most)
    # A chunk has fewer samples if there is less memory, and p is the same; with less than one sample, it is refused.
    tight = Target(*given, inputs=joint.arguments, max_memory=fixed + 30 * each)
    sizes, changes = [], Target.changes
    monkeypatch.setattr(Target, "changes", lambda self, chunk: sizes.append(len(chunk)) or changes(self, chunk))
    found = method(near, num_samples=100, **SLOPE[method]).fit(tight)
    assert 1 < max(sizes) < 60
    torch.testing.assert_close(found.gradient()[1], free.gradient()[1], rtol=1e-3, atol=1e-5)
    with pytest.raises(gf.MemoryLimitError, match="raise max_memory"):
        method(near, num_samples=100).fit(Target(*given, inputs=joint.arguments, max_memory=fixed))


@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)", "U(X,0.2r)", "U(X,0.2r)xU(A,0.5)"])
@pytest.mark.parametrize("kind", KINDS)
def test_kec_is_the_dense_typed_reference(near, kind):
    target = target_at(NODES[0], "weighted")
    part, samples = target.computation_graph, as_neighborhood(near).sample(target.computation_graph, 60)
    p = gf.KEC(near, num_samples=60, normalization=kind, threshold=1e-6).fit(target)
    own = part.weight.double().requires_grad_()
    x = part.x.double().clone().requires_grad_()
    found = find_walks(part, 2)
    groups = [types_of(found, place) for place in range(len(found))]
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


@pytest.mark.parametrize(
    "groups",
    [
        (((0, 0),),),  # without the empty walk
        ((), ((1, 0),)),  # continues itself
        ((), ((0, 99),)),  # an edge type that is not there
        ((), ((0, 0), (0, 1))),  # ends of two types
        ((), ((0, 1), 2)),
        ((), ()),
    ],
)
def test_groups_of_a_file_that_cannot_be_are_refused(groups):
    target = target_at(NODES[0])
    part = target.computation_graph
    p = gf.KEC("U(A,0.5)", num_samples=40).fit(target)
    check_model(p)
    p.groups, p.weights = groups, torch.zeros(len(groups), part.x.size(1), dtype=torch.float64)
    with pytest.raises(gf.InputError, match="do not fit its computation graph"):
        check_model(p)
