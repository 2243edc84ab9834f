"""The nodes of a run, however they are written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphfaith import DataError, InputError
from graphfaith.many.nodes import choose_nodes


def ids_of(nodes):
    return nodes.ids(0, len(nodes)).tolist()


@given(st.lists(st.integers(0, 30), min_size=1), st.integers(1, 7))
def test_each_node_comes_once_and_in_order(given_nodes, block):
    nodes = choose_nodes(given_nodes, 31)
    expected = list(dict.fromkeys(given_nodes))
    assert ids_of(nodes) == expected
    cut = [nodes.ids(first, min(first + block, len(nodes))).tolist() for first in range(0, len(nodes), block)]
    assert [node for ids in cut for node in ids] == expected


@given(st.integers(0, 30), st.integers(1, 40), st.integers(1, 9))
def test_a_range_stays_one(start, length, step):
    wanted = range(start, start + length, step)
    for given_nodes in (wanted, list(wanted), np.array(wanted), f"{start}:{start + length}:{step}"):
        nodes = choose_nodes(given_nodes, 100)
        assert nodes.list is None
        assert ids_of(nodes) == list(wanted)


def test_the_same_nodes_are_the_same_plan_however_they_are_written(monkeypatch, tmp_path):
    for ways in (
        ("0:10:4", [0, 4, 8], range(0, 9, 4)),
        ("7:8:5", 7, [7], range(7, 6, -1)),
        ([9, 6, 3], range(9, 2, -3)),
    ):
        found = [choose_nodes(way, 10).range for way in ways]
        assert len({(one.start, one.stop, one.step) for one in found}) == 1
    monkeypatch.chdir(tmp_path)
    (tmp_path / "3,5").write_text("8\n")
    assert ids_of(choose_nodes("3,5", 10)) == [8]  # A file that is there is meant.


def test_descending_nodes_are_kept_so():
    assert ids_of(choose_nodes([9, 6, 3, 0], 10)) == [9, 6, 3, 0]
    assert ids_of(choose_nodes("all", 3)) == [0, 1, 2]
    assert ids_of(choose_nodes(7, 10)) == [7]


def test_files(tmp_path):
    np.save(tmp_path / "a.npy", np.array([4, 2, 9], dtype=np.int32))
    (tmp_path / "a.txt").write_text("4\n2\n\n9\n")
    pq.write_table(pa.table({"node": [4, 2, 9], "other": ["a", "b", "c"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"flagged": [4, 2, 9]}), tmp_path / "b.parquet")
    for name in ("a.npy", "a.txt", "a.parquet", "b.parquet"):
        assert ids_of(choose_nodes(tmp_path / name, 10)) == [4, 2, 9]
        assert ids_of(choose_nodes(str(tmp_path / name), 10)) == [4, 2, 9]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([], "empty"),
        ("5:2", "cannot read the nodes"),
        ([3, 10], "out of range"),
        ([-1], "out of range"),
        ("0:11", "out of range"),
        ([1.5], "whole numbers"),
        ([True], "whole numbers"),
        (None, "whole numbers, one for each node \\(got None\\)"),
    ],
)
def test_refused(nodes, said):
    with pytest.raises(InputError, match=said):
        choose_nodes(nodes, 10)


def test_refused_files(tmp_path):
    (tmp_path / "a.txt").write_text("4\ntwo\n")
    (tmp_path / "b.npy").write_text("4\n")
    (tmp_path / "b.parquet").write_text("4\n")
    (tmp_path / "c.txt").write_text("\n")
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"node": [1, None]}), tmp_path / "d.parquet")
    for name, kind, said in [
        ("a.txt", InputError, "'two'"),
        ("b.npy", DataError, "cannot read"),
        ("b.parquet", DataError, "cannot read"),
        ("c.txt", InputError, "is empty"),
        ("c.parquet", InputError, "column 'node'"),
        ("d.parquet", InputError, "no node in 1"),
        ("none.txt", DataError, "no such file"),
        ("none.npy", DataError, "No such file"),
    ]:
        with pytest.raises(kind, match=said):
            choose_nodes(tmp_path / name, 10)
