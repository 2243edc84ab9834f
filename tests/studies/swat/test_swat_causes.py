"""Test the explanations of alarms: the explained function, scores of tags and edges, paths, rankings and verdicts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from types import MappingProxyType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphfaith.explanation.faithfulness import faithfulness_of
from graphfaith_studies.plant.alarms import (
    ask,
    ask_plant,
    choose_step,
    clear_by_fewest,
    clear_in_model,
    examine_alarm,
    expect_each,
)
from graphfaith_studies.plant.causes import (
    FEWEST,
    METHODS,
    NEIGHBORHOODS,
    Cause,
    Gap,
    Path,
    Question,
    count_hops,
    effects_of,
    explain_alarm,
    find_fewest,
    find_reach,
    find_strongest_path,
    make_neighborhoods,
    restore_each,
)
from graphfaith_studies.plant.detectors import Alarm
from graphfaith_studies.plant.forecaster import Nowcaster
from graphfaith_studies.plant.localisation import (
    RANKINGS,
    correlate,
    expect_first,
    expect_hit,
    expect_reciprocal,
    mean_of,
    pool_rankings,
    score_ranking,
)
from graphfaith_studies.plant.monitor import Monitor
from graphfaith_studies.plant.scoring import Event
from graphfaith_studies.plant.series import Scale, series_of
from graphfaith_studies.plant.summary import _cluster_of
from graphfaith_studies.plant.words import describe, format_reading, join_names
from graphfaith_studies.swat import simulate
from graphfaith_studies.swat.tags import NUM_TAGS, SWAT, TAGS, column

EDGES = [(TAGS[first], TAGS[second]) for first, second in SWAT.edges]
ACCUSED, OTHER = column("P602"), column("DPIT301")


@pytest.fixture(scope="module")
def model() -> Nowcaster:
    torch.manual_seed(0)
    return Nowcaster(SWAT, 8).eval()


@pytest.fixture(scope="module")
def question(model: Nowcaster) -> Question:
    draw = torch.Generator().manual_seed(1)
    x, expected = (torch.rand(NUM_TAGS, SWAT.window, generator=draw) for _ in range(2))
    with torch.no_grad():
        gap = float(x[ACCUSED, -1] - model(x, SWAT.arrows)[ACCUSED, 0])
    return Question(x, expected, ACCUSED, math.copysign(1.0, gap), abs(gap))


@pytest.fixture(scope="module")
def explained(model: Nowcaster, question: Question) -> list[Cause]:
    return explain_alarm(model, question, methods=("anchored-kec", "saliency"), samples=100, test_samples=100)


def make_cause(scores: dict[str, float], tags: dict[str, float] | None = None, accused: str = "P602") -> Cause:
    edges = np.array([scores.get("-".join(ends), 0.0) for ends in EDGES])
    arrows = np.concatenate([edges, [scores.get("-".join(ends[::-1]), 0.0) for ends in EDGES]])
    tag_scores = np.array([(tags or {}).get(tag, 0.0) for tag in TAGS])
    share = dict.fromkeys(NEIGHBORHOODS, 0.1)
    return Cause(SWAT, "kec", column(accused), tag_scores, arrows, share, share)


class TestExplainedFunction:
    def test_the_gap_as_a_function_of_what_is_unusual(self, model: Nowcaster, question: Question) -> None:
        forecast = model(question.x, SWAT.arrows).squeeze(-1)
        gap = Gap(model, question)(question.unusual, SWAT.arrows).squeeze(-1)
        assert torch.allclose(gap, question.sign * (question.x[:, -1] - forecast), atol=1e-6)
        assert gap[ACCUSED].item() == pytest.approx(question.gap, abs=1e-6)
        nothing = Gap(model, question)(torch.zeros_like(question.x), SWAT.arrows).squeeze(-1)
        usual = question.expected[:, -1] - model(question.expected, SWAT.arrows).squeeze(-1)
        assert torch.allclose(nothing, question.sign * usual, atol=1e-6)
        other = replace(question, what="forecast")
        assert torch.allclose(
            Gap(model, other)(question.unusual, SWAT.arrows).squeeze(-1), question.sign * forecast, atol=1e-6
        )

    def test_scores_of_tags_are_slope_times_unusual_part_and_sum_to_the_gap(self, model, question, explained) -> None:
        moving = question.unusual.double().clone().requires_grad_()
        wide = Nowcaster(SWAT, 8).double()
        wide.load_state_dict(model.state_dict())
        out = Gap(wide, question)(moving, SWAT.arrows)[ACCUSED]
        (slope,) = torch.autograd.grad(out.sum(), moving)
        expected = (slope * question.unusual.double()).sum(-1).numpy()
        others = np.arange(NUM_TAGS) != ACCUSED
        assert np.allclose(explained[1].tags[others], expected[others], atol=1e-6)
        for cause in explained:
            assert cause.tags.sum() == pytest.approx(question.gap)

    def test_scores_of_edges_are_those_of_both_directions(self, model, question, explained) -> None:
        weight = torch.ones(158, requires_grad=True)
        out = Gap(model, question)(question.unusual, SWAT.arrows, weight)[ACCUSED]
        (slope,) = torch.autograd.grad(out.sum(), weight)
        assert np.allclose(explained[1].arrows, slope.numpy(), atol=1e-6)
        assert np.allclose(explained[1].edges, (slope[:79] + slope[79:]).numpy(), atol=1e-6)

    def test_a_mask_has_no_sign(self, model, question) -> None:
        (cause,) = explain_alarm(
            model, question, methods=("gnnexplainer-soft",), neighborhoods=("both",), samples=20, test_samples=20
        )
        assert cause.tags.min() >= 0.0
        assert set(cause.relative) == {"both"}

    def test_readings_move_by_a_share_of_what_is_usual(self, question: Question) -> None:
        far = question.x.clone()
        far[3] = -200.0
        for window in (question.x, far):
            spread = float(window.max() - window.min())
            assert make_neighborhoods(window)["readings"].sigma * spread == pytest.approx(0.1)

    def test_the_best_is_the_most_faithful(self, explained: list[Cause]) -> None:
        for name in NEIGHBORHOODS:
            assert explained[0].relative[name] < explained[1].relative[name] < 1

    def test_the_number_beside_the_picture_is_that_of_its_scores(self, explained: list[Cause]) -> None:
        for cause in explained:
            share, error = cause.shown
            assert faithfulness_of(cause.explanation).relative == share
            assert 0 < error < share
        assert faithfulness_of(make_cause({}).explanation) is None  # of rows that do not say

    def test_round_trip_through_json(self, explained: list[Cause]) -> None:
        again = Cause.from_json(SWAT, json.loads(json.dumps(explained[0].as_json(), allow_nan=False)))
        assert np.array_equal(again.tags, explained[0].tags)
        assert np.array_equal(again.arrows, explained[0].arrows)
        for name in ("method", "accused", "relative", "shown", "foretold"):
            assert getattr(again, name) == getattr(explained[0], name)
        infinite = make_cause({})
        infinite.relative["both"] = math.inf
        row = json.loads(json.dumps(infinite.as_json(), allow_nan=False))
        assert Cause.from_json(SWAT, row).relative["both"] == math.inf


class TestRestoring:
    def test_the_model_s_own_answer_for_each_tag(self, model, question) -> None:
        restored = restore_each(model, question)
        without = question.x.clone()
        without[OTHER] = question.expected[OTHER]
        forecast = model(without, SWAT.arrows)[ACCUSED].item()
        assert restored.forecasts[OTHER] == pytest.approx(forecast, abs=1e-5)
        assert abs(restored.gaps[-1]) == pytest.approx(question.gap, abs=1e-6)
        assert restored.readings[ACCUSED] == pytest.approx(float(question.expected[ACCUSED, -1]))
        effects = effects_of(restored, question)
        assert effects.sum() == pytest.approx(question.gap)
        assert effects[column("MV101")] == pytest.approx(0, abs=1e-7)  # It is out of reach.
        assert effects[OTHER] == pytest.approx(question.sign * (forecast - restored.forecasts[-1]), abs=1e-5)

    def test_the_library_s_what_if_asks_the_same(self, model, question, explained) -> None:
        effects = effects_of(restore_each(model, question), question)
        assert len(explained[0].foretold) == 3
        for tag, (foretold, actual) in explained[0].foretold.items():
            assert actual == pytest.approx(-effects[tag], abs=1e-5)
            assert foretold == pytest.approx(actual, abs=0.5 * abs(actual) + 0.02)


class TestFewest:
    def test_the_model_confirms_them(self, model, question) -> None:
        """With these readings as expected, and the accused one as it is, F is below the value; with one it is not."""

        def gap_without(readings: Sequence[tuple[int, int]]) -> float:
            unusual = question.unusual.clone()
            for tag, before in readings:
                unusual[tag, SWAT.window - 1 - before] = 0.0
            with torch.no_grad():
                return float(Gap(model, question, holds=True)(unusual, SWAT.arrows)[ACCUSED])

        start = gap_without([])
        least = min(gap_without([(tag, before)]) for tag in range(NUM_TAGS) for before in range(SWAT.window))
        past = start + 1.05 * (least - start)  # further than any one reading leads
        found = find_fewest(model, question, past)
        assert 2 <= len(found.readings) <= FEWEST
        assert gap_without(found.readings) < past
        assert (ACCUSED, 0) not in found.readings
        assert find_fewest(model, question, start - 99.0).readings == ()

    def test_the_value_to_pass_is_the_threshold_of_the_check_that_failed(self, watching, monkeypatch) -> None:
        monitor, watched = watching
        alarm = watched.alarms[0]
        asked = []
        monkeypatch.setattr("graphfaith_studies.plant.alarms.find_fewest", lambda *others: asked.append(others[2]))
        question = ask(alarm, 300, watched, monitor)
        restored = restore_each(monitor.forecaster, question)
        inside = replace(watched, of_range=np.zeros_like(watched.of_range))
        clear_by_fewest(question, restored, 300, inside, monitor)
        assert asked == [monitor.thresholds.values[alarm.accused]]
        # Both checks failed: there is no single value to pass.
        assert clear_by_fewest(question, restored, 300, watched, monitor) is None


def names(path: Path) -> str:
    return " - ".join(TAGS[tag] for tag in path.tags)


class TestPaths:
    # The two directions of an edge are two arrows; only the arrow towards P602 counts.
    STORY = MappingProxyType(
        {"DPIT301-P602": -0.8, "P602-DPIT301": 9.0, "DPIT301-MV301": 0.5, "MV301-FIT601": 0.9, "FIT601-P602": 0.9}
    )

    def test_the_strongest(self) -> None:
        path = find_strongest_path(make_cause(self.STORY), column("DPIT301"))
        assert (names(path), path.score) == ("DPIT301 - P602", -0.8)

    def test_not_longer_than_the_reach_of_the_model(self) -> None:
        path = find_strongest_path(make_cause({**self.STORY, "DPIT301-P602": 0.0}), column("DPIT301"))
        assert names(path) == "DPIT301 - P602"  # the detour of three arrows is stronger, but too long for the messages

    def test_two_arrows_add_up(self) -> None:
        path = find_strongest_path(make_cause({"MV301-FIT601": 0.9, "FIT601-P602": -0.2}), column("MV301"))
        assert (names(path), path.score) == ("MV301 - FIT601 - P602", pytest.approx(0.7))

    def test_none_beyond_the_model_s_reach(self) -> None:
        assert find_strongest_path(make_cause(self.STORY), column("LIT101")) is not None  # by way of P601
        assert find_strongest_path(make_cause(self.STORY), column("MV101")) is None

    def test_the_tag_itself(self) -> None:
        assert find_strongest_path(make_cause(self.STORY), ACCUSED).tags == (ACCUSED,)

    def test_reach_is_what_the_model_s_slopes_say(self, model, question) -> None:
        for name in ("P602", "FIT401", "MV101"):
            accused = column(name)
            moving, weight = question.x.clone().requires_grad_(), torch.ones(158, requires_grad=True)
            slopes = torch.autograd.grad(model(moving, SWAT.arrows, weight)[accused].sum(), [moving, weight])
            tags, edges = find_reach(SWAT, accused)
            felt = set(slopes[0].abs().sum(-1).nonzero().view(-1).tolist())
            assert felt <= tags
            assert len(felt) > 0.7 * len(tags)  # a relu may be zero at some tags
            both = slopes[1][:79].abs() + slopes[1][79:].abs()
            assert set(both.nonzero().view(-1).tolist()) <= edges

    def test_hops(self) -> None:
        hops = count_hops(SWAT, ACCUSED)
        assert (hops[ACCUSED], hops[OTHER], hops[column("MV302")]) == (0, 1, 2)
        assert hops.max() <= 12


class TestRankings:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.integers(0, 2), min_size=2, max_size=5), st.data())
    def test_ties_are_broken_at_random(self, values: list[int], data) -> None:
        """Compare with the mean over all orders of the tags."""
        scores = np.array(values, dtype=float)
        causes = data.draw(st.lists(st.sampled_from(range(len(values))), min_size=1, unique=True))
        orders = [
            sorted(range(len(values)), key=lambda tag: (-scores[tag], order[tag]))
            for order in permutations(range(len(values)))
        ]
        ranks = [min(order.index(tag) for tag in causes) + 1 for order in orders]
        assert expect_reciprocal(scores, causes) == pytest.approx(np.mean([1 / rank for rank in ranks]))
        for k in (1, 3):
            assert expect_hit(scores, causes, k) == pytest.approx(np.mean([rank <= k for rank in ranks]))
        clears = np.arange(len(values)) % 2 == 0
        assert expect_first(scores, clears) == pytest.approx(np.mean([clears[order[0]] for order in orders]))

    def test_the_accused_tag_is_left_out_where_it_says_nothing(self) -> None:
        scores, clears = np.array([5.0, 3.0, 1.0]), np.array([True, False, True])
        row = score_ranking(scores, 0, [2], clears, None)
        assert (row["clears_model"], row["other_model"], row["clears_plant"]) == (1.0, 0.0, None)
        names = ("attacked_hit1", "attacked_hit3", "attacked_reciprocal")
        assert [row[name] for name in names] == [0.0, 1.0, pytest.approx(1 / 3)]
        assert (row["attacked_other_hit1"], row["attacked_other_hit3"]) == (0.0, 1.0)
        assert row["causal_hit1"] is row["causal_reciprocal"] is None  # No plant was asked.
        assert score_ranking(scores, 0, [0, 1], clears, None)["attacked_other_hit1"] == 1.0
        assert score_ranking(scores, 0, [0], clears, None)["attacked_other_hit1"] is None
        assert score_ranking(scores, 0, [], clears, clears)["attacked_hit1"] is None

    def test_the_cause_is_what_clears_the_alarm_in_the_plant(self) -> None:
        """Also where another tag was attacked; an alarm that no tag clears has no cause to find."""
        scores, model = np.array([5.0, 3.0, 1.0]), np.ones(3, dtype=bool)
        row = score_ranking(scores, 0, [2], model, np.array([False, True, False]))
        assert [row[f"causal_{name}"] for name in ("hit1", "hit3", "reciprocal", "other_hit1")] == [0.0, 1.0, 0.5, 1.0]
        assert [row[f"attacked_{name}"] for name in ("reciprocal", "other_hit1")] == [pytest.approx(1 / 3), 0.0]
        itself = score_ranking(scores, 0, [2], model, np.array([True, False, False]))
        assert (itself["causal_hit1"], itself["causal_other_hit1"]) == (1.0, None)
        nothing = score_ranking(scores, 0, [2], model, np.zeros(3, dtype=bool))
        assert (nothing["causal_hit1"], nothing["causal_reciprocal"], nothing["clears_plant"]) == (None, None, 0.0)

    def test_rankings_are_compared_alarm_by_alarm(self) -> None:
        cleared = np.ones(3, dtype=bool)
        better = score_ranking(np.array([3.0, 2.0, 1.0]), 1, [0], cleared, cleared)
        worse = {**better, "attacked_hit3": 0.25, "causal_hit3": 0.75, "causal_other_hit3": 0.5, "clears_plant": 0.0}
        row = dict.fromkeys(RANKINGS, worse) | {"anchored-kec": better}
        pooled = pool_rankings([row] * 4, [(0, 1), (0, 2), (1, 1), (1, 3)])
        versus = pooled["versus"]
        assert versus["attacked_hit3"]["anchored-kec"]["hops"]["mean"] == 0.75
        assert versus["attacked_hit3"]["kec"]["deviation"]["mean"] == 0.0
        assert versus["causal_hit3"]["anchored-kec"]["hops"]["mean"] == 0.25
        assert versus["causal_other_hit3"]["anchored-kec"]["hops"]["mean"] == 0.5
        assert pooled["clearing"]["kec"]["clears_plant"]["mean"] == 1.0
        assert pooled["clearing"]["kec"]["clears_model"]["mean"] == 0.0
        assert "anchored-kec" not in pooled["clearing"]
        # Attack 1 is the same one in both trainings.
        assert (pooled["alarms"], pooled["attacks"], pooled["seed_attacks"]) == (4, 3, 4)

    def test_differences_of_clearing_shares_are_paired(self) -> None:
        """Where two rankings clear the same alarms but for one, the error of the difference is that of this one."""
        rows = []
        for number in range(40):
            both = score_ranking(np.array([2.0, 1.0]), 0, [1], np.array([number % 2 == 0, False]), None)
            rows.append(dict.fromkeys(RANKINGS, both) | {"kec": {**both, "clears_model": 1.0} if number == 1 else both})
        pooled = pool_rankings(rows, [(0, number) for number in range(40)])
        paired = pooled["clearing"]["kec"]["clears_model"]
        assert paired["mean"] == pytest.approx(-1 / 40)
        assert paired["stderr"] < pooled["rankings"]["kec"]["clears_model"]["stderr"] / 2

    def test_an_attack_that_all_trainings_share_is_one(self) -> None:
        """Its number says nothing: only what was drawn for a seed is another attack in each."""
        alarm = {"event": {"attacks": [107]}, "alarm": {"first": 5}}
        assert _cluster_of(0, alarm, None) == (0, 107)
        assert _cluster_of(0, alarm, None)[1] == _cluster_of(1, alarm, None)[1]
        assert _cluster_of(0, alarm, 100)[1] != _cluster_of(1, alarm, 100)[1]
        documented = {"event": {"attacks": [8]}, "alarm": {"first": 5}}
        assert _cluster_of(0, documented, 100)[1] == _cluster_of(1, documented, 100)[1] == 8
        quiet = {"event": {"attacks": []}, "alarm": {"first": 5}}
        assert _cluster_of(0, quiet, 100) != _cluster_of(1, quiet, 100)

    def test_agreement(self) -> None:
        first = make_cause({}, {tag: float(i + 1) for i, tag in enumerate(TAGS)})
        second = make_cause({}, {tag: float(i + 1) ** 3 for i, tag in enumerate(TAGS)})
        assert correlate(first, second) == {"tags": pytest.approx(1.0), "edges": None}
        elsewhere = make_cause({}, {tag: float(i + 1) for i, tag in enumerate(TAGS)}, accused="FIT401")
        assert correlate(first, elsewhere) == {"tags": None, "edges": None}
        far = make_cause({}, {tag: float(i + 1) for i, tag in enumerate(TAGS)} | {"MV101": -99.0})
        assert correlate(first, far)["tags"] == pytest.approx(1.0)  # the tag is out of reach

    def test_standard_errors_depend_on_seeds_and_attacks(self) -> None:
        alarms = [(seed, attack) for seed in range(5) for attack in range(20)]
        shared = np.array([[10.0 * seed, 0.1 * attack] for seed, attack in alarms]).sum(1)
        expected = 10 * np.std(range(5), ddof=1) / math.sqrt(5)
        assert mean_of(list(shared), alarms)["stderr"] == pytest.approx(expected, rel=0.05)
        assert mean_of(list(shared))["stderr"] < 2  # as if all alarms were independent
        assert mean_of([1.0, 3.0, math.inf, None]) == {"mean": 2.0, "stderr": pytest.approx(1.0), "count": 2}
        assert mean_of([4.0])["stderr"] is None
        assert mean_of([None])["mean"] is None


@pytest.fixture(scope="module")
def watching():
    """Return a monitor whose forecast is the reading of a minute ago, and what it sees of a series with one fault."""
    normal = series_of(simulate(0.08, seed=3))
    model = Nowcaster(SWAT, 4).eval()
    with torch.no_grad():
        model.readout.weight.zero_()
    scale = Scale.of(normal)
    monitor = Monitor.of(model, scale, normal)
    tag = column("AIT401")
    normal.values[300:304, tag] += 2.0 * float(scale.span[tag])
    normal.values[304:320, tag] += 3.0 * float(scale.span[tag])
    return monitor, monitor.watch(normal)


class Courses:
    """A plant in which the attack is undone by restoring one tag."""

    def __init__(self, values: np.ndarray, usual: np.ndarray, undone: int) -> None:
        self.values, self.usual, self.undone = values, usual, undone

    def run_again(self, events, stop):
        start = events[0].start
        return start, {None: self.usual[start:stop], self.undone: self.usual[start:stop], 0: self.values[start:stop]}


class TestAlarms:
    def test_the_step_that_reads_more_is_explained(self, watching) -> None:
        _, watched = watching
        alarm = watched.alarms[0]
        assert (alarm.first, alarm.accused) == (300, column("AIT401"))
        assert 304 <= choose_step(alarm, watched) <= 306
        assert choose_step(replace(alarm, first=318), watched) == 318  # Later it is over.

    def test_verdicts_of_the_model(self, watching) -> None:
        monitor, watched = watching
        alarm = watched.alarms[0]
        question = ask(alarm, 300, watched, monitor)
        restored = restore_each(monitor.forecaster, question)
        cleared = clear_in_model(question, restored, 300, watched, monitor)
        assert cleared[alarm.accused]  # Nothing but its own reading is far from its forecast.
        assert cleared.sum() == 1

    def test_what_is_expected_of_a_tag_does_not_follow_its_own_unusual_readings(self, watching) -> None:
        """Six steps after the fault began, the monitor forecasts from the fault itself; it was not expected before."""
        monitor, watched = watching
        alarm = watched.alarms[0]
        question = ask(alarm, 306, watched, monitor)
        scaled = monitor.scale.scale(watched.series.values[283:307])
        assert float(question.expected[alarm.accused, -1]) == pytest.approx(float(scaled[294 - 283, alarm.accused]))
        # Of the tags that behaved, what is expected in the newer half is what was expected in the older one.
        older, newer = question.expected[OTHER, : SWAT.window // 2], question.expected[OTHER, SWAT.window // 2 :]
        assert torch.equal(older, newer)
        restored = restore_each(monitor.forecaster, question)
        cleared = clear_in_model(question, restored, 306, watched, monitor)
        assert np.flatnonzero(cleared).tolist() == [alarm.accused]
        assert restored.gaps[alarm.accused] == pytest.approx(0.0, abs=1e-6)

    def test_where_nothing_is_forecast_the_reading_is_expected(self, watching) -> None:
        monitor, watched = watching
        first = SWAT.window - 1  # the first step that is judged
        expected = expect_each(first, watched, monitor)
        readings = monitor.scale.scale(watched.series.values[:first]).T
        assert torch.equal(expected[:, :-1], readings)
        assert torch.equal(expected[:, -1], expected[:, SWAT.window // 2 - 1])

    def test_a_range_alarm_that_the_plant_explains_is_about_the_forecast(self, watching) -> None:
        monitor, watched = watching
        alarm = Alarm(310, 315, column("AIT401"), 3.0, "range")
        assert abs(watched.of_forecast[312, alarm.accused]) < 1  # a minute later the reading is as a minute ago
        question = ask(alarm, 312, watched, monitor)
        assert (question.what, question.sign) == ("forecast", 1.0)
        assert question.gap == pytest.approx(float(question.x[alarm.accused, -1]) - 1.0, abs=1e-5)

    def test_verdicts_of_the_plant(self, watching) -> None:
        monitor, watched = watching
        alarm = watched.alarms[0]
        usual = watched.series.values.copy()
        usual[300:320, alarm.accused] = usual[299, alarm.accused]
        events = [Event(8, 298, 320, (OTHER,))]
        truth = ask_plant(alarm, events, watched, monitor, Courses(watched.series.values, usual, OTHER))
        assert truth.caused
        assert np.flatnonzero(truth.clears).tolist() == [OTHER]
        still = ask_plant(alarm, events, watched, monitor, Courses(usual, watched.series.values, OTHER))
        assert not still.caused
        assert np.flatnonzero(still.clears).tolist() == [0]

    def test_all_of_it_as_json(self, watching) -> None:
        monitor, watched = watching
        events = (Event(8, 298, 320, (OTHER,)),)
        usual = watched.series.values.copy()
        usual[300:320, column("AIT401")] = usual[299, column("AIT401")]
        row = examine_alarm(
            watched.alarms[0],
            watched,
            monitor,
            events,
            Courses(watched.series.values, usual, OTHER),
            methods=METHODS,
            neighborhoods=("both",),
            samples=100,
            test_samples=20,
        )
        row = json.loads(json.dumps(row, allow_nan=False))
        assert row["event"] == {"when": "during", "attacks": [8], "attacked": ["DPIT301"], "caused": True}
        assert set(row["found"]) == set(RANKINGS)
        assert row["verdicts"]["DPIT301"]["plant"] is True
        assert row["verdicts"]["DPIT301"]["model"] is False
        assert row["verdicts"]["AIT401"]["model"] is True
        assert row["found"]["accused"]["attacked_hit1"] == 0.0
        assert row["found"]["accused"]["causal_hit1"] == 0.0
        assert row["found"]["hops"]["causal_other_hit1"] is not None


class TestWords:
    def test_words(self) -> None:
        assert describe(SWAT, "UV401") == "UV401 (lamp, dechlorination)"
        assert format_reading(SWAT, "MV101", 0.0) == "moving"
        assert format_reading(SWAT, "LIT101", 812.34) == "812 mm"
        assert format_reading(SWAT, "MV101", 0.5) == "between moving and closed"
        assert format_reading(SWAT, "MV101", 2.5) == "2.50"  # There is no state above 2.
        assert join_names(["a"]) == "a"
        assert {describe(SWAT, tag) for tag in TAGS}
        assert len(METHODS) == 4
