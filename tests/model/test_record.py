"""What is known of a model lives as long as the model does not change, and no longer."""

from __future__ import annotations

import types

import pytest
import torch
from torch_geometric.nn import GCNConv

from graphfaith._base.errors import InputError, ModelError
from graphfaith.model.record import describe_state, evaluating
from graphfaith.model.target import Target

RING = torch.stack([torch.arange(8), (torch.arange(8) + 1) % 8])


class Flagged(torch.nn.Module):
    """A convolution that reads weights only while a flag says so; plain, nested and counted state beside it."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(3, 2)
        self.reads, self.options, self.steps, self.calls = True, {"scale": 1.0}, [1.0], 0
        self.config = types.SimpleNamespace(reads=True)
        self.register_buffer("shift", torch.zeros(2))

    def forward(self, x, edge_index, edge_weight=None):
        self.calls += 1
        out = self.conv(x, edge_index, edge_weight if self.reads else None)
        return self.options["scale"] * self.steps[0] * out + self.shift


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Flagged().eval()


def record_of(model):
    with evaluating(model) as record:
        return record


CHANGES = {
    "a flag": lambda model: setattr(model, "reads", False),
    "an entry of a dictionary": lambda model: model.options.update(scale=2.0),
    "an entry of a list": lambda model: model.steps.__setitem__(0, 3.0),
    "a write to a parameter": lambda model: (
        model.conv.lin.weight.data.add_(0) is None or torch.nn.init.zeros_(model.conv.bias)
    ),
    "another parameter": lambda model: setattr(model.conv, "bias", torch.nn.Parameter(torch.ones(2))),
    "a write to a buffer": lambda model: model.shift.add_(1.0),
    "another layer": lambda model: setattr(model, "conv", GCNConv(3, 2)),
    "a flag of a config object": lambda model: setattr(model.config, "reads", False),
    "a hook": lambda model: model.conv.register_forward_hook(lambda *_: None),
    "another forward": lambda model: setattr(model, "forward", lambda x, edge_index: x[:, :2]),
    "a flag of a layer": lambda model: setattr(model.conv, "normalize", False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_gets_a_new_record(model, change):
    before = record_of(model)
    assert record_of(model) is before
    CHANGES[change](model)
    assert record_of(model) is not before


def test_a_change_by_the_model_itself_is_none_by_the_user(model):
    before = record_of(model)
    with evaluating(model):
        model(torch.ones(8, 3), RING)
    assert model.calls == 1
    assert record_of(model) is before


def test_the_mode_is_no_part_of_the_record_and_is_restored(model):
    before = record_of(model)
    model.train()
    with evaluating(model):
        assert not model.conv.training
    assert model.training
    assert model.conv.training
    assert record_of(model) is before


def test_the_mode_is_restored_after_an_exception(model):
    model.train()
    with pytest.raises(RuntimeError, match="broken"), evaluating(model):
        raise RuntimeError("broken")
    assert model.training
    with evaluating(model):  # and the model can be run again
        assert not model.training


def test_two_equal_models_have_different_stamps(model):
    assert describe_state(model) != describe_state(Flagged().eval())


def test_a_flag_that_hides_the_weights_is_noticed_by_a_new_target_and_by_an_old_one(model):
    x = torch.rand(8, 3)
    old = Target(model, x, RING, 2, label=0)
    assert old.route == "weight"
    halves = torch.full((2, old.computation_graph.num_edges), 0.5)
    halves[:, -1] = 0.25
    moved = old.evaluate(weight=halves)
    model.reads = False
    assert Target(model, x, RING, 2, label=0).route == "removal"
    old.evaluate(weight=halves)
    assert old.route == "removal"
    model.reads = True
    assert torch.equal(old.evaluate(weight=halves), moved)
    assert old.route == "weight"


def test_f_is_that_of_the_model_in_its_present_state(model):
    x = torch.rand(8, 3)
    target = Target(model, x, RING, 2, label=0)
    before = target.value
    model.options["scale"] = 2.0
    assert target.value == pytest.approx(2 * before)
    assert float(target.evaluate(weight=target.computation_graph.weight.expand(3, -1))[1]) == pytest.approx(2 * before)


def test_a_model_that_cannot_be_placed_leaves_no_number_of_its_former_state(model):
    x = torch.rand(8, 3)
    target = Target(model, x, RING, 2, label=0)
    model.conv = GCNConv(7, 2)
    for _ in range(3):
        with pytest.raises(ModelError, match="cannot be run"):
            _ = target.value


class Called(torch.nn.Module):
    """Reads weights if an argument of its forward says so; a graph's output may come without a row."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(3, 3)

    def forward(self, x, edge_index, edge_weight=None, reads=True, pool=False):
        out = self.conv(x, edge_index, edge_weight if reads else None)
        return out.mean(dim=0) if pool else out


def test_the_route_depends_on_the_flags_that_the_model_is_called_with():
    torch.manual_seed(0)
    model, x = Called().eval(), torch.rand(8, 3)
    assert [Target(model, x, RING, 2, reads=reads).route for reads in (True, False, True)] == [
        "weight",
        "removal",
        "weight",
    ]


def test_the_output_is_read_by_the_task_that_asks():
    torch.manual_seed(0)
    model, x = Called().eval(), torch.rand(8, 3)
    options = {"level": "graph", "pool": True}
    classes = Target(model, x, RING, None, **options)
    numbers = Target(model, x, RING, None, mode="regression", **options)
    out = model(x, RING, pool=True)
    assert classes.value == pytest.approx(out.max().item(), abs=1e-6)
    assert numbers.value == pytest.approx(out.sum().item(), abs=1e-6)


def test_a_wrong_shape_is_refused_and_remembered_by_nobody(model):
    x = torch.rand(8, 3)
    target = Target(model, x, RING, 2, label=0)
    way, part = target.batching, target.computation_graph
    with pytest.raises(InputError, match=r"x must be \["):
        target.evaluate(x=torch.rand(5, part.num_nodes, 7))
    with pytest.raises(InputError, match=r"weight must be \["):
        target.evaluate(weight=torch.rand(5, part.num_edges + 1))
    assert target.batching == way
    assert not target.record.one_by_one
