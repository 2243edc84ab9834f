"""Explanations by type: files, pictures and names."""

from __future__ import annotations

import pytest
import torch

import graphfaith as gf
from graphfaith.view.page import page_data
from typed_toys import SIZES, TYPES, as_data, graph, make

NODE = 5


@pytest.fixture(scope="module")
def explanations():
    data = as_data(*graph())
    return {
        method: gf.explain(make("weighted"), data, NODE, method=method, test_samples=30)
        for method in ("anchored-kec", "kec", "saliency")
    }


@pytest.mark.parametrize("method", ["anchored-kec", "kec", "saliency"])
def test_a_file_brings_back_the_same(explanations, method, tmp_path):
    explanation = explanations[method]
    gf.save(explanation, tmp_path / "one.safetensors")
    back = gf.load(tmp_path / "one.safetensors")
    assert isinstance(back, gf.TypedExplanation)
    for name in SIZES:
        assert torch.equal(back[name].node_mask, explanation[name].node_mask)
        assert torch.equal(back[name].x, explanation[name].x)
    for kind in TYPES:
        assert torch.equal(back[kind].edge_mask, explanation[kind].edge_mask)
        assert torch.equal(back[kind].edge_index, explanation[kind].edge_index)
    assert back.unfaithfulness == explanation.unfaithfulness
    assert torch.equal(back.target, explanation.target)
    edge = explanation.top_edges(1)[0]
    assert method == "saliency" or back.what_if([edge[:3]]).change == explanation.what_if([edge[:3]]).change
    source = gf.explainer_for(make("weighted"), as_data(*graph()), method=method)
    score = gf.general_unfaithfulness(source, back, "U(A,0.5)", num_samples=30)
    assert score.value == pytest.approx(explanation.unfaithfulness.value)


def test_strongest_scores_are_named_by_type(explanations):
    explanation = explanations["saliency"]
    edge = explanation.top_edges(1)[0]
    mask, ends = explanation[edge.edge_type].edge_mask, explanation[edge.edge_type].edge_index
    place = int(((ends[0] == edge.source) & (ends[1] == edge.sink)).nonzero()[0])
    assert float(mask[place]) == pytest.approx(edge.score)
    assert abs(edge.score) == max(float(explanation[kind].edge_mask.abs().max()) for kind in TYPES)
    feature = explanation.top_features(1)[0]
    assert float(explanation[feature.node_type].node_mask[feature.node, feature.column]) == pytest.approx(feature.score)
    node = explanation.top_nodes(1)[0]
    assert node.node_type in SIZES


def test_names_by_type(explanations):
    explanation = explanations["kec"]
    explanation.name(nodes={"paper": [f"P{i}" for i in range(14)]}, classes=["a", "b", "c"])
    assert explanation.joint().node_names[NODE] == f"P{NODE}"
    assert explanation.joint().node_names[14] == "word 0"
    with pytest.raises(gf.InputError, match="14 nodes"):
        explanation.name(nodes={"paper": ["P"]})


def test_another_reading_is_by_type(explanations):
    slope = explanations["anchored-kec"].reading("slope")
    assert isinstance(slope, gf.TypedExplanation)
    assert slope[TYPES[0]].edge_mask.shape == explanations["anchored-kec"][TYPES[0]].edge_mask.shape
    assert any(not torch.equal(slope[kind].edge_mask, explanations["anchored-kec"][kind].edge_mask) for kind in TYPES)


def test_a_page_has_the_types_and_a_figure_draws_them(explanations, tmp_path):
    data = page_data(explanations["saliency"])
    assert [(one["name"], one["shape"]) for one in data["types"]] == [
        ("paper", "circle"),
        ("word", "square"),
        ("author", "triangle"),
    ]
    assert len(data["type_of"]) == len(data["names"])
    for name, kind in zip(data["names"], data["type_of"], strict=True):
        assert name.startswith(data["types"][kind]["name"])
    figure = gf.figure(explanations["saliency"], tmp_path / "one.svg")
    gids = {artist.get_gid() for artist in figure.axes[0].collections}
    assert any(gid is not None and gid.endswith("-type1") for gid in gids)


def test_a_damaged_file_is_refused(explanations, tmp_path):
    explanation = explanations["kec"]
    path = tmp_path / "one.safetensors"
    gf.save(explanation, path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(gf.DataError):
        gf.load(path)


def test_subgraphs_count_negative_scores_as_scores(explanations):
    """PyG's own keep what is above 0 alone, silently."""
    explanation = explanations["anchored-kec"]
    scored = {kind: explanation[kind].edge_mask != 0 for kind in TYPES}
    assert any(bool((explanation[kind].edge_mask < 0).any()) for kind in TYPES)
    part, rest = explanation.get_explanation_subgraph(), explanation.get_complement_subgraph()
    for excerpt in (part, rest):
        assert isinstance(excerpt, gf.TypedExplanation)
        assert excerpt.get("difference_model") is None
        assert excerpt.get("unfaithfulness") is None
        assert excerpt.kinds.edge_start[-1] == sum(excerpt[kind].edge_index.size(1) for kind in TYPES)
    for kind in TYPES:
        source, sink = (explanation[end].node_mask.ne(0).any(dim=1) for end in kind[::2])
        ends = explanation[kind].edge_index
        both = source[ends[0]] & sink[ends[1]]
        wanted = explanation[kind].edge_mask[scored[kind] & both]
        assert torch.equal(part[kind].edge_mask, wanted)
        neither = ~source[ends[0]] & ~sink[ends[1]]
        assert torch.equal(rest[kind].edge_mask, explanation[kind].edge_mask[~scored[kind] & neither])
    for name in SIZES:
        kept = explanation[name].node_mask.ne(0).any(dim=1)
        assert torch.equal(part[name].x, explanation[name].x[kept])
        assert torch.equal(rest[name].x, explanation[name].x[~kept])


def test_edges_alone_keep_all_nodes_and_their_negative_scores():
    x, edges = graph()
    typed = gf.TypedExplanation()
    for name, rows in x.items():
        typed[name].x = rows
    for kind, ends in edges.items():
        typed[kind].edge_index, typed[kind].edge_mask = ends, torch.zeros(ends.size(1))
    typed[TYPES[0]].edge_mask[:5] = torch.tensor([1.0, -2.0, 3.0, -4.0, 5.0])
    part = typed.get_explanation_subgraph()
    assert part[TYPES[0]].edge_mask.tolist() == [1.0, -2.0, 3.0, -4.0, 5.0]
    assert all(part[kind].edge_index.size(1) == 0 for kind in TYPES[1:])
    assert len(part["paper"].x) == 14
    assert len(part.top_edges(10)) == 5
    assert (
        sum(typed.get_complement_subgraph()[kind].edge_index.size(1) for kind in TYPES)
        == sum(ends.size(1) for ends in edges.values()) - 5
    )


def test_an_excerpt_has_the_explained_node_and_its_names(explanations):
    explanation = explanations["saliency"]
    explanation.name(nodes={"word": [f"w{i}" for i in range(9)]})
    part = explanation.get_explanation_subgraph()
    kept = explanation["paper"].node_mask.ne(0).any(dim=1)
    assert part.index.tolist() == [int(kept[:NODE].sum())]
    assert torch.equal(part.prediction, explanation.prediction[kept])
    assert torch.equal(part["paper"].x[part.index[0]], explanation["paper"].x[NODE])
    assert len(part.node_names) == sum(len(part[name].x) for name in SIZES)
    words = [i for i in range(9) if bool(explanation["word"].node_mask[i].ne(0).any())]
    assert [name for name in part.node_names if name.startswith("w")] == [f"w{i}" for i in words]
    top = part.top_edges(1)[0]
    assert top.score == explanation.top_edges(1)[0].score


def test_the_strongest_part_and_its_networkx_graph_know_the_types(explanations):
    explanation = explanations["kec"]
    part = explanation.signed_subgraph(3)
    assert sorted(part.edge_mask.abs().tolist(), reverse=True)[:3] == pytest.approx(
        [abs(edge.score) for edge in explanation.top_edges(3)]
    )
    found = explanation.to_networkx(3)
    wanted = {
        ((edge.edge_type[0], edge.source), (edge.edge_type[2], edge.sink), edge.edge_type, edge.score)
        for edge in explanation.top_edges(3)
    }
    assert {(u, v, fields["edge_type"], fields["score"]) for u, v, fields in found.edges(data=True)} == wanted
    assert [node for node, explained in found.nodes(data="explained") if explained] == [("paper", NODE)]


def test_drawing_is_the_figure_with_signs(explanations, tmp_path):
    explanation = explanations["saliency"]
    labels = {"paper": [f"Paper {i}" for i in range(14)]}
    explanation.visualize_graph(str(tmp_path / "typed.svg"), node_labels=labels)
    assert "Paper 5" in (tmp_path / "typed.svg").read_text()
    with pytest.raises(ValueError, match="14 nodes"):
        explanation.visualize_graph(str(tmp_path / "wrong.svg"), node_labels={"paper": ["one"]})
