"""Commands on graphs of several types: the data sets, and a model and HeteroData of the user's own."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from rich.console import Console

import graphfaith as gf
from graphfaith.cli import application, notes
from graphfaith.data.models import load_trained
from typed_toys import as_data, graph, make

OWN = """
from typed_toys import make

def load():
    return make("sage")

def by_type():
    return make("to_hetero").model
"""
FEW = ("--samples", 40, "--test-samples", 20)
OURS = ("--model", "own:load", "--data", "own.pt")


def run(monkeypatch, capsys, *arguments):
    """Run the command in this process; returns exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", ["graphfaith", *map(str, arguments)])
    monkeypatch.setattr(notes, "err", Console(stderr=True, width=400))
    monkeypatch.setenv("COLUMNS", "120")
    code = 0
    try:
        application.main()
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def own(monkeypatch, tmp_path):
    """Return a graph whose papers and classes have names, and leave it and a model in this folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    data = as_data(*graph())
    data["paper"].node_names = [f"P-{i}" for i in range(14)]
    data.class_names = ["low", "middle", "high"]
    torch.save(data, tmp_path / "own.pt")
    monkeypatch.delitem(sys.modules, "own", raising=False)
    return data


def test_a_node_of_a_data_set_is_explained(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(
        monkeypatch, capsys, "explain", "--dataset", "hetero-ba-shapes", "--node", 155, "--method", "kec", "--top", 3,
        "--save", "e.safetensors", "--page", "p.html", "--without", "square 146-circle 155", *FEW,
    )  # fmt: skip
    assert code == 0, err
    assert "hetero-ba-shapes node 155 (circle 155), class 1" in out
    (row,) = json.loads((tmp_path / "hetero-ba-shapes-155.json").read_text())
    trained = load_trained("hetero-ba-shapes")
    wanted = gf.explain(trained.model, trained.data, 155, method="kec", samples=40, test_samples=20)
    assert (row["node"], row["node_type"], row["index"]) == (155, "circle", 155)
    assert row["unfaithfulness"] == pytest.approx(wanted.unfaithfulness.value)
    for got, edge in zip(row["edges"], wanted.top_edges(3), strict=True):
        assert (tuple(got["edge_type"]), got["source"], got["sink"]) == edge[:3]
        assert got["score"] == pytest.approx(edge.score)
        assert f"{edge.edge_type[0]} {edge.source} -> {edge.edge_type[2]} {edge.sink}" in out
    for got, feature in zip(row["features"], wanted.top_features(3), strict=True):
        assert (got["node_type"], got["node"], got["column"]) == feature[:3]
    foretold = wanted.what_if([("square 146", "circle 155")], check=True)
    assert row["without"]["actual"] == pytest.approx(foretold.actual)
    assert row["without"]["edges"] == [["square 146", "circle 155"]]
    saved = gf.load(tmp_path / "e.safetensors")
    assert saved.top_edges(1)[0].edge_type == wanted.top_edges(1)[0].edge_type
    assert (tmp_path / "p.html").stat().st_size > 10_000
    assert (tmp_path / "hetero-ba-shapes-155.png").stat().st_size > 10_000


def test_ones_own_graph_is_read_and_named(monkeypatch, capsys, own, tmp_path):
    code, out, err = run(
        monkeypatch, capsys, "explain", *OURS, "--node", 5, "--method", "kec", "--json", "r.json", *FEW
    )
    assert code == 0, err
    assert "14 'paper' nodes, 9 'word' nodes, 6 'author' nodes; edges: " in err
    assert "own.pt node 5 (P-5), class " in out
    (row,) = json.loads((tmp_path / "r.json").read_text())
    wanted = gf.explain(make("sage"), own, 5, method="kec", samples=40, test_samples=20)
    assert row["edges"][0]["score"] == pytest.approx(wanted.top_edges(1)[0].score)
    assert wanted.class_names == ["low", "middle", "high"]
    assert wanted.joint().node_names[5] == "P-5"


def test_methods_are_compared_on_ones_own_graph(monkeypatch, capsys, own, tmp_path):
    asked = ("score", *OURS, "--nodes", "3,5", "--method", "kec", "--method", "gnnexplainer-soft")
    more = ("--neighborhood", "B(A,0.5)", "--neighborhood", "U(A,0.5)", "--json", "s.json")
    code, out, err = run(monkeypatch, capsys, *asked, *more, *FEW)
    assert code == 0, err
    rows = json.loads((tmp_path / "s.json").read_text())
    assert [(row["method"], row["neighborhood"]) for row in rows] == [
        ("kec", "B(A,0.5)"), ("gnnexplainer-soft", "B(A,0.5)"), ("kec", "U(A,0.5)"), ("gnnexplainer-soft", "U(A,0.5)"),
    ]  # fmt: skip
    alone = [gf.explain(make("sage"), own, node, method="kec", samples=40, test_samples=20) for node in (3, 5)]
    assert rows[2]["by_node"] == pytest.approx([one.unfaithfulness.value for one in alone])
    assert "kec" in out


def test_rows_by_type_need_a_type(monkeypatch, capsys, own):
    asked = ("explain", "--model", "own:by_type", "--data", "own.pt", "--node", 5, "--method", "kec", *FEW)
    code, _, err = run(monkeypatch, capsys, *asked)
    assert code == 2
    assert "name one as node_type" in err
    code, out, err = run(monkeypatch, capsys, *asked, "--node-type", "word")
    assert code == 0, err
    assert "own.pt node 5 (word 5)" in out
    code, _, err = run(monkeypatch, capsys, *asked, "--node-type", "venue")
    assert code == 2
    assert "there is no node type 'venue': the graph has paper, word, author" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("judge", *OURS, "--nodes", 1), "graphfaith score compares the methods"),
        (("view", *OURS), "graphfaith explain --page FILE"),
        (("explain-many", *OURS, "--out", "run"), "graphfaith explain and graphfaith score take it"),
        (("graph", "pack", "run", "--data", "own.pt"), "graphfaith explain and graphfaith score take it"),
        (("explain", *OURS, "--node", 14), "the graph has nodes 0 to 13 of type 'paper'"),
        (("explain", *OURS, "--node", 5, "--method", "kec", "--method", "shapley"), "Shapley explains homogeneous"),
        (("explain", *OURS, "--node", 5, "--level", "edge"), "links of heterogeneous graphs cannot be explained yet"),
        (("explain", *OURS, "--node", 5, "--without", "P-5-word 99"), "such as P-0"),
    ],
)
def test_what_is_not_done_is_said_in_one_line(monkeypatch, capsys, own, tmp_path, arguments, message):
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    last = err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == before
