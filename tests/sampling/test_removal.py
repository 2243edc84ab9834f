"""Neighbourhoods of removal: a few edges, both entries of an undirected edge, words of a document."""

import numpy as np
import pytest
import torch

import graphfaith as gf
from graphfaith.graph import Graph
from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.sampling.edges import number_pairs

MANY = 20_000


@pytest.fixture
def ring():
    """Six nodes in an undirected ring, seen from node 0 at two hops, where one node stands for the outermost ones."""
    there = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [0.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
    edge_index = torch.cat([there, there.flip(0)], dim=1)
    return ComputationGraph.around(Graph.of(x, edge_index), 0, num_hops=2), x, edge_index


@pytest.mark.parametrize(
    "text", ["R(A,5)", "R(A,1)", "R(A,3,paired)", "B(A,0.5,paired)", "B(X,0.25)", "B(X,0.5)xR(A,2)"]
)
def test_text_forms_are_read_and_written(text):
    assert str(gf.parse_neighborhood(text)) == text


@pytest.mark.parametrize(
    "text", ["R(A,0)", "R(A,2.5)", "R(A,-1)", "B(X,1.5)", "B(A,0.5,paired,paired)", "U(A,0.5,paired)"]
)
def test_what_means_nothing_is_refused(text):
    with pytest.raises(gf.InputError):
        gf.parse_neighborhood(text)


def test_a_flag_is_no_number():
    with pytest.raises(gf.InputError, match="paired must be True or False"):
        gf.BernoulliEdges(0.5, paired=1)


def test_between_one_and_k_edges_are_removed(ring):
    part = ring[0]
    gone = gf.RemovedEdges(3).sample(part, MANY).edges != 0
    sizes = np.bincount(gone.sum(dim=1).numpy(), minlength=4) / MANY
    np.testing.assert_allclose(sizes, [0, 1 / 3, 1 / 3, 1 / 3], atol=0.02)
    assert not gone[:, part.is_loop].any()
    shares = gone[:, ~part.is_loop].double().mean(dim=0)
    np.testing.assert_allclose(shares, 2 / part.num_plain, atol=0.02)  # two of three on average, each equally likely


def test_no_more_edges_are_removed_than_there_are():
    x, edge_index = torch.ones(2, 1), torch.tensor([[1], [0]])
    part = ComputationGraph.around(Graph.of(x, edge_index), 0, num_hops=1)
    assert (gf.RemovedEdges(5).sample(part, 50).edges[:, 0] == 1).all()
    alone = ComputationGraph.around(Graph.of(x, edge_index), 1, num_hops=1)
    assert not gf.RemovedEdges(5).sample(alone, 50).edges.any()


@pytest.mark.parametrize("near", ["R(A,3,paired)", "B(A,0.4,paired)"])
def test_both_entries_of_an_undirected_edge_move_together(ring, near):
    part = ring[0]
    unit, eps = number_pairs(part), gf.parse_neighborhood(near).sample(part, 500).edges
    for one in range(int(unit.max()) + 1):
        moved = eps[:, unit == one]
        assert (moved == moved[:, :1]).all()
    # The entry from the node that stands for the outermost ones is recognised by its true ends.
    sizes = torch.bincount(unit[~part.is_loop])
    assert sorted(sizes.tolist()) == [1, 1, 2, 2, 2, 2] or sorted(sizes.tolist()) == [2] * len(sizes)
    assert len(torch.unique(eps, dim=0)) > 10


def test_a_pair_is_drawn_the_same_in_another_part_of_the_graph(ring):
    part, x, edge_index = ring
    other = ComputationGraph.around(Graph.of(x, edge_index), 1, num_hops=2)
    near = gf.BernoulliEdges(0.5, paired=True)
    drawn = [near.sample(one, 40, 3).edges for one in (part, other)]
    shared = [
        (i, j) for i in range(part.num_plain) for j in range(other.num_plain) if part.edge_id[i] == other.edge_id[j]
    ]
    assert shared
    for i, j in shared:
        assert torch.equal(drawn[0][:, i], drawn[1][:, j])


@pytest.mark.parametrize(
    "near", ["U(A,0.5)", "U(A,2.0)", "B(A,0.3)", "B(A,0.5,paired)", "R(A,3)", "R(A,2,paired)", "R(A,9)"]
)
def test_moments_of_edges_are_those_of_the_samples(ring, near):
    part = ring[0]
    near = gf.parse_neighborhood(near)
    eps, moments = near.sample(part, MANY).edges, near.edge_moments(part)
    torch.testing.assert_close(eps.mean(dim=0), moments.mean, atol=0.03, rtol=0)
    second = torch.diag(moments.spread) + torch.outer(moments.common, moments.common)
    unit = near.units(part)
    if unit is not None:  # entries of one unit are equal
        together = unit[:, None] == unit[None, :]
        second = torch.where(together, second.diagonal()[:, None].expand_as(second), second)
    torch.testing.assert_close(eps.T @ eps / MANY, second, atol=0.03, rtol=0)


@pytest.mark.parametrize("near", ["U(X,0.2r)", "B(X,0.3)"])
def test_moments_of_features_are_those_of_the_samples(ring, near):
    part = ring[0]
    near = gf.parse_neighborhood(near)
    eps, moments = near.sample(part, MANY).features.flatten(1).double(), near.feature_moments(part)
    torch.testing.assert_close(eps.mean(dim=0), moments.mean, atol=0.04, rtol=0)
    second = torch.diag(moments.spread) + torch.outer(moments.common, moments.common)
    torch.testing.assert_close(eps.T @ eps / MANY, second, atol=0.1, rtol=0)


def test_words_are_left_out_and_never_put_in(ring):
    part = ring[0]
    after = gf.BernoulliFeatures(0.5).sample(part, 400).x
    own = part.x.expand_as(after)
    assert ((after == own) | (after == 0)).all()
    assert (after[:, part.num_visible :] == own[:, part.num_visible :]).all()
    left = (after == 0)[:, : part.num_visible][own[:, : part.num_visible] != 0].double().mean()
    assert 0.45 < float(left) < 0.55


def test_nodes_are_not_explained_together_where_samples_depend_on_the_reach():
    from graphfaith.explainers.sweep import reason_against

    assert "in reach" in reason_against(gf.KEC("R(A,5)"), "node")
    assert reason_against(gf.KEC("B(A,0.5,paired)"), "node") is None


# Where a p for few removed edges is fitted ----------------------------------------------------------------------------


@pytest.fixture
def leaning(ring):
    part = ring[0]
    strength = torch.arange(1, part.num_edges + 1).double().square() * ~part.is_loop
    return part, strength, gf.RemovedEdges(2).lean(strength)


def test_samples_that_do_not_lean_are_those_of_the_neighbourhood(leaning):
    part, _, near = leaning
    numbers = np.arange(400)
    leans, drawn = near.leans(numbers, 3), near.numbered(part, numbers, 3).edges
    assert torch.equal(drawn[~leans], gf.RemovedEdges(2).numbered(part, numbers, 3).edges[~leans])
    assert leans.mean() == pytest.approx(0.125 + 0.875 * 0.6, abs=0.08)


def test_strong_edges_are_removed_alone_the_strongest_first(leaning):
    part, strength, near = leaning
    numbers = np.arange(1, 8 * part.num_plain, 8)
    gone = near.numbered(part, numbers, 0).edges != 0
    assert (gone.sum(dim=1) == 1).all()
    assert gone.int().argmax(dim=1).tolist() == torch.argsort(-strength)[: part.num_plain].tolist()


def test_edges_that_matter_are_removed_more_often(leaning):
    part, strength, near = leaning
    numbers = np.arange(4000)
    numbers = numbers[near.leans(numbers, 0) & (numbers % 8 != 1)]
    gone = near.numbered(part, numbers, 0).edges != 0
    sizes = gone.sum(dim=1)
    assert sizes.min() == 1
    assert sizes.max() == 2  # of eight edges; of more than sixteen, up to 4 would be removed
    often = gone.double().mean(dim=0)[strength > 0]
    assert (often[1:] > often[:-1] - 0.03).all()
    assert often[-1] > 3 * often[0]


def test_a_sample_is_the_same_in_every_chunk(leaning):
    part, _, near = leaning
    whole = near.numbered(part, np.arange(40), 5).edges
    parts = [near.numbered(part, np.arange(start, start + 5), 5).edges for start in range(0, 40, 5)]
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_strengths_that_say_nothing_are_all_alike(leaning, value):
    part, strength, _ = leaning
    near = gf.RemovedEdges(2).lean(torch.full_like(strength, value))
    gone = near.numbered(part, np.arange(400), 0).edges != 0
    assert gone.any(dim=1).all()
    assert not gone[:, part.is_loop].any()
