"""Difference models: what p says of a perturbed graph."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import GCN, GraphConv

import graphfaith as gf
from graphfaith.model.target import Target
from graphfaith.sampling.perturbations import Perturbations
from graphfaith.surrogate.difference import LinearModel, SubgraphModel


class Sums(torch.nn.Module):
    """One layer whose output is linear in A, so that a negative weight would show."""

    def __init__(self):
        super().__init__()
        self.conv = GraphConv(2, 2)

    def forward(self, x, edge_index, edge_weight=None):
        return self.conv(x, edge_index, edge_weight)


@pytest.fixture
def target():
    torch.manual_seed(0)
    star = torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]])
    return Target(Sums(), torch.rand(5, 2), star, 0, label=1)


def test_a_subgraph_model_clips_the_weights_that_a_perturbation_makes_negative(target):
    """An edge that the mask has dropped has no weight to lose: A_s - eps_A is clipped at 0, as in the paper."""
    part = target.computation_graph
    mask = torch.ones(part.num_edges)
    mask[:2] = 0.0
    p = SubgraphModel(target, None, mask)
    eps = torch.zeros(1, part.num_edges, dtype=torch.float64)
    eps[0, :2] = 1.0  # both dropped edges are dropped once more
    assert float(p.change(Perturbations(part, None, eps))) == 0.0
    eps[0, 2] = 1.0  # and one that was kept
    kept = (part.weight * mask).clone()
    kept[2] = 0
    assert float(p.change(Perturbations(part, None, eps))) == pytest.approx(
        float(target.evaluate(weight=part.weight * mask)) - float(target.evaluate(weight=kept))
    )


def test_dropping_edges_of_a_subgraph_never_gives_the_model_a_negative_weight(target, monkeypatch):
    part, seen = target.computation_graph, []
    usual = Target.evaluate

    def spied(self, x=None, weight=None, attributes=None):
        seen.append(weight)
        return usual(self, x, weight, attributes)

    monkeypatch.setattr(Target, "evaluate", spied)
    p = SubgraphModel(target, None, torch.linspace(0, 1, part.num_edges))
    p.change(gf.BernoulliEdges(0.5).sample(part, 50))
    p.change(gf.UniformEdges(2.0).sample(part, 50))
    assert min(float(weight.min()) for weight in seen) == 0.0


def test_the_change_of_a_linear_model_is_the_product_with_the_perturbation(target):
    part = target.computation_graph
    phi_x, phi_a = torch.rand(part.x.shape), torch.rand(part.num_edges)
    sample = (gf.UniformFeatures(0.5) * gf.UniformEdges(0.5)).sample(part, 4)
    expected = (sample.features * phi_x).sum(dim=(1, 2)).double() + sample.edges @ phi_a.double()
    assert LinearModel(part, phi_x, phi_a).change(sample).tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    assert LinearModel(part).change(sample).tolist() == [0.0] * 4


@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)", "U(X,0.2r)", "U(X,0.5r)xU(A,0.5)"])
def test_a_gradient_is_the_slope_of_the_change(near):
    """For a tiny step along a direction p changes by the product of the step and the gradient."""
    torch.manual_seed(0)
    ring = torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])
    target = Target(GCN(3, 4, 2, out_channels=2).double(), torch.rand(6, 3).double(), ring, 2, label=0)
    part = target.computation_graph
    for algorithm in (gf.KEC(near, num_samples=40), gf.AnchoredKEC(near, num_samples=40), gf.Linear(near)):
        p = algorithm.fit(target)
        dx, da = p.gradient()
        step = 1e-6 * torch.randn(1, part.num_edges, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        step[:, ~part.felt] = 0
        slope = float(p.change(Perturbations(part, None, step))) / 1e-6
        assert slope == pytest.approx(float(step[0] @ da) / 1e-6, rel=1e-3, abs=1e-5)
        moved = 1e-6 * torch.randn(1, *part.x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        moved[:, part.num_visible :] = 0
        slope = float(p.change(Perturbations(part, moved, None))) / 1e-6
        assert slope == pytest.approx(float((moved[0] * dx).sum()) / 1e-6, rel=1e-3, abs=1e-5)
