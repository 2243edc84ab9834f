"""Test the explanations of alarms: the explained function, scores of tags and edges, paths and rankings."""

from __future__ import annotations

import json
import math
from types import MappingProxyType

import numpy as np
import pytest
import torch

from graphfaith.explanation.faithfulness import faithfulness_of
from graphfaith_studies.swat.agreement import correlate, mean, pool, score_cause
from graphfaith_studies.swat.causes import (
    METHODS,
    NEIGHBORHOODS,
    Cause,
    Deviation,
    explain_alarm,
    find_path_edges,
    find_reach,
    find_strongest_path,
    make_neighborhoods,
    measure_unusual,
)
from graphfaith_studies.swat.drawing import draw_plan, draw_readings, tag_positions
from graphfaith_studies.swat.forecaster import Forecaster, plant_edges
from graphfaith_studies.swat.scoring import Event
from graphfaith_studies.swat.series import STEP, WINDOW, Series
from graphfaith_studies.swat.tags import EDGES, NUM_TAGS, TAGS, column
from graphfaith_studies.swat.words import describe, format_reading, join_names

ACCUSED = column("P602")


@pytest.fixture(scope="module")
def model() -> Forecaster:
    torch.manual_seed(0)
    return Forecaster(8).eval()


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.rand(NUM_TAGS, WINDOW, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def explained(model: Forecaster, x: torch.Tensor) -> list[Cause]:
    usual = torch.full((NUM_TAGS,), 0.5, dtype=torch.float64)
    options = {"methods": ("anchored-kec", "saliency"), "samples": 60, "test_samples": 100}
    return explain_alarm(model, x, torch.zeros(NUM_TAGS), usual, ACCUSED, -1.0, **options)


def make_cause(scores: dict[str, float], tags: dict[str, float] | None = None, accused: str = "P602") -> Cause:
    edges = np.array([scores.get("-".join(ends), 0.0) for ends in EDGES])
    arrows = np.concatenate([edges, [scores.get("-".join(ends[::-1]), 0.0) for ends in EDGES]])
    tag_scores = np.array([(tags or {}).get(tag, 0.0) for tag in TAGS])
    share = dict.fromkeys(NEIGHBORHOODS, 0.1)
    return Cause("kec", column(accused), tag_scores, arrows, share, share)


def event(attacked: list[str], accused: str = "P602", number: int = 8) -> Event:
    return Event(number, 10, 60, tuple(column(tag) for tag in attacked), 20, column(accused), -4.0, 100)


class TestExplainedFunction:
    def test_the_gap_in_the_direction_of_the_alarm(self, model: Forecaster, x: torch.Tensor) -> None:
        known = torch.rand(NUM_TAGS)
        forecast = model(x, plant_edges()).squeeze(-1)
        for sign in (1.0, -1.0):
            out = Deviation(model, known, sign)(x, plant_edges()).squeeze(-1)
            assert torch.allclose(out, sign * (known - forecast))

    def test_scores_of_tags_are_slope_times_difference_from_usual(self, model, x, explained: list[Cause]) -> None:
        moving = x.double().clone().requires_grad_()
        wide = Forecaster(8).double()
        wide.load_state_dict(model.state_dict())
        out = Deviation(wide, torch.zeros(NUM_TAGS, dtype=torch.float64), -1.0)(moving, plant_edges())[ACCUSED]
        (slope,) = torch.autograd.grad(out.sum(), moving)
        expected = (slope * (x.double() - 0.5)).sum(-1)
        assert np.allclose(explained[1].tags, expected.numpy(), atol=1e-6)

    def test_scores_of_edges_are_those_of_both_directions(self, model, x, explained: list[Cause]) -> None:
        weight = torch.ones(158, requires_grad=True)
        out = Deviation(model, torch.zeros(NUM_TAGS), -1.0)(x, plant_edges(), weight)[ACCUSED]
        (slope,) = torch.autograd.grad(out.sum(), weight)
        assert np.allclose(explained[1].arrows, slope.numpy(), atol=1e-6)
        assert np.allclose(explained[1].edges, (slope[:79] + slope[79:]).numpy(), atol=1e-6)

    def test_the_forecast_itself(self, model, x, explained: list[Cause]) -> None:
        usual = torch.full((NUM_TAGS,), 0.5, dtype=torch.float64)
        options = {"methods": ("saliency",), "samples": 60, "test_samples": 50, "what": "forecast"}
        (cause,) = explain_alarm(model, x, torch.zeros(NUM_TAGS), usual, ACCUSED, -1.0, **options)
        assert np.allclose(cause.tags, explained[1].tags)  # -(0 - forecast) has the slope of the forecast

    def test_readings_move_by_a_share_of_what_is_usual(self, x: torch.Tensor) -> None:
        far = x.clone()
        far[3] = -200.0
        for window in (x, far):
            near = make_neighborhoods(window)["readings"]
            spread = float(window.max() - window.min())
            assert near.sigma * spread == pytest.approx(0.1)

    def test_the_best_is_the_most_faithful(self, explained: list[Cause]) -> None:
        for name in NEIGHBORHOODS:
            assert explained[0].relative[name] < explained[1].relative[name] < 1

    def test_the_number_beside_the_picture_is_that_of_its_scores(self, explained: list[Cause]) -> None:
        for cause, less in zip(explained, (True, False), strict=True):
            share, error = cause.shown
            assert faithfulness_of(cause.explanation).relative == share
            assert (cause.relative["both"] < share) is less  # p of AnchoredKEC is more than its scores
            assert 0 < error < share
        assert faithfulness_of(make_cause({}).explanation) is None  # of rows that do not say

    def test_arrows_of_anchored_kec_are_derivatives(self, explained: list[Cause]) -> None:
        """p is anchored to the gradient of F, which the shares are not."""
        anchored, saliency = explained[0].arrows, explained[1].arrows
        assert np.corrcoef(anchored, saliency)[0, 1] > 0.99

    def test_round_trip_through_json(self, explained: list[Cause]) -> None:
        again = Cause.from_json(json.loads(json.dumps(explained[0].as_json(), allow_nan=False)))
        assert np.array_equal(again.tags, explained[0].tags)
        assert again.shown == explained[0].shown
        assert np.array_equal(again.arrows, explained[0].arrows)
        assert (again.method, again.accused, again.relative) == (explained[0].method, ACCUSED, explained[0].relative)
        infinite = make_cause({})
        infinite.relative["both"] = math.inf
        assert Cause.from_json(json.loads(json.dumps(infinite.as_json(), allow_nan=False))).relative["both"] == math.inf

    def test_the_explanation_for_figures(self, explained: list[Cause]) -> None:
        shown = explained[0].explanation
        assert shown.node_mask.squeeze(-1).tolist() == explained[0].tags.tolist()
        strongest = shown.to_networkx(1)
        assert strongest.number_of_nodes() >= 2
        merged = shown.edge_mask[:79] + shown.edge_mask[79:]
        assert np.allclose(merged.numpy(), explained[0].edges)


class TestPaths:
    # The two directions of an edge are two arrows; only the arrow towards P602 counts.
    STORY = MappingProxyType(
        {"DPIT301-P602": -0.8, "P602-DPIT301": 9.0, "DPIT301-MV301": 0.5, "MV301-FIT601": 0.9, "FIT601-P602": 0.9}
    )

    def test_the_strongest(self) -> None:
        path = find_strongest_path(make_cause(self.STORY), column("DPIT301"))
        assert (str(path), path.score) == ("DPIT301 - P602", -0.8)

    def test_not_longer_than_the_reach_of_the_model(self) -> None:
        path = find_strongest_path(make_cause({**self.STORY, "DPIT301-P602": 0.0}), column("DPIT301"))
        assert str(path) == "DPIT301 - P602"  # the detour of three arrows is stronger, but too long for the messages

    def test_two_arrows_add_up(self) -> None:
        path = find_strongest_path(make_cause({"MV301-FIT601": 0.9, "FIT601-P602": -0.2}), column("MV301"))
        assert (str(path), path.score) == ("MV301 - FIT601 - P602", pytest.approx(0.7))

    def test_none_beyond_the_model_s_reach(self) -> None:
        assert find_strongest_path(make_cause(self.STORY), column("LIT101")) is not None  # by way of P601
        assert find_strongest_path(make_cause(self.STORY), column("MV101")) is None

    def test_the_tag_itself(self) -> None:
        assert find_strongest_path(make_cause(self.STORY), ACCUSED).tags == (ACCUSED,)

    def test_the_shortest_through_the_plant(self) -> None:
        edges = [EDGES[i] for i in find_path_edges(column("DPIT301"), column("P601"))]
        assert edges == [("DPIT301", "P602"), ("P601", "P602")]
        assert find_path_edges(ACCUSED, ACCUSED) == []

    def test_reach_is_what_the_model_s_slopes_say(self, model, x) -> None:
        for name in ("P602", "FIT401", "MV101"):
            accused = column(name)
            moving, weight = x.clone().requires_grad_(), torch.ones(158, requires_grad=True)
            slopes = torch.autograd.grad(model(moving, plant_edges(), weight)[accused].sum(), [moving, weight])
            tags, edges = find_reach(accused)
            felt = set(slopes[0].abs().sum(-1).nonzero().view(-1).tolist())
            assert felt <= tags
            assert len(felt) > 0.7 * len(tags)  # a relu may be zero at some tags
            both = slopes[1][:79].abs() + slopes[1][79:].abs()
            assert set(both.nonzero().view(-1).tolist()) <= edges


class TestUnusual:
    def test_it_is_the_model_s_own_difference(self, model, x) -> None:
        usual = torch.full((NUM_TAGS,), 0.5, dtype=torch.float64)
        effects = measure_unusual(model, x, usual, ACCUSED, -1.0)
        without = x.clone()
        without[column("DPIT301")] = 0.5
        whole, less = (model(window, plant_edges())[ACCUSED].item() for window in (x, without))
        assert effects[column("DPIT301")] == pytest.approx(whole - less, abs=1e-5)
        assert effects[column("MV101")] == pytest.approx(0, abs=1e-7)


class TestNumbers:
    def test_ranks_of_the_attacked_tag_and_the_path(self) -> None:
        cause = make_cause({"DPIT301-P602": 3.0, "FIT503-P602": -5.0}, {"DPIT301": -2.0, "MV301": 3.0, "P602": 1.0})
        row = score_cause(event(["DPIT301"]), cause)
        assert (row["attacked_rank"], row["top"], row["path_rank"]) == (2, True, 2.0)
        tags, edges = find_reach(ACCUSED)
        assert row["attacked_rank_random"] == (len(tags) + 1) / 2
        assert row["top_random"] == pytest.approx(5 / len(tags))
        assert row["path_rank_random"] == (len(edges) + 1) / 2
        assert row["negative"] == {"tags": pytest.approx(1 / 3), "edges": 0.5}

    def test_the_best_of_several_tags_and_no_path_to_the_accused_tag(self) -> None:
        cause = make_cause({}, {"P602": 1.0, "DPIT301": 2.0})
        row = score_cause(event(["MV303", "P602"]), cause)
        assert (row["attacked_rank"], row["path_rank"]) == (2, None)
        assert row["accused"]

    def test_no_ranks_if_the_attacked_tags_are_unknown(self) -> None:
        row = score_cause(event([]), make_cause({}, {"P602": 1.0}))
        assert (row["attacked_rank"], row["top"], row["path_rank"]) == (None, None, None)
        assert pool([{**row, "seed": 0, "attack": 8}])["top"] == {"mean": None, "stderr": None, "count": 0}

    def test_places_of_equal_scores_are_shared(self) -> None:
        assert make_cause({}).rank([0]) == make_cause({}).rank([50]) == 26
        assert make_cause({}, {"P602": 1.0}).rank([0]) == 26.5

    @pytest.mark.parametrize("attacked", [["DPIT301", "MV303"], ["MV101", "DPIT301"], ["MV101", "P206"], ["P602"]])
    def test_expectations_for_a_random_order(self, attacked: list[str]) -> None:
        rng, hits, ranks, paths = np.random.default_rng(0), 0, [], []
        tags, edges = (sorted(kind) for kind in find_reach(ACCUSED))
        for _ in range(1000):
            cause = make_cause({})
            cause.tags[tags] = rng.random(len(tags)) + 0.01
            cause.arrows[edges] = rng.random(len(edges)) + 0.01
            row = score_cause(event(attacked), cause)
            hits += row["top"]
            ranks.append(row["attacked_rank"])
            paths.append(row["path_rank"])
        assert hits / 1000 == pytest.approx(row["top_random"], abs=0.03)
        assert np.mean(ranks) == pytest.approx(row["attacked_rank_random"], rel=0.05)
        if attacked != ["P602"]:
            assert np.mean(paths) == pytest.approx(row["path_rank_random"], rel=0.05)

    def test_agreement(self) -> None:
        first = make_cause({}, {tag: float(i + 1) for i, tag in enumerate(TAGS)})
        second = make_cause({}, {tag: float(i + 1) ** 3 for i, tag in enumerate(TAGS)})
        assert correlate(first, second) == {"tags": pytest.approx(1.0), "edges": None}
        elsewhere = make_cause({}, {tag: float(i + 1) for i, tag in enumerate(TAGS)}, accused="FIT401")
        assert correlate(first, elsewhere) == {"tags": None, "edges": None}
        far = make_cause({}, {tag: float(i + 1) for i, tag in enumerate(TAGS)} | {"MV101": -99.0})
        assert correlate(first, far)["tags"] == pytest.approx(1.0)  # the tag is out of reach

    def test_an_infinite_share_is_counted_but_not_averaged(self) -> None:
        row = {**score_cause(event(["DPIT301"]), make_cause({})), "seed": 0, "attack": 8}
        infinite = {**row, "relative": {**row["relative"], "both": None}}
        pooled = pool([row, infinite])
        assert (pooled["relative"]["both"]["count"], pooled["dropped"]) == (1, 1)
        assert pooled["median"]["both"] == 0.1

    def test_alarms_that_accuse_another_tag_are_also_averaged_apart(self) -> None:
        right = score_cause(event(["P602"]), make_cause({}, {"P602": 1.0}))
        wrong = score_cause(event(["DPIT301"]), make_cause({}, {"P602": 1.0}))
        pooled = pool([{**row, "seed": 0, "attack": i} for i, row in enumerate((right, wrong))])
        assert (pooled["top"]["mean"], pooled["apart"]["top"]["mean"], pooled["accused"]["mean"]) == (0.5, 0.0, 0.5)

    def test_standard_errors_depend_on_seeds_and_attacks(self) -> None:
        draw = np.random.default_rng(0)
        alarms = [(seed, attack) for seed in range(5) for attack in range(20)]
        alone = draw.normal(size=100)
        shared = np.array([[10.0 * seed, 0.1 * attack] for seed, attack in alarms]).sum(1)
        assert mean(list(alone), alarms)["stderr"] == pytest.approx(0.1, rel=0.6)
        assert mean(list(shared), alarms)["stderr"] == pytest.approx(
            10 * np.std(range(5), ddof=1) / math.sqrt(5), rel=0.05
        )
        assert mean(list(shared))["stderr"] < 2  # as if all alarms were independent
        one_seed = mean([1.0, 3.0], [(0, 1), (0, 2)])
        assert one_seed == {"mean": 2.0, "stderr": pytest.approx(1.0), "count": 2}

    def test_means(self) -> None:
        assert mean([1.0, 3.0, math.inf]) == {"mean": 2.0, "stderr": pytest.approx(1.0), "count": 2}
        assert mean([4.0])["stderr"] is None


class TestPictures:
    def test_the_plan_has_every_tag_in_its_place(self, explained: list[Cause]) -> None:
        drawn = draw_plan(explained, event(["DPIT301"]))
        discs = next(artist for artist in drawn.findobj() if artist.get_gid() == "panel0-discs").get_offsets()
        assert len(discs) == NUM_TAGS
        assert np.corrcoef(discs[:, 0], tag_positions()[:, 0])[0, 1] > 0.999
        stars = next(artist for artist in drawn.findobj() if artist.get_gid() == "panel1-stars").get_offsets()
        assert len(stars) == 1
        assert any(
            "star: attacked" in text.get_text() for text in drawn.findobj(lambda artist: hasattr(artist, "get_text"))
        )

    def test_readings_of_the_accused_and_the_attacked(self) -> None:
        numbers = np.array([0] * 10 + [8] * 60 + [0] * 60)
        attacked = np.zeros((130, NUM_TAGS), dtype=bool)
        attacked[numbers == 8, column("DPIT301")] = True
        times = np.datetime64("2024-01-01T00:00:00", "s") + STEP * np.arange(130)
        given = Series(times, np.zeros((130, NUM_TAGS)), numbers > 0, attacked, numbers, np.arange(130) > 0)
        steps = np.arange(5, 130)
        drawn = draw_readings(given, steps, np.zeros((125, NUM_TAGS)), event(["DPIT301"]))
        assert [axes.get_ylabel() for axes in drawn.axes] == ["P602 (accused)", "DPIT301"]

    def test_words(self) -> None:
        assert describe("UV401") == "UV401 (lamp, dechlorination)"
        assert format_reading("MV101", 0.0) == "moving"
        assert format_reading("LIT101", 812.34) == "812 mm"
        assert format_reading("MV101", 0.5) == "0.50"
        assert join_names(["a"]) == "a"
        assert {describe(tag) for tag in TAGS}
        assert len(METHODS) == 4
