"""Blocks with nodes that kill, halved: each row once, and always the same pieces."""

from __future__ import annotations

import random

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from graphfaith.many.halving import Halving
from graphfaith.many.parts import DRAFTS, PARTS, Part
from graphfaith.many.work import Task, do
from toy_job import ToyJob


def halve(folder, size, killers, order):
    """Do a block whose killers are known, in any order of its pieces; returns the file's rows and its pieces."""
    import numpy as np

    job, part = ToyJob(), Part(folder, "a plan", 0, size)
    halving, tasks, found = Halving(job), [], None
    tasks = halving.cut(Task(part, np.arange(size)))
    while tasks:
        task = tasks.pop(order.randrange(len(tasks)))
        assert found is None
        if not killers & set(task.ids.tolist()):
            found = halving.add(task, do(job, job.digests(), task).table)
        elif len(task.ids) > 1:
            tasks += halving.cut(task)
        else:
            found = halving.add_failed(task, "signal 9")
    assert found == part.read_footer()
    return pq.read_table(part.path).drop(["milliseconds"]).to_pylist(), found


@given(st.integers(2, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=4))))
def test_rows_come_out_the_same_in_any_order(tmp_path_factory, case):
    size, killers = case
    folder = tmp_path_factory.mktemp("halving")
    for name in (PARTS, DRAFTS):
        (folder / name).mkdir()
    first, found = halve(folder, size, killers, random.Random(1))
    second, again = halve(folder, size, killers, random.Random(2))
    assert (first, found) == (second, again)
    assert [row["node"] for row in first] == list(range(size))
    assert {row["node"] for row in first if row["status"] == "failed"} == killers
    assert found.failed == len(killers)
    assert all("signal 9" in row["error"] for row in first if row["node"] in killers)
