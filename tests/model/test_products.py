"""Graph convolutions as dense and sparse products: the same numbers, and no trace on the model."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch_geometric.nn import GCNConv

from graphfaith._base.errors import ModelError
from graphfaith.model import products
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import parse_neighborhood
from reference import TwoLayerGCN, cases, make_case


def target_of(case, model=None):
    return Target(model or case.model, case.x, case.edge_index, case.node, case.label, **case.kwargs)


@given(case=cases)
def test_dense_is_sparse(case):
    target = target_of(case)
    assert len(target.call.products.layers) == case.layers
    sample = parse_neighborhood("U(X,0.3r)xB(A,0.5)").sample if case.x.max() > case.x.min() else None
    drawn = (
        sample(target.computation_graph, 6)
        if sample
        else parse_neighborhood("B(A,0.5)").sample(target.computation_graph, 6)
    )
    found, gradient = target.evaluate(drawn.x, drawn.weight), target.gradient()
    target.call.products = None
    torch.testing.assert_close(found, target.evaluate(drawn.x, drawn.weight), rtol=1e-10, atol=1e-12)
    for a, b in zip(gradient, target.gradient(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_a_large_graph_is_sparse(monkeypatch):
    monkeypatch.setattr(products, "LARGEST", 3)
    assert target_of(make_case(nodes=9, edges=40)).call.products.dense is False


# Graphs that are not small


class Skipping(nn.Module):
    """Its layers hand on what they were given, so that nothing can be trimmed."""

    def __init__(self, features, layers):
        super().__init__()
        sizes = [features] * layers
        self.convs = nn.ModuleList(GCNConv(size, size, bias=place % 2 == 0) for place, size in enumerate(sizes))
        self.last = nn.Linear(features, 3)

    def forward(self, x, edge_index, edge_weight=None):
        for conv in self.convs:
            x = x + torch.tanh(conv(x, edge_index, edge_weight))
        return self.last(x).log_softmax(dim=-1)


any_case = st.builds(
    make_case,
    seed=st.integers(0, 10**6),
    nodes=st.integers(1, 9),
    edges=st.integers(0, 60),  # of which many are parallel
    features=st.integers(1, 6),
    layers=st.integers(1, 3),
    weighted=st.booleans(),
    loops=st.booleans(),
    isolated=st.booleans(),
    zeros=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
NEIGHBORHOODS = ["U(A,0.5)", "B(A,0.5)", "B(A,0.95)", "U(X,0.3r)", "U(X,0.3r)xU(A,0.5)", "U(X,0.3r)xB(A,0.9)"]
several = st.lists(st.integers(0, 8), min_size=1, max_size=4)


def sparse_target(case, seeds, whole=False):
    model = case.model
    if whole:
        torch.manual_seed(1)
        model = Skipping(case.x.size(1), case.layers).to(case.x.dtype)
    index = torch.tensor([seed % len(case.x) for seed in seeds])
    with mock.patch.object(products, "LARGEST", 0):
        return Target(model, case.x, case.edge_index, index, case.label, **case.kwargs)


def one_by_one(target, drawn):
    """F of each sample through PyG's own layers."""
    with mock.patch.object(target.call, "products", None), torch.no_grad():
        xs = [None] * len(drawn) if drawn.x is None else drawn.x
        weights = [None] * len(drawn) if drawn.weight is None else drawn.weight
        return torch.stack([target(x, weight) for x, weight in zip(xs, weights, strict=True)])


def drawn_near(target, text, samples):
    near = parse_neighborhood(text)
    if target.computation_graph.feature_range == 0 and near.perturbs_features:
        near = parse_neighborhood("B(A,0.5)")
    return near.sample(target.computation_graph, samples)


@pytest.mark.parametrize("text", NEIGHBORHOODS)
@given(whole=st.booleans(), case=any_case, seeds=several, samples=st.integers(1, 5))
def test_one_sparse_matrix_is_every_sample_alone(whole, text, case, seeds, samples):
    target = sparse_target(case, seeds, whole)
    drawn = drawn_near(target, text, samples)
    with mock.patch.object(products._Pattern, "by", autospec=True, side_effect=products._Pattern.by) as made:
        found = target.evaluate(drawn.x, drawn.weight)
    assert made.call_count >= case.layers
    with torch.no_grad():
        assert target.batching == ("whole" if whole else "trimmed")
    expected = one_by_one(target, drawn)
    assert found.dtype == case.x.dtype
    tolerance = 1e-12 if case.x.dtype == torch.float64 else 3e-5
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * max(1.0, float(expected.abs().max())))


@given(case=any_case, seeds=several, text=st.sampled_from(["U(A,0.5)", "B(A,0.9)"]))
def test_every_explained_node_by_one_sparse_matrix(case, seeds, text):
    target = sparse_target(case, seeds)
    drawn = drawn_near(target, text, 3)
    changes = target.changes_by_row(drawn)
    part, call = target.computation_graph, target.call
    with torch.no_grad(), mock.patch.object(call, "products", None):
        weights = [part.weight, *drawn.weight.to(part.weight.dtype)]
        own, *others = (call(part.x, weight)[call.rows, case.label].double() for weight in weights)
    assert changes.shape == (3, len(seeds))
    tolerance = 1e-12 if case.x.dtype == torch.float64 else 3e-5
    torch.testing.assert_close(changes, own - torch.stack(others), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("largest", [3, 128])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("text", ["U(A,0.5)", "B(A,0.9)", "U(X,0.3r)", "U(X,0.3r)xU(A,0.5)"])
def test_gradients_through_products_are_those_of_pyg(monkeypatch, largest, whole, text):
    case = make_case(nodes=9, edges=40)
    target = sparse_target(case, [0, 3], whole)
    if largest > 3:
        monkeypatch.setattr(target.call.products, "dense", True)
    drawn = drawn_near(target, text, 4)
    with mock.patch.object(products._Product, "backward", wraps=products._Product.backward) as sparse:
        alone, batched = target.gradient(), target.gradients(drawn.x, drawn.weight)
    with torch.no_grad():
        assert target.batching == ("whole" if whole else "trimmed")
    assert sparse.called == (largest == 3)
    target.call.products = None
    expected = target.gradients(drawn.x, drawn.weight)
    for found, right in zip((*alone, *batched), (*target.gradient(), *expected), strict=True):
        assert found.abs().max() > 0
        torch.testing.assert_close(found, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("largest", [0, 3, 8, 9, 128])
def test_where_a_graph_stops_being_small_changes_nothing(monkeypatch, largest):
    case = make_case(seed=3, nodes=9, edges=60, zeros=True)
    target = target_of(case)
    assert target.computation_graph.num_nodes == 9
    drawn = drawn_near(target, "U(X,0.3r)xB(A,0.5)", 7)
    expected = one_by_one(target, drawn)
    monkeypatch.setattr(products, "LARGEST", largest)
    other = target_of(case)
    assert other.call.products.dense is (largest >= 9)
    torch.testing.assert_close(other.evaluate(drawn.x, drawn.weight), expected, rtol=1e-12, atol=1e-12)
    assert all("forward" not in vars(layer) for layer in case.model.modules())


# Layers and models as they are


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
    target.call.products = None
    torch.testing.assert_close(found, target.evaluate(None, drawn.weight))


def test_what_is_not_pyg_s_own_layer_is_left_alone():
    class Mine(GCNConv):
        pass

    assert products.convolutions(nn.ModuleList([Mine(2, 2), nn.Linear(2, 2)])) == []
    for options in ({"normalize": False}, {"add_self_loops": False}, {"cached": True}, {"flow": "target_to_source"}):
        assert products.convolutions(GCNConv(2, 2, **options)) == []
    listened = GCNConv(2, 2)
    assert products.convolutions(listened) == [listened]
    listened.register_message_forward_hook(lambda *_: None)
    assert products.convolutions(listened) == []


def test_hooks_hear_every_call():
    case = make_case(nodes=9, edges=30)
    heard = []
    case.model.convs[0].register_forward_hook(lambda *_: heard.append(1))
    target = target_of(case)
    heard.clear()
    target.evaluate()
    assert heard == [1]


def test_what_chunks_of_samples_share_is_computed_once(monkeypatch):
    monkeypatch.setattr(products, "LARGEST", 0)
    case = make_case(nodes=9, edges=30)
    target, near = target_of(case), parse_neighborhood("U(A,0.5)")
    layer, calls = case.model.convs[0].lin, []
    usual = layer.forward
    first, second = (near.sample(target.computation_graph, 4, seed) for seed in (0, 1))
    target.changes(first)  # Batches are compared before they are believed.
    with mock.patch.object(torch.nn.functional, "linear", side_effect=torch.nn.functional.linear) as linear:

        def count():
            calls.append(sum(given[0][1] is layer.weight for given in linear.call_args_list))
            linear.reset_mock()

        target.changes(first)
        count()
        target.changes(second)
        count()
        with torch.no_grad():
            before = target.call.batch(target.computation_graph.x, first.weight, trimmed=False)
            count()
            layer.weight.mul_(2)
            after = target.call.batch(target.computation_graph.x, first.weight, trimmed=False)
            count()
    assert usual == layer.forward
    assert calls[:3] == [0, 0, 0] or calls[:3] == [0, 0, 1]  # Trimmed calls may need fewer rows.
    assert calls[3] == 1
    assert not torch.allclose(after, before)


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
    assert target.call.products
    assert all("forward" not in vars(layer) for layer in model.modules())
    model.fails = True
    with pytest.raises(ModelError, match="RuntimeError: no"):
        target.evaluate()
    assert all("forward" not in vars(layer) for layer in model.modules())
