"""The smallest change that flips the answer, against every set of edges and the model on the graph without them."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, global_mean_pool

import graphfaith as gf
from graphfaith.explanation.counterfactual import EVALUATIONS, _Search, counterfactual
from graphfaith.explanation.goal import Goal
from graphfaith.explanation.masks import target_of
from graphfaith.explanation.origin import explainer_of
from graphfaith.explanation.removals import Removals


def graph_of(seed, nodes=9, edges=13, features=5):
    """Return a random undirected graph."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.tensor(list(combinations(range(nodes), 2)))
    chosen = pairs[torch.randperm(len(pairs), generator=generator)[:edges]].T
    x = torch.randn(nodes, features, generator=generator) + 0.5
    return Data(x=x, edge_index=torch.cat([chosen, chosen.flip(0)], dim=1))


def model_of(seed, kind=GCN, classes=3, **options):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return kind(5, 6, num_layers=2, out_channels=classes, **options).eval()


def explain(model, data, node=None, **options):
    return gf.explain(model, data, node, **{"neighborhood": "B(A,0.5)", "samples": 100, "test_samples": 20, **options})


def cut(data, edges):
    """Return the graph without some undirected edges."""
    gone = {tuple(edge) for a, b in edges for edge in ((a, b), (b, a))}
    kept = [i for i, edge in enumerate(zip(*data.edge_index.tolist(), strict=True)) if edge not in gone]
    return data.edge_index[:, kept]


@torch.no_grad()
def answer(model, data, node, edges=()):
    return int(model(data.x, cut(data, edges))[node].argmax())


def smallest(model, data, node, most):
    """Return the size of the smallest set of edges that flips the class, by trying all; 0 if there is none."""
    pairs, before = [tuple(e) for e in data.edge_index.T.tolist() if e[0] < e[1]], answer(model, data, node)
    for size in range(1, most + 1):
        if any(answer(model, data, node, edges) != before for edges in combinations(pairs, size)):
            return size
    return 0


@pytest.mark.parametrize(("kind", "seeds"), [(GCN, (1, 4, 5, 6)), (GAT, (1, 2, 4, 6))])
def test_the_smallest_set_is_found_if_there_is_one(kind, seeds):
    sizes = []
    for seed in seeds:
        data, model, node = graph_of(seed), model_of(seed, kind), seed % 9
        found = explain(model, data, node).counterfactual(3)
        best, before = smallest(model, data, node, 3), answer(model, data, node)
        sizes.append(best)
        assert (found.found, len(found.edges)) == (best > 0, best)
        assert found.before == before
        if best:
            assert found.after == answer(model, data, node, found.edges) != before
            assert found.is_smallest
            assert str(found).startswith(f"class {before} becomes {found.after} without ")
            assert all(name in str(found) for name in found.names)
            assert found.names == [f"{a}–{b}" for a, b in found.edges]
        else:
            assert found.after is None
            assert str(found) == f"none found up to 3 edges, of {found.evaluations} tried"
    assert {0, 1, 2} <= set(sizes)


def test_no_proper_subset_flips_and_the_budget_is_kept():
    for seed in (1, 12, 21):
        data, model, node = graph_of(seed, nodes=12, edges=26), model_of(seed), seed % 9
        explanation = explain(model, data, node)
        for budget in (1, 20, 60, EVALUATIONS):
            found = explanation.counterfactual(4, evaluations=budget)
            assert 0 < found.evaluations <= budget
            if found.found:
                assert answer(model, data, node, found.edges) == found.after != found.before
                for size in range(1, len(found.edges)):
                    for edges in combinations(found.edges, size):
                        assert answer(model, data, node, edges) == found.before


def test_a_set_is_made_as_small_as_it_can_be():
    data, model = graph_of(5), model_of(5)
    explanation = explain(model, data, 5)
    target = target_of(explainer_of(explanation, "a test"), explanation)
    removals = Removals(explanation, target.computation_graph, "edges", by_degree=False)
    before, places = answer(model, data, 5), [removals.labels.place(unit) for unit in range(len(removals))]
    flips = [answer(model, data, 5, [place]) != before for place in places]
    flip, others = flips.index(True), [unit for unit, flipped in enumerate(flips) if not flipped][:2]
    search = _Search(target, removals, Goal(target, None), [], 100)
    assert search._smallest_within(tuple(sorted((flip, *others)))) == (flip,)
    assert search.asked == 6


def test_the_same_question_has_the_same_answer():
    data, model = graph_of(1, nodes=12, edges=26), model_of(1)
    explanation = explain(model, data, 3)
    first = explanation.counterfactual(3)
    assert first == explanation.counterfactual(3) == explain(model, data, 3).counterfactual(3)
    assert first == counterfactual(explanation, 3, explainer=gf.explainer_for(model, data))


def test_edges_that_only_count_in_a_degree_are_tried_once():
    # Node 2 has five neighbours that no message of a one-layer GCN brings to node 0: they are alike.
    pairs = torch.tensor([[0, 1, 1, 1, 1, 1], [1, 2, 3, 4, 5, 6]])
    data = Data(
        x=torch.randn(7, 5, generator=torch.Generator().manual_seed(0)), edge_index=torch.cat([pairs, pairs.flip(0)], 1)
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GCN(5, 3, num_layers=1).eval()
    explanation = explain(model, data, 0)
    graph = explanation.difference_model.graph
    alike = Removals(explanation, graph, "edges", by_degree=True)
    assert alike.before == [-1, -1, 1, 2, 3, 4]
    found = explanation.counterfactual(5)
    assert found.evaluations <= 2 + 2 + 2 + 2 + 2  # of each size, with and without the edge 0–1


def test_a_directed_graph_loses_one_direction_and_keeps_its_loops():
    data = graph_of(3)
    data.edge_index = torch.cat([data.edge_index[:, 1:], torch.arange(9).expand(2, 9)], dim=1)
    model = model_of(3)
    explanation = explain(model, data, 1)
    removals = Removals(explanation, explanation.difference_model.graph, "edges", by_degree=False)
    places = [removals.labels.place(unit) for unit in range(len(removals))]
    assert all(a != b for a, b in places)
    assert len(set(places)) == len(places)
    edges = set(zip(*data.edge_index.tolist(), strict=True))
    assert edges.issuperset(places)
    assert "→" in removals.labels.name(0)


class Sum(torch.nn.Module):
    """A regression whose output is known without edges: the sum of a node's features and those of its neighbours."""

    def __init__(self, out=lambda rows: rows):
        super().__init__()
        self.conv, self.out = GCN(2, 1, num_layers=1, normalize=False, add_self_loops=False, bias=False), out
        with torch.no_grad():
            self.conv.convs[0].lin.weight.fill_(1.0)
            self.conv.convs[0].bias.zero_() if self.conv.convs[0].bias is not None else None

    def forward(self, x, edge_index, edge_weight=None):
        return self.out(self.conv(x, edge_index, edge_weight=edge_weight))


def star():
    leaves = torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]])
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 1.0], [-1.0, 0.0]])
    return Data(x=x, edge_index=torch.cat([leaves, leaves.flip(0)], dim=1))  # the output at node 0 is 1 + 2 + 4 - 1


def test_a_regression_moves_past_a_value():
    explanation = explain(Sum(), star(), 0, mode="regression")
    lower, higher = explanation.counterfactual(past=3.5), explanation.counterfactual(past=6.5)
    assert (lower.edges, lower.before, lower.after) == ([(0, 3)], 6.0, 2.0)
    assert (higher.edges, higher.after) == ([(0, 4)], 7.0)
    both = explanation.counterfactual(past=0.5)
    assert (both.edges, both.after) == ([(0, 2), (0, 3)], 0.0)
    assert str(both).startswith("6 becomes 0 without 0–2 and 0–3 (")
    assert not explanation.counterfactual(past=7.5).found
    assert not explanation.counterfactual(1, past=0.5).found
    features = explanation.counterfactual(of="features", past=3.5)
    assert (features.features, features.edges, features.names) == ([(3, 0)], [], ["3: 0"])
    assert str(explanation.counterfactual(1, of="features", past=-9.0)).startswith("none found up to 1 feature, of")


@pytest.mark.parametrize(("past", "kind"), [(2.5, "probs"), (2.5, "raw")])
def test_a_binary_model_crosses_its_threshold(past, kind):
    out = (lambda rows: torch.sigmoid(rows - past)) if kind == "probs" else (lambda rows: rows - past)
    explanation = explain(Sum(out), star(), 0, mode="binary_classification", return_type=kind)
    found = explanation.counterfactual()
    assert (found.before, found.after, found.edges) == (1, 0, [(0, 3)])
    away = explain(Sum(lambda rows: out(rows - 4)), star(), 0, mode="binary_classification", return_type=kind)
    assert (away.counterfactual().before, away.counterfactual().after) == (0, 1)
    assert away.counterfactual().edges == [(0, 4)]


def test_features_of_a_classifier_by_name():
    data, model = graph_of(1), model_of(1)
    data.x[data.x < 0.3] = 0
    explanation = explain(model, data, 1, neighborhood="B(X,0.5)").name(
        nodes=[f"n{v}" for v in range(9)], features=list("abcde")
    )
    found = explanation.counterfactual(5, of="features")
    assert found.found
    x = data.x.clone()
    for node, column in found.features:
        assert x[node, column] != 0
        x[node, column] = 0
    with torch.no_grad():
        assert int(model(x, data.edge_index)[1].argmax()) == found.after != found.before
    assert found.names == [f"n{node}: {'abcde'[column]}" for node, column in found.features]


class OfGraph(torch.nn.Module):
    """A classifier of graphs for which a graph is at first almost as much of the other class."""

    def __init__(self, seed, data):
        super().__init__()
        self.gnn, self.own = model_of(seed, classes=2), 0.0
        with torch.no_grad():
            self.own = self(data.x, data.edge_index) - torch.tensor([0.02, 0.0])

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        return global_mean_pool(self.gnn(x, edge_index, edge_weight=edge_weight), batch) - self.own


def test_a_graph_is_classified_otherwise():
    found = []
    for seed in range(3):
        data = graph_of(seed)
        model = OfGraph(seed, data).eval()
        result = explain(model, data, graph=0).counterfactual(4)
        with torch.no_grad():
            before, after = (int(model(data.x, cut(data, edges)).argmax()) for edges in ((), result.edges))
        assert (result.before, result.after if result.found else before) == (before, after)
        found.append(result.found)
    assert any(found)


def test_a_silenced_edge_is_not_called_removed():
    found = explain(model_of(2, GAT), graph_of(2), 2, edges="mask").counterfactual(3)
    assert found.silenced
    assert " if " in str(found)
    assert " silent (" in str(found)


def test_nothing_to_remove_is_nothing_found():
    data = Data(x=torch.ones(3, 5), edge_index=torch.tensor([[1, 2], [2, 1]]))
    found = explain(model_of(0), data, 0).counterfactual()
    assert str(found) == "none found up to 5 edges, of 0 tried"


def test_what_cannot_be_asked_is_refused_in_one_line(tmp_path):
    data, model = graph_of(1), model_of(1)
    explanation = explain(model, data, 3)
    for options, words in [
        ({"max_edges": 0}, "max_edges must be a whole number of at least 1"),
        ({"max_edges": 11}, "max_edges must be at most 10"),
        ({"evaluations": 0}, "evaluations must be"),
        ({"of": "nodes"}, "of must be one of edges, features"),
        ({"past": 1.0}, "past is for a regression"),
        ({"past": float("nan")}, "past must be"),
    ]:
        with pytest.raises(gf.InputError, match=words):
            explanation.counterfactual(**options)
    value = explain(Sum(), star(), 0, mode="regression")
    with pytest.raises(gf.InputError, match="say which value the output, now 6, has to pass"):
        value.counterfactual()
    with pytest.raises(gf.InputError, match="past is the present output, 6"):
        value.counterfactual(past=6.0)
    with pytest.raises(gf.UnsupportedError, match="GNNExplainer has masks alone"):
        explain(model, data, 3, method="gnnexplainer").counterfactual()
    with pytest.raises(gf.InputError, match="ask the explanation that it was cut from"):
        explanation.signed_subgraph(2).counterfactual()
    several = gf.explainer_for(model, data, samples=100)(data.x, data.edge_index, index=torch.tensor([1, 2]))
    with pytest.raises(gf.UnsupportedError, match="explain a single node"):
        several.counterfactual()
    gf.save(explanation, tmp_path / "one.safetensors")
    loaded = gf.load(tmp_path / "one.safetensors")
    with pytest.raises(gf.InputError, match="a counterfactual asks the model"):
        loaded.counterfactual()
    again = loaded.counterfactual(explainer=gf.explainer_for(model, data))
    assert again.edges == explanation.counterfactual().edges
