"""AnchoredKEC: its p, its fit, what it says of itself, and when it falls back."""

from __future__ import annotations

import logging
import math
import pickle
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn import GAT, GCN, GIN, GraphConv, GraphSAGE, global_mean_pool

import graphfaith as gf
from conftest import needs_data
from explaining import explain, explainer_of
from graphfaith._base import memory
from graphfaith.data.models import load_trained
from graphfaith.facade import compare
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.model import target as target_module
from graphfaith.model.target import Target
from graphfaith.sampling.perturbations import Perturbations
from graphfaith.surrogate import terms
from graphfaith.surrogate.attention import find_attention
from graphfaith.surrogate.readings import estimate_scores
from graphfaith.surrogate.sensitivity import Sensitivity, gradients_at
from reference import cases, make_case

NEIGHBORHOODS = ["U(A,0.5)", "B(A,0.5)", "U(X,0.3r)", "U(X,0.3r)xU(A,0.5)", "U(X,0.3r)xB(A,0.3)"]


def target_of(case, seeds=(), **kwargs):
    index = torch.tensor(seeds) if len(seeds) else case.node
    return Target(case.model, case.x, case.edge_index, index, case.label, **case.kwargs, **kwargs)


def moves(case, text):
    return not gf.parse_neighborhood(text).perturbs_features or float(case.x.max() - case.x.min()) > 0


# p ------------------------------------------------------------------------------------------------------------------


def plain_change(p, sample):
    """p(X, A) - p(X - eps_X, A - eps_A) from the formula of AnchoredModel, with dense matrices."""
    part, hops = p.graph, p.num_hops
    x0, a0 = part.x.double(), part.weight.double()

    def value(x, a):
        n, (source, sink) = part.num_nodes, part.edge_index
        matrix = torch.zeros(n * n, dtype=torch.float64).index_add(0, sink * n + source, a).view(n, n)
        total = matrix.sum(dim=1)
        inverse = torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0)
        core = {
            "symmetric": inverse.sqrt()[:, None] * matrix * inverse.sqrt(),
            "row": inverse[:, None] * matrix,
            "none": matrix,
        }[p.normalization]
        row, c = torch.zeros(n, dtype=torch.float64), core.sum(dim=1)
        row[part.seeds] = part.e
        found = row @ x @ p.weights[0]
        for k in range(hops):
            found = found + sum(p.degree_weights[k, j - 2] * (row @ c**j) for j in (2, 3))
            row = row @ core
            found = found + row @ x @ p.weights[k + 1]
        dx, da = x0 - x, a0 - a
        z = torch.zeros(len(p.bend), dtype=torch.float64)
        for along, moved in ((p.along_x, dx), (p.along_a, da)):
            if along is not None:
                z = z + (along.double() * moved).flatten(1).sum(dim=1)
        bent = p.stiffness[0] * dx.square().sum() + p.stiffness[1] * da.square().sum() + 0.5 * z @ p.bend @ z
        found = found + (p.phi_x.double() * x).sum() + (p.phi_a.double() * a).sum() - bent
        return found if p.hinges is None else found + hinged(dx, da)

    def hinged(dx, da):
        one = p.hinges
        moved = (one.along_x.double() * dx).flatten(1).sum(dim=1)
        if one.along_a is not None:
            moved = moved + one.along_a @ da
        bent = one.side * (one.side * (one.level - moved)).clamp(min=0)
        return one.weights @ (bent - (one.side * one.level > 0) * (one.level - moved))

    xs = [x0] * len(sample) if sample.x is None else sample.x.double()
    weights = [a0] * len(sample) if sample.weight is None else sample.weight
    return torch.stack([value(x0, a0) - value(x, a) for x, a in zip(xs, weights, strict=True)])


@given(
    case=cases,
    seeds=st.lists(st.integers(0, 8), max_size=3),
    kind=st.sampled_from(["symmetric", "row", "none", "auto"]),
    text=st.sampled_from(NEIGHBORHOODS),
)
def test_change_and_gradient_are_those_of_the_formula(case, seeds, kind, text):
    if not moves(case, text):
        return
    target = target_of(case, [node % len(case.x) for node in seeds])
    p = gf.AnchoredKEC(text, num_samples=60, normalization=kind, blocks=terms.ALL_BLOCKS).fit(target)
    part = target.computation_graph
    for other in (text, "U(A,0.3)"):
        sample = gf.parse_neighborhood(other).sample(part, 6, seed=4)
        expected = plain_change(p, sample)
        scale = 1e-8 * max(1.0, float(expected.abs().max()), *(float(w.abs().max()) for w in (p.weights, p.phi_a)))
        tolerance = scale if part.x.dtype == torch.float64 else 1e4 * scale
        torch.testing.assert_close(p.change(sample), expected, rtol=1e-8, atol=tolerance)
    dx, da = p.gradient()
    step = 1e-5
    entries = torch.diag(step * part.felt.double())
    if bool((part.weight > 2 * step).all()):
        moved = [p.change(Perturbations(part, None, sign * entries)) for sign in (1, -1)]
        size = max(1.0, float(da.abs().max()), float(p.weights.abs().max()), float(p.degree_weights.abs().max()))
        torch.testing.assert_close((moved[0] - moved[1]) / (2 * step), da, rtol=1e-4, atol=1e-5 * size)
    numbers = torch.zeros(part.num_visible, *part.x.shape, dtype=torch.float64)
    numbers[torch.arange(part.num_visible), torch.arange(part.num_visible), 0] = step
    moved = [p.change(Perturbations(part, sign * numbers, None)) for sign in (1, -1)]
    size = max(1.0, float(dx.abs().max()))
    torch.testing.assert_close(
        (moved[0] - moved[1]) / (2 * step), dx[: part.num_visible, 0], rtol=1e-4, atol=1e-5 * size
    )
    assert not dx[part.num_visible :].any()
    assert not da[~part.felt].any()


def test_of_several_n_the_fitting_one_is_taken():
    """Sums over neighbours, nothing between them: exact with N = A, and with no other."""
    case = make_case(seed=5, nodes=12, edges=40, features=4, weighted=False)

    class Sums(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second = GraphConv(4, 6), GraphConv(6, 3)

        def forward(self, x, edge_index, edge_weight=None):
            return self.second(self.first(x, edge_index, edge_weight), edge_index, edge_weight)

    target = Target(Sums().double(), case.x, case.edge_index, 3, 1)
    blocks = ["khop"]  # with a curvature a sum of two steps is exact whatever N is
    p = gf.AnchoredKEC("U(A,0.5)", num_samples=200, blocks=blocks).fit(target)
    assert p.normalization == "none"
    others = [
        gf.AnchoredKEC("U(A,0.5)", num_samples=200, blocks=blocks, normalization=n).fit(target)
        for n in ("symmetric", "row")
    ]
    assert p.estimate.relative < 0.1 * min(other.estimate.relative for other in others)


def test_a_linear_network_is_followed_exactly():
    """A chain of convolutions without anything between them is a sum of e^T N(A)^k X w_k."""
    case = make_case(seed=5, nodes=12, edges=40, features=4)
    model = GCN(4, 6, 2, out_channels=3, act=None).double().eval()
    target = Target(model, case.x, case.edge_index, 3, 1)
    for text in ("U(A,0.5)", "B(A,0.5)", "U(X,0.3r)xU(A,0.5)"):
        p = gf.AnchoredKEC(text, num_samples=200).fit(target)
        assert p.chosen == "anchored"
        assert unfaithfulness_of(target, [p], text, num_samples=200)[0].relative < 1e-6
        assert p.estimate.relative < 1e-6


# The fit --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", NEIGHBORHOODS)
def test_the_estimate_is_that_of_fits_without_each_sample(text):
    """The whole of it by hand: one fit for each sample that is left out, with the penalty that was chosen."""
    target = target_of(make_case(seed=8, nodes=14, edges=60))
    algorithm = gf.AnchoredKEC(text, num_samples=48)
    # The core fits the same p, but does not show what it has solved.
    outside = mock.patch.object(gf.AnchoredKEC, "_fit_in_core", return_value=None)
    with mock.patch.object(terms, "ridge", wraps=terms.ridge) as solved, outside:
        p = algorithm.fit(target)
    (phi, change), count = [part.numpy() for part in solved.call_args.args], 48 - 4
    found = terms.ridge(*solved.call_args.args)
    assert len(phi) == count
    left = []
    for sample in range(count):
        others = np.arange(count) != sample
        normal = phi[others].T @ phi[others] + count * found.penalty * np.eye(phi.shape[1])
        left.append(phi[sample] @ np.linalg.solve(normal, phi[others].T @ change[others]) - change[sample])
    np.testing.assert_allclose(found.left_out_residual, left, rtol=1e-4, atol=1e-8 * np.abs(change).max())
    if p.chosen == "anchored":
        assert p.estimate.value == pytest.approx(np.mean(np.square(left)), rel=1e-4)
        assert p.estimate.relative == pytest.approx(np.mean(np.square(left)) / np.mean(change**2), rel=1e-4)
    assert p.estimate.num_samples == count
    assert p.fit_samples == 48


def test_the_change_on_the_fit_samples_is_what_was_solved_for():
    """p as an object and p as columns of the regression are one function."""
    target = target_of(make_case(seed=8, nodes=14, edges=60))
    for text in NEIGHBORHOODS:
        near = gf.parse_neighborhood(text)
        p = gf.AnchoredKEC(near, num_samples=48).fit(target)
        numbers = np.delete(np.arange(48), np.arange(0, 48, 12))
        sample = near.numbered(target.computation_graph, numbers, 0)
        error = float((p.change(sample) - target.changes(sample)).square().mean())
        assert error == pytest.approx(p.in_sample_error, rel=1e-6)


def test_more_terms_than_samples_do_not_fool_it():
    """With a handful of samples any fit passes through them; the estimate has to know."""
    target = target_of(make_case(seed=8, nodes=14, edges=60))
    near, ratios = gf.BernoulliEdges(0.5), []
    for seed in range(20):
        p = gf.AnchoredKEC(near, num_samples=12, seed=seed).fit(target)
        held_out = unfaithfulness_of(target, [p], near, num_samples=300, seed=1000)[0]
        ratios.append((p.estimate.value, held_out.value))
        assert held_out.relative < 3
    estimates, found = np.array(ratios).mean(axis=0)
    assert 0.3 < estimates / found < 3


class Switch(torch.nn.Module):
    """A model with a chosen answer as a function of the sum of the in-weights of each node."""

    def __init__(self, function):
        super().__init__()
        self.function, self.conv = function, GCN(1, 1, 1)

    def forward(self, x, edge_index, edge_weight=None):
        weight = x.new_ones(edge_index.size(1)) if edge_weight is None else edge_weight
        total = x.new_zeros(len(x)).index_add(0, edge_index[1], weight)
        return torch.stack([self.function(total), 0 * total], dim=1) + 0 * self.conv(x, edge_index, weight)


STAR = torch.tensor([[1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])


def test_it_falls_back_to_the_gradient_where_that_is_exact():
    model = Switch(lambda total: 2 * total).double()
    target = Target(model, torch.ones(6, 1).double(), STAR, 0, 0)
    p = gf.AnchoredKEC("U(A,0.5)", num_samples=100, blocks=["degrees"]).fit(target)
    assert p.chosen == "saliency"
    dx, da = p.gradient()
    expected = target.gradient()
    torch.testing.assert_close(da, expected[1].double())
    torch.testing.assert_close(dx, expected[0].double())
    assert p.estimate.relative == pytest.approx(0, abs=1e-12)


def test_it_falls_back_to_nothing_where_nothing_follows():
    """Noise that no term can foresee: p = 0 has the least leave-one-out error."""

    def noise(total):
        return torch.sin(1e6 * torch.pi * total.detach()) + 0 * total

    model = Switch(noise).double()
    target = Target(model, torch.ones(6, 1).double(), STAR, 0, 0)
    assert abs(target.value) < 1e-6  # so that the noise has no mean, which a curvature would follow
    fits = [gf.AnchoredKEC("U(A,0.5)", num_samples=120, seed=seed).fit(target) for seed in range(12)]
    assert [p.chosen for p in fits].count("zero") >= 3
    for p in fits:
        assert 0.9 <= p.estimate.relative <= 1
        assert unfaithfulness_of(target, [p], "U(A,0.5)", num_samples=300, seed=99)[0].relative < 1.15


def test_a_constant_model_has_a_p_of_nothing():
    model = Switch(lambda total: 0 * total + 3).double()
    target = Target(model, torch.ones(6, 1).double(), STAR, 0, 0)
    for text in ("U(A,0.5)", "B(A,0.5)"):
        p = gf.AnchoredKEC(text, num_samples=50).fit(target)
        assert p.chosen == "saliency"  # which is nothing as well
        assert p.estimate.relative == 0
        assert not any(part.any() for part in p.gradient())


@given(case=cases, text=st.sampled_from(NEIGHBORHOODS), size=st.integers(1, 30))
def test_chunks_change_nothing(case, text, size):
    if not moves(case, text):
        return
    target = target_of(case)
    whole = gf.AnchoredKEC(text, num_samples=60).fit(target)
    near = gf.parse_neighborhood(text)
    room = size * near.sample_bytes(target.computation_graph, target.unit_width())
    with mock.patch.object(memory, "CHUNK_BYTES", room):
        parts = gf.AnchoredKEC(text, num_samples=60).fit(target_of(case))
    assert parts.chosen == whole.chosen
    exact = case.x.dtype == torch.float64
    assert parts.estimate.value == pytest.approx(whole.estimate.value, rel=1e-5 if exact else 0.05, abs=1e-12)
    for found, expected in zip(parts.gradient(), whole.gradient(), strict=True):
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(found / scale, expected / scale, rtol=0, atol=1e-5 if exact else 0.05)


@pytest.mark.parametrize("text", NEIGHBORHOODS)
def test_seeds_name_the_answer(text):
    case = make_case(seed=21, nodes=14, edges=50)
    scores = [explain(case, gf.AnchoredKEC(text, num_samples=60, seed=seed))[1] for seed in (0, 0, 1)]
    assert torch.equal(scores[0].edge_mask, scores[1].edge_mask)
    assert torch.equal(scores[0].node_mask, scores[1].node_mask)
    assert not torch.equal(scores[0].edge_mask, scores[2].edge_mask)


@pytest.mark.parametrize("count", [1, 2, 3, 11, 13])
@pytest.mark.parametrize("text", NEIGHBORHOODS)
def test_few_samples(count, text):
    target = target_of(make_case(seed=8))
    p = gf.AnchoredKEC(text, num_samples=count).fit(target)
    assert all(bool(torch.isfinite(part).all()) for part in p.gradient())
    assert p.estimate.num_samples == max(1, count - -(-count // 12))
    assert math.isinf(p.estimate.stderr) == (p.estimate.num_samples == 1)


# Gradients ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", NEIGHBORHOODS)
def test_curvature_of_a_quadratic_function_is_found(text):
    """F = g.eps - eps H eps / 2 with H of low rank: gradients at samples show H, and p follows F exactly."""
    case = make_case(seed=8, nodes=10, edges=30)
    target = target_of(case)
    part, near = target.computation_graph, gf.parse_neighborhood(text)
    generator = torch.Generator().manual_seed(0)
    hx, ha = (torch.randn(3, t.numel(), generator=generator, dtype=torch.float64) for t in (part.x, part.weight))
    chunk = near.sample(part, 40)

    def gradients(chunk):
        z = torch.zeros(len(chunk), 3, dtype=torch.float64)
        z = z if chunk.features is None else z + chunk.features.flatten(1).double() @ hx.T
        z = z if chunk.edges is None else z + chunk.edges @ ha.T
        z = torch.cat([torch.zeros(1, 3, dtype=torch.float64), z])
        return (-z @ hx).view(-1, *part.x.shape), -z @ ha

    dx, da = gradients(chunk)
    found = Sensitivity.of(
        target,
        (dx if chunk.features is not None else dx.sum(dim=0), da if chunk.edges is not None else da.sum(dim=0)),
        chunk,
    )
    tested = near.sample(part, 20, seed=5)
    z = found.foreseen(tested)[:, 2:]
    assert z.size(1) == 3
    bent = terms.curvature_of(z, found.bend)
    dx, da = gradients(tested)
    expected = torch.zeros(20, dtype=torch.float64)
    for eps, g in ((tested.features, dx), (tested.edges, da)):
        if eps is not None:
            expected += 0.5 * (eps.double() * g[1:]).flatten(1).sum(dim=1)
    # The ridge on the curvature takes a part of it; how much of the rest to take is up to the fit.
    ratio = float((bent @ expected) / (expected @ expected))
    assert 0.7 < ratio < 1.001
    assert float((bent - ratio * expected).square().mean() / expected.square().mean()) < 1e-2


@pytest.mark.parametrize("text", NEIGHBORHOODS)
def test_gradients_at_samples_are_those_of_each_alone(text):
    target = target_of(make_case(seed=9, nodes=12, edges=40))
    chunk = gf.parse_neighborhood(text).sample(target.computation_graph, 5)
    values, dx, da = gradients_at(target, chunk)
    xs = [None, *([None] * 5 if chunk.x is None else chunk.x)]
    weights = [None, *([None] * 5 if chunk.weight is None else chunk.weight)]
    alone = [target.gradient(x, weight) for x, weight in zip(xs, weights, strict=True)]
    for found, expected, moved in zip((dx, da), zip(*alone, strict=True), (chunk.x, chunk.weight), strict=True):
        stacked = torch.stack(expected)
        torch.testing.assert_close(found, stacked.sum(dim=0) if moved is None else stacked)
    for value, x, weight in zip(values, xs, weights, strict=True):
        torch.testing.assert_close(value, target(x, weight).detach())


def test_the_columns_that_matter():
    """A model that reads two of forty columns: its k-hop features are those."""
    torch.manual_seed(0)
    model = GCN(40, 6, 2, out_channels=3).double().eval()
    with torch.no_grad():
        model.convs[0].lin.weight[:, 2:] = 0
    case = make_case(seed=5, nodes=30, edges=90, features=4)
    x = torch.rand(30, 40).double()
    target = Target(model, x, case.edge_index, 3, 1)
    chunk = gf.UniformEdges(0.5).sample(target.computation_graph, 10)
    columns = Sensitivity.of(target, gradients_at(target, chunk)[1:], chunk).columns
    assert columns.size(1) <= 2
    assert not columns[2:].any()
    torch.testing.assert_close(columns.T @ columns, torch.eye(columns.size(1)).double())


# Other models, other questions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [GAT, GIN, GraphSAGE, GCN])
@pytest.mark.parametrize("text", ["U(A,0.5)", "B(A,0.5)", "U(X,0.3r)xU(A,0.5)"])
def test_any_model(make, text):
    torch.manual_seed(1)
    case = make_case(seed=5, nodes=20, edges=70, features=4, weighted=False)
    model = make(4, 8, 2, out_channels=3).double().eval()
    target = Target(model, case.x, case.edge_index, 3, 1)
    p = gf.AnchoredKEC(text, num_samples=200).fit(target)
    kec, saliency = gf.KEC(text, num_samples=200).fit(target), gf.Saliency().fit(target)
    own, *others = unfaithfulness_of(target, [p, kec, saliency], text, num_samples=300)
    assert own.value <= 1.02 * min(other.value for other in others)


class OfGraphs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net, self.readout = GCN(5, 8, 2), torch.nn.Linear(8, 3)

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        return self.readout(global_mean_pool(self.net(x, edge_index, edge_weight), batch))


class OfLinks(OfGraphs):
    def forward(self, x, edge_index, edge_label_index, edge_weight=None):
        h = self.net(x, edge_index, edge_weight)
        return (h[edge_label_index[0]] * h[edge_label_index[1]]).sum(dim=-1)


@pytest.mark.parametrize("text", ["U(A,0.5)", "B(A,0.5)", "U(X,0.3r)xU(A,0.5)"])
@pytest.mark.parametrize("level", ["nodes", "graph", "edge"])
def test_levels(level, text):
    """Several nodes, a graph, a link: less is left unexplained than by KEC and by the gradient."""
    case = make_case(seed=5, nodes=30, edges=90, features=5, weighted=False)
    model, given, mode = of_nodes, {"index": torch.tensor([1, 4])}, "multiclass_classification"
    if level == "graph":
        model, given = OfGraphs, {"batch": torch.zeros(30, dtype=torch.int64)}
    elif level == "edge":
        model, given, mode = OfLinks, {"edge_label_index": torch.tensor([[0, 3], [5, 9]]), "index": 1}, "regression"
    config = {"mode": mode, "task_level": level.removesuffix("s"), "return_type": "raw"}
    left = []
    for algorithm in (gf.AnchoredKEC(text), gf.KEC(text), gf.Saliency()):
        call = explainer_of(model().double(), algorithm, config=config)
        explanation = call(case.x, case.edge_index, **given)
        left.append(gf.general_unfaithfulness(call, explanation, text, num_samples=300).relative)
        if len(left) == 1:
            assert explanation.normalization == "symmetric"
            assert explanation.estimate.relative == pytest.approx(left[0], rel=0.5)
    assert left[0] < min(left[1:])


def of_nodes():
    torch.manual_seed(0)
    return GCN(5, 8, 2, out_channels=3)


def test_it_says_what_it_knows_of_itself():
    call, explanation = explain(make_case(seed=21), gf.AnchoredKEC("U(A,0.5)", num_samples=60))
    assert explanation.method == "AnchoredKEC"
    assert explanation.neighborhood == "U(A,0.5)"
    assert explanation.fit_samples == 60
    assert explanation.chosen == "anchored"
    assert explanation.normalization == "symmetric"
    assert explanation.estimate.num_samples == 55
    assert explanation.estimate.stderr > 0
    assert call.algorithm.neighborhood == gf.UniformEdges(0.5)


class Hidden(torch.nn.Module):
    """A GCN whose gradient is not to be had, in one of several ways."""

    def __init__(self, how, columns=20):
        super().__init__()
        torch.manual_seed(0)
        self.how, self.net = how, GCN(columns, 6, 2, out_channels=3)

    def forward(self, x, edge_index, edge_weight=None):
        if self.how == "no_grad":
            with torch.no_grad():
                return self.net(x, edge_index, edge_weight)
        if self.how == "detached features":
            x = x.detach()
        if self.how == "features that are not read":
            x = torch.ones_like(x) + 0 * x
        out = self.net(x, edge_index, edge_weight)
        if self.how == "dead":
            out = 0 * out + 3
        if self.how == "undefined":  # the root of 0, wherever an edge into the node was dropped
            weight = x.new_ones(edge_index.size(1)) if edge_weight is None else edge_weight
            rest = x.new_zeros(len(x)).index_add(0, edge_index[1], weight * weight)
            out = out + rest.clamp(max=1e-9).sqrt().unsqueeze(1)
        return out


WAYS = ["no_grad", "detached features", "features that are not read", "dead", "undefined", "nothing"]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("text", NEIGHBORHOODS)
def test_gradients_that_are_not_to_be_had(how, text):
    """The other terms do what they can, and nothing breaks."""
    case = make_case(seed=5, nodes=20, edges=60, features=20, weighted=False)
    target = Target(Hidden(how).double(), case.x, case.edge_index, 3, 1)
    p = gf.AnchoredKEC(text, num_samples=60).fit(target)
    assert p.estimate.relative <= 1
    assert all(bool(torch.isfinite(part).all()) for part in p.gradient())
    assert unfaithfulness_of(target, [p], text, num_samples=100)[0].relative < 1.3


def test_samples_whose_gradient_is_not_finite_are_left_out():
    target = target_of(make_case(seed=9, nodes=12, edges=40))
    chunk = gf.parse_neighborhood("U(X,0.3r)xU(A,0.5)").sample(target.computation_graph, 6)
    _, dx, da = gradients_at(target, chunk)
    da[3, 2], dx[5, 0, 0] = math.nan, math.inf
    found = Sensitivity.of(target, (dx, da), chunk)
    kept = torch.tensor([0, 1, 3, 5])
    expected = Sensitivity.of(target, (dx[[0, 1, 2, 4, 6]], da[[0, 1, 2, 4, 6]]), chunk[kept])
    torch.testing.assert_close(found.along_x, expected.along_x)
    torch.testing.assert_close(found.along_a, expected.along_a)
    torch.testing.assert_close(found.bend, expected.bend)
    nothing = Sensitivity.of(target, (dx * math.nan, da), chunk)
    assert nothing.bend.shape == (0, 0)
    torch.testing.assert_close(nothing.along_a[0], target.gradient()[1])


def test_features_of_zeros():
    case = make_case(seed=5, nodes=20, edges=60, features=20)
    target = Target(case.model, torch.zeros(20, 20).double(), case.edge_index, 3, 1, **case.kwargs)
    assert gf.AnchoredKEC("U(A,0.5)", num_samples=60).fit(target).estimate.relative <= 1


def test_where_nothing_happens_the_gradient_stays():
    """F at a node that hears nobody but itself does not change with A beyond rounding."""
    case = make_case(seed=5, nodes=20, edges=60, features=4, weighted=False)
    target = Target(case.model, torch.cat([case.x, case.x[:1]]), case.edge_index, 20, 1)
    fits = [gf.AnchoredKEC("U(A,0.5)", num_samples=60, seed=seed).fit(target) for seed in range(6)]
    assert {p.chosen for p in fits} == {"saliency"}
    torch.testing.assert_close(fits[0].gradient()[0], target.gradient()[0])


@pytest.mark.parametrize("scale", [1e-15, 1e22])
def test_tiny_and_huge_gradients(scale):
    torch.manual_seed(0)
    case = make_case(seed=5, nodes=20, edges=60, features=12, weighted=False, dtype=torch.float32)

    class Scaled(torch.nn.Module):
        def __init__(self, scale):
            super().__init__()
            torch.manual_seed(0)
            self.scale, self.model = scale, GCN(12, 8, 2, out_channels=3, act=torch.nn.Tanh())

        def forward(self, x, edge_index, edge_weight=None):
            return self.scale * self.model(x, edge_index, edge_weight)

    found = [
        gf.AnchoredKEC("U(A,0.5)", num_samples=100)
        .fit(Target(Scaled(one), case.x, case.edge_index, 3, 1))
        .estimate.relative
        for one in (1.0, scale)
    ]
    assert found[1] == pytest.approx(found[0], rel=0.1)


def test_a_target_can_still_be_derived_twice():
    case = make_case(seed=5, nodes=12, edges=40)
    target = target_of(case)
    weight = target.computation_graph.weight.clone().requires_grad_()
    hessians = []
    for products in (target.call.products, None):
        with mock.patch.object(target.call, "products", products):
            (slope,) = torch.autograd.grad(target(None, weight), weight, create_graph=True)
            hessians.append(torch.autograd.grad(slope.sum(), weight)[0])
    torch.testing.assert_close(*hessians)


def test_a_batch_that_is_wrong_is_not_believed():
    """Gradients come with the graph as it is in front, which has to come out as it does alone."""
    target = target_of(make_case(seed=5, nodes=12, edges=40))
    chunk = gf.UniformEdges(0.5).sample(target.computation_graph, 5)
    expected = gradients_at(target, chunk)
    right = type(target.call).batch
    with mock.patch.object(type(target.call), "batch", lambda *args, **kw: 1.01 * right(*args, **kw)):
        found = gradients_at(target, chunk)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("text", ["B(A,0.5)", "U(X,0.3r)xB(A,0.3)"])
def test_what_dropping_any_edge_does_is_in_the_scores(text):
    """|eps|^2 is linear in what is dropped, so p has the same change with it in Phi_A, and its gradient tells."""
    target = target_of(make_case(seed=8, nodes=14, edges=60))
    near = gf.parse_neighborhood(text)
    p = gf.AnchoredKEC(near, num_samples=100, blocks=["energy", "khop"]).fit(target)
    part = target.computation_graph
    assert p.chosen == "anchored"
    assert p.stiffness[1] == 0
    ratio = p.phi_a.double()[part.felt] / part.weight.double()[part.felt]
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))
    assert abs(float(ratio[0])) > 0
    assert not p.phi_a[~part.felt].any()


# auto -----------------------------------------------------------------------------------------------------------------


def test_auto_stops_when_the_estimate_is_stable():
    target = target_of(make_case(seed=8, nodes=14, edges=60))
    algorithm = gf.AnchoredKEC("B(A,0.5)", num_samples="auto", tolerance=0.02)
    p = algorithm.fit(target)
    assert p.fit_samples in (200, 400, 800, 1600, 3200)
    half = gf.AnchoredKEC("B(A,0.5)", num_samples=p.fit_samples // 2).fit(target)
    assert abs(p.estimate.relative - half.estimate.relative) <= 0.02
    assert p.estimate.relative_stderr <= 0.02
    same = gf.AnchoredKEC("B(A,0.5)", num_samples=p.fit_samples).fit(target)
    assert all(torch.equal(a, b) for a, b in zip(p.gradient(), same.gradient(), strict=True))


@pytest.mark.parametrize(
    ("relative", "errors", "expected"),
    [
        ([0.2, 0.2, 0.2, 0.2], [0.05, 0.03, 0.02, 0.005], 800),  # it no longer moves, but may still be wrong
        ([0.4, 0.3, 0.25, 0.245], [0.001] * 4, 800),  # it is sure of itself, but still moves
        ([0.2, 0.195], [0.005] * 2, 200),
    ],
)
def test_auto_waits_for_the_estimate_and_for_its_error(relative, errors, expected):
    target = target_of(make_case(seed=8))
    rounds = iter(zip(relative, errors, strict=True))

    def fit(_self, _target, count):
        value, error = next(rounds)
        estimate = gf.Unfaithfulness(value, error, value, error, 1.0, count, "B(A,0.5)", 0)
        return mock.Mock(estimate=estimate, fit_samples=count)

    with mock.patch.object(gf.AnchoredKEC, "_fit", fit):
        assert gf.AnchoredKEC("B(A,0.5)", num_samples="auto").fit(target).fit_samples == expected


def test_auto_draws_more_for_a_smaller_tolerance_up_to_the_cap():
    target = target_of(make_case(seed=8, nodes=14, edges=60))
    counts = [
        gf.AnchoredKEC("B(A,0.5)", num_samples="auto", tolerance=tolerance, max_samples=900).fit(target).fit_samples
        for tolerance in (0.5, 1e-9)
    ]
    assert counts == [200, 900]
    assert gf.AnchoredKEC("B(A,0.5)", num_samples="auto", max_samples=50).fit(target).fit_samples == 50


# Options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_samples": 0}, "num_samples must be a whole number of at least 1"),
        ({"num_samples": "many"}, "num_samples must be a whole number of at least 1, or 'auto'"),
        ({"normalization": "column"}, "normalization must be one of symmetric, row, none, auto"),
        ({"tolerance": 0.0}, "tolerance must be"),
        ({"tolerance": float("nan")}, "tolerance must be"),
        ({"max_samples": 0}, "max_samples must be"),
        ({"blocks": ["khop", "magic"]}, "unknown block 'magic': known are khop, degrees"),
        ({"blocks": []}, "at least one block"),
        ({"blocks": "magic"}, "unknown block 'magic'"),
        ({"seed": -1}, "seed"),
        ({"threshold": 1e-4}, "threshold"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises((gf.InputError, TypeError), match=message):
        gf.AnchoredKEC("U(A,0.5)", **options)


def test_memory_is_kept_to():
    case = make_case(seed=8, nodes=14, edges=60)
    with pytest.raises(gf.MemoryLimitError, match="AnchoredKEC on 200 samples for node"):
        explain(case, gf.AnchoredKEC("U(A,0.5)", max_memory=40_000))
    with pytest.raises(gf.MemoryLimitError, match="reading p of AnchoredKEC for node"):
        explain(case, gf.AnchoredKEC("U(A,0.5)", max_memory="400 KB"))
    free = explain(case, gf.AnchoredKEC("U(A,0.5)", reading="slope"))[1]
    tight = explain(case, gf.AnchoredKEC("U(A,0.5)", reading="slope", max_memory="400 KB"))[1]
    torch.testing.assert_close(tight.edge_mask, free.edge_mask, rtol=1e-4, atol=1e-6)


def test_memory_of_attention_is_counted(monkeypatch):
    case, near = make_case(seed=8, nodes=14, edges=60), "U(X,0.2r)xU(A,0.5)"
    torch.manual_seed(0)
    model = GAT(case.x.size(1), 8, num_layers=2, out_channels=3, heads=4).eval().double()
    target = gf.Target(model, case.x, case.edge_index, 0)
    asked, room = [], Target.room
    monkeypatch.setattr(Target, "room", lambda self, *needs: asked.append(needs[:2]) or room(self, *needs))
    for blocks in (terms.BLOCKS, tuple(block for block in terms.BLOCKS if block != "attention")):
        gf.AnchoredKEC(near, reading="slope", blocks=blocks)._chunk_size(target, 200)
    more = tuple(a - b for a, b in zip(*asked, strict=True))
    assert more == find_attention(target).bytes_of(target.computation_graph, 200, terms.SLOPES)
    # A chunk has fewer samples if there is less memory, and p is the same.
    free = gf.AnchoredKEC(near, reading="slope").fit(target)
    assert free.attention is not None
    limit = asked[0][0] + 40 * asked[0][1]
    tight = gf.Target(model, case.x, case.edge_index, 0, max_memory=limit)
    assert 0 < gf.AnchoredKEC(near, reading="slope")._chunk_size(tight, 200) < 60
    for found, wanted in zip(gf.AnchoredKEC(near, reading="slope").fit(tight).gradient(), free.gradient(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("block", terms.BLOCKS)
def test_every_block_can_stand_alone(block, caplog):
    caplog.set_level(logging.WARNING)
    target = target_of(make_case(seed=8, nodes=14, edges=60))
    for text in NEIGHBORHOODS:
        p = gf.AnchoredKEC(text, num_samples=100, blocks=[block]).fit(target)
        assert p.estimate.relative <= 1
        assert p.bend.any() == (block == "curvature" and p.chosen == "anchored")
    assert not caplog.records


# What it is for -------------------------------------------------------------------------------------------------------


@needs_data
def test_it_is_the_lowest_in_every_column_on_cora():
    fit = load_trained("cora", seed=0)
    near = [gf.parse_neighborhood(text) for text in ("U(A,0.5)", "B(A,0.5)", "U(X,0.2r)xU(A,0.2)")]
    methods = ["anchored-kec", "kec", "linear", "saliency", "gnnexplainer-soft"]
    rows = compare(fit.model, fit.data, range(0, 1000, 125), methods=methods, neighborhoods=near, test_samples=200)
    for text in map(str, near):
        found = {row.method: row for row in rows if row.neighborhood == text}
        own = found.pop("anchored-kec")
        assert own.unfaithfulness < min(row.unfaithfulness for row in found.values())
        assert found["kec"].unfaithfulness > 3 * own.unfaithfulness
        assert own.lowest >= 0.8


@pytest.mark.parametrize("text", ["U(A,0.5)", "B(A,0.5)", "U(X,0.3r)", "U(X,0.3r)xU(A,0.5)"])
def test_what_the_neighbourhood_leaves_still_has_the_slope_of_f(text, monkeypatch):
    near = gf.parse_neighborhood(text)
    for seed in range(3):
        target = target_of(make_case(seed=seed, nodes=12, edges=40))
        p, own = gf.AnchoredKEC(text, num_samples=60).fit(target), target.gradient()
        still = [not near.perturbs_features, not near.perturbs_edges]
        for slope, expected, is_still in zip(p.gradient(), own, still, strict=True):
            close = torch.allclose(
                slope.double(), expected.double(), rtol=1e-4, atol=1e-5 * float(expected.abs().max())
            )
            assert close == is_still
        with monkeypatch.context() as patch:
            patch.setattr(terms.Terms, "anchor", lambda *_: None)
            fitted = gf.AnchoredKEC(text, num_samples=60).fit(target)
        sample = near.sample(target.computation_graph, 20, seed=1)
        assert torch.equal(fitted.change(sample), p.change(sample))  # In the neighbourhood nothing has changed.
        assert fitted.estimate == p.estimate


def test_node_scores_in_a_neighbourhood_of_edges_follow_f():
    found = []
    for seed in range(4):
        target = target_of(make_case(seed=seed, nodes=12, edges=40))
        p = gf.AnchoredKEC("U(A,0.5)", num_samples=60).fit(target)
        found.append(unfaithfulness_of(target, [p], "U(X,0.002r)", num_samples=50)[0].relative)
    assert max(found) < 0.05


@pytest.mark.parametrize("text", ["U(A,0.5)", "B(A,0.5)"])
def test_what_the_core_knows_of_the_slope_is_what_p_says_of_it(text):
    case = make_case(nodes=9, edges=30)
    explanation = explain(case, gf.AnchoredKEC(text, num_samples=120, reading="slope"))[1]
    p, near = explanation.difference_model, gf.parse_neighborhood(text)
    again = pickle.loads(pickle.dumps(p))  # without anything that was known, but for the terms of p
    for known, formula in zip(p.gradient(), again.gradient(), strict=True):
        torch.testing.assert_close(known, formula, rtol=1e-9, atol=1e-12)
    told = estimate_scores(again, near, *again.gradient())
    assert explanation.estimate.scores.value == pytest.approx(told.scores.value, rel=1e-9)
    assert explanation.estimate.scores.relative_stderr == pytest.approx(told.scores.relative_stderr, rel=1e-9)


# One call of the model ----------------------------------------------------------------------------------------------


@given(case=cases, near=st.sampled_from(["U(A,0.5)", "B(A,0.5)"]))
def test_gradients_and_changes_are_of_one_call_or_of_two(case, near):
    algorithm, found = gf.AnchoredKEC(near, num_samples=60), []
    for most in (0, 1000):
        with mock.patch.object(target_module, "_TINY", most):
            found.append(algorithm.fit(target_of(case)))
    two, one = found
    assert one.chosen == two.chosen
    for mine, other in zip(one.gradient(), two.gradient(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(one.evidence.change, two.evidence.change, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("most", "calls"), [(1000, 1), (0, 2)])
def test_a_small_graph_takes_one_call_of_the_model(monkeypatch, most, calls):
    monkeypatch.setattr(target_module, "_TINY", most)
    case, called = make_case(nodes=9, edges=30), []

    class Counting(type(case.model)):
        def forward(self, *given, **named):
            called.append(1)
            return super().forward(*given, **named)

    case.model.__class__ = Counting
    algorithm = gf.AnchoredKEC("U(A,0.5)", num_samples=60)
    for _ in range(2):  # What is found out about the model is kept.
        target = target_of(case)
        called.clear()
        assert algorithm.fit(target).chosen == "anchored"
    assert len(called) == calls
