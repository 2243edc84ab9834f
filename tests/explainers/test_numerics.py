"""Numbers that are tiny, huge or of another type: a finite explanation or an error in one line, and nothing else."""

import itertools
import math

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

import graphfaith as gf
from explaining import METHODS, explainer_of

EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
NEARS = [
    "U(A,0.5)",
    "B(A,1)",
    "U(A,1e-20)",
    "U(A,1e30)",
    "U(A,1e300)",
    "U(X,0.3r)",
    "U(X,1e30r)xU(A,1e30)",
    "U(X,1e300r)",
]
FEATURES = {"usual": 1.0, "zero": 0.0, "subnormal": 1e-42, "tiny": 1e-30, "large": 1e18, "huge": 1e30}
WIDE = {"tiny": 1e-200, "subnormal": 1e-310, "huge": 1e200}  # in double precision
FAMILIES = [GCN, GIN, GAT, GraphSAGE]


def features(scale, dtype=torch.float32, seed=0):
    drawn = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (drawn * scale).to(dtype)


def model_of(family, dtype=torch.float32):
    torch.manual_seed(0)
    return family(3, 4, num_layers=2, out_channels=3).to(dtype).eval()


def outcome(model, x, algorithm, near):
    """Return the error in place of an explanation, or None after checking that the explanation is finite."""
    explainer = explainer_of(model, algorithm)
    try:
        explanation = explainer(x, EDGES, index=2)
        score = gf.general_unfaithfulness(explainer, explanation, near, num_samples=10)
    except gf.GraphfaithError as error:
        failure = error
    else:
        failure = None
    if failure is not None:
        assert "\n" not in str(failure)
        return failure
    for name in ("node_mask", "edge_mask", "self_loop_score"):
        assert torch.isfinite(explanation[name]).all(), name
    numbers = [score.value, score.stderr, score.delta_zero, score.relative_stderr]
    if explanation.get("in_sample_error") is not None:
        numbers.append(explanation.in_sample_error)
    if explanation.get("estimate") is not None:
        numbers += [explanation.estimate.value, explanation.estimate.stderr, explanation.estimate.relative_stderr]
    assert all(map(math.isfinite, numbers)), numbers
    assert not math.isnan(score.relative)
    return None


@pytest.mark.parametrize("name", METHODS)
def test_an_explanation_is_finite_or_an_error_says_why(name):
    kinds = [(torch.float32, scale) for scale in FEATURES.values()]
    kinds += [(torch.float64, scale) for scale in WIDE.values()] + [(torch.float16, 1.0), (torch.float16, 1e-6)]
    finite, method = 0, list(METHODS).index(name)
    # Every fifth pair of features and a neighbourhood is tried, others for each method, and the families in turn.
    for place, ((dtype, scale), near) in enumerate(itertools.product(kinds, NEARS)):
        if place % 5 == method % 5:
            family = FAMILIES[place % len(FAMILIES)]
            finite += outcome(model_of(family, dtype), features(scale, dtype), METHODS[name](near), near) is None
    assert finite >= 3


def test_a_huge_neighbourhood_is_explained():
    x, near = features(1.0), "U(X,1e30r)xU(A,1e30)"
    assert outcome(model_of(GCN), x, gf.AnchoredKEC(near, num_samples=30), near) is None


@pytest.mark.parametrize("kind", ["attributes", "object", "common_attributes"])
def test_a_score_that_is_infinite_is_named(kind):
    # p's slope at features of 1e-42 is about 1e42, which is too large for single precision.
    model, x = model_of(GIN), features(1e-42)
    call = explainer_of(model, gf.KEC("U(A,0.5)", num_samples=16, solver="ridge"), node=kind)
    entry = {"attributes": "node 2, feature 0", "object": "node 2", "common_attributes": "feature 0"}[kind]
    with pytest.raises(
        gf.ModelError, match=rf"KEC, explaining node 2: the score of {entry} is (-?inf|nan) in torch.float32"
    ):
        call(x, EDGES, index=2)
    double = explainer_of(model_of(GIN, torch.float64), gf.KEC("U(A,0.5)", num_samples=16, solver="ridge"), node=kind)
    assert torch.isfinite(double(x.double(), EDGES, index=2).node_mask).all()


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_delta_of_tiny_and_huge_outputs_scales_with_them(scale):
    class Scaled(torch.nn.Module):
        def __init__(self, by):
            super().__init__()
            self.gcn, self.by = model_of(GCN, torch.float64), by

        def forward(self, x, edge_index, edge_weight=None):
            return self.gcn(x, edge_index, edge_weight) * self.by

    x, scores = features(1.0, torch.float64), []
    for by in (1.0, scale):
        call = explainer_of(Scaled(by), gf.Saliency())
        scores.append(gf.general_unfaithfulness(call, call(x, EDGES, index=2), "U(A,0.5)", num_samples=30))
    plain, scaled = scores
    assert scaled.relative == pytest.approx(plain.relative, rel=1e-9)
    assert scaled.relative_stderr == pytest.approx(plain.relative_stderr, rel=1e-6)
    assert scaled.value / scale / scale == pytest.approx(plain.value, rel=1e-9)
    assert scaled.stderr / scale / scale == pytest.approx(plain.stderr, rel=1e-6)
    for by, message in ((1e-200, "square double precision cannot hold"), (1e250, "scale it|cannot hold")):
        call = explainer_of(Scaled(by), gf.Saliency())
        with pytest.raises(gf.ModelError, match=message):
            gf.general_unfaithfulness(call, call(x, EDGES, index=2), "U(A,0.5)", num_samples=30)


@pytest.mark.parametrize("name", ["gnnexplainer", "gnnexplainer-soft", "pgexplainer"])
def test_masks_are_not_learnt_in_half_precision(name):
    model, x = model_of(GCN, torch.float16), features(1.0, torch.float16)
    with pytest.raises(
        gf.UnsupportedError, match=r"learns masks in single precision.*model\.float\(\) and x\.float\(\)"
    ):
        explainer_of(model, METHODS[name]())(x, EDGES, index=2)
    assert outcome(model.float(), x.float(), METHODS[name](), "U(A,0.5)") is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64])
def test_features_of_another_type_are_refused_before_the_model_runs(dtype):
    model, x = model_of(GCN), features(1.0).abs().to(dtype)
    ran = []
    model.register_forward_pre_hook(lambda *_: ran.append(1))
    if dtype != torch.bfloat16:  # explain converts the precision of real numbers
        with pytest.raises(gf.InputError, match=rf"got {dtype}\): pass x\.float\(\)"):
            gf.explain(model, Data(x=x, edge_index=EDGES), 2)
    with pytest.raises(gf.InputError, match=rf"got {dtype}\): pass x\.float\(\)"):
        gf.explain_nodes(explainer_of(model, gf.Saliency()), x, EDGES, [2])
    algorithm = gf.Saliency()
    explainer_of(model, algorithm, kind="phenomenon")
    with pytest.raises(gf.InputError, match=rf"got {dtype}\): pass x\.float\(\)"):
        algorithm(model, x, EDGES, target=torch.zeros(6, dtype=torch.long), index=2)
    assert not ran


@pytest.mark.parametrize(("near", "dtype"), [("U(A,1e39)", torch.float32), ("U(A,1e5)", torch.float16)])
def test_weights_stay_within_their_precision(near, dtype):
    call = explainer_of(model_of(GIN, dtype), gf.KEC(near, num_samples=5))
    with pytest.raises(gf.InputError, match="sigma is too large for weights in"):
        call(features(1.0, dtype), EDGES, index=2)


def test_features_stay_within_their_precision():
    call = explainer_of(model_of(GIN), gf.KEC("U(X,1e39r)", num_samples=5))
    with pytest.raises(
        gf.InputError, match=r"sigma r, with r = max\(X\) - min\(X\) = .* is too large for torch.float32"
    ):
        call(features(1.0), EDGES, index=2)


class Binary(GCN):
    """A classifier with two classes and one number a row."""

    def forward(self, x, edge_index, edge_weight=None):
        return super().forward(x, edge_index, edge_weight).sigmoid()


@pytest.mark.parametrize("method", ["gnnexplainer", "gnnexplainer-soft", "pgexplainer"])
def test_masks_of_a_binary_model_are_learnt_in_its_own_precision(method):
    torch.manual_seed(0)
    model = Binary(3, 4, num_layers=2, out_channels=1)
    words = {"mode": "binary_classification", "return_type": "probs", "method": method, "test_samples": 60}
    single = gf.explain(model, Data(x=features(1.0), edge_index=EDGES), 2, **words)
    double = gf.explain(model.double(), Data(x=features(1.0, torch.float64), edge_index=EDGES), 2, **words)
    assert double.unfaithfulness.value == pytest.approx(single.unfaithfulness.value, rel=1e-3)
    torch.testing.assert_close(double.edge_mask.float(), single.edge_mask.float(), rtol=1e-3, atol=1e-3)


class Constant(GCN):
    def forward(self, x, edge_index, edge_weight=None):
        return torch.zeros_like(super().forward(x, edge_index, edge_weight))


def test_masks_are_not_learnt_from_an_output_without_a_derivative():
    model = Constant(3, 4, num_layers=2, out_channels=3)
    for method in ("gnnexplainer", "gnnexplainer-soft"):
        with pytest.raises(gf.ModelError, match="learns its masks by derivatives, and the output of Constant has none"):
            gf.explain(model, Data(x=features(1.0), edge_index=EDGES), 2, method=method)
