"""Kriging: what the terms of p leave of F where edges are removed."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith.model.target import Target
from graphfaith.sampling.perturbations import Perturbations
from graphfaith.surrogate import kriging
from graphfaith.surrogate.kriging import krige, strongest
from graphfaith.surrogate.moves import Moves
from polynomial import HOUSE, both_ways

LENGTHS = 0.1, 1e4, 1e3  # of the kernel, and the variances of terms and kernel


@pytest.fixture(scope="module")
def target():
    torch.manual_seed(3)
    x = torch.rand(5, 4, dtype=torch.float64)
    return Target(GCN(4, 8, 2, out_channels=3).double().eval(), x, both_ways(HOUSE), 0, label=1)


def case_of(target, count=60):
    """Return terms, a change that they do not explain, eps and strengths: two edges count, and more so together."""
    graph = target.computation_graph
    near = gf.parse_neighborhood("R(A,5)")
    eps = near.sample(graph, count, 1).edges
    strength = torch.linspace(0.2, 1, graph.num_edges).double() * graph.felt * ~graph.is_loop
    gone = eps[:, strongest(strength)[:3]] / graph.weight.double()[strongest(strength)[:3]]
    change = 2 * gone[:, 0] - gone[:, 1] + 3 * gone[:, 0] * gone[:, 2]
    return eps[:, :2].sum(dim=1, keepdim=True), change, graph, eps, strength


def fit(case):
    terms, change, graph, eps, strength = case
    return krige(terms, change, graph, eps[:, strongest(strength)], strength)


def test_strongest_entries_come_first_and_entries_without_strength_not_at_all(monkeypatch):
    strength = torch.tensor([0.5, -2.0, 0.0, 1.0])
    assert strongest(strength).tolist() == [1, 3, 0]
    monkeypatch.setattr(kriging, "_MOST_ENTRIES", 2)
    assert strongest(strength).tolist() == [1, 3]


def test_nothing_changes_where_nothing_is_removed(target):
    found = fit(case_of(target)).kriging
    assert float(found.change(torch.zeros(1, found.num_edges, dtype=torch.float64))) == pytest.approx(0, abs=1e-12)


def test_the_gradient_is_that_of_the_change(target):
    found = fit(case_of(target)).kriging
    step = 1e-4 * torch.eye(found.num_edges, dtype=torch.float64)
    numeric = (found.change(step) - found.change(-step)) / 2e-4
    torch.testing.assert_close(found.gradient(), numeric, rtol=1e-5, atol=1e-6)
    assert found.gradient().abs().max() > 1e-3


def test_terms_and_function_add_up_to_the_fit(target):
    terms, change, _, eps, _ = case = case_of(target)
    found = fit(case)
    fitted = terms @ found.weights + found.kriging.change(eps)
    torch.testing.assert_close(fitted - change, found.residual, rtol=1e-6, atol=1e-8)


def test_a_sample_that_is_left_out_is_foretold_by_the_others(target, monkeypatch):
    monkeypatch.setattr(kriging._Search, "best", lambda _self: LENGTHS)
    _, change, graph, eps, strength = case_of(target)
    terms = torch.rand(len(change), 12, generator=torch.Generator().manual_seed(4)).double()  # each with some leverage
    left_out = fit((terms, change, graph, eps, strength)).left_out_residual
    for place in (0, 7, 31):
        kept = torch.arange(len(change)) != place
        found = fit((terms[kept], change[kept], graph, eps[kept], strength))
        foretold = terms[place] @ found.weights + found.kriging.change(eps[place : place + 1])
        # The mean variance of the kernel is not quite the same without the sample.
        assert float(foretold - change[place]) == pytest.approx(float(left_out[place]), rel=0.02, abs=1e-6)


def test_interplay_is_foretold_for_sets_that_were_not_seen(target):
    _, _, graph, _, strength = case = case_of(target, 120)
    found = fit(case)
    first = strongest(strength)[:3]
    sets = [places for size in (1, 2, 3) for places in combinations(range(3), size)]
    eps = torch.zeros(len(sets), graph.num_edges, dtype=torch.float64)
    for row, places in enumerate(sets):
        eps[row, first[list(places)]] = graph.weight.double()[first[list(places)]]
    gone = eps[:, first] / graph.weight.double()[first]
    truth = 2 * gone[:, 0] - gone[:, 1] + 3 * gone[:, 0] * gone[:, 2]
    foretold = eps[:, :2].sum(dim=1, keepdim=True) @ found.weights + found.kriging.change(eps)
    assert float((foretold - truth).square().mean()) < 0.02 * float(truth.square().mean())


def test_without_a_change_or_a_strength_there_is_nothing_to_fit(target):
    terms, change, graph, eps, strength = case_of(target)
    assert fit((terms, 0 * change, graph, eps, strength)) is None
    assert fit((terms, change, graph, eps, 0 * strength)) is None


def test_only_neighbourhoods_of_few_removed_edges_have_it(target):
    assert gf.AnchoredKEC("R(A,3)").fit(target).kriging is not None
    assert gf.AnchoredKEC("B(A,0.5)").fit(target).kriging is None
    assert gf.AnchoredKEC("R(A,3)", blocks=["khop", "saliency"]).fit(target).kriging is None
    assert gf.AnchoredKEC("B(X,0.5)xR(A,3)").fit(target).kriging is not None
    alone = gf.AnchoredKEC("R(A,3)", blocks=["kriging"]).fit(target)
    assert alone.kriging is not None
    assert alone.estimate.relative < 0.2
    assert not alone.weights.any()


def test_removing_a_strong_edge_alone_is_foretold_exactly(target):
    near, part = gf.parse_neighborhood("R(A,3,paired)"), target.computation_graph
    moves = Moves(part, near)
    single = moves.perturbations(torch.diag(moves.sizes()))
    truth = target.changes(single)
    p = gf.AnchoredKEC(near).fit(target)
    assert (p.change(single) - truth).abs().sum() < 1e-6 * truth.abs().sum()
    assert (p.change(p.evidence.perturbations(part, near)) - p.evidence.fitted).abs().max() < 1e-7
    everything = Perturbations(part, None, torch.zeros(1, part.num_edges, dtype=torch.float64))
    assert float(p.change(everything)) == pytest.approx(0, abs=1e-9)


def test_strong_entries_that_are_never_removed_tell_no_samples_apart(target):
    terms, change, graph, eps, strength = case_of(target)
    loops = torch.where(graph.is_loop, 1.0, 1e-14 * strength)  # F depends on self-loops, which stay
    found = fit((terms, change, graph, eps, loops))
    assert torch.isfinite(found.left_out_residual).all()
    assert not found.kriging.alpha.any()


@pytest.mark.parametrize("scale", [1e-150, 1e140])
def test_the_size_of_f_does_not_matter(target, scale):
    terms, change, graph, eps, strength = case = case_of(target)
    plain, scaled = fit(case), fit((terms, scale * change, graph, eps, strength))
    torch.testing.assert_close(scaled.left_out_residual / scale, plain.left_out_residual)
    torch.testing.assert_close(scaled.kriging.change(eps) / scale, plain.kriging.change(eps))


class Strongest(torch.nn.Module):
    """The largest message that a node gets: the second largest counts only when the largest is gone."""

    def forward(self, x, edge_index, edge_weight=None):
        weight = torch.ones(edge_index.size(1), dtype=x.dtype) if edge_weight is None else edge_weight
        sent = x[edge_index[0]] * weight.unsqueeze(-1)
        place = edge_index[1].unsqueeze(-1).expand_as(sent)
        return torch.zeros_like(x).scatter_reduce(0, place, sent, "amax")


def test_edges_that_matter_when_others_are_gone_are_told_apart():
    """The gradient at the graph as it is says nothing of the second edge; those at the samples do."""
    x = torch.tensor([0.0, 4.0, 3.0, 2.0, 0.1, 0.1, 0.1]).double().unsqueeze(1)
    spokes = torch.stack([torch.arange(1, 7), torch.zeros(6, dtype=torch.long)])
    target = Target(Strongest().eval(), x, spokes, 0, label=0, num_hops=1)
    part, near = target.computation_graph, gf.parse_neighborhood("R(A,3)")
    p = gf.AnchoredKEC(near).fit(target)
    second = part.ends.T.tolist().index([2, 0])
    assert float(target.gradient()[1][second]) == 0
    assert second in p.kriging.entries.tolist()
    assert float(p.evidence.strength[second]) == 0  # by which samples are drawn
    assert p.estimate.relative < 0.05
