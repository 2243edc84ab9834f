"""Error bars cover: in 90 to 99 % of a hundred repetitions, or of two hundred, the true value is within two errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith import metric
from graphfaith.judging.ledger import Ledger
from graphfaith.judging.measures import MEASURES
from graphfaith.metric.attribution import Attribution
from graphfaith.metric.measured import effective_count, mean_and_error, widening
from graphfaith.metric.pooling import pool_widened
from graphfaith.metric.stability import add_noise, rank, spread_over_pairs
from judged import setting

REPEATS = 100
# A hundred repetitions of an event of 95.4 % give 90 to 99 of it in 98 of 100 such tests; seeds are fixed.
METHOD = "drawn"  # the explainer of these tests
FEWEST, MOST = 0.90, 0.99


@pytest.fixture(scope="module")
def judged():
    """F of a node, and its gradient as scores."""
    model, data, *_ = setting("gcn", 1)
    target = gf.Target(model, data.x, data.edge_index, 2)
    features, edges = target.gradient()
    return target, Attribution(target.computation_graph, edges, features), data  # The graph has to stay.


def share_covered(measure, truth, repeats=REPEATS):
    found = [measure(100 + repeat) for repeat in range(repeats)]
    assert any(one.stderr > 0 for one in found)
    return float(np.mean([abs(one.value - truth) <= 2 * one.stderr for one in found]))


@pytest.mark.parametrize(("draw", "truth", "count"), [("chisquare", 1.0, 20), ("lognormal", np.exp(0.5), 60)])
def test_skewed_numbers_have_wider_errors(draw, truth, count):
    """Plain standard errors of squares, or of numbers of which a few are large, are too small."""
    numbers = getattr(np.random.default_rng(0), draw)(*((1,) if draw == "chisquare" else (0, 1)), size=(2000, count))
    found = np.array([mean_and_error(row) for row in numbers])
    plain = numbers.std(axis=1, ddof=1) / np.sqrt(count)
    covered, before = (np.mean(np.abs(found[:, 0] - truth) <= 2 * error) for error in (found[:, 1], plain))
    assert before < FEWEST < covered < MOST


def test_few_nodes_make_up_a_spread():
    alone = np.array([1.0] * 59 + [50.0])
    assert effective_count(alone) < 5 < 30 < effective_count(np.random.default_rng(0).normal(size=60))
    assert effective_count(np.ones(60)) == 60
    assert widening(alone) > 1.9
    assert widening(1e200 * alone) == pytest.approx(widening(alone)), "no power of the numbers overflows"
    assert widening(np.ones(60)) == widening(np.array([])) == 1


def drawn(target, scores, name, samples):
    """A figure of merit that is a mean over draws, as a function of the seed."""
    near, side = {"infidelity": "U(A,0.5)", "infidelity-scaled": "U(A,0.5)"}.get(name), 0 if name[-1] == "+" else 1
    if near is not None:
        return lambda seed: metric.infidelity(
            target, scores, near, num_samples=samples, seed=seed, normalize=name.endswith("scaled")
        )
    if name.startswith("robust"):
        options = {"alpha1": 0.4, "alpha2": 0.6, "top": 0.5, "num_samples": samples}
        return lambda seed: metric.robust_fidelity(target, scores, seed=seed, **options)[side]
    options = {"top": 0.5, "budget": 0.2, "num_samples": samples}
    return lambda seed: metric.sufficiency(target, scores, seed=seed, **options)[name == "necessity"]


NAMES = ["infidelity", "infidelity-scaled", "robust-fidelity+", "robust-fidelity-", "sufficiency", "necessity"]


@pytest.mark.parametrize("name", NAMES)
def test_means_over_draws(judged, name):
    target, scores, _ = judged
    truth = drawn(target, scores, name, 20_000)(7).value
    # Squares have a heavy tail, so that their mean needs more draws before its error is a normal one.
    samples = 400 if name.startswith("infidelity") else 60
    assert FEWEST <= share_covered(drawn(target, scores, name, samples), truth) <= MOST


def test_means_over_noise(judged):
    target, scores, data = judged
    nodes = target.computation_graph.nodes
    noisy = torch.stack([add_noise(data.x, 0.3, number, 5)[nodes] for number in range(600)])
    many, own = target.gradients(noisy)[1], scores.features
    for measure, truth in (
        (lambda again: metric.stability(own, again), metric.stability(own, list(many)).value),
        (
            lambda again: metric.sensitivity_max(own, again, groups=8),
            metric.sensitivity_max(own, list(many), groups=200).value,
        ),
    ):
        runs = [measure([many[k] for k in np.random.default_rng(seed).choice(600, 24)]) for seed in range(REPEATS)]
        covered = np.mean([abs(one.value - truth) <= 2 * one.stderr for one in runs])
        assert FEWEST <= covered <= MOST


@pytest.fixture(scope="module")
def ledger():
    """The numbers of every figure of merit at each of 80 nodes, which are the population that nodes are drawn from."""
    # Every node has four neighbours. Where a few nodes have most of a mean of squares, 60 nodes are not enough for its
    # error to be a normal one: on a graph with hubs, Delta was covered in 86 % of the repetitions.
    ring = torch.arange(80)
    ends = torch.stack([torch.cat([ring, ring]), torch.cat([ring + 1, ring + 7]) % 80])
    x = torch.randn(80, 4, generator=torch.Generator().manual_seed(3))
    data = Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GCN(4, 8, 2, 3).eval()
    kept = []
    truth = metric.Truth(edges=(torch.rand(data.num_edges, generator=torch.Generator().manual_seed(0)) < 0.3).float())
    signed = metric.Truth(nodes=torch.randn(80, generator=torch.Generator().manual_seed(0)))
    with pytest.MonkeyPatch.context() as patch:
        verdict = Ledger.verdict
        patch.setattr(Ledger, "verdict", lambda self, *a, **k: kept.append(self) or verdict(self, *a, **k))
        options = {"test_samples": 40, "draws": 20, "repeats": 2, "noise": 0.3, "neighborhoods": "U(A,0.2)"}
        for known, measures in ((truth, "all"), (signed, ["rank-agreement", "sign-agreement"])):
            gf.judge(model, data, {METHOD: drawn_gradient}, range(80), measures, truth=known, **options)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            other = GCN(4, 8, 2, 3).eval()
        gf.judge([model, other], data, {METHOD: drawn_gradient}, range(80), "stability-training", **options)
    return kept


def drawn_gradient(model, data, node):
    """Scores that are the gradient, and in part drawn, so that another seed gives others."""
    target = gf.Target(model, data.x, data.edge_index, node)
    graph = target.computation_graph
    _, edges = target.gradient()
    scores = torch.zeros(data.num_edges, dtype=torch.float64)
    given = graph.edge_id >= 0
    scores[graph.edge_id[given]] = edges[given].double()
    scores += 0.5 * scores.std() * torch.randn(data.num_edges)
    return scores


def rows_at(ledger, places):
    """The rows of a judgement of these nodes alone, which may be there more than once."""
    part = Ledger(ledger.trainings, list(range(len(places))), [METHOD])
    raw = {key: table for key, table in ledger.values.items() if key[1] not in ("relative-delta", "characterization")}
    part.values = {key: table[:, places] for key, table in raw.items() if key[0] == METHOD}
    part.errors = {key: np.full((ledger.trainings, len(places)), np.nan) for key in part.values}
    names = list(
        dict.fromkeys(key[1] for key in ledger.values if key[1] not in ("everything", "delta-zero", "seconds"))
    )
    return {row.measure: row for row in part.verdict(names, "", 0, regression=False)}


def test_means_over_nodes(ledger):
    """What is not drawn at a node varies over nodes, and so does what is; the trainings are the same two."""
    seen: set[str] = set()
    for one in ledger:
        truth = rows_at(one, np.arange(80))
        covered = dict.fromkeys(truth, 0.0)
        for seed in range(2 * REPEATS):
            for name, row in rows_at(one, np.random.default_rng(seed).choice(80, 60)).items():
                covered[name] += abs(row.value - truth[name].value) <= 2 * row.stderr
        assert all(row.stderr > 0 for row in truth.values()), "every figure of merit varies over nodes"
        seen |= set(truth)
        wrong = {name: covered[name] for name in truth if not FEWEST <= covered[name] / (2 * REPEATS) <= MOST}
        assert not wrong
    assert seen == set(MEASURES) - {"seconds"}


def test_stability_over_trainings_that_are_drawn():
    """Each number is of a pair of trainings, and so of two of those that are drawn."""
    models, nodes, drawn_at_once = 30, 16, 10
    ring = torch.arange(nodes)
    ends = torch.stack([torch.cat([ring, ring]), torch.cat([ring + 1, ring + 3]) % nodes])
    x = torch.randn(nodes, 4, generator=torch.Generator().manual_seed(3))
    data = Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        networks = [GCN(4, 8, 2, 3).eval() for _ in range(models)]
    rho = np.empty((models, models, nodes))
    for node in range(nodes):
        scores = [gf.Target(network, data.x, data.edge_index, node, 0).gradient()[1] for network in networks]
        ranks = np.stack([rank(one) for one in scores])
        rho[:, :, node] = np.corrcoef(ranks)
    truth = (rho.sum(axis=(0, 1)) - models).mean() / models / (models - 1)
    covered = {"plain": 0.0, "pairs": 0.0}
    for seed in range(2 * REPEATS):
        rng = np.random.default_rng(seed)
        chosen, places = rng.choice(models, drawn_at_once, replace=False), rng.choice(nodes, nodes)
        means = (rho[np.ix_(chosen, chosen, places)].sum(axis=1) - 1) / (drawn_at_once - 1)
        for name, table in (("plain", means), ("pairs", spread_over_pairs(means))):
            value, error = pool_widened(table)
            covered[name] += abs(value - truth) <= 2 * error
    assert covered["plain"] / (2 * REPEATS) < FEWEST <= covered["pairs"] / (2 * REPEATS) <= MOST


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_means_over_draws_long(judged, name):
    target, scores, _ = judged
    truth = drawn(target, scores, name, 60_000)(7).value
    assert 0.93 <= share_covered(drawn(target, scores, name, 200), truth, 1000) <= 0.97
