"""Restricted neighbourhoods: the draws of the whole neighbourhood, of which only one side moves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import graphfaith as gf
from graphfaith.graph import Graph
from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.sampling.restricted import Restricted
from reference import make_case

NEARS = ("U(A,0.5)", "B(A,0.5)", "B(A,0.5,paired)", "R(A,3)", "U(X,0.2r)", "B(X,0.5)", "U(X,0.2r)xB(A,0.3)")


def part_of(case):
    graph = Graph.of(case.x, case.edge_index, case.edge_weight)
    return ComputationGraph.around(graph, case.node, num_hops=case.layers)


@given(
    seed=st.integers(0, 50),
    near=st.sampled_from(NEARS),
    top=st.one_of(st.none(), st.integers(0, 12), st.floats(0.05, 1.0)),
    by=st.sampled_from(["score", "magnitude"]),
    loops=st.booleans(),
    kind=st.sampled_from(["features", "nodes", "columns"]),
)
def test_only_one_side_moves_and_both_make_the_whole(seed, near, top, by, loops, kind):
    case = make_case(seed)
    part, whole = part_of(case), gf.parse_neighborhood(near)
    generator = torch.Generator().manual_seed(seed)
    shape = {"features": case.x.shape, "nodes": (len(case.x), 1), "columns": (1, case.x.size(1))}[kind]
    masks = SimpleNamespace(
        edge_mask=torch.randn(case.edge_index.size(1), generator=generator).round(decimals=1),
        node_mask=torch.randn(shape, generator=generator),
        self_loop_score=torch.randn(len(case.x), generator=generator) if loops else None,
    )
    inside, outside = whole.inside(masks, top, by=by), whole.outside(masks, top, by=by)
    drawn, a, b = (one.sample(part, 6, seed=3) for one in (whole, inside, outside))
    if drawn.edges is not None:
        scored = part.felt & ((part.edge_id >= 0) | (part.is_loop & loops))
        into, out = inside.movable_edges(part), outside.movable_edges(part)
        assert torch.equal(into | out, scored)
        assert not bool((into & out).any())
        assert torch.equal(a.edges, torch.where(into, drawn.edges, 0.0))
        assert torch.equal(b.edges, torch.where(out, drawn.edges, 0.0))
        scores = torch.zeros(part.num_edges)
        if loops:
            scores[part.is_loop] = masks.self_loop_score[part.nodes]
        known = part.edge_id >= 0
        scores[known] = masks.edge_mask[part.edge_id[known]]
        check_sides(scores[scored], into[scored], top, by)
        moments, mine = whole.edge_moments(part), inside.edge_moments(part)
        assert torch.equal(mine.mean, moments.mean * into)
        assert torch.equal(mine.spread, moments.spread * into)
    if drawn.features is not None:
        into, out = inside.movable_features(part), outside.movable_features(part)
        assert torch.equal(a.features + b.features, drawn.features)
        assert torch.equal(a.features, drawn.features * into)
        rows = masks.node_mask if kind == "columns" else masks.node_mask[part.nodes]
        seen = slice(None, part.num_visible)
        check_sides(rows.expand(part.x.shape)[seen].flatten(), into[seen].flatten(), top, by)
    # A sample does not depend on how many are drawn, nor on the order.
    again = inside.sample(part, 2, seed=3, start=4)
    for name in ("edges", "features"):
        if getattr(a, name) is not None:
            assert torch.equal(getattr(again, name), getattr(a, name)[4:])


def check_sides(scores, inside, top, by):
    strength = scores.abs() if by == "magnitude" else scores
    if top is None:
        wanted = int((strength > 0).sum())
    else:
        wanted = top if isinstance(top, int) else max(1, round(top * len(scores)))
        wanted = min(len(scores), wanted)  # There may be no edge at all.
    assert int(inside.sum()) == wanted
    if bool(inside.any()) and not bool(inside.all()):
        assert strength[inside].min() >= strength[~inside].max()


def test_a_restricted_neighbourhood_can_be_fitted_and_scored_in():
    case = make_case(2)
    explanation = gf.explain(case.model, as_data(case), case.node, method="saliency")
    near = gf.UniformEdges(0.5).inside(explanation, top=4)
    explainer = gf.explainer_for(case.model, as_data(case), method="kec", neighborhood=near, samples=50)
    fitted = explainer(case.x, case.edge_index, index=case.node, **case.kwargs)
    found = gf.general_unfaithfulness(explainer, fitted, near, num_samples=100)
    assert found.relative < 1
    assert found.kinds == ("edges",)


def as_data(case):
    from torch_geometric.data import Data

    return Data(x=case.x, edge_index=case.edge_index, **case.kwargs)


def test_equal_scores_are_not_taken_in_the_order_of_the_graph():
    case = make_case(4, nodes=20, edges=80)
    part = part_of(case)
    masks = SimpleNamespace(edge_mask=torch.zeros(case.edge_index.size(1)))
    moved = gf.BernoulliEdges(1.0).inside(masks, 0.5).movable_edges(part)
    places = moved.nonzero().view(-1)
    assert not torch.equal(places, torch.arange(len(places)))
    twice = gf.BernoulliEdges(1.0).inside(masks, 0.5).movable_edges(part)
    assert torch.equal(moved, twice)


def test_the_text_tells_and_cannot_be_read():
    masks = [SimpleNamespace(edge_mask=torch.rand(5)) for _ in range(2)]
    texts = [str(gf.BernoulliEdges(0.5).inside(one, 0.2)) for one in masks]
    assert texts[0].startswith("B(A,0.5) inside the top 0.2")
    assert texts[0] != texts[1]
    with pytest.raises(gf.InputError, match="make the neighbourhood from the explanation"):
        gf.parse_neighborhood(texts[0])


def test_what_cannot_be_restricted_is_refused():
    edges = SimpleNamespace(edge_mask=torch.rand(5))
    with pytest.raises(gf.InputError, match="no scores of what this neighbourhood moves"):
        gf.UniformFeatures(0.2).inside(edges)
    with pytest.raises(gf.InputError, match="neither an edge_mask"):
        gf.UniformEdges(0.2).inside(SimpleNamespace())
    for wrong in ({"top": -1}, {"top": 1.5}, {"top": True}, {"by": "size"}):
        with pytest.raises(gf.InputError):
            gf.UniformEdges(0.2).inside(edges, **wrong)
    part = part_of(make_case(1))
    with pytest.raises(gf.InputError, match="edge_mask must be"):
        gf.UniformEdges(0.2).inside(edges).sample(part, 1)
    assert isinstance(gf.UniformEdges(0.2).outside(edges), Restricted)
