"""Flags outside of a model, which decide whether it reads weights: a change of them is noticed."""

from __future__ import annotations

import importlib
import os
import sys
import types

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, GraphConv

from graphfaith._base.errors import ModelError
from graphfaith.model.record import evaluating
from graphfaith.model.target import Target
from graphfaith.model.variables import _is_foreign, outer_variables
from graphfaith.sampling import UniformEdges

RING = torch.stack([torch.arange(8), (torch.arange(8) + 1) % 8])
READS, OPTIONS, CONFIG, MANY = True, {"reads": True}, types.SimpleNamespace(reads=True), list(range(1000))
SETTINGS = types.ModuleType("settings")
SETTINGS.reads = True


def ask_further():
    return READS if MANY else ask()


def ask():
    return ask_further()


class Asking(nn.Module):
    """Reads weights if all flags say so."""

    in_class = True

    def __init__(self, reads=None):
        super().__init__()
        self.conv, self.reads = GCNConv(3, 2), reads or (lambda: True)

    @staticmethod
    def settings():
        return SETTINGS.reads

    def forward(self, x, edge_index, edge_weight=None):
        flags = OPTIONS["reads"], CONFIG.reads, ask(), self.settings(), self.in_class, self.reads()
        return self.conv(x, edge_index, edge_weight if all(flags) else None)


class Inheriting(Asking):
    """Its flags are those of the class above."""


def closure():
    reads = True

    def toggle():
        nonlocal reads
        reads = not reads

    return (lambda: reads), toggle


TOGGLES = {
    "global variable": (globals(), "READS"),
    "entry of a dictionary": (OPTIONS, "reads"),
    "attribute of an object": (vars(CONFIG), "reads"),
    "attribute of a module": (vars(SETTINGS), "reads"),
}


def assert_noticed(model, toggle):
    x = torch.rand(8, 3)
    old = Target(model, x, RING, 2, label=0)
    assert old.route == "weight"
    toggle()
    try:
        target = Target(model, x, RING, 2, label=0)
        assert target.route == "removal"
        weight = target.computation_graph.weight.repeat(2, 1)
        weight[1] *= 0.5
        values = old.evaluate(weight=weight)  # the old target finds its place anew
        assert old.route == "removal"
        assert values[0] != values[1]
    finally:
        toggle()
    assert Target(model, x, RING, 2, label=0).route == "weight"


@pytest.mark.parametrize("where", TOGGLES)
@pytest.mark.parametrize("kind", [Asking, Inheriting])
def test_a_flag_outside_of_the_model(where, kind):
    space, name = TOGGLES[where]
    assert_noticed(kind().eval(), lambda: space.update({name: not space[name]}))


def test_a_flag_of_the_class():
    assert_noticed(Inheriting().eval(), lambda: setattr(Asking, "in_class", not Asking.in_class))


def test_a_flag_in_a_closure():
    reads, toggle = closure()
    assert_noticed(Asking(reads).eval(), toggle)


def test_libraries_and_data_are_not_looked_at():
    model = Asking().eval()
    values = list(outer_variables(model))
    assert not any(value is MANY for value in values)
    assert len(values) < 20
    assert list(outer_variables(model.conv)) == []


LAYER = """
import torch

FLAG = [1]


class Layer(torch.nn.Module):
    def forward(self, x):
        return FLAG
"""


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages", "mine"])
def test_libraries_may_be_installed_anywhere(tmp_path, monkeypatch, folder):
    path = tmp_path / folder / "layers_from_elsewhere.py"
    path.parent.mkdir()
    path.write_text(LAYER)
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.delitem(sys.modules, path.stem, raising=False)
    module = importlib.import_module(path.stem)
    _is_foreign.cache_clear()
    assert list(outer_variables(module.Layer())) == ([[1]] if folder == "mine" else [])
    _is_foreign.cache_clear()


class Counting(nn.Module):
    """Counts its calls in its class, and in a global variable."""

    calls = 0

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(3, 2)

    def forward(self, x, edge_index, edge_weight=None):
        Counting.calls += 1
        OPTIONS["calls"] = Counting.calls
        return self.conv(x, edge_index, edge_weight)


def test_what_the_model_itself_changes_is_no_change_by_the_user():
    model = Counting().eval()
    Target(model, torch.rand(8, 3), RING, 2)
    with evaluating(model) as before:
        pass
    model(torch.rand(8, 3), RING)
    with evaluating(model) as after:
        assert after is before
    OPTIONS.pop("calls")


class FromEnvironment(nn.Module):
    """Its flag is where nobody can look for it."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(3, 2)

    def forward(self, x, edge_index, edge_weight=None):
        return self.conv(x, edge_index, None if os.environ.get("GRAPHFAITH_TEST_FLAG") else edge_weight)


@pytest.mark.parametrize("ask", ["changes", "changes_by_row", "gradient"])
def test_a_flag_that_cannot_be_seen_is_noticed_when_nothing_changes(monkeypatch, ask):
    model, x = FromEnvironment().eval(), torch.rand(8, 3)
    Target(model, x, RING, 2, label=0)
    monkeypatch.setenv("GRAPHFAITH_TEST_FLAG", "1")
    target = Target(model, x, RING, 2, label=0)
    drawn = () if ask == "gradient" else (UniformEdges(0.5).sample(target.computation_graph, 3),)
    with pytest.raises(ModelError, match="does not read edge_weight any more"):
        getattr(target, ask)(*drawn)
    again = Target(model, x, RING, 2, label=0)
    assert again.route == "removal"
    assert again.changes(UniformEdges(0.5).sample(again.computation_graph, 3)).any()


def test_a_node_without_neighbours_has_changes_of_zero():
    model, x = GraphConv(3, 2).eval(), torch.rand(9, 3)
    target = Target(model, x, RING, 8, label=0)
    assert not target.changes(UniformEdges(0.5).sample(target.computation_graph, 3)).any()
