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
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from graphfaith._base.errors import DataError, InputError, OutputError
from graphfaith.cli.application import app
from graphfaith.explainers.anchored_kec import _FEWEST
from graphfaith_studies.batadal.run import QUICK as QUICK_BATADAL
from graphfaith_studies.plant import Recording, load, summary, tables
from graphfaith_studies.plant.alarms import examine_alarm
from graphfaith_studies.plant.causes import METHODS, NAMES
from graphfaith_studies.plant.detectors import Thresholds, differences_of
from graphfaith_studies.plant.kept import pool_kept, write_alarms
from graphfaith_studies.plant.localisation import RANKINGS
from graphfaith_studies.plant.run import TIME, _lock_folder, _note_time, find_files, find_truth
from graphfaith_studies.plant.series import Scale
from graphfaith_studies.plant.study import QUICK as QUICK_FILES
from graphfaith_studies.plant.study import Case, case_of, run_study
from graphfaith_studies.plant.summary import DETECTORS
from graphfaith_studies.plant.tables import list_tables
from graphfaith_studies.plant.truth import read_truth, write_truth
from graphfaith_studies.swat import Schedule, simulate, write_csv
from graphfaith_studies.swat.attacks import ATTACKS
from graphfaith_studies.swat.run import run
from graphfaith_studies.swat.simulation import Service
from graphfaith_studies.swat.story import STORY, examine
from graphfaith_studies.swat.study import FULL, QUICK, Size, simulate_attacks, simulate_case
from graphfaith_studies.swat.tags import SWAT, TAGS
from graphfaith_studies.swat.verdicts import list_own_tables, verdict_table

# A quick run with fewer attacks, days and epochs: each step of a study is made, and the three attacks of the paper's
# figure are in it.
LITTLE = replace(
    QUICK, normal_days=0.3, held_out_days=0.12, quiet_days=0.1, attacks=STORY, drawn=1, epochs=4, compared_epochs=1,
    samples=100, test_samples=20, thorough=1,
)  # fmt: skip


# Each alarm asks the model what it would say without each tag, after its explanations and before its verdicts.
KILLED_RUN = f"""
import os
import signal
from graphfaith.cli import application
from graphfaith_studies.plant import alarms
from graphfaith_studies.swat import run
from graphfaith_studies.swat.study import Size
asked, restore_each = [], alarms.restore_each

def restore_or_be_killed(*question):
    asked.append(question)
    if len(asked) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return restore_each(*question)

alarms.restore_each = restore_or_be_killed
run.QUICK = {LITTLE}
application.main()
"""


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the content of all files in a folder by their names, but for the time that the run took."""
    files = (path for path in folder.glob("**/*") if path.is_file() and path.name != TIME)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def run_command(path: Path, epochs: int) -> Path:
    done = CliRunner().invoke(app, ["swat", "run", "--quick", "--out", str(path)])
    assert done.exit_code == 0, done.exception
    assert "report.html" in done.stdout
    assert f"epoch {epochs}" in done.stderr
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graphfaith_studies.swat.run.QUICK", LITTLE)
        return run_command(tmp_path_factory.mktemp("swat"), LITTLE.epochs)


@pytest.fixture(scope="module")
def simulated() -> Case:
    return simulate_case(0, LITTLE)


@pytest.fixture(scope="module")
def results(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text())


def check_numbers(folder: Path, events: int, least: int) -> None:
    """Check the results of a quick run in which the monitor should find at least ``least`` attacks."""
    results = json.loads((folder / "results.json").read_text())
    check_detectors(results, events, least)
    check_story(results)
    check_alarms(folder, results)


def check_detectors(results: dict, events: int, least: int) -> None:
    assert results["source"] == "a SWaT-like simulation"
    detectors = results["detectors"]
    assert list(detectors) == list(DETECTORS)
    assert {scores["events"] for scores in detectors.values()} == {events}
    assert 0.08 < detectors["monitor"]["attacked_share"] < 0.16
    assert detectors["always"]["events_detected"] == events
    assert detectors["always"]["f1"] < 0.35
    assert detectors["monitor"]["events_detected"] >= max(least, detectors["difference"]["events_detected"])
    assert detectors["monitor"]["f1"] > detectors["always"]["f1"]
    both = detectors["difference and range"]
    for name in ("difference", "wide range"):
        assert both["events_detected"] >= detectors[name]["events_detected"]
        assert both["quiet_in_alarm"] >= detectors[name]["quiet_in_alarm"]
    assert detectors["always"]["quiet_in_alarm"] == 1.0


def check_story(results: dict) -> None:
    rows = [row for row in results["story"] if row["accused"] is not None]
    assert {8, 10, 40} == {row["attack"] for row in results["story"]}
    assert all(isinstance(row["plant"], bool) and isinstance(row["model"], bool) for row in rows)
    # Without the spoofed sensor the plant does not do what it did.
    assert all(row["plant"] for row in rows if row["when"] == "during")
    assert min(row["P601_place"] for row in results["story"] if row["attack"] == 8) > 1


def check_alarms(folder: Path, results: dict) -> None:
    study = json.loads((folder / "seed-0" / "result.json").read_text())
    assert results["alarms"]["all"] == len(study["alarms"]) == len(list((folder / "seed-0/alarms").iterdir()))
    for alarm in study["alarms"]:
        assert [cause["method"] for cause in alarm["causes"]] == list(METHODS)
        assert set(alarm["found"]) == set(RANKINGS)
    found = results["causes"]["all"]["rankings"]
    assert found["anchored-kec"]["attacked_hit5"]["mean"] >= found["random"]["attacked_hit5"]["mean"]
    assert found["anchored-kec"]["causal_hit5"]["mean"] >= found["random"]["causal_hit5"]["mean"]
    cleared = sum(
        any(verdict["plant"] for verdict in alarm["verdicts"].values())
        for alarm in study["alarms"]
        if alarm["event"]["caused"]
    )
    assert {row["causal_hit1"]["count"] for row in found.values()} == {cleared}
    assert found["accused"]["clears_model"]["mean"] == 1.0  # A tag that behaves as expected raises no alarm.


class TestNumbers:
    def test_a_run(self, folder: Path) -> None:
        """Every detector is in the table, the story has verdicts of model and plant, each alarm is explained."""
        check_numbers(folder, events=4, least=3)

    @pytest.mark.nightly
    def test_the_quick_run(self, tmp_path: Path) -> None:
        check_numbers(run_command(tmp_path, QUICK.epochs), events=8, least=5)

    def test_the_quick_run_has_the_attacks_of_the_story(self) -> None:
        assert set(STORY) < set(QUICK.attacks)

    @pytest.mark.parametrize("size", [QUICK, QUICK_FILES, QUICK_BATADAL])
    def test_the_quick_run_has_samples_enough(self, size: Size) -> None:
        """With fewer the explainer warns, once in each run."""
        assert size.samples >= _FEWEST

    def test_the_thresholds_leave_an_alarm_a_day_on_the_further_days(self, results: dict, simulated: Case) -> None:
        """They are made there, from normal operation alone; on 2.4 hours that means no alarm, for every detector."""
        further = simulated.further
        assert further is not None
        scale = Scale.of(simulated.normal)
        detectors = results["seeds"][0]["detectors"]
        changes = Thresholds.of(differences_of(simulated.held_out, scale)).excess_of(differences_of(further, scale))
        largest = min(np.abs(changes).max(), 100.0)
        assert largest == pytest.approx(detectors["difference"]["factor"], rel=0.05)
        assert largest <= detectors["difference"]["factor"]
        assert detectors["monitor"]["factor"] > 0
        assert "factor" not in detectors["range"]

    def test_modules_of_any_plant_name_no_tag(self) -> None:
        for module in (tables, summary):
            assert not [tag for tag in TAGS if tag in Path(module.__file__).read_text()]

    def test_what_came_out_is_computed(self, results: dict) -> None:
        """A verdict turns with the numbers that it is about."""
        results = copy.deepcopy(results)
        rows = dict(verdict_table(results)[1])
        asked = "at least 100 alarms that accuse a tag that was not attacked"
        assert rows[asked].startswith("does not hold: ")
        results["causes"]["another"] |= {"alarms": 100, "attacks": 7, "seed_attacks": 20}
        words = "holds: 100 alarms of 7 attacks (20, if each seed counts anew)"
        assert dict(verdict_table(results)[1])[asked] == words
        asked = "more attacks found than by every trivial detector, at no more false alarms"
        for name, scores in results["detectors"].items():
            scores |= {"events_detected": 3.0 if name == "monitor" else 2.0, "false_alarms_per_day": 1.0}
        assert dict(verdict_table(results)[1])[asked].startswith("holds on average only: on average the monitor")
        for row in results["seeds"]:
            for name, scores in row["detectors"].items():
                scores |= {"events_detected": 3.0 if name == "monitor" else 2.0, "false_alarms_per_day": 1.0}
        assert dict(verdict_table(results)[1])[asked].startswith("holds: on average the monitor finds 3.0 of 4 at 1.0")
        results["detectors"]["difference"]["false_alarms_per_day"] = 0.9
        assert dict(verdict_table(results)[1])[asked].startswith("does not hold")
        versus = results["causes"]["another"]["versus"]
        for key, asked in (
            ("causal_hit3", "where another tag is accused, hits at 3 of the tags that clear the alarm in the plant"),
            ("causal_other_hit3", "the same, among the tags that are not accused"),
            ("attacked_hit3", "the same, of attacked tags"),
            ("attacked_other_hit3", "the same, of attacked tags among those that are not accused"),
        ):
            (name,) = (row for row in rows if row == asked or row.startswith(f"{asked} above"))
            for best in METHODS:
                for method, row in versus[key].items():
                    for other in row:
                        row[other] = {"mean": 0.21 if method == best else 0.19, "stderr": 0.1, "count": 9}
                assert dict(verdict_table(results)[1])[name].startswith(f"holds: for {NAMES[best]}; more than hops")

    def test_the_tables_are_written(self, folder: Path, results: dict) -> None:
        text = (folder / "results.md").read_text()
        for title, (heads, rows) in list_tables(results) + list_own_tables(results):
            assert title in text
            assert all(len(row) == len(heads) for row in rows)

    def test_tables_about_causes_come_from_the_alarms_that_are_kept(self, folder: Path, tmp_path, results) -> None:
        study = json.loads((folder / "seed-0" / "result.json").read_text())
        write_alarms(tmp_path / "alarms.json", [study])
        assert json.loads(json.dumps(pool_kept(tmp_path / "alarms.json"))) == results["causes"]
        (row, *_) = json.loads((tmp_path / "alarms.json").read_text())["alarms"]
        assert row["clears"]["plant"] == [
            name for name, verdict in study["alarms"][0]["verdicts"].items() if verdict["plant"]
        ]

    def test_the_time_is_that_of_all_runs_in_the_folder(self, tmp_path: Path) -> None:
        for seconds, total in ((2.04, 2.0), (3.0, 5.0)):
            _note_time(tmp_path / TIME, seconds)
            assert json.loads((tmp_path / TIME).read_text()) == {"processor_seconds": total}


class TestResuming:
    @pytest.fixture(autouse=True)
    def _same_size(self, monkeypatch) -> None:
        monkeypatch.setattr("graphfaith_studies.swat.run.QUICK", LITTLE)

    def test_other_labels_are_another_study(self, folder: Path, tmp_path: Path, simulated: Case) -> None:
        shutil.copytree(folder / "seed-0", tmp_path / "seed-0")
        case = copy.deepcopy(simulated)
        case.attacked.labels[:50] = True
        with pytest.raises(DataError, match="is the result of another study"):
            run_study(case, 0, LITTLE, tmp_path / "seed-0")

    def test_one_run_at_a_time(self, tmp_path: Path) -> None:
        with _lock_folder(tmp_path), pytest.raises(OutputError, match="another run is using"), _lock_folder(tmp_path):
            pass

    def test_a_finished_run_is_read_again(self, folder: Path, results: dict, monkeypatch) -> None:
        monkeypatch.setattr(
            "graphfaith_studies.plant.study.examine_alarm", lambda *_, **__: pytest.fail("explained again")
        )
        again, _ = run(folder, quick=True, seeds=(0,))
        assert json.loads(json.dumps(again)) == results

    def test_explanations_are_kept(self, folder: Path, tmp_path: Path, simulated: Case, monkeypatch) -> None:
        """A study that was stopped while it explained its last alarm explains that one alone."""
        shutil.copytree(folder / "seed-0", tmp_path / "seed-0")
        before = json.loads((tmp_path / "seed-0" / "result.json").read_text())
        (tmp_path / "seed-0" / "result.json").unlink()
        sorted((tmp_path / "seed-0" / "alarms").iterdir())[-1].unlink()
        seen = []

        def note(alarm, *others, **options):
            seen.append(alarm.first)
            return examine_alarm(alarm, *others, **options)

        monkeypatch.setattr("graphfaith_studies.plant.study.examine_alarm", note)
        after = run_study(simulated, 0, LITTLE, tmp_path / "seed-0", examine=examine)
        assert seen == [before["alarms"][-1]["alarm"]["first"]]
        assert json.loads(json.dumps(after)) == before

    def test_a_run_that_was_killed_ends_with_the_same_bytes(self, folder: Path, tmp_path: Path) -> None:
        """It is killed in the middle of its second alarm; its trainings are those of the run that nobody disturbed."""
        (tmp_path / "seed-0").mkdir()
        for path in folder.glob("seed-0/*.safetensors"):
            shutil.copy(path, tmp_path / "seed-0")
        (tmp_path / "script.py").write_text(KILLED_RUN)
        command = [sys.executable, str(tmp_path / "script.py"), "swat", "run", "--quick", "--out", str(tmp_path)]
        killed = subprocess.run(command, capture_output=True, text=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        (tmp_path / "script.py").unlink()
        made = tmp_path / "seed-0" / "alarms" / "alarm-0001.json"
        assert list(made.parent.iterdir()) == [made]
        explained = made.stat()
        assert len(list((folder / "seed-0" / "alarms").iterdir())) > 2
        run(tmp_path, quick=True, seeds=(0,))
        assert (made.stat().st_ino, made.stat().st_mtime_ns) == (explained.st_ino, explained.st_mtime_ns)
        assert read_files(tmp_path) == read_files(folder)

    def test_results_of_another_study_are_not_mixed(self, folder: Path) -> None:
        with pytest.raises(DataError, match="is the result of another study; remove it, or use another folder"):
            run(folder, quick=True, seeds=(0,), what="forecast")

    def test_a_broken_result_is_named(self, tmp_path: Path, simulated: Case) -> None:
        (tmp_path / "result.json").write_text("{")
        with pytest.raises(DataError, match="is not the result of a study"):
            run_study(simulated, 0, LITTLE, tmp_path)

    def test_a_wrong_digit_in_a_result_is_noticed(self, folder: Path, tmp_path: Path, simulated: Case) -> None:
        text = (folder / "seed-0" / "result.json").read_text()
        place = text.index("forecast_gain") + 20
        (tmp_path / "result.json").write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
        with pytest.raises(DataError, match="is damaged, its checksum is wrong"):
            run_study(simulated, 0, LITTLE, tmp_path)

    @pytest.mark.parametrize("seeds", [(), (1, 1), (-1,)])
    def test_seeds(self, tmp_path: Path, seeds: tuple[int, ...]) -> None:
        with pytest.raises(InputError):
            run(tmp_path, quick=True, seeds=seeds)
        assert list(tmp_path.iterdir()) == []


# Two attacks on an hour or two: little to train and to explain, but each of the steps of a study is made.
SMALL = Size(
    normal_days=0.12, held_out_days=0.05, quiet_days=0.05, attacks=(6, 10), drawn=0, epochs=2, compared_epochs=1,
    samples=100, test_samples=10, thorough=0,
)  # fmt: skip
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
    normal, attack = (load(SWAT, path) for path in find_files(user_files))
    return normal, attack


class TestOwnFiles:
    @pytest.fixture(autouse=True)
    def _few_samples(self, monkeypatch) -> None:
        few = replace(QUICK, epochs=2, samples=100, test_samples=10, thorough=0)
        monkeypatch.setattr("graphfaith_studies.swat.run.QUICK", few)

    def test_they_are_studied_like_the_simulation(self, user_files: Path, tmp_path: Path) -> None:
        results, _ = run(tmp_path, data=user_files, quick=True, seeds=(0,), compare=False)
        monitor = results["detectors"]["monitor"]
        assert monitor["events"] == 2
        assert monitor["accused_attacked"] is None  # a file does not contain the attacked tags
        assert monitor["f1_without_long"] is None
        assert "tuned network" not in results["detectors"]
        assert not results["truth"]
        assert "Whether they find" not in (tmp_path / "results.md").read_text()

    def test_without_labels_there_is_no_story(self, recordings, tmp_path: Path) -> None:
        normal, attack = (copy.deepcopy(recording) for recording in recordings)
        case = case_of((normal, replace(attack, labels=np.zeros_like(attack.labels), labelled=False)))
        few = replace(QUICK_FILES, epochs=1, samples=100, test_samples=10, thorough=0)
        study = run_study(case, 0, few, _make_folder(tmp_path / "study"), compare=False, examine=examine)
        assert "examined" not in study

    def test_a_truth_file_gives_the_attacked_tags(self, recordings, user_files: Path, tmp_path: Path) -> None:
        chosen = [attack for attack in ATTACKS if attack.number in (6, 10)]
        write_truth(simulate(0.15, seed=9, attacks=Schedule.of(chosen, seed=1)), tmp_path / "truth.csv")
        case = case_of(recordings, read_truth(SWAT, tmp_path / "truth.csv"))
        assert [[TAGS[tag] for tag in event.attacked] for event in case.events] == [["AIT202"], ["FIT401"]]
        assert case.replays is None

    def test_swapped_files_and_files_without_attacks_are_refused(self, recordings) -> None:
        normal, attack = recordings
        with pytest.raises(InputError, match="are the two files swapped"):
            case_of((attack, normal))
        with pytest.raises(InputError, match="must contain normal operation only"):
            case_of((attack, attack))
        assert isinstance(case_of((normal, attack)), Case)

    def test_a_long_recording_is_let_go_before_the_next_one_is_read(self, recordings) -> None:
        """Both at once would not fit in memory where one of them does."""
        held = []

        def read(recording: Recording) -> Recording:
            assert all(earlier() is None for earlier in held)
            copied = copy.deepcopy(recording)
            held.append(weakref.ref(copied.readings))
            return copied

        case_of(map(read, recordings))
        assert len(held) == 2

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
            case_of(recordings, read_truth(SWAT, tmp_path / "truth.csv"))

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
        arguments = ["swat", "simulate", "--days", "0.05", "--attack-days", "0.4", "--out", str(tmp_path / "plant")]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        normal, attack = (load(SWAT, path) for path in find_files(tmp_path / "plant"))
        assert normal.readings.shape == (4320, len(TAGS))
        # They are what a study of this seed learns from and is judged on: a plant in service.
        assert np.allclose(normal.readings, simulate(0.05, seed=0, service=Service(0.0)).readings, rtol=1e-6)
        whole = simulate_attacks(0, FULL, 0.4).run
        assert np.allclose(attack.readings, whole.readings, rtol=1e-6)
        assert attack.labels.any()
        (known, *_) = read_truth(SWAT, find_truth(tmp_path / "plant"))
        assert known.number == whole.spans[0].attack.number
        assert [TAGS[tag] for tag in known.tags] == list(whole.spans[0].attack.targets)
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
    @pytest.mark.nightly
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
            while not list(folder.glob("seed-*/nowcaster.safetensors")) and time.monotonic() < until:
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
    alone = run_study(
        simulate_case(1, SMALL), 1, SMALL, _make_folder(tmp_path / "alone"), compare=False, examine=examine
    )
    assert alone["alarms"]
    assert json.loads((folder / "seed-1" / "result.json").read_text()) == json.loads(json.dumps(alone))


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder
