"""Signed explanations as objects: what is strongest, the part that matters, names, and PyG's own operations on them."""

from __future__ import annotations

import copy
import json
import pickle
import warnings

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.explain import Explanation
from torch_geometric.explain import GNNExplainer as PyGGNNExplainer
from torch_geometric.explain.config import ModelConfig

import graphfaith as gf
from explaining import METHODS, SIGNED, by_slope, explain, explainer_of
from graphfaith.explanation.scores import node_scores
from graphfaith.explanation.signed import (
    NamedEdge,
    ScoredEdge,
    ScoredFeature,
    ScoredNode,
    SignedExplanation,
    signed_subgraph,
    to_networkx,
    top_edges,
    top_features,
    top_nodes,
)
from reference import make_case

SIGNS = [None, "+", "-"]


@st.composite
def explanations(draw, kind=SignedExplanation):
    """Small multigraphs with loops, and scores among few values, so that many are equal or zero."""
    nodes = draw(st.integers(1, 6))
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    edges = draw(st.lists(ends, max_size=9))
    score = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.0, 1.0, 2.0])
    columns = draw(st.integers(1, 3))
    rows = draw(st.sampled_from([None, 1, nodes]))
    explanation = kind(
        x=torch.tensor(draw(st.lists(score, min_size=nodes * columns, max_size=nodes * columns))).view(nodes, columns),
        edge_index=torch.tensor(edges, dtype=torch.int64).view(-1, 2).T,  # stored by columns, as people often make it
        index=torch.tensor([draw(st.integers(0, nodes - 1))]),
        edge_weight=torch.arange(len(edges)) + 10.0,
    )
    if draw(st.booleans()):
        explanation.edge_mask = torch.tensor(draw(st.lists(score, min_size=len(edges), max_size=len(edges))))
    if draw(st.booleans()):
        explanation.self_loop_score = torch.tensor(draw(st.lists(score, min_size=nodes, max_size=nodes)))
    if rows is not None:
        width = draw(st.sampled_from([1, columns])) if rows == nodes and nodes > 1 else columns
        values = draw(st.lists(score, min_size=rows * width, max_size=rows * width))
        explanation.node_mask = torch.tensor(values).view(rows, width)
    return explanation


def every_entry(explanation):
    """(source, sink, score, edge id) of all edges with a score and all self-loops scored apart, in order."""
    edges = explanation.edge_index.T.tolist()
    scores, loops = explanation.get("edge_mask"), explanation.get("self_loop_score")
    found = [] if scores is None else [(s, t, float(v), i) for i, ((s, t), v) in enumerate(zip(edges, scores))]  # noqa: B905
    if loops is not None:
        given_loops = {s for s, t in edges if s == t} if scores is not None else set()
        found += [(v, v, float(score), -1) for v, score in enumerate(loops) if v not in given_loops]
    return found


def ranked(rows, sign):
    keep = {None: lambda v: v != 0, "+": lambda v: v > 0, "-": lambda v: v < 0}[sign]
    return sorted((row for row in rows if keep(row[-1])), key=lambda row: -abs(row[-1]))  # sorted keeps equal ones


@given(explanations(), st.sampled_from(SIGNS), st.integers(1, 12))
def test_top_edges_are_those_of_a_plain_sort(explanation, sign, k):
    rows = ranked([entry[:3] for entry in every_entry(explanation)], sign)
    assert top_edges(explanation, k, sign) == rows[:k]
    assert explanation.top_edges(None, sign) == rows


@given(explanations(), st.sampled_from(SIGNS), st.integers(1, 12))
def test_top_nodes_and_features_are_those_of_a_plain_sort(explanation, sign, k):
    mask, x = explanation.get("node_mask"), explanation.x
    if mask is None or len(mask) != len(x):
        with pytest.raises(gf.InputError, match="node_mask_type"):
            explanation.top_nodes(k, sign)
    else:
        scores = mask[:, 0] if mask.size(1) == 1 else torch.stack([m @ v for m, v in zip(mask, x, strict=True)])
        rows = ranked(list(enumerate(scores.tolist())), sign)
        assert explanation.top_nodes(k, sign) == rows[:k]
    if mask is None or mask.shape != x.shape:
        with pytest.raises(gf.InputError, match="attributes"):
            explanation.top_features(k, sign)
    else:
        rows = ranked([(v, c, float(mask[v, c])) for v in range(len(x)) for c in range(x.size(1))], sign)
        assert explanation.top_features(k, sign) == rows[:k]


@pytest.mark.parametrize("name", SIGNED)
def test_the_score_of_a_node_is_the_one_of_an_object_mask(name):
    case, near = make_case(seed=11), "U(X,0.2r)xU(A,0.5)"
    by_feature, by_node = (
        explain(case, by_slope(METHODS[name](near)), node=kind)[1] for kind in ("attributes", "object")
    )
    assert by_feature.node_mask.shape != by_node.node_mask.shape
    torch.testing.assert_close(by_feature.node_scores(), by_node.node_mask[:, 0])
    torch.testing.assert_close(by_node.node_scores(), by_node.node_mask[:, 0])


def path(**fields):
    """0 -> 1 -> 2 -> 3 and an edge 1 -> 2 once more."""
    edges = torch.tensor([[0, 1, 2, 1], [1, 2, 3, 2]])
    return SignedExplanation(
        x=torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 3.0], [1.0, 1.0]]),
        **{"edge_index": edges, "edge_mask": torch.tensor([0.5, -2.0, 0.0, 1.0]), "index": torch.tensor([1]), **fields},
    )


def test_results_without_names_are_plain():
    edge, node, feature = ScoredEdge(3, 4, 0.5), ScoredNode(3, 0.5), ScoredFeature(3, 1, 0.5)
    assert path().top_edges(1) == [(1, 2, -2.0)]
    assert type(path().top_edges(1)[0]) is ScoredEdge
    assert json.dumps(path().top_edges(1)[0]._asdict()) == '{"source": 1, "sink": 2, "score": -2.0}'
    assert edge.names == ("3", "4")
    assert node.names == ("3",)
    assert feature.names == ("3", "1")


def test_results_with_names_are_the_same_with_names():
    named = path(node_mask=torch.tensor([[0.0, 1.0], [0.0, 0.0], [-3.0, 0.0], [0.0, 0.0]]))
    named.name(nodes=["a", "b", "c", "d"], features=["heat", "flow"])
    edge, *_ = named.top_edges()
    assert edge == (1, 2, -2.0) == ScoredEdge(1, 2, -2.0)
    source, sink, score = edge
    assert (source, sink, score, len(edge)) == (1, 2, -2.0, 3)
    assert edge.names == ("b", "c")
    assert edge._asdict() == {"source": 1, "sink": 2, "score": -2.0, "names": ["b", "c"]}
    assert repr(edge) == "NamedEdge(source=1, sink=2, score=-2.0, names=['b', 'c'])"
    assert pickle.loads(pickle.dumps(edge)).names == copy.copy(edge).names == ("b", "c")
    assert edge._replace(sink=7).names == ("1", "7")
    assert named.top_features()[0].names == ("c", "heat")
    assert [node.names for node in path(node_mask=torch.tensor([[1.0], [0], [0], [0]])).name({0: "a"}).top_nodes()] == [
        ("a",)
    ]


def test_one_kind_of_name_is_enough():
    mask = torch.tensor([[0.0, 1.0], [0.0, 0.0], [-3.0, 0.0], [0.0, 0.0]])
    assert path(node_mask=mask).name(features={1: "flow"}).top_features()[1].names == ("0", "flow")
    assert path(node_mask=mask).name(nodes={0: "a"}).top_features()[1].names == ("a", "1")


def test_names_by_id_are_added_to_those_there_are():
    named = path().name(nodes={2: "pump"})
    assert named.node_names == ["0", "1", "pump", "3"]
    assert named.name(nodes={np.int64(0): "tank"}).node_names == ["tank", "1", "pump", "3"]
    assert named.name(features=["a", "b"]).feature_names == ["a", "b"]
    assert "node_names" in named


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"nodes": ["a", "b"]}, "2 names for 4 nodes"),
        ({"features": ["a"]}, "1 names for 2 features"),
        ({"nodes": {4: "a"}}, "no node 4"),
        ({"nodes": {-1: "a"}}, "no node -1"),
        ({"nodes": {"P1": "a"}}, "no node 'P1'"),
        ({"features": {2: "a"}}, "no feature 2"),
        ({"nodes": [1, 2, 3, 4]}, "a text"),
        ({"nodes": {1: None}}, "a text"),
        ({"nodes": "abcd"}, "a list or a dictionary"),
        ({"nodes": 4}, "a list or a dictionary"),
    ],
)
def test_names_that_do_not_fit(names, message):
    explanation = path()
    with pytest.raises(gf.InputError, match=message):
        explanation.name(**names)
    assert "node_names" not in explanation
    assert "feature_names" not in explanation


def test_names_of_another_graph_are_noticed():
    with pytest.raises(gf.InputError, match="node_names must be a list of 4"):
        path(node_names=["a"]).top_edges()
    with pytest.raises(gf.InputError, match="no features"):
        SignedExplanation(edge_index=torch.tensor([[0], [1]])).name(features=["a"])


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_k_is_checked(k):
    explanation = path(node_mask=torch.ones(4, 2))
    for ask in (top_edges, top_nodes, top_features, signed_subgraph, to_networkx):
        with pytest.raises(gf.InputError, match="k must be"):
            ask(explanation, k)


def test_sign_and_share_are_checked():
    for ask in (path().top_edges, path().signed_subgraph, path().to_networkx):
        with pytest.raises(gf.InputError, match="sign must be"):
            ask(3, sign="plus")
    for share in (0, -0.5, 1.5, float("nan"), "all"):
        with pytest.raises(gf.InputError, match="share must be"):
            path().signed_subgraph(share=share)
    with pytest.raises(gf.InputError, match="give one"):
        path().signed_subgraph(3, share=0.5)
    with pytest.raises(gf.InputError, match="everything"):
        path().to_networkx(3, everything=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"edge_mask": torch.tensor([1.0, torch.nan, 0, 0])}, "edge_mask holds NaN"),
        ({"edge_mask": torch.ones(3)}, "edge_mask must have 4 entries"),
        ({"self_loop_score": torch.ones(3)}, "self_loop_score must have 4 entries"),
        ({"edge_index": torch.tensor([[0], [4]])}, "outside 0 to 3"),
        ({"edge_index": torch.tensor([[0], [-1]])}, "outside 0 to 3"),
        ({"edge_index": torch.tensor([[0.0], [1.0]])}, "whole numbers"),
        ({"edge_index": torch.tensor([0, 1])}, "edge_index must be"),
    ],
)
def test_scores_that_cannot_be_read(fields, message):
    explanation = path()
    for key, value in fields.items():
        explanation[key] = value
    with pytest.raises(gf.InputError, match=message):
        explanation.top_edges()


def test_only_explanations_of_one_kind_of_node_are_read():
    from torch_geometric.explain import HeteroExplanation

    with pytest.raises(gf.UnsupportedError, match="joint"):
        top_edges(HeteroExplanation())
    with pytest.raises(gf.InputError, match="explanation of PyG"):
        top_edges({"edge_mask": torch.ones(1)})


def names_to_ids(part, rows):
    ids = part.node_id.tolist()
    return [(*(ids[v] for v in row[:-1]), row[-1]) for row in rows]


@given(explanations(), st.sampled_from(SIGNS), st.one_of(st.none(), st.integers(1, 5)))
def test_the_signed_subgraph_says_the_same_of_what_it_keeps(explanation, sign, k):
    part = signed_subgraph(explanation, k, sign=sign)
    assert names_to_ids(part, part.top_edges(None)) == explanation.top_edges(k, sign)
    ids, edges = part.node_id, part.edge_id
    assert torch.equal(ids[part.edge_index], explanation.edge_index[:, edges])
    assert torch.equal(part.x, explanation.x[ids])
    assert torch.equal(part.edge_weight, explanation.edge_weight[edges])
    assert torch.equal(ids[part.index], explanation.index)
    assert part.num_nodes == len(ids) == len(set(ids.tolist()))
    assert part.node_names == [str(v) for v in ids.tolist()]
    touched = {v for row in explanation.top_edges(k, sign) for v in row[:2]} | {int(explanation.index)}
    if "node_mask" in explanation and len(explanation.node_mask) == len(explanation.x):
        touched |= {node.node for node in explanation.top_nodes(k, sign)}
        assert torch.equal(part.node_scores(), explanation.node_scores()[ids])
    assert set(ids.tolist()) == touched
    if "edge_mask" in explanation:
        assert torch.equal(part.edge_mask, explanation.edge_mask[edges])
        assert bool((part.edge_mask != 0).all())
    else:
        inside = torch.isin(explanation.edge_index, ids).all(dim=0).nonzero().view(-1)
        assert torch.equal(edges, inside)


@given(explanations(), st.sampled_from(SIGNS), st.one_of(st.none(), st.integers(1, 5)))
def test_networkx_holds_the_signed_subgraph(explanation, sign, k):
    graph, part = explanation.to_networkx(k, sign=sign), explanation.signed_subgraph(k, sign=sign)
    scored = sorted((u, v, d["score"]) for u, v, d in graph.edges(data=True) if d["score"] != 0)
    assert scored == sorted(tuple(edge) for edge in explanation.top_edges(k, sign))
    assert sorted(graph) == part.node_id.tolist()
    for u, v, key, data in graph.edges(keys=True, data=True):
        assert data["edge_id"] == key
        assert data["sign"] == {1.0: "+", -1.0: "-", 0.0: "0"}[np.sign(data["score"])]
        if key >= 0:
            assert explanation.edge_index[:, key].tolist() == [u, v]
            if "edge_mask" in explanation:
                assert explanation.edge_mask[key] == data["score"]
        else:
            assert u == v
            assert explanation.self_loop_score[u] == data["score"]
    rated = "node_mask" in explanation and len(explanation.node_mask) == len(explanation.x)
    for v, data in graph.nodes(data=True):
        assert data["explained"] == (v == int(explanation.index))
        assert ("score" in data) == rated
        assert not rated or data["score"] == float(explanation.node_scores()[v])
    again = part.to_networkx()
    assert dict(again.nodes(data=True)) == dict(graph.nodes(data=True))
    assert sorted(again.edges(keys=True, data="score")) == sorted(graph.edges(keys=True, data="score"))


def test_networkx_of_everything():
    graph = path(self_loop_score=torch.tensor([0.0, 0.0, -1.0, 0.0])).to_networkx(everything=True)
    assert isinstance(graph, nx.MultiDiGraph)
    assert sorted(graph) == [0, 1, 2, 3]
    assert sorted(graph.edges(keys=True)) == [(0, 1, 0), (1, 2, 1), (1, 2, 3), (2, 2, -1), (2, 3, 2)]
    assert graph.edges[2, 3, 2]["sign"] == "0"
    assert graph.edges[2, 2, -1] == {"score": -1.0, "sign": "-", "edge_id": -1}
    bare = path(edge_mask=None).to_networkx(everything=True)
    assert sorted(bare.edges(data="score")) == [(0, 1, 0.0), (1, 2, 0.0), (1, 2, 0.0), (2, 3, 0.0)]


def test_networkx_has_names_and_can_be_written():
    graph = path(node_mask=torch.ones(4, 2), method="KEC").name(nodes={1: "pump"}).to_networkx(1)
    assert graph.nodes[1]["name"] == "pump"
    assert graph.graph == {"method": "KEC"}
    assert "pump" in "".join(nx.generate_graphml(graph))


def test_a_million_nodes_cost_only_what_is_scored():
    edges = torch.arange(999_999).expand(2, -1).clone()
    edges[1] += 1
    explanation = SignedExplanation(x=torch.zeros(1_000_000, 1), edge_index=edges, edge_mask=torch.zeros(999_999))
    explanation.self_loop_score = torch.zeros(1_000_000)
    explanation.edge_mask[500_000] = -1.0
    assert sorted(explanation.to_networkx().edges) == [(500_000, 500_001, 500_000)]
    assert explanation.signed_subgraph().node_id.tolist() == [500_000, 500_001]
    assert explanation.top_edges() == [(500_000, 500_001, -1.0)]


def test_a_subgraph_of_a_subgraph_remembers_the_whole_graph():
    whole = path()
    part = whole.signed_subgraph(2).signed_subgraph(1)
    assert part.node_id.tolist() == [1, 2]
    assert part.edge_id.tolist() == [1]
    assert part.node_names == ["1", "2"]
    assert sorted(part.to_networkx().edges(keys=True)) == [(1, 2, 1)]
    assert sorted(path(edge_mask=torch.tensor([0, 0, 1.0, 0])).signed_subgraph().to_networkx().edges) == [(2, 3, 2)]


def test_share_counts_strength_not_number():
    explanation = path(edge_mask=torch.tensor([1.0, -7.0, 0.0, 2.0]))
    for share, edges in ((0.1, [1]), (0.7, [1]), (0.71, [1, 3]), (0.9, [1, 3]), (0.95, [0, 1, 3]), (1.0, [0, 1, 3])):
        assert explanation.signed_subgraph(share=share).edge_id.tolist() == edges
    assert explanation.signed_subgraph(share=0.6, sign="+").edge_id.tolist() == [3]
    assert path(edge_mask=torch.zeros(4)).signed_subgraph(share=0.5).edge_id.tolist() == []


def test_the_subgraph_cannot_be_scored_by_mistake():
    call, explanation = explain(make_case(seed=31), gf.Saliency())
    part = explanation.signed_subgraph(3)
    assert part.method == "Saliency"
    with pytest.raises(gf.InputError, match="excerpt"):
        gf.general_unfaithfulness(call, part, "U(A,0.5)", num_samples=10)


def test_the_subgraph_of_an_edge_or_a_graph_keeps_its_index():
    pairs = torch.tensor([[0, 3, 1], [2, 1, 0]])
    edge = path(edge_label_index=pairs, index=torch.tensor([1]), edge_mask=torch.tensor([0.0, 1.0, 0.0, 0.0]))
    edge._model_config = ModelConfig("regression", "edge")
    part = edge.signed_subgraph()
    assert part.node_id.tolist() == [1, 2, 3]
    assert part.node_id[part.edge_label_index[:, part.index]].tolist() == [[3], [1]]
    assert part.signed_subgraph().edge_label_index.tolist() == part.edge_label_index.tolist()
    judged = path(candidates=pairs, index=torch.tensor([1]), edge_mask=edge.edge_mask, target=torch.zeros(3))
    judged._model_config, judged._model_args = edge._model_config, ["candidates"]
    part = judged.signed_subgraph()
    assert part.node_id[part.edge_label_index].tolist() == [[3], [1]]
    assert "candidates" not in part
    of_edges = path(index=torch.tensor([2]), edge_mask=edge.edge_mask, target=torch.zeros(4))
    of_edges._model_config = edge._model_config
    part = of_edges.signed_subgraph()
    assert part.node_id[part.edge_label_index[:, part.index]].tolist() == [[2], [3]]
    of_edges.target = torch.zeros(7)  # rows that stand for nothing on the graph
    assert "edge_label_index" not in of_edges.signed_subgraph()
    graph = path(index=torch.tensor([0]), batch=torch.zeros(4, dtype=torch.int64))
    graph._model_config = ModelConfig("regression", "graph")
    part = graph.signed_subgraph(1)
    assert part.node_id.tolist() == [1, 2]  # no node is explained
    assert part.index.tolist() == [0]
    assert part.batch.tolist() == [0, 0]
    assert part._model_config is graph._model_config
    graph.index = torch.tensor([0, 0, 0, 0])  # as many as nodes, but rows of the output
    assert len(graph.signed_subgraph(1).index) == 4
    several = path(index=torch.tensor([3, -4]))
    part = several.signed_subgraph(1)
    assert part.node_id.tolist() == [0, 1, 2, 3]
    assert part.index.tolist() == [3, 0]
    assert path(index=3).signed_subgraph(1).index == 2
    assert path(index=torch.tensor([True, False, False, True])).signed_subgraph(1).index.tolist() == [0, 3]
    assert "index" not in path(index=None).signed_subgraph(1)
    with pytest.raises(gf.InputError, match="index holds numbers outside"):
        path(index=torch.tensor([4])).signed_subgraph(1)


def test_the_subgraph_is_drawn_with_the_ids_of_the_whole_graph():
    part = path().signed_subgraph(1)
    assert part.node_names == ["1", "2"]
    drawn = gf.figure(part)
    assert "2" in {text.get_text() for axes in drawn.axes for text in axes.texts}


@pytest.mark.parametrize("kind", [Explanation, SignedExplanation])
def test_pygs_own_subgraph_drops_negative_scores_and_ours_does_not(kind):
    explanation = kind(
        x=torch.ones(3, 2),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]),
        edge_mask=torch.tensor([1.0, -1.0, 0.0]),
        node_mask=torch.tensor([[1.0, 0.0], [1.0, -1.0], [-1.0, -2.0]]),
    )
    signed = kind is SignedExplanation
    part = explanation.get_explanation_subgraph()
    assert part.num_nodes == (3 if signed else 1)
    assert part.num_edges == (2 if signed else 0)
    assert explanation.get_complement_subgraph().num_nodes == (0 if signed else 1)
    columns = kind(x=torch.ones(3, 2), edge_index=explanation.edge_index, edge_mask=explanation.edge_mask)
    columns.node_mask = torch.tensor([[-1.0, 2.0]])
    if signed:
        assert columns.get_explanation_subgraph().num_edges == 2


def test_names_survive_pygs_own_subgraphs():
    # As many edges as nodes and as features: PyG tells lists apart by their length alone.
    triangle = SignedExplanation(
        x=torch.eye(3),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]),
        edge_mask=torch.tensor([1.0, -1.0, 0.0]),
        node_mask=torch.tensor([[1.0], [-1.0], [0.0]]),
    ).name(nodes=["a", "b", "c"], features=["p", "q", "r"])
    for part in (triangle.get_explanation_subgraph(), triangle.subgraph(torch.tensor([True, True, False]))):
        assert part.node_names == ["a", "b"]
        assert part.feature_names == ["p", "q", "r"]


@pytest.mark.parametrize("name", ["kec", "gnnexplainer"])
def test_copies_are_signed_explanations_with_all_fields(name):
    _, explanation = explain(make_case(seed=12), METHODS[name]())
    explanation.name(nodes={0: "pump"})
    copies = [copy.copy(explanation), explanation.threshold("topk", 3), explanation.to("cpu"), explanation.clone()]
    if name == "kec":  # the other holds a model, as it did before
        copies += [copy.deepcopy(explanation), pickle.loads(pickle.dumps(explanation))]
    for other in copies:
        assert type(other) is SignedExplanation
        assert set(other.keys()) == set(explanation.keys())
        assert other.node_names[0] == "pump"
        assert other._model_config == explanation._model_config
        assert other.top_edges(3)
    assert explanation.available_explanations == copies[0].available_explanations
    assert set(explanation.available_explanations) == {"node_mask", "edge_mask"}
    assert explanation.validate()


def test_explanations_of_pyg_are_read_too():
    case = make_case(seed=31, weighted=False, loops=False)
    call = explainer_of(case.model, PyGGNNExplainer(epochs=3))
    found = call(case.x, case.edge_index, index=case.node)
    assert type(found) is Explanation
    assert [edge.score for edge in top_edges(found, 3)] == found.edge_mask.sort(descending=True).values[:3].tolist()
    assert top_features(found, 1)[0].score == float(found.node_mask.max())
    torch.testing.assert_close(node_scores(found), (found.node_mask * case.x).sum(dim=1))
    assert len(top_nodes(found, 2)) == 2
    part = signed_subgraph(found, 3)
    assert isinstance(part, SignedExplanation)
    assert part.num_edges == 3
    assert to_networkx(found, 3).number_of_edges() == 3


def test_the_number_of_nodes_is_not_that_of_rows_of_a_mask_on_columns():
    columns = Explanation(node_mask=torch.tensor([[1.0, -2.0]]), edge_index=torch.tensor([[0, 1], [1, 2]]))
    columns.edge_mask = torch.tensor([1.0, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(top_edges(columns)) == 2
        part = signed_subgraph(columns, sign="-")
    assert part.node_id.tolist() == [1, 2]
    assert part.node_mask.tolist() == [[1.0, -2.0]]
    columns.edge_mask, columns.self_loop_score = torch.zeros(2), torch.tensor([0.0, 3.0, 0.0])
    alone = signed_subgraph(columns)
    assert alone.node_id.tolist() == [1]
    assert "node_mask" not in alone  # it would pass for scores of this node
    assert Explanation().get("edge_mask") is None
    assert top_edges(Explanation()) == []


def test_a_loop_of_the_graph_counts_once():
    looped = path(edge_index=torch.tensor([[0, 1], [1, 1]]), edge_mask=torch.tensor([1.0, 5.0]))
    looped.self_loop_score = torch.tensor([-2.0, 5.0, 0.0, 0.0])
    assert looped.top_edges() == [(1, 1, 5.0), (0, 0, -2.0), (0, 1, 1.0)]
    assert sorted(looped.to_networkx().edges(keys=True)) == [(0, 0, -1), (0, 1, 0), (1, 1, 1)]
    looped.edge_mask = None
    assert looped.top_edges() == [(1, 1, 5.0), (0, 0, -2.0)]


def test_a_mask_on_nodes_is_enough():
    alone = Explanation(node_mask=torch.tensor([[0.0], [-2.0], [1.0]]))
    assert top_nodes(alone) == [(1, -2.0), (2, 1.0)]
    assert to_networkx(alone).nodes[1]["score"] == -2.0
    assert signed_subgraph(alone, 1).node_mask.tolist() == [[-2.0]]
    alone.edge_index = torch.tensor([[0], [1]])
    assert signed_subgraph(alone).node_id.tolist() == [1, 2]


def test_whole_numbers_and_truth_values_are_scores():
    assert path(edge_mask=torch.tensor([True, False, False, True])).top_edges() == [(0, 1, 1.0), (1, 2, 1.0)]
    assert path(edge_mask=torch.tensor([1, -2, 0, 0])).top_edges(1) == [(1, 2, -2.0)]
    assert isinstance(path().name(nodes={0: "a"}).top_edges(1)[0], NamedEdge)
