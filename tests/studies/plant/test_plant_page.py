"""Test the operator's page: its words, its drawings, that it tells no truth, and how it looks in a browser."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, expect

from browsing import serious
from browsing import watched as watched_page
from graphfaith_studies.plant import Plant, page
from graphfaith_studies.plant.answers import write_answers
from graphfaith_studies.plant.causes import METHODS
from graphfaith_studies.plant.chart import draw_chart
from graphfaith_studies.plant.detectors import Range, Thresholds
from graphfaith_studies.plant.findings import find_cause, find_findings, find_neighbours
from graphfaith_studies.plant.forecaster import Nowcaster
from graphfaith_studies.plant.history import tell_history, tell_switches
from graphfaith_studies.plant.monitor import Monitor, Watched
from graphfaith_studies.plant.page import _ON_A_PAGE, write_pages
from graphfaith_studies.plant.plan import Plan
from graphfaith_studies.plant.series import Scale, Series
from graphfaith_studies.plant.words import format_number

PLANT = Plant.named("swat")
LENGTH = 400


@pytest.fixture(scope="module")
def seen() -> tuple[Watched, Monitor]:
    values = np.random.default_rng(0).random((LENGTH, len(PLANT)))
    times = np.datetime64("2015-12-28T10:00:00", "s") + PLANT.step * np.arange(LENGTH)
    flags = np.zeros(LENGTH, dtype=bool)
    follows = np.arange(LENGTH) > 0
    series = Series(PLANT, times, values, flags, np.zeros(values.shape, bool), np.zeros(LENGTH, np.int64), follows)
    torch.manual_seed(0)
    scale = Scale.of(series)
    monitor = Monitor(Nowcaster(PLANT), scale, Thresholds(np.ones(len(PLANT))), Range.of(scale))
    return Watched(series, 0.1 * np.ones_like(values), values, values), monitor


def make_row(first: int = 100, cause: str = "DPIT301", clears: bool = True, **scores: float) -> dict[str, Any]:
    tags = dict.fromkeys(PLANT.names, 0.0) | (scores or {cause: 0.8, "P602": 0.2, "MV301": 0.1})
    verdicts = {
        name: {
            "model": clears,
            "plant": True,
            "reading": 45.0,
            "expected": 19.4,
            "usual": [12.0, 30.0],
        }
        for name in (cause, "MV301", "FIT601")
    }
    verdicts["P602"] = {
        "model": True,
        "plant": True,
        "reading": 2.0,
        "expected": 1.0,
        "usual": [1.0, 2.0],
    }
    return {
        "alarm": {"first": first, "last": first + 24, "accused": "P602", "deviation": 3.0, "reason": "forecast"},
        "at": first + 3,
        "what": "deviation",
        "span": 2.0,
        "fewest": {"readings": [["DPIT301", 0], ["MV301", 3]], "tried": 80, "smallest": True},
        "causes": [
            {
                "method": METHODS[0],
                "tags": tags,
                "relative": {"both": 0.012},
                "shown": [0.05, 0.011],
                "foretold": {cause: [-0.4, -0.35]},
            }
        ],
        "paths": {METHODS[0]: {cause: {"tags": [cause, "P602"], "score": 1.0}}},
        "verdicts": verdicts,
        "event": {"when": "during", "attacks": [8], "attacked": ["DPIT301"], "caused": True},
    }


class TestWords:
    def test_a_cause_that_clears_the_alarm(self, seen) -> None:
        (found,) = find_findings(seen[0].series, seen[1].scale, [make_row()])
        assert found.heading == "P602 on, off expected"
        assert found.tell().startswith(
            "At 28 December 10:17:10 P602 (pump, permeate and backwash) was on; off was expected. P602 washes"
        )
        assert found.tell().endswith("The alarm is up for 4 min 10 s.")
        assert found.explain() == (
            "DPIT301 (pressure difference, ultrafiltration) reads 45.0 kPa, usually 12.0 to 30.0 kPa; 19.4 kPa was "
            f"expected. {found.history['DPIT301']} With DPIT301 as expected this alarm would not be."
        )
        assert found.tell_foretold() == (
            "With DPIT301 as expected the gap at P602 changes by -0.70, says the model; the explanation foretold -0.80."
        )
        assert found.suggest().startswith("Check DPIT301 at the instrument")
        assert found.chain == ("DPIT301", "P602")
        assert found.verdict_words == "suggested cause: DPIT301"

    def test_a_cause_that_does_not(self, seen) -> None:
        row = make_row(clears=False, DPIT301=0.8, MV301=0.1)
        (found,) = find_findings(seen[0].series, seen[1].scale, [row])
        assert found.cause is None
        assert found.explain().startswith("Cause not known. The explanation points to DPIT301 and MV301, but with any")
        assert found.chain == ()
        assert found.explain().endswith(
            "With the reading of P602 as it is, the model clears the alarm if DPIT301 now and MV301 30 s before are as "
            "expected; fewer do not."
        )
        row["fewest"] = {"readings": [["DPIT301", 0], ["MV301", 3]], "tried": 80, "smallest": False}
        (found,) = find_findings(seen[0].series, seen[1].scale, [row])
        assert found.explain().endswith("MV301 30 s before are as expected; fewer may do.")
        row["fewest"] = {"readings": [["DPIT301", 0]], "tried": 80, "smallest": True}
        (found,) = find_findings(seen[0].series, seen[1].scale, [row])
        assert found.explain().endswith("the model clears the alarm if DPIT301 now is as expected.")
        row["fewest"] = {"readings": [], "tried": 470, "smallest": False}
        (found,) = find_findings(seen[0].series, seen[1].scale, [row])
        assert found.explain().endswith("was found with which the model clears it (470 tried).")
        row["fewest"] = None
        (found,) = find_findings(seen[0].series, seen[1].scale, [row])
        assert found.explain().endswith("as expected this alarm would still be.")

    def test_the_accused_tag_itself(self, seen) -> None:
        (found,) = find_findings(seen[0].series, seen[1].scale, [make_row(P602=0.9, DPIT301=0.1)])
        assert found.cause == "P602"
        assert found.explain().startswith(
            "P602 itself stands out: it has the largest part in this alarm, and with it as expected the alarm would not"
        )
        assert found.suggest().startswith("Check whether P602 really is in this state")

    def test_the_accused_tag_is_no_cause_either_if_the_alarm_would_still_be(self, seen) -> None:
        row = make_row(P602=0.9, DPIT301=0.1)
        row["verdicts"]["P602"]["model"] = False
        assert find_cause(row) == (("DPIT301",), "DPIT301")
        row["verdicts"]["DPIT301"]["model"] = False
        (found,) = find_findings(seen[0].series, seen[1].scale, [row])
        assert (found.cause, found.chain, found.verdict_words) == (None, (), "cause not known")

    def test_the_order_of_scores_decides(self, seen) -> None:
        row = make_row(clears=False, DPIT301=0.8, FIT601=0.5, MV301=0.4, P602=0.3)
        row["verdicts"]["FIT601"]["model"] = True
        assert find_cause(row) == (("DPIT301", "FIT601", "MV301"), "FIT601")
        row["verdicts"]["FIT601"]["model"] = False
        assert find_cause(row)[1] == "P602"
        (found,) = find_findings(seen[0].series, seen[1].scale, [row])
        assert "DPIT301, FIT601 and MV301 have a larger part in this alarm, but they do not clear it" in found.explain()
        # A tag that narrowed the gap is no suspect, however large its score.
        assert find_cause(make_row(DPIT301=-0.9, P602=0.1)) == ((), "P602")

    def test_out_of_range(self, seen) -> None:
        row = make_row()
        row["alarm"] |= {"accused": "DPIT301", "reason": "range", "deviation": -2.0}
        (found,) = find_findings(seen[0].series, seen[1].scale, [row])
        assert found.heading == "DPIT301 below its normal range"
        # What was expected is only the border of the range where the forecast is beyond it, so it is not said here.
        readings = seen[0].series.values[:, PLANT.column("DPIT301")]
        low, high = format_number(readings.min()), format_number(readings.max())
        assert f"read 45.0 kPa. In normal operation it read {low} to {high} kPa. It has read" in found.tell()

    def test_a_forecast_between_two_states(self, seen) -> None:
        row = make_row()
        row["verdicts"]["P602"]["expected"] = 1.54
        (found,) = find_findings(seen[0].series, seen[1].scale, [row])
        assert found.heading == "P602 not as expected"
        assert "was on; that was not expected (forecast: between off and on)." in found.tell()

    def test_a_forecast_of_the_same_state(self, seen) -> None:
        row = make_row(P602=1.0)
        row["verdicts"]["P602"]["expected"] = 2.0031
        (found,) = find_findings(seen[0].series, seen[1].scale, [row])
        assert "was on and was expected to be, but not as closely as usual (2.003 for 2.000)." in found.tell()

    def test_alarms_are_in_the_order_of_time(self, seen) -> None:
        found = find_findings(seen[0].series, seen[1].scale, [make_row(200), make_row(50), make_row(375)])
        assert [finding.row["alarm"]["first"] for finding in found] == [50, 200, 375]
        assert [finding.open_end for finding in found] == [False, False, True]
        assert "still up at the end" in found[2].tell()

    def test_neighbours_of_its_own_part_come_first(self) -> None:
        assert find_neighbours(PLANT, "LIT401")[0] in ("P401", "P402")


class TestHistory:
    """What the tags did before the alarm, from the readings alone, in any plant."""

    @pytest.fixture
    def series(self, seen) -> Series:
        series = copy.deepcopy(seen[0].series)
        series.values[:, PLANT.column("P602")] = 1.0
        series.values[:, PLANT.column("FIT601")] = 0.1
        return series

    def test_a_pump_that_ran_before(self, series) -> None:
        series.values[[*range(80, 84), *range(100, 104)], PLANT.column("P602")] = 2.0
        assert tell_history(series, "P602", 103, 1.0) == (
            "It has been on for 40 s; before that it was last on 2 min 50 s earlier, for 40 s."
        )
        assert tell_history(series, "P602", 82, 1.0) == "It has been on for 30 s, for the first time in this recording."
        assert tell_history(series, "P602", 20, 2.0) == "It has been off for 3 min 30 s, since the recording began."

    def test_a_sensor_that_read_so_before(self, series) -> None:
        series.values[[50, 51, 99, 100], PLANT.column("FIT601")] = [0.9, 0.4, 0.7, 0.7]
        # The middle between 0.7 and 0.1 is 0.4: what is nearer to the reading than to what was expected.
        assert tell_history(series, "FIT601", 100, 0.1).startswith(
            "It has read above 0.40 m³/h for 20 s; before that it last did so 8 min"
        )
        series.values[100, PLANT.column("FIT601")] = 0.0
        assert tell_history(series, "FIT601", 100, 0.2).startswith("It has read below 0.10 m³/h for 10 s")

    def test_what_was_switched_just_before(self, series) -> None:
        series.values[95:, PLANT.column("P602")] = 2.0
        assert tell_switches(series, ["FIT601", "P602"], 97) == "Beside it P602 went on 20 s before."
        assert tell_switches(series, ["P602"], 95) == "Beside it P602 went on in this moment."
        assert tell_switches(series, ["P602"], 95 + PLANT.recovery // PLANT.step + 1) == ""
        assert tell_switches(series, ["P602"], 90) == ""


class TestChart:
    def test_readings_forecasts_and_gaps(self, seen) -> None:
        series = seen[0].series
        forecast = np.full(series.values.shape, np.nan)
        forecast[80:90] = 0.5
        drawn = draw_chart(series, forecast, PLANT.column("FIT401"), 100, 120)
        reading, expected = (drawn.split(f"class='{kind}' d='")[1].split("'")[0] for kind in ("reading", "expected"))
        assert reading.count("L") == 119  # 50 steps before the alarm and 70 after
        assert (expected.count("M"), expected.count("L")) == (1, 9)

    def test_the_words_and_the_dot_say_the_same(self, seen) -> None:
        series = seen[0].series
        forecast = np.full(series.values.shape, np.nan)
        drawn = draw_chart(series, forecast, PLANT.column("FIT401"), 100, 120, told=(103, 30.0))
        # It is above all readings, which are below 1: at the top, which is marked with its value.
        assert "class='told' cx='" in drawn
        assert drawn.split("class='told'")[1].split("cy='")[1].split("'")[0] == "8"
        assert ">30.0<" in drawn
        assert "m³/h" not in drawn  # The unit is in the heading, because a small screen would cut it off.

    def test_a_state_is_drawn_as_steps(self, seen) -> None:
        series = copy.deepcopy(seen[0].series)
        tag = PLANT.column("P101")
        series.values[:, tag] = 1.0
        series.values[110:, tag] = 2.0
        drawn = draw_chart(series, np.full(series.values.shape, np.nan), tag, 100, 120)
        assert "class='expected' d=''" in drawn
        assert drawn.split("class='reading' d='")[1].split("'")[0].count("V") == 1
        assert (">on<" in drawn, ">off<" in drawn) == (True, True)

    def test_a_small_error_of_a_state_looks_small(self, seen) -> None:
        series = copy.deepcopy(seen[0].series)
        tag = PLANT.column("P101")
        series.values[:, tag] = 1.0
        forecast = np.full(series.values.shape, 1.002)
        drawn = draw_chart(series, forecast, tag, 100, 120)
        heights = [drawn.split(f"class='{kind}' d='M")[1].split("H")[0].split()[1] for kind in ("reading", "expected")]
        assert heights[0] == heights[1]
        assert (drawn.count(">off<"), drawn.count(">on<")) == (1, 0)


class TestPlan:
    @pytest.mark.parametrize(("name", "below"), [("S_PU7", True), ("S_PU6", False), ("L_T1", False)])
    def test_a_name_does_not_hide_a_tag(self, name: str, below: bool) -> None:
        """Right above S_PU7 there is S_PU6, and nothing below it."""
        drawn = Plan(Plant.named("batadal")).draw(name, [], "")
        at, label = (float(drawn.split(mark)[1].split("y='")[1].split("'")[0]) for mark in ("'accused'", "'big'"))
        assert (label > at) == below

    @pytest.mark.parametrize("chain", [("FIT301", "DPIT301"), ("P602", "P601")])
    def test_a_name_does_not_hide_the_way(self, chain: tuple[str, str]) -> None:
        """The way leads up, to a tag a little to the right, or two rows higher."""
        first, second = Plan(PLANT).draw(chain[1], chain, "").split("<circle")[1:]
        assert name_of(first) > place_of(first)
        assert name_of(second) < place_of(second)


def place_of(drawn: str) -> float:
    return float(drawn.split("cy='")[1].split("'")[0])


def name_of(drawn: str) -> float:
    return float(drawn.split(" y='")[1].split("'")[0])


@pytest.fixture(scope="module")
def folder(seen, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page")
    watched, monitor = seen
    rows = [make_row(60), make_row(160, clears=False, DPIT301=0.8), make_row(260, P602=1.0)]
    found = find_findings(watched.series, monitor.scale, rows)
    write_pages(path, "Alarms of <the plant>", watched, monitor, found, ["plant.csv: <odd>"])
    study = {"marks": {"truth": True}, "attacks": [{"attack": 8, "attacked": []}, {"attack": 9, "attacked": ["P101"]}]}
    write_answers(path, "Alarms", found, study, [("Numbers", (["a"], [["1"]]))])
    return path


class TestPage:
    def test_it_tells_no_truth(self, folder: Path) -> None:
        text = (folder / "report.html").read_text()
        assert "attack" not in text.lower().replace("--", "")
        assert text.count("<section class='alarm'") == 3
        assert "Alarms of &lt;the plant&gt;" in text
        assert "3 alarms from" in text
        kinds = (
            "in 1 the tag itself stands out, in 1 another tag is suggested as the cause, in 1 the cause is not known."
        )
        assert kinds in text
        assert "plant.csv: &lt;odd&gt;" in text
        assert "<script" not in text
        assert text.count("the explanation foretold -0.80.") == 2
        # The share of the scores that the page uses, and not that of the function that they were read from.
        assert "they miss 5 % ± 1 % of what the model does" in text

    def test_the_answers_are_on_a_page_of_their_own(self, folder: Path) -> None:
        text = (folder / "answers.html").read_text()
        assert "during attack 8" in text
        assert "<td>yes</td><td>the alarm would not be</td>" in text
        assert "<td>9</td><td>P101</td>" in text  # an attack without an alarm
        assert "<h2>Numbers</h2>" in text

    def test_many_alarms_are_on_several_pages(self, seen, tmp_path: Path) -> None:
        watched, monitor = seen
        count = _ON_A_PAGE + 1
        found = find_findings(watched.series, monitor.scale, [make_row(20 + place % 300) for place in range(count)])
        first, second = write_pages(tmp_path, "Alarms", watched, monitor, found)
        assert f"report-2.html#alarm-{count}" in first.read_text()
        assert second.read_text().count("<section") == 1
        assert first.stat().st_size < 1.5e6

    def test_the_style_for_small_screens_is_about_charts_alone(self) -> None:
        """A rule that got out of its place there once made all ticks large, also those of drawings."""
        style = (Path(page.__file__).parent / "assets" / "page.css").read_text()
        small = style.split("@media (max-width: 46rem) {\n")[1].split("\n}\n")[0]
        assert all(line.startswith("  .") for line in small.splitlines())
        assert ".chart .tick" in small
        assert ".told" not in small

    def test_no_alarm_at_all(self, seen, tmp_path: Path) -> None:
        (path,) = write_pages(tmp_path, "Alarms", *seen, [])
        text = path.read_text()
        assert "There was none." in text
        assert (
            "cause" not in text.split("<body")[1]
        )  # Neither a count of causes, nor the key to a colour that is not there.

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_in_a_browser(self, browser: Browser, folder: Path, scheme: str) -> None:
        with watched_page(browser, bypass_csp=True, color_scheme=scheme) as visit:
            visit.page.goto((folder / "report.html").as_uri())
            expect(visit.page.locator(".alarm")).to_have_count(3)
            assert serious(visit.page) == []
            visit.page.locator(".line a").nth(1).focus()
            visit.page.keyboard.press("Enter")
            assert visit.page.url.endswith("#alarm-2")
            assert visit.complaints == []

    def test_on_paper(self, browser: Browser, folder: Path) -> None:
        with watched_page(browser) as visit:
            visit.page.set_viewport_size({"width": 718, "height": 1046})  # A4 without its margins
            visit.page.emulate_media(media="print")
            visit.page.goto((folder / "report.html").as_uri())
            assert visit.page.locator("#alarm-1 .tags th").nth(3).is_visible()  # the usual readings
            assert visit.page.locator(".list th").nth(2).is_visible()
            assert not visit.page.locator("#alarm-1 .way").is_visible()
            size = "tick => getComputedStyle(tick).fontSize"
            assert visit.page.locator("#alarm-1 .chart .tick").first.evaluate(size) == "12px"
            assert max(box.bounding_box()["height"] for box in visit.page.locator(".alarm").all()) < 1046

    def test_without_script_and_on_a_small_screen(self, browser: Browser, folder: Path) -> None:
        with watched_page(browser, offline=True, java_script_enabled=False) as visit:
            visit.page.set_viewport_size({"width": 360, "height": 700})
            visit.page.goto((folder / "report.html").as_uri())
            section = visit.page.locator("#alarm-1")
            expect(section).to_contain_text("With DPIT301 as expected this alarm would not be.")
            assert section.bounding_box()["width"] <= 360
            # The drawing that all alarms use is seen: its tags have a size.
            assert section.locator("svg.near").bounding_box()["height"] > 100
            assert not section.locator("svg.plan").is_visible()
            # The part of the plan that fits has the cause and the accused tag, and the table its verdicts, on screen.
            for seen in (*section.locator("svg.near .big").all(), section.locator(".tags td:last-child").first):
                box = seen.bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= 360
            # The numbers beside a chart are not cut off, and the list has room for the cause.
            for label in (*section.locator("svg.chart .tick").all(), visit.page.locator(".list td:last-child").first):
                box = label.bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= 360
            assert section.locator("svg.near .big").all_text_contents() == ["DPIT301", "P602"]
            assert visit.complaints == []
            assert [url for url in visit.requests if not url.startswith(("file:", "data:"))] == []
