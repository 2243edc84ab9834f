"""A snapshot holds as long as nothing has changed that a description of the model looks at."""

from __future__ import annotations

import gc
import types
import weakref

import pytest
import torch
from torch_geometric.nn import GAT, GCN, GIN, GCNConv, GraphSAGE, SAGEConv

from graphfaith.model import record
from graphfaith.model.record import evaluating
from graphfaith.model.snapshot import Snapshot

FLAGS, FURTHER = {"reads": True}, types.SimpleNamespace(scales=[1.0, 2.0])


class Stateful(torch.nn.Module):
    """A model with state of every kind, in itself and around it."""

    in_class = 1.5

    def __init__(self):
        super().__init__()
        self.conv, self.layers = GCNConv(3, 2), torch.nn.ModuleList([torch.nn.Linear(2, 2)])
        self.scale, self.name, self.nothing = 1.5, "net", None
        self.options, self.deep = {"scale": 1.0}, {"a": {"b": [1.0]}}
        self.steps, self.pair, self.chosen = [1.0, [2.0]], ([3.0], 4.0), {"mean"}
        self.config = types.SimpleNamespace(reads=True, inner=types.SimpleNamespace(rate=0.5))
        self.register_buffer("shift", torch.zeros(2))
        self.act = lambda x: x * FURTHER.scales[0]

    def forward(self, x, edge_index, edge_weight=None):
        out = self.conv(x, edge_index, edge_weight if FLAGS["reads"] else None)
        return self.act(self.layers[0](out)) * self.scale * self.in_class


CHANGES = {
    "number": lambda model: setattr(model, "scale", model.scale + 1),
    "text": lambda model: setattr(model, "name", "other"),
    "value in place of None": lambda model: setattr(model, "nothing", torch.ones(1)),
    "new attribute": lambda model: setattr(model, "more", 1),
    "lost attribute": lambda model: delattr(model, "name"),
    "entry of a dictionary": lambda model: model.options.update(scale=2.0),
    "new entry of a dictionary": lambda model: model.options.update(shift=2.0),
    "entry deep in dictionaries": lambda model: model.deep["a"]["b"].append(2.0),
    "entry of a list": lambda model: model.steps.__setitem__(0, 3.0),
    "entry of a list in a list": lambda model: model.steps[1].__setitem__(0, 3.0),
    "entry of a list in a tuple": lambda model: model.pair[0].__setitem__(0, 5.0),
    "entry of a set": lambda model: model.chosen.add("max"),
    "attribute of an object": lambda model: setattr(model.config, "reads", False),
    "attribute of an object in an object": lambda model: setattr(model.config.inner, "rate", 0.1),
    "write to a parameter": lambda model: torch.nn.init.ones_(model.conv.bias),
    "other parameter": lambda model: setattr(model.conv, "bias", torch.nn.Parameter(torch.ones(2))),
    "write to a buffer": lambda model: model.shift.add_(1.0),
    "other layer": lambda model: setattr(model, "conv", GCNConv(3, 2)),
    "new layer": lambda model: model.layers.append(torch.nn.ReLU()),
    "flag of a layer": lambda model: setattr(model.conv, "normalize", False),
    "hook": lambda model: model.conv.register_forward_hook(lambda *_: None),
    "hook of a layer in a layer": lambda model: model.conv.lin.register_forward_pre_hook(lambda *_: None),
    "other forward": lambda model: setattr(model, "forward", lambda x, edge_index: x),
    "other class": lambda model: setattr(model, "__class__", type("Other", (Stateful,), {})),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_noticed(change):
    model = Stateful().eval()
    snapshot = Snapshot(model)
    assert snapshot.holds()
    CHANGES[change](model)
    assert not snapshot.holds()


@pytest.mark.parametrize(
    ("space", "name", "other"),
    [(FLAGS, "reads", False), (vars(FURTHER), "scales", [3.0]), (globals(), "FLAGS", {"reads": True})],
)
def test_a_variable_outside_of_the_model_is_noticed(monkeypatch, space, name, other):
    snapshot = Snapshot(model := Stateful().eval())
    monkeypatch.setitem(space, name, other)
    assert not snapshot.holds()
    monkeypatch.undo()
    assert snapshot.holds()
    assert model.scale == 1.5


def test_an_attribute_of_the_class_is_noticed(monkeypatch):
    snapshot = Snapshot(model := Stateful().eval())
    monkeypatch.setattr(Stateful, "in_class", 2.5)
    assert not snapshot.holds()
    assert model.in_class == 2.5


@pytest.mark.parametrize("kind", [GCN, GAT, GIN, GraphSAGE])
def test_a_run_in_between_is_no_change(kind):
    model = kind(3, 4, 2, 2).eval()
    snapshot = Snapshot(model)
    model(torch.rand(4, 3), torch.tensor([[0, 1, 2], [1, 2, 3]]))
    assert snapshot.holds()


def test_a_model_that_stays_the_same_is_described_once(monkeypatch):
    model, described = Stateful().eval(), []
    describe = record.describe_state
    monkeypatch.setattr(record, "describe_state", lambda given: described.append(given) or describe(given))
    with evaluating(model) as first:
        pass
    count = len(described)
    assert count > 0
    for _ in range(3):
        with evaluating(model) as again:
            model(torch.rand(4, 3), torch.tensor([[0, 1, 2], [1, 2, 3]]))
        assert again is first
    assert len(described) == count


def test_an_equal_number_in_place_of_another_keeps_the_record():
    model = Stateful().eval()
    with evaluating(model) as before:
        pass
    model.scale = float("1.5")
    with evaluating(model) as after:
        assert after is before


def test_what_cannot_be_kept_is_described_every_time():
    lazy = SAGEConv((-1, -1), 2)
    assert not Snapshot(lazy).holds()
    lazy(torch.rand(4, 3), torch.tensor([[0, 1, 2], [1, 2, 3]]))
    assert Snapshot(lazy).holds()
    for value in (list(range(5000)), dict.fromkeys(range(5000)), {object()}, {(1, 2): 3}):
        model = Stateful().eval()
        model.kept = value
        assert not Snapshot(model).holds()


def test_a_model_whose_parts_refer_to_it_is_freed():
    model = Stateful().eval()
    vars(model.conv)["owner"] = model
    model.options["owner"] = [model]
    with evaluating(model):
        pass
    left = weakref.ref(model)
    del model
    gc.collect()
    assert left() is None
