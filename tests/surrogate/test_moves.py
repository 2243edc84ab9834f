"""Units of a neighbourhood as columns: entries of A, undirected edges, features, and what cannot be told apart."""

from __future__ import annotations

import pytest
import torch

import graphfaith as gf
from graphfaith.surrogate.moves import Moves, spread_over_features
from polynomial import HOUSE, both_ways, part_of

NEARS = ["U(A,0.5)", "B(A,0.5)", "B(A,0.3,paired)", "R(A,3)", "R(A,2,paired)", "B(X,0.5)", "U(X,0.2r)"]
PRODUCTS = ["B(X,0.5)xR(A,2,paired)", "U(X,0.2r)xB(A,0.5)"]


@pytest.fixture
def part():
    torch.manual_seed(1)
    x = torch.rand(5, 3) * (torch.rand(5, 3) < 0.7)
    return part_of(x, both_ways(HOUSE), num_hops=2)


def moves_of(part, near):
    near = gf.parse_neighborhood(near)
    return near, Moves(part, near)


@pytest.mark.parametrize("near", NEARS + PRODUCTS)
def test_samples_are_made_again_from_their_moves(part, near):
    near, moves = moves_of(part, near)
    samples = near.sample(part, 40, 3)
    again = moves.perturbations(moves.of(samples))
    if samples.edges is not None:
        torch.testing.assert_close(again.edges, samples.edges)
    if samples.features is not None:
        torch.testing.assert_close(again.features, samples.features)


@pytest.mark.parametrize("near", NEARS + PRODUCTS)
def test_moments_are_those_of_the_moves(part, near):
    near, moves = moves_of(part, near)
    matrix = moves.of(near.sample(part, 20_000, 1))
    torch.testing.assert_close(matrix.mean(dim=0), moves.mean, atol=0.04, rtol=0)
    second = torch.diag(moves.spread) + torch.outer(moves.common, moves.common)
    torch.testing.assert_close(matrix.T @ matrix / len(matrix), second, atol=0.09, rtol=0)


@pytest.mark.parametrize("near", ["B(A,0.5)", "R(A,2,paired)", "B(X,0.5)"])
def test_moments_that_are_not_known_are_estimated(part, near, monkeypatch):
    known = moves_of(part, near)[1]
    kind = type(gf.parse_neighborhood(near))
    monkeypatch.setattr(kind, "edge_moments", lambda self, graph: None)
    monkeypatch.setattr(kind, "feature_moments", lambda self, graph: None)
    estimated = moves_of(part, near)[1]
    assert len(estimated) == len(known)
    torch.testing.assert_close(estimated.mean, known.mean, atol=0.06, rtol=0)  # 4 errors of 1,024 samples


@pytest.mark.parametrize("near", NEARS + PRODUCTS)
def test_a_score_of_a_unit_is_the_score_of_each_of_its_entries(part, near):
    near, moves = moves_of(part, near)
    scores = torch.arange(1.0, len(moves) + 1).double()
    phi_x, phi_a = moves.spread_out(scores)
    samples, predicted = near.sample(part, 30, 2), 0.0
    if phi_a is not None:
        predicted = predicted + samples.edges @ phi_a
    if phi_x is not None:
        predicted = predicted + samples.features.double().flatten(1) @ phi_x.flatten()
    torch.testing.assert_close(predicted, moves.of(samples) @ scores)
    zeros = torch.zeros(part.x.shape).double(), torch.zeros(part.num_edges).double()
    back = moves.gather(*(zero if phi is None else phi for phi, zero in zip((phi_x, phi_a), zeros, strict=True)))
    torch.testing.assert_close(back, scores)


def test_what_never_moves_is_no_unit_and_has_no_score(part):
    _, moves = moves_of(part, "R(A,3)")
    assert (moves.edge_unit[part.is_loop] == -1).all()
    assert not moves.spread_out(torch.ones(len(moves)).double())[1][part.is_loop].any()
    _, words = moves_of(part, "B(X,0.5)")
    assert len(words) == int((part.x[: part.num_visible] != 0).sum())


def test_the_size_of_a_unit_is_what_is_gone_with_it(part):
    _, moves = moves_of(part, "B(A,0.5,paired)")
    assert moves.num_edge_units == len(HOUSE) + int(part.felt[part.is_loop].sum())
    gone = moves.perturbations(torch.diag(moves.sizes())).edges
    for unit, row in enumerate(gone):
        assert torch.equal(row != 0, moves.edge_unit == unit)
        assert torch.equal(row[row != 0], part.weight.double()[row != 0])


def test_entries_that_only_add_to_a_degree_are_alike():
    """Two hops from node 0 is node 2. The edges into it from 3 and 4 carry no message to node 0, only its degree."""
    edge_index = torch.tensor([[1, 2, 3, 4], [0, 1, 2, 2]])
    part = part_of(torch.rand(5, 2), edge_index, num_hops=2)
    _, moves = moves_of(part, "B(A,0.5)")
    groups = moves.alike(torch.zeros(len(moves)))
    pairs, units = part.ends.T.tolist(), moves.edge_unit.tolist()
    group = {tuple(pair): int(groups[unit]) for pair, unit in zip(pairs, units, strict=True) if unit >= 0}
    assert group[3, 2] == group[4, 2]
    others = [group[pair] for pair in ((1, 0), (2, 1))]
    assert len({*others, group[3, 2]}) == 3


# Whole nodes and columns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["node", "column"])
@pytest.mark.parametrize("near", ["B(X,0.5)", "U(X,0.2r)", "U(X,0.2r)xB(A,0.5)"])
def test_a_node_moves_by_the_part_of_its_features_that_is_taken_away(part, near, of):
    near = gf.parse_neighborhood(near)
    moves = Moves(part, near, of)
    seen = part.x[: part.num_visible]
    count = int((seen != 0).any(dim=1 if of == "node" else 0).sum())
    assert len(moves) - moves.num_edge_units == count
    removed = torch.zeros(1, len(moves), dtype=torch.float64)
    removed[0, moves.num_edge_units :] = 1.0
    gone = moves.perturbations(removed).features[0]
    torch.testing.assert_close(gone[: part.num_visible], seen)
    torch.testing.assert_close(moves.of(moves.perturbations(removed)), removed)
    assert (moves.sizes()[moves.num_edge_units :] == 1).all()


@pytest.mark.parametrize("of", ["node", "column"])
def test_moments_of_nodes_are_those_of_their_moves(part, of):
    near = gf.parse_neighborhood("B(X,0.5)")
    moves = Moves(part, near, of)
    matrix = moves.of(near.sample(part, 20_000, 1))
    torch.testing.assert_close(matrix.mean(dim=0), moves.mean, atol=0.02, rtol=0)
    torch.testing.assert_close(matrix.var(dim=0), moves.spread, atol=0.02, rtol=0)


@pytest.mark.parametrize("of", ["node", "column"])
def test_a_score_of_a_node_is_that_of_all_of_its_features(part, of):
    moves = Moves(part, gf.parse_neighborhood("B(X,0.5)"), of)
    scores = torch.arange(1, len(moves) + 1).double()
    phi_x, phi_a = moves.spread_out(scores)
    assert phi_a is None
    torch.testing.assert_close(moves.gather(phi_x, torch.zeros(part.num_edges)), scores)
    axis = 1 if of == "node" else 0
    rows = (phi_x * part.x)[: part.num_visible].sum(dim=axis, keepdim=True)
    padded = torch.cat([rows, rows.new_zeros(len(part.x) - len(rows), 1)]) if of == "node" else rows
    torch.testing.assert_close(spread_over_features(part, padded, of), phi_x)


def test_a_removed_edge_is_removed_to_the_last_digit():
    weight = torch.rand(2 * len(HOUSE), generator=torch.Generator().manual_seed(0)).double() + 0.1
    part = part_of(torch.rand(5, 3).double(), both_ways(HOUSE), num_hops=2, edge_weight=weight)
    moves = Moves(part, gf.parse_neighborhood("R(A,2,paired)"))
    gone = moves.perturbations(torch.diag(moves.sizes())).edges
    assert ((gone == 0) | (gone == part.weight.double())).all()


def test_the_mean_move_is_the_mean_perturbation(part):
    near = gf.parse_neighborhood("B(A,0.5,paired)")
    moves = Moves(part, near)
    mean = moves.perturbations(moves.mean.unsqueeze(0)).edges[0]
    torch.testing.assert_close(mean, near.edge_moments(part).mean)


@pytest.mark.parametrize(
    ("near", "expected"),
    [
        ("B(A,0.5)", True),
        ("B(A,0.5,paired)", True),
        ("B(A,0.4)", False),
        ("U(A,0.5)", True),
        ("U(A,1.0)", True),
        ("U(A,1.01)", False),  # weights of 1 are clipped
        ("R(A,3)", False),
        ("B(X,0.5)", True),
        ("B(X,0.3)", False),
        ("U(X,0.2r)", True),
        ("B(X,0.5)xU(A,0.5)", True),
        ("B(X,0.3)xU(A,0.5)", False),
        ("B(X,0.5)xR(A,3)", False),
    ],
)
def test_a_mirror_image_is_as_likely_where_the_neighbourhood_is_symmetric(part, near, expected):
    near = gf.parse_neighborhood(near)
    assert near.is_symmetric(part) == expected
    if not expected:
        return
    samples, moves = near.sample(part, 400, 3), Moves(part, near)
    both = moves.mirror(samples)
    assert len(both) == 800
    for kind, drops in (("edges", near.drops_edges), ("features", near.drops_features)):
        own, turned = getattr(samples, kind), getattr(both, kind)
        if own is None:
            assert turned is None
            continue
        assert torch.equal(turned[:400], own)
        image, full = turned[400:], part.weight if kind == "edges" else part.x
        torch.testing.assert_close(image.double().mean(dim=0), own.double().mean(dim=0), rtol=0, atol=0.2)
        assert float(image.abs().max()) <= float(own.abs().max()) + 1e-6
        if drops:  # An entry is whole or gone in the image too.
            assert bool(((image == 0) | (image == full)).all())
            assert not torch.equal(image, own)
    torch.testing.assert_close(moves.of(both)[400:], 2 * moves.mean - moves.of(samples), rtol=1e-6, atol=1e-6)
