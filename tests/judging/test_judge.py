"""The judge: any explainer on the same samples, failures as rows, pooled and paired numbers, JSON and a page."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch_geometric.explain import Explainer
from torch_geometric.explain.algorithm import AttentionExplainer, CaptumExplainer, DummyExplainer, GNNExplainer
from torch_geometric.nn import GCN
from typer.testing import CliRunner

import graphfaith as gf
from conftest import needs_data
from graphfaith import metric
from graphfaith.cli.application import app
from graphfaith.facade.subject import Subject
from graphfaith.judging import MEASURES, PEERS
from graphfaith.judging.entrants import Own
from graphfaith.judging.scene import Scene
from graphfaith.metric.attribution import read_attribution
from graphfaith.metric.measured import effective_count, widening
from graphfaith.metric.pooling import pool_widened
from judged import setting, small_graph

QUICK = {"samples": 40, "test_samples": 40, "draws": 10, "repeats": 2}


def by_degree(model, data, node):
    return torch.bincount(data.edge_index[1], minlength=data.num_nodes)[data.edge_index[1]].double()


def breaks_at_three(model, data, node):
    if node == 3:
        raise RuntimeError("no explanation of <node> 3")
    return torch.ones(data.num_nodes, 1), torch.ones(data.num_edges)


@pytest.fixture(scope="module")
def verdict():
    model, data, *_ = setting("gcn")
    explainers = {
        "kec": "kec",
        "saliency": "saliency",
        "pyg": GNNExplainer(epochs=5),
        "mine": gf.Linear("U(A,0.5)", num_samples=30),
        "degree": by_degree,
        "breaks": breaks_at_three,
        "attention": AttentionExplainer(),
    }
    return gf.judge(model, data, explainers, [2, 3, 4], "all", dataset="toy", **QUICK)


def test_every_method_has_every_measure(verdict):
    assert verdict.methods == ["kec", "saliency", "pyg", "mine", "degree", "breaks", "attention", "random", "zero"]
    measures = {measure for measure, _ in verdict.columns}
    assert measures == {m.name for m in MEASURES.values() if m.group not in ("truth", "training")}
    assert len(verdict) == len(verdict.methods) * len(verdict.columns)
    for method in ("kec", "saliency", "pyg", "degree", "random"):
        for measure, near in verdict.columns:
            row = verdict.row(method, measure, near)
            assert row.nodes == [2, 3, 4]
            assert not row.errors
            if not measure.startswith("stability"):  # equal scores have no ranks
                assert math.isfinite(row.value)
                assert math.isfinite(row.stderr)
    for measure, near in verdict.columns:
        column = [row for row in verdict if (row.measure, row.neighborhood) == (measure, near)]
        best = [row.value for row in column if row.rank == 1]
        values = [row.value for row in column if not math.isnan(row.value)]
        assert best[0] == (max if column[0].better == "higher" else min)(values)


def test_a_failure_is_a_row_and_not_the_end(verdict):
    row = verdict.row("breaks", "fidelity+")
    assert row.nodes == [2, 4]
    assert "no explanation of <node> 3" in row.errors[3]
    row = verdict.row("attention", "fidelity+")
    assert row.nodes == []
    assert math.isnan(row.value)
    assert row.rank is None
    assert "attention" in row.errors[2]
    assert verdict.row("saliency", "delta", "B(A,0.5)").errors == {}


def test_rows_are_the_functions_numbers(verdict):
    """The judge's batches give what each function gives by itself."""
    model, data, *_ = setting("gcn")
    for place, node in enumerate((2, 3, 4)):
        explanation = gf.explain(model, data, node, method="saliency")
        explainer = gf.explainer_for(model, data, method="saliency")
        target, scores = read_attribution(explainer, explanation)
        robust = metric.robust_fidelity(target, scores, num_samples=10, seed=1)
        plain = metric.fidelity(target, scores, top=0.2, level="probability")
        suf = metric.sufficiency(target, scores, num_samples=10, seed=1)
        curves = metric.curves(target, scores)
        expected = {
            "delta": gf.general_unfaithfulness(explainer, explanation, "B(A,0.5)", num_samples=40, seed=1),
            "infidelity": metric.infidelity(target, scores, "B(A,0.5)", num_samples=40, seed=1),
            "fidelity+": plain.plus,
            "fidelity-": plain.minus,
            "robust-fidelity+": robust.plus,
            "robust-fidelity-": robust.minus,
            "sufficiency": suf.sufficiency,
            "necessity": suf.necessity,
            "deletion": curves.deletion,
            "insertion": curves.insertion,
            "gef": metric.pyg_unfaithfulness(target, scores, top=0.2),
            "sparsity": metric.sparsity(scores),
        }
        for measure, wanted in expected.items():
            near = "B(A,0.5)" if measure in ("delta", "infidelity") else None
            found = verdict.row("saliency", measure, near).table[0, place]
            # Self-loops have scores in a LinearModel of the explanation, and have them in Delta too.
            assert found == pytest.approx(wanted.value, abs=1e-6), measure


def test_pooled_and_paired_numbers(verdict):
    row = verdict.row("saliency", "delta", "U(A,0.5)")
    assert (row.value, row.stderr) == pool_widened(row.table)
    assert row.effective_nodes == effective_count(row.table)
    assert "°" in str(verdict), "three nodes are few"
    zero = verdict.row("zero", "delta", "U(A,0.5)")
    relative = verdict.row("saliency", "relative-delta", "U(A,0.5)")
    ratio, error = metric.pool_ratio(row.table, zero.table)
    assert (relative.value, relative.stderr) == pytest.approx((ratio, error * widening(relative.table)))
    assert verdict.row("zero", "relative-delta", "U(A,0.5)").value == pytest.approx(1)
    found = verdict.difference("saliency", "random", "delta", "U(A,0.5)")
    both = row.table - verdict.row("random", "delta", "U(A,0.5)").table
    assert (found.value, found.stderr) == pytest.approx(pool_widened(both))
    assert found.nodes == 3
    part = verdict.difference("saliency", "breaks", "fidelity+")
    assert part.nodes == 2
    with pytest.raises(gf.InputError, match="2 rows"):
        verdict.row("saliency", "delta")
    plus, minus = (verdict.row("saliency", f"fidelity{sign}").value for sign in "+-")
    harmonic = 2 / (1 / plus + 1 / (1 - minus)) if plus > 0 else 0
    assert verdict.row("saliency", "characterization").value == pytest.approx(harmonic)


def test_the_same_seed_gives_the_same_rows():
    model, data, *_ = setting("gat")
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    runs = [
        [
            *gf.judge(model, data, [GNNExplainer(epochs=3), DummyExplainer()], [1, 2], "all", **QUICK),
            *gf.judge(model, data, ["captum-shapley", "pyg-pgexplainer"], [1], "fidelity+", **QUICK),
        ]
        for _ in range(2)
    ]
    for a, b in zip(*runs, strict=True):
        assert not a.errors, a.errors
        if a.measure != "seconds":
            assert (a.value, a.stderr) == pytest.approx((b.value, b.stderr), abs=1e-9, nan_ok=True), a
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002
    other = gf.judge(model, data, [DummyExplainer()], [1, 2], "fidelity+", seed=5, **QUICK)
    first = gf.Verdict(runs[0][:-4]).row("DummyExplainer", "fidelity+")
    assert other.row("DummyExplainer", "fidelity+").value != first.value


@pytest.mark.parametrize("name", ["gat", "graph", "link", "regression"])
def test_every_peer_at_every_level(name):
    """Each peer gives scores or says why not; the model is left as it was."""
    model, data, config, row = setting(name)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    measures = ["delta", "fidelity+", "sufficiency", "sparsity"]
    words = {"level": config["task_level"], "mode": config["mode"], "return_type": "raw"}
    found = gf.judge(model, data, [*PEERS, "subgraphx"], [row], measures, neighborhoods="B(A,0.5)", **words, **QUICK)
    failed = {method: found.row(method, "fidelity+").errors for method in found.methods}
    refused = {method for method, errors in failed.items() if errors}
    known = {
        "gat": set(),
        "graph": {"pyg-attention", "subgraphx"},
        # PyG's PGExplainer explains no edges, and its wrapper of Captum no binary model that returns logits.
        "link": {"pyg-attention", "subgraphx", "pyg-pgexplainer", *(peer for peer in PEERS if "captum" in peer)},
        "regression": {"pyg-attention"},
    }
    assert refused == known[name], {method: failed[method] for method in refused}
    for method in set(found.methods) - refused:
        assert math.isfinite(found.row(method, "delta").value)
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert not any(hasattr(module, "_edge_mask") and module._edge_mask is not None for module in model.modules())


@pytest.mark.filterwarnings("ignore:Input Tensor")
def test_a_peer_on_the_computation_graph_is_what_it_is_on_the_whole():
    """Captum's gradients of a node are the same there; scores of PyG's own are masks over the same edges."""
    data, model = small_graph(2, nodes=40, edges=45), setting("gcn")[0]
    scene = Scene(Subject(model, data), (5,), gf.UniformEdges(0.5))
    found = PEERS["captum-ig"]().explain(scene, 5, 0)
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = Explainer(
        model,
        CaptumExplainer("IntegratedGradients"),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=config,
    )
    whole = explainer(data.x, data.edge_index, index=5)
    part = found.graph
    assert part.num_nodes < 40
    given = (part.edge_id >= 0).nonzero().view(-1)
    assert torch.allclose(found.edges[given].float(), whole.edge_mask[part.edge_id[given]], atol=1e-5)
    seen = slice(None, part.num_visible)
    assert torch.allclose(found.features[seen].float(), whole.node_mask[part.nodes[seen]], atol=1e-5)


PAIRS = ((0, 1), (0, 2), (1, 2))


def test_several_trainings_are_pooled():
    models = [setting("gcn", seed)[0] for seed in (0, 1, 2)]
    data = setting("gcn")[1]
    found = gf.judge(models, data, ["saliency"], [1, 2], ["fidelity+", "stability-training"], **QUICK)
    row = found.row("saliency", "fidelity+")
    assert row.table.shape == (3, 2)
    assert row.trainings == 3
    assert (row.value, row.stderr) == pool_widened(row.table)
    alone = [gf.judge(model, data, ["saliency"], [1, 2], "fidelity+", **QUICK) for model in models]
    for one, table in zip(alone, row.table, strict=True):
        assert one.row("saliency", "fidelity+").table[0] == pytest.approx(table)
    again = found.row("saliency", "stability-training")
    assert -1 <= again.value < 1
    assert found.row("random", "stability-training").value == pytest.approx(1)
    # Of three trainings at a node, the error is that of the mean over pairs, whose numbers are pseudo-values.
    pairs = [gf.judge([models[a], models[b]], data, ["saliency"], [1], "stability-training", **QUICK) for a, b in PAIRS]
    of_pairs = [one.row("saliency", "stability-training").value for one in pairs]
    left_out = [3 * np.mean(of_pairs) - 2 * of_pairs[2 - training] for training in range(3)]
    assert again.table[:, 0] == pytest.approx(left_out)


def test_a_truth_ranks_who_finds_it():
    model, data, *_ = setting("gcn")
    truth = metric.Truth(edges=(data.edge_index[0] < data.edge_index[1]).float())

    def knows(model, data, node):
        return (data.edge_index[0] < data.edge_index[1]).double()

    found = gf.judge(model, data, [knows], [1, 2], ["roc-auc", "precision-at-k", "sparsity"], truth=truth, **QUICK)
    assert found.row("knows", "roc-auc").value == found.row("knows", "precision-at-k").value == 1
    assert found.row("random", "roc-auc").value < 1
    assert found.row("zero", "roc-auc").value == 0.5
    signed = metric.Truth(nodes=data.x[:, 0].double())
    by_node = gf.judge(
        model,
        data,
        {"sum": lambda model, data, node: (data.x[:, 0], None)},
        [1, 2],
        ["rank-agreement", "sign-agreement"],
        truth=lambda node: signed if node == 1 else None,
        **QUICK,
    )
    assert by_node.row("sum", "rank-agreement").value == pytest.approx(1)
    assert by_node.row("sum", "sign-agreement").value == 1
    assert by_node.row("sum", "sign-agreement").nodes == [1]


def test_features_can_be_removed_too():
    model, data, *_ = setting("gcn")
    measures = ["fidelity+", "robust-fidelity+", "deletion"]
    found = gf.judge(model, data, ["saliency"], [1, 2], measures, parts=["edges", "features"], **QUICK)
    assert {near[:3] for _, near in found.columns} == {"B(A", "B(X"}
    target = gf.Target(model, data.x, data.edge_index, 1)
    part = target.computation_graph
    scores = torch.where(part.x != 0, target.gradient()[0], -math.inf)[: part.num_visible].flatten()
    first = scores.argsort(descending=True)[: round(0.2 * len(scores))]
    x = part.x.clone().flatten()
    x[first] = 0
    gone = target.outputs(gf.Perturbations(part, (part.x - x.view(part.x.shape)).unsqueeze(0), None)).softmax(-1)
    lost = float(gone[0, 0, target.label] - gone[1, 0, target.label])
    near = "B(X,1) inside the top 0.2"
    assert found.row("saliency", "fidelity+", near).table[0, 0] == pytest.approx(lost, abs=1e-6)


@pytest.mark.parametrize("explainer", ["shapley", gf.Shapley(num_samples=40)], ids=["by name", "as an object"])
def test_features_without_scores_are_not_judged_as_zeros(explainer):
    """Shapley values of edges leave features out: none is judged, and a node has the sum of its edges."""
    model, data, *_ = setting("gcn")
    entrant = Own("one", explainer) if isinstance(explainer, gf.Shapley) else Own(explainer)
    judged = {"one": explainer} if isinstance(explainer, gf.Shapley) else [explainer]
    measures = ["fidelity+", "necessity", "sparsity", "rank-agreement"]
    truth, parts = metric.Truth(nodes=data.x[:, 0].double()), ["edges", "features"]
    found = gf.judge(model, data, judged, [1], measures, truth=truth, parts=parts, **QUICK)
    of_features = [(measure, near) for measure, near in found.columns if "X" in near or "features" in near]
    assert [measure for measure, _ in of_features] == measures[:3]
    assert len(found.columns) == 7, "edges and features have columns of their own"
    for measure, near in found.columns:
        nodes = [found.row(name, measure, near).nodes for name in (entrant.name, "random")]
        assert nodes == [[] if (measure, near) in of_features else [1], [1]]
    scores = entrant.explain(Scene(Subject(model, data), (1,), gf.UniformEdges(0.5)), 1, 0)
    assert scores.features is None
    assert bool(scores.node_scores.any())


def test_mistakes_are_found_before_any_work():
    model, data, *_ = setting("gcn")

    def never(model, data, node):
        raise AssertionError("it was called")

    for wrong in (
        {"explainers": ["kecc"]},
        {"explainers": {"random": never}},
        {"explainers": [3]},
        {"measures": "fidelity++"},
        {"neighborhoods": "U(Z,1)"},
        {"top": 2.0},
        {"by": "size"},
        {"parts": "nodes"},
        {"alpha1": 3},
        {"nodes": []},
        {"nodes": [99]},
        {"draws": 0},
        {"seed": -1},
        {"measures": 3},
        {"measures": []},
        {"measures": "roc-auc"},  # without a truth
        {"measures": "stability-training"},  # of one training
        {"measures": ["label-fidelity+", "gef"], "mode": "regression"},
        {"measures": "roc-auc", "truth": metric.Truth(nodes=data.x[:, 0])},  # which has signs
        {"truth": metric.Truth(edges=torch.ones(3))},
        {"truth": {1: metric.Truth(nodes=torch.full((data.num_nodes,), math.nan))}},
        {"truth": {1: torch.ones(data.num_edges)}},
        {"noise": -0.1},
        {"noise": math.nan},
        {"samples": 0},
    ):
        found: dict = {"model": model, "data": data, "explainers": {"never": never}, "nodes": [1], **wrong}
        with pytest.raises(gf.InputError):
            gf.judge(**found)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda data: torch.full((data.num_edges,), math.nan), "not finite"),
        (lambda data: None, "must return scores of edges"),
        (lambda data: (None, None), "must return scores of edges"),
        (lambda data: "scores", "must return numbers"),
        (lambda data: torch.ones(data.num_edges, dtype=torch.complex64), "real numbers"),
        (lambda data: torch.ones(2, 2), "of shape"),
    ],
)
def test_scores_that_cannot_be_judged_are_a_row_that_says_so(returned, said):
    model, data, *_ = setting("gcn")
    found = gf.judge(model, data, {"bad": lambda m, d, n: returned(d)}, [1], ["delta", "sparsity"], **QUICK)
    row = found.row("bad", "sparsity")
    assert math.isnan(row.value)
    assert said in row.errors[1]
    assert math.isfinite(found.row("random", "sparsity").value)


def test_a_list_of_numbers_is_scores_of_edges():
    model, data, *_ = setting("gcn")
    ones = {"list": lambda m, d, n: [1] * d.num_edges, "tensor": lambda m, d, n: torch.ones(d.num_edges)}
    found = gf.judge(model, data, ones, [1], "fidelity+", **QUICK)
    assert found.row("list", "fidelity+").value == found.row("tensor", "fidelity+").value


def test_what_a_function_does_to_the_graph_reaches_nobody():
    model, data, *_ = setting("gcn")

    def spoils(model, data, node):
        data.x.zero_()
        return torch.ones(data.num_edges)

    before = data.x.clone()
    found = gf.judge(model, data, [spoils, "saliency"], [1], "fidelity+", **QUICK)
    assert torch.equal(data.x, before)
    alone = gf.judge(model, data, ["saliency"], [1], "fidelity+", **QUICK)
    assert found.row("saliency", "fidelity+").value == alone.row("saliency", "fidelity+").value


def test_a_judgement_in_which_everything_fails_says_why():
    model, data, *_ = setting("gcn")
    found = gf.judge(model, data, ["saliency"], [1], ["fidelity+", "seconds"], max_memory=1, **QUICK)
    assert len(found) == 6
    for row in found:
        assert "memory" in row.errors[1]
        assert math.isnan(row.value)
    assert "memory" in str(found)


def test_trainings_of_other_depths_lose_their_comparison_alone():
    data = setting("gcn")[1]
    torch.manual_seed(0)
    models = [GCN(4, 8, layers, 3) for layers in (2, 3)]
    found = gf.judge(models, data, ["saliency"], [2], ["fidelity+", "stability-training"], **QUICK)
    assert math.isfinite(found.row("saliency", "fidelity+").value)
    again = found.row("saliency", "stability-training")
    assert math.isnan(again.value)
    assert "different parts of the graph" in again.errors[2]
    assert found.row("saliency", "fidelity+").errors == {}


def test_a_truth_that_fails_is_said_before_any_work():
    model, data, *_ = setting("gcn")

    def never(model, data, node):
        raise AssertionError("it was called")

    def breaks(node):
        raise KeyError(node)

    for truth, said in ((breaks, "truth.1. failed: KeyError"), (lambda node: 3, "must be a Truth"), (3, "a function")):
        with pytest.raises(gf.InputError, match=said):
            gf.judge(model, data, [never], [1], ["fidelity+", "roc-auc"], truth=truth, **QUICK)


def test_a_truth_that_fails_later_takes_its_own_measures_alone():
    model, data, *_ = setting("gcn")
    asked = []

    def once(node):
        asked.append(node)
        if asked.count(node) > 1 and node == 2:
            raise OSError("the file is gone")
        return metric.Truth(edges=torch.arange(data.num_edges) % 2)

    found = gf.judge(model, data, ["saliency"], [1, 2], ["fidelity+", "roc-auc"], truth=once, **QUICK)
    for method in found.methods:
        row = found.row(method, "roc-auc")
        assert (row.nodes, list(row.errors)) == ([1], [2])
        assert "the file is gone" in row.errors[2]
        assert row.rank is not None, "all rows lack the same prediction"
        assert found.row(method, "fidelity+").nodes == [1, 2]
        assert found.row(method, "fidelity+").errors == {}


def test_a_failure_takes_nothing_that_was_measured():
    models, data = [setting("gcn", seed)[0] for seed in (0, 1)], setting("gcn")[1]
    calls = []

    def tires(model, data, node):  # It explains once, and not again.
        calls.append(node)
        if len(calls) > 1:
            raise RuntimeError("too tired")
        return torch.arange(data.num_edges).double()

    measures = ["delta", "fidelity+", "sparsity", "stability-noise"]
    row = gf.judge(models[0], data, [tires], [1], measures, neighborhoods="B(A,0.5)", **QUICK).row
    for measure in measures[:3]:
        assert math.isfinite(row("tires", measure).value)
        assert row("tires", measure).errors == {}
    assert "too tired" in row("tires", "stability-noise").errors[1]
    calls.clear()
    second = {
        "second": lambda model, data, node: (
            calls.append(0) or (1 / 0 if len(calls) == 1 else torch.ones(data.num_edges))
        )
    }
    found = gf.judge(models, data, second, [1], "fidelity+", **QUICK).row("second", "fidelity+")
    assert np.isnan(found.table).tolist() == [[True], [False]]
    assert "division by zero" in found.errors[1]
    assert (found.rank, found.remark) == (None, "of 1 of 2 predictions, and so not ranked")


def test_a_fit_that_fails_in_one_neighborhood_is_missing_there_alone(monkeypatch):
    model, data, *_ = setting("gcn")
    plain = Own.explain

    def explain(self, scene, index, seed):
        if str(scene.near) == "B(A,0.5)":
            raise RuntimeError("no fit")
        return plain(self, scene, index, seed)

    monkeypatch.setattr(Own, "explain", explain)
    found = gf.judge(model, data, ["kec"], [1], ["delta", "fidelity+"], **QUICK)
    assert math.isfinite(found.row("kec", "delta", "U(A,0.5)").value)
    assert math.isfinite(found.row("kec", "fidelity+").value)
    assert "no fit" in found.row("kec", "delta", "B(A,0.5)").errors[1]
    assert found.row("kec", "delta", "U(A,0.5)").errors == {}


def test_a_mean_of_fewer_predictions_has_no_rank(verdict):
    row = verdict.row("breaks", "fidelity+")
    assert (row.nodes, row.rank) == ([2, 4], None)
    assert row.remark == "of 2 of 3 predictions, and so not ranked"
    column = [one for one in verdict if one.measure == "fidelity+" and one.method not in ("breaks", "attention")]
    assert sorted(one.rank for one in column)[0] == 1
    assert max(one.rank for one in column) <= len(column)
    assert f"{row.value:.3g} ± {row.stderr:.1g}*" in str(verdict)
    page = verdict.page()
    assert "breaks *" in page
    assert "of 2 of 3 predictions, and so not ranked" in page


def test_scores_without_signs_have_no_sign_agreement():
    model, data, *_ = setting("gcn")
    signed = metric.Truth(nodes=torch.where(torch.arange(data.num_nodes) % 4 > 0, 1.0, -1.0))
    ways = {
        "mask": lambda m, d, n: (torch.rand(d.num_nodes, 1), None),
        "signs": lambda m, d, n: (signed.numbers.unsqueeze(1), None),
    }
    found = gf.judge(model, data, ways, [1, 2], ["rank-agreement", "sign-agreement"], truth=signed, **QUICK)
    row = found.row("mask", "sign-agreement")
    assert math.isnan(row.value)
    assert row.rank is None
    assert "never negative" in row.remark
    assert "mask, sign-agreement: its scores are never negative" in str(found)
    assert found.row("signs", "sign-agreement").value == 1
    assert found.row("random", "sign-agreement").rank is not None
    assert math.isfinite(found.row("mask", "rank-agreement").value)


def test_differences_are_paired_in_every_form(verdict):
    less = verdict.against("saliency")
    assert {one.second for one in less} == {"saliency"}
    assert len(less) == len(verdict) - len(verdict.columns)
    one = next(one for one in less if (one.first, one.measure) == ("random", "fidelity+"))
    assert one == verdict.difference("random", "saliency", "fidelity+")
    row = next(row for row in verdict.as_json() if (row["method"], row["measure"]) == ("random", "fidelity+"))
    assert row["less"]["saliency"] == {"value": one.value, "stderr": one.stderr, "nodes": 3}
    assert set(row["less"]) == set(verdict.methods) - {"random"}
    assert row["less"]["attention"] == {"value": None, "stderr": None, "nodes": 0}
    assert f"{one.value:+.3g} ± {one.stderr:.1g}" in str(less)
    page = verdict.page(against="saliency")
    assert "Each method less saliency" in page
    assert f"{one.value:+.3g}<small>± {one.stderr:.1g}</small>" in page
    assert "Each method less kec" in verdict.page()
    for call in (verdict.against, lambda name: verdict.page(against=name)):
        with pytest.raises(gf.InputError, match="no method 'nobody'"):
            call("nobody")


def test_measures_that_are_not_defined_are_left_out():
    model, data, config, row = setting("regression")
    words = {"level": config["task_level"], "mode": config["mode"], "return_type": "raw"}
    found = gf.judge(model, data, ["saliency"], [row], "all", **words, **QUICK)
    assert {"fidelity+", "characterization"} <= {measure for measure, _ in found.columns}
    assert not {"gef", "label-fidelity+", "roc-auc"} & {measure for measure, _ in found.columns}


def test_json_pandas_and_the_page(verdict, tmp_path):
    verdict.to_json(tmp_path / "rows.json")
    rows = json.loads((tmp_path / "rows.json").read_text())
    keys = {"dataset", "method", "measure", "neighborhood", "value", "stderr", "nodes", "seed"}
    assert len(rows) == len(verdict)
    assert all(keys <= set(row) for row in rows)
    assert rows[0]["dataset"] == "toy"
    frame = verdict.to_pandas()
    assert len(frame) == len(verdict)
    text = verdict.page(tmp_path / "page.html", title="<b>judged</b>")
    assert (tmp_path / "page.html").read_text() == text
    assert "<b>judged" not in text
    assert "&lt;node&gt; 3" in text  # what a method raised is text
    assert "<script" not in text
    assert "default-src &#x27;none&#x27;; style-src &#x27;sha256-" in text
    row = verdict.row("saliency", "fidelity+")
    assert f"{row.value:.3g} ± {row.stderr:.1g}" in text
    shown = str(verdict)
    assert "no explanation of <node> 3" in shown
    assert "failed" in shown
    with pytest.raises(gf.InputError):
        verdict.page(tmp_path / "page.txt")


@pytest.mark.filterwarnings("ignore")
def test_the_command(tmp_path, monkeypatch):
    model, data, *_ = setting("gcn")
    torch.save(data, tmp_path / "graph.pt")
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    code = "import torch\nfrom torch_geometric.nn import GCN\n\n\ndef load():\n    model = GCN(4, 8, 2, 3)\n"
    code += "    model.load_state_dict(torch.load('weights.pt', weights_only=True))\n    return model\n"
    (tmp_path / "judged_model.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = "judge --model judged_model:load --data graph.pt --nodes 1,2 --method saliency --method pyg-dummy "
    words += "--measure fidelity+ --measure delta --neighborhood U(A,0.5) --test-samples 20 --top 3 "
    words += "--json rows.json --page page.html"
    run = CliRunner().invoke(app, words.split(), catch_exceptions=False)
    assert run.exit_code == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {row["method"] for row in rows} == {"saliency", "pyg-dummy", "random", "zero"}
    assert {row["measure"] for row in rows} == {"fidelity+", "delta"}
    assert rows[0]["nodes"] == [1, 2]
    assert rows[0]["dataset"] == "graph.pt"
    options = {"neighborhoods": "U(A,0.5)", "test_samples": 20, "top": 3}
    same = gf.judge(model, data, ["saliency", "pyg-dummy"], [1, 2], ["fidelity+", "delta"], **options)
    for row, other in zip(rows, same, strict=True):
        assert row["value"] == pytest.approx(other.value)
    assert "fidelity+" in run.stdout
    assert (tmp_path / "page.html").stat().st_size > 2000
    for wrong in ("--method nobody", "--measure nothing", "--top many", "--part nodes", "--json rows.txt"):
        with pytest.raises(gf.GraphfaithError):
            CliRunner().invoke(app, [*words.split(), *wrong.split()], catch_exceptions=False)
    words = "judge --model judged_model:load --data graph.pt --nodes 1,2 --method saliency --json rows.json "
    words += "--measure roc-auc --measure robust-fidelity+ --against saliency --draws 7 --alpha1 0.4"
    np.savez(tmp_path / "truth.npz", edges=np.arange(data.num_edges) % 2)
    run = CliRunner().invoke(app, [*words.split(), "--truth", "truth.npz"], catch_exceptions=False)
    truth = metric.Truth(edges=torch.arange(data.num_edges) % 2)
    options = {"truth": truth, "draws": 7, "alpha1": 0.4}
    same = gf.judge(model, data, ["saliency"], [1, 2], ["roc-auc", "robust-fidelity+"], **options)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["value"] for row in rows] == pytest.approx([row.value for row in same])
    less = same.difference("random", "saliency", "roc-auc")
    assert "Each method less saliency" in run.stdout
    assert f"{less.value:+.3g} ± {less.stderr:.1g}" in run.stdout
    # The labels of its edges are the truth of a graph that has them, and one that is given goes before.
    data.edge_label = 1 - torch.arange(data.num_edges) % 2
    torch.save(data, tmp_path / "graph.pt")
    for more, expected in (([], 1 - rows[0]["value"]), (["--truth", "truth.npz"], rows[0]["value"])):
        CliRunner().invoke(app, [*words.split(), *more], catch_exceptions=False)
        assert json.loads((tmp_path / "rows.json").read_text())[0]["value"] == pytest.approx(expected)
    np.savez(tmp_path / "both.npz", edges=np.ones(2), nodes=np.ones(2))
    np.savez(tmp_path / "short.npz", edges=np.ones(2))
    for wrong, said in (
        ("--truth both.npz", "one of them"),
        ("--truth short.npz", "must have"),
        ("--truth truth.csv", "cannot read the truth"),
        ("--against nobody", "--against must be"),
        ("--draws 0", "--draws"),
        ("--repeats 0", "--repeats"),
        ("--alpha1 2", "--alpha1"),
        ("--alpha2 nan", "--alpha2"),
        ("--model-seed 1", "--model-seed is for models"),
        ("--model-seed 0 --model-seed 0", "twice"),
    ):
        with pytest.raises(gf.GraphfaithError, match=said):
            CliRunner().invoke(app, [*words.split(), *wrong.split()], catch_exceptions=False)


@needs_data
def test_the_command_trains_several_models_and_knows_the_motifs(tmp_path):
    words = "judge --dataset ba-shapes --nodes 400:700:150 --method saliency --measure roc-auc "
    words += f"--measure stability-training --model-seed 0 --model-seed 1 --json {tmp_path / 'rows.json'}"
    CliRunner().invoke(app, words.split(), catch_exceptions=False)
    rows = {(row["method"], row["measure"]): row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert rows["saliency", "roc-auc"]["trainings"] == 2
    assert -1 <= rows["saliency", "stability-training"]["value"] < 1
    assert 0 < rows["saliency", "roc-auc"]["value"] < 1
