"""What the paper claims of KEC on Cora, on samples that it was not fitted to and a twentieth of the paper's nodes."""

from __future__ import annotations

import pytest

from conftest import needs_data
from graphfaith.data.models import load_trained
from graphfaith.explainers.methods import method_names
from graphfaith.facade import compare
from graphfaith.sampling import BernoulliEdges, UniformEdges

ALL_METHODS = method_names(in_all=True)

pytestmark = needs_data


@pytest.fixture(scope="module")
def rows():
    cora = load_trained("cora")
    near = [UniformEdges(0.5), BernoulliEdges(0.5)]
    found = compare(
        cora.model, cora.data, range(0, 1000, 100), methods=ALL_METHODS, neighborhoods=near, test_samples=300
    )
    return {(row.method, row.neighborhood): row for row in found}


@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)"])
@pytest.mark.parametrize("method", [name for name in ALL_METHODS if name.startswith(("ig", "gnn", "pg"))])
def test_kec_is_more_faithful_than(rows, method, near):
    assert rows["kec", near].unfaithfulness < rows[method, near].unfaithfulness


def test_kec_is_three_times_more_faithful_than_saliency_when_edges_are_dropped(rows):
    assert 3 * rows["kec", "B(A,0.5)"].unfaithfulness < rows["saliency", "B(A,0.5)"].unfaithfulness
    assert rows["kec", "B(A,0.5)"].relative < 0.3


def test_linear_is_worse_than_kec_on_samples_it_was_not_fitted_to(rows):
    assert rows["linear", "B(A,0.5)"].unfaithfulness > rows["kec", "B(A,0.5)"].unfaithfulness
