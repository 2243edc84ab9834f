"""Exceptions of the user's own model: typed and of one line, whichever way it is explained; others stay as they are."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith.model import target as target_module
from graphfaith.model.target import Target

RING = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
CONFIG = {"mode": "regression", "task_level": "node", "return_type": "raw"}
WORDS = {"mode": "regression", "return_type": "raw"}


class _Moody(GCN):
    """A model that raises as soon as its graph is not the one that it was made for."""

    def __init__(self, allowed=None):
        torch.manual_seed(0)
        super().__init__(3, 4, num_layers=2, out_channels=1)
        self.allowed = allowed

    def forward(self, x, edge_index, edge_weight=None):
        moved = edge_weight is not None and not bool((edge_weight.detach() == 1).all())
        if self.allowed is not None and (moved or not torch.isin(x.detach(), self.allowed).all()):
            raise ArithmeticError("only my own\ngraph will do")
        return super().forward(x, edge_index, edge_weight)


@pytest.fixture
def x():
    return torch.rand(6, 3, generator=torch.Generator().manual_seed(0))


def explainer_of(model, algorithm):
    masks = {"node_mask_type": "attributes", "edge_mask_type": "object"}
    return Explainer(model, algorithm, explanation_type="model", model_config=CONFIG, **masks)


def is_told(raised):
    error = raised.value
    assert isinstance(error.__cause__, ArithmeticError)
    assert str(error).isprintable()
    assert "ArithmeticError: only my own graph will do" in str(error)
    assert "test_failure.py, line " in str(error)


@pytest.mark.parametrize(
    "algorithm",
    [gf.IntegratedGradients(steps=3, baseline="random"), gf.KEC("U(A,0.5)", num_samples=20), gf.GNNExplainer(epochs=2)],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_a_model_that_raises_on_perturbed_graphs_is_named_by_pygs_explainer_too(x, algorithm):
    explainer = explainer_of(_Moody(allowed=x), algorithm)
    with pytest.raises(gf.ModelError) as raised:
        explainer(x, RING, index=1)
    is_told(raised)


def test_a_model_that_raises_in_pygs_own_prediction_is_named(x):
    with pytest.raises(gf.ModelError) as raised:
        explainer_of(_Moody(allowed=torch.zeros(1)), gf.Saliency())(x, RING, index=1)
    is_told(raised)


def test_a_model_that_raises_while_it_is_scored_or_evaluated_is_named(x):
    model = _Moody()
    explainer = explainer_of(model, gf.Saliency())
    explanation = explainer(x, RING, index=1)
    target = Target(model, x, RING, 1, **WORDS)
    model.allowed = x
    with pytest.raises(gf.ModelError) as raised:
        gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", num_samples=20)
    is_told(raised)
    with pytest.raises(gf.ModelError) as raised:
        target.evaluate(weight=torch.full((3, target.computation_graph.num_edges), 0.5))
    is_told(raised)


def test_gf_explain_names_the_model_where_it_raises(x):
    with pytest.raises(gf.ModelError) as raised:
        gf.explain(_Moody(allowed=x), Data(x=x, edge_index=RING), 1, method="kec", **WORDS)
    is_told(raised)


class _Rough(torch.autograd.Function):
    """A function without a derivative."""

    @staticmethod
    def forward(_ctx, values):
        return values.clone()

    @staticmethod
    def backward(_ctx, _slope):
        raise ArithmeticError("only my own\ngraph will do")


class _Steep(GCN):
    def forward(self, x, edge_index, edge_weight=None):
        return _Rough.apply(super().forward(x, edge_index, edge_weight))


@pytest.mark.parametrize("algorithm", [gf.Saliency(), gf.GNNExplainer(epochs=2)], ids=["saliency", "gnnexplainer"])
def test_a_model_whose_derivative_raises_is_named(x, algorithm):
    model = _Steep(3, 4, num_layers=2, out_channels=1)
    with pytest.raises(gf.ModelError) as raised:
        explainer_of(model, algorithm)(x, RING, index=1)
    is_told(raised)


class _Broken(gf.Saliency):
    """A method with a mistake of its own."""

    def fit(self, target):
        raise ArithmeticError(f"a mistake in the method for {target.name}")


def test_a_mistake_of_a_method_is_not_blamed_on_the_model(x):
    with pytest.raises(ArithmeticError, match="a mistake in the method for node 1"):
        explainer_of(_Moody(), _Broken())(x, RING, index=1)
    gf.explainers.methods.register_method("broken", _Broken, in_all=False)
    try:
        with pytest.raises(ArithmeticError, match="a mistake in the method"):
            gf.explain(_Moody(), Data(x=x, edge_index=RING), 1, method="broken", **WORDS)
    finally:
        gf.explainers.methods._METHODS.pop("broken")


class _Wordy(GCN):
    """A model that reads a number, and says in its own words if it cannot: in vmap, it cannot."""

    def forward(self, x, edge_index, edge_weight=None):
        try:
            scale = 2.0 if float(x.detach().sum()) > 0 else 1.0
        except RuntimeError as error:
            raise LookupError("there is no number to be read") from error
        return scale * super().forward(x, edge_index, edge_weight)


def test_a_model_that_raises_anything_in_a_batch_is_run_on_one_graph_after_the_other(x):
    torch.manual_seed(0)
    model = _Wordy(3, 4, num_layers=2, out_channels=1).double()
    target = Target(model, x.double(), RING, 1, **WORDS)
    weights = torch.rand(4, target.computation_graph.num_edges, dtype=torch.float64)
    expected = torch.stack([target(weight=weight) for weight in weights])
    moved = target.computation_graph.x + torch.rand(4, *target.computation_graph.x.shape, dtype=torch.float64)
    torch.testing.assert_close(target(weight=weights), expected)
    torch.testing.assert_close(target(moved), torch.stack([target(one) for one in moved]))


class _Ending(GCN):
    def __init__(self, end):
        torch.manual_seed(0)
        super().__init__(3, 4, num_layers=2, out_channels=2)
        self.end = end

    def forward(self, x, edge_index, edge_weight=None):
        return self.end(super().forward(x, edge_index, edge_weight))


@pytest.mark.parametrize("large", [False, True], ids=["small graph", "large graph"])
@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda out: (10 * out).long(), "must return real numbers.*got torch.int64"),
        (lambda out: out > 0, "must return real numbers.*got torch.bool"),
        (lambda out: out + 1j, "must return real numbers.*got torch.complex64"),
        (lambda out: (out, out), "must return one tensor .*tuple"),
        (lambda _: None, "must return one tensor .*NoneType"),
    ],
    ids=["whole numbers", "bits", "complex", "two", "none"],
)
def test_an_output_that_is_not_of_real_numbers_is_refused(monkeypatch, x, end, message, large):
    if large:
        monkeypatch.setattr(target_module, "LARGE", 0)
    words = {"mode": "multiclass_classification", "return_type": "raw"}
    with pytest.raises(gf.UnsupportedError, match=message):
        Target(_Ending(end), x, RING, 1, **words)
    for method in ("kec", "gnnexplainer"):
        with pytest.raises(gf.UnsupportedError, match=message):
            gf.explain(_Ending(end), Data(x=x, edge_index=RING), 1, method=method, **words)
