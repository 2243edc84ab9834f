"""Test the case study as a user runs it: the command, its numbers, its report, files of the user, and errors."""

from __future__ import annotations

import copy
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect
from typer.testing import CliRunner

from browsing import serious, watched
from graphfaith._base.errors import DataError, InputError, OutputError
from graphfaith.cli.application import app
from graphfaith_studies.swat import Recording, Schedule, load, simulate, write_csv
from graphfaith_studies.swat.attacks import ATTACKS
from graphfaith_studies.swat.causes import METHODS, NEIGHBORHOODS, Cause
from graphfaith_studies.swat.report import ReportedAlarm, Scene, _render_alarm
from graphfaith_studies.swat.run import _lock_folder, find_files, find_truth, run
from graphfaith_studies.swat.scoring import Event
from graphfaith_studies.swat.series import Series
from graphfaith_studies.swat.study import QUICK, Case, Size, run_study, simulate_case, split_recordings
from graphfaith_studies.swat.tags import TAGS, column
from graphfaith_studies.swat.truth import read_truth, write_truth

KEYS = {
    "forecast_gain", "precision", "recall", "f1", "f1_oracle", "events", "events_detected", "accused_attacked",
    "false_alarms_per_day", "unfaithfulness",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("swat")
    done = CliRunner().invoke(app, ["swat", "run", "--quick", "--out", str(path)])
    assert done.exit_code == 0, done.exception
    assert "report.html" in done.stdout
    assert "epoch 5" in done.stderr
    return path


@pytest.fixture(scope="module")
def simulated() -> Case:
    return simulate_case(0, QUICK)


@pytest.fixture(scope="module")
def results(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text())


class TestNumbers:
    def test_all_numbers_are_there(self, results: dict) -> None:
        assert set(results) >= KEYS
        assert results["source"] == "a SWaT-like simulation"
        assert (results["events"], len(results["seeds"])) == (8, 1)
        assert results["forecast_gain"] >= 0.15
        assert results["f1"] >= 0.35
        assert results["events_detected"] >= 4
        assert results["accused_attacked"] >= 0.65
        assert results["false_alarms_per_day"] <= 1 / 0.2  # one alarm in a fifth of a day gives five per day
        assert results["f1_oracle"] >= results["f1"]
        assert set(results["unfaithfulness"]) == set(METHODS)

    def test_the_best_explainer_is_the_most_faithful(self, results: dict) -> None:
        for name in NEIGHBORHOODS:
            shares = {method: results["unfaithfulness"][method][name]["mean"] for method in METHODS}
            assert min(shares, key=shares.__getitem__) == "anchored-kec"

    def test_the_graph_deviation_network_has_the_same_scores(self, results: dict) -> None:
        assert results["deviation_network"]["events"] == 8
        assert results["deviation_network"]["f1"] > 0

    def test_the_two_attacks_on_one_flow_meter(self, results: dict) -> None:
        assert set(results["flow_attacks"]) == set(METHODS)
        assert all(row["edges"]["count"] == 1 for row in results["flow_attacks"].values())

    def test_the_story_is_reported(self, results: dict, folder: Path) -> None:
        place = results["story"][0]["P601_place"]
        assert place > 1  # P601 is constant in the training data, so its deviation is small
        assert f"<td>{place}</td>" in (folder / "report.html").read_text()

    def test_the_attacked_tag_is_found_more_often_than_by_chance(self, results: dict) -> None:
        scores = results["causes"]["anchored-kec"]
        assert scores["top"]["mean"] > scores["top_random"]["mean"]
        assert scores["top"]["mean"] >= results["causes"]["gnnexplainer-soft"]["top"]["mean"]


class TestReport:
    def test_each_alarm_has_a_section_and_a_page(self, folder: Path) -> None:
        study = json.loads((folder / "seed-0" / "result.json").read_text())
        text = (folder / "report.html").read_text()
        assert text.count("<section class='alarm'>") == len(study["alarms"])
        linked = re.findall(r"href='(alarm-\d\d\.html)'", text)
        assert sorted(linked) == sorted(path.name for path in folder.glob("alarm-*.html"))
        headings = re.findall(r"<h2>(Alarm \d+: [^<]*)</h2>", text)
        for alarm, heading in zip(study["alarms"], headings, strict=True):
            assert alarm["event"]["accused"] in heading
            assert f"(attack {alarm['event']['attack']})" in heading
        for number in (10, 40):
            assert (folder / f"attack-{number}.png").read_bytes().startswith(b"\x89PNG")
            assert (folder / f"attack-{number}.pdf").read_bytes().startswith(b"%PDF")

    def test_in_a_browser(self, browser: Browser, folder: Path) -> None:
        with watched(browser, offline=True) as visit:
            visit.page.goto((folder / "report.html").as_uri())
            expect(visit.page.locator("h1")).to_have_text("Alarms of a SWaT-like simulation")
            assert visit.page.locator("img").evaluate_all("all => all.every((one) => one.naturalWidth > 300)")
            assert visit.complaints == []
            assert [url for url in visit.requests if not url.startswith(("file:", "data:"))] == []
            visit.page.get_by_role("link", name="All methods, to explore").first.click()
            visit.page.wait_for_selector(".panel")
            expect(visit.page.locator(".panel")).to_have_count(4)
            expect(visit.page.locator(".panel").first.locator(".node")).to_have_count(51)
            assert visit.page.locator(".panel").first.locator(".star").count() >= 1
            expect(visit.page.locator("#star-note")).to_have_text("Star: attacked.")
            assert visit.complaints == []

    def test_axe_finds_nothing_serious(self, browser: Browser, folder: Path) -> None:
        with watched(browser, bypass_csp=True) as visit:
            visit.page.goto((folder / "report.html").as_uri())
            assert serious(visit.page) == []


class TestWords:
    def render(self, deviation: float, unusual: dict[str, float], score: float) -> dict[str, str]:
        """Render the section of an alarm at FIT401 with this deviation, for both explained functions."""
        count = 200
        values = np.full((count, len(TAGS)), 1.0)
        given = Series(
            np.datetime64("2024-01-01T00:00:00", "s") + 10 * np.arange(count), values, np.zeros(count, dtype=bool),
            np.zeros((count, len(TAGS)), dtype=bool), np.zeros(count, dtype=np.int64), np.arange(count) > 0,
        )  # fmt: skip
        accused = column("FIT401")
        forecast = np.full((count, len(TAGS)), 1.0 - deviation)
        event = Event(10, 90, 120, (column("P501"),), 100, accused, deviation, 100)
        share = dict.fromkeys(NEIGHBORHOODS, 0.012)
        cause = Cause("anchored-kec", accused, np.zeros(len(TAGS)), np.zeros(158), share, share)
        paths = {"anchored-kec": [{"tags": ["P501", "FIT401"], "score": score}]}
        alarm = ReportedAlarm(1, event, (cause,), paths, abs(deviation), dict.fromkeys(TAGS, 0.0) | unusual)
        return {
            what: _render_alarm(alarm, Scene(given, np.arange(count), forecast, what))
            for what in ("deviation", "forecast")
        }

    def test_too_high_and_too_low(self) -> None:
        assert "FIT401 too high (attack 10)" in self.render(0.5, {}, 1.0)["deviation"]
        low = self.render(-0.5, {}, 1.0)["deviation"]
        assert "FIT401 too low" in low
        assert "read <strong>1.00 m\u00b3/h</strong>; the model expected <strong>1.50 m\u00b3/h</strong>" in low

    def test_a_jump_is_named(self) -> None:
        assert "the reading itself jumped" in self.render(0.5, {"P402": 0.04, "FIT401": 0.4}, 1.0)["deviation"]

    def test_what_widened_the_gap(self) -> None:
        text = self.render(0.5, {"P402": 0.3, "UV401": -0.1}, 1.0)["deviation"]
        assert "the unusual readings of P402 (pump, dechlorination) widened the gap" in text
        assert "those" not in text
        assert "UV401 (lamp, dechlorination) narrowed the gap" in text

    def test_the_strongest_path(self) -> None:
        assert "P501 \u2192 FIT401, widens the gap" in self.render(0.5, {}, 1.0)["deviation"]
        assert "P501 \u2192 FIT401, narrows the gap" in self.render(0.5, {}, -1.0)["deviation"]
        assert "P501 \u2192 FIT401, lowers the forecast" in self.render(0.5, {}, -1.0)["forecast"]

    def test_the_attacked_tag(self) -> None:
        assert (
            "P501 was attacked; the alarm accused <span class='wrong'>another tag</span>"
            in self.render(0.5, {}, 1.0)["deviation"]
        )


class TestResuming:
    def test_other_labels_are_another_study(self, folder: Path, tmp_path: Path, simulated: Case) -> None:
        shutil.copytree(folder / "seed-0", tmp_path / "seed-0")
        case = copy.deepcopy(simulated)
        case.attacked.labels[:50] = True
        with pytest.raises(DataError, match="is the result of another study"):
            run_study(case, 0, QUICK, tmp_path / "seed-0")

    def test_one_run_at_a_time(self, tmp_path: Path) -> None:
        with _lock_folder(tmp_path), pytest.raises(OutputError, match="another run is using"), _lock_folder(tmp_path):
            pass

    def test_a_finished_run_is_read_again(self, folder: Path, results: dict, monkeypatch) -> None:
        monkeypatch.setattr(
            "graphfaith_studies.swat.study.explain_alarm", lambda *_, **__: pytest.fail("explained again")
        )
        again, _ = run(folder, quick=True, seeds=(0,))
        assert json.loads(json.dumps(again)) == results

    def test_results_of_another_study_are_not_mixed(self, folder: Path) -> None:
        with pytest.raises(DataError, match="is the result of another study; remove it, or use another folder"):
            run(folder, quick=True, seeds=(0,), what="forecast")

    def test_a_broken_result_is_named(self, tmp_path: Path, simulated: Case) -> None:
        (tmp_path / "result.json").write_text("{")
        with pytest.raises(DataError, match="is not the result of a study"):
            run_study(simulated, 0, QUICK, tmp_path)

    def test_a_wrong_digit_in_a_result_is_noticed(self, folder: Path, tmp_path: Path, simulated: Case) -> None:
        text = (folder / "seed-0" / "result.json").read_text()
        place = text.index("forecast_gain") + 20
        (tmp_path / "result.json").write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
        with pytest.raises(DataError, match="is damaged, its checksum is wrong"):
            run_study(simulated, 0, QUICK, tmp_path)

    @pytest.mark.parametrize("seeds", [(), (1, 1), (-1,)])
    def test_seeds(self, tmp_path: Path, seeds: tuple[int, ...]) -> None:
        with pytest.raises(InputError):
            run(tmp_path, quick=True, seeds=seeds)
        assert list(tmp_path.iterdir()) == []


# Two attacks on an hour or two: little to train and to explain, but each of the steps of a study is made.
SMALL = Size(0.12, 0.05, 0.05, 0.1, (6, 10), 2, 1, 10, 10)
# The workers import the script too, and need nothing of the command.
SMALL_RUN = f"""
if __name__ == "__main__":
    from graphfaith.cli import application
    from graphfaith_studies.swat import run
    from graphfaith_studies.swat.study import Size
    run.QUICK = {SMALL}
    application.main()
"""


@pytest.fixture(scope="module")
def user_files(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("files")
    write_csv(simulate(0.5, seed=8), path / "My_Normal.csv")
    chosen = [attack for attack in ATTACKS if attack.number in (6, 10)]
    write_csv(simulate(0.15, seed=9, attacks=Schedule.of(chosen, seed=1)), path / "My_Attack.csv")
    return path


@pytest.fixture(scope="module")
def recordings(user_files: Path) -> tuple[Recording, Recording]:
    normal, attack = (load(path) for path in find_files(user_files))
    return normal, attack


class TestOwnFiles:
    @pytest.fixture(autouse=True)
    def _few_samples(self, monkeypatch) -> None:
        monkeypatch.setattr("graphfaith_studies.swat.run.QUICK", replace(QUICK, samples=10, test_samples=10))

    def test_they_are_studied_like_the_simulation(self, user_files: Path, tmp_path: Path) -> None:
        results, paths = run(tmp_path, data=user_files, quick=True, seeds=(0,), compare=False)
        assert results["events"] == 2
        assert results["accused_attacked"] is None  # a file does not contain the attacked tags
        assert results["events_detected"] == 2
        assert "deviation_network" not in results
        assert results["without_attack_28"] is None
        assert not results["truth"]
        text = paths[1].read_text()
        assert "Which tags were attacked is not recorded." in text
        assert "(stretch 1)" in text
        assert "FIT401" not in (tmp_path / "results.md").read_text()

    def test_a_truth_file_gives_all_numbers(self, user_files: Path, tmp_path: Path) -> None:
        data = tmp_path / "data"
        shutil.copytree(user_files, data)
        chosen = [attack for attack in ATTACKS if attack.number in (6, 10)]
        write_truth(simulate(0.15, seed=9, attacks=Schedule.of(chosen, seed=1)), data / "truth.csv")
        results, paths = run(tmp_path / "out", data=data, quick=True, seeds=(0,), compare=False)
        assert results["accused_attacked"] == 1.0
        assert [row["attacked"] for row in results["seeds"][0]["attacks"]] == [["AIT202"], ["FIT401"]]
        assert "(attack 10)" in paths[1].read_text()

    def test_swapped_files_and_files_without_attacks_are_refused(self, recordings) -> None:
        normal, attack = recordings
        with pytest.raises(InputError, match="are the two files swapped"):
            split_recordings(attack, normal)
        with pytest.raises(InputError, match="must contain normal operation only"):
            split_recordings(attack, attack)
        assert isinstance(split_recordings(normal, attack), Case)

    @pytest.mark.parametrize(
        ("names", "words"),
        [
            ([], "'normal' in its name; it has none"),
            (["a_normal.csv"], "'attack' in its name; it has none"),
            (["a_normal.csv", "b_Normal.xlsx", "attack.csv"], "it has 'a_normal.csv', 'b_Normal.xlsx'"),
            (["normal.txt", "attack.csv"], "'normal' in its name; it has none"),
            (["~$normal.xlsx", "attack.csv"], "'normal' in its name; it has none"),
        ],
    )
    def test_missing_and_ambiguous_files_are_refused(self, tmp_path: Path, names: list[str], words: str) -> None:
        for name in names:
            (tmp_path / name).touch()
        with pytest.raises(DataError, match=re.escape(words)):
            find_files(tmp_path)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "has no column 'attack'"),
            ("attack,start,stop\n", "has no column 'tags'; it needs the columns attack, start, stop, tags"),
            ("attack,start,stop,tags\n", "it has no row with an attack"),
            ("attack,start,stop,tags\nx,2024-01-01T00:00:00,2024-01-01T00:01:00,P101", "row 2, column attack: 'x'"),
            ("attack,start,stop,tags\n1,soon,2024-01-01T00:01:00,P101", "row 2, column start: 'soon' is not a time"),
            (
                "attack,start,stop,tags\n1,2024-01-01T00:02:00,2024-01-01T00:01:00,P101",
                "column stop: the time is before",
            ),
            (
                "attack,start,stop,tags\n1,2024-01-01T00:00:00,2024-01-01T00:01:00,P999",
                "column tags: unknown tag 'P999'",
            ),
            (
                "attack,start,stop,tags\n1,2024-01-01T00:00:00,2024-01-01T00:01:00,",
                "column tags: the cell is empty; name at least one tag",
            ),
            (
                "attack,start,stop,tags\n1,2031-01-01T00:00:00,2031-01-01T00:01:00,P101",
                "but the truth file has no attack then",
            ),
        ],
    )
    def test_errors_in_a_truth_file(self, recordings, tmp_path: Path, text: str, words: str) -> None:
        (tmp_path / "truth.csv").write_text(text)
        with pytest.raises(DataError, match=re.escape(words)):
            split_recordings(*recordings, read_truth(tmp_path / "truth.csv"))

    def test_two_truths(self, tmp_path: Path) -> None:
        for name in ("a_truth.csv", "b_truth.csv"):
            (tmp_path / name).touch()
        with pytest.raises(DataError, match=r"it has 'a_truth\.csv', 'b_truth\.csv'"):
            find_truth(tmp_path)

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="there is no folder"):
            run(tmp_path / "out", data=tmp_path / "nowhere", quick=True)
        assert not (tmp_path / "out").exists()


class TestCommand:
    def test_simulate_writes_what_load_reads(self, tmp_path: Path) -> None:
        arguments = ["swat", "simulate", "--days", "0.05", "--attack-days", "0.1", "--out", str(tmp_path / "plant")]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        normal, attack = (load(path) for path in find_files(tmp_path / "plant"))
        assert normal.readings.shape == (4320, len(TAGS))
        assert np.allclose(normal.readings, simulate(0.05, seed=0).readings, rtol=1e-6)
        assert attack.labels.any()
        (known, *_) = read_truth(find_truth(tmp_path / "plant"))
        assert (known.number, [TAGS[tag] for tag in known.tags]) == (1, ["MV101"])
        inside = (attack.times >= known.start) & (attack.times <= known.stop)
        assert attack.labels[inside].all()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["run", "--out", "x", "--what", "soul"], "--what must be one of deviation, forecast"),
            (["run", "--out", "x", "--seeds", "0"], "--seeds"),
            (["run", "--out", "x", "--workers", "0"], "workers"),
            (["simulate", "--out", "x", "--days", "-1"], "--days must be above 0"),
            (["simulate", "--out", "x", "--days", "nan"], "--days"),
        ],
    )
    def test_mistakes(self, tmp_path: Path, monkeypatch, arguments: list[str], words: str) -> None:
        monkeypatch.chdir(tmp_path)
        result = CliRunner().invoke(app, ["swat", *arguments])
        assert words in str(result.exception)
        assert list(tmp_path.iterdir()) == []

    def test_help(self) -> None:
        for command, words in ((["swat"], "simulate"), (["swat", "run", "--help"], "swat run --quick")):
            assert words in CliRunner().invoke(app, command).output


class TestWorkers:
    def test_results_are_the_same(self, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.setattr("graphfaith_studies.swat.run.QUICK", SMALL)
        folder = _make_folder(tmp_path / "both")
        run(folder, quick=True, seeds=(0, 1), workers=2, compare=False)
        check_alone(folder, tmp_path)

    @pytest.mark.nightly
    def test_results_are_the_same_and_an_interrupt_ends_them(self, tmp_path: Path) -> None:
        """Run two seeds with two workers, stop them with Ctrl-C and resume; the results are those of single runs."""
        folder = tmp_path / "both"
        (tmp_path / "script.py").write_text(SMALL_RUN)
        command = [sys.executable, str(tmp_path / "script.py"), "swat", "run", "--quick", "--no-compare"]
        command += ["--seeds", "2", "--workers", "2", "--out", str(folder)]

        def listen_to_interrupts() -> None:
            # The background job of a shell ignores interrupts by default.
            signal.signal(signal.SIGINT, signal.default_int_handler)

        first = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=listen_to_interrupts
        )
        try:
            until = time.monotonic() + 120
            while not list(folder.glob("seed-*/forecaster.safetensors")) and time.monotonic() < until:
                time.sleep(0.02)
            first.send_signal(signal.SIGINT)
            _, err = first.communicate(timeout=60)
        finally:
            first.kill()
        assert first.returncode == 130
        assert "Traceback" not in err
        assert err.rstrip().endswith("stopped")
        assert not list(folder.glob("**/*.tmp"))
        assert not (folder / "results.json").exists()
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        check_alone(folder, tmp_path)


def check_alone(folder: Path, tmp_path: Path) -> None:
    """Check that what a worker has found is what is found without it."""
    alone = run_study(simulate_case(1, SMALL), 1, SMALL, _make_folder(tmp_path / "alone"), compare=False)
    assert alone["alarms"]
    assert json.loads((folder / "seed-1" / "result.json").read_text()) == json.loads(json.dumps(alone))


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder
