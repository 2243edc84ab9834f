"""Runs on Ray, with two raylets in one session: workers, a raylet and nodes that die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import graphfaith as gf
from graphfaith import DataError, InputError
from graphfaith.many.engines import base
from graphfaith.many.engines.ray_tasks import _connected
from graphfaith.many.explain import explain_many
from toy_job import ToyJob, expected_rows, parts_in, rows_of, wait_for

ray = pytest.importorskip("ray")
# Ray leaves sockets and files to the garbage collector.
pytestmark = [pytest.mark.filterwarnings("ignore")]
TESTS = Path(__file__).parents[1]
NODES, BLOCK = 24, 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two raylets of one worker each; Ray's token and its files stay out of the user's home."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("RAY_TMPDIR", "/tmp/graphfaith-ray")  # A socket's name may have 107 letters.
        words = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=words)
        made.add_node(num_cpus=1, object_store_memory=100 << 20)
        yield made
        made.shutdown()


def pids_in(log):
    """Return the workers that have made tables, the latest last."""
    return [int(path.name.split("-")[1]) for path in sorted(log.iterdir())]


def check_a_run(cluster, tmp_path, capfd):
    """A run connects to a cluster, is silent, and ends only what it began."""
    job = ToyJob(NODES, fails=(5,))
    silent = {"progress": False}  # A busy machine may take the minute after which a line is written.
    summary = explain_many(job, "all", tmp_path / "run", engine="ray", address=cluster.address, block=BLOCK, **silent)
    assert (summary.done_now, summary.failed, summary.deaths) == (NODES, 1, 0)
    assert rows_of(tmp_path / "run") == expected_rows(job, BLOCK)
    assert not ray.is_initialized()
    assert capfd.readouterr() == ("", "")
    # An error of the run is not one of Ray.
    with pytest.raises(ValueError, match="mine"), _connected(ray, 1, cluster.address):
        raise ValueError("mine")
    # The cluster lives on, and a process that is connected to it stays so. The rest of the tests uses its workers.
    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    again = explain_many(job, "all", tmp_path / "run", engine="ray", block=BLOCK)
    assert (again.done_now, again.done_before) == (0, NODES)
    assert ray.is_initialized()


def check_deaths(tmp_path):
    """A worker is killed, and a node kills its workers."""
    (tmp_path / "log").mkdir()
    killed = []

    def kill():
        wait_for(lambda: parts_in(tmp_path / "run") >= 2)
        killed.append(pids_in(tmp_path / "log")[-1])
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    job = ToyJob(12, seconds=0.1, kills=(11,), log=str(tmp_path / "log"))
    summary = explain_many(job, "all", tmp_path / "run", engine="ray", block=2)
    thread.join()
    assert killed
    assert (summary.failed, summary.blocks_halved, summary.done_now) == (1, 1, 12)
    rows, calm = rows_of(tmp_path / "run"), expected_rows(ToyJob(12), 2)
    halved = rows.pop("part-00000005.parquet")
    del calm["part-00000005.parquet"]
    assert rows == calm
    assert [(row["node"], row["status"]) for row in halved] == [(10, "ok"), (11, "failed")]
    assert "died" in halved[1]["error"]
    with pytest.raises(DataError, match="not that of the plan"):
        explain_many(ToyJob(6, draws=True), "all", tmp_path / "drawn", engine="ray", workers=1)


def check_write(tmp_path):
    """A worker is killed inside of a write: the death is counted, and no half part is left."""
    job = ToyJob(6, once=str(tmp_path / "died"))
    summary = explain_many(job, "all", tmp_path / "run", engine="ray", block=BLOCK, workers=1)
    assert (tmp_path / "died").exists()
    assert (summary.deaths, summary.blocks_halved, summary.failed) == (1, 0, 0)
    assert rows_of(tmp_path / "run") == expected_rows(ToyJob(6), BLOCK)
    assert not (tmp_path / "run/_tmp").exists()


def check_raylet(cluster, tmp_path):
    """A raylet that dies costs the block of its worker."""
    (tmp_path / "log").mkdir()
    node = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    wait_for(lambda: ray.cluster_resources().get("CPU", 0) >= 3)

    def kill():
        wait_for(lambda: parts_in(tmp_path / "run") >= 3)
        cluster.remove_node(node, allow_graceful=False)

    thread = threading.Thread(target=kill)
    thread.start()
    job = ToyJob(NODES, seconds=0.1, log=str(tmp_path / "log"))
    summary = explain_many(job, "all", tmp_path / "run", engine="ray", block=BLOCK, workers=3)
    thread.join()
    assert (summary.failed, summary.blocks_halved, summary.done_now) == (0, 0, NODES)
    assert rows_of(tmp_path / "run") == expected_rows(ToyJob(NODES), BLOCK)
    assert len(pids_in(tmp_path / "log")) <= NODES / BLOCK + 1  # no more than the block of the raylet's worker


@pytest.mark.parametrize("retries", [(1, 0), pytest.param((3, 1), marks=pytest.mark.nightly)])
def test_runs_on_a_cluster(cluster, monkeypatch, tmp_path, capfd, retries):
    # One test, because the tests of a module may be shared out to several processes, and to start Ray takes long.
    monkeypatch.setattr(base, "RETRIES", retries[0])  # Each death costs an import.
    monkeypatch.setattr(base, "RETRIES_OF_PIECE", retries[1])
    for name in ("calm", "deaths", "write", "raylet"):
        (tmp_path / name).mkdir()
    check_a_run(cluster, tmp_path / "calm", capfd)
    try:
        check_deaths(tmp_path / "deaths")
        check_write(tmp_path / "write")
        check_raylet(cluster, tmp_path / "raylet")
    finally:
        ray.shutdown()


def start(cluster, *command):
    """Start a run on the cluster in a process of its own."""
    words = {**os.environ, "RAY_ADDRESS": cluster.address, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    return subprocess.Popen([sys.executable, *map(str, command)], env=words, stderr=subprocess.PIPE, text=True)


@pytest.mark.nightly
def test_runs_on_a_cluster_that_are_killed_meet_or_have_no_room(cluster, tmp_path):
    go_on = {"engine": "ray", "address": cluster.address, "block": BLOCK}
    # The run's own process is killed, and a second one is started in its folder before.
    settings = {"num_nodes": NODES, "seconds": 0.5, "block": BLOCK}
    with start(cluster, TESTS / "toy_run.py", tmp_path / "run", "ray", json.dumps(settings)) as run:
        wait_for(lambda: parts_in(tmp_path / "run") >= 1)
        with pytest.raises(InputError, match="another run is working"):
            explain_many(ToyJob(NODES), "all", tmp_path / "run", **go_on)
        run.kill()
        run.communicate()
    assert not (tmp_path / "run/done.json").exists()
    summary = explain_many(ToyJob(NODES), "all", tmp_path / "run", **go_on)
    assert summary.done_before >= BLOCK
    assert summary.done_before + summary.done_now == NODES
    assert rows_of(tmp_path / "run") == expected_rows(ToyJob(NODES), BLOCK)
    # The disk is full. The limit stays with the workers, which are those of that process.
    full = {"num_nodes": 6, "full": 4, "block": BLOCK}
    with start(cluster, TESTS / "toy_run.py", tmp_path / "full", "ray", json.dumps(full)) as run:
        _, errors = run.communicate()
    assert run.returncode == 1
    assert "part-00000001.parquet': File too large" in errors
    assert [path.name for path in tmp_path.glob("full/explanations/*")] == ["part-00000000.parquet"]
    explain_many(ToyJob(6), "all", tmp_path / "full", **go_on)
    assert rows_of(tmp_path / "full") == expected_rows(ToyJob(6), BLOCK)
    # A run of explanations is killed, goes on with the other engine, and has the bits of one that was left alone.
    words = ("explain-many", "--dataset", "ba-shapes", "--method", "kec", "--block", 20, "--engine", "ray")
    with start(cluster, "-m", "graphfaith", *words, "--out", tmp_path / "real") as run:
        wait_for(lambda: parts_in(tmp_path / "real") >= 2)
        run.kill()
        run.communicate()
    job = gf.ManyJob("ba-shapes", method="kec")
    summary = explain_many(job, "all", tmp_path / "real", block=20)
    assert 40 <= summary.done_before < 700
    explain_many(job, "all", tmp_path / "calm", block=20)
    assert rows_of(tmp_path / "real") == rows_of(tmp_path / "calm")


@pytest.mark.parametrize("hidden", ["ray", "pyarrow"])
def test_without_the_extra_one_line_says_what_to_install(tmp_path, hidden):
    code = f"""
import sys
sys.modules["{hidden}"] = None
import graphfaith as gf
try:
    gf.explain_many(None, engine="ray", out={str(tmp_path / "run")!r})
except gf.InputError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == f"explaining many nodes needs {hidden}: pip install 'graphfaith[many]'\n"
    assert not (tmp_path / "run").exists()
