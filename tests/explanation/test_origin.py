"""Where an explanation comes from: it can ask its model, and neither files nor pickles carry the model along."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith.explanation.origin import explainer_of, remember_origin
from polynomial import HOUSE, both_ways

EDGE = [(0, 1)]


@pytest.fixture
def made():
    torch.manual_seed(0)
    data = Data(x=torch.rand(5, 3), edge_index=both_ways(HOUSE))
    model = GCN(3, 64, 2, out_channels=3).eval()
    return model, data, gf.explain(model, data, 0, neighborhood="R(A,3)", test_samples=50)


def test_an_explanation_asks_the_model_that_it_explains(made):
    model, _, explanation = made
    assert explainer_of(explanation, "check=True").model is model
    assert explanation.what_if(EDGE, check=True).actual is not None


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda one: one.clone(), lambda one: one.reading("slope")])
def test_copies_share_the_model(made, way):
    model, _, explanation = made
    again = way(explanation)
    assert explainer_of(again, "check=True").model is model
    assert again.what_if(EDGE, check=True) == explanation.what_if(EDGE, check=True)


def test_files_and_pickles_leave_the_model_out(made, tmp_path):
    model, data, explanation = made
    gf.save(explanation, tmp_path / "e.safetensors")
    torch.save(model.state_dict(), tmp_path / "model.pt")
    text = pickle.dumps(explanation)
    weights = next(model.parameters()).detach().numpy().tobytes()
    assert weights not in text
    assert weights not in (tmp_path / "e.safetensors").read_bytes()
    for again in (pickle.loads(text), gf.load(tmp_path / "e.safetensors")):
        assert again.what_if(EDGE) == explanation.what_if(EDGE)
        with pytest.raises(gf.InputError, match="pass explainer="):
            again.what_if(EDGE, check=True)
        asked = again.what_if(EDGE, check=True, explainer=gf.explainer_for(model, data))
        assert asked.actual == pytest.approx(explanation.what_if(EDGE, check=True).actual)
        remember_origin(again, gf.explainer_for(model, data))
        assert again.what_if(EDGE, check=True) == asked


def test_the_origin_is_no_field_of_the_explanation(made):
    explanation = made[2]
    assert "_origin" not in explanation.keys()  # noqa: SIM118  (the fields of PyG's storage)
    assert "_origin" not in explanation.to_dict()
    assert "Origin" not in repr(explanation)


def test_the_model_is_asked_as_it_is_now(made):
    """The number is F's, so it follows the parameters of the model, as a measurement does."""
    model, _, explanation = made
    before = explanation.what_if(EDGE, check=True).actual
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    assert explanation.what_if(EDGE, check=True).actual != pytest.approx(before)
