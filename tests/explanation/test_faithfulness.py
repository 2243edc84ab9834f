"""What may be said of an explanation: the number of its scores, as they are now, and never one of other scores."""

from __future__ import annotations

import copy
import math
import pickle
import warnings

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explanation
from torch_geometric.explain import GNNExplainer as PyGGNNExplainer
from torch_geometric.nn import GCN

import graphfaith as gf
from explaining import METHODS, explain
from graphfaith.explanation.digest import current_digest, digest_of
from graphfaith.explanation.faithfulness import (
    FEW,
    Faithfulness,
    faithfulness_by_kind,
    faithfulness_of,
    measured_unfaithfulness,
    own_estimate,
    record_unfaithfulness,
)
from graphfaith.surrogate.estimate import estimate_unfaithfulness
from reference import make_case

NEAR = "U(A,0.5)"


def foreign():
    case = make_case(seed=33, weighted=False, loops=False, nodes=10, edges=30)
    torch.manual_seed(0)
    return explain(case, PyGGNNExplainer(epochs=3))


def case(name):
    if name == "foreign":
        return foreign()
    return explain(make_case(seed=31, nodes=10, edges=30), METHODS[name](NEAR))


ALL = ["kec", "anchored-kec", "saliency", "gnnexplainer-soft", "foreign"]


@pytest.mark.parametrize("name", ALL)
class TestScored:
    def test_the_number_stays_on_the_explanation(self, name):
        call, explanation = case(name)
        score = gf.general_unfaithfulness(call, explanation, NEAR, num_samples=20)
        assert explanation.unfaithfulness is score
        assert faithfulness_of(explanation) == Faithfulness(score, is_estimate=False)
        later = gf.general_unfaithfulness(call, explanation, "B(A,0.5)", num_samples=20)
        assert faithfulness_of(explanation).record is later

    def test_a_p_of_ones_own_leaves_no_number(self, name):
        call, explanation = case(name)

        class Nothing:
            def change(self, perturbations):
                return torch.zeros(len(perturbations))

            def gradient(self):
                raise AssertionError("the gradient of p is not asked for")

        before = faithfulness_of(explanation)
        gf.general_unfaithfulness(call, explanation, NEAR, num_samples=20, difference_model=Nothing())
        assert explanation.get("unfaithfulness") is None
        assert explanation.get("scored_digest") is None
        assert faithfulness_of(explanation) == before

    @pytest.mark.parametrize("mask", ["node_mask", "edge_mask", "self_loop_score"])
    def test_an_edit_in_place_takes_the_number_away(self, name, mask):
        call, explanation = case(name)
        gf.general_unfaithfulness(call, explanation, NEAR, num_samples=20)
        if explanation.get(mask) is None:
            return
        scores = explanation[mask].detach()
        place = int(scores.abs().reshape(len(scores), -1).sum(1).argmax())
        before = scores[place].clone()
        scores[place] *= -1.5
        assert faithfulness_of(explanation) is None
        scores[place] = before
        assert faithfulness_of(explanation) is not None

    def test_a_threshold_takes_the_number_away(self, name):
        call, explanation = case(name)
        gf.general_unfaithfulness(call, explanation, NEAR, num_samples=20)
        cut = explanation.threshold("topk", 2)
        assert faithfulness_of(cut) is None
        assert faithfulness_of(explanation) is not None
        if name != "foreign":  # one with fewer scores can be scored, and then has its own number
            score = gf.general_unfaithfulness(call, cut, NEAR, num_samples=20)
            assert faithfulness_of(cut) == Faithfulness(score, is_estimate=False)

    def test_a_part_has_no_number(self, name):
        call, explanation = case(name)
        gf.general_unfaithfulness(call, explanation, NEAR, num_samples=20)
        nodes = torch.ones(len(explanation.x), dtype=torch.bool)
        nodes[-1] = False
        edges = torch.ones(explanation.edge_index.size(1), dtype=torch.bool)
        edges[-1] = False
        parts = [explanation.subgraph(nodes), explanation.edge_subgraph(edges), gf.signed_subgraph(explanation, 2)]
        if name == "foreign":
            explanation.edge_mask[0] = 0
        parts += [explanation.get_explanation_subgraph(), explanation.get_complement_subgraph()]
        for part in parts:
            assert faithfulness_of(part) is None
        ours = [gf.signed_subgraph(explanation, 2), *(parts[3:] if name != "foreign" else [])]
        for part in ours:  # nor does anybody else find one there
            assert not {"unfaithfulness", "scored_digest", "estimate", "difference_model"} & set(part.keys())

    def test_copies_and_files_keep_the_number(self, name, tmp_path):
        call, explanation = case(name)
        score = gf.general_unfaithfulness(call, explanation, NEAR, num_samples=20)
        gf.save(explanation, tmp_path / "x.safetensors")
        copies = [
            copy.copy(explanation),
            explanation.clone(),
            explanation.to("cpu"),
            gf.load(tmp_path / "x.safetensors"),
        ]
        if name != "gnnexplainer-soft":  # it holds a model
            copies += [copy.deepcopy(explanation), pickle.loads(pickle.dumps(explanation))]
        for other in copies:
            assert faithfulness_of(other) == Faithfulness(score, is_estimate=False)
            other.edge_mask = other.edge_mask + 1
            assert faithfulness_of(other) is None

    def test_a_file_of_edited_scores_has_no_number(self, name, tmp_path):
        call, explanation = case(name)
        gf.general_unfaithfulness(call, explanation, NEAR, num_samples=20)
        gf.save(explanation.threshold("topk", 2), tmp_path / "x.safetensors")
        assert faithfulness_of(gf.load(tmp_path / "x.safetensors")) is None

    def test_names_do_not_matter(self, name):
        call, explanation = case(name)
        gf.general_unfaithfulness(call, explanation, NEAR, num_samples=20)
        explanation.node_names = [f"n{i}" for i in range(len(explanation.x))]
        assert faithfulness_of(explanation) is not None


class TestEstimate:
    def test_is_shown_until_something_is_measured(self):
        call, explanation = case("anchored-kec")
        assert faithfulness_of(explanation) == Faithfulness(explanation.estimate, is_estimate=True, fit_samples=60)
        gf.general_unfaithfulness(call, explanation, NEAR, num_samples=20)
        assert not faithfulness_of(explanation).is_estimate
        assert own_estimate(explanation) is explanation.estimate

    def test_is_not_that_of_edited_scores(self):
        _, explanation = case("anchored-kec")
        assert faithfulness_of(explanation.threshold("topk", 2)) is None
        explanation.difference_model = None  # then nobody can tell whether the scores are still those of p
        assert faithfulness_of(explanation) is None

    def test_others_make_none(self):
        for name in ("kec", "saliency", "gnnexplainer-soft", "foreign"):
            assert faithfulness_of(case(name)[1]) is None


class TestUnderstoodOnlyIfWhole:
    def test_a_number_without_a_digest_is_not_shown(self):
        _, explanation = case("kec")
        explanation.unfaithfulness = record(0.1, 0.01)
        assert faithfulness_of(explanation) is None
        explanation.scored_digest = current_digest(explanation)
        assert faithfulness_of(explanation) is not None
        explanation.unfaithfulness = "7.6 %"
        assert faithfulness_of(explanation) is None

    def test_masks_that_do_not_fit_have_no_number(self):
        _, explanation = case("kec")
        record_unfaithfulness(explanation, record(0.1, 0.01))
        explanation.edge_mask = explanation.edge_mask[:-1]
        assert faithfulness_of(explanation) is None

    @pytest.mark.parametrize("name", ["anchored-kec", "kec", "gnnexplainer-soft"])
    @pytest.mark.parametrize(
        "field", ["node_mask", "edge_mask", "self_loop_score", "x", "edge_index", "target", "index"]
    )
    def test_a_change_of_anything_that_is_shown_takes_the_number_away(self, name, field):
        call, explanation = case(name)
        gf.general_unfaithfulness(call, explanation, "U(A,0.5)", num_samples=20)
        assert faithfulness_of(explanation) is not None
        value = explanation[field].clone()
        value.view(-1)[-1] += 1  # the last node or edge is beyond reach, or is not
        explanation[field] = value
        assert measured_unfaithfulness(explanation) is None

    def test_an_estimate_is_not_shown_beside_scores_that_p_has_not(self):
        torch.manual_seed(0)
        line = torch.stack([torch.arange(1, 12), torch.arange(11)])
        data = Data(x=torch.rand(12, 3), edge_index=line)
        explainer = gf.explainer_for(GCN(3, 4, 2, out_channels=2), data, samples=60)
        for field in ("node_mask", "edge_mask", "self_loop_score"):
            explanation = explainer(data.x, line, index=0)
            assert own_estimate(explanation) is not None
            assert float(explanation[field].reshape(-1)[-1]) == 0.0
            explanation[field].view(-1)[-1] = 99.0
            assert own_estimate(explanation) is None

    def test_scores_of_columns_are_those_of_one_graph(self):
        columns = Explanation(x=torch.ones(4, 2), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
        columns.node_mask = torch.tensor([[1.0, -2.0]])
        record_unfaithfulness(columns, record(0.1, 0.01))
        assert faithfulness_of(columns) is not None
        for nodes, edges in ((4, 2), (3, 2), (5, 3)):
            part = Explanation(x=torch.ones(nodes, 2), edge_index=columns.edge_index[:, :edges])
            part.node_mask, part.unfaithfulness = columns.node_mask, columns.unfaithfulness
            part.scored_digest = columns.scored_digest
            assert faithfulness_of(part) is None


def record(relative, error, delta_zero=1.0, value=None, samples=500):
    value = relative if value is None else value
    return gf.Unfaithfulness(value, error, relative, error, delta_zero, samples, "B(A,0.5)", 1)


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (record(0.0763, 0.0091), "7.6 % ± 0.9 % unexplained in B(A,0.5)"),
        (record(1.43, 0.12), "143 % ± 12 % unexplained in B(A,0.5)"),
        (record(0.00042, 0.00003), "0.042 % ± 0.003 % unexplained in B(A,0.5)"),
        (record(0.25, 0.0), "25 % unexplained in B(A,0.5)"),
        (record(0.99999992, 1e-9), "100 % unexplained in B(A,0.5)"),  # an error that no digit would show
        (record(0.0, 0.0), "0 % unexplained in B(A,0.5)"),  # a perfect p, where F changes
        (record(1e-12, 1e-13), "less than 0.0001 % unexplained in B(A,0.5)"),
        (record(0.25, math.inf, samples=1), "25 % unexplained in B(A,0.5), from one sample"),
        (record(0.0, 0.0, delta_zero=0.0), "F does not change in B(A,0.5)"),
        (record(math.inf, 0.0, delta_zero=0.0, value=0.3), "Δ(p) = 0.3 in B(A,0.5), where F does not change"),
    ],
)
def test_in_words(score, text):
    assert str(Faithfulness(score, is_estimate=False)) == text


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (record(0.0763, 0.0091), "about 7.6 % ± 0.9 % unexplained, by its own estimate"),
        (record(0.0, 0.0, delta_zero=0.0), "F does not change, by its own estimate"),
        (
            record(math.inf, 0.0, delta_zero=0.0, value=0.3),
            "Δ(p) = about 0.3 where F does not change, by its own estimate",
        ),
    ],
)
def test_an_estimate_in_words(score, text):
    assert Faithfulness(score, is_estimate=True).short == text


def test_no_bar_where_f_does_not_change():
    still = Faithfulness(record(0.0, 0.0, delta_zero=0.0), is_estimate=False)
    assert (still.relative, still.relative_stderr) == (None, None)
    endless = Faithfulness(record(math.inf, 0.0, delta_zero=0.0), is_estimate=False)
    assert (endless.relative, endless.relative_stderr) == (None, None)
    single = Faithfulness(record(0.25, math.inf, samples=1), is_estimate=False)
    assert (single.relative, single.relative_stderr) == (0.25, None)


@pytest.mark.parametrize(
    ("score", "share"),
    [
        (record(0.442, 0.361), "44 % ± 36 %"),
        (record(9.6e-21, 0.0), "less than 0.0001 %"),
        (record(0.25, math.inf, samples=1), "25 %"),
    ],
)
def test_a_record_has_the_digits_that_its_error_has(score, share):
    assert f": {share} of F's change is left unexplained" in str(score)


def test_a_record_says_that_f_does_not_change():
    rounding = torch.full((10,), 1e-9, dtype=torch.float64)
    still = estimate_unfaithfulness(rounding, rounding, 1e-16, gf.parse_neighborhood(NEAR), 0)
    assert (still.value, still.delta_zero, still.relative) == (0, 0, 0)
    assert "unexplained" not in str(still)
    assert "F does not change" in str(still)
    assert str(Faithfulness(still, is_estimate=False)) == "F does not change in U(A,0.5)"
    wrong = estimate_unfaithfulness(1e9 * rounding, rounding, 1e-16, gf.parse_neighborhood(NEAR), 0)
    assert (wrong.value, wrong.delta_zero, wrong.relative) == (pytest.approx(1), 0, math.inf)
    moving = estimate_unfaithfulness(rounding, 1e9 * rounding, 1e-16, gf.parse_neighborhood(NEAR), 0)
    assert moving.delta_zero == pytest.approx(1)
    assert moving.relative == pytest.approx(1e-18)


class TestDigest:
    def test_tells_values_types_and_shapes_apart(self):
        scores = torch.tensor([[1.0, -2.0], [0.0, 3.0]])
        others = [scores.double(), scores.view(-1), scores.T, -scores, scores[:1], None, scores.new_zeros(0)]
        digests = [digest_of(one) for one in (scores, *others)]
        assert len(set(digests)) == len(digests)
        assert digest_of(scores) == digest_of(scores.clone().requires_grad_())
        assert digest_of(scores) == digest_of(scores.T.contiguous().T)

    def test_tells_none_from_empty_and_where_a_part_ends(self):
        a, b, empty = torch.ones(1), torch.ones(2), torch.ones(0)
        digests = [digest_of(*parts) for parts in ((a, b), (b, a), (a, None), (None, a), (a, empty), (a,), (a, a, a))]
        assert len(set(digests)) == len(digests)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.bool, torch.int64, torch.float64])
    def test_of_every_type(self, dtype):
        assert digest_of(torch.ones(3, dtype=dtype)) != digest_of(torch.zeros(3, dtype=dtype))


class TestKinds:
    """A number is about what its samples moved, and about nothing else."""

    @pytest.mark.parametrize(
        ("near", "kinds"),
        [("U(A,0.5)", {"edges"}), ("U(X,0.3r)", {"features"}), ("U(X,0.3r)xB(A,0.5)", {"edges", "features"})],
    )
    @pytest.mark.parametrize("name", ["kec", "saliency", "foreign"])
    def test_what_never_moved_is_not_measured(self, name, near, kinds):
        call, explanation = case(name)
        assert faithfulness_by_kind(explanation) == {"edges": None, "features": None}
        score = gf.general_unfaithfulness(call, explanation, near, num_samples=20)
        found = faithfulness_by_kind(explanation)
        assert {kind for kind, known in found.items() if known is not None} == kinds
        assert all(known.record is score for known in found.values() if known is not None)

    def test_an_estimate_is_about_the_edges_that_were_moved(self):
        _, explanation = case("anchored-kec")
        found = faithfulness_by_kind(explanation)
        own = Faithfulness(explanation.estimate, is_estimate=True, fit_samples=60)
        assert found == {"edges": own, "features": None}
        explanation.edge_mask[0] += 1.0
        assert faithfulness_by_kind(explanation) == {"edges": None, "features": None}

    def test_each_kind_keeps_its_own_number(self):
        call, explanation = case("kec")
        near = ["U(A,0.5)", "U(X,0.3r)", "B(A,0.5)"]
        _, second, third = (gf.general_unfaithfulness(call, explanation, text, num_samples=20) for text in near)
        assert explanation.unfaithfulness is third
        assert explanation.measurements == [second, third]
        found = faithfulness_by_kind(explanation)
        assert {kind: known.record for kind, known in found.items()} == {"edges": third, "features": second}
        both = gf.general_unfaithfulness(call, explanation, "U(X,0.3r)xU(A,0.5)", num_samples=20)
        assert explanation.measurements == [both]
        explanation.edge_mask[0] += 1.0
        assert set(faithfulness_by_kind(explanation).values()) == {None}
        edited = gf.general_unfaithfulness(call, explanation, near[0], num_samples=20)
        assert explanation.measurements == [edited]  # what was measured of other scores is gone

    def test_a_method_of_edges_alone_has_no_scores_of_features(self):
        call, explanation = explain(make_case(seed=31, nodes=10, edges=30), gf.PGExplainer(epochs=2))
        assert faithfulness_by_kind(explanation) == {"edges": None}
        gf.general_unfaithfulness(call, explanation, NEAR, num_samples=20)
        assert list(faithfulness_by_kind(explanation)) == ["edges"]

    def test_a_neighbourhood_of_ones_own_says_itself_what_it_moves(self):
        class Strange(gf.UniformEdges):
            notation = "strange {sigma}"

        call, explanation = case("saliency")
        score = gf.general_unfaithfulness(call, explanation, Strange(0.5), num_samples=20)
        assert score.kinds == ("edges",)
        assert faithfulness_by_kind(explanation)["features"] is None
        unknown = gf.Unfaithfulness(0.1, 0.1, 0.1, 0.1, 1.0, 20, "strange 0.5", 1)
        assert unknown.kinds == ()

    def test_files_keep_the_numbers_of_both_kinds(self, tmp_path):
        call, explanation = case("kec")
        for text in ("U(X,0.3r)", NEAR):
            gf.general_unfaithfulness(call, explanation, text, num_samples=20)
        gf.save(explanation, tmp_path / "x.safetensors")
        loaded = gf.load(tmp_path / "x.safetensors")
        assert faithfulness_by_kind(loaded) == faithfulness_by_kind(explanation)
        assert None not in faithfulness_by_kind(loaded).values()
        del explanation["measurements"]  # as in files that were written before there were any
        gf.save(explanation, tmp_path / "old.safetensors")
        old = faithfulness_by_kind(gf.load(tmp_path / "old.safetensors"))
        assert (old["edges"].record, old["features"]) == (explanation.unfaithfulness, None)

    def test_explain_measures_both_if_asked_to(self):
        torch.manual_seed(0)
        data = Data(x=torch.rand(6, 3), edge_index=torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]))
        model = GCN(3, 4, num_layers=2, out_channels=3)
        one = gf.explain(model, data, 2, samples=100, test_samples=20)
        both = gf.explain(model, data, 2, samples=100, test_samples=20, also="U(X,0.2r)")
        assert both.unfaithfulness == one.unfaithfulness
        assert faithfulness_by_kind(one)["features"] is None
        assert faithfulness_by_kind(both)["features"].neighborhood == "U(X,0.2r)"
        assert "features: not measured" in repr(one)
        assert "unexplained in U(X,0.2r)" in repr(both)
        with pytest.raises(gf.InputError, match="cannot read the neighbourhood"):
            gf.explain(model, data, 2, also="sideways")


class TestFewSamples:
    def test_an_estimate_from_few_samples_says_so(self):
        for count, few in ((1, True), (FEW - 1, True), (FEW, False), (500, False)):
            text = Faithfulness(record(0.1, 0.01, samples=count), is_estimate=True).short
            assert text.endswith("by its own estimate from few samples, likely too good" if few else "own estimate")
            assert "too good" not in str(Faithfulness(record(0.1, 0.01, samples=count), is_estimate=False))

    def test_a_fit_on_few_samples_warns_once(self):
        one = make_case(seed=31, nodes=10, edges=30)
        with pytest.warns(gf.FewSamplesWarning, match="an estimate from 24 samples flatters") as caught:
            call, explanation = explain(one, gf.AnchoredKEC(NEAR, num_samples=24))
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            list(gf.explain_nodes(call, one.x, one.edge_index, [0, 1], **one.kwargs))
        assert Faithfulness(explanation.estimate, is_estimate=True).is_flattering

    @pytest.mark.filterwarnings("error")
    def test_a_fit_on_enough_samples_does_not_warn(self):
        for samples in (100, "auto"):
            _, explanation = explain(make_case(seed=31, nodes=10, edges=30), gf.AnchoredKEC(NEAR, num_samples=samples))
            assert not Faithfulness(explanation.estimate, is_estimate=True).is_flattering


class TestSameSamples:
    @pytest.mark.parametrize("near", [NEAR, "B(A,0.2)", "U(X,0.3r)xU(A,0.2)"])
    def test_the_seed_of_the_fit_is_not_that_of_the_score(self, near):
        call, explanation = explain(make_case(seed=31, nodes=10, edges=30), gf.KEC(NEAR, num_samples=30, seed=1))
        with pytest.warns(gf.SameSamplesWarning, match="fitted to samples of seed 1"):
            gf.general_unfaithfulness(call, explanation, near, num_samples=20)
        gf.general_unfaithfulness(call, explanation, near, num_samples=20, seed=2)  # warnings are errors here

    def test_other_draws_and_methods_without_samples_are_free_to_share_a_seed(self):
        call, explanation = explain(make_case(seed=31, nodes=10, edges=30), gf.KEC(NEAR, num_samples=30, seed=1))
        gf.general_unfaithfulness(call, explanation, "U(X,0.3r)", num_samples=20)  # the fit has drawn no features
        call, explanation = explain(make_case(seed=31, nodes=10, edges=30), gf.GNNExplainer(epochs=2, seed=1))
        gf.general_unfaithfulness(call, explanation, NEAR, num_samples=20)
