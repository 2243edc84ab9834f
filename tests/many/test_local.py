"""Runs on one machine, disturbed in every way: each row once, and the bits of a run that was left alone."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from graphfaith import DataError, InputError, ModelError, OutputError
from graphfaith._base.errors import RunError
from graphfaith.many import bar
from graphfaith.many.engines import base
from graphfaith.many.engines.local import LocalEngine
from graphfaith.many.explain import explain_many
from toy_job import ToyJob, expected_rows, parts_in, rows_of, wait_for

TESTS = Path(__file__).parents[1]
NODES, BLOCK = 24, 3


def children_of(pid):
    """Return the processes that a process has started and that live."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def workers_of(pid):
    found = []
    for child in children_of(pid):
        words = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"graphfaith.many.engines.worker" in words:
            found.append(child)
    return found


def start_run(folder, **settings):
    words = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, str(TESTS / "toy_run.py"), str(folder), "local", json.dumps(settings)]
    return subprocess.Popen(command, env=words, stderr=subprocess.PIPE, start_new_session=True)


def test_a_run_and_what_is_added_to_it(tmp_path):
    job = ToyJob(NODES, fails=(5,), log=str(tmp_path / "log"))
    (tmp_path / "log").mkdir()
    summary = explain_many(job, "all", tmp_path / "run", block=BLOCK)
    assert (summary.rows, summary.done_now, summary.done_before, summary.failed, summary.deaths) == (24, 24, 0, 1, 0)
    assert rows_of(tmp_path / "run") == expected_rows(ToyJob(NODES, fails=(5,)), BLOCK)
    done = json.loads((tmp_path / "run/done.json").read_text())
    assert (done["rows"], done["blocks"], done["failed"]) == (24, 8, 1)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        ".lock",
        "done.json",
        "explanations",
        "plan.json",
    ]
    # A part is damaged, and one is gone: only these are done again, by a single worker.
    calls = len(list((tmp_path / "log").iterdir()))
    (tmp_path / "run/explanations/part-00000002.parquet").write_bytes(b"PAR1")
    (tmp_path / "run/explanations/part-00000004.parquet").unlink()
    again = explain_many(job, range(NODES), tmp_path / "run", block=BLOCK, workers=1)
    assert (again.done_now, again.done_before, again.failed) == (6, 18, 1)
    assert [path.read_bytes() for path in again.aside] == [b"PAR1"]
    assert len(list((tmp_path / "log").iterdir())) == calls + 2
    assert rows_of(tmp_path / "run") == expected_rows(ToyJob(NODES, fails=(5,)), BLOCK)


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.nightly)])
def test_workers_that_are_killed_are_replaced_and_the_others_go_on(tmp_path, kills):
    (tmp_path / "log").mkdir()
    # The run cannot end before the last kill: its last two blocks wait for it.
    nodes, killed, gate = 4 * kills * BLOCK, [], tmp_path / "gate"
    job = ToyJob(nodes, log=str(tmp_path / "log"), gate=str(gate), waits=(nodes - 1, nodes - 1 - BLOCK))

    def kill():
        for number in range(kills):
            wait_for(lambda number=number: parts_in(tmp_path / "run") > number)
            wait_for(lambda: len(workers_of(os.getpid())) == 2 and not set(killed) & set(workers_of(os.getpid())))
            victim = workers_of(os.getpid())[-1]  # always the youngest, so that the eldest is left alone
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)
            wait_for(lambda victim=victim: victim not in workers_of(os.getpid()))
        gate.touch()

    thread = threading.Thread(target=kill)
    thread.start()
    summary = explain_many(job, "all", tmp_path / "run", block=BLOCK)
    thread.join()
    assert rows_of(tmp_path / "run") == expected_rows(ToyJob(4 * kills * BLOCK), BLOCK)
    assert summary.deaths == kills == len(set(killed))
    calls = [path.name.split("-")[1] for path in (tmp_path / "log").iterdir()]
    assert len(calls) <= 4 * kills + kills  # at most one block is done again for each kill
    assert max(map(calls.count, calls)) >= 3  # The one that was left alone went on.
    assert summary.failed == summary.blocks_halved == 0


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.nightly)])
def test_a_run_that_is_killed_or_stopped_goes_on(tmp_path, kills):
    settings = {"num_nodes": NODES, "seconds": 0.5, "block": BLOCK}  # It takes long enough to be disturbed.
    for ended_by in [signal.SIGKILL] * kills + [signal.SIGINT]:
        before = parts_in(tmp_path / "run")
        with start_run(tmp_path / "run", **settings) as run:
            wait_for(lambda before=before: parts_in(tmp_path / "run") > before)
            workers = workers_of(run.pid)
            with pytest.raises(InputError, match="another run is working"):
                explain_many(ToyJob(NODES), "all", tmp_path / "run", block=BLOCK)
            (os.killpg if ended_by == signal.SIGINT else os.kill)(run.pid, ended_by)
            errors = run.stderr.read().decode()
            assert (run.wait() == -signal.SIGKILL) == (ended_by == signal.SIGKILL)
        assert workers
        wait_for(lambda workers=workers: not any(Path(f"/proc/{worker}").exists() for worker in workers))
        assert errors.count("Traceback") == (ended_by == signal.SIGINT)  # that of the script, none of a worker
        assert not (tmp_path / "run/done.json").exists()
    summary = explain_many(ToyJob(NODES), "all", tmp_path / "run", block=BLOCK, workers=1)
    assert summary.done_before >= (kills + 1) * BLOCK
    assert summary.done_before + summary.done_now == NODES
    assert rows_of(tmp_path / "run") == expected_rows(ToyJob(NODES), BLOCK)


def test_a_kill_inside_a_write_leaves_no_half_part(tmp_path):
    job = ToyJob(6, once=str(tmp_path / "died"))
    summary = explain_many(job, "all", tmp_path / "run", block=BLOCK, workers=1)
    assert (tmp_path / "died").exists()
    assert (summary.deaths, summary.blocks_halved) == (1, 0)
    assert rows_of(tmp_path / "run") == expected_rows(ToyJob(6), BLOCK)
    assert not (tmp_path / "run/_tmp").exists()  # The draft of the dead process is gone with it.


@pytest.mark.parametrize(
    ("how", "retries"), [({"kills": (4,)}, (1, 0)), pytest.param({"exits": (3, 4)}, (3, 1), marks=pytest.mark.nightly)]
)
def test_a_node_that_kills_its_process_is_a_row(monkeypatch, tmp_path, how, retries):
    if retries != (base.RETRIES, base.RETRIES_OF_PIECE):  # Each death costs an import.
        monkeypatch.setattr(base, "RETRIES", retries[0])
        monkeypatch.setattr(base, "RETRIES_OF_PIECE", retries[1])
    summary = explain_many(ToyJob(6, **how), "all", tmp_path / "run", block=2, workers=1)
    (killers,) = how.values()
    assert (summary.failed, summary.done_now) == (len(killers), 6)
    if len(killers) == 1:
        assert summary.deaths == sum(retries) + 2  # of the block, and of the node alone
    rows, calm = rows_of(tmp_path / "run"), expected_rows(ToyJob(6), 2)
    for name, part in rows.items():
        for row, other in zip(part, calm[name], strict=True):
            assert row["node"] == other["node"]
            if row["node"] in killers:
                assert row["status"] == "failed"
                assert ("SIGKILL" if "kills" in how else "exit code 3") in row["error"]
            elif not set(killers) & {one["node"] for one in calm[name]}:
                assert row == other
            else:
                assert row["status"] == "ok"


def test_a_full_disk_ends_the_run_and_loses_nothing(tmp_path):
    lost = "part-00000001.parquet"
    with pytest.raises(OutputError, match=f"cannot write '.*{lost}': File too large"):
        explain_many(ToyJob(6, full=4), "all", tmp_path / "run", block=BLOCK, workers=1)
    assert [path.name for path in tmp_path.glob("run/explanations/*")] == ["part-00000000.parquet"]
    assert not list((tmp_path / "run/_tmp").iterdir())
    assert not (tmp_path / "run/done.json").exists()
    summary = explain_many(ToyJob(6), "all", tmp_path / "run", block=BLOCK)
    assert (summary.done_before, summary.done_now) == (BLOCK, BLOCK)
    assert rows_of(tmp_path / "run") == expected_rows(ToyJob(6), BLOCK)


def test_a_job_that_fails_as_a_whole_ends_the_run(tmp_path):
    with pytest.raises(RunError, match="OSError: the graph is gone"):
        explain_many(ToyJob(6, breaks=4), "all", tmp_path / "run", block=BLOCK, workers=1)
    assert parts_in(tmp_path / "run") == 1
    assert not workers_of(os.getpid())


class Deadly(ToyJob):
    """A job whose process dies before it can begin."""

    def __reduce__(self):
        return os._exit, (7,)


@pytest.mark.nightly
def test_workers_that_cannot_begin_end_the_run(tmp_path):
    with pytest.raises(RunError, match=r"each process that looked at the model died \(exit code 7\)"):
        explain_many(Deadly(6), "all", tmp_path / "run", workers=1)
    job = Deadly(6)
    with (
        pytest.raises(RunError, match=r"before they can begin \(exit code 7\)"),
        LocalEngine.open(job, {}, 1) as engine,
    ):
        engine.wait()


@pytest.mark.nightly
def test_a_model_that_always_kills_ends_the_run(tmp_path):
    with pytest.raises(RunError, match=r"each of the first 10 nodes failed \(its process died, exit code 3\)"):
        explain_many(ToyJob(20, exits=tuple(range(20))), "all", tmp_path / "run", block=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"engine": "spark"}, "engine must be 'local' or 'ray'"),
        ({"address": "auto"}, "address is for"),
        ({"workers": 0}, "workers must be"),
        ({"block": 0}, "block must be"),
        ({"nodes": "0:25"}, "out of range"),
    ],
)
def test_mistakes_are_found_before_work_begins(tmp_path, words, said):
    with pytest.raises(InputError, match=said):
        explain_many(ToyJob(NODES), out=tmp_path / "run", **words)
    assert not (tmp_path / "run").exists()


def test_workers_that_open_another_model_end_the_run(tmp_path):
    with pytest.raises(DataError, match="the model that this worker opened is not that of the plan: does load"):
        explain_many(ToyJob(6, draws=True), "all", tmp_path / "run", block=BLOCK, workers=1)
    assert parts_in(tmp_path / "run") == 0


def test_a_job_that_explains_nothing_is_refused_before_work_begins(tmp_path):
    with pytest.raises(ModelError, match="explains nothing"):
        explain_many(ToyJob(6, refused=True), "all", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_failures_that_nothing_stands_against_end_the_run_and_are_tried_again(tmp_path, monkeypatch):
    # A queue.py in the folder of the run must not be taken for Python's own.
    (tmp_path / "queue.py").write_text("raise SystemExit('not a queue')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(RunError, match=r"each of the first 10 nodes failed \(ValueError: a toy\)"):
        explain_many(ToyJob(24, fails=tuple(range(24))), "all", "run", block=5, workers=1)
    assert parts_in("run") == 2
    job = ToyJob(24, fails=(3,))
    summary = explain_many(job, "all", "run", block=5, workers=1, retry_failed=True)
    assert (summary.done_before, summary.done_now, summary.failed) == (0, 24, 1)
    assert rows_of("run") == expected_rows(job, 5)
    # Only the block with that row is done again.
    summary = explain_many(ToyJob(24), "all", "run", block=5, workers=1, retry_failed=True)
    assert (summary.done_before, summary.done_now, summary.failed) == (19, 5, 0)
    assert rows_of("run") == expected_rows(ToyJob(24), 5)


def test_without_a_terminal_there_is_a_line_a_minute(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(bar, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for show, told in ((None, ["40/100", "70/100"]), (True, ["20/100", "70/100"])):
        now[0] = 0.0
        with bar.show_rows(100, 10, 0, show) as tell:
            for now[0], done in ((30.0, 20), (61.0, 40), (80.0, 50), (125.0, 70)):
                tell(done, 1)
        lines = capsys.readouterr().err.splitlines()
        assert [line.split()[1] for line in lines] == told
    assert lines[0] == "explaining: 20/100 rows, 1 failed, 30 seconds gone, about 4 minutes left"
    with bar.show_rows(100, 0, 0, False) as tell:
        tell(50, 0)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_there_is_a_bar(monkeypatch, tmp_path):
    """A run writes to a terminal how many rows are done, how many failed, and the time gone; then the bar goes."""
    leader, follower = pty.openpty()
    said = bytearray()

    def listen():
        with contextlib.suppress(OSError):  # Nobody writes any more.
            while piece := os.read(leader, 1 << 16):
                said.extend(piece)

    # A terminal that nobody reads is full after a few lines, and whoever writes to it waits.
    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    for name, value in {"COLUMNS": "120", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    with open(follower, "w", buffering=1) as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        explain_many(ToyJob(12, fails=(3,)), "all", tmp_path / "run", block=BLOCK, workers=1)
        monkeypatch.undo()
    listener.join(timeout=10)
    os.close(leader)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode())
    assert "explaining" in text
    assert "12/12 rows, 1 failed," in text
    assert "gone" in text
    assert said.decode().rstrip("\r\n").endswith("\x1b[2K"), "the last line is taken away"


def test_a_worker_without_memory_is_replaced(tmp_path):
    job = ToyJob(6, starves=str(tmp_path / "starved"))
    summary = explain_many(job, "all", tmp_path / "run", block=BLOCK, workers=1)
    assert (summary.deaths, summary.failed, summary.blocks_halved) == (1, 0, 0)
    assert rows_of(tmp_path / "run") == expected_rows(ToyJob(6), BLOCK)
