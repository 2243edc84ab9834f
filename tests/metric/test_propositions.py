"""Propositions 1 and 2 of the paper, shown on models small enough to reason about (Proposition 3: test_kec.py)."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch_geometric.nn import GCNConv

import graphfaith as gf
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.model.target import Target
from graphfaith.surrogate import SubgraphModel
from reference import make_case


class Unnormalised(torch.nn.Module):
    """ReLU(A ... ReLU(A X W) ... W'), without the division by degrees."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        sizes = [4, *[6] * (layers - 1), 3]
        self.convs = torch.nn.ModuleList(
            GCNConv(a, b, normalize=False, add_self_loops=False) for a, b in pairwise(sizes)
        )

    def forward(self, x, edge_index, edge_weight=None):
        for conv in self.convs:
            x = conv(x, edge_index, edge_weight).relu()
        return x


def positive_target(layers: int) -> Target:
    """A target whose units are all on, and stay on in a small neighbourhood: one activation region."""
    case = make_case(seed=3, nodes=8, edges=30, weighted=False, loops=False)
    torch.manual_seed(0)
    model = Unnormalised(layers).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.abs_()
            parameter.add_(0.1)
    return Target(model, case.x.abs() + 0.1, case.edge_index, case.node, 0)


@pytest.mark.parametrize("text", ["U(A,0.3)", "B(A,0.3)"])
def test_proposition_1_one_layer_is_linear_in_a(text):
    target = positive_target(1)
    p = gf.Saliency().fit(target)
    score = unfaithfulness_of(target, [p], text)[0]
    assert score.value < 1e-20
    assert score.relative < 1e-12


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_proposition_1_any_depth_is_linear_in_x(layers):
    target = positive_target(layers)
    score = unfaithfulness_of(target, [gf.Saliency().fit(target)], "U(X,0.01r)")[0]
    assert score.relative < 1e-12


@pytest.mark.parametrize("text", ["U(A,0.3)", "B(A,0.3)"])
def test_proposition_1_two_layers_are_not_linear_in_a(text):
    target = positive_target(2)
    saliency, linear = gf.Saliency().fit(target), gf.Linear(text, num_samples=3000).fit(target)
    found = unfaithfulness_of(target, [saliency, linear], text, num_samples=2000)
    assert all(score.relative > 1e-3 for score in found)
    assert all(score.value > 5 * score.stderr for score in found)


def test_proposition_2_a_subgraph_that_changes_the_output_cannot_be_faithful():
    case = make_case(seed=5, nodes=8, edges=30)
    target = Target(case.model, case.x, case.edge_index, case.node, 0, **case.kwargs)
    everything = SubgraphModel(target, None, torch.ones(target.computation_graph.num_edges))
    nothing = SubgraphModel(target, torch.zeros_like(target.computation_graph.x), None)
    whole, empty = unfaithfulness_of(target, [everything, nothing], "U(A,0.5)")
    assert whole.value < 1e-25
    assert empty.relative == pytest.approx(1.0)  # F(0, A) does not change with A
