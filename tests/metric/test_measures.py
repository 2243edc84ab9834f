"""Figures of merit against PyG's, Captum's, and definitions written out here."""

from __future__ import annotations

import math

import numpy as np
import pandas
import pytest
import torch
from torch_geometric.explain.metric import characterization_score
from torch_geometric.explain.metric import fidelity as pyg_fidelity
from torch_geometric.explain.metric import unfaithfulness as pyg_gef

import graphfaith as gf
from graphfaith import metric
from graphfaith.explanation.masks import target_of
from graphfaith.metric.attribution import Attribution, read_attribution
from graphfaith.metric.fidelity import Fidelity
from graphfaith.metric.measured import Measured, mean_and_error
from graphfaith.metric.stability import add_noise
from judged import explained, setting

CLASSES = ["gcn", "gat", "graph", "link"]


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("kind", ["model", "phenomenon"])
def test_fidelity_is_that_of_pyg(name, kind):
    seen = set()
    for seed in range(4):
        for index in (-1, None):
            explainer, explanation = explained(name, seed, index, kind=kind)
            if seed % 2:  # masks of zeros and ones change labels more often
                explanation.edge_mask = (explanation.edge_mask > 0.6).float()
                explanation.node_mask = (explanation.node_mask > 0.6).float()
            plus, minus = pyg_fidelity(explainer, explanation)
            found = metric.fidelity(explainer, explanation)
            assert found.plus.value == pytest.approx(plus, abs=1e-6)
            assert found.minus.value == pytest.approx(minus, abs=1e-6)
            seen |= {plus, minus}
    assert len(seen) > 1  # else nothing was compared


@pytest.mark.parametrize("name", ["gcn", "gat", "graph"])
@pytest.mark.parametrize("nodes", ["attributes", "object", "common_attributes", None])
def test_gef_is_the_unfaithfulness_of_pyg(name, nodes):
    for index in (-1, None):
        explainer, explanation = explained(name, 1, index, nodes=nodes)
        wanted = pyg_gef(explainer, explanation)
        assert wanted > 1e-4
        assert metric.pyg_unfaithfulness(explainer, explanation).value == pytest.approx(wanted, abs=1e-6)


def test_characterization_is_that_of_pyg():
    for plus, minus, weight in ((0.6, 0.2, 0.5), (0.3, 0.9, 0.25)):
        given = Fidelity(Measured("fidelity+", plus, 0.01), Measured("fidelity-", minus, 0.02, "lower"))
        wanted = characterization_score(torch.tensor(plus), torch.tensor(minus), weight, 1 - weight)
        found = metric.characterization(given, pos_weight=weight, neg_weight=1 - weight)
        assert found.value == pytest.approx(float(wanted), abs=1e-6)
        steps = [
            metric.characterization(
                Fidelity(Measured("", plus + a), Measured("", minus + b)), pos_weight=weight, neg_weight=1 - weight
            ).value
            - found.value
            for a, b in ((1e-6, 0), (0, 1e-6))
        ]
        assert found.stderr == pytest.approx(math.hypot(steps[0] * 1e4, steps[1] * 2e4), rel=1e-3)


def test_regression_has_a_fidelity():
    explainer, explanation = explained("regression")
    target = target_of(explainer, explanation, "mask")
    part = target.computation_graph
    given = part.edge_id >= 0
    mask = torch.where(given, explanation.edge_mask[part.edge_id.clamp(min=0)].double(), 1.0)
    x = part.x * explanation.node_mask[part.nodes]
    alone = float(target.evaluate(x, part.weight.double() * mask))
    found = metric.fidelity(explainer, explanation)
    assert found.minus.value == pytest.approx(abs(target.value - alone), abs=1e-6)
    assert found.plus.value > 0
    with pytest.raises(gf.UnsupportedError, match="not defined"):
        metric.pyg_unfaithfulness(explainer, explanation)


@pytest.mark.parametrize("name", [*CLASSES, "regression"])
def test_robust_fidelity_follows_its_definition(name):
    """E_alpha keeps each edge with probability alpha: here by rebuilding the graph, one sample after the other."""
    explainer, explanation = explained(name, 3)
    target, scores = read_attribution(explainer, explanation)
    part, count = target.computation_graph, 40
    judged = ((part.edge_id >= 0) & part.felt).nonzero().view(-1)
    by = "magnitude" if name == "regression" else "score"
    chosen = scores.edges[judged].abs() if by == "magnitude" else scores.edges[judged]
    inside = torch.zeros(len(judged), dtype=torch.bool)
    inside[chosen.argsort(descending=True)[: round(0.3 * len(judged))]] = True
    model, data, *_ = setting(name, 3)
    words = {key: data[key] for key in ("batch", "edge_label_index") if key in data}
    row = int(explanation.index)

    def answer(kept):
        out = model(data.x, data.edge_index[:, kept], **words).detach().double()[row]
        if name == "regression":
            return float(out)
        return float(out.softmax(-1)[target.label] if out.dim() else (out if target.label else -out).sigmoid())

    everything = torch.ones(data.num_edges, dtype=torch.bool)
    lost = {"plus": [], "minus": []}
    for side, share, may in (("plus", 0.25, inside), ("minus", 1 - 0.6, ~inside)):
        drawn = gf.BernoulliEdges(share).sample(part, count, 7).edges[:, judged] != 0
        for gone in drawn & may:
            kept = everything.clone()
            kept[part.edge_id[judged[gone]]] = False
            loss = answer(everything) - answer(kept)
            lost[side].append(abs(loss) if name == "regression" else loss)
    options = {"alpha1": 0.25, "alpha2": 0.6, "top": 0.3, "num_samples": count, "seed": 7}
    # GCN normalises by weights that are 0 as by edges that are not there.
    found = metric.robust_fidelity(explainer, explanation, **options)
    for side, measured in zip(("plus", "minus"), found, strict=True):
        assert measured.value == pytest.approx(np.mean(lost[side]), abs=1e-5)
        assert measured.stderr == pytest.approx(mean_and_error(np.array(lost[side]))[1], rel=1e-3)
    assert any(abs(loss) > 1e-4 for loss in lost["plus"])


def test_robust_fidelity_at_its_ends_is_fidelity():
    explainer, explanation = explained("gat", 2)
    robust = metric.robust_fidelity(explainer, explanation, alpha1=1.0, alpha2=0.0, num_samples=2)
    plain = metric.fidelity(explainer, explanation, top=0.2, level="probability")
    for a, b in zip(robust, plain, strict=True):
        assert a.value == pytest.approx(b.value, abs=1e-9)
    same = metric.robust_fidelity(explainer, explanation, alpha1=0.0, alpha2=1.0, num_samples=2)
    assert same.plus.value == same.minus.value == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)", "U(X,0.2r)", "U(X,0.2r)xU(A,0.5)"])
@pytest.mark.parametrize("normalize", [False, True])
def test_infidelity_is_that_of_captum(near, normalize):
    from captum.metrics import infidelity

    explainer, explanation = explained("gcn", 5)
    target, scores = read_attribution(explainer, explanation)
    part = target.computation_graph
    drawn = gf.parse_neighborhood(near).sample(part, 30, 4)
    parts = [one for one in (drawn.features, drawn.edges) if one is not None]
    inputs = [one for one, eps in ((part.x, drawn.features), (part.weight, drawn.edges)) if eps is not None]
    given = [one for one, eps in ((scores.features, drawn.features), (scores.edges, drawn.edges)) if eps is not None]

    def forward(*moved):
        moved = list(moved)
        x = moved.pop(0) if drawn.features is not None else None
        return target.evaluate(x, moved.pop(0) if moved else None)

    wanted = infidelity(
        forward,
        lambda *_: (tuple(parts), tuple(one - eps for one, eps in zip(inputs, parts, strict=True))),
        tuple(one.unsqueeze(0).double() for one in inputs),
        tuple(one.unsqueeze(0) for one in given),
        n_perturb_samples=30,
        normalize=normalize,
    )
    found = metric.infidelity(explainer, explanation, near, num_samples=30, seed=4, normalize=normalize)
    assert float(wanted) > 1e-5
    assert found.value == pytest.approx(float(wanted), rel=0, abs=1e-6)
    if not normalize:
        p = gf.LinearModel(part, scores.features, scores.edges)
        plain = gf.general_unfaithfulness(explainer, explanation, near, num_samples=30, seed=4, difference_model=p)
        assert found.value == pytest.approx(plain.value, rel=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_sensitivity_max_is_that_of_captum():
    from captum.metrics import sensitivity_max

    model, data, *_ = setting("gcn")
    target = gf.Target(model, data.x, data.edge_index, 2)
    part = target.computation_graph
    noisy = [part.x + 0.01 * torch.randn(part.x.shape, generator=torch.Generator().manual_seed(k)) for k in range(6)]

    def gradient(x):
        return torch.stack([target.gradient(one)[0] for one in x])

    wanted = sensitivity_max(
        lambda inputs: tuple(gradient(one) for one in inputs),
        part.x.unsqueeze(0),
        lambda inputs: (torch.stack(noisy),),
        n_perturb_samples=6,
    )
    found = metric.sensitivity_max(target.gradient(part.x)[0], [target.gradient(one)[0] for one in noisy])
    assert found.value == pytest.approx(float(wanted), abs=1e-6)


def test_deletion_and_insertion_are_means_of_fidelities():
    explainer, explanation = explained("gat", 2)
    found = metric.curves(explainer, explanation, steps=4)
    assert found.deleted[0] == 0
    assert found.inserted[-1] == 0
    for place, share in enumerate((0.25, 0.5, 0.75, 1.0), 1):
        at = metric.fidelity(explainer, explanation, top=share, level="probability")
        assert found.deleted[place] == pytest.approx(at.plus.value, abs=1e-9)
        assert found.inserted[place] == pytest.approx(at.minus.value, abs=1e-9)
    assert found.deletion.value == pytest.approx(float((found.deleted[1:] + found.deleted[:-1]).sum()) / 8)


def test_sufficiency_and_necessity_follow_their_definition():
    """All that is outside matters to an explanation that holds nothing, and nothing to one that holds everything."""
    explainer, explanation = explained("gcn", 1)
    target, scores = read_attribution(explainer, explanation)
    ranking = scores.ranking("edges", "score")
    whole = metric.sufficiency(target, scores, top=1.0, num_samples=30)
    assert whole.sufficiency.value == 1.0
    budget = metric.sufficiency(target, scores, top=1.0, budget=1.0, num_samples=2)
    gone = ranking.perturb(torch.ones(1, len(ranking)))
    out = target.outputs(gone).softmax(-1)
    far = float((out[0] - out[1]).abs().sum() / 2)
    assert budget.necessity.value == pytest.approx(1 - math.exp(-far), abs=1e-6)
    # An explanation with one edge that matters is as necessary as the edge, however many it could hold.
    one = metric.sufficiency(target, scores, top=1, budget=1 / len(ranking), num_samples=3)
    out = target.outputs(ranking.perturb(ranking.first(torch.tensor([1])))).softmax(-1)
    assert one.necessity.value == pytest.approx(1 - math.exp(-float((out[0] - out[1]).abs().sum() / 2)), abs=1e-6)


def test_agreement_with_a_truth():
    generator = torch.Generator().manual_seed(0)
    scores = (torch.rand(40, generator=generator) * 8).round()
    truth = (torch.rand(40, generator=generator) < 0.3).long()
    pairs = scores[truth == 1].unsqueeze(1) - scores[truth == 0]
    chance = float((pairs > 0).double().mean() + (pairs == 0).double().mean() / 2)
    assert metric.roc_auc(scores, truth).value == pytest.approx(chance)
    signed = torch.randn(40, generator=generator).double()
    ranks, signs = metric.signed_agreement(scores - 4, signed)
    by_rank = [pandas.Series(one.numpy()).rank() for one in (scores, signed)]
    assert ranks.value == pytest.approx(by_rank[0].corr(by_rank[1]))
    assert 0 < signs.value < 1
    assert metric.signed_agreement(signed, signed).signs.value == 1
    assert math.isnan(metric.roc_auc(scores, torch.ones(40)).value)
    alone = torch.arange(40.0)
    assert metric.precision_at_k(alone, truth, 5).value == pytest.approx(float(truth[-5:].double().mean()))
    assert 0 <= metric.precision_at_k(scores, truth).value <= 1


def test_noise_depends_on_the_seed_and_the_number_alone():
    x = torch.rand(6, 3)
    assert torch.equal(add_noise(x, 0.1, 1, 0), add_noise(x, 0.1, 1, 0))
    assert not torch.equal(add_noise(x, 0.1, 1, 0), add_noise(x, 0.1, 2, 0))
    assert torch.equal(add_noise(x, 0.1, 1, 0)[:4] - x[:4], (add_noise(x, 0.1, 1, 0) - x)[:4])
    assert bool((add_noise(torch.ones(3, 2), 0.1, 0, 0) != 1).all())


def test_scores_of_another_shape_are_refused():
    explainer, explanation = explained("gcn")
    target, scores = read_attribution(explainer, explanation)
    with pytest.raises(gf.InputError, match="scores of edges must be"):
        Attribution(scores.graph, scores.edges[:-1])
    with pytest.raises(gf.InputError, match="not finite"):
        Attribution(scores.graph, scores.edges * math.nan)
    for wrong in ({"top": 0.0}, {"top": 1.5}, {"top": "half"}, {"by": "size"}, {"alpha1": 2}, {"level": "logit"}):
        with pytest.raises(gf.InputError):
            metric.robust_fidelity(target, scores, **wrong)
