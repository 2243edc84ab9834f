"""The metric: against its definition, for explanations of other libraries, and for a p of one's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch_geometric.explain import CaptumExplainer, DummyExplainer
from torch_geometric.explain import GNNExplainer as PyGGNNExplainer

import graphfaith as gf
from explaining import METHODS, SIGNED, captum_speaks, explain, explainer_of
from graphfaith.explanation.masks import target_of
from graphfaith.metric.unfaithfulness import difference_model_of
from graphfaith.surrogate import SubgraphModel
from reference import DenseReference, make_case

NEAR = "U(X,0.2r)xU(A,0.5)"


@pytest.mark.parametrize("name", METHODS)
def test_value_error_bar_and_relative_are_those_of_the_definition(name):
    case = make_case(seed=31)
    call, explanation = explain(case, METHODS[name](NEAR))
    score = gf.general_unfaithfulness(call, explanation, NEAR, num_samples=40, seed=9)
    dense = DenseReference(case)
    p = explanation.difference_model
    sample = gf.parse_neighborhood(NEAR).sample(p.graph, 40, seed=9)
    weights, xs = dense.perturbed(sample)
    label = int(case.model(case.x, case.edge_index, case.edge_weight)[case.node].argmax())
    dense.case.label = label
    value = dense.forward(dense.weight, case.x)
    delta = np.array([value - dense.forward(w, x) for w, x in zip(weights, xs, strict=True)])
    residual = p.change(sample).numpy() - delta
    assert score.value == pytest.approx(np.mean(residual**2), rel=1e-6)
    assert score.stderr == pytest.approx(np.std(residual**2, ddof=1) / math.sqrt(40), rel=1e-6)
    assert score.relative == pytest.approx(np.mean(residual**2) / np.mean(delta**2), rel=1e-6)
    assert score.num_samples == 40
    assert score.neighborhood == NEAR


def test_the_change_of_a_subgraph_model_is_that_of_f_on_the_subgraph():
    case = make_case(seed=31)
    _, explanation = explain(case, gf.GNNExplainer(epochs=5))
    dense, p = DenseReference(case), explanation.difference_model
    dense.case.label = int(explanation.target[case.node])
    near = gf.parse_neighborhood(NEAR)
    sample = near.sample(p.graph, 10, seed=2)
    mask = np.ones_like(dense.weight)
    for place in range(p.graph.num_edges):
        sink = int(p.graph.nodes[p.graph.edge_index[1, place]])
        mask[dense.entry(int(p.graph.edge_id[place]), sink)] = float(p.edge_mask[place])
    x_s = case.x * explanation.node_mask
    x_s[~torch.from_numpy(dense.reached)] = case.x[~torch.from_numpy(dense.reached)]
    before = dense.forward(dense.weight * mask, x_s)
    weights, xs = dense.perturbed(sample)
    expected = [
        before - dense.forward(np.maximum(dense.weight * mask - (dense.weight - w), 0), x_s - (case.x - x))
        for w, x in zip(weights, xs, strict=True)
    ]
    np.testing.assert_allclose(p.change(sample).numpy(), expected, atol=1e-9)


def test_the_error_bar_covers_the_truth():
    case = make_case(seed=32)
    call, explanation = explain(case, gf.Saliency())
    truth = gf.general_unfaithfulness(call, explanation, "B(A,0.3)", num_samples=20000, seed=1).value
    inside = 0
    for seed in range(2, 62):
        score = gf.general_unfaithfulness(call, explanation, "B(A,0.3)", num_samples=300, seed=seed)
        inside += abs(score.value - truth) <= 2 * score.stderr
    assert inside >= 51  # 95 % of 60 is 57; 51 is three standard deviations below


def test_the_error_bar_of_the_ratio_is_that_of_repeated_estimates():
    # A p that is F halved: errors and changes move together, so their ratio hardly varies at all.
    call, explanation = explain(make_case(seed=32), gf.Saliency())
    target = target_of(call, explanation)

    class Half:
        def change(self, perturbations):
            return 0.5 * target.changes(perturbations) + 0.01 * torch.linspace(-1, 1, len(perturbations))

        def gradient(self):
            return target.gradient()

    scores = [
        gf.general_unfaithfulness(call, explanation, "B(A,0.3)", num_samples=300, seed=seed, difference_model=Half())
        for seed in range(2, 82)
    ]
    spread = np.std([score.relative for score in scores], ddof=1)
    assert np.mean([score.relative_stderr for score in scores]) == pytest.approx(spread, rel=0.3)


@pytest.mark.parametrize("text", ["U(A,0.5)", "B(A,0.5)", "U(X,0.2r)", NEAR])
@pytest.mark.parametrize("name", ["gnnexplainer", "gnnexplainer-soft", "pgexplainer"])
@pytest.mark.parametrize("seed", range(4))
def test_proposition_2_bounds_every_subgraph_explanation(text, name, seed):
    call, explanation = explain(make_case(seed=seed, nodes=10, edges=30), METHODS[name]())
    score = gf.general_unfaithfulness(call, explanation, text, num_samples=60, seed=3)
    bound = gf.subgraph_lower_bound(call, explanation, text, num_samples=60, seed=3)
    assert 0 <= bound <= score.value * (1 + 1e-9)
    # and it is what Proposition 2 writes
    p, target = explanation.difference_model, target_of(call, explanation)
    sample = gf.parse_neighborhood(text).sample(p.graph, 60, seed=3)
    constant = p.value - target.value
    outside = float(target.evaluate(sample.x, sample.weight).mean() - p.outputs(sample).mean())
    assert bound == pytest.approx((constant + outside) ** 2, rel=1e-6, abs=1e-15)


def test_the_lower_bound_is_for_subgraphs_only():
    call, explanation = explain(make_case(), gf.Saliency())
    with pytest.raises(gf.UnsupportedError, match="subgraph"):
        gf.subgraph_lower_bound(call, explanation, "U(A,0.5)")


def test_an_explanation_of_pygs_gnnexplainer_is_scored_as_a_subgraph():
    case = make_case(seed=33, weighted=False, loops=False, nodes=10, edges=30)
    torch.manual_seed(0)
    call, explanation = explain(case, PyGGNNExplainer(epochs=10))
    p = difference_model_of(call, explanation, target_of(call, explanation))
    assert isinstance(p, SubgraphModel)
    graph = p.graph
    given = graph.edge_id >= 0
    assert torch.equal(p.edge_mask[given], explanation.edge_mask[graph.edge_id[given]])
    assert (p.edge_mask[~given] == 1).all()
    assert gf.general_unfaithfulness(call, explanation, NEAR, num_samples=50).value > 0
    assert gf.subgraph_lower_bound(call, explanation, NEAR, num_samples=50) >= 0


@captum_speaks
def test_an_explanation_of_captum_is_scored_as_linear():
    case = make_case(seed=33, weighted=False, loops=False, nodes=10, edges=30, dtype=torch.float32)
    call, explanation = explain(case, CaptumExplainer("Saliency", abs=False))
    p = difference_model_of(call, explanation, target_of(call, explanation))
    assert isinstance(p, gf.LinearModel)
    ours_call, ours = explain(case, gf.Saliency())
    theirs = gf.general_unfaithfulness(call, explanation, "U(X,0.2r)", num_samples=100).value
    assert theirs == pytest.approx(
        gf.general_unfaithfulness(ours_call, ours, "U(X,0.2r)", num_samples=100).value, rel=1e-4
    )


@pytest.mark.parametrize("name", SIGNED)
def test_a_thresholded_explanation_is_scored_as_it_stands(name):
    case = make_case(seed=34, nodes=10, edges=40)
    call, explanation = explain(case, METHODS[name]())
    before = gf.general_unfaithfulness(call, explanation, "U(A,0.5)", num_samples=100)
    cut = explanation.threshold("topk", 2)
    after = gf.general_unfaithfulness(call, cut, "U(A,0.5)", num_samples=100)
    assert after.value != before.value
    p = difference_model_of(call, cut, target_of(call, cut))
    assert int((p.phi_a[: p.graph.num_plain] != 0).sum()) <= 2
    again = gf.general_unfaithfulness(call, explanation, "U(A,0.5)", num_samples=100)
    assert again == before


@pytest.mark.parametrize("silent", ["drop", "keep"])
def test_a_thresholded_mask_keeps_what_it_does_not_weigh(silent):
    call, explanation = explain(make_case(seed=1, nodes=12, edges=18), gf.GNNExplainer(epochs=3, silent=silent))
    cut = explanation.threshold("topk", 1)
    p = difference_model_of(call, cut, target_of(call, cut))
    quiet = ~p.graph.carries_message & ~p.graph.is_loop
    assert quiet.any()
    assert (p.edge_mask[quiet] == (silent == "keep")).all()


def test_a_p_of_ones_own():
    case = make_case(seed=35)
    call, explanation = explain(case, gf.Saliency())
    target = target_of(call, explanation)

    class Perfect:
        def change(self, perturbations):
            return target.changes(perturbations)

        def gradient(self):
            return target.gradient()

    assert isinstance(Perfect(), gf.DifferenceModel)
    score = gf.general_unfaithfulness(call, explanation, NEAR, difference_model=Perfect())
    assert score.value == 0
    assert score.relative == 0

    class Nothing(Perfect):
        def change(self, perturbations):
            return torch.zeros(len(perturbations))

    assert gf.general_unfaithfulness(call, explanation, NEAR, difference_model=Nothing()).relative == pytest.approx(1)

    class Wrong(Perfect):
        def change(self, perturbations):
            return torch.zeros(len(perturbations), 2)

    with pytest.raises(gf.InputError, match="must return"):
        gf.general_unfaithfulness(call, explanation, NEAR, difference_model=Wrong())

    class NotANumber(Perfect):
        def change(self, perturbations):
            return torch.full((len(perturbations),), math.nan)

    with pytest.raises(gf.InputError, match="not finite"):
        gf.general_unfaithfulness(call, explanation, NEAR, difference_model=NotANumber())


def test_chunks_do_not_matter(monkeypatch):
    case = make_case(seed=36)
    call, explanation = explain(case, gf.KEC(NEAR))
    whole = gf.general_unfaithfulness(call, explanation, NEAR, num_samples=50)
    monkeypatch.setattr("graphfaith._base.memory.CHUNK_BYTES", 20000)
    parts = gf.general_unfaithfulness(call, explanation, NEAR, num_samples=50)
    assert parts.value == pytest.approx(whole.value, rel=1e-9)
    assert parts.relative_stderr == pytest.approx(whole.relative_stderr, rel=1e-9)


def test_scores_that_are_not_of_features_are_refused_where_features_move():
    case = make_case(seed=37, weighted=False, loops=False, dtype=torch.float32)
    call, explanation = explain(case, DummyExplainer(), node="object")
    with pytest.raises(gf.UnsupportedError, match="attributes"):
        gf.general_unfaithfulness(call, explanation, NEAR)


def test_an_explanation_without_index_is_of_all_nodes():
    case = make_case(seed=37, weighted=False)
    call = explainer_of(case.model, gf.Saliency())
    one = gf.general_unfaithfulness(call, call(case.x, case.edge_index), "U(A,0.5)")
    other = gf.general_unfaithfulness(call, call(case.x, case.edge_index, index=torch.arange(8)), "U(A,0.5)")
    assert one == other


def test_edge_scores_can_be_scored_whatever_the_node_mask():
    case = make_case(seed=37, weighted=False, loops=False, dtype=torch.float32)
    call, explanation = explain(case, DummyExplainer(), node="object")
    assert gf.general_unfaithfulness(call, explanation, "U(A,0.5)").value > 0


@pytest.mark.parametrize("name", METHODS)
def test_a_constant_added_to_the_model_changes_nothing(name):
    case = make_case(seed=39)
    call, explanation = explain(case, METHODS[name]())
    before = gf.general_unfaithfulness(call, explanation, "U(A,0.5)", num_samples=50).value
    with torch.no_grad():
        case.model.convs[-1].bias += 10
    assert gf.general_unfaithfulness(call, explanation, "U(A,0.5)", num_samples=50).value == pytest.approx(
        before, rel=1e-6
    )


@pytest.mark.parametrize("factor", [1e-7, 1e5])
def test_the_scale_of_the_model_does_not_matter(factor):
    case = make_case(seed=40, dtype=torch.float32)
    relative = []
    for scale in (1.0, factor):
        with torch.no_grad():
            case.model.convs[-1].lin.weight *= scale
            case.model.convs[-1].bias *= scale
        call, explanation = explain(case, gf.Saliency())
        relative.append(gf.general_unfaithfulness(call, explanation, "B(A,0.5)", num_samples=200).relative)
    assert relative[1] == pytest.approx(relative[0], rel=1e-3)
    assert relative[0] > 0.01


def test_it_prints_itself():
    case = make_case(seed=38)
    call, explanation = explain(case, gf.Saliency())
    text = str(gf.general_unfaithfulness(call, explanation, "U(A,0.5)", num_samples=100))
    assert text.startswith("Delta(p) = ")
    assert "U(A,0.5)" in text
    assert "100 samples" in text


def test_arguments_in_the_wrong_order_are_named():
    call, explanation = explain(make_case(seed=11), METHODS["saliency"]())
    with pytest.raises(gf.InputError, match=r"Explainer is needed first .got SignedExplanation."):
        gf.general_unfaithfulness(explanation, call, "U(A,0.5)")
    with pytest.raises(gf.InputError, match=r"needed after the explainer .got int."):
        gf.general_unfaithfulness(call, 3, "U(A,0.5)")
    with pytest.raises(gf.InputError, match=r"Explainer is needed first .got int."):
        gf.explain_nodes(3, torch.ones(2, 2), torch.zeros(2, 0, dtype=torch.int64))
