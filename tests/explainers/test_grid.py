"""The settings that PyG's own explainer tests go through, for the methods here that fit or differentiate."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch_geometric.explain import Explainer
from torch_geometric.explain.config import ModelConfig
from torch_geometric.nn import GATConv, GCNConv, global_add_pool

import graphfaith as gf

FEATURES, NODES = 3, 8
BATCH = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
LINKS = torch.tensor([[0, 1, 2, 6], [3, 4, 5, 1]])
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 6, 6, 7], [1, 0, 2, 1, 4, 3, 6, 5, 7, 6]])
ROWS = {"node": NODES, "edge": LINKS.size(1), "graph": 3}

METHODS = {
    "kec": lambda: gf.KEC("U(A,0.5)", num_samples=6),
    "linear": lambda: gf.Linear("U(X,0.2r)xU(A,0.2)", num_samples=6),
    "saliency": lambda: gf.Saliency(),
    "integrated-gradients": lambda: gf.IntegratedGradients(steps=3),
}
RETURNS = [
    ("multiclass_classification", "raw"),
    ("multiclass_classification", "probs"),
    ("multiclass_classification", "log_probs"),
    ("binary_classification", "raw"),
    ("binary_classification", "probs"),
    ("regression", "raw"),
]
MASKS = [
    (node, edge)
    for node in ("object", "attributes", "common_attributes", None)
    for edge in ("object", None)
    if node or edge
]


class Model(torch.nn.Module):
    """Two layers and whatever the task asks for; takes a batch and pairs of nodes at every level, as PyG's does."""

    def __init__(self, layer, mode, return_type, level):
        super().__init__()
        torch.manual_seed(0)
        width = 4 if mode == "multiclass_classification" else 1
        self.first, self.second = layer(FEATURES, 6), layer(6, width)
        self.unused = torch.nn.Parameter(torch.ones(1))
        self.mode, self.return_type, self.level = mode, return_type, level

    def forward(self, x, edge_index, batch=None, edge_label_index=None):
        x = self.second(self.first(x, edge_index).tanh(), edge_index)
        if self.level == "graph":
            x = global_add_pool(x, batch)
        elif self.level == "edge":
            x = x[edge_label_index[0]] * x[edge_label_index[1]]
        if self.mode == "binary_classification" and self.return_type == "probs":
            return x.sigmoid()
        if self.mode == "multiclass_classification" and self.return_type != "raw":
            return x.softmax(dim=-1) if self.return_type == "probs" else x.log_softmax(dim=-1)
        return x


def the_features():
    return torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(1))


LAYERS, INDICES = (GCNConv, GATConv), {"all": None, "one": 1, "two": torch.arange(2)}
ASKED = list(product(MASKS, ("model", "phenomenon")))
PLACES = list(product(LAYERS, INDICES))


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(("mode", "return_type"), RETURNS)
@pytest.mark.parametrize("level", ROWS)
@pytest.mark.parametrize("method", METHODS)
def test_every_setting(method, level, mode, return_type, layer, index):
    """The six layers and indices share the fourteen ways to ask, so that each method, level and mode meets them all."""
    turn = RETURNS.index((mode, return_type)) + PLACES.index((layer, index))
    explain_asked(method, level, mode, return_type, layer, index, ASKED[turn % len(PLACES) :: len(PLACES)])


@pytest.mark.nightly
@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(("mode", "return_type"), RETURNS)
@pytest.mark.parametrize("level", ROWS)
@pytest.mark.parametrize("method", METHODS)
def test_every_setting_in_every_way(method, level, mode, return_type, layer, index):
    explain_asked(method, level, mode, return_type, layer, index, ASKED)


def explain_asked(method, level, mode, return_type, layer, index, asked):
    model = Model(layer, mode, return_type, level).eval()
    x, inputs = the_features(), {"batch": BATCH, "edge_label_index": LINKS}
    with torch.no_grad():
        out = model(x, EDGES, **inputs)
    config = ModelConfig(mode, level, return_type)
    for (node_mask, edge_mask), kind in asked:
        explainer = Explainer(model, METHODS[method](), kind, config, node_mask, edge_mask)
        target = None
        if kind == "phenomenon":
            target = out if mode == "regression" else torch.zeros(ROWS[level], dtype=torch.long)
        explanation = explainer(x, EDGES, target=target, index=INDICES[index], **inputs)
        shapes = {"object": (NODES, 1), "attributes": (NODES, FEATURES), "common_attributes": (1, FEATURES)}
        assert explanation.get("node_mask") is None if node_mask is None else True
        if node_mask is not None:
            assert explanation.node_mask.shape == shapes[node_mask]
            assert torch.isfinite(explanation.node_mask).all()
        assert ("edge_mask" in explanation) == (edge_mask is not None)
        if edge_mask is not None:
            assert explanation.edge_mask.shape == (EDGES.size(1),)
            assert torch.isfinite(explanation.edge_mask).all()
        assert explanation.validate(raise_on_error=True)


@pytest.mark.parametrize(("mode", "return_type"), RETURNS)
@pytest.mark.parametrize("level", ROWS)
def test_scores_are_the_gradient_of_the_sum_of_the_rows(level, mode, return_type):
    """F of several rows is the sum over them, so its gradient on the whole graph is what Saliency has to say."""
    model = Model(GCNConv, mode, return_type, level).eval()
    inputs = {"batch": BATCH, "edge_label_index": LINKS}
    explainer = Explainer(
        model, gf.Saliency(), "phenomenon", ModelConfig(mode, level, return_type), "attributes", "object"
    )
    rows, labels = torch.tensor([2, 0]), torch.arange(ROWS[level]) % 2
    x = the_features().requires_grad_()
    out = model(x, EDGES, **inputs)
    if mode == "multiclass_classification":
        value = out[rows].gather(1, labels[rows, None]).sum()
    elif mode == "regression":
        value = out[rows].sum()
    else:
        value = ((2 * labels[rows] - 1) * out[rows].view(-1)).sum()
    (expected,) = torch.autograd.grad(value, x)
    target = out.detach() if mode == "regression" else labels
    found = explainer(x.detach(), EDGES, target=target, index=rows, **inputs)
    torch.testing.assert_close(found.node_mask, expected, rtol=1e-4, atol=1e-6)
