"""Shapley values against their definition: every coalition, evaluated by the model itself on graphs without edges."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GAT, GCN, global_mean_pool
from torch_geometric.utils import to_undirected

import graphfaith as gf
from explaining import CONFIG, explainer_of
from graphfaith.model.target import Target

# Node 0 with three neighbours, and edges between these and to others.
EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (1, 5), (0, 4)]
MORE = [*EDGES, (4, 5), (5, 6), (3, 6), (1, 6)]


def graph_of(edges, features=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    nodes = max(max(edge) for edge in edges) + 1
    x = torch.rand(nodes, features, generator=generator, dtype=torch.float64) + 0.1
    return x, to_undirected(torch.tensor(edges).T)


def make(kind=GCN, features=3, out=2, seed=1):
    torch.manual_seed(seed)
    return kind(features, 6, num_layers=2, out_channels=out, act="tanh").double().eval()


def define(value, players):
    """The definition: the mean over all orders of the players of what a player adds to those before it."""
    count, cache = len(players), {}

    def at(coalition):
        if coalition not in cache:
            cache[coalition] = value(coalition)
        return cache[coalition]

    found = np.zeros(count)
    for i in range(count):
        others = [player for player in range(count) if player != i]
        for size in range(count):
            weight = 1 / (count * math.comb(count - 1, size))
            for chosen in itertools.combinations(others, size):
                found[i] += weight * (at(frozenset((*chosen, i))) - at(frozenset(chosen)))
    return found, at(frozenset(range(count))) - at(frozenset())


def without_edges(run, edge_index, edges):
    """F of a coalition of undirected edges, by a call of the model on the graph that has those alone."""

    def value(coalition):
        kept = {edges[i] for i in coalition}
        mask = [(min(a, b), max(a, b)) in kept for a, b in edge_index.T.tolist()]
        with torch.no_grad():
            return float(run(edge_index[:, torch.tensor(mask)]))

    return value


def values_of(explanation, edges, name="edge_mask"):
    """Return the sum of both entries of each undirected edge."""
    scores = dict(zip(map(tuple, explanation.edge_index.T.tolist()), explanation[name].tolist(), strict=True))
    return np.array([scores[a, b] + scores[b, a] for a, b in edges])


@pytest.mark.parametrize("kind", [GCN, GAT])
def test_edges_have_the_values_of_the_definition(kind):
    edges = EDGES
    x, edge_index = graph_of(edges)
    model = make(kind)
    expected, total = define(without_edges(lambda e: model(x, e)[0, 1], edge_index, edges), edges)
    explainer = Explainer(model, gf.Shapley(num_samples=1 << len(edges)), "phenomenon", CONFIG, "attributes", "object")
    explanation = explainer(x, edge_index, index=0, target=torch.ones(len(x), dtype=torch.int64))
    assert np.allclose(values_of(explanation, edges), expected, atol=1e-9)
    assert float(explanation.edge_mask.sum()) == pytest.approx(total, abs=1e-9)
    assert explanation.evaluations == 1 << explanation.num_players
    assert not explanation.edge_stderr.any()
    assert explanation.edge_route == ("weight" if kind is GCN else "removal")
    assert not explanation.self_loop_score.any()


@pytest.mark.parametrize("of", ["nodes", "features"])
def test_nodes_and_features_have_the_values_of_the_definition(of):
    x, edge_index = graph_of(EDGES[:5], features=2)
    x[1, 0] = x[3] = 0  # what is 0 already is no player
    model = make(features=2)
    players = [(v, c) for v in range(len(x)) for c in range(2) if x[v, c] != 0]
    owners = players if of == "features" else sorted({v for v, _ in players})

    def value(coalition):
        kept, masked = {owners[i] for i in coalition}, torch.zeros_like(x)
        for v, c in players:
            if (v if of == "nodes" else (v, c)) in kept:
                masked[v, c] = x[v, c]
        with torch.no_grad():
            return float(model(masked, edge_index)[0, 1])

    expected, total = define(value, owners)
    call = Explainer(model, gf.Shapley(of=of, num_samples=256), "phenomenon", CONFIG, "attributes", "object")
    explanation = call(x, edge_index, index=0, target=torch.ones(len(x), dtype=torch.int64))
    products = explanation.node_mask * x
    found = products.sum(dim=1)[owners] if of == "nodes" else torch.stack([products[owner] for owner in owners])
    assert np.allclose(found, expected, atol=1e-9)
    assert float(products.sum()) == pytest.approx(total, abs=1e-9)
    assert float(explanation.node_mask[3].abs().sum()) == 0
    assert not explanation.edge_mask.any()
    assert explanation.num_players == (3 if of == "nodes" else 5)  # node 4 is out of reach
    by_node = Explainer(model, gf.Shapley(of=of, num_samples=256), "phenomenon", CONFIG, "object", "object")
    again = by_node(x, edge_index, index=0, target=torch.ones(len(x), dtype=torch.int64))
    assert torch.allclose(again.node_mask[:, 0], products.sum(dim=1))


def test_a_graph_classifier_and_a_regression():
    x, edge_index = graph_of(EDGES)
    conv = make(out=1)

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = conv

        def forward(self, x, edge_index, batch=None):
            return global_mean_pool(self.conv(x, edge_index), batch)

    for model, level, index in ((Whole(), "graph", None), (conv, "node", 2)):
        run = (lambda e: Whole()(x, e)[0, 0]) if index is None else (lambda e: conv(x, e)[2, 0])
        expected, _ = define(without_edges(run, edge_index, EDGES), EDGES)
        config = {"mode": "regression", "task_level": level, "return_type": "raw"}
        explanation = explainer_of(model, gf.Shapley(num_samples=128), config=config)(x, edge_index, index=index)
        assert np.allclose(values_of(explanation, EDGES), expected, atol=1e-9)


def test_edges_of_a_directed_graph_are_single_players_and_weights_share_the_value():
    x, _ = graph_of(EDGES)
    edge_index = torch.tensor([*EDGES, (1, 0), (5, 0)]).T
    model, weight = make(), torch.linspace(0.2, 2, edge_index.size(1), dtype=torch.float64)
    call = explainer_of(model, gf.Shapley(num_samples=512))
    explanation = call(x, edge_index, index=0, edge_weight=weight)
    assert explanation.num_players == int((explanation.edge_mask != 0).sum())
    total = explanation.value_of_all - explanation.value_of_none
    assert float(explanation.edge_mask @ weight) == pytest.approx(total, abs=1e-9)
    both = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    weight = torch.tensor([1.0, 3.0, 0.5, 0.5], dtype=torch.float64)
    explanation = call(x[:3], both, index=0, edge_weight=weight)
    assert explanation.num_players == 2
    assert float(explanation.edge_mask @ weight) == pytest.approx(
        explanation.value_of_all - explanation.value_of_none, abs=1e-9
    )


@pytest.fixture(scope="module")
def sampled():
    """A node with eleven edges, the values of the definition, and estimates from too few evaluations for these."""
    x, edge_index = graph_of(MORE)
    # The output layer saturates, so that F is far from additive.
    model = torch.nn.ModuleList([make()])

    class Bent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = model[0]

        def forward(self, x, edge_index, edge_weight=None):
            return torch.sin(8 * self.conv(x, edge_index, edge_weight))

    target = Target(Bent().eval(), x, edge_index, 0, 1)
    exact = gf.Shapley(num_samples=1 << len(MORE)).fit(target)
    return target, exact


@pytest.mark.parametrize(("num_samples", "runs"), [(40, 40), (160, 20)])
def test_estimates_are_unbiased_and_their_error_bars_right(sampled, num_samples, runs):
    target, exact = sampled
    found = [gf.Shapley(num_samples=num_samples, seed=seed).fit(target) for seed in range(runs)]
    assert all(p.evaluations <= num_samples for p in found)
    errors = np.array([p.values - exact.values for p in found])
    stated = np.mean([np.square(p.stderr) for p in found])
    assert 0.5 < np.square(errors).mean() / stated < 2
    # The mean over runs differs from the truth by no more than its own error allows.
    scores = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / math.sqrt(runs))
    assert np.square(scores).mean() < 2.5
    for p in found:
        assert p.values.sum() == pytest.approx(p.value_of_all - p.value_of_none, abs=1e-9)


def test_a_p_that_has_seen_most_coalitions_does_not_bias_the_values():
    ends = torch.tensor([[1, 2, 3, 4, 2, 5, 6, 7, 5], [0, 0, 1, 1, 1, 2, 2, 0, 3]])
    torch.manual_seed(2)
    x = torch.rand(8, 3).double()
    torch.manual_seed(1)
    target = Target(GCN(3, 8, 2, 3).double().eval(), x, ends, 0, 0)
    exact, runs = gf.Shapley(num_samples=512).fit(target).values, 40
    found = [gf.Shapley(num_samples=480, seed=seed).fit(target) for seed in range(runs)]
    assert {p.control_variate for p in found} <= {"p", "p and additive"}
    errors = np.array([p.values - exact for p in found])
    scores = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / math.sqrt(runs) + 1e-15)
    assert np.abs(scores).max() < 3.7


def test_p_makes_the_values_more_exact():
    x, edge_index = graph_of([*MORE, *((a + 7, b + 7) for a, b in MORE), (0, 7), (2, 9), (1, 8)], seed=3)
    smooth = Target(make(), x, edge_index, 0, 1)
    exact = gf.Shapley(num_samples=3000, seed=9).fit(smooth).values
    with_p, short = (gf.Shapley(num_samples=count, seed=1).fit(smooth) for count in (100, 98))
    assert with_p.control_variate in ("p", "p and additive")
    assert short.control_variate in ("none", "sizes", "additive")
    assert np.square(with_p.values - exact).sum() < 0.3 * np.square(short.values - exact).sum()


def test_players_without_effect_have_no_value_and_equal_ones_the_same():
    # Nodes 1 to 9 are alike, and so are the edges to them; x has a column that the model does not read.
    star = [(0, leaf) for leaf in range(1, 10)]
    x, edge_index = graph_of(star)
    x[1:] = x[1]
    model = make()
    with torch.no_grad():
        model.convs[0].lin.weight[:, 2] = 0
    target = Target(model, x, edge_index, 0, 1)
    exact = gf.Shapley(num_samples=512).fit(target).values
    assert np.allclose(exact, exact[0])
    rough = gf.Shapley(num_samples=120).fit(target)
    assert np.abs(rough.values - exact).max() < 5 * rough.stderr.max() + 1e-9
    p = gf.Shapley(of="features", num_samples=120).fit(target)
    dummy = p.phi_x[:, 2] * x[:, 2]
    assert float(dummy.abs().max()) < 5 * float(p.stderr.max()) + 1e-9
    # The edges that only count in the degree of node 1 are alike in every coalition, and known to be.
    far = [(0, 1), (0, 2), (2, 3), *((1, outer) for outer in range(4, 8)), *((4, outer) for outer in range(8, 14))]
    x, edge_index = graph_of(far)
    p = gf.Shapley(num_samples=200).fit(Target(make(), x, edge_index, 0, 1))
    counts = np.unique(p.values, return_counts=True)[1]
    assert counts.max() >= 6


@pytest.mark.parametrize("of", ["edges", "nodes", "features"])
def test_the_same_seed_gives_the_same_values_whatever_the_chunks(of, monkeypatch):
    x, edge_index = graph_of(MORE, features=4)
    x, model = x.float(), make(features=4).float()
    found = []
    for chunk in (1 << 26, 1 << 17):
        monkeypatch.setattr("graphfaith.model.home.CHUNK_BYTES", chunk)
        target = Target(model, x, edge_index, 0, 1)
        found.append(gf.Shapley(of=of, num_samples=120, seed=3).fit(target).values)
    assert np.allclose(*found, atol=2e-5)
    other = gf.Shapley(of=of, num_samples=120, seed=4).fit(target).values
    if of != "nodes":  # which are so few that all coalitions are evaluated
        assert not np.allclose(other, found[0], atol=1e-7)


def test_a_node_without_edges_or_with_one():
    x, edge_index = graph_of([(0, 1), (2, 3)])
    x = torch.cat([x, x[:1]])
    call = explainer_of(make(), gf.Shapley())
    one, none = call(x, edge_index, index=0), call(x, edge_index, index=4)
    assert one.num_players == 1
    assert float(one.edge_mask.sum()) == pytest.approx(one.value_of_all - one.value_of_none)
    assert none.num_players == 0
    assert not none.edge_mask.any()


@pytest.mark.parametrize("of", ["nodes", "features"])
@pytest.mark.parametrize("kind", ["attributes", "object", "common_attributes"])
def test_errors_have_the_shape_of_the_mask(of, kind):
    x, edge_index = graph_of([(0, 1), (1, 2), (2, 3), (3, 4), (2, 5), (0, 5), (5, 6)], features=3)
    explanation = explainer_of(make(), gf.Shapley(of=of, num_samples=30), node=kind)(x, edge_index, index=0)
    assert explanation.node_stderr.shape == explanation.node_mask.shape
    assert bool((explanation.node_stderr > 0).equal(explanation.node_mask != 0))
    lonely = torch.cat([x, x[:1]])  # a single node is seen, so that a mask of columns has as many rows as nodes
    explanation = explainer_of(make(), gf.Shapley(of=of), node=kind)(lonely, edge_index, index=7)
    assert explanation.node_stderr.shape == explanation.node_mask.shape


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": "graphs"}, "of must be one of edges, nodes, features"),
        ({"num_samples": 3}, "num_samples must be at least 16"),
        ({"num_samples": 20.5}, "num_samples must be a whole number"),
        ({"num_samples": "auto"}, "num_samples must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"num_hops": 0}, "num_hops must be a whole number"),
        ({"max_memory": "much"}, "max_memory"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(gf.InputError, match=message):
        gf.Shapley(**options)


def test_values_of_nodes_need_a_node_mask():
    with pytest.raises(gf.UnsupportedError, match="needs a node mask"):
        explainer_of(make(), gf.Shapley(of="nodes"), node=None)


def test_by_name_with_errors_in_a_file(tmp_path):
    x, edge_index = graph_of(MORE)
    explanation = gf.explain(
        make().float(), Data(x=x.float(), edge_index=edge_index), 0, method="shapley", neighborhood="B(A,0.5)"
    )
    assert explanation.method == "Shapley"
    assert explanation.edge_stderr.shape == explanation.edge_mask.shape
    assert explanation.evaluations <= 400
    assert explanation.unfaithfulness.relative >= 0
    gf.save(explanation, tmp_path / "values.safetensors")
    loaded = gf.load(tmp_path / "values.safetensors")
    assert torch.equal(loaded.edge_stderr, explanation.edge_stderr)
    assert loaded.control_variate == explanation.control_variate
