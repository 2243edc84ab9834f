"""Terms of attention: exact for a network without activations, chosen by leave-one-out, differentiable, and saved."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.explain import Explainer
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv

import graphfaith as gf
from graphfaith.metric import unfaithfulness_of
from graphfaith.sampling.neighborhood import as_neighborhood
from graphfaith.sampling.perturbations import Perturbations
from graphfaith.surrogate import attention
from graphfaith.surrogate.attention import find_attention
from graphfaith.surrogate.terms import BLOCKS

IDENTITY = torch.nn.Identity()
CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
WITHOUT = tuple(block for block in BLOCKS if block != "attention")


class Net(torch.nn.Module):
    """Layers with an activation between them."""

    def __init__(self, *layers, activation=IDENTITY):
        super().__init__()
        self.layers, self.activation = torch.nn.ModuleList(layers), activation

    def forward(self, x, edge_index):
        for i, layer in enumerate(self.layers):
            x = layer(self.activation(x) if i else x, edge_index)
        return x


def graph():
    generator = torch.Generator().manual_seed(3)
    edges = torch.randint(12, (2, 30), generator=generator)
    edges = edges[:, edges[0] != edges[1]]
    edge_index = torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)
    return 2 * torch.randn(12, 6, generator=generator), edge_index


def attentive(conv, seed=0, *, residual=False, **options):
    torch.manual_seed(seed)
    first = conv(6, 4, heads=2, bias=True, residual=residual)
    model = Net(first, conv(8, 3, heads=2, concat=False, residual=residual), **options).eval().double()
    for layer in model.layers:
        torch.nn.init.normal_(layer.bias)
    return model


def left(model, near, blocks=BLOCKS, node=2):
    """The share of F's change that is left, held out, and p."""
    x, edge_index = graph()
    target = gf.Target(model, x.double(), edge_index, node)
    p = gf.AnchoredKEC(near, blocks=blocks).fit(target)
    return unfaithfulness_of(target, [p], near, num_samples=300, seed=1)[0].relative, p


@pytest.mark.parametrize("conv", [GATConv, GATv2Conv])
@pytest.mark.parametrize("near", ["U(X,0.1r)", "U(X,0.1r)xU(A,0.5)", "U(X,0.1r)xB(A,0.3)"])
def test_exact_without_activations(conv, near):
    model = attentive(conv)
    share, p = left(model, near)
    assert p.attention is not None
    assert share < 1e-3 < 2e-2 < left(model, near, WITHOUT)[0]
    assert abs(p.estimate.relative - share) < 1e-3


@pytest.mark.parametrize("conv", [GATConv, GATv2Conv])
def test_residuals_are_followed(conv, monkeypatch):
    monkeypatch.setattr(attention, "MOST_TERMS", 24)  # numbers that two heads of width 8 and a residual have
    share, p = left(attentive(conv, residual=True), "U(X,0.1r)xU(A,0.5)")
    assert p.attention is not None
    assert share < 1e-4


def test_lowers_delta_with_activations():
    with_terms, without = zip(
        *(
            (left(m, "U(X,0.1r)")[0], left(m, "U(X,0.1r)", WITHOUT)[0])
            for m in (attentive(GATConv, seed, activation=torch.nn.ReLU()) for seed in range(3))
        ),
        strict=True,
    )
    assert sum(with_terms) < 0.7 * sum(without)


def test_only_where_all_messages_are_attention_and_features_move():
    x, edge_index = graph()
    mixed = Net(GATConv(6, 8), GCNConv(8, 3)).eval()
    assert find_attention(gf.Target(mixed, x, edge_index, 2)) is None
    reading_edges = Net(GATConv(6, 8, edge_dim=2), GATConv(8, 3)).eval()
    assert find_attention(gf.Target(Net(GATConv(6, 8)).eval(), x, edge_index, 2)) is not None
    assert any(layer.edge_dim for layer in reading_edges.layers)
    for near in ("U(A,0.5)", "B(A,0.5)"):
        assert left(attentive(GATConv), near)[1].attention is None


def test_derivatives_are_those_of_the_change():
    _, p = left(attentive(GATv2Conv, activation=torch.nn.Tanh()), "U(X,0.1r)xU(A,0.5)")
    assert p.attention is not None
    step, (dx, da) = 1e-5, p.gradient()
    n, d, e = *p.graph.x.shape, p.graph.num_edges
    eps = torch.zeros(4, n, d, dtype=torch.float64), torch.zeros(4, e, dtype=torch.float64)
    eps[0][0, 0, 1], eps[0][1, 3, 2], eps[1][2, 0], eps[1][3, 5] = step, step, step, step
    both = [p.change(Perturbations(p.graph, sign * eps[0], sign * eps[1])) for sign in (1, -1)]
    slope = (both[0] - both[1]) / (2 * step)
    expected = torch.stack([dx[0, 1], dx[3, 2], da[0], da[5]])
    assert torch.allclose(slope, expected.double(), rtol=1e-4, atol=1e-6)


def test_saved_and_shown(tmp_path):
    x, edge_index = graph()
    model = attentive(GATConv, activation=torch.nn.ReLU()).float()
    explainer = Explainer(model, gf.AnchoredKEC("U(X,0.1r)xU(A,0.5)"), "model", CONFIG, "attributes", "object")
    explanation = explainer(x, edge_index, index=2)
    p = explanation.difference_model
    assert p.attention is not None
    gf.save(explanation, tmp_path / "one.safetensors")
    again = gf.load(tmp_path / "one.safetensors").difference_model
    samples = as_neighborhood("U(X,0.1r)xU(A,0.5)").sample(p.graph, 20, 5)
    assert torch.equal(again.change(samples), p.change(samples))
    # The shares are the additive function closest to F: no less faithful than the slope of p.
    shares = explanation.estimate.scores.relative
    assert shares <= explanation.reading("slope").estimate.scores.relative + 0.02
    broken = explanation.difference_model.attention.layers[0].bias
    broken.resize_(3)
    with pytest.raises(gf.InputError, match="do not fit"):
        gf.save(explanation, tmp_path / "two.safetensors")
