"""Explanations of graphs that are read from files, against those of the same graphs in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN, GraphNorm

import graphfaith as gf
from graphfaith import InputError, UnsupportedError
from graphfaith.explainers import base, many
from graphfaith.graph.packed import PackedGraph
from graphfaith.model import target as target_module
from reference import make_case

ARRAYS = ("index", "edge_start", "source", "sink", "edge_id", "score", "node_start", "node", "node_score")


def make(algorithm, model=None, kind="model", level="node"):
    torch.manual_seed(1)
    model = GCN(5, 6, 2, out_channels=3).double() if model is None else model
    config = {"mode": "multiclass_classification", "task_level": level, "return_type": "raw"}
    masks = {"node_mask_type": "attributes", "edge_mask_type": "object"}
    return Explainer(model, algorithm, explanation_type=kind, model_config=config, **masks)


@pytest.fixture
def case():
    return make_case(seed=3, nodes=24, edges=60, features=5, weighted=True, loops=True)


@pytest.fixture
def packed(case, tmp_path):
    given = {"x": case.x, "edge_index": case.edge_index, "edge_weight": case.edge_weight, "y": torch.arange(24) % 3}
    return gf.pack_graph(given, tmp_path / "graph")


def assert_same(found, right):
    for name in ARRAYS:
        assert np.array_equal(getattr(found, name), getattr(right, name)), name
    assert found.numbers.keys() == right.numbers.keys()
    for name, values in right.numbers.items():
        assert np.array_equal(found.numbers[name], values, equal_nan=True), name


@pytest.mark.parametrize("count", [3, 24])
@pytest.mark.parametrize("limit", [0, target_module.LARGE])
@pytest.mark.parametrize(
    "algorithm", [gf.KEC("U(A,0.5)", num_samples=40), gf.AnchoredKEC("B(A,0.5)", num_samples=100), gf.Saliency()]
)
def test_scores_are_those_of_the_graph_in_memory(monkeypatch, case, packed, algorithm, limit, count):
    monkeypatch.setattr(target_module, "LARGE", limit)
    explainer = make(algorithm)
    right = gf.explain_all(explainer, case.x, case.edge_index, range(count), edge_weight=case.edge_weight)
    if not limit:  # A large graph is never read as a whole.
        monkeypatch.setattr(PackedGraph, "tensors", lambda _: pytest.fail("the whole graph was read"))
    assert_same(gf.explain_all(explainer, packed, nodes=range(count)), right)


def test_no_masks_of_the_size_of_the_graph_are_made(monkeypatch, case, packed):
    monkeypatch.setattr(base, "lay_out_scores", lambda *_, **__: pytest.fail("masks were made"))
    explainer = make(gf.KEC("U(A,0.5)", num_samples=20))
    for count in (2, 24):
        gf.explain_all(explainer, packed, nodes=range(count))
        gf.explain_all(explainer, case.x, case.edge_index, range(count), edge_weight=case.edge_weight)


def test_packed_labels_are_explained(case, packed):
    explainer, labels = make(gf.Saliency(), kind="phenomenon"), torch.arange(24) % 3
    right = gf.explain_all(explainer, case.x, case.edge_index, [4, 5], target=labels, edge_weight=case.edge_weight)
    assert_same(gf.explain_all(explainer, packed, nodes=[4, 5]), right)
    assert_same(gf.explain_all(explainer, packed, nodes=[4, 5], target=labels), right)
    other = gf.explain_all(explainer, packed, nodes=[4, 5], target=(labels + 1) % 3)
    assert not np.array_equal(other.score, right.score)


def test_explanations_with_masks_of_a_small_graph(monkeypatch, case, packed):
    explainer = make(gf.Saliency())
    (found,) = gf.explain_nodes(explainer, packed, nodes=[7])
    (right,) = gf.explain_nodes(explainer, case.x, case.edge_index, [7], edge_weight=case.edge_weight)
    assert torch.equal(found.edge_mask, right.edge_mask)
    assert torch.equal(found.edge_index, case.edge_index)
    monkeypatch.setattr(many, "LARGE", 0)
    with pytest.raises(UnsupportedError, match="use explain_all"):
        gf.explain_nodes(explainer, packed, nodes=[7])


class Normed(torch.nn.Module):
    """A model whose output at every node depends on all nodes."""

    def __init__(self):
        super().__init__()
        self.gcn, self.norm = GCN(5, 6, 2, out_channels=3), GraphNorm(3)

    def forward(self, x, edge_index, edge_weight=None):
        return self.norm(self.gcn(x, edge_index, edge_weight=edge_weight))


def test_a_model_that_looks_at_a_large_graph_as_a_whole_is_refused(monkeypatch, packed):
    monkeypatch.setattr(target_module, "LARGE", 0)
    with pytest.raises(UnsupportedError, match=r"Normed gives something else .* load it with"):
        gf.explain_all(make(gf.Saliency(), Normed().double()), packed, nodes=[0])


def test_arguments_that_do_not_go_with_a_packed_graph(case, packed):
    explainer = make(gf.Saliency())
    with pytest.raises(InputError, match="leave out edge_index"):
        gf.explain_all(explainer, packed, case.edge_index)
    with pytest.raises(InputError, match="leave out edge_index"):
        gf.explain_nodes(explainer, packed, case.edge_index)
    with pytest.raises(InputError, match="edge_weight"):
        gf.explain_all(explainer, packed, nodes=[0], edge_weight=case.edge_weight)
    with pytest.raises(InputError, match='explanation_type="phenomenon"'):
        gf.explain_all(explainer, packed, nodes=[0], target=torch.zeros(24, dtype=torch.int64))
    with pytest.raises(InputError, match="out of range"):
        gf.explain_all(explainer, packed, nodes=[24])
    with pytest.raises(UnsupportedError, match="only nodes are explained"):
        gf.explain_all(make(gf.Saliency(), level="graph"), packed)
    with pytest.raises(UnsupportedError, match="makes its explanations itself"):
        gf.explain_all(make(gf.Shapley()), packed, nodes=[0])


def test_a_model_with_another_flow_is_refused(packed):
    model = GCN(5, 6, 2, out_channels=3, flow="target_to_source").double()
    with pytest.raises(UnsupportedError, match="pack it with flow='target_to_source'"):
        gf.explain_all(make(gf.Saliency(), model), packed, nodes=[0])


def test_a_graph_without_labels_needs_a_target(case, tmp_path):
    bare = gf.pack_graph({"x": case.x, "edge_index": case.edge_index}, tmp_path / "bare")
    with pytest.raises(InputError, match="packed with y"):
        gf.explain_all(make(gf.Saliency(), kind="phenomenon"), bare, nodes=[0])
