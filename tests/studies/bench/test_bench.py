"""Tests of the bench: its statistics, its contenders, its graphs, and the KEC that it compares with."""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN
from torch_geometric.utils import degree, k_hop_subgraph

import graphfaith as gf
from conftest import needs_data
from graphfaith._base.stages import STAGES
from graphfaith.cli import application
from graphfaith.explainers.methods import method_names
from graphfaith.explainers.records import RecordsBuilder
from graphfaith.explainers.sweep import Sweep
from graphfaith.graph.graph import Graph
from graphfaith.model.target import Target
from graphfaith_studies.bench import contenders, growth, pieces
from graphfaith_studies.bench import run as bench_run
from graphfaith_studies.bench.case import copy_case, generate_case, load_case, spread
from graphfaith_studies.bench.contenders import CAPTUM_SALIENCY, GNN
from graphfaith_studies.bench.copies import linked_copies
from graphfaith_studies.bench.curve import Curve, fit_exponent
from graphfaith_studies.bench.growth import Sizes, measure_growth
from graphfaith_studies.bench.lattice import lattice
from graphfaith_studies.bench.peak import measure_peak
from graphfaith_studies.bench.picture import draw
from graphfaith_studies.bench.plan import QUICK, Plan
from graphfaith_studies.bench.profile import measure_profiles
from graphfaith_studies.bench.ratios import BARS, THREADS, missed_pieces, order_figures
from graphfaith_studies.bench.run import rows_of, run
from graphfaith_studies.bench.sections import Section, sections_of
from graphfaith_studies.bench.straightforward import fit_straightforward_kec
from graphfaith_studies.bench.tables import fill_page, marked_in
from graphfaith_studies.bench.threads import find_largest_difference
from graphfaith_studies.bench.timing import Contender, Ratio, Timing, ratio_of, time_interleaved

ALL_METHODS = method_names(in_all=True)

KEYS = [
    "kec_over_captum_saliency",
    "gnnexplainer_over_kec",
    "gnnexplainer_whole_graph_over_kec",
    "straightforward_over_kec",
    "kec1500_over_kec200",
    "whole_graph_over_one_node",
    "anchored_whole_graph_over_one_node",
    "two_threads_over_one",
    "large_sweep_over_cora",
    "whole_graph_peak_mb",
    "anchored_whole_graph_peak_mb",
    "citeseer_over_cora",
    "million_over_ten_thousand",
    "million_peak_mb",
    "features_over_straightforward",
    "anchored_over_kec",
    "anchored_slope_over_kec",
    "readings_over_slope",
]
TINY = Plan(
    nodes=3,
    ba_shapes_nodes=2,
    slow_nodes=2,
    whole_graph_nodes=1,
    whole_graph_elsewhere=0,
    repetitions=2,
    slow_repetitions=1,
    all_nodes_repetitions=1,
    sample_of_all=5,
    anchored_nodes=20,
    scored_nodes=2,
    samples=20,
    many_samples=60,
    test_samples=50,
    gnn_epochs=3,
    pg_epochs=2,
    ig_steps=3,
    large=300,
    large_sweep=200,
)


# The straightforward KEC ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)", "U(X,0.2r)", "U(X,0.2r)xU(A,0.2)"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_straightforward_kec_equals_the_fast_one(near, seed):
    torch.manual_seed(seed)
    count = 12
    edge_index = torch.randint(count, (2, 30))
    edge_index = torch.unique(edge_index[:, edge_index[0] != edge_index[1]], dim=1)
    x = torch.rand(count, 5, dtype=torch.float64)
    model = GCN(5, 8, num_layers=2, out_channels=3).double().eval()
    target, near = Target(model, x, edge_index, 3), gf.parse_neighborhood(near)
    plain, (dx, da) = fit_straightforward_kec(target, near, 60, seed=seed)
    fast = gf.KEC(near, num_samples=60, seed=seed).fit(target)
    others = near.sample(target.computation_graph, 40, seed + 1)
    assert plain.change(others).abs().max() > 1e-3
    assert torch.allclose(plain.change(others), fast.change(others), rtol=0, atol=1e-6)
    for mine, theirs in zip((dx, da), fast.gradient(), strict=True):
        assert torch.allclose(mine, theirs.double(), rtol=0, atol=1e-6)
    assert not x.requires_grad
    assert not target.computation_graph.weight.requires_grad


def test_the_straightforward_kec_supports_only_models_with_edge_weights():
    target = Target(GCN(2, 4, 2, out_channels=3), torch.rand(3, 2), torch.tensor([[0, 1], [1, 2]]), 2, edges="mask")
    with pytest.raises(gf.UnsupportedError, match="edge_weight"):
        fit_straightforward_kec(target, gf.UniformEdges(0.5), 5)


# Times ------------------------------------------------------------------------------------------------------------


class FakeClock:
    """A clock that only the contenders advance, each by the time that ``take`` returns."""

    def __init__(self):
        self.now, self.log = 0.0, []

    def __call__(self):
        return self.now

    def contender(self, name, nodes, take, **options):
        rounds = itertools.count()

        def explanations(nodes):
            self.now += 1000  # Preparations are not timed.
            return self._run(name, next(rounds), nodes, take)

        return Contender(name, nodes, explanations, **options)

    def _run(self, name, repetition, nodes, take):
        for node in nodes:
            self.log.append((name, node))
            self.now += take(repetition, node)
            yield node


def test_times_are_medians_over_repetitions_and_then_over_nodes():
    clock = FakeClock()
    # Round 0 is the warm-up. Node v takes v seconds, but 100 more in round 2, which must not change the median.
    busy = clock.contender("busy", [1, 2, 3, 6], lambda r, v: 500 if r == 0 else 100 + v if r == 2 else v)
    idle = clock.contender("idle", [1, 2, 3, 6], lambda r, v: 0.5)
    timings = time_interleaved([busy, idle], 3, clock=clock)
    assert timings["busy"].by_node == {1: 1, 2: 2, 3: 3, 6: 6}
    assert timings["busy"].median == 2.5
    assert timings["busy"].mean == 3
    assert timings["busy"].quartiles == (1.75, 3.75)
    assert timings["busy"].as_json()["repetitions"] == 3
    assert timings["busy"].as_json()["median_ms"] == 2500
    assert ratio_of(timings["busy"], timings["idle"]) == Ratio(5.0, 6.0)


def test_contenders_take_turns_node_by_node_after_a_warm_up():
    clock = FakeClock()
    one = clock.contender("one", [4, 5], lambda r, v: 1)
    slow = clock.contender("slow", [4, 5], lambda r, v: 1, slow=True)
    cold = clock.contender("cold", [4], lambda r, v: 1, slow=True, warm_up=False)
    timings = time_interleaved([one, slow, cold], 2, 1, clock=clock)
    assert {name: len(timing.seconds[4]) for name, timing in timings.items()} == {"one": 2, "slow": 1, "cold": 1}
    turns = clock.log
    assert sorted(turns[:2]) == [("one", 4), ("slow", 4)]  # In the warm-up a slow contender explains one node.
    assert turns[2] == ("one", 5)
    assert sorted(turns[3:6]) == [("cold", 4), ("one", 4), ("slow", 4)]
    assert sorted(turns[6:8]) == [("one", 5), ("slow", 5)]
    assert turns[8:] == [("one", 4), ("one", 5)]


def test_the_order_of_turns_changes():
    clock = FakeClock()
    both = [clock.contender(name, list(range(20)), lambda r, v: 1) for name in ("one", "two")]
    time_interleaved(both, 1, clock=clock)
    first = [name for name, _ in clock.log[::2]]
    assert 5 < first.count("one") < 35


def test_a_ratio_uses_the_nodes_that_both_have():
    above, below = Timing("above", {1: [8.0], 2: [3.0], 9: [1e9]}), Timing("below", {1: [2.0], 2: [1.0], 7: [1e-9]})
    assert ratio_of(above, below) == Ratio(3.5, 11 / 3)
    assert ratio_of(above, below, paired=False).value == 8.0
    with pytest.raises(ValueError, match="no node in common"):
        ratio_of(above, Timing("other", {5: [1.0]}))


# Figures ----------------------------------------------------------------------------------------------------------


def test_the_bars():
    assert list(BARS) == KEYS
    assert BARS["kec_over_captum_saliency"].reached(1.2)
    assert not BARS["kec_over_captum_saliency"].reached(1.21)
    assert BARS["gnnexplainer_over_kec"].reached(80)
    assert not BARS["gnnexplainer_over_kec"].reached(79)
    assert [str(bar) for bar in BARS.values()] == [
        "<= 1.2",
        ">= 80",
        ">= 1000",
        ">= 30",
        "<= 2.5",
        "<= 0.12",
        "<= 0.2",
        "<= 0.6",
        "<= 1.3",
        "<= 1000",
        "<= 1000",
        "<= 1.5",
        "<= 1.2",
        "<= 500",
        "<= 0.05",
        "<= 1.4",
        "-",
        "-",
    ]
    assert BARS["anchored_over_kec"].piece == pieces.ANCHORED  # as it is by default, with shares, pairs and errors
    assert BARS["readings_over_slope"].reached(100)
    assert missed_pieces({"readings_over_slope": 100.0, "anchored_over_kec": 1.5}) == [pieces.ANCHORED]
    assert list(order_figures({"million_peak_mb": 3.0})) == KEYS
    assert order_figures({"million_peak_mb": 3.0})["million_peak_mb"] == 3.0
    assert order_figures({})["kec_over_captum_saliency"] is None
    with pytest.raises(ValueError, match="no bar"):
        order_figures({"speed": 1.0})


def test_figures_are_computed_from_the_right_contenders():
    seconds = {
        "kec": 2.0,
        "anchored-kec": 6.0,
        contenders.ANCHORED_SLOPE: 3.0,
        contenders.CAPTUM_SALIENCY: 1.0,
        contenders.GNN: 200.0,
        contenders.GNN_WHOLE: 4000.0,
        contenders.STRAIGHTFORWARD: 80.0,
        contenders.KEC_MANY: 6.0,
        contenders.KEC_FEATURES: 3.0,
        contenders.STRAIGHTFORWARD_FEATURES: 60.0,
    }
    figures = bench_run._figures_of({name: Timing(name, {0: [taken]}) for name, taken in seconds.items()})
    assert {key: figure.value for key, figure in figures.items()} == {
        "gnnexplainer_over_kec": 100.0,
        "gnnexplainer_whole_graph_over_kec": 2000.0,
        "straightforward_over_kec": 40.0,
        "kec1500_over_kec200": 3.0,
        "features_over_straightforward": 0.05,
        "anchored_over_kec": 3.0,
        "anchored_slope_over_kec": 1.5,
        "readings_over_slope": 2.0,
    }


def tiny(num_nodes, labels=True):
    case = generate_case(num_nodes, spread(range(num_nodes), 3))
    return case if labels else replace(case, labels=None)


@pytest.fixture(scope="module")
def result():
    sizes = {"cora": 200, "citeseer": 150, "ten-thousand": 100, "million": 300, "large-sweep": 250}
    cases = {name: tiny(count, labels=name not in ("cora", "citeseer")) for name, count in sizes.items()}
    return run(cases, TINY, profile=True)


def test_a_run_has_every_figure(result):
    assert list(result["ratios"]) == KEYS
    memory = [key for key in KEYS if key.endswith("_peak_mb")]
    assert all(math.isfinite(value) and value > 0 for key, value in result["ratios"].items() if key not in memory)
    assert all((result["ratios"][key] is None) == (measure_peak(lambda: None) is None) for key in memory)
    assert list(result["tables"]) == ["cora", "citeseer", "million"]
    names = [row["method"] for row in result["tables"]["cora"]]
    assert names[: len(ALL_METHODS)] == list(ALL_METHODS)
    captum = {contenders.CAPTUM_SALIENCY, contenders.CAPTUM_IG}
    peers = captum | {contenders.GNN, contenders.PG, contenders.STRAIGHTFORWARD}
    assert peers | {contenders.GNN_WHOLE, contenders.KEC_MANY, contenders.KEC_FEATURES} <= set(names)
    assert {row["method"] for row in result["tables"]["million"]} == set(ALL_METHODS) | peers
    assert json.loads(json.dumps(result)) == result


def test_the_ratios_of_a_run_are_those_of_its_tables(result):
    rows = {row["method"]: row for row in result["tables"]["cora"]}
    # This ratio is of KEC and Captum when PyG's Explainer calls both on the same computation graph.
    assert result["ratios"]["kec_over_captum_saliency"] == result["computation_graph"]["ratio"]
    assert rows["kec"]["over_captum_saliency"] != result["computation_graph"]["ratio"]
    assert rows[contenders.GNN]["over_gnnexplainer"] == 1
    assert rows["kec"]["nodes"] == 3
    assert rows["kec"]["repetitions"] == 2
    assert rows[contenders.GNN]["nodes"] == 2
    assert rows[contenders.GNN_WHOLE]["nodes"] == 1
    whole = result["whole_graph"]
    assert whole["nodes"] == 200
    assert whole["over_mean"] == result["ratios"]["whole_graph_over_one_node"]
    assert whole["ms_a_node"] == pytest.approx(1e3 * whole["seconds"] / 200)
    anchored = result["anchored_whole_graph"]
    assert anchored["nodes"] == 20
    assert anchored["over_mean"] == result["ratios"]["anchored_whole_graph_over_one_node"]
    assert anchored["over_mean"] == pytest.approx(anchored["ms_a_node"] / anchored["alone_mean_ms"])
    assert anchored["slope_over_mean"] == pytest.approx(anchored["slope_ms_a_node"] / anchored["slope_alone_mean_ms"])
    sizes = result["sizes"]
    assert sizes["large_sweep_nodes"] == 250
    million = result["ratios"]["million_over_ten_thousand"]
    assert million == pytest.approx(sizes["million_ms"] / sizes["ten_thousand_ms"])


def test_every_time_has_its_limit_its_floor_and_its_stages(result):
    rows = {row["piece"]: row for row in result["limits"]["rows"]}
    profiled = {row["piece"] for row in result["profile"]}
    for key, bar in BARS.items():
        assert (bar.piece is None) == key.endswith("_peak_mb")
        if bar.piece is not None:
            assert bar.piece in rows
            assert bar.piece in profiled
            share = rows[bar.piece]["floor_ms"] / rows[bar.piece]["measured_ms"]
            at_floor = result["ratios"][key] * (share if bar.at_most else 1 / share)
            if key == THREADS:
                assert key not in result["floors"]  # It is measured by two processes.
            else:
                assert result["floors"][key] == pytest.approx(at_floor)
    for row in rows.values():
        assert 0 < row["limit_ms"] <= row["floor_ms"]
        assert row["over_limit"] == pytest.approx(row["measured_ms"] / row["limit_ms"])
        assert row["over_limit"] > 1  # Nothing is faster than its limit.


@pytest.mark.parametrize(("bound", "profiled"), [(0.0, [pieces.MILLION]), (math.inf, [])])
def test_the_stages_of_missed_bars_are_measured_in_any_run(monkeypatch, bound, profiled):
    key, timings = "million_over_ten_thousand", {name: Timing(name, {0: [1.0]}) for name in (CAPTUM_SALIENCY, GNN)}
    monkeypatch.setitem(BARS, key, replace(BARS[key], bound=bound))
    monkeypatch.setattr(bench_run, "_time_case", lambda *_: timings)
    monkeypatch.setattr(bench_run, "measure_peak_of_one_node", lambda _: 1.0)
    result = run({"million": tiny(300), "ten-thousand": tiny(100)}, TINY)
    assert [row["piece"] for row in result["profile"]] == profiled
    assert [row["piece"] for row in result["limits"]["rows"]] == [pieces.MILLION]


def test_faithfulness_is_the_same_whichever_way_it_is_computed(result):
    scores = result["faithfulness"]
    assert list(scores) == ["fast", "straightforward", "whole_graph"]
    assert scores["fast"] > 0
    assert scores["straightforward"] == pytest.approx(scores["fast"], rel=0.01)
    assert scores["whole_graph"] == pytest.approx(scores["fast"], rel=0.01)


def test_figures_that_were_not_measured_are_null():
    result = run({"citeseer": tiny(150, labels=False)}, TINY)
    assert set(result["ratios"].values()) == {None}
    assert "faithfulness" not in result


def test_rows_need_no_whole_graph():
    timings = {name: Timing(name, {0: [1.0], 1: [3.0]}) for name in ("kec", contenders.CAPTUM_SALIENCY, contenders.GNN)}
    assert [row["over_gnnexplainer"] for row in rows_of(timings)] == [1, 1, 1]


@pytest.fixture
def ways(monkeypatch):
    """Record ``together`` and the nodes of every call of ``explain_nodes`` by the bench."""
    given = []

    def spied(*arguments, **options):
        given.append((options["together"], arguments[3]))
        return gf.explain_nodes(*arguments, **options)

    monkeypatch.setattr("graphfaith_studies.bench.case.explain_nodes", spied)
    return given


def test_single_nodes_are_timed_one_by_one(ways):
    case = tiny(120)
    tables = [*contenders.contenders_on(case, TINY), *contenders.kec_variants(case, TINY)]
    for contender in [*tables, contenders.kec_contender(case, TINY, "other")]:
        if contender.name in ALL_METHODS or contender.name in (contenders.KEC_MANY, contenders.KEC_FEATURES, "other"):
            before = len(ways)
            next(iter(contender.explanations(case.nodes)))
            assert len(ways) == before + 1, contender.name
    assert len(ways) >= 4
    assert {together for together, _ in ways} == {False}


def test_all_nodes_are_explained_together(ways):
    contender = contenders.all_nodes_contender(tiny(120), "all", gf.KEC("U(A,0.5)", num_samples=20), masks=True)
    assert list(contender.explanations(contender.nodes)) == [120]
    assert ways == [(None, None)]


@pytest.mark.parametrize("threads", [1, 2])
def test_all_nodes_are_recorded(ways, monkeypatch, threads):
    before, seen = torch.get_num_threads(), []
    monkeypatch.setattr("graphfaith.explainers.many.Sweep", spied_sweep(seen))
    algorithm = gf.KEC("U(A,0.5)", num_samples=20)
    contender = contenders.all_nodes_contender(tiny(120), "all", algorithm, threads=threads)
    assert list(contender.explanations(contender.nodes)) == [120]
    assert ways == []
    assert seen == [threads]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(("wanted", "count"), [(None, 120), (30, 30), (500, 120)])
def test_the_nodes_that_anchored_kec_explains_together(wanted, count):
    nodes = contenders.anchored_nodes(tiny(120), replace(TINY, anchored_nodes=wanted))
    assert len(set(nodes)) == count
    assert max(nodes) >= 115


def spied_sweep(seen):
    """Return a sweep that says how many threads it has."""

    class Spied(Sweep):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            seen.append(self.num_threads)

    return Spied


def test_the_faithfulness_of_the_whole_graph_is_of_nodes_explained_together(ways):
    scores = bench_run._measure_faithfulness(tiny(120), TINY, False)
    assert list(scores) == ["fast", "straightforward", "whole_graph"]
    assert sorted(together for together, _ in ways) == [False, True]


def test_profiles_have_the_time_of_every_stage():
    names = [pieces.ONE, pieces.FEATURES, pieces.ALL, pieces.ALL_MASKS]
    profiles = {row["piece"]: row for row in measure_profiles({"cora": tiny(200, labels=False)}, TINY, names)}
    assert list(profiles) == names
    for row in profiles.values():
        assert list(row["ms"]) == [*STAGES, "other"]
        assert sum(row["ms"].values()) == pytest.approx(row["total_ms"])
        # On one node whose edges move, features are a part of the solve.
        stages = ("subgraph", "F", "solve", "layout", *(["features"] if row["piece"] != pieces.ONE else []))
        assert min(row["ms"][stage] for stage in stages) > 0
    assert profiles[pieces.ONE]["nodes"] == 3
    assert profiles[pieces.ALL]["nodes"] == profiles[pieces.ALL_MASKS]["nodes"] == 200


def test_making_the_table_of_all_nodes_is_a_stage(monkeypatch):
    usual, calls = RecordsBuilder.add, []

    def slow(self, **given):
        calls.append(1)
        time.sleep(0.05)
        usual(self, **given)

    monkeypatch.setattr(RecordsBuilder, "add", slow)
    (row,) = measure_profiles({"cora": tiny(120, labels=False)}, TINY, [pieces.ALL])
    assert row["ms"]["layout"] * row["nodes"] >= 50 * len(calls) > 0


def test_threads_do_not_change_the_result():
    assert find_largest_difference(tiny(200), [0, 7]) < 1e-9
    assert torch.get_num_threads() == 1


def test_peak_memory():
    if measure_peak(lambda: None) is None:
        pytest.skip("the kernel does not report the peak memory")
    assert measure_peak(lambda: torch.ones(20_000_000)) == pytest.approx(80, abs=8)
    assert measure_peak(lambda: None) < 2


# Graphs -----------------------------------------------------------------------------------------------------------


def reach(data, nodes):
    return [len(k_hop_subgraph(node, 2, data.edge_index, num_nodes=data.num_nodes)[0]) for node in nodes]


def test_the_lattice_looks_the_same_whatever_its_size():
    small, large = lattice(5_000), lattice(50_000)
    degrees = [degree(data.edge_index[1], data.num_nodes) for data in (small, large)]
    assert 3.5 < degrees[0].mean() < 4.5
    for level in range(12):
        a, b = ((each == level).double().mean() for each in degrees)
        assert abs(a - b) < 0.02
    mean_small, mean_large = (np.mean(reach(data, range(100, 4_900, 16))) for data in (small, large))
    assert mean_small == pytest.approx(mean_large, rel=0.05)
    # The last nodes have as many nodes in reach as the first, because the graph is a ring.
    assert np.mean(reach(large, range(49_900, 50_000))) == pytest.approx(mean_large, rel=0.1)


def test_the_lattice_is_seeded_and_simple():
    first, same, other = lattice(500, seed=3), lattice(500, seed=3), lattice(500, seed=4)
    assert torch.equal(first.edge_index, same.edge_index)
    assert torch.equal(first.x, same.x)
    assert not torch.equal(first.x, other.x)
    assert first.is_undirected()
    assert not first.has_self_loops()
    assert first.is_coalesced() or not first.coalesce().num_edges < same.num_edges
    assert lattice(500, half_degree=6).num_edges > 2.5 * first.num_edges
    assert not (first.train_mask & first.val_mask).any()


def test_linked_copies_keep_degrees_and_features():
    data = lattice(300)
    copies = linked_copies(data, 4)
    assert torch.equal(copies.x.view(4, 300, -1), data.x.expand(4, -1, -1))
    assert torch.equal(copies.y.view(4, 300), data.y.expand(4, -1))
    assert torch.equal(degree(copies.edge_index[1], 1200).view(4, 300), degree(data.edge_index[1], 300).expand(4, -1))
    assert copies.is_undirected()
    of_copy = copies.edge_index // 300
    crossing = (of_copy[0] != of_copy[1]).double().mean()
    assert 0.02 < crossing < 0.1
    assert set(map(tuple, of_copy.T.tolist())) == {(a, b) for a in range(4) for b in range(4)}  # in one piece
    assert linked_copies(data, 1).num_edges == data.num_edges
    with pytest.raises(gf.InputError, match="undirected"):
        linked_copies(Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]])), 2)


def test_a_ring_too_small_for_its_edges_is_refused():
    with pytest.raises(gf.InputError, match="too small"):
        lattice(20)


# Growth -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law(power):
    sizes = [10, 30, 100, 1000]
    assert fit_exponent(sizes, [7 * size**power for size in sizes]) == pytest.approx(power, abs=1e-6)


def test_the_exponent_of_the_upper_half():
    sizes, values = [1, 10, 100, 1000, 10000], [5.0, 5.0, 5.0, 50.0, 500.0]
    assert fit_exponent(sizes, values, upper_half=True) == pytest.approx(1.0)
    assert 0.3 < fit_exponent(sizes, values) < 0.6
    assert fit_exponent(sizes, [None, 0.0, None, 3.0, None]) is None
    assert fit_exponent(sizes, [None, 1.0, None, 100.0, None]) == pytest.approx(1.0)


def test_the_index_of_an_earlier_graph_does_not_hide_memory():
    data = lattice(200)
    index = weakref.ref(Graph.of(data.x, data.edge_index))
    assert index() is not None
    growth._forget_graphs()
    assert index() is None


def test_curves_are_measured_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr("graphfaith_studies.bench.growth._SMALL", 500)
    swept = {"swept_samples": (20, 40), "swept_hops": (1, 2), "swept_half_degrees": (2, 4), "swept_nodes": (100, 200)}
    sizes = Sizes(
        (20, 40), (1, 2), (4, 8), (2, 4), (300, 600), explained=2, repetitions=1, swept=150, sweeps=1, **swept
    )
    curves = measure_growth(sizes)
    assert [curve.together for curve in curves] == [False] * 5 + [True] * 4
    assert [(curve.against, curve.sizes) for curve in curves[5:]] == [
        ("samples S", [20, 40]),
        ("hops M", [1, 2]),
        ("mean degree", [4, 8]),
        ("nodes of the graph", [100, 200]),
    ]
    assert [Curve.from_json(curve.as_json()).as_json() for curve in curves] == [curve.as_json() for curve in curves]
    assert [curve.sizes for curve in curves][:3] == [[20, 40], [1, 2], [4, 8]]
    assert curves[3].sizes[0] < curves[3].sizes[1]
    assert curves[4].sizes == [300, 600]
    assert all(seconds > 0 for curve in curves for seconds in curve.seconds)
    unmeasured = Curve("nothing", [1, 2], [1.0, 2.0], [None, None])
    draw([curves[0], unmeasured, curves[-1]], tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


# The command ------------------------------------------------------------------------------------------------------


def command(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["graphfaith", "bench", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        application.main()
    captured = capsys.readouterr()
    return stop.value.code, captured.out, " ".join(captured.err.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "pubmed"], "unknown dataset 'pubmed': known are ba-shapes, cora, citeseer, million"),
        (["--json", "no/such/folder/bench.json"], "does not exist"),
        (["--json", "bench.txt"], "end the name in .json"),
        (["--figure", "growth.png"], "--growth"),
        (["--growth", "--figure", "growth.txt"], "end the name in .png"),
        (["--growth", "--dataset", "cora"], "leave out --dataset"),
        (["--threads", "--profile"], "leave out --dataset and --profile"),
        (["--all", "--growth"], "leave them out"),
        (["--all", "--dataset", "cora"], "leave them out"),
        (["--from", "bench.json", "--quick"], "--from shows an earlier run"),
        (["--from", "none.json"], "cannot read none.json"),
        (["--page", "speed.md"], "add --all"),
        (["--all", "--page", "speed.txt"], "end the name in .md"),
        (["--all", "--page", "speed.md"], "cannot read the page speed.md"),
    ],
)
def test_wrong_arguments_are_reported_before_any_work(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("graphfaith_studies.bench.session.cases_for", lambda *_: pytest.fail("work has begun"))
    monkeypatch.setattr(
        "graphfaith_studies.bench.session.sweep.measure_growth", lambda *_, **__: pytest.fail("work has begun")
    )
    code, out, err = command(monkeypatch, capsys, *arguments)
    assert code == 2
    assert message in err
    assert not out
    assert not list(tmp_path.iterdir())


def test_data_that_cannot_be_read_are_reported_before_any_work(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("GRAPHFAITH_DATA", str(tmp_path))
    monkeypatch.setattr("graphfaith_studies.bench.session.cases_for", lambda *_: pytest.fail("work has begun"))
    code, _, err = command(monkeypatch, capsys, "--quick")
    assert code == 2
    assert "cannot read" in err
    assert "GRAPHFAITH_DATA" in err


def test_a_missing_peer_is_reported(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "captum", None)
    code, _, err = command(monkeypatch, capsys, "--dataset", "ba-shapes")
    assert code == 2
    assert "pip install captum" in err


def test_the_command_prints_and_writes_its_results(monkeypatch, capsys, tmp_path, result):
    monkeypatch.setattr("graphfaith_studies.bench.session.load_dataset", lambda name: None)
    monkeypatch.setattr("graphfaith_studies.bench.session.cases_for", lambda names, plan: dict.fromkeys(names))
    given = []
    monkeypatch.setattr(
        "graphfaith_studies.bench.session.run", lambda cases, plan, **_: given.append((cases, plan)) or result
    )
    code, out, _ = command(monkeypatch, capsys, "--quick", "--dataset", "cora", "--json", tmp_path / "bench.json")
    assert code == 0
    assert given == [({"cora": None}, QUICK)]
    written = json.loads((tmp_path / "bench.json").read_text())
    assert list(written["ratios"]) == KEYS
    assert written["quick"] is True
    assert written["machine"]["threads"] == 1
    told = " ".join(out.replace("│", " ").split())
    assert "AnchoredKEC, all nodes" in told
    for bar in BARS.values():
        assert " ".join(bar.what.split()[:6]) in told
    assert "straightforward KEC" in out
    assert "Held-out Delta" in out


@pytest.fixture
def everything(monkeypatch, result):
    """Let the command measure nothing: the figures are those of the tiny run, growth and threads are made up."""
    curves = [
        Curve("samples S", [10, 100], [0.001, 0.01], [1.0, None]),
        Curve("nodes of the graph", [10, 100], [0.002, 0.002], [1.0, 2.0], together=True),
    ]
    ways = {"one_process_one_thread": 2.0, "one_process_two_threads": 2.0, "two_processes_one_thread": 1.0}
    ways |= {"one_sweep_one_thread": 3.0, "one_sweep_two_threads": 2.4, "two_sweeps_at_once": 3.9}
    told = {"dataset": "cora", "nodes": 50, "rounds": 5, "seconds": ways}
    where = "graphfaith_studies.bench.session."
    monkeypatch.setattr(where + "load_dataset", lambda name: None)
    monkeypatch.setattr(where + "cases_for", lambda names, plan: dict.fromkeys(names))
    monkeypatch.setattr(where + "run", lambda cases, plan, *, profile, show: {**result, "asked": profile})
    monkeypatch.setattr(where + "sweep.measure_growth", lambda sizes, show: curves)
    monkeypatch.setattr(
        where + "compare_threads",
        lambda *_: {
            **told,
            "processes_over_threads": 0.5,
            "sweep_over_one_thread": 0.8,
            "sweep_floor": 0.65,
            "largest_relative_difference": 0.0,
        },
    )


@pytest.mark.usefixtures("everything")
def test_all_is_measured_in_one_run_and_a_page_is_made_of_its_file(monkeypatch, capsys, tmp_path):
    path, page = tmp_path / "bench.json", tmp_path / "speed.md"
    code, out, _ = command(monkeypatch, capsys, "--all", "--json", path, "--figure", tmp_path / "growth.png")
    assert code == 0
    assert (tmp_path / "growth.png").stat().st_size > 1000
    written = json.loads(path.read_text())
    assert written["asked"] is True  # the stages of all pieces
    assert {"ratios", "limits", "profile", "growth", "threads", "sizes"} <= set(written)
    assert written["floors"][THREADS] == 0.65
    assert "all nodes of a graph together" in out
    assert "is 0.65 of one alone" in " ".join(out.split())
    page.write_text(
        "# Speed\n\n<!-- bench: growth-together -->\nold\n<!-- end -->\nmore\n<!-- bench: figures -->\n<!-- end -->\n"
    )
    code, out, _ = command(monkeypatch, capsys, "--from", path, "--markdown", "--page", page)
    assert code == 0
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("# Speed\n\n<!-- bench: growth-together -->\n| against | ms a node |")
    assert "| nodes of the graph | 10: 2, 100: 2 | 0.00 (-) | 10: 1, 100: 2 | 0.30 (-) |" in text
    assert "more\n<!-- bench: figures -->\n| figure | bar | value |" in text
    for bar in BARS.values():
        assert f"| {bar.what} | {bar} |" in text
    for name in (
        "cora",
        "citeseer",
        "million",
        "words",
        "profile",
        "limits",
        "figures",
        "growth",
        "threads",
        "machine",
    ):
        assert f"<!-- bench: {name} -->\n" in out
    assert max(map(len, out.splitlines())) > 120  # A row of a table in Markdown is one line.


@pytest.mark.parametrize(
    ("text", "message"),
    [("[]", "is not a file that graphfaith bench"), ("{", "cannot read"), ('{"quick": true}', "is not a file")],
)
def test_a_file_of_something_else_is_refused(monkeypatch, capsys, tmp_path, text, message):
    (tmp_path / "bench.json").write_text(text)
    code, out, err = command(monkeypatch, capsys, "--from", tmp_path / "bench.json")
    assert code == 2
    assert message in err
    assert not out


def test_a_page_is_not_made_of_two_runs():
    figures = Section("figures", columns=("figure", "value"), rows=(("a|b", "1"),))
    assert fill_page("<!-- bench: figures -->\n<!-- end -->", [figures]).splitlines()[3] == "| a\\|b | 1 |"
    with pytest.raises(gf.InputError, match="has not measured growth"):
        fill_page("<!-- bench: figures -->\n<!-- end -->\n<!-- bench: growth -->\n<!-- end -->", [figures])


def test_the_page_of_the_documentation_has_a_place_for_every_table(result):
    page = (Path(__file__).parents[3] / "docs" / "speed.md").read_text(encoding="utf-8")
    measured = {section.name for section in sections_of({**result, "quick": True})}
    assert set(marked_in(page)) == measured | {"ba-shapes", "growth", "growth-together", "threads"}


@needs_data
def test_cora_and_the_nodes_of_the_bars():
    cases = bench_run.cases_for(["cora"], Plan())
    large = copy_case(cases["cora"], 8000)
    assert large.data.num_nodes == 3 * 2708
    assert large.data.num_edges == 3 * cases["cora"].data.num_edges
    assert list(cases["cora"].nodes) == list(range(0, 1000, 20))
    assert cases["cora"].data.num_nodes == 2708


@needs_data
def test_the_held_out_delta_of_cora_is_the_same_to_five_digits():
    case, plan = load_case("cora", 4), replace(TINY, scored_nodes=4, samples=200, test_samples=100)
    scores = bench_run._measure_faithfulness(case, plan, False)
    assert scores["fast"] > 1e-4
    assert scores["straightforward"] == pytest.approx(scores["fast"], rel=1e-5)
    assert scores["whole_graph"] == pytest.approx(scores["fast"], rel=1e-5)
