"""What is seen first: the explained thing in the middle, few marks, the answer in words, and how far to believe it."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, Explanation
from torch_geometric.nn import GCN

import graphfaith as gf
from conftest import needs_data
from graphfaith._base.errors import InputError
from graphfaith.data import planetoid
from graphfaith.data.models import make_untrained
from graphfaith.explanation.faithfulness import Faithfulness, record_unfaithfulness
from graphfaith.explanation.foretold import foretold_of
from graphfaith.explanation.reading import paired_of
from graphfaith.explanation.trust import make_trust
from graphfaith.explanation.words import headline_of
from graphfaith.facade import Subject
from graphfaith.model.task import Task
from graphfaith.surrogate.estimate import Unfaithfulness
from graphfaith.view.content import page_data
from graphfaith.view.drawing import fit
from graphfaith.view.first_sight import at_first_sight
from graphfaith.view.frame import make_frame
from graphfaith.view.layout import lay_out
from judged import LinkModel

RECORD = Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, "B(A,0.5)", 1)


def both_ways(pairs: list[tuple[int, int]]) -> torch.Tensor:
    return torch.tensor([*pairs, *((b, a) for a, b in pairs)]).T.contiguous()


def hub(spokes: int = 80, behind: int = 60, **fields: object) -> Explanation:
    """A hub with many neighbours, the last of which has many more; a few of them matter."""
    pairs = [(0, i) for i in range(1, spokes + 1)] + [(spokes, spokes + i) for i in range(1, behind + 1)]
    pairs += [(1, 2), (2, 3)]
    scores = torch.full((len(pairs),), 1e-3)
    scores[:6] = torch.tensor([2.0, 1.5, -1.0, 0.5, 0.4, 0.3])
    scores[spokes : spokes + 2] = torch.tensor([0.8, -0.7])
    default = {"edge_index": both_ways(pairs), "edge_mask": scores.repeat(2) / 2, "index": 0}
    return Explanation(**(default | fields))


def toy(near: str = "B(A,0.5)", **options: object):
    """An explanation of a model, with whatever pairs it has."""
    torch.manual_seed(3)
    rng = random.Random(0)
    pairs = [(i, rng.randrange(i)) for i in range(1, 45)] + [(0, 7), (3, 9), (2, 11), (0, 12)]
    data = Data(x=torch.rand(45, 3), edge_index=both_ways(sorted(set(pairs))), class_names=["red", "green", "blue"])
    model = GCN(3, 8, num_layers=2, out_channels=3).eval()
    return gf.explain(model, data, 0, neighborhood=near, samples=80, test_samples=40, **options)


def where(layout, place: int) -> np.ndarray:
    """How far a node is from the middle of the panel, as a share of the panel's width and height."""
    seen = at_first_sight(layout)
    box = make_frame(seen, None, None).box
    at = fit(seen, box).points[int(np.flatnonzero(layout.visible).tolist().index(place))]
    return np.abs(at - np.array(box) / 2) / np.array(box)


class TestLayout:
    def test_the_explained_node_is_in_the_middle_of_few_marks(self) -> None:
        layout = lay_out(hub())
        assert (where(layout, 0) < 0.1).all()
        assert layout.visible.sum() + len(layout.folds) <= 35
        assert layout.rings == tuple(sorted(layout.rings))
        assert np.hypot(*layout.positions[layout.visible].T).max() <= 1 + 1e-6

    def test_a_figure_has_its_rings_whole_also_if_all_is_on_one_side(self) -> None:
        # What says most is a long branch, so that the outer rings have nodes on one side alone.
        branch = both_ways([(0, 141), (141, 142), (142, 143), (143, 144)])
        edge_index = torch.cat([hub().edge_index, branch], dim=1)
        explanation = hub(edge_index=edge_index, edge_mask=torch.cat([hub().edge_mask, torch.full((8,), 2.0)]), x=None)
        seen = at_first_sight(lay_out(explanation))
        box = make_frame(seen, None, None).box
        geometry = fit(seen, box)
        assert len(geometry.rings) >= 3
        for radius in geometry.rings:
            assert (geometry.middle >= radius).all()
            assert (np.array(box) - geometry.middle >= radius).all()

    def test_there_are_few_marks_also_if_everything_says_as_much(self) -> None:
        layout = lay_out(hub(edge_mask=torch.ones_like(hub().edge_mask)))
        assert 20 <= layout.visible.sum() + len(layout.folds) <= 35

    def test_each_hidden_node_and_edge_is_in_one_fold_and_the_sums_are_theirs(self) -> None:
        explanation = hub()
        layout = lay_out(explanation)
        members = [member for fold in layout.folds for member in fold.members]
        assert sorted(members) == np.flatnonzero(~layout.visible).tolist()
        edges = [edge for fold in layout.folds for edge in fold.edges]
        assert sorted(edges) == np.flatnonzero(~layout.visible_edges).tolist()
        panel = layout.panels[0]
        seen = float(panel.edges[layout.visible_edges].sum() * panel.edge_scale)
        assert seen + sum(fold.sums[0] for fold in layout.folds) == pytest.approx(float(explanation.edge_mask.sum()))
        texts = [fold.text for fold in layout.folds]
        assert f"{len(layout.folds[0].members)} more" in texts[0]

    @pytest.mark.parametrize("max_nodes", [32, 60, 300])
    def test_drawn_and_folded_together_are_everything(self, max_nodes: int) -> None:
        far = both_ways([(140, 141), (141, 142), (150, 151)])  # a branch behind the hub, and what no path leads to
        edge_index = torch.cat([hub().edge_index, far], dim=1)
        mask = torch.cat([hub().edge_mask, torch.full((6,), 2e-4)])
        explanation = hub(edge_index=edge_index, edge_mask=mask, num_nodes=160)
        layout = lay_out(explanation, max_nodes=max_nodes)
        assert layout.num_scored == 145
        drawn = int(layout.visible.sum())
        assert drawn + sum(fold.count for fold in layout.folds) == layout.num_scored
        assert sum(len(fold.members) for fold in layout.folds) == len(layout.nodes) - drawn
        panel = layout.panels[0]
        seen = float(panel.edges[layout.visible_edges].sum() * panel.edge_scale)
        assert seen + sum(fold.sums[0] for fold in layout.folds) == pytest.approx(float(mask.sum()))
        texts = [text.get_text() for axes in gf.figure(explanation, max_nodes=max_nodes).axes for text in axes.texts]
        assert any(f"{drawn} of 145 nodes drawn, dotted circles stand for the others" in text for text in texts)
        counts = [fold["count"] for fold in page_data(explanation, max_nodes=max_nodes)["folds"]]
        assert counts == [fold.count for fold in layout.folds]
        assert all(fold.text.startswith(f"{fold.count} more") for fold in layout.folds)

    def test_no_fold_stands_for_one_node(self) -> None:
        # Eight branches have a leaf that says little, and two have many: there is no room to draw the leaves.
        pairs = [(0, i) for i in range(1, 27)] + [(i, 30 + i) for i in range(1, 9)]
        pairs += [(9, 40 + i) for i in range(20)] + [(10, 60 + i) for i in range(20)]
        scores = torch.tensor([1.0] * 26 + [0.01] * 48)
        layout = lay_out(Explanation(edge_index=both_ways(pairs), edge_mask=scores.repeat(2), index=0, num_nodes=80))
        assert len(layout.folds) > 0
        assert min(fold.count for fold in layout.folds) > 1

    def test_what_matters_is_seen_and_the_share_is_said(self) -> None:
        layout = lay_out(hub())
        assert {0, 1, 2, 3, 4, 5, 6, 80} <= set(layout.nodes[layout.visible].tolist())
        total = float((hub().edge_mask.abs() * 2).sum() / 2)
        panel = layout.panels[0]
        seen = np.abs(panel.edges[layout.visible_edges]).sum() * panel.edge_scale
        assert panel.carried == pytest.approx(float(seen) / total)
        assert page_data(hub())["panels"][0]["carried_text"].endswith("% of the scores' weight")

    def test_the_share_is_that_of_the_links_which_the_page_draws(self) -> None:
        pairs = [(i, j) for i in range(50) for j in range(i)]
        scores = torch.linspace(1.0, 2.0, len(pairs)).double()
        whole = Explanation(edge_index=both_ways(pairs), edge_mask=scores.repeat(2), index=0)
        data = page_data(whole, fold=False)
        strongest = scores.sort(descending=True).values[:404]  # 33 % of 1225 edges are the first step with 400
        share = 100 * float(strongest.sum() / scores.sum())
        assert data["panels"][0]["carried_text"] == f"these 404 links carry {share:.0f} % of the scores' weight"

    def test_edges_that_are_left_out_of_a_figure_carry_nothing(self) -> None:
        layout = lay_out(hub(x=torch.ones(141, 1), node_mask=torch.ones(141, 1)))
        known = Faithfulness(RECORD, is_estimate=False)
        panel = replace(layout.panels[0], by_kind={"edges": None, "features": known})
        seen = at_first_sight(replace(layout, panels=(panel,)))
        assert seen.folds
        assert all(fold.sums == (None,) for fold in seen.folds)
        assert seen.panels[0].carried is None

    def test_what_the_words_name_is_in_the_picture(self) -> None:
        # Many links of the hub are stronger than one far out, which is the only thing that speaks against the answer.
        ends = [(0, i) for i in range(1, 60)] + [(59, 60), (60, 61)]
        scores = [1.0 - 0.001 * i for i in range(1, 60)] + [0.0, -0.3]
        explanation = Explanation(edge_index=both_ways(ends), edge_mask=torch.tensor(scores * 2), index=0, num_nodes=62)
        layout = lay_out(explanation)
        ids = layout.nodes.tolist()
        assert "60\u201361 speaks against it" in str(headline_of(explanation))
        assert layout.folds
        assert all(layout.visible[ids.index(node)] for node in (1, 2, 3, 59, 60, 61))
        assert int(layout.visible.sum()) + len(layout.folds) <= 35

    def test_hops_are_rings_and_the_same_positions_in_every_panel_and_run(self) -> None:
        first, other = hub(), hub(edge_mask=-hub().edge_mask)
        layout = lay_out([first, other])
        distance = np.hypot(*layout.positions.T)
        for node in np.flatnonzero(layout.visible & (layout.hops > 0)).tolist():
            assert distance[node] == pytest.approx(layout.rings[layout.hops[node] - 1], abs=2e-6)
        assert np.array_equal(layout.positions, lay_out([first, other]).positions)

    def test_the_ends_of_a_link_are_in_the_middle(self) -> None:
        explanation = hub(index=torch.tensor([0]), edge_label_index=torch.tensor([[0], [80]]), target=torch.ones(1))
        explanation._model_config = gf.explainer_for(
            GCN(3, 4, num_layers=2, out_channels=2), Data(x=torch.ones(2, 3), edge_index=both_ways([(0, 1)]))
        ).model_config
        explanation._model_config.task_level = type(explanation._model_config.task_level)("edge")
        layout = lay_out(explanation)
        assert layout.level == "edge"
        ends = layout.positions[list(layout.panels[0].explained)]
        assert np.abs(ends.sum(0)).max() < 0.1
        assert ends[0, 0] < 0 < ends[1, 0]

    def test_small_graphs_and_given_positions_are_drawn_whole(self) -> None:
        ring = both_ways([(i, (i + 1) % 12) for i in range(12)])
        small = Explanation(edge_index=ring, edge_mask=torch.ones(24), index=0)
        assert not lay_out(small).folds
        assert not lay_out(small).rings
        given = lay_out(hub(), positions=np.random.default_rng(0).random((141, 2)))
        assert not given.folds
        assert given.fixed

    def test_nothing_is_folded_if_that_is_asked_for(self) -> None:
        with pytest.raises(InputError, match="fold must be True or False, not 'no'"):
            lay_out(hub(), fold="no")
        layout = lay_out(hub(), fold=False)
        assert layout.visible.all()
        assert len(layout.nodes) == 141


@needs_data
@pytest.mark.parametrize("node", [1358, 1701, 2])
def test_on_cora(node: int) -> None:
    data = planetoid("cora")
    model = make_untrained("cora", data, seed=0).eval()  # Training takes longer, and where marks are is another matter.
    explanation = gf.explain(model, data, node, method="saliency", test_samples=20)
    layout = lay_out(explanation)
    assert (where(layout, layout.panels[0].explained[0]) < 0.1).all()
    assert layout.visible.sum() + len(layout.folds) <= 35
    assert len(gf.page(explanation).encode()) < 300_000


@needs_data
def test_classes_of_cora_and_citeseer_are_told_by_their_sizes() -> None:
    sizes = {
        "cora": {"Neural Networks": 818, "Probabilistic Methods": 426, "Genetic Algorithms": 418, "Theory": 351}
        | {"Case Based": 298, "Reinforcement Learning": 217, "Rule Learning": 180},
        "citeseer": {"Agents": 596, "AI": 249 + 15, "DB": 701, "IR": 668, "ML": 590, "HCI": 508},
    }
    for name, known in sizes.items():
        data = planetoid(name)
        assert dict(zip(data.class_names, torch.bincount(data.y).tolist(), strict=True)) == known


class TestWords:
    def test_the_headline_says_answer_probability_reasons_and_what_speaks_against(self) -> None:
        explanation = toy("R(A,5)")
        row = explanation.prediction[0].softmax(0)
        label = int(row.argmax())
        text = str(explanation.headline())
        assert text.startswith(
            f"Class {label} ({['red', 'green', 'blue'][label]}), probability {float(row[label]):.2f}. "
        )
        assert explanation.headline().near == "when up to 5 edges are taken away"
        strongest = explanation.headline().pros[0]
        merged: dict[tuple[int, int], float] = {}
        for (a, b), score in zip(explanation.edge_index.T.tolist(), explanation.edge_mask.tolist(), strict=True):
            merged[min(a, b), max(a, b)] = merged.get((min(a, b), max(a, b)), 0.0) + score
        assert strongest.at == max(merged, key=lambda pair: merged[pair])
        assert strongest.amount == pytest.approx(max(merged.values()), rel=1e-5)

    def test_a_feature_that_is_absent_says_so(self) -> None:
        x = torch.tensor([[0.0, 1.0], [2.0, 0.0], [2.0, 0.0]])
        mask = torch.tensor([[-3.0, 0.5], [0.0, 0.0], [0.0, 0.0]])
        fields = {"x": x, "node_mask": mask, "edge_index": both_ways([(0, 1), (1, 2)]), "index": 0}
        explanation = Explanation(**fields, feature_names=["gene", "neuron"], neighborhood="U(X,0.2r)")
        assert (
            str(headline_of(explanation))
            == "Mostly because of the absence of the feature 'gene' and the feature 'neuron'."
        )
        explanation.neighborhood = "B(X,0.5)"  # There, an absent word stays absent: nothing is known of it.
        assert "gene" not in str(headline_of(explanation))

    def test_kinds_that_were_not_measured_are_no_reasons(self) -> None:
        fields = {"x": torch.ones(3, 2), "node_mask": torch.full((3, 2), 9.0), "index": 0}
        edges = {"edge_index": both_ways([(0, 1), (1, 2)]), "edge_mask": torch.tensor([1.0, 0.5, 1.0, 0.5])}
        explanation = Explanation(**fields, **edges)
        assert "feature" in str(headline_of(explanation))
        record_unfaithfulness(explanation, RECORD)
        assert str(headline_of(explanation)) == "Mostly because of its link to 1 and the link 1–2."

    def test_scores_that_explain_little_are_named_with_a_warning(self) -> None:
        explanation = hub()
        record_unfaithfulness(explanation, replace(RECORD, relative=0.97))
        assert str(headline_of(explanation)).startswith("By these scores, which explain only 3 %, mostly because of")

    def test_the_warning_is_about_the_kind_that_is_named(self) -> None:
        fields = {"x": torch.ones(3, 2), "node_mask": torch.full((3, 2), 9.0), "index": 0}
        edges = {"edge_index": both_ways([(0, 1), (1, 2)]), "edge_mask": torch.full((4,), 1e-3)}
        good, bad = (Faithfulness(replace(RECORD, relative=r), is_estimate=False) for r in (0.1, 0.9))
        said = str(headline_of(Explanation(**fields, **edges), {"edges": good, "features": bad}))
        assert said.startswith("By these scores, which explain only 10 %, mostly because of the feature")
        assert str(headline_of(Explanation(**fields, **edges), {"edges": bad, "features": good})).startswith("Mostly")
        edges["edge_mask"] = torch.zeros(4)
        said = str(headline_of(Explanation(**fields, **edges), {"edges": good, "features": None}))
        assert said.startswith("By scores that were not measured, mostly because of the feature")

    def test_the_features_of_a_node_are_named_once_and_in_the_plural(self) -> None:
        loops = torch.tensor([[0, 1, 0], [1, 0, 0]])
        fields = {"x": torch.ones(2, 1), "node_mask": torch.tensor([[-1.0], [0.0]]), "edge_index": loops, "index": 0}
        explanation = Explanation(**fields, edge_mask=torch.tensor([0.0, 0.0, -2.0]), node_kinds=["C", "C"])
        explanation._model_config = toy("U(A,0.5)")._model_config
        headline = headline_of(explanation)
        assert headline.reasons == "Its own features speak against it."
        assert headline.cons[0].amount == pytest.approx(-3.0)

    @pytest.mark.parametrize(
        ("near", "words"),
        [
            ("U(A,0.5)", "when every edge weight may move by up to 1/2"),
            ("B(A,0.5,paired)", "when every edge is dropped with probability 1/2"),
            ("R(A,5)", "when up to 5 edges are taken away"),
            ("R(A,1)", "when one edge is taken away"),
            ("B(X,0.3)", "when every feature that is there is set to 0 with probability 0.3"),
        ],
    )
    def test_the_neighbourhood_in_words(self, near: str, words: str) -> None:
        assert gf.parse_neighborhood(near).words == words

    def test_class_names_are_checked(self) -> None:
        explanation = toy("U(A,0.5)")
        with pytest.raises(InputError, match="2 names for 3 classes"):
            explanation.name(classes=["a", "b"])
        assert explanation.name(classes={1: "sea"}).class_names[1] == "sea"

    def test_above_several_panels_is_the_answer_that_they_share(self) -> None:
        explanation = toy("U(A,0.5)")
        assert page_data(explanation)["headline"] == str(explanation.headline())
        assert page_data([explanation, explanation])["headline"] == f"{explanation.headline().answer}."
        assert page_data([hub(), hub()])["headline"] == ""


class TestTrust:
    def test_four_numbers_in_order_and_none_where_nothing_was_measured(self) -> None:
        scores, pairs = replace(RECORD, relative=0.463), replace(RECORD, relative=0.131)
        full = replace(RECORD, relative=0.0071, scores=scores, pairs=pairs, num_pairs=9, floor=0.448)
        trust = make_trust(Faithfulness(full, is_estimate=False))
        assert [row.key for row in trust.rows] == ["scores", "best", "pairs", "whole"]
        assert [row.explained for row in trust.rows] == ["54 %", "55 %", "87 %", "99.3 %"]
        assert page_data(hub())["panels"][0]["trust"] is None
        exact = make_trust(Faithfulness(replace(RECORD, relative=0.0), is_estimate=False))
        assert exact.rows[0].explained == "100 %"

    @pytest.mark.parametrize("relative", [0.0, 1e-9, 0.3, 1.0, 1.05, 40.0])
    def test_the_bar_is_never_longer_than_its_frame(self, relative: float) -> None:
        explanation = hub()
        record_unfaithfulness(explanation, replace(RECORD, relative=relative))
        drawn = gf.figure(explanation)
        found = {a.get_gid(): a for a in drawn.findobj() if str(a.get_gid()).startswith("panel0-trust")}
        frame, bar = found["panel0-trust"], found.get("panel0-trust-scores")
        assert (bar is None) == (relative >= 1)
        if bar is not None:
            assert bar.get_width() == pytest.approx((1 - relative) * frame.get_width())

    def test_each_number_that_is_missing_is_said(self) -> None:
        explanation = hub()
        record_unfaithfulness(explanation, replace(RECORD, relative=0.3))
        texts = [text.get_text() for axes in gf.figure(explanation).axes for text in axes.texts]
        assert "not measured: the best scores possible, pairs" in texts
        full = replace(RECORD, scores=RECORD, pairs=RECORD, num_pairs=9, floor=0.448)
        record_unfaithfulness(explanation, full)
        texts = [text.get_text() for axes in gf.figure(explanation).axes for text in axes.texts]
        assert not any(text.startswith("not measured:") for text in texts)

    def test_not_measured_is_said(self) -> None:
        texts = [text.get_text() for axes in gf.figure(hub()).axes for text in axes.texts]
        assert "how far these scores can be trusted: not measured" in texts


@pytest.mark.parametrize("near", ["B(A,0.5)", "B(A,0.5,paired)", "R(A,5)", "U(A,0.5)", "B(X,0.5)xB(A,0.5)"])
@pytest.mark.parametrize("method", ["anchored-kec", "saliency"])
def test_what_the_page_adds_up_is_what_the_api_foretells(near: str, method: str) -> None:
    explanation = toy(near, method=method)
    data = page_data(explanation)
    panel = data["panels"][0]
    table, ids = panel["what_if"], data["ids"]
    rng = random.Random(1)
    strongest = sorted(range(len(table["edges"])), key=lambda i: -abs(table["edges"][i]))[:8]
    for count in (1, 2, 5):
        gone = rng.sample(strongest, count)
        loops = rng.sample(range(len(ids)), 1)
        features = table["features"][: count - 1]
        things = [{"edge": i} for i in gone] + [{"loop": i} for i in loops]
        things += [{"feature": [place, column]} for place, column, _ in features]
        total = sum(table["edges"][i] for i in gone) + sum(table["loops"][i] for i in loops)
        total += sum(change for _, _, change in features)
        total += sum(more for a, b, more in table["together"] if a in things and b in things)
        remove = [tuple(ids[end] for end in data["edges"][i]) for i in gone] + [(ids[i], ids[i]) for i in loops]
        values = {(ids[place], column): 0.0 for place, column, _ in features}
        answer = explanation.what_if(remove=remove, set=values, by="pairs" if table["pairs"] else "scores")
        assert total == pytest.approx(answer.change, rel=1e-4, abs=1e-6)
    assert table["base"] == pytest.approx(float(explanation.prediction[0].max()), rel=1e-5)


@pytest.mark.parametrize("near", ["B(A,0.5)", "R(A,5)", "B(X,0.5)xB(A,0.5)"])
def test_the_page_has_what_p_foretells_for_each_thing_alone(near: str) -> None:
    explanation = toy(near)
    data = page_data(explanation)
    table, ids = data["panels"][0]["what_if"]["p"], data["ids"]
    pairs = [tuple(ids[end] for end in ends) for ends in data["edges"]]
    asked = [(said, [pair], {}) for pair, said in zip(pairs, table["edges"], strict=True)]
    asked += [(said, [(v, v)], {}) for v, said in zip(ids, table["loops"], strict=True)]
    asked += [(said, [e for e in pairs if v in e], {}) for v, said in zip(ids, table["nodes"], strict=True)]
    asked += [([change, error], [], {(0, column): 0.0}) for column, change, error in table["features"]]
    assert len(table["features"]) > 0
    for said, remove, values in asked:
        answer = explanation.what_if(remove, values)
        change, error = said or [0, 0]
        assert change == pytest.approx(answer.change, rel=1e-5, abs=1e-7)
        assert (error is None) == (answer.stderr is None)
        assert error is None or error == pytest.approx(answer.stderr, rel=0.05)
    assert any(said and abs(said[0]) > 1e-3 for said, _, _ in asked)


def test_where_p_is_the_scores_the_page_has_no_second_number() -> None:
    assert page_data(toy("B(A,0.5)", method="saliency"))["panels"][0]["what_if"]["p"] is None


def test_every_panel_of_a_link_foretells_the_same_features_at_the_same_ends() -> None:
    torch.manual_seed(4)
    data = Data(x=(torch.rand(12, 130) < 0.6).float(), edge_index=both_ways([(i, (i + 1) % 12) for i in range(12)]))
    data.edge_label_index = torch.tensor([[0], [3]])
    model = LinkModel(130).eval()
    methods = ("saliency", "ig-random", "anchored-kec")
    subject = Subject(model, data, Task("binary_classification", "raw", "edge"))
    page = page_data([subject.explain(0, method, "U(X,0.2r)", samples=60) for method in methods])
    tables = [panel["what_if"]["features"] for panel in page["panels"]]
    assert len({tuple((place, column) for place, column, _ in table) for table in tables}) == 1
    columns = {feature["column"] for feature in page["features"] if not feature["absent"]}
    assert {column for _, column, _ in tables[0]} == columns
    ends = {page["ids"].index(0), page["ids"].index(3)}
    there = {(place, column) for place in ends for column in columns if data.x[page["ids"][place], column]}
    assert {(place, column) for place, column, _ in tables[0]} == there
    absent = [feature for feature in page["features"] if feature["absent"]]
    assert all(not data.x[[0, 3], feature["column"]].any() for feature in absent)


def test_by_scores_is_the_sum_of_scores() -> None:
    explanation = toy("B(A,0.5)")
    pair = tuple(explanation.edge_index[:, 0].tolist())
    both = [i for i, ends in enumerate(explanation.edge_index.T.tolist()) if sorted(ends) == sorted(pair)]
    change = explanation.what_if(remove=[pair], by="scores").change
    assert change == pytest.approx(-float(explanation.edge_mask[both].sum()), rel=1e-5)
    with pytest.raises(InputError, match="by must be"):
        explanation.what_if(remove=[pair], by="guess")


def test_every_pair_that_is_counted_has_its_sentence() -> None:
    explanation = toy("B(A,0.3)")  # Each direction of a link is dropped by itself here, so both may be a pair.
    found = explanation.interactions()
    for options in ({}, {"max_nodes": 3}):  # The page of few nodes lacks ends of pairs.
        panel = page_data(explanation, **options)["panels"][0]
        assert [pair["text"] for pair in panel["pairs"]] == [str(pair) for pair in found]
        assert len(found) == explanation.unfaithfulness.num_pairs
    whole, cut = (page_data(explanation, **options)["panels"][0]["pairs"] for options in ({}, {"max_nodes": 3}))
    assert all(pair["first"] and pair["second"] for pair in whole)
    assert any(pair["first"] is None or pair["second"] is None for pair in cut)
    both = [pair for pair, one in zip(whole, found, strict=True) if sorted(one.first) == sorted(one.second)]
    assert len(both) > 0
    assert all(pair["first"] == pair["second"] for pair in both)


def test_the_neighbourhood_is_in_words_beside_a_method_that_is_fitted_in_none() -> None:
    words = "What speaks for and against it when every edge is dropped with probability 1/2."
    ours, gradient = toy("B(A,0.5)"), toy("B(A,0.5)", method="saliency")
    for shown in (ours, gradient, [ours, gradient], [gradient, ours]):
        assert page_data(shown)["near_words"] == words
    assert page_data([ours, toy("R(A,5)")])["near_words"] == ""


@pytest.mark.parametrize("kind", ["object", "common_attributes"])
def test_no_feature_is_foretold_where_scores_are_of_nodes_or_columns(kind: str) -> None:
    torch.manual_seed(3)
    data = Data(x=torch.rand(8, 3), edge_index=both_ways([(i, (i + 1) % 8) for i in range(8)]))
    explainer = Explainer(
        GCN(3, 8, num_layers=2, out_channels=3).eval(), gf.AnchoredKEC("B(X,0.5)xB(A,0.5)", num_samples=80),
        explanation_type="model", node_mask_type=kind, edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )  # fmt: skip
    explanation = explainer(data.x, data.edge_index, index=0)
    assert {pair.first[1:] for pair in explanation.interactions(10)}
    table = page_data(explanation)["panels"][0]["what_if"]
    assert table["features"] == []
    assert all(thing.keys() <= {"edge", "loop"} for first, second, _ in table["together"] for thing in (first, second))


def test_few_pairs_are_the_same_pairs_everywhere() -> None:
    explanation = toy("B(A,0.5,paired)")
    explanation.settings = {**explanation.settings, "pairs": 2}
    measured = len(paired_of(explanation).first)
    assert 0 < measured <= 2
    assert len(foretold_of(explanation, "pairs").pairs) == measured
    assert len(explanation.interactions()) == len(explanation.scores_and_pairs()["pairs"]) == measured
    table = page_data(explanation)["panels"][0]
    assert len(table["pairs"]) <= measured


def test_agreement_is_the_rank_correlation_of_scores() -> None:
    first = hub()
    shuffled = hub(edge_mask=first.edge_mask * 3)
    table = page_data(
        [first, shuffled, hub(edge_mask=-first.edge_mask), hub(edge_mask=None, node_mask=torch.ones(141, 1))]
    )
    assert table["agreement"][0][:3] == [1.0, 1.0, -1.0]
    assert [row[3] for row in table["agreement"]] == [None] * 4


def test_agreement_is_about_links_and_not_about_their_directions() -> None:
    ends = both_ways([(0, 1), (1, 2), (2, 3)])
    one = Explanation(edge_index=ends, edge_mask=torch.tensor([3.0, 2.0, 1.0, 0.0, 0.0, 0.0]), index=0)
    other = Explanation(edge_index=ends, edge_mask=torch.tensor([0.0, 0.0, 0.0, 3.0, 2.0, 1.0]), index=0)
    assert lay_out([one, other]).agreement == [[1.0, 1.0], [1.0, 1.0]]
    assert lay_out([one, other], directed=True).agreement[0][1] < 0
    elsewhere = Explanation(edge_index=both_ways([(0, 1), (1, 2), (1, 3)]), edge_mask=one.edge_mask, index=0)
    assert lay_out([one, elsewhere]).agreement[0][1] is None


def test_a_chain_may_be_long() -> None:
    chain = both_ways([(i, i + 1) for i in range(1500)])
    layout = lay_out(Explanation(edge_index=chain, edge_mask=torch.ones(3000), index=0), max_nodes=1501, fold=False)
    assert len(layout.rings) == 1500
    assert np.isfinite(layout.positions).all()


class TestFigure:
    def test_the_answer_stands_above(self) -> None:
        explanation = toy("R(A,5)")
        texts = [text.get_text() for axes in gf.figure(explanation, panel_width=8).axes for text in axes.texts]
        assert f"Node 0: {explanation.headline().answer}" in texts

    def test_show_takes_what_the_figure_takes(self) -> None:
        places = np.random.default_rng(0).random((141, 2))
        options = {"positions": places, "stars": [5], "star_means": "a pump", "fold": False, "dpi": 50}
        drawn, figure = gf.show(hub(), **options), gf.figure(hub(), **options)
        said = [[text.get_text() for axes in one.axes for text in axes.texts] for one in (drawn, figure)]
        assert said[0] == said[1]
        assert any("star: a pump" in text for text in said[0])
        discs = [
            next(a for a in one.findobj() if a.get_gid() == "panel0-discs").get_offsets() for one in (drawn, figure)
        ]
        assert np.array_equal(*discs)
        assert len(discs[0]) == 141

    def test_a_column_of_a_paper(self, tmp_path) -> None:
        drawn = gf.figure([hub(), hub()], tmp_path / "column.pdf", width="column")
        assert drawn.get_size_inches()[0] == pytest.approx(3.4)
        with pytest.raises(InputError, match="width must be"):
            gf.figure(hub(), width="page")

    def test_visualize_graph_is_no_black_blob(self, tmp_path) -> None:
        explanation = toy("U(A,0.5)")
        explanation.visualize_graph(str(tmp_path / "ours.png"))
        explanation.visualize_graph(str(tmp_path / "theirs.png"), backend="networkx")
        for name in ("ours.png", "theirs.png"):
            assert imread(tmp_path / name)[..., :3].mean() > 0.85

    def test_atoms_and_bonds(self) -> None:
        bonds = both_ways([(0, 1), (1, 2)])
        explanation = Explanation(
            edge_index=bonds, node_mask=torch.tensor([[1.0], [-2.0], [0.5]]), node_kinds=["C", "O", "H"],
            edge_orders=[2, 1, 2, 1],
        )  # fmt: skip
        data = page_data(explanation)
        assert data["kinds"]["nodes"] == ["C", "O", "H"]
        assert data["kinds"]["orders"] == [2.0, 1.0]
        assert data["names"] == ["C0", "O1", "H2"]
        assert str(headline_of(explanation)) == "Mostly because of C0 and H2; O1 speaks against it."
        drawn = gf.figure(explanation)
        lines = next(a for a in drawn.findobj() if a.get_gid() == "panel0-bonds").get_segments()
        assert len(lines) == 3  # two bonds, one of them double
        assert data["labels"] == ["C0", "O1", "H2"]  # of all of them something is said
        explanation.node_mask = torch.tensor([[1.0], [-2.0], [0.001]])
        assert page_data(explanation)["labels"][2] == "H"
        explanation.edge_orders = [2, 10**9, 2, 10**9]
        lines = next(a for a in gf.figure(explanation).findobj() if a.get_gid() == "panel0-bonds").get_segments()
        assert len(lines) == 2 + 4
        explanation.node_kinds = None
        assert page_data(explanation)["kinds"]["nodes"] is None
        explanation.edge_orders = [2, 1]
        with pytest.raises(InputError, match="edge_orders must be a list of 4"):
            gf.figure(explanation)


def test_all_pairs_of_marks_are_apart() -> None:
    layout = lay_out(hub())
    marks = [*layout.positions[layout.visible].tolist(), *(fold.position for fold in layout.folds)]
    assert min(float(np.hypot(a[0] - b[0], a[1] - b[1])) for a, b in itertools.combinations(marks, 2)) > 0.03
