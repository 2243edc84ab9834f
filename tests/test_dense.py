"""Graph convolutions as dense products: the same numbers, and no trace on the model."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from torch import nn
from torch_geometric.nn import GCNConv

from graphfaith import dense
from graphfaith.dense import dense_convolutions
from graphfaith.neighborhood import parse_neighborhood
from graphfaith.target import Target
from reference import TwoLayerGCN, cases, make_case


def target_of(case, model=None):
    return Target(model or case.model, case.x, case.edge_index, case.node, case.label, **case.kwargs)


@given(case=cases)
def test_dense_is_sparse(case):
    target = target_of(case)
    assert len(target.call._dense) == case.layers
    sample = parse_neighborhood("U(X,0.3r)xB(A,0.5)").sample if case.x.max() > case.x.min() else None
    drawn = (
        sample(target.computation_graph, 6)
        if sample
        else parse_neighborhood("B(A,0.5)").sample(target.computation_graph, 6)
    )
    found, gradient = target.evaluate(drawn.x, drawn.weight), target.gradient()
    target.call._dense = []
    torch.testing.assert_close(found, target.evaluate(drawn.x, drawn.weight), rtol=1e-10, atol=1e-12)
    for a, b in zip(gradient, target.gradient(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_a_large_graph_is_sparse(monkeypatch):
    monkeypatch.setattr(dense, "LARGEST", 3)
    assert target_of(make_case(nodes=9, edges=40)).call._dense == []


class Bent(nn.Module):
    """Gives its second layer other weights than it was given."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = GCNConv(4, 5), GCNConv(5, 3)

    def forward(self, x, edge_index, edge_weight=None):
        weight = torch.ones(edge_index.size(1), dtype=x.dtype) if edge_weight is None else edge_weight
        return self.second(self.first(x, edge_index, edge_weight).tanh(), edge_index, weight**2)


def test_other_weights_are_taken_as_they_are():
    case = make_case(nodes=9, edges=30, loops=False)
    model = Bent().double()
    case.edge_weight = torch.ones_like(case.edge_weight)
    target = target_of(case, model=model)
    drawn = parse_neighborhood("U(A,0.5)").sample(target.computation_graph, 5)
    found = target.evaluate(None, drawn.weight)
    target.call._dense = []
    torch.testing.assert_close(found, target.evaluate(None, drawn.weight))


def test_what_is_not_pyg_s_own_layer_is_left_alone():
    class Mine(GCNConv):
        pass

    assert dense_convolutions(nn.ModuleList([Mine(2, 2), nn.Linear(2, 2)]), 5) == []
    for options in ({"normalize": False}, {"add_self_loops": False}, {"cached": True}, {"flow": "target_to_source"}):
        assert dense_convolutions(GCNConv(2, 2, **options), 5) == []
    listened = GCNConv(2, 2)
    assert dense_convolutions(listened, 5) == [listened]
    listened.register_message_forward_hook(lambda *_: None)
    assert dense_convolutions(listened, 5) == []


def test_hooks_hear_every_call():
    case = make_case(nodes=9, edges=30)
    heard = []
    case.model.convs[0].register_forward_hook(lambda *_: heard.append(1))
    target = target_of(case)
    heard.clear()
    target.evaluate()
    assert heard == [1]


def test_no_trace_is_left():
    class Fails(TwoLayerGCN):
        fails = False

        def forward(self, x, edge_index, edge_weight=None):
            out = super().forward(x, edge_index, edge_weight)
            if self.fails:
                raise RuntimeError("no")
            return out

    case = make_case(nodes=9, edges=30)
    model = Fails(4).double()
    target = target_of(case, model=model)
    assert target.call._dense
    assert all("forward" not in vars(layer) for layer in model.modules())
    model.fails = True
    with pytest.raises(RuntimeError, match="no"):
        target.evaluate()
    assert all("forward" not in vars(layer) for layer in model.modules())
