"""Tests of explanations at checkpoints of a training, and of the ROC-AUC of their edge scores."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch

from conftest import needs_data
from graphfaith.data import load_dataset
from graphfaith.data.models import accuracy_on_test, make_untrained, schedule_for, train, training_view
from graphfaith.surrogate.difference import SubgraphModel
from graphfaith_studies.paper import parameters
from graphfaith_studies.paper.checkpoints import make_checkpoints
from graphfaith_studies.paper.edge_auc import (
    TEMPERATURES,
    closeness,
    edge_scores,
    house_of_edges,
    house_of_node,
    near_edges,
    paper_auc,
    rank_auc,
    sigmoid_auc,
    sparsity_area,
)
from graphfaith_studies.paper.experiment import FULL, QUICK, TOY
from graphfaith_studies.paper.parameter_findings import format_findings, rank_correlation
from graphfaith_studies.paper.parameters import METHODS, Parameters
from graphfaith_studies.paper.published import NAMES
from graphfaith_studies.paper.setting import Setting
from graphfaith_studies.paper.temperature import THRESHOLDS, Temperature
from measuring import measure_once

TRUTH = np.array([True, True, False, False, False])


# ROC-AUC ------------------------------------------------------------------------------------------------------------


def test_auc_of_a_perfect_and_of_the_worst_ranking():
    scores = np.array([5.0, -4.0, 3.0, -2.0, 1.0])  # The ranking ignores signs.
    assert rank_auc(TRUTH, scores) == 1.0
    assert rank_auc(TRUTH, 1 / scores) == 0.0
    assert paper_auc(TRUTH, scores) < 1.0  # At low temperatures all values are 1.


def test_a_tie_counts_half():
    assert rank_auc(TRUTH, np.ones(5)) == 0.5
    assert rank_auc(TRUTH, np.array([1.0, 0.0, 1.0, 0.0, 0.0])) == pytest.approx((0.5 + 1 + 1 + 0 + 0.5 + 0.5) / 6)


def test_rank_auc_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(0)
    truth, scores = rng.random(60) < 0.3, np.round(rng.normal(size=60), 1)
    first, second = np.abs(scores)[truth][:, None], np.abs(scores)[~truth][None, :]
    assert rank_auc(truth, scores) == pytest.approx(((first > second) + 0.5 * (first == second)).mean())


def test_rank_auc_depends_only_on_the_order():
    rng = np.random.default_rng(1)
    truth, scores = rng.random(50) < 0.4, np.abs(rng.normal(size=50))
    for same in (scores * 1e-12, np.exp(scores), scores**3, -scores, np.log1p(scores)):
        assert rank_auc(truth, same) == rank_auc(truth, scores)


def test_a_sigmoid_in_single_precision_ties_different_scores():
    scores = np.array([5e-9, 4e-9, 3e-9, 2e-9, 1e-9])
    assert rank_auc(TRUTH, scores) == 1.0
    assert sigmoid_auc(TRUTH, scores, 1.0, 0.0) == 0.5  # All values are 1/2.
    assert sigmoid_auc(TRUTH, scores, 1e-9, 0.0) == 1.0
    assert sigmoid_auc(TRUTH, scores, 1e-18, 0.0) == 0.5  # All values are 1.


def test_the_threshold_replaces_small_scores_by_zero():
    scores = np.array([0.5, 4e-4, 3e-4, 0.0, 0.0])
    assert sigmoid_auc(TRUTH, scores, 1e-4, 0.0) == 1.0
    assert sigmoid_auc(TRUTH, scores, 1e-4, 1e-3) == rank_auc(TRUTH, np.array([1.0, 0, 0, 0, 0]))
    assert sigmoid_auc(TRUTH, scores, 1e-4, 1.0) == 0.5
    given = scores.copy()
    paper_auc(TRUTH, scores)
    assert (scores == given).all()


def test_the_papers_auc_is_the_mean_over_temperatures():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=5)
    every = [sigmoid_auc(TRUTH, scores, T, 1e-3) for T in TEMPERATURES]
    assert len(every) == 24
    assert paper_auc(TRUTH, scores) == pytest.approx(np.mean(every))
    assert TEMPERATURES[0] == 1e-18
    assert TEMPERATURES[-1] == 1e5


# Sparsity -----------------------------------------------------------------------------------------------------------


def test_sparsity_is_the_area_of_its_curve():
    scores = np.random.default_rng(3).normal(size=40)
    scaled = scores / np.abs(scores).max()
    middles = (np.arange(20_000) + 0.5) / 20_000
    curve = [(scaled > t).mean() for t in middles]
    assert sparsity_area(scores) == pytest.approx(np.mean(curve), abs=1e-4)
    assert sparsity_area(7 * scores) == pytest.approx(sparsity_area(scores))


def test_sparsity_at_its_limits():
    assert sparsity_area(np.ones(4)) == 1.0
    assert sparsity_area(-np.ones(4)) == 0.0
    assert sparsity_area(np.zeros(4)) == 0.0
    assert sparsity_area(np.zeros(0)) == 0.0


# Edges --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def early():
    made = make_checkpoints("ba-shapes", (5, 20))[5]
    return Setting(made.model, made.data, together=(400, 690), test_accuracy=made.test_accuracy)


def test_edges_are_those_of_the_k_hop_neighbourhood(early):
    from torch_geometric.utils import k_hop_subgraph

    graph = early.target(400).computation_graph
    near = near_edges(graph)
    within = k_hop_subgraph(400, 3, early.data.edge_index)[3].nonzero().view(-1)
    assert graph.edge_id.numpy()[near].tolist() == within.tolist()
    house = house_of_edges(early.data)
    assert (house == house_of_node(400)).sum() == 12
    assert (house[within.numpy()] == house_of_node(400)).sum() == 12
    assert len(closeness(graph)) == graph.num_edges
    assert closeness(graph)[graph.is_loop.numpy()][0] == 1.0  # This is the node itself.


def test_pgexplainer_is_ranked_by_its_learnt_scores(early):
    p = early.fit("pgexplainer", 400, "U(A,0.5)").p
    assert isinstance(p, SubgraphModel)
    near = near_edges(p.graph)
    soft, hard = edge_scores(p)[near], p.edge_mask.numpy()[near]
    assert set(hard.tolist()) == {0.0, 1.0}
    assert len(set(soft.tolist())) > 20
    assert soft[hard == 1].min() >= soft[hard == 0].max()
    assert soft.min() >= 0
    assert soft.max() <= 1


def test_scores_of_the_others_are_masks_and_gradients(early):
    soft = early.fit("gnnexplainer-soft", 400, "U(A,0.5)").p
    assert (edge_scores(soft) == soft.edge_mask.double().numpy()).all()
    saliency = early.fit("saliency", 400, "U(A,0.5)").p
    assert (edge_scores(saliency) == saliency.gradient()[1].double().numpy()).all()


# Checkpoints --------------------------------------------------------------------------------------------------------


def test_checkpoints_are_the_same_each_time():
    first, second = (make_checkpoints.__wrapped__("ba-shapes", (0, 3, 6)) for _ in range(2))
    assert list(first) == [0, 3, 6]
    for epoch, made in first.items():
        other = second[epoch]
        assert made.test_accuracy == other.test_accuracy
        for name, value in made.model.state_dict().items():
            assert torch.equal(value, other.model.state_dict()[name])
    assert not torch.equal(first[3].model.readout.weight, first[6].model.readout.weight)
    assert not first[3].model.training


def test_a_checkpoint_equals_a_training_up_to_its_epoch():
    made = make_checkpoints("ba-shapes", (5, 20))
    data, seen = load_dataset("ba-shapes"), {}
    for epochs in (5, 20):
        model = make_untrained("ba-shapes", data)
        schedule = schedule_for("ba-shapes")._replace(epochs=epochs)
        train(
            model,
            training_view("ba-shapes", data),
            **schedule._asdict(),
            each=lambda epoch, now: seen.update({epoch: {k: v.clone() for k, v in now.state_dict().items()}}),
        )
        assert max(seen) == epochs
        for name, value in made[epochs].model.state_dict().items():
            assert torch.equal(value, seen[epochs][name])
        # The validation loss decreases at every epoch here, so the training returns the last epoch.
        assert torch.equal(model.readout.weight, made[epochs].model.readout.weight)
        assert made[epochs].test_accuracy == accuracy_on_test(model, data)


def test_watching_a_training_changes_nothing():
    data = load_dataset("ba-shapes")
    watched, alone = make_untrained("ba-shapes", data), make_untrained("ba-shapes", data)
    train(watched, data, epochs=4, each=lambda _, model: torch.rand(3))
    train(alone, data, epochs=4)
    assert all(torch.equal(a, b) for a, b in zip(watched.parameters(), alone.parameters(), strict=True))


def test_epoch_0_alone_trains_nothing():
    made = make_checkpoints.__wrapped__("ba-shapes", (0,))
    start = make_untrained("ba-shapes", load_dataset("ba-shapes"))
    assert torch.equal(made[0].model.conv1.lin.weight, start.conv1.lin.weight)


# Experiments --------------------------------------------------------------------------------------------------------


def run(experiment):
    results = {unit: measure_once(experiment, unit) for unit in experiment.units(TOY)}
    rows = experiment.make_rows(results, TOY)
    return json.loads(json.dumps(rows, allow_nan=False))


def draw(figures):
    for figure in figures.values():
        for suffix in ("png", "pdf"):
            figure.savefig(io.BytesIO(), format=suffix)
    return set(figures)


def check_parameters(rows, dataset):
    experiment = Parameters()
    assert [(row["epoch"], row["method"]) for row in rows] == [(e, m) for e in (5, 20) for m in METHODS]
    for row in rows:
        assert row["dataset"] == dataset
        assert len(row["nodes"]) == 2
        assert row["unfaithfulness"] >= 0
        assert (row["num_samples"], row["fit_samples"], row["paper"]) == (50, 20, None)
    text = experiment.to_markdown(rows)
    assert all(NAMES[method] in text for method in METHODS)
    assert "less faithful" in text
    assert draw(experiment.draw_figures(rows)) == {f"parameters-{dataset}"}


def test_parameters_of_ba_shapes(monkeypatch):
    monkeypatch.setattr(parameters, "NODES", {"ba-shapes": parameters.NODES["ba-shapes"]})
    rows = run(Parameters())
    check_parameters(rows, "ba-shapes")
    for row in rows:
        assert 0 <= row["auc"] <= 1
        assert 0 <= row["auc_paper"] <= 1
        if row["method"] in ("gnnexplainer-soft", "pgexplainer"):
            assert row["auc"] == row["auc_paper"]
    assert rows[0]["auc_by_distance"] > 0.9


@needs_data
def test_parameters_of_cora(monkeypatch):
    monkeypatch.setattr(parameters, "NODES", {"cora": parameters.NODES["cora"]})
    rows = run(Parameters())
    check_parameters(rows, "cora")
    assert all(0 <= row["sparsity"] <= 1 for row in rows)
    assert rows[0]["test_accuracy"] < rows[-1]["test_accuracy"]


def test_units_are_nodes_of_checkpoints():
    units = Parameters().units(FULL)
    assert len({unit.key for unit in units}) == len(units) == 7 * 30 + 7 * 40
    assert len(Parameters().units(QUICK)) == 7 * 3 + 7 * 4
    assert len(Parameters().units(TOY)) == 2 * (2 + 2)


def test_temperature():
    experiment = Temperature()
    rows = run(experiment)
    assert len(rows) == 1 + len(THRESHOLDS) * len(TEMPERATURES)
    assert [row["temperature"] for row in rows].count(None) == 1
    assert all(0 <= row["auc"] <= 1 and row["num_samples"] == 0 for row in rows)
    text = experiment.to_markdown(rows)
    assert "88.2 %" in text
    assert "10⁻³" in text
    assert draw(experiment.draw_figures(rows)) == {"temperature"}


def test_the_text_names_the_stable_threshold():
    def rows(changes):
        grid = [
            {"temperature": T, "threshold": t, "auc": 0.9 + (change if T == 1.0 else 0), "stderr": 0.0, "nodes": [1]}
            for t, change in changes.items()
            for T in TEMPERATURES
        ]
        return [{"temperature": None, "threshold": None, "auc": 0.95, "stderr": 0.0, "nodes": [1]}, *grid]

    to_markdown = Temperature().to_markdown
    assert "10⁻³ is the smallest threshold" in to_markdown(rows({0.0: 0.09, 1e-3: 0.01, 1e-2: 0.0}))
    assert "10⁻³ is not the smallest threshold" in to_markdown(rows({0.0: 0.09, 1e-3: 0.08, 1e-2: 0.0}))
    assert "No threshold is stable" in to_markdown(rows({0.0: 0.09, 1e-3: 0.08}))


# Findings -----------------------------------------------------------------------------------------------------------


def made_up(auc, relative=0.1):
    """Return rows of BA-Shapes at three checkpoints, with a given AUC of each method at each checkpoint."""
    return [
        {
            "dataset": "ba-shapes",
            "method": method,
            "neighborhood": "U(A,0.5)",
            "nodes": [400],
            "epoch": epoch,
            "test_accuracy": 0.2 + 0.1 * epoch,
            "unfaithfulness": 1.0 + epoch,
            "stderr": 0.1,
            "relative": relative,
            "auc": auc(method, epoch),
            "auc_paper": auc(method, epoch),
            "auc_any_house": auc(method, epoch),
            "auc_by_distance": 0.6,
        }
        for method in METHODS
        for epoch in (0, 1, 2)
    ]


def test_findings_follow_the_rows():
    learnt = ("gnnexplainer-soft", "pgexplainer")
    as_paper = format_findings(made_up(lambda method, epoch: 0.95 if method in learnt else 0.6 + 0.1 * epoch))
    assert "AUC by rank: holds for all 5 methods" in as_paper
    assert "BA-Shapes, Δ: holds for all 7 methods" in as_paper
    assert "share of Δ(0): holds for none of 7 methods" in as_paper  # It is constant.
    assert "it holds for all 2 methods; so it does for 0 of the 5" in as_paper
    other = format_findings(made_up(lambda method, epoch: 0.9 - 0.3 * epoch))
    assert "AUC by rank: holds for none of 5 methods" in other
    assert "it holds for none of 2 methods" in other


def test_rank_correlation_needs_an_order():
    rows = made_up(lambda method, epoch: 0.5)[:3]
    assert rank_correlation(rows, "auc") is None
    assert rank_correlation(rows, "unfaithfulness") == 1.0
    assert rank_correlation(rows, "nothing") is None
