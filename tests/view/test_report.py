"""Explanations as text and as rows of JSON: which number stands beside which scores."""

from __future__ import annotations

import io
import json

import pytest
import torch
from rich.console import Console
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith.facade import compare
from graphfaith.surrogate.estimate import format_share
from graphfaith.view.report import explanation_row, finite_rows, print_explanation

RING = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])


@pytest.fixture
def data():
    torch.manual_seed(0)
    return Data(x=torch.rand(6, 3), edge_index=RING)


def printed(explanation):
    text = io.StringIO()
    print_explanation(Console(file=text, width=120), explanation, "ring", 3)
    return text.getvalue()


def test_scores_of_what_never_moved_are_marked(data):
    model, options = GCN(3, 4, num_layers=2, out_channels=3), {"method": "kec", "test_samples": 20}
    one = gf.explain(model, data, 2, **options)
    assert "strongest edges\n" in printed(one)
    assert "strongest features (not measured)" in printed(one)
    row = explanation_row(one, 3)
    assert row["faithfulness"]["features"] == "not measured"
    # Beside the scores stands what the scores leave, and p's number is marked as that of the whole.
    assert row["faithfulness"]["edges"]["relative"] == one.unfaithfulness.scores.relative
    assert row["faithfulness"]["edges"]["whole"]["relative"] == row["relative"] == one.unfaithfulness.relative
    assert row["faithfulness"]["edges"]["neighborhood"] == "U(A,0.5)"
    other = gf.explain(model, data, 2, neighborhood="U(X,0.2r)", **options)
    assert "strongest edges (not measured)" in printed(other)
    assert "strongest features\n" in printed(other)
    assert explanation_row(other, 3)["faithfulness"]["edges"] == "not measured"
    both = gf.explain(model, data, 2, also="U(X,0.2r)", **options)
    assert "strongest edges\n" in printed(both)
    assert "unexplained in U(X,0.2r))" in printed(both)
    assert explanation_row(both, 3)["faithfulness"]["features"]["neighborhood"] == "U(X,0.2r)"
    json.dumps(finite_rows([row, explanation_row(both, 3)]), allow_nan=False)


@pytest.mark.parametrize("method", ["anchored-kec", "saliency"])
def test_a_model_that_does_not_change_is_not_explained_perfectly(data, method):
    data.x = torch.rand(7, 3)  # node 6 has no edge, and a graph convolution gives its self-loop a weight of 1 always
    model, options = GCN(3, 4, num_layers=2, out_channels=3), {"test_samples": 20}
    explanation = gf.explain(model, data, 6, method=method, **options)
    assert explanation.unfaithfulness.delta_zero == 0
    text, row = printed(explanation), explanation_row(explanation, 3)
    assert "F does not change" in text
    assert "unexplained" not in text
    assert (row["relative"], row["delta_zero"]) == (None, 0)
    assert row["faithfulness"]["edges"]["relative"] is None
    assert row.get("estimate", {"relative": None})["relative"] is None
    found = compare(model, data, [6], methods=method, **options)
    assert "no change of F" in str(found)
    assert finite_rows([found[0].as_json()])[0]["relative"] is None


def test_the_first_number_is_that_of_the_scores_in_text_and_json(data):
    explanation = gf.explain(GCN(3, 4, num_layers=2, out_channels=3), data, 2, neighborhood="B(A,0.5)")
    record, text, row = explanation.unfaithfulness, printed(explanation), explanation_row(explanation, 3)
    lines = [line for line in text.splitlines() if "unexplained" in line]
    shown = format_share(record.scores.relative, record.scores.relative_stderr)
    assert lines[0].startswith(f"these scores leave {shown} unexplained in B(A,0.5); no scores could leave less than ")
    assert lines[1].startswith("the whole explanation: Delta(p) =")
    assert lines[2].startswith("these scores leave about ")
    known = row["faithfulness"]["edges"]
    assert known["relative"] == record.scores.relative > known["floor"] == record.floor
    assert known["whole"]["relative"] == row["relative"] == record.relative
    assert known["num_pairs"] == record.num_pairs
    assert row["estimate"]["scores"]["relative"] == explanation.estimate.scores.relative
    json.dumps(finite_rows([row]), allow_nan=False)


def test_a_comparison_says_that_it_is_of_the_whole_explanation(data):
    found = compare(GCN(3, 4, num_layers=2, out_channels=3), data, [2], methods=["kec"], test_samples=20)
    assert "Delta(p) is of the whole explanation p" in " ".join(str(found).split())
