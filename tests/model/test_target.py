import random

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import APPNP, GAT, GCN, GIN, GCNConv, GraphSAGE, MessagePassing, SAGEConv
from torch_geometric.utils import add_remaining_self_loops

from graphfaith import BernoulliEdges, InputError, ModelError, Target, UniformEdges, UniformFeatures, UnsupportedError

NODES, FEATURES, CLASSES = 14, 5, 3
FAMILIES = {"GCN": GCN, "GAT": GAT, "GIN": GIN, "SAGE": GraphSAGE}
PERTURBED = ["edges", "features", "both"]


def some_graph(seed=0, loops=False, dtype=torch.float64):
    """A random directed graph; with ``loops`` it has one for each node, last and in node order."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, NODES, (2, 40), generator=generator)
    pairs = pairs[:, pairs[0] != pairs[1]].unique(dim=1)
    pairs = pairs[:, torch.randperm(pairs.size(1), generator=generator)]
    if loops:
        pairs = torch.cat([pairs, torch.arange(NODES).expand(2, -1)], dim=1)
    return torch.randn(NODES, FEATURES, generator=generator, dtype=torch.float64).to(dtype), pairs


def some_model(name, dtype=torch.float64, out=CLASSES, seed=1, **options):
    torch.manual_seed(seed)
    return FAMILIES[name](FEATURES, 6, num_layers=2, out_channels=out, act="tanh", **options).to(dtype).eval()


class OneLayer(nn.Module):
    def __init__(self, out=CLASSES, seed=1, **options):
        super().__init__()
        torch.manual_seed(seed)
        self.conv = GCNConv(FEATURES, out, **options)
        if self.conv.bias is not None:
            nn.init.normal_(self.conv.bias)
        self.double()

    def forward(self, x, edge_index, edge_weight=None):
        return self.conv(x, edge_index, edge_weight)


def samples(target, what, count=7, seed=3):
    """Perturbed X and A around those of ``target``; None for the part that stays."""
    part, generator = target.computation_graph, torch.Generator().manual_seed(seed)
    x = part.x + 0.3 * torch.randn(count, *part.x.shape, generator=generator).to(part.x.dtype)
    weight = 1.5 * torch.rand(count, part.num_edges, generator=generator).to(part.weight.dtype)
    return (None if what == "edges" else x), (None if what == "features" else weight)


def loop_over(target, x, weight):
    count = len(x if weight is None else weight)
    return torch.stack(
        [target(None if x is None else x[s], None if weight is None else weight[s]) for s in range(count)]
    ).detach()


def on_whole_graph(target, x, edge_index, part_x, part_weight):
    """F by one forward of the whole graph: every entry of A is an explicit edge there."""
    part, model = target.computation_graph, target.model
    node = int(part.nodes[0])
    whole_x = x.clone()
    if part_x is not None:
        whole_x[part.nodes[: part.num_visible]] = part_x[: part.num_visible]
    weight = torch.ones(edge_index.size(1), dtype=x.dtype)
    if part_weight is not None:
        weight = weight.index_put((part.edge_id[part.felt],), part_weight[part.felt])
    if target.route == "weight":
        return model(whole_x, edge_index, edge_weight=weight)[node, target.label]
    set_masks(model, weight, edge_index, apply_sigmoid=False)
    try:
        return model(whole_x, edge_index)[node, target.label]
    finally:
        clear_masks(model)


# F of many graphs


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("what", PERTURBED)
@pytest.mark.parametrize("name", FAMILIES)
def test_batch_equals_loop(name, what, dtype, tolerance):
    x, edge_index = some_graph(dtype=dtype)
    target = Target(some_model(name, dtype), x, edge_index, 2)
    assert target.route == ("weight" if name == "GCN" else "removal")
    xs, weights = samples(target, what)
    found = target.evaluate(xs, weights)
    assert found.shape == (7,)
    assert found.dtype == dtype
    assert not found.requires_grad
    assert found.std() > 1e-3
    torch.testing.assert_close(found, loop_over(target, xs, weights), rtol=tolerance, atol=tolerance)
    assert not target.record.one_by_one


@pytest.mark.parametrize("what", PERTURBED)
@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
def test_entries_that_are_not_felt_do_not_matter(name, loops, what):
    x, edge_index = some_graph(loops=loops)
    target = Target(some_model(name), x, edge_index, 2)
    part = target.computation_graph
    assert not part.felt.all()
    assert not (~part.felt & ~part.is_loop).any()
    xs, weights = samples(target, what)
    weights = part.weight.expand(7, -1) if weights is None else weights
    others = [torch.where(part.felt, weights, other) for other in (part.weight, 0.0 * weights, 5.0 * weights)]
    found = [target.evaluate(xs, other) for other in others]
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-13)
    torch.testing.assert_close(found[2], found[0], rtol=0, atol=1e-13)
    for other in others:
        assert (target.gradient(xs, other)[1][~part.felt] == 0).all()


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("add_self_loops", [True, False])
def test_what_the_layers_are_given(add_self_loops, loops):
    """All loops, last and in node order, if they add loops themselves; otherwise only what they read."""

    class Remembers(OneLayer):
        def forward(self, x, edge_index, edge_weight=None):
            self.given = edge_index, edge_weight
            return super().forward(x, edge_index, edge_weight)

    x, edge_index = some_graph(loops=loops)
    model = Remembers(add_self_loops=add_self_loops)
    target = Target(model, x, edge_index, 2)
    part = target.computation_graph
    weight = samples(target, "edges", count=1)[1][0]
    target(weight=weight)
    assert target.adds_loops == add_self_loops
    assert part.num_nodes > part.num_visible
    given = torch.ones_like(part.felt) if add_self_loops else part.felt
    assert torch.equal(model.given[0], part.edge_index[:, given])
    assert torch.equal(model.given[1], weight[given])
    own = part.felt[part.is_loop].nonzero().view(-1)
    assert len(own) == (part.num_visible if loops or add_self_loops else 0)


@pytest.mark.parametrize("what", PERTURBED)
@pytest.mark.parametrize("name", FAMILIES)
def test_batch_equals_the_whole_graph(name, what):
    x, edge_index = some_graph(loops=name in ("GCN", "GAT"))
    for node in (2, 7):
        target = Target(some_model(name), x, edge_index, node)
        xs, weights = samples(target, what)
        count = len(xs if weights is None else weights)
        with torch.no_grad():
            expected = torch.stack(
                [
                    on_whole_graph(
                        target, x, edge_index, None if xs is None else xs[s], None if weights is None else weights[s]
                    )
                    for s in range(count)
                ]
            )
        torch.testing.assert_close(target.evaluate(xs, weights), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_unperturbed(name):
    x, edge_index = some_graph()
    model = some_model(name)
    target = Target(model, x, edge_index, 3, label=1)
    part = target.computation_graph
    assert target.value == pytest.approx(model(x, edge_index)[3, 1].item(), abs=1e-12)
    assert target().item() == pytest.approx(target.value, abs=1e-12)
    assert target(part.x, part.weight).item() == pytest.approx(target.value, abs=1e-12)
    assert target.evaluate(weight=part.weight.expand(2, -1)).tolist() == pytest.approx([target.value] * 2, abs=1e-12)


def test_an_isolated_node():
    x, edge_index = some_graph()
    edge_index = edge_index[:, edge_index[1] != 4]
    for name in FAMILIES:
        model = some_model(name)
        target = Target(model, x, edge_index, 4, label=0)
        assert target.value == pytest.approx(model(x, edge_index)[4, 0].item(), abs=1e-12)
        xs, weights = samples(target, "both")
        torch.testing.assert_close(target.evaluate(xs, weights), loop_over(target, xs, weights), rtol=1e-12, atol=1e-12)


def double_some(out):
    return torch.stack([row * (2.0 if row[0].item() > 0 else 1.0) for row in out])


class ReadsValues(OneLayer):
    def forward(self, x, edge_index, edge_weight=None):
        return double_some(super().forward(x, edge_index, edge_weight))


class MaskedReadsValues(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = SAGEConv(FEATURES, CLASSES).double()

    def forward(self, x, edge_index):
        return double_some(self.conv(x, edge_index))


@pytest.mark.parametrize("what", PERTURBED)
@pytest.mark.parametrize("make", [ReadsValues, MaskedReadsValues])
def test_a_model_that_cannot_be_batched(make, what):
    x, edge_index = some_graph()
    target = Target(make(), x, edge_index, 2, label=1)
    xs, weights = samples(target, what)
    found = target.evaluate(xs, weights)
    assert target.record.one_by_one
    torch.testing.assert_close(found, loop_over(target, xs, weights), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(target.evaluate(xs, weights), found, rtol=0, atol=0)
    assert all(not layer.explain for layer in target.model.modules() if isinstance(layer, MessagePassing))


# Its gradient


@pytest.mark.parametrize("name", FAMILIES)
def test_gradient_by_finite_differences(name):
    x, edge_index = some_graph()
    target = Target(some_model(name), x, edge_index, 2)
    part = target.computation_graph
    dx, da = target.gradient()
    step = 1e-5
    for entry in range(part.num_edges):
        moved = step * torch.eye(part.num_edges, dtype=torch.float64)[entry]
        ends = target.evaluate(weight=torch.stack([part.weight + moved, part.weight - moved]))
        assert da[entry].item() == pytest.approx((ends[0] - ends[1]).item() / (2 * step), abs=1e-8)
    for place in np.ndindex(*part.x.shape):
        moved = torch.zeros_like(part.x)
        moved[place] = step
        ends = target.evaluate(x=torch.stack([part.x + moved, part.x - moved]))
        assert dx[place].item() == pytest.approx((ends[0] - ends[1]).item() / (2 * step), abs=1e-8)
    assert da.abs().max() > 1e-3
    assert dx.abs().max() > 1e-3


@pytest.mark.parametrize("name", FAMILIES)
def test_gradient_by_the_whole_graph(name):
    x, edge_index = some_graph(seed=5, loops=name in ("GCN", "GAT"))
    target = Target(some_model(name), x, edge_index, 6)
    part = target.computation_graph
    whole_x = x.clone().requires_grad_()
    weight = part.weight.clone().requires_grad_()
    by_x, by_weight = (
        torch.autograd.grad(on_whole_graph(target, whole_x, edge_index, None, weight), leaf, retain_graph=True)[0]
        for leaf in (whole_x, weight)
    )
    dx, da = target.gradient()
    visible = part.nodes[: part.num_visible]
    torch.testing.assert_close(dx[: part.num_visible], by_x[visible], rtol=0, atol=1e-12)
    assert dx[part.num_visible :].abs().sum() == 0
    assert by_x.abs().sum().item() == pytest.approx(by_x[visible].abs().sum().item(), abs=1e-12)
    torch.testing.assert_close(da, by_weight, rtol=0, atol=1e-12)


@pytest.mark.parametrize("what", PERTURBED)
@pytest.mark.parametrize("name", ["GCN", "GAT"])
def test_gradient_of_many_points_is_the_mean(name, what):
    x, edge_index = some_graph()
    target = Target(some_model(name), x, edge_index, 2)
    xs, weights = samples(target, what, count=4)
    alone = [target.gradient(None if xs is None else xs[s], None if weights is None else weights[s]) for s in range(4)]
    dx, da = target.gradient(xs, weights)
    assert dx.shape == target.computation_graph.x.shape
    assert da.shape == target.computation_graph.weight.shape
    torch.testing.assert_close(dx, sum(g[0] for g in alone) / 4, rtol=0, atol=1e-12)
    torch.testing.assert_close(da, sum(g[1] for g in alone) / 4, rtol=0, atol=1e-12)


def test_gradient_inside_no_grad():
    x, edge_index = some_graph()
    target = Target(some_model("GCN"), x, edge_index, 2)
    expected = target.gradient()
    with torch.no_grad():
        found = target.gradient()
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert not any(part.requires_grad for part in found)


# No weight left


@pytest.mark.parametrize("options", [{}, {"add_self_loops": False}, {"improved": True}], ids=str)
def test_nodes_without_weight(options):
    x, edge_index = some_graph()
    target = Target(
        OneLayer(**options), x, edge_index, 2, edge_weight=torch.ones(edge_index.size(1), dtype=torch.float64)
    )
    part = target.computation_graph
    nothing = torch.zeros_like(part.weight)
    only_unread = torch.where(part.felt, nothing, part.weight)
    assert not torch.equal(only_unread, nothing)
    for weight in (nothing, only_unread):
        assert torch.isfinite(target.evaluate(weight=weight.expand(2, -1))).all()
        for found in (*target.gradient(weight=weight), *target.gradient(weight=weight.expand(2, -1))):
            assert torch.isfinite(found).all()


@pytest.mark.parametrize("options", [{}, {"add_self_loops": False}], ids=str)
def test_some_nodes_without_weight(options):
    """Where only some nodes lose their in-edges, the gradient elsewhere is still that of finite differences."""
    x, edge_index = some_graph()
    target = Target(OneLayer(**options), x, edge_index, int(edge_index[1].bincount().argmax()))
    part = target.computation_graph
    sinks = part.edge_index[1]
    victim = int(sinks[(sinks != 0) & part.felt][0])
    weight = part.weight.masked_fill((sinks == victim) & part.felt, 0.0)
    dx, da = target.gradient(weight=weight)
    assert torch.isfinite(dx).all()
    step = 1e-6
    for entry in (part.felt & (sinks != victim)).nonzero().view(-1).tolist():
        moved = torch.zeros_like(weight)
        moved[entry] = step
        ends = target.evaluate(weight=torch.stack([weight + moved, weight - moved]))
        assert da[entry].item() == pytest.approx((ends[0] - ends[1]).item() / (2 * step), abs=1e-6)
    assert da.abs().max() > 1e-3


@pytest.mark.parametrize("name", FAMILIES)
def test_every_edge_dropped(name):
    x, edge_index = some_graph()
    target = Target(some_model(name), x, edge_index, 2)
    part = target.computation_graph
    dropped = BernoulliEdges(1.0).sample(part, 3)
    assert torch.equal(dropped.weight, (~part.felt).double().expand(3, -1))
    assert torch.isfinite(target.evaluate(weight=dropped.weight)).all()


# Which number


def test_the_label_is_the_predicted_class_by_default():
    x, edge_index = some_graph()
    model = some_model("GCN")
    predicted = model(x, edge_index).argmax(dim=1).tolist()
    assert len(set(predicted)) > 1
    assert [Target(model, x, edge_index, node).label for node in range(NODES)] == predicted


def test_every_class():
    x, edge_index = some_graph()
    model = some_model("GCN")
    out = model(x, edge_index)[5].tolist()
    assert [Target(model, x, edge_index, 5, label=c).value for c in range(CLASSES)] == pytest.approx(out, abs=1e-12)


class Binary(OneLayer):
    def __init__(self, flat, probs, sign=1.0):
        super().__init__(out=1)
        self.flat, self.probs, self.sign = flat, probs, sign

    def forward(self, x, edge_index, edge_weight=None):
        out = self.sign * super().forward(x, edge_index, edge_weight)
        out = out.sigmoid() if self.probs else out
        return out.squeeze(-1) if self.flat else out


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("probs", [True, False])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_binary(flat, probs, sign):
    x, edge_index = some_graph()
    model = Binary(flat, probs, sign)
    options = {"mode": "binary_classification", "return_type": "probs" if probs else "raw"}
    out = model(x, edge_index).view(-1)[2].item()
    one, zero, either = (Target(model, x, edge_index, 2, label=c, **options) for c in (1, 0, None))
    assert one.value == pytest.approx(out, abs=1e-12)
    assert zero.value == pytest.approx(1 - out if probs else -out, abs=1e-12)
    assert either.label == int(out > (0.5 if probs else 0))
    assert either.value == pytest.approx((one if either.label else zero).value)
    assert torch.allclose(one.gradient()[1], -zero.gradient()[1])
    xs, weights = samples(one, "both")
    torch.testing.assert_close(one.evaluate(xs, weights), loop_over(one, xs, weights), rtol=1e-12, atol=1e-12)


def test_both_binary_labels_occur():
    x, edge_index = some_graph()
    labels = {
        Target(Binary(True, False, sign), x, edge_index, 2, mode="binary_classification").label for sign in (1, -1)
    }
    assert labels == {0, 1}


@pytest.mark.parametrize("flat", [True, False])
def test_regression(flat):
    x, edge_index = some_graph()
    model = Binary(flat, probs=False)
    target = Target(model, x, edge_index, 2, mode="regression")
    assert target.label is None
    assert target.value == pytest.approx(model(x, edge_index).view(-1)[2].item(), abs=1e-12)
    xs, weights = samples(target, "both")
    torch.testing.assert_close(target.evaluate(xs, weights), loop_over(target, xs, weights), rtol=1e-12, atol=1e-12)
    assert target.gradient()[0].abs().max() > 0


@pytest.mark.parametrize("label", [-1, CLASSES, 99, 0.5])
def test_a_class_out_of_range_is_named(label):
    x, edge_index = some_graph()
    with pytest.raises(InputError, match=rf"class {label} .*0 to {CLASSES - 1}"):
        Target(some_model("GCN"), x, edge_index, 0, label=label)
    with pytest.raises(InputError, match=rf"class {label} "):
        Target(Binary(True, False), x, edge_index, 0, label=label, mode="binary_classification")


def test_shapes_that_do_not_fit_the_mode():
    x, edge_index = some_graph()
    with pytest.raises(UnsupportedError, match="binary_classification"):
        Target(some_model("GCN"), x, edge_index, 0, mode="binary_classification")
    with pytest.raises(UnsupportedError, match=r"\[nodes, classes\]"):
        Target(Binary(True, False), x, edge_index, 0)
    with pytest.raises(InputError, match="'ranking'"):
        Target(some_model("GCN"), x, edge_index, 0, mode="ranking")


@pytest.mark.parametrize("return_type", ["probability", "log_probs"])
def test_what_a_binary_model_returns(return_type):
    x, edge_index = some_graph()
    with pytest.raises((InputError, UnsupportedError), match=return_type):
        Target(Binary(True, True), x, edge_index, 2, label=0, mode="binary_classification", return_type=return_type)


# How the model takes A


def test_the_weight_is_inside_the_normalisation():
    """A weight and a mask on messages are different things for a GCN; the paper's A is the weight."""
    x, edge_index = some_graph()
    model = OneLayer()
    target = Target(model, x, edge_index, 2, label=0)
    part = target.computation_graph
    halves = torch.full_like(part.weight, 0.5)
    assert target.evaluate(weight=halves).item() == pytest.approx(target.value, abs=1e-12)


@pytest.mark.parametrize("order", [(12, 2), (2, 12)])
def test_the_route_does_not_depend_on_the_node(order):
    """Around node 12 all features are 0, so that the weights make no difference there."""
    x, edge_index = some_graph()
    edge_index = edge_index[:, (edge_index < 12).all(dim=0)]
    edge_index = torch.cat([edge_index, torch.tensor([[12, 13], [13, 12]])], dim=1)
    x[12:] = 0
    model = some_model("GCN")
    assert [Target(model, x, edge_index, node).route for node in order] == ["weight", "weight"]


def test_the_route_where_a_relu_is_dead():
    x, edge_index = some_graph()

    class Dead(OneLayer):
        def forward(self, x, edge_index, edge_weight=None):
            return super().forward(x, edge_index, edge_weight).abs().neg().relu()

    assert Target(Dead(), x, edge_index, 2).route == "weight"


def test_weights_that_a_stretched_scale_leaves_alone():
    """Here N(A) is the same for A and for A times evenly spaced factors."""
    x = some_graph()[0][:3]
    edge_index, weight = torch.tensor([[1, 2, 1], [0, 1, 0]]), torch.full((3,), 0.25, dtype=torch.float64)
    model = OneLayer(add_self_loops=False)
    target = Target(model, x, edge_index, 0, label=0, edge_weight=weight)
    assert target.route == "weight"
    assert target.value == pytest.approx(model(x, edge_index, weight)[0, 0].item(), abs=1e-12)


def test_edges_of_weight_zero():
    x, edge_index = some_graph()
    weight = torch.zeros(edge_index.size(1), dtype=torch.float64)
    model = OneLayer()
    target = Target(model, x, edge_index, 2, label=0, edge_weight=weight)
    assert target.route == "weight"
    assert target.value == pytest.approx(model(x, edge_index, weight)[2, 0].item(), abs=1e-12)


class Ignores(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = SAGEConv(FEATURES, CLASSES).double()

    def forward(self, x, edge_index, edge_weight=None):
        return self.conv(x, edge_index)


def test_a_model_that_ignores_edge_weight_loses_edges():
    x, edge_index = some_graph()
    target = Target(Ignores(), x, edge_index, 2)
    assert target.route == "removal"
    xs, weights = samples(target, "edges")
    assert target.evaluate(xs, weights).std() > 1e-3


def test_weights_for_a_model_that_takes_none():
    x, edge_index = some_graph()
    weight = torch.ones(edge_index.size(1), dtype=torch.float64)
    with pytest.raises(ModelError, match=r"GraphSAGE.*edge_weight"):
        Target(some_model("SAGE"), x, edge_index, 2, edge_weight=weight)


def test_weights_for_a_model_that_ignores_them():
    x, edge_index = some_graph()
    weight = torch.rand(edge_index.size(1), generator=torch.Generator().manual_seed(0)).double()
    with pytest.raises(ModelError, match=r"ignores.*edge_weight|edge_weight.*ignores"):
        Target(Ignores(), x, edge_index, 2, edge_weight=weight)


def test_masks_are_taken_off():
    x, edge_index = some_graph()
    model = some_model("GAT")
    target = Target(model, x, edge_index, 2)
    target.evaluate(weight=samples(target, "edges")[1])
    target.gradient()
    for conv in model.convs:
        assert not conv.explain
        assert conv._edge_mask is None
    assert target.value == pytest.approx(model(x, edge_index)[2, target.label].item(), abs=1e-12)


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_flow(flow):
    x, edge_index = some_graph()
    weight = torch.rand(edge_index.size(1), generator=torch.Generator().manual_seed(0)).double()
    model = OneLayer(flow=flow)
    target = Target(model, x, edge_index, 2, label=0, edge_weight=weight)
    assert target.value == pytest.approx(model(x, edge_index, weight)[2, 0].item(), abs=1e-12)
    reached = edge_index[1] if flow == "source_to_target" else edge_index[0]
    assert (target.computation_graph.carries_message & ~target.computation_graph.is_loop).sum() == (reached == 2).sum()


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("options", [{}, {"improved": True}, {"normalize": False}, {"add_self_loops": False}], ids=str)
@pytest.mark.parametrize("loop", [True, False])
def test_kinds_of_gcn(options, weighted, loop):
    x, edge_index = some_graph()
    if loop:
        edge_index = torch.cat([edge_index, torch.tensor([[2], [2]])], dim=1)
    weight = torch.rand(edge_index.size(1), generator=torch.Generator().manual_seed(0)).double() if weighted else None
    model = OneLayer(**options)
    target = Target(model, x, edge_index, 2, label=0, edge_weight=weight)
    assert target.route == "weight"
    assert target.value == pytest.approx(model(x, edge_index, weight)[2, 0].item(), abs=1e-12)
    xs, weights = samples(target, "both")
    torch.testing.assert_close(target.evaluate(xs, weights), loop_over(target, xs, weights), rtol=1e-12, atol=1e-12)
    assert target.evaluate(xs, weights).std() > 1e-3
    part = target.computation_graph
    implied, near = part.edge_id < 0, part.hop[part.edge_index[1]] <= int(model.conv.normalize)
    assert part.felt.tolist() == (near & (~implied | model.conv.add_self_loops)).tolist()
    assert implied[part.felt].any() == model.conv.add_self_loops
    assert (part.weight[implied & part.felt] == (2 if weighted and model.conv.improved else 1)).all()
    assert (part.weight[~part.felt] == 1).all()
    assert not part.felt.all()


def with_loops(edge_index, kind):
    """The same graph with none, some or all of its self-loops written down, in some place."""
    loops = torch.arange(NODES).expand(2, -1)
    first, second = edge_index[:, :10], edge_index[:, 10:]
    parts = {
        "none": [edge_index],
        "some last": [edge_index, loops[:, 2:5]],
        "some inside": [first, loops[:, [7, 2, 0]], second],
        "all last": [edge_index, loops],
        "all first": [loops, edge_index],
        "all inside, mixed": [first, loops[:, 5:].flip(1), second, loops[:, :5]],
    }
    return torch.cat(parts[kind], dim=1)


class MaskedGCN(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.convs = nn.ModuleList([GCNConv(FEATURES, 4), GCNConv(4, CLASSES)]).double()

    def forward(self, x, edge_index):
        return self.convs[1](torch.tanh(self.convs[0](x, edge_index)), edge_index)


@pytest.mark.parametrize("kind", ["some last", "some inside", "all last", "all first", "all inside, mixed"])
@pytest.mark.parametrize("name", ["GCN", "GAT", "masked GCN"])
def test_it_does_not_matter_how_loops_are_written(name, kind):
    x, edge_index = some_graph()
    model = MaskedGCN() if name == "masked GCN" else some_model(name)
    written = with_loops(edge_index, kind)
    plain, other = (Target(model, x, edges, 2, label=1) for edges in (edge_index, written))
    assert other.value == pytest.approx(plain.value, abs=1e-12)
    xs, weights = samples(plain, "both")
    torch.testing.assert_close(other.evaluate(xs, weights), plain.evaluate(xs, weights), rtol=1e-12, atol=1e-12)
    for a, b in zip(other.gradient(), plain.gradient(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["none", "some inside", "all first"])
def test_a_mask_multiplies_normalised_messages(kind):
    x, edge_index = some_graph()
    model = MaskedGCN()
    target = Target(model, x, with_loops(edge_index, kind), 2, label=1, edges="mask")
    assert target.route == "mask"
    part = target.computation_graph
    weights = samples(target, "edges")[1]
    sources, sinks = part.edge_index
    ones = torch.zeros(part.num_nodes, part.num_nodes, dtype=torch.float64)
    ones.index_put_((sinks, sources), torch.ones_like(part.weight), accumulate=True)
    scale = ones.sum(dim=1).clamp(min=1).rsqrt()
    expected = []
    for weight in weights:
        a = torch.zeros_like(ones).index_put_((sinks, sources), weight, accumulate=True)
        h = scale[:, None] * a * scale
        first, second = model.convs
        hidden = torch.tanh(h @ part.x @ first.lin.weight.T + first.bias)
        expected.append((h @ hidden @ second.lin.weight.T + second.bias)[0, 1].detach())
    torch.testing.assert_close(target.evaluate(weight=weights), torch.stack(expected), rtol=1e-12, atol=1e-12)


class Propagates(nn.Module):
    def __init__(self, hops=10):
        super().__init__()
        torch.manual_seed(0)
        self.lin, self.prop = nn.Linear(FEATURES, CLASSES), APPNP(hops, alpha=0.1)
        self.double()

    def forward(self, x, edge_index, edge_weight=None):
        return self.prop(self.lin(x), edge_index, edge_weight)


def test_messages_that_go_further_than_the_layers():
    path = torch.stack([torch.arange(1, NODES), torch.arange(NODES - 1)])
    x, model = some_graph()[0], Propagates()
    for wrong in (2, 9):
        with pytest.raises(ModelError, match=rf"further than {wrong} hops.*num_hops=10$"):
            Target(model, x, path, 0, num_hops=wrong)
    target = Target(model, x, path, 0)
    assert target.num_hops == 10
    assert target.value == pytest.approx(model(x, path)[0, target.label].item(), abs=1e-12)
    assert target.computation_graph.num_visible == 11


class Dense(nn.Module):
    """Two rounds of A X W without a MessagePassing layer."""

    def __init__(self, normalise=False):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(FEATURES, 4).double(), nn.Linear(4, CLASSES).double()
        self.normalise = normalise

    def forward(self, x, edge_index, edge_weight=None):
        weight = torch.ones(edge_index.size(1), dtype=x.dtype) if edge_weight is None else edge_weight
        a = torch.zeros(len(x), len(x), dtype=x.dtype).index_put((edge_index[1], edge_index[0]), weight, True)
        if self.normalise:
            scale = (a.sum(dim=1) + 1).rsqrt()
            a = scale[:, None] * a * scale
        return a @ self.second(torch.tanh(a @ self.first(x)))


@pytest.mark.parametrize("normalise", [True, False])
def test_a_model_without_message_passing_layers(normalise):
    x, edge_index = some_graph()
    model = Dense(normalise)
    with pytest.raises(ModelError, match=r"Dense.*num_hops"):
        Target(model, x, edge_index, 2)
    target = Target(model, x, edge_index, 2, label=0, num_hops=2)
    assert target.route == "weight"
    assert target.value == pytest.approx(model(x, edge_index)[2, 0].item(), abs=1e-12)
    xs, weights = samples(target, "both")
    torch.testing.assert_close(target.evaluate(xs, weights), loop_over(target, xs, weights), rtol=1e-12, atol=1e-12)


# What is refused


@pytest.mark.parametrize("name", ["conv", "both"])
def test_a_cached_gcn_is_refused(name):
    x, edge_index = some_graph()
    model = OneLayer(cached=True) if name == "conv" else some_model("GCN", cached=True)
    with pytest.raises(ModelError, match="cached"):
        Target(model, x, edge_index, 2)


class Spoils(OneLayer):
    def __init__(self, value, at=None):
        super().__init__()
        self.value, self.at = value, at

    def forward(self, x, edge_index, edge_weight=None):
        out = super().forward(x, edge_index, edge_weight)
        return out * self.value


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("label", [None, 0])
def test_an_output_that_is_not_finite(value, label):
    x, edge_index = some_graph()
    with pytest.raises(ModelError, match=r"node 2 .*finite"):
        Target(Spoils(value), x, edge_index, 2, label=label)


def test_an_output_that_is_not_finite_on_a_perturbed_graph():
    class Root(OneLayer):
        def forward(self, x, edge_index, edge_weight=None):
            return super().forward(x, edge_index, edge_weight) + (x[:, :1] - x[:, :1].detach().clamp(min=-50)).sqrt()

    x, edge_index = some_graph()
    target = Target(Root(), x, edge_index, 2, label=0)
    xs = target.computation_graph.x.expand(3, -1, -1).clone()
    assert torch.isfinite(target.evaluate(xs)).all()
    xs[1, 0, 0] = -60
    with pytest.raises(ModelError, match=r"node 2.*\[1\]"):
        target.evaluate(xs)


class Returns(OneLayer):
    def __init__(self, change):
        super().__init__()
        self.change = change

    def forward(self, x, edge_index, edge_weight=None):
        return self.change(super().forward(x, edge_index, edge_weight))


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (lambda out: (out, out), "one tensor.*tuple"),
        (lambda out: out.sum(), r"a row for each node .*\[\]"),
        (lambda out: out.mean(dim=0, keepdim=True), rf"a row for each of the {NODES} nodes.*got 1 rows\)"),
        (lambda out: None, "one tensor.*NoneType"),
    ],
)
def test_an_output_of_another_kind(change, got):
    x, edge_index = some_graph()
    with pytest.raises(UnsupportedError, match=got):
        Target(Returns(change), x, edge_index, 2)


@pytest.mark.parametrize("kind", [RuntimeError, IndexError, TypeError, ValueError, AttributeError, AssertionError])
def test_a_model_that_cannot_be_run(kind):
    error = kind("two\n  lines")

    def fail(out):
        raise error

    x, edge_index = some_graph()
    with pytest.raises(
        ModelError,
        match=rf"^the model cannot be run on this graph: {kind.__name__}: two lines \(.*test_target.py, line \d+\)$",
    ) as caught:
        Target(Returns(fail), x, edge_index, 2)
    assert caught.value.__cause__ is error


def test_features_that_do_not_fit_the_model():
    x, edge_index = some_graph()
    with pytest.raises(ModelError, match=r"the model cannot be run on this graph: .*shapes") as caught:
        Target(OneLayer(), x[:, 1:], edge_index, 2)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_model_that_looks_at_the_whole_graph():
    x, edge_index = some_graph()
    model = Returns(lambda out: out - out.mean(dim=0))
    target = Target(model, x, edge_index, 2, label=1)
    assert target.value == pytest.approx(model(x, edge_index)[2, 1].item(), abs=1e-12)
    assert target.computation_graph.nodes.tolist() == list(range(NODES))
    assert target.computation_graph.seeds.tolist() == [2]
    moved = x.clone()
    moved[5] += 1  # far away, but in the mean
    found = target.evaluate(moved[target.computation_graph.nodes])
    assert float(found) == pytest.approx(model(moved, edge_index)[2, 1].item(), abs=1e-12)


def test_a_model_that_changes_its_mind():
    x, edge_index = some_graph()
    with pytest.raises(ModelError, match="from one call to the next"):
        Target(Returns(lambda out: out + torch.rand(1)), x, edge_index, 2)


def test_the_whole_graph_is_noticed_in_small_outputs():
    x, edge_index = some_graph()
    far = Returns(lambda out: 1e-12 * (out - out.mean(dim=0)))
    assert Target(far, x, edge_index, 2).computation_graph.num_nodes == NODES
    model = Returns(lambda out: 1e-12 * out)
    assert Target(model, x, edge_index, 2, label=0).value == pytest.approx(model(x, edge_index)[2, 0].item(), rel=1e-9)


@pytest.mark.parametrize(("scale", "fits"), [(1e6, True), (1e3, False), (1.0, False)])
def test_rounding_is_measured_by_the_largest_output(scale, fits):
    """The second class differs by 1e-4 a node, as the rounding of an output of 1e6 may make it."""

    def rounded(out):
        return torch.stack([scale * torch.ones(len(out)), 1e-4 * len(out) * torch.ones(len(out))], dim=1).double()

    x, edge_index = some_graph()
    model = Returns(lambda out: rounded(out) + 0 * out[:, :2])
    target = Target(model, x, edge_index, 2, label=0)
    assert target.value == scale
    assert (target.computation_graph.num_nodes < NODES) == fits  # or else the whole graph is needed


def test_values_for_each_edge_are_cut_out():
    class WithAttributes(OneLayer):
        def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
            return super().forward(x, edge_index, edge_weight * (1 + edge_attr.sum(dim=1)))

    x, edge_index = some_graph()
    edge_index, _ = add_remaining_self_loops(edge_index, num_nodes=NODES)
    model, weight = WithAttributes(), torch.ones(edge_index.size(1)).double()
    attributes = torch.linspace(0, 1, 2 * edge_index.size(1)).view(-1, 2).double()
    target = Target(model, x, edge_index, 2, label=0, edge_weight=weight, edge_attr=attributes)
    assert target.value == pytest.approx(model(x, edge_index, weight, attributes)[2, 0].item(), abs=1e-12)


# What else the model is given


class Scaled(OneLayer):
    factor = 1.0

    def forward(self, x, edge_index, edge_weight=None, scale=1.0):
        return self.factor * scale * super().forward(x, edge_index, edge_weight)


def test_values_for_each_node_are_cut_out():
    x, edge_index = some_graph()
    scale = torch.linspace(1, 2, NODES, dtype=torch.float64).view(-1, 1)
    model = Scaled()
    target = Target(model, x, edge_index, 2, label=0, scale=scale)
    assert target.value == pytest.approx(model(x, edge_index, scale=scale)[2, 0].item(), abs=1e-12)
    xs, weights = samples(target, "both")
    torch.testing.assert_close(target.evaluate(xs, weights), loop_over(target, xs, weights), rtol=1e-12, atol=1e-12)


def write_argument(model, scale):
    scale.mul_(2)


def write_parameter(model, scale):
    with torch.no_grad():
        model.conv.lin.weight.mul_(2)


def write_data(model, scale):
    model.conv.lin.weight.data.mul_(2)


def write_attribute(model, scale):
    model.factor = 2.0


@pytest.mark.parametrize("write", [write_argument, write_parameter, write_data, write_attribute])
def test_a_change_of_the_model_is_noticed(write):
    x, edge_index = some_graph()
    scale, model = torch.ones(NODES, 1, dtype=torch.float64), Scaled()
    before = Target(model, x, edge_index, 2, label=0, scale=scale).value
    write(model, scale)
    after = Target(model, x, edge_index, 2, label=0, scale=scale).value
    assert after == pytest.approx(model(x, edge_index, scale=scale)[2, 0].item(), abs=1e-12)
    assert after != pytest.approx(before)


def test_a_change_of_the_graph_is_noticed():
    x, edge_index = some_graph()
    model = some_model("GCN")
    before = Target(model, x, edge_index, 2, label=0).value
    x.mul_(3)
    after = Target(model, x, edge_index, 2, label=0).value
    assert after == pytest.approx(model(x, edge_index)[2, 0].item(), abs=1e-12)
    assert after != pytest.approx(before)


# What it leaves as it was


class Busy(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.drop = GCNConv(FEATURES, 6), nn.BatchNorm1d(6), nn.Dropout(0.5)
        self.frozen, self.second = nn.Dropout(0.9), GCNConv(6, CLASSES)
        self.double()

    def forward(self, x, edge_index, edge_weight=None):
        h = self.drop(self.norm(self.first(x, edge_index, edge_weight)).relu())
        return self.second(self.frozen(h), edge_index, edge_weight)


def use(model, x, edge_index):
    target = Target(model, x, edge_index, 2)
    xs, weights = samples(target, "both")
    target.evaluate(xs, weights)
    target.gradient()
    target(weight=weights[0])
    return target


def test_evaluated_in_eval_mode_and_put_back():
    x, edge_index = some_graph()
    model = Busy()
    with torch.no_grad():
        expected = model.eval()(x, edge_index)[2]
    model.train()
    model.frozen.eval()
    model.second.eval()
    flags = {name: module.training for name, module in model.named_modules()}
    assert len(set(flags.values())) == 2
    target = use(model, x, edge_index)
    assert {name: module.training for name, module in model.named_modules()} == flags
    assert target.value == pytest.approx(expected[target.label].item(), abs=1e-12)
    assert target.label == int(expected.argmax())
    xs, weights = samples(target, "both")
    assert torch.equal(target.evaluate(xs, weights), target.evaluate(xs, weights))
    torch.testing.assert_close(target.evaluate(xs, weights), loop_over(target, xs, weights), rtol=1e-12, atol=1e-12)


def test_put_back_after_an_error():
    class Fails(Busy):
        def forward(self, x, edge_index, edge_weight=None):
            raise RuntimeError("no")

    x, edge_index = some_graph()
    model = Fails().train()
    model.frozen.eval()
    with pytest.raises(
        ModelError, match=r"cannot be run on this graph: RuntimeError: no \(.*test_target.py, line \d+\)$"
    ):
        Target(model, x, edge_index, 2)
    assert [name for name, module in model.named_modules() if not module.training] == ["frozen"]


def test_parameters_buffers_and_random_state_are_untouched():
    x, edge_index = some_graph()
    model = Busy().train()
    model.second.bias.requires_grad_(False)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.full_like(parameter, 7.0)
    grads = {name: p.grad for name, p in model.named_parameters()}
    flags = {name: p.requires_grad for name, p in model.named_parameters()}
    state = {name: value.clone() for name, value in model.state_dict().items()}
    versions = [t._version for t in (x, edge_index)]
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002

    use(model, x, edge_index)

    assert all(p.grad is grads[name] for name, p in model.named_parameters())
    assert all(bool((g == 7).all()) for g in grads.values() if g is not None)
    assert {name: p.requires_grad for name, p in model.named_parameters()} == flags
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert [t._version for t in (x, edge_index)] == versions
    assert torch.equal(states[0], torch.get_rng_state())
    assert np.array_equal(states[1], np.random.get_state()[1])  # noqa: NPY002
    assert states[2] == random.getstate()


def test_samples_of_a_neighbourhood_fit():
    """Perturbations come in double precision; the model keeps its own."""
    x, edge_index = some_graph(dtype=torch.float32)
    target = Target(some_model("GCN", torch.float32), x, edge_index, 2)
    drawn = (UniformFeatures(0.2) * UniformEdges(0.5)).sample(target.computation_graph, 6)
    found = target.evaluate(drawn.x, drawn.weight)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, loop_over(target, drawn.x, drawn.weight), rtol=1e-6, atol=1e-6)
