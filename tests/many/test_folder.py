"""The plan and the folder of a run: what is continued, what is refused, what is moved aside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from graphfaith import DataError, InputError, OutputError
from graphfaith.many import plan as plan_module
from graphfaith.many.folder import RunFolder
from graphfaith.many.nodes import choose_nodes
from graphfaith.many.plan import Plan
from toy_job import ToyJob


def plan_of(nodes="all", block=4, **settings):
    job = ToyJob(num_nodes=10, **settings)
    return Plan.of(job, choose_nodes(nodes, 10), block)


def write_all(path, plan, numbers=None):
    with RunFolder.open(path, plan) as folder:
        for number in range(plan.num_blocks) if numbers is None else numbers:
            folder.part(number).write(ToyJob().table(plan.ids(number)))


def done_in(path, plan):
    with RunFolder.open(path, plan) as folder:
        found, moved = folder.find_done()
    return sorted(found), [place.name for place in moved]


def test_blocks_cover_the_nodes():
    plan = plan_of()
    assert [plan.ids(number).tolist() for number in range(plan.num_blocks)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_the_digest_is_that_of_what_decides(monkeypatch):
    plan = plan_of()
    assert plan.digest == plan_of(list(range(10))).digest == plan_of("0:10").digest
    others = [plan_of(block=5), plan_of(seed=1), plan_of([0, 2, 3]), plan_of([0, 3, 2])]
    assert len({plan.digest, *(other.digest for other in others)}) == 5
    real = plan_module._version
    for name, decides in (("torch", True), ("numpy", True), ("ray", False), ("pyarrow", False)):
        monkeypatch.setattr(plan_module, "_version", lambda one, name=name: "99" if one == name else real(one))
        assert (plan_of().digest != plan.digest) == decides  # Ray and Arrow only carry the numbers.


def test_another_plan_is_an_error_that_says_what_differs(tmp_path):
    write_all(tmp_path / "run", plan_of())
    for other, said in [
        (plan_of(seed=7), "job.seed 0 there, 7 now"),
        (plan_of(block=5), "block 4 there, 5 now"),
        (plan_of([3, 1]), "nodes.count 10 there, 2 now"),
    ]:
        with pytest.raises(InputError, match=said), RunFolder.open(tmp_path / "run", other):
            pass
    assert done_in(tmp_path / "run", plan_of()) == ([0, 1, 2], [])


def test_where_things_are_is_no_part_of_the_plan(tmp_path):
    plan = plan_of()
    write_all(tmp_path / "run", replace(plan, places={"graph": "here"}))
    assert done_in(tmp_path / "run", replace(plan, places={"graph": "there"})) == ([0, 1, 2], [])
    known = json.loads((tmp_path / "run/plan.json").read_text())
    assert known["places"] == {"graph": "there"}
    assert known["digest"] == plan.digest


def test_a_list_of_nodes_is_kept(tmp_path):
    plan = plan_of([7, 3, 5])
    write_all(tmp_path / "run", plan)
    assert np.load(tmp_path / "run" / "nodes.npy").tolist() == [7, 3, 5]
    assert done_in(tmp_path / "run", plan) == ([0], [])


def test_a_part_says_what_it_is(tmp_path):
    plan = plan_of()
    write_all(tmp_path / "run", plan)
    about = pq.read_schema(tmp_path / "run/explanations/part-00000001.parquet").metadata
    assert (
        about[b"graphfaith.plan"].decode()
        == plan.digest
        == json.loads((tmp_path / "run/plan.json").read_text())["digest"]
    )
    assert (about[b"graphfaith.block"], about[b"graphfaith.failed"], about[b"graphfaith.pieces"]) == (b"1", b"0", b"4")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-20])


def empty(path):
    path.write_bytes(b"")


def cut_rows(path):
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)


def foreign(path):
    pq.write_table(pq.read_table(path).replace_schema_metadata({}), path)


def other_block(path):
    shutil.copy(path.with_name("part-00000000.parquet"), path)


def make_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [truncate, empty, cut_rows, foreign, other_block, make_folder])
def test_what_is_no_part_is_moved_aside_and_never_deleted(tmp_path, damage):
    path = tmp_path / "run/explanations/part-00000001.parquet"
    write_all(tmp_path / "run", plan_of())
    for number in (1, 2):
        damage(path)
        content = path.read_bytes() if path.is_file() else None
        assert done_in(tmp_path / "run", plan_of()) == ([0, 2], [path.name if number == 1 else f"{path.name}.2"])
        aside = tmp_path / "run/_aside" / (path.name if number == 1 else f"{path.name}.2")
        assert not path.exists()
        assert aside.is_dir() if content is None else aside.read_bytes() == content
        write_all(tmp_path / "run", plan_of(), [1])
    assert done_in(tmp_path / "run", plan_of()) == ([0, 1, 2], [])


def test_parts_of_another_run_are_moved_aside(tmp_path):
    write_all(tmp_path / "other", plan_of(seed=3, block=2))
    write_all(tmp_path / "run", plan_of(), [0])
    for number in (2, 4):  # one in the place of a part of ours, one beyond the last
        shutil.copy(tmp_path / f"other/explanations/part-0000000{number}.parquet", tmp_path / "run/explanations")
    (tmp_path / "run/explanations/notes.txt").write_text("mine")
    assert done_in(tmp_path / "run", plan_of()) == ([0], ["part-00000002.parquet", "part-00000004.parquet"])
    assert (tmp_path / "run/explanations/notes.txt").read_text() == "mine"


def test_done_is_said_only_while_it_is_true(tmp_path):
    plan = plan_of()
    write_all(tmp_path / "run", plan)
    (tmp_path / "run/_tmp/.graphfaith-1.tmp").write_text("of a process that was killed")
    with RunFolder.open(tmp_path / "run", plan) as folder:
        folder.finish(10, 0)
    assert not (tmp_path / "run/_tmp").exists()
    (tmp_path / "run/explanations/part-00000001.parquet").unlink()
    assert done_in(tmp_path / "run", plan) == ([0, 2], [])
    assert not (tmp_path / "run/done.json").exists()


@pytest.mark.parametrize("name", ["thesis.tex", "explanations/part-00000000.parquet"])
def test_a_folder_with_other_files_is_refused(tmp_path, name):
    (tmp_path / "explanations").mkdir()
    (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="has other files"), RunFolder.open(tmp_path, plan_of()):
        pass
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_is_no_folder_and_a_damaged_plan_is_no_plan(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match="no folder"), RunFolder.open(tmp_path / "file", plan_of()):
        pass
    write_all(tmp_path / "run", plan_of())
    (tmp_path / "run/plan.json").write_text("{")
    with pytest.raises(DataError, match="is damaged"), RunFolder.open(tmp_path / "run", plan_of()):
        pass


HOLD = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from graphfaith.many.folder import _locked
with _locked(Path(sys.argv[2])):
    print("held", flush=True)
    time.sleep(100)
"""


def test_a_second_run_has_to_wait_until_the_first_has_ended_however_it_does(tmp_path):
    write_all(tmp_path / "run", plan_of())
    with RunFolder.open(tmp_path / "run", plan_of()) as folder:
        folder.finish(10, 0)
    command = [sys.executable, "-c", HOLD, os.fspath(tmp_path), os.fspath(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match="another run is working"), RunFolder.open(tmp_path / "run", plan_of()):
            pass
        assert not (tmp_path / "run/_tmp").exists()  # It would be removed by the run that holds the lock.
        holder.kill()
        holder.wait()
    assert done_in(tmp_path / "run", plan_of()) == ([0, 1, 2], [])
