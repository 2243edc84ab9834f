"""How a model is called on many graphs: the way that is found is right, and finding it leaves no trace."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv

from graphfaith._base.errors import ReachWarning
from graphfaith.model import batching, record
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import parse_neighborhood
from reference import TwoLayerGCN, make_case

FEATURES, HIDDEN, CLASSES = 4, 5, 3


class Model(nn.Module):
    """Two convolutions, and something in between and at the end."""

    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(FEATURES, HIDDEN), GCNConv(HIDDEN, CLASSES)

    def between(self, x):
        return x.relu()

    def end(self, x):
        return x

    def forward(self, x, edge_index, edge_weight=None):
        x = self.between(self.first(x, edge_index, edge_weight))
        return self.end(self.second(x, edge_index, edge_weight))


class Plain(Model):
    def end(self, x):
        return x.log_softmax(dim=-1)


class WithModules(Model):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.LayerNorm(HIDDEN), nn.ELU(), nn.Dropout(0.5))

    def between(self, x):
        return self.inner(x)


class Skip(Model):
    def __init__(self):
        super().__init__()
        self.middle = GCNConv(HIDDEN, HIDDEN)

    def forward(self, x, edge_index, edge_weight=None):
        x = self.first(x, edge_index, edge_weight).relu()
        x = x + self.middle(x, edge_index, edge_weight)
        return self.second(x, edge_index, edge_weight)


class SkipAtTheEnd(Model):
    def __init__(self):
        super().__init__()
        self.aside = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        x = self.first(x, edge_index, edge_weight).relu()
        return self.aside(x) + self.second(x, edge_index, edge_weight)


class Jumping(Model):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(HIDDEN + CLASSES, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        before = self.first(x, edge_index, edge_weight).relu()
        return self.last(torch.cat([before, self.second(before, edge_index, edge_weight)], dim=-1))


class OverTheFirstDimension(Model):
    def end(self, x):
        return x.log_softmax(dim=1)


class Normed(Model):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(HIDDEN)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)

    def between(self, x):
        return self.norm(x).relu()


class Centred(Model):
    def between(self, x):
        return (x - x.mean(dim=0)).relu()


class Counting(Model):
    def between(self, x):
        return x.relu() / x.size(0)


class Reshaping(Model):
    def between(self, x):
        return torch.cat([x[:, :1].relu(), x[:, 1:].tanh()], dim=1)


class Given(Model):
    def forward(self, x, edge_index, edge_weight=None, scale=None):
        return super().forward(x * scale.view(-1, 1), edge_index, edge_weight)


class Flat(Model):
    def between(self, x):
        if x.dim() != 2:
            raise ValueError("one dimension too many")
        return x.relu()


WAYS = {
    Model: "trimmed",
    Plain: "trimmed",
    WithModules: "trimmed",
    Skip: "whole",
    SkipAtTheEnd: "whole",
    Jumping: "whole",
    OverTheFirstDimension: "vmap",
    Normed: "vmap",
    Centred: "vmap",
    Counting: "vmap",
    Reshaping: "vmap",
    Given: "vmap",
    Flat: "vmap",
}


def made(kind, dtype=torch.float64):
    torch.manual_seed(0)
    return kind().to(dtype).eval()


def target_of(model, node=0, seed=1, dtype=torch.float64, **options):
    case = make_case(seed=seed, nodes=9, edges=25, dtype=dtype, **options)
    inputs = {"scale": torch.linspace(0.5, 2, 9, dtype=dtype)} if isinstance(model, Given) else {}
    target = Target(model, case.x, case.edge_index, node, 1, **case.kwargs, **inputs)
    target.kept = case  # a graph does not keep its tensors alive
    return target


def one_by_one(target, drawn):
    """F of each sample through PyG's own layers."""
    products, target.call.products = target.call.products, None
    with torch.no_grad():
        xs = [None] * len(drawn) if drawn.x is None else drawn.x
        weights = [None] * len(drawn) if drawn.weight is None else drawn.weight
        found = torch.stack([target(x, weight) for x, weight in zip(xs, weights, strict=True)])
    target.call.products = products
    return found


def assert_right(target, text="U(X,0.3r)xB(A,0.5)", count=6, tolerance=1e-11):
    drawn = parse_neighborhood(text).sample(target.computation_graph, count)
    found, expected = target.evaluate(drawn.x, drawn.weight), one_by_one(target, drawn)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert expected.std() > 1e-5


@pytest.mark.parametrize("kind", WAYS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_way_of_a_model(kind, dtype):
    assert target_of(made(kind, dtype), dtype=dtype).batching == WAYS[kind]


@pytest.mark.parametrize("kind", WAYS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("text", ["U(A,0.5)", "B(A,0.7)", "U(X,0.3r)", "U(X,0.3r)xB(A,0.5)"])
def test_every_way_is_one_by_one(kind, text):
    assert_right(target_of(made(kind)), text)
    assert_right(target_of(made(kind), torch.tensor([3, 0, 3])), text)
    assert_right(target_of(made(kind, torch.float32), dtype=torch.float32), text, tolerance=1e-4)


@pytest.mark.parametrize("kind", WAYS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("count", [1, 3, 9])
def test_the_number_of_samples_means_nothing(kind, count):
    """As many samples as classes or nodes, so that a dimension can be mistaken for another."""
    target = target_of(made(kind))
    drawn = parse_neighborhood("U(X,0.3r)xU(A,0.5)").sample(target.computation_graph, count)
    torch.testing.assert_close(target.evaluate(drawn.x, drawn.weight), one_by_one(target, drawn))


@pytest.mark.parametrize("kind", [Plain, Skip, Jumping, Normed, Centred, OverTheFirstDimension])
def test_the_way_does_not_depend_on_what_was_explained_first(kind):
    ways = set()
    for node in (0, 4, 7, torch.tensor([1, 5]), torch.arange(9)):
        ways.add(target_of(made(kind), node).batching)
    isolated = make_case(seed=1, nodes=9, edges=25, isolated=True)
    ways.add(Target(made(kind), isolated.x, isolated.edge_index, isolated.node, 1).batching)
    one = torch.ones(1, FEATURES, dtype=torch.float64)
    none = torch.empty(2, 0, dtype=torch.int64)
    ways.add(Target(made(kind), one, none, 0, 1).batching)
    assert ways == {WAYS[kind]}


@pytest.mark.parametrize("first", [0, 4, torch.arange(9)])
def test_what_was_explained_first_does_not_spoil_the_next(first):
    for kind in (Plain, Skip, OverTheFirstDimension):
        model = made(kind)
        assert_right(target_of(model, first))
        assert_right(target_of(model, 2))
        assert_right(target_of(model, torch.tensor([2, 6]), seed=2))


def test_a_model_is_tried_once(monkeypatch):
    tried = []
    usual = batching._try_ways
    monkeypatch.setattr(batching, "_try_ways", lambda *given: tried.append(1) or usual(*given))
    model = made(Plain)
    for node in (0, 3, 5):
        assert_right(target_of(model, node))
    assert tried == [1]
    assert_right(target_of(made(Plain)))
    assert tried == [1, 1]


class Clipped(Model):
    """A clip of all activations together, which a small batch does not reach and a large one does."""

    def between(self, x):
        return x.relu() * (60.0 / x.norm()).clamp(max=1.0)


@pytest.mark.parametrize(
    "text",
    [
        "U(X,0.3r)xU(A,0.5)",
        *(pytest.param(t, marks=pytest.mark.nightly) for t in ("U(A,0.5)", "B(A,0.5)")),
        "U(X,0.3r)",
    ],
)
def test_a_batch_that_is_not_what_its_graphs_are_alone_is_distrusted(text):
    target = target_of(made(Clipped))
    assert target.batching == "whole"  # a clip of all activations reads all nodes
    drawn = parse_neighborhood(text).sample(target.computation_graph, 2000)
    expected = target.value - one_by_one(target, drawn)
    torch.testing.assert_close(target.changes(drawn), expected, rtol=1e-9, atol=1e-11)
    assert target.batching == "vmap"
    other = target_of(made(Clipped))
    torch.testing.assert_close(other.value - other.evaluate(drawn.x, drawn.weight), expected, rtol=1e-9, atol=1e-11)


class Branching(Model):
    """The sign of one number decides, and it is the same for most graphs: a batch would take one branch for all."""

    def __init__(self, read):
        super().__init__()
        self.read = read

    def between(self, x):
        return x.relu() if self.read(x) else x.tanh()


@pytest.mark.parametrize(
    "read",
    [lambda x: x.sum() > -3, lambda x: x.min().item() > -2, lambda x: max(x.flatten().tolist()) < 2],
    ids=["truth", "item", "list"],
)
@pytest.mark.parametrize("text", ["U(A,0.9)", "U(X,0.5r)", "U(X,0.5r)xU(A,0.5)"])
def test_a_branch_is_taken_for_each_sample(read, text):
    target = target_of(made(lambda: Branching(read)))
    assert target.batching == "vmap"
    drawn = parse_neighborhood(text).sample(target.computation_graph, 60)
    expected = target.value - one_by_one(target, drawn)
    torch.testing.assert_close(target.changes(drawn), expected, rtol=1e-9, atol=1e-11)


class MinusMean(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=0)


def test_a_module_that_was_replaced_is_noticed():
    model = made(WithModules)
    assert_right(target_of(model))
    usual, model.inner = model.inner, nn.Sequential(MinusMean(), nn.ReLU())
    target = target_of(model)
    assert target.batching == "vmap"
    assert_right(target)
    model.inner = usual
    assert target_of(model).batching == "trimmed"
    model.inner[2] = MinusMean()
    assert target_of(model).batching == "vmap"
    model.inner = nn.Identity()
    model.first = GCNConv(FEATURES, HIDDEN).double()
    assert target_of(model).batching == "trimmed"
    assert_right(target_of(model))


def test_a_module_that_was_replaced_is_noticed_by_a_target_that_was_there():
    model = made(WithModules)
    target = target_of(model)
    assert_right(target)
    usual, model.inner = model.inner, nn.Sequential(MinusMean(), nn.ReLU())
    assert target.batching == "vmap"
    model.inner = usual
    assert target.batching == "trimmed"


def test_more_hops_than_layers_are_not_trimmed():
    model = made(Plain)
    assert_right(target_of(model))
    case = make_case(seed=1, nodes=9, edges=25)
    with pytest.warns(ReachWarning):
        target = Target(model, case.x, case.edge_index, 0, 1, num_hops=3, **case.kwargs)
    assert target.batching == "whole"
    assert_right(target)
    assert target_of(model).batching == "trimmed"


def test_a_model_that_fails_on_another_graph_is_left_to_vmap():
    class Sized(Model):
        sizes = None

        def forward(self, x, edge_index, edge_weight=None):
            if self.sizes and x.size(-2) not in self.sizes:
                raise KeyError("no such graph")
            return super().forward(x, edge_index, edge_weight)

    model = made(Sized)
    target = target_of(model)
    assert target.batching == "trimmed"
    model.sizes = {target.computation_graph.num_nodes}
    assert target.batching == "vmap"
    assert_right(target)
    assert all("forward" not in vars(layer) for layer in model.modules())


def test_a_tensor_of_any_size_is_left_to_vmap():
    class Scaled(Model):
        def forward(self, x, edge_index, edge_weight=None, scales=None):
            return super().forward(x * scales, edge_index, edge_weight)

    case = make_case(seed=1, nodes=9, edges=25)
    scales = torch.linspace(0.5, 2, FEATURES, dtype=torch.float64)
    target = Target(made(Scaled), case.x, case.edge_index, 0, 1, **case.kwargs, scales=scales)
    assert target.batching == "vmap"
    assert_right(target)


def test_layers_that_are_no_products_are_left_to_vmap():
    class Unnormalized(Model):
        def __init__(self):
            super().__init__()
            self.first = GCNConv(FEATURES, HIDDEN, normalize=False)

    target = target_of(made(Unnormalized), loops=False)
    assert target.batching == "vmap"
    assert_right(target)


def snapshot(model):
    found = []
    for module in model.modules():
        tensors = {**module._parameters, **module._buffers}
        values = {name: None if tensor is None else tensor.clone() for name, tensor in tensors.items()}
        found.append((module, module.training, {name: id(value) for name, value in vars(module).items()}, values))
    return found


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", WAYS, ids=lambda kind: kind.__name__)
def test_no_trace_is_left_on_a_model(kind, training):
    model = made(kind).train(training)
    if kind is WithModules:
        model.inner[3].train(not training)
    before = snapshot(model)
    generator = torch.random.get_rng_state()
    target = target_of(model)
    assert target.batching == WAYS[kind]
    drawn = parse_neighborhood("U(X,0.3r)xB(A,0.5)").sample(target.computation_graph, 4)
    target.evaluate(drawn.x, drawn.weight)
    assert torch.equal(torch.random.get_rng_state(), generator)
    assert [module for module, *_ in before] == list(model.modules())
    for module, was_training, attributes, values in before:
        assert module.training is was_training
        assert {name: id(value) for name, value in vars(module).items()} == attributes
        now = {**module._parameters, **module._buffers}
        assert now.keys() == values.keys()
        for name, value in values.items():
            assert now[name] is None if value is None else torch.equal(now[name], value), name
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_that_is_gone_is_forgotten():
    model = made(Plain)
    target = target_of(model)
    before = len(record._ENTRIES)
    assert model in record._ENTRIES
    del target, model
    gc.collect()
    assert len(record._ENTRIES) < before


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_any_number_of_layers_is_trimmed(layers):
    torch.manual_seed(0)
    model = TwoLayerGCN(FEATURES, layers=layers).double()
    for node in (0, 3, torch.tensor([1, 8])):
        target = target_of(model, node)
        assert target.batching == "trimmed"
        assert_right(target)
