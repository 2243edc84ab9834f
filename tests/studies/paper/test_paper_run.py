"""Tests of running experiments: journals, workers, interruptions and the time left."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphfaith._base.errors import DataError, GraphfaithError, InputError, OutputError, RunError
from graphfaith_studies.paper.experiment import FULL, QUICK, TOY, Unit
from graphfaith_studies.paper.journal import Journal
from graphfaith_studies.paper.markdown import format_number, format_published, format_with_error
from graphfaith_studies.paper.progress import Clock
from graphfaith_studies.paper.results import page
from graphfaith_studies.paper.run import reproduce
from paper_toys import Alone, Dying, Failing, Odd, Slow, Squares, Unwritable

RESULTS = Path(__file__).parents[3] / "docs" / "results"
HEADER = {"experiment": "x", "size": {"name": "toy"}}


def with_toys() -> dict[str, str]:
    """Return the environment of a process that imports paper_toys."""
    places = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def marks_of(path: Path) -> list[int]:
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def marks(tmp_path, monkeypatch):
    path = tmp_path / "marks"
    monkeypatch.setenv("PAPER_TOY_MARKS", str(path))
    return path


# Journal ----------------------------------------------------------------------------------------------------------


def test_a_journal_gives_back_what_was_added(tmp_path):
    with Journal(tmp_path / "j", HEADER).load() as journal:
        journal.add("a", {"value": 1.5}, 0.25)
        journal.add("b", [1, None], 0.5)
    with Journal(tmp_path / "j", HEADER).load() as again:
        assert again.results == {"a": {"value": 1.5}, "b": [1, None]}
        assert again.seconds == {"a": 0.25, "b": 0.5}


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_journal_loses_only_the_line_that_was_being_written(tmp_path, cut):
    with Journal(tmp_path / "j", HEADER).load() as journal:
        journal.add("a", 1, 0.0)
        journal.add("b", 2, 0.0)
    content = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(content[:-cut])
    with Journal(tmp_path / "j", HEADER).load() as again:
        assert again.results == {"a": 1}
        again.add("b", 3, 0.0)
    with Journal(tmp_path / "j", HEADER).load() as last:
        assert last.results == {"a": 1, "b": 3}


def test_a_journal_cut_within_its_header_begins_anew(tmp_path):
    (tmp_path / "j").write_bytes(b'{"experiment"')
    with Journal(tmp_path / "j", HEADER).load() as journal:
        assert journal.results == {}
    assert json.loads((tmp_path / "j").read_text().splitlines()[0]) == HEADER


def test_a_wrong_digit_in_a_journal_is_noticed(tmp_path):
    with Journal(tmp_path / "j", HEADER).load() as journal:
        journal.add("a", {"value": 0.125}, 0.5)
        journal.add("b", 2, 0.5)
    text = (tmp_path / "j").read_text()
    (tmp_path / "j").write_text(text.replace("0.125", "0.175"))
    with Journal(tmp_path / "j", HEADER) as journal, pytest.raises(DataError, match=r"line 2 .* is damaged"):
        journal.load()


def test_results_that_are_nested_or_not_rows_are_named(tmp_path):
    for name in ("illustration.json", "illustration.run.json"):
        (tmp_path / name).write_text((RESULTS / name).read_text())
    good = (tmp_path / "illustration.json").read_text()
    page(tmp_path, tmp_path / "page.md")
    for text in ("[" * 10**6, "[1]", good.replace("unfaithfulness", "unfaithfulnesz"), good.replace('"method"', '"m"')):
        (tmp_path / "illustration.json").write_text(text)
        with pytest.raises(DataError, match=r"illustration\.json|are damaged"):
            page(tmp_path, tmp_path / "page.md")


@pytest.mark.parametrize("line", ["{", "[]", '{"key": "a"}', '{"key": "a", "seconds": "x", "found": 1}', "\x00"])
def test_a_damaged_line_is_an_error_that_names_it(tmp_path, line):
    with Journal(tmp_path / "j", HEADER).load() as journal:
        journal.add("a", 1, 0.0)
    good = (tmp_path / "j").read_text()
    (tmp_path / "j").write_text(good + line + "\n" + good.splitlines()[1] + "\n")
    with Journal(tmp_path / "j", HEADER) as journal, pytest.raises(DataError, match=r"line 3 .*--restart"):
        journal.load()
    assert (tmp_path / "j").read_text().startswith(good)  # Nothing is lost.


def test_a_journal_of_other_settings_is_not_continued(tmp_path):
    Journal(tmp_path / "j", HEADER).load().close()
    other = {**HEADER, "size": {"name": "quick"}}
    with Journal(tmp_path / "j", other) as journal:
        with pytest.raises(InputError, match=r"begun with other settings .*size .*quick.*--restart"):
            journal.load()
        journal.load(restart=True).add("a", 1, 0.0)
    with Journal(tmp_path / "j", HEADER) as journal, pytest.raises(InputError, match="begun with other settings"):
        journal.load()


def test_two_runs_do_not_write_to_one_journal(tmp_path):
    with Journal(tmp_path / "j", HEADER).load() as journal:
        journal.add("a", 1, 0.0)
        with pytest.raises(InputError, match="another run is using"):
            Journal(tmp_path / "j", HEADER)
    with Journal(tmp_path / "j", HEADER).load() as again:
        assert again.results == {"a": 1}


def test_a_journal_that_cannot_be_written(tmp_path):
    with pytest.raises(OutputError, match="cannot write"):
        Journal(tmp_path / "missing" / "j", HEADER)


# Runs -------------------------------------------------------------------------------------------------------------


def test_a_run_writes_rows_text_and_figures(tmp_path):
    rows = reproduce([Squares()], TOY, tmp_path)["squares"]
    assert [row["square"] for row in rows] == [n * n for n in range(12)]
    assert json.loads((tmp_path / "squares.json").read_text()) == rows
    assert (tmp_path / "squares.md").read_text().startswith("# Squares\n\n0, 1, 4")
    assert (tmp_path / "squares-curve.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "squares-curve.pdf").read_bytes().startswith(b"%PDF")
    about = json.loads((tmp_path / "squares.run.json").read_text())
    assert about["units"] == 12
    assert about["machine"]["torch"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One run in two worker processes, which each load torch, for all that is to be seen of such a run."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "out").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAPER_TOY_MARKS", str(folder / "marks"))
        patch.setenv("PAPER_TOY_ROWS", str(folder / "rows"))
        # The main process is slowed down, so that units are in the journal long before it counts them.
        patch.setattr(Clock, "count_done", lambda *_: time.sleep(0.1))
        with pytest.raises(InputError) as caught:
            reproduce([Failing(), Squares(), Alone()], TOY, folder / "out", workers=2)
    return folder, str(caught.value)


def test_rows_do_not_depend_on_the_number_of_workers(tmp_path, shared):
    folder, _ = shared
    reproduce([Squares(), Alone()], TOY, tmp_path, workers=1)
    for name in ("squares.json", "alone.json"):
        assert (tmp_path / name).read_bytes() == (folder / "out" / name).read_bytes()
    processes = [line.split()[1] for line in (folder / "marks").read_text().splitlines()]
    assert len(processes) == 11 + 12 + 3
    assert str(os.getpid()) not in processes[:23]  # The first two experiments run in the workers.
    assert set(processes[23:]) == {str(os.getpid())}  # An experiment that must run alone comes last.


def test_results_are_made_once(shared):
    assert (shared[0] / "rows").read_text().split() == ["squares", "alone"]


def check_failed_unit(folder, message, marks):
    """Check that the failed unit is named, that the others are kept, and that they are not measured again."""
    assert message == "failing, none/0/5/: five is not a number here"
    done = [json.loads(line)["key"] for line in (folder / "failing.journal.jsonl").read_text().splitlines()[1:]]
    assert set(done) == {f"none/0/{n}/" for n in range(12) if n != 5}
    assert not (folder / "failing.json").exists()
    before = len(marks_of(marks))
    with pytest.raises(InputError, match="five"):
        reproduce([Failing()], TOY, folder, workers=1)
    assert len(marks_of(marks)) == before


def test_a_failed_unit_is_named_and_the_rest_is_kept(tmp_path, marks):
    with pytest.raises(InputError) as caught:
        reproduce([Failing()], TOY, tmp_path, workers=1)
    check_failed_unit(tmp_path, str(caught.value), marks)


def test_a_unit_that_failed_in_a_worker_is_named_and_the_rest_is_kept(shared, monkeypatch):
    folder, message = shared
    monkeypatch.setenv("PAPER_TOY_MARKS", str(folder / "marks"))
    check_failed_unit(folder / "out", message, folder / "marks")


@pytest.mark.parametrize("broken", [Failing, Unwritable, Odd])
def test_a_failed_experiment_does_not_stop_the_others(tmp_path, broken):
    for _ in range(2):
        with pytest.raises(GraphfaithError if broken is not Unwritable else ZeroDivisionError):
            reproduce([broken(), Squares(), Alone()], TOY, tmp_path, workers=1)
        for name in ("squares", "alone"):
            assert (tmp_path / f"{name}.json").exists()
            (tmp_path / f"{name}.json").unlink()


def test_a_result_that_is_not_a_number_is_named(tmp_path):
    with pytest.raises(RunError, match=r"odd, none/0/5/: ValueError: .*JSON"):
        reproduce([Odd()], TOY, tmp_path)


def test_a_dead_worker_is_reported(tmp_path):
    with pytest.raises(RunError, match=r"a worker process of dying died at or near .*again to continue"):
        reproduce([Dying()], TOY, tmp_path, workers=2)


def test_a_finished_run_measures_nothing_again_without_restart(tmp_path, marks):
    first = reproduce([Squares()], TOY, tmp_path)
    assert reproduce([Squares()], TOY, tmp_path) == first
    assert len(marks_of(marks)) == 12
    reproduce([Squares()], TOY, tmp_path, restart=True)
    assert len(marks_of(marks)) == 24


def test_no_journal_is_emptied_before_all_are_locked(tmp_path):
    reproduce([Squares(), Alone()], TOY, tmp_path)
    before = (tmp_path / "squares.journal.jsonl").read_bytes()
    with Journal(tmp_path / "alone.journal.jsonl", HEADER), pytest.raises(InputError, match="another run"):
        reproduce([Squares(), Alone()], TOY, tmp_path, restart=True)
    assert (tmp_path / "squares.journal.jsonl").read_bytes() == before


def test_results_without_a_journal_are_not_overwritten(tmp_path, marks):
    reproduce([Squares()], TOY, tmp_path)
    (tmp_path / "squares.journal.jsonl").unlink()
    before = (tmp_path / "squares.json").read_bytes()
    with pytest.raises(InputError, match=r"without their journal.*--restart"):
        reproduce([Squares()], QUICK, tmp_path)
    assert (tmp_path / "squares.json").read_bytes() == before
    assert len(marks_of(marks)) == 12
    reproduce([Squares()], QUICK, tmp_path, restart=True)
    assert json.loads((tmp_path / "squares.run.json").read_text())["size"] == "quick"


def test_a_run_that_measures_nothing_does_not_record_its_machine(tmp_path):
    reproduce([Squares()], TOY, tmp_path, workers=1)
    before = (tmp_path / "squares.run.json").read_bytes()
    reproduce([Squares()], TOY, tmp_path, workers=2)
    assert (tmp_path / "squares.run.json").read_bytes() == before


def test_a_full_disk_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400, limits[1]))  # Python ignores the signal, so that a write fails.
    try:
        with pytest.raises(OutputError, match=r"cannot write 'squares\.journal\.jsonl'"):
            reproduce([Squares()], TOY, Path())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    rows = reproduce([Squares()], TOY, tmp_path)["squares"]
    assert [row["square"] for row in rows] == [n * n for n in range(12)]


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_a_kill_loses_only_the_units_in_progress(tmp_path, marks, workers):
    script = (
        "if __name__ == '__main__':\n"
        "    from pathlib import Path\n"
        "    from paper_toys import Slow\n"
        "    from graphfaith_studies.paper.experiment import TOY\n"
        "    from graphfaith_studies.paper.run import reproduce\n"
        f"    reproduce([Slow()], TOY, Path({str(tmp_path)!r}), workers={workers})\n"
    )
    (tmp_path / "script.py").write_text(script)
    process = subprocess.Popen([sys.executable, str(tmp_path / "script.py")], env=with_toys())
    journal = tmp_path / "slow.journal.jsonl"
    try:
        until = time.monotonic() + 120
        while (not journal.exists() or journal.read_bytes().count(b"\n") < 5) and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert _gone(marks, 20)  # No worker outlives the kill, although each is in a unit that would take a minute.
    begun = marks.read_text().splitlines()
    done = [json.loads(line)["key"] for line in journal.read_text().splitlines()[1:]]
    assert 4 <= len(done) <= Slow.quick
    # Each worker may have one unit in progress, and one whose result the killed process had not written yet.
    assert len(begun) - len(done) <= 2 * workers
    slow = Slow()
    slow.quick = slow.count
    rows = reproduce([slow], TOY, tmp_path)["slow"]
    assert [row["square"] for row in rows] == [n * n for n in range(slow.count)]
    assert len(marks_of(marks)) == len(begun) + slow.count - len(done)


# The workers import the script too, and need nothing of the command.
UNEVEN = """
if __name__ == "__main__":
    from paper_toys import Uneven
    from graphfaith.cli import application
    from graphfaith_studies.paper.experiments import EXPERIMENTS
    EXPERIMENTS["propositions"] = Uneven()
    application.main()
"""


@pytest.fixture
def uneven(tmp_path, marks):
    """Run the command with one worker busy on a long unit and another worker idle."""
    (tmp_path / "script.py").write_text(UNEVEN)
    process = subprocess.Popen(
        [sys.executable, "script.py", "reproduce", "propositions", "--out", "found", "--workers", "2"],
        cwd=tmp_path,
        env=with_toys(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # Some shells ignore it.
    )
    until = time.monotonic() + 120
    while len(marks_of(marks)) < 3 and time.monotonic() < until:
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)  # The other two units end in this time.
    yield process
    process.kill()
    process.communicate()


def _gone(marks: Path, seconds: float) -> bool:
    until = time.monotonic() + seconds
    workers = {int(line.split()[1]) for line in marks.read_text().splitlines()}
    while any(map(_alive, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(_alive, workers))


def test_an_interrupt_ends_all_workers_and_says_how_to_continue(tmp_path, marks, uneven):
    os.killpg(uneven.pid, signal.SIGINT)  # A terminal sends it to the whole group.
    _, errors = uneven.communicate(timeout=30)
    assert uneven.returncode == 130
    assert "Traceback" not in errors
    assert "Finished work is kept in found" in errors
    assert _gone(marks, 5)
    assert len((tmp_path / "found" / "uneven.journal.jsonl").read_text().splitlines()) == 3


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


# Time left --------------------------------------------------------------------------------------------------------


def test_the_time_left_follows_the_times_of_the_units():
    fast, slow = [Unit("a", node=n, cost=1.0) for n in range(10)], [Unit("b", node=n, cost=1.0) for n in range(10)]
    clock = Clock({"fast": (fast, False), "slow": (slow, True)}, 2, show=False)
    assert clock.seconds_left() == pytest.approx(10 / 2 + 10)  # This follows from the costs alone.
    for unit in fast[:5]:
        clock.count_done("fast", unit, 0.1)
    assert clock.seconds_left() == pytest.approx(5 * 0.1 / 2 + 10 * 0.1)  # The other experiment is scaled alike.
    clock.count_done("slow", slow[0], 3.0)
    assert clock.seconds_left() == pytest.approx(5 * 0.1 / 2 + 9 * 3.0)


def test_a_log_gets_a_line_when_an_experiment_ends(tmp_path, capsys):
    reproduce([Squares()], TOY, tmp_path, show=True)
    errors = capsys.readouterr().err
    assert "squares: 12 of 12" in errors
    assert "left" in errors


# Numbers ----------------------------------------------------------------------------------------------------------


def test_numbers_as_text():
    assert [format_number(value) for value in (1234.5, 12.0, 0.5, 0.0, -2e-5)] == [
        "1234",
        "12.0",
        "0.500",
        "0",
        "-2.00e-05",
    ]
    assert format_number(float("nan")) == format_number(None) == "–"
    assert format_with_error(0.0219, 0.00312) == "0.0219 ± 0.0031"
    assert format_with_error(0.0219, None) == format_with_error(0.0219, float("nan")) == "0.0219"
    assert [format_published(value) for value in (7.26e-4, 64.4, 3.8e-4, 1.0e-3)] == [
        "7.26e-04",
        "64.4",
        "3.8e-04",
        "0.001",
    ]


def test_sizes_take_nodes_evenly():
    assert len(FULL.nodes(range(0, 1000, 5))) == 200
    assert len(QUICK.nodes(range(0, 1000, 5))) == 20
    assert len(TOY.nodes(range(400, 700, 5))) == 2
    assert list(QUICK.model_seeds(3)) == [0, 1, 2]
    assert list(TOY.model_seeds(3)) == [0]
    assert (FULL.samples(500), TOY.samples(500), TOY.samples(20)) == (500, 50, 8)
