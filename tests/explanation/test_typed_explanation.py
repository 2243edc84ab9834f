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
