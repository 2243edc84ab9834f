"""Hinges: found where F has kinks, flat at the graph, better than a polynomial for a ReLU network, and saved."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.explain import Explainer
from torch_geometric.nn import SAGEConv

import graphfaith as gf
from graphfaith._base.errors import InputError, ModelError
from graphfaith.explanation.soundness import check_model
from graphfaith.metric import unfaithfulness_of
from graphfaith.sampling.neighborhood import as_neighborhood
from graphfaith.surrogate.hinges import LINES, LOOKS, MOST, TURNS, Hinges, find_hinges
from graphfaith.surrogate.sensitivity import gradients_at
from graphfaith.surrogate.terms import BLOCKS

CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
WITH = (*BLOCKS, "hinges")
WIDTH = 40


class Units(torch.nn.Module):
    """F = sum_j c_j relu(w_j . x - b_j) of a node's own features, and a little of a linear layer."""

    def __init__(self, shift=(0.3, -0.5, 0.8)):
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.units = torch.nn.Parameter(torch.randn(3, WIDTH, generator=generator, dtype=torch.float64))
        self.signs = torch.nn.Parameter(torch.tensor([1.0, -2.0, 1.5], dtype=torch.float64))
        self.shift = torch.tensor(shift, dtype=torch.float64)
        self.conv = SAGEConv(WIDTH, 2).double()

    def forward(self, x, edge_index):
        own = ((x @ self.units.T - self.shift).relu() @ self.signs).unsqueeze(1)
        return self.conv(x, edge_index) * 0.01 + own


class Network(torch.nn.Module):
    """Two layers of means with ReLU between them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = SAGEConv(WIDTH, 6).double(), SAGEConv(6, 3).double()

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def graph():
    """A ring; the features of node 2 are small, so that its units switch nearby."""
    x = 0.2 * torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(3)).double()
    x[2] *= 0.1
    return x, torch.tensor([[0, 1, 2, 3, 4, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 0, 1, 2, 3, 4]])


def target_of(model, node=2):
    return gf.Target(model.eval(), *graph(), node)


def hinges_of(target, near="U(X,0.5r)"):
    return at_samples(target, as_neighborhood(near).sample(target.computation_graph, 17, 0))


def at_samples(target, samples):
    return find_hinges(target, samples, gradients_at(target, samples))


def test_the_units_of_a_network_are_found_where_they_switch():
    model = Units()
    target = target_of(model)
    found = hinges_of(target)
    assert found is not None
    own = target.computation_graph.x[0]  # the explained node comes first
    for unit, sign, shift in zip(model.units.detach(), model.signs.detach(), model.shift, strict=True):
        direction = sign * unit
        # A line that crosses from the other side sees the unit with the other sign: it is the same hinge.
        turned = torch.sign(found.along_x[:, 0] @ direction)
        far = (turned.unsqueeze(1) * found.along_x[:, 0] - direction).norm(dim=1) / direction.norm()
        place = int(far.argmin())
        assert float(far[place]) < 1e-6
        assert float(found.side[place]) == float(sign.sign())
        level = float(direction @ own - sign * shift)
        assert float(turned[place] * found.level[place]) == pytest.approx(level, abs=1e-6)
    assert float(found.along_x[:, 1:].abs().max()) < 1e-6  # No other node has units of its own here.


def test_few_looks_and_few_hinges(monkeypatch):
    """The gradients at the samples are known: F is differentiated at no more points than there may be looks."""
    target, asked = target_of(Network()), []
    samples = as_neighborhood("U(X,0.5r)xU(A,0.5)").sample(target.computation_graph, 17, 0)
    known, plain = gradients_at(target, samples), gf.Target.gradients
    monkeypatch.setattr(gf.Target, "gradients", lambda self, x, a: asked.append(len(x)) or plain(self, x, a))
    found = find_hinges(target, samples, known)
    assert 0 < sum(asked) <= TURNS * LOOKS
    assert 12 < len(found) <= MOST


def test_units_that_are_told_apart_look_elsewhere():
    """Every line crosses the units, and a unit is one hinge: no two are the same function."""
    found = hinges_of(target_of(Units()))
    flat = torch.nn.functional.normalize(found.along_x.flatten(1), dim=1)
    same_side = found.side.unsqueeze(1) == found.side
    alike = ((flat @ flat.T).abs() >= 0.97) & same_side
    assert int(alike.sum()) == len(found)
    assert len(found) < LINES


class Curved(torch.nn.Module):
    """F bends everywhere, and has no kinks."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(WIDTH, 2).double()

    def forward(self, x, edge_index):
        return self.conv(x, edge_index) + x.square().sum(dim=1, keepdim=True)


def test_hinges_do_no_harm_where_f_bends_without_a_kink():
    target, near = target_of(Curved()), "U(X,0.5r)"
    models = [gf.AnchoredKEC(near, blocks=blocks).fit(target) for blocks in (BLOCKS, WITH)]
    without, hinged = unfaithfulness_of(target, models, near)
    assert hinged.value <= 1.05 * without.value


def test_terms_follow_their_equation():
    """h(X - eps_X, A - eps_A), written out for each sample and hinge, with hinges of all four kinds."""
    target, near = target_of(Network()), as_neighborhood("U(X,0.5r)xU(A,0.5)")
    samples = near.sample(target.computation_graph, 30, 3)
    draw = torch.Generator().manual_seed(1)
    along_x, along_a = (
        torch.randn(4, *eps.shape[1:], generator=draw, dtype=torch.float64) for eps in (samples.features, samples.edges)
    )
    level, side = torch.tensor([2.0, -2.0, 2.0, -2.0]).double(), torch.tensor([1.0, 1.0, -1.0, -1.0]).double()
    weights = torch.tensor([1.0, 0.5, 2.0, -1.0]).double()
    hinges = Hinges(along_x, along_a, level, side, weights, torch.zeros(4).double())

    def h(moved, j):
        on = float(side[j] * level[j] > 0)
        after = level[j] - moved
        return side[j] * max(0.0, side[j] * after) - on * after

    for s in range(30):
        total = 0.0
        for j in range(4):
            moved = (along_x[j] * samples.features[s]).sum() + (along_a[j] * samples.edges[s]).sum()
            lost = float(h(0.0, j) - h(moved, j))
            assert float(hinges.terms(samples)[0][s, j]) == pytest.approx(lost, abs=1e-9)
            total += float(weights[j]) * lost
        assert float(hinges.change(samples)[s]) == pytest.approx(total, abs=1e-9)


def test_every_hinge_has_a_direction_in_a_if_edges_move():
    target = target_of(Network())
    found = hinges_of(target, "U(X,0.5r)xU(A,0.5)")
    assert float(found.along_a.abs().sum(dim=1).min()) > 1e-4
    assert hinges_of(target).along_a is None


def test_there_are_no_hinges_where_f_is_linear_or_only_edges_move():
    assert hinges_of(target_of(Units(shift=(-1e3, -1e3, -1e3)))) is None  # Every unit is on everywhere.
    p = gf.AnchoredKEC("U(A,0.5)", blocks=WITH).fit(target_of(Network()))
    assert p.hinges is None


def test_p_has_hinges_only_if_it_is_asked_for_them():
    target = target_of(Network())
    assert gf.AnchoredKEC("U(X,0.5r)").fit(target).hinges is None
    assert gf.AnchoredKEC("U(X,0.5r)", blocks=WITH).fit(target).hinges is not None
    with pytest.raises(InputError, match="hinges"):
        gf.AnchoredKEC("U(X,0.5r)", blocks=["hinge"])


@pytest.mark.parametrize(("near", "times"), [("U(X,0.5r)", 10.0), ("U(X,0.5r)xU(A,0.5)", 1.5)])
def test_hinges_leave_less_of_a_network_with_activations(near, times):
    target = target_of(Network())
    models = [gf.AnchoredKEC(near, blocks=blocks).fit(target) for blocks in (BLOCKS, WITH)]
    without, hinged = unfaithfulness_of(target, models, near)
    assert times * hinged.relative < without.relative
    assert models[1].estimate.relative == pytest.approx(hinged.relative, rel=1.0)


def test_hinges_are_flat_at_the_graph_and_have_the_mean_slope_of_the_samples():
    target, near = target_of(Network()), as_neighborhood("U(X,0.5r)xU(A,0.5)")
    p = gf.AnchoredKEC(near, blocks=WITH).fit(target)
    hinges = p.hinges
    samples = near.sample(target.computation_graph, 20, 3)
    tiny = replace(samples, features=samples.features * 1e-7, edges=samples.edges * 1e-7)
    assert float(hinges.change(tiny).abs().max()) < 1e-15
    # The slope of the change for eps, summed over the samples, by automatic differentiation.
    eps, of_edges = (one.clone().requires_grad_() for one in (samples.features, samples.edges))
    hinges.change(replace(samples, features=eps, edges=of_edges)).sum().backward()
    switched = hinges.terms(samples)[1].mean(dim=0)
    of_x, of_a = replace(hinges, switched=switched).mean_gradient()
    assert torch.allclose(eps.grad.sum(dim=0), 20 * of_x, atol=1e-9)
    assert torch.allclose(of_edges.grad.sum(dim=0), 20 * of_a, atol=1e-9)
    assert float(of_a.abs().max()) > 0
    kept = p.mean_gradient(None, None)[0] - replace_hinges(p, None).mean_gradient(None, None)[0]
    assert torch.allclose(kept, hinges.mean_gradient()[0], atol=1e-12)


def replace_hinges(p, hinges):
    """The same p with other hinges."""
    other = object.__new__(type(p))
    vars(other).update(vars(p) | {"hinges": hinges})
    return other


def test_an_explanation_with_hinges_is_the_same_after_it_was_saved(tmp_path):
    model, target = Network(), target_of(Network())
    explainer = Explainer(
        model.eval(),
        algorithm=gf.AnchoredKEC("U(X,0.5r)", blocks=WITH),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=CONFIG,
    )
    explanation = explainer(*graph(), index=2)
    gf.save(explanation, tmp_path / "hinges.safetensors")
    again = gf.load(tmp_path / "hinges.safetensors").difference_model
    samples = as_neighborhood("U(X,0.5r)").sample(target.computation_graph, 10, 7)
    assert again.hinges is not None
    assert torch.equal(again.change(samples), explanation.difference_model.change(samples))
    for broken in (
        replace(again.hinges, level=again.hinges.level[:-1]),
        replace(again.hinges, along_x=again.hinges.along_x[:, :-1]),
        replace(again.hinges, along_a=torch.zeros(1, 1, dtype=torch.float64)),
        replace(again.hinges, weights=again.hinges.weights.float()),
        "none",
    ):
        with pytest.raises(InputError, match="difference model"):
            check_model(replace_hinges(again, broken))


def test_lines_on_which_f_is_not_finite_are_left_alone(monkeypatch):
    """Of hinges, what is known from the samples is all if F is not a number at the first points that are looked at."""
    target = target_of(Network())
    samples = as_neighborhood("U(X,0.5r)").sample(target.computation_graph, 17, 0)
    known, many = gradients_at(target, samples), find_hinges(target, samples, gradients_at(target, samples))

    def fail(*_):
        raise ModelError("not finite")

    monkeypatch.setattr(gf.Target, "gradients", fail)
    few = find_hinges(target, samples, known)
    assert 0 < len(few) <= LINES
    assert len(few) < len(many)
    known[1][3, 0, 0] = float("nan")
    assert len(find_hinges(target, samples, known)) <= len(few)


def test_the_same_seed_finds_the_same_hinges_however_much_fits_in_memory():
    target = target_of(Network())
    many, few = (gf.AnchoredKEC("U(X,0.5r)", blocks=WITH, max_memory=memory).fit(target) for memory in (None, "60 MB"))
    assert torch.equal(many.hinges.level, few.hinges.level)
    assert torch.allclose(many.hinges.weights, few.hinges.weights, rtol=1e-9)
