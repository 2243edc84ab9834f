"""From alarms to causes: what is explained, scores of tags and edges, ways through the plant, and the numbers of it."""

from __future__ import annotations

import json
import math
from types import MappingProxyType

import numpy as np
import pytest
import torch

from graphfaith.explanation.faithfulness import faithfulness_of
from graphfaith_studies.swat.agreement import correlation, found, mean, pooled
from graphfaith_studies.swat.causes import (
    METHODS,
    NEIGHBORHOODS,
    Cause,
    Deviation,
    causes,
    neighborhoods,
    path_edges,
    strongest_path,
    unusual,
    within_reach,
)
from graphfaith_studies.swat.drawing import plan, positions, readings
from graphfaith_studies.swat.forecaster import Forecaster, plant_edges
from graphfaith_studies.swat.scoring import Event
from graphfaith_studies.swat.series import WINDOW
from graphfaith_studies.swat.tags import EDGES, NUM_TAGS, TAGS, column
from graphfaith_studies.swat.words import described, listed, reading

ACCUSED = column("P602")


@pytest.fixture(scope="module")
def model() -> Forecaster:
    torch.manual_seed(0)
    return Forecaster(8).eval()


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.rand(NUM_TAGS, WINDOW, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def told(model: Forecaster, x: torch.Tensor) -> list[Cause]:
    usual = torch.full((NUM_TAGS,), 0.5, dtype=torch.float64)
    options = {"methods": ("anchored-kec", "saliency"), "samples": 60, "test_samples": 100}
    return causes(model, x, torch.zeros(NUM_TAGS), usual, ACCUSED, -1.0, **options)


def made(scores: dict[str, float], tags: dict[str, float] | None = None, accused: str = "P602") -> Cause:
    edges = np.array([scores.get("-".join(ends), 0.0) for ends in EDGES])
    arrows = np.concatenate([edges, [scores.get("-".join(ends[::-1]), 0.0) for ends in EDGES]])
    found_tags = np.array([(tags or {}).get(tag, 0.0) for tag in TAGS])
    share = dict.fromkeys(NEIGHBORHOODS, 0.1)
    return Cause("kec", column(accused), found_tags, arrows, share, share)


def event(attacked: list[str], accused: str = "P602", number: int = 8) -> Event:
    return Event(number, 10, 60, tuple(column(tag) for tag in attacked), 20, column(accused), -4.0, 100)


class TestWhatIsExplained:
    def test_the_gap_in_the_direction_of_the_alarm(self, model: Forecaster, x: torch.Tensor) -> None:
        known = torch.rand(NUM_TAGS)
        forecast = model(x, plant_edges()).squeeze(-1)
        for sign in (1.0, -1.0):
            out = Deviation(model, known, sign)(x, plant_edges()).squeeze(-1)
            assert torch.allclose(out, sign * (known - forecast))

    def test_scores_of_tags_are_what_was_unusual_times_the_slope(self, model, x, told: list[Cause]) -> None:
        moving = x.double().clone().requires_grad_()
        wide = Forecaster(8).double()
        wide.load_state_dict(model.state_dict())
        out = Deviation(wide, torch.zeros(NUM_TAGS, dtype=torch.float64), -1.0)(moving, plant_edges())[ACCUSED]
        (slope,) = torch.autograd.grad(out.sum(), moving)
        expected = (slope * (x.double() - 0.5)).sum(-1)
        assert np.allclose(told[1].tags, expected.numpy(), atol=1e-6)

    def test_scores_of_edges_are_those_of_both_directions(self, model, x, told: list[Cause]) -> None:
        weight = torch.ones(158, requires_grad=True)
        out = Deviation(model, torch.zeros(NUM_TAGS), -1.0)(x, plant_edges(), weight)[ACCUSED]
        (slope,) = torch.autograd.grad(out.sum(), weight)
        assert np.allclose(told[1].arrows, slope.numpy(), atol=1e-6)
        assert np.allclose(told[1].edges, (slope[:79] + slope[79:]).numpy(), atol=1e-6)

    def test_the_forecast_itself(self, model, x, told: list[Cause]) -> None:
        usual = torch.full((NUM_TAGS,), 0.5, dtype=torch.float64)
        options = {"methods": ("saliency",), "samples": 60, "test_samples": 50, "what": "forecast"}
        (one,) = causes(model, x, torch.zeros(NUM_TAGS), usual, ACCUSED, -1.0, **options)
        assert np.allclose(one.tags, told[1].tags)  # - (0 - forecast) has its slope

    def test_readings_move_by_a_share_of_what_is_usual(self, x: torch.Tensor) -> None:
        far = x.clone()
        far[3] = -200.0
        for window in (x, far):
            near = neighborhoods(window)["readings"]
            spread = float(window.max() - window.min())
            assert near.sigma * spread == pytest.approx(0.1)

    def test_the_best_is_the_most_faithful(self, told: list[Cause]) -> None:
        for name in NEIGHBORHOODS:
            assert told[0].relative[name] < told[1].relative[name] < 1

    def test_kept_as_json(self, told: list[Cause]) -> None:
        again = Cause.from_json(json.loads(json.dumps(told[0].as_json(), allow_nan=False)))
        assert np.array_equal(again.tags, told[0].tags)
        assert np.array_equal(again.arrows, told[0].arrows)
        assert (again.method, again.accused, again.relative) == (told[0].method, ACCUSED, told[0].relative)
        endless = made({})
        endless.relative["both"] = math.inf
        assert Cause.from_json(json.loads(json.dumps(endless.as_json(), allow_nan=False))).relative["both"] == math.inf

    def test_as_a_figure_shows_it(self, told: list[Cause]) -> None:
        shown = told[0].explanation
        assert faithfulness_of(shown).relative == told[0].relative["both"]
        assert shown.node_mask.squeeze(-1).tolist() == told[0].tags.tolist()
        strongest = shown.to_networkx(1)
        assert strongest.number_of_nodes() >= 2
        merged = shown.edge_mask[:79] + shown.edge_mask[79:]
        assert np.allclose(merged.numpy(), told[0].edges)


class TestWays:
    # One way of an edge and the other are two arrows; that towards P602 counts.
    STORY = MappingProxyType(
        {"DPIT301-P602": -0.8, "P602-DPIT301": 9.0, "DPIT301-MV301": 0.5, "MV301-FIT601": 0.9, "FIT601-P602": 0.9}
    )

    def test_the_strongest(self) -> None:
        path = strongest_path(made(self.STORY), column("DPIT301"))
        assert (str(path), path.score) == ("DPIT301 - P602", -0.8)

    def test_no_longer_than_the_model_looks(self) -> None:
        path = strongest_path(made({**self.STORY, "DPIT301-P602": 0.0}), column("DPIT301"))
        assert str(path) == "DPIT301 - P602"  # the detour of three arrows is stronger, but no message goes it

    def test_two_arrows_add_up(self) -> None:
        path = strongest_path(made({"MV301-FIT601": 0.9, "FIT601-P602": -0.2}), column("MV301"))
        assert (str(path), path.score) == ("MV301 - FIT601 - P602", pytest.approx(0.7))

    def test_none_beyond_the_model_s_reach(self) -> None:
        assert strongest_path(made(self.STORY), column("LIT101")) is not None  # over P601
        assert strongest_path(made(self.STORY), column("MV101")) is None

    def test_the_tag_itself(self) -> None:
        assert strongest_path(made(self.STORY), ACCUSED).tags == (ACCUSED,)

    def test_the_shortest_through_the_plant(self) -> None:
        found_edges = [EDGES[i] for i in path_edges(column("DPIT301"), column("P601"))]
        assert found_edges == [("DPIT301", "P602"), ("P601", "P602")]
        assert path_edges(ACCUSED, ACCUSED) == []

    def test_reach_is_what_the_model_s_slopes_say(self, model, x) -> None:
        for name in ("P602", "FIT401", "MV101"):
            accused = column(name)
            moving, weight = x.clone().requires_grad_(), torch.ones(158, requires_grad=True)
            slopes = torch.autograd.grad(model(moving, plant_edges(), weight)[accused].sum(), [moving, weight])
            tags, edges = within_reach(accused)
            felt = set(slopes[0].abs().sum(-1).nonzero().view(-1).tolist())
            assert felt <= tags
            assert len(felt) > 0.7 * len(tags)  # a relu may hide one
            both = slopes[1][:79].abs() + slopes[1][79:].abs()
            assert set(both.nonzero().view(-1).tolist()) <= edges


class TestUnusual:
    def test_it_is_the_model_s_own_difference(self, model, x) -> None:
        usual = torch.full((NUM_TAGS,), 0.5, dtype=torch.float64)
        did = unusual(model, x, usual, ACCUSED, -1.0)
        without = x.clone()
        without[column("DPIT301")] = 0.5
        whole, less = (model(one, plant_edges())[ACCUSED].item() for one in (x, without))
        assert did[column("DPIT301")] == pytest.approx(whole - less, abs=1e-5)
        assert did[column("MV101")] == pytest.approx(0, abs=1e-7)


class TestNumbers:
    def test_what_was_found(self) -> None:
        cause = made({"DPIT301-P602": 3.0, "FIT503-P602": -5.0}, {"DPIT301": -2.0, "MV301": 3.0, "P602": 1.0})
        row = found(event(["DPIT301"]), cause)
        assert (row["attacked_rank"], row["top"], row["path_rank"]) == (2, True, 2.0)
        tags, edges = within_reach(ACCUSED)
        assert row["attacked_rank_random"] == (len(tags) + 1) / 2
        assert row["top_random"] == pytest.approx(5 / len(tags))
        assert row["path_rank_random"] == (len(edges) + 1) / 2
        assert row["negative"] == {"tags": pytest.approx(1 / 3), "edges": 0.5}

    def test_the_best_of_several_and_no_way_to_oneself(self) -> None:
        cause = made({}, {"P602": 1.0, "DPIT301": 2.0})
        row = found(event(["MV303", "P602"]), cause)
        assert (row["attacked_rank"], row["path_rank"]) == (2, None)
        assert row["accused"]

    def test_nothing_where_nobody_knows(self) -> None:
        row = found(event([]), made({}, {"P602": 1.0}))
        assert (row["attacked_rank"], row["top"], row["path_rank"]) == (None, None, None)
        assert pooled([{**row, "seed": 0, "attack": 8}])["top"] == {"mean": None, "stderr": None, "count": 0}

    def test_places_of_equal_scores_are_shared(self) -> None:
        assert made({}).rank([0]) == made({}).rank([50]) == 26
        assert made({}, {"P602": 1.0}).rank([0]) == 26.5

    @pytest.mark.parametrize("attacked", [["DPIT301", "MV303"], ["MV101", "DPIT301"], ["MV101", "P206"], ["P602"]])
    def test_a_random_order_is_what_it_says(self, attacked: list[str]) -> None:
        rng, hits, ranks, ways = np.random.default_rng(0), 0, [], []
        tags, edges = (sorted(kind) for kind in within_reach(ACCUSED))
        for _ in range(3000):
            cause = made({})
            cause.tags[tags] = rng.random(len(tags)) + 0.01
            cause.arrows[edges] = rng.random(len(edges)) + 0.01
            row = found(event(attacked), cause)
            hits += row["top"]
            ranks.append(row["attacked_rank"])
            ways.append(row["path_rank"])
        assert hits / 3000 == pytest.approx(row["top_random"], abs=0.03)
        assert np.mean(ranks) == pytest.approx(row["attacked_rank_random"], rel=0.05)
        if attacked != ["P602"]:
            assert np.mean(ways) == pytest.approx(row["path_rank_random"], rel=0.05)

    def test_agreement(self) -> None:
        one = made({}, {tag: float(i + 1) for i, tag in enumerate(TAGS)})
        other = made({}, {tag: float(i + 1) ** 3 for i, tag in enumerate(TAGS)})
        assert correlation(one, other) == {"tags": pytest.approx(1.0), "edges": None}
        elsewhere = made({}, {tag: float(i + 1) for i, tag in enumerate(TAGS)}, accused="FIT401")
        assert correlation(one, elsewhere) == {"tags": None, "edges": None}
        far = made({}, {tag: float(i + 1) for i, tag in enumerate(TAGS)} | {"MV101": -99.0})
        assert correlation(one, far)["tags"] == pytest.approx(1.0)  # beyond reach

    def test_an_endless_share_is_counted_and_left_out(self) -> None:
        row = {**found(event(["DPIT301"]), made({})), "seed": 0, "attack": 8}
        endless = {**row, "relative": {**row["relative"], "both": None}}
        told = pooled([row, endless])
        assert (told["relative"]["both"]["count"], told["dropped"]) == (1, 1)
        assert told["median"]["both"] == 0.1

    def test_those_that_accuse_another_tag_apart(self) -> None:
        right = found(event(["P602"]), made({}, {"P602": 1.0}))
        wrong = found(event(["DPIT301"]), made({}, {"P602": 1.0}))
        told = pooled([{**row, "seed": 0, "attack": i} for i, row in enumerate((right, wrong))])
        assert (told["top"]["mean"], told["apart"]["top"]["mean"], told["accused"]["mean"]) == (0.5, 0.0, 0.5)

    def test_errors_know_of_seeds_and_attacks(self) -> None:
        draw = np.random.default_rng(0)
        alarms = [(seed, attack) for seed in range(5) for attack in range(20)]
        alone = draw.normal(size=100)
        shared = np.array([[10.0 * seed, 0.1 * attack] for seed, attack in alarms]).sum(1)
        assert mean(list(alone), alarms)["stderr"] == pytest.approx(0.1, rel=0.6)
        assert mean(list(shared), alarms)["stderr"] == pytest.approx(
            10 * np.std(range(5), ddof=1) / math.sqrt(5), rel=0.05
        )
        assert mean(list(shared))["stderr"] < 2  # as if every alarm were news
        one_seed = mean([1.0, 3.0], [(0, 1), (0, 2)])
        assert one_seed == {"mean": 2.0, "stderr": pytest.approx(1.0), "count": 2}

    def test_means(self) -> None:
        assert mean([1.0, 3.0, math.inf]) == {"mean": 2.0, "stderr": pytest.approx(1.0), "count": 2}
        assert mean([4.0])["stderr"] is None


class TestPictures:
    def test_the_plan_has_every_tag_in_its_place(self, told: list[Cause]) -> None:
        drawn = plan(told, event(["DPIT301"]))
        discs = next(artist for artist in drawn.findobj() if artist.get_gid() == "panel0-discs").get_offsets()
        assert len(discs) == NUM_TAGS
        assert np.corrcoef(discs[:, 0], positions()[:, 0])[0, 1] > 0.999
        stars = next(artist for artist in drawn.findobj() if artist.get_gid() == "panel1-stars").get_offsets()
        assert len(stars) == 1
        assert any("star: attacked" in text.get_text() for text in drawn.findobj(lambda one: hasattr(one, "get_text")))

    def test_readings_of_the_accused_and_the_attacked(self) -> None:
        from test_swat_monitor import series

        given = series([0] * 10 + [8] * 60 + [0] * 60, {8: [column("DPIT301")]})
        steps = np.arange(5, 130)
        drawn = readings(given, steps, np.zeros((125, NUM_TAGS)), event(["DPIT301"]))
        assert [axes.get_ylabel() for axes in drawn.axes] == ["P602 (accused)", "DPIT301"]

    def test_words(self) -> None:
        assert described("UV401") == "UV401 (lamp, dechlorination)"
        assert reading("MV101", 0.0) == "moving"
        assert reading("LIT101", 812.34) == "812 mm"
        assert reading("MV101", 0.5) == "0.50"
        assert listed(["a"]) == "a"
        assert {described(tag) for tag in TAGS}
        assert len(METHODS) == 4
