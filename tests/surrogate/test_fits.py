"""AnchoredKEC's p and its shares by the compiled core, against the library's own path through torch.

``anchor_parts`` and ``read_parts`` do at once what that path does one step after the other, so it is their twin.
"""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
import torch
from torch_geometric.nn import GraphConv

import graphfaith as gf
from graphfaith._base import core
from graphfaith.explainers.anchored_kec import AnchoredKEC, split_samples
from graphfaith.model.target import Target
from graphfaith.surrogate import readings
from graphfaith.surrogate.estimate import rounding_square
from graphfaith.surrogate.fits import fit_graph
from graphfaith.surrogate.moves import Moves
from graphfaith.surrogate.readings import draw_changes, read_model, readings_of
from graphfaith.surrogate.sensitivity import slopes_at
from polynomial import both_ways
from reference import TwoLayerGCN, make_case

NEIGHBORHOODS = ["U(A,0.5)", "B(A,0.5)", "B(A,0.3)", "B(A,0.5,paired)"]
EXACT = 1e-9


class TwoGraphConvs(torch.nn.Module):
    """Layers that normalise nothing, or each row, so that all three normalisations are tried."""

    def __init__(self, features, aggr="add"):
        super().__init__()
        self.first, self.second = GraphConv(features, 5, aggr=aggr), GraphConv(5, 3, aggr=aggr)

    def forward(self, x, edge_index, edge_weight=None):
        return self.second(torch.tanh(self.first(x, edge_index, edge_weight)), edge_index, edge_weight)


class Steps(TwoLayerGCN):
    """F goes up and down in steps, so that it has no gradient."""

    def forward(self, x, edge_index, edge_weight=None):
        return torch.round(8 * super().forward(x, edge_index, edge_weight)) + 0 * x.sum()


class Roots(TwoLayerGCN):
    """F has infinite slopes at the graph as it is."""

    def forward(self, x, edge_index, edge_weight=None):
        out = super().forward(x, edge_index, edge_weight)
        return out + torch.sqrt(torch.clamp(1 - edge_weight, min=0)).sum()


def undirected(seed=0, nodes=9, pairs=13, features=4, tail=False):
    """A random undirected graph; with a ``tail``, node 0 has one neighbour."""
    random = np.random.default_rng(seed)
    ends = sorted({tuple(sorted(random.choice(np.arange(tail, nodes), 2, replace=False))) for _ in range(pairs)})
    x = torch.from_numpy(random.normal(size=(nodes, features)))
    return x, both_ways([*ends, *([(0, 1)] if tail else [(0, nodes // 2), (0, nodes - 1)])])


def made(kind, *args, **kwargs):
    torch.manual_seed(5)
    return kind(*args, **kwargs).double().eval()


def weighted(edges, low, high, seed=1):
    weight = np.random.default_rng(seed).uniform(low, high, edges.size(1))
    return {"edge_weight": torch.from_numpy(weight)}


def gcn_of_graph(**options):
    x, edges = undirected(**options)
    return Target(made(TwoLayerGCN, x.size(1)), x, edges, 0, 1)


def gcn_with_loops():
    case = make_case(seed=11, nodes=9, edges=26, loops=True)  # directed, with weights from 0.1 on and parallel edges
    return Target(case.model, case.x, case.edge_index, case.node, case.label, **case.kwargs)


def gcn_with_loops_without_weights():
    x, edges = undirected(4)
    edges = torch.cat([edges, torch.tensor([[0, 3, 4], [0, 3, 4]])], dim=1)
    return Target(made(TwoLayerGCN, 4), x, edges, 0, 1)


def gcn_with_weights(low, high):
    x, edges = undirected(2)
    return Target(made(TwoLayerGCN, 4), x, edges, 0, 1, **weighted(edges, low, high))


def graph_conv(aggr="add", weights=False):
    x, edges = undirected(3)
    model = made(TwoGraphConvs, 4, aggr=aggr)
    return Target(model, x, edges, 0, 1, **(weighted(edges, 0.2, 1.5) if weights else {}))


TARGETS = {
    "gcn": gcn_of_graph,
    "gcn-three-layers": lambda: Target(made(TwoLayerGCN, 4, layers=3), *undirected(7), 0, 1),
    "one-neighbour": lambda: gcn_of_graph(seed=1, tail=True),
    "wide-features": lambda: gcn_of_graph(seed=2, features=12),
    "eight-features": lambda: gcn_of_graph(seed=2, features=8),
    "weights-below-sigma": lambda: gcn_with_weights(0.1, 1.5),
    "weights-above-sigma": lambda: gcn_with_weights(0.6, 2.0),
    "loops": gcn_with_loops,
    "loops-without-weights": gcn_with_loops_without_weights,
    "graph-conv": graph_conv,
    "graph-conv-mean": lambda: graph_conv("mean"),
    "graph-conv-weights": lambda: graph_conv(weights=True),
}


def assert_same(found, right, scale=None):
    """Compare numbers to 1e-9 of the largest of them, or of ``scale`` if what they are made from is larger."""
    found, right = (torch.as_tensor(part, dtype=torch.float64) for part in (found, right))
    size = max(float(right.abs().max()) if right.numel() else 0.0, scale or 0.0)
    torch.testing.assert_close(found, right, rtol=EXACT, atol=EXACT * size)


def assert_same_record(found, right):
    assert (found is None) == (right is None)
    for field in fields(found) if found is not None else ():
        one, other = getattr(found, field.name), getattr(right, field.name)
        if field.name in ("scores", "pairs"):
            assert_same_record(one, other)
        elif isinstance(one, float) and isinstance(other, float):
            # Those of the floor are differences of shares of 1.
            assert one == pytest.approx(other, rel=1e-8, abs=EXACT)
        else:
            assert one == other


def fit_without_core(algorithm, target, count, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(AnchoredKEC, "_fit_in_core", lambda *_: None)
        return algorithm._fit(target, count)


def assert_same_fit(algorithm, target, monkeypatch, count=200):
    """Fit by both ways, compare, and return both p."""
    p, twin = algorithm._fit_in_core(target, count), fit_without_core(algorithm, target, count, monkeypatch)
    assert p is not None
    assert p.chosen == twin.chosen == "anchored"
    assert (p.normalization, p.fit_samples) == (twin.normalization, twin.fit_samples)
    graph, near = target.computation_graph, algorithm.neighborhood
    for other in (near, gf.parse_neighborhood("U(A,0.2)")):
        fresh = other.sample(graph, 50, seed=99)
        assert_same(p.change(fresh), twin.change(fresh))
    for one, other in zip(p.gradient(), twin.gradient(), strict=True):
        assert_same(one, other)
    assert_same(p.in_sample_error, twin.in_sample_error, twin.estimate.delta_zero)
    assert_same_record(p.estimate, twin.estimate)
    for name in ("samples", "change", "left_out", "fitted"):
        assert_same(getattr(p.evidence, name), getattr(twin.evidence, name), float(twin.evidence.change.abs().max()))
    assert p.evidence.noise == twin.evidence.noise
    return p, twin


def assert_same_shares(p, near, monkeypatch):
    """Read p by both ways, and compare."""
    moves, seed = Moves(p.graph, near), 3
    count = readings.count_samples(near, readings._count_entries(near, p.graph), len(moves))
    read = readings._read_in_core(p, moves, count, seed, p.evidence)
    assert read is not None
    shares, draws, _ = read
    plain = draw_changes(p, moves, count, seed)
    assert_same(draws.matrix, plain.matrix)
    assert_same(draws.change, plain.change)
    assert (draws.mirrored is None) == (plain.mirrored is None) == (not near.is_symmetric(p.graph))
    if plain.mirrored is not None:
        assert_same(draws.mirrored, plain.mirrored)
    found, record = readings_of(p, near, seed=seed), read_model(p, near, "share", seed=seed)
    for name in ("_readings", "_read"):
        vars(p).pop(name)
    with monkeypatch.context() as patch:
        patch.setattr(readings, "_read_in_core", lambda *_: None)
        twin, twin_record = readings_of(p, near, seed=seed), read_model(p, near, "share", seed=seed)
    assert_same(shares.scores, twin.additive.scores)
    assert_same(found.additive.scores, twin.additive.scores)
    assert_same(found.additive.stderr, twin.additive.stderr)
    assert found.additive.excess == pytest.approx(twin.additive.excess, rel=EXACT)
    assert len(found.paired) == len(twin.paired)
    for one, other in zip(found.rests, twin.rests, strict=True):
        assert_same(one, other, float(p.evidence.change.abs().max()))
    assert_same_record(record.estimate, twin_record.estimate)


@pytest.mark.parametrize("near", NEIGHBORHOODS)
@pytest.mark.parametrize("name", TARGETS)
def test_the_core_fits_and_reads_what_torch_does(name, near, monkeypatch):
    target, algorithm = TARGETS[name](), AnchoredKEC(near)
    near = algorithm.neighborhood
    p, _ = assert_same_fit(algorithm, target, monkeypatch)
    assert_same_shares(p, near, monkeypatch)


def test_what_the_targets_are_for():
    """The cases above differ in what they are said to differ."""
    near = gf.parse_neighborhood("U(A,0.5)")
    symmetric = {name: near.is_symmetric(make().computation_graph) for name, make in TARGETS.items()}
    assert not symmetric["weights-below-sigma"]
    assert symmetric["weights-above-sigma"]
    assert symmetric["gcn"]
    kinds = {name: AnchoredKEC(near).kinds_for(make()) for name, make in TARGETS.items()}
    assert len(kinds["graph-conv"]) == len(kinds["graph-conv-mean"]) == 3
    part = TARGETS["one-neighbour"]().computation_graph
    assert int(((part.edge_index[1] == 0) & ~part.is_loop).sum()) == 1


@pytest.mark.parametrize("kind", ["symmetric", "row", "none"])
def test_every_normalisation(kind, monkeypatch):
    algorithm = AnchoredKEC("B(A,0.3)", normalization=kind)
    p, _ = assert_same_fit(algorithm, graph_conv(weights=True), monkeypatch)
    assert p.normalization == kind
    assert_same_shares(p, algorithm.neighborhood, monkeypatch)


def test_of_all_normalisations_the_best_is_taken(monkeypatch):
    """The one that is tried first, last or between them: F itself is a k-hop model of that kind."""
    for kind, aggr in (("none", "add"), ("row", "mean")):
        x, edges = undirected(6, nodes=12, pairs=30)
        p, _ = assert_same_fit(
            AnchoredKEC("B(A,0.5)"), Target(made(TwoGraphConvs, 4, aggr), x, edges, 0, 1), monkeypatch
        )
        errors = {
            name: AnchoredKEC("B(A,0.5)", normalization=name)
            ._fit(Target(made(TwoGraphConvs, 4, aggr), x, edges, 0, 1), 200)
            .estimate.value
            for name in ("symmetric", "row", "none")
        }
        assert p.normalization == min(errors, key=errors.get), kind
        assert p.estimate.value == pytest.approx(min(errors.values()))


@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5,paired)"])
@pytest.mark.parametrize(("name", "value"), [("HELD", 1100), ("_MOST_SLOPES", 0), ("SAMPLES", 64), ("SLOPES", 3)])
def test_shares_with_little_memory_and_few_samples(near, name, value, monkeypatch):
    """Moves at the samples of the fit are not looked at if they are too many, and the slope may be that of A alone."""
    algorithm = AnchoredKEC(near)
    p = algorithm._fit_in_core(gcn_of_graph(nodes=5, pairs=5), 200)
    monkeypatch.setattr(readings, name, value)
    assert_same_shares(p, algorithm.neighborhood, monkeypatch)


@pytest.mark.parametrize("count", [60, 129, 400])
def test_numbers_of_samples(count, monkeypatch):
    algorithm = AnchoredKEC("U(A,0.5)")
    p, _ = assert_same_fit(algorithm, gcn_of_graph(), monkeypatch, count)
    assert_same_shares(p, algorithm.neighborhood, monkeypatch)


def test_more_unknowns_than_samples_are_not_for_the_core(monkeypatch):
    """Two hops of four columns, four moments and four single terms are 16 unknowns, and one in twelve is not fitted."""
    algorithm, target = AnchoredKEC("U(A,0.5)"), gcn_of_graph()
    assert len(split_samples(17)[1]) == 15
    assert algorithm._fit_in_core(target, 17) is None
    assert algorithm._fit_in_core(target, 1) is None
    assert len(split_samples(18)[1]) == 16
    assert algorithm._fit_in_core(target, 18) is not None
    for count in (1, 17):
        p, twin = algorithm._fit(target, count), fit_without_core(algorithm, target, count, monkeypatch)
        assert_same(p.gradient()[1], twin.gradient()[1])


def test_the_core_is_compiled_once_for_all_numbers_of_samples():
    algorithm, target = AnchoredKEC("U(A,0.5)"), gcn_of_graph()
    algorithm._fit_in_core(target, 100)
    known = list(core.anchor_parts.signatures)
    for count in (1, 5, 13, 50):
        algorithm._fit_in_core(target, count)
    assert core.anchor_parts.signatures == known


@pytest.mark.parametrize("features", [4, 12])
@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.3)"])
def test_f_without_gradient_has_no_curvature(features, near, monkeypatch):
    """With many features, there is no column of X that F depends on either."""
    x, edges = undirected(8, features=features)
    algorithm, target = AnchoredKEC(near), Target(made(Steps, features), x, edges, 0, 1)
    p, twin = assert_same_fit(algorithm, target, monkeypatch)
    assert p.bend.shape == twin.bend.shape == (0, 0)
    assert features <= 8 or not p.weights.any()
    assert_same_shares(p, algorithm.neighborhood, monkeypatch)


def test_f_that_stays_is_not_for_the_core(monkeypatch):
    """p is then the gradient of F, because 0 is as good."""
    x, edges = undirected(0)
    model = made(TwoLayerGCN, 4)
    for part in model.parameters():
        part.data.zero_()
    algorithm, target = AnchoredKEC("U(A,0.5)"), Target(model, x, edges, 0, 1)
    assert algorithm._fit_in_core(target, 100) is None
    assert algorithm._fit(target, 100).chosen == "saliency"


def given_of(target, near, count=100):
    """What :func:`fit_graph` is given for a target."""
    asked, rest = split_samples(count)
    graph = target.computation_graph
    samples = near.sample(graph, count, 0)
    weight = samples.weight_with_own
    _, mean, of_a = slopes_at(target, weight[torch.from_numpy(np.concatenate(([0], 1 + asked)))])
    change = target.changes(samples[torch.from_numpy(rest)])
    noise = rounding_square(target.scale, graph.x.dtype)
    return graph, target.num_hops, ("symmetric",), weight, (asked, rest), change, (mean, of_a), noise


def test_the_gradient_alone_or_0_is_better():
    target, near = gcn_of_graph(), gf.parse_neighborhood("U(A,0.5)")
    *given, change, (mean, of_a), noise = given_of(target, near)
    assert fit_graph(*given, change, (mean, of_a), noise, drops=False) is not None
    # A linear F is its gradient, but for rounding that the regression cannot be better than.
    weight, (_, rest) = given[3], given[4]
    linear = (weight[0] - weight[1 + torch.from_numpy(rest)]) @ of_a[0]
    assert fit_graph(*given, linear, (mean, of_a), noise, drops=False) is None
    # A change that has nothing to do with the samples is best foretold by 0.
    chance = torch.randn(len(rest), generator=torch.Generator().manual_seed(1)).double()
    assert fit_graph(*given, chance, (mean, of_a), noise, drops=False) is None
    # A change that is no larger than F's rounding is none.
    assert fit_graph(*given, change, (mean, of_a), 2 * float(change.square().mean()), drops=False) is None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["own", "sampled", "features", "change"])
def test_a_number_that_is_not_finite_is_not_for_the_core(number, place):
    *given, change, (mean, of_a), noise = given_of(gcn_of_graph(), gf.parse_neighborhood("B(A,0.5)"))
    mean, of_a, change = mean.clone(), of_a.clone(), change.clone()
    {"own": of_a[0, 2:3], "sampled": of_a[3, :1], "features": mean[1, :1], "change": change[4:5]}[place][:] = number
    assert fit_graph(*given, change, (mean, of_a), noise, drops=True) is None


def test_huge_numbers():
    *given, change, (mean, of_a), noise = given_of(gcn_of_graph(), gf.parse_neighborhood("B(A,0.5)"))
    assert fit_graph(*given, 1e200 * change, (mean, of_a), noise, drops=True) is None
    # Of gradients whose squares are not finite nothing is used, and the other terms are fitted as ever.
    fits = fit_graph(*given, change, (mean, 1e200 * of_a), noise, drops=True)
    assert fits.ranks.tolist() == [[0, 4]]
    assert fits.singles[0, [0, 1, 3]].tolist() == [0, 0, 0]
    assert np.isfinite(fits.scores).all()


@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)"])
def test_a_gradient_that_is_not_finite_leaves_the_fit_to_torch(near, monkeypatch):
    x, edges = undirected(0)
    weight = torch.ones(edges.size(1)).double()
    algorithm, target = AnchoredKEC(near), Target(made(Roots, 4), x, edges, 0, 1, edge_weight=weight)
    assert algorithm._fit_in_core(target, 100) is None
    p, twin = algorithm._fit(target, 100), fit_without_core(algorithm, target, 100, monkeypatch)
    assert p.chosen == twin.chosen
    assert_same(p.gradient()[1], twin.gradient()[1])


def test_f_of_several_nodes_and_of_another_number_of_times_is_not_for_the_core(monkeypatch):
    x, edges = undirected(0)
    algorithm = AnchoredKEC("U(A,0.5)")
    for index in (torch.tensor([0, 3]), torch.tensor([2, 2])):
        target = Target(made(TwoLayerGCN, 4), x, edges, index, 1)
        assert algorithm._fit_in_core(target, 100) is None
        assert algorithm._fit(target, 100).chosen == "anchored"


def test_the_core_leaves_what_it_does_not_have():
    target = gcn_of_graph()
    for near in ("U(X,0.3r)", "U(X,0.3r)xU(A,0.5)", "R(A,3)"):
        assert AnchoredKEC(near)._fit_in_core(target, 100) is None
    assert AnchoredKEC("U(A,0.5)", blocks=["khop", "mean"])._fit_in_core(target, 100) is None


@pytest.mark.parametrize("chosen", ["saliency", "zero"])
@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.3)"])
def test_shares_of_a_p_that_is_the_gradient_alone_or_0(chosen, near, monkeypatch):
    """Such a p has neither curvature nor weights, and the core reads it as any other."""
    algorithm, target = AnchoredKEC(near), gcn_of_graph()
    p = algorithm._fit_in_core(target, 100)
    for part in (p.weights, p.degree_weights, p.stiffness, p.products):
        part.zero_()
    p.along_a, p.bend, p.chosen = None, torch.zeros(0, 0, dtype=torch.float64), chosen
    p.phi_a = target.gradient()[1].double() * (chosen == "saliency")
    assert_same_shares(p, algorithm.neighborhood, monkeypatch)


def test_energy_at_mirror_images(monkeypatch):
    """Entries that are removed have no energy of their own, but those of another symmetric neighbourhood may have."""
    algorithm = AnchoredKEC("B(A,0.5)")
    p = algorithm._fit_in_core(gcn_with_weights(0.1, 1.5), 100)
    p.stiffness[1] = 0.3
    assert_same_shares(p, algorithm.neighborhood, monkeypatch)


def test_shares_of_entries_that_are_always_removed(monkeypatch):
    """Their spread is 0, so that it has to be held above it."""
    algorithm = AnchoredKEC("B(A,1)")
    p = algorithm._fit_in_core(gcn_of_graph(), 100)
    assert p is not None
    assert_same_shares(p, algorithm.neighborhood, monkeypatch)
    assert torch.isfinite(readings_of(p, algorithm.neighborhood, seed=3).additive.stderr).all()


def test_no_samples_change_nothing():
    target = gcn_of_graph()
    p = AnchoredKEC("U(A,0.5)")._fit_in_core(target, 100)
    none = gf.parse_neighborhood("U(A,0.5)").sample(target.computation_graph, 3)[torch.zeros(3, dtype=torch.bool)]
    assert p.change(none).shape == (0,)
