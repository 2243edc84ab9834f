"""``graphfaith explain-many`` as a user types it, with the user's own model and graph."""

from __future__ import annotations

import json
import sys
import warnings

import pyarrow.parquet as pq
import pytest
import torch
from rich.console import Console
from torch_geometric.data import Data

import graphfaith as gf
from graphfaith.cli import application, notes

MODULE = """
import torch
from torch_geometric.nn import GCN

def load():
    torch.manual_seed(0)
    return GCN(3, 4, 2, out_channels=2)
"""


def run(monkeypatch, capsys, *arguments):
    """Run the command in this process; returns exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", ["graphfaith", "explain-many", *map(str, arguments)])
    monkeypatch.setattr(notes, "err", Console(stderr=True, width=300))
    code = 0
    try:
        application.main()
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A folder with a model and a graph of eight nodes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "eightfold.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    ring = torch.arange(8)
    edges = torch.cat([torch.stack([ring, ring.roll(1)]), torch.stack([ring.roll(1), ring])], 1)
    torch.manual_seed(0)
    torch.save(Data(x=torch.rand(8, 3), edge_index=edges), "graph.pt")
    return tmp_path


def test_nodes_of_the_user_s_own_graph(monkeypatch, capsys, folder):
    (folder / "flagged.txt").write_text("5\n1\n6\n")
    given = (
        "--graph",
        "graph.pt",
        "--model",
        "eightfold:load",
        "--method",
        "kec",
        "--samples",
        50,
        "--out",
        "made/run",
    )
    code, out, err = run(monkeypatch, capsys, *given, "--nodes", "flagged.txt", "--block", 2, "--workers", 1)
    assert (code, err) == (0, "")
    assert out.startswith(f"3 rows in {folder / 'made/run'}: 3 now in ")
    parts = sorted((folder / "made/run/explanations").iterdir())
    rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
    assert [(row["node"], row["status"]) for row in rows] == [(5, "ok"), (1, "ok"), (6, "ok")]
    job = gf.ManyJob("graph.pt", "eightfold:load", method="kec", samples=50)
    assert rows[2]["edges"] == job.table([6]).to_pylist()[0]["edges"]
    assert json.loads((folder / "made/run/done.json").read_text())["rows"] == 3
    # The same again does nothing, and says so; another setting is an error of one line.
    code, out, err = run(monkeypatch, capsys, *given, "--nodes", "5,1,6", "--block", 2)
    assert (code, err) == (0, "")
    assert "0 now" in out
    assert "3 before" in out
    code, out, err = run(monkeypatch, capsys, *given, "--nodes", "5,1,6", "--block", 2, "--seed", 3)
    assert (code, out) == (2, "")
    assert "job.seed 0 there, 3 now" in err
    assert err.count("\n") == 1


def test_a_run_in_which_all_rows_failed_has_failed(monkeypatch, capsys, folder):
    graph = torch.load(folder / "graph.pt", weights_only=False)
    graph.x[5] = 9
    torch.save(graph, folder / "graph.pt")
    (folder / "fragile.py").write_text(
        "import eightfold, torch\n"
        "class Fragile(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.gcn = eightfold.load()\n"
        "    def forward(self, x, edge_index, edge_weight=None):\n"
        "        return torch.where(x[:, :1] > 5, torch.nan, self.gcn(x, edge_index, edge_weight))\n"
    )
    given = ("--graph", "graph.pt", "--model", "fragile:Fragile", "--samples", 50, "--nodes", 5, "--out", "run")
    code, out, err = run(monkeypatch, capsys, *given)
    assert code == 1
    assert "1 failed" in out
    assert err == "note: 1 row has the status 'failed', and an error that says why (see --retry-failed)\n"


def test_warnings_are_notes_of_one_line(monkeypatch, capsys, folder):
    given = ("--graph", "graph.pt", "--model", "eightfold:load", "--samples", 50, "--nodes", "1,2,5,6", "--block", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "_showwarnmsg_impl", None)  # that of pytest, which would keep them
        code, _, err = run(monkeypatch, capsys, *given, "--out", "run", "--no-progress")
    assert code == 0
    assert err.startswith("note: an estimate from 50 samples flatters the explanation: fit on at least ")
    assert err.count("\n") == 1


def test_the_files_of_a_packed_graph_are_verified_if_that_is_asked_for(monkeypatch, capsys, folder):
    gf.pack_graph(torch.load(folder / "graph.pt", weights_only=False), folder / "packed")
    with open(folder / "packed/x.npy", "r+b") as file:
        file.seek(-4, 2)
        file.write(b"\0\0\0\0")
    given = ("--graph", "packed", "--model", "eightfold:load", "--out", "run")
    code, out, err = run(monkeypatch, capsys, *given, "--verify")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "x.npy is not what was packed" in err
    code, _, err = run(monkeypatch, capsys, "--dataset", "ba-shapes", "--out", "run", "--verify")
    assert (code, err.count("\n")) == (2, 1)
    assert "only a packed graph has digests" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--graph", "graph.pt"), "give --model module:function too"),
        (("--model", "eightfold:load"), "give --data FOLDER too"),
        (("--dataset", "cora", "--graph", "graph.pt", "--model", "eightfold:load"), "leave it out"),
        (("--graph", "graph.pt", "--model", "eightfold:load", "--model-seed", "1"), "--model-seed is for"),
        (("--graph", "none.pt", "--model", "eightfold:load"), "there is no graph 'none.pt'"),
        (("--graph", ".", "--model", "eightfold:load"), "it is not a packed graph; `graphfaith graph pack"),
        (("--graph", "graph.pt", "--model", "eightfold:load", "--nodes", "0:9"), "node 8 is out of range"),
        (("--graph", "graph.pt", "--model", "eightfold:load", "--nodes", "none.txt"), "no such file (nodes are all,"),
        (("--graph", "graph.pt", "--model", "eightfold:load", "--engine", "dask"), "engine must be"),
        (("--graph", "graph.pt", "--model", "eightfold:load", "--address", "auto"), "address is for"),
        (("--graph", "graph.pt", "--model", "eightfold:load", "--samples", "few"), "--samples must be a number"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(monkeypatch, capsys, folder, words, said):
    code, out, err = run(monkeypatch, capsys, "--out", "run", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert not (folder / "run").exists()


def test_without_arrow_one_line_says_what_to_install(monkeypatch, capsys, folder):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, out, err = run(monkeypatch, capsys, "--dataset", "ba-shapes", "--out", "run")
    assert (code, out) == (2, "")
    assert err == "error: explaining many nodes needs pyarrow: pip install 'graphfaith[many]'\n"
