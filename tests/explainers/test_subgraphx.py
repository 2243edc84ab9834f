"""SubgraphX against brute force: every coalition, and every connected set of nodes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch_geometric.nn import GAT, GCN, GIN

import graphfaith as gf
from conftest import needs_data
from explaining import CONFIG, explain, explainer_of
from graphfaith.data.models import load_trained
from graphfaith.explainers.methods import expand_methods, method_names
from graphfaith.explainers.subgraphx import Game, Search
from graphfaith.model.target import Target
from reference import make_case

ODD = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (4, 5), (5, 6), (1, 6), (2, 5)]


def odd_target(make=GCN, layers=3, node=0, **options):
    """Seven nodes in two rings, all in reach of node 0."""
    torch.manual_seed(3)
    edges = torch.tensor(ODD + [(b, a) for a, b in ODD]).T
    model = make(3, 8, layers, out_channels=2)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # they begin at 0, and F of nothing is made of them
            torch.nn.init.uniform_(parameter, 0.2, 0.6)
    return Target(model, torch.randn(7, 3), edges, node, label=1, **options)


def line_target(count=60, **options):
    """Many nodes around node 0, some of which are alike."""
    torch.manual_seed(5)
    source = torch.arange(1, count)
    edges = torch.stack([source, source // 3])
    return Target(
        GCN(2, 4, 4, out_channels=2), torch.randn(count, 2), torch.cat([edges, edges.flip(0)], 1), 0, **options
    )


def game_of(target, **options):
    algorithm = gf.SubgraphX(**options)
    return Game(target, algorithm.weighed(target), algorithm), algorithm


def value_of(target, members):
    """F of a set of places, entry by entry: what is not between two of them is 0."""
    graph = target.computation_graph
    weight = graph.weight.clone()
    for place, (source, sink) in enumerate(graph.edge_index.T.tolist()):
        if source != sink and not (source in members and sink in members):
            weight[place] = 0
        if source == sink == 0 and 0 not in members:  # the loop of the explained node goes with it
            weight[place] = 0
    return float(target.evaluate(None, weight))


def shapley(target, subset):
    """The definition, with F(T) evaluated for each T."""
    others = [place for place in range(target.computation_graph.num_visible) if place not in subset]
    m, total = len(others), 0.0
    for size in range(m + 1):
        share = math.factorial(size) * math.factorial(m - size) / math.factorial(m + 1)
        for chosen in itertools.combinations(others, size):
            total += share * (value_of(target, {*chosen, *subset}) - value_of(target, set(chosen)))
    return total


def as_set(target, subset):
    kept = np.zeros(target.computation_graph.num_visible, dtype=bool)
    kept[list(subset)] = True
    return kept


def connected_sets(target, size):
    """Every connected set of so many places with the explained one."""
    graph = target.computation_graph
    pairs = {tuple(pair) for pair in graph.edge_index.T.tolist()}
    for rest in itertools.combinations(range(1, graph.num_visible), size - 1):
        left, reached = set(rest), {0}
        while new := {b for b in left if any((a, b) in pairs or (b, a) in pairs for a in reached)}:
            reached |= new
            left -= new
        if not left:
            yield reached


def places_of(p):
    return set(p.search.best.kept.nonzero()[0].tolist())


@pytest.mark.parametrize("make", [GCN, GAT])
@pytest.mark.parametrize("subset", [{0}, {0, 1, 2}, set(range(6)), set(range(7))], ids=str)
def test_rewards_are_shapley_values(make, subset):
    target = odd_target(make)
    assert target.computation_graph.num_visible == 7
    game, algorithm = game_of(target, num_samples=64, max_nodes=6)
    assert game.num_samples == 64  # as many as 6 others have subsets
    reward = game.rewards([as_set(target, subset)], game.of_nothing())[0]
    assert reward == pytest.approx(shapley(target, subset), abs=2e-4 * target.scale)
    assert algorithm.weighed(target).sum() == 2 * len(ODD)


def test_sampled_rewards_are_close_to_shapley_values():
    target = odd_target()
    subset, found = {0, 1}, []
    exact = shapley(target, subset)
    others = 5
    assert 2**others > 30
    for seed in range(40):
        game, _ = game_of(target, num_samples=30, seed=seed)
        found.append(game.rewards([as_set(target, subset)], game.of_nothing())[0])
    error = np.std(found) / math.sqrt(len(found))
    assert 0 < error < 0.05 * abs(exact)
    assert abs(np.mean(found) - exact) < 4 * error


def test_a_draw_has_every_size_as_often():
    target = line_target()
    sizes = game_of(target, num_samples=1000, max_evaluations=10**7)[0].drawn.sum(axis=1)
    count = target.computation_graph.num_visible
    assert np.abs(np.histogram(sizes, 5, (0, count))[0] / 1000 - 0.2).max() < 0.06


@pytest.mark.parametrize(
    ("make", "size"),
    [
        *((GCN, 2), (GCN, 3), (GCN, 4), (GAT, 4), (GIN, 3)),
        *(pytest.param(*pair, marks=pytest.mark.nightly) for pair in ((GAT, 2), (GAT, 3), (GIN, 2), (GIN, 4))),
    ],
)
def test_the_search_finds_the_best_set_of_its_size(make, size):
    # On the GAT whose edges are removed the best set of four is not a subset of any that looks good, and is not found.
    target = odd_target(make, edges="mask" if make is GAT else "auto")
    p = gf.SubgraphX(max_nodes=size, num_samples=64, rollouts=60).fit(target)
    reward = {frozenset(one): shapley(target, one) for k in range(1, size + 1) for one in connected_sets(target, k)}
    assert p.search.best.reward == pytest.approx(max(reward.values()), abs=2e-4 * target.scale)
    assert reward[frozenset(places_of(p))] == pytest.approx(max(reward.values()), abs=2e-4 * target.scale)
    assert not p.search.budget_spent


@pytest.mark.parametrize("silent", ["drop", "keep"])
def test_p_is_f_on_the_entries_between_the_nodes(silent):
    torch.manual_seed(4)
    ring = torch.stack([torch.arange(12), (torch.arange(12) + 1) % 12])
    target = Target(GCN(3, 8, 2, out_channels=2), torch.randn(12, 3), torch.cat([ring, ring.flip(0)], 1), 5)
    graph = target.computation_graph
    assert graph.num_visible < graph.num_nodes  # there is an outermost node
    algorithm = gf.SubgraphX(max_nodes=3, silent=silent)
    p, places = algorithm.fit(target), None
    places = places_of(p)
    for place, (source, sink) in enumerate(graph.edge_index.T.tolist()):
        quiet = silent == "keep" and not graph.carries_message[place]
        kept = source == sink or quiet or (source in places and sink in places)
        assert p.edge_mask[place] == float(kept)
    nodes, edges = algorithm.scores(p)
    assert nodes is None
    assert torch.equal(edges > 0, algorithm.weighed(target) & (p.edge_mask > 0))
    assert p.node_mask is None


@pytest.mark.parametrize("order", ["low2high", "high2low"])
@pytest.mark.parametrize("max_nodes", [1, 4, 9])
def test_every_state_is_connected_and_has_the_node(order, max_nodes):
    target = line_target()
    game, algorithm = game_of(target, max_nodes=max_nodes, order=order, max_evaluations=3000)
    search = Search(game, algorithm)
    found = search.run()
    assert found.best.size <= max_nodes
    pairs = target.computation_graph.edge_index.T.tolist()
    for state in search.states.values():
        reached, last = {0}, set()
        while reached != last:
            last = set(reached)
            reached |= {b for a, b in pairs if a in last and state.kept[b]}
        assert reached == set(state.kept.nonzero()[0].tolist())
    leaves = [state for state in search.states.values() if state.size <= max_nodes]
    assert found.best.reward == max(state.reward for state in leaves)
    assert found.best.size == min(state.size for state in leaves if state.reward == found.best.reward)


def test_children_drop_the_nodes_of_one_group_each():
    target = line_target()
    game, _ = game_of(target, children=7, max_nodes=5)
    everything = np.ones(game.num_nodes, dtype=bool)
    children = game.drops(everything)
    assert len(children) == 7
    step = -(-(game.num_nodes - 1) // 7)
    assert (~children).sum(axis=1).min() >= game.num_nodes - 1 - 6 * step
    assert (~children).any(axis=0)[1:].all()  # each node is in a group
    degree = np.asarray([0.0] * game.num_nodes)
    for a, b in target.computation_graph.edge_index[:, : target.computation_graph.num_plain].T.tolist():
        degree[a] += 1 / 2
        degree[b] += 1 / 2
    assert degree[~children[0]].max() == degree[1:].min()
    high, _ = game_of(target, children=7, max_nodes=5, order="high2low")
    assert degree[~high.drops(everything)[0]].max() == degree[1:].max()
    small, _ = game_of(odd_target(), children=12, max_nodes=2)
    assert ((~small.drops(np.ones(7, dtype=bool))).sum(axis=1) >= 1).all()
    assert len(small.drops(np.ones(7, dtype=bool))) == 6


def test_batches_give_what_sets_give_one_by_one():
    target = line_target()
    game, _ = game_of(target)
    sets = list(game.drops(np.ones(game.num_nodes, dtype=bool)))
    together, alone = game.rewards(sets, 0.0), [game.rewards([one], 0.0)[0] for one in sets]
    assert together == pytest.approx(alone, abs=1e-5 * target.scale)
    assert len(set(together)) > 3
    members = game.drawn[5] | sets[0]
    assert game.values(members[None])[0] == pytest.approx(
        value_of(target, set(members.nonzero()[0].tolist())), abs=1e-5 * target.scale
    )


@pytest.mark.parametrize("make", [odd_target, line_target])
def test_the_answer_does_not_depend_on_the_size_of_a_chunk(make, monkeypatch):
    found = []
    for room in (1, 10**6, 64 * 2**20):
        monkeypatch.setattr(Target, "room", lambda self, fixed, sample, what, room=room: room)
        algorithm = gf.SubgraphX(max_nodes=3, max_evaluations=800)
        target = make()
        assert Game(target, algorithm.weighed(target), algorithm).size > 1 or room == 1
        found.append(algorithm.fit(target))
    assert places_of(found[0]) == places_of(found[1]) == places_of(found[2])
    assert found[0].search.rollouts == found[2].search.rollouts
    assert found[0].search.best.reward == pytest.approx(found[2].search.best.reward, abs=1e-5)


def test_the_seed_names_the_draws():
    target = line_target()
    rewards = [gf.SubgraphX(seed=seed, max_evaluations=800).fit(target).search.best.reward for seed in (1, 1, 2)]
    assert rewards[0] == rewards[1] != rewards[2]


@pytest.mark.parametrize("budget", [2, 3, 10, 57, 500, 2000])
@pytest.mark.parametrize("max_nodes", [1, 5])
def test_the_budget_is_kept_and_there_is_always_a_leaf(budget, max_nodes, monkeypatch):
    target, counted = line_target(), []
    evaluate = Target.evaluate

    def counting(self, x=None, weight=None, attributes=None):
        counted.append(1 if weight.dim() == 1 else len(weight))
        return evaluate(self, x, weight, attributes)

    monkeypatch.setattr(Target, "evaluate", counting)
    p = gf.SubgraphX(max_nodes=max_nodes, max_evaluations=budget, rollouts=1000).fit(target)
    assert sum(counted) == p.search.evaluations <= budget
    assert p.search.rollouts >= 1
    assert p.search.budget_spent == (p.search.rollouts < 1000)
    # With few children, or one set that is a leaf, there is soon nothing new to come to.
    assert p.search.budget_spent or max_nodes == 1 or budget < 57
    assert 1 <= len(places_of(p)) <= max_nodes


@pytest.mark.parametrize("size", range(2, 60))
def test_no_way_down_is_longer_than_planned(size):
    game, _ = game_of(line_target())
    game.num_nodes = size
    for children in (1, 2, 5, 12):

        def longest(k, children=children, known={}):  # noqa: B006  # of any way, whatever falls off
            if (k, children) not in known:
                step = game.step(k, children) if k > game.max_nodes else 0
                ways = [longest(j) for j in range(1, k - step + 1)] if step else []
                known[k, children] = min(children, math.ceil((k - 1) / step)) + max(ways) if step else 0
            return known[k, children]

        assert game._longest_way(children) >= longest(size)


def test_the_explanation_tells_of_the_search():
    case = make_case(seed=20, nodes=10, edges=40)
    _, explanation = explain(case, gf.SubgraphX(max_nodes=3, rollouts=4))
    assert explanation.method == "SubgraphX"
    assert explanation.rollouts == 4
    assert explanation.budget_spent is False
    assert 1 < explanation.evaluations <= 20_000
    nodes = places_of(explanation.difference_model)
    assert len(nodes) <= 3
    ends = case.edge_index[:, explanation.edge_mask > 0]
    assert set(ends.flatten().tolist()) <= {int(explanation.difference_model.graph.nodes[place]) for place in nodes}
    short = gf.SubgraphX(max_evaluations=800, rollouts=1000)
    assert short.details(short.fit(line_target()))["budget_spent"] is True


def test_a_node_without_edges_is_its_own_explanation():
    target = Target(GCN(2, 4, 2, out_channels=2), torch.rand(3, 2), torch.tensor([[1], [2]]), 0)
    p = gf.SubgraphX().fit(target)
    assert places_of(p) == {0}
    assert p.search.evaluations == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({name: 0}, f"{name} must be a whole number")
            for name in ("max_nodes", "num_samples", "rollouts", "children")
        ),
        ({"max_evaluations": 0}, "max_evaluations must be a whole number"),
        ({"max_evaluations": 1}, "max_evaluations must be at least 2"),
        ({"exploration": -1}, "exploration must be 0 or more"),
        ({"order": "random"}, "order must be one of low2high, high2low"),
        ({"silent": "hide"}, "silent must be one of drop, keep"),
        ({"seed": -1}, "seed"),
        ({"num_hops": 0}, "num_hops"),
        ({"edges": "none"}, "edges"),
        ({"max_memory": "much"}, "max_memory"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_at_once(options, message):
    with pytest.raises(gf.InputError, match=message):
        gf.SubgraphX(**options)


def test_what_it_does_not_explain():
    for level in ("edge", "graph"):
        with pytest.raises(gf.UnsupportedError, match=f"SubgraphX explains nodes.*level {level}"):
            explainer_of(GCN(2, 4, 2), gf.SubgraphX(), config={**CONFIG, "task_level": level})
    case = make_case(seed=20)
    with pytest.raises(gf.UnsupportedError, match="one node at a time"):
        explainer_of(case.model, gf.SubgraphX())(case.x, case.edge_index, index=torch.tensor([0, 1]), **case.kwargs)


def test_a_limit_of_memory_is_kept():
    with pytest.raises(gf.MemoryLimitError, match="SubgraphX on 20000 evaluations"):
        gf.SubgraphX().fit(line_target(max_memory=150_000))
    limited, free = (gf.SubgraphX(max_evaluations=800).fit(line_target(max_memory=limit)) for limit in ("1 MB", None))
    assert places_of(limited) == places_of(free)


def test_all_methods_are_all_but_this():
    quick = method_names(in_all=True)
    assert "subgraphx" not in quick
    assert expand_methods(["all"]) == quick
    assert expand_methods(["all", "subgraphx", "kec"]) == [*quick, "subgraphx"]
    assert expand_methods(["subgraphx"]) == ["subgraphx"]


@needs_data
def test_the_house_is_found_on_ba_shapes():
    fit = load_trained("ba-shapes")
    for node in (475, 588):
        target = Target(fit.model, fit.data.x, fit.data.edge_index, node)
        p = gf.SubgraphX().fit(target)
        nodes = target.computation_graph.nodes[p.search.best.kept.nonzero()[0]]
        house = (nodes >= 300) & ((nodes - 300) // 5 == (node - 300) // 5)
        assert house.sum() >= 4
        assert (~house).sum() <= 1
