import pytest
import torch
from torch_geometric.nn import GCNConv

from graphfaith.model.layers import message_passing_layers, widest_layer
from graphfaith.model.record import evaluating


class Shared(torch.nn.Module):
    """A module in two places, one that is None, and a scalar parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        self.again = self.first[1]
        self.nothing = None
        self.register_module("none", None)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
        self.conv = GCNConv(3, 40)


class OwnModes(torch.nn.Module):
    """Does more in train() than switch ``training``."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = []

    def train(self, mode=True):
        self.calls.append(mode)
        return super().train(mode)


def test_a_layer_that_is_replaced_or_added_is_seen():
    model = Shared()
    before = message_passing_layers(model)
    model.conv = GCNConv(3, 40)
    assert message_passing_layers(model) == [model.conv] != before
    model.more = GCNConv(3, 50)
    assert message_passing_layers(model) == [model.conv, model.more]
    assert widest_layer(model) == 50


@pytest.mark.parametrize("training", [True, False])
def test_modes_are_put_back(training):
    model = Shared().train(training)
    model.again.train(not training)
    before = [module.training for module in model.modules()]
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == before


def test_a_model_with_its_own_modes_is_told():
    model = torch.nn.Sequential(OwnModes())
    model.eval()
    model[0].calls.clear()
    with evaluating(model):
        assert model[0].calls == [False]
    plain, told = torch.nn.ReLU().eval(), []
    plain.train = told.append
    with evaluating(plain):
        assert told == [False]


def test_what_a_forward_leaves_is_taken_away():
    model = Shared().eval()
    kept = model.kept = torch.ones(2)
    mean = model.again.running_mean
    names = [list(vars(module)) for module in model.modules()]
    with evaluating(model):
        model.nothing = torch.ones(3)  # was None
        model.seen = torch.ones(3)  # was not there
        model.kept = torch.zeros(2)  # was another
        model.count = 7  # no tensor: the model's own affair
        model.again.running_mean = torch.ones(3)
        model.again.register_buffer("more", torch.ones(1))
    assert model.nothing is None
    assert not hasattr(model, "seen")
    assert model.kept is kept
    assert model.count == 7
    assert model.again.running_mean is mean
    assert sorted(model.again._buffers) == ["num_batches_tracked", "running_mean", "running_var"]
    del model.count
    assert [sorted(vars(module)) for module in model.modules()] == [sorted(before) for before in names]


def test_an_attribute_that_swaps_its_name_is_noticed():
    model = torch.nn.ReLU()
    model.old = kept = torch.ones(2)
    with evaluating(model):
        del model.old
        model.new = kept
    assert model.old is kept
    assert not hasattr(model, "new")
