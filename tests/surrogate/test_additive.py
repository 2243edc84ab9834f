"""The additive function closest to F's change, against least squares over every removal there is."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith.model.target import Target
from graphfaith.surrogate import readings
from graphfaith.surrogate.additive import Draws, project
from graphfaith.surrogate.moves import Moves
from graphfaith.surrogate.readings import read_model, readings_of
from polynomial import HOUSE, Polynomial, both_ways, closest, every_removal, part_of


def house(double=True):
    torch.manual_seed(3)
    x, model = torch.rand(5, 4), GCN(4, 8, 2, out_channels=3)
    return (x.double(), model.double()) if double else (x, model)


@pytest.fixture(scope="module")
def target():
    x, model = house()
    return Target(model.eval(), x, both_ways(HOUSE), 0, label=1)


def weights_of(near, gone):
    """How likely each subset of units is in a neighbourhood of removals."""
    count, size = gone.size(1), gone.sum(dim=1)
    if isinstance(near, gf.BernoulliEdges):
        return near.sigma**size * (1 - near.sigma) ** (count - size)
    ways = torch.tensor([math.comb(count, int(k)) for k in size], dtype=torch.float64)
    return ((size >= 1) & (size <= near.most)) / near.most / ways


def compare_with_best(target, near, seed=0):
    """The shares, and by least squares over every removal: the best scores, Delta of both, and Delta(0)."""
    near, part = gf.parse_neighborhood(near), target.computation_graph
    p = gf.AnchoredKEC(near, num_samples=200, seed=seed).fit(target)
    share = readings_of(p, near, seed=seed).additive
    samples = every_removal(part, share.moves.edge_unit)
    change, matrix = target.changes(samples), share.moves.of(samples)
    weight = weights_of(near, (matrix != 0).double())
    assert float(weight.sum()) == pytest.approx(1)
    best = closest(matrix, change, weight)
    delta, least = (float(weight @ (matrix @ phi - change) ** 2) for phi in (share.scores, best))
    return share, best, delta, least, float(weight @ change**2)


@pytest.mark.parametrize("near", ["B(A,0.5)", "B(A,0.2)", "B(A,0.5,paired)", "R(A,3)", "R(A,2,paired)"])
def test_shares_are_the_least_squares_of_f_over_every_removal(target, near):
    share, best, delta, least, zero = compare_with_best(target, near)
    assert least <= delta <= 1.05 * least + 1e-3 * zero
    assert float(((share.scores - best).abs() / share.stderr).max()) < 5
    assert delta - least <= 5 * share.excess + 1e-9 * zero


@pytest.mark.parametrize("near", ["B(A,0.5,paired)", "B(A,0.2)", "R(A,3)"])
def test_error_bars_are_as_long_as_the_errors(near):
    off, excess = [], []
    for seed in range(6):
        torch.manual_seed(seed)
        x, model = torch.rand(5, 4).double(), GCN(4, 8, 2, out_channels=3).double().eval()
        edge_index = both_ways(HOUSE)
        share, best, delta, least, _ = compare_with_best(Target(model, x, edge_index, 0, label=1), near, seed)
        off.append((share.scores - best) / share.stderr)
        excess.append((delta - least) / share.excess)
    off = torch.cat(off)
    assert 0.6 < float((off**2).mean().sqrt()) < 1.7
    assert float((off.abs() > 3).double().mean()) < 0.05
    assert 0.3 < sum(excess) / len(excess) < 3


@pytest.mark.parametrize("near", ["U(A,0.5)", "U(X,0.2r)", "B(X,0.5)", "U(X,0.2r)xB(A,0.5,paired)"])
def test_shares_are_those_of_twenty_thousand_samples_of_f(target, near):
    near, part = gf.parse_neighborhood(near), target.computation_graph
    p = gf.AnchoredKEC(near, num_samples=200).fit(target)
    share = readings_of(p, near).additive
    samples = near.sample(part, 20_000, 9)
    change, matrix = target.changes(samples), share.moves.of(samples)
    best = closest(matrix, change)
    delta, least = (float(((matrix @ phi - change) ** 2).mean()) for phi in (share.scores, best))
    assert delta <= 1.05 * least + 1e-3 * float((change**2).mean())


class Toy:
    """The moves of B(A,0.5) on a graph of many edges that lead to one node, and samples of them."""

    def __init__(self, edges, samples, near="B(A,0.5)", seed=0):
        star = torch.stack([torch.arange(1, edges + 1), torch.zeros(edges, dtype=torch.long)])
        self.part = part_of(torch.rand(edges + 1, 1), star, num_hops=1)
        self.near = gf.parse_neighborhood(near)
        drawn = self.near.sample(self.part, samples, seed)
        self.moves = Moves(self.part, self.near)
        self.matrix = self.moves.of(drawn)
        self.draw = torch.Generator().manual_seed(seed)

    def random(self, *size):
        return torch.randn(*size, generator=self.draw, dtype=torch.float64)

    def error(self, scores, truth):
        """E [(scores - truth) . eps]^2, by the moments."""
        off = scores - truth
        return float(self.moves.spread @ off**2 + (self.moves.common @ off) ** 2)


def test_an_additive_change_is_found_exactly():
    toy = Toy(12, 600)
    truth = toy.random(len(toy.moves))
    found = project(toy.moves, Draws(toy.matrix, toy.matrix @ truth), truth + 0.3 * toy.random(len(truth)))
    assert toy.error(found.scores, truth) < 1e-3 * toy.error(0 * truth, truth)


@pytest.mark.parametrize("near", ["B(A,0.5)", "R(A,4)"])
def test_there_is_no_intercept(near):
    """A function that says 1 wherever anything is gone is best followed by a plane through the origin."""
    toy = Toy(8, 1000, near)
    p = Polynomial(toy.part, torch.zeros(toy.part.num_edges).double(), offset=1.0)
    change = p.change(toy.near.sample(toy.part, 1000, 0))
    found = project(toy.moves, Draws(toy.matrix, change), toy.moves.gather(*p.gradient()))
    many = toy.near.sample(toy.part, 30_000, 5)
    best = closest(toy.moves.of(many), p.change(many))
    assert toy.error(found.scores, best) < 0.02 * toy.error(0 * best, best)
    assert float(found.change(toy.moves.perturbations(torch.zeros(1, len(toy.moves)).double()))) == 0


def test_noise_is_not_fitted():
    """Least squares would fit a share of units / samples of the noise, which is a half here."""
    toy = Toy(299, 600)
    truth = torch.zeros(len(toy.moves)).double()
    truth[:4] = 5.0
    noise = toy.random(600) * 4
    guess = truth + 0.01 * toy.random(len(truth))
    found = project(toy.moves, Draws(toy.matrix, toy.matrix @ truth + noise), guess)
    unshrunk = closest(toy.matrix, toy.matrix @ truth + noise)
    assert toy.error(unshrunk, truth) > 0.4 * 16
    assert toy.error(found.scores, truth) < 0.08 * 16
    # The error bars say how far off it may be, and do not say that nothing is known.
    off = (found.scores - truth).abs() / found.stderr
    assert float((off > 3).double().mean()) < 0.03
    assert toy.error(found.scores, truth) < 3 * found.excess < 16


@pytest.mark.parametrize("wary", [False, True])
@pytest.mark.parametrize("wrong", ["opposite", "nothing", "noise"])
def test_a_bad_p_cannot_hurt(wrong, wary):
    """What p leaves of F at the samples of the fit takes p's faults away again."""
    toy = Toy(14, 1000)
    truth = toy.random(len(toy.moves))
    bad = {"opposite": -truth, "nothing": 0 * truth, "noise": toy.random(len(truth))}[wrong]
    there = toy.moves.of(toy.near.sample(toy.part, 180, 77))
    alone = project(toy.moves, Draws(toy.matrix, toy.matrix @ bad), bad)
    mended = project(toy.moves, Draws(toy.matrix, toy.matrix @ bad), bad, there, there @ (truth - bad), wary=wary)
    size = toy.error(0 * truth, truth)
    assert toy.error(alone.scores, truth) > 0.9 * size
    assert toy.error(mended.scores, truth) < (0.4 if wary else 0.3) * size  # who is wary mends less
    off = (mended.scores - truth).abs() / mended.stderr
    assert float((off > 4).double().mean()) <= 0.1


def test_what_is_left_at_few_samples_does_not_spoil_a_good_p():
    """The residuals of a good p are noise to single entries: as many of them as samples are not believed."""
    toy = Toy(180, 700)
    truth = toy.random(len(toy.moves))
    there = toy.moves.of(toy.near.sample(toy.part, 180, 77))
    left = toy.random(180)
    found = project(toy.moves, Draws(toy.matrix, toy.matrix @ truth), truth, there, left)
    assert toy.error(found.scores, truth) < 0.1  # of a variance of 1, where least squares would add all of it
    assert found.excess > toy.error(found.scores, truth) / 3


def test_who_is_wary_believes_less_of_what_is_left():
    """Noise moves the scores by less than half as much, and its mean too; a large fault of p is mended all the same."""
    toy = Toy(20, 1000, "R(A,5)")
    truth = toy.random(len(toy.moves))
    spoilt = {False: 0.0, True: 0.0}
    for seed in range(40):
        there = toy.moves.of(toy.near.sample(toy.part, 60, 100 + seed))
        left = toy.random(60)
        for wary in spoilt:
            found = project(toy.moves, Draws(toy.matrix, toy.matrix @ truth), truth, there, left, wary=wary)
            spoilt[wary] += toy.error(found.scores, truth) / 40
    assert spoilt[True] < 0.5 * spoilt[False]


def test_a_p_that_interpolates_is_read_warily(target, monkeypatch):
    asked = []

    def spy(*args, wary):
        asked.append(wary)
        return project(*args, wary=wary)

    monkeypatch.setattr(readings, "project", spy)
    monkeypatch.setattr(readings, "_read_in_core", lambda *_: None)  # which never has such a p
    for near in ("R(A,3)", "B(A,0.5)"):
        readings_of(gf.AnchoredKEC(near).fit(target), gf.parse_neighborhood(near))
    assert asked == [True, False]


def test_a_few_samples_of_very_many_units_leave_the_guess():
    toy = Toy(600, 100)
    guess, change = toy.random(len(toy.moves)), toy.random(100)
    found = project(toy.moves, Draws(toy.matrix, change), guess)
    ratio = found.scores / guess
    torch.testing.assert_close(ratio, ratio[0].expand_as(ratio))


def test_entries_that_cannot_be_told_apart_get_one_score():
    x, model = house()
    edge_index = torch.tensor([[1, 2, 3, 4], [0, 1, 2, 2]])
    target = Target(model.eval(), x, edge_index, 0, label=1)
    part, near = target.computation_graph, gf.BernoulliEdges(0.5)
    p = gf.AnchoredKEC(near, num_samples=150).fit(target)
    phi = read_model(p, near, "share").scores[1]
    ends = part.ends.T.tolist()
    assert float(phi[ends.index([3, 2])]) == pytest.approx(float(phi[ends.index([4, 2])]), rel=1e-9)
    assert float(phi[ends.index([3, 2])]) != 0


def test_mirror_images_part_what_pairs_explain_from_single_moves(target):
    near = gf.parse_neighborhood("B(A,0.5)")
    moves = Moves(target.computation_graph, near)
    samples = near.sample(target.computation_graph, 50, 7)
    matrix, other = moves.of(samples), 2 * moves.mean - moves.of(samples)
    single, pair = torch.linspace(-1, 1, len(moves)).double(), 0.3
    centred = matrix - moves.mean

    def change(moved):
        return moved @ single + pair * (moved[:, 0] - moves.mean[0]) * (moved[:, 1] - moves.mean[1])

    both = Draws(matrix, change(matrix), change(other))
    together = pair * centred[:, 0] * centred[:, 1]
    torch.testing.assert_close(both.left_to_pairs(torch.zeros_like(single), moves.mean), together + moves.mean @ single)
    torch.testing.assert_close(both.left_to_pairs(single, moves.mean), together)
    torch.testing.assert_close(Draws(matrix, change(matrix)).left_to_pairs(single, moves.mean), together)
