"""Readings of p: slope, share and effect, with an estimate of what each leaves."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.model.target import Target
from graphfaith.sampling.perturbations import Perturbations
from graphfaith.surrogate import readings
from graphfaith.surrogate.difference import LinearModel
from graphfaith.surrogate.readings import check_reading, read_model, readings_of
from polynomial import HOUSE, both_ways

X, EDGES = torch.rand(5, 4, generator=torch.Generator().manual_seed(2)).double(), both_ways(HOUSE)
X[1, 2] = 0.0


@pytest.fixture(scope="module")
def target():
    torch.manual_seed(3)
    return Target(GCN(4, 8, 2, out_channels=3).double().eval(), X, EDGES, 0, label=1)


def fitted(target, near, kind=gf.AnchoredKEC, seed=0, samples=200):
    return kind(near, num_samples=samples, seed=seed).fit(target)


def parsed(text):
    return gf.parse_neighborhood(text)


@pytest.mark.parametrize("near", ["U(A,0.5)", "B(X,0.5)", "U(X,0.2r)xU(A,0.5)"])
def test_the_slope_is_the_gradient_of_p(target, near):
    p = fitted(target, near)
    for score, slope in zip(read_model(p, parsed(near), "slope").scores, p.gradient(), strict=True):
        assert torch.equal(score, slope)


@pytest.mark.parametrize("kind", [gf.AnchoredKEC, gf.KEC])
def test_an_effect_is_what_p_foretells_for_taking_away_one_entry(target, kind):
    p, part = fitted(target, "B(A,0.5)", kind), target.computation_graph
    effect = read_model(p, parsed("B(A,0.5)"), "effect").scores[1]
    single = torch.diag(part.weight.double() * part.felt)
    torch.testing.assert_close(effect * part.weight, p.change(Perturbations(part, None, single)) * part.felt)


def test_an_effect_of_an_undirected_edge_is_that_of_both_entries(target):
    p, part, near = fitted(target, "B(A,0.5,paired)"), target.computation_graph, parsed("B(A,0.5,paired)")
    effect, unit = read_model(p, near, "effect").scores[1], near.units(part)
    for one in range(len(HOUSE)):
        gone = torch.where(unit == one, part.weight.double(), 0.0).unsqueeze(0)
        together = float(p.change(Perturbations(part, None, gone)))
        assert (effect * gone[0]).sum() == pytest.approx(together)
        assert len(set(effect[unit == one].tolist())) == 1


def test_an_effect_of_a_feature_is_that_of_setting_it_to_zero(target):
    p, part = fitted(target, "B(X,0.5)"), target.computation_graph
    effect = read_model(p, parsed("B(X,0.5)"), "effect").scores[0]
    for place in ((0, 1), (1, 3)):
        eps = torch.zeros(1, *part.x.shape).double()
        eps[0][place] = part.x[place]
        assert float(effect[place] * part.x[place]) == pytest.approx(float(p.change(Perturbations(part, eps, None))))
    assert not effect[part.x == 0].any()  # An absent word cannot be taken away.


def test_shares_of_one_undirected_edge_are_equal_and_so_are_their_errors(target):
    near, part = parsed("R(A,3,paired)"), target.computation_graph
    read, unit = read_model(fitted(target, near), near, "share"), near.units(part)
    for one in range(len(HOUSE)):
        assert len(set(read.scores[1][unit == one].tolist())) == 1
        assert len(set(read.errors[1][unit == one].tolist())) == 1
    assert not read.scores[1][part.is_loop].any()


def test_what_a_neighbourhood_leaves_still_keeps_its_slope(target):
    p = fitted(target, "B(A,0.5)")
    for name in readings.READINGS:
        assert torch.equal(read_model(p, parsed("B(A,0.5)"), name).scores[0], p.gradient()[0])
    assert read_model(p, parsed("B(A,0.5)"), "share").errors[0] is None
    assert read_model(p, parsed("B(A,0.5)"), "slope").errors == (None, None)


@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)", "R(A,3,paired)", "B(X,0.5)"])
@pytest.mark.parametrize("name", readings.READINGS)
def test_the_estimate_is_that_of_the_scores_that_are_read(target, near, name):
    """At held-out samples of F the scores leave about what their estimate says, and p what p's says."""
    p, near = fitted(target, near), parsed(near)
    read = read_model(p, near, name)
    measured = unfaithfulness_of(target, [LinearModel(p.graph, *read.scores), p, readings_of(p, near).paired], near,
                                 num_samples=2000, seed=5)  # fmt: skip
    estimate = read.estimate
    for own, found in zip((estimate.scores, estimate, estimate.pairs), measured, strict=True):
        if own is None:  # No pair paid.
            assert estimate.num_pairs == 0
            continue
        error = math.hypot(own.relative_stderr, found.relative_stderr)
        assert own.relative == pytest.approx(found.relative, abs=5 * error + 0.3 * found.relative)
    assert estimate.floor is None or 0 <= estimate.floor <= estimate.scores.relative * (1 + 1e-9)
    assert estimate.relative < estimate.scores.relative
    assert estimate.value == p.estimate.value


def test_no_scores_leave_less_than_the_floor(target):
    near = parsed("B(A,0.5)")
    p = fitted(target, near)
    estimate = read_model(p, near, "share").estimate
    floor = estimate.floor
    assert 0.8 * estimate.scores.relative < floor < estimate.scores.relative  # on the same samples
    many = near.sample(p.graph, 20_000, 3)
    change = target.changes(many)
    best = torch.linalg.lstsq(many.edges, change, driver="gelsd").solution
    least = float((many.edges @ best - change).square().mean() / change.square().mean())
    assert floor == pytest.approx(least, abs=3 * estimate.scores.relative_stderr)


def test_a_p_without_evidence_is_read_too(target):
    near = parsed("B(A,0.5)")
    p = fitted(target, near, gf.KEC)
    read = read_model(p, near, "share")
    assert read.estimate is None
    many = near.sample(p.graph, 5000, 3)
    best = torch.linalg.lstsq(many.edges, p.change(many), driver="gelsd").solution
    left = [float((many.edges @ phi - p.change(many)).square().mean()) for phi in (read.scores[1], best)]
    assert left[0] < 1.05 * left[1]


def test_another_neighbourhood_than_that_of_the_fit_has_no_evidence(target):
    p = fitted(target, "B(A,0.5)")
    elsewhere = readings_of(p, parsed("U(A,0.5)"))
    assert elsewhere.rests is None
    assert readings_of(p, parsed("B(A,0.5)")).rests is not None


def test_what_was_read_is_kept_and_the_same_again(target, monkeypatch):
    near = parsed("B(A,0.5)")
    p = fitted(target, near)
    first = read_model(p, near, "share")
    assert read_model(p, near, "share") is first
    again = fitted(target, near)
    monkeypatch.setattr(readings, "_AT_ONCE", 1 << 9)  # a few samples at a time
    second = read_model(again, near, "share")
    torch.testing.assert_close(second.scores[1], first.scores[1], rtol=1e-9, atol=1e-12)
    one, other = (read_model(fitted(target, near), near, "effect").scores[1] for _ in range(2))
    assert torch.equal(one, other)
    assert not torch.equal(read_model(again, near, "share", seed=1).scores[1], second.scores[1])


def test_where_few_edges_are_removed_the_effects_are_the_first_guess(target, monkeypatch):
    p, near = fitted(target, "R(A,3,paired)"), parsed("R(A,3,paired)")
    monkeypatch.setattr(readings, "count_samples", lambda *_: 0)
    share, effect = (read_model(p, near, name).scores[1] for name in ("share", "effect"))
    moved = near.edge_moments(p.graph).spread > 0
    assert torch.equal(share[moved], effect[moved])
    assert not torch.allclose(share[moved], p.gradient()[1][moved], rtol=0.01)


def test_pairs_that_explain_a_trifle_are_not_shown():
    torch.manual_seed(3)
    nearly = GCN(4, 8, 2, out_channels=3, act=lambda value: value + 1e-4 * value.square()).double().eval()
    p = fitted(Target(nearly, X, EDGES, 0, label=1), "B(X,0.5)")
    assert len(readings_of(p, parsed("B(X,0.5)")).paired) == 0


def test_f_is_not_asked(target, monkeypatch):
    p = fitted(target, "B(A,0.5)")
    monkeypatch.setattr(Target, "changes", None)
    monkeypatch.setattr(Target, "evaluate", None)
    monkeypatch.setattr(Target, "gradient", None)
    for name in readings.READINGS:
        read_model(p, parsed("B(A,0.5)"), name)


@pytest.mark.parametrize("name", ["", "shares", None])
def test_there_are_three_readings(name):
    with pytest.raises(gf.InputError, match="reading must be one of slope, share, effect"):
        check_reading(name)


def test_a_node_without_edges_and_an_f_that_does_not_change():
    torch.manual_seed(0)
    lonely = torch.tensor([[1], [2]])
    x = torch.rand(3, 2).double()
    target = Target(GCN(2, 4, 2, out_channels=2).double().eval(), x, lonely, 0, label=0)
    for near in ("R(A,3)", "B(A,0.5)", "B(X,0.5)"):
        p = gf.AnchoredKEC(near, num_samples=100).fit(target)
        for name in readings.READINGS:
            read = read_model(p, parsed(near), name)
            assert all(bool(torch.isfinite(part).all()) for part in read.scores)
