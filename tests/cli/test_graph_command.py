"""``graphfaith graph pack`` and ``graphfaith graph info``."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphfaith as gf
from graphfaith import DataError
from graphfaith.cli import application
from graphfaith.data.edge_lists import ParquetEdges

X, EDGES = np.eye(3, dtype=np.float32), np.array([[0, 1, 2, 1], [1, 2, 0, 1]])


@pytest.fixture
def run(monkeypatch, capsys):
    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["graphfaith", "graph", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            application.main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return command


def check(folder, weight=None):
    found = gf.open_graph(folder).tensors()
    assert found["x"].numpy().tolist() == X.tolist()
    assert found["edge_index"].tolist() == EDGES.tolist()
    assert ("edge_weight" in found) == (weight is not None)
    assert weight is None or found["edge_weight"].tolist() == weight.tolist()


def test_arrays(run, tmp_path):
    arrays, weight = tmp_path / "arrays", np.array([1.0, 0.5, 2.0, 3.0])
    arrays.mkdir()
    for name, values in (
        ("x", X),
        ("edge_index", EDGES.astype(np.int32)),
        ("edge_weight", weight),
        ("y", np.arange(3)),
    ):
        np.save(arrays / f"{name}.npy", values)
    code, out, _ = run("pack", tmp_path / "graph", "--data", arrays)
    line = "graph: 3 nodes, 4 edges, 1 of them self-loops, 3 features, weights and labels; source_to_target; "
    assert code == 0
    assert out.startswith(line)
    check(tmp_path / "graph", weight)
    code, out, err = run("pack", tmp_path / "graph", "--data", arrays)
    assert (code, out) == (2, "")
    assert "there is something of that name" in err
    code, out, _ = run("info", tmp_path / "graph", "--verify")
    assert code == 0
    assert "every file is what was packed" in out
    path = tmp_path / "graph" / "y.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    code, _, err = run("info", tmp_path / "graph", "--verify")
    assert code == 2
    assert "y.npy is not what was packed" in err


def test_a_file_of_pyg(run, tmp_path):
    torch.save(Data(x=torch.from_numpy(X), edge_index=torch.from_numpy(EDGES)), tmp_path / "graph.pt")
    code, out, _ = run("pack", tmp_path / "graph", "--data", tmp_path / "graph.pt", "--flow", "target_to_source")
    assert code == 0
    assert "target_to_source" in out
    check(tmp_path / "graph")


def test_a_dataset(run, tmp_path):
    code, out, _ = run("pack", tmp_path / "shapes", "--dataset", "ba-shapes")
    assert code == 0
    assert out.startswith("shapes: 700 nodes, ")


def test_parquet(run, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    weight, edges = np.array([1.0, 0.5, 2.0, 3.0], dtype=np.float32), tmp_path / "edges.parquet"
    np.save(tmp_path / "x.npy", X)
    given = "pack", tmp_path / "graph", "--x", tmp_path / "x.npy", "--edges", edges
    for columns, words in (
        ({"source": EDGES[0]}, "it has no column 'target'"),
        ({"source": EDGES[0], "target": EDGES[1] * 1.5}, "must hold whole numbers"),
        ({"source": [0, None], "target": [1, 2]}, "has rows without a value"),
        ({"source": [0], "target": [7]}, "names node 7"),
    ):
        parquet.write_table(arrow.table(columns), edges)
        code, _, err = run(*given)
        assert code == 2
        assert words in " ".join(err.split())
    parquet.write_table(arrow.table({"target": EDGES[1], "weight": weight, "source": EDGES[0]}), edges)
    assert run(*given)[0] == 0
    check(tmp_path / "graph", weight)


def test_damaged_parquet_is_said_to_be_so(run, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    np.save(tmp_path / "x.npy", X)
    edges = tmp_path / "edges.parquet"
    ids = np.arange(4000) % len(X)
    parquet.write_table(arrow.table({"source": ids, "target": ids[::-1]}), edges, compression="snappy")
    content, found = edges.read_bytes(), []
    for place in range(4, 60):  # in the first pages; the footer, which is read first, is whole
        edges.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
        try:
            list(ParquetEdges.of(edges).pieces(100))
        except DataError as error:
            found.append(str(error))
    assert len(found) > 20
    assert all(error.startswith("cannot read the edges") for error in found)
    edges.write_bytes(content[:4] + b"\xff" * 100 + content[104:])
    code, _, err = run("pack", tmp_path / "graph", "--x", tmp_path / "x.npy", "--edges", edges)
    assert code == 2
    assert "error: cannot read the edges" in " ".join(err.split())
    assert not (tmp_path / "graph").exists()


def test_without_pyarrow_one_line_says_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "edges.parquet").write_bytes(b"PAR1")
    code, _, err = run("pack", tmp_path / "g", "--x", tmp_path / "x.npy", "--edges", tmp_path / "edges.parquet")
    assert code == 2
    assert err == "error: edges in Parquet need pyarrow: pip install pyarrow\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "give one of --data, --dataset and --edges"),
        (("--dataset", "cora", "--x", "x.npy"), "--x and --edges go together"),
        (("--dataset", "none"), "unknown dataset 'none'"),
        (("--data", "."), "No such file"),
        (("--edges", "e.parquet", "--x", "x.npy"), "No such file"),
    ],
)
def test_what_is_missing_is_said(run, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = run("pack", "graph", *options)
    assert code == 2
    assert words in err
    assert not list(tmp_path.iterdir())


def test_objects_are_not_read(run, tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "edge_index.npy", EDGES)
    code, _, err = run("pack", tmp_path / "graph", "--data", tmp_path)
    assert code == 2
    assert "not a .npy file of numbers" in err
