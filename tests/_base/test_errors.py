"""Messages are one line, quote some hundred characters at most, and name the place in the user's code."""

from __future__ import annotations

import importlib
import pickle
import sys

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith._base import errors
from graphfaith._base.checks import MOST, check_count, check_node, check_real, check_seed
from graphfaith._base.errors import describe_error, one_line, show
from graphfaith.data.own_model import load_model

GIANT = 10**5000  # Python refuses to write it

KINDS = [
    errors.InputError,
    errors.ModelError,
    errors.UnsupportedError,
    errors.DataError,
    errors.OutputError,
    errors.RunError,
    errors.MemoryLimitError,
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_one_short_line_and_survives_pickling(kind):
    error = kind("cannot read 'a\nb\x1b[31m\u2028\udcff" + "x" * 10**6 + "': write c")
    text = str(error)
    assert len(text.splitlines()) == 1
    assert len(text) < 700
    assert text.startswith(r"cannot read 'a\nb\x1b[31m\u2028\udcffxxx")
    assert text.endswith("xxx': write c")
    text.encode()  # a terminal can show it
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == text


def test_text_in_any_language_is_left_as_it_is():
    assert one_line("Größe, 大きさ, размер ± 3 …") == "Größe, 大きさ, размер ± 3 …"


class Unspeakable:
    """An object whose repr fails."""

    def __repr__(self):
        raise RuntimeError("no words")


def test_values_that_cannot_be_written_are_named_by_their_type():
    assert show(GIANT) == "a giant int"
    assert show(Unspeakable()) == "a Unspeakable"


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_seed(GIANT), "seed must be a whole number from 0 to"),
        (lambda: check_seed(Unspeakable()), "seed must be a whole number from 0 to"),
        (lambda: check_count(GIANT, "steps"), "steps must be at most 1,000,000,000 "),
        (lambda: check_count(MOST + 1, "steps"), r"\(got 1000000001\)"),
        (lambda: check_count(-GIANT, "steps"), "steps must be a whole number of at least 1"),
        (lambda: check_node(GIANT, 3), "node a giant int is out of range"),
        (lambda: check_real(GIANT, "lr", above=0), "lr must be above 0"),
        (lambda: check_real(400, "days", above=0, most=365), "days must be at most 365"),
    ],
)
def test_giant_numbers_are_refused_with_the_bound(check, message):
    with pytest.raises(gf.InputError, match=message):
        check()


def test_giant_numbers_in_the_facade():
    data = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    model = GCN(2, 4, num_layers=2, out_channels=3)
    for words in (
        {"node": GIANT},
        {"graph": -GIANT},
        {"edge": (GIANT, 1)},
        {"node": 1, "seed": GIANT},
        {"node": 1, "samples": GIANT},
        {"node": 1, "test_samples": 10**13},
        {"node": 1, "num_hops": GIANT},
        {"node": 1, "max_memory": GIANT},
        {"node": 1, "max_memory": f"{'9' * 400} GB"},
        {"node": 1, "neighborhood": "U(A," + "9" * 5000 + ")"},
    ):
        with pytest.raises(gf.GraphfaithError) as caught:
            gf.explain(model, data, **words)
        assert len(str(caught.value)) < 700
    with pytest.raises(gf.InputError, match="node a giant int is out of range"):
        gf.compare(model, data, [0, GIANT])


# A model's own exception ------------------------------------------------------------------------------------------

MODEL = """
import torch; from torch_geometric.nn import SAGEConv

class Wrong(torch.nn.Module):
    def forward(self, x, edge_index):
        return self.read(x)

    def read(self, x):
        return torch.nn.functional.linear(x, torch.zeros(2, 77))  # line 9

class Leaving(torch.nn.Module):
    def forward(self, x, edge_index):
        raise SystemExit("enough")  # line 13

def broken():
    raise KeyError("two\\nlines")  # line 16

class InLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = SAGEConv(2, 2, aggr="lstm")

    def forward(self, x, edge_index):
        return self.layer(x, edge_index.flip(1))  # line 24
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_wrong_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("own_wrong_model")
    del sys.modules["own_wrong_model"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Wrong", r"RuntimeError: .*shapes cannot be multiplied.* \(own_wrong_model.py, line 9\)"),
        # PyG runs the code of a layer from a file that it makes in a temporary folder.
        ("InLayer", r"ValueError: .*not sorted.* \(own_wrong_model.py, line 24\)"),
        ("Leaving", r"SystemExit: enough \(own_wrong_model.py, line 13\)"),
    ],
)
def test_an_exception_of_the_model_names_its_file_and_line(own, name, message):
    data = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    model = getattr(own, name)()
    with pytest.raises(gf.ModelError, match=message):
        gf.explain(model, data, 1, num_hops=1)
    with pytest.raises(gf.ModelError, match=message):
        gf.Target(model, data.x, data.edge_index, 1, num_hops=1)


def test_an_exception_of_the_function_that_loads_the_model_names_its_file_and_line(own):
    with pytest.raises(gf.ModelError, match=r"raised KeyError: .* \(own_wrong_model.py, line 16\)"):
        load_model("own_wrong_model:broken")


@pytest.mark.parametrize("name", ["my\nmodel:load", "own:lo\nad", "m" * 100_000, "m" * 100_000 + ":load", "\0:a"])
def test_odd_names_of_models_are_one_line(name):
    with pytest.raises(gf.InputError) as caught:
        load_model(name)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 700


def test_an_error_of_a_library_alone_names_no_place():
    assert describe_error(OSError(28, "No space left on device")) == "OSError: [Errno 28] No space left on device"
