"""Pairs beside the scores: planted ones are found with their weights, and no others are shown."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

import graphfaith as gf
from graphfaith.surrogate.additive import Draws, project
from graphfaith.surrogate.evidence import Evidence
from graphfaith.surrogate.moves import Moves
from graphfaith.surrogate.pairs import find_pairs
from graphfaith.surrogate.readings import readings_of
from polynomial import HOUSE, Polynomial, both_ways, part_of

PLANTED = [(0, 5, 2.0), (1, 6, -1.5)]


@pytest.fixture
def part():
    torch.manual_seed(1)
    return part_of(torch.rand(5, 3), both_ways(HOUSE), num_hops=2)


def phi_of(part):
    phi = torch.linspace(-1, 1, part.num_edges).double() * part.felt
    phi[8] = phi[3]  # Both entries lead to the outermost node, whose degree is all that F sees of them.
    return phi


class Rough(Polynomial):
    """An additive p with what looks like noise: the fractional part of a large multiple of its change."""

    def change(self, perturbations):
        change = super().change(perturbations)
        return change + (1e4 * change).remainder(1.0) - 0.5


def with_evidence(p, near, count=180, noise=0.0):
    """Give p what a fit has seen of an F that is p itself, and errors of p that look like noise."""
    numbers = torch.arange(count)
    change = p.change(near.numbered(p.graph, numbers.numpy(), 0))
    left = noise * torch.randn(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p.evidence = Evidence(numbers, 0, str(near), change, left, change, 0.0)
    return p


@pytest.mark.parametrize("near", ["B(A,0.5)", "B(A,0.2)", "U(A,0.5)", "R(A,5)"])
def test_planted_products_are_found_with_their_weights(part, near):
    near = gf.parse_neighborhood(near)
    p = with_evidence(Polynomial(part, phi_of(part), PLANTED), near)
    paired = readings_of(p, near).paired
    unit = paired.moves.edge_unit
    found = {frozenset((u, w)): psi for u, w, psi in
             zip(paired.first.tolist(), paired.second.tolist(), paired.together.tolist(), strict=True)}  # fmt: skip
    strongest = sorted(found, key=lambda pair: -abs(found[pair]))[:2]
    assert set(strongest) == {frozenset((int(unit[u]), int(unit[w]))) for u, w, _ in PLANTED}
    for u, w, psi in PLANTED:
        assert found[frozenset((int(unit[u]), int(unit[w])))] == pytest.approx(psi, rel=0.2)
    # The whole function is the one that was planted: its single parts are phi and not the shares.
    samples = near.sample(part, 2000, 8)
    left = float((paired.change(samples) - p.change(samples)).square().mean() / p.change(samples).square().mean())
    assert left < 0.01
    assert float(paired.change(paired.moves.perturbations(torch.zeros(1, len(paired.moves)).double()))) == 0


def test_pairs_are_added_one_after_the_other_and_never_hurt_on_the_samples(part):
    near = gf.BernoulliEdges(0.5)
    p = Polynomial(part, phi_of(part), [*PLANTED, (2, 4, 1.0), (0, 7, 0.7)])
    drawn = near.sample(part, 800, 1)
    moves = Moves(part, near)
    matrix, change = moves.of(drawn), p.change(drawn)
    additive = project(moves, Draws(matrix, change), moves.gather(*p.gradient()))
    found = find_pairs(additive, Draws(matrix, change), 6)
    functions = [found.with_pairs(count) for count in range(len(found.alone))]
    assert [len(one) for one in functions] == list(range(7))
    assert torch.equal(functions[0].alone, additive.scores)
    other = near.sample(part, 4000, 2)
    torch.testing.assert_close(found.of(moves.of(other)), torch.stack([one.change(other) for one in functions]))
    left = [float((one.change(other) - p.change(other)).square().mean()) for one in functions]
    assert all(after < 0.95 * before for before, after in pairwise(left[:5]))
    assert left[4] < 0.03 * left[0]
    first = {frozenset((int(one), int(two))) for one, two in zip(functions[1].first, functions[1].second, strict=True)}
    assert first == {frozenset((int(moves.edge_unit[0]), int(moves.edge_unit[5])))}


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_of_an_additive_p_no_pairs_are_shown(part, noise):
    near = gf.BernoulliEdges(0.5)
    p = with_evidence(Polynomial(part, phi_of(part)), near, noise=noise)
    assert len(readings_of(p, near).paired) <= (0 if noise == 0 else 2)


def test_no_pairs_are_shown_of_an_additive_p_that_brings_no_samples(part):
    near = gf.BernoulliEdges(0.5)
    assert len(readings_of(Polynomial(part, phi_of(part)), near).paired) == 0
    rough = Rough(part, phi_of(part))  # whose gradient is no good guess, so that something is left to fit
    assert len(readings_of(rough, near).paired) <= 2
    assert len(readings_of(Polynomial(part, phi_of(part), PLANTED), near).paired) >= 2


def test_no_more_pairs_than_asked_for(part):
    near = gf.BernoulliEdges(0.5)
    p = with_evidence(Polynomial(part, phi_of(part), [*PLANTED, (2, 4, 1.0)]), near)
    assert [len(readings_of(p, near, pairs=k).paired) for k in (0, 1, 2)] == [0, 1, 2]
