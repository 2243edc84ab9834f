"""Methods by name, and what every method's constructor has in common."""

from __future__ import annotations

import inspect
from functools import partial

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith.explainers import methods
from graphfaith.explainers.methods import expand_methods, method_named, method_names

CLASSES = {method_named(name).kind for name in method_names()}
COMMON = ["seed", "num_hops", "edges", "max_memory"]


@pytest.mark.parametrize("kind", sorted(CLASSES, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_arguments_are_keywords_in_one_order(kind):
    parameters = list(inspect.signature(kind).parameters.values())
    fitted = issubclass(kind, gf.FittedExplainer)
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == (["neighborhood"] if fitted else [])
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    assert [name for name in names if name in COMMON] == [name for name in COMMON if name in names]
    assert names[-3:] == COMMON[1:]  # the options that every method has come last
    if fitted:
        assert names[:2] == ["num_samples", "seed"]


@pytest.mark.parametrize("name", list(method_names()))
def test_repr_makes_the_same_method_again(name):
    made = method_named(name).make_for("U(X,0.2r)xU(A,0.2)", 30, 7, num_hops=3, max_memory=10**9)
    again = eval(repr(made), {kind.__name__: kind for kind in CLASSES})
    assert again.settings == made.settings
    assert made.num_hops == 3


def test_a_repr_leaves_out_what_is_at_its_default():
    assert repr(gf.KEC("U(A, 0.50)")) == "KEC(neighborhood='U(A,0.5)')"
    assert repr(gf.GNNExplainer(edge_size=0.1)) == "GNNExplainer(edge_size=0.1)"
    assert repr(gf.SubgraphX(max_nodes=3)) == "SubgraphX(max_nodes=3)"


@pytest.mark.parametrize("algorithm", [gf.KEC("B(A,0.5)", num_samples=20, seed=4), gf.GNNExplainer(epochs=2)])
def test_an_explanation_carries_how_it_was_made_also_in_a_file(algorithm, tmp_path):
    torch.manual_seed(0)
    data = Data(x=torch.rand(6, 2), edge_index=torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6]))
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = Explainer(GCN(2, 4, 2, out_channels=2), algorithm, "model", config, "attributes", "object")
    explanation = explainer(data.x, data.edge_index, index=1)
    assert explanation.settings == algorithm.settings
    assert explanation.made_by == f"graphfaith {gf.__version__}"
    gf.save(explanation, tmp_path / "one.safetensors")
    loaded = gf.load(tmp_path / "one.safetensors")
    assert loaded.settings == algorithm.settings
    assert loaded.made_by == explanation.made_by


def test_names_are_expanded_once_each_and_unknown_ones_refused():
    assert "subgraphx" not in expand_methods(["all"])
    assert expand_methods(["subgraphx", "all"])[0] == "subgraphx"
    assert len(expand_methods(["all", "kec"])) == len(expand_methods(["all"]))
    with pytest.raises(gf.InputError, match="unknown method 'magic': known are anchored-kec"):
        expand_methods(["kec", "magic"])


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("all", gf.KEC, "a name other than 'all'"),
        ("", gf.KEC, "a name other than 'all'"),
        (" kec", gf.KEC, "a name other than 'all'"),
        ("other", torch.nn.Linear, "subclass of FaithfulExplainer"),
        ("other", lambda near: gf.KEC(near), "subclass of FaithfulExplainer"),
        ("other", partial(print), "subclass of FaithfulExplainer"),
    ],
)
def test_what_cannot_be_a_method_is_refused(name, make, message):
    with pytest.raises(gf.InputError, match=message):
        gf.register_method(name, make)
    assert name == "" or name not in method_names() or name == "all"


class Entry:
    def __init__(self, name, value):
        self.name, self.value = name, "other_package:Method"
        self._value = value

    def load(self):
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


def test_other_distributions_add_methods_and_broken_ones_are_left_out(monkeypatch):
    entries = [Entry("theirs", gf.Saliency), Entry("broken", ImportError("no module named theirs"))]
    monkeypatch.setattr(methods, "entry_points", lambda group: entries if group == "graphfaith.methods" else [])
    methods._load_others.cache_clear()
    with pytest.warns(UserWarning, match="'broken' .other_package:Method. is left out"):
        assert "theirs" in method_names()
    assert "broken" not in method_names()
    methods._load_others.cache_clear()
