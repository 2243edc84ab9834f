"""Other readings of an explanation: their masks, their numbers, pairs in words, and what files and copies keep."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import graphfaith as gf
from explaining import explainer_of
from graphfaith.explanation.faithfulness import faithfulness_of, measured_unfaithfulness, own_estimate
from graphfaith.explanation.masks import target_of
from graphfaith.explanation.reading import Interaction, node_kind_of
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.sampling.perturbations import Perturbations
from graphfaith.surrogate.difference import LinearModel
from polynomial import both_ways

READINGS = ("slope", "share", "effect")


def ring(features=3, nodes=7):
    torch.manual_seed(4)
    there = [(i, (i + 1) % nodes) for i in range(nodes)] + [(0, 3), (1, 5)]
    data = Data(x=torch.rand(nodes, features).double(), edge_index=both_ways(there))
    return GCN(features, 8, 2, out_channels=3).double().eval(), data


def explained(algorithm=None, features=3, node="attributes", edge="object", index=0):
    model, data = ring(features)
    call = explainer_of(model, algorithm or gf.AnchoredKEC("B(A,0.5)"), node=node, edge=edge)
    return call, call(data.x, data.edge_index, index=index)


class Calls:
    """How often a model runs."""

    def __init__(self, model):
        self.count = 0
        self.handle = model.register_forward_hook(self)

    def __call__(self, *_):
        self.count += 1


def masks(explanation):
    return [explanation.get(name) for name in ("edge_mask", "self_loop_score", "node_mask")]


@pytest.mark.parametrize("near", ["B(A,0.5)", "U(A,0.5)", "R(A,5,paired)", "B(X,0.5)", "U(X,0.2r)xU(A,0.5)"])
@pytest.mark.parametrize("name", READINGS)
def test_the_masks_are_those_of_an_explainer_with_that_reading(near, name):
    _, default = explained(gf.AnchoredKEC(near))
    call, own = explained(gf.AnchoredKEC(near, reading=name))
    calls = Calls(call.model)
    other = default.reading(name)
    assert calls.count == 0
    assert (own["reading"], other["reading"], default["reading"]) == (name, name, "share")
    for one, two in zip(masks(own), masks(other), strict=True):
        assert torch.equal(one, two)
    assert own.estimate == other.estimate
    assert own.scores_digest == other.scores_digest
    assert (own.get("edge_stderr") is None) == (other.get("edge_stderr") is None)


def test_shares_are_the_default_of_anchored_kec_alone():
    assert explained()[1].get("reading") == "share"
    assert repr(gf.AnchoredKEC("B(A,0.5)", reading="slope")) == "AnchoredKEC(neighborhood='B(A,0.5)', reading='slope')"
    kec = explained(gf.KEC("B(A,0.5)"))[1]
    slope = kec.difference_model.gradient()[1]
    part = kec.difference_model.graph
    given = part.edge_id >= 0
    assert torch.equal(kec.edge_mask[part.edge_id[given]], slope[given])


@pytest.mark.parametrize("reading", ["shares", 3])
def test_a_reading_that_there_is_not_is_refused_before_any_work(reading):
    with pytest.raises(gf.InputError, match="reading must be one of"):
        gf.AnchoredKEC("B(A,0.5)", reading=reading)
    with pytest.raises(gf.InputError, match="pairs"):
        gf.AnchoredKEC("B(A,0.5)", pairs=-1)


@pytest.mark.parametrize("algorithm", [gf.AnchoredKEC("B(A,0.5)"), gf.KEC("B(A,0.5)")])
def test_no_reading_runs_the_model(algorithm):
    call, explanation = explained(algorithm)
    calls = Calls(call.model)
    for name in READINGS:
        explanation.reading(name)
    explanation.interactions(5)
    explanation.scores_and_pairs()
    explanation.what_if(remove=[(0, 1)])
    assert calls.count == 0
    explanation.what_if(remove=[(0, 1)], check=True)
    assert calls.count > 0


def test_another_reading_never_has_the_number_of_the_old_scores():
    call, explanation = explained()
    gf.general_unfaithfulness(call, explanation, "B(A,0.5)", num_samples=300)
    before = faithfulness_of(explanation)
    for name in ("slope", "effect"):
        other = explanation.reading(name)
        assert measured_unfaithfulness(other) is None
        assert other.get("measurements") is None
        known = faithfulness_of(other)
        assert known.is_estimate
        assert known.relative != before.relative
        assert other.scores_digest != explanation.scores_digest
        # Once it is measured, the number is that of its own scores, and the old one keeps its own.
        score = gf.general_unfaithfulness(call, other, "B(A,0.5)", num_samples=300)
        assert faithfulness_of(other).shown == score.scores != before.shown
        assert faithfulness_of(explanation) == before
    assert explanation.reading("share").scores_digest == explanation.scores_digest
    assert own_estimate(explanation.reading("share").reading("slope")) is not None


def test_a_reading_of_a_reading_is_as_one_from_the_start():
    _, explanation = explained()
    there_and_back = explanation.reading("effect").reading("share")
    for one, two in zip(masks(explanation), masks(there_and_back), strict=True):
        assert torch.equal(one, two)
    assert torch.equal(there_and_back.edge_stderr, explanation.edge_stderr)
    assert explanation.reading("effect").get("edge_stderr") is None


@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("node", ["attributes", "object", "common_attributes", None])
def test_masks_keep_their_type(features, node):
    near = "U(X,0.2r)xB(A,0.5)"
    _, first = explained(gf.AnchoredKEC(near), features, node)
    _, slope = explained(gf.AnchoredKEC(near, reading="slope"), features, node)
    for one, two in zip(masks(first.reading("slope")), masks(slope), strict=True):
        assert one is two is None or torch.equal(one, two)


def test_without_a_mask_of_edges_there_is_none_in_another_reading():
    _, explanation = explained(gf.AnchoredKEC("B(X,0.5)"), edge=None)
    other = explanation.reading("effect")
    assert other.get("edge_mask") is None
    assert not torch.equal(other.node_mask, explanation.node_mask)


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (gf.GNNExplainer(epochs=3), "has masks alone"),
        (gf.Saliency(), "Saliency is fitted in none: use AnchoredKEC, KEC or Linear"),
    ],
)
def test_what_has_no_fitted_p_says_so(algorithm, words):
    _, explanation = explained(algorithm)
    for ask in (lambda: explanation.reading("share"), explanation.interactions, explanation.scores_and_pairs,
                lambda: explanation.what_if(remove=[(0, 1)])):  # fmt: skip
        with pytest.raises(gf.UnsupportedError, match=words):
            ask()


def test_edited_scores_and_excerpts_are_refused():
    _, explanation = explained()
    edited = copy.copy(explanation)
    edited.edge_mask = explanation.edge_mask.clone()
    edited.edge_mask[0] += 1
    with pytest.raises(gf.UnsupportedError, match="edited or cut"):
        edited.reading("slope")
    with pytest.raises(gf.GraphfaithError):
        explanation.signed_subgraph(3).reading("slope")
    with pytest.raises(gf.InputError, match="excerpt"):
        explanation.signed_subgraph(3).what_if(remove=[(0, 1)])


@pytest.mark.parametrize("way", ["save", "pickle", "copy", "deepcopy", "clone"])
def test_files_and_copies_keep_all_that_is_read(way, tmp_path):
    call, explanation = explained()
    gf.general_unfaithfulness(call, explanation, "B(A,0.5)", num_samples=100)
    if way == "save":
        gf.save(explanation, tmp_path / "e.safetensors")
        again = gf.load(tmp_path / "e.safetensors")
    else:
        ways = {
            "pickle": lambda one: pickle.loads(pickle.dumps(one)),
            "copy": copy.copy,
            "deepcopy": copy.deepcopy,
            "clone": lambda one: one.clone(),
        }
        again = ways[way](explanation)
    assert again["reading"] == "share"
    assert torch.equal(again.edge_stderr, explanation.edge_stderr)
    assert torch.equal(again.self_loop_stderr, explanation.self_loop_stderr)
    assert again.unfaithfulness == explanation.unfaithfulness
    assert again.estimate == explanation.estimate
    assert str(faithfulness_of(again)) == str(faithfulness_of(explanation))
    for name in READINGS:
        for one, two in zip(masks(again.reading(name)), masks(explanation.reading(name)), strict=True):
            assert torch.equal(one, two)
        assert again.reading(name).estimate == explanation.reading(name).estimate
    assert again.interactions() == explanation.interactions()
    assert again.what_if(remove=[(0, 1)]) == explanation.what_if(remove=[(0, 1)])


def test_a_pickle_is_not_much_larger_after_reading():
    _, explanation = explained()
    before = len(pickle.dumps(explanation))
    for name in READINGS:
        explanation.reading(name)
    assert len(pickle.dumps(explanation)) < 1.5 * before


# Pairs ----------------------------------------------------------------------------------------------------------


def test_pairs_are_listed_strongest_first_and_no_more_than_asked_for():
    _, explanation = explained()
    every = explanation.interactions(10)
    assert 1 < len(every) <= 10
    assert [abs(pair.together) for pair in every] == sorted((abs(pair.together) for pair in every), reverse=True)
    assert explanation.interactions(1) == every[:1]
    with pytest.raises(gf.InputError, match="k must be"):
        explanation.interactions(0)


def test_a_pair_is_the_mean_interplay_of_both_edges():
    """The mean of F's own interplay over what else is dropped: with both, with either, and with neither removed."""
    call, explanation = explained(gf.AnchoredKEC("B(A,0.5,paired)"))
    target, near = target_of(call, explanation), gf.parse_neighborhood("B(A,0.5,paired)")
    part = target.computation_graph
    ends = [tuple(sorted(pair)) for pair in part.ends.T.tolist()]
    others = near.sample(part, 2000, 17).edges
    for pair in explanation.interactions(2):
        change = {}
        for gone in ((), (pair.first,), (pair.second,), (pair.first, pair.second)):
            eps = others.clone()
            for place in (pair.first, pair.second):
                eps[:, [end == place for end in ends]] = part.weight.double()[[end == place for end in ends]] * (
                    place in gone
                )
            change[gone] = target.changes(Perturbations(part, None, eps)).mean()
        both, first = change[pair.first, pair.second], change[pair.first,]
        interplay = -float(both - first - change[pair.second,] + change[()])
        assert pair.together == pytest.approx(interplay, rel=0.25)
    table = explanation.scores_and_pairs()
    by_place = {tuple(unit["at"]): i for i, unit in enumerate(table["units"])}
    for pair in explanation.interactions():
        u, w = by_place[pair.first], by_place[pair.second]
        psi = next(psi for one, two, psi in table["pairs"] if {one, two} == {u, w})
        sizes = [table["units"][one]["size"] for one in (u, w)]
        assert pair.together == pytest.approx(-psi * sizes[0] * sizes[1])
        assert pair.effects == pytest.approx((-table["alone"][u] * sizes[0], -table["alone"][w] * sizes[1]))


def test_names_of_pairs():
    _, plain = explained(gf.AnchoredKEC("B(A,0.5)"))
    assert all("→" in name or "(itself)" in name for pair in plain.interactions() for name in pair.names)
    _, paired = explained(gf.AnchoredKEC("R(A,5,paired)"))
    paired.name(nodes=[f"n{i}" for i in range(7)])
    assert all("–" in name and name.startswith("n") for pair in paired.interactions() for name in pair.names)
    _, words = explained(gf.AnchoredKEC("B(X,0.5)"))
    words.name(features=["a", "b", "c"])
    for pair in words.interactions():
        node, column = pair.first
        assert pair.names[0] == f"{node}: {'abc'[column]}"


def test_a_linear_p_has_no_pairs():
    assert explained(gf.Linear("B(A,0.5)"))[1].interactions() == []


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (Interaction((1, 2), (1, 7), -0.4, (-0.1, -0.1), ("a", "b")), "stand in for each other: together -0.4 more"),
        (Interaction((1, 2), (1, 7), 0.4, (0.1, 0.2), ("a", "b")), "stand in for each other: together +0.4 more"),
        (Interaction((1, 2), (1, 7), 0.4, (-0.5, -0.5), ("a", "b")), "overlap: together -0.6, and not the -1 of both"),
    ],
)
def test_a_pair_in_words(pair, words):
    assert words in str(pair)


def test_the_table_for_a_page_is_the_function_that_was_measured():
    _, explanation = explained()
    table = explanation.scores_and_pairs()
    readings = explanation.difference_model._readings
    paired = next(iter(readings.values())).paired
    part, near = explanation.difference_model.graph, gf.parse_neighborhood("B(A,0.5)")
    samples = near.sample(part, 50, 8)
    place = {tuple(ends): i for i, ends in enumerate(part.ends.T.tolist())}
    columns = [place[tuple(unit["at"])] for unit in table["units"]]
    moved = samples.edges[:, columns]
    value = moved @ torch.tensor(table["alone"]).double()
    for one, two, psi in table["pairs"]:
        value = value + psi * moved[:, one] * moved[:, two]
    torch.testing.assert_close(value, paired.change(samples))
    assert {unit["kind"] for unit in table["units"]} == {"edge"}
    assert table["neighborhood"] == "B(A,0.5)"


# The record of a measurement -------------------------------------------------------------------------------------


@pytest.mark.parametrize("near", ["B(A,0.5)", "U(A,0.5)", "U(X,0.2r)", "R(A,3,paired)"])
@pytest.mark.parametrize("kind", [gf.AnchoredKEC, gf.KEC])
def test_the_number_of_the_scores_is_that_of_the_masks(kind, near):
    call, explanation = explained(kind(near))
    score = gf.general_unfaithfulness(call, explanation, near, num_samples=200)
    part = explanation.difference_model.graph
    phi = explanation.self_loop_score.new_zeros(part.num_edges)
    phi[part.is_loop] = explanation.self_loop_score[part.nodes]
    phi[part.edge_id >= 0] = explanation.edge_mask[part.edge_id[part.edge_id >= 0]]
    linear = LinearModel(part, explanation.node_mask[part.nodes], phi)
    own, p = unfaithfulness_of(target_of(call, explanation), [linear, explanation.difference_model], near,
                               num_samples=200)  # fmt: skip
    assert score.scores.value == pytest.approx(own.value)
    assert score.scores.relative_stderr == pytest.approx(own.relative_stderr)
    assert score.value == pytest.approx(p.value)
    if kind is gf.AnchoredKEC:
        assert 0 <= score.floor <= score.scores.relative
        assert (score.pairs is None) == (score.num_pairs == 0)
        assert faithfulness_of(explanation).beyond.startswith("no scores could leave less than")
    else:
        assert (score.floor, score.pairs) == (None, None)
        assert faithfulness_of(explanation).beyond.startswith("the whole explanation")


@pytest.mark.parametrize("algorithm", [gf.Saliency(), gf.Linear("B(A,0.5)"), gf.GNNExplainer(epochs=3)])
def test_where_the_scores_are_all_there_is_one_number(algorithm):
    call, explanation = explained(algorithm)
    score = gf.general_unfaithfulness(call, explanation, "B(A,0.5)", num_samples=50)
    assert (score.scores, score.pairs, score.floor, score.num_pairs) == (None, None, None, 0)
    known = faithfulness_of(explanation)
    assert known.shown is score
    assert known.beyond == ""


def test_edited_scores_are_measured_by_themselves():
    call, explanation = explained()
    explanation.edge_mask = 0.5 * explanation.edge_mask
    score = gf.general_unfaithfulness(call, explanation, "B(A,0.5)", num_samples=50)
    assert score.scores is None
    assert faithfulness_of(explanation).shown is score


def test_many_nodes_explained_together_are_not_read(monkeypatch):
    """A sweep of KEC takes the slope, which it has already; a share of each node would cost more than the fit."""
    from graphfaith.surrogate import readings

    model, data = ring()

    def fail(*_, **__):
        raise AssertionError("nothing is read here")

    monkeypatch.setattr(readings, "_find_readings", fail)
    monkeypatch.setattr(readings, "draw_changes", fail)
    call = explainer_of(model, gf.KEC("B(A,0.5)"))
    found = list(gf.explain_nodes(call, data.x, data.edge_index))
    assert len(found) == 7


# Whole nodes and columns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["object", "common_attributes"])
@pytest.mark.parametrize("name", READINGS)
def test_the_number_beside_nodes_is_that_of_the_nodes(kind, name):
    call, explanation = explained(gf.AnchoredKEC("B(X,0.5)", reading=name), node=kind)
    record = gf.general_unfaithfulness(call, explanation, "B(X,0.5)", num_samples=600, seed=7)
    target = target_of(call, explanation)
    part, axis = target.computation_graph, 1 if kind == "object" else 0
    x = part.x[: part.num_visible]
    weight = torch.zeros_like(part.x)
    weight[: part.num_visible] = x / x.square().sum(dim=axis, keepdim=True)
    rows = explanation.node_mask[part.nodes] if kind == "object" else explanation.node_mask
    own = unfaithfulness_of(
        target, [LinearModel(part, rows * weight)], gf.parse_neighborhood("B(X,0.5)"), num_samples=600, seed=7
    )
    assert record.scores.value == pytest.approx(own[0].value, rel=1e-9)
    assert record.scores.relative > record.relative
    assert own_estimate(explanation).scores.relative == pytest.approx(record.scores.relative, rel=0.35)


def test_shares_of_nodes_are_the_closest_there_are():
    call, explanation = explained(gf.AnchoredKEC("B(X,0.5)"), node="object")
    near, target = gf.parse_neighborhood("B(X,0.5)"), target_of(call, explanation)
    part = target.computation_graph
    samples = near.sample(part, 4000, 11)
    x = part.x[: part.num_visible]
    moved = (samples.features[:, : part.num_visible] * x).sum(dim=2) / x.square().sum(dim=1)
    change = target.changes(samples)
    best = torch.linalg.lstsq(moved, change.unsqueeze(1)).solution[:, 0]
    own = explanation.node_mask[part.nodes[: part.num_visible], 0]
    left = [float((moved @ scores - change).square().mean()) for scores in (own, best)]
    assert left[0] < 1.05 * left[1]
    assert (explanation.node_stderr[part.nodes[: part.num_visible]] > 0).all()
    assert explanation.node_stderr.shape == explanation.node_mask.shape


def test_pairs_of_nodes_where_nodes_are_asked_for():
    torch.manual_seed(0)
    data = Data(
        x=torch.rand(7, 3).double() + 0.5, edge_index=both_ways([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 0)])
    )
    model = GCN(3, 8, 2, out_channels=3, act="tanh").double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3)  # so that nodes stand in for each other
    pairs = {}
    for kind in ("attributes", "object", "common_attributes"):
        explanation = explainer_of(model, gf.AnchoredKEC("B(X,0.5)"), node=kind)(data.x, data.edge_index, index=0)
        pairs[kind] = explanation.interactions(3)
        assert pairs[kind]
    assert all(len(pair.first) == 2 for pair in pairs["attributes"])
    for kind, count in (("object", 7), ("common_attributes", 3)):
        for pair in pairs[kind]:
            assert len(pair.first) == len(pair.second) == 1
            assert pair.names == (str(pair.first[0]), str(pair.second[0]))
            assert pair.first[0] < count
    table = explanation.scores_and_pairs()
    assert {unit["kind"] for unit in table["units"]} == {"column"}
    named = explanation.name(features=["height", "width", "depth"])
    assert set(named.interactions(3)[0].names) <= {"height", "width", "depth"}


# Numbers that are of something else ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("fit", "measured"), [("B(X,0.5)", "B(X,0.4)"), ("U(A,0.5)", "B(X,0.5)")])
def test_one_feature_a_node_is_a_node_in_every_neighbourhood(fit, measured):
    call, explanation = explained(gf.AnchoredKEC(fit), features=1, node="object")
    other, full = explained(gf.AnchoredKEC(fit), features=1, node="attributes")
    numbers = [
        gf.general_unfaithfulness(one, scores, measured, num_samples=300, seed=5).scores.relative
        for one, scores in ((call, explanation), (other, full))
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.2, abs=1e-6)


def test_scores_that_are_not_shown_do_not_count():
    near = "U(X,0.2r)xU(A,0.5)"
    _, both = explained(gf.AnchoredKEC(near))
    call, edges = explained(gf.AnchoredKEC(near), node=None)
    alone, together = own_estimate(edges).scores.relative, own_estimate(both).scores.relative
    assert alone > 1.5 * together
    record = gf.general_unfaithfulness(call, edges, near, num_samples=400, seed=5)
    assert record.scores.relative == pytest.approx(alone, rel=0.4)
    assert record.scores.relative > record.relative
    assert (record.pairs, record.floor) == (None, None)  # These are of all scores.
    call, loops = explained(gf.AnchoredKEC("B(A,0.5)"), edge=None)
    record = gf.general_unfaithfulness(call, loops, "B(A,0.5)", num_samples=400, seed=5)
    assert record.scores.relative > 0.3  # The self-loops alone say little.
    own, all_of_them = own_estimate(loops), own_estimate(explained(gf.AnchoredKEC("B(A,0.5)"))[1])
    assert own.scores.relative == pytest.approx(record.scores.relative, rel=0.4)
    assert own.scores.relative > 1.05 * all_of_them.scores.relative
    assert (own.pairs, own.floor) == (None, None)


def test_pairs_stand_beside_shares_alone():
    call, explanation = explained(gf.AnchoredKEC("B(A,0.5)"))
    assert gf.general_unfaithfulness(call, explanation, "B(A,0.5)", num_samples=100, seed=5).num_pairs > 0
    slope = explanation.reading("slope")
    record = gf.general_unfaithfulness(call, slope, "B(A,0.5)", num_samples=100, seed=5)
    assert (record.pairs, record.num_pairs) == (None, 0)
    assert slope.settings["reading"] == "slope"
    assert explanation.settings["reading"] == "share"


def test_shares_of_a_p_that_has_not_kept_its_samples_have_no_error_bars():
    _, explanation = explained(gf.KEC("B(A,0.5)"))
    share = explanation.reading("share")
    assert share.get("edge_stderr") is None


def test_a_text_means_the_same_to_explain_and_to_measure():
    model, data = ring()
    explanation = gf.explain(model, data, 0, neighborhood="R(A,3)", test_samples=50)
    assert explanation.neighborhood == "R(A,3,paired)"
    call = explainer_of(model, gf.AnchoredKEC("R(A,3,paired)"))
    again = gf.general_unfaithfulness(call, explanation, "R(A,3)", num_samples=50, seed=3)
    assert again.neighborhood == "R(A,3,paired)"
    by_entries = gf.general_unfaithfulness(call, explanation, gf.RemovedEdges(3), num_samples=50, seed=3)
    assert by_entries.neighborhood == "R(A,3)"


def test_a_table_has_no_more_pairs_than_asked_for():
    _, explanation = explained()
    assert len(explanation.scores_and_pairs(2)["pairs"]) == 2
    assert len(explanation.scores_and_pairs(10)["pairs"]) > 2


def test_what_only_moves_is_not_said_to_be_removed():
    _, moved = explained(gf.AnchoredKEC("U(A,0.5)"))
    table = moved.scores_and_pairs()
    by_place = {tuple(unit["at"]): i for i, unit in enumerate(table["units"])}
    for pair in moved.interactions(5):
        assert not pair.removed
        ends = {by_place[pair.first], by_place[pair.second]}
        psi = next(psi for one, two, psi in table["pairs"] if {one, two} == ends)
        assert pair.together == pytest.approx(-psi / 12)  # Both are lowered by 0.5 / sqrt(3).
        assert "lowered a little" in str(pair)
    _, dropped = explained(gf.AnchoredKEC("B(A,0.5,paired)"))
    assert all(pair.removed for pair in dropped.interactions(5))


def test_few_removed_edges_are_not_few_samples():
    _, explanation = explained(gf.AnchoredKEC("R(A,3,paired)"))
    assert own_estimate(explanation).num_samples < 91
    assert not faithfulness_of(explanation).is_flattering
    _, small = explained(gf.AnchoredKEC("R(A,3,paired)", num_samples=60))
    assert faithfulness_of(small).is_flattering


@pytest.mark.parametrize("kind", ["attributes", "object", "common_attributes"])
def test_masks_without_a_type_are_told_by_their_shape(kind):
    _, explanation = explained(gf.AnchoredKEC("B(X,0.5)"), node=kind)
    del explanation["node_mask_type"]
    assert node_kind_of(explanation).value == kind
